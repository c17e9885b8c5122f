"""The agent: a model, tools, and a conversation that goes on."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import AgentRetries, AgentRunResultEvent
from pydantic_ai.agent import AgentRunEvents
from pydantic_ai.exceptions import AgentRunError, FallbackExceptionGroup, UsageLimitExceeded, UserError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits

from toolbus.adapters.approval import ApprovalRule, Approver, check_rule
from toolbus.agent.conversation import Conversation, File, Outgoing
from toolbus.agent.event_mapper import EventMapper
from toolbus.agent.limits import LimitReached, Limits, reached
from toolbus.agent.models import failed, model_of
from toolbus.agent.run import Run, RunResult
from toolbus.agent.tools import TRIES, AgentTool, Toolbox
from toolbus.bus.context import ContextProvider
from toolbus.bus.toolbus import Source, Toolbus
from toolbus.core.errors import BusClosed, ServerNotFound
from toolbus.core.interactions import NOBODY, Interactions

T = TypeVar("T")
# A call of a tool that is not there costs a try; what bounds a run are its limits.
RETRIES: AgentRetries = {"tools": TRIES, "output": 3}


class Agent:
    """Runs a model with tools, and remembers what was said.

    `tools` are functions, `Tool`s, or a whole bus; `mcp_servers` is a config whose servers belong to the
    agent: connected when its first run starts, closed with it.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        tools: Iterable[AgentTool] = (),
        mcp_servers: Source | None = None,
        instructions: str | None = None,
        approve: ApprovalRule[Approver] = "never",
        limits: Limits | None = None,
        server_instructions: bool = True,
        settings: ModelSettings | None = None,
        interactions: Interactions | None = None,
    ) -> None:
        """Connects nothing yet; `ModelFailed`, `ConfigError` or `NameClash` if it could never work.

        `interactions` answer what its own servers ask; a bus of yours has its own.
        """
        check_rule(approve)
        if interactions is not None and mcp_servers is None:
            raise ValueError(
                "interactions apply only to mcp_servers; pass them to your bus: Toolbus(interactions=...)"
            )
        self.model = model_of(model)
        self._made_model = isinstance(model, str)
        self._bus = None
        if mcp_servers is not None:
            self._bus = Toolbus(mcp_servers, interactions=interactions or NOBODY)
        self._toolbox = Toolbox(tools, self._bus)
        self._approve: ApprovalRule[Approver] = approve
        self._limits = limits or Limits()
        self._server_instructions = server_instructions
        self._agent = PydanticAgent(
            self.model, instructions=instructions, model_settings=settings, retries=RETRIES
        )
        self._contexts = [ContextProvider(bus) for bus in self._toolbox.known]
        self._conversation = Conversation()
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runs: set[Run[Any]] = set()
        self._closed = False

    # Runs

    @overload
    def send(self, prompt: str | None = None, *, limits: Limits | None = None) -> Run[str]: ...

    @overload
    def send(self, prompt: str | None = None, *, output: type[T], limits: Limits | None = None) -> Run[T]: ...

    def send(
        self, prompt: str | None = None, *, output: type[Any] = str, limits: Limits | None = None
    ) -> Run[Any]:
        """Say something; runs of one agent follow each other. With `output`, the answer is such an object.

        Without a prompt the agent goes on from what was added: a file, a resource, a prompt of a server.
        """
        if self._closed:
            raise BusClosed("the agent")
        said = self._conversation.outgoing(prompt)
        bounds = limits or self._limits
        run: Run[Any] = Run(self._approve, bounds)
        self._runs.add(run)

        def ended() -> None:
            self._runs.discard(run)
            self._conversation.back(said)

        return run.begin(self._run(run, said, output, bounds), ended)

    async def _run(self, run: Run[Any], said: Outgoing, output: type[Any], limits: Limits) -> RunResult[Any]:
        try:
            async with self._one_at_a_time():
                return await self._in_time(run, said, output, limits)
        except UsageLimitExceeded as error:
            raise reached(str(error), limits) from error
        except (AgentRunError, FallbackExceptionGroup) as error:
            raise failed(self.model, error) from error

    async def _in_time(
        self, run: Run[Any], said: Outgoing, output: type[Any], limits: Limits
    ) -> RunResult[Any]:
        bound = asyncio.timeout(limits.seconds)  # counts from here: the turn of others is not ours
        try:
            async with bound:
                await self._ready()
                return await self._answered(run, said, output, limits, await self._preface())
        except TimeoutError:
            if limits.seconds is None or not bound.expired():
                raise
            raise LimitReached("seconds", limits.seconds) from None

    async def _answered(
        self, run: Run[Any], said: Outgoing, output: type[Any], limits: Limits, preface: str
    ) -> RunResult[Any]:
        tools = self._toolbox.for_run(run)
        events: AgentRunEvents[Any] | None = None
        try:
            async with self._agent.run_stream_events(
                said.message,
                output_type=None if output is str else output,  # its own for text: it need not be made anew
                message_history=self.history,
                instructions=preface or None,
                usage_limits=UsageLimits(
                    request_limit=limits.turns,
                    tool_calls_limit=limits.tool_calls,
                    total_tokens_limit=limits.tokens,
                ),
                toolsets=[tools],
                deps=run,
            ) as events:
                return await self._heard(run, said, EventMapper(tools.servers, tools.report_unknown), events)
        except BaseException:  # a cancellation too
            with suppress(UserError):  # raised where nothing had begun
                if events is not None:
                    self._conversation.broke_off(said, events.all_messages(), events.new_messages())
            raise

    async def _heard(
        self, run: Run[Any], said: Outgoing, hearing: EventMapper, events: AgentRunEvents[Any]
    ) -> RunResult[Any]:
        async for event in events:
            if isinstance(event, AgentRunResultEvent):
                done = event.result
                self._conversation.went(said, done.all_messages())
                return RunResult(
                    output=done.output,
                    messages=done.new_messages(),
                    usage=done.usage,
                    calls=tuple(hearing.calls),
                )
            for heard in hearing.said(event):
                run.emit(heard)
        raise AssertionError("pydantic-ai ended a run without a result")

    def _one_at_a_time(self) -> asyncio.Lock:
        """Held by a run; belongs to the loop of the first that waited for it, so another loop has its own."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._turn = loop, asyncio.Lock()
        return self._turn

    async def _ready(self) -> None:
        if self._bus is not None:
            await self._bus.start()
            if not self._bus.running:
                raise BusClosed("the event loop of the agent's servers has ended; the agent")

    async def _preface(self) -> str:
        """What servers say about themselves, and the context, as it is now.

        The same to the letter as long as nothing changes, for the caches of providers.
        """
        said = self._toolbox.instructions() if self._server_instructions else []
        contexts = await asyncio.gather(*(context.text() for context in self._contexts))
        return "\n\n".join([*said, *filter(None, contexts)])

    # What was said, and what goes along

    @property
    def history(self) -> list[ModelMessage]:
        """The messages so far, in pydantic-ai's types; assign to it to go on from others."""
        return self._conversation.messages

    @history.setter
    def history(self, messages: list[ModelMessage]) -> None:
        self._conversation.messages = list(messages)

    def save(self, path: str | Path) -> None:
        """Write the messages to a file, as JSON."""
        Path(path).write_bytes(self._conversation.saved())

    def load(self, path: str | Path) -> None:
        """Go on from a saved conversation; ValueError if the file holds none."""
        self._conversation.load(Path(path).read_bytes())

    def clear(self) -> None:
        """Forget what was said, and what was to go along with the next message."""
        self._conversation = Conversation()

    def add_file(self, file: File, *, name: str | None = None, mime_type: str | None = None) -> None:
        """Let a file go along with the next message: a path, bytes, or what `read_resource` returned."""
        self._conversation.add_file(file, name, mime_type)

    async def add_resource(self, server: str, uri: str) -> None:
        """Let a resource of a server go along with the next message."""
        bus = await self._bus_of(server)
        self._conversation.add(await bus.read_resource(server, uri))

    async def use_prompt(self, server: str, name: str, arguments: Mapping[str, str] | None = None) -> None:
        """Take over a prompt of a server; what it lets the user say goes along with the next message."""
        bus = await self._bus_of(server)
        prompt = await bus.get_prompt(server, name, arguments)
        async with self._one_at_a_time():  # a run puts its own messages in place when it ends
            self._conversation.use(prompt.messages)

    async def _bus_of(self, server: str) -> Toolbus:
        await self._ready()
        for bus in self._toolbox.known:
            if server in bus.servers:
                return bus
        raise ServerNotFound(server, [alias for bus in self._toolbox.known for alias in bus.servers])

    # Lifetime

    async def close(self) -> None:
        """Stop what runs, and close what belongs to the agent: servers, and the client of a model that you
        gave by name. Any number of times.
        """
        self._closed = True
        async with AsyncExitStack() as closing:  # the next also when one fails
            if self._made_model:
                # Not entered while runs are under way, so that one may go on in the next event loop.
                await closing.enter_async_context(self.model)
            if self._bus is not None:
                closing.push_async_callback(self._bus.stop)
            for context in self._contexts:
                closing.push_async_callback(context.close)
            for run in tuple(self._runs):
                run.cancel()
                closing.push_async_callback(run.stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
