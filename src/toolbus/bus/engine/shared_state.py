"""What a bus has in the store of its config: tokens, lasting answers, and the seal of suspended scripts."""

from toolbus.bus.engine.stores import store_of, tokens_in
from toolbus.bus.rules.enforcement import Policing
from toolbus.config import BusConfig, GetSecret
from toolbus.policy.shared_answers import KIND, SharedAnswers
from toolbus.state.store.mirror import Mirror
from toolbus.state.store.once import SharedOnce, SharedSpent, shared_seal
from toolbus.state.store.store import Store
from toolbus.state.tokens.tokens import Tokens


class SharedState:
    """Uses the store that the config had when the bus was started; a reload does not change it."""

    def __init__(self, get_secret: GetSecret | None) -> None:
        self._get_secret = get_secret
        self._store: Store | None = None
        self._answers: Mirror | None = None

    async def open(self, config: BusConfig, policing: Policing) -> None:
        """Use the store of the config, if it has one; StoreError if that cannot be used."""
        store = self._store = store_of(config, self._get_secret)
        if store is None or config.store is None:
            return
        await store.open()
        mirror = self._answers = Mirror(store, KIND)
        await mirror.start()
        policing.answers.share(SharedAnswers(store, config.store.seconds, mirror))
        policing.shared = SharedOnce(await shared_seal(store), SharedSpent(store))

    def tokens(self, config: BusConfig) -> Tokens:
        """The tokens of the config."""
        return tokens_in(config, self._store)

    async def close(self) -> None:
        """Release the store."""
        if self._answers is not None:
            await self._answers.close()
        if self._store is not None:
            await self._store.close()
