import numpy as np
import pandas
import polars as pl
import pytest

from labelgrad import FitConfig
from labelgrad.auto.data.dataset import read

X = np.arange(60.0).reshape(60, 1) ** 2


def labeled(y, **options):
    y = list(y)
    frame = pl.DataFrame({"a": X[: len(y), 0], "y": y}, strict=False)
    return read(frame, None, FitConfig(target="y", **options))


@pytest.mark.parametrize(
    ("y", "task", "classes"),
    [
        (["b", "a", None, ""], "classification", ("a", "b")),
        (["0", "1", "2", "10", "10", ""], "regression", ()),
        (["0", "1", "2", "3", ""], "classification", ("0", "1", "2", "3")),
        (["3", "12", "3", "12", "NA"], "classification", ("3", "12")),
        ([3.0, 12.0, 3.0, 12.0, None], "classification", ("3", "12")),
        (["0.5", "1.25", "n/a"], "regression", ()),
        (["1,5", "2,25", "9,75", ""], "regression", ()),
        (["10 %", "20 %", "10 %", ""], "classification", ("10 %", "20 %")),
        ([True, False, None], "classification", ("False", "True")),
    ],
)
def test_labels_decide_the_task(y, task, classes):
    found = labeled(y)
    assert (found.task.name, tuple(found.task.classes)) == (task, classes)


def test_values_are_standardized_by_the_labeled():
    found = labeled([1.5, None, 4.25, 9.0])
    known = np.array([1.5, 4.25, 9.0])
    assert found.task.mean == pytest.approx(known.mean())
    assert found.task.scale == pytest.approx(known.std())
    assert found.task.display(found.y) == [1.5, None, 4.25, 9.0]


@pytest.mark.parametrize(
    ("y", "options", "sentence"),
    [
        ([f"id{i}" for i in range(60)], {}, "60 different texts in 60 labels .* not a class"),
        (["a", "a", ""], {}, "only one class, 'a'"),
        (["", "", ""], {}, "no label at all"),
        (["1", "two"], {"task": "regression"}, "must hold numbers for regression, got 'two'"),
        (["2", "2"], {"task": "regression"}, "same value 2"),
        (["1", "inf", "2"], {"task": "regression"}, "finite"),
        ([1e300, -1e300, 0.5], {}, "another unit"),
    ],
)
def test_targets_that_are_refused(y, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        labeled(y, **options)


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 1, -1]),
        [0, 1, -1],
        np.array([0.0, 1.0, -1.0]),
        np.array([0.0, 1.0, np.nan]),
        np.array([0, 1, None], dtype=object),
        pandas.Series([0, 1, None], dtype="Int64"),
        pandas.Categorical(["0", "1", None]),
        pl.Series(["0", "1", None]),
        np.array([[0], [1], [-1]]),
    ],
)
def test_unlabeled_in_arrays(y):
    assert read(X[:3], y).y.tolist() == [0, 1, -1]


def test_labels_of_an_unsigned_type_are_all_labels():
    assert read(X[:3], np.array([0, 1, 1], np.uint8)).y.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (np.array(["cat", "dog", -1]), "text with '-1'"),
        ([0, 1, "1"], "one type, got numbers and text"),
        (np.array([0, 1, 255], dtype=np.uint8), "255 in uint8"),
        (np.array(["cat", 1, None], dtype=object), "one type, got numbers and text"),
        (np.array([True, "yes", None], dtype=object), "one type, got booleans and text"),
        ([0, 1], "one label for each of the 3 rows"),
        (np.array([[1], [2], {}], dtype=object), "must hold numbers or text, got"),
        (np.array([1j, 2, 3]), "must hold numbers or text"),
    ],
)
def test_labels_of_arrays_that_are_refused(y, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        read(X[:3], y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "others"),
    [
        ("Unknown", ["cat", "dog"]),
        ("?", ["cat", "dog"]),
        ("none", ["cat", "dog"]),
        ("-1", ["0", "1"]),
        ("-1", ["0.5", "2.25"]),
        (-1, [0, 1]),
        (-1.0, [0.5, 2.25]),
        ("unknown", ["0.5", "2.25"]),
    ],
)
def test_a_value_that_may_mean_no_label_is_asked_about(value, others):
    y = [*others, *others, *[value] * 5, None]
    with pytest.raises(ValueError, match=r"in 5 of 9 labels; if it means that there is no label"):
        labeled(y)
    found = labeled(y, unlabeled_value=value if isinstance(value, str) else -1)
    assert found.is_labeled.tolist() == [True] * 4 + [False] * 6
    plain = labeled([*others, *others, *[None] * 6])
    assert found.task == plain.task
    np.testing.assert_array_equal(found.y, plain.y)
    kept = labeled(y, unlabeled_value="", task="classification")
    assert len(kept.task.classes) == 3
    assert kept.is_labeled.sum() == 9


@pytest.mark.parametrize(
    "y",
    [
        ["unknown"] * 4 + ["cat"] * 3 + ["dog"] * 3,  # not most
        ["-1"] * 8 + ["1"] * 2,  # two classes
        ["usual"] * 8 + ["cat", "dog"],  # a class
    ],
)
def test_classes_are_not_asked_about(y):
    assert labeled(y).is_labeled.all()


def test_a_value_that_is_never_there_is_refused():
    with pytest.raises(ValueError, match="'y' never holds 'unkown'; leave `unlabeled_value` out"):
        labeled(["a", "b", "unknown"], unlabeled_value="unkown")


def test_folders_and_arrays_are_asked_about_alike(tmp_path):
    for name in ["cat", "dog", *["unknown"] * 5]:
        place = tmp_path / name
        place.mkdir(exist_ok=True)
        (place / f"{len(list(place.iterdir()))}.txt").write_text(f"a text on {name} and more")
    with pytest.raises(ValueError, match=r"'unknown' in 5 of 7 labels.*--unlabeled-value=unknown"):
        read(tmp_path, None, FitConfig(encoder="none"))
    found = read(tmp_path, None, FitConfig(encoder="none", unlabeled_value="unknown"))
    assert found.task.classes == ("cat", "dog")
    assert found.is_labeled.sum() == 2
    y = ["cat", "dog", *["unknown"] * 5]
    with pytest.raises(ValueError, match="`y` holds 'unknown' in 5 of 7 labels"):
        read(X[:7], y)
    assert read(X[:7], y, FitConfig(unlabeled_value="unknown")).is_labeled.sum() == 2
