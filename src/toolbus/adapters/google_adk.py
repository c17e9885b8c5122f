"""The tools and prompts of a bus for Google's Agent Development Kit: `LlmAgent(tools=[toolset(bus)])`."""

import re
from collections.abc import Iterator
from typing import Any

from toolbus.adapters.approval import ApprovalRule, NeedsApproval, check_rule, needs_approval
from toolbus.adapters.calls import facts
from toolbus.adapters.declared import declared
from toolbus.adapters.extra import needs
from toolbus.adapters.media import PDF, PICTURES, SOUNDS, attached
from toolbus.adapters.tool_list import Offer, Servers, Source
from toolbus.bus.tool import Tool
from toolbus.core.records import JSON, PromptResult
from toolbus.shape import Dialect, rendered_text

with needs("google-adk"):
    from google.adk.agents.readonly_context import ReadonlyContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.adk.tools.tool_context import ToolContext
    from google.genai.types import (
        Blob,
        Content,
        FunctionDeclaration,
        FunctionResponse,
        FunctionResponseBlob,
        Part,
    )

    from toolbus.adapters import google_genai

_GOOGLE = frozenset({"image/png", "image/jpeg", "image/webp"}) | SOUNDS
_WITHIN = _GOOGLE - SOUNDS | {PDF, "text/plain"}
"""What Gemini takes within a function response, from version 3 on; before, nothing but text."""
_NEWER = re.compile(r"gemini-([3-9]|\d\d)")


def toolset(
    source: Source,
    servers: Servers = None,
    *,
    approve: ApprovalRule[NeedsApproval] = "never",
    dialect: Dialect = "google",
) -> "BusToolset":
    """The tools as they are at every turn; `approve` says which wait until a person confirms them.

    `dialect` is the one of the model's provider, for models that are not Google's. The toolset does not
    close the bus.
    """
    check_rule(approve)
    return BusToolset(
        Offer(source, lambda tool: BusTool(tool, approve, dialect), servers, live=True), dialect
    )


def messages(prompt: PromptResult, *, media: bool = True) -> list[Content]:
    """The messages of a prompt: the last is for a run, those before it for the events of its session.

    Messages that follow each other from one side are one content: of most prompts there is only that one.
    Without `media`, pictures, sound and PDFs are described in words.
    """
    return google_genai.messages(prompt, media=media)


class BusTool(BaseTool):
    """One tool; `custom_metadata` holds its server and annotations."""

    def __init__(
        self, tool: Tool, approve: ApprovalRule[NeedsApproval] = "never", dialect: Dialect = "google"
    ) -> None:
        self._tool = tool
        self._approve: ApprovalRule[NeedsApproval] = approve
        self._types = _GOOGLE if dialect == "google" else PICTURES
        self._declaration = _declaration(tool, dialect)
        said = self._declaration
        super().__init__(
            name=said.name or tool.name, description=said.description or "", custom_metadata=facts(tool)
        )

    def _get_declaration(self) -> FunctionDeclaration:
        return self._declaration.model_copy(deep=True)

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: ToolContext) -> bool:
        """Whether the call waits until a person confirms it."""
        return needs_approval(self._tool.spec, self._approve)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Run it; the context's custom metadata gets what the model is not told, by the id of the call."""
        result = await self._tool.execute(**args)
        about: dict[str, JSON] = tool_context.custom_metadata.setdefault("toolbus", {})
        about[tool_context.function_call_id or self.name] = facts(self._tool, result)
        # The text says where each medium stood, for models that never get to see it.
        answer: dict[str, Any] = {"error" if result.is_error else "result": rendered_text(result)}
        media = [
            Part.from_bytes(data=block.data, mime_type=block.mime_type)
            for block in attached(result, self._types)
        ]
        return {**answer, "media": media} if media else answer

    def _detect_error_in_response(self, response: object) -> str | None:
        """For ADK's traces, which take a call for a success otherwise."""
        return "TOOL_ERROR" if isinstance(response, dict) and "error" in response else None


class BusToolset(BaseToolset):
    """Asked for its tools at every turn, and gives those that the catalog has then."""

    def __init__(self, offer: Offer[BusTool], dialect: Dialect = "google") -> None:
        super().__init__()
        # ADK's default is to ask once for each run.
        self._use_invocation_cache = False
        self._offer = offer
        self._google = dialect == "google"

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The tools that there are now."""
        self._offer.refresh()
        return list(self._offer)

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """Put the media of results where the model of this request takes them."""
        if self._google:
            within = _WITHIN if _NEWER.search(llm_request.model or "") else frozenset[str]()
            llm_request.contents = [
                placed for content in llm_request.contents for placed in _placed(content, within)
            ]


def _declaration(tool: Tool, dialect: Dialect) -> FunctionDeclaration:
    if dialect == "google":
        return FunctionDeclaration.model_validate(tool.definition("google"))
    said = declared(tool, dialect)
    return FunctionDeclaration(
        name=said.name, description=said.description, parameters_json_schema=said.parameters
    )


def _placed(content: Content, within: frozenset[str]) -> Iterator[Content]:
    """The content, and after it, as a user's, the media that the model refuses within a function response."""
    parts: list[Part] = []
    beside: list[Part] = []
    for part in content.parts or []:
        answer = part.function_response
        moved = [blob for blob in _blobs(answer) if blob.mime_type not in within]
        if answer is not None and moved:
            kept = [each for each in answer.parts or [] if each.inline_data not in moved]
            answer = answer.model_copy(update={"parts": kept or None})
            part = part.model_copy(update={"function_response": answer})
            beside.append(Part(text=f"From the result of {answer.name}:"))
            beside += [Part(inline_data=Blob(data=blob.data, mime_type=blob.mime_type)) for blob in moved]
        parts.append(part)
    yield content.model_copy(update={"parts": parts}) if beside else content
    if beside:
        yield Content(role="user", parts=beside)


def _blobs(answer: FunctionResponse | None) -> list[FunctionResponseBlob]:
    parts = (answer and answer.parts) or []
    return [part.inline_data for part in parts if part.inline_data is not None]
