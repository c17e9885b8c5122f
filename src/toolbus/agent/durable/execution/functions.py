"""Calls of the user's own functions, as records of a journal."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ToolReturn
from pydantic_core import to_jsonable_python

from toolbus.agent.durable.execution.codec import read_result, result_json
from toolbus.core.values.records import ToolResult

_TOOL_RETURN: TypeAdapter[ToolReturn[Any]] = TypeAdapter(ToolReturn[Any])


async def called(work: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
    """Call a function; what it returned or raised, as a record."""
    try:
        value = await work()
    except ModelRetry as error:
        return {"retry": error.message}
    except ToolFailed as error:
        return {"failed": error.message}
    except Exception as error:  # from the user's function: the model can act on it, the run continues
        return {"failed": f"{type(error).__name__}: {error}"}
    if isinstance(value, ToolResult):
        return {"result": result_json(value)}
    if isinstance(value, ToolReturn):
        given = cast("ToolReturn[Any]", value)
        return {"tool_return": _TOOL_RETURN.dump_python(given, mode="json", fallback=str)}
    return {"value": to_jsonable_python(value, fallback=str)}


def returned(record: dict[str, Any]) -> Any:
    """What a record stands for; raises what the function raised, for the model to read."""
    if "retry" in record:
        raise ModelRetry(record["retry"])
    if (text := record.get("failed", record.get("unknown", record.get("error")))) is not None:
        raise ToolFailed(text)
    if "result" in record:
        return read_result(record["result"])
    if "tool_return" in record:
        return _TOOL_RETURN.validate_python(record["tool_return"])
    return record["value"]
