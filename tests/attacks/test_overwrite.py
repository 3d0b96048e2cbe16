"""``--overwrite`` replaces runs only, and never loses a file that is not part of a run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from attempts import SOURCE
from command import Command, says
from shortlist.runs import open_run
from shortlist.runs.folder import new_folder

KNN = ("--model", "item_knn", "--set", "model.neighbours=5")


def test_other_peoples_config_json_is_no_run(shortlist: Command, clicks: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "config.json").write_text('{"name": "web shop"}')
    (project / "photo.jpg").write_bytes(b"jpg")
    says(shortlist("train", clicks, *KNN, "--out", project, "--overwrite"), 2, "config.json is no run's")
    (project / "config.json").write_text("not JSON")
    says(shortlist("train", clicks, *KNN, "--out", project, "--overwrite"), 2, "config.json is no run's")
    assert (project / "photo.jpg").read_bytes() == b"jpg"
    assert (project / "config.json").read_text() == "not JSON"


def test_unknown_files_of_a_run_are_kept_and_named(shortlist: Command, clicks: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert shortlist("train", clicks, *KNN, "--out", out).code == 0
    (out / "notes.txt").write_text("mine")
    (out / "plots").mkdir()
    (out / "plots" / "a.png").write_bytes(b"png")
    answer = shortlist("train", clicks, "--model", "popularity", "--out", out, "--overwrite")
    assert answer.code == 0
    assert "files that are not part of a run were kept: 'notes.txt', 'plots'" in answer.err
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "plots" / "a.png").read_bytes() == b"png"
    assert open_run(out).config["model"]["name"] == "popularity"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_with_the_name_of_a_new_file_gets_another_name(tmp_path: Path) -> None:
    target = tmp_path / "run"
    with new_folder(target) as draft:
        (draft / "config.json").write_text('{"format": 1, "model": {}, "protocol": ""}')
        (draft / "metrics.json").write_text("{}")
    (target / "history.parquet").mkdir()
    (target / "history.parquet" / "mine").write_text("x")
    kept: list[str] = []
    with new_folder(target, overwrite=True, on_kept=kept.extend) as draft:
        (draft / "history.parquet").write_text("new")
    assert kept == ["history.parquet.kept-1"]
    assert (target / "history.parquet").read_text() == "new"
    assert (target / "history.parquet.kept-1" / "mine").read_text() == "x"


def test_the_input_inside_the_folder_is_refused(shortlist: Command, clicks: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert shortlist("train", clicks, *KNN, "--out", out).code == 0
    (out / "clicks.csv").write_bytes(clicks.read_bytes())
    for given in (out / "clicks.csv", out / "history.parquet", out, out / ".." / "run" / "clicks.csv"):
        answer = shortlist("train", given, *KNN, "--out", out, "--overwrite")
        says(answer, 2, "expected a folder apart from the data")
    assert (out / "clicks.csv").read_bytes() == clicks.read_bytes()


@pytest.mark.parametrize("model", ["mf", "popularity"])
def test_files_put_into_the_folder_during_training_survive(
    shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    from shortlist.experiment import experiment

    out, real = tmp_path / "run", experiment.evaluate_task

    def meanwhile(*values, **named):  # type: ignore[no-untyped-def]
        (out / "notes.txt").write_text("mine")
        return real(*values, **named)

    monkeypatch.setattr(experiment, "evaluate_task", meanwhile)
    options = ["--set", "training.epochs=2", "--set", "training.beat_popularity=false"] if model == "mf" else []
    answer = shortlist("train", clicks, "--model", model, *options, "--out", out)
    assert answer.code == 0, answer
    assert (out / "notes.txt").read_text() == "mine"
    assert "notes.txt" in answer.err
    open_run(out)


@pytest.mark.parametrize("step", range(1, 9))
def test_a_kill_during_the_replacement_loses_no_file(tmp_path: Path, step: int) -> None:
    target = tmp_path / "run"
    config = json.dumps({"format": 1, "model": {}, "protocol": ""})
    with new_folder(target) as draft:
        (draft / "config.json").write_text(config)
        (draft / "metrics.json").write_text("{}")
    for name in ("a", "b"):
        (target / name).write_text(name)
    program = f"""
import os, signal, shutil
from pathlib import Path
from shortlist.runs import folder as module
left = {step}
def count(real):
    def step(*args, **kwargs):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return step
Path.rename, shutil.rmtree, module._exchange = map(count, (Path.rename, shutil.rmtree, module._exchange))
with module.new_folder(Path({str(target)!r}), overwrite=True) as draft:
    (draft / "config.json").write_text({config!r})
    (draft / "metrics.json").write_text("{{}}")
"""
    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": SOURCE}, check=False)
    with new_folder(target, overwrite=True) as draft:
        (draft / "config.json").write_text(config)
    assert {name: (target / name).read_text() for name in ("a", "b")} == {"a": "a", "b": "b"}
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_tune_overwrite_keeps_other_files_of_the_study(shortlist: Command, clicks: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    out, study = tmp_path / "run", tmp_path / "run.study"
    arguments = ["train", clicks, "--model", "item_knn", "--tune", "1s", "--out", out]
    assert shortlist(*arguments).code == 0
    (study / "thesis.tex").write_text("mine")
    assert shortlist(*arguments, "--overwrite").code == 0
    assert (study / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize("place", ["run", "run/boards"])
def test_a_log_inside_the_run_is_refused_before_fitting(
    shortlist: Command, clicks: Path, tmp_path: Path, place: str
) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "run"
    answer = shortlist("train", clicks, *KNN, "--out", out, "--log", f"tensorboard={tmp_path / place}")
    says(answer, 2, "--log tensorboard: expected a place outside the run folder")
    assert not out.exists()


def test_two_baselines_with_one_folder_are_locked(shortlist: Command, clicks: Path, tmp_path: Path) -> None:
    from shortlist.runs.folder import lock

    out = tmp_path / "run"
    with lock(out):
        says(shortlist("train", clicks, *KNN, "--out", out), 2, "expected a run that nobody trains")
