"""Cells as folders: what decides their names, what is found there, what fails."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from command import Command
from shortlist.bench import Bench, Cell, Failure, cells, most_epochs, read_spec, seconds_of_epoch, summarise, work
from shortlist.bench.cell_status import cell_status, stopped
from shortlist.bench.runner import FAILED, LOCKS
from shortlist.data.public_sets import SETS
from shortlist.errors import InputError, Interrupted, WriteError, WriteTargetError
from shortlist.runs import CHECKPOINT, FILES, Run, RunLocked, open_run, read_log
from shortlist.runs.folder import lock
from shortlist.training import Training

Write = Callable[..., Path]


def first(spec: Path) -> Cell:
    return next(cells(read_spec(spec)))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {LOCKS} if folder.exists() else set()


class TestKeys:
    def name(self, write: Write, data: Path, **changes: Any) -> str:
        return Bench(Path("x"), data).path(first(write(**changes))).name

    def test_the_same_is_the_same(self, write: Write, data: Path) -> None:
        before = self.name(write, data)
        assert before.startswith("clicks.csv-mf-sl-seed0-")
        assert self.name(write, data, title="Other", seeds=[0, 5], losses=["sl", "slatk"]) == before
        said = {"loss.tau": 0.2, "training.patience": 4}  # which they are anyway
        assert self.name(write, data, settings=({"set": said},)) == before
        looks = {"training.temperature_epochs": 2}  # for the temperature, unless it is set
        assert self.name(write, data, settings=({"set": {**said, **looks}},)) != self.name(
            write, data, settings=({"set": looks},)
        )
        assert self.name(write, data, variants={"as it is": {"loss.tau": 0.2}}) == before  # under whatever name
        assert self.name(write, data, metrics=["ndcg@5", "recall@20"]) == before  # measured in any case
        assert self.name(write, data, metrics=["ndcg@7"]) == before  # what is trained can be measured later

    @pytest.mark.parametrize(
        "changes",
        [
            {"settings": ({"set": {"loss.tau": 0.3}},)},
            {"settings": ({"set": {"model.dim": 9}},)},
            {"settings": ({"set": {"optimizer.lr": 0.06}},)},
            {"settings": ({"set": {"training.epochs": 5}},)},
            {"settings": ({"set": {"training.temperature_epochs": 2}},)},
            {"settings": ({"set": {"data.noise": 0.1}},)},
            {"settings": ({"set": {"data.protocol": "irbenchmark"}},)},
            {"settings": ({"set": {"data.seed": 7}},)},
            {"seeds": [1]},
            {"k": 6},
            {"losses": ["bpr"]},
        ],
    )
    def test_other_settings(self, write: Write, data: Path, changes: dict[str, Any]) -> None:
        assert self.name(write, data, **changes).split("-")[-1] != self.name(write, data).split("-")[-1]

    def test_other_data(self, write: Write, data: Path, tmp_path: Path) -> None:
        table = tmp_path / "clicks.csv"
        text = (data / "clicks.csv").read_text()
        table.write_text(text)
        assert self.name(write, tmp_path) == self.name(write, data)
        table.write_text(text.replace("person-07,", "person-08,", 1))
        assert self.name(write, tmp_path) != self.name(write, data)

    def test_names_that_are_invalid_as_file_names(self, write: Write, data: Path) -> None:
        variant = "τ = 1/2: " + "löng " * 100
        name = self.name(write, data, variants={variant: {"loss.tau": 0.5}})
        assert len(name.encode()) < 200
        assert not set(name) & set("/: ")


class TestRunning:
    def test_a_cell_is_a_run(self, write: Write, data: Path, tmp_path: Path) -> None:
        bench, cell = Bench(tmp_path / "out", data), first(write())
        assert bench.result(cell) is None
        answer_json: list[object] = []
        run = bench.run(cell, lambda *what: answer_json.append(what))
        assert isinstance(run, Run)
        assert answer_json == [(cell, run)]
        found = bench.result(cell)
        assert isinstance(found, Run)
        assert found.metrics == run.metrics
        assert found.config["data"]["source"] == "clicks.csv"
        assert (found.config["seed"], found.config["protocol"]) == (0, "shortlist")
        assert {"ndcg@5", "ndcg@10", "ndcg@20"} <= found.metrics["test"].keys()
        bench.run(cell, lambda *what: answer_json.append(what))
        assert len(answer_json) == 1  # it was there

    def test_seeds_and_noise_reach_the_data(self, write: Write, data: Path, tmp_path: Path) -> None:
        variants = {"clean": {}, "noisy": {"data.noise": 0.5}}
        bench = Bench(tmp_path / "out", data)
        grid = list(cells(read_spec(write(losses=["sl"], variants=variants))))
        work(bench, grid)
        runs = {(cell.variant, cell.seed): open_run(bench.path(cell)) for cell in grid}
        counts = {key: run.split.train.n_pairs for key, run in runs.items()}
        assert counts["noisy", 0] > 1.4 * counts["clean", 0]
        assert runs["clean", 0].split.train.indices.tolist() != runs["clean", 1].split.train.indices.tolist()
        assert runs["noisy", 1].config["data"]["noise"] == 0.5

    @pytest.mark.parametrize(
        "change",
        [
            {"training.checkpoint_every": 7},
            {"training.metric": "ndcg@5"},
            {"training.temperature_epochs": 3},
            {"data.core": 1},
            {"data.test_share": 0.3},  # which rounds to as many
        ],
        ids=str,
    )
    def test_a_cell_resumes_when_only_irrelevant_settings_change(
        self, write: Write, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
    ) -> None:
        set_tau = {"set": {"loss.tau": 0.2}}
        bench, cell = Bench(tmp_path / "out", data), first(write(settings=(set_tau,)))
        whole = Bench(tmp_path / "whole", data).run(cell)
        epoch, begun = Training.epoch, []

        def stops_in_the_third(self: Training, *answer_json: Any) -> None:
            begun.append(self.progress.epoch + 1)
            if len(begun) == 3:
                raise KeyboardInterrupt
            epoch(self, *answer_json)

        monkeypatch.setattr(Training, "epoch", stops_in_the_third)
        with pytest.raises(Interrupted, match="stopped in epoch 3"):
            bench.run(cell)
        changed = first(write(settings=(set_tau, {"set": change})))
        assert bench.path(changed) == bench.path(cell)
        run = bench.run(changed)
        assert begun == [1, 2, 3, 3, 4]
        assert isinstance(run, Run)
        assert isinstance(whole, Run)
        assert run.metrics["test"] == whole.metrics["test"]

    def test_the_order_in_which_cells_run_does_not_matter(self, write: Write, data: Path, tmp_path: Path) -> None:
        grid = list(cells(read_spec(write(baselines=["ease"]))))
        one, other = Bench(tmp_path / "one", data), Bench(tmp_path / "other", data)
        work(one, grid)
        work(other, grid[::-1])
        for cell in grid:
            a, b = one.result(cell), other.result(cell)
            assert isinstance(a, Run)
            assert isinstance(b, Run)
            assert a.metrics["test"] == b.metrics["test"]


class TestOtherLengths:
    @pytest.fixture
    def trained(self, write: Write, data: Path, tmp_path: Path) -> tuple[Bench, Run]:
        bench = Bench(tmp_path / "out", data)
        run = bench.run(first(write()))
        assert isinstance(run, Run)
        return bench, run

    @pytest.mark.parametrize("model", [{}, {"losses": [], "baselines": ["item_knn"]}])
    def test_other_lengths_are_measured_from_the_saved_model(
        self, write: Write, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: dict[str, Any]
    ) -> None:
        """The same as if they had been asked for at first, and without training."""
        whole = Bench(tmp_path / "whole", data).run(first(write(metrics=["ndcg@7", "ndcg@5"], **model)))
        bench, cell = Bench(tmp_path / "out", data), first(write(**model))
        before = bench.run(cell)
        assert isinstance(whole, Run)
        assert isinstance(before, Run)
        assert "ndcg@7" not in before.metrics["test"]

        def stop(*_: object, **__: object) -> NoReturn:
            raise AssertionError("trained again")

        monkeypatch.setattr("shortlist.bench.runner.fit", stop)
        other, answer_json = first(write(metrics=["ndcg@7", "recall@5"], **model)), []
        assert not bench.is_done(other)
        work(bench, [other], lambda *what: answer_json.append(what))
        assert bench.is_done(other)
        after = bench.result(other)
        assert isinstance(after, Run)
        assert [cell for cell, _ in answer_json] == [other]
        assert {**whole.metrics, "seconds": 0} == {**after.metrics, "seconds": 0}
        assert after.metrics["seconds"] == before.metrics["seconds"]
        assert after.per_user.equals(whole.per_user)
        assert after.config == before.config
        assert "\n| 7 | " in (after.folder / "model_card.md").read_text(encoding="utf-8")
        assert after.folder == before.folder
        for name in ("model.safetensors", "config.json", "log.jsonl", "history.parquet"):
            assert (after.folder / name).stat().st_mtime_ns == (before.folder / name).stat().st_mtime_ns
        work(bench, [other, cell], lambda *what: answer_json.append(what))
        assert len(answer_json) == 1  # all of it was there

    def test_a_full_disk_leaves_the_run_as_it_was(
        self, write: Write, trained: tuple[Bench, Run], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench, run = trained
        before, real = {path.name: path.read_bytes() for path in run.folder.iterdir()}, Path.write_bytes

        def full(self: Path, content: bytes) -> int:
            if "metrics" in self.name:
                real(self, content[:5])
                raise OSError(28, "No space left on device")
            return real(self, content)

        other = first(write(metrics=["ndcg@7"]))
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", full)
            with pytest.raises(WriteError, match="the run cannot be written: No space left on device"):
                bench.run(other)
        after = {path.name: path.read_bytes() for path in run.folder.iterdir()}
        assert after.keys() == before.keys()
        more = {"per_user.parquet", "model_card.md", "manifest.json"}  # which tell of another length
        assert {name for name in after if after[name] != before[name]} == more
        assert not bench.is_done(other)
        again = bench.result(first(write()))
        assert isinstance(again, Run)
        assert again.metrics == run.metrics
        assert {"ndcg@5", "ndcg@20"} < set(again.per_user.columns)
        bench.run(other)
        assert bench.is_done(other)

    def test_a_model_that_cannot_be_read(self, write: Write, trained: tuple[Bench, Run]) -> None:
        bench, run = trained
        (run.folder / "model.safetensors").write_bytes(b"torn")
        result = bench.run(first(write(metrics=["ndcg@7"])))
        assert isinstance(result, Failure)
        assert "expected the weights of a model, received a damaged file" in result.reason
        assert bench.is_done(first(write()))  # which has its figures
        assert isinstance(bench.result(first(write())), Run)

    def test_a_failure_to_measure_is_kept_until_it_is_forgotten(
        self, write: Write, trained: tuple[Bench, Run], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench, run = trained
        cell, answer_json = first(write(metrics=["ndcg@7"])), []

        def stop(*_: object) -> NoReturn:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr("shortlist.bench.runner.remeasure", stop)
            work(bench, [cell], lambda *what: answer_json.append(what))
        work(bench, [cell], lambda *what: answer_json.append(what))
        failure = Failure(cell, "MemoryError (remove the folder to compute it again)")
        assert (answer_json, bench.result(cell)) == ([(cell, failure)], failure)
        assert not bench.is_done(first(write(metrics=["ndcg@6"])))  # of which nothing is known
        bench.forget(cell)
        assert not bench.is_done(cell)
        measured = bench.run(cell)
        assert isinstance(measured, Run)
        assert measured.folder == run.folder
        others = {"ids.parquet", "history.parquet", "manifest.json"}
        assert {path.name for path in run.folder.iterdir()} == {*FILES, *others}

    def test_a_length_above_the_catalogue_does_not_damage_a_run(self, write: Write, trained: tuple[Bench, Run]) -> None:
        bench, run = trained
        cell = first(write(metrics=["ndcg@41"]))
        work(bench, [cell])
        result = bench.result(cell)
        assert isinstance(result, Failure)
        assert result.reason == "K: expected a whole number from 1 to 40 (the catalogue), received 41"
        assert FAILED not in names(run.folder)
        assert isinstance(bench.result(first(write())), Run)


class TestFailures:
    def test_a_training_that_fails(self, write: Write, data: Path, tmp_path: Path) -> None:
        bench = Bench(tmp_path / "out", data)
        grid = list(cells(read_spec(write(settings=({"when": {"loss": "bpr"}, "set": {"optimizer.lr": 1e30}},)))))
        work(bench, grid)
        results = {cell: bench.result(cell) for cell in grid}
        assert [type(result) for result in results.values()] == [Run, Failure, Run, Failure]
        failure = results[grid[1]]
        assert isinstance(failure, Failure)
        assert "became" in failure.reason
        assert "; try an optimizer.lr below 1e+30" in failure.reason
        path = bench.path(grid[1])
        assert FAILED in names(path)
        assert CHECKPOINT not in names(path)
        before = (path / FAILED).stat().st_ino
        work(bench, grid)
        assert (path / FAILED).stat().st_ino == before  # not tried again by itself
        rows = summarise(read_spec(write()), {cell: result for cell, result in results.items() if result})
        assert [(row.loss, row.failed, len(row.values)) for row in rows] == [("sl", 0, 2), ("bpr", 2, 0)]
        assert rows[1].texts()[5] == "failed"
        assert rows[1].failures[0] == failure.reason

    def test_an_exception_in_a_custom_loss(
        self, write: Write, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def wrong(*_: object) -> NoReturn:
            raise TypeError("no such thing")

        monkeypatch.setattr("shortlist.losses.softmax.SL.value", wrong)
        bench, cell = Bench(tmp_path / "out", data), first(write())
        result = bench.run(cell)
        assert isinstance(result, Failure)
        assert result.reason == "TypeError: no such thing"
        assert "in wrong" in json.loads((bench.path(cell) / FAILED).read_text())["where"]

    def test_retry(self, write: Write, data: Path, tmp_path: Path) -> None:
        bench, cell = Bench(tmp_path / "out", data), first(write())
        bench.path(cell).mkdir(parents=True)
        (bench.path(cell) / FAILED).write_text('{"reason": "the moon"}')
        assert bench.run(cell) == Failure(cell, "the moon")
        bench.forget(cell)
        assert isinstance(bench.run(cell), Run)
        bench.forget(cell)  # which is no failure
        assert isinstance(bench.result(cell), Run)

    @pytest.mark.parametrize(
        "problem", [Interrupted("stopped"), WriteError("no room"), WriteTargetError("no"), KeyboardInterrupt()]
    )
    def test_system_errors_are_not_failures_of_a_cell(
        self, write: Write, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException
    ) -> None:
        def stop(*_: object, **__: object) -> NoReturn:
            raise problem

        bench, cell = Bench(tmp_path / "out", data), first(write())
        with monkeypatch.context() as patch:
            patch.setattr("shortlist.bench.runner.fit", stop)
            with pytest.raises(type(problem)):
                bench.run(cell)
        assert bench.result(cell) is None
        assert isinstance(bench.run(cell), Run)

    def test_a_checkpoint_that_cannot_be_read(self, write: Write, data: Path, tmp_path: Path) -> None:
        bench, cell = Bench(tmp_path / "out", data), first(write())
        bench.path(cell).mkdir(parents=True)
        (bench.path(cell) / CHECKPOINT).write_bytes(b"torn")
        result = bench.run(cell)
        assert isinstance(result, Failure)
        assert "expected a complete checkpoint, received a damaged file" in result.reason
        bench.forget(cell)
        assert isinstance(bench.run(cell), Run)

    def test_a_run_of_another_version(self, write: Write, data: Path, tmp_path: Path) -> None:
        bench, cell = Bench(tmp_path / "out", data), first(write())
        assert isinstance(bench.run(cell), Run)
        config = bench.path(cell) / "config.json"
        config.write_text(config.read_text().replace('"format": 1', '"format": 99'))
        before = {path.name: path.read_bytes() for path in bench.path(cell).iterdir()}
        result = bench.run(cell)
        assert isinstance(result, Failure)
        assert "expected a run of format 1, received 99 (remove the folder to compute it again)" in result.reason
        bench.forget(cell)
        assert {path.name: path.read_bytes() for path in bench.path(cell).iterdir()} == before
        shutil.rmtree(bench.path(cell))
        assert isinstance(bench.run(cell), Run)

    def test_a_length_that_the_catalogue_cannot_fill(self, write: Write, data: Path, tmp_path: Path) -> None:
        bench, cell = Bench(tmp_path / "out", data), first(write(metrics=["ndcg@41"]))
        result = bench.run(cell)
        assert isinstance(result, Failure)
        assert bench.is_done(cell)
        assert result.reason == "K: expected a whole number from 1 to 40 (the catalogue), received 41"


class TestPlaces:
    def test_datasets_that_are_not_there(self, write: Write, data: Path, tmp_path: Path) -> None:
        cell = first(write(datasets=["click.csv"]))
        with pytest.raises(
            InputError, match=r"bench: unknown dataset 'click\.csv'; did you mean 'clicks\.csv'\?"
        ) as answer_json:
            Bench(tmp_path / "out", data).path(cell)
        assert str(data) in str(answer_json.value)
        with pytest.raises(InputError, match="in the folder of --data or SHORTLIST_DATA"):
            Bench(tmp_path / "out").path(cell)
        with pytest.raises(InputError, match="download it with `shortlist data get ml-1m`"):
            Bench(tmp_path / "out").path(first(write(datasets=["ml-1m"])))
        assert not (tmp_path / "out").exists()

    def test_a_raw_table_does_not_replace_a_dataset_of_a_paper(self, tmp_path: Path, shortlist: Command) -> None:
        """Published figures are of splits; the registered set of the same name is all ratings."""
        assert "amazon2014-health" in SETS
        answer = shortlist("bench", "slatk-table4", "--only", "amazon2014-health", "--data", tmp_path, "--out", "x")
        assert answer.code == 2
        assert "bench: amazon2014-health is not available; SL@K's authors have it, in github.com/" in answer.err
        assert str(tmp_path) in answer.err
        assert Bench(tmp_path).source("amazon2014-health") == "amazon2014-health"  # for a grid of one's own

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
    def test_a_place_without_permission(self, write: Write, data: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        bench, cell = Bench(out, data), first(write())
        bench.path(cell)
        tmp_path.chmod(0o555)
        os.seteuid(65534)
        try:
            with pytest.raises(
                WriteTargetError, match="expected a place to write a run to, received Permission denied"
            ):
                bench.run(cell)
        finally:
            os.seteuid(0)
            tmp_path.chmod(0o755)
        assert not out.exists()

    def test_a_cell_locked_by_another_process(self, write: Write, data: Path, tmp_path: Path) -> None:
        bench, cell = Bench(tmp_path / "out", data), first(write())
        with lock(bench.lock(bench.path(cell))), pytest.raises(RunLocked):
            bench.run(cell)
        assert isinstance(bench.run(cell), Run)

    def test_unfinished_cells_of_another_process_are_computed(
        self, write: Write, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench = Bench(tmp_path / "out", data)
        grid = list(cells(read_spec(write(seeds=[0]))))
        first_lock, answer_json, waited = lock(bench.lock(bench.path(grid[0]))), [], []

        def pause(seconds: float) -> None:
            waited.append(seconds)
            first_lock.__exit__(None, None, None)  # it ends, and has done nothing

        monkeypatch.setattr("shortlist.bench.runner.time.sleep", pause)
        first_lock.__enter__()
        work(bench, grid, lambda cell, result: answer_json.append(cell))
        assert answer_json == [grid[1], grid[0]]
        assert len(waited) == 1


class TestCellStatus:
    def test_from_waiting_to_done(self, write: Write, data: Path, tmp_path: Path) -> None:
        bench, (cell, other, *_) = Bench(tmp_path / "out", data), cells(read_spec(write()))
        assert cell_status(bench, cell, "ndcg@5").state == "waiting"
        path = bench.path(cell)
        with lock(bench.lock(path)):
            assert cell_status(bench, cell, "ndcg@5").state == "running"
            path.mkdir()
            lines = '{"epoch": 1, "loss": 2.0, "valid ndcg": 0.25}\n{"epoch": 2, "loss": 1.0}\n{"epoch": 3, "lo'
            (path / "log.jsonl").write_text(lines)
            now = cell_status(bench, cell, "ndcg@5")
            assert (now.state, now.epoch, now.validation) == ("running", 2, 0.25)
            os.utime(bench.lock(path), (0, 0))  # whoever comes later sees it, too
            assert cell_status(bench, cell, "ndcg@5").state == "running"
        assert cell_status(bench, cell, "ndcg@5").state == "waiting"  # after another process has ended
        (path / "log.jsonl").unlink()
        run = bench.run(cell)
        assert isinstance(run, Run)
        done = cell_status(bench, cell, "ndcg@5")
        assert (done.state, done.value) == ("done", run.metrics["test"]["ndcg@5"])
        assert [line["epoch"] for line in read_log(path)] == [1, 2, 3, 4]
        bench.path(other).mkdir()
        (bench.path(other) / FAILED).write_text('{"reason": "why"}')
        failed = cell_status(bench, other, "ndcg@5")
        assert (failed.state, failed.reason) == ("failed", "why")

    def test_unfinished_cells_of_an_interrupted_command(self, write: Write, data: Path, tmp_path: Path) -> None:
        bench, grid = Bench(tmp_path / "out", data), list(cells(read_spec(write())))
        bench.run(grid[0])
        locks = [bench.lock(bench.path(cell)) for cell in grid]
        for path in locks[1:]:
            path.mkdir()
        os.utime(locks[1], (50, 50))  # by an earlier command
        bench.path(grid[2]).mkdir()
        (bench.path(grid[2]) / "log.jsonl").write_text('{"epoch": 3, "loss": 1.0}\n')
        with lock(locks[3]):  # another process is at it, and goes on
            assert stopped(bench, grid, 100.0) == f"stopped with 1 of 4 cells done, in {grid[2]} after epoch 3"
        said = f"stopped with 0 of 2 cells done, in {grid[2]} after epoch 3, {grid[3]}"
        assert stopped(bench, grid[2:], 100.0) == said

    def test_an_epoch_is_timed_without_a_trace(self, write: Write, data: Path, tmp_path: Path) -> None:
        bench = Bench(tmp_path / "out", data)
        grid = list(cells(read_spec(write(baselines=["ease"], seeds=[0]))))
        seconds = [seconds_of_epoch(cell, bench.split(cell)) for cell in grid]
        assert seconds[2] is None
        assert all(each is not None and 0 < each < 5 for each in seconds[:2])
        whole = seconds_of_epoch(grid[0], bench.split(grid[0]), patience=0.0)  # one step stands for the epoch
        assert whole is not None
        assert not (tmp_path / "out").exists()

    def test_trials_for_a_temperature_count_among_the_epochs(self, write: Write, data: Path, tmp_path: Path) -> None:
        looks = {"set": {"training.temperature_epochs": 300, "training.epochs": 400}}
        bench = Bench(tmp_path / "out", data)
        sl, bpr, ease = cells(read_spec(write(baselines=["ease"], seeds=[0], settings=(looks,))))
        assert [most_epochs(cell, bench.split(cell)) for cell in (sl, bpr, ease)] == [400 + 4 * 300, 400, 0]
