"""StratifiedNystroem: which rows it takes, how close it comes to the kernel, and its place in scikit-learn."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenmargin import KernelSVM, LinearSVM
from evenmargin.kernels import RBF
from evenmargin.nystroem import StratifiedNystroem

X, Y = imbalanced(n=400, d=6, ratio=0.9, seed=3)
POSITIVE = int((Y > 0).sum())


def landmarks(y=Y, x=X, weight=None, **parameters):
    """How many landmarks there are of each class."""
    drawn = StratifiedNystroem(random_state=0, **parameters).fit(x, y, weight).component_indices_
    return {label: int((y[drawn] == label).sum()) for label in np.unique(y)}


def reasons(estimator):
    why = "rows are drawn at random: a weight changes the chance of a row, not what it is"
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [
        StratifiedNystroem(n_components=10),
        StratifiedNystroem(n_components=10, stratify=None),
        StratifiedNystroem(n_components=5, stratify="proportional", kernel="poly", gamma=1e-3, coef0=1.0),
        StratifiedNystroem(n_components=10, kernel="linear"),
    ],
    expected_failed_checks=reasons,
)
def test_it_is_a_transformer_to_scikit_learn(estimator, check):
    check(estimator)


# --- which rows ---


def test_every_class_gives_as_many_landmarks():
    assert landmarks(n_components=40) == {-1: 20, 1: 20}
    assert landmarks(n_components=41) == {-1: 21, 1: 20}


def test_a_class_with_fewer_rows_gives_all_of_them_and_the_others_the_rest():
    assert landmarks(n_components=200) == {-1: 200 - POSITIVE, 1: POSITIVE}


def test_several_classes_share_evenly():
    y = np.array(["a"] * 350 + ["b"] * 40 + ["c"] * 10)
    assert landmarks(y, n_components=60) == {"a": 25, "b": 25, "c": 10}


def test_proportional_follows_the_weights_and_forgets_no_class():
    y = np.array(["a"] * 300 + ["b"] * 99 + ["c"])
    assert landmarks(y, n_components=40, stratify="proportional") == {"a": 30, "b": 9, "c": 1}
    weight = np.where(y == "b", 300 / 99, 1.0)
    assert landmarks(y, weight=weight, n_components=40, stratify="proportional") == {"a": 20, "b": 19, "c": 1}


def test_a_dict_gives_the_numbers():
    assert landmarks(stratify={1: 7, -1: 3}) == {-1: 3, 1: 7}
    assert landmarks(stratify={1: 7}) == {-1: 0, 1: 7}


def test_without_classes_rows_are_drawn_blindly():
    without = StratifiedNystroem(n_components=50, random_state=0).fit(X)
    unasked = StratifiedNystroem(n_components=50, stratify=None, random_state=0).fit(X, np.linspace(0, 1, 400))
    assert_array_equal(without.component_indices_, unasked.component_indices_)
    assert without.component_indices_.size == 50


def test_no_row_is_drawn_twice_and_none_of_weight_0():
    weight = (np.arange(400) % 3 > 0).astype(float)
    for stratify in ("balanced", "proportional", None):
        model = StratifiedNystroem(n_components=500, stratify=stratify, random_state=0).fit(X, Y, weight)
        assert_array_equal(model.component_indices_, np.flatnonzero(weight))
        assert_array_equal(model.components_, X[weight > 0])


def test_heavier_rows_come_more_often():
    weight = np.where(np.arange(400) < 200, 3.0, 1.0)
    models = (StratifiedNystroem(n_components=20, stratify=None, random_state=seed) for seed in range(100))
    early = [(model.fit(X, None, weight).component_indices_ < 200).mean() for model in models]
    assert np.mean(early) == pytest.approx(0.75, abs=0.04)


def test_the_same_seed_gives_the_same_rows_and_another_one_others():
    rows = [StratifiedNystroem(random_state=seed).fit(X, Y).component_indices_ for seed in (0, 0, 1)]
    assert_array_equal(rows[0], rows[1])
    assert (rows[0] != rows[2]).any()


# --- how close to the kernel ---


@pytest.mark.parametrize(("kernel", "more"), [("rbf", {}), ("poly", {"degree": 2, "coef0": 1.0}), ("linear", {})])
def test_with_the_same_landmarks_the_kernel_is_that_of_scikit_learn(kernel, more):
    model = StratifiedNystroem(kernel, gamma=0.2, n_components=60, random_state=0, **more).fit(X, Y)
    parameters = {} if kernel == "linear" else {"gamma": 0.2}
    peer = Nystroem(kernel=kernel, n_components=60, random_state=0, **parameters, **more).fit(model.components_)
    ours, theirs = model.transform(X), peer.transform(X)
    assert_allclose(ours @ ours.T, theirs @ theirs.T, rtol=1e-6, atol=1e-6)


def test_with_all_rows_as_landmarks_it_is_the_kernel():
    Z = StratifiedNystroem(gamma=0.2, n_components=400).fit_transform(X, Y)
    assert_allclose(Z @ Z.T, rbf_kernel(X, gamma=0.2), atol=1e-8)


def test_landmarks_that_say_nothing_new_are_no_features():
    twice = np.repeat(X[:50], 8, axis=0)
    model = StratifiedNystroem(gamma=0.2, n_components=400).fit(twice)
    Z = model.transform(X)
    assert model.component_indices_.size == 400
    assert Z.shape[1] == 50
    assert np.abs((Z * Z).sum(axis=1)).max() <= 1 + 1e-8


@pytest.mark.parametrize("gamma", [1e-4, 1e-2, 1.0])
def test_float32_rows_give_nearly_the_features_of_float64_rows(gamma):
    model = StratifiedNystroem(gamma=gamma, n_components=200, random_state=0)
    wide = model.fit(X, Y).transform(X)
    narrow = clone(model).fit(X.astype(np.float32), Y).transform(X.astype(np.float32))
    assert narrow.dtype == np.float32
    assert_allclose(narrow @ narrow.T, wide @ wide.T, atol=1e-3)


def test_float32_rows_far_from_the_origin_keep_their_distances():
    far = (X + 1000.0).astype(np.float32)
    Z = StratifiedNystroem(gamma=0.2, n_components=400).fit_transform(far, Y)
    assert_allclose(Z @ Z.T, rbf_kernel(far.astype(float) - 1000.0, gamma=0.2), atol=1e-3)


@pytest.mark.parametrize("kind", [csr_matrix, csr_array])
def test_sparse_rows_give_the_features_of_dense_rows(kind):
    rare = np.where(np.abs(X) > 1.0, X, 0.0)
    model = StratifiedNystroem(gamma=0.2, n_components=50, random_state=0)
    dense = model.fit(rare, Y).transform(rare)
    assert_allclose(model.transform(kind(rare)), dense, atol=1e-8)
    sparse = clone(model).fit(kind(rare), Y)
    for rows in (kind(rare), rare):
        Z = sparse.transform(rows)
        assert_allclose(Z @ Z.T, dense @ dense.T, atol=1e-8)


def test_wide_sparse_rows_are_taken_too():
    rng = np.random.default_rng(0)
    wide = csr_matrix((rng.random((300, 500)) < 0.01) * rng.random((300, 500)))
    Z = StratifiedNystroem(gamma=0.2, n_components=300).fit_transform(wide)
    assert_allclose(Z @ Z.T, rbf_kernel(wide, gamma=0.2), atol=1e-8)


def test_kernel_objects_callables_and_precomputed_kernels_give_the_same():
    first = StratifiedNystroem(gamma=0.2, n_components=50, random_state=0).fit(X, Y)
    expected = first.transform(X)
    for kernel in (RBF(0.2), lambda a, b: rbf_kernel(a, b, gamma=0.2)):
        Z = StratifiedNystroem(kernel, n_components=50, random_state=0).fit_transform(X, Y)
        assert_allclose(Z @ Z.T, expected @ expected.T, atol=1e-9)
    K = rbf_kernel(X, gamma=0.2)
    Z = StratifiedNystroem("precomputed", n_components=50, random_state=0).fit_transform(K, Y)
    assert_allclose(Z @ Z.T, expected @ expected.T, atol=1e-9)


def test_a_kernel_that_is_not_positive_definite_is_taken_by_its_positive_part():
    model = StratifiedNystroem("sigmoid", gamma=0.5, coef0=-1.0, n_components=100, random_state=0).fit(X, Y)
    Z = model.transform(X)
    assert np.isfinite(Z).all()
    assert 0 < Z.shape[1] < 100


def test_the_features_do_not_depend_on_the_number_of_threads():
    many = np.tile(X, (10, 1))
    one, two = (
        StratifiedNystroem(n_components=300, random_state=0, n_jobs=n).fit(many).transform(many) for n in (1, 2)
    )
    assert_array_equal(one, two)


def test_many_rows_are_transformed_in_tiles():
    many = np.tile(X, (5, 1))
    model = StratifiedNystroem(n_components=80, random_state=0).fit(X, Y)
    assert_allclose(model.transform(many), np.tile(model.transform(X), (5, 1)), atol=1e-10)


# --- in use ---


def test_before_a_linear_machine_it_comes_near_the_kernel_machine():
    exact = KernelSVM(gamma=0.2, class_weight="balanced").fit(X, Y)
    model = StratifiedNystroem(gamma=0.2, n_components=400)
    near = make_pipeline(model, LinearSVM(class_weight="balanced")).fit(X, Y)
    assert_allclose(near.decision_function(X), exact.decision_function(X), atol=2e-3)


def test_landmarks_of_the_minority_bring_its_kernel_values_nearer():
    lost = {"balanced": [], None: []}
    for seed in range(10):
        for stratify, found in lost.items():
            model = StratifiedNystroem(gamma=0.5, n_components=60, stratify=stratify, random_state=seed)
            Z = model.fit(X[::2], Y[::2]).transform(X[1::2])
            found.append(np.mean((1.0 - (Z * Z).sum(axis=1))[Y[1::2] > 0]))  # K(x, x) is 1
    assert np.mean(lost["balanced"]) < 0.9 * np.mean(lost[None])


def test_it_searches_and_validates_in_a_pipeline():
    machine = make_pipeline(StratifiedNystroem(n_components=40, random_state=0), LinearSVM(class_weight="balanced"))
    assert cross_val_score(machine, X, Y, cv=3, scoring="roc_auc").mean() > 0.8


def test_features_have_names_and_a_frame_comes_out_if_asked_for():
    model = StratifiedNystroem(n_components=5, random_state=0).set_output(transform="pandas")
    frame = model.fit_transform(pd.DataFrame(X, columns=list("abcdef")), Y)
    assert list(frame.columns) == list(model.get_feature_names_out()) == [f"stratifiednystroem{k}" for k in range(5)]


def test_transforming_imports_no_numba():
    code = (
        "import sys, numpy as np\n"
        "from evenmargin.nystroem import StratifiedNystroem\n"
        "X = np.random.default_rng(0).random((50, 3), np.float32)\n"
        "StratifiedNystroem(n_components=10).fit(X).transform(X)\n"
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_polynomial_kernel_is_that_of_its_definition():
    Z = StratifiedNystroem("poly", gamma=0.3, degree=2, coef0=1.0, n_components=400).fit_transform(X, Y)
    assert_allclose(Z @ Z.T, polynomial_kernel(X, degree=2, gamma=0.3, coef0=1.0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({"stratify": {2: 5}}, Y, r"stratify has labels \[2\] that no row has; choose among \[-1, 1\]"),
        ({"stratify": {1: 500}}, Y, f"class 1 can give 0 to {POSITIVE} landmarks, not 500"),
        ({"stratify": {1: 2.5}}, Y, "landmarks, not 2.5"),
        ({"stratify": {1: 0}}, Y, "stratify asks for no landmarks"),
        ({"stratify": {1: 5}}, None, r"fit needs the classes of the rows: call fit\(X, y\)"),
        ({"stratify": "even"}, Y, "'stratify' parameter"),
        ({"n_components": 0}, Y, "'n_components' parameter"),
        ({"n_jobs": 0}, Y, "n_jobs=0 has no meaning"),
        ({"kernel": "none"}, Y, "kernel='none' is unknown"),
        ({"kernel": "precomputed"}, Y, "needs a square matrix to fit, not 400 × 6"),
        ({"kernel": lambda a, b: -rbf_kernel(a, b)}, Y, "no positive eigenvalue"),
    ],
)
def test_a_bad_parameter_gets_one_sentence(parameters, y, message):
    with pytest.raises(ValueError, match=message):
        StratifiedNystroem(**parameters).fit(X, y)


def test_weights_of_zero_leave_nothing_to_draw():
    with pytest.raises(ValueError, match=r"no row is left to be a landmark|non-zero"):
        StratifiedNystroem().fit(X, Y, np.zeros(400))


def test_transforming_before_fitting_is_refused():
    with pytest.raises(NotFittedError):
        StratifiedNystroem().transform(X)
