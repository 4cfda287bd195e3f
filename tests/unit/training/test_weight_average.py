"""An average of the weights, for evaluation: by hand, in checkpoints, and out of training's way."""

import pytest
import torch
from torch.nn.utils import parameters_to_vector as flatten

from labelgrad import MLP, Run, Supervised, TensorBatches, Trainer
from tests.conftest import ConvNet


def make(weight_average=0.9, model=None):
    torch.manual_seed(0)
    x, y = torch.randn(30, 4), torch.arange(30) % 3
    data = TensorBatches(x, y, batch_size=10)
    model = MLP(4, (8,), 3) if model is None else model
    return Trainer(model, Supervised(), data, learning_rate=0.1, weight_average=weight_average)


def test_it_is_the_moving_average_of_the_weights():
    trainer = make()
    expected = None
    for _ in range(10):
        trainer.step()
        now = flatten(trainer.model.parameters()).detach()
        expected = now if expected is None else 0.9 * expected + 0.1 * now  # from the first step on
    assert torch.allclose(flatten(trainer.evaluated.parameters()), expected, atol=1e-6)


def test_training_does_not_notice():
    with_it, without = make(), make(None)
    for _ in range(5):
        assert with_it.step() == without.step()
    assert without.evaluated is without.model
    assert with_it.evaluated is not with_it.model


def test_a_run_evaluates_keeps_and_resumes_the_average(tmp_path):
    examples = {"validation": (torch.randn(20, 4), torch.arange(20) % 3)}
    whole = Run(make(), steps=20, examples=examples, evaluate_every=5).finish()
    settings = {"examples": examples, "evaluate_every": 5, "checkpoint_every": 5}
    Run(make(), steps=10, folder=tmp_path, **settings).finish()
    resumed = Run(make(), steps=20, folder=tmp_path, **settings).finish()
    strip = [{k: v for k, v in line.items() if k != "seconds"} for line in whole.history]
    again = [{k: v for k, v in line.items() if k != "seconds"} for line in resumed.history]
    assert strip == again
    for name, value in whole.trainer.evaluated.state_dict().items():
        assert torch.equal(value, resumed.trainer.evaluated.state_dict()[name])
    assert whole.best.tensors.keys() == whole.trainer.model.state_dict().keys()


def test_the_statistics_of_batch_norm_are_averaged_too():
    torch.manual_seed(0)
    data = TensorBatches(torch.randn(30, 1, 4, 4), torch.arange(30) % 3, batch_size=10)
    trainer = Trainer(ConvNet(), Supervised(), data, weight_average=0.9)
    for _ in range(5):
        trainer.step()
    mean, average = (m.norm.running_mean for m in (trainer.model, trainer.evaluated))
    assert not torch.equal(mean, average)
    assert not torch.equal(average, torch.zeros_like(average))


@pytest.mark.parametrize("decay", [1.0, -0.1])
def test_a_decay_outside_its_range_is_an_error(decay):
    with pytest.raises(ValueError, match="weight_average"):
        make(decay)
