"""Work in several processes or elsewhere: what is told of it arrives, and no death ends it."""

import os
import signal
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pytest
import torch

from labelgrad.training.parallel import RETRIES, finish_all


class Count:
    """Work of so many steps that costs nothing."""

    def __init__(self, steps):
        self.steps, self.history = steps, []

    def __iter__(self):
        for step in range(1, self.steps + 1):
            self.history.append({"step": step, "loss": 1 / step})
            yield self.history[-1]


class Heard:
    """A progress that remembers how far each piece of work came, and how many were done."""

    def __init__(self):
        self.done, self.counts = {}, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def update(self, name, done, total, loss):
        self.done[name] = done, total

    def count(self, done, total):
        self.counts.append((done, total))


def test_the_end_of_every_piece_of_work_is_heard_of():
    heard, jobs = Heard(), {f"job {number}": {"steps": 3 + number} for number in range(30)}
    histories = finish_all(Count, jobs, workers=2, progress=heard)
    assert heard.done == {name: (job["steps"], job["steps"]) for name, job in jobs.items()}
    assert heard.counts[-1] == (30, 30)
    assert [len(histories[name]) for name in jobs] == [job["steps"] for job in jobs.values()]


class Deadly(Count):
    """Work that kills its process in its second step, so many times; each is written down."""

    def __init__(self, steps, deaths=0, notes=None):
        super().__init__(steps)
        self.deaths, self.notes = deaths, notes

    def __iter__(self):
        for record in super().__iter__():
            if record["step"] == 2 and self.notes and len(self.notes.read_text()) < self.deaths:
                with self.notes.open("a") as file:
                    file.write("x")
                os.kill(os.getpid(), signal.SIGKILL)
            yield record


@pytest.mark.slow
def test_a_process_that_dies_costs_its_jobs_a_new_beginning_and_not_the_run(tmp_path):
    heard, kept = Heard(), []

    def keep(name, history):
        kept.append((name, len(history)))

    (notes := tmp_path / "deaths").write_text("")
    jobs = {f"job {number}": {"steps": 3} for number in range(5)}
    jobs["job 2"] |= {"deaths": 1, "notes": notes}
    histories = finish_all(Deadly, jobs, workers=2, progress=heard, when_done=keep)
    assert notes.read_text() == "x"
    assert sorted(kept) == [(name, 3) for name in jobs], "each once"
    assert list(histories) == list(jobs)
    assert [done for done, _ in heard.counts] == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_job_that_always_kills_its_process_ends_the_run_with_a_sentence(tmp_path):
    (notes := tmp_path / "deaths").write_text("")
    jobs = {"deadly": {"steps": 3, "deaths": 100, "notes": notes}}
    with pytest.raises(RuntimeError, match="a process ended before its work was done"):
        finish_all(Deadly, jobs, workers=1, progress=Heard())
    assert len(notes.read_text()) == 1 + RETRIES


class Draws(Count):
    """Work by the random numbers of its process, as a training is."""

    def __init__(self, steps, seed):
        super().__init__(steps)
        torch.manual_seed(seed)

    def __iter__(self):
        for record in super().__iter__():
            record["drawn"] = torch.rand(1000).sum().item()
            record["threads"] = torch.get_num_threads()
            yield record


def test_jobs_go_to_any_executor_and_those_in_one_process_take_turns():
    jobs = {f"job {seed}": {"steps": 200, "seed": seed} for seed in range(8)}
    alone = {name: [*map(dict, Draws(**settings))] for name, settings in jobs.items()}
    heard, before = Heard(), torch.get_num_threads()
    with ThreadPoolExecutor(4) as executor:
        found = finish_all(Draws, jobs, workers=1, progress=heard, executor=executor)
        assert executor.submit(int).result() == 0, "it is not ours to shut down"
    assert found == alone
    assert {line["threads"] for history in found.values() for line in history} == {1}
    assert torch.get_num_threads() == before
    assert heard.done == dict.fromkeys(jobs, (1, 1))
    assert heard.counts == [(done, 8) for done in range(9)]


class Refuses(Count):
    """Work that cannot be begun."""

    def __init__(self, steps):
        raise ValueError(f"{steps} steps are too few.")


class GivenUp(Executor):
    """An executor whose scheduler is gone: everything it had is cancelled."""

    def submit(self, function, /, *arguments, **options):
        future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_an_error_elsewhere_is_the_same_error_here():
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(ValueError, match=r"^3 steps are too few\.$"),
    ):
        finish_all(Refuses, {"job": {"steps": 3}}, workers=1, progress=Heard(), executor=executor)
    with pytest.raises(RuntimeError, match="the executor ended before its jobs were done"):
        finish_all(Count, {"job": {"steps": 3}}, workers=1, progress=Heard(), executor=GivenUp())
