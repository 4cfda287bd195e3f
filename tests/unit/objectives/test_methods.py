"""Each method's value and gradient against a slow, obvious computation."""

import copy

import pytest
import torch
from torch.autograd.functional import hessian
from torch.nn import functional as F

from labelgrad import (
    MLP,
    VAT,
    Batch,
    FixMatch,
    FlexMatch,
    MeanTeacher,
    PseudoLabel,
    Step,
)
from labelgrad.methods import Problem, every_method, method, register
from tests.conftest import WIDTH, make_step


def test_vat_finds_the_direction_in_which_the_prediction_moves_most():
    step = make_step("mlp", unlabeled=5)
    clean = step.unlabeled_outputs.detach()
    vat = VAT(xi=1e-4, power_iterations=50)
    found = vat.direction(step, step.unlabeled.x, clean)
    for row in range(5):
        x, target = step.unlabeled.x[row : row + 1], clean[row : row + 1]

        def moved(change, x=x, target=target):
            moved_to = step.model(x + change.view_as(x)).log_softmax(-1)
            return F.kl_div(moved_to, target.softmax(-1), reduction="batchmean")

        curvature = hessian(moved, torch.zeros(x.numel(), dtype=torch.float64))
        top = torch.linalg.eigh(curvature).eigenvectors[:, -1]
        assert abs(float(top @ found[row].flatten())) == pytest.approx(1, abs=1e-3)


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


class FixedNoise(Step):
    """A step whose noise is the same in every precision."""

    def noise(self):
        x = self.unlabeled.x
        return torch.randn(x.shape, generator=self.generator, dtype=torch.float64).to(x)


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
    with pytest.raises(ValueError, match="needs strong views"):
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
    "name", [*every_method(), "supervised", "vat + entmin", "LGA+FixMatch", "lga+lga-evidence"]
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


def test_a_method_needs_a_default_for_each_of_its_settings():
    with pytest.raises(ValueError, match=r"defaults, and speed of 'bare'"):
        register("bare", "ours", passes=0)(lambda problem, speed: None)
