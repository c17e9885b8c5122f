"""A link to an HTTP API: the dispatcher of a connection whose other end is no MCP server.

It lists the operations of the document as tools, and sends the request of each call itself. The document
is read again whenever the link connects.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock
from typing import Any
from weakref import WeakValueDictionary

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.http.url import parse_url
from toolbus.connect.opening.attempt import Attempt
from toolbus.connect.transports.listed import ListedPeer
from toolbus.core.files import UnreadableFile, read_plain
from toolbus.core.operation.tracing import ConnectionFacts
from toolbus.core.text.display import in_seconds
from toolbus.core.values.errors import ConnectFailed
from toolbus.core.values.records import JSON
from toolbus.openapi.bodies import UnusableArguments
from toolbus.openapi.client import Reach, RequestRefused, Sender, api_sender, fetched_document
from toolbus.openapi.document import DocumentError, read_document
from toolbus.openapi.operation import ApiOperation
from toolbus.openapi.operations import Api, ApiSource, read_api
from toolbus.openapi.results import call_result, failed

_MOST_SHOWN = 5
"""Refused operations in a warning."""


async def opened_api(
    config: ServerConfig, values: Resolved, warn: Callable[[str], None]
) -> tuple[Api, Resolved]:
    """The API of a server, and its values with the base URL; `ConnectFailed` if there are no tools."""
    assert config.openapi is not None
    try:
        async with asyncio.timeout(config.timeouts.connect):
            content, url = await _content(config, values)
            source = ApiSource(
                setting=config.openapi,
                document_url=url,
                base_url=values.openapi.get("base_url"),
                given=_given(values),
                most=config.limits.schema_size,
            )
            api = await _api_in(content, source)
    except TimeoutError as error:
        cause = f"its document was not read within {in_seconds(config.timeouts.connect)}"
        raise ConnectFailed(config.alias, "connect", cause) from error
    except DocumentError as error:
        cause = (
            f"the document {_shown(values)} {error}"
            if str(error)[:3] in ("is ", "has")
            else f"{_shown(values)}: {error}"
        )
        raise ConnectFailed(config.alias, "configure", values.redacted(cause)) from error
    if not api.operations:
        raise ConnectFailed(config.alias, "configure", _nothing(api, values))
    for warning in (*api.warnings, *_refusals(api)):
        warn(warning)
    return api, replace(values, url=api.base_url, public_url=values.public_url or api.base_url)


_known: WeakValueDictionary[tuple[bytes, ApiSource], Api] = WeakValueDictionary()
"""The APIs of the links that are open, by the digest of the document and all settings."""
_reading: WeakValueDictionary[tuple[bytes, ApiSource], Lock] = WeakValueDictionary()


async def _api_in(content: bytes, source: ApiSource) -> Api:
    """The API of a document, which is read once for all links and users that have it at the same time."""
    key = sha256(content).digest(), source
    turn, over = _reading.setdefault(key, Lock()), Event()

    def read() -> Api:
        with turn:
            if (found := _known.get(key)) is None:
                _known[key] = found = read_api(read_document(content), source, over.is_set)
            return found

    try:
        return await asyncio.to_thread(read)
    finally:
        over.set()  # a thread ends no sooner than it looks


def _nothing(api: Api, values: Resolved) -> str:
    if api.refused:
        return values.redacted(f"no operation of {_shown(values)} can be used: {api.refused[0]}")
    if api.left_out:
        return "openapi.include and openapi.exclude leave no operation"
    return f"{_shown(values)} has no operations"


def _refusals(api: Api) -> list[str]:
    """The warning about operations that are no tools."""
    if not api.refused:
        return []
    shown = "; ".join(map(str, api.refused[:_MOST_SHOWN]))
    more = len(api.refused) - _MOST_SHOWN
    what = "1 operation is" if len(api.refused) == 1 else f"{len(api.refused)} operations are"
    return [f"{what} left out: {shown}{f'; and {more} more' if more > 0 else ''}"]


def _given(values: Resolved) -> frozenset[str]:
    queries = (key for key in values.openapi if key.startswith("query."))
    return frozenset(
        (
            *(f"header:{name.lower()}" for name in values.static_headers),
            *(f"query:{key.removeprefix('query.')}" for key in queries),
        )
    )


def _shown(values: Resolved) -> str:
    return values.redacted(values.openapi["document"].partition("?")[0])


async def _content(config: ServerConfig, values: Resolved) -> tuple[bytes, str | None]:
    """The document, and its URL if it is at one."""
    place = values.openapi["document"]
    if re.match(r"https?://", place, re.IGNORECASE):
        base = values.openapi.get("base_url")
        # Only the API gets its credentials, and a document may be anywhere.
        is_own = base is not None and parse_url(base).origin == parse_url(place).origin
        return await fetched_document(config, place, values.headers if is_own else None), place
    try:
        return await asyncio.to_thread(_in_file, place, values.folder, config.limits.message), None
    except FileNotFoundError as error:
        cause = f"{_shown(values)}: no such file"
        raise ConnectFailed(config.alias, "configure", cause, hint="check openapi.document") from error
    except UnreadableFile as error:
        raise ConnectFailed(config.alias, "configure", f"{_shown(values)}: {error.strerror}") from error
    except OSError as error:
        raise ConnectFailed(config.alias, "configure", f"{_shown(values)}: {error.strerror}") from error


def _in_file(text: str, folder: Path | None, limit: int) -> bytes:
    return read_plain((folder or Path()) / Path(text).expanduser(), limit)


@asynccontextmanager
async def openapi_peer(attempt: Attempt) -> AsyncGenerator[ListedPeer]:
    """A connection to an API."""
    config, api = attempt.config, attempt.api
    assert config.openapi is not None
    assert api is not None, "it was read before the attempt"
    attempt.diagnostics.phase = "handshake"
    texts = attempt.values.openapi
    written = [texts[key] for key in ("base_url", "document") if key in texts]
    reach = Reach(
        own=parse_url(api.base_url),
        named=[parse_url(one) for one in written if re.match(r"https?://", one, re.IGNORECASE)],
        allowed=[parse_url(one) for one in config.openapi.allow_origins],
        allow_private=config.openapi.allow_private,
    )
    query = {key.removeprefix("query."): text for key, text in texts.items() if key.startswith("query.")}
    async with api_sender(attempt, reach, query) as sender:
        yield ListedPeer(
            {"name": api.title, "version": api.version},
            [definition_of(one) for one in api.operations],
            instructions=api.description,
            calls=ApiCalls(attempt, api.operations, sender).send,
            connection=ConnectionFacts(transport="tcp"),
        )


class ApiCalls:
    """Sends the requests of tool calls."""

    def __init__(self, attempt: Attempt, operations: Iterable[ApiOperation], sender: Sender) -> None:
        self._config, self._redacted = attempt.config, attempt.values.redacted
        self._sender = sender
        self._operations = {one.name: one for one in operations}

    async def send(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a `tools/call` with these parameters."""
        operation = self._operations.get(params.get("name", ""))
        if operation is None:
            raise MCPError(INVALID_PARAMS, "the document has no such operation")
        try:
            response = await self._sender.send(operation, params.get("arguments") or {})
        except (UnusableArguments, RequestRefused) as error:
            return failed(self._redacted(str(error)))
        body = self._redacted.received(response.body) if _is_text(response.media_type) else response.body
        return call_result(operation, replace(response, body=body), self._config)


def _is_text(media_type: str) -> bool:
    return media_type.startswith("text/") or any(word in media_type for word in ("json", "xml", "yaml"))


def definition_of(operation: ApiOperation) -> dict[str, JSON]:
    """An operation as the definition of a tool."""
    hints: dict[str, JSON] = {"readOnlyHint": operation.read_only, "openWorldHint": True}
    if not operation.read_only:
        hints["destructiveHint"] = operation.destructive
    hints["idempotentHint"] = operation.idempotent
    found: dict[str, JSON] = {
        "name": operation.name,
        "title": operation.title,
        "description": operation.description,
        "inputSchema": operation.input_schema,
        "outputSchema": operation.output_schema,
        "annotations": hints,
    }
    return {key: value for key, value in found.items() if value is not None}
