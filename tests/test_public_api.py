"""The public names of the package are sorted, importable and documented; `tests/contract` records them."""

import inspect
from importlib.metadata import version

import pytest

import toolbus


def test_all_is_sorted_and_names_nothing_twice() -> None:
    assert list(toolbus.__all__) == sorted(set(toolbus.__all__))


@pytest.mark.parametrize("name", toolbus.__all__)
def test_a_public_name_can_be_imported_and_is_listed_by_dir(name: str) -> None:
    assert getattr(toolbus, name) is not None
    assert name in dir(toolbus)


@pytest.mark.parametrize("name", [name for name in toolbus.__all__ if name != "__version__"])
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


# What the parts of the package ask of a bus, or what has another name without a loop.
INNER = {
    "approval_needed",
    "assume",
    "calls",
    "definition_digest",
    "exposed",
    "find",
    "is_assumed",
    "missing",
    "report_unsent",
    "run",
    "starting",
    "wait",
    "warn",
}


def test_the_synchronous_bus_has_what_the_other_one_has() -> None:
    public = {name for name in dir(toolbus.Toolbus) if not name.startswith("_")} - INNER
    assert public <= set(dir(toolbus.SyncToolbus))
    for name, method in inspect.getmembers(toolbus.Toolbus, inspect.iscoroutinefunction):
        if name in public:
            ours = inspect.signature(getattr(toolbus.SyncToolbus, name))
            assert list(ours.parameters.values()) == list(inspect.signature(method).parameters.values())


def test_the_synchronous_bus_has_one_class_under_both_paths() -> None:
    from toolbus.sync import SyncToolbus

    assert SyncToolbus is toolbus.SyncToolbus
