"""Health, readiness and metrics of the gateway, and paths that there are not."""

import asyncio
import json
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.driving import JSON
from tests.gateway.front import Events, Gates, front, gated, modern_bytes, tool_call
from tests.gateway.test_http_legacy import Names
from tests.inside.core import ServerStatus
from tests.inside.gateway import HttpLimits, Metrics, Principal, Refusal, RequestFacts
from tests.patience import until
from tests.servers.asking import asking

pytestmark = pytest.mark.anyio


class Closed:
    """Lets nobody in, and publishes where tokens come from."""

    async def admit(self, facts: RequestFacts) -> Principal | Refusal:
        assert facts.path == "/mcp"
        return Refusal.of(401, "unauthorized", "a key is needed", {"WWW-Authenticate": "Bearer"})

    def check(self, facts: RequestFacts) -> Refusal | None:
        return None

    def is_current(self, principal: Principal, *, answers: bool = False) -> bool:
        return False

    def has_revoked(self, principal: Principal) -> bool:
        return False

    def metadata(self, facts: RequestFacts) -> JSON | None:
        return {"resource": "https://tools.example.com/mcp"} if facts.path.endswith("/mcp") else None

    def url(self, facts: RequestFacts, name: str = "") -> str:
        return f"http://127.0.0.1/mcp/{name}"

    def address(self, facts: RequestFacts) -> str:
        return facts.address

    def cors(self, facts: RequestFacts) -> dict[str, str]:
        return {"Access-Control-Allow-Origin": facts.headers["origin"]}


def read_by_prometheus(text: str) -> dict[str, str]:
    """The kind of each metric by name, as Prometheus reads the page; each has a help text and samples."""
    families = [*text_string_to_metric_families(text)]
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert sum(len(family.samples) for family in families) == len(samples)
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert family.documentation
        names = {sample.name.removeprefix(family.name) for sample in family.samples}
        kinds = {"counter": {"_total"}, "histogram": {"_bucket", "_sum", "_count"}, "gauge": {""}}
        assert names <= kinds[family.type]
    return {family.name: family.type for family in families}


async def test_the_gateway_is_healthy_and_ready() -> None:
    async with front() as served:
        base = served.url.removesuffix("/mcp")
        health = await served.http.get(f"{base}/healthz")
        assert (health.status_code, health.json()) == (200, {"status": "ok"})
        ready = await served.http.get(f"{base}/readyz")
        assert ready.status_code == 200
        body = ready.json()
        (server,) = body.pop("servers").values()
        assert body == {"ready": True, "reason": None}
        assert server.pop("seconds") >= 0
        assert server == {"state": "ready", "reason": None, "restarts": 0, "required": False}


async def test_it_is_not_ready_without_any_server_and_says_why() -> None:
    config: JSON = {"servers": {"gone": {"command": "no-such-command-at-all"}}}
    async with front(config=config) as served:
        base = served.url.removesuffix("/mcp")
        ready = await served.http.get(f"{base}/readyz")
        assert (await served.http.get(f"{base}/healthz")).status_code == 200
    assert ready.status_code == 503
    assert ready.json()["reason"] == "no server is ready"
    assert "no-such-command-at-all" in ready.json()["servers"]["gone"]["reason"]


async def test_it_is_ready_although_a_server_that_is_not_required_is_down() -> None:
    servers: JSON = {"gone": {"command": "no-such-command-at-all"}, "here": {"server": gated(Gates())}}
    async with front(config={"servers": servers}) as served:
        ready = await served.http.get(served.url.replace("/mcp", "/readyz"))
    assert ready.status_code == 200
    assert {name: one["state"] for name, one in ready.json()["servers"].items()} == {
        "gone": "failed",
        "here": "ready",
    }


async def test_a_lazy_server_is_ready_before_it_is_started() -> None:
    config: JSON = {"servers": {"later": {"server": gated(Gates()), "lazy": True}}}
    async with front(config=config) as served:
        assert (await served.http.get(served.url.replace("/mcp", "/readyz"))).status_code == 200


async def test_a_gateway_that_stops_is_not_ready() -> None:
    async with front() as served:
        served.app.drain()
        ready = await served.http.get(served.url.replace("/mcp", "/readyz"))
        assert (ready.status_code, ready.json()["reason"]) == (503, "the gateway is stopping")
        assert (await served.modern("tools/list")).status_code == 503


async def test_metrics_count_calls_errors_sessions_and_servers() -> None:
    async with front() as served:
        await served.opened()
        await served.modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        await served.modern("made/up")
        await served.modern("tools/call", {"name": "none"})
        page = await served.http.get(served.url.replace("/mcp", "/metrics"))
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = page.text.splitlines()
    families = read_by_prometheus(page.text)
    assert families["toolbus_gateway_request_duration_seconds"] == "histogram"
    assert families["toolbus_gateway_requests"] == "counter"
    assert families["toolbus_gateway_sessions"] == "gauge"
    assert 'toolbus_gateway_requests_total{method="tools/call"} 2' in lines
    assert 'toolbus_gateway_requests_total{method="other"} 1' in lines
    assert 'toolbus_gateway_errors_total{method="other",kind="method_not_found"} 1' in lines
    assert 'toolbus_gateway_request_duration_seconds_bucket{method="tools/call",le="+Inf"} 2' in lines
    assert 'toolbus_gateway_request_duration_seconds_count{method="tools/call"} 2' in lines
    assert "toolbus_gateway_sessions 1" in lines
    assert 'toolbus_gateway_server_state{server="gated",state="ready"} 1' in lines
    assert 'toolbus_gateway_server_restarts_total{server="gated"} 0' in lines
    assert "made/up" not in page.text


def test_the_name_of_a_server_cannot_forge_a_metric() -> None:
    servers = {'a"} 1\nforged 7 {x="': ServerStatus(state="ready")}
    text = Metrics().text(servers, {})
    assert "forged" not in read_by_prometheus(text)
    [state] = [
        family for family in text_string_to_metric_families(text) if family.name.endswith("server_state")
    ]
    assert {sample.labels["server"] for sample in state.samples} == set(servers)


async def test_who_is_not_let_in_learns_nothing() -> None:
    """A stranger learns whether the gateway is ready, and nothing about its servers."""
    async with front(access=Closed()) as served:
        base = served.url.removesuffix("/mcp")
        refused = await served.modern("tools/list")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert (await served.http.get(f"{base}/metrics")).status_code == 401
        ready = await served.http.get(f"{base}/readyz")
        assert (ready.status_code, ready.json()) == (200, {"ready": True})
        assert served.app.metrics.refused["unauthenticated"] == 2


async def test_the_metadata_of_the_resource_is_public() -> None:
    async with front(access=Closed()) as served:
        base = f"{served.url.removesuffix('/mcp')}/.well-known/oauth-protected-resource"
        origin = {"origin": "https://app.example.com"}
        found = await served.http.get(f"{base}/mcp", headers=origin)
        assert found.json() == {"resource": "https://tools.example.com/mcp"}
        assert found.headers["access-control-allow-origin"] == "https://app.example.com"
        assert (await served.http.get(f"{base}/other")).status_code == 404
        preflight = await served.http.options(served.url, headers=origin)
        assert preflight.status_code == 204


async def test_a_page_of_this_machine_that_is_not_listed_learns_how() -> None:
    async with front() as served:
        asked = await served.http.options(served.url, headers={"origin": "http://localhost:3000"})
        assert asked.status_code == 403
        assert "serve.origins" in asked.json()["error_description"]


async def test_other_paths_and_methods_are_refused() -> None:
    async with front() as served:
        base = served.url.removesuffix("/mcp")
        for path in ("/", "/mcpx", "/.well-known/other", "/metrics/x", "/%2e%2e/mcp", "/mcp/no-such-view"):
            assert (await served.http.get(f"{base}{path}")).status_code == 404
        assert (await served.http.post(f"{base}/healthz")).status_code == 405
        head = await served.http.head(f"{base}/healthz")
        assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("asks", ["policy", "server"])
async def test_a_duration_is_without_the_time_that_a_person_takes(asks: str) -> None:
    made = tool_call("tell", text="x") if asks == "policy" else tool_call("book", guest="Ann")
    config: JSON = {
        "servers": {"ask": {"server": asking(), "era": "legacy", "prefix": ""}},
        "policy": [{"tools": "ask/tell", "do": "ask"}],
    }
    async with front(config=config) as served:
        session = await served.opened()
        content = json.dumps({"jsonrpc": "2.0", **made}).encode()
        began = time.perf_counter()
        async with served.http.stream("POST", served.url, content=content, headers=session.headers) as stream:
            events = Events(stream)
            question = await events.message()
            asked = time.perf_counter()
            await asyncio.sleep(0.3)
            thought = time.perf_counter() - asked
            said = {"answer": "once"} if asks == "policy" else {"date": "2026-12-24"}
            await session.post({"id": question["id"], "result": {"action": "accept", "content": said}})
            results = [message for message in await events.rest() if message.get("id") == 1]
        whole = time.perf_counter() - began
        page = await served.http.get(served.url.replace("/mcp", "/metrics"))
    assert [result["result"].get("isError", False) for result in results] == [False]
    start = 'toolbus_gateway_request_duration_seconds_sum{method="tools/call"} '
    (counted,) = [line.removeprefix(start) for line in page.text.splitlines() if line.startswith(start)]
    assert 0 <= float(counted) <= whole - thought


async def test_probes_are_answered_however_many_calls_and_connections_there_are() -> None:
    limits = HttpLimits(connections=6, connections_per_address=4, requests=8)
    async with front(limits) as served:
        pending = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(4)]
        for _, writer in pending:
            writer.write(modern_bytes(served.port, "tools/call", {"name": "wait"}))
        await until(lambda: served.app.in_flight == 4)
        answered = 0
        for page in ("readyz", "healthz") * 10:
            response = await served.raw(f"GET /{page} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
            assert response.startswith(b"HTTP/1.1 200 "), page
            assert b"connection: close" in response
            answered += 1
        assert (answered, served.app.in_flight) == (20, 4), "the calls are still pending"
        # A connection beyond the limits is for nothing else.
        call = modern_bytes(served.port, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        for other in (call, b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", b""):
            assert (await served.raw(other)).startswith(b"HTTP/1.1 503 ")
        for _, writer in pending:
            writer.close()


class Order(Names):
    """Notes in which order requests are looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    async def admit(self, facts: RequestFacts) -> Principal | Refusal:
        self.seen.append(facts.method)
        return await super().admit(facts)


async def test_a_probe_does_not_wait_for_its_turn_behind_calls() -> None:
    order = Order()
    async with front(access=order) as served:
        connections = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(21)]
        await until(lambda: served.app.connections() == 21)
        await asyncio.sleep(0.1)  # until all of them are read from
        for _, writer in connections[:20]:
            writer.write(
                modern_bytes(served.port, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            )
        reader, writer = connections[20]
        # Also on a connection that was used before.
        for _ in range(2):
            writer.write(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
        await until(lambda: len(order.seen) == 22)
        assert order.seen[0] == "GET", "it came last, at the same moment"
        for _, writer in connections:
            writer.close()
