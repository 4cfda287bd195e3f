"""Several processes train as one would: whatever the method, however many there are."""

import os
import random
import shutil
import signal
import time

import pytest
import torch
from torch import nn

from labelgrad import LGA, EntMin, Recipe, Supervised, TensorBatches
from labelgrad.distributed import Group
from labelgrad.objectives.distillation import Distillation
from labelgrad.training.checkpoint import Checkpoints
from tests.conftest import NETWORKS, WIDTH
from tests.unit import test_contract as contract
from tests.unit.distributed.processes import job, together
from tests.unit.test_contract import EVERY_OBJECTIVE, ROWS

METHODS = {
    **EVERY_OBJECTIVE,
    "distillation": lambda: Supervised() + Distillation(torch.eye(WIDTH).repeat(ROWS // WIDTH, 1)),
}
KILLS = int(os.environ.get("LABELGRAD_KILLS", "4"))  # twenty take some minutes
APPROXIMATE = "lga by finite difference"  # a small difference over a small step: much rounding


def trainer(make, group, network="mlp", size=(4, 6), **settings):
    return contract.trainer(make, network, size, group, **settings)


def after(steps, make, group, *args, **settings):
    one = trainer(make, group, *args, **settings)
    records = [one.step() for _ in range(steps)]
    state = one.state
    Checkpoints("unused").collect_rows(state, one.tables, one.group)  # every process's rows
    return records, {name: value.clone() for name, value in state.tensors.items()}


def assert_same(found, expected, tolerance=1e-7):
    for one, two in zip(found[0], expected[0], strict=True):
        assert one == pytest.approx(two, abs=tolerance)
    for name, value in expected[1].items():
        torch.testing.assert_close(
            found[1][name], value, rtol=0, atol=tolerance, msg=lambda said, name=name: name + said
        )


@pytest.mark.parametrize(
    ("size", "network", "names"),
    [
        (2, "conv", ["lga + vat", "freematch", "lga + fixmatch"]),
        pytest.param(4, "mlp", list(METHODS), marks=pytest.mark.slow),
        pytest.param(3, "conv", list(METHODS), marks=pytest.mark.slow),
    ],
)
def test_several_processes_move_the_model_as_one_does(size, network, names):
    """Views, directions and batch norm are those of the whole batch; parts differ by a row."""
    chosen = {name: METHODS[name] for name in names}

    def work(group):
        return {name: after(3, make, group, network) for name, make in chosen.items()}

    first, *others = together(size, work)
    for name, make in chosen.items():
        tolerance = 1e-3 if name == APPROXIMATE else 1e-7
        assert_same(first[name], after(3, make, Group(), network), tolerance)
        for other in others:
            assert_same(other[name], first[name], tolerance=0)


def test_an_accumulated_batch_is_cut_as_in_one_process():
    settings = {"accumulate": 2, "clip_norm": 0.1, "weight_average": 0.9}
    make = METHODS["lga + fixmatch"]
    found = together(2, lambda group: after(4, make, group, "conv", size=(4, 6), **settings))
    expected = after(4, make, Group(), "conv", size=(4, 6), **settings)
    for each in found:
        assert_same(each, expected)


def test_dropout_masks_are_each_process_s_own():
    """They are drawn inside of the model: the same in the mean, and not the same for all rows."""
    found = together(2, lambda group: after(2, Supervised, group, "dropout"))
    assert found[0][0] != after(2, Supervised, Group(), "dropout")[0]
    for name, value in found[0][1].items():
        assert torch.equal(value, found[1][1][name]), name


def messages(make, *, steps=3):
    """The sizes of all that is summed up over processes in each step, in numbers."""

    def work(group):
        sent, plain = [], group.sum
        group.sum = lambda values: sent.append(values.numel()) or plain(values)
        one = trainer(make, group, views=None)
        for _ in range(steps):
            one.step()
        return sent

    return together(2, work)[0]


@pytest.mark.parametrize(
    ("make", "gradients"),
    [
        (Supervised, 1),
        (lambda: 0.1 * Supervised() + LGA(ROWS, WIDTH, dtype=torch.float64), 2),
        (lambda: Supervised() + 0.1 * EntMin(), 2),
    ],
)
def test_a_step_sends_as_many_gradients_as_it_must(make, gradients):
    parameters, sent = sum(p.numel() for p in NETWORKS["mlp"]().parameters()), messages(make)
    assert sent.count(parameters) == 3 * gradients
    assert max(size for size in sent if size != parameters) <= 8  # what is recorded; no labels


def advance(run, step):
    """The run, taken to a step."""
    if run.trainer.index < step:
        next(record for record in run if record["step"] == step)
    return run


def ended(folder):
    """All that a run left, but for times."""
    state = Checkpoints(folder / "checkpoints").load()
    kept = {k: v for k, v in state.info.items() if k not in ("seconds", "log", "settings")}
    return kept["step"], state.tensors


def until(step, folder, steps=24, table=None):
    def work(group):
        run = advance(job(folder, group, steps, table=table), step)
        return run.history, run.best.info["step"]

    return work


@pytest.mark.parametrize(("before", "later"), [(2, 1), (1, 2), (2, 4)])
def test_a_run_goes_on_with_another_number_of_processes(tmp_path, before, later):
    together(before, until(12, tmp_path / "moved"))
    found = together(later, until(24, tmp_path / "moved"))
    expected = together(1, until(24, tmp_path / "alone"))[0]
    for history, best in found:
        assert best == expected[1]
        assert [line["step"] for line in history] == [4, 8, 12, 16, 20, 24]
        for one, two in zip(history, expected[0], strict=True):
            timeless = {k: v for k, v in two.items() if k != "seconds"}
            assert {k: one[k] for k in timeless} == pytest.approx(timeless, abs=1e-5)
    (step, tensors), (_, alone) = ended(tmp_path / "moved"), ended(tmp_path / "alone")
    assert step == 24
    for name, value in alone.items():
        torch.testing.assert_close(tensors[name], value, rtol=0, atol=1e-5, msg=name)


def labels_in(place, name, in_file):
    """The labels of LGA's in a finished run, whether in its checkpoint or in a file."""
    run = job(place / name, Group(), 80, table=place / f"{name}-table" if in_file else None)
    lga = next(term for term in run.trainer.objective.leaves() if isinstance(term, LGA))
    return lga.table.labels()


@pytest.mark.slow
@pytest.mark.parametrize("in_file", [False, True])
def test_random_kills_of_random_processes_leave_no_trace(tmp_path, in_file):
    """Some while one trains, some while two, four and one again do: as if nobody had been killed.

    The files are those of the undisturbed run with these numbers of processes, bit for bit, and one
    process alone would have come to the same but for rounding.
    """

    def phase(step, name):
        table = tmp_path / f"{name}-table" if in_file else None
        return until(step, tmp_path / name, 80, table)

    phases = [(1, 20), (2, 40), (4, 60), (1, 80)]
    for size, step in phases:
        began = time.monotonic()
        together(size, phase(step, "undisturbed"))
        longest = time.monotonic() - began
    together(1, phase(80, "alone"))
    chance, done = random.Random(0), 0
    for number, (size, step) in enumerate(phases):
        while done < KILLS * (number + 1) // len(phases):
            before = shutil.copytree(tmp_path, tmp_path.parent / "before", dirs_exist_ok=True)
            victim = chance.randrange(size), chance.uniform(0, longest)
            found = together(size, phase(step, "killed"), kill=victim, seconds=5.0)
            done += found.count("killed")
            if "killed" not in found:  # the phase was over sooner: once more, from its beginning
                shutil.rmtree(tmp_path)
                before.rename(tmp_path)
        together(size, phase(step, "killed"))
    assert done == KILLS
    kept = {name: ended(tmp_path / name) for name in ("killed", "undisturbed", "alone")}
    assert [step for step, _ in kept.values()] == [80, 80, 80]
    for name, value in kept["undisturbed"][1].items():
        assert torch.equal(kept["killed"][1][name], value), name
        if not name.endswith("table.values"):  # log-odds; as labels they are compared below
            alone = kept["alone"][1][name]
            torch.testing.assert_close(alone, value, rtol=0, atol=1e-5, msg=name)
    labels = [labels_in(tmp_path, name, in_file) for name in kept]
    assert torch.equal(labels[0], labels[1])
    torch.testing.assert_close(labels[0], labels[2], rtol=0, atol=1e-4)


def test_whoever_is_left_says_so(tmp_path):
    def work(group):
        run = job(tmp_path, group)
        for record in run:
            if record["step"] == 6 and group.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    left, killed, other = together(3, work)
    assert killed == "killed"
    for error in (left, other):
        assert type(error).__name__ == "GroupError"
        assert "One of 3 processes did not answer process" in str(error)


def test_the_first_process_may_work_alone_for_longer_than_it_may_be_silent():
    def work(group):
        return group.on_rank_zero(lambda: time.sleep(3) or "done")

    assert together(2, work, seconds=1.0) == ["done", "done"]


def test_nobody_waits_for_a_first_process_that_was_killed_at_its_work():
    def work(group):
        return group.on_rank_zero(lambda: os.kill(os.getpid(), signal.SIGKILL))

    killed, left = together(2, work, seconds=1.0)
    assert killed == "killed"
    assert type(left).__name__ == "GroupError"
    assert "processes did not answer process 1" in str(left)


def test_nobody_waits_for_one_that_hangs_when_time_is_up():
    def work(group):
        one = trainer(Supervised, group)
        one.step()
        if group.rank == 1:
            time.sleep(6)
            return None
        return one.step()

    error, _ = together(2, work, seconds=1.5)
    assert "it was ended, cannot be reached, or took more than 1.5 s" in str(error)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed is 0 in process 0 but 1 in process 1"),
        ({"learning_rate": 0.5}, "learning_rate is 0.01 in process 0 but 0.5 in process 1"),
        ({"size": (5, 6)}, "labeled is 9 examples of (1, 4, 4) in batches of 4"),
    ],
)
def test_processes_that_would_train_otherwise_are_refused(change, said):
    def work(group):
        return trainer(Supervised, group, **(change if group.rank else {}))

    for error in together(2, work):
        assert isinstance(error, ValueError)
        assert said in str(error)
        assert "same command, settings and data" in str(error)


def test_all_begin_from_the_weights_of_the_first():
    def work(group):
        torch.manual_seed(group.rank)
        network = nn.Linear(4, WIDTH)
        labeled = TensorBatches(torch.ones(6, 4), torch.arange(6) % WIDTH, batch_size=4)
        Recipe(network, Supervised(), labeled).trainer(group=group)
        return network.weight.detach()

    first, second = together(2, work)
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ((2, 6), "need at least 3 examples in a batch to share, and the labeled ones have 2"),
        ((4, 2), "need at least 3 examples in a batch to share, and the unlabeled ones have 2"),
    ],
)
def test_more_processes_than_rows_are_refused(size, said):
    for error in together(3, lambda group: trainer(EntMin, group, size=size)):
        assert isinstance(error, ValueError)
        assert said in str(error)


def test_what_diverges_does_so_in_all_processes():
    def work(group):
        one = trainer(lambda: Supervised() + EntMin(), group, learning_rate=1e30, views=None)
        for _ in range(20):
            one.step()

    errors = together(2, work)
    assert all(type(error).__name__ == "TrainingDivergedError" for error in errors)
    assert str(errors[0]) == str(errors[1])


def test_an_error_of_the_first_is_everybody_s(tmp_path):
    (tmp_path / "checkpoints").write_text("a file where a folder should be")

    def work(group):
        job(tmp_path, group).finish()

    first, second = together(2, work)
    assert type(first) is type(second)
    assert str(first) == str(second)


def test_records_are_passed_on_by_the_first_process_alone():
    def work(group):
        records = []
        run = job(None, group, steps=4)
        run.on_record = records.append
        run.finish()
        return len(records)

    assert together(2, work) == [4, 0]
