"""Classes by their names: an encoder with a text side is a witness before there is any label."""

import os
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from labelgrad import fit, load
from labelgrad.encoders.found import encoder_for
from labelgrad.encoders.pictures import picture_encoder
from labelgrad.inputs.base import Encoding
from labelgrad.inputs.features import features
from labelgrad.inputs.kinds import kind_named, read
from labelgrad.inputs.pixels import load_picture
from labelgrad.witnesses.zero_shot import read_descriptions, zero_shot
from tests.test_encoders import photos


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("LABELGRAD_CACHE", str(tmp_path / "cache"))


class Words:
    """A text side that knows bright from dark, by words that a test gives it."""

    scale = 20.0

    def __init__(self, known):
        self.known, self.heard = known, []

    def directions(self, texts):
        self.heard += texts
        rows = np.array([next(d for word, d in self.known.items() if word in t) for t in texts])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def with_words(known):
    """Features are the three colours' brightness, and how far each is from black."""
    layers = nn.AvgPool2d(8), nn.Flatten()
    found = picture_encoder(nn.Sequential(*layers), size=8, name="words", mean=(90,) * 3)
    found.settings["text_side"] = True
    object.__setattr__(found, "text_side", Words(known))
    return found


BRIGHT = {"day": [1.0, 1.0, 1.0], "night": [-1.0, -1.0, -1.0]}


def test_names_are_heard_as_one_more_witness(tmp_path):
    folder, labels = photos(tmp_path, count=40, labeled=16)
    encoder = with_words(BRIGHT)
    result = fit(folder, labels=labels, encoder=encoder, steps=5, witnesses="linear")
    assert set(encoder.text_side.heard) == {"a photo of a day.", "a photo of a night."}
    row = result.summary.verdict.row("zero-shot")
    assert row.error.value == 0
    turned = with_words({"day": BRIGHT["night"], "night": BRIGHT["day"]})
    result = fit(folder, labels=labels, encoder=turned, steps=5, witnesses="linear")
    assert result.summary.verdict.row("zero-shot").error.value == 1
    assert result.summary.verdict.row("zero-shot").weight == 0
    assert result.summary.verdict.row("pool").error.value == 0


def test_descriptions_take_the_place_of_names_and_are_kept(tmp_path):
    folder, labels = photos(tmp_path, count=24, labeled=12)
    file = tmp_path / "classes.csv"
    file.write_text("class,description\nday,much sun\n")
    known = {"sun": BRIGHT["day"], "night": BRIGHT["night"]}
    encoder, out = with_words(known), tmp_path / "run"
    options = {"labels": labels, "steps": 5, "witnesses": "linear", "out": out}
    one = fit(folder, encoder=encoder, descriptions=file, **options)
    assert encoder.text_side.heard == ["much sun", "a photo of a night."]
    file.unlink()
    again = with_words(known)
    two = fit(folder, encoder=again, resume=True, **options)
    assert again.text_side.heard == ["much sun", "a photo of a night."]
    assert two.labels == one.labels


def test_what_describes_nothing_is_refused(tmp_path):
    folder, labels = photos(tmp_path)
    with pytest.raises(ValueError, match=r"no class 'nigth' to describe; did you mean 'night'"):
        fit(
            folder,
            labels=labels,
            encoder=with_words(BRIGHT),
            descriptions={"nigth": "dark"},
        )
    with pytest.raises(ValueError, match="an encoder of pictures with a text side"):
        fit(np.eye(8), np.arange(8) % 2, descriptions={"0": "one"})
    with pytest.raises(FileNotFoundError, match="no file of descriptions"):
        fit(folder, labels=labels, encoder=with_words(BRIGHT), descriptions=tmp_path / "none.csv")
    with pytest.raises(ValueError, match="must be texts by class, got 3"):
        read_descriptions({"cat": 3})
    twice = tmp_path / "twice.csv"
    twice.write_text("class,description\ncat,a\ncat,b\n")
    with pytest.raises(ValueError, match="describes 'cat' twice, again on line 3"):
        read_descriptions(twice)


# A real CLIP, made small


@pytest.fixture
def clip_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    torch.manual_seed(0)
    words = ["[pad]", "[unk]", "a", "photo", "of", "day", "night", ".", "[end]"]
    vocabulary = {word: place for place, word in enumerate(words)}
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[unk]"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A [end]", special_tokens=[("[end]", 8)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[pad]", unk_token="[unk]", eos_token="[end]"
    )
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    small |= {"num_attention_heads": 2, "projection_dim": 8}
    texts = {"vocab_size": 9, "max_position_embeddings": 12, "eos_token_id": 8, "pad_token_id": 0}
    config = transformers.CLIPConfig(
        text_config=small | texts,
        vision_config=small | {"image_size": 16, "patch_size": 8},
        projection_dim=8,
    )
    folder = tmp_path / "clip"
    model = transformers.CLIPModel(config).eval()
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    return SimpleNamespace(folder=folder, model=model, tokenizer=tokenizer)


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("transformers"), reason="transformers is not installed")
def test_a_clip_says_what_transformers_says(tmp_path, clip_folder):
    folder, labels = photos(tmp_path, count=20, labeled=12)
    name, encoding = str(clip_folder.folder), Encoding((str(clip_folder.folder),))
    encoder = encoder_for("pictures", name)
    assert (encoder.width, encoder.settings["size"]) == (8, 16)
    with pytest.raises(ValueError, match="takes pictures of 16×16 pixels, got the size 32"):
        encoder_for("pictures", name, size=32)
    dataset = read(folder, labels=labels, encoding=encoding)
    witness = zero_shot(dataset, encoding)
    scale = kind_named(dataset.kind).transform(dataset.preprocessing, dataset.x)
    seen = features(dataset.x, scale)
    (opinion,) = witness.hear(seen, [dataset.y.numpy()], 2, 0)
    found = np.exp(opinion.of_rows(np.arange(20)))
    pixels = torch.from_numpy(
        np.stack([load_picture(folder / f"{i:02d}.png", 16) for i in range(20)])
    )
    mean, spread = (torch.tensor(encoder.settings[n])[:, None, None] for n in ("mean", "spread"))
    texts = clip_folder.tokenizer(
        [f"a photo of a {name}." for name in dataset.classes], padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        wanted = clip_folder.model(
            input_ids=texts["input_ids"],
            attention_mask=texts["attention_mask"],
            pixel_values=(pixels.float() - mean) / spread,
        ).logits_per_image.softmax(-1)
    assert found == pytest.approx(wanted.numpy(), abs=2e-4)
    out = tmp_path / "run"
    options = {"labels": labels, "encoder": name, "steps": 3, "witnesses": "linear"}
    result = fit(folder, out=out, keep_pool=True, **options)
    assert result.summary.verdict.row("zero-shot").error is not None
    told = load(out).predict(folder, pool=True).values
    assert told.numpy() == pytest.approx(result.predict(folder, pool=True).values.numpy(), abs=1e-6)
    tuned = fit(folder, fine_tune=True, **options)  # its attention has no forward mode
    assert tuned.summary.plan.slope == "finite-difference"
    os.truncate(clip_folder.folder / "model.safetensors", 1000)
    with pytest.raises(ValueError, match=r"cannot be read from .*; bring its weights anew"):
        encoder_for("pictures", name)
    (clip_folder.folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="needs its weights as safetensors"):
        encoder_for("pictures", name)
