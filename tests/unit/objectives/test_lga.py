"""LGA against Algorithm 1 written out: dense table, double backward, two of PyTorch's Adams."""

import pytest
import torch
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector as flatten

from labelgrad import LGA, SGD, Evidence, LazyAdam, SquaredError, Supervised, TensorBatches, Trainer
from labelgrad.schedules import Cosine, Ramp, value_at
from tests.conftest import LOSSES, NETWORKS, WIDTH, make_step

RATE, LABEL_RATE, STEPS = 1e-2, 0.05, 120
GRADIENT = torch.optim.SGD  # moves by the gradient itself


class SlowAverage:
    def __init__(self, decay):
        self.decay, self.values = decay, []

    def __call__(self, value):
        self.values.append(value.detach())
        weights = [self.decay**age for age in reversed(range(len(self.values)))]
        total = sum(w * v for w, v in zip(weights, self.values, strict=True))
        return total / sum(weights)


def algorithm_1(model, labeled, unlabeled, *, loss, schedule, decays, epsilon, joint_pass):
    """The paper's pseudocode line by line; gives the imputed labels of the whole table."""
    classify = loss == "cross-entropy"
    w = torch.zeros(len(unlabeled), WIDTH, dtype=torch.float64, requires_grad=True)
    params = list(model.parameters())
    adam_theta = torch.optim.Adam(params, lr=RATE)
    adam_w = torch.optim.Adam([w], lr=LABEL_RATE)
    truth_average, moment_average = map(SlowAverage, decays)
    for i in range(STEPS):
        true, other = labeled.batch(i), unlabeled.batch(i)
        y = w[other.rows].softmax(-1) if classify else w[other.rows]
        if joint_pass:
            both = model(torch.cat([true.x, other.x])).split([len(true.x), len(other.x)])
        else:
            both = model(true.x), model(other.x)
        if classify:
            known = F.cross_entropy(both[0], true.y)
            mean = -(y * F.log_softmax(both[1], -1)).sum() / len(y)
        else:
            known = 0.5 * (both[0] - true.y).square().sum() / len(true.y)
            mean = 0.5 * (both[1] - y).square().sum() / len(y)
        g_l = torch.autograd.grad(known, params, retain_graph=True)
        g_u = torch.autograd.grad(mean, params, create_graph=True)
        gap = truth_average(flatten(g_l)) - flatten(g_u)
        scale = epsilon + moment_average(gap**4).sqrt()
        (w.grad,) = torch.autograd.grad((gap**2 / scale).sum(), w)
        for param, pull, truth in zip(params, g_u, g_l, strict=True):
            param.grad = (pull + value_at(schedule, i) * truth).detach()
        adam_theta.step()
        adam_w.step()
    return w.detach().softmax(-1) if classify else w.detach()


def problem(network, loss):
    torch.manual_seed(0)
    model = NETWORKS[network]().double()
    labels = torch.arange(9) % WIDTH if loss == "cross-entropy" else torch.randn(9, WIDTH).double()
    labeled = TensorBatches(torch.randn(9, 1, 4, 4).double(), labels, batch_size=5, seed=1)
    unlabeled = TensorBatches(torch.randn(20, 1, 4, 4).double(), batch_size=6, seed=1)
    return model, labeled, unlabeled


@pytest.mark.parametrize(
    ("network", "joint_pass"), [("mlp", False), ("conv", False), ("conv", True)]
)
@pytest.mark.parametrize("schedule", [0, 0.5, Ramp(50, 0.5)])
# Without averages v / (ε + v²) magnifies rounding by up to 1/ε: with a small ε two slow runs whose
# first weights differ by 1e-15 are as far apart after a hundred steps as ours is from either.
@pytest.mark.parametrize(("decays", "epsilon"), [((0.9, 0.99), 1e-6), ((0.0, 0.0), 0.1)])
def test_lga_is_algorithm_1_to_the_last_digits(
    network, joint_pass, loss, schedule, decays, epsilon
):
    how = {"loss": loss, "schedule": schedule, "decays": decays, "epsilon": epsilon}
    model, labeled, unlabeled = problem(network, loss)
    expected = algorithm_1(model, labeled, unlabeled, joint_pass=joint_pass, **how)
    ours, labeled, unlabeled = problem(network, loss)
    lga = LGA(
        len(unlabeled),
        WIDTH,
        loss=LOSSES[loss],
        rule=LazyAdam(LABEL_RATE),
        gradient_decay=decays[0],
        moment_decay=decays[1],
        epsilon=epsilon,
        dtype=torch.float64,
    )
    settings = {"learning_rate": RATE, "loss": LOSSES[loss], "joint_pass": joint_pass}
    trainer = Trainer(ours, schedule * Supervised() + lga, labeled, unlabeled, **settings)
    for _ in range(STEPS):
        trainer.step()
    assert (lga.table.labels() - expected).abs().max() < 1e-12
    for name, value in model.state_dict().items():
        # The slope of a bias before batch norm is rounding alone, which Adam magnifies.
        tolerance = 1e-8 if name in ("conv.bias", "norm.running_mean") else 1e-12
        torch.testing.assert_close(ours.state_dict()[name], value, rtol=0, atol=tolerance)


def test_a_weight_of_zero_still_learns_the_labels():
    step = make_step()
    lga = LGA(len(step.unlabeled.x), WIDTH, dtype=torch.float64)
    assert step.gradient((0 * lga)(step)).norm() == 0
    (0 * lga).update(step)
    assert lga.table.visits().sum() == len(step.unlabeled.x)
    assert lga.table.entropy().max() < torch.tensor(float(WIDTH)).log()


def test_free_labels_close_the_gap_when_the_model_stands_still():
    step = make_step(loss="squared-error", labeled=30, unlabeled=400)
    settings = {"gradient_decay": 0, "epsilon": 1.0, "dtype": torch.float64}
    lga = LGA(400, WIDTH, loss=SquaredError(), rule=LazyAdam(Cosine(0.1, 400)), **settings)
    gaps = []
    for _ in range(400):
        lga(step)
        lga.update(step)
        gaps.append(step.records["gap"].item())
    assert gaps[-1] < 0.1 * gaps[0]


def test_measures_the_imputed_labels_where_the_truth_is_known():
    lga = LGA(4, 2)
    lga.table.values[:, 0] = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert lga.measure(torch.tensor([1, 0, 0, 1])) == {"imputed_accuracy": 0.75}
    values = LGA(2, 1, loss=SquaredError())
    values.table.values[:, 0] = torch.tensor([[1.0], [3.0]])
    assert values.measure(torch.tensor([0.0, 3.0]))["imputed_rmse"] == pytest.approx(0.5**0.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"power": -1}, "`power` must be from 0 to 0.5, got -1"),
        ({"slope": "guess"}, "one of forward-mode, finite-difference, got 'guess'"),
        ({"gradient_decay": 1.5}, "below 1, got 1.5"),
        ({"dtype": torch.bfloat16}, r"torch\.float32 or torch\.float64, got"),
        ({"dtype": torch.int64}, r"torch\.float32 or torch\.float64, got"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        LGA(10, WIDTH, **settings)


def test_a_table_of_another_size_or_loss_is_refused_before_training():
    model, labeled, unlabeled = problem("mlp", "cross-entropy")
    with pytest.raises(ValueError, match="LGA has 7 rows for 20 examples"):
        Trainer(model, LGA(7, WIDTH), labeled, unlabeled)
    with pytest.raises(ValueError, match=r"built with loss=SquaredError\(\)"):
        Trainer(model, LGA(20, WIDTH, loss=SquaredError()), labeled, unlabeled)


def test_labels_of_another_width_than_the_outputs_are_refused():
    step = make_step()
    with pytest.raises(ValueError, match=r"LGA\(width=5\) needs so many outputs"):
        LGA(len(step.unlabeled.x), 5)(step)


@pytest.mark.parametrize("network", ["mlp", "conv"])
@pytest.mark.parametrize("supervised", [True, False])
def test_two_tables_in_one_sum_each_learn_as_they_would_beside_a_weight_of_zero(
    network, supervised
):
    """The gradient is the sum of both, and each table sees its own alone."""

    def trained(*weights):
        model, labeled, unlabeled = problem(network, "cross-entropy")
        rules = LazyAdam(LABEL_RATE), Evidence()
        tables = [LGA(20, WIDTH, rule=rule, dtype=torch.float64) for rule in rules]
        terms = [w * lga for w, lga in zip(weights, tables, strict=True) if w is not None]
        terms = [0.1 * Supervised(), *terms] if supervised else terms
        trainer = Trainer(model, sum(terms[1:], terms[0]), labeled, unlabeled, optimizer=GRADIENT)
        before = flatten(model.parameters()).detach().clone()
        trainer.step()
        moved = flatten(model.parameters()).detach() - before
        return moved, [lga.table.labels() for lga in tables]

    moved, labels = trained(1, 1)
    first, second = trained(1, None), trained(None, 1)
    alone = trained(0, 0)[0]  # the supervised term's part
    torch.testing.assert_close(moved, first[0] + second[0] - alone)
    torch.testing.assert_close(labels[0], first[1][0])
    torch.testing.assert_close(labels[1], second[1][1])


@pytest.mark.parametrize("copies", [2, 5])
def test_more_unlabeled_examples_are_a_slower_rate_of_their_labels(copies):
    """Figure 1's setting: each example n times over, at n times the rate, gives the same model."""
    torch.manual_seed(0)
    x, y, others = torch.randn(6, 4), torch.randn(6, 1), torch.randn(5, 4)
    found = []
    for count in (1, copies):
        unlabeled = TensorBatches(others.repeat(count, 1).double(), batch_size=5 * count)
        labeled = TensorBatches(x.double(), y.double(), batch_size=6)
        model = torch.nn.Linear(4, 1, bias=False, dtype=torch.float64)
        torch.nn.init.zeros_(model.weight)
        settings = {"gradient_decay": 0, "moment_decay": 0, "epsilon": 0.1, "dtype": torch.float64}
        lga = LGA(5 * count, 1, loss=SquaredError(), rule=SGD(0.01 * count), **settings)
        trainer = Trainer(model, lga, labeled, unlabeled, optimizer=GRADIENT, loss=SquaredError())
        for _ in range(100):
            trainer.step()
        found.append(model.weight.detach())
    assert found[0].abs().max() > 1e-3
    torch.testing.assert_close(found[1], found[0])
