"""Texts and pictures in tables: found, encoded, scaled beside other columns, read alike later."""

import json
import sys
from types import ModuleType

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from labelgrad import fit, load
from labelgrad.encoders import found, text
from labelgrad.encoders.bag_of_words import BagOfWords
from labelgrad.encoders.pictures import picture_encoder
from labelgrad.inputs.base import Encoding
from labelgrad.inputs.kept import check_preprocessing
from labelgrad.inputs.kinds import kind_named, prepare, read
from labelgrad.inputs.mixed import is_prose

GOOD = ["lovely", "wonderful", "great", "tasty", "warm", "kind", "fresh", "happy"]
BAD = ["awful", "terrible", "cold", "slow", "rude", "stale", "noisy", "sad"]
FILLER = [
    "the",
    "soup",
    "and",
    "service",
    "were",
    "on",
    "a",
    "monday",
    "evening",
    "in",
    "town",
    "with",
    "friends",
]


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("LABELGRAD_CACHE", str(tmp_path / "cache"))


class Letters:
    """An encoder of texts: how often each letter occurs; it counts what it is shown."""

    kind, settings, width, weights, at_once = "text", {"tokens": 8}, 26, "letters-1", 4

    def __init__(self, name="letters"):
        self.name, self.seen = name, []

    def encode(self, batch):
        self.seen += batch
        rows = [[t.lower().count(chr(97 + i)) + 0.1 for i in range(26)] for t in batch]
        return torch.tensor(rows)


def reviews(rows=60, labeled=20, seed=0):
    rng = np.random.default_rng(seed)
    table = {"review": [], "title": [], "price": [], "town": [], "day": [], "stars": []}
    for i in range(rows):
        good = i % 2
        words = rng.choice(FILLER, 5).tolist() + rng.choice(GOOD if good else BAD, 3).tolist()
        table["review"].append(" ".join(rng.permutation(words).tolist()) + f" {i}")
        table["title"].append(" ".join(rng.choice(FILLER, 4).tolist()) + f" no {i}")
        table["price"].append(round(float(rng.normal(20, 5)), 2))
        table["town"].append(["Bonn", "Ulm", "Kiel"][i % 3])
        table["day"].append(f"2024-03-{1 + i % 28:02d}")
        table["stars"].append(("good" if good else "bad") if i < labeled else "")
    return table


@pytest.fixture
def table(tmp_path):
    def write(columns=None, name="reviews.csv", **change):
        data = pandas.DataFrame(reviews() | change)
        data = data if columns is None else data[[*columns, "stars"]]
        data.to_csv(tmp_path / name, index=False)
        return tmp_path / name

    return write


def with_letters(**options):
    return Encoding((Letters(),), **options)


# Bags of words


def test_a_bag_of_words_is_scikit_learns():
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = reviews()["review"]
    bag = BagOfWords.fit(texts)
    wanted = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    counts = wanted.fit_transform(texts).toarray()
    assert bag.words == tuple(wanted.get_feature_names_out())
    rows, wide = bag.encode(texts), bag.directions is not None
    near = counts @ bag.directions.T if wide else counts
    assert rows == pytest.approx(near, abs=1e-5)
    if wide:  # the directions keep as much as any so many could, but for rounding
        best = np.linalg.svd(counts, compute_uv=False)[: len(bag.directions)]
        assert np.square(rows).sum() == pytest.approx(np.square(best).sum(), rel=0.02)


def test_a_bag_comes_back_from_json_with_the_same_bits():
    texts = [f"{a} {b} {i}" for i, (a, b) in enumerate(zip(GOOD * 40, BAD * 40, strict=True))]
    texts += [f"word{i % 90} other{i % 80}" for i in range(300)]
    bag = BagOfWords.fit(texts)
    assert bag.directions is not None
    again = BagOfWords.of(json.loads(json.dumps(bag.record)))
    assert np.array_equal(again.encode(texts[:50]), bag.encode(texts[:50]))
    assert len(json.dumps(bag.record)) < 2_000_000


def test_texts_without_spaces_are_read_by_letters():
    texts = [
        "今天的汤很好喝我们都很喜欢这家餐厅的味道",
        "服务太慢了而且菜都凉了再也不会来这家店了",
    ] * 10
    bag = BagOfWords.fit(texts)
    assert bag.by_letters
    rows = bag.encode(["汤很好喝", "菜都凉了"])
    assert np.abs(rows[0] - rows[1]).max() > 0.1
    assert BagOfWords.fit(["", " ", ""]) is None


@given(st.lists(st.text(max_size=60), min_size=2, max_size=20))
def test_any_texts_give_finite_rows_or_none(texts):
    bag = BagOfWords.fit(texts)
    if bag is not None:
        rows = bag.encode([*texts, "", "\ud800"])
        assert rows.shape == (len(texts) + 2, bag.width)
        assert np.isfinite(rows).all()


# Which columns are texts


def test_prose_is_told_from_names_codes_and_categories():
    assert is_prose(reviews()["review"])
    assert not is_prose([f"user-{i}" for i in range(50)])
    assert not is_prose(["not so good at all", "very good indeed"] * 30)
    assert not is_prose([f"Ada Lovelace{i}" for i in range(50)])
    assert is_prose(["今天的汤很好喝我们都很喜欢", "服务太慢了而且菜都凉了再也"])
    assert not is_prose(["only one text here"])
    assert not is_prose([])


def test_texts_among_other_columns_are_found_and_used(table):
    source = read(table(), target="stars")
    assert any("bags of words (TF-IDF): 'review', 'title'" in note for note in source.notes)
    assert not source.frozen_features
    names = [column["name"] for column in source.preprocessing["columns"]]
    assert names == ["price", "town", "day"]
    assert kind_named("table").columns(source.preprocessing)[:3] == ["review", "title", "price"]
    json.dumps(source.preprocessing)


def test_texts_alone_are_frozen_features(table):
    source = read(table(["review"]), target="stars")
    assert source.frozen_features
    encoded = read(table(["review"]), target="stars", encoding=with_letters())
    assert encoded.frozen_features
    assert encoded.x.shape == (60, 26)


def test_a_column_that_is_asked_for_is_text_whatever_it_holds(table):
    source = read(table(["town", "price"]), target="stars", text="town", encoding=with_letters())
    assert [block["column"] for block in source.preprocessing["blocks"]] == ["town"]
    codes = read(table(["price"]), target="stars", text=["price"])
    assert codes.frozen_features
    with pytest.raises(ValueError, match=r"Left out \(always the same\): 'price'"):
        read(table(["price"]), target="stars", text=["price"], encoding=with_letters())


def test_columns_that_are_not_there_are_told(table):
    with pytest.raises(ValueError, match=r"no column 'reviw' to read; did you mean 'review'\?"):
        read(table(), target="stars", text="reviw")
    with pytest.raises(ValueError, match="texts or pictures, not both"):
        read(table(), target="stars", text="review", picture="review")
    with pytest.raises(ValueError, match="`text` is for table"):
        read([[1.0], [2.0]], [0, 1], text="a")
    with pytest.raises(ValueError, match="`encoder` is for table or texts or pictures"):
        read([[1.0], [2.0]], [0, 1], encoding=with_letters())


# How they are scaled


def test_every_block_has_the_same_share_of_a_row(table):
    source = read(table(), target="stars", encoding=with_letters())
    plain = 1 + 3 + 1
    parts = source.x.double().split([plain, 26, 26], dim=1)
    assert sum(len(part[0]) for part in parts) == source.x.shape[1]
    for part in parts[1:]:
        assert part.square().sum(1).mean().item() == pytest.approx(9 / 3, rel=1e-4)
    alone = read(table(["price", "town", "day"]), target="stars").x
    assert torch.allclose(parts[0], alone.double() / 3**0.5, atol=1e-6)


def test_an_encoders_features_are_turned_into_units(table):
    source = read(table(["review"]), target="stars", encoding=with_letters())
    raw = Letters().encode(reviews()["review"]).double()
    units = raw / raw.norm(dim=1, keepdim=True)
    centred = units - units.mean(0)
    wanted = 3 * centred / centred.square().sum(1).mean().sqrt()
    assert torch.allclose(source.x.double(), wanted, atol=1e-4)


def test_missing_texts_count_as_average(table):
    texts = reviews()["review"]
    texts[3], texts[4], texts[5] = "", "NA", None
    source = read(table(["review"], review=texts), target="stars", encoding=with_letters())
    assert source.x[3:6].abs().sum() == 0
    assert any("Empty cells of 'review' count as average: 3." in note for note in source.notes)
    bag = read(table(["review"], review=texts), target="stars")
    assert bag.x[3:6].abs().sum() == 0


def test_a_column_of_nothing_is_left_out(table):
    empty = read(table(note=[""] * 60), target="stars", text=["note"])
    assert any("Left out (empty): 'note'" in note for note in empty.notes)
    strange = read(table(note=["?!"] * 30 + ["..."] * 30), target="stars", text=["note"])
    assert any(b["column"] == "note" for b in strange.preprocessing["blocks"])
    with pytest.raises(ValueError, match="no column to learn from beside 'stars'"):
        read(table(["note"], note=[""] * 60), target="stars", text=["note"])


def test_long_texts_are_cut_and_duplicates_encoded_once(table):
    texts = ["the same old story"] * 40 + ["x" * 1_000_000] + [f"other text {i}" for i in range(19)]
    encoder = Letters()
    source = read(
        table(["review"], review=texts),
        target="stars",
        text="review",
        encoding=Encoding((encoder,)),
    )
    assert len(encoder.seen) == 21
    assert torch.equal(source.x[0], source.x[39])
    said = "letters reads about the first 32 letters of a text; longer in 'review': 1."
    assert any(said in note for note in source.notes)


# New rows


def test_new_rows_are_read_alike(table):
    path = table()
    for encoding in (None, with_letters()):
        source = read(path, target="stars", encoding=encoding)
        kept = json.loads(json.dumps(source.preprocessing))
        assert torch.equal(prepare(kept, path, encoding=with_letters()).x, source.x)
        part = pandas.read_csv(path).iloc[7:9]
        found = prepare(kept, part, encoding=with_letters()).x
        assert torch.allclose(found, source.x[7:9], atol=1e-6)
        with pytest.raises(ValueError, match="lacks columns that the training data had: 'review'"):
            prepare(kept, part.drop(columns="review"), encoding=with_letters())


def test_another_encoder_is_refused(table):
    source = read(table(["review"]), target="stars", encoding=with_letters())
    other = Letters()
    other.weights = "letters-2"
    with pytest.raises(
        ValueError, match="other weights here than those the model was trained with"
    ):
        prepare(source.preprocessing, table(["review"]), encoding=Encoding((other,)))


def test_data_frames_have_texts_too():
    source = read(pandas.DataFrame(reviews()), target="stars", encoding=with_letters())
    assert [block["column"] for block in source.preprocessing["blocks"]] == ["review", "title"]
    assert source.originals[0][0] == reviews()["review"][0]


def test_a_kept_preprocessing_is_checked_before_it_is_used(table):
    for encoding in (None, with_letters()):
        source = read(table(), target="stars", encoding=encoding)
        kept, shape = json.loads(json.dumps(source.preprocessing)), source.x.shape[1:]
        check_preprocessing(kept, "table", shape)
        with pytest.raises(ValueError, match="makes examples of"):
            check_preprocessing(kept, "table", (shape[0] + 1,))
        for change in (
            lambda b: b.pop("mean"),
            lambda b: b.update(scale=0.0),
            lambda b: b.update(scale="1"),
            lambda b: b["encoder"].update(name=None),
            lambda b: b["encoder"].update(name="tf-idf", words=[1]),
            lambda b: b["encoder"].update(name="tf-idf", directions="%%"),
        ):
            damaged = json.loads(json.dumps(kept))
            change(damaged["blocks"][0])
            with pytest.raises(ValueError, match=r"`preprocessing`|must be|needs|block|encoder"):
                check_preprocessing(damaged, "table", shape)


# Pictures in a table


def shots(folder, count=60):
    (folder / "shots").mkdir()
    names = []
    for i in range(count):
        colour = (200, i, i) if i % 2 else (i, i, 200)
        Image.new("RGB", (10, 12), colour).save(folder / "shots" / f"{i}.png")
        names.append(f"shots/{i}.png")
    return names


def colours():
    return picture_encoder(nn.AdaptiveAvgPool2d(1), size=8)


def test_paths_of_pictures_are_found_beside_the_table(table, tmp_path):
    names = shots(tmp_path)
    names[7] = ""
    path = table(["price", "shot"], shot=names)
    source = read(path, target="stars", encoding=Encoding((colours(),)))
    assert [block["column"] for block in source.preprocessing["blocks"]] == ["shot"]
    assert source.x.shape == (60, 1 + 3)
    assert source.x[7, 1:].abs().sum() == 0
    again = prepare(source.preprocessing, path, encoding=Encoding((colours(),)))
    assert torch.equal(again.x, source.x)
    shown = kind_named("table").show(source.preprocessing, source.x[1].numpy(), source.originals[1])
    assert shown.picture.shape == (3, 64, 64)
    assert shown.cells[0] == "1.png"


def test_a_path_that_leads_nowhere_makes_it_no_column_of_pictures(table, tmp_path):
    names = shots(tmp_path)
    names[7] = "shots/nowhere.png"
    path = table(["price", "shot"], shot=names)
    assert "blocks" not in read(path, target="stars").preprocessing
    asked = read(path, target="stars", picture="shot", encoding=Encoding((colours(),)))
    assert any("cannot be read count as average: 1; shots/nowhere.png" in n for n in asked.notes)
    with pytest.raises(ValueError, match=r"nowhere\.png in 'shot' cannot be read"):
        read(path, target="stars", picture="shot", strict=True, encoding=Encoding((colours(),)))


def test_two_encoders_serve_texts_and_pictures_together(table, tmp_path):
    path = table(["review", "price", "shot"], shot=shots(tmp_path))
    both = Encoding((Letters(), colours()))
    source = read(path, target="stars", encoding=both)
    assert source.x.shape == (60, 1 + 26 + 3)
    assert {block["encoder"]["kind"] for block in source.preprocessing["blocks"]} == {
        "text",
        "pictures",
    }


def test_an_encoder_without_anything_to_encode_is_refused(table):
    for columns, has in ((["price"], "none of them"), (["review", "price"], "text")):
        with pytest.raises(ValueError, match=rf"an encoder of pictures, and the data have {has}"):
            read(table(columns), target="stars", encoding=Encoding((colours(),)))


def test_a_run_goes_on_with_the_encoder_it_was_begun_with(table, tmp_path, monkeypatch):
    path = table(["review"])
    fit(path, target="stars", steps=5, out=tmp_path / "run")  # none is installed: a bag of words
    monkeypatch.delenv("LABELGRAD_ENCODER")
    monkeypatch.setattr("labelgrad.inputs.encoded.there", lambda kind: ["never-loaded"])
    fit(path, target="stars", out=tmp_path / "run", resume=True)
    with pytest.raises(ValueError, match=r"was begun with the encoder tf-idf, got letters"):
        fit(path, target="stars", out=tmp_path / "run", resume=True, encoder=Letters())


def test_pictures_without_an_encoder_are_left_out(table, tmp_path):
    source = read(table(["price", "shot"], shot=shots(tmp_path)), target="stars")
    assert any(
        "Left out (pictures, and no encoder to read them): 'shot'" in n for n in source.notes
    )


# Folders of texts


@pytest.fixture
def letters(tmp_path):
    """A subfolder for each class, and one for the others."""
    table = reviews()
    for row, (words, stars) in enumerate(zip(table["review"], table["stars"], strict=True)):
        folder = tmp_path / "letters" / (stars or "unlabeled")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{row:02d}.txt").write_text(words + "\n")
    return tmp_path / "letters"


@pytest.mark.parametrize("encoding", [None, with_letters()])
def test_a_folder_of_texts_is_what_a_table_of_them_is(letters, table, encoding):
    source = read(letters, encoding=encoding)
    assert (source.kind, source.classes) == ("texts", ("bad", "good"))
    assert source.frozen_features
    assert source.summary["labeled"] == 20
    order = [int(name[-6:-4]) for name in source.names]
    wanted = read(table(["review"]), target="stars", encoding=encoding).x[order]
    assert torch.allclose(source.x, wanted, atol=1e-3)
    again = prepare(json.loads(json.dumps(source.preprocessing)), letters, encoding=encoding)
    assert torch.equal(again.x, source.x)
    one = prepare(source.preprocessing, letters / "good" / "01.txt", encoding=encoding)
    assert torch.allclose(one.x[0], source.x[source.names.index("good/01.txt")], atol=1e-6)
    shown = kind_named("texts").show(source.preprocessing, source.x[0], source.originals[0])
    assert shown.cells[0].startswith(reviews()["review"][0][:20])


def test_texts_in_other_encodings(letters):
    (letters / "good" / "01.txt").write_bytes("grüße und mehr".encode("utf-16"))
    (letters / "good" / "03.txt").write_bytes("grüße und mehr".encode("utf-8-sig"))
    (letters / "good" / "05.txt").write_bytes("grüße und mehr".encode("latin-1"))
    (letters / "good" / "07.txt").write_bytes(b"\0\1\2")
    (letters / "good" / "09.txt").write_bytes(b"")
    (letters / "good" / "11.txt").write_text("ä" * 3_000_000)
    source = read(letters)
    assert dict(source.skipped) == {
        "good/05.txt": "not UTF-8; save it as UTF-8",
        "good/07.txt": "not a text: it has a zero byte in it",
    }
    texts = dict(zip(source.names, source.originals, strict=True))
    assert texts["good/01.txt"] == texts["good/03.txt"] == "grüße und mehr"
    assert len(texts["good/11.txt"]) == 2_000_000
    assert source.x[source.names.index("good/09.txt")].abs().sum() == 0
    with pytest.raises(ValueError, match=r"good/05.txt cannot be read as a text: not UTF-8"):
        read(letters, strict=True)


def test_a_folder_with_pictures_is_one_of_pictures(letters):
    Image.new("RGB", (9, 9), "red").save(letters / "good" / "a.png")
    with pytest.raises(ValueError, match="only one class"):
        read(letters)


# sentence-transformers, which a stand-in takes the place of


def sentence_folder(folder, kind="sentence_transformers.models.Transformer"):
    folder.mkdir()
    (folder / "1_Pooling").mkdir()
    (folder / "modules.json").write_text(json.dumps([{"type": kind}]))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
    (folder / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 26}')
    save_file({"w": torch.ones(2)}, folder / "model.safetensors")
    return folder


@pytest.fixture
def library(monkeypatch):
    made = []

    class SentenceTransformer(nn.Module):
        def __init__(self, path, *, device, local_files_only, trust_remote_code, model_kwargs):
            super().__init__()
            assert local_files_only
            assert not trust_remote_code
            assert model_kwargs == {"use_safetensors": True}
            made.append(path)

        def encode(self, texts, *, batch_size, show_progress_bar, convert_to_tensor):
            assert max(map(len, texts)) <= 8 * 16
            return Letters().encode(texts)

    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr(text, "library_there", lambda: True)
    return made


def test_a_folder_of_sentence_transformers_is_loaded_when_it_is_needed(tmp_path, library, table):
    folder = sentence_folder(tmp_path / "net")
    encoder = found.encoder_for("text", str(folder))
    assert (encoder.width, encoder.settings) == (26, {"tokens": 8})
    path = table(["review"])
    one = read(path, target="stars", encoding=Encoding((str(folder),)))
    assert library == [str(folder)]
    two = read(path, target="stars", encoding=Encoding((str(folder),)))
    assert len(library) == 1  # features that are kept need no network
    assert torch.equal(one.x, two.x)
    assert torch.equal(prepare(one.preprocessing, path).x, one.x)


def test_weights_of_sentence_transformers_that_could_run_code_are_refused(tmp_path, library):
    folder = sentence_folder(tmp_path / "own", kind="remote.Modeling")
    with pytest.raises(
        ValueError, match=r"needs code of its own \(remote.Modeling\), which is never"
    ):
        found.encoder_for("text", str(folder))
    folder = sentence_folder(tmp_path / "pickled")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="needs its weights as safetensors"):
        found.encoder_for("text", str(folder))


def test_other_files_in_the_folder_are_another_encoder(tmp_path, library):
    folder = sentence_folder(tmp_path / "net")
    one = found.encoder_for("text", str(folder)).weights
    (folder / "vocab.txt").write_text("other\n")
    assert found.encoder_for("text", str(folder)).weights != one


def test_without_the_library_a_sentence_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "library_there", lambda: False)
    with pytest.raises(ValueError, match=r"pip install 'labelgrad\[text\]'"):
        found.encoder_for("text", "some/model")
    with pytest.raises(ValueError, match=r"pip install 'labelgrad\[text\]'"):
        found.encoder_for("text", str(sentence_folder(tmp_path / "net")))


# All the way


def test_a_mixed_table_goes_all_the_way(table, tmp_path):
    path, out = table(), tmp_path / "run"
    result = fit(path, target="stars", steps=40, out=out)
    page = (out / "report.html").read_text()
    assert reviews()["review"][40].split()[0] in page
    predicted = load(out).predict(path)
    truth = ["good" if i % 2 else "bad" for i in range(60)]
    assert np.mean([a == b for a, b in zip(predicted.labels, truth, strict=True)]) > 0.8
    assert len(result.labels) == 40
    assert (out / "labels.csv").read_text().count("\n") == 41
