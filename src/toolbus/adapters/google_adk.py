"""Tools and prompts for Google's Agent Development Kit: `LlmAgent(tools=[toolset(bus)])`."""

from collections.abc import Iterator
from typing import Any

from toolbus.adapters.approval import (
    ApprovalRule,
    AskedCalls,
    NeedsApproval,
    approval_of,
    check_rule,
    needs_approval,
)
from toolbus.adapters.media import IMAGE_TYPES, attachments
from toolbus.adapters.options import require_extra
from toolbus.adapters.tool_calls import definition_of, tool_metadata
from toolbus.adapters.tool_list import Servers, ToolList, ToolSource, shown
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.values.records import JSON, PromptResult
from toolbus.shape import Dialect, rendered_text

with require_extra("google-adk"):
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

__all__ = ["messages", "toolset"]

FACE = "google-adk"
_ASKED = AskedCalls()
# Gemini also accepts plain text in a function response.
_RESPONSE_TYPES = google_genai.RESPONSE_TYPES | {"text/plain"}


def toolset(
    source: ToolSource,
    servers: Servers = None,
    *,
    approve: ApprovalRule[NeedsApproval] = "never",
    dialect: Dialect = "google",
    expose: ExposeMode | None = None,
    always: Names = None,
) -> "BusToolset":
    """A toolset that updates its tools every turn.

    The policy of the bus decides which calls need confirmation; `approve` may add more. For models other than
    Google's, set `dialect` to the model's provider. The toolset does not close the bus.
    """
    check_rule(approve)
    return BusToolset(
        ToolList(
            shown(source, expose, always),
            lambda tool: BusTool(tool, approve, dialect),
            servers,
            face=FACE,
            live=True,
        ),
        dialect,
    )


def messages(prompt: PromptResult, *, media: bool = True) -> list[Content]:
    """The messages of a prompt: pass the last one to a run, and add the others to its session as events.

    Consecutive messages of the same role are merged, so most prompts become a single content. Without
    `media`, images, audio and PDFs are described in text.
    """
    return google_genai.messages(prompt, media=media)


class BusTool(BaseTool):
    """One tool; `custom_metadata` holds its server and annotations."""

    def __init__(
        self, tool: Tool, approve: ApprovalRule[NeedsApproval] = "never", dialect: Dialect = "google"
    ) -> None:
        self._tool = tool
        self._approve: ApprovalRule[NeedsApproval] = approve
        self._types = google_genai.GOOGLE_MEDIA_TYPES if dialect == "google" else IMAGE_TYPES
        self._declaration = _declaration(tool, dialect)
        super().__init__(
            name=self._declaration.name or tool.name,
            description=self._declaration.description or "",
            custom_metadata=tool_metadata(tool),
        )

    def _get_declaration(self) -> FunctionDeclaration:
        return self._declaration.model_copy(deep=True)

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: ToolContext) -> bool:
        """Whether the call needs confirmation: by the policy of the bus, or by `approve`."""
        question = _ASKED.ask(tool_context.function_call_id, self._tool, args, again=True)
        return question is not None or needs_approval(self._tool, self._approve, args)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Run the tool; the context's custom metadata gets what the model does not see, by call id."""
        confirmation = tool_context.tool_confirmation
        is_confirmed = confirmation is not None and confirmation.confirmed
        asked = _ASKED.find(tool_context.function_call_id, self._tool)
        approval = approval_of(self._tool, args, FACE if is_confirmed else None, asked=asked)
        result = await self._tool.run(args, approval=approval)
        metadata: dict[str, JSON] = tool_context.custom_metadata.setdefault("toolbus", {})
        metadata[tool_context.function_call_id or self.name] = tool_metadata(self._tool, result)
        # The text marks where each file was, for models that do not get the files.
        response: dict[str, Any] = {"error" if result.is_error else "result": rendered_text(result)}
        media = [
            Part.from_bytes(data=block.data, mime_type=block.mime_type)
            for block in attachments(result, self._types)
        ]
        return {**response, "media": media} if media else response

    def _detect_error_in_response(self, response: object) -> str | None:
        """For ADK's traces, which would record a success otherwise."""
        return "TOOL_ERROR" if isinstance(response, dict) and "error" in response else None


class BusToolset(BaseToolset):
    """Returns the tools of the catalog at every turn."""

    def __init__(self, tools: ToolList[BusTool], dialect: Dialect = "google") -> None:
        super().__init__()
        # By default ADK gets the tools once per run.
        self._use_invocation_cache = False
        self._tools = tools
        self._is_google = dialect == "google"

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The current tools."""
        self._tools.refresh()
        return list(self._tools)

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """Move the files of results to where the model of this request accepts them."""
        if self._is_google:
            accepts = google_genai.ACCEPTS_FILES_IN_RESPONSES.search(llm_request.model or "")
            allowed = _RESPONSE_TYPES if accepts else frozenset[str]()
            llm_request.contents = [
                moved for content in llm_request.contents for moved in _with_files_moved(content, allowed)
            ]


def _declaration(tool: Tool, dialect: Dialect) -> FunctionDeclaration:
    if dialect == "google":
        return FunctionDeclaration.model_validate(tool.definition("google"))
    definition = definition_of(tool, dialect)
    return FunctionDeclaration(
        name=definition.name,
        description=definition.description,
        parameters_json_schema=definition.parameters,
    )


def _with_files_moved(content: Content, allowed: frozenset[str]) -> Iterator[Content]:
    """The content, then a user content with the files that the model rejects in a function response."""
    parts: list[Part] = []
    following: list[Part] = []
    for part in content.parts or []:
        response = part.function_response
        moved = [blob for blob in _blobs(response) if blob.mime_type not in allowed]
        if response is not None and moved:
            kept = [each for each in response.parts or [] if each.inline_data not in moved]
            response = response.model_copy(update={"parts": kept or None})
            part = part.model_copy(update={"function_response": response})
            following.append(Part(text=f"From the result of {response.name}:"))
            following += [Part(inline_data=Blob(data=blob.data, mime_type=blob.mime_type)) for blob in moved]
        parts.append(part)
    yield content.model_copy(update={"parts": parts}) if following else content
    if following:
        yield Content(role="user", parts=following)


def _blobs(response: FunctionResponse | None) -> list[FunctionResponseBlob]:
    parts = (response and response.parts) or []
    return [part.inline_data for part in parts if part.inline_data is not None]
