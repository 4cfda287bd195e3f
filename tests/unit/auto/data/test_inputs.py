"""Files and folders as people have them: one command each; unlabeled examples elsewhere."""

import numpy as np
import polars as pl
import pytest
from PIL import Image

from labelgrad import FitConfig, fit, load
from labelgrad.auto.data import sources
from labelgrad.auto.data.dataset import read
from labelgrad.auto.data.views import open_views
from tests.command import run_ok

ROWS, LABELED = 30, 12
QUICK = {"base_models": "linear", "steps": 5, "encoder": "none"}
FAST = ["--base-models", "linear", "--steps", "5", "--encoder", "none"]
NONE = FitConfig(encoder="none")
X = np.random.default_rng(0).normal(size=(ROWS, 2)).round(3)
TABLE = pl.DataFrame(
    {
        "a": X[:, 0],
        "b": X[:, 1],
        "kind": [
            ("yes" if x > 0 else "no") if i < LABELED else None for i, x in enumerate(X[:, 0])
        ],
    }
)


def image(path, bright):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(len(str(path))).integers(0, 100, (8, 8), dtype=np.uint8)
    Image.fromarray(pixels + (120 if bright else 0)).save(path)


def text(path, bright):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"The {'bright sun' if bright else 'dark moon'} over {path.stem} and more.")


WRITE = {"png": image, "txt": text}


@pytest.mark.parametrize("suffix", ["png", "txt"])
def test_one_command_fits_a_folder_with_train_and_test(tmp_path, suffix):
    data, write = tmp_path / "data", WRITE[suffix]
    for number in range(8):
        write(data / "train" / "bright" / f"{number}.{suffix}", True)
        write(data / "train" / "dark" / f"{number}.{suffix}", False)
        write(data / "test" / "bright" / f"{number}.{suffix}", True)
        write(data / "Val" / "dark" / f"{number}.{suffix}", False)
        write(data / "unlabeled" / f"{number}.{suffix}", number % 2)
    output = " ".join(run_ok(["fit", data, *FAST, "--out", tmp_path / "run"]).split())
    assert "The classes are the sub-folders of 'train'." in output
    assert "test on them (labelgrad predict): 'Val', 'test'." in output
    labels = load(tmp_path / "run").labels
    expected = [
        *((f"train/{kind}/{n}.{suffix}", kind) for kind in ("bright", "dark") for n in range(8)),
        *((f"unlabeled/{n}.{suffix}", None) for n in range(8)),
    ]
    assert labels["file"].to_list() == [name for name, _ in expected]
    given = [kind for _, kind in expected if kind is not None]
    assert labels.filter(pl.col("source") == "given")["label"].to_list() == given


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["train/1.png", "bus/2.png"], ("bus", "train")),  # vehicles
        (["train/a/1.png", "bus/b/2.png", "test/c/3.png"], ("bus", "test", "train")),
        (["train/a/1.png", "train/b/2.png"], ("a", "b")),
        (["None/1.png", "b/2.png"], ("None", "b")),
    ],
)
def test_a_class_may_be_called_train(tmp_path, names, classes):
    for place, name in enumerate(names):
        image(tmp_path / name, place)
    assert read(tmp_path, None, NONE).task.classes == classes


@pytest.mark.parametrize("large", [1, 2**29])
def test_unlabeled_rows_may_be_in_a_second_table(tmp_path, monkeypatch, large):
    monkeypatch.setattr(sources, "LARGE", large)
    monkeypatch.chdir(tmp_path)
    TABLE[:LABELED].write_csv("some.csv")
    TABLE[LABELED:].select("b", "a", extra="a").write_csv("more.csv")
    options = {"target": "kind", "cache": str(tmp_path / "cache"), **QUICK}
    result = fit("some.csv", unlabeled="more.csv", out="run", **options)
    TABLE.write_csv("whole.csv")
    whole = fit("whole.csv", **options)
    assert result.labels.equals(whole.labels)
    assert "18 unlabeled rows are those of more.csv." in result.notes
    back = pl.read_csv("run/table.csv")
    assert back["a", "b"].equals(TABLE["a", "b"])
    assert back["kind"].to_list() == result.labels["label"].to_list()
    monkeypatch.chdir("/")
    found = load(tmp_path / "run")
    assert len(found.predict(tmp_path / "some.csv")) == LABELED  # of these rows only
    assert len(found.table()) == ROWS
    views = open_views(found.about.data, found.predictor.preprocessor, range(ROWS), found.config)
    assert views.view(ROWS - 1).cells[0] == ("a", str(X[-1, 0]))
    assert fit(out=tmp_path / "run", resume=True).labels.equals(result.labels)


def test_labels_in_the_second_table_are_not_used(tmp_path):
    TABLE[:LABELED].write_parquet(tmp_path / "some.parquet")
    TABLE[LABELED:].with_columns(kind=pl.lit("yes")).write_parquet(tmp_path / "more.parquet")
    config = FitConfig(target="kind", unlabeled=tmp_path / "more.parquet")
    assert read(tmp_path / "some.parquet", None, config).is_labeled.sum() == LABELED


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (TABLE.drop("b"), "more.parquet must have the columns of the data, and 'b' is missing"),
        (TABLE.with_columns(pl.col("b").cast(pl.String)), "'b' is missing or of another type"),
    ],
)
def test_a_second_table_needs_the_same_columns(tmp_path, more, sentence):
    more.write_parquet(tmp_path / "more.parquet")
    config = FitConfig(target="kind", unlabeled=tmp_path / "more.parquet")
    with pytest.raises(ValueError, match=sentence.replace("the data", "The data frame")):
        read(TABLE, None, config)
    with pytest.raises(FileNotFoundError, match=r"no file or folder .*gone"):
        read(TABLE, None, FitConfig(target="kind", unlabeled=tmp_path / "gone"))
    with pytest.raises(ValueError, match="`unlabeled` needs a table with a `target`"):
        read(TABLE.drop("kind"), TABLE["kind"], FitConfig(unlabeled=tmp_path / "more.parquet"))


@pytest.mark.parametrize("suffix", ["png", "txt"])
def test_unlabeled_files_may_be_in_a_second_folder(tmp_path, suffix):
    data, more, write = tmp_path / "data", tmp_path / "more", WRITE[suffix]
    for number in range(6):
        write(data / "bright" / f"{number}.{suffix}", True)
        write(data / "dark" / f"{number}.{suffix}", False)
        write(more / "deep" / f"{number}.{suffix}", number % 2)
    config = FitConfig(unlabeled=more, encoder="none")
    found = read(data, None, config)
    assert list(found.ids)[12:] == [f"more/deep/{number}.{suffix}" for number in range(6)]
    assert found.is_labeled.tolist() == [True] * 12 + [False] * 6
    assert found.task.classes == ("bright", "dark")
    views = open_views(data, found.preprocessor, found.ids, config)
    if suffix == "txt":
        assert views.view(12).text == (more / "deep" / "0.txt").read_text()
    else:
        assert views.image(12, 96) is not None
    write(data / "more" / "deep" / f"0.{suffix}", True)
    with pytest.raises(ValueError, match=rf"Both folders have 'more/deep/0.{suffix}'"):
        read(data, None, config)
    kind = {"png": "images", "txt": "texts"}[suffix]
    with pytest.raises(ValueError, match=f"must be a folder of {kind}"):
        read(data, None, FitConfig(unlabeled=__file__, encoder="none"))
