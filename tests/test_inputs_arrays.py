"""An .npz file is a table or pictures by its dimensions, and nothing in it is ever run."""

import io
import json
import zipfile

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from labelgrad.inputs.base import Scale
from labelgrad.inputs.columns import row_scale
from labelgrad.inputs.kinds import kind_named, prepare, read, read_inputs

RANDOM = np.random.default_rng(0)
COLUMNS = RANDOM.normal(5, 3, (12, 4))
LABELS = np.array([0, 1, 2] * 3 + [-1] * 3)


@pytest.fixture
def npz(tmp_path):
    def write(name="data.npz", **arrays):
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return write


def test_two_dimensions_are_a_standardized_table(npz):
    source = read(npz(x=COLUMNS, y=LABELS))
    expected = (COLUMNS - COLUMNS.mean(0)) / COLUMNS.std(0) * 3 / np.sqrt(4)
    torch.testing.assert_close(source.x, torch.tensor(expected, dtype=torch.float32))
    assert source.y.tolist() == LABELS.tolist()
    assert (source.kind, source.task, source.classes) == (
        "arrays",
        "classification",
        ("0", "1", "2"),
    )
    assert source.names[0] == "0"
    assert "-1 in `y` means unlabeled: 3 rows." in source.notes


def test_missing_values_are_treated_as_in_a_table(npz):
    x = COLUMNS.copy()
    x[2, 1] = np.nan
    source = read(npz(x=x, y=LABELS))
    assert source.x.shape == (12, 5)
    known = np.delete(x[:, 1], 2)
    unit = 3 / np.sqrt(5)
    expected = unit * (np.median(known) - known.mean()) / known.std()
    assert source.x[2, 1].item() == pytest.approx(expected)
    assert source.x[:, 2].tolist() == pytest.approx([0, 0, unit, *[0] * 9])
    x[2, 1] = np.inf
    assert torch.equal(read(npz(x=x, y=LABELS)).x, source.x)


def estimator_rows(x):
    """What `LGAClassifier` makes of its X."""
    mean, scale = row_scale(x)
    return ((x.astype(np.float64) - mean) / scale).astype(np.float32)


@pytest.mark.parametrize(
    "x",
    [
        COLUMNS,
        COLUMNS.astype(np.float32),
        np.hstack([COLUMNS, np.ones((12, 2)), np.arange(12)[:, None]]),  # constant, and counting
        load_digits().data,
        load_digits().data.astype(np.uint8),
        COLUMNS > 5,
    ],
)
def test_every_column_is_kept_and_scaled_as_the_estimators_do(x):
    inputs, source = read_inputs(x), read(x, np.arange(len(x)) % 3)
    assert np.array_equal(inputs.x.numpy(), estimator_rows(x))
    assert torch.equal(source.x, inputs.x)
    assert inputs.preprocessing.items() <= source.preprocessing.items()
    stored = json.loads(json.dumps(inputs.preprocessing))
    assert torch.equal(prepare(stored, x).x, inputs.x)
    assert kind_named("arrays").transform(inputs.preprocessing, inputs.x) == Scale(1.0, 0.0)


def test_numbers_of_any_size_stay_finite():
    x = COLUMNS.copy()
    x[:, 0] = np.resize([1e308, -1e308, 1.7e308], 12)
    x[:, 1] = np.resize([1e-320, 0], 12)
    x[:, 2] = np.nan
    inputs = read_inputs(x)
    assert inputs.x.isfinite().all()
    assert inputs.x.shape == (12, 5)
    assert inputs.x[:, 0].std() > 0


def test_arrays_without_a_column_that_varies_are_refused_only_with_labels():
    assert read_inputs(np.ones((3, 2))).x.tolist() == [[0, 0]] * 3


def test_pictures_in_arrays_behave_as_pictures_and_rows_as_tables():
    arrays, pictures, table = map(kind_named, ("arrays", "pictures", "table"))
    assert arrays.defaults((3, 8, 8)) == pictures.defaults((3, 8, 8))
    assert arrays.defaults((5,)) == table.defaults((5,))
    x = RANDOM.random((12, 8, 8)) * 4 - 1
    source = read(x, LABELS)
    scale = arrays.transform(source.preprocessing, source.x[:2])  # whichever rows are at hand
    seen = scale(source.x)
    assert (seen.min().item(), seen.max().item()) == pytest.approx((-1, 1))
    assert arrays.show(source.preprocessing, source.x[0].numpy()) == (None, [])
    whole = read((255 * RANDOM.random((12, 8, 8))).astype(np.uint8), LABELS)
    assert arrays.transform(whole.preprocessing, whole.x) == Scale(2 / 255, -1.0)
    assert arrays.show(whole.preprocessing, whole.x[0].numpy()).picture.shape == (1, 8, 8)
    assert arrays.columns(whole.preprocessing) == []
    rows = read(COLUMNS.round(2), LABELS)
    assert arrays.columns(rows.preprocessing) == ["0", "1", "2", "3"]
    shown = arrays.show(rows.preprocessing, rows.x[3].numpy()).cells
    assert shown == [f"{value:.15g}" for value in COLUMNS[3].round(2)]
    outputs = torch.rand(12, 3)
    assert torch.equal(arrays.near(whole.x, outputs), outputs)
    assert torch.equal(arrays.near(rows.x, outputs), rows.x)


@pytest.mark.parametrize(
    ("y", "task", "unlabeled"),
    [
        (np.array([0.5, np.nan, 3.0, -1.0]), "regression", 1),
        (np.array([0.5, 2.0, 3.0, -1.0]), "regression", 0),
        (np.array([0.0, 1.0, 1.0, -1.0]), "classification", 1),
        (np.array([0.0, 1.0, 1.0, np.nan]), "classification", 1),
        (np.array(["a", "b", "", "a"]), "classification", 1),
        (np.array([True, False, True, True]), "classification", 0),
        (np.array([[0], [1], [1], [-1]], dtype=np.int8), "classification", 1),
        (np.array([0, 1, 1, 0], dtype=np.uint8), "classification", 0),
        (np.array([-5, -1, 70, 30]), "regression", 1),
    ],
)
def test_what_means_unlabeled(npz, y, task, unlabeled):
    source = read(npz(x=COLUMNS[:4], y=y))
    assert (source.task, source.summary["unlabeled"]) == (task, unlabeled)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((12, 8, 6), (12, 1, 8, 6)), ((12, 3, 8, 6), (12, 3, 8, 6)), ((12, 8, 6, 3), (12, 3, 8, 6))],
)
def test_three_and_four_dimensions_are_pictures(npz, shape, expected):
    x = RANDOM.integers(0, 256, shape)
    source = read(npz(x=x, y=LABELS))
    assert source.x.shape == expected
    assert source.x.dtype == torch.uint8
    moved = x.transpose(0, 3, 1, 2) if shape[-1] == 3 else x
    assert np.array_equal(source.x.numpy().reshape(-1), moved.reshape(-1))
    floats = read(npz(x=x / 255, y=LABELS))
    assert floats.x.dtype == torch.float32
    assert read(npz(x=x * 100, y=LABELS)).x.dtype == torch.float32


@pytest.mark.parametrize("shape", [(12, 4), (12, 8, 6), (12, 5, 5, 1)])
def test_new_rows_are_treated_like_the_old(npz, shape):
    x = RANDOM.integers(0, 256, shape)
    source = read(npz(x=x, y=LABELS))
    preprocessing = json.loads(json.dumps(source.preprocessing))
    again = prepare(preprocessing, npz("new.npz", x=x[3:]))
    assert torch.equal(again.x, source.x[3:])
    assert again.names == [str(row) for row in range(9)]
    with pytest.raises(ValueError, match=r"rows of the shape .*, as for training, got"):
        prepare(preprocessing, npz("new.npz", x=np.zeros((2, 9, 9))))


def test_new_pictures_must_have_the_same_range(npz):
    source = read(npz(x=RANDOM.integers(0, 256, (12, 4, 4)), y=LABELS))
    with pytest.raises(
        ValueError, match="whole numbers from 0 to 255, as for training, got float64"
    ):
        prepare(source.preprocessing, npz("new.npz", x=RANDOM.random((2, 4, 4))))


def test_the_order_of_bytes_and_axes_in_the_file_does_not_matter(npz):
    fortran = read(npz(x=np.asfortranarray(COLUMNS), y=LABELS))
    assert torch.equal(fortran.x, read(npz(x=COLUMNS, y=LABELS)).x)
    big_endian = read(npz(x=COLUMNS.astype(">f8"), y=LABELS.astype(">i4")))
    assert torch.equal(big_endian.x, fortran.x)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": COLUMNS}, "data.npz has no array 'y'; it has 'x'"),
        ({"y": LABELS, "z": LABELS}, "data.npz has no array 'x'; it has 'y', 'z'"),
        ({"x": COLUMNS, "y": LABELS[:5]}, "one label for each of the 12 rows"),
        ({"x": COLUMNS[:, 0], "y": LABELS}, r"must be \(rows, columns\), .* got the shape \(12,\)"),
        ({"x": COLUMNS[:0], "y": LABELS[:0]}, "not empty"),
        ({"x": np.zeros((12, 5, 5, 7)), "y": LABELS}, "must have 1 or 3 channels"),
        ({"x": np.full((12, 2, 2), np.nan), "y": LABELS}, "must be finite in 32 bits, got NaN"),
        ({"x": np.full((12, 2, 2), 1e300), "y": LABELS}, "got NaN or infinity"),
        ({"x": np.zeros((12, 2)), "y": LABELS}, "no column to learn from. .*always the same"),
        ({"x": COLUMNS.astype(str), "y": LABELS}, "`x` in data.npz must hold numbers, got <U"),
        ({"x": COLUMNS + 0j, "y": LABELS}, "must hold numbers, got complex128"),
        ({"x": COLUMNS, "y": LABELS + 0j}, "`y` in data.npz must hold numbers or text"),
        ({"x": COLUMNS, "y": np.full(12, -1)}, "has no label at all"),
        ({"x": COLUMNS, "y": np.zeros(12, int)}, "only one class, '0'"),
        ({"x": COLUMNS.astype(object), "y": LABELS}, "has Python objects in `x`"),
        ({"x": COLUMNS, "y": LABELS.astype(object)}, "has Python objects in `y`"),
    ],
)
def test_bad_arrays_are_one_sentence(npz, arrays, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(npz(**arrays))
    assert "\n" not in str(caught.value)


def header(shape, dtype="|u1"):
    file = io.BytesIO()
    described = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, described)
    return file.getvalue()


def test_files_that_lie_about_their_size_take_no_memory(tmp_path):
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header((10**13, 10)) + b"12345")
        archive.writestr("y.npy", header((1,)) + b"1")
    with pytest.raises(ValueError, match="`x` that does not have the size its header says"):
        read(path)


def test_a_file_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("labelgrad.inputs.arrays.LARGE", 2**16)
    np.savez_compressed(tmp_path / "data.npz", x=np.zeros((2000, 1000), np.uint8), y=LABELS)
    with pytest.raises(ValueError, match=r"unpacks `x` from .* bytes to 2000128: too much"):
        read(tmp_path / "data.npz")


@pytest.mark.parametrize(
    "content", [b"", b"not a zip", b"\x80\x04K\x01.", b"PK\x05\x06" + b"\0" * 18]
)
def test_what_is_no_npz_file_is_said(tmp_path, content):
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"data.npz (cannot be read as an .npz file|has no array)"):
        read(tmp_path / "data.npz")


def test_options_of_others_are_refused(npz):
    with pytest.raises(ValueError, match="`target` is for table"):
        read(npz(x=COLUMNS, y=LABELS), target="y")
