"""Names from data can neither steer a terminal nor, where asked, begin a formula."""

import csv
import io
import json
import sys
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

import labelgrad
from labelgrad.cli.console import Bars, Lines, Tally, Terminal, say
from labelgrad.cli.words import visible
from labelgrad.files import FORMULA, csv_bytes, json_bytes
from labelgrad.fitting.corrections import take_corrections
from labelgrad.fitting.review import review_queue, save_review_queue
from tests.command import labelgrad_here

EVIL = "=cmd|x\x1b[2J\x07\x9b31m\u202e[bold red]"


def obeyed(text):
    """The characters of a text that a terminal would obey, or could not show."""
    return [c for c in text if c != "\n" and (not c.isprintable() or 0xD800 <= ord(c) <= 0xDFFF)]


@given(st.text())
def test_no_text_keeps_what_a_terminal_would_obey(text):
    shown = visible(text)
    assert not [c for c in obeyed(shown) if ord(c) < 0xA0 or ord(c) in range(0x202A, 0x202F)]
    shown.encode()
    assert visible(shown) == shown


def printed(show, **options):
    file = io.StringIO()
    show(Terminal(file=file, width=200, **options))
    return file.getvalue()


def table(console):
    grid = Table(EVIL, title=EVIL)
    grid.add_row(Text(EVIL))
    grid.add_row(EVIL)
    console.print(grid)


def told(kind):
    def show(console):
        with kind(console) as bars:
            bars.update(EVIL, 1, 2, 0.5)
            bars.update(EVIL, 2, 2, 0.5)
            bars.count(1, 20)

    return show


@pytest.mark.parametrize(
    "show",
    [
        lambda console: say(console, EVIL),
        lambda console: console.print(EVIL),
        table,
        told(Tally),
        told(Bars),
        told(lambda console: Lines(console, 0.0)),
    ],
)
def test_whatever_is_printed_steers_nothing(show):
    plain = printed(show)
    assert not obeyed(plain)
    coloured = printed(show, force_terminal=True, color_system="truecolor")
    assert "\x1b[2J" not in coloured
    assert "\x9b" not in coloured


def test_no_text_is_markup():
    assert "[bold red]" in printed(lambda console: console.print(EVIL))
    grid = Table("[red]head", title="[red]title")
    grid.add_row("[red]cell")
    assert printed(lambda console: console.print(grid)).count("[red]") == 3


def test_an_error_steers_nothing():
    said = labelgrad_here("predict", f"no{EVIL}", "new.csv")
    assert said.returncode == 1
    assert not obeyed(said.stderr)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(st.lists(st.one_of(NAMES, st.sampled_from(FORMULA), st.floats().map(str)), min_size=1))
def test_a_safe_file_has_no_cell_that_begins_a_formula_and_loses_nothing_else(cells):
    content = csv_bytes(["a"], [[cell] for cell in cells], spreadsheet_safe=True)
    rows = list(csv.reader(io.StringIO(content.decode(), newline="")))[1:]
    for cell, (found,) in zip(cells, rows, strict=True):
        assert found in (cell, f"'{cell}")
        try:
            float(found)
        except ValueError:
            assert not found.startswith(FORMULA)
    exact = csv_bytes(["a"], [[cell] for cell in cells])
    assert [
        row for (row,) in list(csv.reader(io.StringIO(exact.decode(), newline="")))[1:]
    ] == cells


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    x = np.random.default_rng(0).normal(size=(30, 3))
    classes = np.where(x[:, 0] > 0, "=1+2", "-evil")
    y = np.where(np.arange(30) < 16, classes, "")
    folder = tmp_path_factory.mktemp("runs") / "run"
    return labelgrad.fit(x, y, steps=3, witnesses="", out=folder), x


def test_files_are_exact_unless_asked_for_otherwise(run, tmp_path):
    result, x = run
    predictions = result.predict(x[:3])
    predictions.save(tmp_path / "exact.csv")
    predictions.save(tmp_path / "safe.csv", spreadsheet_safe=True)
    exact, safe = ((tmp_path / name).read_text() for name in ("exact.csv", "safe.csv"))
    assert exact.splitlines()[0] == "row,prediction,probability,-evil,=1+2"
    assert safe.splitlines()[0] == "row,prediction,probability,'-evil,'=1+2"
    assert safe.replace("'", "") == exact
    assert {row.label for row in labelgrad.load(result.folder).labels} <= {"=1+2", "-evil"}


def test_a_safe_review_queue_can_be_handed_back(run, tmp_path):
    result, _ = run
    file = tmp_path / "look.csv"
    queue = review_queue(result, 2, leave_out=set())
    save_review_queue(queue, "row", file, spreadsheet_safe=True)
    rows = list(csv.reader(file.read_text().splitlines()))
    for row, label in zip(rows[1:], ("'=1+2", "'-evil"), strict=True):
        row[1] = label
    file.write_bytes(csv_bytes(rows[0], rows[1:]))
    assert take_corrections(result, file).new == 2
    kept = (result.folder / "corrections.csv").read_text()
    assert "'" not in kept
    assert "=1+2" in kept


def test_half_a_character_can_be_kept_as_json():
    assert json.loads(json_bytes({"data": "b\udcff.csv"})) == {"data": "b\udcff.csv"}


@pytest.mark.skipif(sys.platform == "win32", reason="its Pillow has libtiff inside")
def test_libtiff_keeps_to_itself(tmp_path, capfd):
    from PIL import Image

    from labelgrad.inputs.pixels import load_picture

    file = tmp_path / "a.tif"
    pixels = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, compression="tiff_deflate")
    whole = file.read_bytes()
    for place in range(300, 900, 60):
        file.write_bytes(whole[:place] + bytes(50) + whole[place + 50 :])
        with suppress(OSError):
            load_picture(file, 8)
    assert capfd.readouterr() == ("", "")
