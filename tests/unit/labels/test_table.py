"""The lazy table against dense Adam, in memory and in a file."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelgrad import SGD, LabelTable, LazyAdam, SquaredError
from labelgrad.schedules import Cosine, Ramp, value_at

ROWS, WIDTH = 12, 3


def dense_adam(
    batches,
    *,
    rows=ROWS,
    width=WIDTH,
    rate=0.1,
    betas=(0.9, 0.999),
    values=False,
    dtype=torch.float64,
):
    """The whole table as one parameter under `torch.optim.Adam`; batches are (rows, slopes)."""
    link = torch.clone if values else lambda free: free.softmax(-1)
    free = torch.zeros(rows, width, dtype=dtype, requires_grad=True)
    adam = torch.optim.Adam([free], lr=1.0, betas=betas)
    for index, (drawn, slope) in enumerate(batches):
        adam.param_groups[0]["lr"] = value_at(rate, index)
        adam.zero_grad()
        (link(free[drawn]) * slope).sum().backward()
        adam.step()
    return link(free.detach())


def play(table, batches):
    for rows, slope in batches:
        table.update(table.draw(rows), slope)
    return table


def random_batches(steps, *, rows, width, size, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        drawn = torch.randint(rows, (size,), generator=generator)
        scale = 10 ** torch.empty(size, 1).uniform_(-9, 1, generator=generator)
        slope = scale * torch.randn(size, width, generator=generator)
        yield drawn, slope.to(dtype)


@pytest.mark.parametrize("size", [1, 40])
def test_a_thousand_random_steps_equal_dense_adam(size):
    batches = list(random_batches(1000, rows=200, width=10, size=size))
    table = play(LabelTable(200, 10, rule=LazyAdam(0.1), dtype=torch.float64), batches)
    expected = dense_adam(batches, rows=200, width=10)
    assert (table.labels() - expected).abs().max() < 1e-10


def test_single_precision_is_nearer_the_truth_than_dense_adam_in_single_precision():
    settings = {"rows": 200, "width": 10}
    batches = list(random_batches(2000, size=5, dtype=torch.float32, **settings))
    exact = dense_adam([(r, s.double()) for r, s in batches], values=True, **settings)
    dense = dense_adam(batches, values=True, dtype=torch.float32, **settings)
    lazy = play(LabelTable(rule=LazyAdam(0.1), loss=SquaredError(), **settings), batches).labels()
    assert (lazy - exact).abs().max() < 1e-5
    assert (lazy - exact).abs().max() < (dense - exact).abs().max()


SLOPES = st.lists(
    st.floats(-5, 5).filter(lambda v: v == 0 or abs(v) > 1e-6), min_size=WIDTH, max_size=WIDTH
)
BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, ROWS - 1), SLOPES), min_size=1, max_size=4),
    min_size=1,
    max_size=40,
)
RATES = st.one_of(st.floats(0, 1), st.builds(Ramp, st.integers(1, 30)), st.just(Cosine(0.5, 20)))
BETAS = st.sampled_from([(0.9, 0.999), (0.0, 0.9), (0.5, 0.99), (0.95, 0.999)])


@given(BATCHES, RATES, BETAS)
def test_any_history_equals_dense_adam(history, rate, betas):
    batches = [
        (torch.tensor([r for r, _ in batch]), torch.tensor([s for _, s in batch]).double())
        for batch in history
    ]
    table = LabelTable(ROWS, WIDTH, rule=LazyAdam(rate, betas), dtype=torch.float64)
    play(table, batches)
    expected = dense_adam(batches, rate=rate, betas=betas)
    torch.testing.assert_close(table.labels(), expected, rtol=0, atol=1e-9)
    drawn = torch.cat([rows for rows, _ in batches]).bincount(minlength=ROWS)
    assert torch.equal(table.visits(), drawn)


@given(BATCHES)
def test_looking_changes_nothing(history):
    table, watched = LabelTable(ROWS, WIDTH), LabelTable(ROWS, WIDTH)
    for batch in history:
        rows = torch.tensor([r for r, _ in batch])
        slope = torch.tensor([s for _, s in batch])
        watched.labels(), watched.entropy(), watched.visits(rows)
        for each in (table, watched):
            each.update(each.draw(rows), slope)
    for name, value in table.state_dict().items():
        assert torch.equal(value, watched.state_dict()[name])


def test_a_row_rests_after_a_long_time():
    table = LabelTable(2, 3, rule=LazyAdam(0.1), dtype=torch.float64)
    slope = torch.tensor([[1.0, 0.0, -1.0]]).double()
    batches = [(torch.tensor([0]), slope)] + [(torch.tensor([1]), 0 * slope)] * 3000
    play(table, batches)
    assert (table.labels() - dense_adam(batches, rows=2, width=3)).abs().max() < 1e-12


def test_labels_start_uniform_and_entropy_falls_with_a_steady_slope():
    table = LabelTable(4, 5)
    assert torch.allclose(table.labels(), torch.full((4, 5), 0.2))
    assert torch.allclose(table.entropy(), torch.full((4,), 5.0).log())
    row, slope = torch.tensor([2]), torch.tensor([[-1.0, 0.0, 0.0, 0.0, 0.0]])
    play(table, [(row, slope)] * 50)
    assert table.entropy(row) < 0.1
    assert table.labels(row).argmax() == 0


def test_values_have_no_entropy_and_no_softmax():
    table = LabelTable(4, 1, loss=SquaredError(), rule=LazyAdam(0.5))
    play(table, [(torch.tensor([1]), torch.tensor([[1.0]]))])
    assert torch.allclose(table.labels(torch.tensor([1])), torch.tensor([[-0.5]]))
    with pytest.raises(ValueError, match="needs labels that are distributions"):
        table.entropy()


def test_labels_of_a_large_table_are_worked_out_in_pieces(monkeypatch):
    batches = list(random_batches(50, rows=100, width=4, size=8))
    table = play(LabelTable(100, 4, dtype=torch.float64), batches)
    whole = table.labels()
    monkeypatch.setattr("labelgrad.labels.table.CHUNK", 1)
    torch.testing.assert_close(table.labels(), whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LabelTable(0, 3), "needs rows and columns, got 0 × 3"),
        (lambda: LazyAdam(-0.1), "`rate` must be a finite number of at least 0, got -0.1"),
        (lambda: LazyAdam(betas=(0.9, 0.5)), "β₁ < √β₂"),
        (lambda: LazyAdam(epsilon=0.0), "`epsilon` must be positive, got 0.0"),
        (lambda: SGD(-1.0), "`rate` must be a finite number of at least 0, got -1"),
    ],
)
def test_bad_settings_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


class TestMappedFile:
    def table(self, folder, **settings):
        return LabelTable(ROWS, WIDTH, folder=folder, **settings)

    def batches(self, steps, seed=0):
        return list(
            random_batches(steps, rows=ROWS, width=WIDTH, size=4, seed=seed, dtype=torch.float32)
        )

    def test_is_the_table_in_memory_to_the_last_bit(self, tmp_path):
        batches = self.batches(60)
        mapped = play(self.table(tmp_path), batches)
        assert torch.equal(mapped.labels(), play(LabelTable(ROWS, WIDTH), batches).labels())
        assert torch.equal(mapped.visits(), play(LabelTable(ROWS, WIDTH), batches).visits())

    def test_its_state_goes_into_a_table_in_memory_and_back(self, tmp_path):
        batches = self.batches(40)
        mapped = play(self.table(tmp_path), batches[:20])
        memory = LabelTable(ROWS, WIDTH)
        memory.load_state_dict({name: v.clone() for name, v in mapped.state_dict().items()})
        again = self.table(tmp_path)  # each table has space of its own in the folder
        again.load_state_dict(memory.state_dict())
        expected = play(mapped, batches[20:]).labels()
        assert torch.equal(play(memory, batches[20:]).labels(), expected)
        assert torch.equal(play(again, batches[20:]).labels(), expected)

    def test_untouched_rows_take_no_space_and_nothing_is_left_in_the_folder(self, tmp_path):
        free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
        table = LabelTable(10**7, 10, folder=tmp_path)
        play(table, [(torch.tensor([5, 9_999_999]), torch.ones(2, 10) * torch.arange(10.0))])
        assert table.nbytes > 10**9
        assert free - os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize < 5 * 10**8
        assert torch.isfinite(table.labels(torch.tensor([9_999_999]))).all()
        assert not list(tmp_path.iterdir())

    def test_it_does_not_follow_a_module_to_another_type_or_device(self, tmp_path):
        table = self.table(tmp_path)
        values = table.values
        assert torch.nn.Sequential(table).to("meta")[0].values is values
