"""Tables as the world writes them: one format for a column, settled by its cells or its file."""

import json
import math
from datetime import UTC, datetime

import numpy as np
import pandas
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labelgrad.inputs.columns import Category, fit_column, from_json
from labelgrad.inputs.date_formats import DateFormat, date_formats
from labelgrad.inputs.formats import typed_table
from labelgrad.inputs.kinds import prepare, read
from labelgrad.inputs.number_formats import PAIRS, NumberFormat, number_formats

GROUPED = {"": "{:.2f}", ",": "{:,.2f}", "'": "{:,.2f}", " ": "{:,.2f}", ".": "{:,.2f}"}


def written(value, form):
    """The number in a format, worked out by Python's own formatting and three replacements."""
    text = GROUPED[form.thousands].format(abs(value))
    text = text.replace(",", "T").replace(".", form.decimal).replace("T", form.thousands)
    text = f"{form.unit} {text}".strip()
    return f"-{text}" if value < 0 else text


FORMS = st.builds(
    lambda marks, unit: NumberFormat(*marks, unit),
    st.sampled_from(PAIRS),
    st.sampled_from(["", "€", "%", "USD"]),
)


@given(FORMS, st.lists(st.integers(-(10**11), 10**11), min_size=1))
@example(NumberFormat(",", ".", "€"), [123456, -7])
def test_numbers_come_back_whatever_their_format(form, hundredths):
    numbers = [number / 100 for number in hundredths]
    cells = [written(number, form) for number in numbers]
    assert [form.parse(cell) for cell in cells] == numbers
    (found,) = number_formats(cells)  # two decimals tell the signs apart
    assert [found.parse(cell) for cell in cells] == numbers


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1,5", "2", "-3,25"], [1.5, 2, -3.25]),
        (["1,000,000", "2,500"], [1e6, 2500]),
        (["1.234,56", "7"], [1234.56, 7]),
        (["1'234.5", "1’000"], [1234.5, 1000]),
        (["1 234", "12\u00a0345\u202f678,5"], [1234, 12345678.5]),
        (["12,34,567", "1,000"], [1234567, 1000]),
        (["€ 12", "€13.5", "0"], [12, 13.5, 0]),
        (["12 EUR", "1.5 EUR"], [12, 1.5]),
        (["12 %", "3.5%", "0"], [12, 3.5, 0]),
        (["(12)", "5"], [-12, 5]),
        (["($1,250.50)", "$2"], [-1250.5, 2]),
        (["\u22125", "+3,5"], [-5, 3.5]),
        (["-$5", "$-6", "7-"], [-5, -6, -7]),
        (["1,5e3", "2"], [1500, 2]),
        (["1,5", "n.a.", "-", "NULL", "None", "#DIV/0!", ""], [1.5, *[math.nan] * 6]),
    ],
)
def test_numbers_of_the_world(cells, expected):
    column = typed_table({"a": cells}).columns["a"]
    assert column.holds == "numbers"
    np.testing.assert_array_equal(column.values, expected)


@pytest.mark.parametrize(
    "cells",
    [
        ["€ 12", "$ 12"],  # two currencies
        ["12 %", "0.12"],  # may be the same
        ["1,5", "1.5"],  # two decimal signs
        ["1,23,45", "1"],  # no way to group
        ["(12", "5"],
        ["--5", "6"],
        ["1_000", "2"],
        ["A1", "A2"],
        ["192.168.0.1", "10.0.0.1"],
    ],
)
def test_what_is_no_column_of_numbers_stays_text(cells):
    assert typed_table({"a": cells}).columns["a"].holds == "texts"


def only_note(table):
    (note,) = table.notes
    return note


def test_a_number_that_may_be_two_is_settled_by_the_file_and_said():
    doubtful = {"a": ["1,000", "2,500"]}
    alone = typed_table(doubtful)
    assert alone.columns["a"].values.tolist() == [1000, 2500]
    assert "nothing in the file says otherwise" in only_note(alone)
    comma = typed_table(doubtful | {"b": ["1,5", "2"]})
    assert comma.columns["a"].values.tolist() == [1, 2.5]
    assert "read as decimals, as 'b' has a decimal comma" in only_note(comma)
    point = typed_table(doubtful | {"b": ["1.5", "2"]}, separator=";")
    assert point.columns["a"].values.tolist() == [1000, 2500]
    assert "read as thousands, as 'b' has a decimal point" in only_note(point)
    semicolons = typed_table(doubtful, separator=";")
    assert semicolons.columns["a"].values.tolist() == [1, 2.5]
    assert "usual in a file with semicolons" in only_note(semicolons)


def test_a_dot_is_of_thousands_only_among_decimal_commas():
    dots = {"people": ["1.234", "12.500"]}
    assert typed_table(dots).columns["people"].values.tolist() == [1.234, 12.5]
    beside = typed_table(dots | {"price": ["1,5", "2,25"]})
    assert beside.columns["people"].values.tolist() == [1234, 12500]
    assert "The dots of 'people' are read as thousands" in only_note(beside)
    small = typed_table({"share": ["0.123", "0.500"], "price": ["1,5", "2,25"]})
    assert small.columns["share"].values.tolist() == [0.123, 0.5]


def days(*moment):
    return (
        datetime(*moment, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    ).total_seconds() / 86400


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["Aug 07 1998", "August 9, 2001"], [days(1998, 8, 7), days(2001, 8, 9)]),
        (["7 Aug 1998", "9-Sep-2001", ""], [days(1998, 8, 7), days(2001, 9, 9), math.nan]),
        (["Fri, 07 Aug 1998 10:30:00 GMT"], [days(1998, 8, 7, 10, 30)]),
        (["07.08.1998", "13.08.1998"], [days(1998, 8, 7), days(1998, 8, 13)]),
        (["07/08/1998", "08/13/1998"], [days(1998, 7, 8), days(1998, 8, 13)]),
        (["1998/08/07", "1999/12/31 23:00"], [days(1998, 8, 7), days(1999, 12, 31, 23)]),
        (["13/1/98 1:30 pm", "1/1/02 12:00 AM"], [days(1998, 1, 13, 13, 30), days(2002, 1, 1)]),
        (["07.07.1998", "08.08.1998"], [days(1998, 7, 7), days(1998, 8, 8)]),
        (
            ["1998-08-07T10:00+02:00", "1998-08-07T10:00Z"],
            [days(1998, 8, 7, 8), days(1998, 8, 7, 10)],
        ),
        (["31/12/1999 10:00 +0200"], [days(1999, 12, 31, 8)]),
    ],
)
def test_dates_of_the_world(cells, expected):
    column = typed_table({"a": cells}).columns["a"]
    assert column.holds == "dates"
    np.testing.assert_allclose(column.values, expected, rtol=0, atol=1e-9)


@given(st.lists(st.datetimes(datetime(1969, 1, 1), datetime(2068, 12, 31)), min_size=1))
def test_dates_come_back_and_an_order_is_found_only_where_there_is_one(moments):
    expected = [days(m.year, m.month, m.day) for m in moments]
    for order, text in (("day-first", "%d.%m.%Y"), ("month-first", "%m/%d/%y")):
        cells = [moment.strftime(text) for moment in moments]
        assert [DateFormat(order).parse(cell) for cell in cells] == expected
        told = any(m.day > 12 for m in moments) or all(m.day == m.month for m in moments)
        assert (len(date_formats(cells)) == 1) == told


@pytest.mark.parametrize(
    "cells", [["32.01.2000"], ["2000-13-01"], ["7 Foo 1998"], ["1/2/345"], ["12:30"]]
)
def test_what_is_no_date_stays_text(cells):
    assert typed_table({"a": cells}).columns["a"].holds == "texts"


AMBIGUOUS = "when,a,y\n07.08.1998,1,u\n01.12.1999,2,v\n03.04.2000,4,\n"


def test_an_ambiguous_date_is_asked_about(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text(AMBIGUOUS)
    with pytest.raises(ValueError, match=r"'when', such as '07.08.1998'.*--dates day-first or"):
        read(file, target="y")
    first = read(file, target="y", dates="day-first")
    second = read(file, target="y", dates="month-first")
    assert not first.x.equal(second.x)
    assert "Dates with the day first: 'when'." in first.notes
    assert prepare(json.loads(json.dumps(first.preprocessing)), file).x.equal(first.x)
    assert prepare(json.loads(json.dumps(second.preprocessing)), file).x.equal(second.x)
    with pytest.raises(ValueError, match="`dates` must be day-first or month-first, got 'dmy'"):
        read(file, target="y", dates="dmy")
    with pytest.raises(ValueError, match="`dates` is for table"):
        read([[1.0], [2.0]], [0, 1], dates="day-first")


def test_another_date_of_the_file_settles_it(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text(
        "when,seen,y\n07/08/1998,13/01/2000,u\n01/02/1999,01/02/2001,v\n03/04/2000,05/06/2002,\n"
    )
    notes = read(file, target="y").notes
    assert "Day or month first in 'when'? day-first, as in the other dates." in notes


def test_seconds_since_1970_are_dates_where_the_name_says_so():
    seconds = ["1700000000", "1700086400", ""]
    found = typed_table({"created_at": seconds, "phone": seconds}).columns
    assert (found["created_at"].holds, found["phone"].holds) == ("dates", "numbers")
    assert np.diff(found["created_at"].values)[0] == pytest.approx(1)
    milli = typed_table({"timestamp": ["1700000000000", "1700086400000"]}).columns["timestamp"]
    assert np.diff(milli.values)[0] == pytest.approx(1)


def test_yes_is_yes_in_whatever_words(tmp_path):
    column = fit_column("paid", ["yes", "No", "TRUE", "yes", ""])
    assert column == Category("paid", ("No", "yes"), False, True, truth=True)
    expected = column.encode(["yes", "no", "?"])
    for cells in (["True", "FALSE", ""], ["y", "N", "NA"], ["1", "0", "null"]):
        np.testing.assert_array_equal(column.encode(cells), expected)
    assert fit_column("sex", ["m", "f", "f"]).truth is False
    frame = pandas.DataFrame({"a": [True, False, True, False], "b": [1, 5, 3, 2]})
    found = read(frame, ["u", "v", "u", None])
    file = tmp_path / "new.csv"
    file.write_text("a,b\nTRUE,1\nno,5\nyes,3\nOFF,2\n")
    assert prepare(found.preprocessing, file).x.equal(found.x)


EUROPEAN = (
    "preis;wann;anteil;ziel\n1.234,50;07.08.1998;12 %;1,5\n2,25;13.08.1998;0 %;2,5\n"
    "7;01.01.2000;3,5 %;\n"
)
PLAIN = (
    "preis,wann,anteil,ziel\n1234.5,1998-08-07,12,1.5\n2.25,1998-08-13,0,2.5\n7,2000-01-01,3.5,\n"
)


def test_a_european_file_is_read_like_a_plain_one(tmp_path):
    european, plain = tmp_path / "e.csv", tmp_path / "p.csv"
    european.write_text(EUROPEAN)
    plain.write_text(PLAIN)
    found, expected = (read(file, target="ziel") for file in (european, plain))
    assert found.x.equal(expected.x)
    assert (found.task, found.y.tolist()[:2]) == ("regression", [1.5, 2.5])
    for note in (
        "The column 'ziel' holds numbers with a decimal comma.",
        "Numbers with a decimal comma and dots between thousands: 'preis'.",
        "Numbers with a decimal comma and %: 'anteil'.",
        "Dates with the day first: 'wann'.",
    ):
        assert note in found.notes
    kept = json.loads(json.dumps(found.preprocessing))
    assert prepare(kept, european).x.equal(found.x)
    with pytest.raises(ValueError, match="'preis' must hold numbers with a decimal comma and dots"):
        prepare(kept, plain)


def test_classes_keep_their_names(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("a,y\n1,10 %\n2,20 %\n5,10 %\n8,20 %\n")
    assert read(file, target="y").classes == ("10 %", "20 %")
    file.write_text('a,y\n1,"1,5"\n2,"2,5"\n5,"1,5"\n8,"2,5"\n')
    assert read(file, target="y", task="classification").classes == ("1,5", "2,5")
    assert read(file, target="y").y.tolist() == [1.5, 2.5, 1.5, 2.5]


@pytest.mark.parametrize(
    "form",
    [
        {"decimal": "x", "thousands": "", "unit": ""},
        {"decimal": ",", "thousands": ",", "unit": ""},
        {"decimal": ",", "thousands": "", "unit": "(a+)+"},
        {"order": "backwards", "short_years": False},
    ],
)
def test_a_format_that_a_file_made_up_is_refused(form):
    kind = DateFormat if "order" in form else NumberFormat
    with pytest.raises(ValueError, match="there is no format of"):
        kind(**form)


def test_a_run_folder_without_formats_is_read_as_before():
    old = {
        "kind": "number",
        "name": "a",
        "median": 1.0,
        "missing": False,
        "date": False,
        "decimals": 0,
    }
    assert from_json(old).encode(["2", "3"]).tolist() == [[2], [3]]
    dashes = {
        "kind": "category",
        "name": "b",
        "texts": ["-", "x"],
        "other": False,
        "missing": False,
    }
    assert from_json(dashes).encode(["-", "x"]).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_a_file_that_says_its_encoding_is_read(tmp_path, encoding):
    file, plain = tmp_path / "t.csv", tmp_path / "p.csv"
    text = "größe,y\n1,ü\n2,v\n5,\n"
    plain.write_text(text, encoding="utf-8")
    mark = "\ufeff" if encoding.endswith("e") else ""
    file.write_bytes((mark + text).encode(encoding))
    assert read(file, target="y").classes == read(plain, target="y").classes == ("v", "ü")
    if encoding != "utf-8-sig":
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(ValueError, match=r"must be UTF-.. text, as it says, and byte"):
            read(file, target="y")


def test_lines_may_end_in_a_carriage_return(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(b"a,y\r1,u\r2,v\r5,\r")
    assert read(file, target="y").classes == ("u", "v")
    file.write_bytes(b"a,y\n1,u\n2\r,v\n5,\n")
    with pytest.raises(ValueError, match="begins on line 3: it has a carriage return in it"):
        read(file, target="y")


def test_half_a_character_is_spelled_out():
    texts = pandas.Series(["x\udc80", "z", "x\udc80"], dtype=object)
    frame = pandas.DataFrame({"a": texts})
    found = read(frame, np.array(["u\ud800", "v", None], dtype=object))
    assert found.classes == ("u\\ud800", "v")
    assert found.preprocessing["columns"][0]["texts"] == ["x\\udc80", "z"]
    json.dumps(found.preprocessing, ensure_ascii=False).encode()
    assert read([[1.0], [2.0], [3.0]], np.array(["a\ud800", "b", ""])).classes == ("a\\ud800", "b")


def test_thousands_of_columns_are_compared_by_no_more_than_thousands():
    """Work that grows with the square of the columns would compare names millions of times."""
    compared = 0

    class Counted(str):
        __slots__ = ()

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    kinds = (
        ["1,000", "2,000"],
        ["1,5", "2"],
        ["x", "z"],
        ["1.234", "2"],
        ["07.08.1998", "13.08.1998"],
    )
    cells = {Counted(f"column {i}"): kinds[i % len(kinds)] for i in range(1000)}
    typed_table(cells)
    assert compared < 20 * len(cells)
