"""The pytest plug-in: a test records its servers on its first run, and replays them afterwards.

pytest loads it at every start, so everything of toolbus is imported when a test has a tape.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import pytest

if TYPE_CHECKING:
    from toolbus.core.values.tape_errors import TapeMismatch
    from toolbus.tape.format import RecordedCall
    from toolbus.tape.session import TapeSession

Unused = Literal["report", "fail", "ignore"]
_MODES = ("once", "all", "new_episodes", "none", "rewrite")
_OPTIONS = frozenset(("mode", "ignore", "patterns", "in_order", "unused"))
_MARKER = (
    "tape(path=None, *, mode='once', ignore=(), patterns={}, in_order=False, unused='report'): "
    "record the MCP servers of a test on its first run, and replay them afterwards"
)
_MOST_SHOWN = 20
"""Lines about the tapes after all tests."""
_LONGEST_NAME = 100
_ARGUMENTS = 80
"""Characters of the arguments of a call that are shown."""


@dataclass(kw_only=True)
class _TestTape:
    """The tape of one run of a test."""

    session: "TapeSession"
    unused: Unused
    command: str
    """The command that runs this test again."""
    stack: ExitStack = field(default_factory=ExitStack)
    has_passed: bool = False
    told: int = 0
    """The number of problems that have failed the test."""
    notes: list[str] = field(default_factory=list[str])
    """For the end of the run."""


_TAPE = pytest.StashKey[_TestTape]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tape`."""
    parser.getgroup("toolbus", "tapes of MCP servers").addoption(
        "--tape",
        dest="toolbus_tape",
        choices=_MODES,
        help="record if there is no tape (once, the default), always (all or rewrite), only calls that it "
        "lacks (new_episodes), or nothing (none, for CI)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def tape(request: pytest.FixtureRequest) -> "TapeSession":
    """The tape of the test, which every bus that it makes records or replays."""
    item: pytest.Item = request.node
    return item.stash[_TAPE].session


# One test


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Begin the tape before the first fixture."""
    if _has_tape(item):
        from toolbus.tape.session import current

        begun = _begun(item)
        item.stash[_TAPE] = begun
        begun.stack.enter_context(current(begun.session))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Keep a bus that several tests share off the tape of one of them."""
    if fixturedef.scope == "function" or _TAPE not in request.session.stash:
        return (yield)
    from toolbus.tape.session import current

    with current(None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test whose agent did not notice that a call is not on the tape."""
    result = yield
    tape = item.stash.get(_TAPE, None)
    if tape is not None:
        _check(tape)
        if tape.unused == "fail" and (lines := _unused_lines(tape)):
            pytest.fail("\n".join([*lines, _again(tape)]), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """End the tape after the last fixture; keep a recorded one if the test has passed."""
    tape = item.stash.get(_TAPE, None)
    if tape is None:
        return (yield)
    keeps = False
    try:
        result = yield
        keeps = tape.has_passed
        _check(tape)
        return result
    finally:
        tape.stack.close()
        if tape.has_passed and tape.unused == "report" and (lines := _unused_lines(tape)):
            tape.notes += [f"{item.nodeid}: {lines[0]}", *lines[1:]]
        tape.notes += [f"recorded {_shown(path)}" for path in tape.session.end(keeps=keeps)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the differences between the calls of a failed test and its tape."""
    tape = item.stash.get(_TAPE, None)
    if tape is None:
        return (yield)
    if call.excinfo is not None:
        _hide_toolbus(call.excinfo)
    report = yield
    if report.when == "call":
        tape.has_passed = report.passed
    if report.failed and (lines := _problem_lines(tape)):
        report.sections.append(("tape", "\n".join([*lines, _again(tape)])))
    if report.when == "teardown" and tape.notes:
        vars(report)["toolbus_tape"] = tape.notes
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tapes that were recorded, and the recorded calls that were not made."""
    lines = [line for report in _reports(terminalreporter) for line in getattr(report, "toolbus_tape", ())]
    if not lines:
        return
    terminalreporter.section("tapes")
    for line in lines[:_MOST_SHOWN]:
        terminalreporter.write_line(line)
    if len(lines) > _MOST_SHOWN:
        terminalreporter.write_line(f"... and {len(lines) - _MOST_SHOWN} more")


def _reports(terminalreporter: pytest.TerminalReporter) -> Iterator[object]:
    for found in terminalreporter.stats.values():
        yield from found


def _hide_toolbus(caught: pytest.ExceptionInfo[BaseException]) -> None:
    """Leave toolbus out of the traceback of a call that is not on the tape."""
    from toolbus.core.values.tape_errors import TapeError, TapeMismatch

    if not isinstance(caught.value, TapeError | TapeMismatch):
        return
    ours = str(Path(__file__).parents[1])
    frames = [one for one in walk_tb(caught.tb) if one[0].f_code.co_filename != __file__]
    own = list(takewhile(lambda one: not one[0].f_code.co_filename.startswith(ours), frames))
    shown: TracebackType | None = None
    for frame, line in reversed(own):
        shown = TracebackType(shown, frame, frame.f_lasti, line)
    if shown is not None:
        caught.traceback = type(caught.traceback)(shown)


# Which tape


def _has_tape(item: pytest.Item) -> bool:
    """Whether a test has the marker, or our fixture and not its own one of that name."""
    if item.get_closest_marker("tape") is not None:
        return True
    if "tape" not in getattr(item, "fixturenames", ()):
        return False
    info: Any = getattr(item, "_fixtureinfo", None)
    defined: list[Any] = [] if info is None else info.name2fixturedefs.get("tape", [])
    return not defined or defined[-1].func.__module__ == __name__


def _begun(item: pytest.Item) -> _TestTape:
    from toolbus.tape.matching import Matching, TapeMode
    from toolbus.tape.session import TapeSession

    path, options = _marked(item)
    command = f"pytest {shlex.quote(item.nodeid)} --tape="
    mode = item.config.getoption("toolbus_tape") or options.get("mode", "once")
    mode = "all" if mode == "rewrite" else mode
    unused = options.get("unused", "report")
    if mode not in get_args(TapeMode):
        pytest.fail(f"the mode of a tape is one of {', '.join(_MODES)}, not {mode!r}", pytrace=False)
    if unused not in get_args(Unused):
        pytest.fail(f"unused is one of {', '.join(get_args(Unused))}, not {unused!r}", pytrace=False)
    matching = Matching(
        ignore=options.get("ignore", ()),
        patterns=options.get("patterns", {}),
        in_order=options.get("in_order", False),
    )
    folder = item.path.parent
    place = folder / "tapes" / item.path.stem / f"{_name(item)}.jsonl" if path is None else folder / path
    step = f"record it with: {command}{'rewrite' if place.exists() else 'once'}"
    session = TapeSession(place, mode=cast("TapeMode", mode), matching=matching, step=step)
    item.session.stash[_TAPE] = found = _TestTape(session=session, unused=unused, command=command)
    return found


def _marked(item: pytest.Item) -> tuple[Path | None, Mapping[str, Any]]:
    """The path and the options of the markers; the closest marker wins."""
    path: Path | None = None
    options: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("tape"))):
        unknown = sorted(marker.kwargs.keys() - _OPTIONS - {"path"})
        if unknown or len(marker.args) > 1:
            what = f"no option {unknown[0]!r}" if unknown else "only one argument, its path"
            pytest.fail(f"@pytest.mark.tape has {what}: {_MARKER}", pytrace=False)
        given = marker.args[0] if marker.args else marker.kwargs.get("path")
        path = path if given is None else Path(given)
        options |= {name: value for name, value in marker.kwargs.items() if name != "path"}
    return path, options


def _name(item: pytest.Item) -> str:
    """The name of the file: the name of the test, with a digest if it is unsafe on some file system."""
    whole = item.nodeid.partition("::")[2].replace("::", ".")
    function, bracket, values = whole.removesuffix("]").partition("[")
    safe = re.sub(r"[^\w.]", "_", function, flags=re.ASCII), re.sub(r"[^a-z0-9_-]", "_", values)
    name = f"{safe[0]}-{safe[1]}" if bracket else safe[0]
    if safe == (function, values) and len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


# What is said


def _check(tape: _TestTape) -> None:
    """Fail the test if something is not on the tape that has not failed it yet."""
    told = tape.told
    lines = _problem_lines(tape)
    if tape.told > told:
        pytest.fail(lines[0], pytrace=False)


def _problem_lines(tape: _TestTape) -> list[str]:
    session = tape.session
    tape.told = len(session.problems) + len(session.mismatches)
    lines = [f"{_shown(Path(error.path))} {error.problem}" for error in session.problems]
    for error in session.mismatches:
        lines += _difference_lines(error)
    return lines


def _difference_lines(error: "TapeMismatch") -> list[str]:
    lines = [f"{error.what} of server {error.server!r} is not on {_shown(Path(error.path))}"]
    if error.nearest is not None:
        lines.append(f"  the nearest recorded call is {error.nearest}:")
        lines += [f"    {line}" for line in error.diff or ("it is the same",)]
    return lines


def _unused_lines(tape: _TestTape) -> list[str]:
    unused = tape.session.unused
    if not unused:
        return []
    noun = "1 recorded call was" if len(unused) == 1 else f"{len(unused)} recorded calls were"
    return [f"{noun} not made", *(f"  {_call(one)}" for one in unused[:_MOST_SHOWN])]


def _call(call: "RecordedCall") -> str:
    from toolbus.core.text.display import shortened

    return f"{call.id} {call.server}/{call.name} {shortened(json.dumps(call.arguments), _ARGUMENTS)}"


def _again(tape: _TestTape) -> str:
    if tape.session.problems:
        return f"record it with: {tape.command}once"
    return f"record again with: {tape.command}rewrite, or add missing calls with --tape=new_episodes"


def _shown(path: Path) -> str:
    """A path, relative to the folder in which pytest runs."""
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)
