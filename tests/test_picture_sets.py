"""Picture data sets: every pixel where it belongs, and one sentence for every bad file."""

import gzip
import hashlib
import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from labelgrad.datasets import cifar10, fashion_mnist, svhn
from labelgrad.datasets.cifar10 import records
from labelgrad.datasets.fashion_mnist import read_idx
from labelgrad.datasets.files import RemoteFile
from labelgrad.datasets.picture_sets import load
from labelgrad.datasets.svhn import read_mat

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
    away = (RemoteFile(f"{NOWHERE}/{f.name}", "md5:0", 1) for f in fashion_mnist.PUBLISHED)
    monkeypatch.setattr(fashion_mnist, "PUBLISHED", tuple(away))
    return arrays


def batch(first: int) -> bytes:
    """Two records whose pixel at (channel, row, column) of picture i is known; see `pixel`."""
    rows = [[first + i] + [pixel(first + i, *at) for at in np.ndindex(3, 32, 32)] for i in (0, 1)]
    return bytes(value for row in rows for value in row)


def pixel(picture: int, channel: int, row: int, column: int) -> int:
    return (100 * channel + 3 * row + column + picture) % 256


def small_cifar(home: Path, monkeypatch) -> dict[str, bytes]:
    """The six batches, two pictures each, with classes 0 and 1, 1 and 2, and so on."""
    home.mkdir(parents=True)
    batches = {name: batch(index) for index, name in enumerate(cifar10.CHECKSUMS)}
    monkeypatch.setattr(cifar10, "CHECKSUMS", {n: sha256(data) for n, data in batches.items()})
    away = RemoteFile(f"{NOWHERE}/cifar-10-binary.tar.gz", "md5:0", 1)
    monkeypatch.setattr(cifar10, "PUBLISHED", away)
    return batches


def write_archive(path: Path, batches: dict[str, bytes], inner="cifar-10-batches-bin") -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in {"readme.html": b"<html>", **batches}.items():
            member = tarfile.TarInfo(f"{inner}/{name}")
            member.size = len(data)
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


def test_missing_pictures_of_fashion_mnist_are_named_with_folder_and_source(tmp_path, monkeypatch):
    small_fashion(tmp_path, monkeypatch)
    (tmp_path / "fashion-mnist" / "t10k-images-idx3-ubyte.gz").unlink()
    with pytest.raises(OSError, match=r"^t10k-images-idx3-ubyte\.gz could not be") as caught:
        load("fashion-mnist", tmp_path)
    place, address = tmp_path / "fashion-mnist", f"{NOWHERE}/t10k-images-idx3-ubyte.gz"
    assert str(caught.value).endswith(f"put this file into {place} yourself: {address}.")


def test_other_pictures_than_fashion_mnists_are_refused(tmp_path, monkeypatch):
    arrays = small_fashion(tmp_path, monkeypatch)
    path = tmp_path / "fashion-mnist" / "train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(idx(arrays["train-labels-idx1-ubyte"] - 1)))
    with pytest.raises(ValueError, match=r"train-labels-idx1-ubyte\.gz must have the checksum"):
        load("fashion-mnist", tmp_path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "must be an idx file of unsigned bytes"),
        (b"<html>", "must be an idx file of unsigned bytes"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 1]) + bytes(4), "must be an idx file of unsigned bytes"),
        (idx(np.zeros((2, 3)))[:6], "ends before the lengths of its 2 axes"),
        (idx(np.zeros((2, 3)))[:-1], r"must have 18 bytes for its \[2, 3\] numbers, got 17"),
        (idx(np.zeros((2, 3))) + b"x", r"must have 18 bytes for its \[2, 3\] numbers, got 19"),
    ],
)
def test_a_bad_idx_file_is_one_sentence(tmp_path, data, said):
    path = tmp_path / "labels"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"labels {said}"):
        read_idx(path)


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin"])
def test_cifar10_is_read_from_its_batches(tmp_path, monkeypatch, inner):
    for name, data in small_cifar(tmp_path / "cifar-10" / inner, monkeypatch).items():
        (tmp_path / "cifar-10" / inner / name).write_bytes(data)
    check_small_cifar(tmp_path)


def test_cifar10_is_read_from_its_archive_and_nothing_is_unpacked(tmp_path, monkeypatch):
    home = tmp_path / "cifar-10"
    batches = small_cifar(home, monkeypatch)
    write_archive(home / "cifar-10-binary.tar.gz", dict(reversed(batches.items())))
    check_small_cifar(tmp_path)
    assert [path.name for path in home.iterdir()] == ["cifar-10-binary.tar.gz"]


def test_a_bad_archive_is_one_sentence(tmp_path, monkeypatch):
    home = tmp_path / "cifar-10"
    batches = small_cifar(home, monkeypatch)
    path = home / "cifar-10-binary.tar.gz"
    write_archive(path, batches)
    whole = path.read_bytes()
    for bad in (whole[: len(whole) // 2], b"<html>", b"", gzip.compress(b"no tar" * 200)):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"cifar-10-binary\.tar\.gz .*delete it and try again"):
            load("cifar10", tmp_path)
    write_archive(path, {**batches, "test_batch.bin": batches["data_batch_1.bin"]})
    with pytest.raises(ValueError, match=r"test_batch\.bin in .*tar\.gz must have the checksum"):
        load("cifar10", tmp_path)
    write_archive(path, batches, inner="../elsewhere")
    with pytest.raises(ValueError, match=r"tar\.gz has no cifar-10-batches-bin/data_batch_1\.bin"):
        load("cifar10", tmp_path)


def test_a_link_in_the_archive_is_not_followed(tmp_path, monkeypatch):
    home = tmp_path / "cifar-10"
    batches = small_cifar(home, monkeypatch)
    path = home / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in batches.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(data)
            if name == "test_batch.bin":
                member.type, member.linkname, member.size = tarfile.LNKTYPE, "data_batch_1.bin", 0
            archive.addfile(member, io.BytesIO(data))
    with pytest.raises(ValueError, match=r"tar\.gz has no cifar-10-batches-bin/test_batch\.bin;"):
        load("cifar10", tmp_path)


def test_a_missing_or_changed_batch_is_named(tmp_path, monkeypatch):
    home = tmp_path / "cifar-10"
    for name, data in small_cifar(home, monkeypatch).items():
        (home / name).write_bytes(data)
    (home / "data_batch_3.bin").write_bytes(batch(2)[:-1])
    with pytest.raises(ValueError, match=r"data_batch_3\.bin must have the checksum .* 6,145 byt"):
        load("cifar10", tmp_path)
    (home / "data_batch_3.bin").unlink()
    with pytest.raises(
        OSError, match=r"cifar-10 lacks data_batch_3\.bin, and cifar-10-binary\.tar"
    ):
        load("cifar10", tmp_path)


def test_a_batch_that_is_missing_is_taken_from_the_archive(tmp_path, monkeypatch):
    home = tmp_path / "cifar-10"
    batches = small_cifar(home, monkeypatch)
    (home / "data_batch_1.bin").write_bytes(batches["data_batch_1.bin"])
    write_archive(home / "cifar-10-binary.tar.gz", batches)
    check_small_cifar(tmp_path)


def test_without_any_batch_the_archive_is_asked_for(tmp_path, monkeypatch):
    small_cifar(tmp_path / "cifar-10", monkeypatch)
    with pytest.raises(OSError, match=r"cifar-10 yourself: .*/cifar-10-binary\.tar\.gz\.$"):
        load("cifar10", tmp_path)


def test_bad_records_are_one_sentence():
    for bad in (b"", batch(0)[:-1]):
        with pytest.raises(ValueError, match=r"one\.bin must be pictures of 3,073 bytes each"):
            records(bad, "one.bin")
    with pytest.raises(ValueError, match=r"one\.bin must have classes from 0 to 9, got 10"):
        records(batch(9), "one.bin")


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
    for part in ("TRAIN", "TEST"):
        name = getattr(svhn, part).name
        digits_file(home / name)
        checksum = sha256((home / name).read_bytes())
        monkeypatch.setattr(svhn, part, RemoteFile(f"{NOWHERE}/{name}", checksum, 1))
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
    with pytest.raises(FileNotFoundError, match=r"no rebuilt file .*train_32x32\.mat"):
        load("svhn", tmp_path, rebuilt=True)
    for part in ("TRAIN", "TEST"):
        digits_file(home / getattr(svhn, part).name)
    with pytest.raises(ValueError, match="each digit as often as the authors' has"):
        load("svhn", tmp_path, rebuilt=True)
    found = torch.bincount(read_mat(home / svhn.TRAIN.name)[1], minlength=10)
    counts = dict.fromkeys(("train", "test"), tuple(found.tolist()))
    monkeypatch.setattr(svhn, "COUNTS", counts)
    assert len(load("svhn", tmp_path, rebuilt=True).train[1]) == int(found.sum())
    with pytest.raises(ValueError, match="only svhn can be read from rebuilt files"):
        load("cifar10", tmp_path, rebuilt=True)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"y": None}, "must have the variables X and y, got no y"),
        ({"X": None}, "must have the variables X and y, got no X"),
        ({"X": np.zeros((3, 32, 32, 3), np.uint8)}, "must have an X of 32×32×3×count bytes"),
        ({"X": np.zeros((32, 32, 3, 3))}, "must have an X of 32×32×3×count bytes"),
        ({"y": np.ones((2, 1))}, "must have an X of 32×32×3×count bytes"),
        ({"y": np.array([[0], [1], [2]])}, "must have classes from 1 to 10, got 0 to 2"),
        ({"y": np.array([[1.5], [1], [2]])}, "must have classes from 1 to 10"),
    ],
)
def test_other_matlab_files_are_one_sentence(tmp_path, changed, said):
    digits_file(tmp_path / "train.mat", **changed)
    with pytest.raises(ValueError, match=rf"train\.mat {said}"):
        read_mat(tmp_path / "train.mat")


def test_a_matlab_file_that_is_damaged_or_of_another_version_is_one_sentence(tmp_path):
    path = tmp_path / "train.mat"
    digits_file(path)
    whole = path.read_bytes()
    for bad in (
        b"",
        whole[:100],
        whole[: len(whole) // 2],
        whole[:150] + bytes(50),
        b"<html>" * 99,
    ):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"train\.mat (is cut off|must have)"):
            read_mat(path)
    hdf5 = b"\x89HDF\r\n\x1a\n"
    for bad in (hdf5 + bytes(600), b"MATLAB 7.3 MAT-file".ljust(512) + hdf5 + bytes(600)):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"train\.mat must be a MATLAB file of version 5, got"):
            read_mat(path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cifar-10", "did you mean 'cifar10'?"),
        ("CIFAR10", "did you mean 'cifar10'?"),
        ("fashion_mnist", "did you mean 'fashion-mnist'?"),
        ("shvn", "did you mean 'svhn'?"),
        ("imagenet", "there are cifar10, svhn, fashion-mnist, digits."),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(name, said):
    with pytest.raises(ValueError, match=f"there is no picture set '{name}'") as caught:
        load(name)
    assert str(caught.value).endswith(said)


class Payload:
    """An object that touches a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_is_not_opened(tmp_path):
    path, touched = tmp_path / "data.bin", tmp_path / "touched"
    path.write_bytes(pickle.dumps(Payload(touched)))
    for read in (read_idx, read_mat, lambda path: records(path.read_bytes(), path.name)):
        with pytest.raises(ValueError, match=r"data\.bin (is|must be)"):
            read(path)
    assert not touched.exists()
    pickle.loads(path.read_bytes())
    assert touched.exists()  # the trap works


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
