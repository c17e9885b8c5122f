"""The reports of `toolbus tape verify`: for people, as JSON, and for JUnit."""

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from toolbus.cli.output.screen import Screen, escaped_json, exact, short_path
from toolbus.core.text.display import counted, shortened
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.tape.comparison import TapeChange
    from toolbus.tape.format import RecordedCall
    from toolbus.tape.verify import Verification, VerifiedCall

_ARGUMENTS = 60
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot have."""


def verification_json(found: "Verification") -> dict[str, JSON]:
    """The document of `--json`."""
    return {
        "level": found.level,
        "changed": bool(found.changes),
        "breaking": any(change.is_breaking for change in found.changes),
        "interrupted": found.is_interrupted,
        "counts": {status: found.count(status) for status in ("same", "changed", "skipped")},
        "servers": [
            {"server": one.name, "changes": [change.to_json() for change in one.changes]}
            for one in found.servers
        ],
        "calls": [_call_json(one) for one in found.calls],
    }


def _call_json(one: "VerifiedCall") -> dict[str, JSON]:
    call = one.call
    target = {"id": call.id, "server": call.server, "method": call.method, "name": call.name}
    why = {"reason": one.reason} if one.reason else {}
    changes = [change.to_json() for change in one.changes]
    return {
        **target,
        "arguments": call.arguments,
        "status": one.status,
        **why,
        "changes": changes,
        "seconds": one.seconds,
    }


def print_verification(screen: Screen, file: Path, found: "Verification") -> None:
    """Print every change and the skipped calls."""
    for server in found.servers:
        if server.changes:
            screen.line((exact(server.name), "bold"))
            _print_changes(screen, server.changes)
    for one in found.calls:
        if one.changes:
            screen.line((f"call {one.call.id} {exact(_label(one.call))}", "bold"))
            _print_changes(screen, one.changes)
    for reason, number in Counter(one.reason for one in found.calls if one.status == "skipped").items():
        step = "; --writes repeats them" if reason == "not read-only" else ""
        screen.summary((f"{counted(number, 'call')} skipped: {exact(reason)}{step}", "yellow"))
    if found.is_interrupted:
        screen.summary(("interrupted: the calls that follow were not made", "yellow"))
    screen.summary(_summary(file, found))


def _print_changes(screen: Screen, changes: "Sequence[TapeChange]") -> None:
    for change in changes:
        screen.line("  ", (exact(change.text), "red" if change.is_breaking else ""), *_compatible(change))


def _compatible(change: "TapeChange") -> list[tuple[str, str]]:
    return [] if change.is_breaking else [(" (compatible)", "dim")]


def _summary(file: Path, found: "Verification") -> str:
    kinds = Counter(change.kind for one in found.servers for change in one.changes)
    down, offered = kinds["server"], kinds.total() - kinds["server"]
    definitions = f"{counted(offered, 'change')} in definitions" if offered else "definitions as recorded"
    if down:
        unusable = f"{counted(down, 'server')} cannot be used"
        definitions = unusable if down == len(found.servers) else f"{definitions}; {unusable}"
    changed = found.count("changed")
    repeated = counted(found.count("same") + changed, "call")
    calls = "" if found.level == "schema" else f"; {repeated} repeated, {changed or 'none'} changed"
    return f"{short_path(file)}: {definitions}{calls}"


def _label(call: "RecordedCall") -> str:
    name = f"{call.server}/{call.name}" if call.method == "tools/call" else f"{call.method} {call.name}"
    return f"{name} {shortened(escaped_json(call.arguments), _ARGUMENTS)}" if call.arguments else name


def write_junit(found: "Verification", file: Path) -> None:
    """Write the report: a suite for each server, with a case for its definitions and one for each call."""
    root = ElementTree.Element("testsuites", name="toolbus tape verify")
    for server in found.servers:
        calls = [one for one in found.calls if one.call.server == server.name]
        failures = sum(bool(one.changes) for one in (server, *calls))
        skipped = sum(one.status == "skipped" for one in calls)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_xml(server.name),
            tests=str(1 + len(calls)),
            failures=str(failures),
            errors="0",
            skipped=str(skipped),
            time=f"{sum(one.seconds for one in calls):.3f}",
        )
        _add_case(suite, server.name, "definitions", server.changes)
        for one in calls:
            label = f"{one.call.id} {_label(one.call)}"
            case = _add_case(suite, server.name, label, one.changes, one.seconds)
            if one.status == "skipped":
                ElementTree.SubElement(case, "skipped", message=_xml(one.reason))
    if found.is_interrupted:
        suite = ElementTree.SubElement(root, "testsuite", name="interrupted", tests="1", errors="1")
        case = _add_case(suite, "interrupted", "the calls that follow were not made", ())
        ElementTree.SubElement(case, "error", message="interrupted")
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def _add_case(
    suite: ElementTree.Element,
    server: str,
    name: str,
    changes: "Sequence[TapeChange]",
    seconds: float = 0.0,
) -> ElementTree.Element:
    case = ElementTree.SubElement(
        suite, "testcase", classname=_xml(server), name=_xml(name), time=f"{seconds:.3f}"
    )
    if changes:
        failure = ElementTree.SubElement(case, "failure", message=_xml(changes[0].text), type=changes[0].kind)
        failure.text = _xml("\n".join(change.text for change in changes))
    return case


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
