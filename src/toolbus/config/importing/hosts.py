"""The servers in a host's own file, one by one, so that a bad one does not hide the others.

Beyond the dialects, this covers what only one host does: Claude Code keeps servers per project; Gemini CLI
and Claude Code disable servers in a list. Hosts with their own keys are in `translate`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from toolbus.config.dialects import (
    CONTAINERS,
    container,
    has_container,
    settings_in,
    without_foreign,
)
from toolbus.config.importing.translate import HOSTS, HostConfig, host_of, named
from toolbus.config.location import Location, is_list, is_mapping
from toolbus.config.read import read_document
from toolbus.core.records import JSON

FILE = "file"
"""The host of a file that somebody named: any dialect."""


def host_config(document: Mapping[JSON, JSON], *, host: str, folder: Path, location: Location) -> HostConfig:
    """What the document lists; nothing if a host's own file lists none, ConfigError if another does."""
    own = host_of(document) if host == FILE else host
    if own in HOSTS:
        return HOSTS[own](document, location)
    project = _of_project(document, folder)
    if is_mapping(local := project.get("mcpServers")):
        of_user = document.get("mcpServers")
        document = {**document, "mcpServers": {**(of_user if is_mapping(of_user) else {}), **local}}
    if host != FILE and not has_container(document):
        return HostConfig()
    holders = list(_holders(document))
    entries = holders[0][1] if len(holders) == 1 else None
    if not (is_mapping(entries) or is_list(entries)):
        # One server that is a document, or an error that is told there.
        return HostConfig(entries=dict(container(document, location).entries))
    settings = without_foreign(settings_in(document, holders[0][0]))
    notes: list[str] = []
    by_alias = named(entries, notes)
    off = _switched_off(document, project, host, by_alias)
    defaults = _defaults(holders[0][0].get("inputs"))
    return HostConfig(entries=by_alias, settings=settings, off=off, notes=notes, defaults=defaults)


def switched_off_by(path: Path, folder: Path) -> frozenset[str]:
    """The servers of a project's `.mcp.json` that another file of Claude Code keeps from starting.

    The user refused them when asked, or switched them off. Those that were never asked about count as on:
    the other lists say only what was accepted before.
    """
    document = read_document(path)
    levels = (document, _of_project(document, folder))
    lists = [level.get(key) for level in levels for key in ("disabledMcpjsonServers", "disabledMcpServers")]
    return frozenset(name for names in lists if is_list(names) for name in names if isinstance(name, str))


def _holders(document: Mapping[JSON, JSON]) -> Iterator[tuple[Mapping[JSON, JSON], JSON]]:
    """Each mapping that holds a container, and what the container holds."""
    for path in CONTAINERS:
        holder: JSON = document
        for step in path[:-1]:
            holder = holder.get(step) if is_mapping(holder) else None
        if is_mapping(holder) and path[-1] in holder:
            yield holder, holder[path[-1]]


def _of_project(document: Mapping[JSON, JSON], folder: Path) -> Mapping[str, JSON]:
    """What Claude Code keeps for the project in this folder."""
    projects = document.get("projects")
    if not is_mapping(projects):
        return {}
    # Windows users find both kinds of slash there; macOS has /tmp as a link to /private/tmp.
    here = {folder.absolute().as_posix(), folder.resolve().as_posix()}
    found: dict[str, JSON] = {}
    for path, project in projects.items():
        if is_mapping(project) and str(path).replace("\\", "/").rstrip("/") in here:
            found |= {str(key): value for key, value in project.items()}
    return found


def _switched_off(
    document: Mapping[JSON, JSON], project: Mapping[str, JSON], host: str, entries: Mapping[str, JSON]
) -> frozenset[str]:
    """The servers that the lists of their host keep from starting."""
    if host == "claude-code":
        disabled = project.get("disabledMcpServers")
        return frozenset(alias for alias in entries if is_list(disabled) and alias in disabled)
    if host == "gemini" and is_mapping(lists := document.get("mcp")):
        allowed, excluded = lists.get("allowed"), lists.get("excluded")
        return frozenset(
            alias
            for alias in entries
            if (is_list(allowed) and alias not in allowed) or (is_list(excluded) and alias in excluded)
        )
    return frozenset()


def _defaults(inputs: JSON) -> dict[str, str]:
    """The value that VS Code has for an input until the user gives another; a password is not kept."""
    found: dict[str, str] = {}
    for one in inputs if is_list(inputs) else ():
        if is_mapping(one) and not one.get("password") and isinstance(default := one.get("default"), str):
            found[str(one.get("id"))] = default
    return found
