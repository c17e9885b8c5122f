"""`toolbus store rekey`: encrypt what several gateways share with another key."""

import asyncio

from rich.text import Text

from toolbus.bus.stores import store_for_command
from toolbus.cli.errors import Usage
from toolbus.cli.options import Settings
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import load_trusted_config
from toolbus.core.display import counted
from toolbus.core.errors import ToolbusError
from toolbus.state.store.rekey import KeyUse
from toolbus.state.store.rekey import rekey as rekeyed
from toolbus.state.store.store import Store


def rekey(settings: Settings) -> int:
    """Encrypt all values with the first key, and print what is left; 1 if something is."""
    screen, config = Screen(settings), load_trusted_config(settings)
    store = store_for_command(config)
    if store is None:
        raise Usage("the config has no store")
    changed, left = asyncio.run(_rekeyed(store))
    if screen.as_json:
        unreadable = left.unreadable.total()
        screen.json({"changed": changed, "total": left.total, "left": left.other, "unreadable": unreadable})
        return 1 if left.other or left.unreadable else 0
    screen.print(Text(f"encrypted {counted(changed, 'value')} of {left.total} anew"))
    if left.other:
        values = counted(left.other, "value")
        step = "give all gateways the new key as the first one, and run this again"
        raise ToolbusError(f"meanwhile, others wrote {values} with another key; {step}")
    if left.problem:
        raise ToolbusError(f"{left.problem}; add the key of those who wrote them, and run this again")
    screen.note("all values are encrypted with the first key; the others are not needed any more")
    return 0


async def _rekeyed(store: Store) -> tuple[int, KeyUse]:
    async with store:
        return await rekeyed(store)
