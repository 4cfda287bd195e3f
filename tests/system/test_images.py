"""A folder of images through the command: PNG files and labels.csv in, labels for all out."""

import numpy as np
import onnxruntime
import polars as pl
import pytest
from PIL import Image

from tests.command import refused, run_ok

COUNT, LABELED = 60, 20
FAST = ("--base-models", "linear,lga", "--steps", "30", "--workers", "1")


def write_images(folder):
    """Dark and bright noise; the truth by file."""
    rng, truth = np.random.default_rng(0), {}
    folder.mkdir()
    for i in range(COUNT):
        pixels = (rng.integers(0, 100, (8, 8, 3)) + 120 * (i % 2)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:02}.png")
        truth[f"{i:02}.png"] = ["night", "day"][i % 2]
    given = "".join(f"{name},{truth[name]}\n" for name in list(truth)[:LABELED])
    (folder / "labels.csv").write_text("file,label\n" + given)
    return truth


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    truth = write_images(folder / "photos")
    output = run_ok(["fit", "photos", "--out", "run", *FAST], cwd=folder)
    return folder, truth, output


def test_every_image_gets_its_label(run):
    folder, truth, output = run
    table = pl.read_csv(folder / "run" / "labels.csv", infer_schema=False)
    assert dict(zip(table["file"], table["label"], strict=True)) == truth
    assert (table["source"] == "given").sum() == LABELED
    assert "lga" in output


def test_new_images_are_predicted_and_a_damaged_one_is_skipped(run):
    folder, truth, _ = run
    write_images(folder / "new")
    (folder / "new" / "00.png").write_bytes(b"\x89PNG nothing more")
    said = run_ok(["predict", "run", "new", "--out", "predictions.csv"], cwd=folder)
    found = pl.read_csv(folder / "predictions.csv", infer_schema=False)
    assert "Skipped 00.png" in said
    assert dict(zip(found["file"], found["prediction"], strict=True)) == {
        name: label for name, label in truth.items() if name != "00.png"
    }
    strict = ["predict", "run", "new", "--strict", "--out", "none.csv"]
    assert "00.png" in refused(strict, cwd=folder)
    assert not (folder / "none.csv").exists()


def test_the_review_list_names_files_and_takes_corrections(run):
    folder, _, _ = run
    run_ok(["labels", "run", "--review", "5", "--review-out", "look.csv"], cwd=folder)
    listed = pl.read_csv(folder / "look.csv", infer_schema=False)
    assert len(listed) == 5
    assert set(listed["file"]) <= {f"{i:02}.png" for i in range(LABELED, COUNT)}


@pytest.mark.slow
def test_onnx_export_equals_the_model(run):
    folder, _, _ = run
    run_ok(["export", "run", "--to", "onnx", "--out", "model.onnx"], cwd=folder)
    run_ok(["predict", "run", "photos", "--out", "all.csv"], cwd=folder)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    pixels = [np.asarray(Image.open(folder / "photos" / f"{i:02}.png")) for i in range(COUNT)]
    images = np.stack(pixels).transpose(0, 3, 1, 2)
    (given,) = session.get_inputs()
    kind = np.uint8 if "uint8" in given.type else np.float32
    (found,) = session.run(None, {given.name: images.astype(kind)})
    expected = pl.read_csv(folder / "all.csv").select("day", "night").to_numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)
