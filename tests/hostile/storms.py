"""A MiB of data that keeps a reader busy; also servers over stdio: `python storms.py NAME`."""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

SIZE = 2**20


def _filled(piece: bytes) -> bytes:
    return piece * (SIZE // len(piece))


def _result(structured: bytes) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":"@ID@","result":{"content":[],"structuredContent":{"x":['
        + structured
        + b"1]}}}"
    )


def _message(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


STORMS: dict[str, Callable[[], Iterator[bytes]]] = {
    "lists": lambda: iter([_result(_filled(b"[],"))]),
    "objects": lambda: iter([_result(_filled(b'{"a":[]},'))]),
    "keys": lambda: iter([_result(b"{" + b",".join(b'"%d":1' % n for n in range(100_000)) + b"},")]),
    "numbers": lambda: iter([_result(_filled(b"1,"))]),
    "texts": lambda: iter([_result(_filled(b'"",'))]),
    "one long text": lambda: iter([_result(b'"' + _filled(b"\\u00e9") + b'",')]),
    "half an emoji among lists": lambda: iter([_result(_filled(b"[],") + b'"\\ud800",')]),
    "long numbers": lambda: iter([_result(_filled(b"9" * 4_000 + b","))]),
    "many levels": lambda: iter([_result(b"[" * 300_000 + b"]" * 300_000 + b",")]),
    "a batch of nothing": lambda: iter([b"[" + _filled(b"{},") + b"{}]"]),
    "a batch of pings": lambda: iter([b"[" + _filled(b'{"id":1,"method":"ping"},') + b"{}]"]),
    "empty lines": lambda: repeat(b"", SIZE // 8),
    "lines of text": lambda: repeat(b"x", SIZE // 9),
    "pings": lambda: repeat(b'{"id":1,"method":"ping"}', SIZE // 25),
    "requests": lambda: (b'{"id":%d,"method":"roots/list"}' % n for n in range(SIZE // 40)),
    "logs": lambda: repeat(_message("notifications/message", level="info", data="x"), SIZE // 90),
    "changes": lambda: repeat(_message("notifications/tools/list_changed"), SIZE // 90),
    "progress": lambda: repeat(
        _message("notifications/progress", progressToken="@ID@", progress=1), SIZE // 90
    ),
    "answers to nobody": lambda: repeat(b'{"id":99999,"result":{}}', SIZE // 25),
}
"""Name -> the lines that a server writes before it answers a call."""


def tools() -> list[dict[str, Any]]:
    """Tools with hostile schemas, and as many small ones as fit into a MiB."""
    from tests.hostile.schemas import CASES

    odd = [
        {"name": f"odd{number}", "inputSchema": case[0], "outputSchema": case[0]}
        for number, case in enumerate(CASES.values())
        if len(json.dumps(case[0])) < 100_000
    ]
    return [*odd, *({"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(5_000))]


def _serve(name: str) -> None:
    from tests.hostile.wires import ID, answer

    out, listed = sys.stdout.buffer, {"tools": [{"name": "storm", "inputSchema": {"type": "object"}}]}
    if name == "tools":
        listed = {"tools": [*listed["tools"], *tools()]}
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "storm", "version": "1"},
        },
        "tools/list": listed,
        "tools/call": {"content": [{"type": "text", "text": "over"}]},
    }
    for line in sys.stdin:
        message = json.loads(line)
        if not {"id", "method"} <= set(message):
            continue
        if message["method"] == "tools/call" and name in STORMS:
            number = json.dumps(message["id"]).encode()
            out.write(b"".join(part + b"\n" for part in STORMS[name]()).replace(ID, number))
        out.write(answer(message, results) + b"\n")
        out.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
