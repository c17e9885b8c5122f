"""A hostile server's answers to a call; also a server over stdio: `python answers.py NAME`."""

import json
import sys
from collections.abc import Callable
from typing import Any

RESULT = '{"content": [{"type": "text", "text": "seen"}]}'


def result(inner: str) -> Callable[[Any], str]:
    """An answer with this result, as text."""
    return lambda number: f'{{"jsonrpc": "2.0", "id": {json.dumps(number)}, "result": {inner}}}'


def with_structured(inner: str) -> Callable[[Any], str]:
    """A result with this structured content."""
    return result(f'{{"content": [], "structuredContent": {{"x": {inner}}}}}')


def with_meta(inner: str) -> Callable[[Any], str]:
    """A plain result with this in its `_meta`."""
    return result(f'{RESULT[:-1]}, "_meta": {{"a": {inner}}}}}')


REFUSED: dict[str, tuple[Callable[[Any], str], str]] = {
    "a long message": (with_structured(f'"{"x" * 2**20}"'), "larger than 512,000 bytes (limits.message)"),
    "many lists": (with_structured("[" + "[]," * 60_000 + "1]"), "more than 30,000 values (limits.values)"),
    "many texts": (with_structured("[" + '"",' * 120_000 + "1]"), "more than 30,000 values (limits.values)"),
    "many keys": (
        with_structured("{" + ",".join(f'"{n}":1' for n in range(35_000)) + "}"),
        "more than 30,000 values (limits.values)",
    ),
    "deep nesting": (
        with_structured("[" * 20_000 + "]" * 20_000),
        "nested deeper than 200 levels (limits.depth)",
    ),
    "an error that is none": (lambda number: json.dumps({"id": number, "error": []}), "malformed error"),
    "a result that is none": (lambda number: json.dumps({"id": number, "result": 5}), "not a valid result"),
}
"""Name -> the answer, and the reason why it is refused, with the limits of the tests."""

TAKEN: dict[str, Callable[[Any], str]] = {
    "an error that is null": lambda number: json.dumps(
        {"id": number, "error": None, "result": json.loads(RESULT)}
    ),
    "a text of commas": result(
        '{"content": [{"type": "text", "text": "seen"}], "_meta": {"a": "' + "," * 60_000 + '"}}'
    ),
    "a text of quotes": result(
        '{"content": [{"type": "text", "text": "seen"}], "_meta": {"a": "' + '\\",\\\\,' * 20_000 + '"}}'
    ),
    "odd structure": result(
        '{"content": [], "structuredContent": {"x": [NaN, -Infinity, 1e999, "\\u009b31m", "\\udb40\\udc41", 1'
        + "0" * 5000
        + "]}}"
    ),
    "a long number": result(
        f'{{"content": [{{"type": "text", "text": "seen"}}], "_meta": {{"a": 1{"0" * 400}}}}}'
    ),
    "a very long number": result(
        f'{{"content": [{{"type": "text", "text": "seen"}}], "_meta": {{"a": 1{"0" * 5000}}}}}'
    ),
    "numbers that JSON does not have": result(
        '{"content": [{"type": "text", "text": "seen"}], "_meta": {"a": [NaN, Infinity, -Infinity, 1e999]}}'
    ),
}
"""Name -> an odd answer that is a result all the same."""

LIMITS = {"message": 512_000, "values": 30_000}


def answer(name: str, number: Any) -> str:
    """The answer of that name to a call."""
    return (
        REFUSED[name][0](number)
        if name in REFUSED
        else TAKEN[name](number)
        if name in TAKEN
        else result(RESULT)(number)
    )


def _serve(name: str) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if number is None:
            continue
        match method:
            case "initialize":
                info = '"serverInfo": {"name": "hostile", "version": "1"}, "capabilities": {"tools": {}}'
                reply = result(f'{{"protocolVersion": "2025-06-18", {info}}}')(number)
            case "tools/list":
                schema = '"inputSchema": {"type": "object"}'
                reply = result(f'{{"tools": [{{"name": "look", {schema}}}, {{"name": "plain", {schema}}}]}}')(
                    number
                )
            case "tools/call":
                chosen = name if message["params"]["name"] == "look" else ""
                meta: dict[str, Any] = message["params"].get("_meta") or {}
                token = meta.get("progressToken")
                if token is not None:
                    progress = f'{{"progressToken": {token}, "progress": 1{"0" * 400}}}'
                    print(f'{{"jsonrpc": "2.0", "method": "notifications/progress", "params": {progress}}}')
                reply = answer(chosen, number)
            case _:
                reply = json.dumps(
                    {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}
                )
        print(reply, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
