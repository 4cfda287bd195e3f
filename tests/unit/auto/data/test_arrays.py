import json
from dataclasses import asdict

import numpy as np
import pytest

from labelgrad import FitConfig
from labelgrad.auto.data.dataset import preprocessor_from_dict, read

rng = np.random.default_rng(0)
Y = np.array([0, 1, -1, -1])
CONFIG = FitConfig()


def again(found, x):
    saved = json.loads(json.dumps(asdict(found.preprocessor)))
    return preprocessor_from_dict(saved).transform(x, CONFIG).examples


def test_columns_are_standardized_and_new_rows_alike():
    x = rng.normal(size=(4, 3)) * [1, 10, 100]
    x[0, 1] = np.nan
    found = read(x, Y)
    assert found.X.shape == (4, 4)
    np.testing.assert_allclose(found.X[:, [0, 3]].std(0), 1, rtol=1e-5)
    np.testing.assert_array_equal(found.X[:, 2], np.isnan(x[:, 1]))
    np.testing.assert_array_equal(again(found, x).X, found.X)
    assert list(found.ids) == ["1", "2", "3", "4"]
    with pytest.raises(ValueError, match=r"rows of the shape \(3,\)"):
        again(found, x[:, :2])


@pytest.mark.parametrize("shape", [(4, 8, 8), (4, 3, 8, 8), (4, 8, 8, 3)])
def test_images_in_8_bits_are_raw(shape):
    x = rng.integers(0, 256, shape, dtype=np.uint8)
    found = read(x, Y)
    channels = 1 if len(shape) == 3 else 3
    assert found.raw.shape == (4, channels, 8, 8)
    assert found.X.shape == (4, channels * 64)
    expected = x[:, None] if len(shape) == 3 else np.moveaxis(x, 3, 1) if shape[3] == 3 else x
    np.testing.assert_array_equal(found.raw, expected)
    np.testing.assert_array_equal(again(found, x).raw, found.raw)


def test_other_images_are_scaled_to_8_bits():
    x = rng.normal(size=(4, 8, 8))
    found = read(x, Y)
    assert found.raw.min() == 0
    assert found.raw.max() == 255
    np.testing.assert_array_equal(again(found, x).raw, found.raw)


def test_npz_files(tmp_path):
    x = rng.normal(size=(4, 2))
    np.savez(tmp_path / "a.npz", x=x, y=Y)
    found = read(tmp_path / "a.npz")
    np.testing.assert_array_equal(found.X, read(x, Y).X)
    new = found.preprocessor.transform(tmp_path / "a.npz", CONFIG)
    np.testing.assert_array_equal(new.examples.X, found.X)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": np.zeros((4, 2))}, "has no array 'y'"),
        ({"x": np.array([{}] * 4), "y": Y}, "Python objects in `x`"),
        ({"x": np.zeros((4, 2)), "y": Y}, "no column to learn from"),
        ({"x": np.array(["a"] * 4)[:, None], "y": Y}, "`x` must hold numbers"),
        ({"x": np.zeros(4), "y": Y}, "must be"),
        ({"x": np.zeros((4, 2, 5, 5)), "y": Y}, "1 or 3 channels"),
    ],
)
def test_npz_files_that_are_refused(tmp_path, arrays, sentence):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=sentence):
        read(tmp_path / "a.npz")


def test_damaged_npz_files_are_one_sentence(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((4, 2)), y=Y)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="cannot be read as an"):
        read(path)
