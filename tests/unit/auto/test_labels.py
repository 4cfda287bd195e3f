"""The table of labels says where each label is from, and comes back from its file as it was."""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.special import log_softmax

from labelgrad.auto.data.dataset import Dataset
from labelgrad.auto.labels import (
    Summary,
    csv_pieces,
    ids_digest,
    in_parts,
    label_sources,
    label_table,
    nearest_labeled,
    read_labels,
    save_labels,
    summarize,
)
from labelgrad.auto.task import Classification, Regression


@dataclass
class Rows:
    kind: str = "arrays"
    id_name: str = "row"


PETS = Classification(("cat", "dog", "eel"))


def dataset(task=PETS, n=30, labeled=9, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).astype(np.float32)
    truth = np.arange(n) % 3 if task is PETS else rng.normal(size=n)
    y = task.unlabeled(n)
    y[:labeled] = truth[:labeled]
    return Dataset(X, y, task, [str(i) for i in range(n)], Rows())


def table_of(data, seed=0, **more):
    rng, n = np.random.default_rng(seed), len(data.unlabeled)
    if data.task is PETS:
        one, two = (log_softmax(rng.normal(size=(n, 3)), axis=-1) for _ in range(2))
    else:
        one, two = (np.stack([rng.normal(size=n), rng.uniform(1, 2, n)], 1) for _ in range(2))
    parts = [summarize(data.task, each) for each in (one, two)]
    source = label_sources(data, data, "unknown", {})
    return label_table(data, source, *parts, nearest=neighbours_of(data), **more), one, two


def neighbours_of(data):
    near, distance, _ = nearest_labeled(data.X, data.labeled, data.unlabeled)
    return data.unlabeled, near, distance, np.full(len(distance), 0.25)


def test_a_row_for_every_example_with_given_and_imputed_labels():
    data = dataset()
    table, ensemble, student = table_of(data)
    assert table.columns == [
        *("row", "label", "confidence", "source", "prediction", "prediction_confidence"),
        *("entropy", "neighbours", "neighbour_disagreement", "ood_score", "unknown_probability"),
    ]
    assert table["row"].to_list() == list(data.ids)
    assert table["label"][:9].to_list() == PETS.display(data.y[:9])
    assert table["label"][9:].to_list() == PETS.display(ensemble.argmax(1))
    assert table["prediction"][9:].to_list() == PETS.display(student.argmax(1))
    assert table["source"].to_list() == ["given"] * 9 + ["imputed"] * 21
    np.testing.assert_allclose(table["confidence"][9:], np.exp(ensemble.max(1)), rtol=1e-6)
    entropy = -(np.exp(ensemble) * ensemble).sum(1)
    np.testing.assert_allclose(table["entropy"][9:], entropy, rtol=1e-5)
    for name in ("confidence", "prediction", "entropy", "neighbours", "neighbour_disagreement"):
        assert table[name][:9].null_count() == 9


def test_neighbours_are_the_nearest_labeled_examples():
    data = dataset()
    table, _, _ = table_of(data)
    for row in data.unlabeled.tolist():
        apart = np.linalg.norm(data.X[data.labeled] - data.X[row], axis=1)
        labels = data.y[data.labeled][np.argsort(apart)[:3]]
        counts = np.bincount(labels, minlength=3)
        majority = labels[np.argmax(counts[labels])]  # ties: the nearest
        assert table["neighbours"][row] == PETS.classes[majority]
        other = np.mean(np.array(PETS.classes)[labels] != table["label"][row])
        assert table["neighbour_disagreement"][row] == pytest.approx(other)
        assert table["ood_score"][row] == pytest.approx(apart.min(), rel=1e-5)


def test_values_have_standard_deviations_in_their_own_units():
    task = Regression(mean=100.0, scale=10.0)
    data = dataset(task)
    table, ensemble, _ = table_of(data, typical_error=5.0)
    np.testing.assert_allclose(table["label"][9:], 100 + 10 * ensemble[:, 0])
    np.testing.assert_allclose(table["std"][9:], 10 * ensemble[:, 1], rtol=1e-6)
    assert table["confidence"].null_count() == len(data)
    apart = (table["neighbours"] - table["label"]).abs() / 5
    np.testing.assert_allclose(table["neighbour_disagreement"][9:], apart[9:], rtol=1e-5)


@pytest.mark.parametrize("task", [PETS, Regression(3.0, 0.1)])
def test_the_file_holds_the_table_exactly(tmp_path, task):
    table, _, _ = table_of(dataset(task))
    save_labels(table, tmp_path / "labels.csv")
    again = read_labels(tmp_path / "labels.csv", task, "row")
    assert_frame_equal(again, table, check_exact=True)
    assert ids_digest(again) == ids_digest(table)
    assert ids_digest(again.reverse()) != ids_digest(table)


def test_long_tables_are_written_in_pieces(tmp_path):
    n = 300_000
    table = pl.DataFrame({"row": [str(i) for i in range(n)]}).with_columns(label=pl.lit("a"))
    pieces = list(csv_pieces(table))
    assert len(pieces) > 2
    assert b"".join(pieces) == table.write_csv().encode()


def test_summaries_of_parts_are_those_of_the_whole():
    whole = log_softmax(np.random.default_rng(0).normal(size=(50_000, 3)), axis=-1)
    parts = list(in_parts(np.arange(len(whole)), 3))
    assert len(parts) > 1
    summaries = [summarize(PETS, whole[part]) for part in parts]
    found = Summary(*map(np.concatenate, zip(*summaries, strict=True)))
    for one, two in zip(found, summarize(PETS, whole), strict=True):
        np.testing.assert_array_equal(one, two)
    assert [len(part) for part in in_parts(np.arange(0), 3)] == [0]


def test_sources_of_annotated_labels():
    raw = dataset(labeled=3)
    y = raw.y.copy()
    y[[1, 4, 5]] = 2
    data = replace(raw, y=y)
    annotated = {"1": "correction", "4": "accept", "5": "choose", "20": "audit"}
    found = label_table(
        data,
        label_sources(raw, data, "unknown", annotated),
        *[summarize(PETS, np.zeros((len(data.unlabeled), 3)))] * 2,
        nearest=neighbours_of(data),
    )["source"]
    assert found[:6].to_list() == [
        *("given", "corrected", "given", "imputed", "accepted", "corrected"),
    ]
    assert found[20] == "imputed", "audits stay held out"
    by_chance = label_sources(raw, data, "random", annotated)
    assert by_chance[1] == by_chance[0], "a corrected label was still sampled at random"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("cat", "horse", "horse"),
        ("imputed", "magic", "magic"),
        ("source", "origin", "columns must be"),
        ("0.", "7.", "confidence has a number out of range"),
    ],
)
def test_a_file_that_was_changed_wrongly_is_named(tmp_path, old, new, reason):
    table, _, _ = table_of(dataset())
    path = tmp_path / "labels.csv"
    save_labels(table, path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises((ValueError, pl.exceptions.PolarsError), match=reason):
        read_labels(path, PETS, "row")
