"""The public names of the package are sorted, importable and documented; `tests/contract` records them."""

import inspect
import pydoc
import re
from collections.abc import Set
from importlib.metadata import version
from typing import Any, assert_type, cast

import pytest

import toolbus
from tests.inside import bus
from toolbus import records, sync

PUBLIC = {name: getattr(toolbus, name) for name in toolbus.__all__}


def test_all_is_sorted_and_names_nothing_twice() -> None:
    assert list(toolbus.__all__) == sorted(set(toolbus.__all__))


@pytest.mark.parametrize("name", toolbus.__all__)
def test_a_public_name_can_be_imported_and_is_listed_by_dir(name: str) -> None:
    assert getattr(toolbus, name) is not None
    assert name in dir(toolbus)


@pytest.mark.parametrize(
    "name", [name for name, value in PUBLIC.items() if inspect.isclass(value) or inspect.isfunction(value)]
)
def test_a_public_name_has_a_docstring_of_its_own(name: str) -> None:
    doc = inspect.cleandoc(getattr(toolbus, name).__doc__ or "")
    assert doc, f"{name} has no docstring"
    # A dataclass without one gets its signature as docstring.
    assert not doc.startswith(f"{name}("), f"{name} has only the generated docstring {doc!r}"


def test_the_version_is_the_installed_one() -> None:
    assert toolbus.__version__ == version("toolbus")


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = getattr(toolbus, "no_such_name")  # noqa: B009 - pyright would rightly refuse the plain access


def test_a_star_import_gives_exactly_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from toolbus import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(toolbus.__all__)


PAIRS = {
    toolbus.Toolbus: toolbus.SyncToolbus,
    toolbus.SessionView: sync.SyncSessionView,
    toolbus.View: sync.SyncView,
    toolbus.McpConnection: sync.SyncMcpConnection,
    records.TaskHandle: sync.SyncTask,
    toolbus.Tool: sync.SyncTool,
    bus.Scripts: sync.SyncScripts,
}
OWN = {"events", "register_into"}
"""Names that take or return other types without a loop."""


def members(kind: type, *, but: Set[str] = frozenset()) -> dict[str, Any]:
    named = {name for name in dir(kind) if not name.startswith("_")} - but
    return {name: inspect.getattr_static(kind, name) for name in named}


@pytest.mark.parametrize(("awaited", "waits"), PAIRS.items(), ids=lambda kind: kind.__name__)
def test_every_method_is_there_without_a_loop_with_the_same_parameters(awaited: type, waits: type) -> None:
    # Without a loop, `Tool.run` is `run_sync`.
    for name, member in members(awaited, but={"run"} if awaited is toolbus.Tool else set()).items():
        ours = inspect.getattr_static(waits, name)
        if isinstance(member, classmethod):
            member, ours = cast(Any, member).__func__, ours.__func__
        if not inspect.isfunction(member):
            assert isinstance(ours, property), name
            continue
        assert not inspect.iscoroutinefunction(ours), name
        theirs = inspect.signature(member)
        if name not in OWN and "narrower" not in theirs.parameters:
            assert list(inspect.signature(ours).parameters.values()) == list(theirs.parameters.values()), name
            assert returned(inspect.signature(ours)) == as_derived(returned(theirs)), name


def returned(signature: inspect.Signature) -> str:
    return inspect.formatannotation(signature.return_annotation).replace("'", "").rpartition(".")[2]


def as_derived(shown: str) -> str:
    """The name of a class as it is without a loop."""
    for awaited, waits in PAIRS.items():
        shown = re.sub(rf"\b{awaited.__name__}\b", waits.__name__, shown)
    return shown


def test_help_shows_what_a_derived_method_takes() -> None:
    shown = pydoc.plain(pydoc.render_doc(toolbus.SyncToolbus.call))
    assert "call(self, name: str, arguments: collections.abc.Mapping[str, typing.Any] | None = None" in shown
    assert "-> toolbus" in shown
    assert "Call a tool by its public name" in shown
    assert "async" not in shown


def typed(made: toolbus.SyncToolbus, pending: toolbus.Pending) -> None:
    """Never called: the type checker knows what each kind of derived member takes and returns."""
    assert_type(made.call("a", {"b": 1}, timeout=2), toolbus.ToolResult)
    assert_type(made.resume(pending, on_input="ask"), toolbus.ToolResult)
    assert_type(made.as_user("ann", session="one").view(include="a_*"), sync.SyncSessionView)
    assert_type(made.view(servers="a"), sync.SyncView)
    assert_type(made.tools(loadable=True)[0].execute(a=1), toolbus.ToolResult)
    assert_type(made.submit("a").result(timeout=1), toolbus.ToolResult)
    assert_type(made.scripts.check("1"), str | None)
    assert_type(made.health(), dict[str, records.Health])
    assert_type(made.servers, dict[str, records.ServerStatus])
    assert_type(made.held, dict[str, records.HeldTool])
    made.call(1)  # pyright: ignore[reportArgumentType]  # a wrong argument is found
    made.health("a")  # pyright: ignore[reportCallIssue]
    toolbus.SyncToolbus(hook=())  # pyright: ignore[reportCallIssue]
    made.servers = {}  # pyright: ignore[reportAttributeAccessIssue]


def test_the_synchronous_bus_has_one_class_under_both_paths() -> None:
    from toolbus.sync import SyncToolbus

    assert SyncToolbus is toolbus.SyncToolbus
