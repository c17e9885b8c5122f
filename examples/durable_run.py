"""A run that survives its process: run this program twice. It needs no API key.

The first time, the process ends in the middle of a payment. The second time, the same run continues. The
order is not placed again, and the model is told that nobody knows whether the payment was made.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolbus.agent import Agent, ToolCalled, ToolReturned
from toolbus.agent.durable import repeatable

payments = Path("payments.txt")


def order(item: str) -> str:
    """Place an order."""
    return f"ordered {item}"


def pay(amount: int) -> str:
    """Pay for the order."""
    with payments.open("a") as file:
        file.write(f"{amount}\n")
    os._exit(1)  # the payment is made, and the process ends before anybody knows


@repeatable
def list_payments() -> str:
    """The payments so far; reading them twice does no harm."""
    return payments.read_text()


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that orders, pays and checks the payments if it has to."""
    done = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("order", {"item": "tea"}),
        ("pay", {"amount": 20}),
        ("list_payments", {}),
    ]
    if len(done) < len(calls):
        name, arguments = calls[len(done)]
        return ModelResponse([ToolCallPart(name, arguments, tool_call_id=f"call_{len(done)}")])
    return ModelResponse([TextPart(f"Tea is ordered and paid: {done[-1].content}")])


async def main() -> None:
    """Start the run, or join it."""
    tools = [order, pay, list_payments]
    async with Agent(FunctionModel(answer), tools=tools, durable="orders.db") as agent:
        run = agent.start("Order tea for 20, and pay.", key="order-17")
        async for event in run:
            match event:
                case ToolCalled():
                    print(f"> {event.name}", flush=True)
                case ToolReturned():
                    print(f"< {event.text.strip()}", flush=True)
                case _:
                    pass
        print((await run.final).strip())


asyncio.run(main())
