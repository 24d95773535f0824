"""Curves over the number of rows and over parameters, and maps over two parameters of a finished search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import model_selection

from .._util.typing import Array
from ._axes import Style, check_matplotlib, get_axes, legend_above
from ._results import Results, SearchResults, as_numbers, score_title, value_key
from .colours import GREEN, GREY, POSITIVE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap

__all__ = ["HeatMapDisplay", "LearningCurveDisplay", "ValidationCurveDisplay"]


_LOG = 30.0  # values that span more than this factor are drawn on a logarithmic axis
_MANY = 120  # more cells than this have no numbers in them


def _restyle(display: LearningCurveDisplay | ValidationCurveDisplay, kwargs: Style) -> None:
    """Our colours, names and legend for scikit-learn's two curve displays, unless the user chose others."""
    names = {"Train": ("training", GREY), "Test": ("validation", GREEN)}
    of_line, of_band = set(kwargs.get("line_kw") or {}), set(kwargs.get("fill_between_kw") or {})
    lines = display.lines_ or []
    for line, band in zip(lines, display.fill_between_ or [None] * len(lines), strict=True):
        name, color = names.get(line.get_label(), (line.get_label(), line.get_color()))
        line.set_label(name)
        if not {"color", "c"} & of_line:
            line.set_color(color)
        if "marker" not in of_line:
            line.set(marker="o", markersize=3.5)
        if band is not None and not {"color", "facecolor", "fc", "alpha"} & of_band:
            band.set(facecolor=line.get_color(), edgecolor="none", alpha=0.16)
    display.ax_.set_ylabel(score_title(display.ax_.get_ylabel()))
    legend_above(display.ax_)


class LearningCurveDisplay(model_selection.LearningCurveDisplay):
    """Scores over the number of training rows: scikit-learn's display in the colours of this package.

    See Also
    --------
    sklearn.model_selection.LearningCurveDisplay : Parameters, attributes and `from_estimator`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.display import LearningCurveDisplay
    >>> X, y = make_classification(200, weights=[0.8], random_state=0)
    >>> display = LearningCurveDisplay.from_estimator(
    ...     LinearSVM(class_weight="balanced"), X, y, scoring="roc_auc", train_sizes=[0.5, 1.0]
    ... )
    >>> display.test_scores.shape
    (2, 5)
    """

    def plot(self, ax: Axes | None = None, **kwargs: object) -> LearningCurveDisplay:
        """Draw the curves, on a new figure if `ax` is None; other arguments are those of scikit-learn's `plot`."""
        super().plot(get_axes(ax), **kwargs)
        _restyle(self, kwargs)
        self.ax_.set_xlabel("Training rows")
        return self


class ValidationCurveDisplay(model_selection.ValidationCurveDisplay):
    """Scores over one parameter: scikit-learn's display, also for a finished search.

    A ring marks the best validation score. Values that are not numbers are evenly spaced.

    See Also
    --------
    sklearn.model_selection.ValidationCurveDisplay : Parameters, attributes and `from_estimator`.
    HeatMapDisplay : Two parameters at once.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.model_selection import GridSearchCV
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.display import ValidationCurveDisplay
    >>> X, y = make_classification(200, weights=[0.8], random_state=0)
    >>> grid = {"alpha": [1e-3, 1e-1, 10.0], "class_weight": [None, "balanced"]}
    >>> search = GridSearchCV(LinearSVM(), grid, scoring="roc_auc").fit(X, y)
    >>> display = ValidationCurveDisplay.from_cv_results(search, "alpha")
    >>> display.param_range
    array([1.e-03, 1.e-01, 1.e+01])
    >>> display.test_scores.shape
    (3, 5)
    """

    param_range: Any
    train_scores: Any
    test_scores: Any

    def plot(self, ax: Axes | None = None, **kwargs: object) -> ValidationCurveDisplay:
        """Draw the curves, on a new figure if `ax` is None; other arguments are those of scikit-learn's `plot`."""
        ax = get_axes(ax)
        if self.train_scores is None:
            kwargs = {**kwargs, "score_type": "test"}
        values, train = self.param_range, self.train_scores
        numbers = as_numbers(values)
        places = np.arange(len(values), dtype=np.float64) if numbers is None else numbers
        # scikit-learn's own plot needs numbers and scores of both kinds; the true values are restored below.
        self.param_range = places
        self.train_scores = np.full_like(self.test_scores, np.nan) if train is None else train
        try:
            super().plot(ax, **kwargs)
        finally:
            self.param_range, self.train_scores = values, train
        _restyle(self, kwargs)
        _scale(ax, numbers, values)
        self._ring(places, kwargs)
        return self

    def _ring(self, places: Array, kwargs: Style) -> None:
        """Mark the best validation score."""
        means = self.test_scores.mean(axis=1)
        self.best_ = None
        if not self.lines_ or kwargs.get("score_type", "both") == "train" or np.isnan(means).all():
            return
        best = int(np.nanargmax(means))
        height = -means[best] if kwargs.get("negate_score", False) else means[best]
        ring = {"markersize": 10, "markerfacecolor": "none", "markeredgewidth": 1.4}
        color = self.lines_[-1].get_color()
        (self.best_,) = self.ax_.plot(places[best], height, "o", markeredgecolor=color, **ring)

    @classmethod
    def from_cv_results(
        cls, search_or_results: Results, param: str, *, score: str | None = None,
        fixed: Mapping[str, object] | None = None, ax: Axes | None = None, **kwargs: object,
    ) -> ValidationCurveDisplay:  # fmt: skip
        """Draw one parameter of a finished search, the others at their best values.

        Parameters
        ----------
        search_or_results : fitted search, or dict or DataFrame of results
            An object with `cv_results_`, such as GridSearchCV, or these results.
        param : str
            Its name in the search.
        score : str, default=None
            Which score, if there are several; if None, the one that the search refits by, or the only one.
        fixed : dict, default=None
            Values of other parameters; the rest take those of the best candidate that has these.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            For `plot`.

        Returns
        -------
        ValidationCurveDisplay
            With a band of training scores if the search had ``return_train_score=True``.
        """
        check_matplotlib()
        results = SearchResults.of(search_or_results, score)
        order = results.along(param, dict(fixed or {}))
        values: Any = [results.candidates[k][param] for k in order]
        numbers = as_numbers(values)
        if numbers is not None:
            order, values = [order[k] for k in np.argsort(numbers)], np.sort(numbers)
        train = results.splits("train")
        display = cls(
            param_name=param,
            param_range=values,
            train_scores=None if train is None else train[order],
            test_scores=results.splits("test")[order],
            score_name=score_title(results.title, bool(kwargs.get("negate_score", False))),
        )
        return display.plot(ax, **kwargs)


@dataclass(eq=False, repr=False)
class HeatMapDisplay:
    """Scores of a finished search over two of its parameters, the best cell framed.

    Make one with `from_cv_results`.

    Parameters
    ----------
    x_values, y_values : list
        The parameters' values, ascending if they are numbers.
    scores : ndarray of shape (len(y_values), len(x_values))
        NaN for pairs of values that the search did not try.
    x_name, y_name : str
    score_name : str, default="Score"

    Attributes
    ----------
    best : tuple of two ints
        Row and column of the best cell.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    im_ : matplotlib AxesImage
    text_ : list of matplotlib Text
        The scores in the cells, unless there are too many.
    best_ : matplotlib Rectangle

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.model_selection import GridSearchCV
    >>> from evenmargin import KernelSVM
    >>> from evenmargin.display import HeatMapDisplay
    >>> X, y = make_classification(120, weights=[0.8], random_state=0)
    >>> search = GridSearchCV(KernelSVM(), {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1]}, cv=3).fit(X, y)
    >>> display = HeatMapDisplay.from_cv_results(search, "C", "gamma")
    >>> display.scores.shape
    (2, 3)
    """

    x_values: list[Any]
    y_values: list[Any]
    scores: Array
    x_name: str
    y_name: str
    score_name: str = "Score"

    @property
    def best(self) -> tuple[int, int]:
        row, column = np.unravel_index(int(np.nanargmax(self.scores)), self.scores.shape)
        return int(row), int(column)

    def plot(
        self, ax: Axes | None = None, *, cmap: str | Colormap = "viridis", colorbar: bool = True, **kwargs: object
    ) -> HeatMapDisplay:
        """Draw the map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; on a new figure if None.
        cmap : str or matplotlib Colormap, default="viridis"
        colorbar : bool, default=True
        **kwargs : dict
            For matplotlib's `imshow`.

        Returns
        -------
        self
        """
        self.ax_ = ax = get_axes(ax)
        from matplotlib.patches import Rectangle

        self.figure_ = ax.figure
        finite = self.scores[np.isfinite(self.scores)]
        # A few very bad cells must not use up the range of colours.
        lowest, middle, highest = float(finite.min()), float(np.median(finite)), float(finite.max())
        floor = max(lowest, middle - 3.0 * (highest - middle)) if highest > middle else lowest
        drawn: Style = {"origin": "lower", "aspect": "auto", "cmap": cmap, "vmin": floor, "vmax": highest, **kwargs}
        self.im_ = ax.imshow(self.scores, **drawn)
        ax.set_facecolor("#E5E5E5")
        if colorbar:
            extend = "min" if floor > lowest else "neither"
            self.figure_.colorbar(self.im_, ax=ax, label=self.score_name, extend=extend, pad=0.03)
        self._write_scores()
        row, column = self.best
        frame: Style = {"fill": False, "edgecolor": POSITIVE, "linewidth": 2.5, "clip_on": False, "zorder": 3}
        self.best_ = ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **frame))
        _ticks(ax.xaxis, self.x_values, room=10)
        _ticks(ax.yaxis, self.y_values, room=14)
        ax.set(xlabel=self.x_name, ylabel=self.y_name)
        return self

    def _write_scores(self) -> None:
        self.text_ = []
        if self.scores.size > _MANY or self.scores.shape[1] > 12:
            return
        size = "small" if self.scores.shape[1] <= 8 else "x-small"
        for row, column in np.ndindex(*self.scores.shape):
            value = self.scores[row, column]
            if np.isfinite(value):
                red, green, blue, _ = self.im_.cmap(self.im_.norm(value))
                color = "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"
                text = f"{value:.3f}" if abs(value) < 10 else f"{value:.3g}"
                font: Style = {"ha": "center", "va": "center", "color": color, "fontsize": size}
                self.text_.append(self.ax_.text(column, row, text, **font))

    @classmethod
    def from_cv_results(
        cls, search_or_results: Results, x: str, y: str, *, score: str | None = None, reduce: str = "max",
        ax: Axes | None = None, **kwargs: Any,
    ) -> HeatMapDisplay:  # fmt: skip
        """Draw the scores of a finished search over two parameters.

        Parameters
        ----------
        search_or_results, score, ax, **kwargs
            As in `ValidationCurveDisplay.from_cv_results`.
        x, y : str
            The parameters' names in the search.
        reduce : {"max", "mean"}, default="max"
            How to combine the candidates that differ in other parameters only.

        Returns
        -------
        HeatMapDisplay
        """
        check_matplotlib()
        if reduce not in ("max", "mean"):
            raise ValueError(f"reduce={reduce!r} is unknown; choose 'max' or 'mean'.")
        if x == y:
            raise ValueError(f"x and y are both {x!r}: name two parameters.")
        results = SearchResults.of(search_or_results, score)
        x_values, y_values = results.values(x), results.values(y)
        rows, columns = ({key: k for k, key in enumerate(values)} for values in (y_values, x_values))
        cells: dict[tuple[int, int], list[float]] = {}
        for candidate, mean in zip(results.candidates, results.means, strict=True):
            if x in candidate and y in candidate and not np.isnan(mean):
                place = rows[value_key(candidate[y])], columns[value_key(candidate[x])]
                cells.setdefault(place, []).append(float(mean))
        if not cells:
            raise ValueError(f"No candidate of the search has both {x!r} and {y!r} and a score.")
        scores = np.full((len(y_values), len(x_values)), np.nan)
        for place, found in cells.items():
            scores[place] = max(found) if reduce == "max" else float(np.mean(found))
        display = cls(list(x_values.values()), list(y_values.values()), scores, x, y, score_title(results.title))
        return display.plot(ax, **kwargs)


# --- axes ---


def _scale(ax: Axes, numbers: Array | None, values: Sequence[Any]) -> None:
    """Choose a linear or logarithmic axis for numbers, and label other values."""
    if numbers is None:
        ax.set_xscale("linear")
        ax.set_xlim(-0.3, len(values) - 0.7)
        _ticks(ax.xaxis, list(values), room=10)
        return
    low, high = float(numbers.min()), float(numbers.max())
    if low > 0:
        # Even steps, such as 1, 2, …, 50 neighbours, are easier to read on a linear axis.
        steps = np.diff(np.sort(numbers))
        log = high / low >= _LOG and float(steps.max()) > 3.0 * float(steps.min())
        ax.set_xscale("log" if log or (numbers.size == 2 and high / low >= _LOG) else "linear")
    elif ax.get_xscale() == "symlog":
        ax.set_xscale("symlog", linthresh=float(np.abs(numbers[numbers != 0]).min()))


def _ticks(axis: Axis, values: list[Any], room: int) -> None:
    """Label every value, or only every second, third, … if there are more than `room`."""
    from matplotlib.axis import XAxis

    places = list(range(0, len(values), -(-len(values) // room)))
    numbers = as_numbers(values)
    if numbers is None:
        labels = [text if len(text) <= 18 else text[:17] + "…" for text in map(str, values)]
        longest = max(map(len, labels))
    else:
        sizes = np.abs(numbers[numbers != 0])
        powers = sizes.size > 0 and (sizes.min() < 1e-2 or sizes.max() >= 1e4)
        labels = [_power(number) if powers else _short(number) for number in numbers]
        longest = 6 if powers else max(map(len, labels))
    axis.set_ticks(places, [labels[k] for k in places])
    if isinstance(axis, XAxis) and longest * len(places) > 50:
        for label in axis.get_ticklabels():
            label.set(rotation=35, ha="right", rotation_mode="anchor")


def _short(number: float) -> str:
    return (f"{number:.3g}" if abs(number) < 1000 else f"{number:.4g}").replace("-", "−")


def _power(number: float) -> str:
    """A number such as 3.2·10⁻⁴, without the first factor if it is 1."""
    if number == 0:
        return "0"
    power = math.floor(math.log10(abs(number)) + 1e-9)
    front = f"{number / 10.0**power:.2g}"
    front = {"1": "", "-1": "-"}.get(front, front + r"{\cdot}")
    return f"${front}10^{{{power}}}$"
