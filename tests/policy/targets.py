"""Short ways to write policies and targets."""

from typing import Any

from tests.inside.config import PolicyRule, setting
from tests.inside.core import Origin, ToolSpec
from tests.inside.policy import Policy, PolicyTarget

ETC = {"properties": {"path": {"type": "string", "pattern": "^/etc"}}, "required": ["path"]}


def policy(*rules: dict[str, Any]) -> Policy:
    return Policy(setting("policy", list(rules)))


def rule(**fields: Any) -> PolicyRule:
    return PolicyRule(**fields)


def tool(origin: str, *, trusted: bool = False, **annotations: Any) -> PolicyTarget:
    """A tool by `server/name`, with hints such as `readOnlyHint=True`."""
    server, _, name = origin.partition("/")
    return tool_of(server, name, trusted=trusted, **annotations)


def tool_of(server: str, name: str, *, trusted: bool = False, **annotations: Any) -> PolicyTarget:
    spec = ToolSpec(name=name, origin=Origin(server, name), annotations=annotations, trusted=trusted)
    return PolicyTarget(kind="tool", server=server, name=name, spec=spec)


def resource(origin: str) -> PolicyTarget:
    server, _, uri = origin.partition("/")
    return PolicyTarget(kind="resource", server=server, name=uri)


def prompt(origin: str) -> PolicyTarget:
    server, _, name = origin.partition("/")
    return PolicyTarget(kind="prompt", server=server, name=name)


def request(origin: str) -> PolicyTarget:
    server, _, name = origin.partition("/")
    return PolicyTarget(kind="request", server=server, name=name)
