"""Keys that end while their holders have something open: nothing more is sent, and nothing is inherited."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import warm
from tests.cli.running import toolbus
from tests.gateway.front import BOTH, Events, modern_request
from tests.gateway.replicas.cluster import Cluster, client, cluster, until
from tests.hostile.besieged import BAD, Besieged, besieged
from tests.hostile.talking import NEWS
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
MOST = 1000
"""Events that may be on their way when the gateway learns that a key has ended: ten seconds of them."""
ELICITS: dict[str, Any] = {"elicitation": {"form": {}}}
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LEGACY = "2025-06-18"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@dataclass(slots=True, kw_only=True)
class Holder:
    """The holder of a key, and the use of it."""

    http: httpx2.AsyncClient
    url: str
    key: str
    session: str = ""

    async def modern(self, method: str, params: Mapping[str, Any], capabilities: Any = None) -> Any:
        """The response to a modern request."""
        meta: dict[str, Any] = {"_meta": {CAPABILITIES: capabilities or {}}}
        body, headers = modern_request(method, {**params, **meta}, bearer(self.key))
        return (await self.http.post(self.url, content=body, headers=headers)).json()

    async def is_let_in(self) -> bool:
        body, headers = modern_request("tools/list", {}, bearer(self.key))
        return (await self.http.post(self.url, content=body, headers=headers)).status_code == 200

    async def is_refused(self) -> bool:
        return not await self.is_let_in()

    async def open(self) -> None:
        """Open a legacy session."""
        params: dict[str, Any] = {
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        response = await self.legacy("initialize", params)
        self.session = response.headers["mcp-session-id"]

    @property
    def headers(self) -> dict[str, str]:
        own = {"mcp-session-id": self.session, "mcp-protocol-version": LEGACY} if self.session else {}
        return {**BOTH, **own, **bearer(self.key)}

    async def legacy(self, method: str, params: Any) -> httpx2.Response:
        """The response to a request in its session."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.http.post(self.url, json=message, headers=self.headers)

    async def streams(self, stack: AsyncExitStack) -> dict[str, Events]:
        """Streams of all kinds, which never end by themselves; events come on each of them."""
        talk: dict[str, Any] = {"name": "talk", "arguments": {}, "_meta": {"progressToken": "t"}}
        call, call_headers = modern_request("tools/call", talk, bearer(self.key))
        wanted = {"notifications": {"resourceSubscriptions": [NEWS]}}
        listen, listen_headers = modern_request("subscriptions/listen", wanted, bearer(self.key))
        await self.open()
        subscribed = await self.legacy("resources/subscribe", {"uri": NEWS})
        assert '"result"' in subscribed.text
        legacy_call = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": talk})
        requests: dict[str, tuple[str, bytes, dict[str, str]]] = {
            "call": ("POST", call, call_headers),
            "listen": ("POST", listen, listen_headers),
            "legacy call": ("POST", legacy_call.encode(), self.headers),
            "legacy listen": ("GET", b"", self.headers),
        }
        opened: dict[str, Events] = {}
        for name, (method, body, headers) in requests.items():
            stream = self.http.stream(method, self.url, content=body, headers=headers)
            response = await stack.enter_async_context(stream)
            assert response.status_code == 200, name
            opened[name] = Events(response)
            for _ in range(3):
                await opened[name].message()
        return opened


async def outcome(events: Events) -> str:
    """The outcome of a stream: it ends, or goes on although more than enough was read."""
    try:
        for _ in range(MOST):
            if not await events.next():
                break
        else:
            return "goes on"
    except httpx2.HTTPError:
        pass
    return "ends"


async def outcomes(streams: Mapping[str, Events]) -> dict[str, str]:
    """The outcome of each; all are read at the same time."""
    found = await asyncio.gather(*map(outcome, streams.values()))
    return dict(zip(streams, found, strict=True))


@dataclass(slots=True, kw_only=True)
class Talk:
    """A gateway with a server that never falls silent."""

    gateway: Besieged
    folder: Path

    async def key(self, *words: str) -> str:
        """Run `toolbus key`."""
        done = await asyncio.to_thread(
            toolbus, "key", *words, folder=self.folder / "besieged", env={"TOOLBUS_TRUST": "1"}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def holder(self, key: str = "") -> Holder:
        return Holder(http=self.gateway.http, url=self.gateway.url, key=key or self.gateway.keys[BAD])

    @property
    def journal(self) -> list[str]:
        return (self.folder / "journal").read_text().splitlines()


@asynccontextmanager
async def talk(folder: Path) -> AsyncGenerator[Talk]:
    journal = folder / "journal"
    journal.touch()
    server = {"command": warm.python(), "args": [str(HERE / "talking.py"), str(journal)], "prefix": ""}
    async with besieged(folder, servers={"talking": server}) as gateway:
        yield Talk(gateway=gateway, folder=folder)


ENDED = dict.fromkeys(("call", "listen", "legacy call", "legacy listen"), "ends")


async def test_a_key_is_revoked_while_events_keep_coming(tmp_path: Path) -> None:
    """Every stream of it ends before the next event, in both eras, and its calls are cancelled."""
    async with talk(tmp_path) as talking, AsyncExitStack() as stack:
        bad = talking.holder()
        streams = await bad.streams(stack)
        await talking.key("revoke", BAD)
        await until(bad.is_refused)
        assert await outcomes(streams) == ENDED
        await until(lambda: talking.journal.count("talk cancelled") == 2)


async def test_a_key_is_revoked_and_another_one_gets_its_name(tmp_path: Path) -> None:
    """The streams of the old key end: a key is known by itself, and not by its name."""
    async with talk(tmp_path) as talking, AsyncExitStack() as stack:
        bad = talking.holder()
        streams = await bad.streams(stack)
        await talking.key("revoke", BAD)
        new = talking.holder(await talking.key("add", BAD))
        await until(bad.is_refused)
        assert await outcomes(streams) == ENDED
        await until(new.is_let_in)
        # Nor does the new key get what the old one had.
        new.session = bad.session
        assert (await new.legacy("tools/list", {})).status_code == 404


def expire(folder: Path, name: str) -> None:
    """Have a key expire that was made without a limit: nobody waits for the time to pass."""
    [file] = folder.rglob("gateway/*.keys.json")
    stored = json.loads(file.read_text())
    for key in stored["keys"]:
        key["expires"] = 1.0 if key["name"] == name else None
    file.write_text(json.dumps(stored))


async def test_a_key_expires_while_events_keep_coming(tmp_path: Path) -> None:
    """Every stream of it ends, as if it was revoked."""
    async with talk(tmp_path) as talking, AsyncExitStack() as stack:
        bad = talking.holder()
        streams = await bad.streams(stack)
        expire(tmp_path, BAD)
        await until(bad.is_refused)
        assert await outcomes(streams) == ENDED


async def test_a_new_key_comes_for_the_calls_and_tasks_of_an_old_one_with_its_name(tmp_path: Path) -> None:
    """They were cancelled when the old key ended, and the new one cannot even see them."""
    async with talk(tmp_path) as talking:
        bad = talking.holder()
        call: dict[str, Any] = {"name": "confirm", "arguments": {}}
        asked = (await bad.modern("tools/call", call, ELICITS))["result"]
        task = (await bad.modern("tools/call", {"name": "job", "arguments": {}}, TASKS))["result"]
        await until(lambda: "job begins" in talking.journal)
        await talking.key("revoke", BAD)
        new = talking.holder(await talking.key("add", BAD))
        await until(bad.is_refused)
        await until(new.is_let_in)
        (question,) = asked["inputRequests"]
        answer: dict[str, Any] = {question: {"action": "accept", "content": {}}}
        given: dict[str, Any] = {**call, "requestState": asked["requestState"], "inputResponses": answer}
        refused = await new.modern("tools/call", given, ELICITS)
        assert refused["error"]["message"] == "Invalid requestState"
        unknown = await new.modern("tasks/get", {"taskId": task["taskId"]}, TASKS)
        assert unknown["error"]["message"] == "Task not found"
        await until(lambda: {"confirm cancelled", "job cancelled"} <= {*talking.journal})
        assert "answered accept" not in talking.journal


async def key_of(two: Cluster, *words: str) -> str:
    """Run `toolbus key` for the keys that replicas share."""
    env = {"TOOLBUS_TRUST": "1", "TOOLBUS_STORE_KEY": two.environment()["TOOLBUS_STORE_KEY"]}
    done = await asyncio.to_thread(
        toolbus, "key", *words, "--config", str(two.config), folder=two.folder, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def test_a_key_is_revoked_whose_streams_come_through_another_replica(tmp_path: Path) -> None:
    """They end in both replicas, and the session is open in neither of them."""
    journal = tmp_path / "journal"
    journal.touch()
    server = {"command": warm.python(), "args": [str(HERE / "talking.py"), str(journal)], "prefix": ""}
    async with cluster(2, servers={"talking": server}, serve={"auth": {"keys": True}}) as two:
        first, second = two.replicas
        key = await key_of(two, "add", "ann")
        async with client() as one, AsyncExitStack() as stack:
            here = Holder(http=one.http, url=first.url, key=key)
            there = Holder(http=one.http, url=second.url, key=key)
            await until(here.is_let_in)
            await until(there.is_let_in)
            await here.open()
            there.session = here.session
            await here.legacy("resources/subscribe", {"uri": NEWS})
            stream = one.http.stream("GET", second.url, headers=there.headers, timeout=PATIENCE)
            response = await stack.enter_async_context(stream)
            assert response.status_code == 200, await response.aread()
            events = Events(response)
            await events.message()
            await key_of(two, "revoke", "ann")
            again = Holder(http=one.http, url=second.url, key=await key_of(two, "add", "ann"))
            await until(here.is_refused)
            await until(there.is_refused)
            assert await outcome(events) == "ends"
            for url in (first.url, second.url):  # each learns of the new key by itself
                await until(Holder(http=one.http, url=url, key=again.key).is_let_in)
            again.session = here.session
            assert (await again.legacy("tools/list", {})).status_code == 404
