"""Two toy tasks, each one new file, are trained, evaluated, saved, opened and resumed by the unchanged core."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import ndcg_score

import shortlist as sl
from shortlist.errors import InputError, Interrupted
from shortlist.experiment import Callbacks, ExperimentResult, fit, plan
from shortlist.models import MF, TrainableModel
from shortlist.runs import evaluate_task, open_run
from shortlist.tasks import Task
from shortlist.training import Progress
from tasks.toy_next_item import ToyNextItem
from tasks.toy_ranker import Judged, ToyRanking

CONFIG = {"data": {"source": "toy"}, "protocol": "shortlist", "seed": 0}


def cycles(n_sequences: int = 60, n_items: int = 20, length: int = 8) -> ToyNextItem:
    """Each sequence steps through the items by 1 from a random start; now and then it repeats an item."""
    rng = np.random.default_rng(0)
    sequences = []
    for start in rng.integers(n_items, size=n_sequences):
        steps = rng.choice([0, 1], p=[0.1, 0.9], size=length)
        sequences.append(((start + np.cumsum(steps)) % n_items).tolist())
    return ToyNextItem(sequences, n_items)


def judged(n_queries: int, seed: int, weight_F: np.ndarray[Any, Any]) -> Judged:
    """Lists of 3 to 9 documents whose grades, 0 to 4, follow a linear score; some queries have no relevant one."""
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=(rng.integers(3, 10), len(weight_F))).astype(np.float32) for _ in range(n_queries)]
    grades = [np.clip(np.round(each @ weight_F + 1), 0, 4).tolist() for each in features]
    return Judged(features, [[0.0] * len(each) if query % 10 == 0 else each for query, each in enumerate(grades)])


def graded() -> ToyRanking:
    weight_F = np.array([-0.8, 0.5, 1.0, 0.0])
    return ToyRanking({name: judged(60, seed, weight_F) for seed, name in enumerate(("train", "valid", "test"))})


def fitted(
    task: Task, model: str, loss: str, out: Path | None = None, *, resume: bool = False, **training: Any
) -> ExperimentResult:
    values = {"training": {"epochs": 12, "batch": 32, "validate_every": 4, "checkpoint_every": 0.0, **training}}
    values["optimizer"] = {"lr": 0.05}
    return fit(plan(model, loss, k=5, values=values), task, out, config=CONFIG, resume=resume)


TASKS = {
    "next item": (cycles, "toy_mean_of_history", ("sl", "slatk", "bpr", "sogclr", "song", "croloss", "ndcg_loss2")),
    "ranking": (graded, "toy_linear_ranker", ("listnet", "lambdarank", "ranknet", "sl", "slatk", "neural_ndcg", "bce")),
}
CASES = [(name, loss) for name, (_, _, losses) in TASKS.items() for loss in losses]


@pytest.mark.parametrize(("name", "loss"), CASES)
def test_training_beats_the_untrained_model(name: str, loss: str) -> None:
    make, model, _ = TASKS[name]
    task = make()
    untrained = plan(model, loss, k=5).model
    assert isinstance(untrained, TrainableModel)
    untrained.initialize(task.train, torch.Generator().manual_seed(0))
    before = evaluate_task(untrained, task, ks=[5]).test
    assert before is not None
    trained = fitted(task, model, loss).fitted.metrics["test"]["ndcg@5"]
    assert trained > before.means()["ndcg@5"] + 0.2


@pytest.mark.parametrize("name", TASKS)
def test_a_run_is_saved_and_opened_with_the_same_metrics(name: str, tmp_path: Path) -> None:
    make, model, losses = TASKS[name]
    result = fitted(make(), model, losses[0], tmp_path / "run")
    opened = open_run(tmp_path / "run")
    assert opened.config["task"] == opened.task.name
    for key, tensor in result.fitted.model.state().items():
        assert torch.equal(opened.model.state()[key], tensor)
    again = evaluate_task(opened.model, opened.task)
    assert again.test is not None
    assert again.test.means()["ndcg@5"] == opened.metrics["test"]["ndcg@5"]
    card = (tmp_path / "run" / "model_card.md").read_text()
    assert all(f"- {line}\n" in card for line in make().summary())


@pytest.mark.parametrize("name", TASKS)
def test_an_interrupted_run_resumes_to_the_same_bits(name: str, tmp_path: Path) -> None:
    make, model, losses = TASKS[name]
    whole = fitted(make(), model, losses[1], tmp_path / "whole").fitted.model.state()

    def interrupt(progress: Progress, share: float) -> None:
        if progress.epoch == 5 and share == 0.0:
            raise KeyboardInterrupt

    values = {"training": {"epochs": 12, "batch": 32, "validate_every": 4, "checkpoint_every": 0.0}}
    chosen = plan(model, losses[1], k=5, values={**values, "optimizer": {"lr": 0.05}})
    with pytest.raises(Interrupted):
        fit(chosen, make(), tmp_path / "part", config=CONFIG, callbacks=Callbacks(epoch=interrupt))
    resumed = fitted(make(), model, losses[1], tmp_path / "part", resume=True).fitted.model.state()
    assert all(torch.equal(resumed[key], whole[key]) for key in whole)


def test_graded_ndcg_of_the_ranker_agrees_with_scikit_learn() -> None:
    task = graded()
    result = fitted(task, "toy_linear_ranker", "lambdarank").fitted
    asked = task.evaluation_set("test")
    scores = result.model.score(asked.queries)
    expected = []
    for row, query in enumerate(asked.queries_R):
        grades = np.array(task.parts["test"].grades[query])
        expected.append(ndcg_score([2**grades - 1], [scores[row, : len(grades)].numpy()], k=5))
    np.testing.assert_allclose(result.per_user["ndcg@5"].to_numpy(), expected, rtol=1e-9)


def test_a_run_of_another_task_has_no_users() -> None:
    with pytest.raises(InputError, match="expected a model of users and items, received one of the task toy_ranking"):
        _ = fitted(graded(), "toy_linear_ranker", "listnet").fitted.split


def test_a_model_of_another_task_is_refused() -> None:
    with pytest.raises(InputError, match="MF: expected data of the task collaborative, received data of toy_ranking"):
        MF().fit(graded())


def test_the_front_door_serves_other_tasks(tmp_path: Path) -> None:
    """Metrics, comparison, saving and opening; lists by ids are of users and items alone."""
    options = {"training.epochs": 6, "optimizer.lr": 0.05}
    first = sl.fit(graded(), "toy_linear_ranker", "listnet", k=5, settings=options)
    second = sl.fit(graded(), "toy_linear_ranker", "lambdarank", k=5, settings=options)
    assert repr(first.evaluate()).endswith("53 queries)")
    assert sl.compare(first, second, metric="ndcg@5").comparison.users == first.evaluate().n_users
    opened = first.save(tmp_path / "run")
    assert opened.evaluate()["ndcg@5"] == first.evaluate()["ndcg@5"]
    other = sl.fit(cycles(), "toy_mean_of_history", "sl", k=5, settings=options)
    with pytest.raises(InputError, match="expected the same test part, received other data"):
        sl.compare(first, other)
