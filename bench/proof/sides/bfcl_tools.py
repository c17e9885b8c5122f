"""The eight backends of BFCL v4 multi-turn, for `backend.py`; runs in the environment of `bfcl-eval`.

The classes are the package's own. Only their modules are imported: others need the SDKs of all providers.
"""

import ast
import copy
import datetime
import hashlib
import importlib
import json
import random
from pathlib import Path
from typing import Any, cast

PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
MODULES = {
    "files": ("gorilla_file_system", "GorillaFileSystem"),
    "math": ("math_api", "MathAPI"),
    "messages": ("message_api", "MessageAPI"),
    "posts": ("posting_api", "TwitterAPI"),
    "tickets": ("ticket_api", "TicketAPI"),
    "broker": ("trading_bot", "TradingBot"),
    "travel": ("travel_booking", "TravelAPI"),
    "vehicle": ("vehicle_control", "VehicleControlAPI"),
}
"""The module and the class behind each server."""
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}


def tools(name: str) -> list[dict[str, Any]]:
    """The definitions of a class, from the package's documents."""
    [package] = importlib.import_module("bfcl_eval").__path__
    file = Path(package) / "data" / "multi_turn_func_doc" / f"{MODULES[name][0]}.json"
    documents = [json.loads(line) for line in file.read_text().splitlines()]
    return [
        {"name": one["name"], "description": one["description"], "inputSchema": _schema(one["parameters"])}
        for one in documents
    ]


def _schema(written: dict[str, Any]) -> dict[str, Any]:
    """The same in the words of JSON Schema: their `dict` is `object`, their `float` is `number`."""
    schema = dict(written)
    if "type" in schema:
        schema["type"] = TYPES.get(schema["type"], schema["type"])
    if schema.get("type", "") is None:
        del schema["type"]
    if "properties" in schema:
        schema["properties"] = {name: _schema(one) for name, one in schema["properties"].items()}
    if "items" in schema:
        schema["items"] = _schema(schema["items"])
    return schema


class Instance:
    """An object of one of the classes, with a task's data."""

    def __init__(self, name: str, scenario: dict[str, Any]) -> None:
        module, kind = MODULES[name]
        self.object: Any = getattr(importlib.import_module(f"{PACKAGE}.{module}"), kind)()
        if name != "math":  # it keeps nothing
            data = copy.deepcopy(scenario["data"])
            self.object._load_scenario(data, long_context=scenario["long"])

    def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        return _made(getattr(self.object, name), [], arguments)

    def state(self) -> str:
        """A digest of all that the object holds, its random numbers included."""
        return hashlib.sha256(json.dumps(_plain(self.object, frozenset())).encode()).hexdigest()


def opened(name: str, scenario: dict[str, Any]) -> Instance:
    """A new object with the data of a task."""
    return Instance(name, scenario)


def direct(instance: Instance, call: dict[str, Any]) -> tuple[str, bool]:
    """The result of a call exactly as the benchmark wrote it: a line of Python."""
    written: Any = ast.parse(call["source"], mode="eval").body
    positional = [ast.literal_eval(one) for one in written.args]
    named = {one.arg: ast.literal_eval(one.value) for one in written.keywords}
    return _made(getattr(instance.object, written.func.id), positional, named)


def _made(method: Any, positional: list[Any], named: dict[str, Any]) -> tuple[str, bool]:
    try:
        result = method(*positional, **named)
    except Exception as error:  # as the benchmark: the model reads it
        return f"Error during execution: {error}", True
    return (result if isinstance(result, str) else json.dumps(result, default=str)), False


def _plain(value: Any, seen: frozenset[int]) -> Any:
    """The value as JSON; the time of a change is left out, because it differs in every run."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime.datetime():
            return "time"
        case random.Random():
            return hashlib.sha256(repr(value.getstate()).encode()).hexdigest()
        case dict() | list() | tuple() | set():
            return _plain_parts(cast("Any", value), seen)
        case _ if hasattr(value, "__dict__"):
            if id(value) in seen:  # a folder knows its parent
                return "above"
            return [type(value).__name__, _plain(vars(value), seen | {id(value)})]
        case _:
            return str(value)


def _plain_parts(value: Any, seen: frozenset[int]) -> list[Any]:
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return [[str(key), _plain(one, seen)] for key, one in pairs]
    parts = list(cast("list[Any]", value))
    return sorted(map(str, parts)) if isinstance(value, set) else [_plain(one, seen) for one in parts]
