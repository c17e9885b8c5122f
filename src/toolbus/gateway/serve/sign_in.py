"""The sign-in of people to a gateway, while its config wants one."""

from collections.abc import Callable, Sequence

from toolbus.config import BusConfig, Secrets
from toolbus.core.values.errors import StoreError, ToolbusError
from toolbus.gateway.access.admission import Admission
from toolbus.gateway.http.app import PagesBeside
from toolbus.gateway.http.request import HttpRequest
from toolbus.gateway.people.registry import PersonRegistry, person_files
from toolbus.gateway.serve.replica import Replica
from toolbus.gateway.sign_in.grants import grant_files
from toolbus.gateway.sign_in.request import SIGN_IN
from toolbus.gateway.sign_in.tokens import SignInState
from toolbus.state.seal import Seal


class SignInFront:
    """The authorization server and the pages for people, which follow the config."""

    def __init__(
        self, config: BusConfig, replica: Replica | None, seal: Seal, note: Callable[[str], None]
    ) -> None:
        """`seal` is the same for all replicas and workers; `note` writes a line to the log.

        `state` is None without a store and a file.
        """
        self.state: SignInState | None = None
        self._people: PersonRegistry | None = None
        if replica is not None and config.store is not None:
            self.state = SignInState(replica.store, is_shared=True)
            self._people = PersonRegistry(replica.store)
        elif config.file is not None:
            self.state = SignInState(grant_files(config.file))
            self._people = PersonRegistry(person_files(config.file))
        if self.state is not None:
            self.state.note = note
        self._seal, self._note = seal, note
        self._pages: Sequence[PagesBeside] = ()
        self.use(config)

    def use(self, config: BusConfig) -> None:
        """Follow another config from now on."""
        self._pages, serve = (), config.gateway
        if serve.auth.sign_in is None or self.state is None or self._people is None:
            return
        # Only now: it takes a while to import, and most gateways have none.
        from toolbus.gateway.people.front import PeoplePages
        from toolbus.gateway.people.oidc import OidcProvider
        from toolbus.gateway.sign_in.server import SignInServer

        server, provider = SignInServer(self.state, serve), None
        if serve.auth.sign_in.oidc is not None:
            back = f"{serve.issuer}{SIGN_IN}/callback"
            secrets = Secrets(None, config.folder, config.reviewed)
            provider = OidcProvider(serve.auth.sign_in.oidc, secrets, self._seal, back)
        pages = PeoplePages(serve, self._people, server, provider, self._note)
        server.show = pages.refuse_client
        self._pages = (server, pages)

    async def start(self) -> None:
        """Read the keys and the grants, if there is a sign-in; `ToolbusError` if that is not possible."""
        if self._pages and self.state is not None:
            try:
                await self.state.open()
            except StoreError:
                raise
            except (OSError, ValueError) as error:
                raise ToolbusError(f"sign-ins cannot be kept: {error}") from error

    async def close(self) -> None:
        """Follow the grants no longer."""
        if self.state is not None:
            await self.state.close()

    def covers(self, path: str) -> bool:
        return any(pages.covers(path) for pages in self._pages)

    async def serve(self, http: HttpRequest, access: Admission) -> None:
        found = next(pages for pages in self._pages if pages.covers(http.facts.path))
        await found.serve(http, access)
