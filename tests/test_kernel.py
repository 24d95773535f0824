"""KernelSVM as an estimator: scikit-learn's checks, attributes, weights, classes, sparse input."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenmargin import KernelSVM

STOCHASTIC = {
    "check_sample_weight_equivalence_on_dense_data": "a stochastic solver is equivalent in expectation only",
    "check_sample_weight_equivalence_on_sparse_data": "a stochastic solver is equivalent in expectation only",
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The kernel is not positive definite")
@parametrize_with_checks(
    [
        KernelSVM(),
        KernelSVM(C=10.0, class_weight="balanced", gamma=0.1),
        KernelSVM(kernel="poly", gamma=1e-4, degree=2, coef0=1.0),
        KernelSVM(kernel="linear", intercept="augmented"),
        KernelSVM(loss="squared_hinge", intercept=None),
        KernelSVM(loss="log"),
        KernelSVM(loss="squared_hinge", solver="lbfgs"),
        KernelSVM(loss="blinex"),
        KernelSVM(kernel="precomputed"),
        KernelSVM(solver="sgd", max_iter=2000),
        KernelSVM(solver="sgd", loss="log", sampling="balanced", max_iter=2000),
    ],
    expected_failed_checks=lambda estimator: STOCHASTIC if estimator.solver == "sgd" else {},
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
