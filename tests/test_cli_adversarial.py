"""The command in the hands of people who do not read manuals: odd tables, odd places, odd combinations."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix, roc_auc_score
from test_cli import command, done, payments, refused, run

from evenmargin import LinearSVM, save

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FAST = ("--time-budget", "fast")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with a table, new rows in several formats, and models of it."""
    folder = tmp_path_factory.mktemp("a shop ü")
    payments().to_csv(folder / "payments.csv", index=False)
    later = payments(400, seed=1)
    later.to_csv(folder / "later.csv", index=False)
    later.to_parquet(folder / "later.parquet", index=False)
    done("fit", folder / "payments.csv", "--target", "fraud", *FAST, "--model", folder / "m.skops")
    linear = LinearSVM().fit(later[["amount", "hour"]], later["fraud"])
    save(linear, folder / "linear.skops")
    return folder


def scores(shop, data, tmp_path, *options):
    out = tmp_path / "scores.csv"
    done("predict", shop / "m.skops", data, "--out", out, *options)
    return pd.read_csv(out)


def german(number):
    """A number as a German office program writes it: 1.234,56."""
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def learnt(folder, values, *, separator=";", beside="3,5"):
    """The values of a column "sum" as a fit would learn from them, and what is said of it."""
    from evenmargin.cli._columns import prepare
    from evenmargin.cli._reading import open_table

    path = folder / "sums.csv"
    rows = [
        f"{value}{separator}{beside if i % 2 else beside + '1'}{separator}{'ja' if i % 9 == 0 else 'nein'}"
        for i, value in enumerate(values)
    ]
    path.write_text("\n".join([separator.join(["sum", "rate", "fraud"]), *rows]) + "\n")
    ready = prepare(open_table(str(path)).read(), "fraud")
    return ready.X["sum"].to_numpy() if "sum" in ready.X else None, " ".join(ready.notes)


# --- files that are there already ---


@pytest.mark.parametrize("words", [("--model",), ("--report",)])
def test_fit_does_not_write_over_the_table_that_it_reads(tmp_path, words):
    table = tmp_path / "payments.csv"
    payments(120).to_csv(table, index=False)
    before = table.read_bytes()
    run("fit", table, "--target", "fraud", *FAST, *words, table)
    assert table.read_bytes() == before


def test_fit_refuses_one_name_for_model_and_report(shop, tmp_path):
    out = tmp_path / "both.out"
    sentence = refused("fit", shop / "payments.csv", "--target", "fraud", *FAST, "--model", out, "--report", out)
    assert "both.out" in sentence


def test_predict_does_not_write_over_the_table_that_it_reads(shop, tmp_path):
    table = tmp_path / "later.csv"
    table.write_bytes((shop / "later.csv").read_bytes())
    run("predict", shop / "m.skops", table, "--out", table)
    assert table.read_bytes() == (shop / "later.csv").read_bytes()


def test_predict_does_not_write_over_the_table_by_another_name_of_it(shop, tmp_path):
    table, link = tmp_path / "later.csv", tmp_path / "link.csv"
    table.write_bytes((shop / "later.csv").read_bytes())
    link.symlink_to(table)
    run("predict", shop / "m.skops", table, "--out", link)
    assert table.read_bytes() == (shop / "later.csv").read_bytes()


def test_predict_does_not_write_over_its_model(shop, tmp_path):
    model = tmp_path / "model.csv"
    model.write_bytes((shop / "m.skops").read_bytes())
    run("predict", model, shop / "later.csv", "--out", model)
    assert model.read_bytes() == (shop / "m.skops").read_bytes()


@pytest.mark.parametrize("which", ["later.csv", "m.skops"])
def test_report_does_not_write_over_what_it_reads(shop, tmp_path, which):
    for name in ("later.csv", "m.skops"):
        (tmp_path / name).write_bytes((shop / name).read_bytes())
    run("report", tmp_path / "m.skops", tmp_path / "later.csv", "--out", tmp_path / which)
    assert (tmp_path / which).read_bytes() == (shop / which).read_bytes()


def test_a_link_stays_a_link(shop, tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    done("predict", shop / "m.skops", shop / "later.csv", "--out", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert len(pd.read_csv(tmp_path / "real.csv")) == 400


def test_a_folder_as_output_is_refused(shop, tmp_path):
    assert "folder" in refused("predict", shop / "m.skops", shop / "later.csv", "--out", tmp_path)


def test_a_missing_folder_is_refused(shop, tmp_path):
    assert "no folder" in refused("predict", shop / "m.skops", shop / "later.csv", "--out", tmp_path / "no" / "x.csv")


def test_compare_refuses_a_name_that_it_cannot_write_before_it_fits(shop, tmp_path, monkeypatch):
    from evenmargin.cli import _compare

    def never(*_):
        raise AssertionError("fitted")

    monkeypatch.setattr(_compare.Trial, "ours", never)
    out = tmp_path / "figures.xlsx"
    assert ".csv" in refused("compare", shop / "payments.csv", "--target", "fraud", *FAST, "--out", out)


def test_two_runs_at_once_leave_one_whole_file(shop, tmp_path):
    words = [sys.executable, "-m", "evenmargin", "predict", shop / "m.skops", shop / "later.csv", "--quiet"]
    both = [subprocess.Popen([*words, "--out", tmp_path / "both.parquet"]) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    assert len(pd.read_parquet(tmp_path / "both.parquet")) == 400
    assert os.listdir(tmp_path) == ["both.parquet"]


# --- numbers as office programs write them ---


def test_whole_thousands_with_points_are_never_read_as_fractions(tmp_path):
    """Beside decimal commas, 1.243 is one thousand two hundred and forty-three."""
    amounts = np.random.default_rng(0).integers(200, 30_000, 200)
    values, _ = learnt(tmp_path, [f"{amount:,}".replace(",", ".") for amount in amounts], beside="3,5")
    assert values is None or not np.any(values.astype(float) == amounts / 1000)


def test_the_largest_sums_are_not_lost_for_their_points(tmp_path):
    amounts = np.random.default_rng(0).lognormal(4, 1.3, 200).round(2)
    values, _ = learnt(tmp_path, [german(amount) for amount in amounts])
    np.testing.assert_allclose(values, amounts)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(german, id="1.234,56"),
        pytest.param(
            lambda x: f"{x:.2f} €".replace(".", ","), id="12,50 euro",
        ),
    ],
)  # fmt: skip
def test_sums_are_not_taken_for_ids(tmp_path, write):
    """They are numbers, or it is said how to write them."""
    amounts = np.random.default_rng(0).lognormal(6, 1, 200)
    values, said = learnt(tmp_path, [write(amount) for amount in amounts])
    assert (values is not None and values.dtype.kind == "f") or re.search("write (numbers|dates) like", said)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda x: f'"{x:,.2f}"', id="1,234.50"),
        pytest.param(lambda x: f"${x:.2f}", id="$12.50"),
    ],
)
def test_sums_with_commas_or_signs_are_not_taken_for_ids(tmp_path, write):
    amounts = np.random.default_rng(0).lognormal(6, 1, 200)
    values, said = learnt(tmp_path, [write(amount) for amount in amounts], separator=",", beside="3")
    assert (values is not None and values.dtype.kind == "f") or re.search("write (numbers|dates) like", said)


def test_percentages_are_numbers_or_spoken_of(tmp_path):
    shares = np.random.default_rng(0).integers(0, 100, 200)
    values, said = learnt(tmp_path, [f"{share} %" for share in shares])
    assert values.dtype.kind == "f" or "sum" in said


def test_a_question_mark_for_a_gap_does_not_make_words_of_numbers_in_silence(tmp_path):
    sums = np.random.default_rng(0).normal(size=200).round(2)
    values, said = learnt(
        tmp_path, ["?" if i % 3 == 0 else one for i, one in enumerate(sums)], separator=",", beside="3"
    )
    assert values.dtype.kind == "f" or "'sum'" in said


def test_a_number_means_the_same_in_a_file_that_has_no_decimals(tmp_path):
    """Thousands are known by the commas beside them at the fit; new rows may have none."""
    rng = np.random.default_rng(0)
    rows = [(f"{x:,}".replace(",", "."), f"{r:.1f}".replace(".", ","), "ja" if x > 20_000 else "nein")
            for x, r in zip(rng.integers(1000, 25_000, 200), rng.normal(size=200), strict=True)]  # fmt: skip
    head = "sum;rate;fraud"
    (tmp_path / "t.csv").write_text("\n".join([head, *map(";".join, rows)]) + "\n")
    (tmp_path / "a.csv").write_text(f"{head}\n24.500;1,5;\n24.500;2;\n")
    (tmp_path / "b.csv").write_text(f"{head}\n24.500;2;\n")
    done("fit", tmp_path / "t.csv", "--target", "fraud", *FAST, "--model", tmp_path / "m.skops")
    found = {}
    for name in "ab":
        out = tmp_path / f"{name}_out.csv"
        done("predict", tmp_path / "m.skops", tmp_path / f"{name}.csv", "--out", out)
        found[name] = pd.read_csv(out)["score"].iloc[-1]
    assert found["a"] == pytest.approx(found["b"])


def test_an_office_export_is_read_in_every_encoding(tmp_path):
    lines = ["Kunde;Betrag;Größe;Notiz;Betrug"]
    rng = np.random.default_rng(0)
    for i in range(120):
        large = i % 6 == 0
        lines.append(
            f'K{i:05d};{rng.normal(3 * large):.2f};{rng.normal():.2f};"eins\nzwei; ""drei""";{("Nein", "Ja")[large]}'
        )
    text = "\r\n".join(lines).replace(".", ",") + "\r\n"
    found = []
    for encoding, options in (("cp1252", ["--encoding", "cp1252"]), ("utf-8-sig", []), ("utf-16", [])):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes(text.encode(encoding))
        found.append(done("fit", path, "--target", "Betrug", *FAST, *options)["estimates"])
    assert found[0] == found[1] == found[2]


# --- targets ---


@pytest.mark.parametrize(
    ("yes", "no", "label"),
    [
        (1, 0, 1),
        (True, False, True),
        (1.0, 0.0, 1),
        ("yes ", " no", "yes"),
        (1, -1, 1),
        ('a,"b"\n<script>alert(1)</script>😀', "no[bold]\\", 'a,"b"\n<script>alert(1)</script>😀'),
        (9007199254740993, 9007199254740992, "9007199254740993"),
    ],
)
def test_labels_come_back_as_they_were(tmp_path, yes, no, label):
    frame = payments(150)
    frame["fraud"] = pd.Series([yes if one == "yes" else no for one in frame["fraud"]], dtype=object)
    frame.to_csv(tmp_path / "t.csv", index=False)
    facts = done("fit", tmp_path / "t.csv", "--target", "fraud", *FAST, "--model", tmp_path / "m.skops")
    assert facts["positive"] == label
    done("predict", tmp_path / "m.skops", tmp_path / "t.csv", "--out", tmp_path / "out.csv")
    given = {str(label), str(no).strip() if isinstance(no, str) else str(int(no) if not isinstance(no, bool) else no)}
    assert set(pd.read_csv(tmp_path / "out.csv")["prediction"].astype(str)) <= given


def test_a_label_that_reads_as_missing_is_spoken_of(tmp_path):
    frame = payments(150)
    frame["fraud"] = np.where(frame["fraud"] == "yes", "Severe", "None")
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert "None" in refused("fit", tmp_path / "t.csv", "--target", "fraud")


def test_two_fractions_as_labels_are_refused_in_our_words(tmp_path):
    frame = payments(150)
    frame["fraud"] = np.where(frame["fraud"] == "yes", 0.1, 0.3)
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = run("fit", tmp_path / "t.csv", "--target", "fraud", *FAST)
    assert "regression target" not in result.output


@pytest.mark.parametrize("rows", [1, 3])
def test_a_handful_of_cases_is_learnt_from_with_a_warning(tmp_path, rows):
    frame = payments(200).assign(fraud="no")
    frame.loc[: rows - 1, "fraud"] = "yes"
    frame.to_csv(tmp_path / "t.csv", index=False)
    facts = done("fit", tmp_path / "t.csv", "--target", "fraud", *FAST, "--report", tmp_path / "r.html")
    assert any("different row" in note for note in facts["notes"])
    assert f"Only {rows} row" in text_of(tmp_path / "r.html")


def test_only_a_target_is_not_a_table_to_learn_from(tmp_path):
    payments(100)[["fraud"]].to_csv(tmp_path / "t.csv", index=False)
    assert "No column is left" in refused("fit", tmp_path / "t.csv", "--target", "fraud")


# --- columns ---


def test_lists_in_a_parquet_file_are_left_out(tmp_path):
    frame = payments(150)
    frame["tags"] = [[i % 3] for i in range(150)]
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    facts = done("fit", tmp_path / "t.parquet", "--target", "fraud", *FAST)
    assert any("'tags'" in note for note in facts["notes"])


def test_columns_with_our_own_names_are_only_columns(tmp_path):
    frame = payments(150)
    rng = np.random.default_rng(0)
    for name in ("prediction", "target", "index", "level_0", "label", "X", "a\nb", 'q"<b>', "😀", "x" * 3000):
        frame[name] = rng.normal(size=150)
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ("--model", tmp_path / "m.skops", "--report", tmp_path / "r.html")
    done("fit", tmp_path / "t.csv", "--target", "fraud", *FAST, *words)
    facts = done("predict", tmp_path / "m.skops", tmp_path / "t.csv", "--keep", "target", "--out", tmp_path / "o.csv")
    assert facts["rows"] == 150
    assert 'q"<b>' not in (tmp_path / "r.html").read_text()


def test_scores_are_the_same_from_text_and_from_parquet(shop, tmp_path):
    pd.testing.assert_frame_equal(
        scores(shop, shop / "later.csv", tmp_path), scores(shop, shop / "later.parquet", tmp_path)
    )


def test_the_order_of_columns_does_not_matter(shop, tmp_path):
    pd.read_csv(shop / "later.csv").iloc[:, ::-1].to_csv(tmp_path / "turned.csv", index=False)
    straight, turned = scores(shop, shop / "later.csv", tmp_path), scores(shop, tmp_path / "turned.csv", tmp_path)
    np.testing.assert_array_equal(straight["score"], turned["score"])


def test_the_order_of_rows_does_not_matter(shop, tmp_path):
    """Up to the rounding of float32: on some processors BLAS sums rows at the edge of a product in another order."""
    pd.read_csv(shop / "later.csv").iloc[::-1].to_csv(tmp_path / "turned.csv", index=False)
    straight, turned = scores(shop, shop / "later.csv", tmp_path), scores(shop, tmp_path / "turned.csv", tmp_path)
    np.testing.assert_array_equal(straight["prediction"], turned["prediction"][::-1])
    np.testing.assert_allclose(straight["score"], turned["score"][::-1], rtol=0.0, atol=1e-5)


def test_extra_columns_are_spoken_of_once(shop, tmp_path):
    pd.read_csv(shop / "later.csv").assign(shop="A").to_csv(tmp_path / "t.csv", index=False)
    facts = done("predict", shop / "m.skops", tmp_path / "t.csv", "--out", tmp_path / "o.csv")
    assert len([note for note in facts["notes"] if "'shop'" in note]) == 1


def test_categories_that_are_all_new_are_spoken_of(shop, tmp_path):
    pd.read_csv(shop / "later.csv").assign(country="Atlantis").to_csv(tmp_path / "t.csv", index=False)
    facts = done("predict", shop / "m.skops", tmp_path / "t.csv", "--out", tmp_path / "o.csv")
    assert any("country" in note for note in facts["notes"])


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "gaps",
    [
        "first",
        "last",
    ],
)
def test_a_kept_column_may_have_gaps_in_some_pieces_only(shop, tmp_path, monkeypatch, ending, gaps):
    from evenmargin.cli import _predict

    monkeypatch.setattr(_predict, "_PIECE", (100, 100))
    later = pd.read_csv(shop / "later.csv")
    later["mark"] = [None if (i < 200) == (gaps == "first") else f"m{i}" for i in range(400)]
    later.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / f"o.{ending}"
    facts = done("predict", shop / "m.skops", tmp_path / "t.csv", "--keep", "mark", "--out", out)
    assert facts["rows"] == 400


def test_a_kept_column_of_whole_numbers_with_gaps_goes_from_parquet_to_arrow(shop, tmp_path, monkeypatch):
    from evenmargin.cli import _predict

    monkeypatch.setattr(_predict, "_PIECE", (100, 100))
    later = pa.Table.from_pandas(pd.read_csv(shop / "later.csv"), preserve_index=False)
    marks = pa.array([i if i < 200 else None for i in range(400)], pa.int64())
    pq.write_table(later.append_column("mark", marks), tmp_path / "t.parquet")
    words = ("--keep", "mark", "--out", tmp_path / "o.arrow")
    assert done("predict", shop / "m.skops", tmp_path / "t.parquet", *words)["rows"] == 400


# --- words ---


def test_json_is_all_there_is_on_standard_output(shop):
    """ "With `--json` standard output is one JSON document, whatever happens"; it may be refused instead."""
    result = run("predict", shop / "m.skops", shop / "later.csv", "--json")
    assert isinstance(json.loads(result.stdout), dict)


def test_a_call_that_is_wrong_is_one_sentence(shop):
    for words in (("fit", shop / "payments.csv"), ("nosuch",), ("predict", shop / "m.skops", "x", "--threshold", "a")):
        refused(*words)


def test_a_call_that_is_wrong_is_json_for_machines(shop):
    result = run("fit", shop / "payments.csv", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["exit_code"] == 2


@pytest.mark.parametrize("threshold", ["nan", "inf"])
def test_a_threshold_that_is_no_number_is_refused(shop, threshold):
    refused("predict", shop / "m.skops", shop / "later.csv", "--threshold", threshold)
    refused("predict", shop / "linear.skops", shop / "later.csv", "--threshold", threshold)


def test_gaps_where_a_model_takes_none_are_one_sentence(shop, tmp_path):
    later = pd.read_csv(shop / "later.csv")
    later.loc[3, "amount"] = np.nan
    later.to_csv(tmp_path / "t.csv", index=False)
    sentence = refused("predict", shop / "linear.skops", tmp_path / "t.csv", "--out", tmp_path / "o.csv")
    assert "HistGradientBoosting" not in sentence


@pytest.mark.parametrize("prices", ["fn=-1,fp=1", "fn=nan,fp=1", "fn=0,fp=0"])
def test_prices_that_make_no_sense_are_refused_by_the_name_of_the_option(shop, tmp_path, prices):
    words = ("--prices", prices, "--out", tmp_path / "r.html")
    assert "--prices" in refused("report", shop / "m.skops", shop / "later.csv", *words)


def test_the_target_cannot_be_the_weight(shop):
    words = ("--target", "hour", "--positive", "3", "--weight", "hour")
    assert "--weight" in refused("fit", shop / "payments.csv", *words)


def test_the_weights_of_a_report_are_not_called_unused(tmp_path):
    frame = payments(200).assign(w=1.5)
    frame.loc[::3, "w"] = 0.5
    frame.to_csv(tmp_path / "t.csv", index=False)
    done("fit", tmp_path / "t.csv", "--target", "fraud", "--weight", "w", *FAST, "--model", tmp_path / "m.skops")
    facts = done("report", tmp_path / "m.skops", tmp_path / "t.csv", "--out", tmp_path / "r.html")
    assert not [note for note in facts["notes"] if "Not used: 'w'" in note or "column 'w'" in note]


def test_figures_are_whole_in_a_narrow_terminal(shop, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    result = run("fit", shop / "payments.csv", "--target", "fraud", *FAST)
    assert "…" not in result.stdout


def test_letters_that_a_terminal_has_not_do_not_stop_it(shop):
    env = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    result = command("predict", shop / "m.skops", shop / "later.csv", "--out", "/no/ü.csv", env=env, text=True)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


# --- pipes ---


def test_a_closed_standard_output_is_one_sentence(shop):
    words = f'{sys.executable} -m evenmargin predict "{shop}/m.skops" "{shop}/later.csv" >&-'
    result = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
    assert result.returncode == 2
    assert "AttributeError" not in result.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    "option",
    [
        "",
        pytest.param("--json"),
    ],
)
def test_a_full_disk_behind_standard_output_is_one_sentence(shop, option):
    words = f'{sys.executable} -m evenmargin predict "{shop}/m.skops" "{shop}/later.csv" {option} >/dev/full'
    result = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
    assert result.returncode != 0
    assert len(result.stderr.strip().splitlines()) == 1


def test_ctrl_c_leaves_nothing_behind(shop, tmp_path):
    words = [sys.executable, "-m", "evenmargin", "predict", shop / "m.skops", "-", "--out", tmp_path / "o.parquet"]
    header, *rows = (shop / "later.csv").read_text().splitlines(keepends=True)
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdin.write(header + "".join(rows) * (3_000_000 // sum(map(len, rows))))  # so that it is in the midst of it
    process.stdin.flush()
    for _ in range(600):
        if os.listdir(tmp_path):
            break
        time.sleep(0.1)
    assert os.listdir(tmp_path)  # half of a file, under a hidden name
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said.strip()) == (130, "Stopped: nothing was written.")
    assert not os.listdir(tmp_path)


# --- model files ---


def test_damaged_and_foreign_model_files_are_one_sentence(shop, tmp_path):
    whole = (shop / "m.skops").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    wrong = {
        "cut": whole[:1000], "short": whole[:-1], "flipped": bytes(flipped), "longer": whole + b"x", "empty": b"",
        "table": (shop / "later.csv").read_bytes(), "parquet": (shop / "later.parquet").read_bytes(),
    }  # fmt: skip
    for name, content in wrong.items():
        (tmp_path / name).write_bytes(content)
        assert name in refused("predict", tmp_path / name, shop / "later.csv", "--out", tmp_path / "o.csv")
    assert not (tmp_path / "o.csv").exists()


def test_a_zip_bomb_for_a_model_is_not_unpacked(shop, tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.skops", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("schema.json", b"0" * 50_000_000)
    started = time.perf_counter()
    refused("predict", tmp_path / "bomb.skops", shop / "later.csv")
    assert time.perf_counter() - started < 2


def test_model_and_table_swapped_are_one_sentence(shop):
    assert "not a model file" in refused("predict", shop / "later.csv", shop / "m.skops")


# --- the report's figures ---


def text_of(path):
    """What a reader sees of a page."""
    page = re.sub(r"<(script|style|svg).*?</\1>", "", path.read_text(), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\u00a0", " ").split())


def test_the_figures_of_a_report_are_those_of_scikit_learn(shop, tmp_path):
    done("report", shop / "m.skops", shop / "later.csv", "--prices", "fn=50,fp=1", "--out", tmp_path / "r.html")
    said, verdict = text_of(tmp_path / "r.html"), scores(shop, shop / "later.csv", tmp_path)
    truth = pd.read_csv(shop / "later.csv")["fraud"] == "yes"
    tn, fp, fn, tp = confusion_matrix(truth, verdict["prediction"] == "yes").ravel()
    brier = np.mean((verdict["probability"] - truth) ** 2)
    for figure in (
        f"{truth.sum()} of 400 rows",
        f"{tp} found",
        f"{fn} missed",
        f"{fp} false alarms",
        f"{tn} correctly not flagged",
        f"found {100 * tp / (tp + fn):.1f} %",
        f"right {100 * tp / (tp + fp):.1f} %",
        f"ROC-AUC is {roc_auc_score(truth, verdict['score']):.3f}",
        f"1,000 cases will cost about {1000 * (50 * fn + fp) / 400:,.0f}",
        f"is {brier:.3f}",
    ):
        assert figure in said, figure


def test_a_report_of_one_class_is_refused(shop, tmp_path):
    later = pd.read_csv(shop / "later.csv")
    later[later["fraud"] == "no"].to_csv(tmp_path / "t.csv", index=False)
    assert "both classes" in refused("report", shop / "m.skops", tmp_path / "t.csv", "--out", tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


# --- ONNX ---


def test_an_exported_model_runs_in_plain_onnxruntime(shop, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    done("export", shop / "m.skops", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    later, feed = pd.read_csv(shop / "later.csv"), {}
    for wanted in session.get_inputs():
        column = later[wanted.name]
        words = wanted.type == "tensor(string)"
        values = column.fillna("").to_numpy(object) if words else column.to_numpy(float)
        feed[wanted.name] = values.reshape(-1, 1)
    labels = session.run(None, feed)[0].ravel()
    assert labels.tolist() == scores(shop, shop / "later.csv", tmp_path)["prediction"].tolist()
