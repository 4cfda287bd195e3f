"""Picture data sets: every pixel where it belongs, and one sentence for every bad file."""

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from experiments.datasets import cifar10, fashion_mnist, svhn
from experiments.datasets.image_sets import load
from experiments.datasets.svhn import read_mat

NOWHERE = "http://127.0.0.1:1"  # a port where nobody answers


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def small_fashion(folder: Path, monkeypatch, *, packed=True):
    """Three pictures to train with and two for the test, 4 high and 5 wide; returns the arrays."""
    home = folder / "fashion-mnist"
    home.mkdir()
    arrays = {}
    for part, count in (("train", 3), ("t10k", 2)):
        arrays[f"{part}-images-idx3-ubyte"] = np.arange(count * 20).reshape(count, 4, 5) + count
        arrays[f"{part}-labels-idx1-ubyte"] = np.arange(count) + 7
    for name, array in arrays.items():
        data = idx(array)
        monkeypatch.setitem(fashion_mnist.CHECKSUMS, name, sha256(data))
        path = home / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(data) if packed else data)
    monkeypatch.setattr(fashion_mnist, "HOST", NOWHERE)
    return arrays


def batch(first: int) -> bytes:
    """Two records whose pixel at (channel, row, column) of picture i is known; see `pixel`."""
    rows = [[first + i] + [pixel(first + i, *at) for at in np.ndindex(3, 32, 32)] for i in (0, 1)]
    return bytes(value for row in rows for value in row)


def pixel(picture: int, channel: int, row: int, column: int) -> int:
    return (100 * channel + 3 * row + column + picture) % 256


@pytest.fixture
def archive(tmp_path) -> Path:
    """Where CIFAR-10's archive is looked for; nothing is there yet."""
    (tmp_path / "cifar-10").mkdir()
    return tmp_path / "cifar-10" / "cifar-10-binary.tar.gz"


@pytest.fixture
def batches(monkeypatch) -> dict[str, bytes]:
    """The six batches, two pictures each, with classes 0 and 1, 1 and 2, and so on."""
    found = {name: batch(index) for index, name in enumerate(cifar10.CHECKSUMS)}
    monkeypatch.setattr(cifar10, "CHECKSUMS", {n: sha256(data) for n, data in found.items()})
    monkeypatch.setattr(cifar10, "URL", f"{NOWHERE}/cifar-10-binary.tar.gz")
    return found


def write_archive(path: Path, batches, inner="cifar-10-batches-bin", link=None) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in {"readme.html": b"<html>", **batches}.items():
            member = tarfile.TarInfo(f"{inner}/{name}")
            member.size = len(data)
            if name == link:
                member.type, member.linkname, member.size = tarfile.LNKTYPE, "data_batch_1.bin", 0
            archive.addfile(member, io.BytesIO(data))


def check_small_cifar(folder: Path) -> None:
    pictures = load("cifar10", folder)
    assert pictures.train[0].shape == (10, 3, 32, 32)
    assert pictures.train[1].tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert pictures.test[1].tolist() == [5, 6]
    for x, y in (pictures.train, pictures.test):
        assert (x.dtype, y.dtype) == (torch.uint8, torch.int64)
        for picture, first in zip(x, y.tolist(), strict=True):
            for at in ((0, 0, 0), (0, 0, 31), (1, 0, 0), (2, 31, 7)):
                assert picture[at] == pixel(first, *at)


@pytest.mark.parametrize("packed", [True, False])
def test_fashion_mnist_is_read_packed_or_not(tmp_path, monkeypatch, packed):
    arrays = small_fashion(tmp_path, monkeypatch, packed=packed)
    pictures = load("fashion-mnist", tmp_path)
    assert pictures.classes[9] == "ankle boot"
    for (x, y), part in ((pictures.train, "train"), (pictures.test, "t10k")):
        assert (x.dtype, y.dtype) == (torch.uint8, torch.int64)
        assert np.array_equal(x[:, 0], arrays[f"{part}-images-idx3-ubyte"])
        assert np.array_equal(y, arrays[f"{part}-labels-idx1-ubyte"])
        assert x.shape[1] == 1


def test_other_pictures_than_fashion_mnists_are_refused(tmp_path, monkeypatch):
    arrays = small_fashion(tmp_path, monkeypatch)
    path = tmp_path / "fashion-mnist" / "train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(idx(arrays["train-labels-idx1-ubyte"] - 1)))
    with pytest.raises(ValueError, match=r"train-labels-idx1-ubyte\.gz must have the checksum"):
        load("fashion-mnist", tmp_path)


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin"])
def test_cifar10_is_read_from_its_batches(tmp_path, batches, inner):
    (tmp_path / "cifar-10" / inner).mkdir(parents=True)
    for name, data in batches.items():
        (tmp_path / "cifar-10" / inner / name).write_bytes(data)
    check_small_cifar(tmp_path)


def test_cifar10_is_read_from_its_archive_and_nothing_is_unpacked(tmp_path, archive, batches):
    write_archive(archive, dict(reversed(batches.items())))
    check_small_cifar(tmp_path)
    assert list(archive.parent.iterdir()) == [archive]


def test_a_bad_archive_is_one_sentence(tmp_path, archive, batches):
    write_archive(archive, batches)
    whole = archive.read_bytes()
    for bad in (whole[: len(whole) // 2], b"<html>", b"", gzip.compress(b"no tar" * 200)):
        archive.write_bytes(bad)
        with pytest.raises(ValueError, match=r"cifar-10-binary\.tar\.gz .*delete it and try again"):
            load("cifar10", tmp_path)
    write_archive(archive, {**batches, "test_batch.bin": batches["data_batch_1.bin"]})
    with pytest.raises(ValueError, match=r"test_batch\.bin in .*tar\.gz must have the checksum"):
        load("cifar10", tmp_path)
    write_archive(archive, batches, inner="../elsewhere")
    with pytest.raises(ValueError, match=r"tar\.gz has no data_batch_1\.bin"):
        load("cifar10", tmp_path)
    write_archive(archive, batches, link="test_batch.bin")
    with pytest.raises(ValueError, match=r"tar\.gz has no test_batch\.bin;"):
        load("cifar10", tmp_path)


def test_a_changed_batch_is_named_and_a_missing_one_taken_from_the_archive(
    tmp_path, archive, batches
):
    for name, data in batches.items():
        (archive.parent / name).write_bytes(data)
    changed = archive.with_name("data_batch_3.bin")
    changed.write_bytes(batch(2)[:-1])
    with pytest.raises(ValueError, match=r"data_batch_3\.bin must have the checksum .* 6,145 byt"):
        load("cifar10", tmp_path)
    changed.unlink()
    with pytest.raises(OSError, match=r"cifar-10-binary\.tar\.gz could not be downloaded"):
        load("cifar10", tmp_path)
    write_archive(archive, batches)
    check_small_cifar(tmp_path)


def digits_file(path: Path, **changed) -> None:
    """Three pictures of SVHN's form: X[row, column, channel, picture], and the classes."""
    x = np.fromfunction(
        lambda row, column, channel, i: (100 * channel + 3 * row + column + i) % 256, (32, 32, 3, 3)
    )
    whole = {"X": x.astype(np.uint8), "y": np.array([[1], [10], [9]], np.uint8)}
    variables = {name: value for name, value in {**whole, **changed}.items() if value is not None}
    savemat(path, variables, do_compression=True)


def test_svhn_is_read_upright_and_ten_is_zero(tmp_path, monkeypatch):
    home = tmp_path / "svhn"
    home.mkdir()
    for name in list(svhn.CHECKSUMS):
        digits_file(home / name)
        monkeypatch.setitem(svhn.CHECKSUMS, name, sha256((home / name).read_bytes()))
    pictures = load("svhn", tmp_path)
    for x, y in (pictures.train, pictures.test):
        assert (x.dtype, y.dtype, x.is_contiguous()) == (torch.uint8, torch.int64, True)
        assert x.shape == (3, 3, 32, 32)
        assert [pictures.classes[i] for i in y] == ["1", "0", "9"]
        for at in np.ndindex(3, 3, 32, 32):
            assert x[at] == pixel(*at)
    (home / "test_32x32.mat").write_bytes(b"changed")
    with pytest.raises(ValueError, match=r"test_32x32\.mat must have the checksum"):
        load("svhn", tmp_path)


def test_rebuilt_svhn_files_are_read_where_they_have_the_right_digits(tmp_path, monkeypatch):
    home = tmp_path / "svhn-rebuilt"
    home.mkdir()
    with pytest.raises(FileNotFoundError, match=r"train_32x32\.mat is missing"):
        load("svhn", tmp_path, rebuilt=True)
    for name in svhn.CHECKSUMS:
        digits_file(home / name)
    with pytest.raises(ValueError, match="each digit as often as the authors' file"):
        load("svhn", tmp_path, rebuilt=True)
    found = torch.bincount(read_mat(home / "train_32x32.mat")[1], minlength=10)
    counts = dict.fromkeys(svhn.CHECKSUMS, tuple(found.tolist()))
    monkeypatch.setattr(svhn, "COUNTS", counts)
    assert len(load("svhn", tmp_path, rebuilt=True).train[1]) == int(found.sum())
    with pytest.raises(ValueError, match="only svhn can be read from rebuilt files"):
        load("cifar10", tmp_path, rebuilt=True)


PUBLISHED = {  # of the training part: how many, and the mean of each channel as often quoted
    "cifar10": ("cifar-10", 50_000, 10_000, [0.4914, 0.4822, 0.4465]),
    "svhn": ("svhn", 73_257, 26_032, [0.4377, 0.4438, 0.4728]),
    "fashion-mnist": ("fashion-mnist", 60_000, 10_000, [0.2860]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_real_pictures_have_the_sizes_and_means_known_of_them(name):
    folder, trains, tests, means = PUBLISHED[name]
    if not (Path(os.environ.get("LABELGRAD_DATA", "")) / folder).is_dir():
        pytest.skip(f"LABELGRAD_DATA has no {folder}")
    pictures = load(name, os.environ["LABELGRAD_DATA"])
    assert (len(pictures.train[0]), len(pictures.test[0])) == (trains, tests)
    assert (len(pictures.train[1]), len(pictures.test[1])) == (trains, tests)
    assert pictures.train[1].unique().tolist() == list(range(10))
    got = pictures.train[0].float().mean((0, 2, 3)) / 255
    assert torch.allclose(got, torch.tensor(means), atol=5e-5)


def test_a_damaged_matlab_file_is_one_sentence(tmp_path):
    path = tmp_path / "train.mat"
    digits_file(path)
    whole = path.read_bytes()
    for bad in (b"", whole[:100], whole[: len(whole) // 2], b"<html>" * 99):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"train\.mat must be a MATLAB file of version 5"):
            read_mat(path)
    digits_file(path, y=None)
    with pytest.raises(ValueError, match="with the variables X and y"):
        read_mat(path)
