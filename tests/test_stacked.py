"""Trainings that advance together: each ends where it would have ended by itself."""

import pickle
import threading

import pytest
import torch
from torch import nn

import labelgrad
from labelgrad import (
    LGA,
    MLP,
    VAT,
    CrossEntropy,
    Recipe,
    SquaredError,
    Supervised,
    TensorBatches,
    Trainer,
)
from labelgrad.labels.alignment import Gap
from labelgrad.labels.evidence import Evidence
from labelgrad.labels.lazy_adam import LazyAdam
from labelgrad.labels.sgd import SGD
from labelgrad.objectives.distillation import Distillation
from labelgrad.schedules import Drop, Ramp
from labelgrad.training.errors import TrainingDivergedError
from labelgrad.training.recipe import side_by_side
from labelgrad.training.stackable import stackable, stacks
from labelgrad.training.stacked import advance

ROWS, COUNTS = 50, (15, 16, 40, 19)  # unlabeled rows, and labels of each training
RULES = {
    "supervised": None,
    "evidence": Evidence,
    "adam": lambda: LazyAdam(Ramp(20, 0.05)),
    "sgd": lambda: SGD(1e-3),
    "taught": None,
}


def data(values=False, dtype=torch.float32):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(40 + ROWS, 7, generator=generator, dtype=dtype)
    y = x[:, 0] + 0.1 * x[:, 1] if values else x[:, 0].mul(2).long().clamp(-1, 1) + 1
    return x, y


def trainer(rule="evidence", labels=15, *, values=False, dtype=torch.float32, start=0, **settings):
    x, y = data(values, dtype)
    width, loss = (1, SquaredError()) if values else (3, CrossEntropy())
    torch.manual_seed(start)
    network = settings.pop("network", None) or MLP(7, (16, 12), width).to(dtype)
    lga = settings.pop("lga", {})
    objective = settings.pop("objective", Supervised())
    if rule == "taught":
        taught = torch.randn(ROWS, width, generator=torch.Generator().manual_seed(3), dtype=dtype)
        objective = Ramp(10, 0.3) * Supervised() + Distillation(
            taught if values else taught.softmax(-1), loss=loss
        )
    if RULES[rule] is not None:
        table = LGA(ROWS, width, loss=loss, rule=RULES[rule](), dtype=dtype, **lga)
        objective = Ramp(10, 0.3) * Supervised() + table
    return Trainer(
        network,
        objective,
        TensorBatches(x, y, rows=torch.arange(labels), batch_size=min(18, labels), seed=1),
        None if rule == "supervised" else TensorBatches(x[40:], batch_size=23, seed=1),
        **{"learning_rate": Drop(1e-3, at=30), "loss": loss} | settings,
    )


def several(rule="evidence", **settings):
    return [trainer(rule, n, start=n, **settings) for n in COUNTS]


def finish(trainers, steps):
    return list(advance(trainers, steps))


def assert_near(one, two, tolerance):
    assert one.info == two.info
    assert one.tensors.keys() == two.tensors.keys()
    for name, value in one.tensors.items():
        torch.testing.assert_close(
            two.tensors[name], value, rtol=tolerance, atol=tolerance, msg=name
        )


def assert_equal(one, two):
    assert one.index == two.index
    for name, value in one.state.tensors.items():
        assert torch.equal(value, two.state.tensors[name]), name


@pytest.mark.parametrize("values", [False, True], ids=["classes", "values"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("dtype", "steps", "tolerance"),
    [(torch.float64, 200, 1e-9), (torch.float32, 30, 2e-3)],
    ids=["double", "single"],
)
def test_each_goes_where_it_would_go_by_itself(rule, values, dtype, steps, tolerance):
    together, alone = (several(rule, values=values, dtype=dtype) for _ in range(2))
    assert stacks(together) == [[0, 1, 2, 3]]
    found, wanted = finish(together, steps), [[t.step() for t in alone] for _ in range(steps)]
    for one, two in zip(together, alone, strict=True):
        assert_near(two.state, one.state, tolerance)
    for records, others in zip(found, wanted, strict=True):
        for record, other in zip(records, others, strict=True):
            assert list(record) == list(other), "the same names in the same order"
            assert record == pytest.approx(other, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("values", [False, True], ids=["classes", "values"])
@pytest.mark.parametrize("rule", RULES)
def test_its_company_does_not_matter_to_the_last_bit(rule, values):
    together, alone = (several(rule, values=values) for _ in range(2))
    records = finish(together, 40)
    for place, one in enumerate(alone):
        mine = finish([one], 13) + finish([one], 27)  # nor does it that it was interrupted
        assert [each[0] for each in mine] == [each[place] for each in records]
        assert_equal(one, together[place])


def test_lga_alone_goes_where_it_would_go_by_itself():
    def without_the_labeled_loss(labels):
        like = trainer("evidence", labels, start=labels, dtype=torch.float64)
        lga = LGA(ROWS, 3, rule=Evidence(1.0), power=0, dtype=torch.float64)
        return Trainer(like.model, lga, like.labeled, like.unlabeled, learning_rate=1e-3)

    together, each = ([without_the_labeled_loss(n) for n in COUNTS] for _ in range(2))
    assert stacks(together) == [[0, 1, 2, 3]]
    records = finish(together, 30)
    for place, one in enumerate(each):
        said = [one.step() for _ in range(30)]
        assert_near(one.state, together[place].state, 1e-9)
        assert [list(r) for r in said] == [list(found[place]) for found in records]


@pytest.mark.parametrize("power", [0, 0.25, 0.4, 0.5])
def test_every_metric_is_the_same(power):
    settings = {"dtype": torch.float64, "lga": {"power": power, "epsilon": 1e-3}}
    one, two = (trainer(**settings) for _ in range(2))
    finish([one], 20)
    for _ in range(20):
        two.step()
    assert_near(two.state, one.state, 1e-9)


@pytest.mark.parametrize("power", [0, 0.25, 0.4, 0.5])
def test_roots_in_place_of_powers(power):
    gap, v = Gap(gradient_decay=0, moment_decay=0, power=power), torch.randn(50).double()
    torch.testing.assert_close(gap(v, torch.zeros_like(v))[1], v / (1e-9 + (v**4) ** power))


def test_soft_labels_and_several_values_and_swapped_terms():
    x, _ = data(dtype=torch.float64)
    for loss, y in ((CrossEntropy(), x[:, :3].softmax(-1)), (SquaredError(), x[:, :3])):

        def make(loss=loss, y=y):
            torch.manual_seed(0)
            return Trainer(
                MLP(7, (), 3).double(),
                0.5 * LGA(ROWS, 3, loss=loss, rule=Evidence()) + Supervised(),
                TensorBatches(x[:40], y[:40], batch_size=10),
                TensorBatches(x[40:], batch_size=49),  # rows come twice in a batch at times
                loss=loss,
            )

        one, two = make(), make()
        assert stackable(one)
        records = [record for (record,) in finish([one], 30)]
        others = [two.step() for _ in range(30)]
        assert list(records[-1]) == list(others[-1])
        assert_near(two.state, one.state, 1e-6)  # the table is in single precision


NOT_PLAIN = {
    "another network": {"network": nn.Sequential(nn.Linear(7, 3))},
    "dropout": {"network": nn.Sequential(MLP(7, (8,), 3), nn.Dropout(0.1))},
    "another objective": {"rule": "supervised", "objective": Supervised() + VAT(eps=0.1)},
    "an average of weights": {"weight_average": 0.9},
    "clipping": {"clip_norm": 1.0},
    "accumulation": {"accumulate": 3, "labels": 18},
    "another optimizer": {"optimizer": torch.optim.SGD},
    "weight decay": {"optimizer": lambda p, lr: torch.optim.Adam(p, lr=lr, weight_decay=0.1)},
    "another slope": {"lga": {"slope": "finite-difference"}},
    "bfloat16": {"autocast": torch.bfloat16},
}


@pytest.mark.parametrize("why", NOT_PLAIN)
def test_what_is_not_plain_goes_its_own_way(why):
    assert not stackable(trainer(**NOT_PLAIN[why]))
    if "network" in NOT_PLAIN[why]:
        return
    assert stacks([trainer(), trainer(**NOT_PLAIN[why]), trainer()]) == [[1], [0, 2]]


def test_a_network_that_is_listened_to_is_asked_itself():
    one, heard = trainer(), []
    one.model.layers[0].register_forward_hook(lambda *_: heard.append(1))
    finish([one], 2)
    assert heard


def test_a_table_in_a_file_is_not_stacked(tmp_path):
    assert not stackable(trainer(lga={"folder": tmp_path}))


def test_only_those_of_one_kind_and_step_stand_together():
    ahead = trainer()
    finish([ahead], 3)
    kinds = [trainer(), trainer("adam"), trainer(), trainer("supervised"), ahead]
    kinds += [trainer(learning_rate=1e-2), trainer("supervised", 40)]
    assert stacks(kinds) == [[1], [0, 2], [4], [5], [3, 6]]


class TestWhileTheStackStands:
    def test_the_trainers_are_up_to_date_after_every_step(self):
        together, alone = several(), several()
        for _ in advance(together, 5):
            finish([alone[2]], 1)
            assert_equal(together[2], alone[2])
            assert torch.equal(
                list(alone[2].objective.leaves())[1].table.labels(),
                list(together[2].objective.leaves())[1].table.labels(),
            )

    def test_stopped_early_they_have_memory_of_their_own(self):
        together = several()
        moves = advance(together, 50)
        next(moves)
        del moves
        for one in together:
            assert one.index == 1
            assert all(value.is_contiguous() for value in one.state.tensors.values())
            for parameter in one.model.parameters():
                assert parameter.untyped_storage().nbytes() == parameter.nbytes
        kept = [pickle.dumps(one.model) for one in together]
        finish(together[1:], 3)
        assert pickle.dumps(together[0].model) == kept[0]
        assert pickle.dumps(together[1].model) != kept[1]

    def test_an_iterator_that_was_left_lying_disturbs_nobody(self):
        one, other = trainer(), trainer()
        lying = advance([one], 50)
        next(lying)
        finish([one], 4)
        del lying
        finish([one], 5)
        finish([other], 10)
        assert_equal(one, other)

    def test_gradients_are_recorded_outside_as_before(self):
        for _ in advance([trainer()], 2):
            assert torch.is_grad_enabled()


def test_after_it_a_trainer_goes_on_by_itself_and_the_other_way_round():
    mixed, plain = (trainer(dtype=torch.float64) for _ in range(2))
    for _ in range(5):
        mixed.step()
        finish([mixed], 3)
    finish([plain], 20)
    assert_near(plain.state, mixed.state, 1e-9)


@pytest.mark.parametrize("rule", ["supervised", "evidence"])
def test_what_is_not_finite_is_told_of_as_before(rule):
    def make():
        return trainer(rule, values=True, learning_rate=1e30, start=3)

    one, wild = make(), make()
    with pytest.raises(TrainingDivergedError) as by_itself:
        [one.step() for _ in range(100)]
    with pytest.raises(TrainingDivergedError) as together:
        finish([wild], 100)
    assert str(together.value) == str(by_itself.value)
    assert wild.index == one.index
    assert_near(one.state, wild.state, 1e-3)


def recipe(labels=15, steps=30):
    x, y = data()
    return Recipe(
        lambda: MLP(7, (16,), 3),
        lambda: 0.1 * Supervised() + LGA(ROWS, 3, rule=Evidence()),
        TensorBatches(x, y, rows=torch.arange(labels), batch_size=15),
        TensorBatches(x[40:], batch_size=20),
        steps=steps,
    )


def test_runs_killed_at_different_steps_catch_up_bit_for_bit(tmp_path):
    def runs(place):
        every = {"evaluate_every": 10, "checkpoint_every": 5}
        return [recipe(n).run(folder=tmp_path / place / str(n), **every) for n in (15, 20)]

    undisturbed = runs("one")
    for _ in side_by_side(undisturbed, 30):
        pass
    stopped = runs("two")
    for _ in side_by_side(stopped, 12):
        pass
    for _ in side_by_side(stopped[:1], 17):
        pass
    resumed = runs("two")
    assert [run.trainer.index for run in resumed] == [15, 10]
    for target in (20, 30):
        for _ in side_by_side(resumed, target):
            pass
    for one, two in zip(undisturbed, resumed, strict=True):
        assert_equal(one.trainer, two.trainer)
        assert [line["loss"] for line in one.history] == [line["loss"] for line in two.history]


def test_a_run_that_diverges_among_others_names_its_own_checkpoint(tmp_path):
    runs = [recipe().run(folder=tmp_path / name) for name in ("calm", "wild")]
    with torch.no_grad():
        runs[1].trainer.model.layers[0].weight.fill_(torch.inf)
    with pytest.raises(TrainingDivergedError, match=r"at step 0 in the term .*wild"):
        list(side_by_side(runs, 30))
    assert runs[1].trainer.index == 0


def test_threads_do_not_disturb_each_other():
    wanted, found = trainer(), [trainer() for _ in range(4)]
    finish([wanted], 20)
    threads = [threading.Thread(target=finish, args=([one], 20)) for one in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in found:
        assert_equal(one, wanted)


def test_a_fit_gives_each_training_what_it_would_be_alone():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 3, generator=generator).numpy()
    y = [int(row.sum() > 0) if place < 22 else -1 for place, row in enumerate(x)]
    found = [labelgrad.fit(x, y, steps=30, workers=workers) for workers in (1, 2)]
    assert found[0].labels == found[1].labels
