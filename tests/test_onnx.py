"""Models as ONNX: onnxruntime says what the model says, and refusals are one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, NuSVC

from evenmargin import EvenMarginClassifier, KernelSVM, LinearSVM, StratifiedNystroem, ZAdjustedClassifier, __version__

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

from evenmargin.onnx import BOUND, check_onnx, export_onnx, onnx_inputs, to_onnx  # noqa: E402

KERNELS = ("rbf", "laplacian", "exponential", "linear", "poly", "sigmoid")
SMALL_SETS = (
    "abalone19", "adult_a9a", "breast_wdbc", "breast_wisconsin", "car_good", "ecoli_imu", "euthyroid", "german_credit",
    "ionosphere", "letter", "mammography", "oil_spill", "ozone_level", "segmentation", "shuttle",
    "sick_euthyroid_full", "sonar", "spectrometer", "statlog_heart", "wine_quality_white", "yeast_me2", "yeast_ml8",
)  # fmt: skip


def fast(**parameters):
    return EvenMarginClassifier(time_budget="fast", **parameters)


def fitted(model, X, y):
    """The model; what it says about the data while it is fitted is not looked at here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def same(model, X, of=None, exact=False):
    """Labels are equal and scores within the bound, or within what double allows."""
    check = check_onnx(to_onnx(model, of), model, X)
    assert check.wrong_labels == 0, check
    assert check.passed, check
    if exact:
        assert check.score_difference <= 1e-7 * check.largest_score, check
    return check


def run(proto, feed):
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feed), strict=True))


def three_classes(X):
    return np.array(["high", "low", "middle"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]


def every_kind(n, seed=0):
    """A frame with every kind of column, gaps, hostile names, and a rare class that it tells of."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(int)
    frame = pd.DataFrame({
        "a number": rng.normal(size=n) + y,
        "label": rng.integers(0, 30, n) + 3 * y,
        "<script>": rng.choice(["red", "grün", "blue, dark"], n),
        "x3": rng.random(n) < 0.3 + 0.3 * y,
        "X": pd.array(rng.random(n) < 0.5, dtype="boolean"),
        "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 500, n) + 50 * y, unit="D"),
        "zone": pd.Timestamp("2020-01-01", tz="Europe/Berlin") + pd.to_timedelta(rng.integers(0, 500, n), unit="h"),
        "span": pd.to_timedelta(rng.normal(size=n), unit="h"),
        "month": pd.period_range("2000-01", "2020-12", freq="M")[rng.integers(0, 200, n)],
        "code": pd.Categorical(rng.integers(1, 9, n)),
        "answer": np.where(rng.random(n) < 0.5, "yes", None),
        "rare": rng.choice(["p", "q", *(f"r{i}" for i in range(100))], n, p=[0.4, 0.3, *[0.003] * 100]),
        "few": rng.choice([0.0, 1.0, 2.0], n),
        "constant": 1,
    })  # fmt: skip
    for name in ("a number", "X", "when", "span", "code"):
        frame.loc[rng.random(n) < 0.1, name] = None
    return frame, y


@pytest.fixture(scope="module")
def table():
    """A frame, its labels, and a model of the first 400 of its 600 rows."""
    frame, y = every_kind(600)
    return frame, y, fitted(fast(), frame[:400], y[:400])


# --- the machines ---


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_has_the_labels_and_scores_of_predict(kernel, dtype):
    X, y = imbalanced(400, dtype=dtype)
    model = fitted(KernelSVM(kernel=kernel, gamma=0.05), X[:200], y[:200])
    same(model, X, exact=True)


def test_a_machine_that_predicts_in_float32_is_within_the_bound():
    X, y = imbalanced(1500, ratio=0.7)
    model = KernelSVM(gamma=0.2).fit(X[:1000], y[:1000])
    assert model._single
    same(model, X)


@pytest.mark.parametrize("kernel", KERNELS)
def test_many_rows_are_scored_in_blocks(kernel, monkeypatch):
    monkeypatch.setattr("evenmargin.onnx._machines._BLOCK", 1)  # blocks of 64 rows, the smallest
    X, y = imbalanced(200)
    same(fitted(KernelSVM(kernel=kernel, gamma=0.05), X, y), X[:150], exact=True)


def test_one_row_and_no_row_can_be_scored():
    X, y = imbalanced()
    proto = to_onnx(KernelSVM().fit(X, y))
    assert run(proto, {"X": X[:1]})["label"].shape == (1,)
    assert run(proto, {"X": X[:0]})["scores"].shape == (0,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_a_linear_machine_has_the_labels_scores_and_probabilities_of_predict(loss, dtype):
    X, y = imbalanced(dtype=dtype)
    check = same(LinearSVM(loss=loss).fit(X, y), X)
    assert (check.probability_difference is not None) == (loss == "log")


@pytest.mark.parametrize("model", [LinearSVM(), LinearSVM(loss="log"), KernelSVM(), KernelSVM(loss="log")])
def test_several_classes_are_one_against_the_rest(model):
    X, _ = imbalanced(300)
    y = three_classes(X)
    check = same(model.fit(X, y), X)
    assert run(to_onnx(model), {"X": X})["scores"].shape == (300, 3)
    assert check.probability_difference is None or check.probability_difference < 1e-5


def test_a_machine_that_was_fitted_on_sparse_rows_is_exported_dense():
    from scipy.sparse import csr_matrix

    X, y = imbalanced()
    model = KernelSVM().fit(csr_matrix(np.where(X > 0.5, X, 0.0)), y)
    same(model, np.where(X > 0.5, X, 0.0), exact=True)


def test_a_machine_without_support_vectors_has_its_intercept_as_score():
    X, y = imbalanced()
    model = KernelSVM().fit(X, y)
    model.dual_coef_, model.support_vectors_ = model.dual_coef_[:, :0], model.support_vectors_[:0]
    same(model, X)


def test_the_input_is_float_where_the_model_was_fitted_on_float32_and_else_double():
    X, y = imbalanced()
    for dtype, kind in ((np.float32, onnx.TensorProto.FLOAT), (np.float64, onnx.TensorProto.DOUBLE)):
        for model in (LinearSVM(), KernelSVM()):
            (own,) = to_onnx(model.fit(X.astype(dtype), y)).graph.input
            assert own.type.tensor_type.elem_type == kind


# --- boundaries and labels ---


def test_a_score_of_exactly_0_is_the_first_class():
    X, y = imbalanced()
    model = LinearSVM().fit(X, y)
    model.coef_[:], model.intercept_[:] = 0.0, 0.0
    assert (run(to_onnx(model), {"X": X})["label"] == model.classes_[0]).all()


def test_the_first_of_equal_scores_wins():
    X, _ = imbalanced()
    model = LinearSVM().fit(X, three_classes(X))
    model.coef_[:], model.intercept_[:] = 0.0, [0.0, 1.0, 1.0]
    assert (run(to_onnx(model), {"X": X})["label"] == model.classes_[1]).all()


@pytest.mark.parametrize("minority", [0, 1])
def test_an_adjusted_score_of_exactly_0_is_the_majority(minority):
    X, y = imbalanced()
    model = ZAdjustedClassifier(LinearSVM(), method="threshold").fit(X, y == (1 if minority else -1))
    machine = model.estimator_
    machine.coef_[:], machine.intercept_[:], model.threshold_ = 0.0, 0.0, 0.0
    assert model.minority_ == model.classes_[minority]
    same(model, X)
    assert (run(to_onnx(model), {"X": X})["label"] != model.minority_).all()


@pytest.mark.parametrize("positive", [-1, 1])
def test_a_score_on_the_threshold_is_negative_whichever_class_that_is(positive):
    X, y = imbalanced()
    model = fitted(fast(pos_label=positive), X, y)
    for member in model.detectors_[0].committee.members:  # all scores are the same
        member.slope, member.offset = 0.0, 0.5
    model.set_operating_point(threshold=0.5)
    assert (model.predict(X) != positive).all()
    assert (run(to_onnx(model), {"X": X})["label"] != positive).all()


@pytest.mark.parametrize(
    "classes",
    [["common", "rare"], [3, 7], [False, True], [-1.0, 1.0], np.array(["no", "yes"], dtype=object), [0, 255]],
    ids=["strings", "integers", "booleans", "floats", "objects", "bytes"],
)
@pytest.mark.parametrize("model", [LinearSVM(), KernelSVM(), ZAdjustedClassifier(KernelSVM()), fast()])
def test_labels_keep_their_type(model, classes):
    X, y = imbalanced(120)
    model = fitted(model, X, np.asarray(classes)[(y > 0).astype(int)])
    same(model, X)
    labels = run(to_onnx(model), {"X": X})["label"]
    assert labels.dtype.kind == (model.classes_.dtype.kind if model.classes_.dtype.kind != "U" else "O")


# --- z and thresholds ---

AROUND = {
    "LinearSVM": LinearSVM(),
    "KernelSVM": KernelSVM(),
    "SVC": SVC(),
    "SVC poly": SVC(kernel="poly"),
    "SVC sigmoid": SVC(kernel="sigmoid", gamma=0.01),
    "SVC linear": SVC(kernel="linear"),
    "NuSVC": NuSVC(nu=0.1),
    "pipeline": make_pipeline(StandardScaler(), SVC()),
    "map": make_pipeline(StandardScaler(), StratifiedNystroem(n_components=20, random_state=0), LinearSVM()),
    "nested": make_pipeline(StandardScaler(), make_pipeline("passthrough", KernelSVM())),
}


@pytest.mark.parametrize("rare", [-1, 1])
@pytest.mark.parametrize("method", ["z", "threshold"])
@pytest.mark.parametrize("name", AROUND)
def test_adjusted_machines_have_the_labels_and_scores_of_predict(name, method, rare):
    X, y = imbalanced(200)
    model = fitted(ZAdjustedClassifier(AROUND[name], method=method), X, rare * y)
    same(model, X, exact=True)


def test_a_machine_that_was_frozen_is_looked_through():
    X, y = imbalanced()
    machine = make_pipeline(StandardScaler(), FrozenEstimator(SVC().fit(StandardScaler().fit_transform(X), y)))
    same(ZAdjustedClassifier(FrozenEstimator(machine.fit(X, y)), cv="prefit").fit(X, y), X, exact=True)


# --- EvenMarginClassifier ---


@pytest.mark.parametrize("several", [False, True])
def test_the_classifier_has_labels_scores_and_probabilities_of_predict_on_arrays_with_gaps(several):
    X, y = imbalanced(450, d=8)
    y = three_classes(X) if several else y
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    X[:, 2] = np.round(X[:, 2])  # few values, so without a map of its own
    model = fitted(fast(), X[:300], y[:300])
    check = same(model, X[300:])
    assert check.probability_difference < 1e-4
    assert check_onnx(to_onnx(model), model, X[:300]).passed


def test_the_classifier_is_exact_where_predict_is_in_double():
    X, y = imbalanced(200)
    model = fitted(fast(), X[:150], y[:150])
    assert all(member.machine.beta.size <= 256 for member in model.detectors_[0].committee.members)
    assert same(model, X, exact=True).probability_difference < 1e-7


def test_the_classifier_takes_frames_with_every_kind_of_column(table):
    frame, _, model = table
    check = same(model, frame[400:])
    assert check.probability_difference < 1e-4
    assert check_onnx(to_onnx(model), model, frame[:400]).passed


def test_several_classes_of_a_frame(table):
    frame, _, _ = table
    y = np.random.default_rng(1).choice([3, 5, 9], 600)
    same(fitted(fast(), frame[:200], y[:200]), frame[400:])


def test_inputs_have_the_names_of_the_columns_and_outputs_give_way(table):
    frame, _, model = table
    proto = to_onnx(model)
    assert [own.name for own in proto.graph.input] == list(frame.columns)
    assert [output.name for output in proto.graph.output] == ["label_out", "probabilities", "scores"]
    onnx.checker.check_model(proto, full_check=True)


def test_numbers_booleans_and_dates_are_doubles_and_categories_are_strings(table):
    _, _, model = table
    kinds = {own.name: own.type.tensor_type.elem_type for own in to_onnx(model).graph.input}
    strings = {name for name, kind in kinds.items() if kind == onnx.TensorProto.STRING}
    assert strings == {"<script>", "code", "answer", "rare"}
    assert all(kind == onnx.TensorProto.DOUBLE for name, kind in kinds.items() if name not in strings)


def test_dates_are_fed_as_days_since_1970_and_missing_words_as_empty_ones(table):
    frame, _, model = table
    row = frame[:1].assign(when=pd.Timestamp("1970-01-11 12:00"), answer=None, code=3.0)
    feed = onnx_inputs(model, row)
    assert feed["when"].tolist() == [[10.5]]
    assert feed["answer"].tolist() == [[""]]
    assert feed["code"].tolist() == [["3"]]


def test_categories_that_are_unknown_or_missing_are_taken_as_predict_takes_them(table):
    frame, _, model = table
    rows = frame[400:500].copy()
    rows["rare"], rows["<script>"], rows["code"] = "never seen", None, None
    same(model, rows)
    rows["rare"], rows["<script>"] = None, ""
    same(model, rows)


def test_the_empty_word_may_be_a_category():
    frame, y = every_kind(300)
    frame = frame[["a number", "answer"]].assign(word=np.where(y == 1, "", "full"))
    frame.loc[:40, "word"] = None
    model = fitted(fast(), frame, y)
    assert onnx_inputs(model, frame[:1])["word"].tolist() == [["(missing)"]]
    same(model, frame.assign(word=""))
    same(model, frame.assign(word=None))


def test_a_column_may_have_the_name_of_anything_in_the_graph():
    X, y = imbalanced(150, d=5)
    model = fitted(fast(), pd.DataFrame(X, columns=["scores", "scores_out", "x1", "x2", "Gemm"]), y)
    same(model, pd.DataFrame(X, columns=model.feature_names_in_))


def test_a_frame_without_names_is_fed_by_place(table):
    frame, y, _ = table
    rows = frame[["a number", "rare"]].set_axis([0, 1], axis=1)
    model = fitted(fast(), rows, y)
    same(model, rows[:100])


def test_a_new_operating_point_shows_in_the_labels():
    X, y = imbalanced(300)
    model = fitted(fast(), X, y)
    before = run(to_onnx(model), {"X": X})["label"]
    model.set_operating_point(probability=0.9)
    after = run(to_onnx(model), {"X": X})["label"]
    assert (before == 1).sum() > (after == 1).sum()
    np.testing.assert_array_equal(after, model.predict(X))


def test_a_nystroem_map_of_many_rows_is_a_sum_like_any_other(monkeypatch):
    from dataclasses import replace

    from evenmargin.auto import classifier
    from evenmargin.auto.plan import plan_for

    monkeypatch.setattr(classifier, "plan_for", lambda *parts: replace(plan_for(*parts), exact=100, landmarks=40))
    X, y = imbalanced(400)
    same(fitted(fast(), X[:300], y[:300]), X[300:])


# --- pipelines ---


def columns():
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer([
        ("numbers", numbers, ["a number", "label"]), ("words", one_hot, ["<script>", "rare"]),
        ("codes", one_hot, ["few"]), ("as it is", "passthrough", ["x3"]),
    ])  # fmt: skip


@pytest.mark.parametrize(
    "model",
    [LinearSVM(loss="log"), KernelSVM(), ZAdjustedClassifier(KernelSVM()), fast()],
    ids=lambda model: type(model).__name__,
)
def test_pipelines_on_frames_have_the_labels_of_predict(model, table):
    frame, y, _ = table
    pipeline = fitted(make_pipeline(columns(), model), frame[:400], y[:400])
    same(pipeline, frame[400:], of=frame[:5])


def test_a_pipeline_may_be_inside_the_adjusted_machine(table):
    frame, y, _ = table
    same(ZAdjustedClassifier(make_pipeline(columns(), KernelSVM())).fit(frame, y), frame, of=frame)


def test_pipelines_on_arrays_need_no_rows():
    X, y = imbalanced()
    same(make_pipeline(SimpleImputer(), StandardScaler(), "passthrough", KernelSVM()).fit(X, y), X)


def test_a_pipeline_may_take_float32():
    X, y = imbalanced(dtype=np.float32)
    model = make_pipeline(StandardScaler(), LinearSVM()).fit(X, y)
    proto = to_onnx(model, X)
    assert proto.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert check_onnx(proto, model, X).passed


def test_a_map_may_come_before_a_machine():
    X, y = imbalanced()
    for kernel in ("rbf", "laplacian"):
        model = make_pipeline(StratifiedNystroem(kernel, n_components=30, random_state=0), LinearSVM()).fit(X, y)
        same(model, X)


def test_machines_on_frames_have_an_input_for_each_column():
    X, y = imbalanced()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = LinearSVM().fit(frame, y)
    assert [own.name for own in to_onnx(model).graph.input] == list("abcdef")
    same(model, frame)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_skl2onnx_knows_the_converters(dtype):
    X, y = imbalanced(dtype=dtype)
    model = make_pipeline(StandardScaler(), KernelSVM()).fit(X, y)
    proto = skl2onnx.to_onnx(model, X[:1])
    np.testing.assert_array_equal(run(proto, {"X": X})["label"], model.predict(X))


def test_skl2onnx_takes_the_columns_of_a_frame_as_it_finds_them(table):
    frame, y, _ = table
    frame = frame[["label", "x3", "few", "rare"]]  # integers, booleans, floats, strings
    model = fitted(fast(), frame, y)
    proto = skl2onnx.to_onnx(model, frame[:1])
    values = [frame[name].to_numpy().reshape(-1, 1) for name in frame]
    feed = dict(zip([own.name for own in proto.graph.input], values, strict=True))
    feed = {name: column.astype(object) if column.dtype.kind in "OUT" else column for name, column in feed.items()}
    np.testing.assert_array_equal(next(iter(run(proto, feed).values())), model.predict(frame))


def test_steps_that_resample_have_no_part_in_predicting():
    imblearn = pytest.importorskip("imblearn")
    X, y = imbalanced()
    sampler = imblearn.over_sampling.RandomOverSampler(random_state=0)
    same(imblearn.pipeline.make_pipeline(StandardScaler(), sampler, KernelSVM()).fit(X, y), X)


# --- files, and what is in them ---


def test_the_same_model_gives_the_same_file(table):
    _, _, model = table
    assert to_onnx(model).SerializeToString() == to_onnx(model).SerializeToString()


def test_a_model_that_was_saved_and_loaded_gives_the_same_file(table, tmp_path):
    from evenmargin.persistence import load, save

    _, _, model = table
    loaded = load(save(model, tmp_path / "model.skops"))
    assert to_onnx(loaded).SerializeToString() == to_onnx(model).SerializeToString()


def test_a_file_says_what_it_is():
    X, y = imbalanced()
    model = fitted(fast(), X, np.where(y > 0, "rare", "common")).set_operating_point(threshold=0.25)
    proto = to_onnx(model)
    facts = {fact.key: fact.value for fact in proto.metadata_props}
    assert (proto.producer_name, proto.producer_version) == ("evenmargin", __version__)
    assert facts["model"] == "EvenMarginClassifier"
    assert json.loads(facts["classes"]) == ["common", "rare"]
    assert facts["pos_label"] == "rare"
    assert json.loads(facts["threshold"]) == 0.25


def test_the_graph_is_for_onnxruntime_from_1_20_on():
    X, y = imbalanced()
    for model in (LinearSVM(loss="log"), KernelSVM(kernel="laplacian"), fast()):
        proto = to_onnx(fitted(model, X, y))
        onnx.checker.check_model(proto, full_check=True)
        assert proto.ir_version <= 10
        assert {opset.domain: opset.version for opset in proto.opset_import}[""] <= 21


def test_a_file_is_checked_by_its_path_and_replaces_another(tmp_path):
    X, y = imbalanced()
    model, path = KernelSVM().fit(X, y), tmp_path / "model.onnx"
    path.write_bytes(b"an earlier one")
    assert export_onnx(model, path) == path
    assert check_onnx(str(path), model, X).passed
    assert [found.name for found in tmp_path.iterdir()] == ["model.onnx"]


def test_a_model_that_cannot_be_exported_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"an earlier one")
    with pytest.raises(ValueError, match="LogisticRegression cannot be exported"):
        export_onnx(LogisticRegression().fit([[0], [1]], [0, 1]), path)
    assert path.read_bytes() == b"an earlier one"


def test_a_check_notices_another_model():
    X, y = imbalanced()
    model = LinearSVM().fit(X, y)
    check = check_onnx(to_onnx(LinearSVM().fit(X, -y)), model, X)
    assert not check.passed
    assert check.wrong_labels > 100
    assert "differ" in str(check)


def test_a_check_is_said_in_a_sentence():
    X, y = imbalanced()
    model = LinearSVM(loss="log").fit(X, y)
    assert str(check_onnx(to_onnx(model), model, X)).startswith("200 rows: labels equal, scores within ")


def test_the_bound_is_a_share_of_the_largest_score():
    X, y = imbalanced()
    model = LinearSVM().fit(X, y)
    other = LinearSVM().fit(X, y)
    other.intercept_ = other.intercept_ + 3 * BOUND * np.abs(model.decision_function(X)).max()
    assert not check_onnx(to_onnx(other), model, X).passed


# --- refusals ---


def test_a_model_that_is_not_fitted_is_refused():
    for model in (KernelSVM(), fast(), make_pipeline(StandardScaler(), LinearSVM())):
        with pytest.raises(ValueError, match="not fitted"):
            to_onnx(model)


def test_a_model_of_another_kind_is_refused_with_what_can_be_exported():
    with pytest.raises(ValueError, match="LogisticRegression cannot be exported: LinearSVM, KernelSVM, ZAdjusted"):
        to_onnx(make_pipeline(StandardScaler(), LogisticRegression()).fit([[0], [1]], [0, 1]))


def test_of_a_search_the_best_estimator_is_asked_for():
    from sklearn.model_selection import GridSearchCV

    X, y = imbalanced()
    search = GridSearchCV(LinearSVM(), {"C": [1.0]}).fit(X, y)
    with pytest.raises(ValueError, match="perhaps its best_estimator_"):
        to_onnx(search)
    same(search.best_estimator_, X)


@pytest.mark.parametrize(("kernel", "said"), [("precomputed", "precomputed kernel"), (np.inner, "function as a")])
@pytest.mark.parametrize("kind", [KernelSVM, lambda **given: ZAdjustedClassifier(SVC(**given))])
def test_kernels_without_a_form_in_onnx_are_refused(kind, kernel, said):
    X, y = imbalanced()
    model = kind(kernel=kernel).fit(X @ X.T if kernel == "precomputed" else X, y)
    with pytest.raises(ValueError, match=f"A {said}.* cannot be exported to ONNX: fit with kernel='rbf'"):
        to_onnx(model)


def test_z_around_another_classifier_is_refused():
    X, y = imbalanced()
    with pytest.raises(ValueError, match="around LogisticRegression cannot be exported: LinearSVM, KernelSVM"):
        to_onnx(ZAdjustedClassifier(LogisticRegression(), method="threshold").fit(X, y))


def test_labels_without_a_form_in_onnx_are_refused():
    X, y = imbalanced()
    model = LinearSVM().fit(X, y)
    model.classes_ = np.array([-1, "one"], dtype=object)
    with pytest.raises(ValueError, match="Classes of type int, str cannot be exported to ONNX"):
        to_onnx(model)


def test_a_pipeline_on_a_frame_asks_for_some_rows(table):
    frame, y, _ = table
    with pytest.raises(ValueError, match="give some of its rows as X"):
        to_onnx(make_pipeline(columns(), LinearSVM()).fit(frame, y))


def test_a_step_that_skl2onnx_does_not_know_is_named():
    X, y = imbalanced()
    model = make_pipeline(FunctionTransformer(np.tanh), LinearSVM()).fit(X, y)
    with pytest.raises(ValueError, match=r"skl2onnx cannot convert a step of this pipeline: .*FunctionTransformer"):
        to_onnx(model, X)


def test_columns_that_are_missing_are_named(table):
    frame, _, model = table
    with pytest.raises(ValueError, match="X lacks the column 'rare'"):
        onnx_inputs(model, frame.drop(columns="rare"))
    X, y = imbalanced()
    with pytest.raises(ValueError, match=r"X has shape \(200, 5\), but the model takes 6 columns"):
        onnx_inputs(LinearSVM().fit(X, y), X[:, :5])


def test_a_file_that_is_no_model_is_refused(tmp_path):
    X, y = imbalanced()
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ValueError, match="onnxruntime cannot load this model"):
        check_onnx(tmp_path / "model.onnx", LinearSVM().fit(X, y), X)


def test_a_graph_of_other_columns_is_refused():
    X, y = imbalanced()
    named = LinearSVM().fit(pd.DataFrame(X, columns=list("abcdef")), y)
    with pytest.raises(ValueError, match="has an input 'a' that the model lacks"):
        check_onnx(to_onnx(named), LinearSVM().fit(X, y), X)


@pytest.mark.parametrize("name", ["skl2onnx", "onnxruntime"])
def test_a_missing_package_is_said_with_how_to_install_it(name, monkeypatch):
    X, y = imbalanced()
    model = LinearSVM().fit(X, y)
    proto = to_onnx(model)
    monkeypatch.setattr("evenmargin.onnx._convert.find_spec", lambda wanted: None if wanted == name else wanted)
    with pytest.raises(ImportError, match=rf'need {name}: install it with `pip install "evenmargin\[onnx\]"`'):
        to_onnx(model) if name == "skl2onnx" else check_onnx(proto, model, X)


def test_the_module_can_be_imported_without_the_packages():
    code = """
import sys
for name in ("onnx", "onnxruntime", "skl2onnx"):
    sys.modules[name] = None
from evenmargin.onnx import to_onnx
from sklearn.linear_model import LogisticRegression
try:
    to_onnx(LogisticRegression())
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'Models as ONNX need skl2onnx: install it with `pip install "evenmargin[onnx]"`.'


def test_a_column_without_a_name_is_refused():
    X, y = imbalanced(d=2)
    with pytest.raises(ValueError, match="A column of X has an empty name"):
        to_onnx(LinearSVM().fit(pd.DataFrame(X, columns=["a", ""]), y))


def test_an_old_opset_is_refused():
    X, y = imbalanced()
    with pytest.raises(ValueError, match="need an opset of 13 or more"):
        skl2onnx.to_onnx(LinearSVM().fit(X, y), X[:1], target_opset=12)


# --- the papers' data ---


@pytest.mark.parametrize("name", SMALL_SETS)
def test_labels_are_equal_on_the_small_sets_of_the_papers(name, papers_data):
    arrays = papers_data(name)
    X, y = arrays["X"], arrays["y"]
    some = np.random.default_rng(0).permutation(y.size)[:3000]
    X, y, half = X[some], y[some], some.size // 2
    scaled = StandardScaler().fit(X[:half])
    for model in (
        fast(),
        make_pipeline(scaled, KernelSVM(class_weight="balanced")),
        make_pipeline(scaled, LinearSVM(class_weight="balanced")),
        make_pipeline(scaled, ZAdjustedClassifier(KernelSVM())),
    ):
        proto = to_onnx(fitted(model, X[:half], y[:half]))
        for rows in (X[half:], X[:half]):
            found = check_onnx(proto, model, rows)
            assert found.wrong_labels == 0, f"{type(model).__name__}: {found}"
            assert found.passed, f"{type(model).__name__}: {found}"
