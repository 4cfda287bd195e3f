"""A label table divided among processes: who draws what, who keeps what, and where it is found."""

import pytest
import torch

from labelgrad import LGA, Batch, LabelTable, LazyAdam, Step, Supervised
from labelgrad.distributed import Group
from labelgrad.labels import table as table_module
from labelgrad.training import checkpoint
from labelgrad.training.checkpoint import Checkpoints
from tests.conftest import NETWORKS, WIDTH
from tests.unit.distributed.processes import job, together
from tests.unit.distributed.test_processes import advance, after, assert_same, trainer
from tests.unit.test_contract import ROWS, VIEWS

COUNT = 23


def batches(steps, size=8):
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        yield (
            torch.randint(COUNT, (size,), generator=generator),
            torch.randn(size, WIDTH, generator=generator),
        )


def played(group, folder=None, steps=12):
    """A table of which each process moves its own rows of the same batches."""
    table = LabelTable(COUNT, WIDTH, rule=LazyAdam(0.1), group=group, folder=folder)
    for rows, slope in batches(steps):
        mine = group.owned(rows, COUNT)[group.rank]
        table.update(table.draw(rows[mine]), slope[mine])
    return table


def seen(table):
    some = torch.tensor([22, 0, 11, 0])
    return {
        "labels": table.labels(),
        "some": table.labels(some),
        "parts": torch.cat([part for _, part in table.parts()]),
        "entropy": table.entropy(),
        "visits": table.visits(),
        "visits of some": table.visits(some),
    }


@pytest.mark.parametrize("in_file", [False, True])
def test_a_divided_table_is_the_whole_one(tmp_path, monkeypatch, in_file):
    """Every process is told all labels, though each holds the rows that it owns."""
    monkeypatch.setattr(table_module, "PART", 3 * WIDTH)  # more than one part
    monkeypatch.setattr(table_module, "CHUNK", 1)

    def work(group):
        table = played(group, tmp_path if in_file else None)
        return len(table.values), seen(table)

    found, expected = together(3, work), seen(played(Group()))
    assert [held for held, _ in found] == [7, 8, 8]
    for _, each in found:
        for name, value in expected.items():
            torch.testing.assert_close(each[name], value, rtol=0, atol=1e-6, msg=name)


def test_a_whole_table_is_divided_as_it_is():
    whole = seen(played(Group()))

    def work(group):
        table = played(Group())
        table.join(group)
        return len(table.values), seen(table)

    for held, each in together(2, work):
        assert held in (11, 12)
        for name, value in whole.items():
            torch.testing.assert_close(each[name], value, rtol=0, atol=1e-6, msg=name)


def test_a_row_of_another_process_is_refused():
    def work(group):
        LabelTable(COUNT, WIDTH, group=group).draw(torch.tensor([3, 20]))

    first, second = together(2, work)
    assert "rows must be from 0 to 10 in a label table of 23 rows, got 3 to 20" in str(first)
    assert "from 11 to 22 in" in str(second)


def test_whoever_has_no_row_of_a_batch_counts_nothing():
    """Batch norm, too, is that of the rows which are there: the other part's alone."""

    def make():
        return 0.1 * Supervised() + LGA(ROWS, WIDTH, dtype=torch.float64)

    def work(group):
        drawn = [trainer(make, group, size=(4, 2)).unlabeled.batch(step).rows for step in range(5)]
        empty = [not len(group.owned(rows, ROWS)[group.rank]) for rows in drawn]
        return empty, after(5, make, group, "conv", size=(4, 2))

    found = together(2, work)
    assert any(found[0][0])
    assert any(found[1][0])
    for _, each in found:
        assert_same(each, after(5, make, Group(), "conv", size=(4, 2)))


def test_every_row_of_a_batch_is_one_process_s():
    model, rows = NETWORKS["mlp"](), torch.randperm(40)[:16]
    labeled = Batch(torch.randn(4, 1, 4, 4), torch.zeros(4, dtype=torch.long), torch.arange(4))
    unlabeled = Batch(torch.randn(16, 1, 4, 4), None, rows)

    def work(group):
        step = Step(model, labeled, unlabeled, views=VIEWS, group=group, owned=40).cut(1)[0]
        own = group.rows(40)
        assert ((step.own_rows >= own.start) & (step.own_rows < own.stop)).all()
        return step.own_rows, step.unlabeled_share, step.gathered(step.unlabeled.rows)

    found = together(3, work)
    assert sorted(torch.cat([own for own, _, _ in found]).tolist()) == sorted(rows.tolist())
    assert sum(share for _, share, _ in found) == pytest.approx(3)
    for _, _, gathered in found:
        assert torch.equal(gathered, rows)


def until(step, place, group, *, mapped, steps=24):
    run = advance(job(place / "run", group, steps, table=place / "table" if mapped else None), step)
    lga = next(term for term in run.trainer.objective.leaves() if isinstance(term, LGA))
    weights = torch.cat([p.detach().flatten() for p in run.trainer.model.parameters()])
    return weights, lga.table.labels(), run.history[-1]["imputed_accuracy"]


@pytest.mark.parametrize(("mapped", "sizes"), [(True, (1, 2, 3, 1)), (False, (2, 1, 3))])
def test_a_divided_table_goes_on_with_another_number_of_processes(
    tmp_path, monkeypatch, mapped, sizes
):
    """Mapped or in memory, in a checkpoint of several files of rows."""
    monkeypatch.setattr(checkpoint, "ROWS_SIZE", 1000)
    for number, size in enumerate(sizes, 1):  # each begins in the middle of two checkpoints
        step = 24 * number // len(sizes) - (number < len(sizes))
        found = together(size, lambda group, step=step: until(step, tmp_path, group, mapped=mapped))
    expected = together(1, lambda group: until(24, tmp_path / "alone", group, mapped=False))[0]
    for weights, labels, accuracy in found:
        torch.testing.assert_close(weights, expected[0], rtol=0, atol=1e-5)
        torch.testing.assert_close(labels, expected[1], rtol=0, atol=1e-4)
        assert accuracy == expected[2]
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("rows-*"))
    assert {name.split("-")[1] for name in kept} == {f"{step:012d}" for step in (20, 24)}
    assert not mapped or not list((tmp_path / "table").iterdir())


def test_files_of_rows_are_read_by_whoever_goes_on_and_damage_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "ROWS_SIZE", 1000)
    until(24, tmp_path, Group(), mapped=False)
    folder = tmp_path / "run" / "checkpoints"
    newest = sorted(folder.glob("rows-000000000024-*"))
    assert len(newest) > 2
    content = newest[1].read_bytes()
    newest[1].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.warns(UserWarning, match="is damaged"):
        assert Checkpoints(folder).load().info["step"] == 20
    newest[1].write_bytes(sorted(folder.glob("rows-000000000020-*"))[1].read_bytes())
    with pytest.warns(UserWarning, match="of another checkpoint"):
        assert Checkpoints(folder).load().info["step"] == 20
    newest[1].unlink()
    with pytest.warns(UserWarning, match="is damaged"):
        assert Checkpoints(folder).load().info["step"] == 20


def test_a_full_disk_among_the_files_of_rows_is_everybody_s_error(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "ROWS_SIZE", 1000)

    def work(group):
        def full(*arguments):
            raise RuntimeError("the disk is full")

        until(8, tmp_path, group, mapped=False)
        monkeypatch.setattr(Checkpoints, "save_rows", full)
        until(16, tmp_path, group, mapped=False)

    assert [str(error) for error in together(2, work)] == ["the disk is full"] * 2
    assert Checkpoints(tmp_path / "run" / "checkpoints").load().info["step"] == 8
