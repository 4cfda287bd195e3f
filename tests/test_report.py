"""The page shows what it was given, and a name from a person's data is never more than a name."""

import base64
import hashlib
import io
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example as tried
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from labelgrad.fitting.report import choose, doubted_example
from labelgrad.fitting.suspects import Suspect
from labelgrad.inputs.base import Encoding
from labelgrad.inputs.kinds import kind_named, read
from labelgrad.report import charts, svg
from labelgrad.report.data import Confident, Curve, Estimate, Example, Gradients, Judged, Trust
from labelgrad.report.page import render, thumbnail, with_promises
from labelgrad.report.svg import plain
from labelgrad.training.evaluation import calibration_error, reliability
from tests.report_samples import (
    LABELS,
    PROBABILITIES,
    WITNESSES,
    pictures,
    regression,
    result,
    table,
)

NASTY = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'onmouseover='alert(1)",
    "</style></title></svg><b>",
    "{{7*7}}{% raw %}${7*7}",
    "javascript:alert(1)",
    "https://example.org/x.png",
    "gnp.\u202etac",
    "<!-- ]]> &lt;&amp;",
    "a\x00b\udcff\ud83d",
    "x" * 3000,
    "",
)


class Page(HTMLParser):
    """The elements of a page with their attributes, and all its text outside style and script."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.pieces, self.code, self.where = [], [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.where.append(tag)

    def handle_endtag(self, tag):
        self.where.append(f"/{tag}")

    def handle_data(self, data):
        if self.where and self.where[-1] in ("style", "script"):
            self.code[self.where[-1]] = data
        else:
            self.pieces.append(data)

    @property
    def text(self):
        return "".join(self.pieces)

    @property
    def words(self):
        return " ".join(" ".join(self.pieces).split())

    @property
    def skeleton(self):
        """Which elements there are, with which attributes; names may only move a turned label."""
        movable = {"transform", "title"}  # a long cell has its text as its title, too
        return [(tag, set(given) - movable) for tag, given in self.elements if tag != "wbr"]


def distinct(name):
    return (f"{name}1", f"{name}2", f"{name}3")


@pytest.mark.parametrize("nasty", NASTY)
def test_a_name_shows_as_text_wherever_it_stands(nasty):
    names = distinct(nasty)
    page = Page(render(pictures(names, note=f"N{nasty}", file=f"F{nasty}", data=f"D{nasty}")))
    for shown in (*names, f"N{nasty}", f"F{nasty}", f"D{nasty}"):
        assert plain(shown) in page.text
    assert page.skeleton == Page(render(pictures())).skeleton
    assert "49" not in page.text


@pytest.mark.parametrize("nasty", NASTY)
def test_columns_and_cells_of_a_table_are_only_text(nasty):
    columns, cell = (f"A{nasty}", f"B{nasty}"), f"C{nasty}"
    page = Page(render(table(distinct(nasty)[:2], columns, cell=cell, target=f"T{nasty}")))
    for shown in (*columns, cell, f"T{nasty}"):
        assert plain(shown) in page.text
    assert page.skeleton == Page(render(table())).skeleton


@given(st.text(max_size=30))
@tried("</svg><script>")
def test_no_text_changes_the_elements_of_the_page(text):
    assert Page(render(table(distinct(text)[:2], cell=text))).skeleton == TABLE_SKELETON


TABLE_SKELETON = Page(render(table())).skeleton


@pytest.mark.parametrize("sample", [pictures, table, regression])
def test_nothing_is_loaded_and_only_our_own_script_may_run(sample):
    text = render(sample())
    page = Page(text)
    assert not re.search(r"https?://|@import|url\(", text)
    for tag, has in page.elements:
        assert not [name for name in has if name.startswith("on") or name == "style"]
        assert has.get("src", "data:image/png").startswith("data:image/png")
        assert has.get("href", "#").startswith("#")
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
    policy = next(g["content"] for _, g in page.elements if "Policy" in g.get("http-equiv", ""))
    assert policy.startswith("default-src 'none'; img-src data:; ")
    for kind in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.code[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy


def test_no_name_reaches_the_script():
    assert "cat" not in Page(render(pictures())).code["script"]
    ids = [
        given["data-label"]
        for _, given in Page(render(pictures())).elements
        if "data-label" in given
    ]
    assert sorted(set(ids)) == ["0", "1", "2"]


@pytest.mark.parametrize("sample", [pictures, table, regression])
def test_every_chart_has_a_name_and_a_description_of_its_own(sample):
    page = Page(render(sample()))
    ids = [given["id"] for _, given in page.elements if "id" in given]
    assert len(ids) == len(set(ids))
    for _, chart in (each for each in page.elements if each[1].get("role") == "img"):
        assert set(chart["aria-labelledby"].split()) <= set(ids)


def test_the_numbers_of_a_classification_are_those_given():
    text = Page(render(pictures())).words
    for shown in ("4.1% 2.1% to 6.6%", "9.3% 7.3% to 11.8%", "points better 5.2 3.1 to 7.4"):
        assert shown in text
    assert "random forest 9.3% 7.3% to 11.8% 0.310 3.1% 0.05" in text
    assert "student kept 4.7% 2.7% to 7.2% 0.151 3.1%" in text
    assert "notes.csv not judged – –" in text
    assert "60 labeled and 1,737 unlabeled examples, lga+vat , 1,000 steps in 1 min 15 s" in text
    assert "The unlabeled data helped." in text
    assert "cat dog 4 19.0% bird dog 2 10.0% dog cat 1 5.3%" in text
    before = calibration_error(torch.tensor(PROBABILITIES), torch.tensor(LABELS))
    assert f"Before · ECE {100 * before:.1f}%" in text
    assert "After temperature 1.83 · ECE" in text
    assert "cat 31 dog 26 bird few 3" in text


def test_a_regression_has_dots_in_place_of_classes():
    page = Page(render(regression()))
    text = page.words
    assert "41 21 to 66" in text
    assert "random forest 93 73 to 118 0.310 0.05" in text
    assert "ECE" not in text
    assert "better by 52 31 to 74" in text
    assert "True minus predicted of 60 held-out examples, from −10 to −10." in text
    assert sum(given.get("class") == "dot method soft" for _, given in page.elements) == 120
    assert "17 151.5 98.2" in text
    assert "Confusion" not in text
    assert "label-filter" not in str(page.elements)


def test_rows_stand_by_what_they_saw_and_the_best_is_first():
    rows = [
        Judged("student", "student", Estimate(0.1, 0.0, 0.2), 0.2),
        Judged("pool", "pool", Estimate(0.2, 0.1, 0.3), 0.2),
        Judged("unheard", "labels", None, None),
        Judged("unsure", "labels", Estimate(0.3, 0.2, 0.4), 0.9),
        Judged("sure", "labels", Estimate(0.3, 0.2, 0.4), 0.7),
        Judged("lga", "unlabeled", Estimate(0.4, 0.3, 0.5), 0.7),
    ]
    names = [[row.name for row in group.rows] for group in charts.grouped(rows)]
    assert names == [["sure", "unsure", "unheard"], ["lga"], ["pool", "student"]]


def test_the_pool_is_compared_and_where_there_is_none_the_best_with_unlabeled_examples():
    full = result()
    assert [name for _, name, _ in charts.headlines(full)] == ["pool", "random forest"]
    witnesses = [row for row in full.rows if row.role in ("labels", "unlabeled")]
    alone = replace(full, rows=witnesses)
    assert [name for _, name, _ in charts.headlines(alone)] == [WITNESSES[4], "random forest"]
    by_labels = replace(full, rows=[row for row in full.rows if row.role == "labels"])
    assert [name for _, name, _ in charts.headlines(by_labels)] == ["random forest"]


def test_every_judged_row_has_its_dot_and_its_interval():
    drawn = Page(charts.result(result(), svg.percent)).elements
    judged = [row for row in result().rows if row.error]
    classes = [given.get("class", "") for _, given in drawn]
    assert sum(each.startswith("dot") for each in classes) == len(judged)
    assert sum(each.startswith("line interval") for each in classes) == len(judged)
    assert sum(each == "dot together" for each in classes) == 2


@pytest.mark.parametrize("nasty", NASTY)
def test_a_witness_can_have_any_name(nasty):
    names = tuple(f"{place}{nasty}" for place in range(6))
    page = Page(render(pictures(result=result(names=names))))
    assert page.skeleton == Page(render(pictures())).skeleton
    assert all(svg.cut(plain(name), 32)[:10] in page.text for name in names)


@given(st.text(max_size=60), st.floats(20, 200))
def test_a_name_is_cut_to_its_room(name, room):
    short = svg.fitted(name, room)
    assert svg.width(short) <= room
    assert short == plain(name) or "…" in short


def test_witnesses_that_nobody_judged_leave_a_chart_without_dots():
    rows = [Judged("forest", "labels", None, None), Judged("pool", "pool", None, None)]
    page = Page(render(pictures(result=replace(result(), rows=rows, beside="", difference=None))))
    assert "forest: not judged; pool: not judged" in page.text


def test_sure_labels_are_counted_with_what_they_are_worth():
    text = Page(render(pictures())).words
    said = "812 of 1,737 imputed labels claim more than 90 %; about 787 of them (97 %) are expected"
    assert text.count(said) == 2
    assert Confident(0.9, 0, 0.0, 7).sentence == "None of 7 imputed labels claims more than 90 %."
    one = Confident(0.999, 1, 0.9995, 7).sentence
    assert one.endswith("claims more than 99.9 %; the chance that it is right is >99 %.")


def test_a_worse_pool_is_called_worse():
    word, numbers = charts.gain(Estimate(-3.0, -5.0, 1.0), "regression")
    assert (word, numbers) == ("worse by", ["3", "−1", "5"])


def test_what_was_not_measured_is_left_out():
    bare = pictures(
        result=None,
        confident=None,
        curves=(),
        calibration=None,
        confusion=None,
        gradients=None,
        example_map=None,
        surest=(),
        least_sure=(),
        contested=(),
        skipped=(),
        notes=(),
        trust=None,
        suspects=(),
    )
    sections = [given["id"] for tag, given in Page(render(bare)).elements if tag == "section"]
    assert sections == ["data"]


def test_many_skipped_files_are_folded_and_counted():
    skipped = [(f"{number}.png", "it is cut off") for number in range(1234)]
    page = Page(render(pictures(skipped=skipped)))
    assert "1,234 skipped" in page.words
    assert "And 1,034 more." in page.words
    assert [has for tag, has in page.elements if tag == "details"] == [{}]
    few = Page(render(pictures(skipped=skipped[:5])))
    assert [has for tag, has in few.elements if tag == "details"] == [{"open": None}]


def test_links_within_the_page_lead_somewhere():
    for sample in (pictures(), table(), regression()):
        elements = Page(render(sample)).elements
        ids = {given.get("id") for _, given in elements}
        assert {given["href"][1:] for tag, given in elements if tag == "a"} <= ids


def test_an_empty_group_and_a_single_class_need_no_filter():
    one = [Example("1", "cat", "cat", picture=np.zeros((3, 9, 5), dtype=np.uint8))]
    page = Page(render(pictures(surest=one, least_sure=(), contested=())))
    groups = [given["data-group"] for tag, given in page.elements if tag == "button"]
    assert groups == ["surest"]
    assert "select" not in [tag for tag, _ in page.elements]


def test_many_classes_are_a_list_of_the_worst_pairs():
    classes = tuple(f"class {number}" for number in range(51))
    matrix = np.eye(51, dtype=int) * 5
    matrix[3, 44] = 2
    page = Page(
        render(pictures(classes=classes, class_counts=(5,) * 51, confusion=matrix.tolist()))
    )
    assert "Confusion matrix" not in page.text
    assert "class 3 class 44 2 28.6%" in page.words


def test_a_heat_map_has_a_cell_for_each_pair():
    matrix = [[3, 1], [0, 4]]
    page = Page(charts.confusion(matrix, ["a", "b"]))
    cells = [given for _, given in page.elements if "cell" in given.get("class", "")]
    assert [float(cell["fill-opacity"]) for cell in cells] == [0.78, 0.34, 0.0, 1.0]
    assert "7 of 8 held-out examples" in page.text


def test_numbers_that_are_none_leave_gaps_and_no_traces():
    broken = [float("nan"), 1.0, float("inf"), 0.5, float("nan")]
    data = pictures(
        curves=[Curve("lga", "error", [1, 2, 3, 4, 5], broken)],
        gradients=Gradients([1, 2, 3, 4, 5], broken, [float("nan")] * 5),
    )
    page = Page(render(data))
    drawn = [value for _, given in page.elements for name, value in given.items() if name != "src"]
    assert not [value for value in drawn if re.search(r"\b(nan|inf)\b", str(value))]
    assert svg.line([(0, 0), (1, math.nan), (2, 2), (3, 3)], "").count("M") == 2


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e6), st.integers(2, 10))
def test_ticks_are_round_few_and_within_the_scale(low, width, most):
    width *= max(1.0, abs(low))
    scale = svg.Scale(low, low + width, 0, 100)
    ticks = scale.ticks(most)
    assert len(ticks) <= most + 1
    assert all(-1e-4 <= scale(tick) <= 100 + 1e-4 for tick in ticks)
    assert {f"{b - a:.1e}"[:3] for a, b in pairwise(ticks)} <= {"1.0", "2.0", "5.0"}


@given(st.lists(st.floats(allow_nan=True), max_size=6), st.booleans())
def test_a_scale_has_room_for_whatever_comes(values, zero):
    scale = svg.span(values, 0, 100, also=[0.0] if zero else [])
    shown = [value for value in values if abs(value) < svg.HUGE]
    assert all(-1e-6 <= scale(value) <= 100 + 1e-6 for value in shown)
    assert scale.ticks() is not None


@pytest.mark.parametrize("shape", [(8, 8), (1, 8, 8), (8, 8, 1), (3, 8, 8), (8, 8, 3)])
def test_a_thumbnail_holds_the_same_pixels(shape):
    pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    for picture in (pixels, torch.tensor(pixels)):
        data = base64.b64decode(thumbnail(picture).removeprefix("data:image/png;base64,"))
        found = np.asarray(Image.open(io.BytesIO(data)))
        expected = pixels.transpose(1, 2, 0) if shape[0] in (1, 3) else pixels
        assert (found == expected.squeeze()).all()


def test_a_large_picture_becomes_small_and_a_wrong_one_is_refused():
    data = base64.b64decode(thumbnail(np.zeros((300, 600, 3), np.uint8)).split(",")[1])
    assert Image.open(io.BytesIO(data)).size == (96, 48)
    for wrong in (np.zeros((8, 8)), np.zeros((2, 8, 8), np.uint8), np.zeros((0, 8), np.uint8)):
        with pytest.raises(ValueError, match="8-bit"):
            thumbnail(wrong)


def test_bins_and_error_are_those_of_the_evaluation():
    found = reliability(torch.tensor(PROBABILITIES), torch.tensor(LABELS))
    expected = calibration_error(torch.tensor(PROBABILITIES), torch.tensor(LABELS))
    assert found.ece == pytest.approx(expected, rel=1e-12)
    assert sum(each.count for each in found.bins) == 60


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match="11 steps, 2 values"):
        Curve("lga", "error", range(11), [0.1, 0.2])
    with pytest.raises(ValueError, match="each of the 3 classes"):
        pictures(confusion=[[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="must be one of labels, unlabeled, pool, student"):
        Judged("forest", "witness", None, None)
    with pytest.raises(ValueError, match="`beside` must be one of random forest"):
        replace(result(), beside="pool")
    with pytest.raises(ValueError, match="must be one of classification, regression"):
        pictures(task="clustering")


def test_the_same_data_give_the_same_page():
    data = pictures()
    assert render(data) == render(data)


def test_the_page_is_valid_utf8_whatever_the_names():
    assert "a�" in render(table(("a\udcff", "b"))).encode().decode()


def test_each_group_takes_the_most_telling_rows_of_every_class():
    random = np.random.default_rng(2)
    labels, model = random.dirichlet(np.ones(4), (2, 200))
    imputed = labels.argmax(1)
    rows = choose(labels, model, most=12)
    for group in rows:
        assert np.bincount(imputed[group]).tolist() == [3, 3, 3, 3]
    for name in range(4):
        best = max(np.flatnonzero(imputed == name), key=lambda row: labels[row].max())
        assert best in rows.surest
    assert all(model[row].argmax() != imputed[row] for row in rows.contested)
    margins = [np.diff(np.sort(labels[row]))[-1] for row in rows.least_sure]
    assert margins == sorted(margins)


def test_nothing_is_contested_where_all_agree_and_rare_classes_leave_room():
    labels = np.array([[0.9, 0.1]] * 9 + [[0.2, 0.8]])
    rows = choose(labels, labels, most=6)
    assert rows.contested == []
    assert len(rows.surest) == 6
    assert 9 in rows.surest
    with pytest.raises(ValueError, match="two or more classes"):
        choose([[1.0]], [[1.0]])


def test_promises_and_suspects_are_on_the_page_with_why():
    page = render(pictures())
    assert "What can be promised" in page
    assert "By 60 random audits with 1 mistake." in page
    assert "912</td>" in page
    assert "≥ 99" in page
    assert "Given labels to look at first" in page
    assert "others say cat</bdi>" in page
    assert page.index('id="suspects"') < page.index('id="promises"') < page.index('id="data"')
    assert "The mean of all values" in render(regression())


def test_promises_are_made_anew_and_the_rest_stays():
    page = render(pictures())
    again = with_promises(page, Trust("Nothing is promised <yet>."), "classification")
    assert "Nothing is promised &lt;yet&gt;." in again
    assert "By 60 random audits" not in again
    begin, end = "<!--promises-->", "<!--/promises-->"
    assert page.partition(begin)[0] == again.partition(begin)[0]
    assert page.partition(end)[2] == again.partition(end)[2]
    assert with_promises("no such part", Trust("New."), "classification") == "no such part"


def test_a_suspect_row_has_its_texts_under_their_columns(tmp_path):
    file = tmp_path / "reviews.csv"
    rows = [f"a room number {row} by the sea,{row % 4},{'ab'[row % 2]}" for row in range(12)]
    file.write_text("\n".join(["review,nights,stars", *rows]))
    encoding = Encoding(encoders=("none",))
    dataset = read(file, target="stars", text="review", encoding=encoding)
    suspect = Suspect(dataset.names[7], "b", "a", 0.1, 0.9, True, "others say a")
    doubted = doubted_example(dataset, suspect)
    columns = kind_named("table").columns(dataset.preprocessing)
    shown = dict(zip(columns, doubted.example.cells, strict=True))
    assert shown == {"review": "a room number 7 by the sea", "nights": "3"}
