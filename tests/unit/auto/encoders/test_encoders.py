"""Encoders: found by name, refused where they may run code, same content, same features."""

import json
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from labelgrad import FitConfig
from labelgrad.auto.encoders import find, pretrained
from labelgrad.auto.encoders.features import (
    check_state,
    encode_again,
    encode_texts,
    encode_with,
)
from labelgrad.auto.encoders.fine_tuning import fine_tuned_network, raw_inputs
from labelgrad.auto.events import Events
from tests.unit.auto.encoders.tiny import LetterModel, TinyNetwork, tiny_encoder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELGRAD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def timm(monkeypatch):
    """A stand-in for timm that builds one network."""
    module = ModuleType("timm")
    module.is_model = lambda name: name == "tiny_net"
    module.list_models = lambda: ["tiny_net"]
    module.get_pretrained_cfg = lambda name: SimpleNamespace(hf_hub_id="timm/tiny_net.ours")

    def create_model(name, pretrained, num_classes):
        assert not pretrained
        if name != "tiny_net":
            raise RuntimeError(f"Unknown model ({name})")
        return TinyNetwork(seed=5)

    module.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", module)


@pytest.fixture
def library(monkeypatch):
    """A stand-in for sentence-transformers 6; gives the folders that were loaded."""
    loaded = []

    class SentenceTransformer(LetterModel):
        def __init__(self, path, *, device, local_files_only, trust_remote_code, model_kwargs):
            super().__init__()
            assert local_files_only
            assert not trust_remote_code
            assert model_kwargs == {"use_safetensors": True}
            loaded.append(path)

        def get_max_seq_length(self):
            return 8

        def get_embedding_dimension(self):
            return 6

    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr(pretrained, "library_version", lambda: "6.0.1")
    return loaded


def weights_folder(folder, **settings):
    folder.mkdir()
    config = {"architecture": "tiny_net", "pretrained_cfg": settings}
    (folder / "config.json").write_text(json.dumps(config))
    state = TinyNetwork(seed=9).state_dict()
    save_file({**state, "fc.weight": torch.ones(2, 2)}, folder / "model.safetensors")
    return folder


def sentence_folder(folder, kind="sentence_transformers.models.Transformer", **dense):
    (folder / "1_Pooling").mkdir(parents=True)
    modules = [{"type": kind, "path": ""}]
    if dense:
        modules.append({"type": "sentence_transformers.models.Dense", "path": "2_Dense"})
        (folder / "2_Dense").mkdir()
        (folder / "2_Dense" / "config.json").write_text(json.dumps(dense))
        save_file({"w": torch.ones(2)}, folder / "2_Dense" / "model.safetensors")
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
    (folder / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 6}')
    save_file({"w": torch.ones(2)}, folder / "model.safetensors")
    return folder


def encode_images(files, config):
    encoder, _ = find.choose_encoder(config, "images", natural_side=9)
    return encode_with(encoder, files, config, Events())


def image_files(folder, values=(0, 90, 200, 0)):
    folder.mkdir()
    for i, value in enumerate(values):
        Image.new("RGB", (9, 9), (value, 255 - value, 10)).save(folder / f"{i}.png")
    return [folder / f"{i}.png" for i in range(len(values))]


SENTENCES = ["the soup was cold", "we liked it", "", "rude and slow", "we liked it", None]


# Features


def test_features_have_unit_variance_zeros_where_missing_and_stay_the_same(tmp_path, library):
    config = FitConfig(encoder=str(sentence_folder(tmp_path / "net")))
    block = encode_texts(SENTENCES, config)
    known = [0, 1, 3, 4]
    model = LetterModel()
    with torch.no_grad():
        rows = model.encode([SENTENCES[i] for i in known], **dict.fromkeys(ENCODE)).numpy()
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    centered = units - units.mean(0)
    expected = centered / np.sqrt(centered.var(0).mean())
    assert block.features[known] == pytest.approx(expected, abs=1e-4)
    assert not block.features[[2, 5]].any()
    state = check_state(json.loads(json.dumps(block.state)))
    again = encode_again(state, SENTENCES[::-1], config).features
    assert np.array_equal(again[::-1], block.features)
    assert len(library) == 1  # stored features need no model


ENCODE = ("batch_size", "show_progress_bar", "convert_to_tensor")


def test_an_image_is_encoded_once_whatever_its_name(tmp_path):
    files, encoder = image_files(tmp_path / "a"), tiny_encoder()
    config = FitConfig(encoder=encoder)
    block = encode_images([*files, None], config)
    assert encoder.module.network.seen == 3  # two are equal
    assert np.array_equal(block.features[0], block.features[3])
    assert not block.features[4].any()
    moved = files[1].rename(tmp_path / "moved.png")
    again = encode_again(block.state, [moved], config)
    assert np.array_equal(again.features[0], block.features[1])
    assert encoder.module.network.seen == 3


def test_damaged_images_are_zeros_with_a_reason(tmp_path):
    files = image_files(tmp_path / "a", (0, 90, 200, 120))
    files[1].write_bytes(files[1].read_bytes()[:40])
    files[2].unlink()
    block = encode_images(files, FitConfig(encoder=tiny_encoder()))
    assert set(block.failed) == {1, 2}
    assert not block.features[[1, 2]].any()


def test_nothing_to_learn_is_an_error_of_its_own(tmp_path):
    files = image_files(tmp_path / "a", (7, 7))
    with pytest.raises(ValueError, match="all 2 images the same features"):
        encode_images(files, FitConfig(encoder=tiny_encoder()))
    with pytest.raises(ValueError, match="no words"):
        encode_texts(["", " ", None], FitConfig(encoder="none"))


@pytest.mark.parametrize("spaced", [True, False])
def test_tfidf_encodes_again_what_it_learned(spaced):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(200)]
    many = [(" " if spaced else "").join(rng.choice(words, 12)) for _ in range(150)]
    config = FitConfig(encoder="none")
    block = encode_texts(many, config)
    assert block.features.shape == (150, 128)
    assert block.features.var(0).mean() == pytest.approx(1, abs=0.01)
    state = check_state(json.loads(json.dumps(block.state)))
    again = encode_again(state, [*many[:5], "ÄÖÜ"], config).features
    assert again[:5] == pytest.approx(block.features[:5], abs=1e-5)
    assert not again[5].any()
    terms = {**state["encoder"], "terms": ["a"] * len(state["encoder"]["terms"])}
    for change in ({"scale": 0}, {"mean": [1.0]}, {"mean": [np.nan] * 128}, {"encoder": terms}):
        with pytest.raises(ValueError, match="state of an encoder is damaged"):
            check_state({**state, **change})


def test_features_that_are_not_finite_are_refused(tmp_path):
    encoder = tiny_encoder()
    nn.init.constant_(encoder.module.network.conv.weight, float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        encode_images(image_files(tmp_path / "a"), FitConfig(encoder=encoder))


def test_another_encoder_of_the_same_name_is_refused(tmp_path):
    files = image_files(tmp_path / "a")
    state = encode_images(files, FitConfig(encoder=TinyNetwork(), size=8)).state
    again = encode_again(state, files, FitConfig(encoder=TinyNetwork()))
    assert again.features.shape == (4, 5 + 192)
    with pytest.raises(ValueError, match="encoder 'own TinyNetwork' differs in its weights"):
        encode_again(state, files, FitConfig(encoder=TinyNetwork(seed=1)))
    with pytest.raises(ValueError, match="pass it again as `encoder`"):
        encode_again(state, files, FitConfig())


def test_tfidf_stands_beside_the_features_of_an_encoder(tmp_path, library):
    texts = ["a good film", "a bad film", None, "good food", "bad food"]
    config = FitConfig(encoder=str(sentence_folder(tmp_path / "net")))
    block, plain = encode_texts(texts, config), encode_texts(texts, FitConfig(encoder="none"))
    assert block.features.shape[1] == 6 + plain.features.shape[1]
    assert np.array_equal(block.features[:, 6:], plain.features)
    state = check_state(json.loads(json.dumps(block.state)))
    assert np.array_equal(encode_again(state, texts, config).features, block.features)


# Finding encoders


def test_a_network_sees_standardized_pixels():
    network = nn.Conv2d(3, 4, 3)
    pixels = torch.randint(0, 256, (2, 3, 6, 6), dtype=torch.uint8)
    encoder = pretrained.image_encoder(
        network, size=6, mean=(10.0, 20.0, 30.0), std=(1.0, 2.0, 4.0)
    )
    scaled = [(pixels[:, c].float() - 10 * (c + 1)) / 2**c for c in range(3)]
    expected = network(torch.stack(scaled, 1)).mean((2, 3))
    assert torch.allclose(encoder.encode(list(pixels)), expected, atol=1e-5)
    with pytest.raises(ValueError, match=r"must (take images|return features)"):
        pretrained.image_encoder(nn.Linear(7, 3), size=4)


def test_a_folder_of_weights_has_its_size_and_scaling(tmp_path, timm):
    folder = weights_folder(
        tmp_path / "net", input_size=[3, 16, 16], mean=[0.5] * 3, std=[0.25] * 3
    )
    found = find.find_encoder("images", str(folder), FitConfig())
    assert (found.settings["size"], found.settings["mean"]) == (16, [127.5] * 3)
    assert torch.equal(found.module.network.conv.weight, TinyNetwork(seed=9).conv.weight)
    assert find.find_encoder("images", str(folder), FitConfig(size=24)).settings["size"] == 24


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "needs a config.json with the `architecture`"),
        (lambda f: (f / "model.safetensors").rename(f / "model.pth"), "may contain code"),
        (lambda f: (f / "model.safetensors").write_bytes(b"12345678"), "cannot be loaded from"),
        (lambda f: save_file({"a": torch.ones(2)}, f / "model.safetensors"), "Missing key"),
        (lambda f: (f / "config.json").write_text('{"architecture": "x"}'), "Unknown model"),
    ],
)
def test_damaged_weights_are_one_sentence(tmp_path, timm, damage, message):
    folder = weights_folder(tmp_path / "net")
    damage(folder)
    with pytest.raises(ValueError, match=message) as error:
        find.find_encoder("images", str(folder), FitConfig(size=8))
    assert "\n" not in str(error.value)


def test_nothing_is_downloaded_unless_allowed(tmp_path, timm, monkeypatch):
    downloaded = []

    def snapshot_download(repository, local_files_only=False, **patterns):
        if local_files_only:
            raise OSError("not cached")
        if downloaded:
            raise OSError("no route")
        assert "*.safetensors" in patterns["allow_patterns"]
        downloaded.append(repository)
        return str(weights_folder(tmp_path / "net"))

    hub = ModuleType("huggingface_hub")
    hub.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(ValueError, match=r"download from https://.*tiny_net.* with --download"):
        find.find_encoder("images", "tiny_net", FitConfig(size=8))
    assert downloaded == []
    found = find.find_encoder("images", "tiny_net", FitConfig(size=8, download=True))
    assert (found.name, downloaded) == ("tiny_net", ["timm/tiny_net.ours"])
    with pytest.raises(ValueError, match=r"cannot be downloaded from .* \(no route\)"):
        find.find_encoder("images", "tiny_net", FitConfig(size=8, download=True))


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("images", "eficientnet-lite0", "did you mean 'efficientnet-lite0'"),
        ("texts", "all-minilm-l6-v3", "did you mean 'all-minilm-l6-v2'"),
        ("images", "./nowhere", "no folder ./nowhere"),
    ],
)
def test_an_unknown_encoder_is_refused_with_a_hint(kind, name, message):
    with pytest.raises(ValueError, match=message):
        find.find_encoder(kind, name, FitConfig())


def test_encoders_are_chosen_by_kind(monkeypatch):
    config = FitConfig(encoder=tiny_encoder())
    assert find.choose_encoder(config, "images")[0].width == 5
    for kind in ("texts", None):
        with pytest.raises(ValueError, match="leave it out"):
            find.check_encoder(config, kind)
    assert find.choose_encoder(FitConfig(), "images") == (None, [])  # as the environment has it
    monkeypatch.delenv("LABELGRAD_ENCODER")
    monkeypatch.setattr(find, "recommended_encoder", lambda kind: None)
    encoder, (note,) = find.choose_encoder(FitConfig(), "texts")
    assert encoder is None
    assert "pip install 'labelgrad[text]'" in note


# sentence-transformers


@pytest.mark.parametrize(
    "kind",
    [
        "sentence_transformers.base.modules.router.Router",
        "sentence_transformers.models.Transformer.Evil",
        "remote.Modeling",
    ],
)
def test_a_module_that_is_not_on_the_list_is_refused_before_it_is_loaded(tmp_path, library, kind):
    folder = sentence_folder(tmp_path / "net", kind)
    with pytest.raises(ValueError, match="not on the list of modules"):
        find.find_encoder("texts", str(folder), FitConfig())
    assert library == []


def test_a_dense_module_has_a_known_activation_and_safe_weights(tmp_path, library):
    known = {"activation_function": "torch.nn.modules.activation.Tanh"}
    folder = sentence_folder(tmp_path / "good", **known)
    assert find.find_encoder("texts", str(folder), FitConfig()).width == 6
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"as safetensors in .*2_Dense"):
        find.find_encoder("texts", str(folder), FitConfig())
    folder = sentence_folder(tmp_path / "bad", activation_function="torch.hub.load")
    with pytest.raises(ValueError, match=r"uses torch.hub.load"):
        find.find_encoder("texts", str(folder), FitConfig())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "as safetensors"),
        (lambda f: (f / "modules.json").unlink(), "needs a modules.json"),
        (lambda f: (f / "modules.json").write_text("[{}]"), "needs a modules.json"),
        (lambda f: (f / "modules.json").write_text('[{"type": "x", "path": "../y"}]'), "outside"),
    ],
)
def test_a_damaged_folder_is_one_sentence(tmp_path, library, damage, message):
    folder = sentence_folder(tmp_path / "net")
    damage(folder)
    with pytest.raises(ValueError, match=message):
        find.find_encoder("texts", str(folder), FitConfig())


@pytest.mark.parametrize("installed", ["5.9.0", None])
def test_an_old_or_missing_library_is_refused(tmp_path, library, monkeypatch, installed):
    monkeypatch.setattr(pretrained, "library_version", lambda: installed)
    with pytest.raises(
        ValueError, match=r"6\.0 or later.* (5\.9\.0|none) is installed: pip install"
    ):
        find.find_encoder("texts", str(sentence_folder(tmp_path / "net")), FitConfig())


def test_other_files_in_the_folder_are_another_encoder(tmp_path, library):
    folder = sentence_folder(tmp_path / "net")
    before = find.find_encoder("texts", str(folder), FitConfig()).weights
    (folder / "vocab.txt").write_text("other\n")
    assert find.find_encoder("texts", str(folder), FitConfig()).weights != before


# Fine-tuning


def check_fine_tuning(block, items, config):
    network = fine_tuned_network(block.state, 3, config).train()
    raw = torch.from_numpy(raw_inputs(block.state, items, config))
    inputs = raw.float() * (2 / 255) - 1 if raw.ndim == 4 else raw
    features = network.features(inputs)
    assert features.detach().numpy() == pytest.approx(block.features, abs=1e-3)
    assert not network(inputs).any()  # the head begins at zero
    features.square()[:, :2].sum().backward()
    assert all(p.grad.abs().max() > 0 for p in network.encoder.parameters())


def test_a_network_to_fine_tune_begins_with_the_encoders_features(tmp_path, library):
    files = image_files(tmp_path / "a")
    config = FitConfig(encoder=TinyNetwork(), size=8, fine_tune=0.01)
    block = encode_images(files, config)
    check_fine_tuning(block, files, config)
    assert (raw_inputs(block.state, [None, tmp_path / "none.png"], config) == 128).all()
    config = FitConfig(encoder=str(sentence_folder(tmp_path / "net")), fine_tune=0.01)
    sentences = [text for text in SENTENCES if text]
    check_fine_tuning(encode_texts(sentences, config), sentences, config)


def test_what_has_no_weights_cannot_be_fine_tuned(tmp_path):
    state = encode_texts(["good film", "bad film", "good"], FitConfig(encoder="none")).state
    with pytest.raises(ValueError, match="'tf-idf' has none"):
        fine_tuned_network(state, 2, FitConfig())
    config = FitConfig(encoder=nn.Sequential(nn.AvgPool2d(2), nn.Flatten()), size=8)
    state = encode_images(image_files(tmp_path / "a"), config).state
    with pytest.raises(ValueError, match="'own Sequential' has none"):
        fine_tuned_network(state, 2, config)
