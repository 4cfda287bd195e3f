"""Every method but LGA over many steps against itself written out: loops, plain autograd, no reuse.

The package trains first and its views and noise are recorded; the slow version sees the same ones.
"""

import math

import pytest
import torch
from torch import nn

from labelgrad import (
    VAT,
    EntMin,
    FixMatch,
    FlexMatch,
    FreeMatch,
    MeanTeacher,
    PiModel,
    PseudoLabel,
    SoftMatch,
    Step,
    Supervised,
    TensorBatches,
    Trainer,
)

CLASSES, WIDTH, ROWS = 3, 5, 24  # of a network 5-8-3 with 24 unlabeled rows


class Recorded:
    """Views that keep what they gave."""

    def __init__(self):
        self.seen = []

    def weak(self, x, generator=None):
        self.seen.append(x + 0.2 * torch.randn(x.shape, generator=generator).to(x))
        return self.seen[-1]

    def strong(self, x, generator=None):
        self.seen.append(x + 0.6 * torch.randn(x.shape, generator=generator).to(x))
        return self.seen[-1]


def problem():
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, CLASSES)).double()
    x = torch.randn(12 + ROWS, WIDTH, generator=generator).double()
    y = torch.arange(12) % CLASSES
    x[:12, 0] += y
    labeled = TensorBatches(x[:12], y, batch_size=6)
    return model, labeled, TensorBatches(x[12:], batch_size=8)


# A term is f(model, weak, other, rows), where `other` is the second view


def probabilities(model, x):
    return [torch.softmax(model(row.unsqueeze(0))[0], 0) for row in x]


def entropy(model, weak, other, rows):
    return sum(-(p * torch.log(p)).sum() for p in probabilities(model, weak)) / len(weak)


def own_labels(model, weak, other, rows):
    chosen = [-torch.log(p.max()) for p in probabilities(model, weak) if p.max() > 0.5]
    return sum(chosen, torch.zeros(())) / len(weak)


def squared(one, two):
    pairs = zip(one, two, strict=True)
    return sum(((a - b) ** 2).sum() for a, b in pairs) / (len(one) * CLASSES)


def two_views(model, weak, other, rows):
    target = [p.detach() for p in probabilities(model, weak)]
    return squared(probabilities(model, other), target)


def kl(p, q):
    return (p * (torch.log(p) - torch.log(q))).sum()


def adversarial(model, weak, noise, rows):
    total = 0
    for x, start in zip(weak, noise, strict=True):
        p = torch.softmax(model(x.unsqueeze(0))[0], 0).detach()
        r = (1e-3 * start / math.sqrt((start**2).sum())).requires_grad_()
        moved = torch.softmax(model((x + r).unsqueeze(0))[0], 0)
        (g,) = torch.autograd.grad(kl(p, moved), r)
        worst = 0.8 * g / math.sqrt((g**2).sum())
        total = total + kl(p, torch.softmax(model((x + worst).unsqueeze(0))[0], 0))
    return total / len(weak)


class Teacher:
    """Weights that are 0.9 of their past and 0.1 of the model's, beginning with its first ones."""

    def __init__(self):
        self.model = problem()[0]

    def __call__(self, model, weak, other, rows):
        target = [p.detach() for p in probabilities(self.model, other)]
        return squared(probabilities(model, weak), target)

    def after(self, model):
        with torch.no_grad():
            for mine, its in zip(self.model.parameters(), model.parameters(), strict=True):
                mine.copy_(0.9 * mine + 0.1 * its)


class Match:
    """FixMatch: cross-entropy of the strong view with the weak view's class, where it counts."""

    def weights(self, p, rows):
        return [1.0 if float(each.max()) >= 0.5 else 0.0 for each in p]

    def __call__(self, model, weak, strong, rows):
        p = [each.detach() for each in probabilities(model, weak)]
        q = probabilities(model, strong)
        weights = self.weights(p, rows)
        terms = [-w * torch.log(b[a.argmax()]) for w, a, b in zip(weights, p, q, strict=True)]
        return sum(terms) / len(p)


class Flex(Match):
    def __init__(self):
        self.last = {}  # row: the class it was last surely seen as

    def weights(self, p, rows):
        counts = [list(self.last.values()).count(c) for c in range(CLASSES)]
        most = max(*counts, ROWS - len(self.last))
        progress = [count / most for count in counts]
        weights = []
        for each in p:
            c = int(each.argmax())
            weights.append(float(each[c] >= 0.5 * progress[c] / (2 - progress[c])))
        for row, each in zip(rows.tolist(), p, strict=True):
            if each.max() >= 0.5:
                self.last[row] = int(each.argmax())
        return weights


class Soft(Match):
    def __init__(self):
        self.share, self.mean, self.variance = None, 1 / CLASSES, 1.0

    def weights(self, p, rows):
        mean = sum(p) / len(p)
        self.share = mean if self.share is None else 0.8 * self.share + 0.2 * mean
        tops = [float((each / self.share / (each / self.share).sum()).max()) for each in p]
        average = sum(tops) / len(tops)
        spread = sum((top - average) ** 2 for top in tops) / (len(tops) - 1)
        self.mean = 0.8 * self.mean + 0.2 * average
        self.variance = 0.8 * self.variance + 0.2 * spread
        half = self.variance / 4  # of σ/2
        return [
            1.0 if top >= self.mean else math.exp(-((top - self.mean) ** 2) / (2 * half))
            for top in tops
        ]


def histogram(classes):
    return torch.tensor([classes.count(c) / len(classes) for c in range(CLASSES)]).double()


class Free(Match):
    def __init__(self):
        even = torch.full((CLASSES,), 1 / CLASSES, dtype=torch.float64)
        self.confidence, self.share, self.histogram = 1 / CLASSES, even, even

    def weights(self, p, rows):
        top = sum(float(each.max()) for each in p) / len(p)
        self.confidence = 0.8 * self.confidence + 0.2 * top
        self.share = 0.8 * self.share + 0.2 * sum(p) / len(p)
        chosen = histogram([int(each.argmax()) for each in p])
        self.histogram = 0.8 * self.histogram + 0.2 * chosen
        thresholds = self.confidence * self.share / self.share.max()
        return [float(each.max() >= thresholds[each.argmax()]) for each in p]

    def __call__(self, model, weak, strong, rows):
        p = [each.detach() for each in probabilities(model, weak)]
        q, copy = probabilities(model, strong), Free()
        vars(copy).update(vars(self))
        weights = copy.weights(p, rows)  # once more below, from the same averages
        value = super().__call__(model, weak, strong, rows)
        counted = [b for w, b in zip(weights, q, strict=True) if w]
        if not counted:
            return value
        wanted = self.share / self.histogram
        shares = histogram([int(b.argmax()) for b in counted])
        found = sum(counted) / len(counted)
        ratio = [found[c] / shares[c] if shares[c] else found[c] * 0 for c in range(CLASSES)]
        pairs = zip(wanted / wanted.sum(), ratio, strict=True)
        return value + 0.3 * sum(a * torch.log(b / sum(ratio) + 1e-12) for a, b in pairs)


METHODS = {
    "entmin": (EntMin, lambda: entropy),
    "pseudo-label": (lambda: PseudoLabel(0.5), lambda: own_labels),
    "pi-model": (PiModel, lambda: two_views),
    "vat": (lambda: VAT(0.8, xi=1e-3), lambda: adversarial),
    "mean-teacher": (lambda: MeanTeacher(0.9), Teacher),
    "fixmatch": (lambda: FixMatch(0.5), Match),
    "flexmatch": (lambda: FlexMatch(ROWS, CLASSES, 0.5), Flex),
    "softmatch": (lambda: SoftMatch(CLASSES, 0.8).double(), Soft),
    "freematch": (lambda: FreeMatch(CLASSES, 0.3, 0.8).double(), Free),
}


@pytest.mark.parametrize("name", METHODS)
def test_forty_steps_are_those_of_the_method_written_out(name, monkeypatch):
    make, write_out = METHODS[name]
    near = 1e-6 if name == "freematch" else 1e-9  # its histograms are in single precision
    views, noise = Recorded(), Step.noise
    monkeypatch.setattr(
        Step, "noise", lambda step: views.seen.append(noise(step)) or views.seen[-1]
    )
    model, *batches = problem()
    trainer = Trainer(model, Supervised() + 0.7 * make(), *batches, learning_rate=0.02, views=views)
    records = [trainer.step() for _ in range(40)]
    seen, slow, term = iter(views.seen), problem()[0], write_out()
    adam = torch.optim.Adam(slow.parameters(), lr=0.02)
    for i, record in enumerate(records):
        true, rows = batches[0].batch(i).y, batches[1].batch(i).rows
        labeled, weak = next(seen), next(seen)
        other = None if name in ("entmin", "pseudo-label") else next(seen)
        pairs = zip(probabilities(slow, labeled), true, strict=True)
        supervised = sum(-torch.log(p[c]) for p, c in pairs) / len(true)
        value = 0.7 * term(slow, weak, other, rows)
        assert record["supervised/loss"] == pytest.approx(supervised.item(), rel=near)
        assert record["loss"] == pytest.approx((supervised + value).item(), rel=near)
        adam.zero_grad()
        (supervised + value).backward()
        adam.step()
        if hasattr(term, "after"):
            term.after(slow)
    for one, two in zip(model.parameters(), slow.parameters(), strict=True):
        assert (one - two).abs().max() < near
    assert len({record.get(f"{name.replace('-', '')}/sure") for record in records}) > 1 or (
        name in ("entmin", "pi-model", "vat", "mean-teacher")
    )
