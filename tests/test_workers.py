"""Work in several processes: what is told of it arrives."""

from labelgrad.training.parallel import finish_all


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
