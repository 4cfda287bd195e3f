"""A Dask cluster that does the jobs of a command: found, looked at, and let go of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import labelgrad

ANSWER = 10  # seconds in which a scheduler must
VERSION = "__import__('labelgrad').__version__"  # sent as a text: a worker may have no labelgrad


def executor_at(address: str | None) -> AbstractContextManager[Executor | None]:
    """The executor that a command's jobs go to: that of a Dask cluster, or none, a pool of ours."""
    return nullcontext() if address is None else dask_cluster(address)


def seen_from_anywhere(path: Path | None) -> Path | None:
    """A folder by its whole name: a worker of a cluster stands somewhere else.

    >>> seen_from_anywhere(Path("tables")).is_absolute()
    True
    """
    return None if path is None else path.expanduser().absolute()


@contextmanager
def dask_cluster(address: str) -> Iterator[Executor]:
    """The workers of the cluster with this scheduler, all of them with the labelgrad of here.

    Its scheduler runs a job again whose worker died, three times if nothing else is configured.
    """
    try:
        import dask
        from distributed import Client, KilledWorker
    except ImportError:
        raise ImportError(
            "--dask needs Dask, which is not installed; pip install 'labelgrad[dask]'."
        ) from None
    for name in ("distributed", "distributed.client"):  # what matters of it is said in a sentence
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # The data go with each job, so that no worker's death can lose them; Dask would rather not.
    quiet = {"distributed.admin.large-graph-warning-threshold": "1 TB"}
    with dask.config.set(quiet):
        try:
            # Asked before there is a client: one that fails to start is closed whenever it is
            # collected, and if that is while another starts, the two wait for each other forever.
            asyncio.run(answered(address))
            client = Client(address, timeout=ANSWER, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(
                f"--dask needs the address of a Dask scheduler, such as tcp://host:8786, and none "
                f"answered at {address!r} within {ANSWER} seconds; start one with `dask scheduler`."
            ) from error
        with client:
            check_versions(
                address, client.run(eval, VERSION, on_error="return"), labelgrad.__version__
            )
            try:
                yield client.get_executor(pure=False)
            except RuntimeError as error:
                if not isinstance(error.__cause__, CancelledError):
                    raise
                raise RuntimeError(
                    f"the Dask scheduler at {address} went away before the jobs were done; what is "
                    f"finished is kept, and the same command goes on."
                ) from error
            except KilledWorker as error:
                raise RuntimeError(
                    "a job was given up because each worker that began it died; it may need more "
                    "memory than they have. The same command goes on with what is left."
                ) from error


async def answered(address: str) -> None:
    """Return once a Dask process has greeted us at this address; an error after some seconds."""
    from distributed import Security
    from distributed.comm.core import connect

    async with asyncio.timeout(ANSWER):  # connect's own does not count the greeting
        comm = await connect(address, ANSWER, **Security().get_connection_args("client"))
    await comm.close()


def check_versions(address: str, found: dict[str, object], mine: str) -> None:
    """Refuse a cluster without workers, and one with a worker that has another labelgrad or none.

    >>> check_versions("tcp://a:8786", {"tcp://b:4001": "0.1.0"}, "0.1.0")
    >>> check_versions("tcp://a:8786", {"tcp://b:4001": "0.0.9"}, "0.1.0")
    Traceback (most recent call last):
    ValueError: All Dask workers need labelgrad 0.1.0, and tcp://b:4001 has 0.0.9; install it there.
    """
    if not found:
        raise ValueError(
            f"--dask needs a cluster with workers, and {address} has none; start some with "
            f"`dask worker {address} --nthreads 1 --nworkers 2`."
        )
    for worker, version in found.items():
        if version != mine:
            has = version if isinstance(version, str) else f"none that can be imported ({version})"
            raise ValueError(
                f"All Dask workers need labelgrad {mine}, and {worker} has {has}; install it there."
            )
