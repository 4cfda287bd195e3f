"""HTTP that closes a connection on which no whole request arrives in time."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):
    """uvicorn's protocol, which would wait forever for the rest of a request's head."""

    seconds = 10.0
    timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.timer = self.loop.call_later(self.seconds, self.give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.is_waiting:
            self.cancel()
        elif self.timer is None:  # a part of the next request
            self.timer = self.loop.call_later(self.seconds, self.give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self.cancel()
        super().connection_lost(exc)

    def cancel(self) -> None:
        """Stop waiting for a request."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def give_up(self) -> None:
        """Close the connection, unless a request is being answered."""
        self.timer = None
        if self.is_waiting:
            self.transport.close()
