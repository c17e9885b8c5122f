"""Workers that share a listening socket: who has the fewest connections takes the next one."""

import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from tests.inside.gateway import (
    Acceptor,
    ConnectionCounts,
    ConnectionLimits,
    HttpLimits,
    HttpRequest,
    Metrics,
    Refusals,
    Workers,
    listening_socket,
)
from tests.patience import until

pytestmark = pytest.mark.anyio


async def _unused(request: HttpRequest) -> None:
    raise AssertionError("nothing is sent")


@dataclass
class Gateway:
    """Workers in this process, with a socket that they share."""

    counts: ConnectionCounts
    stack: ExitStack

    def __post_init__(self) -> None:
        self.socket = self.stack.enter_context(listening_socket("127.0.0.1", 0))
        self.socket.listen(64)
        self.hubs: list[ConnectionLimits] = []

    @property
    def spread(self) -> list[int]:
        return [len(hub.connections) for hub in self.hubs]

    def start(self) -> Acceptor:
        """One more worker."""
        hub, number = ConnectionLimits(_unused, HttpLimits(), Refusals(Metrics())), len(self.hubs)
        self.hubs.append(hub)
        workers = Workers(
            gateway="g", number=number, count=3, connections=self.counts, all_started=lambda: True
        )
        started = Acceptor(self.socket.dup(), None, hub, workers)
        self.stack.callback(started.close)
        return started

    async def connect(self, count: int) -> list[socket.socket]:
        """Clients that stay, all at once."""
        before, address = sum(self.spread), self.socket.getsockname()
        clients = [self.stack.enter_context(socket.create_connection(address)) for _ in range(count)]
        await until(lambda: sum(self.spread) == before + count)
        return clients


@contextmanager
def gateway() -> Generator[Gateway]:
    with ExitStack() as stack:
        yield Gateway(ConnectionCounts(3), stack)


async def test_a_worker_leaves_connections_to_one_that_has_fewer() -> None:
    with gateway() as served:
        served.start()
        await served.connect(4)
        served.start()
        await served.connect(4)
        assert served.spread == [4, 4]
        served.start()
        await served.connect(4)
        assert served.spread == [4, 4, 4]


class Noted(ConnectionCounts):
    """Remembers the noted counts."""

    def __init__(self) -> None:
        self.noted: list[int] = []
        super().__init__(3)

    def note(self, worker: int, count: int) -> None:
        self.noted.append(count)
        super().note(worker, count)


async def test_a_connection_counts_once_while_it_is_opened() -> None:
    counts = Noted()
    with ExitStack() as stack:
        served = Gateway(counts, stack)
        served.start()
        await served.connect(4)
        assert counts.noted == sorted(counts.noted)
        assert counts.noted[-1] == 4


async def test_connections_that_end_count_no_more() -> None:
    with gateway() as served:
        served.start()
        clients = await served.connect(3)
        served.start()
        await served.connect(3)
        for client in clients:
            client.close()
        await until(lambda: served.spread == [0, 3])
        await served.connect(3)
        assert served.spread == [3, 3]


async def test_a_worker_that_takes_nothing_is_not_waited_for() -> None:
    """It has the fewest connections all the time, and no client notices."""
    with gateway() as served:
        served.start()
        served.counts.note(1, 0)
        await served.connect(20)
        assert served.spread == [20]


async def test_a_worker_that_has_left_gets_no_connections() -> None:
    with gateway() as served:
        served.start()
        ending = served.start()
        await served.connect(2)
        assert served.spread == [1, 1]
        ending.close()
        ending.close()
        await served.connect(4)
        assert served.spread == [5, 1]
