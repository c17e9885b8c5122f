"""Pictures in the results of tools, where OpenAI's Chat Completions takes them.

Its messages of a tool hold only text, and LangChain sends it pictures there all the same. They are moved into
a message of the user, which its Responses take as well. Other providers take them in the result.
"""

from typing import Any

from toolbus.adapters.extra import needs

with needs("langchain"):
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

Blocks = list[str | dict[Any, Any]]


def with_pictures_beside(model: BaseChatModel, messages: list[AnyMessage]) -> list[AnyMessage]:
    """The messages as the model's provider takes them."""
    if "openai" not in model._llm_type or getattr(model, "use_responses_api", None) is True:  # pyright: ignore[reportPrivateUsage]  the only name of its kind
        return messages
    moved: list[AnyMessage] = []
    waiting: Blocks = []
    for message in messages:
        if waiting and not isinstance(message, ToolMessage):
            moved.append(HumanMessage(waiting))
            waiting = []
        if isinstance(message, ToolMessage) and (pictures := [*filter(_is_picture, message.content)]):
            waiting += [f"From the result of {message.name} ({message.tool_call_id}):", *pictures]
            message = message.model_copy(update={"content": [*map(_in_words, message.content)]})
        moved.append(message)
    return [*moved, HumanMessage(waiting)] if waiting else moved


def _is_picture(block: str | dict[Any, Any]) -> bool:
    return isinstance(block, dict) and block.get("type") == "image"


def _in_words(block: str | dict[Any, Any]) -> str | dict[Any, Any]:
    if not isinstance(block, dict) or not _is_picture(block):
        return block
    return {"type": "text", "text": f"[image: {block.get('mime_type')}, in the next message]"}
