"""The report's map: bounded, the same each time, labeled examples ringed, and names only text."""

from dataclasses import replace
from html.parser import HTMLParser
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from labelgrad import fit
from labelgrad.fitting import example_map as module
from labelgrad.fitting.example_map import example_map
from labelgrad.fitting.labels import ImputedLabel
from labelgrad.inputs.base import Dataset, Scale
from labelgrad.report.data import ExampleMap, MapDot
from labelgrad.report.example_map import map_beyond, map_chart, map_keys
from labelgrad.report.page import render
from tests.report_samples import pictures, table

UNCHANGED = Scale(1.0, 0.0)
CLASSES = ("cat", "dog")


class Circles(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.tags = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag == "circle":
            self.found.append(dict(attributes))


def data(count=60, labeled=6, columns=5, task="classification"):
    x = torch.from_numpy(np.random.default_rng(3).normal(size=(count, columns))).float()
    x[:, 0] *= 9
    rows = torch.arange(count)
    if task == "regression":
        y = torch.where(rows < labeled, rows.double(), torch.nan)
    else:
        y = torch.where(rows < labeled, rows % 2, -1)
    names = [f"row {row}" for row in range(count)]
    classes = CLASSES if task == "classification" else ()
    dataset = Dataset("arrays", x, y, task, classes, names)
    of_value = task == "regression"
    labels = [
        ImputedLabel(
            names[row],
            float(row) if of_value else CLASSES[row % 2],
            None if of_value else 0.5 + row / 200,
            "cat",
            0.5,
            True,
            0.1,
            1,
        )
        for row in range(labeled, count)
    ]
    return dataset, labels


def test_dots_are_the_projection_on_the_two_widest_directions():
    dataset, labels = data()
    found = example_map(dataset, UNCHANGED, labels)
    x = dataset.x.double().numpy()
    x = x - x.mean(0)
    _, lengths, directions = np.linalg.svd(x, full_matrices=False)
    assert found.spread == pytest.approx((lengths[:2] ** 2).sum() / (lengths**2).sum(), rel=1e-6)
    by_name = {dot.name: (dot.x, dot.y) for dot in found.dots}
    places = np.array([by_name[name] for name in dataset.names])
    expected = x @ directions[:2].T
    for axis in (0, 1):
        assert abs(np.corrcoef(places[:, axis], expected[:, axis])[0, 1]) == pytest.approx(1)


def test_every_example_is_there_with_its_own_label():
    dataset, labels = data()
    found = example_map(dataset, UNCHANGED, labels)
    imputed = {row.name: (row.label, row.label_probability) for row in labels}
    assert sorted(dot.name for dot in found.dots) == sorted(dataset.names)
    for dot in found.dots:
        row = dataset.names.index(dot.name)
        assert dot.given == (row < 6)
        expected = (CLASSES[row % 2], None) if dot.given else imputed[dot.name]
        assert (dot.label, dot.probability) == expected
    assert found.sentence == "Shown: all 6 labeled and all 54 unlabeled examples."


def test_many_examples_are_a_bounded_number_of_dots():
    dataset, labels = data(count=4000, labeled=700)
    found = example_map(dataset, UNCHANGED, labels)
    assert len(found.dots) == 2500
    assert len({dot.name for dot in found.dots}) == 2500
    assert found.sentence == (
        "Shown: 500 of 700 labeled and 2,000 of 3,300 unlabeled examples, drawn at random."
    )
    page = map_chart(found)
    assert len(Circles(page).found) == 2500
    assert len(page) < 500_000


def test_the_same_seed_gives_the_same_map_and_another_one_another_choice():
    dataset, labels = data(count=300)
    first, again, other = (
        example_map(dataset, UNCHANGED, labels, seed=seed, most_unlabeled=40)
        for seed in (2**40, 2**40, 1)
    )
    assert map_chart(first) == map_chart(again)
    assert {dot.name for dot in first.dots} != {dot.name for dot in other.dots}


def test_labeled_ones_are_ringed_last_and_opaque_and_sure_ones_less_faint():
    dataset, labels = data()
    circles = Circles(map_chart(example_map(dataset, UNCHANGED, labels))).found
    ringed = ["given" in circle["class"].split() for circle in circles]
    assert ringed == [False] * 54 + [True] * 6
    assert {circle["fill-opacity"] for circle in circles[54:]} == {"1"}
    dots = [MapDot(p, 0, "1", name, p) for p in (0.5, 0.7, 1.0) for name in CLASSES]
    shown = Circles(map_chart(ExampleMap(dots, 0.5, 0, 6))).found
    assert [float(circle["fill-opacity"]) for circle in shown[::2]] == [0.15, 0.49, 1.0]


def test_many_classes_have_few_colours_and_the_rest_is_grey():
    dots = [MapDot(n, n % 7, "1", f"class {n % 30}", 0.5) for n in range(95)]
    found = ExampleMap(dots, 0.5, 0, 95)
    keys = map_keys(found)
    assert len(keys) == 9
    assert keys[-1] == ("others", "22 other classes")
    assert {key.meaning for key in keys[:5]} == {f"class {n}" for n in range(5)}
    used = {circle["class"].split()[1] for circle in Circles(map_chart(found)).found}
    assert used == {key.style for key in keys}
    ten = [MapDot(n, n, "1", f"class {n}", 0.5) for n in range(10)]
    assert len({key.style for key in map_keys(ExampleMap(ten, 0.5, 0, 10))}) == 10


def test_values_are_coloured_from_low_to_high():
    dataset, labels = data(task="regression")
    found = example_map(dataset, UNCHANGED, labels)
    steps = [int(c["class"].split()[1][4:]) for c in Circles(map_chart(found)).found]
    values = [dot.value for dot in found.dots]
    assert [step for _, step in sorted(zip(values, steps, strict=True))] == sorted(steps)
    assert set(steps) == set(range(7))
    assert len(map_keys(found)) == 7
    same = ExampleMap([MapDot(n, 0, "1", "4", value=4.0) for n in range(3)], 1.0, 0, 3)
    assert [key.meaning for key in map_keys(same)] == ["4"]
    assert {c["class"] for c in Circles(map_chart(same)).found} == {"at step0"}


@pytest.mark.parametrize("columns", [1, 2])
def test_one_column_is_a_line_and_equal_examples_have_no_map(columns):
    dataset, labels = data(count=12, columns=columns)
    found = example_map(dataset, UNCHANGED, labels)
    assert found.spread == pytest.approx(1)
    assert len(Circles(map_chart(found)).found) == 12
    dataset.x[:] = 2.5
    assert example_map(dataset, UNCHANGED, labels) is None


def test_an_example_far_out_stays_within_the_frame_and_leaves_the_others_room():
    dots = [MapDot(n % 20, n // 20, str(n), "cat", 0.5) for n in range(200)]
    found = ExampleMap([*dots, MapDot(1e6, 0, "far", "cat")], 0.5, 0, 201)
    across = [float(circle["cx"]) for circle in Circles(map_chart(found)).found]
    assert max(across) < 380
    assert max(across[:-1]) - min(across) > 150
    assert map_beyond(found) == 1
    assert map_beyond(ExampleMap(dots, 0.5, 0, 200)) == 0
    assert "set at its edge: 1." in render(pictures(example_map=found))


def clusters(count=150):
    """Features as an encoder's, in five groups of six directions each."""
    dataset, labels = data(count=count, columns=30)
    group = torch.arange(count) % 5
    x = torch.randn(count, 30, generator=torch.Generator().manual_seed(0)) / 3
    x[torch.arange(count), 6 * group] += 4
    return replace(dataset, x=x), labels, group.numpy()


def test_a_map_that_cannot_be_drawn_is_refused_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    for by, said in (("umap", "pip install umap-learn; or take pca"), ("tsne", "one of pca, umap")):
        with pytest.raises(ValueError, match=said):
            fit(np.eye(8), np.arange(8) % 2, map_by=by)


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("umap"), reason="needs pip install umap-learn")
def test_with_umap_neighbours_stay_together_and_the_map_is_the_same_each_time():
    dataset, labels, group = clusters()
    found = example_map(dataset, UNCHANGED, labels, seed=2, by="umap")
    assert found.spread is None
    again = example_map(dataset, UNCHANGED, labels, seed=2, by="umap")
    assert again.dots == found.dots
    places = np.array([(dot.x, dot.y) for dot in found.dots])
    mine = group[[int(dot.name.removeprefix("row ")) for dot in found.dots]]
    apart = np.linalg.norm(places[:, None] - places, axis=-1) + 1e9 * np.eye(len(places))
    assert (mine[apart.argmin(1)] == mine).mean() > 0.95
    words = " ".join(render(pictures(example_map=found)).split())
    assert "Laid out by UMAP so that neighbours stay together" in words
    assert "The two directions carry" not in words
    assert "(UMAP)" in map_chart(found)
    few = replace(dataset, x=dataset.x[:40], y=dataset.y[:40], names=dataset.names[:40])
    assert example_map(few, UNCHANGED, labels[:34], by="umap").spread is not None


@pytest.mark.parametrize("nasty", ["</title></svg><script>alert(1)</script>", '"><img src=x>'])
def test_names_and_labels_on_the_map_are_only_text(nasty):
    dots = [MapDot(0, 0, nasty, nasty, 0.5), MapDot(1, 1, nasty, "dog", given=True)]
    found = ExampleMap(dots, 0.5, 1, 1)
    assert Circles(map_chart(found)).tags == {"svg", "title", "desc", "rect", "circle"}
    page = render(pictures(example_map=found))
    assert nasty not in page
    assert page.count("<script>") == 1


def test_the_page_says_what_the_map_carries_and_what_it_is_not():
    words = " ".join(render(pictures()).split())
    assert "The two directions carry 30.0% of the spread of the features" in words
    assert "distance here is not certainty" in words
    assert "Shown: 3 of 60 labeled and 3 of 1,737 unlabeled examples, drawn at random." in words


def test_a_long_text_is_whole_where_one_points_at_it():
    text = "<b>a long & winding text</b> " * 9
    page = render(table(cell=text))
    assert page.count('title="&lt;b&gt;a long &amp; winding text&lt;/b&gt; ') == 5
    assert "<b>a long" not in page
