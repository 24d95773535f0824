"""What the displays of a classifier's scores share: `from_estimator`, `from_predictions` and `plot`, written once.

A display says how it is computed from checked rows, how it is drawn, and which options
of its own it takes. Its three methods get their signatures and help from these options,
as scikit-learn's `set_fit_request` gets its own from the parameters of `fit`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._util.typing import MatrixLike
from ..operating.responses import own_threshold, respond
from ._axes import check_matplotlib, get_axes
from ._rows import ScoredRows, label_rows

if TYPE_CHECKING:
    from typing import Self

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["REQUIRED", "ROWS", "Option", "ProbabilityDisplay", "ScoreDisplay", "ScoreSource", "of_class"]


REQUIRED = inspect.Parameter.empty
ROWS = "array-like of shape (n_samples,)"


class Option(NamedTuple):
    """A parameter of a display: its default, its type and meaning for the help, its default in `from_estimator`."""

    default: object
    kind: str
    text: str = ""
    of_estimator: object = None


_AX = Option(None, "matplotlib Axes", "Where to draw; on a new figure if None.")
_WEIGHT = Option(None, ROWS)
_LABEL = Option(None, "label", "The positive class; `classes_[1]` if None.")
_METHOD = Option(
    "auto", "{'auto', 'predict_proba', 'decision_function'}", "'auto' takes `predict_proba` if there is one."
)


class ScoreSource(NamedTuple):
    """Scores by the names that messages call them, and what an estimator says of them."""

    scores: Mapping[str, Any]
    pos_label: object = None
    method: str | None = None
    threshold: float | None = None  # the estimator's own
    unadjusted: float | None = None  # where the machine in a ZAdjustedClassifier cuts
    unit: str | None = None  # for the label of the axis


class ScoreDisplay:
    """A figure of the scores of labelled rows; its subclasses are dataclasses that end with `name`."""

    name: str | None

    _subject: ClassVar[str] = "the scores"  # what is drawn, for the help
    _artist: ClassVar[str] = "For the curve, as in matplotlib's `plot`."
    _estimator: ClassVar[str] = "fitted classifier"
    _is_curve: ClassVar[bool] = True  # named in the legend, after the estimator if it has no other name
    _shares_axes: ClassVar[bool] = True
    _name_text: ClassVar[str] = "For the legend."
    _scores: ClassVar[dict[str, Option]] = {
        "y_score": Option(REQUIRED, ROWS, "Higher for the positive class; rows above a threshold are positive.")
    }
    _parts: ClassVar[dict[str, Option]] = {}  # more scores, by keyword
    _asked: ClassVar[dict[str, Option]] = {"response_method": _METHOD, "pos_label": _LABEL}  # for `_source`
    _options: ClassVar[dict[str, Option]] = {}  # for `_compute`
    _plot_options: ClassVar[dict[str, Option]] = {}  # for `_draw`

    if TYPE_CHECKING:
        ax_: Axes
        figure_: Figure | SubFigure

        @classmethod
        def from_estimator(cls, *args: Any, **kwargs: Any) -> Self: ...

        @classmethod
        def from_predictions(cls, *args: Any, **kwargs: Any) -> Self: ...

        def plot(self, ax: Axes | None = None, *, name: str | None = None, **kwargs: Any) -> Self: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("from_estimator", "from_predictions"):
            setattr(cls, name, classmethod(_method(cls, name)))
        cls.plot = _method(cls, "plot")  # type: ignore[method-assign]  # declared for type checkers

    @classmethod
    def _source(
        cls, estimator: BaseEstimator, X: MatrixLike, *, pos_label: object, response_method: str = "predict_proba"
    ) -> ScoreSource:
        """The scores that the estimator gives."""
        scores, pos_label, method = respond(estimator, X, response_method, pos_label, "the display")
        threshold = own_threshold(estimator, method, pos_label)
        return ScoreSource(dict.fromkeys(cls._scores, scores), pos_label, method, threshold)

    @classmethod
    def _given(cls, pos_label: object, **scores: ArrayLike | None) -> ScoreSource:
        """The scores that the user gives."""
        return ScoreSource(scores, pos_label)

    @classmethod
    def _from_estimator(
        cls, estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, *, sample_weight: ArrayLike | None,
        name: str | None, ax: Axes | None, **options: Any,
    ) -> Self:  # fmt: skip
        check_matplotlib()
        if name is None and cls._is_curve:
            name = type(estimator).__name__
        source = cls._source(estimator, X, **{key: options.pop(key) for key in cls._asked})
        return cls._draw_new(source, y, sample_weight, name, ax, options)

    @classmethod
    def _from_predictions(
        cls, y_true: ArrayLike, *scores: ArrayLike, sample_weight: ArrayLike | None, pos_label: object,
        name: str | None, ax: Axes | None, **options: Any,
    ) -> Self:  # fmt: skip
        check_matplotlib()
        parts = {key: options.pop(key) for key in cls._parts}
        source = cls._given(pos_label, **dict(zip(cls._scores, scores, strict=True)), **parts)
        return cls._draw_new(source, y_true, sample_weight, name, ax, options)

    @classmethod
    def _draw_new(
        cls, source: ScoreSource, y: ArrayLike, sample_weight: ArrayLike | None, name: str | None, ax: Axes | None,
        options: dict[str, Any],
    ) -> Self:  # fmt: skip
        rows = label_rows(y, source.pos_label, sample_weight, unit="y_prob" in cls._scores, **source.scores)
        display = cls._compute(rows, source, **{key: options.pop(key) for key in cls._options})
        display.name = name
        return display.plot(ax, **options)

    def _plot(self, ax: Axes | None, *, name: str | None, **kwargs: Any) -> Self:
        self.ax_ = get_axes(ax)
        self.figure_ = self.ax_.figure
        self._draw(self.name if name is None else name, **kwargs)
        return self

    @classmethod
    def _compute(cls, rows: ScoredRows, source: ScoreSource) -> Self:
        """A display of these rows; a subclass takes its options by name."""
        raise NotImplementedError

    def _draw(self, name: str | None, **kwargs: Any) -> None:
        """Draw on `ax_`; a subclass takes its plot options by name."""
        raise NotImplementedError


def of_class(labels: tuple[object, object] | None) -> str:
    """The positive class for the label of an axis."""
    return "" if labels is None else f" of class {labels[1]}"


# --- their signatures and help ---


def _parameters(cls: type[ScoreDisplay], name: str) -> tuple[dict[str, Option], dict[str, Option]]:
    """The parameters of a method that may be given by position, and those by keyword only."""
    called = Option(None, "str", cls._name_text)
    if name == "plot":
        ax = _AX._replace(text=_AX.text + " Several displays may share them." * cls._shares_axes)
        return {"ax": ax}, {"name": called._replace(text=called.text + " `self.name` if None."), **cls._plot_options}
    last = {"name": called, "ax": _AX, **cls._plot_options}
    if name == "from_predictions":
        label = _LABEL._replace(text="The positive class; the label 1 if None.")
        rows = {"y_true": Option(REQUIRED, ROWS), **cls._scores}
        return rows, {**cls._parts, **cls._options, "sample_weight": _WEIGHT, "pos_label": label, **last}
    given = {
        "estimator": Option(REQUIRED, cls._estimator),
        "X": Option(REQUIRED, "array-like or sparse matrix of shape (n_samples, n_features)"),
        "y": Option(REQUIRED, ROWS),
    }
    options: dict[str, Option] = {
        key: option if option.of_estimator is None else option._replace(default=option.of_estimator)
        for key, option in [*cls._asked.items(), *cls._options.items(), ("sample_weight", _WEIGHT)]
    }
    late: dict[str, Option] = {key: options.pop(key) for key in ("response_method", "pos_label") if key in options}
    if cls._is_curve:
        last["name"] = called._replace(text=called.text + " The estimator's class if None.")
    return given, {**options, **late, **last}


def _method(cls: type[ScoreDisplay], name: str) -> Any:
    """A method with the parameters of this display and help on them; the private method of that name does the work."""
    first, then = _parameters(cls, name)
    owner = "self" if name == "plot" else "cls"
    signature = inspect.Signature([
        inspect.Parameter(owner, inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *(inspect.Parameter(k, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=v.default) for k, v in first.items()),
        *(inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=v.default) for k, v in then.items()),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ])  # fmt: skip

    def method(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return getattr(given.args[0], f"_{name}")(*given.args[1:], **given.kwargs)

    method.__name__, method.__qualname__, method.__module__ = name, f"{cls.__name__}.{name}", cls.__module__
    method.__signature__ = signature  # type: ignore[attr-defined]  # which `inspect` reads
    of = {
        "plot": "", "from_estimator": " of a fitted classifier on (X, y)", "from_predictions": " of given scores",
    }[name]  # fmt: skip
    method.__doc__ = _help(f"Draw {cls._subject}{of}.", {**first, **then}, cls._artist, cls.__name__)
    return method


def _help(summary: str, options: dict[str, Option], artist: str, returned: str) -> str:
    lines = [summary, "", "Parameters", "----------"]
    for name, (default, kind, text, _) in options.items():
        lines.append(f"{name} : {kind}" + ("" if default is REQUIRED else f", default={default!r}"))
        lines += [f"    {line}" for line in text.splitlines()]
    return "\n".join([*lines, "**kwargs : dict", f"    {artist}", "", "Returns", "-------", returned])


class ProbabilityDisplay(ScoreDisplay):
    """A figure of the probabilities of labelled rows."""

    _estimator = "fitted classifier with `predict_proba`"
    _scores = {"y_prob": Option(REQUIRED, ROWS, "Probabilities of the positive class.")}
    _asked = {"pos_label": _LABEL}
