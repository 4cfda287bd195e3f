"""Checkpoints are whole or not there, and damage is found."""

import errno
import os

import pytest
import torch

from labelgrad.training.checkpoint import (
    Checkpoints,
    State,
    pack_optimizer,
    unpack_optimizer,
)


def state(step, value=1.0):
    return State({"model.w": torch.full((3,), value), "count": torch.tensor(step)}, {"step": step})


def test_what_was_saved_comes_back(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(5, value=0.1))
    loaded = checkpoints.load()
    assert loaded.info == {"step": 5}
    assert torch.equal(loaded.tensors["model.w"], torch.full((3,), 0.1))
    assert loaded.tensors["count"].dtype == torch.int64


def test_tied_weights_and_parts_of_a_tensor_come_back(tmp_path):
    weight = torch.arange(12.0).reshape(3, 4)
    tied = {"a": weight, "b": weight, "row": weight[1], "column": weight[:, 2], "empty": weight[:0]}
    Checkpoints(tmp_path).save(State(tied, {"step": 0}))
    for name, value in Checkpoints(tmp_path).load().tensors.items():
        assert torch.equal(value, tied[name])


def test_nothing_saved_is_nothing_loaded(tmp_path):
    assert Checkpoints(tmp_path / "not" / "there").load() is None


def test_the_last_two_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 30):
        checkpoints.save(state(step))
    assert [path.name for path in checkpoints.files()] == [
        "step-000000000002.safetensors",
        "step-000000000030.safetensors",
    ]


def flip_a_bit(data):
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def cut_in_half(data):
    return data[: len(data) // 2]


@pytest.mark.parametrize("damage", [flip_a_bit, cut_in_half, lambda _: b"", lambda _: b"x" * 99])
def test_a_damaged_checkpoint_gives_way_to_the_one_before_it(tmp_path, damage):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(1))
    checkpoints.save(state(2))
    newest = checkpoints.files()[-1]
    newest.write_bytes(damage(newest.read_bytes()))
    with pytest.warns(UserWarning, match="step-000000000002.* is damaged .* the one before it"):
        assert checkpoints.load().info == {"step": 1}


def test_when_all_are_damaged_it_is_an_error_and_nothing_is_removed(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(1))
    checkpoints.files()[0].write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="is damaged"),
        pytest.raises(RuntimeError, match="no other is left; remove it to start again"),
    ):
        checkpoints.load()
    assert len(checkpoints.files()) == 1


def test_a_disk_that_fills_up_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(1))

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        RuntimeError, match=r"No space left.*step-000000000001.safetensors, is kept"
    ):
        checkpoints.save(state(2))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000001.safetensors"]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.Adam(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
        lambda p: torch.optim.RMSprop(p, lr=0.1),
        lambda p: torch.optim.LBFGS(p, lr=0.1),
    ],
)
def test_any_optimizer_goes_on_where_it_was(make):
    def steps(weight, optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            (weight**4).sum().backward()
            optimizer.step(lambda: (weight**4).sum())

    weight = torch.tensor([1.0, -2.0], requires_grad=True)
    optimizer = make([weight])
    steps(weight, optimizer, 3)
    twin = weight.detach().clone().requires_grad_()
    other = make([twin])
    tensors, info = pack_optimizer(optimizer)
    packed = {name.removeprefix("optimizer."): value.clone() for name, value in tensors.items()}
    unpack_optimizer(other, packed, info)
    steps(weight, optimizer, 3), steps(twin, other, 3)
    assert torch.equal(weight, twin)
