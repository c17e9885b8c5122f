"""Tokens in memory: gone when the program ends."""


class MemoryStore:
    """Keeps tokens for as long as the program runs."""

    place = "memory"
    remedy = "choose another store"

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def place_of(self, _key: str, /) -> str:
        return self.place

    async def set_aside(self, _key: str, /) -> bool:
        return False

    # Async, so that they are not called in a thread.
    async def load(self, key: str, /) -> str | None:
        return self._values.get(key)

    async def save(self, key: str, value: str, /) -> None:
        self._values[key] = value

    async def remove(self, key: str, /) -> None:
        self._values.pop(key, None)
