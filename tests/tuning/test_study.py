"""A study on the disk: whose it is, who works on it, and what a killed process leaves."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shortlist.errors import InputError
from shortlist.runs import RunLocked
from shortlist.runs.folder import lock
from shortlist.tuning import STUDY, Space, Study, space_of
from shortlist.tuning.study import LOCKS

IDENTITY = {"data": "abc", "seed": 0, "k": 5}

Open = Callable[..., Study]


@pytest.fixture
def space() -> Space:
    return space_of("ease", None, 5)


@pytest.fixture
def opened(tmp_path: Path, space: Space) -> Open:
    def study(**changes: Any) -> Study:
        found = Study(tmp_path / "study", space, {**IDENTITY, **changes})
        found.make([("default", {"model.regularization": 300.0}), ("other", {"model.regularization": 5e5})])
        found.open()
        return found

    return study


def run(study: Study, value: float | None, **facts: Any) -> dict[str, Any]:
    with study.next() as trial:
        settings = study.settings(trial)
        study.done(trial, value, **facts)
    return settings


def names(study: Study) -> set[str]:
    return {path.name for path in (study.folder / LOCKS).iterdir()}


class TestTrials:
    def test_from_start_to_best(self, opened: Open) -> None:
        study = opened()
        assert (study.trials(), study.best()) == ([], None)
        assert run(study, 0.5, seconds=1.5) == {"model.regularization": 300.0}
        assert run(study, None, why="it burst") == {"model.regularization": 5e5}  # beyond the space, and tried as it is
        settings = [run(study, value) for value in (0.25, 0.75, 0.75)]
        assert all(1 <= each["model.regularization"] <= 10_000 for each in settings)
        assert len({each["model.regularization"] for each in settings}) == 3
        best = study.best()
        assert best is not None
        assert (best.number, best.value) == (3, 0.75)  # the first of two that are equal
        assert [each.state for each in opened().trials()] == ["done", "failed", "done", "done", "done"]
        assert study.trials()[0].seconds == 1.5
        assert study.trials()[1].why == "it burst"
        assert names(study) == set()

    def test_known_settings_have_a_margin(self, opened: Open) -> None:
        """The best of many is too good: what is found has to be better by 1 % than the default."""
        study = opened()
        run(study, 0.5)
        run(study, None, why="it burst")
        run(study, 0.504)
        best = study.best()
        assert best is not None
        assert (best.start, best.value) == ("default", 0.5)
        run(study, 0.506)
        best = study.best()
        assert best is not None
        assert (best.start, best.value) == ("", 0.506)

    def test_no_more_trials_than_requested(self, opened: Open) -> None:
        study = opened()
        run(study, 0.5)
        with study.next(2) as trial:
            assert trial is not None
            with study.next(2) as none:
                assert none is None  # the one that runs counts
            study.done(trial, 0.1)
        with study.next(2) as none:
            assert none is None

    def test_the_next_points_depend_on_the_trials_before_alone(
        self, opened: Open, space: Space, tmp_path: Path
    ) -> None:
        def points(folder: str, sittings: list[int]) -> list[Any]:
            found = []
            for count in sittings:
                study = Study(tmp_path / folder, space, IDENTITY)
                study.make([])
                study.open()
                for _ in range(count):
                    with study.next() as trial:
                        settings = study.settings(trial)
                        study.done(trial, 1 / (1 + abs(settings["model.regularization"] - 50)))
                    found.append(settings)
            return found

        once = points("once", [14])
        assert points("often", [3, 1, 6, 4]) == once
        near = [abs(each["model.regularization"] - 50) < 25 for each in once]
        assert sum(near[9:]) >= 3  # and they are looked for where it is good

    def test_pruned_when_behind_except_for_the_first(self, opened: Open) -> None:
        study = opened()
        with study.next() as trial:
            assert not study.seen(trial, 0.5, 10, 0.5)
            study.done(trial, 0.6)
        with study.next() as trial:
            study.seen(trial, 0.4, 10, 0.5)
            study.done(trial, 0.5)
        with study.next() as trial:
            assert not study.seen(trial, 0.1, 10, 0.1)  # too early to say
            assert not study.seen(trial, 0.1, 11, 0.9)  # an epoch at which nobody else was seen
            study.done(trial, None)
        with study.next() as trial:
            assert study.seen(trial, 0.1, 10, 0.5)
            study.done(trial, None)
        assert study.trials()[-1].state == "pruned"
        assert study.trials()[-1].value == 0.1
        first = Study(study.folder.parent / "first", study.space, IDENTITY)
        first.make([("x", {}), ("y", {}), ("default", {})])
        first.open()
        for value in (0.5, 0.6):
            with first.next() as trial:
                first.seen(trial, value, 10, 0.5)
                first.done(trial, value)
        with first.next() as trial:
            assert not first.seen(trial, 0.0, 10, 0.5)


class TestProcesses:
    def test_trials_of_an_ended_process_are_queued_again_once(self, opened: Open) -> None:
        study = opened()
        with study.next() as trial:
            left = study.settings(trial)  # and here it is killed
        assert study.trials()[0].state == "running"
        study.put_back()
        study.put_back()
        assert [(each.state, each.start) for each in study.trials()] == [("waiting", "default")]
        assert run(study, 0.5) == left
        assert run(study, 0.25) == {"model.regularization": 5e5}
        with study.next() as trial:
            drawn = study.settings(trial)
        assert run(opened(), 0.125) == drawn
        assert [each.value for each in study.trials()] == [0.5, 0.25, 0.125]
        assert names(study) == set()

    def test_a_running_trial_of_another_process_is_kept(self, opened: Open) -> None:
        study = opened()
        with study.next() as trial:
            with pytest.raises(RunLocked), lock(study.folder / LOCKS / str(trial.number)):
                pass
            other = opened()
            with other.next() as second:
                assert (trial.number, second.number) == (0, 1)
                other.done(second, 0.25)
            study.done(trial, 0.5)
        assert [each.state for each in study.trials()] == ["done", "done"]


class TestForeign:
    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"data": "xyz"}, "made with other data or settings: data: expected 'abc', received 'xyz'"),
            ({"k": 6}, "k: expected 5, received 6"),
            ({"seed": 1}, "seed: expected 0, received 1"),
        ],
    )
    def test_other_studies_are_refused_and_kept(self, opened: Open, changes: dict[str, Any], said: str) -> None:
        before = (opened().path).read_bytes()
        with pytest.raises(InputError, match=said):
            opened(**changes)
        assert opened().path.read_bytes() == before

    def test_a_study_of_another_version(self, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
        study = opened()
        monkeypatch.setattr("shortlist.tuning.study.__version__", "9.9")
        with pytest.raises(InputError, match=r"expected a study made by shortlist 9\.9, received one made by 0\.1\.0"):
            opened()
        monkeypatch.undo()
        assert opened().trials() == study.trials()

    @pytest.mark.parametrize("content", [b"not a database " * 100, b""])
    def test_invalid_files(self, opened: Open, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "study").mkdir()
        (tmp_path / "study" / STUDY).write_bytes(content)
        with pytest.raises(InputError, match=r"study\.db: expected a study"):
            opened()

    def test_a_study_of_another_optuna(self, opened: Open) -> None:
        study = opened()
        with sqlite3.connect(study.path) as database:
            database.execute("UPDATE version_info SET schema_version = 99")
            database.execute("UPDATE alembic_version SET version_num = 'v99.0.0.a'")
        database.close()
        with pytest.raises(InputError, match=r"expected a study made by shortlist .*, received"):
            opened()


def test_importance_finds_what_decides(tmp_path: Path) -> None:
    space = space_of("ials", None, 5)
    study = Study(tmp_path / "study", space, IDENTITY)
    study.make([])
    study.open()
    for number in range(14):
        with study.next() as trial:
            alpha = study.settings(trial)["model.alpha"]
            study.seen(trial, 1 / alpha, 1, 0.5)
            study.done(trial, 1 / alpha if number % 2 else None)
        if number < 8:
            assert study.importance() == {}  # too few to say anything
    importance = study.importance()
    assert set(importance) == set(space.searched)
    assert max(importance, key=importance.__getitem__) == "model.alpha"
    assert importance["model.alpha"] > 0.5
