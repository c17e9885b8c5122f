"""The client that the MCP conformance suite examines: a bus, used the way anyone would use it.

The suite runs this with the URL of one of its servers as the last argument. Every tool is called, every
resource read, every prompt asked for, and what the server asks is accepted. Where it asks for a token, it is
signed in to as the context of the scenario says. Prints at the end its exit code, which is 1 if a call
failed: some scenarios do not look whether the answer arrives.
"""

import asyncio
import fcntl
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from http.client import HTTPMessage
from pathlib import Path
from typing import Any

from toolbus import Answer, Elicitation, Interactions, Tool, Toolbus, ToolbusError
from toolbus.records import LoginRequest, Sampling

PATIENCE = 50.0
"""Seconds for all of it."""
VALUES: dict[str, Any] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": []}
DEFINITION = "#/$defs/"
EXCHANGE = Path(__file__).with_name("exchange.py")
Calls = list[tuple[str, dict[str, Any]]]


def made_up(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """A value that fits, as far as the schemas of the suite go; no property is left out."""
    match schema:
        case {"$ref": str(ref)} if ref.startswith(DEFINITION):
            return made_up(root["$defs"][ref.removeprefix(DEFINITION)], root)
        case {"enum": [first, *_]}:
            return first
        case {"type": str(kind)} if kind in VALUES:
            return VALUES[kind]
        case _:
            properties: dict[str, Any] = schema.get("properties", {})
            return {name: made_up(value, root) for name, value in properties.items()}


def every_tool(tools: dict[str, Tool], context: dict[str, Any]) -> Calls:
    """Every tool, with made-up arguments."""
    return [(name, made_up(tool.parameters, tool.parameters)) for name, tool in tools.items()]


def as_told(tools: dict[str, Tool], context: dict[str, Any]) -> Calls:
    """The calls that the suite prescribes."""
    return [(call["name"], call["arguments"]) for call in context["toolCalls"]]


def schema_sent_back(tools: dict[str, Tool], context: dict[str, Any]) -> Calls:
    """A schema as it arrived here, for the server to compare."""
    return [("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].parameters})]


SPECIAL: dict[str, Callable[[dict[str, Tool], dict[str, Any]], Calls]] = {
    "http-custom-headers": as_told,
    "json-schema-2020-12-preservation": schema_sent_back,
}
# The server of this one lists a tool and has no tools/call. It is called all the same, because that is
# when its arguments are checked, and a reference in its schema might be followed.
REFUSED = frozenset({"json-schema-ref-no-deref"})
# Skills are only listed: nothing may be read before a skill is loaded.
UNLOADED = frozenset({"sep-2640-client-no-prefetch"})


def accepted(elicitation: Elicitation) -> Answer:
    """A yes that fills in nothing: the defaults of the form are the bus's to add."""
    return elicitation.accept()


def unwritten(sampling: Sampling) -> None:
    """No model here: a no."""


# Secrets are references, which `get_secret` looks up in the context of the scenario.
AUTH: dict[str, dict[str, str]] = {
    "auth/basic-cimd": {
        "type": "oauth",
        "client_metadata": "https://conformance-test.local/client-metadata.json",
    },
    "auth/pre-registration": {
        "type": "oauth",
        "client_id": "${client_id}",
        "client_secret": "${client_secret}",
        "issuer": "${issuer}",
    },
    "auth/client-credentials-basic": {
        "type": "client_credentials",
        "client_id": "${client_id}",
        "client_secret": "${client_secret}",
    },
    "auth/client-credentials-jwt": {
        "type": "client_credentials",
        "client_id": "${client_id}",
        "key": "${private_key_pem}",
    },
    "auth/enterprise-managed-authorization": {
        "type": "identity_assertion",
        "client_id": "${client_id}",
        "client_secret": "${client_secret}",
        "assertion": f"${{cmd:{sys.executable} {EXCHANGE} {{issuer}} {{resource}}}}",
    },
    "auth/wif-jwt-bearer": {"type": "workload", "client_id": "${client_id}", "token": "${valid_jwt}"},
}


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


async def sign_in(request: LoginRequest) -> str | None:
    """Nobody has to type anything: the sign-in page sends us back at once."""

    def visit() -> str | None:
        try:
            urllib.request.build_opener(_Stay).open(request.url, timeout=PATIENCE)
        except urllib.error.HTTPError as answer:
            return answer.headers["location"]
        return None

    return await asyncio.to_thread(visit)


async def use(bus: Toolbus, scenario: str, context: dict[str, Any]) -> bool:
    """Use all that the server offers; whether every call went well."""
    tools = {tool.origin.tool: tool for tool in bus.tools()}
    calls = SPECIAL.get(scenario, every_tool)(tools, context)
    # All at once, so that what belongs to one call could get into another.
    results = await asyncio.gather(*(tools[name].run(arguments) for name, arguments in calls))
    for (name, _), result in zip(calls, results, strict=True):
        print(f"{name}: {'failed: ' if result.is_error else ''}{result.text}")
    rest: list[Awaitable[object]] = [bus.read_resource(item.server, item.uri) for item in bus.resources()]
    rest += [bus.get_prompt(item.server, item.name) for item in bus.prompts()]
    await asyncio.gather(*rest)
    for skill in () if scenario in UNLOADED else bus.skills():
        await bus.load_skill(skill.server, skill.uri)
        for path in skill.paths:
            print(f"{path}: {(await bus.read_skill_file(skill, path)).text}")
    return scenario in REFUSED or not any(result.is_error for result in results)


async def used(
    config: dict[str, Any], interactions: Interactions, scenario: str, context: dict[str, Any]
) -> bool:
    """Use a server; whether every call went well."""
    async with Toolbus(config, interactions=interactions, get_secret=context.get) as bus:
        print(bus.servers["suite"])
        return await use(bus, scenario, context)


async def main() -> int:
    """Connect to the URL and use everything there; 0 on success."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    server: dict[str, Any] = {"url": sys.argv[-1], "required": True}
    if scenario.startswith("auth/"):
        server["auth"] = AUTH.get(scenario, "oauth")
    config = {"servers": {"suite": server}, "tokens": "memory"}
    interactions = Interactions(elicit=accepted, sample=unwritten, login=sign_in, roots=["."])
    try:
        async with asyncio.timeout(PATIENCE):
            return 0 if await used(config, interactions, scenario, context) else 1
    except ToolbusError as error:
        print(error)
        return 1


@contextmanager
def turn(file: str) -> Generator[None]:
    """Wait for our turn, and keep it."""
    fcntl.flock(os.open(file, os.O_RDONLY), fcntl.LOCK_EX)  # until we end
    yield


def end(code: int) -> None:
    print(f"exit code: {code}")
    sys.exit(code)


if __name__ == "__main__":
    with turn(os.environ["CONFORMANCE_TURN"]):
        end(asyncio.run(main()))
