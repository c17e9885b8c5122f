"""What a bus offers besides tools: resources and prompts, and how their arguments are completed."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from toolbus.bus.servers import Servers
from toolbus.connect import Session, requests
from toolbus.core.errors import ArgumentsError, ResourceTooLarge
from toolbus.core.records import (
    Completion,
    Embedded,
    Inventory,
    Prompt,
    PromptResult,
    Resource,
    ResourceTemplate,
)
from toolbus.core.text import cleaned
from toolbus.core.uri_templates import Values, expanded

T = TypeVar("T")


class Content(ABC):
    """The half of a `Toolbus` that is not about tools."""

    _servers: Servers

    @abstractmethod
    async def _asked(self, alias: str, send: Callable[[Session, float], Awaitable[T]]) -> T:
        """Ask a server, through its link, from wherever the caller is."""

    def _stocks(self, server: str | None) -> list[Inventory]:
        if server is not None:
            return [self._servers.inventories[self._servers[server].config.alias]]
        return list(self._servers.inventories.values())

    @property
    def instructions(self) -> dict[str, str]:
        """What servers say about how to use them, by alias; those that say nothing are left out."""
        said = {alias: stock.instructions for alias, stock in self._servers.inventories.items()}
        return {alias: cleaned(text) for alias, text in said.items() if text}

    def resources(self, server: str | None = None) -> list[Resource]:
        """What can be read, of all servers or of one; two servers may share an address."""
        return [item for stock in self._stocks(server) for item in stock.resources]

    def templates(self, server: str | None = None) -> list[ResourceTemplate]:
        """The families of resources, of all servers or of one."""
        return [item for stock in self._stocks(server) for item in stock.templates]

    def prompts(self, server: str | None = None) -> list[Prompt]:
        """The prompts of all servers, or of one."""
        return [item for stock in self._stocks(server) for item in stock.prompts]

    async def read_resource(
        self, server: str, uri: str, variables: Values | None = None
    ) -> tuple[Embedded, ...]:
        """Read a resource; one resource may come in several parts. With `variables`, the URI is a template.

        `ResourceTooLarge` if it has more bytes than the server's `resource_limit`.
        """
        if variables is None and any(item.uri_template == uri for item in self.templates()):
            variables = {}  # sent as it is, a server would take the braces for a value
        address = uri if variables is None else expanded(uri, variables)

        async def read(session: Session, timeout: float) -> tuple[Embedded, ...]:
            sizes = [item.size for item in self.resources(server) if item.uri == address and item.size]
            if sizes and sizes[0] > session.config.resource_limit:
                raise ResourceTooLarge(server, address, sizes[0], session.config.resource_limit)
            return await requests.read_resource(session, address, timeout)

        return await self._asked(server, read)

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> PromptResult:
        """Fill in a prompt; `ArgumentsError` names what is missing."""
        given = dict(arguments or {})

        async def get(session: Session, timeout: float) -> PromptResult:
            known = [prompt for prompt in self.prompts(server) if prompt.name == name]
            needed = [a.name for prompt in known for a in prompt.arguments if a.required]
            for argument, value in given.items():
                if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass what they like
                    kind = type(value).__name__
                    raise ArgumentsError(f"prompt {name!r}", f"{argument!r} must be a text, not {kind}")
            missing = [name for name in needed if name not in given]
            if missing:
                raise ArgumentsError(f"prompt {name!r}", f"no value for {' and '.join(map(repr, missing))}")
            return await requests.get_prompt(session, name, given, timeout)

        return await self._asked(server, get)

    async def complete(
        self,
        server: str,
        name: str,
        argument: str,
        value: str = "",
        *,
        known: Mapping[str, str] | None = None,
    ) -> Completion:
        """What an argument that begins with `value` may be: of a prompt, or of the template `name`.

        `known` are the arguments given so far. A server that does not complete gives nothing.
        """
        is_template = any(template.uri_template == name for template in self.templates(server))
        return await self._asked(
            server,
            lambda session, timeout: requests.complete(
                session, (name, is_template), (argument, value), known or {}, timeout
            ),
        )

    async def subscribe(self, server: str, uri: str) -> None:
        """Have a `ResourceUpdated` event for every change of a resource, also after a lost connection.

        `CallRejected` if the server does not tell.
        """
        wanted = self._servers.subscriptions(server)
        await self._asked(server, lambda session, timeout: wanted.add(session, uri, timeout))

    async def unsubscribe(self, server: str, uri: str) -> None:
        """Hear no more of a resource, once all who subscribed have left."""
        wanted = self._servers.subscriptions(server)
        await self._asked(server, lambda session, timeout: wanted.remove(session, uri, timeout))
