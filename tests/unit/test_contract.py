"""What every objective must keep to; a new one is added to `EVERY_OBJECTIVE` and nothing else."""

import copy

import pytest
import torch
from torch.nn.utils import parameters_to_vector as flatten

from labelgrad import (
    LGA,
    VAT,
    Certainty,
    EntMin,
    Evidence,
    FixMatch,
    FlexMatch,
    FreeMatch,
    MeanTeacher,
    PiModel,
    PseudoLabel,
    Recipe,
    Run,
    SoftMatch,
    Supervised,
    TensorBatches,
)
from labelgrad.augment.views import Noise
from tests.conftest import NETWORKS, WIDTH, make_step

ROWS = 12

EVERY_OBJECTIVE = {
    "supervised": Supervised,
    "lga": lambda: LGA(ROWS, WIDTH, dtype=torch.float64),
    "lga by evidence": lambda: LGA(ROWS, WIDTH, rule=Evidence(5.0), dtype=torch.float64),
    "lga by finite difference": lambda: LGA(
        ROWS, WIDTH, slope="finite-difference", dtype=torch.float64
    ),
    "lga by certainty": lambda: Supervised() + Certainty() * LGA(ROWS, WIDTH, dtype=torch.float64),
    "a sum": lambda: 0.1 * Supervised() + LGA(ROWS, WIDTH, dtype=torch.float64),
    "vat": lambda: Supervised() + 0.3 * VAT(eps=1.0),
    "entmin": EntMin,
    "vat + entmin": lambda: Supervised() + 0.3 * VAT(eps=1.0) + 0.1 * EntMin(),
    "lga + vat": lambda: LGA(ROWS, WIDTH, dtype=torch.float64) + 0.3 * VAT(eps=1.0),
    "pi-model": lambda: Supervised() + PiModel(),
    "mean teacher": lambda: Supervised() + MeanTeacher(),
    "pseudo-label": lambda: Supervised() + PseudoLabel(threshold=0.4),
    "fixmatch": lambda: Supervised() + FixMatch(threshold=0.4),
    "flexmatch": lambda: Supervised() + FlexMatch(ROWS, WIDTH, threshold=0.4),
    "freematch": lambda: Supervised() + FreeMatch(WIDTH, decay=0.9),
    "softmatch": lambda: Supervised() + SoftMatch(WIDTH, decay=0.9),
    "lga + fixmatch": lambda: LGA(ROWS, WIDTH, dtype=torch.float64) + FixMatch(threshold=0.4),
}
VIEWS = Noise(weak_size=0.1, strong_size=0.5)
DRAWS = (VAT, PiModel, MeanTeacher, FixMatch, FlexMatch, FreeMatch, SoftMatch)  # views, directions
SAME_IN_HALVES = [  # the others draw for each half: other numbers, the same in the mean
    name
    for name, make in EVERY_OBJECTIVE.items()
    if not any(isinstance(leaf, DRAWS) for leaf in make().leaves())
]


@pytest.fixture(params=EVERY_OBJECTIVE)
def make(request):
    return EVERY_OBJECTIVE[request.param]


def trainer(make, network="dropout", size=(4, 5), group=None, **settings):
    torch.manual_seed(0)
    model = NETWORKS[network]().double()
    labeled = TensorBatches(
        torch.randn(9, 1, 4, 4).double(), torch.arange(9) % WIDTH, batch_size=size[0]
    )
    unlabeled = TensorBatches(torch.randn(ROWS, 1, 4, 4).double(), batch_size=size[1])
    settings = {"learning_rate": 1e-2, "views": VIEWS} | settings
    return Recipe(model, make(), labeled, unlabeled, **settings).trainer(group=group)


def test_gives_one_finite_number_that_has_a_gradient(make, network):
    step = make_step(network, views=VIEWS)
    value = make()(step)
    assert value.shape == ()
    assert torch.isfinite(value)
    assert torch.isfinite(step.gradient(value)).all()


def test_asked_twice_it_gives_the_same_and_has_learned_nothing(make):
    objective = make()
    before = copy.deepcopy(objective.state_dict())
    one, two = (make_step(views=VIEWS) for _ in range(2))
    assert torch.equal(objective(one), objective(two))
    assert torch.equal(one.gradient(objective(one)), one.gradient(objective(one)))
    for name, value in objective.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_weight_and_sum_act_on_the_gradient(make):
    def gradient(objective):
        step = make_step(views=VIEWS)
        return step.gradient(objective(step))

    alone, other = gradient(make()), gradient(Supervised())
    torch.testing.assert_close(gradient(Supervised() + 0.3 * make()), other + 0.3 * alone)


def test_leaves_no_gradient_behind(make):
    step = make_step(views=VIEWS)
    make()(step)
    assert all(param.grad is None for param in step.model.parameters())


def test_updates_batch_norm_once_for_each_clean_pass(make):
    step = make_step("conv", views=VIEWS)
    make()(step)
    assert step.model.norm.num_batches_tracked == step.counted_passes


def test_is_the_same_from_the_same_seed(make):
    one, two = trainer(make), trainer(make)
    for _ in range(5):
        assert one.step() == two.step()


def test_does_not_depend_on_or_disturb_the_random_numbers_around_it(make):
    one, two = trainer(make), trainer(make)
    for _ in range(5):
        torch.rand(3)
        before = torch.get_rng_state()
        first = one.step()
        assert torch.equal(torch.get_rng_state(), before)
        torch.rand(7)
        assert first == two.step()


def test_goes_on_from_its_state_bit_for_bit(make):
    undisturbed, stopped = trainer(make), trainer(make)
    for _ in range(4):
        undisturbed.step(), stopped.step()
    saved = copy.deepcopy(stopped.state)
    resumed = trainer(make)
    resumed.load(saved)
    for _ in range(4):
        assert undisturbed.step() == resumed.step()
    for name, value in undisturbed.state.tensors.items():
        assert torch.equal(value, resumed.state.tensors[name]), name


def test_takes_a_network_with_tied_weights(make, tmp_path):
    Run(trainer(make, network="tied"), steps=3, folder=tmp_path).finish()
    again = Run(trainer(make, network="tied"), steps=5, folder=tmp_path)
    assert again.trainer.index == 3
    assert len(list(again)) == 2


def test_learns(make):
    run = trainer(make, network="mlp")
    start = flatten(run.model.parameters()).clone()
    losses = [run.step()["loss"] for _ in range(80)]
    assert losses[-1] < losses[0]
    assert not torch.equal(start, flatten(run.model.parameters()))


@pytest.mark.parametrize("name", SAME_IN_HALVES)
def test_a_batch_in_two_halves_moves_the_model_as_the_whole_one_does(name):
    make = EVERY_OBJECTIVE[name]
    whole, halves = (trainer(make, "mlp", (6, 6), accumulate=n) for n in (1, 2))
    for _ in range(5):
        one, two = whole.step(), halves.step()
        assert one == pytest.approx(two, abs=1e-9)
    # A finite difference loses half of the digits, and Adam divides by the size of the slope.
    tolerance = 1e-5 if "finite difference" in name else 1e-6
    for key, value in whole.state.tensors.items():
        torch.testing.assert_close(value, halves.state.tensors[key], rtol=0, atol=tolerance)


def test_reads_the_same_in_every_process(make):
    assert repr(make()) == repr(make())
    assert " at 0x" not in repr(make())
