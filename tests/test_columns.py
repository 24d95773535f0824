"""What is learned from a table, and that the same comes back when predicting."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_reading import WRITERS

from evenmargin import EvenMarginClassifier
from evenmargin._tables.encoder import becomes_number
from evenmargin.cli._columns import Matcher, Schema, fingerprint, labels, prepare
from evenmargin.cli._reading import InputError, open_table

N = 200
rng = np.random.default_rng(0)
AMOUNT = rng.normal(size=N).round(3)
FRAUD = np.where(AMOUNT + rng.normal(size=N) > 1.8, "yes", "no")


def table(**columns):
    """A table with something to learn from, and more."""
    return pd.DataFrame({"amount": AMOUNT, **columns, "fraud": FRAUD})


def refusal(function, *arguments, **options):
    """The sentence with which something is refused."""
    with pytest.raises(InputError) as caught:
        function(*arguments, **options)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith((".", "?"))
    return said


def match(frame, schema):
    """A whole table as a model takes it, and the notes."""
    matcher = Matcher(schema)
    X = matcher(frame)
    matcher.finish()
    return SimpleNamespace(X=X, notes=matcher.notes())


def matched(matcher, file, rows):
    """A file in pieces as a model takes it."""
    names, words = list(matcher.schema.columns), matcher.schema.words
    matcher.check(file.columns, file.lacks(names))
    X = pd.concat([matcher(piece) for piece in file.pieces(rows, columns=names, words=words)], ignore_index=True)
    matcher.finish()
    return X


def kinds(frame, **options):
    return prepare(frame, "fraud", **options).schema.columns


def said(frame, **options):
    return " ".join(prepare(frame, "fraud", **options).notes)


# The target.


def test_the_rarer_label_is_looked_for():
    ready = prepare(table(), "fraud")
    assert (ready.schema.positive, ready.schema.others, ready.positive) == ("yes", ("no",), "yes")
    assert ready.y.tolist() == FRAUD.tolist()
    assert f"The class to find is 'yes' in 'fraud', the rarer one: {(FRAUD == 'yes').sum()} of 200 rows." in ready.notes


def test_labels_keep_the_type_of_the_file():
    for values, kind in ((FRAUD == "yes", bool), ((FRAUD == "yes") * 1, int), ((FRAUD == "yes") * 1.0, int)):
        y = prepare(table().assign(fraud=values), "fraud").y
        assert type(y[0].item()) is kind
        assert (y == values).all()


def test_labels_with_gaps_are_whole_numbers_still():
    ready = prepare(table().assign(fraud=np.where(np.arange(N) == 3, np.nan, FRAUD == "yes")), "fraud")
    assert ready.y.dtype == np.int64
    assert len(ready.X) == len(ready.y) == N - 1
    assert np.flatnonzero(~ready.rows).tolist() == [3]
    assert "Left out: 1 row without a value of 'fraud'." in ready.notes


def test_a_missing_target_brings_near_names_to_mind():
    assert "did you mean 'fraud'" in refusal(prepare, table(), "Froud")
    assert "the table has 'amount' and 'fraud'" in refusal(prepare, table(), "zzz")


def test_a_target_without_two_values_is_refused():
    assert "only one value, 'no'" in refusal(prepare, table().assign(fraud="no"), "fraud")
    assert "has no value" in refusal(prepare, table().assign(fraud=np.nan), "fraud")


def test_a_label_that_reads_as_missing_is_explained():
    sentence = refusal(prepare, table().assign(fraud=np.where(FRAUD == "yes", "severe", "None")), "fraud")
    assert "only one value, 'severe' (an empty field counts as missing, and so do words like NA, None" in sentence


def test_a_measurement_is_no_target():
    assert "different numbers, so it is a measurement, not classes" in refusal(prepare, table(), "amount")


def test_lists_are_no_target():
    frame = table().assign(fraud=[[1]] * N)
    assert "holds lists or bytes" in refusal(prepare, frame, "fraud")


def test_of_three_labels_one_must_be_named():
    frame = table().assign(fraud=np.where(np.arange(N) < 5, "maybe", FRAUD))
    sentence = refusal(prepare, frame, "fraud")
    assert "has 3 different values, 'no' (" in sentence
    assert "choose the one to find with --positive VALUE" in sentence
    ready = prepare(frame, "fraud", "maybe")
    assert sorted(set(ready.y)) == ["maybe", "rest"]
    assert (ready.y == "maybe").sum() == 5
    assert (ready.schema.positive, ready.schema.others, ready.schema.grouped) == ("maybe", ("rest",), True)
    assert "'maybe' is distinguished from all other values of 'fraud', which are named 'rest'." in ready.notes


def test_the_rest_is_never_called_like_a_value():
    ready = prepare(table().assign(fraud=np.resize(["rest", "(rest)", "3"], N)), "fraud", "3")
    assert ready.schema.others == ("((rest))",)


@pytest.mark.parametrize(
    ("values", "given"),
    [
        ([0, 1], "1"),
        ([0, 1], "1.0"),
        ([0.0, 1.0], "1"),
        ([False, True], "1"),
        ([False, True], "true"),
        (["no", "yes"], "yes"),
    ],
)
def test_the_label_to_find_is_given_as_text(values, given):
    ready = prepare(table().assign(fraud=np.array(values)[(FRAUD == "yes") * 1]), "fraud", given)
    assert ready.positive == values[1]


def test_the_frequent_label_can_be_looked_for():
    assert prepare(table(), "fraud", "no").positive == "no"


def test_a_label_that_is_not_there_is_refused_with_those_that_are():
    sentence = refusal(prepare, table(), "fraud", "Yes")
    assert "'Yes' is not a value of the target 'fraud' (did you mean 'yes'?), which has 'no' (" in sentence


def test_of_two_as_frequent_labels_the_later_is_looked_for_with_a_word():
    ready = prepare(table().assign(fraud=np.resize(["a", "b"], N)), "fraud")
    assert ready.positive == "b"
    assert "The class to find is 'b' in 'fraud'; for 'a', which is as frequent, give --positive a." in ready.notes


def test_halves_are_labels_too():
    ready = prepare(table().assign(fraud=np.where(FRAUD == "yes", 0.5, 1.0)), "fraud", "0.5")
    assert (ready.positive, ready.schema.positive) == ("0.5", "0.5")  # as words: fractions are no classes elsewhere
    assert labels(pd.DataFrame({"fraud": ["1", "0.50"]}), ready.schema)[0].tolist() == ["1.0", "0.5"]


def test_labels_too_long_for_numbers_are_text():
    ready = prepare(table().assign(fraud=np.where(FRAUD == "yes", 2**60 + 1, 2**60)), "fraud")
    assert ready.positive == str(2**60 + 1)


# What is left out.


def test_ids_are_left_out_with_a_word():
    frame = table(
        uuid=[f"c{j:04d}x" for j in range(N)],
        customer_id=rng.permutation(10**6)[:N],
        rownum=np.arange(N)[::-1] + 17,
        orderId=rng.permutation(10**6)[:N].astype(float),
    )
    ready = prepare(frame, "fraud")
    assert list(ready.schema.columns) == ["amount"]
    assert set(ready.schema.left_out) == {"uuid", "customer_id", "rownum", "orderId"}
    (word,) = [note for note in ready.notes if note.startswith("Left out")]
    assert "'uuid' (nearly every value is different)" in word
    assert "'customer_id' and 'orderId' (every value is different, and it is named like an id)" in word
    assert "'rownum' (consecutive numbers, one for each row)" in word


def test_an_id_that_repeats_and_numbers_of_other_names_stay():
    frame = table(shop_id=rng.integers(0, 9, N), paid=rng.permutation(10**6)[:N], price=np.linspace(0, 1, N))
    assert list(kinds(frame)) == ["amount", "shop_id", "paid", "price"]


def test_keep_and_drop_have_the_last_word():
    frame = table(customer_id=rng.permutation(10**6)[:N], b=AMOUNT**2)
    assert list(kinds(frame, keep=["customer_id"], drop=["b"])) == ["amount", "customer_id"]
    assert "did you mean 'customer_id'" in refusal(prepare, frame, "fraud", keep=["customerid"])
    assert "There is no column 'bb' to drop" in refusal(prepare, frame, "fraud", drop=["bb"])
    assert "cannot be dropped" in refusal(prepare, frame, "fraud", drop=["fraud"])


def test_columns_that_tell_nothing_are_left_out_with_a_word():
    frame = table(same=1, word="x", empty=np.nan, nothing=None, gone=["NA"] * N)
    ready = prepare(frame, "fraud")
    one, none = (
        dict.fromkeys(["same", "word"], "only one value"),
        dict.fromkeys(["empty", "nothing", "gone"], "no values"),
    )
    assert ready.schema.left_out == one | none
    assert "Left out: 'same' and 'word' (only one value); 'empty', 'nothing' and 'gone' (no values)." in ready.notes


def test_one_value_and_gaps_is_something_to_learn_from():
    assert kinds(table(closed=np.where(AMOUNT > 0, 1.0, np.nan)))["closed"] == "number"


def test_lists_and_bytes_are_left_out_with_a_word():
    frame = table(tags=[["a", "b"]] * N, raw=[b"x", None] * (N // 2))
    assert prepare(frame, "fraud").schema.left_out == dict.fromkeys(["tags", "raw"], "lists, structures or bytes")


def test_a_table_with_nothing_left_is_refused():
    frame = pd.DataFrame({"same": 1, "fraud": FRAUD})
    assert refusal(prepare, frame, "fraud") == (
        "No column is left to learn from besides 'fraud': 'same' (only one value)."
    )
    assert "the table has no other" in refusal(prepare, frame[["fraud"]], "fraud")


@pytest.mark.parametrize(
    "given_away",
    [
        np.where(FRAUD == "yes", 17, 3),
        np.where(FRAUD == "yes", "F", "G"),
        np.where(FRAUD == "yes", rng.choice(["F", "H"], N), "G"),
        np.where(FRAUD == "yes", AMOUNT, np.nan),
    ],
    ids=["numbers", "words", "several words", "presence"],
)
def test_a_column_that_gives_the_answer_away_is_kept_with_a_warning(given_away):
    frame = table(chargeback=given_away)
    assert "chargeback" in kinds(frame)
    assert "Column 'chargeback' alone determines 'fraud' in every row" in said(frame)
    assert "(--drop chargeback)" in said(frame)


def test_an_honest_table_has_no_such_warning():
    assert "alone determines" not in said(table(word=rng.choice(["a", "b"], N), flag=AMOUNT > 0))


# Kinds.


def test_kinds_are_those_of_the_classifier():
    frame = table(
        whole=rng.integers(0, 5, N),
        flag=AMOUNT > 0,
        word=rng.choice(["a", "b"], N),
        day=pd.Timestamp("2024-01-31") + pd.to_timedelta(np.arange(N) % 30, unit="D"),
        span=pd.to_timedelta(np.arange(N) % 30, unit="h"),
        coded=pd.Categorical(rng.choice([3, 4], N)),
        local=pd.date_range("2024-03-01", periods=N, freq="h", tz="Europe/Berlin"),
    )
    ready = prepare(frame, "fraud")
    assert kinds(frame) == {
        "amount": "number", "whole": "number", "flag": "number", "word": "category", "day": "date", "span": "number",
        "coded": "category", "local": "date",
    }  # fmt: skip
    for name, kind in ready.schema.columns.items():
        assert becomes_number(ready.X[name]) == (kind != "category")
        assert ready.X[name].dtype == {"number": "f8", "date": "M8[ns]", "category": object}[kind]
    assert ready.X["coded"].isin(["3", "4"]).all()
    assert ready.X["local"].iloc[0] == pd.Timestamp("2024-02-29 23:00")  # in UTC


def test_words_among_numbers_count_as_missing_with_a_word():
    weight = AMOUNT.astype(str).astype(object)
    weight[:3], weight[3:5], weight[5] = "unknown", "12 kg", " "
    frame = table(weight=weight)
    ready = prepare(frame, "fraud")
    assert kinds(frame)["weight"] == "number"
    assert np.array_equal(ready.X["weight"], np.where(np.arange(N) < 6, np.nan, AMOUNT), equal_nan=True)
    assert "5 values of 'weight' are not numbers and count as missing: 'unknown', '12 kg'." in ready.notes


def test_more_words_than_that_make_a_category():
    size = np.where(np.arange(N) % 5 == 0, "large", (np.arange(N) % 7).astype(str))
    assert kinds(table(size=size))["size"] == "category"


def test_most_numbers_and_many_words_are_words_with_a_word():
    frame = table(size=np.where(np.arange(N) % 3 == 0, "?", (np.arange(N) % 7).astype(str)))
    assert kinds(frame)["size"] == "category"
    assert "Column 'size' is read as words: 67 of its 200 values are not numbers, such as '?'." in said(frame)
    assert said(table(zone=rng.choice(["a", "b", "7"], N))).count("taken as words") == 0


@pytest.mark.parametrize("form", ["{:.2f} €", "${:.2f}", "{:.0f} %", "{:.0f}%", "EUR {:.2f}", "{:,.2f}"])
def test_numbers_with_signs_are_words_with_advice(form):
    word = form.format(1234.5)
    frame = table(price=[form.format(9 + 37 * j) for j in range(N - 1)] + [word])
    assert re.search("write numbers like '[^']+' as 1234.5", prepare(frame, "fraud").schema.left_out["price"])


def test_infinity_counts_as_missing_with_a_word():
    frame = table(ratio=np.where(np.arange(N) == 7, np.inf, AMOUNT))
    assert np.isnan(prepare(frame, "fraud").X["ratio"][7])
    assert "1 value of 'ratio' is not a number and counts as missing: 'inf'." in said(frame)


@pytest.mark.parametrize(
    ("word", "instant"),
    [
        ("2024-01-31", "2024-01-31"),
        ("2024-01-31T10:00", "2024-01-31 10:00"),
        ("2024-01-31 10:00:05", "2024-01-31 10:00:05"),
        ("2024-01-31T10:00:00Z", "2024-01-31 10:00"),
        ("2024-01-31T10:00:00.25+02:00", "2024-01-31 08:00:00.25"),
    ],
)
def test_iso_dates_are_dates(word, instant):
    frame = table(day=np.where(AMOUNT > 0, word, "2023-12-31"))
    assert kinds(frame)["day"] == "date"
    assert set(prepare(frame, "fraud").X["day"]) == {pd.Timestamp("2023-12-31"), pd.Timestamp(instant)}


def test_other_dates_are_words_with_advice():
    frame = table(day=np.where(AMOUNT > 0, "31.01.2024", "01.02.2024"))
    assert kinds(frame)["day"] == "category"
    assert re.search(r"Column 'day' is read as words: write dates like '\d+\.\d+\.2024' as 2024-01-31", said(frame))


def test_dates_of_no_date_count_as_missing():
    frame = table(until=np.where(np.arange(N) % 20 == 0, "9999-12-31", "2024-01-31"))
    ready = prepare(frame.assign(b=AMOUNT), "fraud")
    assert ready.X["until"].isna().sum() == N / 20
    assert f"{N // 20} values of 'until' are not dates and count as missing: '9999-12-31'." in ready.notes
    far = pd.Series(np.where(np.arange(N) % 20 == 0, "9999-12-31", "2024-01-31").astype("datetime64[s]"))
    pd.testing.assert_series_equal(prepare(table(until=far), "fraud").X["until"], ready.X["until"])


def test_numbers_with_commas_are_words_with_advice():
    frame = table(price=[f"{j % 40},5" for j in range(N)], sum=[f"1.{j:03d},75" for j in range(N)])
    ready = prepare(frame, "fraud")
    assert "Column 'price' is read as words: write numbers like '0,5' as 1234.5." in ready.notes
    assert ready.schema.left_out["sum"] == "write numbers like '1.000,75' as 1234.5"


def test_thousands_of_a_text_file_are_words_with_advice(write):
    lines = "".join(f"{900 + 10 * j:,};{fraud}\n" for j, fraud in enumerate(FRAUD))
    frame = open_table(write(f"sum;fraud\n{lines}".encode(), "data.csv")).read().assign(amount=AMOUNT)
    ready = prepare(frame, "fraud")
    assert ready.schema.left_out["sum"] == "write numbers like '1,000' as 1234.5"
    ready = prepare(frame, "fraud", keep=["sum"])
    assert "Column 'sum' is read as words: write numbers like '1,000' as 1234.5." in ready.notes


def test_spaces_around_words_are_no_matter():
    ready = prepare(table(word=np.where(AMOUNT > 0, " a", np.where(AMOUNT > -1, "a ", "NA "))), "fraud")
    assert set(ready.X["word"].dropna()) == {"a"}
    assert ready.X["word"].isna().sum() == (AMOUNT <= -1).sum()


def test_many_columns_are_prepared_in_reasonable_time():
    frame = pd.DataFrame(rng.normal(size=(60, 5000))).assign(fraud=FRAUD[:60])
    assert len(prepare(frame, "fraud").schema.columns) == 5000


# The same again.

MIXED = table(
    day=rng.choice(["2024-01-31", "2024-02-01T10:00"], N),
    zone=rng.choice(["007", "010", "A"], N),
    flag=AMOUNT > 0,
    count=rng.integers(0, 5, N),
    weight=np.where(np.arange(N) == 150, "heavy", AMOUNT.astype(str)),
    gaps=np.where(AMOUNT > 1, np.nan, AMOUNT),
)


@pytest.fixture
def write(tmp_path):
    def write(content, name):
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


@pytest.mark.parametrize("name", list(WRITERS))
def test_a_table_prepares_to_the_same_from_every_format(name, write):
    ready = prepare(open_table(write(WRITERS[name](MIXED), name)).read(), "fraud")
    expected = prepare(MIXED, "fraud")
    pd.testing.assert_frame_equal(ready.X, expected.X, check_exact=True)
    assert fingerprint(ready.X) == fingerprint(expected.X)
    assert ready.schema == expected.schema
    assert (ready.y == expected.y).all()


@pytest.mark.parametrize("name", list(WRITERS))
def test_pieces_match_to_the_training_rows(name, write):
    expected = prepare(MIXED, "fraud")
    file = open_table(write(WRITERS[name](MIXED), name))
    matcher = Matcher(expected.schema)
    X = matched(matcher, file, 7)
    pd.testing.assert_frame_equal(X, expected.X, check_exact=True)
    assert matcher.notes() == ["1 value of 'weight' is not a number and counts as missing: 'heavy'."]


def test_libsvm_pieces_have_the_columns_that_they_do_not_mention(write):
    lines = "".join(f"{(f == 'yes') * 1} 1:{a} 2:{a * a}\n" for a, f in zip(AMOUNT, FRAUD, strict=True))
    schema = prepare(open_table(write(lines.encode(), "train.svm")).read(), "label").schema
    assert list(schema.columns) == ["x1", "x2"]
    file = open_table(write(b"0 1:5\n", "new.svm"))
    assert matched(Matcher(schema), file, 7).to_dict("list") == {"x1": [5.0], "x2": [0.0]}


def test_columns_are_found_by_name_in_any_order():
    ready = prepare(MIXED, "fraud")
    matched = match(MIXED[MIXED.columns[::-1]], ready.schema)
    pd.testing.assert_frame_equal(matched.X, ready.X)
    assert matched.notes == ["1 value of 'weight' is not a number and counts as missing: 'heavy'."]


def test_missing_columns_are_all_named_with_near_names():
    schema = prepare(MIXED, "fraud").schema
    sentence = refusal(match, MIXED.rename(columns={"amount": "Amount"}).drop(columns=["zone", "fraud"]), schema)
    assert sentence == (
        "The table has no columns 'amount' and 'zone', which the model needs: did you mean 'Amount' for 'amount'?"
    )


def test_a_file_without_the_columns_is_refused_before_it_is_read(write):
    schema = prepare(MIXED, "fraud").schema
    file = open_table(write(b"Amount,b\n1,2\n", "other.csv"))
    assert "did you mean 'Amount' for 'amount'" in refusal(matched, Matcher(schema), file, 7)


def test_extra_columns_are_passed_over_with_a_word():
    schema = prepare(table(same=1), "fraud").schema
    assert match(table(same=1, more=2, yet=3), schema).notes == [
        "Not used: columns 'more' and 'yet', unknown to the model."
    ]
    assert match(table(same=1), schema).notes == []


def test_extra_columns_of_use_elsewhere_are_not_called_unused():
    matcher = Matcher(prepare(table(), "fraud").schema)
    matcher(table(more=2, yet=3))
    assert matcher.notes(used=["more"]) == ["Not used: column 'yet', unknown to the model."]
    assert matcher.notes(used=["more", "yet"]) == []


def test_what_is_noted_is_counted_over_all_pieces():
    schema = prepare(table(), "fraud").schema
    matcher = Matcher(schema)
    for piece in (["1", "x", "2", "3"], ["x", "4", "5", "6"]):
        matcher(pd.DataFrame({"amount": piece, "more": 1}))
    assert matcher.notes() == [
        "Not used: column 'more', unknown to the model.",
        "2 values of 'amount' are not numbers and count as missing: 'x'.",
    ]


def test_what_is_kept_of_strange_words_is_bounded():
    matcher = Matcher(prepare(table(), "fraud").schema)
    for i in range(20):
        matcher(pd.DataFrame({"amount": ["1", "2", "3"] * 40 + [f"x{i}.{j}" for j in range(90)]}))
    assert matcher.notes() == [
        "1,800 values of 'amount' are not numbers and count as missing: 'x0.0', 'x0.1', 'x0.2' and others."
    ]
    assert sum(len(tally.lost) for tally in matcher.tallies.values()) == 100


def test_another_column_of_the_same_name_is_refused():
    schema = prepare(MIXED, "fraud").schema
    sentence = refusal(match, MIXED.assign(amount="abc"), schema)
    assert sentence == (
        "Column 'amount' held numbers when the model was fitted, but now mostly other values, such as 'abc': is it a "
        "different column?"
    )
    assert "held dates" in refusal(match, MIXED.assign(day=3.5), schema)
    assert "now lists or bytes" in refusal(match, MIXED.assign(day=[[1]] * N), schema)


def test_words_sorted_to_the_top_are_judged_with_the_rest_of_the_table():
    schema = prepare(table(), "fraud").schema
    frame = pd.DataFrame({"amount": ["?"] * 900 + ["1"] * 1100})
    matcher = Matcher(schema)
    pieces = [matcher(frame[i : i + 100]) for i in range(0, 2000, 100)]
    matcher.finish()
    pd.testing.assert_frame_equal(pd.concat(pieces, ignore_index=True), match(frame, schema).X)
    assert matcher.notes() == ["900 values of 'amount' are not numbers and count as missing: '?'."]


def test_another_column_is_refused_in_pieces_as_it_is_whole():
    schema = prepare(table(), "fraud").schema
    frame = pd.DataFrame({"amount": ["1"] * 900 + ["?"] * 1100})
    matcher = Matcher(schema)
    for i in range(0, 2000, 100):
        matcher(frame[i : i + 100])
    assert refusal(matcher.finish) == refusal(match, frame, schema)


def test_a_column_of_far_dates_or_infinities_is_no_other_column():
    frame = table(
        until=np.where(np.arange(N) % 3, "9999-12-31", "2024-01-31"), ratio=np.where(np.arange(N) % 3, np.inf, 1.5)
    )
    ready = prepare(frame, "fraud")
    assert ready.schema.columns["until"] == "date"
    pd.testing.assert_frame_equal(match(frame, ready.schema).X, ready.X)
    typed = frame.assign(
        until=pd.Series(frame["until"].to_numpy().astype("datetime64[s]")), ratio=frame["ratio"].astype(str)
    )
    pd.testing.assert_frame_equal(match(typed, ready.schema).X, ready.X)


def test_one_row_with_an_unknown_word_is_scored():
    schema = prepare(MIXED, "fraud").schema
    assert np.isnan(match(MIXED[:1].assign(amount="?"), schema).X["amount"].iloc[0])


def test_types_are_those_of_the_training_whatever_the_piece_holds():
    ready = prepare(MIXED, "fraud")
    for piece in (MIXED[:1], MIXED[:0], MIXED.assign(zone=7), MIXED.assign(flag=None, day=None, zone=np.nan)):
        assert match(piece, ready.schema).X.dtypes.equals(ready.X.dtypes)


def test_the_classifier_predicts_on_what_matches():
    ready = prepare(MIXED, "fraud")
    model = EvenMarginClassifier(time_budget="fast", random_state=0).fit(ready.X, ready.y)
    before = model.decision_function(ready.X)
    after = [model.decision_function(match(MIXED[i : i + 50], ready.schema).X) for i in range(0, N, 50)]
    assert np.allclose(np.concatenate(after), before)


def test_a_schema_travels_as_json():
    for frame in (MIXED, table(same=1)):
        schema = replace(prepare(frame, "fraud").schema, decimal_comma=True)
        assert Schema.from_notes(json.loads(json.dumps(schema.to_notes()))) == schema
    assert schema.words == []
    assert prepare(MIXED, "fraud").schema.words == ["day", "zone"]


@pytest.mark.parametrize("notes", [{}, {"target": 1}, [], None])
def test_notes_that_make_no_schema_are_refused(notes):
    assert "cannot be read: fit the model again" in refusal(Schema.from_notes, notes)


# Labels for a report.


def test_labels_come_back_as_in_the_training():
    for values in (FRAUD, FRAUD == "yes", (FRAUD == "yes") * 1, np.where(FRAUD == "yes", 2.5, 1.0)):
        ready = prepare(table().assign(fraud=values), "fraud")
        for again in (values, pd.Series(values).astype(str)):
            y, known = labels(pd.DataFrame({"fraud": again}), ready.schema)
            assert known.all()
            assert y.dtype == ready.y.dtype
            assert (y == ready.y).all()


def test_labels_of_one_against_the_rest_come_back():
    schema = prepare(table().assign(fraud=np.resize([1, 2, 3], N)), "fraud", "2").schema
    y, known = labels(pd.DataFrame({"fraud": [2.0, 1.0, np.nan, 9.0]}), schema)
    assert known.tolist() == [True, True, False, True]
    assert y[known].tolist() == ["2", "rest", "rest"]


def test_labels_that_the_model_does_not_know_are_refused():
    schema = prepare(table(), "fraud").schema
    assert "has 'maybe', but the model knows only 'yes' and 'no'" in refusal(
        labels, pd.DataFrame({"fraud": ["yes", "maybe"]}), schema
    )
    assert "did you mean 'Fraud'" in refusal(labels, pd.DataFrame({"Fraud": ["yes"]}), schema)
    assert "has no value" in refusal(labels, pd.DataFrame({"fraud": [None]}), schema)


# Whatever the table.

KINDS = [
    st.floats() | st.none(),
    st.integers(-(10**20), 10**20) | st.none(),
    st.booleans() | st.none(),
    st.sampled_from([None, "yes", "no", "NA", "", " 1", "1e5", "inf", "2024-01-31", "2024-13-01", "1,5", "x", "0"]),
    st.datetimes() | st.none(),
]


@st.composite
def tables(draw):
    """A table of columns of one kind each, as files have them."""
    rows = draw(st.integers(1, 25))
    columns = st.sampled_from(KINDS).flatmap(lambda kind: st.lists(kind, min_size=rows, max_size=rows))
    return pd.DataFrame({f"c{j}": pd.Series(draw(columns), dtype=object) for j in range(draw(st.integers(1, 3)))})


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(tables(), st.data())
def test_any_table_is_prepared_or_refused_with_a_sentence(frame, data):
    positive = data.draw(st.none() | st.sampled_from(["1", "yes", "True"]))
    try:
        ready = prepare(frame, "c0", positive)
    except InputError as error:
        said = str(error)
        assert "\n" not in said
        return
    assert len(np.unique(ready.y)) == 2
    pd.testing.assert_frame_equal(match(frame[ready.rows], ready.schema).X, ready.X)
    assert "c0" not in ready.schema.columns


cells = st.sampled_from(
    [
        "yes",
        "no",
        "NA",
        "",
        " 1",
        "1e5",
        "inf",
        "2024-01-31",
        "2024-02-30",
        "1,5",
        "x",
        "0",
        "007",
        "True",
        "FALSE",
        "-2.5",
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", ""]), cells, cells, cells), min_size=2, max_size=40),
    st.sampled_from(",;"),
    st.integers(1, 7),
)
def test_any_text_file_matches_in_pieces_to_what_was_prepared_whole(write, rows, separator, size):
    frame = pd.DataFrame(rows, columns=["t", "p", "q", "r"])
    file = open_table(write(frame.to_csv(index=False, sep=separator).encode(), "data.csv"))
    try:
        ready = prepare(file.read(), "t", "a", keep=["p", "q", "r"])
    except InputError:
        return  # one label only, or no column with two values
    X = matched(Matcher(ready.schema), file, size)[ready.rows].reset_index(drop=True)
    pd.testing.assert_frame_equal(X, ready.X)


def test_words_that_are_new_to_the_model_are_spoken_of_where_they_are_many():
    known = pd.DataFrame({"bank": ["A", "B"] * 30, "sum": range(60), "fraud": ["no", "no", "yes"] * 20})
    schema = Schema.from_notes(prepare(known, "fraud", keep=["sum"]).schema.to_notes())
    matcher = Matcher(schema)
    matcher(pd.DataFrame({"bank": ["A"] * 8 + ["C", None], "sum": 1.0}))
    assert len(matcher.notes()) == 1
    assert "11% of the values of 'bank' are new to the model, such as 'C'" in matcher.notes()[0]
    matcher(pd.DataFrame({"bank": ["A"] * 90, "sum": 1.0}))
    assert matcher.notes() == []


def test_a_category_of_too_many_words_is_not_kept_in_mind():
    many = pd.DataFrame({"bank": [f"B{k % 1500}" for k in range(4000)], "fraud": ["no", "no", "no", "yes"] * 1000})
    assert prepare(many, "fraud").schema.vocabulary == {}
