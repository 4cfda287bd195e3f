"""Folders of texts."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from labelgrad import FitConfig
from labelgrad.auto.data.folders import TextPreprocessor

CONFIG = FitConfig(encoder="none")


def letters(folder, count=24):
    rng = np.random.default_rng(0)
    words = {"good": ["warm", "kind", "tasty"], "bad": ["cold", "rude", "stale"]}
    for i in range(count):
        kind = ["good", "bad"][i % 2]
        place = folder / (kind if i < 12 else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        text = f"it was {' and '.join(rng.choice(words[kind], 3))}"
        (place / f"{i:02d}.txt").write_text(text)
    return folder


def read(folder, config=CONFIG):
    return TextPreprocessor.read(folder, None, config)


def test_a_folder_of_texts_becomes_features_with_labels(tmp_path):
    folder = letters(tmp_path / "letters")
    assert TextPreprocessor.takes(folder)
    dataset = read(folder)
    assert dataset.task.classes == ("bad", "good")
    assert dataset.is_labeled.sum() == 12
    assert dataset.has_encoded_features
    assert list(dataset.encoders) == ["tf-idf"]
    assert dataset.X.var(0).mean() == pytest.approx(1, abs=0.01)
    saved = json.loads(json.dumps(asdict(dataset.preprocessor)))
    again = TextPreprocessor.from_dict(saved).transform(folder, CONFIG)
    assert np.array_equal(again.examples.X, dataset.X)
    assert list(again.ids) == list(dataset.ids)
    one = dataset.preprocessor.transform(folder / dataset.ids[3], CONFIG)
    assert pytest.approx(dataset.X[3:4], abs=1e-5) == one.examples.X


def test_a_folder_with_images_is_not_taken(tmp_path):
    folder = letters(tmp_path / "letters")
    (folder / "photo.jpg").write_text("")
    assert not TextPreprocessor.takes(folder)
    assert not TextPreprocessor.takes(tmp_path / "none")
    assert not TextPreprocessor.takes(np.zeros(3))


def test_encodings_are_recognized_and_others_are_skipped(tmp_path):
    folder = letters(tmp_path / "letters")
    text = (folder / "good" / "00.txt").read_text()
    for encoding in ("utf-16", "utf-8-sig"):
        (folder / "good" / f"{encoding}.md").write_text(text, encoding=encoding)
    (folder / "bad" / "latin.txt").write_bytes("schön".encode("latin-1"))
    (folder / "bad" / "binary.txt").write_bytes(b"a\0b")
    dataset = read(folder)
    rows = [list(dataset.ids).index(f"good/{name}") for name in ("00.txt", "utf-16.md")]
    assert np.array_equal(dataset.X[rows[0]], dataset.X[rows[1]])
    assert dict(dataset.skipped) == {
        "bad/binary.txt": "not a text: it contains a zero byte",
        "bad/latin.txt": "not UTF-8; save it as UTF-8",
    }
    with pytest.raises(ValueError, match="cannot be read: not"):
        read(folder, FitConfig(encoder="none", strict=True))


def test_texts_without_words_are_refused(tmp_path):
    for name in ("a/1.txt", "b/2.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(" \n")
    with pytest.raises(ValueError, match=r"Nothing can be learned from .*no words"):
        read(tmp_path)
