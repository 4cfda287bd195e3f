"""One search for settings by any number of processes and machines, which share a database.

A method's budget is so many places, numbered from 0. A place is taken by one process at a time,
which tells the database every few seconds that it lives; a place whose process fell silent is free
again, with the settings it had. Place 0 has the usual settings, and a place's random numbers follow
from the seed; from the eleventh on settings also follow from whatever had ended by then.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from math import nan
from typing import Any

from labelgrad.functional import mixed_seed
from labelgrad.paper.picture_task import Task
from labelgrad.paper.picture_tuning import (
    SEED,
    PictureTuningTrial,
    needed_optuna,
    suggested,
)
from labelgrad.paper.settings import Hyperparameters, budget, first_settings
from labelgrad.training.results import Line

PLACE, LINE = "place", "line"  # what a trial in the database says of itself
DRIVERS = ("psycopg2", "psycopg")
PATIENCE, PAUSE = 120.0, 1.0  # seconds: a database that is away is asked so long, so often
ATTEMPTS = 5  # to make the tables, which several processes may do at once


@dataclass(frozen=True)
class Shared:
    """What all processes of a search have in common; others in the same database differ in it."""

    url: str
    data: str
    labels: int
    scale: str
    trials: int  # of each term
    seed: int = 0
    heartbeat: int = 60  # seconds between two signs of life; silent for twice as long is dead

    def name(self, method: str) -> str:
        """What the search of a method is called in the database."""
        return f"{self.data}, {method}, {self.labels} labels, {self.scale}, seed {self.seed}"


class SharedSearch:
    """One method's places, and the lines of those that are done.

    >>> from tempfile import mkdtemp
    >>> shared = Shared(f"sqlite:///{mkdtemp()}/search", "digits", 50, "tiny", trials=2)
    >>> search = SharedSearch(opened(shared), shared, "supervised")
    >>> while search.take_one(lambda place, settings: {"number": place, "validation_error": 0.1}):
    ...     pass
    >>> [line["number"] for line in search.lines], search.is_done
    ([0, 1], True)
    """

    def __init__(self, storage: Any, shared: Shared, method: str):
        import optuna

        self.shared, self.method = shared, method
        self.trials = budget(method, shared.trials)
        self.study = optuna.create_study(
            storage=storage,
            study_name=shared.name(method),
            direction="minimize",
            load_if_exists=True,
        )
        self._bare: dict[int, float] = {}  # when a trial without settings was first seen

    @property
    def lines(self) -> list[Line]:
        """One line of each place that is done, in their order."""
        done: dict[int, Line] = {}
        for trial in self._trials("COMPLETE"):
            done.setdefault(trial.user_attrs[PLACE], trial.user_attrs[LINE])
        return [done[place] for place in range(self.trials) if place in done]

    @property
    def is_done(self) -> bool:
        """Whether each place is."""
        return len(self.lines) == self.trials

    def take_one(self, train: Callable[[int, Hyperparameters], Line]) -> bool:
        """Do a place that is free; false where none is at the moment."""
        import optuna

        self._free_the_dead()
        if not self._trials("WAITING"):
            return False
        taken_for_dead = False

        def objective(trial: Any) -> float:
            nonlocal taken_for_dead
            place = trial.user_attrs.get(PLACE)
            if place is None or self._is_anothers(place, trial.number):
                raise optuna.TrialPruned  # before it has settings, so that no search learns of it
            trial.study.sampler = _sampler(mixed_seed(self.shared.seed, place) % 2**32)
            line = train(place, suggested(trial, self.method))
            try:
                trial.set_user_attr(LINE, line)
            except optuna.exceptions.UpdateFinishedTrialError:
                taken_for_dead = True
                raise
            return float(line["validation_error"])

        try:
            self.study.optimize(objective, n_trials=1)
        except (optuna.exceptions.UpdateFinishedTrialError, ValueError):
            if not taken_for_dead:  # else another process has its place by now
                raise
        return True

    def _trials(self, *states: str) -> list[Any]:
        return [t for t in self.study.get_trials(deepcopy=False) if t.state.name in states]

    def _is_anothers(self, place: int, number: int) -> bool:
        """Two processes may have made one place at the same moment: the earlier trial has it."""
        return any(
            trial.state.name == "COMPLETE" or trial.number < number
            for trial in self._trials("COMPLETE", "RUNNING")
            if trial.user_attrs.get(PLACE) == place and trial.number != number
        )

    def _free_the_dead(self) -> None:
        """Let each place be waiting, under way or done."""
        import optuna

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            optuna.storages.fail_stale_trials(self.study)
        for trial in self._trials("RUNNING"):  # killed before its first sign of life
            silent = time.monotonic() - self._bare.setdefault(trial.number, time.monotonic())
            if not trial.params and silent > 2 * self.shared.heartbeat:
                fail = optuna.trial.TrialState.FAIL
                self.study.tell(trial.number, state=fail, skip_if_finished=True)
        held = {t.user_attrs.get(PLACE) for t in self._trials("WAITING", "RUNNING", "COMPLETE")}
        had = {t.user_attrs.get(PLACE): t.params for t in self._trials("FAIL") if t.params}
        first = dict(enumerate(first_settings(self.method)))
        for place in range(self.trials):
            if place not in held:
                settings = first.get(place) or had.get(place, {})
                self.study.enqueue_trial(settings, user_attrs={PLACE: place})


class SearchWorker:
    """A process's part of a search: whatever is free, method by method, until all is done."""

    def __init__(
        self,
        *,
        shared: Shared,
        methods: tuple[str, ...],
        rebuilt: bool = False,
        **where: Any,
    ):
        self.shared, self._rebuilt, self._where = shared, rebuilt, where
        storage = opened(shared)
        with _told_if_lost(shared):
            self.searches = [SharedSearch(storage, shared, method) for method in methods]
        self.steps = sum(search.trials for search in self.searches)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with _told_if_lost(self.shared):
            while not all(search.is_done for search in self.searches):
                took = [search.take_one(self._training(search.method)) for search in self.searches]
                if not any(took):  # others are at work, and may die
                    time.sleep(min(1.0, self.shared.heartbeat / 2))
                yield {"step": len(self.history), "loss": nan}

    @property
    def history(self) -> list[Line]:
        """The lines of all processes."""
        with _told_if_lost(self.shared):
            return [line for search in self.searches for line in search.lines]

    def _training(self, method: str) -> Callable[[int, Hyperparameters], Line]:
        def train(place: int, settings: Hyperparameters) -> Line:
            shared = self.shared
            trial = PictureTuningTrial(
                task=Task(shared.data, method, shared.labels, SEED, rebuilt=self._rebuilt),
                number=place,
                settings=settings,
                scale=shared.scale,
                **self._where,
            )
            for _ in trial:
                pass
            return trial.history[0]

        return train


@contextmanager
def _told_if_lost(shared: Shared) -> Iterator[None]:
    """Say in a sentence that the database was lost, whatever was asked of it."""
    try:
        yield
    except Exception as error:
        if not any(isinstance(each, _storage_errors()) for each in _behind(error)):
            raise
        raise RuntimeError(
            f"the database {without_password(shared.url)} went away, and was not back within "
            f"{PATIENCE:g} seconds; what had ended is in it, and the same command goes on."
        ) from error


def opened(shared: Shared) -> Any:
    """The database, with Optuna's tables in it."""
    optuna = needed_optuna()
    from sqlalchemy.exc import ArgumentError, IntegrityError, OperationalError, ProgrammingError

    optuna.logging.set_verbosity(optuna.logging.CRITICAL)  # errors are raised here, and said once
    shown = without_password(shared.url)
    for attempt in range(ATTEMPTS):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                storage = optuna.storages.RDBStorage(
                    with_driver(shared.url),
                    {"pool_pre_ping": True},  # a connection may be cut during a long training
                    heartbeat_interval=shared.heartbeat,
                )
            return _patient(storage)
        except ArgumentError as error:
            raise ValueError(
                f"--storage needs an address such as postgresql://user@host/database, got {shown}."
            ) from error
        except ImportError as error:
            raise ImportError(
                f"--storage {shown} needs a driver that is not installed; for PostgreSQL, "
                f"pip install psycopg2-binary."
            ) from error
        except OperationalError as error:
            said = " ".join(str(error.orig).split())
            raise ValueError(
                f"--storage needs a database that answers, and {shown} cannot be used ({said}); "
                f"start it, make it, or correct the address."
            ) from error
        except (IntegrityError, ProgrammingError) as error:
            if attempt + 1 == ATTEMPTS:
                said = " ".join(str(error.orig).split())
                raise ValueError(
                    f"--storage needs a database in which tables can be made, and {shown} refuses "
                    f"({said}); use another, or another user."
                ) from error
            time.sleep(0.5)
        except RuntimeError as error:
            if "table schema" not in str(error):
                raise
            raise ValueError(
                f"--storage {shown} has tables of another version than Optuna "
                f"{optuna.__version__} needs; use another database, or see "
                f"`optuna storage upgrade`."
            ) from error
    raise AssertionError("the last attempt returns or raises")


def with_driver(url: str) -> str:
    """The address with the driver of PostgreSQL that is installed; SQLAlchemy's usual one varies.

    >>> with_driver("sqlite:///search")
    'sqlite:///search'
    """
    for kind in ("postgresql://", "postgres://"):
        if url.startswith(kind):
            installed = [driver for driver in DRIVERS if find_spec(driver)]
            return f"postgresql+{[*installed, DRIVERS[0]][0]}://{url.removeprefix(kind)}"
    return url


def without_password(text: str) -> str:
    """A text with an address in it that can be shown, and written down.

    >>> without_password("postgresql://me:secret@host:5432/search")
    'postgresql://me:***@host:5432/search'
    """
    return re.sub(r"(://[^:/@\s]*:)\S+@", r"\1***@", text)


def _patient(storage: Any) -> Any:
    """The database as its users see it: what it cannot do now is asked of it again, for a while.

    A sign of life is not waited for; the next one follows soon.
    """
    import optuna

    kept: Any = optuna.storages.get_storage(
        storage
    )  # with what was read before, as a study wants it
    names = [name for name in dir(optuna.storages.BaseStorage) if not name.startswith("_")]
    patience = _Patience()
    for name in (*names, "_get_stale_trial_ids"):
        setattr(kept, name, _asked_again(getattr(kept, name), patience))
    beat = kept.record_heartbeat

    def beat_if_it_answers(trial_id: int) -> None:
        with suppress(*_storage_errors()):
            beat(trial_id)

    kept.record_heartbeat = beat_if_it_answers
    return kept


class _Patience:
    """How long a database may not answer, by all that is asked of it together."""

    def __init__(self) -> None:
        self._since: float | None = None

    def answered(self) -> None:
        """Begin anew."""
        self._since = None

    def is_over(self) -> bool:
        """Whether there was no answer for too long, this time not either."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since > PATIENCE


def _asked_again(call: Callable[..., Any], patience: _Patience) -> Callable[..., Any]:
    from optuna.exceptions import UpdateFinishedTrialError

    @wraps(call)
    def patiently(*arguments: Any, **options: Any) -> Any:
        is_first = True
        while True:
            try:
                answer = call(*arguments, **options)
                patience.answered()
                return answer
            except _storage_errors() as error:
                if not _is_away(error) or patience.is_over():
                    raise
            except UpdateFinishedTrialError:
                if is_first or call.__name__ != "set_trial_state_values":
                    raise
                return True  # it was done the first time, and the answer was lost
            is_first = False
            time.sleep(PAUSE)

    return patiently


def _storage_errors() -> tuple[type[Exception], ...]:
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    return SQLAlchemyError, StorageInternalError


def _is_away(error: BaseException) -> bool:
    """Whether an error says that the database did not answer, and may again."""
    from sqlalchemy.exc import InterfaceError, OperationalError

    return any(isinstance(each, OperationalError | InterfaceError) for each in _behind(error))


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those in whose wake it came: Optuna may stumble in its answer to the first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _sampler(seed: int) -> Any:
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
