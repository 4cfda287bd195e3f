"""Folders of images: labels, damaged files, sizes, and decoding into the cache."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

import labelgrad
from labelgrad import FitConfig
from labelgrad.auto.base_models.registry import default_base_models
from labelgrad.auto.data import images
from labelgrad.auto.data.images import ImagePreprocessor
from labelgrad.auto.encoders.pixels import load_image
from labelgrad.auto.events import Events
from tests.unit.auto.encoders.tiny import TinyNetwork, image_folder
from tests.unit.auto.small_fit import small_fit

PIXELS = FitConfig(encoder="none")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELGRAD_CACHE", str(tmp_path / "cache"))


class Recorder(Events):
    def __init__(self):
        self.notes, self.totals = [], []

    def note(self, sentence):
        self.notes.append(sentence)

    def progress(self, stage, done, total):
        self.totals.append(total)


def read(folder, config=PIXELS, events=None):
    assert ImagePreprocessor.takes(folder)
    return ImagePreprocessor.read(folder, None, config, events or Recorder())


def saved_again(dataset):
    saved = json.loads(json.dumps(asdict(dataset.preprocessor)))
    return ImagePreprocessor.from_dict(saved)


def by_class(folder):
    names = ["cat/1.png", "cat/old/2.jpg", "dog/3.png", "Unlabeled/4.png", "5.png"]
    for i, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20 + i, 40), (50 * i, 9, 9)).save(folder / name)
    (folder / "dog" / "readme.txt").write_text("no image")
    (folder / ".hidden.png").write_text("")
    return folder


def test_sub_folders_are_classes(tmp_path):
    dataset = read(by_class(tmp_path / "pets"))
    assert list(dataset.ids) == [
        *("5.png", "Unlabeled/4.png", "cat/1.png", "cat/old/2.jpg", "dog/3.png")
    ]
    assert dataset.task.display(dataset.y) == [None, None, "cat", "cat", "dog"]
    assert any("readme.txt" in note for note in dataset.notes)
    assert (dataset.preprocessor.kind, dataset.preprocessor.id_name) == ("images", "file")


def test_pixels_and_features_are_those_of_each_file(tmp_path):
    folder = image_folder(tmp_path / "photos")
    dataset = read(folder, FitConfig(encoder="none", size=20))
    expected = np.stack([load_image(folder / name, 20) for name in dataset.ids])
    assert np.array_equal(dataset.raw, expected)
    small = F.adaptive_avg_pool2d(torch.from_numpy(expected).float() * (2 / 255) - 1, 16)
    assert pytest.approx(small.flatten(1).numpy() / 0.5, abs=1e-5) == dataset.X
    assert dataset.task.classes == ("day", "night")
    assert dataset.is_labeled.sum() == 8
    assert not dataset.has_encoded_features


@pytest.mark.parametrize(("side", "size"), [(5, 8), (18, 16), (300, 32)])
def test_the_default_size_is_the_usual_side_within_limits(tmp_path, side, size):
    folder = image_folder(tmp_path / "photos")
    for path in folder.glob("*.png"):
        Image.open(path).resize((side, 2 * side)).save(path)
    assert read(folder).raw.shape[2:] == (size, size)


def test_grey_images_have_one_channel_and_new_ones_become_grey(tmp_path):
    dataset = read(image_folder(tmp_path / "grey", grey=True))
    assert dataset.raw.shape[1] == 1
    for name in ("color", "grey"):
        new = saved_again(dataset).transform(
            image_folder(tmp_path / name, grey=name == "grey"), PIXELS
        )
        assert new.examples.raw.shape == dataset.raw.shape
    assert np.array_equal(new.examples.raw, dataset.raw)


@pytest.mark.parametrize("encoder", ["none", TinyNetwork()])
def test_damaged_images_are_skipped_with_a_reason_or_fatal_if_strict(tmp_path, encoder):
    folder = image_folder(tmp_path / "photos")
    (folder / "03.png").write_bytes((folder / "03.png").read_bytes()[:50])
    (folder / "09.png").write_text("no image")
    dataset = read(folder, FitConfig(encoder=encoder, size=8))
    assert [name for name, _ in dataset.skipped] == ["03.png", "09.png"]
    assert dict(dataset.skipped)["09.png"] == "not an image of a known format"
    assert len(dataset.ids) == len(dataset.X) == len(dataset.y) == 10
    assert "03.png" not in dataset.ids
    with pytest.raises(ValueError, match=r"03\.png cannot be read"):
        read(folder, FitConfig(encoder=encoder, size=8, strict=True))


@pytest.mark.parametrize("fine_tune", [0.0, 0.01])
def test_features_of_an_encoder_come_back_for_the_same_images(tmp_path, fine_tune):
    folder = image_folder(tmp_path / "photos")
    config = FitConfig(encoder=TinyNetwork(), size=8, fine_tune=fine_tune)
    dataset = read(folder, config)
    assert dataset.has_encoded_features
    assert list(dataset.encoders) == ["own TinyNetwork"]
    assert (dataset.raw is None) == (fine_tune == 0)
    new = saved_again(dataset).transform(folder, FitConfig(encoder=TinyNetwork()))
    assert np.array_equal(new.examples.X, dataset.X)
    assert list(new.ids) == list(dataset.ids)
    if fine_tune:
        assert np.array_equal(new.examples.raw, dataset.raw)


@pytest.mark.parametrize("encoder", ["none", TinyNetwork()])
def test_parts_are_the_whole(tmp_path, encoder):
    folder = image_folder(tmp_path / "photos")
    config = FitConfig(encoder=encoder, size=8)
    dataset = read(folder, config)
    for name in ("04.png", "05.png", "11.png"):
        (folder / name).write_text("")
    one = dataset.preprocessor.transform(folder / "06.png", config)
    assert list(one.ids) == ["06.png"]
    assert pytest.approx(dataset.X[6:7], abs=1e-5) == one.examples.X
    whole = dataset.preprocessor.transform(folder, config)
    parts = list(dataset.preprocessor.transform_in_parts(folder, config, size=2))
    assert all(len(part.ids) for part in parts)
    assert [name for part in parts for name in part.ids] == list(whole.ids)
    assert np.array_equal(np.concatenate([part.examples.X for part in parts]), whole.examples.X)
    assert [each for part in parts for each in part.skipped] == whole.skipped
    for path in folder.glob("*.png"):
        path.write_text("")
    with pytest.raises(ValueError, match="None of the 12 files can be read"):
        list(dataset.preprocessor.transform_in_parts(folder, config, size=2))


# Large folders


def test_a_large_folder_is_decoded_once_into_the_cache(tmp_path, monkeypatch):
    folder = image_folder(tmp_path / "photos")
    (folder / "07.png").write_text("damaged")
    small = read(folder)
    monkeypatch.setenv("LABELGRAD_MEMORY", "0")
    monkeypatch.setattr(images, "BATCH", 3)
    first, second, third = Recorder(), Recorder(), Recorder()
    large = read(folder, events=first)
    assert isinstance(large.raw, np.memmap)
    assert np.array_equal(large.raw, small.raw)
    assert np.array_equal(large.X, small.X)
    assert (large.ids, large.skipped) == (small.ids, small.skipped)
    assert any("12 of 12 are new" in note for note in first.notes)
    again = read(folder, events=second)
    assert np.array_equal(again.raw, small.raw)
    assert set(second.totals) == {1}  # the damaged one alone is tried again
    Image.new("RGB", (12, 14), "red").save(folder / "02.png")
    changed = read(folder, events=third)
    assert set(third.totals) == {2}
    expected = np.stack([load_image(folder / name, 12) for name in changed.ids])
    assert np.array_equal(changed.raw, expected)


def test_many_images_are_decoded_by_processes_to_the_same_pixels(tmp_path, monkeypatch):
    folder = image_folder(tmp_path / "photos")
    (folder / "07.png").write_text("damaged")
    alone = read(folder)
    monkeypatch.setattr(images, "MIN_PARALLEL", 1)
    monkeypatch.setattr(images, "BATCH", 5)
    together = read(folder)
    assert np.array_equal(together.raw, alone.raw)
    assert together.skipped == alone.skipped


def test_processes_read_relative_paths_after_a_change_of_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MIN_PARALLEL", 1)
    monkeypatch.setattr(images, "BATCH", 5)
    for name in ("first", "second"):
        image_folder(tmp_path / name / f"photos of {name}")
        monkeypatch.chdir(tmp_path / name)
        assert len(read(Path(f"photos of {name}"))) == 12


# What is refused


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("file,label\n../x.png,cat\n", "lists 1 files that are not in the folder: '../x.png'"),
        ("file,label\n/etc/hosts,cat\n", "not in the folder: '/etc/hosts'"),
        ("file,label\n00.png,cat\n00.png,dog\n", "two labels: 'cat', and 'dog' on line 3"),
        ("a,b,c\n1,2,3\n", "must have the columns file and label"),
        ("file,label\n00.png\n", "labels.csv is damaged on line 2: it must have 2 cells"),
        ("", "got an empty file"),
        ("file,label\n00.png,\n", "have no labels"),
    ],
)
def test_a_wrong_list_of_labels_is_one_sentence(tmp_path, lines, message):
    folder = image_folder(tmp_path / "photos")
    (folder / "labels.csv").write_text(lines)
    with pytest.raises(ValueError, match=message):
        read(folder)


def test_labels_may_be_values_anywhere_and_without_a_header(tmp_path):
    folder = image_folder(tmp_path / "photos")
    lines = [f"{i:02d}.png;{i * 0.37}" for i in range(9)]
    (tmp_path / "mine.csv").write_text("\n".join(lines))
    dataset = read(folder, FitConfig(encoder="none", labels=tmp_path / "mine.csv"))
    assert dataset.task.name == "regression"
    assert dataset.task.display(dataset.y)[:9] == pytest.approx([i * 0.37 for i in range(9)])
    with pytest.raises(FileNotFoundError, match="no labels file"):
        read(folder, FitConfig(encoder="none", labels=tmp_path / "none.csv"))


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    folder = by_class(tmp_path / "pets")
    Image.new("RGB", (9, 9)).save(tmp_path / "outside.png")
    os.symlink(tmp_path / "outside.png", folder / "cat" / "link.png")
    os.symlink(tmp_path, folder / "loop")
    os.symlink(folder / "cat", folder / "again")
    os.symlink(folder / "cat" / "1.png", folder / "dog" / "inside.png")
    dataset = read(folder)
    assert dict(dataset.skipped) == {
        "loop": "a link that leads out of the folder",
        "cat/link.png": "a link that leads out of the folder",
        "again": "a link to a folder, which is not followed",
    }
    assert "dog/inside.png" in dataset.ids
    with pytest.raises(ValueError, match="cannot be read: a link"):
        read(folder, FitConfig(encoder="none", strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 5000}, "`size` from 1 to 1024"),
        ({"fine_tune": 0.1}, "Fine-tuning needs an encoder"),
        ({"encoder": "all-minilm-l6-v2"}, "is an encoder of texts"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, options, message):
    folder = image_folder(tmp_path / "photos")
    with pytest.raises(ValueError, match=message):
        read(folder, FitConfig(**{"encoder": "none", **options}))


def test_a_folder_without_images_or_labels_is_refused(tmp_path):
    with pytest.raises(ValueError, match="contains no images"):
        read(tmp_path)
    folder = image_folder(tmp_path / "photos")
    (folder / "labels.csv").unlink()
    with pytest.raises(ValueError, match="have no labels: put those of each class"):
        read(folder)


@pytest.mark.parametrize("change", [{"size": 0}, {"size": "8"}, {"channels": 2}, {"state": {}}])
def test_a_damaged_preprocessor_is_refused(tmp_path, change):
    saved = asdict(read(image_folder(tmp_path / "photos")).preprocessor)
    with pytest.raises(ValueError, match=r"`size` from 1|state of an encoder"):
        ImagePreprocessor.from_dict({**saved, **change})


# Pixels


def test_images_are_upright_square_and_on_white(tmp_path):
    pixels = np.zeros((10, 20, 3), np.uint8)
    pixels[:, 10:] = 255  # the right half is white
    turned = Image.fromarray(pixels)
    exif = turned.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees: the white half is below
    turned.save(tmp_path / "turned.png", exif=exif)
    found = load_image(tmp_path / "turned.png", 10)
    assert found.shape == (3, 10, 10)
    assert found[:, :3].max() < 60
    assert found[:, 7:].min() > 190
    Image.new("RGBA", (8, 8), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (load_image(tmp_path / "clear.png", 4) == 255).all()
    for mode, value in (("I;16", 65535), ("L", 255), ("1", 1), ("F", 1.0)):
        Image.new(mode, (8, 8), value).save(tmp_path / "white.tiff")
        assert (load_image(tmp_path / "white.tiff", 4) == 255).all()


def test_an_image_that_is_meant_to_fill_the_memory_is_skipped(tmp_path, monkeypatch):
    folder = image_folder(tmp_path / "photos")
    Image.new("RGB", (100, 100)).save(folder / "10.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5000)
    ((name, reason),) = read(folder).skipped
    assert name == "10.png"
    assert "more than 5,000 pixels" in reason


class Blind(nn.Module):
    """An encoder that does not see how bright an image is, which is all that tells the classes."""

    def forward(self, x):
        return (x - x.mean((1, 2, 3), keepdim=True))[:, 0, 0]


def test_pixels_help_where_an_encoder_is_blind(tmp_path):
    pytest.importorskip("skops.io")
    folder = image_folder(tmp_path / "photos", count=60, labeled=24)
    names = ("linear", "linear on pixels", "neighbours on pixels")
    default = default_base_models(read(folder, FitConfig(encoder=Blind(), size=8)))
    assert {*names, "label spreading on pixels"} <= {*default}
    options = {"encoder": Blind(), "size": 8, "keep_ensemble": True, "base_models": names}
    run = small_fit(folder, out=tmp_path / "run", **options)
    truth = ["day" if int(name[:2]) % 2 else "night" for name in run.labels["file"]]
    assert run.labels["label"].to_list() == truth
    alone = small_fit(folder, **options | {"base_models": "linear", "keep_ensemble": False})
    assert np.mean(alone.labels["label"].to_numpy() != truth) > 0.15
    again = labelgrad.load(tmp_path / "run", encoder=Blind())
    one, two = (each.predict(folder, ensemble=True).prediction for each in (run, again))
    np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="'linear on pixels' needs features of an encoder"):
        small_fit(folder, encoder="none", size=8, base_models="linear on pixels")
