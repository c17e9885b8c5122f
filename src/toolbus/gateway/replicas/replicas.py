"""The parts that one gateway shares with the others on its store."""

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from toolbus.core.values.errors import StoreError
from toolbus.gateway.http.request import HttpRequest
from toolbus.gateway.http.workers import Workers
from toolbus.gateway.protocol.sessions import ClientSession, ClientSessions
from toolbus.gateway.protocol.words import WrongReplica
from toolbus.gateway.replicas.peers import Peers, ReplicaPeer
from toolbus.gateway.replicas.relay import Arrivals, Departures, PeerRefused, Relay
from toolbus.gateway.replicas.sessions import SharedSessions, SharedTasks
from toolbus.state.seal import OneTimeUse, Seal
from toolbus.state.store.store import Store

logger = logging.getLogger("toolbus")
_LOOK_SECONDS = 1.0
_QUESTION = re.compile(r"toolbus-([0-9a-f]{12})-\d+")


class Replicas:
    """This gateway and the others: who there is, and what each of them has."""

    def __init__(
        self,
        store: Store,
        seal: Seal,
        *,
        session_seconds: float,
        workers: Workers | None = None,
        end_together: bool = False,
    ) -> None:
        """`workers` are those that this gateway is one of."""
        self.end_together = end_together
        """Whether no other replica is left when this one is told to end."""
        self.store = store
        self.seal = seal
        """The seal of the state that clients carry: all replicas can open it."""
        self.spent = OneTimeUse(store)
        self.peers = Peers(store, workers)
        self.sessions = SharedSessions(store, self.peers, session_seconds)
        self.tasks = SharedTasks(store, self.peers)
        self.arrivals = Arrivals(seal, self.id)
        self.relay = Relay(Departures(seal, self.id))
        self.peers.on_death = self.relay.give_up
        self.peers.responds = self.relay.responds
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def id(self) -> str:
        """The name of this replica; another one after a restart."""
        return self.peers.id

    @property
    def prefix(self) -> str:
        """The prefix of the names of its parked calls."""
        return f"{self.id}."

    async def find_call(self, name: str) -> None:
        """Raise `WrongReplica` if another replica has the parked call of that name."""
        replica, dot, _ = name.partition(".")
        if dot and await self.peers.find(replica) is not None:
            raise WrongReplica(replica)

    async def find_question(self, number: object) -> None:
        """Raise `WrongReplica` if another replica has asked the question with that id."""
        replica = _asked_by(number)
        if replica is not None and await self.peers.find(replica) is not None:
            raise WrongReplica(replica)

    def is_asked_here(self, number: object) -> bool:
        """Whether it is not another replica that has asked the question with that id."""
        return _asked_by(number) in (None, self.id)

    async def passed_on(
        self, http: HttpRequest, body: bytes, replica: str, request_id: str | int | None
    ) -> bool:
        """Have another replica answer a request; False if it did not take it."""
        peer = await self.peers.find(replica)
        return peer is not None and await self._passed_on(http, body, peer, request_id)

    async def passed_on_page(self, http: HttpRequest, body: bytes, peer: ReplicaPeer) -> bool:
        """Have another worker answer a request for a page that it has; False if it did not take it."""
        return await self._passed_on(http, body, peer, is_page=True)

    async def _passed_on(
        self,
        http: HttpRequest,
        body: bytes,
        peer: ReplicaPeer,
        request_id: str | int | None = None,
        *,
        is_page: bool = False,
    ) -> bool:
        try:
            await self.relay.pass_on(http, body, peer, request_id, is_page=is_page)
        except PeerRefused as error:
            if error.has_ended:
                self.peers.lost(peer.id)
            return False
        return True

    async def fetched_page(self, http: HttpRequest, peer: ReplicaPeer) -> str | None:
        """The page of another worker that a request is for; None if it has none."""
        page = await self.relay.fetch_page(http, peer)
        return None if page is None else page.decode()

    def keep_sessions(self, sessions: Iterable[ClientSession]) -> None:
        """Let the others know that sessions are used."""
        self._begin(self.sessions.keep(list(sessions)))

    def find_moved(
        self, sessions: ClientSessions, end_stream: Callable[[str], None], checked: Coroutine[Any, Any, None]
    ) -> None:
        """Find out what others took over while they believed that this replica had ended.

        A session that is elsewhere ends here when its last request does; `end_stream` has its client open
        the stream for notifications there. `checked` does the same for tasks.
        """
        self._begin(self._find_moved(sessions, end_stream))
        self._begin(checked)

    async def _find_moved(self, sessions: ClientSessions, end_stream: Callable[[str], None]) -> None:
        moved = await self.sessions.moved([session for session in sessions if session.is_doubtful])
        for session in moved:
            session.has_moved = True
            end_stream(session.id)
        while moved := [session for session in moved if not session.closed]:
            for session in moved:
                if session.has_moved and not session.is_busy:
                    self.sessions.forget(session)
                    sessions.close(session.id)
            await asyncio.sleep(_LOOK_SECONDS)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            try:
                await work
            except StoreError as error:
                logger.warning("%s", error)

        task = asyncio.get_running_loop().create_task(run(), name="toolbus sessions")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def keep_sessions_for_others(self) -> None:
        """From now on, sessions that end here go on elsewhere."""
        self.sessions.is_leaving = True

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await self.peers.close()
        await self.relay.close()


def _asked_by(number: object) -> str | None:
    """The replica that has asked the question with that id; None if it is not of a replica."""
    asked = _QUESTION.fullmatch(number) if isinstance(number, str) else None
    return None if asked is None else asked[1]
