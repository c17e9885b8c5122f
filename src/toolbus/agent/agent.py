"""The agent: a model, tools, and a conversation; and answers to single prompts."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import AgentRetries, AgentRunResultEvent
from pydantic_ai.agent import AgentRunEvents
from pydantic_ai.exceptions import AgentRunError, FallbackExceptionGroup, UsageLimitExceeded, UserError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from toolbus.adapters.approval import ApprovalRule, Approver, check_rule
from toolbus.agent.conversation import Conversation, File, UserMessage
from toolbus.agent.events import TextDelta, ToolCalled
from toolbus.agent.models import model_error, model_of
from toolbus.agent.run import EventMapper, LimitReached, Limits, Run, RunResult, limit_error, usage_limits
from toolbus.agent.tools import MAX_RETRIES, AgentTool, Toolbox, tool_search
from toolbus.bus.context import ContextProvider
from toolbus.bus.rules.scope import Names
from toolbus.bus.toolbus import ConfigSource, Toolbus
from toolbus.bus.view import View
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.ask.interactions import NO_HANDLERS, Interactions
from toolbus.core.values.errors import BusClosed, ServerNotFound

if TYPE_CHECKING:
    from toolbus.agent.durable import Durable, DurableRun, Runs
    from toolbus.agent.durable.agent_runs import AgentRuns

T = TypeVar("T")
# A call of an unknown tool uses up a retry; a run is bounded by its limits instead.
RETRIES: AgentRetries = {"tools": MAX_RETRIES, "output": 3}


class Agent:
    """Runs a model with tools, and keeps the conversation.

    `tools` are functions, `Tool`s, or a whole bus. `mcp_servers` is a config whose servers the agent owns: it
    connects them when its first run starts, and closes them with itself.

    ```python
    async with Agent(model, tools=[bus]) as agent:  # such as model = "anthropic:claude-sonnet-5"
        print(await agent.send("Remember to buy tea.").final)  # Noted.
    ```
    """

    def __init__(
        self,
        model: str | Model,
        *,
        tools: Iterable[AgentTool] = (),
        mcp_servers: ConfigSource | None = None,
        instructions: str | None = None,
        approve: ApprovalRule[Approver] = "never",
        limits: Limits | None = None,
        server_instructions: bool = True,
        settings: ModelSettings | None = None,
        interactions: Interactions | None = None,
        expose: ExposeMode | None = None,
        always: Names = None,
        durable: "str | Durable | None" = None,
    ) -> None:
        """Connect to nothing yet; raise `ModelFailed`, `ConfigError` or `NameClash` for wrong settings.

        `durable` is where runs of `start` are kept: the path of a SQLite file, or a `postgresql://` URL.

        `interactions` handle requests of the agent's own servers; your own bus has its own. `expose` and
        `always` say which tools of buses and servers the model is shown.
        """
        check_rule(approve)
        if interactions is not None and mcp_servers is None:
            raise ValueError(
                "interactions apply only to mcp_servers; pass them to your bus: Toolbus(interactions=...)"
            )
        self.model = model_of(model)
        self._owns_model = isinstance(model, str)
        self._bus = None
        if mcp_servers is not None:
            self._bus = Toolbus(mcp_servers, interactions=interactions or NO_HANDLERS)
        self._toolbox = Toolbox(tools, self._bus, expose=expose, always=always)
        self._approve: ApprovalRule[Approver] = approve
        self._limits = limits or Limits()
        self._server_instructions = server_instructions
        self._agent = PydanticAgent(
            self.model, instructions=instructions, model_settings=settings, retries=RETRIES
        )
        self._contexts = [ContextProvider(bus) for bus in self._toolbox.all_buses]
        self._conversation = Conversation()
        self._run_lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runs: set[Run[Any]] = set()
        self._starting: asyncio.Task[None] | None = None
        self._closed = False
        self._durable = None if durable is None else self._durable_runs(durable)

    # Runs

    @overload
    def send(self, prompt: str | None = None, *, limits: Limits | None = None) -> Run[str]: ...

    @overload
    def send(self, prompt: str | None = None, *, output: type[T], limits: Limits | None = None) -> Run[T]: ...

    def send(
        self, prompt: str | None = None, *, output: type[Any] = str, limits: Limits | None = None
    ) -> Run[Any]:
        """Start a run; runs of one agent are sequential. With `output`, the result is an object of that type.

        Without a prompt, the agent continues from what you added: a file, a resource, or a server's prompt.

        ```python
        run = agent.send("Remember to buy tea.")
        print(await run.final)  # Noted.
        print(run.result.usage.requests)  # 2
        ```
        """
        if self._closed:
            raise BusClosed("the agent")
        outgoing = self._conversation.take(prompt)
        limits = limits or self._limits
        run: Run[Any] = Run(self._approve, limits)
        self._runs.add(run)

        def on_end() -> None:
            self._runs.discard(run)
            self._conversation.restore(outgoing)

        return run.start(self._run(run, outgoing, output, limits), on_end)

    async def _run(
        self, run: Run[Any], outgoing: UserMessage, output: type[Any], limits: Limits
    ) -> RunResult[Any]:
        try:
            async with self._current_lock():
                return await self._run_in_time(run, outgoing, output, limits)
        except UsageLimitExceeded as error:
            raise limit_error(str(error), limits) from error
        except (AgentRunError, FallbackExceptionGroup) as error:
            raise model_error(self.model, error) from error

    async def _run_in_time(
        self, run: Run[Any], outgoing: UserMessage, output: type[Any], limits: Limits
    ) -> RunResult[Any]:
        timeout = asyncio.timeout(limits.seconds)  # starts here: waiting for other runs does not count
        try:
            async with timeout:
                await self._start_servers()
                return await self._stream(run, outgoing, output, limits, await self._instructions())
        except TimeoutError:
            if limits.seconds is None or not timeout.expired():
                raise
            raise LimitReached("seconds", limits.seconds) from None

    async def _stream(
        self, run: Run[Any], outgoing: UserMessage, output: type[Any], limits: Limits, instructions: str
    ) -> RunResult[Any]:
        tools = self._toolbox.for_run(run)
        events: AgentRunEvents[Any] | None = None
        try:
            async with self._agent.run_stream_events(
                outgoing.message,
                output_type=None if output is str else output,  # None reuses the agent's own text output
                message_history=self.history,
                instructions=instructions or None,
                usage_limits=usage_limits(limits),
                toolsets=[tools],
                capabilities=tool_search(self._toolbox.buses, self.model),
                deps=run,
            ) as events:
                mapper = EventMapper(tools.servers, tools.report_unknown, tools.explain)
                return await self._emit_events(run, outgoing, mapper, events)
        except BaseException:  # a cancellation too
            with suppress(UserError):  # raised if nothing had started
                if events is not None:
                    self._conversation.keep_partial(outgoing, events.all_messages(), events.new_messages())
            raise

    async def _emit_events(
        self, run: Run[Any], outgoing: UserMessage, mapper: EventMapper, events: AgentRunEvents[Any]
    ) -> RunResult[Any]:
        async for event in events:
            if isinstance(event, AgentRunResultEvent):
                result = event.result
                self._conversation.commit(outgoing, result.all_messages())
                return RunResult(
                    output=result.output,
                    messages=result.new_messages(),
                    usage=result.usage,
                    calls=tuple(mapper.calls),
                )
            for mapped in mapper.map(event):
                run.emit(mapped)
        raise AssertionError("pydantic-ai ended a run without a result")

    # Durable runs

    @overload
    def start(self, prompt: str | None = None, *, key: str | None = None) -> "DurableRun[str]": ...

    @overload
    def start(
        self, prompt: str | None = None, *, output: type[T], key: str | None = None
    ) -> "DurableRun[T]": ...

    def start(
        self, prompt: str | None = None, *, output: type[Any] = str, key: str | None = None
    ) -> "DurableRun[Any]":
        """Start a run that survives this process; with the key of an earlier run, join that run.

        It begins with the conversation of the agent, and does not change it. With `output`, the result is an
        object of that type.
        """
        if self._closed:
            raise BusClosed("the agent")
        durable = self._checked_durable()
        outgoing = self._conversation.take(prompt)
        return durable.start(outgoing.message, key=key, history=self.history, output=output)

    @overload
    def join(self, run: str) -> "DurableRun[str]": ...

    @overload
    def join(self, run: str, *, output: type[T]) -> "DurableRun[T]": ...

    def join(self, run: str, *, output: type[Any] = str) -> "DurableRun[Any]":
        """A durable run of any process, by its id; `output` is the type that it was started with."""
        return self._checked_durable().join(run, output)

    @property
    def runs(self) -> "Runs":
        """The durable runs of the store, of all processes."""
        durable = self._checked_durable()
        with suppress(RuntimeError):  # outside of a loop, nobody executes anything
            asyncio.get_running_loop()
            durable.begin()
        return durable.runs

    @property
    def durable(self) -> "Durable | None":
        """The settings of durable runs; None if the agent has none."""
        return None if self._durable is None else self._durable.settings

    async def work(self, on_ready: Callable[[], None] | None = None) -> None:
        """Execute durable runs until cancelled, and do nothing else: for a program that is just a worker.

        Raises `RunStoreError` if the store cannot be used. `on_ready` is called once runs are taken.
        """
        await self._checked_durable().work(on_ready)

    def _checked_durable(self) -> "AgentRuns":
        if self._durable is None:
            raise ValueError('this agent has no durable runs; create it with Agent(..., durable="runs.db")')
        return self._durable

    def _durable_runs(self, durable: "str | Durable") -> "AgentRuns":
        from toolbus.agent.durable import Durable  # its packages are an extra
        from toolbus.agent.durable.agent_runs import AgentRuns
        from toolbus.agent.durable.execution.execution import Performer

        settings = Durable(store=durable) if isinstance(durable, str) else durable
        performer = Performer(
            model=self.model,
            agent=self._agent,
            toolbox=self._toolbox,
            approve=self._approve,
            limits=self._limits,
            start_servers=self._start_servers,
            instructions=self._instructions,
        )
        return AgentRuns(settings, performer)

    def _current_lock(self) -> asyncio.Lock:
        """The lock that a run holds. A lock belongs to one event loop, so a new loop gets a new lock."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._run_lock = loop, asyncio.Lock()
        return self._run_lock

    async def _start_servers(self) -> None:
        if self._bus is not None:
            # In a task of its own: a run that is cancelled meanwhile leaves the servers to the next one.
            self._starting = asyncio.create_task(self._bus.start())
            await asyncio.shield(self._starting)
            if not self._bus.running:
                raise BusClosed("the event loop of the agent's servers has ended; the agent")

    async def _instructions(self) -> str:
        """The instructions of the servers, and the current context.

        Identical as long as nothing changes, for the providers' prompt caches.
        """
        instructions = self._toolbox.instructions() if self._server_instructions else []
        contexts = await asyncio.gather(*(context.text() for context in self._contexts))
        return "\n\n".join([*instructions, *filter(None, contexts)])

    # The conversation

    @property
    def history(self) -> list[ModelMessage]:
        """The messages so far, in Pydantic AI's types; assign other messages to continue from those."""
        return self._conversation.messages

    @history.setter
    def history(self, messages: list[ModelMessage]) -> None:
        self._conversation.messages = list(messages)

    def save(self, path: str | Path) -> None:
        """Write the messages to a JSON file."""
        Path(path).write_bytes(self._conversation.to_json())

    def load(self, path: str | Path) -> None:
        """Continue a saved conversation; ValueError if the file does not hold one."""
        self._conversation.load(Path(path).read_bytes())

    def clear(self) -> None:
        """Clear the conversation, and everything added to the next message."""
        self._conversation = Conversation()

    def add_file(self, file: File, *, name: str | None = None, mime_type: str | None = None) -> None:
        """Add a file to the next message: a path, bytes, or the return value of `read_resource`."""
        self._conversation.add_file(file, name, mime_type)

    async def add_resource(self, server: str, uri: str) -> None:
        """Add a resource of a server to the next message."""
        bus = await self._bus_of(server)
        self._conversation.add(await bus.read_resource(server, uri))

    async def use_prompt(self, server: str, name: str, arguments: Mapping[str, str] | None = None) -> None:
        """Add a server's prompt to the conversation; its last user messages go with the next one."""
        bus = await self._bus_of(server)
        prompt = await bus.get_prompt(server, name, arguments)
        async with self._current_lock():  # a run replaces the messages when it ends
            self._conversation.add_prompt(prompt.messages)

    async def _bus_of(self, server: str) -> View:
        await self._start_servers()
        for bus in self._toolbox.all_buses:
            if server in bus.servers:
                return bus
        raise ServerNotFound(server, [alias for bus in self._toolbox.all_buses for alias in bus.servers])

    # Lifetime

    async def close(self) -> None:
        """Stop all runs and close what the agent owns: its servers, and the client of a model given by name.

        Safe to call repeatedly.
        """
        self._closed = True
        async with AsyncExitStack() as stack:  # closes the rest even if one fails
            if self._owns_model:
                # Entered only now, so that runs in different event loops can use the model.
                await stack.enter_async_context(self.model)
            if self._bus is not None:
                stack.push_async_callback(self._bus.close)
            if self._starting is not None and not self._starting.done():
                self._starting.cancel()
                stack.push_async_callback(asyncio.wait, {self._starting})
            for context in self._contexts:
                stack.push_async_callback(context.close)
            for run in tuple(self._runs):
                run.cancel()
                stack.push_async_callback(run.close)
            if self._durable is not None:
                stack.push_async_callback(self._durable.close)

    async def __aenter__(self) -> Self:
        if self._durable is not None:
            self._durable.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


@overload
async def generate(
    model: str | Model,
    prompt: str,
    *,
    tools: Iterable[AgentTool] = (),
    mcp_servers: ConfigSource | None = None,
    instructions: str | None = None,
    approve: ApprovalRule[Approver] = "never",
    limits: Limits | None = None,
    server_instructions: bool = True,
    settings: ModelSettings | None = None,
    interactions: Interactions | None = None,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> str: ...


@overload
async def generate(
    model: str | Model,
    prompt: str,
    *,
    output: type[T],
    tools: Iterable[AgentTool] = (),
    mcp_servers: ConfigSource | None = None,
    instructions: str | None = None,
    approve: ApprovalRule[Approver] = "never",
    limits: Limits | None = None,
    server_instructions: bool = True,
    settings: ModelSettings | None = None,
    interactions: Interactions | None = None,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> T: ...


async def generate(
    model: str | Model,
    prompt: str,
    *,
    output: type[Any] = str,
    tools: Iterable[AgentTool] = (),
    mcp_servers: ConfigSource | None = None,
    instructions: str | None = None,
    approve: ApprovalRule[Approver] = "never",
    limits: Limits | None = None,
    server_instructions: bool = True,
    settings: ModelSettings | None = None,
    interactions: Interactions | None = None,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> Any:
    """The response to one prompt; takes the same options as `Agent`."""
    async with Agent(
        model,
        tools=tools,
        mcp_servers=mcp_servers,
        instructions=instructions,
        approve=approve,
        limits=limits,
        server_instructions=server_instructions,
        settings=settings,
        interactions=interactions,
        expose=expose,
        always=always,
    ) as agent:
        return await agent.send(prompt, output=output)


async def stream(
    model: str | Model,
    prompt: str,
    *,
    tools: Iterable[AgentTool] = (),
    mcp_servers: ConfigSource | None = None,
    instructions: str | None = None,
    approve: ApprovalRule[Approver] = "never",
    limits: Limits | None = None,
    server_instructions: bool = True,
    settings: ModelSettings | None = None,
    interactions: Interactions | None = None,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> AsyncGenerator[str]:
    """Stream the text of the response to one prompt; takes the same options as `Agent`.

    A blank line follows the text that a model writes before it calls a tool.
    """
    separator, has_text = "", False
    async with Agent(
        model,
        tools=tools,
        mcp_servers=mcp_servers,
        instructions=instructions,
        approve=approve,
        limits=limits,
        server_instructions=server_instructions,
        settings=settings,
        interactions=interactions,
        expose=expose,
        always=always,
    ) as agent:
        async for event in agent.send(prompt).watch():
            match event:
                case TextDelta(text=text):
                    yield separator + text
                    separator, has_text = "", True
                case ToolCalled() if has_text:
                    separator = "\n\n"
                case _:
                    pass
