"""Short ways to write policies and targets."""

from typing import Any

from toolbus.config.location import Location
from toolbus.config.settings.policy import PolicyRule, read_policy
from toolbus.core.values.records import Origin, ToolSpec
from toolbus.policy.rules import Policy, Target

ETC = {"properties": {"path": {"type": "string", "pattern": "^/etc"}}, "required": ["path"]}


def policy(*rules: dict[str, Any]) -> Policy:
    return Policy(read_policy(list(rules), Location()))


def rule(**fields: Any) -> PolicyRule:
    return PolicyRule(**fields)


def tool(origin: str, *, trusted: bool = False, **annotations: Any) -> Target:
    """A tool by `server/name`, with hints such as `readOnlyHint=True`."""
    server, _, name = origin.partition("/")
    return tool_of(server, name, trusted=trusted, **annotations)


def tool_of(server: str, name: str, *, trusted: bool = False, **annotations: Any) -> Target:
    spec = ToolSpec(name=name, origin=Origin(server, name), annotations=annotations, trusted=trusted)
    return Target(kind="tool", server=server, name=name, spec=spec)


def resource(origin: str) -> Target:
    server, _, uri = origin.partition("/")
    return Target(kind="resource", server=server, name=uri)


def prompt(origin: str) -> Target:
    server, _, name = origin.partition("/")
    return Target(kind="prompt", server=server, name=name)


def request(origin: str) -> Target:
    server, _, name = origin.partition("/")
    return Target(kind="request", server=server, name=name)
