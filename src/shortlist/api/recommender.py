"""A fitted recommender: lists, similar items, metrics, a report, and a run folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from shortlist.api.html import html_table
from shortlist.api.measuring import Metrics, metrics_of
from shortlist.data import Split
from shortlist.data.frames import from_polars
from shortlist.errors import InputError
from shortlist.models import Model
from shortlist.recommend import recommend, recommend_to, similar
from shortlist.recommend.recommend import ColumnNames, FilterSeen, IdList, UnknownUsers
from shortlist.runs import Fitted, FittedModel, Run, copy_run, evaluate_task, open_run, write_run
from shortlist.tasks import Part, Task


class Recommender:
    """A model with the data that it was fitted on, from :func:`shortlist.fit` or :func:`shortlist.open`.

    Users and items are identified by their ids in the data. Frames are returned in the library of the data (pandas,
    polars, Arrow).
    """

    def __init__(self, fitted: FittedModel) -> None:
        self.fitted = fitted

    @property
    def model(self) -> Model:
        """The fitted model."""
        return self.fitted.model

    @property
    def task(self) -> Task:
        """The data, with the rules of its task."""
        return self.fitted.task

    @property
    def split(self) -> Split:
        """The interactions that the model was fitted and evaluated on."""
        return self.fitted.split

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration: model, loss, settings, data, seed."""
        return self.fitted.config

    @property
    def name(self) -> str:
        """The model, and the loss if there is one."""
        return " with ".join(self.config[part]["name"] for part in ("model", "loss") if part in self.config)

    def evaluate(self, ks: Sequence[int] | None = None, *, part: Part = "test", pairwise: bool = False) -> Metrics:
        """Metrics on the test part, or on ``valid``: ``rec.evaluate()["ndcg@20"]``.

        The evaluation of the fit is reused, unless ``ks`` or ``pairwise`` are given.
        """
        found = self.fitted.evaluations if isinstance(self.fitted, Fitted) and ks is None and not pairwise else None
        if found is None:
            self.fitted.check_measurable("evaluate")
            ks = self._measured_ks() if ks is None else ks
            found = evaluate_task(self.model, self.task, ks=ks, pairwise=pairwise)
        return metrics_of(found.test if part == "test" else found.valid, found.beyond_accuracy, self.task, part)

    def _measured_ks(self) -> list[int] | None:
        names = self.fitted.metrics["test"] or self.fitted.metrics["valid"]
        return sorted({int(k) for name in names if (k := name.partition("@")[2]).isdecimal()}) or None

    def recommend(
        self,
        users: IdList | str | int | None = None,
        k: int = 20,
        *,
        history: IdList | None = None,
        only: IdList | None = None,
        exclude: IdList | None = None,
        filter_seen: FilterSeen = True,
        unknown_users: UnknownUsers = "error",
        strict: bool = True,
        columns: ColumnNames = "standard",
    ) -> Any:
        """The K best items of the given users, of all users, or of a user given by a ``history`` of items.

        A frame of ``user_id`` (not with a history), ``item_id``, ``rank`` from 1 and ``score``. Lists leave out every
        known item of the user (train, validation and test), or those of the history. ``filter_seen="measured"`` gives
        the lists that were measured, which may hold items of test; ``False`` leaves nothing out. ``only`` and
        ``exclude`` are items. Users who were not in training are an error, get the most popular items
        (``unknown_users="popular"``) or no list (``"skip"``). Unknown items of ``only``, ``exclude`` and ``history``
        are an error, or skipped with ``strict=False``. ``columns="data"`` names the columns of users and items as in
        the data.
        """
        options: dict[str, Any] = {"only": only, "exclude": exclude, "filter_seen": filter_seen}
        options |= {"strict": strict, "columns": columns}
        if history is not None:
            if users is not None:
                raise InputError("recommend: expected users or a history, received both")
            lists = recommend_to(self.fitted, _as_list(history), k, **options)
        else:
            asked = None if users is None else _as_list(users)
            lists = recommend(self.fitted, asked, k, unknown_users=unknown_users, **options)
        return self._in_frame_library(lists)

    def similar(
        self, items: IdList | str | int, k: int = 20, *, only: IdList | None = None, exclude: IdList | None = None
    ) -> Any:
        """The K most similar items of each given item: ``item_id``, ``similar_id``, ``rank`` and ``score``."""
        return self._in_frame_library(similar(self.fitted, _as_list(items), k, only=only, exclude=exclude))

    def report(self, path: str | Path | None = None, *, titles: Mapping[Any, str] | None = None, seed: int = 0) -> Page:
        """A page with metrics, learning curves, scores, gradients and example lists; written to ``path`` if given.

        ``titles`` maps item ids to display names. Needs the extra ``shortlist[report]``.
        """
        self.fitted.check_measurable("report")
        from shortlist.report import render
        from shortlist.report.run import run_page

        names = {str(item): title for item, title in (titles or {}).items()}
        if isinstance(self.fitted, Run):
            content = render(run_page(self.fitted, names, seed=seed))
        else:
            with tempfile.TemporaryDirectory() as folder:
                content = render(run_page(self.save(Path(folder) / "run").fitted_run(), names, seed=seed))
        return Page(content, path)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Recommender:
        """Write a run folder, atomically, and return the recommender that reads from it."""
        if isinstance(self.fitted, Run):
            return Recommender(copy_run(self.fitted, folder, overwrite=overwrite))
        assert isinstance(self.fitted, Fitted)
        return Recommender(write_run(folder, self.fitted, overwrite=overwrite))

    def fitted_run(self) -> Run:
        """The run that the recommender reads from."""
        if not isinstance(self.fitted, Run):
            raise InputError("expected a saved recommender, received one in memory; save it first")
        return self.fitted

    def _in_frame_library(self, table: pl.DataFrame) -> Any:
        return from_polars(table, self.split.frame_library)

    def __repr__(self) -> str:
        place = f" ({self.fitted.folder})" if isinstance(self.fitted, Run) else ""
        return f"Recommender({self.name}{place}; {'; '.join(self.task.summary())})"

    def _repr_html_(self) -> str:
        test, valid = self.fitted.metrics["test"], self.fitted.metrics["valid"]
        k = self.config.get("k", 20)
        names = [name for name in (test or valid) if name.split("@")[-1] == str(k) and not name.startswith("pair")]
        rows = [(name, _number(test.get(name)), _number(valid.get(name))) for name in names]
        return html_table(["metric", "test", "validation"], rows, f"{self.name}: {'; '.join(self.task.summary())}")


class Page:
    """An HTML page for notebooks and browsers."""

    def __init__(self, content: str, path: str | Path | None = None) -> None:
        self.content, self.path = content, None if path is None else Path(path)
        if self.path is not None:
            from shortlist.files import write_atomically, write_errors

            with write_errors(self.path):
                write_atomically(self.path, content.encode())

    def __repr__(self) -> str:
        return f"Page({len(self.content):,} characters{f', {self.path}' if self.path else ''})"

    def _repr_html_(self) -> str:
        from html import escape

        return f'<iframe srcdoc="{escape(self.content)}" style="width: 100%; height: 40em; border: 0"></iframe>'


def open_recommender(folder: str | Path) -> Recommender:
    """Open a run folder that :meth:`Recommender.save`, :func:`shortlist.fit` or the command wrote."""
    return Recommender(open_run(folder))


def _as_list(ids: IdList | str | int) -> IdList:
    """One id as a list of one; a series of any library as a list."""
    if isinstance(ids, str | int) or not hasattr(ids, "__len__"):
        return [ids]
    return ids if isinstance(ids, list | tuple | pl.Series) else list(ids)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
