"""Report that somebody has to sign in: once, until the server can be used again."""

from toolbus.core.events import LoginNeeded, StateChanged


class Logins:
    """The servers to which one user has to sign in."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._reported: set[str] = set()

    def needed(self, event: StateChanged) -> LoginNeeded | None:
        """The event to emit after this one of a server with sign-in, if there is one."""
        if event.state == "ready":
            self._reported.discard(event.server)
        if event.state != "auth_required" or event.server in self._reported:
            return None
        self._reported.add(event.server)
        return LoginNeeded(server=event.server, user=self._user, reason=event.error or "")
