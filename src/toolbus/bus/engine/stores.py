"""The store of a config, and what is kept in it instead of in files of the user."""

from functools import partial

from toolbus.config import BusConfig, GetSecret, Secrets
from toolbus.config.secrets.lookup import MissingValue
from toolbus.config.secrets.reference import Reference, parsed
from toolbus.config.settings.store import StoreSetting
from toolbus.core.values.errors import ConfigError
from toolbus.policy.answers import StoredAnswers, file_answers
from toolbus.state.store.database import StoreUrl, parse_store_url
from toolbus.state.store.store import Store
from toolbus.state.tokens.store import KeptTokens, TokenLocks
from toolbus.state.tokens.tokens import TokenSource, open_tokens

_COMMAND_PATIENCE = 3.0


def store_of(config: BusConfig, get_secret: GetSecret | None = None) -> Store | None:
    """The store of a config, which is opened when it is first used; None if it has none."""
    return None if config.store is None else Store(partial(store_url, config, config.store, get_secret))


def store_for_command(config: BusConfig) -> Store | None:
    """The same for a command, whose user waits: if the database does not respond, it fails soon."""
    store = store_of(config)
    if store is not None:
        store.patience = _COMMAND_PATIENCE
    return store


def tokens_in(config: BusConfig, store: Store | None) -> TokenSource:
    """The tokens of a config: `auto` is the store, if there is one."""
    if store is None or config.store is None or config.tokens != "auto":
        return open_tokens(config.tokens)
    return TokenSource(KeptTokens(store, "check the database", config.store.seconds), TokenLocks([store]))


def answers_of(config: BusConfig) -> StoredAnswers | None:
    """The lasting answers of a config, for commands; None if it has no file to keep them for."""
    store = store_for_command(config)
    if store is not None:
        return StoredAnswers(store)
    return None if config.file is None else file_answers(config.file)


async def store_url(
    config: BusConfig, setting: StoreSetting, get_secret: GetSecret | None = None
) -> StoreUrl:
    """The URL with its references looked up; ConfigError if one has no value, or it is not a URL."""
    secrets, url = Secrets(get_secret, config.folder, config.reviewed), ""
    for part in parsed(setting.url, key="store.url"):
        if isinstance(part, Reference):
            found = await secrets.find(part)
            if isinstance(found, MissingValue):
                raise ConfigError(f"{part.label} {found.reason}", key="store.url")
            url += found.value
        else:
            url += part
    try:
        return parse_store_url(url, config.folder)
    except ValueError as error:
        raise ConfigError(str(error), key="store.url") from None
