import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgrad import FitConfig
from labelgrad.auto.data.dataset import read

ALONE = FitConfig(encoder="none", dates="day-first")


def table(cells):
    y = [("p", "q")[row % 2] for row in range(len(cells))]
    return read(pl.DataFrame({"a": cells, "y": y}), config=ALONE)


def assert_standardized(cells, values):
    """The first feature of a table with these cells is that of the values."""
    values = np.array(values, float)
    expected = (values - values.mean()) / values.std()
    np.testing.assert_allclose(table(cells).X[:, 0], expected, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=3, unique=True),
    st.sampled_from([(".", ""), (",", ""), (".", ","), (",", "."), (".", "'"), (",", " ")]),
)
def test_numbers_are_read_as_they_were_written(hundredths, signs):
    decimal, thousands = signs
    table = str.maketrans({".": decimal, ",": thousands})
    cells = [f"{number / 100:,.2f} €".translate(table) for number in hundredths]
    assert_standardized(cells, hundredths)


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
    assert_standardized(cells, [(moment - start).total_seconds() for moment in moments])


@pytest.mark.parametrize(
    "cell",
    [
        *("1_000", "0x10", "1,,5", "1..5", "--5", "(5", "€5$", "5 kg", "1,2,3.4.5", "½"),
        *("30.02.2000", "32.01.1998", "1998-13-01", "0/0/0", "12:30", "1998-08-07 25:00"),
        *("07.08/1998", "1/1/1998 13:00 pm", "07.08.1998 10:00 +9999", "29.02.1900", "0000-01-01"),
    ],
)
def test_what_is_neither_a_number_nor_a_date_is_a_text(cell):
    assert table([cell, "12", cell]).X.shape == (3, 2)
