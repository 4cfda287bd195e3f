"""One place puts a training together, and what a trainer for real models must be able to do."""

import ast
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cosine_similarity
from torch.nn.utils import parameters_to_vector as flatten
from torch.utils.data import Dataset

import labelgrad
from labelgrad import (
    LGA,
    MLP,
    VAT,
    Batch,
    DatasetBatches,
    EntMin,
    Evidence,
    Examples,
    FreeMatch,
    Objective,
    Recipe,
    SquaredError,
    Step,
    Supervised,
    TensorBatches,
)
from labelgrad.augment.views import Noise
from labelgrad.labels.alignment import finite_difference, forward_mode
from labelgrad.schedules import Drop, Ramp

ROWS = 40


def data(seed=0):
    x = torch.randn(60, 6, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] > 0).long()


def recipe(objective=None, **settings):
    x, y = data()
    return Recipe(
        settings.pop("network", lambda: MLP(6, (16, 16), 2)),
        objective or (lambda: 0.1 * Supervised() + LGA(ROWS, 2, rule=Evidence())),
        settings.pop("labeled", TensorBatches(x, y, rows=torch.arange(20), batch_size=10)),
        TensorBatches(x, rows=torch.arange(20, 60), batch_size=10),
        **settings,
    )


def weights(trainer):
    return flatten(p.detach().clone() for p in trainer.model.parameters())


def trained(steps=30, **settings):
    trainer = recipe(**settings).trainer()
    for _ in range(steps):
        trainer.step()
    return weights(trainer)


def test_nothing_else_in_the_package_assembles_a_training():
    found = [
        (file.name, node.func.id)
        for file in Path(labelgrad.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Trainer", "Run")
    ]
    assert sorted(found) == [("recipe.py", "Run"), ("recipe.py", "Trainer")]


def test_the_first_weights_have_a_seed_of_their_own():
    first = [weights(recipe(seed=s, network_seed=n).trainer()) for s, n in ((0, 7), (1, 7), (0, 8))]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])


METHODS = {
    "lga": lambda: 0.1 * Supervised() + LGA(ROWS, 2),
    "vat": lambda: Supervised() + VAT(eps=0.3),
}


def at_once(works):
    """Call all of them, each in a thread of its own."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=50)
    assert not any(thread.is_alive() for thread in threads)


class TestThreads:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("dropout", [False, True])
    def test_two_at_once_give_what_each_gives_alone(self, method, dropout):
        def network():
            layers = [nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5 if dropout else 0.0)]
            return nn.Sequential(*layers, nn.Linear(16, 2))

        def train(seed):
            made = recipe(METHODS[method], network=network, seed=seed).trainer()
            for _ in range(15):
                made.step()
            return weights(made)

        alone = [train(seed) for seed in range(4)]
        before, found, errors = torch.get_rng_state(), {}, []

        def work(seed):
            try:
                found[seed] = train(seed)
            except Exception as error:
                errors.append(error)

        for _ in range(5):  # twenty runs, four at a time
            at_once([partial(work, seed) for seed in range(4)])
            assert not errors
            assert all(torch.equal(found[seed], alone[seed]) for seed in range(4))
        assert torch.equal(torch.get_rng_state(), before)


class TestGroups:
    @staticmethod
    def groups(model):
        first, *rest = model.layers
        return [
            {"params": first.parameters(), "lr": 1e-4},
            {"params": [p for layer in rest for p in layer.parameters()]},
        ]

    def test_a_schedule_scales_what_each_group_has(self):
        trainer = recipe(groups=self.groups, learning_rate=Drop(1e-3, at=2, factor=0.5)).trainer()
        seen = []
        for _ in range(3):
            trainer.step()
            seen.append([group["lr"] for group in trainer.built_optimizer.param_groups])
        assert seen == [pytest.approx([1e-4, 1e-3])] * 2 + [pytest.approx([5e-5, 5e-4])]

    def test_a_group_at_rest_does_not_move(self):
        trainer = recipe(
            groups=lambda m: [
                {"params": m.layers[0].parameters(), "lr": 0.0},
                {"params": m.layers[1].parameters()},
                {"params": m.layers[2].parameters()},
            ]
        ).trainer()
        before = [p.detach().clone() for p in trainer.model.layers[0].parameters()]
        trainer.step()
        after = trainer.model.layers[0].parameters()
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))

    def test_without_own_rates_it_is_as_without_groups(self):
        plain = lambda model: [{"params": list(model.parameters())}]  # noqa: E731
        assert torch.equal(trained(groups=plain), trained())

    def test_a_schedule_from_zero_cannot_scale_them(self):
        with pytest.raises(ValueError, match="begins at 0 cannot scale it"):
            recipe(groups=self.groups, learning_rate=Ramp(10, top=1e-3)).trainer()

    def test_they_are_found_again_after_a_checkpoint(self, tmp_path):
        settings = {"groups": self.groups, "learning_rate": Drop(1e-3, at=5)}
        calm = recipe(steps=12, **settings).run().finish()
        recipe(steps=7, **settings).run(folder=tmp_path).finish()
        again = recipe(steps=12, **settings).run(folder=tmp_path).finish()
        assert torch.equal(weights(calm.trainer), weights(again.trainer))


def test_clipping_bounds_the_gradient_and_nothing_else():
    def length(trainer):
        trainer.step()
        return float(flatten(p.grad for p in trainer.model.parameters()).norm())

    lengths = [length(recipe(clip_norm=bound).trainer()) for bound in (None, 1e-2, 1e6)]
    assert lengths[0] > 0.02
    assert lengths[1:] == [pytest.approx(1e-2, rel=1e-3), pytest.approx(lengths[0])]
    direction = [trained(1, clip_norm=b, optimizer=torch.optim.SGD) for b in (None, 1e-2)]
    start = weights(recipe().trainer())
    assert float(
        cosine_similarity(direction[0] - start, direction[1] - start, dim=0)
    ) == pytest.approx(1, abs=1e-4)
    with pytest.raises(ValueError, match="`clip_norm` must be more than 0, got -1"):
        recipe(clip_norm=-1).trainer()


def test_batches_that_cannot_be_cut_are_named():
    trainer = recipe(accumulate=3).trainer()
    with pytest.raises(ValueError, match="`accumulate` must divide the batch size 10, got 3"):
        trainer.step()


class TestAutocast:
    @staticmethod
    def step(autocast):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 5))
        labeled = Batch(torch.randn(20, 32), torch.arange(20) % 5, torch.arange(20))
        others = Batch(torch.randn(20, 32), None, torch.arange(20))
        return Step(model, labeled, others, autocast=autocast)

    @pytest.mark.parametrize("slope", [forward_mode, finite_difference])
    def test_the_slope_is_that_of_full_precision(self, slope):
        full, half = self.step(None), self.step(torch.bfloat16)
        direction = torch.randn(len(full.labeled_gradient))
        exact = forward_mode(full, direction)
        found = slope(half, direction)
        assert half.unlabeled_outputs.dtype == torch.float32
        assert float(cosine_similarity(exact.flatten(), found.flatten(), dim=0)) > 0.97

    def test_it_trains_to_nearly_the_same(self):
        full, half = trained(60), trained(60, autocast=torch.bfloat16)
        assert not torch.equal(full, half)
        start = weights(recipe().trainer())
        assert float(cosine_similarity(full - start, half - start, dim=0)) > 0.9

    def test_another_precision_is_refused(self):
        with pytest.raises(ValueError, match=r"must be torch\.bfloat16, got torch\.float16"):
            recipe(autocast=torch.float16).trainer()


def compiled():
    return torch.compile(MLP(6, (16, 16), 2), backend="aot_eager")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
class TestCompiled:
    def test_a_compiled_model_learns_as_it_does_uncompiled(self):
        found = trained(10, network=compiled)
        torch.testing.assert_close(found, trained(10), rtol=1e-4, atol=1e-5)

    def test_its_checkpoint_is_that_of_the_plain_one(self, tmp_path):
        recipe(steps=5).run(folder=tmp_path).finish()
        again = recipe(steps=9, network=compiled).run(folder=tmp_path)
        assert again.trainer.index == 5
        assert again.finish().trainer.index == 9

    def test_a_term_that_needs_a_graph_twice_is_named(self):
        both = recipe(lambda: Supervised() + EntMin(), network=compiled)
        with pytest.raises(ValueError, match=r"EntMin\(\) needs one pass .*donated_buffer = False"):
            both.trainer()


class TestBatches:
    def test_rows_of_a_tensor_are_drawn_as_a_copy_of_them_would_be(self):
        x, y = data()
        rows = torch.tensor([5, 3, 11, 40, 59, 2, 7])
        mine = TensorBatches(x, y, rows=rows, batch_size=3, seed=2)
        copy = TensorBatches(x[rows], y[rows], batch_size=3, seed=2)
        for step in range(9):
            one, two = mine.batch(step), copy.batch(step)
            assert torch.equal(one.x, two.x)
            assert torch.equal(one.y, two.y)
            assert torch.equal(one.rows, two.rows)

    @pytest.mark.parametrize("workers", [0, 1])
    def test_a_mapped_file_and_a_dataset_give_what_the_tensor_gives(self, workers, tmp_path):
        x, y = data()
        np.save(tmp_path / "x.npy", x.numpy())
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")

        class Pairs(Dataset):
            def __len__(self):
                return len(x)

            def __getitem__(self, row):
                return x[row], y[row]

        tensor = TensorBatches(x, y, batch_size=7, seed=1)
        before = torch.get_rng_state()
        for source in (mapped, Pairs()):
            read = DatasetBatches(source, y, batch_size=7, seed=1, workers=workers)
            for step in (0, 1, 2, 9, 10, 3):  # a step back or ahead is read anew
                assert torch.equal(read.batch(step).x, tensor.batch(step).x)
                assert torch.equal(read.batch(step).y, tensor.batch(step).y)
        assert torch.equal(torch.get_rng_state(), before)

    def test_a_batch_that_is_not_finite_is_named_with_its_example(self):
        x = np.zeros((6, 2))
        x[4, 1] = np.nan
        read = DatasetBatches(x, batch_size=6)
        with pytest.raises(ValueError, match="NaN or infinity in example 4"):
            read.batch(0)

    @pytest.mark.parametrize("place", [0, 1, 70_000, 199_999])
    def test_any_number_of_the_data_changes_the_fingerprint(self, place):
        x = torch.zeros(2000, 100)
        one = TensorBatches(x, batch_size=5).fingerprint()
        assert TensorBatches(x, batch_size=5).fingerprint() == one
        x.view(-1)[place] = 1e-3
        assert TensorBatches(x, batch_size=5).fingerprint() != one
        mapped = [DatasetBatches(x.numpy(), batch_size=5).fingerprint() for _ in range(2)]
        x.view(-1)[place] = 0
        assert DatasetBatches(x.numpy(), batch_size=5).fingerprint() not in mapped

    def test_a_run_does_not_go_on_with_other_data(self, tmp_path):
        recipe(steps=9).run(folder=tmp_path).finish()
        recipe(steps=9).run(folder=tmp_path)
        x, y = data()
        x[17, 5] += 1e-6
        other = TensorBatches(x, y, rows=torch.arange(20), batch_size=10)
        with pytest.raises(RuntimeError, match="of another configuration: its labeled is"):
            recipe(steps=9, labeled=other).run(folder=tmp_path)

    def test_bytes_become_numbers_batch_by_batch(self):
        pictures = torch.randint(256, (9, 1, 2, 2), dtype=torch.uint8)
        batches = TensorBatches(pictures, batch_size=3, transform=lambda x: x / 255)
        assert batches.batch(0).x.dtype == torch.float32
        shown = Examples(pictures, rows=torch.tensor([4]), transform=lambda x: x / 255)
        assert torch.equal(next(shown.parts()), pictures[4:5] / 255)


def test_a_metric_of_ones_own_is_evaluated_and_logged(tmp_path):
    x, y = data()
    surest = lambda outputs, labels: outputs.softmax(-1).amax(-1).mean()  # noqa: E731
    examples = {"validation": Examples(x, y, torch.arange(30, 50)), "test": (x[50:], y[50:])}
    run = recipe(steps=10).run(
        folder=tmp_path, examples=examples, evaluate_every=5, metrics={"surest": surest}
    )
    run.finish()
    assert 0.5 <= run.history[-1]["test_surest"] <= 1
    assert '"validation_surest"' in (tmp_path / "metrics.jsonl").read_text()
    with pytest.raises(ValueError, match="'error' is always measured"):
        recipe().run(metrics={"error": surest})


def test_every_record_is_handed_to_the_callback():
    seen = []
    run = recipe(steps=6).run(on_record=seen.append)
    assert list(run) == seen
    assert [record["step"] for record in seen] == [1, 2, 3, 4, 5, 6]
    assert {"supervised/loss", "lga/loss", "lga/gap", "lga/cosine"} <= set(seen[0])


def test_a_term_that_turns_to_nonsense_has_not_been_learned_from():
    x, y = data()
    x, y = x.clone(), y.float()
    y[3] = 1e30
    lga = LGA(ROWS, 1, loss=SquaredError())
    trainer = Recipe(
        lambda: MLP(6, (4,), 1),
        1e30 * Supervised() + lga,
        TensorBatches(x, y, rows=torch.arange(20), batch_size=20),
        TensorBatches(x, rows=torch.arange(20, 60), batch_size=10),
        loss=SquaredError(),
    ).trainer()
    before = weights(trainer)
    with pytest.raises(RuntimeError, match="turned inf"):
        trainer.step()
    assert lga.table.visits().sum() == 0
    assert torch.equal(weights(trainer), before)


def test_building_a_run_writes_nothing(tmp_path):
    recipe(steps=3).run(folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_library_does_not_import_the_compiler():
    code = "import labelgrad, sys; labelgrad.Recipe; print('torch._inductor' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


class Plain(Objective):
    """A term of one's own that shares the labeled pass, and reports now and then."""

    def forward(self, step):
        if step.labeled.rows.min() == 0:
            step.report("first", step.labeled_loss)
        return step.labeled_loss


@pytest.mark.parametrize("accumulate", [1, 2])
def test_lga_beside_a_term_of_ones_own(accumulate):
    own = lambda: 0.1 * Plain() + LGA(ROWS, 2, rule=Evidence())  # noqa: E731
    mine, ours = (
        trained(5, objective=objective, accumulate=accumulate) for objective in (own, None)
    )
    torch.testing.assert_close(mine, ours, rtol=0, atol=1e-5)


def test_a_part_that_is_asked_twice_draws_the_same_in_dropout_too():
    network = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 2))
    x, y = data()
    labeled = Batch(x[:10], y[:10], torch.arange(10))
    whole = Step(network, labeled, Batch(x[10:20], None, torch.arange(10)), views=Noise())
    first, _ = whole.cut(2)
    term = FreeMatch(2, decay=0.9)
    assert len({term(first).item() for _ in range(3)}) == 1


def test_one_reader_serves_two_threads():
    x = np.arange(400.0).reshape(200, 2)
    batches = DatasetBatches(x, batch_size=5, workers=1)
    wrong = []

    def work():
        for step in range(60):
            batch = batches.batch(step)
            if not np.array_equal(batch.x.numpy(), x[batch.rows.numpy()]):
                wrong.append(step)

    at_once([work, work])
    assert not wrong


@pytest.mark.timeout(60)
def test_a_network_that_is_trained_while_it_is_made_does_not_block_another_thread():
    def dropping():
        return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 2))

    def warmed():
        return recipe(network=dropping, steps=40).run().finish().trainer.model

    def train(network):
        recipe(network=network, steps=60).run().finish()

    at_once([partial(train, warmed), partial(train, dropping)])


def test_another_transform_is_another_fingerprint():
    x = torch.arange(6.0).view(3, 2)
    scales = [Ramp(factor) for factor in (2.0, 3.0)]  # functions whose text says what they do
    texts = [TensorBatches(x, batch_size=1, transform=scale).fingerprint() for scale in scales]
    assert texts[0] != texts[1]
