"""What the displays of a classifier's scores share: checked rows, and `from_estimator`, `from_predictions` and `plot`.

A display says how it is computed from checked rows, how it is drawn, and which options
of its own it takes. Its three methods get their signatures and help from these options,
as scikit-learn's `set_fit_request` gets its own from the parameters of `fit`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from .._input.scores import finite_vector
from .._util.typing import Array, Mask, MatrixLike
from ..operating.responses import own_threshold, respond
from .axes import Style, check_matplotlib, get_axes

if TYPE_CHECKING:
    from typing import Self

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["REQUIRED", "ROWS", "Option", "ProbabilityDisplay", "ScoreDisplay", "ScoreSource", "ScoredRows", "of_class"]


REQUIRED = inspect.Parameter.empty
ROWS = "array-like of shape (n_samples,)"
_ROUNDING = 1e-6  # how far a float32 model's probabilities may leave [0, 1]


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
_LABELS_FIELD = """\
    labels : tuple or None, default=None
        The labels (negative, positive).
"""


class ScoreSource(NamedTuple):
    """Scores by their names in error messages, and what an estimator adds to them."""

    scores: Mapping[str, ArrayLike]
    pos_label: object = None
    method: str | None = None
    threshold: float | None = None  # the estimator's own
    unadjusted: float | None = None  # where the machine in a ZAdjustedClassifier cuts
    unit: str | None = None  # for the label of the axis


class ScoreDisplay:
    """A figure of the scores of labelled rows; its subclasses are dataclasses whose last field is `name`."""

    name: str | None

    _subject: ClassVar[str] = "the scores"  # what is drawn, for the help
    _artist: ClassVar[str] = "For the curve, as in matplotlib's `plot`."
    _estimator: ClassVar[str] = "fitted classifier"
    _is_curve: ClassVar[bool] = True  # named in the legend, after the estimator if it has no other name
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
        def from_estimator(cls, *args: object, **kwargs: object) -> Self: ...

        @classmethod
        def from_predictions(cls, *args: object, **kwargs: object) -> Self: ...

        def plot(self, ax: Axes | None = None, *, name: str | None = None, **kwargs: object) -> Self: ...

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = _with_shared_fields(cls)
        for name in ("from_estimator", "from_predictions", "plot"):
            method = _method(cls, name)
            setattr(cls, name, method if name == "plot" else classmethod(method))

    @classmethod
    def _source(
        cls, estimator: BaseEstimator, X: MatrixLike, *, pos_label: object, response_method: str = "predict_proba"
    ) -> ScoreSource:
        """The scores that the estimator gives."""
        scores, pos_label, method = respond(estimator, X, response_method, pos_label, "the display")
        threshold = own_threshold(estimator, method, pos_label)
        return ScoreSource(dict.fromkeys(cls._scores, scores), pos_label, method, threshold)

    @classmethod
    def _given(cls, scores: dict[str, Any], pos_label: object) -> ScoreSource:
        """The scores that the user gives."""
        return ScoreSource(scores, pos_label)

    @classmethod
    def _compute(cls, rows: ScoredRows, source: ScoreSource) -> Self:
        """A display of these rows; a subclass takes its options by name."""
        raise NotImplementedError

    def _draw(self, name: str | None, style: Style) -> None:
        """Draw on `ax_`; a subclass takes its plot options by name."""
        raise NotImplementedError

    @classmethod
    def _new(cls, given: dict[str, Any]) -> Self:
        """The display for the arguments of `from_estimator` or `from_predictions`, drawn."""
        check_matplotlib()

        def some(names: Iterable[str]) -> dict[str, Any]:
            return {name: given[name] for name in names}

        name = given["name"]
        if "estimator" in given:
            source = cls._source(given["estimator"], given["X"], **some(cls._asked))
            if name is None and cls._is_curve:
                name = type(given["estimator"]).__name__
        else:
            source = cls._given(some([*cls._scores, *cls._parts]), given["pos_label"])
        y = given["y" if "estimator" in given else "y_true"]
        rows = label_rows(y, source, given["sample_weight"], probabilities="y_prob" in cls._scores)
        display = cls._compute(rows, source, **some(cls._options))
        display.name = name
        return display._plot(given | {"name": name})

    def _plot(self, given: dict[str, Any]) -> Self:
        """Draw with the arguments of `plot`."""
        self.ax_ = get_axes(given["ax"])
        self.figure_ = self.ax_.figure
        name = self.name if given["name"] is None else given["name"]
        self._draw(name, given["kwargs"], **{key: given[key] for key in self._plot_options})
        return self


# --- signatures and help ---


def _parameters(cls: type[ScoreDisplay], name: str) -> dict[str, Option]:
    """The parameters of a method, in order."""
    text = cls._name_text
    if name == "plot":
        ax = _AX._replace(text=_AX.text + " Several displays may share them." * cls._is_curve)
        return {"ax": ax, "name": Option(None, "str", f"{text} `self.name` if None."), **cls._plot_options}
    if name == "from_predictions":
        first = {"y_true": Option(REQUIRED, ROWS), **cls._scores, **cls._parts, **cls._options}
        asked = {"pos_label": _LABEL._replace(text="The positive class; the label 1 if None.")}
    else:
        first = {
            "estimator": Option(REQUIRED, cls._estimator),
            "X": Option(REQUIRED, "array-like or sparse matrix of shape (n_samples, n_features)"),
            "y": Option(REQUIRED, ROWS),
        }
        for key, option in cls._options.items():
            first[key] = option if option.of_estimator is None else option._replace(default=option.of_estimator)
        asked, text = cls._asked, text + " The estimator's class if None." * cls._is_curve
    last = {"name": Option(None, "str", text), "ax": _AX, **cls._plot_options}
    return {**first, "sample_weight": _WEIGHT, **asked, **last}


def _method(cls: type[ScoreDisplay], name: str) -> Callable[..., object]:
    """A method with the parameters and the help of this display; `_new` or `_plot` does the work."""
    options, kind = _parameters(cls, name), inspect.Parameter
    by_place = {"plot": 1, "from_estimator": 3, "from_predictions": 1 + len(cls._scores)}[name]
    parameters = [kind("self" if name == "plot" else "cls", kind.POSITIONAL_OR_KEYWORD)]
    for place, (key, option) in enumerate(options.items()):
        how = kind.POSITIONAL_OR_KEYWORD if place < by_place else kind.KEYWORD_ONLY
        parameters.append(kind(key, how, default=option.default))
    signature = inspect.Signature([*parameters, kind("kwargs", kind.VAR_KEYWORD)])

    def method(*args: object, **kwargs: object) -> object:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return getattr(given.args[0], "_plot" if name == "plot" else "_new")(given.arguments)

    method.__name__, method.__qualname__, method.__module__ = name, f"{cls.__name__}.{name}", cls.__module__
    method.__signature__ = signature  # type: ignore[attr-defined]  # which `inspect` reads
    of = {"plot": "", "from_estimator": " of a fitted classifier on (X, y)", "from_predictions": " of given scores"}
    lines = [f"Draw {cls._subject}{of[name]}.", "", "Parameters", "----------"]
    for key, (default, type_, text, _) in options.items():
        lines.append(f"{key} : {type_}" + ("" if default is REQUIRED else f", default={default!r}"))
        lines += [f"    {line}" for line in text.splitlines()]
    lines += ["**kwargs : dict", f"    {cls._artist}", "", "Returns", "-------", cls.__name__]
    method.__doc__ = "\n".join(lines)
    return method


def _with_shared_fields(cls: type[ScoreDisplay]) -> str | None:
    """The help of a class, with the fields and attributes that all displays have."""
    fields = f"    name : str or None, default=None\n        {cls._name_text}\n"
    if "labels" in cls.__annotations__ and "labels : " not in (cls.__doc__ or ""):
        fields = _LABELS_FIELD + fields
    attributes = "    ax_ : matplotlib Axes\n    figure_ : matplotlib Figure\n"
    heading = "\n    Attributes\n    ----------\n"
    return cls.__doc__ and cls.__doc__.replace(heading, fields + heading + attributes, 1)


# --- probabilities ---


class ProbabilityDisplay(ScoreDisplay):
    """A figure of the probabilities of labelled rows."""

    _estimator = "fitted classifier with `predict_proba`"
    _scores = {"y_prob": Option(REQUIRED, ROWS, "Probabilities of the positive class.")}
    _asked = {"pos_label": _LABEL}


def of_class(labels: tuple[object, object] | None) -> str:
    """The positive class for the label of an axis."""
    return "" if labels is None else f" of class {labels[1]}"


# --- rows ---


class ScoredRows(NamedTuple):
    """Rows of weight above 0: which are positive, their weights and scores, and the labels (negative, positive)."""

    positive: Mask
    weight: Array
    scores: list[Array]
    labels: tuple[object, object]


def label_rows(
    y_true: ArrayLike, source: ScoreSource, sample_weight: ArrayLike | None, probabilities: bool
) -> ScoredRows:
    """Check labels, weights and scores; with `probabilities`, scores must be in [0, 1]."""
    y = np.asarray(y_true)
    y = y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1 or y.size == 0:
        raise ValueError(f"y_true has shape {y.shape}; it must hold one label for each row.")
    parts = {name: _numbers(part, name, y.size) for name, part in source.scores.items()}
    weight = np.ones(y.size) if sample_weight is None else _numbers(sample_weight, "sample_weight", y.size)
    if (weight < 0).any():
        raise ValueError("sample_weight must not be below 0.")
    if probabilities:
        parts = {name: _probabilities(part, name) for name, part in parts.items()}
    keep = weight > 0
    labels = _two_labels(y[keep], source.pos_label)
    return ScoredRows((y == labels[1])[keep], weight[keep], [part[keep] for part in parts.values()], labels)


def _numbers(values: ArrayLike, name: str, n: int) -> Array:
    array = np.asarray(values)
    array = array.ravel() if array.ndim == 2 and array.shape[1] == 1 else array
    if array.shape != (n,):
        advice = ": give the column of the positive class" if array.shape == (n, 2) else ""
        raise ValueError(
            f"{name} has shape {array.shape}; it must hold one number for each of the {n} rows of y_true{advice}."
        )
    return finite_vector(array, name)


def _probabilities(part: Array, name: str) -> Array:
    if part.min() < -_ROUNDING or part.max() > 1.0 + _ROUNDING:
        raise ValueError(
            f"{name} must hold probabilities from 0 to 1, not numbers from {part.min():.3g} to {part.max():.3g}: "
            "calibrate scores first, for example with sklearn.calibration.CalibratedClassifierCV."
        )
    return part.clip(0.0, 1.0)


def _two_labels(y: NDArray[np.generic], pos_label: object) -> tuple[object, object]:
    """(negative, positive); if `pos_label` is None, the label 1 is positive."""
    try:
        found = np.unique(y).tolist()
    except TypeError as error:
        raise ValueError(f"The labels in y_true must be of one type, none of them missing ({error}).") from None
    if len(found) != 2:
        raise ValueError(f"y_true must hold two classes with a weight above 0, but it holds {len(found)}: {found[:5]}.")
    if pos_label is None:
        if found not in ([0, 1], [-1, 1]):
            raise ValueError(f"y_true holds {found[0]!r} and {found[1]!r}: say which is positive with pos_label.")
        pos_label = found[1]
    elif pos_label not in found:
        raise ValueError(f"pos_label={pos_label!r} is not in y_true, which holds {found[0]!r} and {found[1]!r}.")
    return found[1 - found.index(pos_label)], found[found.index(pos_label)]
