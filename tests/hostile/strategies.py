"""Possible messages of a hostile server, for Hypothesis."""

import gzip
import json
from typing import Any

from hypothesis import strategies as st

from tests.hostile.wires import chunked, response

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [*(0, 1, 2, -1, 10**400, 1.5, float("nan"), float("inf")), *("1", "", "text", "\ud800", "@ID@")]
    ),
)
KEYS = st.sampled_from(
    [
        *("code", "message", "data", "progressToken", "progress", "total", "requestId", "content", "type"),
        *("text", "structuredContent", "isError", "_meta", "resultType", "task", "taskId", "status"),
        *("inputRequests", "method", "params", "uri", "level", "elicitations"),
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=8,
)
METHODS = st.sampled_from(
    [
        *("ping", "roots/list", "sampling/createMessage", "elicitation/create", "notifications/progress"),
        *("notifications/cancelled", "notifications/message", "notifications/tools/list_changed"),
        *("notifications/resources/updated", "notifications/elicitation/complete", "no/such", ""),
    ]
)
MESSAGES: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": VALUES,
        "id": st.one_of(st.sampled_from(["@ID@", 1, "1", 1.0, True]), VALUES),
        "method": st.one_of(METHODS, VALUES),
        "params": VALUES,
        "result": VALUES,
        "error": VALUES,
    },
)
WRITTEN: st.SearchStrategy[bytes] = st.one_of(
    MESSAGES.map(json.dumps),
    st.lists(st.one_of(MESSAGES, VALUES), max_size=3).map(json.dumps),
    st.text(max_size=50),
).map(lambda text: text.encode(errors="surrogatepass"))
"""Messages, and text that is none."""
_FIELDS = st.one_of(
    st.tuples(
        st.sampled_from([b"data", b"event", b"id", b"retry", b"", b"\xff", b"data\0"]),
        st.sampled_from([b":", b": ", b""]),
        st.one_of(
            WRITTEN.map(lambda data: data.replace(b"\n", b"")),
            st.sampled_from([b"endpoint", b"message", b"9" * 30, b"\xff\xfe", b"-1", b"10"]),
        ),
    ).map(b"".join),
    st.binary(max_size=20),
)
EVENTS: st.SearchStrategy[bytes] = st.lists(
    st.tuples(_FIELDS, st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b""])).map(b"".join),
    max_size=6,
).map(b"".join)
"""A piece of an event stream."""
_HEADERS = st.sampled_from(
    [
        *("location: http://[", "location: //\xff:99999999/", "location: javascript:x", "location: /mcp"),
        *("www-authenticate: Bearer resource_metadata=", 'www-authenticate: "\xe9', "retry-after: -1"),
        *(
            "mcp-session-id: \xe9\xff",
            "mcp-session-id: ",
            "set-cookie: a=\xff; expires=x; domain=.",
            "set-cookie: =",
        ),
        *(
            "content-encoding: gzip",
            "content-encoding: deflate",
            "content-encoding: br",
            "content-type: \xe9;",
        ),
        *("transfer-encoding: chunked", "content-length: 5", "connection: upgrade", "upgrade: h2c"),
    ]
)
_STATUSES = st.sampled_from(
    [
        *("200 OK", "200", "201 \xff", "202 Accepted", "204 None", "206 Part", "100 Continue", "103 Hints"),
        *("101 Up", "301 A", "302 B", "307 C", "308 D", "400 session", "401 No", "403 No", "404 Gone"),
        *("405 No", "410 Gone", "429 Wait", "500 Oops", "503 Later", "599 X", "999 Y", "0 Z", "20000 W"),
    ]
)
_BODIES = st.one_of(
    WRITTEN,
    EVENTS,
    WRITTEN.map(gzip.compress),
    WRITTEN.map(lambda data: gzip.compress(data)[:-5]),
    WRITTEN.map(lambda data: gzip.compress(data) + b"more"),
    st.binary(max_size=30),
)
_KINDS = st.sampled_from(
    ["application/json", "text/event-stream", "text/html", "", "application/json; charset=\xff"]
)
_ENDS = [b"0\r\n\r\n", b"", b"zz\r\n", b"0\r\na: b\r\n\r\n", b"-1\r\n", b"fffffffffffffffff\r\n"]


@st.composite
def _plain(draw: st.DrawFn) -> bytes:
    headers = draw(st.lists(_HEADERS, max_size=3))
    return response(draw(_BODIES), *headers, status=draw(_STATUSES), kind=draw(_KINDS))


@st.composite
def _in_chunks(draw: st.DrawFn) -> bytes:
    parts = draw(st.lists(_BODIES.filter(bool), max_size=3))
    return chunked(*parts, kind=draw(_KINDS), end=draw(st.sampled_from(_ENDS)))


@st.composite
def _cut(draw: st.DrawFn) -> bytes:
    return response(draw(WRITTEN))[: draw(st.integers(0, 80))]


RESPONSES: st.SearchStrategy[bytes] = st.one_of(_plain(), _in_chunks(), _cut(), st.binary(max_size=60))
"""The bytes of an HTTP response."""
