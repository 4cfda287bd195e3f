"""Files of opinions: read as people write them, refused in a sentence, believed as they earn."""

import csv
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits

import labelgrad
from labelgrad.witnesses import models
from labelgrad.witnesses.base import checked
from labelgrad.witnesses.hearing import Case, hear_all
from labelgrad.witnesses.opinions import NO_OPINION, Said, read_opinions
from labelgrad.witnesses.pool import combine, fit_pool
from labelgrad.witnesses.shares import label_shares

NAMES = ["0", "1", "2", "3"]
CLASSES = ("cat", "dog")


def read_text(tmp_path, text, *, classes=CLASSES, names=NAMES, mean=0.0, spread=1.0):
    path = tmp_path / "said.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_opinions(path, names, classes, mean=mean, spread=spread)


def probabilities(said, labels, classes=2):
    (opinion,) = said.hear(np.zeros((len(labels), 1)), [np.array(labels)], classes, 0)
    return np.exp(opinion.of_rows(np.arange(len(labels))))


# What is read


def test_a_column_of_labels_is_a_witness_and_an_empty_cell_is_silence(tmp_path):
    rule, crowd = read_text(tmp_path, "row,rule,crowd\n0,cat,dog\n2,,cat\n3, dog ,\n")
    assert (rule.name, crowd.name) == ("rule", "crowd")
    assert np.array_equal(rule.said, [0, np.nan, np.nan, 1], equal_nan=True)
    assert np.array_equal(crowd.said, [1, np.nan, 0, np.nan], equal_nan=True)


def test_columns_of_a_name_and_a_class_are_the_probabilities_of_one_witness(tmp_path):
    text = "row,rule,llm:dog,llm:cat\n0,cat,0.25,0.75\n1,dog,3e-1,0.3\n2,,,0.5\n3,,0,0\n"
    rule, llm = read_text(tmp_path, text)
    assert (rule.name, llm.name) == ("rule", "llm")
    silent = [np.nan, np.nan]
    expected = [[0.75, 0.25], [0.5, 0.5], silent, silent]
    assert llm.said == pytest.approx(np.array(expected), nan_ok=True)


def test_a_space_after_the_colon_does_not_matter(tmp_path):
    (llm,) = read_text(tmp_path, "row,llm: dog,llm : cat\n0,0.25,0.75\n")
    assert llm.name == "llm"
    assert llm.said[0] == pytest.approx([0.75, 0.25])
    with pytest.raises(ValueError, match="two columns with the probabilities of 'llm' for 'dog'"):
        read_text(tmp_path, "row,llm: dog,llm:dog,llm:cat\n0,0.25,0.25,0.75\n")


def test_columns_called_by_the_classes_are_of_a_witness_called_by_the_file(tmp_path):
    (said,) = read_text(tmp_path, "row,cat,dog\n1,0.9,0.1\n")
    assert said.name == "said"
    assert said.said[1] == pytest.approx([0.9, 0.1])


def test_a_class_may_have_a_colon_in_its_name(tmp_path):
    (said,) = read_text(tmp_path, "row,m:a:b,m:b\n0,0.2,0.8\n", classes=("a:b", "b"))
    assert said.name == "m"
    assert said.said[0] == pytest.approx([0.2, 0.8])


def test_values_are_told_in_units_of_their_spread(tmp_path):
    text = "row,guess\n0,14\n1,\n2,nan\n3,-6\n"
    (said,) = read_text(tmp_path, text, classes=(), mean=10, spread=4)
    assert said.said == pytest.approx([1.0, np.nan, np.nan, -4.0], nan_ok=True)


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfrow,rule\n0,cat\n",
        b"row,rule\r\n0,cat\r\n",
        b"row,rule\n0,cat\n\n\n",
        b'"row"," rule"\n"0","cat"',
    ],
    ids=["with BOM", "of Windows", "blank lines", "quoted"],
)
def test_files_of_every_kind_are_read(tmp_path, text):
    (said,) = read_text(tmp_path, text)
    assert said.name == "rule"
    assert said.said[0] == 0


def test_a_hundred_thousand_lines_are_read_at_once(tmp_path):
    names = [str(row) for row in range(100_000)]
    lines = [f"{name},{CLASSES[row % 2]},0.5,0.5" for row, name in enumerate(names)]
    text = "\n".join(["row,rule,llm:cat,llm:dog", *lines])
    began = time.process_time()
    read_text(tmp_path, text, names=names)
    assert time.process_time() - began < 5  # seconds; about one, where nothing else is going on
    began = time.process_time()
    with pytest.raises(ValueError, match="name examples twice: '0', '1', '2' and 49997 more"):
        read_text(
            tmp_path,
            "\n".join(["row,rule", *(f"{row // 2},cat" for row in range(100_000))]),
            names=names,
        )
    assert time.process_time() - began < 5


# What is refused


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "need a first line with names .*, got nothing"),
        ("row\n0\n", "need a first line with names .*, got 'row'"),
        ("row,a,a\n0,cat,dog\n", "need a first line with names of their own .*'row', 'a', 'a'"),
        ("row,\n0,cat\n", "need a first line with names of their own .*'row', ''"),
        (
            "row,a\n0\n1,cat,dog\n2,cat\n3\n7\n",
            "need 2 cells in each line; of another number are those of line 2, 3, 5 and 1 more",
        ),
        (
            "row,a\n0,cat\n7,cat\n8,cat\n9,dog\nx,dog\n",
            "not in the data: '7', '8', '9' and 1 more; the first column must be their row or file",
        ),
        ("row,a\n0,cat\n1,dog\n0,dog\n", "name examples twice: '0'; keep one line of each"),
        (
            "row,a\n0,cow\n1,hen\n2,cow\n3,cat\n",
            "classes that no label has: 'cow', 'hen'; there are 'cat', 'dog'",
        ),
        ("row,m:cat,m:dog\n0,1.5,-0.5\n", "must be from 0 to 1, got 1.5, -0.5"),
        ("row,m:cat,m:dog\n0,lots,few\n", "must be finite numbers .*, got 'lots'; leave a cell"),
        ("row,m:cat,m:dog\n0,inf,0\n", "must be finite numbers .*, got 'inf'"),
        ("row,m:cat\n0,0.5\n", "need a column for every class; there is none for 'dog'"),
        ("row,m,m:cat,m:dog\n0,cat,1,0\n", "of the same witness 'm'; rename one"),
        ("row,said,cat,dog\n0,cat,1,0\n", "of the same witness 'said'; rename one"),
        (b"row,rule\n0,\xff\xfe\n", "cannot be read .*; give a CSV file in UTF-8"),
        ("row,rule\n0,cat\n".encode("utf-16"), "cannot be read .*; give a CSV file in UTF-8"),
        pytest.param(
            "row,rule\n0," + "x" * 200_000, "classes that no label has: 'x{199}…;", id="long"
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(tmp_path, text, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        read_text(tmp_path, text)
    said = str(refused.value)
    assert "said.csv" in said
    assert said.endswith(".")
    assert "\n" not in said
    assert refused.type is ValueError


CELLS = [
    "row",
    "a",
    "m:cat",
    "m:dog",
    "cat",
    "dog",
    "0",
    "1",
    "0.5",
    "-1",
    "nan",
    "inf",
    "",
    '"',
    ":",
]


@given(
    lines=st.lists(st.lists(st.sampled_from(CELLS), max_size=4), max_size=4),
    tail=st.binary(max_size=8),
    values=st.booleans(),
)
def test_whatever_is_in_a_file_it_is_read_or_refused_in_a_sentence(
    tmp_path_factory, lines, tail, values
):
    text = "\n".join(",".join(line) for line in lines).encode() + tail
    place = tmp_path_factory.getbasetemp()
    found, refused = [], None
    try:
        found = read_text(place, text, classes=() if values else CLASSES)
    except ValueError as error:
        refused = error
    assert refused is None or (type(refused) is ValueError and str(refused).endswith("."))
    for said in found:
        assert said.name
        assert len(said.said) == len(NAMES)
        assert not np.isinf(said.said).any()
        (opinion,) = said.hear(
            np.zeros((4, 1)),
            [np.array([0.1, np.nan, -1, 1]) if values else np.array([0, 1, -1, -1])],
            0 if values else 2,
            0,
        )
        checked(opinion.of_rows(np.arange(4)), 4, 0 if values else 2)


def test_values_that_are_no_numbers_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"must be finite numbers .*, got 'much', '1,5', 'inf' and"
    ):
        read_text(tmp_path, 'row,a\n0,much\n1,"1,5"\n2,inf\n3,little\n', classes=())


def test_a_directory_and_a_missing_file_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere.csv"):
        with pytest.raises(ValueError, match=r"cannot be read .*; give a CSV file") as refused:
            read_opinions(path, NAMES, CLASSES, mean=0, spread=1)
        assert refused.type is ValueError


def test_two_witnesses_of_one_name_are_refused(tmp_path):
    path = tmp_path / "said.csv"
    path.write_text("row,linear\n0,0\n")
    x = np.random.default_rng(0).normal(size=(20, 2))
    y = np.where(np.arange(20) < 10, np.arange(20) % 2, -1)
    with pytest.raises(ValueError, match="a name of its own, got 'linear' twice; rename"):
        labelgrad.fit(x, y, steps=1, witnesses="linear", opinions=path)


# How far it is believed


def test_a_named_class_is_trusted_as_often_as_it_is_right():
    labels = [0, 1, 0, 1, 0, 1, -1, -1]
    named = np.array([0, 1, 0, 1, 0, 0, 1, np.nan])  # 5 of 6 are right
    found = probabilities(Said("rule", named), labels)
    assert found[6] == pytest.approx([1 - 6 / 8, 6 / 8])
    assert found[7] == pytest.approx([0.5, 0.5])


def test_one_that_is_wrong_more_often_than_chance_is_silent_and_not_turned_round():
    labels = [0, 0, 0, 1, -1]
    named = np.array([1.0, 1.0, 1.0, 0.0, 1.0])
    shares = label_shares(np.array([0, 0, 0, 1]), 2)
    assert probabilities(Said("liar", named), labels) == pytest.approx(np.tile(shares, (5, 1)))


def test_one_whose_labels_nobody_knows_is_silent():
    named = np.array([np.nan, np.nan, np.nan, 1.0])
    found = probabilities(Said("rule", named), [0, 0, 1, -1])
    assert found == pytest.approx(np.tile([2 / 3, 1 / 3], (4, 1)))


def test_a_value_is_as_unsure_as_it_was_off():
    labels, said = [1.0, 2.0, np.nan, np.nan], np.array([1.5, 1.0, 3.0, np.nan])
    (opinion,) = Said("guess", said).hear(np.zeros((4, 1)), [np.array(labels)], 0, 0)
    found = opinion.of_rows(np.arange(4))
    spread = ((0.25 + 1 + 1) / 3) ** 0.5  # as if one more had been off by 1
    assert found[:3] == pytest.approx(np.array([[1.5, spread], [1, spread], [3, spread]]))
    assert found[3].tolist() == [0.0, NO_OPINION]
    assert opinion.of_new(np.zeros((2, 1))).tolist() == [[0.0, NO_OPINION]] * 2


def test_of_other_examples_a_file_says_the_shares_of_the_labels():
    labels = np.array([0, 0, 1, -1])
    (opinion,) = Said("rule", np.zeros(4)).hear(np.zeros((4, 1)), [labels], 2, 0)
    assert np.exp(opinion.of_new(np.zeros((3, 1)))) == pytest.approx(
        np.tile([2 / 3, 1 / 3], (3, 1))
    )


def test_silence_moves_nothing_in_a_pool():
    labels = np.array([0, 0, 1, -1, -1])
    named = np.array([0, 0, 1, np.nan, 0])
    silent, known = probabilities(Said("rule", named), labels), label_shares(labels[:3], 2)
    other = np.log(np.tile([0.3, 0.7], (5, 1)))
    both = combine(np.stack([other, np.log(silent)]), np.array([0.8, 1.3]), known)
    alone = combine(other[None], np.array([0.8]), known)
    assert both[3] == pytest.approx(alone[3])
    assert both[4] != pytest.approx(alone[4])
    values = np.array([[[0.4, 0.5]], [[0.0, NO_OPINION]]])
    both = combine(values, np.ones(2), np.zeros(0))
    assert both[0] == pytest.approx([0.4, 0.5])


def test_hidden_labels_do_not_make_a_rule_trusted():
    labels = np.array([0, 1, -1, -1])
    right = Said("rule", np.array([0.0, 1.0, 0.0, 1.0]))
    hidden = np.array([-1, 1, -1, -1])
    less, more = right.hear(np.zeros((4, 1)), [hidden, labels], 2, 0)
    assert np.exp(less.of_rows(np.array([2]))[0, 0]) == pytest.approx(2 / 3)
    assert np.exp(more.of_rows(np.array([2]))[0, 0]) == pytest.approx(3 / 4)


def test_a_liar_gets_no_weight_and_says_nothing():
    rng = np.random.default_rng(0)
    y, folds = rng.integers(2, size=100), np.arange(100) % 4
    right = np.where(rng.random(100) < 0.9, y, 1 - y).astype(float)
    case = Case(np.zeros((100, 1)), y, [np.flatnonzero(folds == fold) for fold in range(4)], 2)
    heard, _ = hear_all([Said("liar", 1.0 - y), Said("rule", right)], case)
    assert [each.presumed for each in heard] == [False, False]  # both must show what they add
    opinions = {each.name: each.out_of_fold for each in heard} | {
        "idle": np.full((100, 2), -np.log(2))
    }
    of_fold = np.repeat(np.arange(4), 25)
    weights = fit_pool(opinions, y[case.hidden], y, 2, of_fold, presumed=["idle"]).pool.weights
    assert weights["liar"] < 0.1 * weights["rule"]
    shares = np.tile(label_shares(y, 2), (100, 1))
    assert np.exp(heard[0].opinion.of_rows(np.arange(100))) == pytest.approx(shares)


def test_a_file_counts_like_others_where_no_label_can_be_hidden():
    case = Case(np.zeros((4, 1)), np.array([0, 1, -1, -1]), [], 2)
    (heard,), _ = hear_all([Said("rule", np.array([0.0, 1.0, 0.0, 1.0]))], case)
    assert heard.presumed


# The whole


def test_a_run_that_goes_on_with_opinions_teaches_another_student(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3))
    truth = (x[:, 0] > 0).astype(int)
    y, path = np.where(np.arange(40) < 16, truth, -1), tmp_path / "said.csv"
    path.write_text("row,rule\n" + "".join(f"{row},{truth[row]}\n" for row in range(40)))

    def student(**more):
        result = labelgrad.fit(x, y, steps=5, witnesses="", **more)
        return torch.cat([weights.flatten() for weights in result.predictor.model.parameters()])

    before = student(out=tmp_path / "run")
    after = student(out=tmp_path / "run", resume=True, opinions=path)
    assert not torch.equal(before, after)
    assert torch.equal(after, student(opinions=path))
    assert torch.equal(after, student(out=tmp_path / "run", resume=True))  # it knows them now


def real(name):
    """A small set with the labels of some rows, of which the file says what is in `columns`."""
    x, y = load_breast_cancer(return_X_y=True) if name == "cancer" else load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[: 200 if name == "cancer" else 300]
    x, y = x[rows], y[rows]
    return x, y, np.where(np.arange(len(y)) < 60, y, -1)


def named_by(y, right, seed):
    rng = np.random.default_rng(seed)
    classes = y.max() + 1
    wrong = (y + rng.integers(1, classes, size=len(y))) % classes
    return np.where(rng.random(len(y)) < right, y, wrong)


@pytest.mark.parametrize("name", ["cancer", "digits"])
def test_good_opinions_count_and_others_do_not(tmp_path, monkeypatch, name):
    monkeypatch.setattr(models, "STRENGTHS", np.array([0.01, 1.0]))
    x, y, partly = real(name)
    useless = np.random.default_rng(2).integers(y.max() + 1, size=len(y))
    columns = {"good": named_by(y, 0.9, 1), "useless": useless, "harmful": named_by(y, 0.1, 3)}
    path = tmp_path / "said.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", *columns])
        writer.writerows(zip(range(len(y)), *columns.values(), strict=True))

    def fitted(**more):
        return labelgrad.fit(x, partly, steps=50, witnesses="linear", **more)

    def wrong(result):
        return np.mean([label.label != str(y[int(label.name)]) for label in result.labels])

    with_file, without = fitted(opinions=path), fitted()
    weights = with_file.pooled.pool.weights
    assert weights["good"] > 3 * max(weights["useless"], weights["harmful"])
    assert wrong(with_file) < wrong(without)


def test_good_values_count_and_others_do_not(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    truth = 50 + 10 * np.sin(2 * x[:, 0]) * x[:, 1]
    columns = {
        "good": truth + 2 * rng.normal(size=200),
        "useless": rng.permutation(truth),
        "harmful": 100 - truth,
    }
    path = tmp_path / "said.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", *columns])
        writer.writerows(zip(range(200), *columns.values(), strict=True))
    y = np.where(np.arange(200) < 60, truth, np.nan)
    result = labelgrad.fit(x, y, steps=20, witnesses="linear", opinions=path)
    weights = result.pooled.pool.weights
    assert weights["good"] > 3 * max(weights["useless"], weights["harmful"])
    off = [label.label - truth[int(label.name)] for label in result.labels]
    assert np.sqrt(np.mean(np.square(off))) < 3


def test_a_run_that_goes_on_knows_its_opinions_and_shares(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(np.arange(40) < 16, x[:, 0] > 0, -1)
    file, folder = tmp_path / "said.csv", tmp_path / "run"
    file.write_text("row,rule\n" + "".join(f"{i},{int(x[i, 0] > 0)}\n" for i in range(40)))

    def fitted(**more):
        return labelgrad.fit(x, y, steps=3, witnesses="linear", out=folder, resume=True, **more)

    first = fitted(opinions=file, shares={"0": 0.3, "1": 0.7})
    again = fitted()
    assert again.labels == first.labels
    assert "rule" in {row.name for row in again.summary.verdict.rows}
    assert fitted(shares={"0": 0.9, "1": 0.1}).labels != first.labels
    whole = file.read_text()
    file.write_text(whole.replace("0,1", "0,0", 1))
    with pytest.raises(ValueError, match=r"said.csv, and that file has changed; .*--opinions"):
        fitted()
    fitted(opinions=file)  # it is meant
    file.unlink()
    with pytest.raises(ValueError, match=r"said.csv, and that file is gone; .*--opinions"):
        fitted()
    (folder / "source.json").write_text("{}")
    with pytest.raises(ValueError, match=r"source.json cannot be used .*give all options again"):
        fitted()
