"""On whose behalf a server is used."""

from dataclasses import dataclass, field

from toolbus.config import Secrets
from toolbus.state.tokens.tokens import TokenSource, open_tokens


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LinkOwner:
    """Whose secrets and tokens a link uses."""

    secrets: Secrets = field(default_factory=Secrets)
    tokens: TokenSource = field(default_factory=lambda: open_tokens("memory"))
    user: str = ""
    """Empty for the user of the bus itself."""
