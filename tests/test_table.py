"""The lazy table against dense Adam, in memory and in a file."""

import os
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelgrad import SGD, LabelTable, LazyAdam, SquaredError
from labelgrad.schedules import Cosine, Ramp, value_at

ROWS, WIDTH = 12, 3


def _softmax(free):
    return free.softmax(-1)


def _same(free):
    return free


def dense_adam(
    batches,
    *,
    rows=ROWS,
    width=WIDTH,
    rate=0.1,
    betas=(0.9, 0.999),
    link=_softmax,
    dtype=torch.float64,
):
    """The whole table as one parameter under `torch.optim.Adam`; batches are (rows, slopes)."""
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


@pytest.mark.parametrize("size", [1, 5, 40])
def test_two_thousand_random_steps_equal_dense_adam(size):
    batches = list(random_batches(2000, rows=200, width=10, size=size))
    table = play(LabelTable(200, 10, rule=LazyAdam(0.1), dtype=torch.float64), batches)
    expected = dense_adam(batches, rows=200, width=10)
    assert (table.labels() - expected).abs().max() < 1e-10


def test_single_precision_is_nearer_the_truth_than_dense_adam_in_single_precision():
    settings = {"rows": 200, "width": 10}
    batches = list(random_batches(2000, size=5, dtype=torch.float32, **settings))
    exact = dense_adam([(r, s.double()) for r, s in batches], link=_same, **settings)
    dense = dense_adam(batches, link=_same, dtype=torch.float32, **settings)
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


def test_rows_beyond_the_table_are_named():
    with pytest.raises(
        ValueError, match="rows must be from 0 to 3 in a label table of 4 rows, got 2 to 4"
    ):
        LabelTable(4, 3).draw(torch.tensor([2, 4]))


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

    def test_a_checkpoint_holds_only_the_clock(self, tmp_path):
        assert list(self.table(tmp_path).state_dict()) == ["clock"]

    @given(before=st.integers(0, 20), after=st.integers(0, 20), torn=st.integers(0, 60))
    def test_loading_a_checkpoint_takes_the_file_back(self, tmp_path_factory, before, after, torn):
        folder = tmp_path_factory.mktemp("table")
        batches = self.batches(before + after)
        table = play(self.table(folder), batches[:before])
        saved, labels = {"clock": table.clock.clone()}, table.labels()
        content = (folder / "table.npy").read_bytes()
        table.after_checkpoint()
        play(table, batches[before:])
        half = (torch.ones(2) * 7).numpy().astype("int64")
        table.file.journal.append(before + after, half, table.file._array[:2].view("uint8"))
        last = sorted(folder.glob("journal-*"))[-1]  # half a record, as a kill in its middle leaves
        os.truncate(last, last.stat().st_size - table.file.journal._size(2) + torn)
        again = self.table(folder)
        again.load_state_dict(saved)
        assert torch.equal(again.labels(), labels)
        assert (folder / "table.npy").read_bytes() == content
        play(again, batches[before:])
        assert torch.equal(again.labels(), table.labels())

    def test_the_checkpoint_before_the_last_can_be_gone_back_to_and_no_older_one(self, tmp_path):
        batches, table = self.batches(30), self.table(tmp_path)
        clocks, labels = [], []
        for start in range(0, 30, 10):
            play(table, batches[start : start + 10])
            clocks.append({"clock": table.clock.clone()})
            labels.append(table.labels())
            table.after_checkpoint()
        again = self.table(tmp_path)
        with pytest.raises(ValueError, match="reaches back only to step 20"):
            again.load_state_dict(clocks[0])
        again.load_state_dict(clocks[1])
        assert torch.equal(again.labels(), labels[1])

    def test_another_runs_table_is_not_overwritten(self, tmp_path):
        play(self.table(tmp_path), self.batches(3))
        stranger = self.table(tmp_path)
        with pytest.raises(ValueError, match="belongs to an earlier run"):
            play(stranger, self.batches(1))

    def test_a_file_of_another_size_is_refused(self, tmp_path):
        self.table(tmp_path)
        with pytest.raises(ValueError, match=f"must have {ROWS + 1} rows of {WIDTH}"):
            LabelTable(ROWS + 1, WIDTH, folder=tmp_path)

    def test_untouched_rows_take_no_space_on_disk(self, tmp_path):
        table = LabelTable(10**7, 10, folder=tmp_path)
        play(table, [(torch.tensor([5, 9_999_999]), torch.ones(2, 10) * torch.arange(10.0))])
        assert (tmp_path / "table.npy").stat().st_size > 10**9
        assert (tmp_path / "table.npy").stat().st_blocks * 512 < 10**6
        assert np.isfinite(table.labels(torch.tensor([9_999_999])).numpy()).all()

    @given(damage=st.data())
    def test_a_damage_is_found_wherever_it_is(self, tmp_path_factory, damage):
        folder = tmp_path_factory.mktemp("table")
        batches = self.batches(12)
        table = play(self.table(folder), batches[:6])
        saved = {"clock": table.clock.clone()}
        table.after_checkpoint()
        wanted = table.labels().clone(), table.visits().clone()
        play(table, batches[6:])
        path = damage.draw(st.sampled_from(sorted(folder.iterdir())))
        content = bytearray(path.read_bytes())
        if damage.draw(st.booleans()):
            place = damage.draw(st.integers(0, max(0, len(content) * 8 - 1)))
            if content:
                content[place // 8] ^= 1 << place % 8
        else:
            del content[damage.draw(st.integers(0, len(content))) :]
        path.write_bytes(content)
        with suppress(ValueError):  # a refusal; what is not refused is as it was
            again = self.table(folder)
            again.load_state_dict(saved)
            found = again.labels(), again.visits()
            assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))

    def test_a_file_that_a_kill_left_empty_is_made_again(self, tmp_path):
        self.table(tmp_path)
        (tmp_path / "table.npy").write_bytes(b"")
        again = play(self.table(tmp_path), self.batches(5))
        assert torch.equal(again.labels(), play(LabelTable(ROWS, WIDTH), self.batches(5)).labels())

    def test_a_file_that_is_lost_is_not_made_again(self, tmp_path):
        play(self.table(tmp_path), self.batches(5))
        (tmp_path / "table.npy").unlink()
        with pytest.raises(ValueError, match="is not there"):
            self.table(tmp_path)

    def test_the_journal_goes_on_after_the_older_checkpoint_was_taken(self, tmp_path):
        batches, table = self.batches(30), self.table(tmp_path)
        clocks = []
        for start in (0, 10, 20):
            play(table, batches[start : start + 10])
            clocks.append({"clock": table.clock.clone()})
            table.after_checkpoint()
        again = self.table(tmp_path)
        again.load_state_dict(clocks[1])
        play(again, batches[20:25])
        once_more = self.table(tmp_path)
        once_more.load_state_dict(clocks[1])
        assert torch.equal(play(once_more, batches[20:]).labels(), table.labels())

    def test_a_disk_that_is_full_leaves_the_journal_whole(self, tmp_path, monkeypatch):
        table = play(self.table(tmp_path), self.batches(5))
        write = os.write

        def short_and_full(handle, data):
            if len(data) < 60:
                raise OSError(28, "No space left on device")
            return write(handle, data[:50])

        with monkeypatch.context() as full:
            full.setattr(os, "write", short_and_full)
            with pytest.raises(OSError, match="could not be written"):
                play(table, self.batches(6)[5:])
        play(table, self.batches(8)[5:])
        again = self.table(tmp_path)
        again.load_state_dict({"clock": torch.tensor(5)})
        assert torch.equal(again.labels(), play(LabelTable(ROWS, WIDTH), self.batches(5)).labels())
