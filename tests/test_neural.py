"""Density-weighted networks: the gradient and the forward pass against twins, what weights mean, and stopping."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_iris, make_friedman1
from sklearn.metrics import balanced_accuracy_score, log_loss, mean_absolute_error
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenmargin._input.checks import seed_from
from evenmargin.density import DensityWeights
from evenmargin.neural import DensityWeightedMLPClassifier, DensityWeightedMLPRegressor, base, network
from evenmargin.sampling import hold_out

torch = pytest.importorskip("torch", reason="networks are trained with torch, an optional extra")

X, Y = imbalanced(n=160, d=5, ratio=0.8, seed=1)
F, T = make_friedman1(400, noise=0.5, random_state=0)
WEIGHT = np.random.default_rng(0).uniform(0.2, 3.0, T.size)
LOSSES = {
    "absolute_error": network.absolute_error,
    "squared_error": network.squared_error,
    "log_loss": network.log_loss,
    "cross_entropy": network.cross_entropy,
}
BOTH = [DensityWeightedMLPRegressor, DensityWeightedMLPClassifier]


def regressor(*, epochs=30, **options):
    return DensityWeightedMLPRegressor((20, 10), max_epochs=epochs, random_state=0, **options)


def classifier(*, epochs=60, rate=0.01, **options):
    return DensityWeightedMLPClassifier((20, 10), max_epochs=epochs, learning_rate_init=rate, random_state=0, **options)


def full_batch(**options):
    """No order of the rows, no random part: what is left is the objective."""
    return {"batch_size": 10_000, "n_iter_no_change": None, **options}


@parametrize_with_checks(
    [
        DensityWeightedMLPRegressor((20,), max_epochs=80, learning_rate_init=0.02, random_state=0, device="cpu"),
        DensityWeightedMLPClassifier((20,), max_epochs=60, learning_rate_init=0.02, random_state=0, density="sqrt"),
    ],
    expected_failed_checks=lambda estimator: dict.fromkeys(
        ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
        "rows are visited in a random order, in batches: a row twice is a row of weight 2 in expectation only",
    ),
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# --- the gradient and the forward pass ---


def batch(loss, n=17, outputs=3):
    """Rows, targets and weights for one of the losses, in float64."""
    rng = np.random.default_rng(5)
    outputs = outputs if loss == "cross_entropy" else 1
    target = rng.normal(size=(n, outputs))
    if loss == "log_loss":
        target = (target > 0).astype(float)
    if loss == "cross_entropy":
        target = np.eye(outputs)[rng.integers(outputs, size=n)]
    weight = rng.uniform(0, 2, (n, 1))
    weight[3] = 0.0
    return [torch.from_numpy(part).float() for part in (rng.normal(size=(n, 4)), target, weight)]


def small_network(outputs=1):
    return network.Network(torch, [4, 7, 6, outputs], torch.device("cpu"), np.random.default_rng(0))


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_is_that_of_autograd(loss):
    rows, target, weight = batch(loss)
    net = small_network(target.shape[1])
    net.gradient(rows, target, weight, LOSSES[loss])
    flat = net.flat.clone().requires_grad_()
    out, layers = rows, net.views(flat)
    for place, (matrix, intercept) in enumerate(layers):
        out = out @ matrix + intercept
        out = out if place == len(layers) - 1 else torch.relu(out)
    functional = torch.nn.functional
    value = {
        "absolute_error": lambda: (out - target).abs(),
        "squared_error": lambda: (out - target) ** 2,
        "log_loss": lambda: functional.binary_cross_entropy_with_logits(out, target, reduction="none"),
        "cross_entropy": lambda: functional.cross_entropy(out, target, reduction="none")[:, None],
    }[loss]()
    ((weight * value).sum() / rows.shape[0]).backward()
    assert_allclose(net.slope, flat.grad, atol=2e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_is_that_of_finite_differences(loss):
    rows, target, weight = (part.double() for part in batch(loss))
    net = small_network(target.shape[1])
    net.flat, net.slope = net.flat.double(), net.slope.double()
    net.layers, net.slopes = net.views(net.flat), net.views(net.slope)
    net.gradient(rows, target, weight, LOSSES[loss])
    slope, step = net.slope.clone(), 1e-6
    for place in range(0, net.flat.numel(), 7):
        around = []
        for change in (step, -2 * step):
            net.flat[place] += change
            around.append(float(net.gradient(rows, target, weight, LOSSES[loss])) / rows.shape[0])
        net.flat[place] += step
        assert (around[0] - around[1]) / (2 * step) == pytest.approx(float(slope[place]), abs=1e-7)


def test_a_step_is_that_of_torchs_adam():
    net, (rows, target, weight) = small_network(), batch("squared_error")
    peer = net.flat.clone().requires_grad_()
    ours, theirs = network.Adam(net, 0.01, 0.0), torch.optim.Adam([peer], lr=0.01)
    for _ in range(20):
        net.gradient(rows, target, weight, network.squared_error)
        peer.grad = net.slope.clone()
        ours.step()
        theirs.step()
    assert_allclose(net.flat, peer.detach(), atol=1e-5)


def test_alpha_is_the_price_of_the_matrices_and_not_of_the_intercepts():
    net = small_network()
    net.flat.fill_(2.0)
    net.slope.zero_()
    adam = network.Adam(net, 0.01, 0.25)
    adam.step()
    for matrix, intercept in net.slopes:
        assert_array_equal(matrix, 0.5)
        assert_array_equal(intercept, 0.0)


@pytest.mark.parametrize("standardize", [True, False])
def test_prediction_is_the_plain_forward_pass_of_the_coefficients(standardize):
    mlp = regressor(epochs=3, standardize=standardize).fit(F, T)
    for row, predicted in zip(F[:10], mlp.predict(F[:10]), strict=True):
        values = list(row)
        for place, (matrix, intercept) in enumerate(zip(mlp.coefs_, mlp.intercepts_, strict=True)):
            columns = zip(matrix.T, intercept, strict=True)
            values = [sum(v * w for v, w in zip(values, column, strict=True)) + b for column, b in columns]
            values = values if place == 2 else [max(v, 0.0) for v in values]
        assert values == pytest.approx([predicted], rel=1e-9)


def test_prediction_in_tiles_is_prediction_row_by_row(monkeypatch):
    mlp = regressor(epochs=2).fit(F, T)
    whole = mlp.predict(F)
    monkeypatch.setattr(base, "TILE", 7)
    assert_allclose(mlp.predict(F), whole)


def test_the_shapes_are_those_of_the_papers_network():
    mlp = DensityWeightedMLPRegressor(max_epochs=1).fit(F, T)
    assert [matrix.shape for matrix in mlp.coefs_] == [(10, 100), (100, 50), (50, 20), (20, 1)]


# --- what weights mean ---


@pytest.mark.parametrize("loss", ["absolute_error", "squared_error"])
def test_a_weight_of_two_is_a_row_twice_in_full_batches(loss):
    times = np.random.default_rng(1).integers(0, 4, T.size)
    options = full_batch(loss=loss, density=DensityWeights("sqrt", gamma=0.1))
    weighted = regressor(**options).fit(F, T, sample_weight=times)
    repeated = regressor(**options).fit(np.repeat(F, times, axis=0), np.repeat(T, times))
    assert_allclose(weighted.predict(F), repeated.predict(F), rtol=2e-3)
    assert_allclose(weighted.loss_curve_, repeated.loss_curve_, rtol=1e-3)


def test_a_weight_of_two_is_a_row_twice_for_balanced_classes():
    times = np.random.default_rng(1).integers(1, 4, Y.size)
    options = full_batch(class_weight="balanced", epochs=30)
    weighted = classifier(**options).fit(X, Y, sample_weight=times)
    repeated = classifier(**options).fit(np.repeat(X, times, axis=0), np.repeat(Y, times))
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=5e-3)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_weight_of_zero_is_no_row(early_stopping):
    kept = np.arange(T.size) % 3 > 0
    without = regressor(early_stopping=early_stopping, density="inverse").fit(F[kept], T[kept])
    weightless = regressor(early_stopping=early_stopping, density="inverse").fit(F, T, sample_weight=1.0 * kept)
    assert_array_equal(weightless.predict(F), without.predict(F))


@pytest.mark.parametrize("scale", [1024.0, 2.0**-20])
def test_only_ratios_of_weights_matter(scale):
    plain = regressor(batch_size=32).fit(F, T, sample_weight=WEIGHT)
    scaled = regressor(batch_size=32).fit(F, T, sample_weight=scale * WEIGHT)
    assert_allclose(scaled.predict(F), plain.predict(F), rtol=1e-4)


def test_the_loss_curve_is_the_weighted_mean_loss():
    mlp = regressor(**full_batch(epochs=1, learning_rate_init=1e-12)).fit(F, T, sample_weight=WEIGHT)
    expected = mean_absolute_error(T, mlp.predict(F), sample_weight=WEIGHT)
    assert mlp.loss_curve_ == pytest.approx([expected], rel=1e-4)


def test_density_weights_are_those_of_the_standardised_rows():
    rule, scaled = DensityWeights("density", gamma=0.2), (F - F.mean(axis=0)) / F.std(axis=0)
    inside = regressor(density=rule).fit(F, T)
    given = regressor().fit(F, T, sample_weight=rule.fit_weights(scaled))
    # Given as sample weights they also count in the means for standardising.
    outside = regressor(standardize=False, density=rule).fit(scaled, (T - T.mean()) / T.std())
    assert_allclose(inside.predict(F), T.mean() + T.std() * outside.predict(scaled), rtol=0.02)
    assert np.corrcoef(inside.predict(F), given.predict(F))[0, 1] > 0.95


@pytest.mark.parametrize("scheme", ["sqrt", 2, DensityWeights(6), "random"])
def test_a_density_is_a_name_a_number_or_an_object(scheme):
    weighted, plain = regressor(epochs=3, density=scheme).fit(F, T), regressor(epochs=3).fit(F, T)
    assert np.abs(weighted.predict(F) - plain.predict(F)).max() > 1e-4
    assert not hasattr(scheme, "weights_")


def test_the_density_of_the_own_class_leaves_out_rows_among_others():
    rule = DensityWeights("same_class", gamma=0.5)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    kept = rule.fit_weights(scaled, Y) > 0
    assert 0 < kept.sum() < Y.size
    wrong = np.where(kept, Y, -Y)
    options = full_batch(density=rule, standardize=False, epochs=5)
    mlp = classifier(**options).fit(scaled, Y)
    other = classifier(**{**options, "density": None}).fit(
        scaled[kept], wrong[kept], sample_weight=clone(rule).fit_weights(scaled, Y)[kept]
    )
    assert_allclose(mlp.decision_function(X), other.decision_function(X), atol=1e-3)


# --- learning ---


def test_it_learns_a_curve():
    mlp = regressor(epochs=150, early_stopping=True, learning_rate_init=0.01).fit(F[:300], T[:300])
    found = mean_absolute_error(T[300:], mlp.predict(F[300:]))
    assert found < 0.5 * mean_absolute_error(T[300:], np.full(100, np.median(T[:300])))


def test_the_target_may_be_far_from_zero():
    near, far = regressor().fit(F, T), regressor().fit(F + 1e4, 1e6 + 1e3 * T)
    assert_allclose(far.predict(F + 1e4), 1e6 + 1e3 * near.predict(F), rtol=1e-3)


def test_balanced_classes_find_more_of_the_rare_one():
    rng = np.random.default_rng(0)
    labels = np.arange(1200) % 20 == 0
    rows = rng.normal(size=(1200, 5)) + 0.7 * labels[:, None]
    plain, balanced = (
        classifier(epochs=10, class_weight=kind).fit(rows[:800], labels[:800]) for kind in (None, "balanced")
    )
    scores = [balanced_accuracy_score(labels[800:], mlp.predict(rows[800:])) for mlp in (plain, balanced)]
    assert scores[1] > scores[0] + 0.05


def test_a_dict_of_class_weights_speaks_of_labels():
    names = np.where(Y > 0, "fraud", "fine")
    totals = {label: 1 / np.mean(names == label) / 2 for label in ("fraud", "fine")}
    by_hand, balanced = (classifier(class_weight=kind).fit(X, names) for kind in (totals, "balanced"))
    assert_allclose(by_hand.decision_function(X), balanced.decision_function(X), atol=1e-3)
    with pytest.raises(ValueError, match="class_weight names"):
        classifier(class_weight={"no such": 1.0}).fit(X, names)


def test_several_classes_share_the_probability():
    rows, kinds = load_iris(return_X_y=True)
    names = np.array(["c", "a", "b"])[kinds]
    mlp = classifier(class_weight="balanced").fit(rows, names)
    assert mlp.score(rows, names) > 0.93
    assert mlp.decision_function(rows).shape == (150, 3)
    chances = mlp.predict_proba(rows)
    assert_allclose(chances.sum(axis=1), 1.0)
    assert_array_equal(mlp.classes_[chances.argmax(axis=1)], mlp.predict(rows))
    assert_allclose(np.exp(mlp.predict_log_proba(rows)), chances)


def test_probabilities_of_two_classes_are_logistic_scores():
    mlp = classifier().fit(X, Y)
    chances = mlp.predict_proba(X)
    assert_allclose(chances[:, 1], 1 / (1 + np.exp(-mlp.decision_function(X))))
    assert_allclose(mlp.predict_log_proba(X), np.log(chances))
    assert_array_equal(mlp.predict(X), np.where(chances[:, 1] > 0.5, 1, -1))


def test_the_classifiers_loss_is_the_log_loss():
    mlp = classifier(**full_batch(epochs=1, rate=1e-12)).fit(X, Y)
    assert mlp.loss_curve_ == pytest.approx([log_loss(Y, mlp.predict_proba(X))], rel=1e-4)


@pytest.mark.parametrize("container", [csr_array, csr_matrix])
def test_sparse_rows_are_scaled_and_not_centred(container):
    thin = np.where(np.random.default_rng(0).random(F.shape) < 0.6, 0.0, F)
    sparse = regressor(density="sqrt", early_stopping=True).fit(container(thin), T)
    dense = regressor(density="sqrt", early_stopping=True, standardize=False)
    split = hold_out(T, 0.1, np.random.default_rng(seed_from(0)), stratify=False)[0]
    scale, centre, unit = thin[split].std(axis=0), T[split].mean(), T[split].std()
    dense.fit(thin / scale, (T - centre) / unit)
    assert_allclose(sparse.predict(container(thin)), centre + unit * dense.predict(thin / scale), rtol=1e-2)
    assert_allclose(sparse.predict(thin), sparse.predict(container(thin)))


def test_no_hidden_layer_is_a_linear_model():
    mlp = DensityWeightedMLPRegressor((), max_epochs=2, random_state=0).fit(F, T)
    assert_allclose(mlp.predict(F), F @ mlp.coefs_[0].ravel() + mlp.intercepts_[0])


# --- stopping ---


def test_early_stopping_keeps_the_best_network():
    mlp = regressor(epochs=60, early_stopping=True, learning_rate_init=0.03, validation_fraction=0.25).fit(F, T)
    _, aside = hold_out(T, 0.25, np.random.default_rng(seed_from(0)), stratify=False)
    assert mlp.best_loss_ == min(mlp.validation_loss_curve_)
    assert np.argmin(mlp.validation_loss_curve_) < mlp.n_iter_ - 1
    assert mean_absolute_error(T[aside], mlp.predict(F[aside])) == pytest.approx(mlp.best_loss_, rel=1e-4)


def test_it_stops_when_the_loss_no_longer_falls():
    mlp = regressor(epochs=500, n_iter_no_change=3, tol=0.05).fit(F, T)
    assert mlp.n_iter_ == len(mlp.loss_curve_) < 100
    assert mlp.validation_loss_curve_ is None
    assert mlp.best_loss_ == min(mlp.loss_curve_)
    assert regressor(epochs=100, n_iter_no_change=None, tol=10.0).fit(F, T).n_iter_ == 100


def test_rows_held_out_are_of_every_class_and_as_many_as_asked():
    labels = np.repeat(["a", "b", "c"], [90, 8, 2])
    train, aside = hold_out(labels, 0.1, np.random.default_rng(0), stratify=True)
    assert_array_equal(np.sort(np.concatenate([train, aside])), np.arange(100))
    assert dict(zip(*np.unique(labels[aside], return_counts=True), strict=True)) == {"a": 9, "b": 1, "c": 1}


def test_the_network_is_judged_without_its_density():
    mlp = regressor(early_stopping=True, density="square", epochs=5).fit(F, T)
    _, aside = hold_out(T, 0.1, np.random.default_rng(seed_from(0)), stratify=False)
    assert mean_absolute_error(T[aside], mlp.predict(F[aside])) == pytest.approx(mlp.best_loss_, rel=1e-4)


# --- the same answer, and manners ---


@pytest.mark.parametrize("kind", BOTH)
def test_the_same_seed_gives_the_same_network(kind):
    y = Y if kind is DensityWeightedMLPClassifier else X[:, 0]
    one, two, other = (kind((9,), max_epochs=4, batch_size=16, random_state=seed).fit(X, y) for seed in (0, 0, 1))
    assert_array_equal(one.coefs_[0], two.coefs_[0])
    assert np.abs(one.coefs_[0] - other.coefs_[0]).max() > 1e-3


def test_torchs_random_state_and_threads_are_left_alone():
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    regressor(epochs=2, density="random").fit(F, T)
    assert_array_equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_a_network_can_be_kept_and_cloned():
    mlp = regressor(epochs=2, density=DensityWeights("sqrt")).fit(F, T)
    assert_array_equal(pickle.loads(pickle.dumps(mlp)).predict(F), mlp.predict(F))
    assert_array_equal(clone(mlp).fit(F, T).predict(F), mlp.predict(F))


def test_frames_keep_their_names():
    names = [f"column {j}" for j in range(10)]
    mlp = regressor(epochs=1).fit(pd.DataFrame(F, columns=names), pd.Series(T))
    assert_array_equal(mlp.feature_names_in_, names)
    with pytest.raises(ValueError, match="feature names"):
        mlp.predict(pd.DataFrame(F, columns=names[::-1]))


def test_a_search_goes_over_densities():
    search = GridSearchCV(regressor(epochs=3), {"density": [None, *map(DensityWeights, (1, 4))]}, cv=2).fit(F, T)
    assert len(search.cv_results_["params"]) == 3


def test_without_torch_a_network_predicts_and_says_what_fit_needs(tmp_path):
    mlp = regressor(epochs=1).fit(F, T)
    (tmp_path / "mlp.pkl").write_bytes(pickle.dumps((mlp, F[:5], mlp.predict(F[:5]))))
    script = """
import pickle, sys
class Hidden:
    def find_spec(name, *_):
        if name == "torch":
            raise ImportError("No module named 'torch'")
sys.meta_path.insert(0, Hidden)
import numpy as np
mlp, rows, expected = pickle.load(open(sys.argv[1], "rb"))
assert np.array_equal(mlp.predict(rows), expected)
assert "numba" not in sys.modules
try:
    mlp.fit(rows, expected)
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "mlp.pkl")], capture_output=True, text=True, check=True
    )
    assert "pip install 'evenmargin[torch]'" in done.stdout


def test_a_bar_shows_the_epochs(capsys):
    regressor(epochs=2, verbose=1).fit(F, T)
    assert "epochs" in capsys.readouterr().out


# --- bad input ---


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hidden_layer_sizes": (10, 0)}, "hidden_layer_sizes=.* numbers above 0"),
        ({"hidden_layer_sizes": (10, 2.5)}, "hidden_layer_sizes=.* numbers above 0"),
        ({"hidden_layer_sizes": -3}, "hidden_layer_sizes=-3 .* above 0"),
        ({"batch_size": 0}, "'batch_size' .* range"),
        ({"device": "no such"}, "torch cannot use device='no such' here: choose 'auto' or 'cpu'"),
        ({"device": "meta"}, "torch cannot use device='meta'"),
        ({"density": True}, "density=True is not an option"),
        ({"density": "no such"}, "'scheme' parameter"),
        ({"validation_fraction": 1.0}, "'validation_fraction'"),
        ({"learning_rate_init": 1e30}, "not finite in epoch .*: choose a smaller learning_rate_init"),
    ],
)
@pytest.mark.parametrize("kind", BOTH)
def test_a_parameter_that_makes_no_sense(kind, options, words):
    with pytest.raises(ValueError, match=words):
        kind(**{"max_epochs": 5, **options}).fit(X, Y)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there():
    with pytest.raises(ValueError, match="torch cannot use device='cuda' here"):
        regressor(device="cuda").fit(F, T)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("container", [np.asarray, csr_array])
def test_a_gpu_finds_the_same_network(container):
    there, here = (regressor(device=name, epochs=5).fit(container(F), T) for name in ("cuda", "cpu"))
    assert there.device_ == "cuda"
    assert_allclose(there.predict(F), here.predict(F), rtol=0.02)


@pytest.mark.parametrize(
    ("weight", "words"), [(-np.ones(400), "[Nn]egative"), (np.zeros(400), "[Ss]ample weights .*zero")]
)
def test_weights_that_make_no_sense(weight, words):
    with pytest.raises(ValueError, match=words):
        regressor().fit(F, T, sample_weight=weight)


def test_a_regressor_knows_no_density_of_classes():
    for scheme in ("same_class", 7, DensityWeights(7)):
        with pytest.raises(ValueError, match="a regressor does not have"):
            regressor(density=scheme).fit(F, T)


def test_targets_that_are_no_numbers():
    with pytest.raises(ValueError, match="must hold numbers"):
        regressor().fit(F, np.where(T > 0, "much", "little"))
    with pytest.raises(ValueError, match="too large to square"):
        regressor().fit(F, T * 1e200)


def test_a_class_of_one_row_cannot_be_held_out():
    with pytest.raises(ValueError, match="Class 2 has only one sample, but a validation part needs another"):
        classifier(early_stopping=True).fit(X, np.r_[2, Y[1:]])


def test_a_density_that_leaves_a_class_without_weight():
    rows, labels = np.r_[np.zeros((20, 1)), np.full((2, 1), 0.01)], np.repeat([0, 1], [20, 2])
    with pytest.raises(ValueError, match="every row of class 1 a weight of 0"):
        classifier(density=DensityWeights("same_class", gamma=0.01)).fit(rows, labels)
