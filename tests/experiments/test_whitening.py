"""Whitening: what happens to the covariance, direction by direction, and a cache to be trusted."""

import numpy as np
import pytest
import torch

from experiments.datasets import whitening
from experiments.datasets.whitening import ZCA, fit_once, from_bytes, normalize_contrast

SHAPE = (2, 3, 4)


def images(count=3000, seed=0):
    """Bytes whose neighbouring pixels are alike, so that some directions have little variance."""
    generator = torch.Generator().manual_seed(seed)
    rough = torch.randn(count, *SHAPE, generator=generator)
    smooth = rough.cumsum(-1).cumsum(-2) + 0.01 * rough
    return (128 + 12 * smooth).clamp(0, 255).to(torch.uint8)


def covariance(x):
    return np.cov(x.flatten(1).double().numpy(), rowvar=False)


def test_bytes_from_minus_one_to_one():
    scaled = from_bytes(torch.arange(256, dtype=torch.uint8))
    assert (float(scaled[0]), float(scaled[255])) == (-1.0, 1.0)
    assert torch.allclose(scaled.diff(), torch.full((255,), 2 / 255), atol=1e-6)
    with pytest.raises(ValueError, match=r"needs bytes .* got torch.float32"):
        from_bytes(torch.zeros(3))


def test_contrast_picture_by_picture():
    x = images(20)
    for before, after in zip(x.double().numpy(), normalize_contrast(x).numpy(), strict=True):
        centred = before - before.mean()
        assert np.allclose(after, 55 * centred / np.linalg.norm(centred), atol=1e-5)


def test_a_picture_of_one_grey_is_zero_and_not_rounding_made_large():
    for grey in (torch.full((1, *SHAPE), 77, dtype=torch.uint8), torch.full((1, *SHAPE), 0.1)):
        assert normalize_contrast(grey).abs().max() < 1e-4


def test_bytes_and_scaled_bytes_are_whitened_alike():
    x = images()
    whiten = ZCA.fit(x)
    assert torch.allclose(whiten(x), whiten(from_bytes(x)), atol=1e-3)


@pytest.mark.parametrize("regularizer", [0.1, 10.0])
def test_variance_goes_from_v_to_v_over_v_plus_regularizer(regularizer):
    x = images()
    values, vectors = np.linalg.eigh(covariance(normalize_contrast(x)))
    after = vectors.T @ covariance(ZCA.fit(x, regularizer)(x)) @ vectors
    assert values.min() < 0.1 < 100 < values.max()  # both kinds of direction are there
    assert np.allclose(after, np.diag(values / (values + regularizer)), atol=1e-4)


def test_the_matrix_is_symmetric_and_the_mean_is_taken_away():
    x = images()
    whiten = ZCA.fit(x)
    assert torch.equal(whiten.matrix, whiten.matrix.T)
    assert (torch.linalg.eigvalsh(whiten.matrix) > 0).all()
    assert whiten(x).mean(0).abs().max() < 1e-4


def test_pieces_make_no_difference(monkeypatch):
    x = images(101)
    whole = ZCA.fit(x)
    monkeypatch.setattr(whitening, "PIECE", 10)
    pieces = ZCA.fit(x)
    assert torch.allclose(pieces.matrix, whole.matrix, atol=1e-6)
    assert torch.allclose(pieces(x), whole(x), atol=1e-4)
    assert torch.allclose(torch.cat([whole(one) for one in x.split(1)]), whole(x), atol=1e-4)


def test_the_second_time_nothing_is_fitted(tmp_path, monkeypatch):
    x = images()
    first = fit_once(x, tmp_path / "new")
    monkeypatch.setattr(ZCA, "fit", None)
    second = fit_once(x, tmp_path / "new")
    assert torch.equal(first(x), second(x))
    assert torch.equal(first(x), ZCA.load(next((tmp_path / "new").iterdir()))(x))


def test_other_images_or_another_regularizer_are_fitted_on_their_own(tmp_path):
    x = images()
    changed = x.clone()
    changed[7, 0, 0, 0] += 1
    for data, regularizer in ((x, 0.1), (changed, 0.1), (x, 0.2), (x.view(-1, 3, 2, 4), 0.1)):
        found, fitted = fit_once(data, tmp_path, regularizer), ZCA.fit(data, regularizer)
        assert torch.equal(found.mean, fitted.mean)
        assert torch.equal(found.matrix, fitted.matrix)
    assert len(list(tmp_path.iterdir())) == 4


def flip_a_bit(data):
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


@pytest.mark.parametrize("damage", [flip_a_bit, lambda data: data[:-100], lambda _: b""])
def test_a_damaged_file_is_an_error_alone_and_replaced_in_a_cache(tmp_path, damage):
    x = images()
    first = fit_once(x, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"whitening in .* cannot be used .* remove the file"):
        ZCA.load(path)
    assert torch.equal(fit_once(x, tmp_path).matrix, first.matrix)
    assert list(tmp_path.iterdir()) == [path]
    assert torch.equal(ZCA.load(path).matrix, first.matrix)


def test_a_file_under_the_name_of_another_is_not_used(tmp_path):
    x, other = images(), images(seed=1)
    fit_once(x, tmp_path)
    (path,) = tmp_path.iterdir()
    ZCA.fit(other).save(path, of="other images")
    assert torch.equal(fit_once(x, tmp_path).matrix, ZCA.fit(x).matrix)


def test_a_folder_that_is_a_file_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"could not be written .*; nothing was left"):
        fit_once(images(), tmp_path / "file")
