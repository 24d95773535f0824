"""The machines of the papers, each a few lines that compose the parts.

Every function takes its paper's own parameter names and returns an unfitted
estimator. The papers:

- log-loss: Shuxia Lu and Mi Zhou, "Log-loss SVM Classification for Imbalanced
  Data". `lsgd`, `wlsgd`.
- pegasos: John Sun, "PEGASOS SVM for Imbalanced Classification".
  `cost_sensitive_pegasos`.
- blinex: "Cost-sensitive Blinex SVM Model". `blinex_linear`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .linear import LinearSVM
from .losses import Blinex
from .solvers import Nesterov, Pegasos
from .stopping import AUCHalting

__all__ = ["blinex_linear", "cost_sensitive_pegasos", "lsgd", "wlsgd"]


def lsgd(lam: float = 1e-4, T: int = 1_000_000, eps: float = 0.0, random_state: Any = None) -> LinearSVM:
    """LSGD of the log-loss paper: linear Pegasos with the hinge, no intercept, last iterate.

    Parameters
    ----------
    lam : float, default=1e-4
        λ.
    T : int, default=1_000_000
        Steps.
    eps : float, default=0.0
        ε: stop when a step changes w by less than this in the 1-norm (10⁻⁶ in
        the paper's Table 2).
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from evenmargin import papers
    >>> X, y = load_digits(return_X_y=True)
    >>> papers.lsgd(T=1000, random_state=0).fit(X / 16, y == 8).n_iter_
    1000
    """
    return LinearSVM(
        alpha=lam, loss="hinge", solver=Pegasos(change_tol=eps), intercept=None, max_iter=T, random_state=random_state
    )


def wlsgd(lam: float = 1e-4, T: int = 1_000_000, eps: float = 0.0, random_state: Any = None) -> LinearSVM:
    """WLSGD of the log-loss paper: log loss, each row weighted by one over the size of its class (eq. 8).

    Parameters as in `lsgd`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from evenmargin import papers
    >>> X, y = load_digits(return_X_y=True)
    >>> papers.wlsgd(T=1000, random_state=0).fit(X / 16, y == 8).solver_
    'pegasos'
    """
    return lsgd(lam, T, eps, random_state).set_params(loss="log", class_weight="inverse")


def cost_sensitive_pegasos(
    lam: float = 1.0,
    b: float = 0.0,
    T: int = 1000,
    X: int | None = None,
    project: bool = False,
    double_count: bool = False,
    random_state: Any = None,
) -> LinearSVM:
    """Cost-sensitive Pegasos: hinge, class-balanced sampling, a fixed bias, halting on ROC-AUC.

    Parameters
    ----------
    lam : float, default=1.0
        λ.
    b : float, default=0.0
        The bias, a hyperparameter.
    T : int, default=1000
        Steps at most.
    X : int or None, default=None
        Halt when ROC-AUC on the training rows is not above that of the last
        check, X steps before. The paper does; None does not, and is better.
    project : bool, default=False
        Scale w back to ‖w‖ ≤ 1/√λ after each step.
    double_count : bool, default=False
        The paper draws both classes equally often and also weights rows by
        1/(2 n₊) or 1/(2 n₋), which counts the imbalance twice. True does as printed.
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from evenmargin import papers
    >>> X, y = load_digits(return_X_y=True)
    >>> svm = papers.cost_sensitive_pegasos(lam=0.01, b=-1.0, random_state=0).fit(X / 16, y == 8)
    >>> svm.intercept_
    array([-1.])
    """
    return LinearSVM(
        alpha=lam,
        loss="hinge",
        class_weight=_printed_twice if double_count else "balanced",
        sampling="balanced",
        solver=Pegasos(project=project),
        intercept=float(b),
        max_iter=T,
        stopping=None if X is None else AUCHalting(every=X),
        random_state=random_state,
    )


def _printed_twice(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Class weights under which a step of class-balanced sampling weighs 1/(2 n of the class)."""
    return np.asarray(totals.sum() / (4.0 * totals**2))


def blinex_linear(
    a: float = 1.0,
    b: float = 1.0,
    c: float = 1.0,
    T: int = 10_000,
    m: int = 32,
    eta0: float | None = None,
    k: float | None = None,
    gamma: float = 0.9,
    printed_rate: bool = False,
    random_state: Any = None,
) -> LinearSVM:
    """The linear Blinex SVM: Nesterov's gradient on the bounded loss, augmented intercept (algorithm 1).

    Parameters
    ----------
    a, b : float, default=1.0
        Of the loss; see `evenmargin.losses.Blinex`.
    c : float, default=1.0
        Penalty.
    T : int, default=10_000
        Steps.
    m : int, default=32
        Batch size.
    eta0, k : float or None, default=None
        First learning rate and its decay, which the paper leaves open; None
        takes them from the data and T.
    gamma : float, default=0.9
        Momentum.
    printed_rate : bool, default=False
        η_{t+1} = η_t e^{−kt} as printed, instead of η₀ e^{−kt}.
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from evenmargin import papers
    >>> X, y = load_digits(return_X_y=True)
    >>> papers.blinex_linear(T=500, random_state=0).fit(X / 16, y == 8).n_iter_
    500
    """
    return LinearSVM(
        C=c,
        loss=Blinex(a, b),
        solver=Nesterov(m, gamma, eta0, k, "compound" if printed_rate else "exponential"),
        intercept="augmented",
        max_iter=T,
        random_state=random_state,
    )
