"""A folder of images or texts through the command: files and labels.csv in, labels for all out."""

import numpy as np
import onnxruntime
import polars as pl
import pytest
from PIL import Image

from tests.command import refused, run_ok

COUNT, LABELED = 60, 20
FAST = ("--steps", "30", "--workers", "1", "--encoder", "none", "--base-models")
SPORT = ["goal", "match", "team", "player", "score", "league", "coach", "season", "ball"]
FOOD = ["bread", "soup", "cook", "oven", "taste", "salt", "sugar", "kitchen", "lunch"]


def write_image(path, of, rng):
    """Dark or bright noise."""
    pixels = rng.integers(0, 100, (8, 8, 3)) + 120 * of
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def write_text(path, of, rng):
    """Words of one of two subjects, and a few of both."""
    words = [*rng.choice([SPORT, FOOD][of], 12), *rng.choice(SPORT + FOOD, 3)]
    path.write_text(" ".join(words))


KINDS = {  # the suffix, what writes a file, the classes
    "images": (".png", write_image, ("night", "day")),
    "texts": (".txt", write_text, ("sport", "food")),
}


def write_folder(folder, kind, seed=0):
    """Files and labels.csv; the truth by file."""
    suffix, write, classes = KINDS[kind]
    rng, truth = np.random.default_rng(seed), {}
    folder.mkdir()
    for i in range(COUNT):
        write(folder / f"{i:02}{suffix}", i % 2, rng)
        truth[f"{i:02}{suffix}"] = classes[i % 2]
    given = "".join(f"{name},{truth[name]}\n" for name in list(truth)[:LABELED])
    (folder / "labels.csv").write_text("file,label\n" + given)
    return truth


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each kind, when it is needed; its folder, the truth and what was printed."""
    found = {}

    def of(kind):
        if kind not in found:
            folder = tmp_path_factory.mktemp(kind)
            truth = write_folder(folder / "data", kind)
            models = "linear,lga" if kind == "images" else "linear,neighbours"
            output = run_ok(["fit", "data", "--out", "run", *FAST, models], cwd=folder)
            found[kind] = folder, truth, output
        return found[kind]

    return of


def accuracy(table, column, truth):
    pairs = zip(table["file"], table[column], strict=True)
    return np.mean([truth[name] == label for name, label in pairs])


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_gets_its_label(runs, kind):
    folder, truth, output = runs(kind)
    table = pl.read_csv(folder / "run" / "labels.csv", infer_schema=False)
    assert table["file"].to_list() == list(truth)
    assert accuracy(table, "label", truth) > (0.99 if kind == "images" else 0.9)
    assert (table["source"] == "given").sum() == LABELED
    assert "linear" in output


@pytest.mark.parametrize("kind", KINDS)
def test_new_files_are_predicted(runs, kind):
    folder, _, _ = runs(kind)
    truth = write_folder(folder / "new", kind, seed=1)
    run_ok(["predict", "run", "new", "--out", "predictions.csv"], cwd=folder)
    found = pl.read_csv(folder / "predictions.csv", infer_schema=False)
    assert found["file"].to_list() == list(truth)
    assert accuracy(found, "prediction", truth) > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_the_review_list_names_files(runs, kind):
    folder, truth, _ = runs(kind)
    run_ok(["labels", "run", "--review", "5", "--review-out", "look.csv"], cwd=folder)
    listed = pl.read_csv(folder / "look.csv", infer_schema=False)
    assert len(listed) == 5
    assert set(listed["file"]) <= set(list(truth)[LABELED:])
    if kind == "texts":  # the list has what a person needs to look at
        texts = [(folder / "data" / name).read_text() for name in listed["file"]]
        assert listed["text"].to_list() == texts


def test_a_damaged_image_is_skipped(runs):
    folder, _, _ = runs("images")
    truth = write_folder(folder / "damaged", "images")
    (folder / "damaged" / "00.png").write_bytes(b"\x89PNG nothing more")
    said = run_ok(["predict", "run", "damaged", "--out", "fewer.csv"], cwd=folder)
    assert "Skipped 00.png" in said
    found = pl.read_csv(folder / "fewer.csv", infer_schema=False)["file"]
    assert found.to_list() == list(truth)[1:]
    strict = ["predict", "run", "damaged", "--strict", "--out", "none.csv"]
    assert "00.png" in refused(strict, cwd=folder)
    assert not (folder / "none.csv").exists()


@pytest.mark.slow
def test_onnx_export_equals_the_model(runs):
    folder, _, _ = runs("images")
    run_ok(["export", "run", "--to", "onnx", "--out", "model.onnx"], cwd=folder)
    run_ok(["predict", "run", "data", "--out", "all.csv"], cwd=folder)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    pixels = [np.asarray(Image.open(folder / "data" / f"{i:02}.png")) for i in range(COUNT)]
    images = np.stack(pixels).transpose(0, 3, 1, 2)
    (given,) = session.get_inputs()
    kind = np.uint8 if "uint8" in given.type else np.float32
    (found,) = session.run(None, {given.name: images.astype(kind)})
    expected = pl.read_csv(folder / "all.csv").select("day", "night").to_numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)
