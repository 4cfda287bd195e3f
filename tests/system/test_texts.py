"""A folder of texts through the command, with TF-IDF features."""

import numpy as np
import polars as pl
import pytest

from tests.command import run_ok

COUNT, LABELED = 60, 20
WORDS = {
    "sport": ["goal", "match", "team", "player", "score", "league", "coach", "season", "ball"],
    "food": ["bread", "soup", "cook", "oven", "taste", "salt", "sugar", "kitchen", "lunch"],
}
FAST = ("--base-models", "linear,neighbours", "--steps", "30", "--workers", "1")


def write_texts(folder, seed=0):
    """Files of words of one of two subjects; the truth by file."""
    rng, truth = np.random.default_rng(seed), {}
    folder.mkdir()
    for i in range(COUNT):
        name, subject = f"{i:02}.txt", list(WORDS)[i % 2]
        words = [*rng.choice(WORDS[subject], 12), *rng.choice(WORDS["sport"] + WORDS["food"], 3)]
        (folder / name).write_text(" ".join(words))
        truth[name] = subject
    given = "".join(f"{name},{truth[name]}\n" for name in list(truth)[:LABELED])
    (folder / "labels.csv").write_text("file,label\n" + given)
    return truth


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    truth = write_texts(folder / "notes")
    output = run_ok(["fit", "notes", "--encoder", "none", "--out", "run", *FAST], cwd=folder)
    return folder, truth, output


def accuracy(table, column, truth):
    right = [truth[name] == label for name, label in zip(table["file"], table[column], strict=True)]
    return np.mean(right)


def test_every_text_gets_a_label(run):
    folder, truth, _ = run
    table = pl.read_csv(folder / "run" / "labels.csv", infer_schema=False)
    assert table["file"].to_list() == list(truth)
    assert accuracy(table, "label", truth) > 0.9


def test_new_texts_are_predicted(run):
    folder, _, _ = run
    truth = write_texts(folder / "new", seed=1)
    run_ok(["predict", "run", "new", "--out", "predictions.csv"], cwd=folder)
    found = pl.read_csv(folder / "predictions.csv", infer_schema=False)
    assert accuracy(found, "prediction", truth) > 0.9


def test_the_review_list_names_files(run):
    folder, _, _ = run
    run_ok(["labels", "run", "--review", "5", "--review-out", "look.csv"], cwd=folder)
    listed = pl.read_csv(folder / "look.csv", infer_schema=False)
    assert len(listed) == 5
    assert set(listed["file"]) <= {f"{i:02}.txt" for i in range(LABELED, COUNT)}
