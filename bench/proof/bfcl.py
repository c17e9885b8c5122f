"""BFCL v4 multi-turn: 800 tasks in four kinds, from the wheel of `bfcl-eval`."""

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.proof.traces import GoldCall, Task, TaskTurn

KINDS = ("base", "miss_func", "miss_param", "long_context")
SIDE = "bfcl_tools"
CLASSES = {
    "GorillaFileSystem": "files",
    "MathAPI": "math",
    "MessageAPI": "messages",
    "TwitterAPI": "posts",
    "TicketAPI": "tickets",
    "TradingBot": "broker",
    "TravelAPI": "travel",
    "VehicleControlAPI": "vehicle",
}
DOCUMENTS = {
    "files": "gorilla_file_system",
    "math": "math_api",
    "messages": "message_api",
    "posts": "posting_api",
    "tickets": "ticket_api",
    "broker": "trading_bot",
    "travel": "travel_booking",
    "vehicle": "vehicle_control",
}
SERVERS = tuple(DOCUMENTS)
Parameters = Mapping[str, Mapping[str, list[str]]]
"""The names of each tool's arguments in their order, by server and tool."""


def tasks(data: Path) -> list[Task]:
    """All tasks of the folder `bfcl_eval/data`."""
    parameters = {server: _parameters(data, file) for server, file in DOCUMENTS.items()}
    found: list[Task] = []
    for kind in KINDS:
        name = f"BFCL_v4_multi_turn_{kind}.json"
        gold = {one["id"]: one["ground_truth"] for one in _lines(data / "possible_answer" / name)}
        found += [_task(kind, one, gold[one["id"]], parameters) for one in _lines(data / name)]
    return found


def _task(kind: str, written: dict[str, Any], gold: list[list[str]], parameters: Parameters) -> Task:
    servers = [CLASSES[name] for name in written["involved_classes"]]
    late = {
        int(turn): [(_owner(tool, servers, parameters), tool) for tool in tools]
        for turn, tools in written.get("missed_function", {}).items()
    }
    lines = [[_call(line, servers, parameters) for line in calls] for calls in gold]
    said = [" ".join(message["content"] for message in turn) for turn in written["question"]]
    turns = [
        TaskTurn(
            text=text,
            calls=calls,
            appearing=[tool for tool in late.get(number, ()) if not _used(tool, lines[:number])],
        )
        for number, (text, calls) in enumerate(zip(said, lines, strict=True))
    ]
    data = {CLASSES[name]: one for name, one in written["initial_config"].items()}
    scenarios = {name: {"data": data.get(name, {}), "long": kind == "long_context"} for name in servers}
    return Task(id=written["id"], kind=kind, turns=turns, scenarios=scenarios)


def _call(line: str, servers: list[str], parameters: Parameters) -> GoldCall:
    """A line of Python as a call with named arguments, as a model would make it."""
    written: Any = ast.parse(line, mode="eval").body
    tool = written.func.id
    server = _owner(tool, servers, parameters)
    positional = zip(parameters[server][tool], written.args, strict=False)
    named = [*positional, *((one.arg, one.value) for one in written.keywords)]
    arguments = {name: ast.literal_eval(value) for name, value in named}
    return GoldCall(server=server, tool=tool, arguments=arguments, source=line)


def _used(tool: tuple[str, str], turns: list[list[GoldCall]]) -> bool:
    """Whether a tool is called already: one task calls a tool that it says is missing then."""
    return any((call.server, call.tool) == tool for calls in turns for call in calls)


def _owner(tool: str, servers: list[str], parameters: Parameters) -> str:
    [owner] = [server for server in servers if tool in parameters[server]]
    return owner


def _parameters(data: Path, file: str) -> dict[str, list[str]]:
    documents = _lines(data / "multi_turn_func_doc" / f"{file}.json")
    return {one["name"]: list(one["parameters"]["properties"]) for one in documents}


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]
