"""Maps of the scores of a finished search over two of its parameters."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from .._util.typing import Array
from .axes import POSITIVE, Style, check_matplotlib, get_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap

__all__ = ["HeatMapDisplay"]


_MANY = 120  # more cells than this have no numbers in them
Results: TypeAlias = BaseEstimator | Mapping[str, Any]  # a fitted search, or its results as a dict or frame


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
        search_or_results : fitted search, or dict or DataFrame of results
            An object with `cv_results_`, such as GridSearchCV, or these results.
        x, y : str
            The parameters' names in the search.
        score : str, default=None
            Which score, if there are several; if None, the one that the search refits by, or the only one.
        reduce : {"max", "mean"}, default="max"
            How to combine the candidates that differ in other parameters only.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            For `plot`.

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
                place = rows[_key(candidate[y])], columns[_key(candidate[x])]
                cells.setdefault(place, []).append(float(mean))
        if not cells:
            raise ValueError(f"No candidate of the search has both {x!r} and {y!r} and a score.")
        scores = np.full((len(y_values), len(x_values)), np.nan)
        for place, found in cells.items():
            scores[place] = max(found) if reduce == "max" else float(np.mean(found))
        display = cls(list(x_values.values()), list(y_values.values()), scores, x, y, results.title)
        return display.plot(ax, **kwargs)


# --- results ---


class SearchResults(NamedTuple):
    """The candidates of a search with one of its scores, and the title of this score."""

    candidates: list[dict[str, Any]]
    means: Array
    title: str

    @classmethod
    def of(cls, search_or_results: Results, score: str | None) -> SearchResults:
        columns = _columns(search_or_results)
        known = [name.removeprefix("mean_test_") for name in columns if name.startswith("mean_test_")]
        if not known:
            raise ValueError("The results have no column mean_test_…: give a fitted search or its cv_results_.")
        if score is None:
            refit = getattr(search_or_results, "refit", None)
            score = refit if isinstance(refit, str) and refit in known else known[0]
            if len(known) > 1 and score != refit:
                raise ValueError(f"The search has several scores: name one of {', '.join(map(repr, known))} as score.")
        if score not in known:
            raise ValueError(f"score={score!r} is not in the results, which have {', '.join(map(repr, known))}.")
        scoring = getattr(search_or_results, "scoring", None)
        title = scoring if score == "score" and isinstance(scoring, str) else score
        words = title.replace("neg_", "negative ").replace("_", " ")
        title = (words[:1].upper() + words[1:]).replace("Roc auc", "ROC-AUC").replace("Gmean", "G-mean")
        return cls(_candidates(columns), np.asarray(columns[f"mean_test_{score}"], dtype=np.float64), title)

    def values(self, name: str) -> dict[Hashable, Any]:
        """The tried values of a parameter by their keys, ascending if they are numbers."""
        seen: dict[Hashable, Any] = {}
        for candidate in self.candidates:
            if name in candidate:
                seen.setdefault(_key(candidate[name]), candidate[name])
        if not seen:
            known = dict.fromkeys(name for candidate in self.candidates for name in candidate)
            raise ValueError(f"{name!r} is not a parameter of the search, which has {', '.join(map(repr, known))}.")
        if _as_numbers(seen.values()) is None:
            return seen
        return dict(sorted(seen.items(), key=lambda item: float(item[1])))


def _key(value: object) -> Hashable:
    """A key that is equal for equal values: for 1 and 1.0, but not for True; others, such as arrays, by their repr."""
    if isinstance(value, bool | np.bool_):
        return bool, bool(value)
    return value if isinstance(value, Hashable) else repr(value)


def _columns(search_or_results: Results) -> dict[str, Any]:
    results = getattr(search_or_results, "cv_results_", search_or_results)
    if isinstance(results, Mapping):
        return dict(results)
    if hasattr(results, "columns") and hasattr(results, "__getitem__"):  # a frame, of pandas or polars
        return {str(name): results[name].to_numpy() for name in results.columns}
    raise ValueError(
        f"{type(search_or_results).__name__} holds no results of a search: give a fitted search, or its cv_results_ "
        "as a dict or DataFrame."
    )


def _candidates(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters of each candidate, without those it does not have."""
    params = columns.get("params")
    if params is not None and all(isinstance(candidate, Mapping) for candidate in params):
        return [dict(candidate) for candidate in params]
    named = {name.removeprefix("param_"): column for name, column in columns.items() if name.startswith("param_")}
    if not named:
        raise ValueError("The results name no parameters: they need params, or a column param_… for each.")
    n = len(next(iter(named.values())))
    return [{name: column[k] for name, column in named.items() if not _missing(column[k])} for k in range(n)]


def _missing(value: object) -> bool:
    return value is np.ma.masked or (isinstance(value, float) and math.isnan(value))


def _as_numbers(values: Iterable[Any]) -> Array | None:
    """The values as an array, if all are finite numbers."""
    if all(isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_) for value in values):
        numbers = np.asarray(list(values), dtype=np.float64)
        return numbers if np.isfinite(numbers).all() else None
    return None


# --- axes ---


def _ticks(axis: Axis, values: list[Any], room: int) -> None:
    """Label every value, or only every second, third, … if there are more than `room`."""
    from matplotlib.axis import XAxis

    places = list(range(0, len(values), -(-len(values) // room)))
    numbers = _as_numbers(values)
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
