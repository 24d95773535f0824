"""The machines of the papers, each a few lines that compose the parts.

Every function takes its paper's own parameter names, with types and defaults as in its signature, and returns an
unfitted estimator. What a paper leaves open is set on the estimator: `ksgd().set_params(device="cuda")`. The papers:

- log-loss: Shuxia Lu and Mi Zhou, "Log-loss SVM Classification for Imbalanced Data". `lsgd`, `wlsgd`, `ksgd`, `wksgd`.
- pegasos: John Sun, "PEGASOS SVM for Imbalanced Classification". `cost_sensitive_pegasos`.
- z-svm: Tasadduq Imam, Kai Ming Ting and Joarder Kamruzzaman, "z-SVM: An SVM for Improved Classification of Imbalanced
  Data". `zsvm`.
- blinex: "Cost-sensitive Blinex SVM Model". `blinex_linear`, `blinex_kernel`.
- gwl: Filippo Portera, "A Generalized Weighted Loss for SVC and MLP". `gwl_svc`, `gwl_mlp`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator

from ._util.typing import Array, RandomState
from .density import DensityWeights
from .kernel import KernelSVM
from .kernels import RBF, Kernel
from .linear import LinearSVM
from .losses import Blinex
from .neural import DensityWeightedMLPRegressor
from .solvers import KernelSGD, Nesterov, Pegasos
from .stopping import AUCHalting
from .zsvm import ZAdjustedClassifier

__all__ = [
    "blinex_kernel", "blinex_linear", "cost_sensitive_pegasos", "gwl_mlp", "gwl_svc", "ksgd", "lsgd", "wksgd",
    "wlsgd", "zsvm",
]  # fmt: skip

Gamma = float | str
KernelLike = str | Kernel | Callable[..., Any]


def lsgd(lam: float = 1e-4, T: int = 1_000_000, eps: float = 0.0, random_state: RandomState = None) -> LinearSVM:
    """LSGD of the log-loss paper: linear Pegasos with the hinge, no intercept, last iterate.

    Parameters
    ----------
    lam : λ.
    T : number of steps.
    eps : ε; stop when a step changes w by less than this in the 1-norm (10⁻⁶ in the paper's Table 2).
    random_state : seed of the draws.

    Examples
    --------
    >>> from evenmargin import papers
    >>> papers.lsgd(lam=0.01, T=1000).solver
    Pegasos(project=False, average=False, change_tol=0.0, best_b=True)
    """
    return LinearSVM(
        alpha=lam, loss="hinge", solver=Pegasos(change_tol=eps), intercept=None, max_iter=T, random_state=random_state
    )


def wlsgd(lam: float = 1e-4, T: int = 1_000_000, eps: float = 0.0, random_state: RandomState = None) -> LinearSVM:
    """WLSGD of the log-loss paper: log loss, each row weighted by one over the size of its class (eq. 8).

    Parameters as in `lsgd`.

    Examples
    --------
    >>> from evenmargin import papers
    >>> papers.wlsgd(T=1000).get_params()["class_weight"]
    'inverse'
    """
    return lsgd(lam, T, eps, random_state).set_params(loss="log", class_weight="inverse")


def ksgd(lam: float = 1e-4, sigma: float = 1.5, T: int = 2_000, random_state: RandomState = None) -> KernelSVM:
    """KSGD of the log-loss paper: kernel Pegasos with the hinge, no intercept, kernel exp(−‖x − x'‖²/σ²).

    Parameters
    ----------
    lam : λ.
    sigma : σ of the kernel.
    T : number of steps; 2 000 give the paper's figures.
    random_state : seed of the draws.

    Examples
    --------
    >>> from evenmargin import papers
    >>> papers.ksgd(sigma=2.0)
    KernelSVM(alpha=0.0001, intercept=None, kernel=RBF(gamma=0.25, sigma=2.0),
              max_iter=2000, solver='sgd')
    """
    return KernelSVM(
        alpha=lam, kernel=RBF(sigma=sigma), loss="hinge", solver="sgd", intercept=None, max_iter=T,
        random_state=random_state,
    )  # fmt: skip


def wksgd(lam: float = 1e-4, sigma: float = 1.5, T: int = 2_000, random_state: RandomState = None) -> KernelSVM:
    """WKSGD of the log-loss paper: `ksgd` with the log loss, each row weighted by one over the size of its class.

    Parameters as in `ksgd`.

    Examples
    --------
    >>> from evenmargin import papers
    >>> papers.wksgd(T=500).loss
    'log'
    """
    return ksgd(lam, sigma, T, random_state).set_params(loss="log", class_weight="inverse")


def cost_sensitive_pegasos(
    lam: float = 1.0,
    b: float = 0.0,
    T: int = 1000,
    X: int | None = None,
    project: bool = False,
    double_count: bool = False,
    kernel: KernelLike | None = None,
    gamma: Gamma = "scale",
    random_state: RandomState = None,
) -> LinearSVM | KernelSVM:
    """Cost-sensitive Pegasos: hinge, class-balanced sampling, a fixed bias, halting on ROC-AUC.

    Parameters
    ----------
    lam : λ.
    b : the bias, a hyperparameter.
    T : largest number of steps.
    X : halt when ROC-AUC on the training rows is not above that of the last check, X steps before, as in the
        paper; None does not halt, and is better.
    project : scale w back to ‖w‖ ≤ 1/√λ after each step.
    double_count : the paper draws both classes equally often and also weights rows by 1/(2 n₊) or 1/(2 n₋), which
        counts the imbalance twice. True does the same.
    kernel : None for the linear algorithm; otherwise the kernel, as in `KernelSVM`.
    gamma : γ of the kernel.
    random_state : seed of the draws.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from evenmargin import papers
    >>> X, y = load_digits(return_X_y=True)
    >>> svm = papers.cost_sensitive_pegasos(lam=0.01, b=-1.0, random_state=0).fit(X / 16, y == 8)
    >>> svm.intercept_
    array([-1.])
    """
    parts: dict[str, Any] = {
        "alpha": lam,
        "loss": "hinge",
        "class_weight": _printed_twice if double_count else "balanced",
        "sampling": "balanced",
        "intercept": float(b),
        "max_iter": T,
        "stopping": None if X is None else AUCHalting(every=X),
        "random_state": random_state,
    }
    if kernel is None:
        return LinearSVM(solver=Pegasos(project=project), **parts)
    return KernelSVM(kernel=kernel, gamma=gamma, solver=KernelSGD(project=project), **parts)


def _printed_twice(totals: Array) -> Array:
    """Class weights that give a step of class-balanced sampling the weight 1/(2 n of the class)."""
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
    random_state: RandomState = None,
) -> LinearSVM:
    """The linear Blinex SVM: Nesterov's gradient on the bounded loss, augmented intercept (algorithm 1).

    Parameters
    ----------
    a, b : parameters of the loss; see `evenmargin.losses.Blinex`.
    c : penalty.
    T : number of steps.
    m : batch size.
    eta0, k : first learning rate and its decay, which the paper leaves open; None derives them from the data and T.
    gamma : momentum.
    printed_rate : η_{t+1} = η_t e^{−kt} as printed, instead of η₀ e^{−kt}.
    random_state : seed of the batches.

    Examples
    --------
    >>> from evenmargin import papers
    >>> papers.blinex_linear(a=0.5).loss
    Blinex(a=0.5, b=1.0)
    """
    return LinearSVM(
        C=c,
        loss=Blinex(a, b),
        solver=Nesterov(m, gamma, eta0, k, "compound" if printed_rate else "exponential"),
        intercept="augmented",
        max_iter=T,
        random_state=random_state,
    )


def blinex_kernel(
    a: float = 1.0,
    b: float = 1.0,
    c: float = 1.0,
    T: int = 10_000,
    kernel: KernelLike = "rbf",
    gamma: Gamma = "scale",
    printed_constant: bool = False,
    random_state: RandomState = None,
) -> KernelSVM:
    """The kernel Blinex SVM: stochastic gradients with step 1/t, no intercept (algorithm 2).

    Parameters
    ----------
    a, b : parameters of the loss; see `evenmargin.losses.Blinex`.
    c : penalty.
    T : number of steps.
    kernel, gamma : the kernel and its γ, as in `KernelSVM`.
    printed_constant : a step of the paper is scaled by c, which is not the gradient of its own objective (c times the
        number of rows would be). True does as printed.
    random_state : seed of the draws.

    Examples
    --------
    >>> from evenmargin import papers
    >>> papers.blinex_kernel(a=0.5)
    KernelSVM(intercept=None, loss=Blinex(a=0.5, b=1.0), max_iter=10000,
              solver='sgd')
    """
    penalty: dict[str, Any] = {"alpha": 1.0 / c} if printed_constant else {"C": c}
    return KernelSVM(
        loss=Blinex(a, b), kernel=kernel, gamma=gamma, solver="sgd", intercept=None, max_iter=T,
        random_state=random_state, **penalty,
    )  # fmt: skip


def zsvm(
    C: float = 1.0,
    gamma: Gamma = 1.0,
    kernel: KernelLike = "rbf",
    search: str = "exact",
    M: float | None = None,
    cv: int | BaseCrossValidator | None = None,
) -> ZAdjustedClassifier:
    """z-SVM: a plain SVM whose minority support vectors are strengthened for the best training G-mean.

    For the paper's combination with SMOTE, put SMOTE and this into a pipeline of imbalanced-learn.

    Parameters
    ----------
    C : penalty.
    gamma : γ of the kernel; 1 is the paper's value.
    kernel : as in `KernelSVM`.
    search : "exact", or "golden" for the paper's search, which may miss the best z.
    M : upper end of the golden section search.
    cv : None chooses z on the training scores, as in the paper; folds (a number or a splitter) are safer.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from evenmargin import papers
    >>> X, y = make_classification(300, weights=[0.95], class_sep=0.5, random_state=0)
    >>> svm = papers.zsvm(gamma=0.1).fit(X, y)
    >>> bool(svm.z_ > 1)
    True
    """
    return ZAdjustedClassifier(KernelSVM(C, kernel=kernel, gamma=gamma), search=search, z_max=M, cv=cv)


def gwl_svc(
    C: float = 1.0,
    gamma_K: Gamma = "scale",
    scheme: int | str = 1,
    gamma_S: Gamma = "scale",
    random_state: RandomState = None,
) -> KernelSVM:
    """GWL for SVC: the hinge, with costs from the density around each row.

    Parameters
    ----------
    C : penalty.
    gamma_K : γ of the kernel.
    scheme : 1 √s, 2 s, 3 s², 4 1/√s, 5 1/s, 6 1/s², 7 s·y, 8 the random control; or its name in `DensityWeights`.
    gamma_S : γ of the densities.
    random_state : seed of the random control.

    Examples
    --------
    >>> from evenmargin import papers
    >>> papers.gwl_svc(C=0.1, scheme=5)
    KernelSVM(C=0.1, density=DensityWeights(scheme=5))
    """
    density = DensityWeights(scheme, gamma=gamma_S, random_state=random_state)
    return KernelSVM(C, kernel="rbf", gamma=gamma_K, density=density)


def gwl_mlp(
    layers: Sequence[int] = (100, 50, 20, 1),
    scheme: int | str | None = 2,
    gamma_S: Gamma = "scale",
    epochs: int = 200,
    random_state: RandomState = None,
) -> DensityWeightedMLPRegressor:
    """GWL for MLP: a regression network, its absolute errors weighted by the density around each row.

    The paper gives layers and weights only. Adam, batches of 200 rows and standardised columns are ours. Its errors
    are of predictions rounded to whole numbers. Fitting needs torch.

    Parameters
    ----------
    layers : units of each layer, the output last; the paper's second is (100, 80, 40, 1).
    scheme : as in `gwl_svc`, without 7; 2, w = s, is the paper's. None: equal weights.
    gamma_S : γ of the densities, of standardised columns.
    epochs : number of passes over the rows.
    random_state : seed of the network and of the random control.

    Examples
    --------
    >>> from evenmargin import papers
    >>> papers.gwl_mlp((100, 80, 40, 1), scheme=2, gamma_S=0.1).hidden_layer_sizes
    (100, 80, 40)
    """
    *hidden, outputs = layers
    if outputs != 1:
        raise ValueError(f"layers={tuple(layers)} must end in 1, the number that is predicted.")
    density = None if scheme is None else DensityWeights(scheme, gamma=gamma_S, random_state=random_state)
    return DensityWeightedMLPRegressor(
        tuple(hidden), loss="absolute_error", density=density, alpha=0.0, max_epochs=epochs, random_state=random_state
    )
