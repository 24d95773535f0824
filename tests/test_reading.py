"""Tables from files: any format gives the same values, whole or in pieces; what cannot be read is one sentence."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import re
import subprocess
import sys
import time
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evenmargin._tables.kinds import GAPS
from evenmargin._util.sentences import near, quoted
from evenmargin.cli._columns import fingerprint
from evenmargin.cli._reading import InputError, _lines, open_table

pa = pytest.importorskip("pyarrow", reason="pyarrow is part of the test extra")

rng = np.random.default_rng(0)
N = 300
FRAME = pd.DataFrame(
    {
        "amount": rng.normal(size=N) * 10.0 ** rng.integers(-8, 9, N),
        "count": rng.integers(-5, 6, N),
        "share": np.where(rng.random(N) < 0.1, np.nan, rng.random(N)),
        "city": rng.choice(["Köln", "São Paulo, BR", 'the "old" one', "two\nlines", "東京"], N),
        "flag": rng.random(N) < 0.3,
    }
)


@pytest.fixture
def write(tmp_path):
    """A function that writes bytes or text to a file and gives its path."""

    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def same(one, other):
    """The same table, whatever the type of its strings."""
    plain = [frame.astype({name: object for name in frame if frame[name].dtype.kind == "O"}) for frame in (one, other)]
    pd.testing.assert_frame_equal(*(frame.where(frame.notna(), np.nan) for frame in plain), check_column_type=False)


def text(frame, separator=","):
    return frame.to_csv(index=False, sep=separator)


def refusal(path, **options):
    """The sentence with which a file is refused."""
    with pytest.raises(InputError) as caught:
        open_table(path, **options).read()
    said = str(caught.value)
    assert "\n" not in said
    assert re.search(r"[.?\"]$", said)
    return said


WRITERS = {
    "data.csv": lambda frame: text(frame).encode(),
    "data.tsv": lambda frame: text(frame, "\t").encode(),
    "semicolons.csv": lambda frame: text(frame, ";").encode(),
    "pipes.txt": lambda frame: text(frame, "|").encode(),
    "data.csv.gz": lambda frame: gzip.compress(text(frame).encode()),
    "data.csv.bz2": lambda frame: bz2.compress(text(frame).encode()),
    "data.csv.xz": lambda frame: lzma.compress(text(frame).encode()),
    "data.csv.zst": lambda frame: _zstd(text(frame).encode()),
    "data.csv.zip": lambda frame: _zipped({"data.csv": text(frame).encode()}),
    "utf16.csv": lambda frame: text(frame).encode("utf-16"),
    "bom.csv": lambda frame: text(frame).encode("utf-8-sig"),
    "windows.csv": lambda frame: text(frame).replace("\n", "\r\n").encode(),
    "data.parquet": lambda frame: _arrowed(frame, "parquet"),
    "data.parquet.gz": lambda frame: gzip.compress(_arrowed(frame, "parquet")),
    "data.arrow": lambda frame: _arrowed(frame, "file"),
    "data.arrows": lambda frame: _arrowed(frame, "stream"),
    "data.feather": lambda frame: _arrowed(frame, "feather"),
}


def _zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _encrypted(packed):
    """The zip file with the mark that its one member is encrypted."""
    content, central = bytearray(packed), packed.index(b"PK\x01\x02")
    content[6] |= 1
    content[central + 8] |= 1
    return bytes(content)


def _zstd(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def _arrowed(frame, kind):
    from pyarrow import feather, parquet

    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    sink = pa.BufferOutputStream()
    if kind == "parquet":
        parquet.write_table(table, sink, row_group_size=70)
    elif kind == "feather":
        feather.write_feather(table, sink)
    else:
        new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
        with new(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=70)
    return sink.getvalue().to_pybytes()


every_format = pytest.mark.parametrize("name", list(WRITERS))


@every_format
def test_a_table_comes_back_from_every_format(name, write):
    table = open_table(write(WRITERS[name](FRAME), name))
    assert table.columns == list(FRAME.columns)
    same(table.read(), FRAME)


@every_format
def test_pieces_are_the_whole(name, write):
    table = open_table(write(WRITERS[name](FRAME), name))
    pieces = list(table.pieces(rows=37, words=["city"]))
    assert max(map(len, pieces)) <= 37
    same(pd.concat(pieces, ignore_index=True), FRAME)


@every_format
def test_only_the_columns_asked_for_are_read(name, write):
    table = open_table(write(WRITERS[name](FRAME), name))
    same(table.read(columns=["share", "amount", "nowhere"]), FRAME[["amount", "share"]])
    same(pd.concat(table.pieces(columns=["share"]), ignore_index=True), FRAME[["share"]])


@every_format
def test_standard_input_is_read_like_a_file(name, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(WRITERS[name](FRAME))))
    table = open_table("-")
    assert table.name == "standard input"
    same(table.read(), FRAME)


def test_standard_input_gives_pieces_as_they_come():
    code = (
        "from evenmargin.cli._reading import open_table\nfor p in open_table('-').pieces(rows=2): print(p.a.tolist())"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=b"a,b\n1,2\n3,4\n5,6\n", capture_output=True, check=True, timeout=60)
    assert done.stdout.split(b"\n") == [b"[1, 3]", b"[5]", b""]


def test_a_pipe_is_read_once_and_says_so(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a,b\n1,2\n")))
    table = open_table("-")
    table.read()
    with pytest.raises(InputError, match="only once"):
        table.read()


def test_a_named_pipe_works(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = subprocess.Popen([sys.executable, "-c", f"open({str(path)!r}, 'w').write('a,b\\n1,2\\n')"])
    assert open_table(str(path)).read().to_dict("list") == {"a": [1], "b": [2]}
    assert writer.wait(timeout=30) == 0


def test_a_file_can_be_read_again(write):
    table = open_table(write(text(FRAME)))
    same(table.read(), pd.concat(table.pieces(rows=50, words=["city"]), ignore_index=True))
    same(table.read(), FRAME)


def test_words_stay_as_they_are_in_every_piece(write):
    table = open_table(write("code,x\n007,1\n010,2\nA1,3\n"))
    assert table.read()["code"].tolist() == ["007", "010", "A1"]
    assert [value for p in table.pieces(rows=1, words=["code"]) for value in p["code"]] == ["007", "010", "A1"]
    assert table.read(words=["x"])["x"].tolist() == ["1", "2", "3"]
    assert open_table(write("code,x\n007,1\n010,2\n")).read()["code"].tolist() == [7, 10]


def test_floats_are_read_to_the_last_bit(write):
    values = np.concatenate(
        [rng.normal(size=5000) * 10.0 ** rng.integers(-300, 300, 5000), [5e-324, 1.7976931348623157e308]]
    )
    frame = pd.DataFrame({"a": values, "b": values[::-1]})
    assert np.array_equal(open_table(write(text(frame))).read().to_numpy(), frame.to_numpy())


def test_the_usual_words_for_missing_are_missing(write):
    words = ["", "NA", "N/A", "n/a", "null", "NULL", "NaN", "nan", "None", "#N/A", "<NA>"]
    frame = open_table(write("a,b\n1,2\n" + "".join(f"{word},3\n" for word in words))).read()
    assert frame["a"].isna().sum() == len(words)


@pytest.mark.parametrize("separator", list(",;|\t"))
def test_the_separator_is_found_in_the_header(separator, write):
    table = open_table(
        write(
            separator.join(["name of it", "b,b" if separator == ";" else "b b", "c"])
            + "\n"
            + separator.join("123")
            + "\n"
        )
    )
    assert len(table.columns) == 3


def test_the_separator_can_be_given(write):
    assert open_table(write("a b\n1 2\n"), separator="space").read().to_dict("list") == {"a": [1], "b": [2]}
    assert open_table(write("a\tb,c\n1\t2,3\n"), separator="\\t").columns == ["a", "b,c"]


def test_decimal_commas_are_numbers_where_semicolons_separate(write):
    table = open_table(write('a;b;c\n"1,5";2;x\n-0,25;3;"1,5"\n;4;y\n'))
    assert table.read()["a"].tolist()[:2] == [1.5, -0.25]
    assert table.read()["c"].tolist() == ["x", "1.5", "y"]
    assert [v for p in table.pieces(rows=1, words=["c"]) for v in p["c"]] == ["x", "1.5", "y"]
    assert open_table(write("a;b\n1.5;2\n1.25;3\n")).read()["a"].tolist() == [1.5, 1.25]
    assert open_table(write("a;b\n1,5;True\n2,5;\n")).read()["b"].tolist()[0] is True


def test_decimal_commas_are_told_once(write):
    table = open_table(write("a;b\n1,5;x\n2,25;y\n"))
    assert table.notes == [
        "Numbers in data.csv are read with decimal commas, and points between thousands: 1,5 is 1.5."
    ]
    table.read()
    assert len(table.notes) == 1
    assert open_table(write("a;b\n1.5;x\n")).notes == open_table(write("a,b\n1.5,x\n")).notes == []


@pytest.mark.parametrize("separator", list(";|\t"))
def test_a_comma_that_may_stand_between_thousands_is_not_taken_for_decimals(separator, write):
    for numbers in (["1,037", "980", "12,500"], ["1,037,500", "-1,037", "3"]):
        table = open_table(write("".join(f"{a}{separator}{b}\n" for a, b in zip(["a", *numbers], "bxyz", strict=True))))
        assert table.read()["a"].tolist() == numbers
        assert table.notes == []


@pytest.mark.parametrize("sure", ["0,037", "1037,125", "1,0375", "1.037,125"])
def test_three_digits_are_decimals_where_another_number_says_so(sure, write):
    number = float(sure.replace(".", "").replace(",", "."))
    frame = open_table(write(f"a;b\n{sure};x\n1,037;y\n")).read()
    assert frame["a"].astype(float).tolist() == [number, 1.037]


def test_points_stand_between_thousands_where_commas_are_decimals(write):
    content = "sum;day;address\n12,5;31.01.2024;10.100.100.100\n1.037;01.02.2024;10.0.0.1\n1.234.567,5;;\n"
    frame = open_table(write(content)).read()
    assert frame["sum"].astype(float).tolist() == [12.5, 1037, 1234567.5]
    assert frame["day"].tolist()[0] == "31.01.2024"
    assert frame["address"].tolist()[0] == "10.100.100.100"
    mixed = open_table(write("a;b;c\n1,5;0.5;1.037\n2,5;;1.5\n2,5;;\n"))
    assert mixed.read()["c"].astype(float).tolist()[:2] == [1.037, 1.5]
    assert mixed.notes == ["Numbers in data.csv are read with decimal commas: 1,5 is 1.5."]


@pytest.mark.parametrize(("content", "sums"), [("24.500;2", [24500]), ("24.5;2", [24.5]), ("1,5;2", [1.5])])
def test_numbers_are_read_as_at_the_fit_where_the_file_does_not_tell(content, sums, write):
    table = open_table(write(f"sum;b\n{content}\n"))
    table.expect(decimal_comma=True)
    assert table.read()["sum"].astype(float).tolist() == sums
    assert len(table.notes) == table.decimal_comma == (sums != [24.5])


def test_between_commas_nothing_else_is_expected(write):
    table = open_table(write("sum,b\n24.500,2\n"))
    table.expect(decimal_comma=True)
    assert table.read()["sum"].tolist() == [24.5]


# Columns that are only copied.

IDS = [9007199254860993, None, None, None, 7, None]


def copied(path, **options):
    """The pieces of a file with its column "id" as it is, as tables with the types of the first."""
    tables = [
        pa.Table.from_pandas(piece[["id"]], preserve_index=False)
        for piece in open_table(path).pieces(2, columns=["x"], exact=["id"], **options)
    ]
    assert len({table.schema.field(0).type for table in tables}) == 1
    return pa.concat_tables(tables).column(0)


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_a_copied_column_keeps_its_type_and_its_digits_in_every_piece(kind, write):
    import datetime
    from decimal import Decimal

    for values in (
        pa.array(IDS),
        pa.array([None, None, None, "a", "NA", ""]),
        pa.array([None, None, None, True, None, False]),
        pa.array([None, None, None, Decimal("1.50"), None, None]),
        pa.array([None, None, datetime.date(2024, 1, 31), None, None, None]),
        pa.array([datetime.datetime(2024, 1, 31)] * 6, pa.timestamp("us", tz="Europe/Berlin")),
        pa.array([[1], None, [], None, None, [2, 3]]),
        pa.nulls(6),
    ):
        path = write(_arrowed(pa.table({"id": values, "x": range(6)}), kind), "t")
        column = copied(path)
        assert column.type == values.type or str(column.type).startswith("list")
        assert column.to_pylist() == values.to_pylist()


def test_words_of_a_dictionary_are_copied_by_themselves(write):
    words = pa.array(["a", None, "b", "c", "c", None])
    column = copied(write(_arrowed(pa.table({"id": words.dictionary_encode(), "x": range(6)}), "parquet"), "t"))
    assert column.type == pa.string()
    assert column.to_pylist() == words.to_pylist()


@pytest.mark.parametrize("separator", list(",;"))
def test_a_copied_column_of_text_is_as_it_stands_in_the_file(separator, write):
    words = ["007", "NA", "", "", "1.50", "two words"]
    lines = "".join(f'{word}{separator}"1,5"\n' for word in words)
    column = copied(write(f"id{separator}x\n{lines}"))
    assert column.to_pylist() == ["007", "NA", None, None, "1.50", "two words"]
    column = copied(write(f'id{separator}x\n"1,5"{separator}"2,5"\n"1.037"{separator}"2,5"\n'))
    assert column.to_pylist() == ["1,5", "1.037"]


def test_a_copied_column_that_is_asked_for_otherwise_too_comes_so(write):
    for name in ("data.csv", "data.parquet"):
        table = open_table(write(WRITERS[name](FRAME), name))
        (piece,) = table.pieces(columns=["count"], exact=["count", "city", "nowhere"])
        assert list(piece.columns) == ["count", "city"]
        assert piece["count"].dtype == np.int64
        (piece,) = table.pieces(exact=["count"])
        assert list(piece.columns) == table.columns
        assert piece["count"].dtype == ("string" if name == "data.csv" else pd.ArrowDtype(pa.int64()))


def test_a_copied_column_of_libsvm_is_a_number(write):
    (piece,) = open_table(write("1 1:2 2:3\n", "t.svm")).pieces(columns=["x2"], exact=["label"])
    assert piece.to_dict("list") == {"x2": [3.0], "label": [1.0]}


def test_old_line_ends_and_blank_lines_are_no_matter(write):
    for content in ("a,b\r1,2\r3,4\r", "\n\na,b\n\n1,2\n  \n3,4\n\n\n", "a,b\r\n1,2\r\n3,4", "a,b\n1,2\n3,4\n \n"):
        assert open_table(write(content)).read().to_dict("list") == {"a": [1, 3], "b": [2, 4]}, content


def test_quotes_are_read_as_in_pandas(write):
    content = 'a,b,c\n"x ""y"", z",1,2\n5" pipe,3,4\n"two\nlines",5,6\n"ab"c,7,8\n,9,10\nit\'s,11,12\n'
    same(open_table(write(content)).read(), pd.read_csv(io.StringIO(content)))


def test_spaces_after_a_separator_do_not_count(write):
    frame = open_table(write('age, job, note, y\n39, Private, "a, b", yes\n , Self, "c", no\n')).read()
    assert list(frame.columns) == ["age", "job", "note", "y"]
    assert frame["age"].isna().tolist() == [False, True]
    assert frame["note"].tolist() == ["a, b", "c"]


def test_column_names_lose_spaces_and_the_nameless_get_numbers(write):
    assert open_table(write(", b ,\n1,2,3\n")).columns == ["column 1", "b", "column 3"]


def test_libsvm_is_a_table_with_zeros(write):
    path = write("+1 1:0.5 3:2 # a word\n-1 2:1e-3\n\n-1\n", "data.t")
    table = open_table(path)
    assert (table.format, table.columns) == ("libsvm", ["label", "x1", "x2", "x3"])
    expected = [[1, 0.5, 0, 2], [-1, 0, 1e-3, 0], [-1, 0, 0, 0]]
    assert table.read().to_numpy().tolist() == expected
    assert pd.concat(table.pieces(rows=2)).to_numpy().tolist() == expected
    assert table.lacks(["x9", "label", "name"]) == ["name"]
    assert table.read(columns=["x9", "x3"]).to_dict("list") == {"x9": [0, 0, 0], "x3": [2, 0, 0]}


def test_libsvm_comes_from_standard_input_and_zipped(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(gzip.compress(b"1 0:3\n0 1:4\n"))))
    table = open_table("-")
    assert table.columns == ["label", "x0", "x1"]
    assert table.read().to_numpy().tolist() == [[1, 3, 0], [0, 0, 4]]


def test_parquet_types_come_as_numpy_has_them(write):
    import datetime
    from decimal import Decimal

    columns = {
        "decimal": pa.array([Decimal("1.50"), None]),
        "date": pa.array([datetime.date(2024, 1, 31), None]),
        "instant": pa.array([datetime.datetime(2024, 1, 31, 10)] * 2, pa.timestamp("us", tz="Europe/Berlin")),
        "gap": pa.array([1, None]),
        "half": pa.array(np.array([1, 2], np.float16)),
        "nothing": pa.nulls(2),
        "words": pa.array(["a", None]).dictionary_encode(),
        "a.b": pa.array([1.0, 2.0]),
        "time": pa.array([datetime.time(10), None]),
        "bool": pa.array([True, None]),
    }
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.table(columns), sink)
    table = open_table(write(sink.getvalue().to_pybytes(), "t.parquet"))
    frame = table.read()
    assert frame["decimal"].iloc[0] == 1.5
    assert frame["date"].iloc[0] == pd.Timestamp("2024-01-31")
    assert frame["instant"].iloc[0] == pd.Timestamp("2024-01-31 10:00")  # in UTC
    assert frame["gap"].dtype == frame["nothing"].dtype == np.float64
    assert frame["half"].tolist() == [1, 2]
    assert isinstance(frame["words"].dtype, pd.CategoricalDtype)
    assert frame["bool"].iloc[0] is True
    assert frame["time"].iloc[0].startswith("10:00:00")
    assert list(table.read(columns=["a.b"]).columns) == ["a.b"]


# Refusals.

RAGGED = "a,b,c\n" + "1,2,3\n" * 9
BAD = {
    "empty": (b"", "is empty"),
    "blank": (b"\n \n\n", "is empty"),
    "header only": (b"a,b\n", "no rows"),
    "header without newline": (b"a,b", "no rows"),
    "latin-1": ("a,b\n1,é\n2,x\n".encode("latin-1"), "byte 0xE9 in line 2; try --encoding latin-1"),
    "too many": (RAGGED + "1,2,3,4\n", "Line 11 of data has 4 fields where the header has 3"),
    "too few": (RAGGED + "1,2\n" + RAGGED[6:], "Line 11 of data has 2 fields where the header has 3"),
    "one field": (RAGGED + "x\n" + RAGGED[6:], "Line 11 of data has 1 field where the header has 3"),
    "after lines in quotes": ('a,b\n"x\ny\nz",1\n\n1\n', "Line 6 of data has 1 field "),
    "unclosed": (RAGGED + '"1,2,3\n4,5,6\n', "double quote in line 11 of data is never closed"),
    "unclosed at the end": (RAGGED + '1,2,"3', "double quote in line 11, the last of data, is not closed"),
    "unclosed header": ('"a,b\n1,2\n', "double quote in line 1 of data is never closed"),
    "nul": (b"a,b\n1,2\n3,\x004\n", "NUL byte in line 3"),
    "utf-16 without mark": ("a,b\n1,2\n".encode("utf-16-le"), "NUL byte in line 1"),
    "junk": (bytes(range(1, 256)) * 20, "is not a table of a known format"),
    "twice": (b"a,b,a,b,c\n1,2,3,4,5\n", "more than one column named 'a' and 'b'"),
    "no header": (b"0.5,1\n0.7,2\n", "holds numbers: add a line with the names"),
    "gzip cut short": (gzip.compress(os.urandom(4000))[:2000], "damaged or cut short"),
    "bz2 cut short": (bz2.compress(b"a,b\n1,2\n" * 999)[:-9], "damaged or cut short"),
    "xz cut short": (lzma.compress(b"a,b\n1,2\n" * 999)[:-9], "damaged or cut short"),
    "zip cut short": (_zipped({"a.csv": b"a,b\n1,2\n" * 99})[:-9], "damaged or cut short"),
    "two in a zip": (_zipped({"a.csv": b"a", "b.csv": b"b"}), "holds 2 files, 'a.csv' and 'b.csv', instead of one"),
    "folders in a zip": (_zipped({"a/": b""}), "holds no file instead of one"),
    "encrypted zip": (_encrypted(_zipped({"a.csv": b"a,b\n1,2\n"})), "is encrypted: unpack it with its password"),
    "spreadsheet": (_zipped({"xl/workbook.xml": b"a", "b.xml": b"b"}), "is a spreadsheet: save the sheet as CSV"),
    "json": (b'[{"a": 1}]', "is JSON"),
    "html": (b"<!DOCTYPE html><table>", "web page"),
    "pickle": (b"\x80\x05abc", "is a pickle, which is not opened"),
    "libsvm": (b"1 1:2\n1 2:x\n", "has an error in line 2: in libsvm format"),
    "libsvm line": (b"1 1:2\n1 2:3\n1 2\n", "in line 3"),
    "wide libsvm": (b"1 1:2 5000000:1\n", "5000000 columns"),
    "parquet": (b"PAR1 and nothing else", "damaged or cut short"),
    "arrow": (b"ARROW1 and nothing else", "damaged or cut short"),
    "parquet cut short": (WRITERS["data.parquet"](FRAME)[:-50], "damaged or cut short"),
    "arrow cut short": (WRITERS["data.arrow"](FRAME)[:-50], "damaged or cut short"),
    "stream cut short": (WRITERS["data.arrows"](FRAME)[:-5000], "damaged or cut short"),
    "no rows": (WRITERS["data.parquet"](FRAME[:0]), "no rows"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_what_cannot_be_read_is_one_sentence(case, write):
    content, said = BAD[case]
    path = write(content, "data")
    assert said in refusal(path)
    with pytest.raises(InputError):
        list(open_table(path).pieces(rows=4))


def test_a_missing_file_brings_near_names_to_mind(write):
    path = write("a,b\n1,2\n", "claims_2024.csv")
    assert refusal(path.replace("claims", "Claim")).endswith(": did you mean 'claims_2024.csv'?")
    assert refusal("/nowhere/at/all.csv") == "There is no file '/nowhere/at/all.csv'."


def test_a_folder_is_not_a_file(tmp_path):
    assert "is a folder: name a file in it" in refusal(str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(write):
    path = write("a,b\n1,2\n")
    os.chmod(path, 0)
    assert "permission denied" in refusal(path)


def test_a_refused_permission_is_a_sentence(write, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    path = write("a,b\n1,2\n")
    monkeypatch.setattr("builtins.open", refuse)
    assert refusal(path) == f"{path!r} may not be read: permission denied."


def test_a_name_that_cannot_be_is_a_sentence():
    assert "cannot be opened" in refusal("a\0b")


def test_options_that_make_no_sense_are_named(write):
    path = write("a,b\n1,2\n")
    assert "There is no encoding 'klingon'" in refusal(path, encoding="klingon")
    assert "There is no encoding 'base64'" in refusal(path, encoding="base64")
    assert "must be one character" in refusal(path, separator=";;")
    assert "data.csv is not UTF-16" in refusal(write("a,b\n1,2\n3"), encoding="utf-16")


def test_another_encoding_is_read_when_named(write):
    path = write("a,b\n1,é\n".encode("latin-1"))
    assert open_table(path, encoding="latin-1").read()["b"].tolist() == ["é"]


def test_without_pyarrow_the_extra_is_named(write, monkeypatch):
    path = write(WRITERS["data.parquet"](FRAME), "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert refusal(path) == 'Reading t.parquet needs pyarrow: pip install "evenmargin[parquet]"'


def test_a_line_without_end_is_refused_in_bounded_time(write, monkeypatch):
    monkeypatch.setattr(_lines, "LONGEST", 3_000_000)
    assert "Line 2 of data is longer than" in refusal(write("a,b\n" + "1" * 9_000_000, "data"))
    assert "Line 1 of data is longer than" in refusal(write("a" * 9_000_000, "data"))
    assert "double quote in line 3 of data is never closed" in refusal(
        write('a,b\n1,2\n"' + "1,2\n" * 3_000_000, "data")
    )


def test_many_columns_are_read_in_reasonable_time(write):
    frame = pd.DataFrame(rng.integers(0, 9, (200, 5000)), columns=[f"column {j}" for j in range(5000)])
    path = write(text(frame))
    started = time.perf_counter()
    whole, pieces = open_table(path).read(), list(open_table(path).pieces(rows=50))
    assert time.perf_counter() - started < 20
    assert whole.equals(frame)
    assert pd.concat(pieces, ignore_index=True).equals(frame)


def _large_csv(path, rows):
    line = ",".join(["0.12345678"] * 30) + "\n"
    with open(path, "w") as file:
        file.write(",".join(f"x{j}" for j in range(30)) + "\n")
        for _ in range(rows // 1000):
            file.write(line * 1000)


def _large_parquet(path, rows):
    from pyarrow import parquet

    column = rng.random(rows)
    parquet.write_table(pa.table({f"x{j}": column + j for j in range(30)}), path, row_group_size=rows)


@pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="only Linux tells the peak of a process's own memory"
)
@pytest.mark.parametrize("make", [_large_csv, _large_parquet])
def test_memory_does_not_grow_with_the_file(make, tmp_path):
    code = (
        "import re, sys\nfrom evenmargin.cli._reading import open_table\n"
        "rows = sum(len(p) for p in open_table(sys.argv[1]).pieces(rows=20_000))\n"
        "print(rows, re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    peaks = []
    for count in (150_000, 600_000):  # CSV of 50 and 200 MB, Parquet of 36 and 144 MB
        make(tmp_path / "large", count)
        command = [sys.executable, "-c", code, str(tmp_path / "large")]
        done = subprocess.run(command, capture_output=True, check=True, timeout=200)
        rows, peak = map(int, done.stdout.split())
        assert rows == count
        peaks.append(peak / 1024)
    assert peaks[1] < peaks[0] + 60  # megabytes


# Whatever the bytes, a frame or a sentence.

VALID = [
    WRITERS["data.csv"](FRAME[:20]), WRITERS["semicolons.csv"](FRAME[:20]), WRITERS["utf16.csv"](FRAME[:20]),
    WRITERS["data.csv.gz"](FRAME[:20]), WRITERS["data.csv.zip"](FRAME[:20]), b"1 1:2 3:4\n-1 2:5\n" * 5,
    b'a,b\n"x""y",1\n5" z,2\n', "städte;größe\nKöln;1,5\n".encode("latin-1"),
]  # fmt: skip


@st.composite
def damaged(draw):
    """A valid file with bytes cut, flipped, put in or taken out."""
    content = bytearray(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        change = draw(st.sampled_from(["cut", "flip", "put", "take"]))
        if change == "cut":
            del content[place:]
        elif change == "flip" and content:
            content[place] ^= 1 << draw(st.integers(0, 7))
        elif change == "put":
            content[place:place] = draw(
                st.sampled_from([b'"', b"\n", b",", b"\r", b"\0", b"\xff", b"\xef\xbb\xbf", b'""', b"'"])
            )
        else:
            del content[place : place + draw(st.integers(1, 20))]
    return bytes(content)


fuzz = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def frame_or_sentence(path):
    try:
        table = open_table(path)
        whole = table.read()
    except InputError as error:
        said = str(error)
        assert "\n" not in said
        return None
    assert list(whole.columns) == table.columns
    assert len(whole) == sum(map(len, table.pieces(rows=3)))
    return whole


@fuzz
@given(damaged())
def test_damaged_text_gives_a_frame_or_a_sentence(write, content):
    frame_or_sentence(write(content, "data"))


@fuzz
@given(st.binary(max_size=200) | st.text('ab,;\t|"\n\r 1.', max_size=60).map(str.encode))
@example(b'a,b\n "x,1",2\n')
@example(b'a\n"\n')
def test_any_bytes_give_a_frame_or_a_sentence(write, content):
    frame_or_sentence(write(content, "data"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["data.parquet", "data.arrow", "data.arrows"]), st.integers(0, 10**6), st.integers(0, 7))
def test_damaged_parquet_and_arrow_give_a_frame_or_a_sentence(write, name, place, bit):
    content = bytearray(WRITERS[name](FRAME[:20]))
    content[place % len(content)] ^= 1 << bit
    frame_or_sentence(write(bytes(content), "data"))


cells = st.text('abé. ,;|\t"\n', max_size=4).filter(lambda word: word not in GAPS and word[0] != " ")


@fuzz
@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=8), st.sampled_from(",;\t|"))
def test_what_is_written_field_by_field_is_read_so(write, rows, separator):
    content = pd.DataFrame(rows, columns=["p", "q", "r"]).to_csv(index=False, sep=separator, lineterminator="\n")
    table = open_table(write(content), separator=separator)
    assert list(table.read(words=["p", "q", "r"]).itertuples(index=False, name=None)) == rows


@fuzz
@given(st.text('ab, "\n', max_size=40))
@example('a, "b, b"\n')
@example(' "a,b" ,""" "\n\n5" a,\n')
def test_fields_are_those_of_the_csv_module(write, body):
    try:
        frame = open_table(write(f"p,q\n{body}"), separator=",").read(words=["p", "q"])
    except InputError:
        return
    rows = [row for row in csv.reader(io.StringIO(body, newline=""), skipinitialspace=True) if len(row) > 1]
    assert frame.where(frame.notna(), "").to_numpy().tolist() == rows


# Digests, names.


def test_a_digest_is_of_content_and_not_of_format(write):
    digests = {fingerprint(open_table(write(make(FRAME), name)).read()) for name, make in WRITERS.items()}
    assert digests == {fingerprint(FRAME)}


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame[::-1],
        lambda frame: frame[:-1],
        lambda frame: frame.drop(columns="flag"),
        lambda frame: frame.rename(columns={"count": "counts"}),
        lambda frame: frame.assign(count=frame["count"] + (frame.index == 7)),
        lambda frame: frame.assign(city=frame["city"].where(frame.index != 3)),
    ],
    ids=["order", "row", "column", "name", "number", "gap"],
)
def test_a_digest_changes_with_any_change(change):
    assert fingerprint(change(FRAME)) != fingerprint(FRAME)


def test_near_names_mind_neither_case_nor_a_letter():
    assert near("FRAUD", ["amount", "fraud"]) == ["fraud"]
    assert near("frad", ["amount", "fraud"]) == ["fraud"]
    assert near("zzz", ["amount", "fraud"]) == []


def test_names_in_a_sentence_are_quoted_and_cut():
    assert quoted(["a"]) == "'a'"
    assert quoted(["a", "b"]) == "'a' and 'b'"
    assert quoted("abc", conjunction="or") == "'a', 'b' or 'c'"
    assert quoted("abcdefgh") == "'a', 'b', 'c', 'd', 'e' and 3 more"
