"""Labels that count by how sure they are, beside the sum written out example by example."""

import math

import pytest
import torch

from labelgrad import (
    LGA,
    VAT,
    Certainty,
    LazyAdam,
    SquaredError,
    Supervised,
    TensorBatches,
    Trainer,
)
from tests.conftest import make_step

ROWS, CLASSES = 12, 3


def lga_with_labels(seed=0):
    """An LGA term whose labels are anything from undecided to sure."""
    lga = LGA(rows=ROWS, width=CLASSES, rule=LazyAdam(0.1))
    scale = torch.linspace(0, 8, ROWS)[:, None]
    numbers = torch.randn(ROWS, CLASSES, generator=torch.Generator().manual_seed(seed))
    lga.table.values[:, 0] = scale * numbers
    return lga


def test_a_label_that_knows_nothing_counts_nothing_and_a_sure_one_fully():
    undecided, sure = torch.full((1, CLASSES), 1 / CLASSES), torch.eye(CLASSES)[:1]
    assert Certainty()(undecided).item() == pytest.approx(0, abs=1e-6)
    assert Certainty()(sure).item() == 1
    half = torch.tensor([[0.5, 0.5, 0.0]])
    assert Certainty()(half).item() == pytest.approx(1 - math.log(2) / math.log(3))


def test_the_pull_on_the_model_is_the_weighed_mean_of_each_examples_own():
    step = make_step()
    term = Certainty() * lga_with_labels()
    value = term(step)
    labels = term.term.table.labels(step.unlabeled.rows)
    slow, pull = 0.0, 0
    for label, output in zip(labels, step.unlabeled_outputs, strict=True):
        entropy = -sum(p * math.log(p) for p in label.tolist() if p > 0)
        certainty = 1 - entropy / math.log(CLASSES)
        loss = certainty * -(label * output.log_softmax(-1)).sum() / len(labels)
        slow, pull = slow + loss.item(), pull + step.gradient(loss)
    assert value.item() == pytest.approx(slow, rel=1e-5)
    torch.testing.assert_close(step.gradient(value), pull)
    (said,) = [value for name, value in step.records.items() if name.endswith("certainty")]
    assert 0 < said.item() < 1


def test_the_labels_learn_as_they_would_without_a_weight():
    tables = []
    for weight in (None, Certainty()):
        lga, step = lga_with_labels(), make_step()
        term = lga if weight is None else weight * lga
        term(step)
        term.update(step)
        tables.append(lga.table.values.clone())
    assert torch.equal(*tables)
    assert not torch.equal(tables[0], lga_with_labels().table.values)


def test_it_is_refused_where_there_are_no_labels_of_classes():
    with pytest.raises(ValueError, match=r"VAT.* has none; give it a number"):
        Certainty() * VAT(eps=1.0)
    with pytest.raises(ValueError, match="has none; give it a number"):
        Certainty() * (Supervised() + lga_with_labels())
    x, y = torch.randn(10, 2), torch.randn(10)
    values = Certainty() * LGA(rows=10, width=1, loss=SquaredError())
    with pytest.raises(ValueError, match="needs classes, not values"):
        Trainer(
            torch.nn.Linear(2, 1),
            values,
            TensorBatches(x, y, batch_size=5),
            TensorBatches(x, batch_size=5),
            loss=SquaredError(),
        )
