"""What the linear and the kernel machine have in common around the solver."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ._device.arrays import to_host
from ._input.checks import ConvergenceWarning, available_if, validate_aside
from ._input.collections import by_blocks
from ._input.entry import Classifier, Portable, kind_of
from ._util.progress import Report
from ._util.typing import Floats, MatrixLike
from .losses import Blinex, Log, get_loss
from .problem import Problem, Solution, Status
from .sampling import get_sampler
from .solvers import Control, Solver
from .stopping import AUCHalting

__all__ = ["Machine", "one_or_all", "same_classes"]


def _has_probabilities(estimator: Any) -> bool:
    if not isinstance(get_loss(estimator.loss), Log):
        raise AttributeError("predict_proba needs loss='log'; other losses have no probabilities of their own.")
    return True


class Machine(Portable, Classifier, BaseEstimator):  # type: ignore[misc]
    """Base of `LinearSVM` and `KernelSVM`: predictions from scores, and a solver's bookkeeping."""

    classes_: NDArray[Any]
    n_iter_: int
    solver_: str

    def decision_function(self, X: MatrixLike) -> Floats:
        raise NotImplementedError

    @by_blocks
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """The class of each row; a score of exactly 0 is `classes_[0]`.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        ndarray or tensor of shape (n_samples,)
            Labels that are text stay with NumPy.
        """
        self._check_kind(X, "predict")
        scores = to_host(self.decision_function(X))
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return kind_of(X).give(np.asarray(self.classes_[chosen]))

    @available_if(_has_probabilities)
    @by_blocks
    def predict_proba(self, X: MatrixLike) -> Floats:
        """Probabilities of the log loss, under the class weights it was fitted with.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        ndarray or tensor of shape (n_samples, n_classes)
        """
        from scipy.special import expit

        self._check_kind(X, "predict_proba")
        scores, give = to_host(self.decision_function(X)), kind_of(X).give
        if scores.ndim == 1:
            return give(np.column_stack([expit(-scores), expit(scores)]))
        each = expit(scores)
        total = each.sum(axis=1, keepdims=True)
        return give(np.asarray(np.where(total > 0, each / np.where(total > 0, total, 1), 1 / each.shape[1])))

    @available_if(_has_probabilities)
    @by_blocks
    def predict_log_proba(self, X: MatrixLike) -> Floats:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        ndarray or tensor of shape (n_samples, n_classes)
        """
        self._check_kind(X, "predict_log_proba")
        with np.errstate(divide="ignore"):
            return kind_of(X).give(np.log(to_host(self.predict_proba(X))))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Where a file holds JSON, as that of skops does, an enum of strings has become a string.
        if "status_" in state:
            state = {**state, "status_": _as_status(state["status_"])}
        super().__setstate__(state)

    def _check_kind(self, X: MatrixLike, method: str) -> None:
        """Refuse rows that are not of the kind of the fit, where a machine follows scikit-learn's rule on it."""

    def _given_intercept(self, sign: float) -> Any:
        """The intercept parameter in terms of the problem, where + is the minority."""
        intercept = self.intercept
        if isinstance(intercept, bool | np.bool_):
            raise ValueError(f"intercept={intercept} is no choice: use 'free' to learn it, None for none, or a number.")
        return intercept if intercept is None or isinstance(intercept, str) else sign * float(intercept)

    def _check_stopping(self, solver: Solver, stochastic: str) -> Solver:
        if self.stopping is not None and solver.exact:
            raise ValueError(f"stopping is for the stochastic solvers, {stochastic}; {solver.name!r} stops by its gap.")
        return solver

    def _control(
        self, classes: NDArray[Any], which: int, problem: Problem, sign: float, seed: int, report: Report | None
    ) -> Control:
        return Control(
            tol=self.tol,
            max_iter=self.max_iter,
            sampling=get_sampler(self.sampling),
            seed=seed + which,
            intercept=problem.offset,
            halting=self._halting(classes, which, sign, problem.X),
            progress=report,
        )

    def _halting(self, classes: NDArray[Any], which: int, sign: float, like: Any) -> AUCHalting | None:
        rule = AUCHalting() if self.stopping == "auc" else self.stopping
        if rule is None or rule.validation is None:
            return rule
        X, y = validate_aside(self, rule.validation, classes, like)
        labels = np.where(y == classes[which], sign, -sign)
        if np.unique(labels).size < 2:
            raise ValueError("stopping: the rows set aside for ROC-AUC must hold both classes.")
        return replace(rule, validation=(X, labels))

    def _record(self, solver: Solver, solutions: list[Solution]) -> None:
        self.solver_ = solver.name
        self.n_iter_ = max(solution.n_iter for solution in solutions)
        self.status_ = one_or_all([solution.status for solution in solutions])
        self.history_ = one_or_all([solution.history for solution in solutions])
        self.objective_ = one_or_all(np.array([solution.objective for solution in solutions]))
        self.dual_gap_ = one_or_all(np.array([solution.gap for solution in solutions]))

    def _warn_if_reversed(self, stacklevel: int = 4) -> None:
        loss = get_loss(self.loss)
        if not isinstance(loss, Blinex):
            return
        reach = loss.b * (np.exp(min(abs(loss.a), 700.0)) - abs(loss.a) - 1.0)
        if reach > 1.2:
            warnings.warn(
                f"{loss!r} is flat where a rare row is wrong (b·(e^|a| − |a| − 1) is {reach:.2g}), so that it may "
                "favour the other class: choose a smaller a or b.",
                UserWarning,
                stacklevel=stacklevel,
            )

    def _warn_unless_converged(
        self, solver: Solver, results: list[tuple[Solution, float]], tol: float, advice: str = ""
    ) -> None:
        """One warning for the worst of the problems, with what to do about it.

        Beside each solution stands the objective of a machine that does nothing.
        """
        message = ""
        if solver.exact:
            open_ended = [s for s, _ in results if s.status in (Status.BUDGET, Status.STALLED)]
            if open_ended:
                worst = max(open_ended, key=lambda s: s.relative_gap)
                where = "before its gradient was within tol"
                if not np.isnan(worst.gap):
                    where = f"at a relative duality gap of {worst.relative_gap:.1e}, above {tol:g}"
                message = (
                    f"{solver.name} stopped after {worst.n_iter} iterations ({solver.unit}) {where} "
                    f"({worst.status.value}): raise max_iter, scale the features, or choose a smaller C{advice}."
                )
        elif self.max_iter is None and self.stopping is None:  # whoever sets the steps may well want few
            lost = [(s, nothing) for s, nothing in results if s.objective > nothing or np.isinf(s.objective)]
            if lost:
                message = (
                    f"{solver.name} ended at an objective of {lost[0][0].objective:.1e}, worse than coefficients of "
                    f"zero ({lost[0][1]:.1e}): scale the features, choose a smaller C, or raise max_iter."
                )
        if message:
            warnings.warn(message, ConvergenceWarning, stacklevel=4)


def _as_status(known: Any) -> Any:
    if isinstance(known, list):
        return [_as_status(one) for one in known]
    return Status(known) if known in list(Status) else known


def one_or_all(values: Any) -> Any:
    return values[0] if len(values) == 1 else values


def same_classes(fitted: Any, classes: NDArray[Any]) -> bool:
    return hasattr(fitted, "classes_") and np.array_equal(classes, fitted.classes_)
