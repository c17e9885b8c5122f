"""The sign-in of people to a gateway: its authorization server, while the config wants one."""

from collections.abc import Sequence

from toolbus.config import BusConfig
from toolbus.config.settings.serve import Serve
from toolbus.core.values.errors import StoreError, ToolbusError
from toolbus.gateway.access.admission import Admission
from toolbus.gateway.http.app import PagesBeside
from toolbus.gateway.http.request import HttpRequest
from toolbus.gateway.serve.replica import Replica
from toolbus.gateway.sign_in.grants import grant_files
from toolbus.gateway.sign_in.tokens import SignInState


def sign_in_state(config: BusConfig, replica: Replica | None) -> SignInState | None:
    """The sign-ins of a config, in its store or in files of the user; None if it has neither."""
    if replica is not None and config.store is not None:
        return SignInState(replica.store, is_shared=True)
    return None if config.file is None else SignInState(grant_files(config.file))


class SignInFront:
    """The pages of the sign-in, which follow the config."""

    def __init__(self, state: SignInState | None, serve: Serve) -> None:
        self.state = state
        self._pages: Sequence[PagesBeside] = ()
        self.use(serve)

    def use(self, serve: Serve) -> None:
        """Follow another config from now on."""
        self._pages = ()
        if serve.auth.sign_in is not None and self.state is not None:
            # Only now: it takes a while to import, and most gateways have none.
            from toolbus.gateway.sign_in.server import SignInServer

            self._pages = (SignInServer(self.state, serve),)

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
