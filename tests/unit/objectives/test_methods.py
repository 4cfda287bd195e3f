"""Each method's value and gradient against a slow, obvious computation."""

import copy
import math

import pytest
import torch
from torch.autograd.functional import hessian
from torch.nn import functional as F

from labelgrad import (
    MLP,
    VAT,
    Batch,
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
from labelgrad.augment.views import Noise
from labelgrad.functional import divergence, flatten, normal_like, unit
from labelgrad.methods import Problem, every_method, method
from labelgrad.objectives.freematch import Averages
from tests.conftest import WIDTH, make_step


class Recorded:
    """Views that remember what they gave."""

    def __init__(self):
        self.strong_one = None

    def weak(self, x, generator=None):
        return x

    def strong(self, x, generator=None):
        self.strong_one = x + normal_like(x, generator)
        return self.strong_one


def same(value, expected, step):
    assert value.item() == pytest.approx(expected.item(), rel=1e-10)
    ours, theirs = step.gradient(value), step.gradient(expected)
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def rows_of(logits):
    return [row.softmax(-1) for row in logits]


def logits_for(*probabilities):
    return torch.tensor(probabilities, dtype=torch.float64)


def test_entmin():
    step = make_step()
    expected = sum(-(p * p.log()).sum() for p in rows_of(step.model(step.unlabeled.x))) / 7
    same(EntMin()(step), expected, step)


def test_pseudo_label():
    step = make_step(seed=3)
    logits = step.model(step.unlabeled.x)
    expected, sure = 0, 0
    for p in rows_of(logits):
        if p.max().item() > 0.45:
            expected, sure = expected - p[int(p.argmax())].log() / 7, sure + 1
    assert 0 < sure < 7
    same(PseudoLabel(threshold=0.45)(step), expected, step)


def test_pi_model():
    step = make_step("mlp", views=Noise(0.3))
    again = step.generator.clone_state()
    value = PiModel()(step)
    clean = make_step("mlp").unlabeled.x
    other = step.model(clean + 0.3 * normal_like(clean, again))
    target = step.model(step.unlabeled.x).detach()
    pairs = zip(rows_of(other), rows_of(target), strict=True)
    expected = sum((a - b).square().sum() for a, b in pairs) / (7 * WIDTH)
    assert value.item() > 0
    same(value, expected, step)


def test_mean_teacher_learns_from_the_average_of_past_weights():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).double()
    labeled = TensorBatches(torch.randn(9, 4).double(), torch.arange(9) % 3, batch_size=9)
    unlabeled = TensorBatches(torch.randn(12, 4).double(), batch_size=12)
    term = MeanTeacher(decay=0.8)
    trainer = Trainer(model, Supervised() + term, labeled, unlabeled, learning_rate=0.1)
    average = flatten(model.parameters()).detach().clone()
    for _ in range(6):
        trainer.step()
        average = 0.8 * average + 0.2 * flatten(model.parameters()).detach()
        torch.testing.assert_close(term.weights.value, average, rtol=0, atol=1e-12)
    step = make_step("mlp")
    term = MeanTeacher(decay=0.5)
    term.follow(step.model)
    teacher = copy.deepcopy(step.model)
    with torch.no_grad():
        for parameter in step.model.parameters():
            parameter += 0.1
    apart = (
        step.model(step.unlabeled.x).softmax(-1) - teacher(step.unlabeled.x).softmax(-1).detach()
    )
    same(term(step), apart.square().sum() / (7 * WIDTH), step)


def test_vat_finds_the_direction_in_which_the_prediction_moves_most():
    step = make_step("mlp", unlabeled=5)
    clean = step.unlabeled_outputs.detach()
    vat = VAT(xi=1e-4, power_iterations=50)
    found = vat.direction(step, step.unlabeled.x, clean)
    for row in range(5):
        x, target = step.unlabeled.x[row : row + 1], clean[row : row + 1]

        def moved(change, x=x, target=target):
            return divergence(target, step.model(x + change.view_as(x)))

        curvature = hessian(moved, torch.zeros(x.numel(), dtype=torch.float64))
        top = torch.linalg.eigh(curvature).eigenvectors[:, -1]
        assert abs(float(top @ found[row].flatten())) == pytest.approx(1, abs=1e-3)


def test_vat_is_the_divergence_at_that_distance():
    step = make_step("mlp")
    again = step.generator.clone_state()
    value = VAT(eps=2.0, xi=1e-3)(step)
    clean = step.unlabeled_outputs.detach()
    nudge = (1e-3 * unit(normal_like(step.unlabeled.x, again))).requires_grad_()
    first = step.model(step.unlabeled.x + nudge).log_softmax(-1)
    p = clean.softmax(-1)
    (slope,) = torch.autograd.grad((p * (p.log() - first)).sum(), nudge)
    worst = slope / slope.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    there = step.model(step.unlabeled.x + 2.0 * worst).log_softmax(-1)
    same(value, (p * (p.log() - there)).sum() / 7, step)


def match(term, seed=3):
    """A term's value, beside the cross-entropies of its strong views with the weak classes."""
    views = Recorded()
    step = make_step(seed=seed, views=views)
    value = term(step)
    p = step.model(step.unlabeled.x).softmax(-1).detach()
    apart = F.cross_entropy(step.model(views.strong_one), p.argmax(-1), reduction="none")
    return step, value, p, apart


def test_fixmatch():
    step, value, p, apart = match(FixMatch(threshold=0.45))
    sure = [float(row.max()) >= 0.45 for row in p]
    assert 0 < sum(sure) < 7
    expected = sum(a for a, s in zip(apart, sure, strict=True) if s) / 7
    same(value, expected, step)


def test_softmatch():
    term = SoftMatch(WIDTH, decay=0.5)
    _, value, p, apart = match(term)
    share = p.mean(0)  # the first batch's
    aligned = [row / share / (row / share).sum() for row in p]
    tops = torch.stack([row.max() for row in aligned])
    mean = 0.5 / WIDTH + 0.5 * tops.mean()
    variance = 0.5 + 0.5 * tops.var()
    weights = [
        1.0 if top >= mean else math.exp(-((top - mean) ** 2) / (2 * variance / 4)) for top in tops
    ]
    expected = sum(w * a for w, a in zip(weights, apart, strict=True)) / 7
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("name", ["softmatch", "freematch"])
@pytest.mark.parametrize("steps", [500, 1500, 20_000])
def test_averages_over_batches_forget_their_start_within_a_quarter_of_the_run(name, steps):
    torch.manual_seed(0)
    term = next(
        leaf
        for leaf in method(name, Problem(rows=100, width=4, batch_size=50, steps=steps)).leaves()
        if leaf.name == name
    )
    p = (2 * torch.randn(50, 4) + torch.tensor([2.0, 0.0, 0.0, 0.0])).softmax(-1)
    batch = Batch(torch.zeros(50, 3), None, torch.arange(50))
    step = Step(torch.nn.Linear(3, 4), batch, batch)
    step.unlabeled_outputs = p.log()
    for _ in range(steps // 4):
        term.update(step)
    if name == "softmatch":
        confidence = (p / p.mean(0) / (p / p.mean(0)).sum(-1, keepdim=True)).amax(-1)
        assert term.variance.item() == pytest.approx(confidence.var().item(), rel=0.15)
        assert term.mean.item() == pytest.approx(confidence.mean().item(), rel=0.05)
    else:
        assert term.confidence.item() == pytest.approx(p.amax(-1).mean().item(), rel=0.05)
        torch.testing.assert_close(term.share, p.mean(0), rtol=0.05, atol=0)


def test_at_the_published_number_of_steps_the_decay_is_the_published_one():
    problem = Problem(rows=100, width=4, batch_size=50, steps=2**20)
    assert repr(method("softmatch", problem)) == (
        "Supervised() + 1.0 * SoftMatch(classes=4, decay=0.999)"
    )


def test_freematch():
    term = FreeMatch(WIDTH, fairness=0.0, decay=0.5)
    step, value, p, apart = match(term)
    confidence = 0.5 / WIDTH + 0.5 * p.amax(-1).mean()
    share = 0.5 / WIDTH + 0.5 * p.mean(0)
    expected = 0
    for row, a in zip(p, apart, strict=True):
        label = int(row.argmax())
        if row[label] >= confidence * share[label] / share.max():
            expected = expected + a / 7
    same(value, expected, step)


def test_freematch_s_fairness_by_hand():
    term = FreeMatch(2, fairness=1.0)
    now = Averages(term.confidence, term.share, term.histogram)
    even = torch.tensor([[3.0, 0.0], [0.0, 3.0]])
    assert term.unfairness(even, torch.ones(2), now) == pytest.approx(math.log(0.5))
    three_to_one = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    high, low = 1 / (1 + math.exp(-2)), 1 / (1 + math.exp(-1))
    first = (3 * high + 1 - low) / 4 / (3 / 4)  # mean probability over share of the choices
    second = (3 * (1 - high) + low) / 4 / (1 / 4)
    expected = sum(0.5 * math.log(part / (first + second)) for part in (first, second))
    assert term.unfairness(three_to_one, torch.ones(4), now) == pytest.approx(expected, rel=1e-5)
    only_even = torch.cat([even, torch.tensor([[9.0, 0.0]])])  # what does not count is left out
    weight = torch.tensor([1.0, 1.0, 0.0])
    assert term.unfairness(only_even, weight, now) == pytest.approx(math.log(0.5))
    assert term.unfairness(even, torch.zeros(2), now) == 0


def seen(term, probabilities, rows):
    """Show FlexMatch some rows with these probabilities, as a step would."""
    logits = torch.tensor(probabilities, dtype=torch.float64).log()
    batch = Batch(torch.zeros(len(rows), 3), None, torch.tensor(rows))
    step = Step(torch.nn.Linear(3, 3), batch, batch)
    step.unlabeled_outputs = logits
    term.update(step)


def test_flexmatch_lowers_the_threshold_of_classes_that_are_learned_slowly():
    term = FlexMatch(rows=8, classes=3, threshold=0.8)
    seen(term, [[0.9, 0.05, 0.05]] * 4, [0, 1, 2, 3])
    # Four rows are sure of class 0, four of nothing: σ = (4, 0, 0), the divisor is 4.
    assert term.thresholds().tolist() == pytest.approx([0.8, 0.0, 0.0])
    seen(term, [[0.05, 0.9, 0.05]] * 2, [4, 5])
    assert term.thresholds().tolist() == pytest.approx([0.8, 0.8 * 0.5 / 1.5, 0.0])
    assert term.weigh(logits_for([0.5, 0.3, 0.2], [0.3, 0.5, 0.2])).tolist() == [0.0, 1.0]
    seen(term, [[0.05, 0.9, 0.05]], [0])  # row 0 changes its class
    assert term.seen_as.tolist() == [1, 0, 0, 0, 1, 1, -1, -1]


class FixedNoise(Step):
    """A step whose noise is the same in every precision."""

    def noise(self):
        return normal_like(self.unlabeled.x.double(), self.generator).to(self.unlabeled.x)


def vat_direction(model, x, vat, autocast=None):
    batch = Batch(x, torch.zeros(len(x), dtype=torch.int64), torch.arange(len(x)))
    step = FixedNoise(model, batch, batch, autocast=autocast)
    return vat.direction(step, x, step.unlabeled_outputs.detach()).double()


@pytest.mark.parametrize(
    ("autocast", "agreement"), [(None, 0.99), (torch.bfloat16, 0.9)], ids=["float32", "bfloat16"]
)
def test_vats_direction_survives_the_precision_of_the_passes(autocast, agreement):
    torch.manual_seed(0)
    model, x = MLP(64, (128, 128), 10), torch.randn(50, 64)
    exact = vat_direction(copy.deepcopy(model).double(), x.double(), VAT(xi=1e-6))
    found = vat_direction(model, x, VAT(), autocast)
    assert (exact * found).sum(1).mean() > agreement


def test_strong_views_are_asked_for():
    with pytest.raises(ValueError, match="strongly augmented views"):
        FixMatch()(make_step())


@pytest.mark.parametrize(
    "build",
    [
        lambda: VAT(eps=0),
        lambda: VAT(xi=-1),
        lambda: VAT(power_iterations=0),
        lambda: PseudoLabel(threshold=1.5),
        lambda: FixMatch(threshold=-0.1),
        lambda: FlexMatch(0, 3),
        lambda: MeanTeacher(decay=1.0),
    ],
)
def test_settings_out_of_range_are_errors_where_it_is_built(build):
    with pytest.raises(ValueError, match="needs"):
        build()


PROBLEM = Problem(rows=12, width=WIDTH, batch_size=6, steps=100)


@pytest.mark.parametrize(
    "name", [*every_method(), "supervised", "lga+vat", "vat + entmin", "LGA+FixMatch"]
)
def test_a_name_is_the_sum_it_says(name):
    objective = method(name, PROBLEM)
    kinds = {type(leaf).__name__.lower() for leaf in objective.leaves()}
    # LGA with another rule for its labels, in another metric, or with a weight for each of them.
    alone = name.lower().replace("lga-evidence", "lga").replace("lga-linear", "lga")
    alone = alone.replace("lga-certain", "weighed+lga")
    wanted = {part.strip().replace("-", "") for part in alone.split("+")}
    assert kinds == wanted | (set() if name == "lga-linear" else {"supervised"})


def test_a_misspelt_name_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"no method 'fixmach'; did you mean 'fixmatch'\?"):
        method("lga+fixmach", PROBLEM)
    with pytest.raises(
        ValueError,
        match=r"there are entmin, fixmatch, .* lga, .*lga-certain, .*lga-evidence, .* supervised",
    ):
        method("zzz", PROBLEM)
    with pytest.raises(ValueError, match="each of its terms once"):
        method("vat+vat", PROBLEM)


@pytest.mark.parametrize(("name", "power"), [("lga-evidence", 0.25), ("lga-linear", 0.0)])
def test_the_metric_of_evidence_is_a_setting(name, power):
    for asked, found in (({}, power), ({name: {"power": 0.5}}, 0.5)):
        (lga,) = [term for term in method(name, PROBLEM, asked).leaves() if term.name == "lga"]
        assert lga.gap.power == found


def test_settings_replace_a_terms_own():
    problem = Problem(rows=100, width=10, batch_size=50, steps=1000)
    settings = {"supervised": {"weight": 0.5}, "mean-teacher": {"weight": 3.0, "decay": 0.9}}
    built = repr(method("mean-teacher", problem, settings))
    assert built == "0.5 * Supervised() + SmoothRamp(steps=400.0, top=3.0) * MeanTeacher(decay=0.9)"


@pytest.mark.parametrize("name", every_method())
def test_every_setting_of_every_method_has_a_default(name):
    problem = Problem(rows=100, width=10, batch_size=50, steps=1000)
    assert repr(every_method()[name].build(problem)) in repr(method(name, problem))
