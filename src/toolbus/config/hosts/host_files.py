"""Read the servers in a host's own file one by one, so that a bad entry does not hide the others.

Beyond the dialects, this covers what only one host does: Claude Code keeps servers per project; Gemini CLI
and Claude Code disable servers in a list. Hosts with their own keys are in `translate`.
"""

from collections.abc import Mapping
from pathlib import Path

from toolbus.config.hosts.dialects import (
    container,
    containers,
    has_container,
    settings_in,
    without_foreign,
)
from toolbus.config.hosts.read import read_document
from toolbus.config.hosts.translate import HOSTS, HostConfig, by_alias, host_of
from toolbus.config.location import Location, is_list, is_mapping
from toolbus.core.values.records import JSON

FILE = "file"
"""The `host` of a file that the user named: any dialect."""


def host_config(document: Mapping[JSON, JSON], *, host: str, folder: Path, location: Location) -> HostConfig:
    """The servers in the document; ConfigError if a named file has none, a host's own file may be empty."""
    own = host_of(document) if host == FILE else host
    if own in HOSTS:
        return HOSTS[own](document, location)
    project = _project_settings(document, folder)
    if is_mapping(local := project.get("mcpServers")):
        of_user = document.get("mcpServers")
        document = {**document, "mcpServers": {**(of_user if is_mapping(of_user) else {}), **local}}
    if host != FILE and not has_container(document):
        return HostConfig()
    holders = [(holder, holder[path[-1]]) for path, holder in containers(document)]
    entries = holders[0][1] if len(holders) == 1 else None
    if not (is_mapping(entries) or is_list(entries)):
        # The document is one server, or `container` raises the error.
        return HostConfig(entries=dict(container(document, location).entries))
    settings = without_foreign(settings_in(document, holders[0][0]))
    notes: list[str] = []
    aliased = by_alias(entries, notes)
    disabled = _disabled(document, project, host, aliased)
    defaults = _defaults(holders[0][0].get("inputs"))
    return HostConfig(entries=aliased, settings=settings, disabled=disabled, notes=notes, defaults=defaults)


def disabled_by(path: Path, folder: Path) -> frozenset[str]:
    """The servers of a project's `.mcp.json` that another file of Claude Code disables.

    The user refused or disabled them. Servers that the user was never asked about count as enabled.
    """
    document = read_document(path)
    levels = (document, _project_settings(document, folder))
    lists = [level.get(key) for level in levels for key in ("disabledMcpjsonServers", "disabledMcpServers")]
    return frozenset(name for names in lists if is_list(names) for name in names if isinstance(name, str))


def _project_settings(document: Mapping[JSON, JSON], folder: Path) -> Mapping[str, JSON]:
    """Claude Code's settings for the project in this folder."""
    projects = document.get("projects")
    if not is_mapping(projects):
        return {}
    # On Windows both kinds of slash occur; on macOS /tmp is a link to /private/tmp.
    here = {folder.absolute().as_posix(), folder.resolve().as_posix()}
    found: dict[str, JSON] = {}
    for path, project in projects.items():
        if is_mapping(project) and str(path).replace("\\", "/").rstrip("/") in here:
            found |= {str(key): value for key, value in project.items()}
    return found


def _disabled(
    document: Mapping[JSON, JSON], project: Mapping[str, JSON], host: str, entries: Mapping[str, JSON]
) -> frozenset[str]:
    """The servers that their host disables in a list."""
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
    """The default of each VS Code input; passwords have none."""
    found: dict[str, str] = {}
    for one in inputs if is_list(inputs) else ():
        if is_mapping(one) and not one.get("password") and isinstance(default := one.get("default"), str):
            found[str(one.get("id"))] = default
    return found
