"""Linear heads that advance together: each is LGA's own training of a linear network."""

import pytest
import torch

from labelgrad import LGA, MLP, Recipe, TensorBatches
from labelgrad.labels.evidence import Evidence
from labelgrad.step import Batch
from labelgrad.training.linear_heads import LinearHeads

ROWS, COLUMNS, CLASSES, LABELED = 90, 12, 3, 36


def data(dtype=torch.float64):
    generator = torch.Generator().manual_seed(4)
    centres = 1.5 * torch.randn(CLASSES, COLUMNS, generator=generator, dtype=dtype)
    y = torch.arange(ROWS) % CLASSES
    x = centres[y] + torch.randn(ROWS, COLUMNS, generator=generator, dtype=dtype)
    return (x - x.mean(0)) / x.std(), y


def at_zero(dtype=torch.float64):
    network = MLP(COLUMNS, (), CLASSES).to(dtype)
    torch.nn.init.zeros_(network.layers[0].weight)
    return network


class Known:
    """The batches of all labeled rows, without those whose label a version does not know."""

    def __init__(self, whole, known):
        self.whole, self.known, self.batch_size = whole, known, whole.batch_size

    def __len__(self):
        return len(self.known)

    @property
    def labels(self):
        return self.whole.labels[self.known]

    def batch(self, step):
        batch = self.whole.batch(step)
        mine = torch.isin(batch.rows, self.known)
        return Batch(batch.x[mine], batch.y[mine], batch.rows[mine])

    def fingerprint(self):
        return f"{self.whole.fingerprint()} {self.known.tolist()}"


def generic(x, y, labeled, unlabeled, *, seed=3):
    return Recipe(
        at_zero(x.dtype),
        LGA(len(unlabeled), CLASSES, rule=Evidence(1.0), power=0, dtype=x.dtype),
        labeled,
        TensorBatches(x, rows=unlabeled, batch_size=20, seed=seed),
        learning_rate=3e-4,
        seed=seed,
    ).trainer()


def versions_and_heads(dtype, hidden, *, seed=3):
    x, y = data(dtype)
    rows = torch.arange(ROWS)
    labels = torch.stack([torch.where(rows < LABELED, y, -1) for _ in hidden])
    for version, rows_hidden in zip(labels, hidden, strict=True):
        version[list(rows_hidden)] = -1
    heads = LinearHeads(x, labels, CLASSES, unlabeled=rows[LABELED:], batch_size=20, seed=seed)
    return x, y, labels, heads


# At first the imputed labels are what the heads say, and Adam makes a step of the rounding of 0.
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 1e-3)])
def test_every_version_is_the_generic_training_step_for_step(dtype, close):
    hidden = [range(0, 9), range(9, 18), range(3, 30), ()]
    x, y, labels, heads = versions_and_heads(dtype, hidden)
    whole = TensorBatches(x, y, rows=torch.arange(LABELED), batch_size=20, seed=3)
    trainers = [
        generic(
            x, y, Known(whole, (version >= 0).nonzero().squeeze(1)), torch.arange(LABELED, ROWS)
        )
        for version in labels
    ]
    for _ in range(60):  # twenty visits of each row
        heads.step()
        for place, trainer in enumerate(trainers):
            trainer.step()
            outputs = trainer.model(x)
            torch.testing.assert_close(heads.outputs(x)[:, place], outputs, rtol=close, atol=close)
    for place, trainer in enumerate(trainers):
        imputed = trainer.objective.table.labels()
        torch.testing.assert_close(
            heads.loss.impute(heads.values[:, place, 0]), imputed, rtol=close, atol=close
        )


def test_one_version_is_the_recipe_with_its_own_batches():
    x, y, _, heads = versions_and_heads(torch.float64, [()])
    labeled = TensorBatches(x, y, rows=torch.arange(LABELED), batch_size=20, seed=3)
    trainer = generic(x, y, labeled, torch.arange(LABELED, ROWS))
    for _ in range(40):
        heads.step()
        trainer.step()
    torch.testing.assert_close(heads.outputs(x)[:, 0], trainer.model(x), rtol=1e-12, atol=1e-12)


def test_what_one_version_learns_does_not_hang_on_the_labels_of_another():
    x, _, labels, heads = versions_and_heads(torch.float32, [range(0, 9), range(9, 18)])
    mixed = labels.clone()
    mixed[1, :9] = (labels[1, :9] + 1) % CLASSES
    others = LinearHeads(
        x, mixed, CLASSES, unlabeled=torch.arange(LABELED, ROWS), batch_size=20, seed=3
    )
    for _ in range(30):
        heads.step()
        others.step()
    assert torch.equal(heads.outputs(x)[:, 0], others.outputs(x)[:, 0])
    assert not torch.equal(heads.outputs(x)[:, 1], others.outputs(x)[:, 1])


def test_the_bias_is_the_weight_of_a_constant():
    x, _, labels, _ = versions_and_heads(torch.float64, [range(0, 9), range(9, 18)])
    constants, unlabeled = (0.5, 3.0), torch.arange(LABELED, ROWS)
    heads = LinearHeads(x, labels, CLASSES, unlabeled=unlabeled, constant=torch.tensor(constants))
    for _ in range(30):
        heads.step()
    for place, constant in enumerate(constants):
        wider = torch.cat([x, x.new_full((ROWS, 1), constant)], 1)
        other = LinearHeads(wider, labels, CLASSES, unlabeled=unlabeled, constant=0.0)
        for _ in range(30):
            other.step()
        wanted = other.outputs(wider)[:, place]
        torch.testing.assert_close(heads.outputs(x)[:, place], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("known", "unlabeled"), [(0, 5), (5, 0)])
def test_rows_of_both_kinds_are_needed(known, unlabeled):
    labels = torch.full((1, 10), -1)
    labels[0, :known] = 0
    with pytest.raises(ValueError, match="need labeled and unlabeled rows, got"):
        LinearHeads(torch.zeros(10, 2), labels, 2, unlabeled=torch.arange(10 - unlabeled, 10))
