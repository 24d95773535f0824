"""The command, as people and machines use it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import evenmargin
from evenmargin import EvenMarginClassifier, KernelSVM, LinearSVM
from evenmargin.cli import app
from evenmargin.cli._arguments import parse_objective, parse_prices, parse_time
from evenmargin.operating import expected_cost
from evenmargin.solvers import KERNEL_SOLVERS, SOLVERS

try:
    import resource
except ImportError:  # Windows
    resource = None

limits = pytest.mark.skipif(resource is None, reason="limits of a process are set by the module resource")


def payments(n=600, seed=0):
    """A table as people have it: an id, a constant, a category with gaps, numbers with gaps, and a rare answer."""
    rng = np.random.default_rng(seed)
    amount, hour = rng.lognormal(3, 1, n).round(2), rng.integers(0, 24, n)
    country = rng.choice(["DE", "FR", "US", None], n, p=[0.5, 0.3, 0.15, 0.05])
    odds = -4.5 + 0.9 * np.log(amount) + 1.5 * (country == "US") + 0.8 * (hour < 6)
    fraud = np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "yes", "no")
    frame = pd.DataFrame({
        "payment_id": [f"P{place:06d}" for place in range(n)], "amount": amount, "hour": hour, "country": country,
        "currency": "EUR", "balance": np.where(rng.random(n) < 0.1, np.nan, rng.normal(100, 30, n).round(1)),
        "fraud": fraud,
    })  # fmt: skip
    return frame


def run(*words, stdin=None):
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin)


def done(*words, stdin=None):
    """Run a command that must succeed, and give what it says to machines."""
    result = run(*words, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*words, status=2, stdin=None):
    """Run a command that must fail, and give its sentence."""
    result = run(*words, stdin=stdin)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    assert len(result.stderr.strip().splitlines()) == 1
    return result.stderr.strip()


def command(*words, **options):
    """The command in a process of its own."""
    return subprocess.run([sys.executable, "-m", "evenmargin", *map(str, words)], capture_output=True, **options)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with a table, new rows, and a model of the table."""
    folder = tmp_path_factory.mktemp("shop")
    payments().to_csv(folder / "payments.csv", index=False)
    payments(400, seed=1).drop(columns="fraud").to_csv(folder / "new.csv", index=False)
    payments(400, seed=1).to_csv(folder / "later.csv", index=False)
    facts = done(
        "fit", folder / "payments.csv", "--target", "fraud", "--time-budget", "fast", "--model", folder / "m.skops"
    )
    (folder / "facts.json").write_text(json.dumps(facts))
    return folder


# --- words ---


def test_objectives_are_read():
    assert parse_objective("gmean") == "gmean"
    assert parse_objective("cost:fn=100,fp=1") == {"fn": 100.0, "fp": 1.0}
    assert parse_objective("recall>=0.95") == parse_objective("recall >= 95%") == {"recall": 0.95}
    assert parse_objective("precision>=.9@80%") == {"precision": 0.9, "confidence": 0.8}


@pytest.mark.parametrize("text", ["", "best", "cost:", "cost:fn=1", "cost:fn=a,fp=1", "recall>=2", "recall>=1.2.3"])
def test_an_unknown_objective_is_refused_with_what_there_is(text):
    with pytest.raises(ValueError, match=r"--objective|fn=100,fp=1"):
        parse_objective(text)


def test_spans_of_time_are_read():
    assert [parse_time(text) for text in ("90s", "2m", "1h30m", "1.5m", "12", "fast")] == [
        90,
        120,
        5400,
        90,
        12,
        "fast",
    ]
    for text in ("", "soon", "-3", "0", "2 weeks", "nan"):
        with pytest.raises(ValueError, match="write 90s, 2m"):
            parse_time(text)


def test_prices_are_read():
    assert parse_prices("fn=10,fp=2.5") == {"fn": 10, "fp": 2.5}


def test_help_is_quick_and_loads_no_library():
    code = "import sys, evenmargin.cli; print([m for m in ('numpy', 'pandas', 'sklearn', 'numba') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


# --- fit ---


def test_fit_says_what_python_says(shop):
    facts = json.loads((shop / "facts.json").read_text())
    frame = pd.read_csv(shop / "payments.csv")
    X = frame[["amount", "hour", "country", "balance"]].astype({"amount": float, "hour": float, "balance": float})
    model = EvenMarginClassifier(time_budget="fast", pos_label="yes").fit(X, frame["fraud"])
    assert facts["positive"] == "yes"
    for name, row in model.estimates_.iterrows():
        assert facts["estimates"][name] == pytest.approx(dict(row), abs=1e-9)


def test_fit_leaves_out_ids_and_constants_with_a_word(shop):
    notes = " ".join(json.loads((shop / "facts.json").read_text())["notes"])
    assert "payment_id" in notes
    assert "currency" in notes


def test_fit_ends_with_a_short_table(shop):
    result = run("fit", shop / "payments.csv", "--target", "fraud", "--time-budget", "fast")
    assert result.exit_code == 0
    for word in ("yes", "G-mean", "recall", "precision", "ROC-AUC", "95 % interval"):
        assert word in result.stdout
    assert "Nothing was saved" in result.stderr
    assert len(result.stdout.splitlines()) < 20


@pytest.mark.parametrize("ending", ["tsv", "csv.gz", "csv.bz2", "csv.xz", "parquet", "arrow"])
def test_the_format_of_the_file_does_not_matter(shop, tmp_path, ending):
    path, frame = tmp_path / f"payments.{ending}", pd.read_csv(shop / "payments.csv")
    match ending:
        case "parquet":
            frame.to_parquet(path)
        case "arrow":
            frame.to_feather(path)
        case _:
            frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    facts = done("fit", path, "--target", "fraud", "--time-budget", "fast")
    assert facts["estimates"] == json.loads((shop / "facts.json").read_text())["estimates"]


def test_standard_input_is_read(shop):
    facts = done("fit", "-", "--target", "fraud", "--time-budget", "fast", stdin=(shop / "payments.csv").read_bytes())
    assert facts["estimates"] == json.loads((shop / "facts.json").read_text())["estimates"]


def test_one_of_several_values_can_be_the_one_to_find(tmp_path):
    data = load_iris(as_frame=True)
    frame = data.data.assign(kind=data.target_names[data.target])
    frame.to_csv(tmp_path / "iris.csv", index=False)
    assert "--positive" in refused("fit", tmp_path / "iris.csv", "--target", "kind")
    facts = done("fit", tmp_path / "iris.csv", "--target", "kind", "--positive", "virginica", "--time-budget", "fast")
    assert facts["positive"] == "virginica"
    assert facts["estimates"]["roc_auc"]["value"] > 0.9


@pytest.mark.parametrize(
    ("words", "said"),
    [("cost:fn=50,fp=1", "cost with fn = 50, fp = 1"), ("recall>=0.9", "recall of at least 90 %"), ("f1", "F1")],
)
def test_the_objective_moves_the_boundary(shop, words, said):
    facts = done("fit", shop / "payments.csv", "--target", "fraud", "--time-budget", "fast", "--objective", words)
    assert facts["objective"] == said
    assert facts["probability_threshold"] != json.loads((shop / "facts.json").read_text())["probability_threshold"]


def test_a_weight_of_two_is_a_row_twice(tmp_path):
    frame, weight = payments(300).drop(columns="payment_id"), np.tile([1, 2], 150)
    frame.assign(w=weight).to_csv(tmp_path / "weighted.csv", index=False)
    frame.loc[frame.index.repeat(weight)].to_csv(tmp_path / "repeated.csv", index=False)
    options = ("--target", "fraud", "--time-budget", "fast")
    weighted = done("fit", tmp_path / "weighted.csv", *options, "--weight", "w")
    repeated = done("fit", tmp_path / "repeated.csv", *options)
    assert weighted["threshold"] == pytest.approx(repeated["threshold"], abs=1e-9)


def test_the_report_is_written_beside_the_model(shop, tmp_path):
    facts = done(
        "fit", shop / "payments.csv", "--target", "fraud", "--time-budget", "fast", "--report", tmp_path / "r.html",
        "--model", tmp_path / "m.skops",
    )  # fmt: skip
    page = (tmp_path / "r.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "payment_id" in page
    assert "P000" in page  # rows are named by the id that was left out
    assert f"{facts['estimates']['roc_auc']['value']:.3f}" in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.skops", "r.html"]


def test_quiet_says_nothing_and_debug_shows_where(shop):
    result = run("fit", shop / "payments.csv", "--target", "fraud", "--time-budget", "fast", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    result = run("fit", shop / "payments.csv", "--target", "fraude", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr


def test_an_error_is_json_too(shop):
    result = run("fit", shop / "payments.csv", "--target", "fraude", "--json")
    assert result.exit_code == 2
    said = json.loads(result.stdout)
    assert said["exit_code"] == 2
    assert "'fraud'" in said["error"]


# --- predict ---


def scores_of(shop, *words, stdin=None):
    result = run("predict", shop / "m.skops", *words, stdin=stdin)
    assert result.exit_code == 0, result.output
    return pd.read_csv(io.StringIO(result.stdout)), result.stderr


def test_predict_says_what_the_model_says(shop):
    found, said = scores_of(shop, shop / "new.csv")
    model, frame = evenmargin.load(shop / "m.skops"), pd.read_csv(shop / "new.csv")
    X = frame[list(model.feature_names_in_)].astype({"amount": float, "hour": float, "balance": float})
    assert found.columns.tolist() == ["prediction", "probability", "score"]
    assert found["prediction"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(found["probability"], model.predict_proba(X)[:, 1], rtol=1e-12)
    np.testing.assert_allclose(found["score"], model.decision_function(X), rtol=1e-9, atol=1e-12)
    called = int((found["prediction"] == "yes").sum())
    assert f"{called} of 400 rows are classified as yes" in said


def test_predict_finds_columns_by_name_and_says_which_are_not_used(shop, tmp_path):
    frame = pd.read_csv(shop / "new.csv").assign(colour="red")
    frame[frame.columns[::-1]].to_csv(tmp_path / "turned.csv", index=False)
    found, said = scores_of(shop, tmp_path / "turned.csv")
    assert found.equals(scores_of(shop, shop / "new.csv")[0])
    assert "colour" in said


def test_predict_names_missing_columns(shop, tmp_path):
    frame = pd.read_csv(shop / "new.csv").rename(columns={"amount": "amount_eur"}).drop(columns="hour")
    frame.to_csv(tmp_path / "short.csv", index=False)
    said = refused("predict", shop / "m.skops", tmp_path / "short.csv", "--out", tmp_path / "s.csv")
    assert "'amount'" in said
    assert "'hour'" in said
    assert "amount_eur" in said
    assert not (tmp_path / "s.csv").exists()


def test_predict_copies_columns(shop):
    found, _ = scores_of(shop, shop / "new.csv", "--keep", "payment_id", "--keep", "amount")
    assert found.columns.tolist() == ["payment_id", "amount", "prediction", "probability", "score"]
    assert found["payment_id"].tolist() == pd.read_csv(shop / "new.csv")["payment_id"].tolist()
    assert "no column 'id'" in refused("predict", shop / "m.skops", shop / "new.csv", "--keep", "id")


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.5, 1.0])
def test_the_threshold_is_a_probability(shop, threshold):
    found, _ = scores_of(shop, shop / "new.csv", "--threshold", threshold)
    assert ((found["prediction"] == "yes") == (found["probability"] > threshold)).all()
    assert "between 0 and 1" in refused("predict", shop / "m.skops", shop / "new.csv", "--threshold", "1.5")


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet", "arrow"])
def test_scores_are_the_same_in_every_format(shop, tmp_path, ending):
    out = tmp_path / f"scores.{ending}"
    facts = done("predict", shop / "m.skops", shop / "new.csv", "--out", out)
    assert facts["rows"] == 400
    match ending:
        case "parquet":
            found = pd.read_parquet(out)
        case "arrow":
            found = pd.read_feather(out)
        case _:
            found = pd.read_csv(out, sep="\t" if ending == "tsv" else ",")
    printed, _ = scores_of(shop, shop / "new.csv")
    assert found["prediction"].tolist() == printed["prediction"].tolist()
    np.testing.assert_allclose(found["score"], printed["score"], rtol=1e-12)


def test_pieces_give_what_the_whole_gives(shop, monkeypatch):
    whole, _ = scores_of(shop, shop / "new.csv")
    monkeypatch.setattr("evenmargin.cli._predict._PIECE", (7, 7))
    pieces, _ = scores_of(shop, shop / "new.csv")
    assert pieces["prediction"].equals(whole["prediction"])
    np.testing.assert_allclose(pieces["score"], whole["score"], atol=1e-5)


def test_a_model_of_python_takes_its_columns_by_name_or_by_order(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    y = (frame["a"] + rng.normal(size=200) > 1.2).to_numpy()
    frame[["c", "a", "b"]].to_csv(tmp_path / "rows.csv", index=False)
    named = make_pipeline(StandardScaler(), LinearSVM()).fit(frame, y)
    evenmargin.save(named, tmp_path / "named.skops")
    found, _ = scores_of_file(tmp_path / "named.skops", tmp_path / "rows.csv")
    np.testing.assert_allclose(found["score"], named.decision_function(frame), rtol=1e-9)
    assert found["prediction"].tolist() == named.predict(frame).tolist()
    frame.to_csv(tmp_path / "rows.csv", index=False)
    bare = KernelSVM(loss="log").fit(frame.to_numpy(), y)
    evenmargin.save(bare, tmp_path / "bare.skops")
    found, _ = scores_of_file(tmp_path / "bare.skops", tmp_path / "rows.csv")
    np.testing.assert_allclose(found["probability"], bare.predict_proba(frame.to_numpy())[:, 1], rtol=1e-9)
    frame.assign(d=1).to_csv(tmp_path / "rows.csv", index=False)
    assert "takes 3 columns" in refused("predict", tmp_path / "bare.skops", tmp_path / "rows.csv")


def scores_of_file(model, data):
    result = run("predict", model, data)
    assert result.exit_code == 0, result.output
    return pd.read_csv(io.StringIO(result.stdout)), result.stderr


def test_several_classes_have_a_probability_each(tmp_path):
    data = load_iris(as_frame=True)
    model = LogisticRegression(max_iter=1000).fit(data.data, data.target_names[data.target])
    evenmargin.save(model, tmp_path / "iris.skops")
    data.data.to_csv(tmp_path / "iris.csv", index=False)
    found, _ = scores_of_file(tmp_path / "iris.skops", tmp_path / "iris.csv")
    shares = found[[f"probability {name}" for name in ("setosa", "versicolor", "virginica")]]
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert "two classes" in refused("predict", tmp_path / "iris.skops", tmp_path / "iris.csv", "--threshold", "0.5")


def test_predicting_does_not_import_numba(shop):
    code = (
        "import sys; from evenmargin.cli import app; from typer.testing import CliRunner;"
        f"r = CliRunner().invoke(app, ['predict', {str(shop / 'm.skops')!r}, {str(shop / 'new.csv')!r}]);"
        "print(r.exit_code, 'numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "0 False\n"


# --- the other commands ---


def test_report_of_new_rows_and_of_those_of_the_fit(shop, tmp_path):
    seen = done("report", shop / "m.skops", shop / "payments.csv", "--out", tmp_path / "seen.html")
    assert seen["trained_on_these_rows"] is True
    new = done(
        "report", shop / "m.skops", shop / "later.csv", "--out", tmp_path / "new.html", "--prices", "fn=30,fp=2",
        "--names", "payment_id",
    )  # fmt: skip
    assert new["trained_on_these_rows"] is False
    assert new["rows"] == 400
    page = (tmp_path / "new.html").read_text()
    assert "P000" in page
    said = refused("report", shop / "m.skops", shop / "new.csv", "--out", tmp_path / "none.html")
    assert "'fraud'" in said
    assert not (tmp_path / "none.html").exists()


def test_report_of_a_model_of_python_wants_the_target(shop, tmp_path):
    frame = pd.read_csv(shop / "payments.csv")
    model = LinearSVM(class_weight="balanced").fit(frame[["amount", "hour"]], frame["fraud"])
    evenmargin.save(model, tmp_path / "m.skops")
    assert "--target" in refused("report", tmp_path / "m.skops", shop / "later.csv", "--out", tmp_path / "r.html")
    facts = done("report", tmp_path / "m.skops", shop / "later.csv", "--out", tmp_path / "r.html", "--target", "fraud")
    assert facts["rows"] == 400


def test_compare_tries_the_others_on_the_same_folds(shop, tmp_path):
    facts = done(
        "compare", shop / "payments.csv", "--target", "fraud", "--time-budget", "fast", "--folds", "3",
        "--only", "logistic regression", "--only", "svc", "--out", tmp_path / "c.csv",
    )  # fmt: skip
    found = {row["method"]: row for row in facts["methods"]}
    assert set(found) == {"EvenMarginClassifier", "logistic regression", "SVC"}
    for row in found.values():
        assert row["tp"] + row["fn"] + row["fp"] + row["tn"] == 600
        assert row["gmean"] == pytest.approx(np.sqrt(row["recall"] * row["tn"] / (row["tn"] + row["fp"])), abs=1e-12)
    assert len(pd.read_csv(tmp_path / "c.csv")) == 3
    assert "unknown" in refused("compare", shop / "payments.csv", "--target", "fraud", "--only", "oracle")


def test_compare_gives_the_others_a_threshold_for_the_objective(shop):
    words = ("compare", shop / "payments.csv", "--target", "fraud", "--time-budget", "fast", "--folds", "2")
    words += ("--only", "random forest", "--objective", "cost:fn=50,fp=1")
    plain, tuned = (
        {row["method"]: row for row in done(*words, *more)["methods"]}["random forest"] for more in ((), ("--tune",))
    )
    assert tuned["cost_per_1000"] < plain["cost_per_1000"]
    assert tuned["recall"] > plain["recall"]


def test_info_says_what_a_file_holds(shop):
    result = run("info", shop / "m.skops")
    assert result.exit_code == 0
    for word in ("EvenMarginClassifier", evenmargin.__version__, "fraud", "amount (number)", "ROC-AUC"):
        assert word in result.stdout
    assert done("info", shop / "m.skops")["target"] == "fraud; the class to find is yes"


def test_export_gives_a_model_for_other_runtimes(shop, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    facts = done("export", shop / "m.skops", tmp_path / "m.onnx", "--check", shop / "new.csv")
    assert facts["check"]["wrong_labels"] == 0
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert {put.name for put in session.get_inputs()} == {"amount", "hour", "country", "balance"}
    assert "the name of the file must end in .onnx" in refused("export", shop / "m.skops", tmp_path / "m.txt")


def test_warmup_compiles_every_pair_of_solver_and_loss(monkeypatch):
    from evenmargin.cli import _warmup

    names = [name for name, _ in _warmup._steps()]
    assert names.count("linear newton hinge dense") == names.count("kernel sgd blinex") == 2  # float64 and float32
    assert "linear dual_cd log sparse" not in names  # which takes no log loss
    assert {name.split()[1] for name in names if name.startswith("linear")} == set(SOLVERS)
    assert {name.split()[1] for name in names if name.startswith("kernel")} == set(KERNEL_SOLVERS)
    monkeypatch.setattr(_warmup, "_steps", lambda: iter([("one", lambda: None)]))
    assert done("warmup")["kinds"] == 1


# --- bad input: one sentence, nothing half-written ---


def csv(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


ROWS = "".join(f"{x},{x % 7},{'yes' if x % 9 == 0 else 'no'}\n" for x in range(60))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["empty"]),
        ("a,b,y\n", ["no rows"]),
        (f"a,b,fraud\n{ROWS}", ["'fraud'"]),
        ("a,b,y\n" + ROWS.replace("yes", "no"), ["'y'", "one value"]),
        ("a,b,y\n" + "".join(f"{x},1,{x / 7}\n" for x in range(90)), ["'y'", "numbers"]),
        (f"a,b,y\n{ROWS}1,2\n", ["Line 62", "2 fields"]),
        (f"a,b,y\n{ROWS}1,2,3,4\n", ["Line 62", "4 fields"]),
        (f"a,a,y\n{ROWS}", ["'a'", "more than one column"]),
        (f"a,b,y\n{ROWS}".encode() + b"caf\xe9,1,no\n", ["UTF-8", "line 62", "--encoding"]),
        ("a,b,y\n" + "".join(f",,{'yes' if x % 9 else 'no'}\n" for x in range(60)), ["No column is left", "'a'"]),
        (b"\x89PNG\r\n\x1a\n\x00\x00", ["t.csv"]),
    ],
    ids=["empty", "no rows", "no target", "constant", "continuous", "short line", "long line", "twice", "encoding",
         "no values", "picture"],
)  # fmt: skip
def test_a_bad_table_is_refused_in_one_sentence(tmp_path, text, words):
    out = csv(tmp_path, "earlier", "m.skops")
    said = refused("fit", csv(tmp_path, text), "--target", "y", "--model", out, "--report", tmp_path / "r.html")
    for word in words:
        assert word in said
    assert out.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.skops", "t.csv"]


def test_a_missing_file_is_named_with_what_is_near(shop):
    assert "payments.csv" in refused("fit", shop / "payment.csv", "--target", "fraud")
    assert "No such" in refused("info", shop / "other.skops") or "no file" in refused("info", shop / "other.skops")


def test_near_names_of_the_target_are_suggested(shop):
    assert "'fraud'" in refused("fit", shop / "payments.csv", "--target", "Fraud")


def test_a_value_that_is_not_there_is_refused_with_those_that_are(shop):
    said = refused("fit", shop / "payments.csv", "--target", "fraud", "--positive", "maybe")
    assert "yes" in said
    assert "no" in said


def test_a_column_without_values_is_left_out_with_a_word(tmp_path):
    payments(200).assign(empty=np.nan).to_csv(tmp_path / "t.csv", index=False)
    facts = done("fit", tmp_path / "t.csv", "--target", "fraud", "--time-budget", "fast")
    assert any("empty" in note for note in facts["notes"])


def test_five_thousand_columns_work(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5000)).round(2)
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(5000)]).assign(y=np.where(X[:, 0] > 0.9, "yes", "no"))
    frame.to_csv(tmp_path / "wide.csv", index=False)
    facts = done(
        "fit", tmp_path / "wide.csv", "--target", "y", "--time-budget", "fast", "--model", tmp_path / "m.skops",
        "--report", tmp_path / "r.html",
    )  # fmt: skip
    assert facts["positive"] == "yes"
    assert (tmp_path / "r.html").stat().st_size < 2_000_000
    assert done("predict", tmp_path / "m.skops", tmp_path / "wide.csv", "--out", tmp_path / "s.csv")["rows"] == 80


def test_a_pickle_is_refused(tmp_path, shop):
    import pickle

    path = csv(tmp_path, pickle.dumps(LinearSVM()), "m.pkl")
    assert "pickle" in refused("predict", path, shop / "new.csv")


def test_a_place_that_cannot_be_written_is_refused_before_the_work(shop, tmp_path):
    words = ("fit", shop / "payments.csv", "--target", "fraud")
    assert "no folder" in refused(*words, "--model", tmp_path / "none" / "m.skops")
    assert "is a folder" in refused(*words, "--report", tmp_path)
    assert "name of the file must end" in refused(
        "predict", shop / "m.skops", shop / "new.csv", "--out", tmp_path / "s.xyz"
    )


def test_a_folder_that_is_not_ours_to_write_to_is_refused_before_the_work(shop, tmp_path, monkeypatch):
    monkeypatch.setattr("evenmargin._util.files.os.access", lambda *_: False)  # root may write everywhere
    said = refused("fit", shop / "payments.csv", "--target", "fraud", "--model", tmp_path / "m.skops")
    assert "you may not write to the folder" in said


DAMAGE = {
    "a byte short": lambda held: held[:-1],
    "half": lambda held: held[: len(held) // 2],
    "a byte more": lambda held: held + b"x",
    "a bit turned": lambda held: held[:500] + bytes([held[500] ^ 1]) + held[501:],
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_model_file_is_refused_in_one_sentence(shop, tmp_path, change):
    (tmp_path / "m.skops").write_bytes(change((shop / "m.skops").read_bytes()))
    out = csv(tmp_path, "earlier", "s.csv")
    refused("predict", tmp_path / "m.skops", shop / "new.csv", "--out", out)
    refused("info", tmp_path / "m.skops")
    assert out.read_text() == "earlier"


def test_a_libsvm_file_is_learnt_from_and_scored(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * (rng.random((300, 4)) < 0.7)
    dump_svmlight_file(X, np.where(X[:, 0] > 0.9, 1, -1), str(tmp_path / "t.libsvm"), zero_based=False)
    words = ("--target", "label", "--time-budget", "fast", "--model", tmp_path / "m.skops")
    assert done("fit", tmp_path / "t.libsvm", *words)["positive"] == 1
    facts = done("predict", tmp_path / "m.skops", tmp_path / "t.libsvm", "--out", tmp_path / "s.csv")
    assert facts["rows"] == 300


@limits
def test_a_full_disk_leaves_the_earlier_file(shop, tmp_path):
    out = csv(tmp_path, "earlier", "scores.csv")
    found = command(
        "predict", shop / "m.skops", shop / "new.csv", "--out", out,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000)),
    )  # fmt: skip
    assert found.returncode == 2, found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
    assert out.read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_at_the_other_end_of_a_pipe_is_one_sentence(shop):
    with open("/dev/full", "wb") as full:
        found = subprocess.run(
            [sys.executable, "-m", "evenmargin", "predict", shop / "m.skops", shop / "new.csv"],
            stdout=full, stderr=subprocess.PIPE,
        )  # fmt: skip
    assert found.returncode == 2
    assert b"No space left" in found.stderr
    assert b"Traceback" not in found.stderr


def test_a_reader_that_leaves_ends_the_command_quietly(shop):
    line = f"{sys.executable} -m evenmargin predict {shop / 'm.skops'} {shop / 'new.csv'} | head -n 1"
    found = subprocess.run(line, shell=True, capture_output=True, text=True)
    assert found.stdout == "prediction,probability,score\n"
    assert "Traceback" not in found.stderr
    assert "Exception" not in found.stderr


# Python itself is up, and nothing else.
READY = "import evenmargin.__main__ as command; print('ready', flush=True); command.main()"


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.0, 0.2, 0.5, 1.5, 3.0])
def test_ctrl_c_at_any_time_leaves_nothing_half_written(tmp_path, sign, seconds):
    payments(4000).to_csv(tmp_path / "t.csv", index=False)
    out = csv(tmp_path, "earlier", "m.skops")
    words = ["fit", tmp_path / "t.csv", "--target", "fraud", "--model", out, "--report", tmp_path / "r.html"]
    process = subprocess.Popen(
        [sys.executable, "-c", READY, *words, "--time-budget", "thorough"],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    process.stdout.readline()
    time.sleep(0.05 + seconds)
    process.send_signal(sign)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert b"Traceback" not in said
    assert out.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.skops", "t.csv"]


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.5, 2.5])
def test_ctrl_c_in_predict_leaves_the_earlier_scores(shop, tmp_path, seconds):
    block = (shop / "new.csv").read_text().split("\n", 1)
    (tmp_path / "many.csv").write_text(block[0] + "\n" + block[1] * 1000)
    out = csv(tmp_path, "earlier", "s.csv")
    process = subprocess.Popen(
        [sys.executable, "-c", READY, "predict", shop / "m.skops", tmp_path / "many.csv", "--out", out],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    process.stdout.readline()
    time.sleep(0.05 + seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert b"Traceback" not in said
    assert out.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.csv", "s.csv"]


def test_ctrl_c_in_compare_shows_what_was_finished_and_writes_nothing(shop, tmp_path, monkeypatch):
    from evenmargin.cli import _compare

    def stop(*_):
        raise KeyboardInterrupt

    out = csv(tmp_path, "earlier", "c.csv")
    monkeypatch.setattr(_compare.Trial, "theirs", stop)
    result = run(
        "compare", shop / "payments.csv", "--target", "fraud", "--time-budget", "fast", "--folds", "2", "--out", out
    )
    assert result.exit_code == 130
    assert "EvenMarginClassifier" in result.stdout
    assert out.read_text() == "earlier"


def test_a_method_that_fails_does_not_take_the_others_down(shop, monkeypatch):
    from evenmargin.cli import _compare

    broken = _compare.Peer("broken", "sklearn.linear_model", "Ridge", {})
    monkeypatch.setattr(_compare, "PEERS", (broken, _compare.PEERS[0]))
    facts = done("compare", shop / "payments.csv", "--target", "fraud", "--time-budget", "fast", "--folds", "2")
    assert {row["method"] for row in facts["methods"]} == {"EvenMarginClassifier", "logistic regression"}
    assert any("broken failed" in note for note in facts["notes"])


# --- calls ---


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "t.csv"), "Missing option '--target'"),
        (("fit",), "Missing argument 'DATA'"),
        (("ft",), "No such command 'ft'"),
        (("fit", "t.csv", "--target", "y", "--seed", "x"), "Invalid value for '--seed'"),
        (("fit", "t.csv", "--target", "y", "--targte", "z"), "No such option: --targte"),
        (("fit", "t.csv", "--target", "y", "--objective", "cost:fn=nan,fp=1"), "every cost must be a finite number"),
    ],
)
def test_a_wrong_call_is_one_sentence_also_in_json(words, said):
    assert said in refused(*words)
    result = run(*words, "--json")
    assert result.exit_code == 2
    assert said in json.loads(result.stdout)["error"]


def test_scores_and_json_do_not_share_standard_output(shop):
    assert "--json needs --out" in refused_json("predict", shop / "m.skops", shop / "new.csv")


def refused_json(*words):
    result = run(*words, "--json")
    assert result.exit_code == 2
    return json.loads(result.stdout)["error"]


def test_the_model_and_the_report_need_a_file_each(shop, tmp_path):
    both = tmp_path / "both"
    said = refused("fit", shop / "payments.csv", "--target", "fraud", "--model", both, "--report", both)
    assert "a file of its own" in said


def test_a_column_that_was_dropped_is_not_in_the_report(tmp_path):
    payments(300).assign(secret=[f"S{k:05d}" for k in range(300)]).to_csv(tmp_path / "t.csv", index=False)
    done(
        "fit", tmp_path / "t.csv", "--target", "fraud", "--time-budget", "fast", "--drop", "secret",
        "--drop", "payment_id", "--report", tmp_path / "r.html",
    )  # fmt: skip
    page = (tmp_path / "r.html").read_text()
    assert "S00" not in page
    assert "P000" not in page


def test_lists_in_a_parquet_file_are_left_out(tmp_path):
    frame = payments(300)
    frame.insert(0, "tags", [["a", "b"]] * 300)
    frame.to_parquet(tmp_path / "t.parquet")
    facts = done("fit", tmp_path / "t.parquet", "--target", "fraud", "--time-budget", "fast")
    assert any("'tags'" in note for note in facts["notes"])


def test_the_cost_is_no_surer_for_larger_weights(tmp_path):
    frame = payments(400).assign(w=100)
    frame.to_csv(tmp_path / "t.csv", index=False)
    facts = done(
        "fit", tmp_path / "t.csv", "--target", "fraud", "--time-budget", "fast", "--weight", "w",
        "--objective", "cost:fn=10,fp=1",
    )  # fmt: skip
    rates = [facts["estimates"][name]["value"] for name in ("recall", "specificity")]
    positives = int((frame["fraud"] == "yes").sum())
    cost = expected_cost(*rates, positives, 400 - positives, {"fn": 10, "fp": 1})
    assert facts["cost_per_1000"] == pytest.approx({name: 1000 * own for name, own in cost._asdict().items()})


def test_a_report_without_the_weights_of_the_fit_says_so(tmp_path, shop):
    payments().assign(w=2.0).to_csv(tmp_path / "t.csv", index=False)
    done(
        "fit", tmp_path / "t.csv", "--target", "fraud", "--time-budget", "fast", "--weight", "w",
        "--model", tmp_path / "m.skops",
    )  # fmt: skip
    facts = done("report", tmp_path / "m.skops", shop / "later.csv", "--out", tmp_path / "r.html")
    assert any("which held the weights of the fit" in note for note in facts["notes"])


def test_an_export_that_cannot_be_checked_leaves_the_earlier_file(shop, tmp_path):
    pytest.importorskip("onnxruntime")
    out = csv(tmp_path, "earlier", "m.onnx")
    refused("export", shop / "m.skops", out, "--check", tmp_path / "none.csv")
    assert out.read_text() == "earlier"


def test_report_of_a_python_model_finds_the_rarer_class_and_reads_answers_as_they_are_meant(tmp_path):
    frame = payments(500)
    model = LinearSVM(class_weight="balanced").fit(frame[["amount", "hour"]], (frame["fraud"] == "yes").astype(int))
    evenmargin.save(model, tmp_path / "m.skops")
    answer = (frame["fraud"] == "yes").astype(float)
    answer.iloc[0] = np.nan
    frame.assign(answer=answer).to_csv(tmp_path / "t.csv", index=False)
    facts = done("report", tmp_path / "m.skops", tmp_path / "t.csv", "--target", "answer", "--out", tmp_path / "r.html")
    assert facts["rows"] == 499
    assert any("1 row" in note for note in facts["notes"])


def test_strange_notes_in_a_model_file_are_refused(tmp_path, shop):
    model = evenmargin.load(shop / "m.skops")
    for notes in ({"said": 5}, {"weight": ["a"]}, {"table": "x"}, {"table": {"target": 1}}):
        evenmargin.save(model, tmp_path / "m.skops", notes=notes)
        assert "fit" in refused("predict", tmp_path / "m.skops", shop / "new.csv")


def test_names_that_command_a_terminal_are_shown_without_it(tmp_path):
    frame = payments(200).rename(columns={"currency": "\x1b[31m[/b]red"})
    frame.to_csv(tmp_path / "a[b].csv", index=False)
    result = run("fit", tmp_path / "a[b].csv", "--target", "fraud", "--time-budget", "fast")
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output


def test_kept_columns_are_copied_as_they_are(shop, tmp_path):
    frame = payments(300, seed=3).drop(columns="fraud")
    frame["key"] = pd.array([9007199254860993 + k if k % 7 else None for k in range(300)], dtype="Int64")
    frame["remark"] = [None] * 250 + ["x"] * 50
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in ("t.parquet", "t.csv"):
        for ending in ("parquet", "arrow", "csv"):
            out = tmp_path / f"s.{ending}"
            done("predict", shop / "m.skops", tmp_path / source, "--out", out, "--keep", "key", "--keep", "remark",
                 "--keep", "key")  # fmt: skip
            match ending:
                case "parquet":
                    found = pd.read_parquet(out, dtype_backend="pyarrow")
                case "arrow":
                    found = pd.read_feather(out, dtype_backend="pyarrow")
                case _:
                    found = pd.read_csv(out, dtype=str)
            assert found.columns.tolist() == ["key", "remark", "prediction", "probability", "score"]
            assert found["key"].astype("string").tolist() == frame["key"].astype("string").tolist()
            assert found["remark"].isna().sum() == 250


# --- size ---


@limits
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is looked up in /proc")
def test_predict_takes_a_file_larger_than_its_memory(tmp_path):
    """A file above the limit of memory goes through, in what a small one takes."""
    limit = 520 * 2**20
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(20_000, 30)).round(6), columns=[f"c{k}" for k in range(30)])
    model = LinearSVM().fit(frame, np.where(frame["c0"] > 1, "yes", "no"))
    evenmargin.save(model, tmp_path / "m.skops")
    # As where torch is not installed: skops imports it through scikit-learn, and it alone takes half of the limit.
    (tmp_path / "torch.py").write_text('raise ModuleNotFoundError(name="torch")')
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    block = frame.to_csv(index=False, header=False).encode()
    head = ",".join(frame.columns).encode() + b"\n"
    peaks = []
    for copies in (10, 100):
        path = tmp_path / f"{copies}.csv"
        with path.open("wb") as file:
            file.write(head)
            for _ in range(copies):
                file.write(block)
        code = (
            "import re, sys; from evenmargin.cli import app\n"
            "try: app(sys.argv[1:])\n"
            "except SystemExit as end:\n"
            "    peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
            "    print(end.code, int(peak) // 1024, file=sys.stderr)\n"
        )
        found = subprocess.run(
            [sys.executable, "-c", code, "predict", tmp_path / "m.skops", path, "--out", tmp_path / "s.parquet"],
            capture_output=True, text=True,
            # Each thread of BLAS reserves memory.
            env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
        )  # fmt: skip
        status, peak = map(int, found.stderr.split()[-2:])
        assert status == 0, found.stderr
        assert len(pd.read_parquet(tmp_path / "s.parquet")) == copies * 20_000
        peaks.append(peak)
        size = path.stat().st_size
        path.unlink()
    assert size > limit
    assert peaks[1] < peaks[0] + 40
