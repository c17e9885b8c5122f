"""Resources, prompts and the completion of their arguments."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol, cast

from toolbus.core.values.records import (
    JSON,
    Completion,
    Embedded,
    Inventory,
    Prompt,
    PromptMessage,
    PromptResult,
    Resource,
    ResourceTemplate,
    Text,
    ToolResult,
)
from toolbus.core.values.skills import READ_SKILL, LoadedSkill, Skill, body_of, file_uri
from toolbus.core.values.uri_templates import Values, expanded


class RequestRunner(Protocol):
    """Runs an operation other than a tool call; raises if it fails."""

    def __call__(
        self, route: str, server: str, name: str, arguments: Mapping[str, JSON], /
    ) -> Awaitable[ToolResult]: ...


class Resources:
    """The resources and prompts of some servers."""

    def __init__(self, request: RequestRunner, inventories: Callable[[str | None], list[Inventory]]) -> None:
        """`inventories` returns those of one server, or of all."""
        self._request = request
        self._inventories = inventories

    def resources(self, server: str | None) -> list[Resource]:
        return [item for inventory in self._inventories(server) for item in inventory.resources]

    def templates(self, server: str | None) -> list[ResourceTemplate]:
        return [item for inventory in self._inventories(server) for item in inventory.templates]

    def prompts(self, server: str | None) -> list[Prompt]:
        return [item for inventory in self._inventories(server) for item in inventory.prompts]

    def skills(self, server: str | None) -> list[Skill]:
        return [item for inventory in self._inventories(server) for item in inventory.skills]

    async def load_skill(self, server: str, uri: str) -> LoadedSkill:
        result = await self._request(READ_SKILL, server, uri, {"uri": uri})
        skill, text = cast("Skill", result.value), _text_of(result)
        return LoadedSkill(skill=skill, text=text, instructions=body_of(text))

    async def read_skill_file(self, skill: Skill, path: str) -> Embedded:
        asked = {"uri": skill.uri, "file": path, "digest": skill.digest}
        result = await self._request(READ_SKILL, skill.server, skill.uri, asked)
        found = next((block for block in result.content if isinstance(block, Embedded)), None)
        # As below; a hook may have replaced the block.
        return found or Embedded(uri=file_uri(skill.uri, path), text=result.text)

    async def read(self, server: str, uri: str, variables: Values | None) -> tuple[Embedded, ...]:
        if variables is None and any(
            item.server == server and item.uri_template == uri for item in self.templates(None)
        ):
            variables = {}  # otherwise the server would take the braces as a value
        uri = uri if variables is None else expanded(uri, variables)
        result = await self._request("resources/read", server, uri, {"uri": uri})
        # A hook may have replaced the blocks.
        texts = (block for block in result.content if isinstance(block, Embedded | Text))
        return tuple(b if isinstance(b, Embedded) else Embedded(uri=uri, text=b.text) for b in texts)

    async def get_prompt(self, server: str, name: str, arguments: Mapping[str, str] | None) -> PromptResult:
        result = await self._request("prompts/get", server, name, dict(arguments or {}))
        prompt = result.value if isinstance(result.value, PromptResult) else PromptResult(messages=())
        # As above; the roles stay if the number of messages does.
        keeps_roles = len(prompt.messages) == len(result.content)
        messages = tuple(
            PromptMessage(role=prompt.messages[n].role if keeps_roles else "user", content=block)
            for n, block in enumerate(result.content)
        )
        return replace(prompt, messages=messages)

    async def complete(
        self, server: str, name: str, argument: str, value: str, known: Mapping[str, str] | None
    ) -> Completion:
        is_template = any(template.uri_template == name for template in self.templates(server))
        asked = {"argument": argument, "value": value, "known": dict(known or {}), "is_template": is_template}
        result = await self._request("completion/complete", server, name, asked)
        return result.value if isinstance(result.value, Completion) else Completion()


def _text_of(result: ToolResult) -> str:
    """The text of all blocks: the server's, or what a hook has made of it."""
    blocks = (block for block in result.content if isinstance(block, Embedded | Text))
    return "\n".join(block.text or "" for block in blocks)
