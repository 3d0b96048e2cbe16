"""The commands do what their help says."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import shortlist as package
from command import Command, says
from shortlist.cli.load_flags import FLAGS
from shortlist.data import LoadOptions

SOURCE = str(Path(package.__file__).parents[1])
COMMANDS = [
    "demo",
    "data info",
    "data list",
    "data get",
    "train",
    "evaluate",
    "recommend",
    "compare",
    "models",
    "losses",
]


def in_a_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "shortlist", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": SOURCE})


class TestHelp:
    @pytest.mark.parametrize("name", COMMANDS)
    def test_every_command_has_help_with_examples(self, shortlist: Command, name: str) -> None:
        answer = shortlist(*name.split(), "--help")
        assert answer.code == 0
        assert "Example" in answer.out
        assert f"shortlist {name}" in answer.out

    def test_no_command_is_help(self, shortlist: Command) -> None:
        answer = shortlist()
        assert answer.code == 0
        assert all(name.split()[0] in answer.out for name in COMMANDS)

    def test_version(self, shortlist: Command) -> None:
        assert shortlist("--version").out == f"{package.__version__}\n"

    def test_help_imports_nothing_heavy(self) -> None:
        program = (
            "import sys, shortlist.cli; shortlist.cli.run(['--help']); print(sorted(sys.modules), file=sys.stderr)"
        )
        words = [sys.executable, "-c", program]
        printed = subprocess.run(words, capture_output=True, text=True, check=True, env={"PYTHONPATH": SOURCE})
        assert not any(f"'{heavy}'" in printed.stderr for heavy in ("torch", "polars", "numpy", "scipy", "altair"))

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ({}, "1000"),
            ({"GOMP_SPINCOUNT": "7"}, "7"),
            ({"OMP_WAIT_POLICY": "active"}, None),
        ],
    )
    def test_waiting_threads_sleep_early_unless_configured(self, before: dict[str, str], after: str | None) -> None:
        content = "import atexit, os; atexit.register(lambda: print('spins', os.environ.get('GOMP_SPINCOUNT'))); "
        words = [sys.executable, "-c", content + "from shortlist.cli import main; main(['--version'])"]
        given = {name: value for name, value in os.environ.items() if name not in {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}}
        done = subprocess.run(
            words, capture_output=True, text=True, check=True, env={**given, "PYTHONPATH": SOURCE, **before}
        )
        assert done.stdout.splitlines()[-1] == f"spins {after}"

    def test_there_is_a_flag_for_every_option_of_the_loader(self) -> None:
        assert list(FLAGS) == list(LoadOptions.declared)


class TestData:
    def test_info(self, shortlist: Command, clicks: Path) -> None:
        facts = shortlist("data", "info", clicks, "--json").json
        assert (facts["users"], facts["items"], facts["interactions"]) == (60, 40, 480)
        shown = shortlist("data", "info", clicks).out
        assert "480" in shown
        assert "items per user" in shown

    def test_info_shows_dates_and_what_was_left_out(self, shortlist: Command, tmp_path: Path) -> None:
        table = tmp_path / "sales.csv"
        days = [f"2024-0{1 + month}-01" for month in range(6)]
        rows = [f"c{user},s{(user + place) % 9},{day}" for user in range(20) for place, day in enumerate(days)]
        table.write_text("\n".join(["customer,sku,when", *rows, "late,s1,2024-06-02", "c1,,2024-05-01"]) + "\n")
        flags = ["--time", "when", "--at", "2024-06-01", "--on-bad-rows", "skip"]
        answer = shortlist("data", "info", table, *flags)
        assert "2024-01-01 to 2024-06-01" in answer.out
        assert answer.err.splitlines() == [
            f"shortlist: {table}: 1 bad row skipped: row 123, column 'sku': expected an id, received nothing",
            "shortlist: split time: 1 of 21 users have no training items and are left out (--cold-users=error refuses "
            "them)",
        ]
        says(shortlist("data", "info", table, *flags[:2], "--split", "time"), 2, "row 123, column 'sku'")
        skip = (*flags[:2], *flags[4:], "--split")
        says(shortlist("data", "info", table, *skip, "time"), 2, "--at: expected a time for split time")
        says(
            shortlist("data", "info", table, *flags, "--last", 2), 2, "--last: expected none for split time, received 2"
        )
        says(shortlist("data", "info", table, *flags, "--split", "last"), 2, "--at: expected none for split last")

    def test_info_takes_the_flags(self, shortlist: Command, tmp_path: Path) -> None:
        table = tmp_path / "rated.tsv"
        table.write_text(
            "who\twhat\tstars\n" + "".join(f"{w}\t{i}\t{(w + i) % 5}\n" for w in range(9) for i in range(9))
        )
        flags = ["--user", "who", "--item", "what", "--weight", "stars", "--min-rating", "2", "--json"]
        assert shortlist("data", "info", table, *flags).json["interactions"] < 81

    def test_list(self, shortlist: Command, tmp_path: Path) -> None:
        sets = shortlist("data", "list", "--folder", tmp_path, "--json").json["sets"]
        assert sets["debian"]["built_in"]
        assert sets["ml-1m"]["file"] is None
        assert "ml-1m" in shortlist("data", "list").out

    def test_get_from_a_file_that_is_something_else(self, shortlist: Command, tmp_path: Path) -> None:
        (tmp_path / "ml-1m.zip").write_bytes(b"no archive")
        answer = shortlist("data", "get", "ml-1m", "--from-file", tmp_path / "ml-1m.zip", "--folder", tmp_path / "kept")
        assert answer.code == 2
        assert not (tmp_path / "kept").exists()


class TestTrain:
    @pytest.mark.parametrize("model", ["popularity", "item_knn", "ease", "ials"])
    def test_every_baseline_from_table_to_run(
        self, shortlist: Command, clicks: Path, tmp_path: Path, model: str
    ) -> None:
        answer = shortlist("train", clicks, "--model", model, "--out", tmp_path / "run", "--seed", 3)
        assert answer.code == 0
        assert "ndcg@20" in answer.out
        config = json.loads((tmp_path / "run" / "config.json").read_text())
        assert (config["model"]["name"], config["seed"], config["data"]["seed"]) == (model, 3, 3)

    def test_json_is_metrics_json(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        answer = shortlist("train", clicks, "--model", "popularity", "--out", tmp_path / "run", "--json", "--ks", "3,7")
        metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
        assert answer.json == {"run": str(tmp_path / "run"), **metrics}
        assert {name.split("@")[1] for name in metrics["test"]} == {"3", "7"}

    def test_the_authors_protocol_excludes_only_training_items(
        self, shortlist: Command, clicks: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "run"
        assert shortlist("train", clicks, "--protocol", "irbenchmark", "--out", out).code == 0
        history = pl.read_parquet(out / "history.parquet")
        held_out = history.filter(part="valid").group_by("user").len()
        assert held_out["len"].to_list() == [1] * 60

    @pytest.mark.parametrize(("name", "expected"), [("amazon2014-health", 0.1342), ("amazon2014-electronic", 0.0563)])
    def test_ease_reaches_the_known_figures(
        self, shortlist: Command, shared_data: Callable[[str], Path], tmp_path: Path, name: str, expected: float
    ) -> None:
        if name == "amazon2014-electronic" and not os.environ.get("SHORTLIST_SLOW"):
            pytest.skip("takes a quarter of a minute; SHORTLIST_SLOW=1 runs it")
        settings = ["--model", "ease", "--set", "model.regularization=300", "--protocol", "irbenchmark"]
        answer = shortlist("train", shared_data(name), *settings, "--out", tmp_path / "run", "--json")
        assert answer.json["test"]["ndcg@20"] >= expected - 0.0001


class TestEvaluate:
    def test_gives_the_metrics_of_the_run(self, shortlist: Command, ease: Path) -> None:
        stored = json.loads((ease / "metrics.json").read_text())
        measured = shortlist("evaluate", ease, "--json").json
        for part in ("test", "valid"):
            assert measured[part] == pytest.approx(stored[part])
        low, high = measured["intervals"]["ndcg@20"]
        assert low < measured["test"]["ndcg@20"] < high

    def test_other_lengths_and_pairs(self, shortlist: Command, ease: Path) -> None:
        measured = shortlist("evaluate", ease, "--ks", "1,40", "--pairwise", "--json").json["test"]
        assert {"ndcg@1", "ndcg@40", "auc"} <= measured.keys()
        assert "hit_rate@1" in shortlist("evaluate", ease, "--ks", "1").out


class TestRecommend:
    def test_one_user(self, shortlist: Command, ease: Path) -> None:
        answer = shortlist("recommend", ease, "--user", "person-07", "--k", 4)
        assert answer.code == 0
        given = shortlist("recommend", ease, "--user", "person-07", "--k", 4, "--json").json
        assert given["user_id"] == "person-07"
        assert [entry["rank"] for entry in given["items"]] == [1, 2, 3, 4]
        assert all(1020 <= entry["item_id"] < 1040 for entry in given["items"])  # an odd person's taste
        assert str(given["items"][0]["item_id"]) in answer.out

    @pytest.mark.parametrize("suffix", ["parquet", "csv"])
    def test_all_users(self, shortlist: Command, ease: Path, tmp_path: Path, suffix: str) -> None:
        out = tmp_path / f"lists.{suffix}"
        answer = shortlist("recommend", ease, "--users", "all", "--k", 20, "--out", out, "--json")
        lists = pl.read_parquet(out) if suffix == "parquet" else pl.read_csv(out)
        assert lists.columns == ["user_id", "item_id", "rank", "score"]
        assert lists["user_id"].n_unique() == 60
        assert answer.json == {"users": 60, "rows": 1200, "out": str(out)}
        assert lists.group_by("user_id").agg(pl.col("rank").max())["rank"].to_list() == [20] * 60
        history = pl.read_parquet(ease / "history.parquet")
        assert set(history["part"]) == {"train", "valid", "test"}
        ids = pl.read_parquet(ease / "ids.parquet")
        known = {(ids["user_id"][user], ids["item_id"][item]) for user, item, _ in history.iter_rows()}
        assert not known & set(lists.select("user_id", "item_id").iter_rows())

    def test_the_lists_are_those_that_were_measured(self, shortlist: Command, ease: Path, tmp_path: Path) -> None:
        out = tmp_path / "lists.parquet"
        shortlist("recommend", ease, "--users", "all", "--k", 10, "--as-measured", "--out", out)
        ids = pl.read_parquet(ease / "ids.parquet")
        test = pl.read_parquet(ease / "history.parquet").filter(part="test")
        wanted = pl.DataFrame(
            {"user_id": ids["user_id"].gather(test["user"]), "item_id": ids["item_id"].gather(test["item"])}
        )
        hits = wanted.join(pl.read_parquet(out), on=["user_id", "item_id"], how="left")
        recall = hits.group_by("user_id").agg(pl.col("rank").is_not_null().mean())["rank"].mean()
        stored = json.loads((ease / "metrics.json").read_text())["test"]["recall@10"]
        assert recall == pytest.approx(stored)

    def test_files_of_users_and_items(self, shortlist: Command, ease: Path, tmp_path: Path) -> None:
        (tmp_path / "users.txt").write_text("person-03\n\nperson-01\n")
        pl.DataFrame({"item_id": [1021, 1022, 1023, 1024]}).write_parquet(tmp_path / "only.parquet")
        (tmp_path / "not.csv").write_text("name,item_id\na,1022\n")
        out = tmp_path / "lists.csv"
        files = ["--only", tmp_path / "only.parquet", "--exclude", tmp_path / "not.csv"]
        assert shortlist("recommend", ease, "--users", tmp_path / "users.txt", *files, "--k", 4, "--out", out).code == 0
        lists = pl.read_csv(out)
        assert lists["user_id"].unique(maintain_order=True).to_list() == ["person-03", "person-01"]
        assert set(lists["item_id"]) <= {1021, 1023, 1024}

    def test_unknown_ids_do_not_abort(self, shortlist: Command, ease: Path, tmp_path: Path) -> None:
        (tmp_path / "users.txt").write_text("person-03\nnew-1\nperson-01\nnew-2\n")
        out, plain = tmp_path / "lists.csv", tmp_path / "plain.csv"
        items = ["--only", "1021,9,1023", "--exclude", "x,1023", "--k", 4]
        answer = shortlist("recommend", ease, "--users", tmp_path / "users.txt", *items, "--out", out)
        assert answer.code == 0
        assert answer.err.splitlines() == [
            "shortlist: --users: 2 unknown ids skipped: 'new-1', 'new-2' (60 known)",
            "shortlist: --only: 1 unknown id skipped: '9' (40 known)",
            "shortlist: --exclude: 1 unknown id skipped: 'x' (40 known)",
        ]
        (tmp_path / "users.txt").write_text("person-03\nperson-01\n")
        known = ["--only", "1021,1023", "--exclude", "1023", "--k", 4]
        assert shortlist("recommend", ease, "--users", tmp_path / "users.txt", *known, "--out", plain).err == ""
        assert out.read_text() == plain.read_text()
        (tmp_path / "users.txt").write_text("new-1\n")
        answer = shortlist("recommend", ease, "--users", tmp_path / "users.txt", "--out", out, "--json")
        assert answer.json == {"users": 0, "rows": 0, "out": str(out), "unknown": {"users": 1}}
        assert out.read_text() == "user_id,item_id,rank,score\n"

    def test_titles(self, shortlist: Command, ease: Path, tmp_path: Path) -> None:
        names = tmp_path / "titles.csv"
        names.write_text("sku,title\n" + "".join(f"{item},thing {item}\n" for item in range(1000, 1039)))
        options = ["--user", "person-01", "--k", 3, "--names", names]
        found = shortlist("recommend", ease, *options, "--json").json["items"]
        assert [list(each) for each in found] == [["item_id", "title", "rank", "score"]] * 3
        assert [each["title"] for each in found] == [f"thing {each['item_id']}" for each in found]
        assert found[0]["title"] in shortlist("recommend", ease, *options).out
        out = tmp_path / "lists.parquet"
        shortlist("recommend", ease, "--users", "all", "--k", 30, "--names", names, "--out", out)
        lists = pl.read_parquet(out)
        assert lists.columns == ["user_id", "item_id", "title", "rank", "score"]
        assert lists.filter(item_id=1039)["title"].null_count() > 0
        assert "title" in shortlist("recommend", ease, "--history", "1001", "--names", names).out

    def test_columns_as_in_the_data(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        table, run, out = tmp_path / "sales.csv", tmp_path / "run", tmp_path / "lists.csv"
        table.write_text(clicks.read_text().replace("user_id,item_id", "customer_no,SKU"))
        assert shortlist("train", table, "--model", "ease", "--out", run).code == 0
        config = json.loads((run / "config.json").read_text())
        assert config["data"]["columns"] == {"user": "customer_no", "item": "SKU"}
        shortlist("recommend", run, "--users", "all", "--k", 3, "--columns", "data", "--out", out)
        assert pl.read_csv(out).columns == ["customer_no", "SKU", "rank", "score"]
        one = shortlist("recommend", run, "--user", "person-01", "--k", 3, "--columns", "data", "--json").json
        assert one["customer_no"] == "person-01"
        assert list(one["items"][0]) == ["SKU", "rank", "score"]
        assert "SKU" in shortlist("recommend", run, "--user", "person-01", "--k", 3, "--columns", "data").out
        again = shortlist("recommend", run, "--users", out, "--only", out, "--k", 2, "--out", tmp_path / "again.csv")
        assert again.out.startswith("60 users, "), "what was written is read by the same names"
        shortlist("recommend", run, "--users", "all", "--k", 3, "--out", out)
        assert pl.read_csv(out).columns == ["user_id", "item_id", "rank", "score"]

    def test_items_in_the_command(self, shortlist: Command, ease: Path) -> None:
        given = shortlist(
            "recommend", ease, "--user", "person-00", "--only", "1020,1021", "--exclude", "1021", "--json"
        )
        assert [entry["item_id"] for entry in given.json["items"]] == [1020]

    def test_ids_that_are_numbers(self, shortlist: Command, tmp_path: Path) -> None:
        rng = np.random.default_rng(1)
        lines = [f"{user},i{item}" for user in range(10, 22) for item in rng.choice(15, 6, replace=False)]
        (tmp_path / "table.csv").write_text("user,item\n" + "\n".join(lines) + "\n")
        shortlist("train", tmp_path / "table.csv", "--model", "popularity", "--out", tmp_path / "run")
        assert shortlist("recommend", tmp_path / "run", "--user", "12", "--k", 2, "--json").json["user_id"] == 12


class TestModels:
    def test_list_and_one(self, shortlist: Command) -> None:
        assert {"ease", "ials", "item_knn", "popularity"} <= shortlist("models", "--json").json["models"].keys()
        assert "ease" in shortlist("models").out
        assert shortlist("models", "ease", "--json").json["parameters"]["regularization"]["default"] == 300.0
        assert "model.neighbours" in shortlist("models", "item_knn").out
        lightgcn = shortlist("models", "lightgcn").out
        assert lightgcn.startswith("lightgcn: sim(x_u, x_i), x = mean_k Â^k e\n")
        assert "learns by a loss, slatk_detached if none is named; He et al., SIGIR 2020" in lightgcn

    def test_the_loss_that_trains_a_model_where_none_is_named(self, shortlist: Command) -> None:
        named = {name: facts["loss"] for name, facts in shortlist("models", "--json").json["models"].items()}
        assert (named["ease"], named["mf"], named["ncf"]) == (None, "slatk_detached", "bce")
        assert {name for name in named.values() if name} <= shortlist("losses", "--json").json["losses"].keys()


def test_a_terminal_sees_progress_and_a_pipe_does_not(ease: Path) -> None:
    """A bar is drawn on stderr once a step takes longer than a moment; here the moment is made short."""
    program = (
        "import time, shortlist.progress as progress\nprogress.DELAY = 0.01\n"
        "with progress.progress_bar('evaluating') as report:\n    report(3, 10)\n"
        "    time.sleep(0.3)\n    report(9, 10)\n"
        "print('done')"
    )
    words = [sys.executable, "-c", program]
    environment = {"PYTHONPATH": SOURCE, "TERM": "xterm", "PATH": os.environ["PATH"]}
    quiet = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert (quiet.stdout, quiet.stderr) == ("done\n", "")
    leader, follower = pty.openpty()
    shown = subprocess.run(words, stdout=subprocess.PIPE, stderr=follower, text=True, check=True, env=environment)
    drawn = os.read(leader, 100_000).decode()
    os.close(leader)
    os.close(follower)
    assert shown.stdout == "done\n"
    assert "evaluating" in drawn
    assert "90%" in drawn


def test_the_command_itself(ease: Path) -> None:
    """Once through a real process: one object on stdout, nothing on stderr, exit code 0; and 2 with one line."""
    good = in_a_process("recommend", ease, "--user", "person-05", "--k", 3, "--json")
    assert (good.returncode, good.stderr) == (0, "")
    assert len(json.loads(good.stdout)["items"]) == 3
    bad = in_a_process("recommend", ease, "--user", "person-5")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("shortlist: user: unknown id 'person-5'; did you mean 'person-")
    assert bad.stderr.count("\n") == 1
