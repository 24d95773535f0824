"""SharedGridSearch against scikit-learn's GridSearchCV.

    python benchmarks/search.py [--data FOLDER] [--repeats 3] [--only PART]

Prints Markdown tables. Each time is a median of alternating runs; ratios above 1 mean
that `SharedGridSearch` is faster. All use the same five stratified folds and refit the
best candidate. `GridSearchCV` runs as it does by default, one fit after the other; ours
uses all cores, or one where stated. "apart" is the largest difference between a fold's
score and that of GridSearchCV(KernelSVM) (for SVC, ours), with the number of scores that
differ at all.

- gwl: Ionosphere without its duplicate row, F1 of the class "good", √s weights. 15 γ of the
  kernel (10⁻³ to 10), 9 C (0.1 to 1 000), 5 γ of the density (0.01 to 100): 3 375 fits.
- grid: 5 000 rows of ijcnn1, balanced accuracy, 10 C (0.1 to 1 000) × 10 γ (0.01 to 10
  times "scale"): 500 fits of 4 000 rows.
- z: the same rows, 20 C × z and threshold × three metrics, through ZAdjustedClassifier.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import alternate, arrays_of, main, table
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from evenmargin import DensityWeights, KernelSVM, ZAdjustedClassifier, datasets
from evenmargin.selection import SharedGridSearch

FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


class DensitySVC(ClassifierMixin, BaseEstimator):
    """SVC with costs √s, written with scikit-learn alone."""

    def __init__(self, C=1.0, gamma=1.0, density_gamma=1.0):
        self.C, self.gamma, self.density_gamma = C, gamma, density_gamma

    def fit(self, X, y):
        weights = np.sqrt(rbf_kernel(X, gamma=self.density_gamma).sum(axis=1))
        self.svc_ = SVC(C=self.C, gamma=self.gamma).fit(X, y, sample_weight=weights)
        self.classes_ = self.svc_.classes_
        return self

    def predict(self, X):
        return self.svc_.predict(X)


def apart(ours, theirs) -> str:
    """The largest difference of a fold's score, and how many of them differ."""
    columns = [name for name in ours.cv_results_ if name.startswith("split")]
    each = np.abs(np.stack([ours.cv_results_[name] - theirs.cv_results_[name] for name in columns]))
    return f"{each.max():.1e} ({np.count_nonzero(each > 1e-9)} of {each.size})"


def compare(title: str, searches: dict, X, y, repeats: int, reference: str, slow: tuple[str, ...] = ()) -> None:
    """Searches by name, ours first; the slow ones run once."""
    fitted: dict = {}

    def fit(name: str) -> None:
        fitted[name] = searches[name].fit(X, y)

    ours = next(iter(searches))
    searches[ours].fit(X[:400], y[:400])  # compiled, or loaded
    quick = [name for name in searches if name not in slow]
    times = dict(zip(quick, alternate([lambda n=name: fit(n) for name in quick], repeats), strict=True))
    times |= dict(zip(slow, alternate([lambda n=name: fit(n) for name in slow], 1), strict=True))
    rows = []
    for name in searches:
        search = fitted[name]
        difference = apart(search, fitted[reference]) if "SVC" not in name else apart(fitted[ours], search)
        rows.append([
            name, f"{times[name]:.2f}", f"{times[name] / times[ours]:.1f}", f"{search.best_score_:.4f}",
            difference if name != reference else "",
        ])  # fmt: skip
    table(title, ["search", "s", "× ours", "best score", "apart"], rows)


def gwl(folder: Path, repeats: int) -> None:
    data = datasets.load("ionosphere", folder=folder)
    X, y = data.X.astype(np.float64), (data.y > 0).astype(np.int64)
    C, gamma, gamma_S = np.logspace(-1, 3, 9), np.logspace(-3, 1, 15), np.logspace(-2, 2, 5)
    options = {"scoring": "f1", "cv": FOLDS}
    grid = {"C": C, "gamma": gamma, "density__gamma": gamma_S}
    svc_grid = {"C": C, "gamma": gamma, "density_gamma": gamma_S}
    machine = KernelSVM(density=DensityWeights("sqrt"), n_jobs=1)
    searches = {
        "SharedGridSearch(KernelSVM)": SharedGridSearch(machine, grid, **options),
        "the same, one thread": SharedGridSearch(machine, grid, n_jobs=1, **options),
        "GridSearchCV(KernelSVM)": GridSearchCV(machine, grid, **options),
        "GridSearchCV(SVC)": GridSearchCV(DensitySVC(), svc_grid, **options),
    }
    title = f"Generalized weighted loss on Ionosphere: {C.size * gamma.size * gamma_S.size * 5} fits"
    compare(title, searches, X, y, repeats, "GridSearchCV(KernelSVM)")


def rows_of_ijcnn1(folder: Path) -> tuple:
    X, y = arrays_of(folder, "ijcnn1")
    rows = np.random.default_rng(0).permutation(len(y))[:5_000]
    return X[rows].astype(np.float64), y[rows]


def grid(folder: Path, repeats: int) -> None:
    X, y = rows_of_ijcnn1(folder)
    scale = 1.0 / (X.shape[1] * X.var())
    grid = {"C": np.logspace(-1, 3, 10), "gamma": scale * np.logspace(-2, 1, 10)}
    options = {"scoring": "balanced_accuracy", "cv": FOLDS}
    searches = {
        "SharedGridSearch(KernelSVM)": SharedGridSearch(KernelSVM(), grid, **options),
        "the same, one thread": SharedGridSearch(KernelSVM(), grid, n_jobs=1, **options),
        "GridSearchCV(KernelSVM)": GridSearchCV(KernelSVM(), grid, **options),
        "GridSearchCV(SVC)": GridSearchCV(SVC(), grid, **options),
    }
    slow = ("GridSearchCV(KernelSVM)", "GridSearchCV(SVC)")
    compare("ijcnn1, 5 000 rows: 500 fits", searches, X, y, repeats, slow[0], slow)


def z(folder: Path, repeats: int) -> None:
    X, y = rows_of_ijcnn1(folder)
    grid = {
        "estimator__C": np.logspace(-1, 3, 20), "method": ["z", "threshold"],
        "metric": ["gmean", "f1", "balanced_accuracy"],
    }  # fmt: skip
    options = {"scoring": "balanced_accuracy", "cv": FOLDS}
    machine = ZAdjustedClassifier(KernelSVM())
    searches = {
        "SharedGridSearch(z)": SharedGridSearch(machine, grid, **options),
        "GridSearchCV(z)": GridSearchCV(machine, grid, **options),
    }
    slow = ("GridSearchCV(z)",)
    compare("z and threshold on ijcnn1, 5 000 rows: 600 fits", searches, X, y, repeats, slow[0], slow)


if __name__ == "__main__":
    main(__doc__, {"gwl": gwl, "grid": grid, "z": z}, repeats=3)
