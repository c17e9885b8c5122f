"""All generated pages, by their paths."""

from collections.abc import Mapping
from pathlib import Path

from tests.pages import ROOT
from tests.reference.behavior import errors, events, metrics
from tests.reference.configuration import configuration
from tests.reference.markup import page, table
from tests.reference.places import environment
from tests.reference.python import MODULES, adapters_page, homes, index, module_page

FOLDER = ROOT / "docs" / "reference"
NAMES = """\
The names on this page are public, with their parameters, fields and public methods. Everything else may
change in any release: names with a leading underscore, and modules that this page does not list, such as
`toolbus.bus` and `toolbus.core`. While the version is 0.x, a minor release (0.2, 0.3) may rename or remove
a public name. The changelog says how to change your code. A patch release (0.2.1) keeps every public name.
New parameters, fields, events and errors may come with any release. Error messages are not part of the
interface: use the attributes of the error.

Every module has `__all__`, so a star import brings exactly these names. Importing `toolbus` loads nothing;
its names are loaded on first use. `toolbus` also has every error of `toolbus.errors`.
"""
PAGES = {
    "configuration": "every key of toolbus.yaml, with its type and default",
    "errors": "every exception, its cause and its fix",
    "events": "every event of a bus, with its fields",
    "metrics": "what Prometheus and OpenTelemetry get",
    "environment": "environment variables, and the files and folders that toolbus uses",
}
"""The pages beside those of the Python modules."""


def pages() -> Mapping[Path, str]:
    """The text of each page."""
    known = homes()
    made = {
        "README": _contents(),
        "configuration": configuration(),
        "errors": errors(known),
        "events": events(known),
        "metrics": metrics(),
        "environment": environment(),
        "python/toolbus.adapters": adapters_page(known),
    }
    own = {f"python/{module}": module_page(module, known) for module in _modules()}
    found = {FOLDER / f"{name}.md": text for name, text in (made | own).items()}
    return {**found, FOLDER.parent / "api.md": page("Public Python names", NAMES, *index())}


def _modules() -> list[str]:
    """The modules with a page in `python/`."""
    return [module for module in MODULES if module not in ("toolbus.errors", "toolbus.events")]


def _contents() -> str:
    """The page with links to all others."""
    titles = {name: name.capitalize() for name in PAGES}
    own = [f"- [{titles[name]}]({name}.md): {about}" for name, about in PAGES.items()]
    beside = [
        "- [Commands](../cli.md): every command, its options and its JSON",
        "- [Python names](../api.md): the stable names, and what they promise",
    ]
    modules = [(f"[{module}](python/{module}.md)", MODULES[module]) for module in _modules()]
    modules.append(
        ("[toolbus.adapters](python/toolbus.adapters.md)", "Tools in the types of each framework.")
    )
    rows = table(("module", "contents"), modules)
    about = (
        "These pages are made from the source, so they match this version. To learn how to use toolbus, start"
        " with [the guides](../README.md)."
    )
    return page("Reference", about, "\n".join([own[0], *beside, *own[1:]]), "## Python modules", rows)
