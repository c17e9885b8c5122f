"""Move images of tool results to where OpenAI's Chat Completions API accepts them.

Its tool messages hold only text, yet LangChain puts images there. They are moved into a user message, which
the Responses API accepts as well. Other providers accept them in the result.
"""

from typing import Any

from toolbus.adapters.extra import require_extra

with require_extra("langchain"):
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

Blocks = list[str | dict[Any, Any]]


def with_images_moved(model: BaseChatModel, messages: list[AnyMessage]) -> list[AnyMessage]:
    """The messages as the model's provider accepts them."""
    if "openai" not in model._llm_type or getattr(model, "use_responses_api", None) is True:  # pyright: ignore[reportPrivateUsage]  the only name of its kind
        return messages
    moved: list[AnyMessage] = []
    pending: Blocks = []
    for message in messages:
        if pending and not isinstance(message, ToolMessage):
            moved.append(HumanMessage(pending))
            pending = []
        if isinstance(message, ToolMessage) and (images := [*filter(_is_image, message.content)]):
            pending += [_text(f"From the result of {message.name} ({message.tool_call_id}):"), *images]
            message = message.model_copy(update={"content": [*map(_described, message.content)]})
        moved.append(message)
    return [*moved, HumanMessage(pending)] if pending else moved


def _is_image(block: str | dict[Any, Any]) -> bool:
    return isinstance(block, dict) and block.get("type") == "image"


def _described(block: str | dict[Any, Any]) -> str | dict[Any, Any]:
    if not isinstance(block, dict) or not _is_image(block):
        return block
    return _text(f"[image: {block.get('mime_type')}, in the next message]")


def _text(text: str) -> dict[Any, Any]:
    """A part of content; LangChain passes a bare string on, which OpenAI rejects."""
    return {"type": "text", "text": text}
