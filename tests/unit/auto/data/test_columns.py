import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgrad import FitConfig
from labelgrad.auto.data.dataset import read

Y = ["p", "q"] * 500


def features(columns, **options):
    n = len(next(iter(columns.values())))
    frame = pl.DataFrame({**columns, "y": Y[:n]})
    return read(frame, None, FitConfig(encoder="none", **options))


def standardized(values):
    values = np.asarray(values, float)
    return ((values - values.mean()) / values.std())[:, None]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,5", "2", "3,25"], [1.5, 2, 3.25]),
        (["1.234,56", "7,5", "0"], [1234.56, 7.5, 0]),
        (["1,234.5", "7", "1,000,000"], [1234.5, 7, 1e6]),
        (["€ 12", "(3) €", "−5"], [12, -3, -5]),
        (["12 %", "0", "7%"], [12, 0, 7]),
        (["1'234", "5", "12-"], [1234, 5, -12]),
        (["13.01.2000", "01.02.2000", "03.02.2000"], [0, 19, 21]),
        (["7 Aug 1998", "August 9, 1998", "Fri, 8 Aug 98 12:00"], [0, 2, 1.5]),
        (["1998-08-07T10:00Z", "1998-08-07 12:00+02:00", "1998-08-08"], [0, 0, 14 / 24]),
    ],
)
def test_formats_by_vote(cells, values):
    np.testing.assert_allclose(features({"a": cells}).X, standardized(values), atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=3, unique=True),
    st.sampled_from([(".", ""), (",", ""), (".", ","), (",", "."), (".", "'"), (",", " ")]),
)
def test_numbers_are_read_as_they_were_written(hundredths, signs):
    decimal, thousands = signs
    table = str.maketrans({".": decimal, ",": thousands})
    cells = [f"{number / 100:,.2f} €".translate(table) for number in hundredths]
    found = features({"a": cells}, dates="day-first").X[:, :1]
    np.testing.assert_allclose(found, standardized(hundredths), atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.datetimes(datetime.datetime(1000, 1, 1)), min_size=3, unique=True),
    st.sampled_from(
        ["%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %I:%M:%S %p", "%a, %d %B %Y %H:%M:%S"]
    ),
)
def test_dates_are_read_as_they_were_written(moments, layout):
    start = datetime.datetime(1970, 1, 1)
    moments = [moment.replace(microsecond=0) for moment in moments]
    cells = [moment.strftime(layout) for moment in moments]
    seconds = [(moment - start).total_seconds() for moment in moments]
    found = features({"a": cells}, dates="day-first").X[:, :1]
    np.testing.assert_allclose(found, standardized(seconds), atol=1e-4)


@pytest.mark.parametrize(
    "cell",
    [
        *("1_000", "0x10", "1,,5", "1..5", "--5", "(5", "€5$", "5 kg", "1,2,3.4.5", "½"),
        *("30.02.2000", "32.01.1998", "1998-13-01", "0/0/0", "12:30", "1998-08-07 25:00"),
        *("07.08/1998", "1/1/1998 13:00 pm", "07.08.1998 10:00 +9999", "29.02.1900", "0000-01-01"),
    ],
)
def test_what_is_neither_a_number_nor_a_date_is_a_text(cell):
    assert features({"a": [cell, "12", cell]}, dates="day-first").X.shape == (3, 2)


def test_other_columns_decide_what_a_comma_means():
    unsure = ["1,000", "2,500", "4,000"]
    thousands = features({"a": unsure, "b": ["1.5", "2.25", "3"]})
    decimals = features({"a": unsure, "b": ["1,5", "2,25", "3"]})
    assert any("marks between thousands" in note for note in thousands.notes)
    assert any("decimal signs" in note for note in decimals.notes)


def test_dates_that_cells_do_not_settle():
    cells = ["07.08.1998", "01.02.2000", "03.04.2001"]
    by_day = features({"a": cells}, dates="day-first")
    by_column = features({"a": cells, "b": ["13.01.2000", "14.01.2000", "16.01.2000"]})
    np.testing.assert_array_equal(by_day.X, by_column.X[:, :1])


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (["a1", "b2", "c3", "d4"], "all texts differ"),
        (["same"] * 4, "constant"),
        (["NA", "", "n/a", "-"], "empty"),
        ([[1], [2], [3], [4]], "lists, bytes or other objects"),
    ],
)
def test_columns_that_are_left_out(cells, reason):
    found = features({"a": cells, "b": [1, 2, 4, 9]})
    assert found.X.shape == (4, 1)
    assert f"Left out ({reason}): 'a'." in found.notes


def test_row_numbers_are_left_out_of_files_only(tmp_path):
    frame = pl.DataFrame({"n": range(1, 5), "b": [1, 2, 4, 9], "y": Y[:4]})
    frame.write_csv(tmp_path / "a.csv")
    assert read(tmp_path / "a.csv").X.shape == (4, 1)
    assert read(frame).X.shape == (4, 2)


def test_rare_categories_share_a_column():
    cells = [f"w{i}" for i in range(51)] + ["w0"] * 29 + ["w1"] * 80
    frame = pl.DataFrame({"a": cells, "y": ["p", "q"] * 80})
    found = read(frame)
    assert found.X.shape == (160, 51)
    np.testing.assert_array_equal(found.X.sum(1), 1)


@pytest.mark.parametrize("centred", [False, True])
def test_columns_of_one_range_share_a_scale(centred):
    draw = np.random.default_rng(0)
    x = draw.choice([0.0, 1.0], size=(40, 3), p=[0.5, 0.5])
    x[:, 2] = np.arange(40) == 0  # seldom lit
    x -= x.mean(0) * centred
    found = read(x.astype(np.float32), np.arange(40) % 2)
    assert found.X[:, 2].std() < 0.6


def test_two_columns_of_different_ranges_keep_their_scales():
    x = np.random.default_rng(0).uniform(size=(40, 2)) * [1, 1000]
    np.testing.assert_allclose(read(x, np.arange(40) % 2).X.std(0), 1, rtol=1e-5)


def test_numbers_of_any_magnitude_stay_finite():
    found = features({"a": [1e308, -1e308, 0.0, 5.0], "b": [1e-300, 2e-300, 4e-300, 0.0]})
    assert np.isfinite(found.X).all()
    assert found.X[:, 1].std() > 0.5


def test_plain_numbers_beside_a_decimal_comma_may_have_dots_between_thousands(tmp_path):
    path = tmp_path / "prices.csv"
    rows = [f"{i}.500;{i},5;{'pq'[i % 2]}" for i in range(1, 30)]
    path.write_text("\n".join(["price;weight;y", *rows, ""]))
    found = read(path, config=FitConfig(target="y"))
    price, weight = found.preprocessor.columns
    assert (price.low, price.high, weight.high) == (1500, 29500, 29.5)
    assert any(note.startswith("The dots of 'price'") for note in found.notes)
