"""A script that waits for a person: its state, sealed, so that only what we wrote is ever loaded.

Monty trusts the bytes of a snapshot, and a pending call passes through files, models and clients. So its
state is encrypted and authenticated with a key in the user's state folder or in the store. It is bound to the
user, and can be used only once.
"""

import base64
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from toolbus.code.journal import JournalEntry
from toolbus.core.values.elicitation import Pending
from toolbus.core.values.errors import ScriptNotResumable
from toolbus.state.files import state_folder
from toolbus.state.seal import OneTimeUse, Seal, SharedSeal, carried_forms, kept_seal
from toolbus.state.values import PrivateValues

_PURPOSE = "script"
_OWN = PrivateValues(state_folder, carried_forms("code/key", "code/resumed"))
"""The files of a user whose config has no store."""
_SECONDS = 30 * 24 * 3600.0
"""The maximum time that a script may wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedCall:
    """A call that the script has made, and that is not done."""

    entry: int
    """Its place in the journal."""
    name: str
    """The function."""
    arguments: dict[str, Any]
    pending: str | None = None
    """The suspended call as JSON, if it waits for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendedScript:
    """All that another process needs to go on."""

    id: str
    script: str
    snapshot: bytes = field(repr=False)
    tools: dict[str, str]
    """The tools that the script names, `server/tool` by function."""
    calls: list[JournalEntry]
    open: dict[int, UnfinishedCall]
    """The calls that are not done, by their ids in the script."""
    first: int
    """The call whose question is asked now."""
    printed: str = ""
    tool: str = ""
    """The tool that the script is, `server/tool`; empty for any other script."""
    input: dict[str, Any] = field(default_factory=dict[str, Any])
    """The types of its variables, in the short form of a config."""

    def pending(self, user: str, shared: SharedSeal | None) -> Pending:
        """The suspended script as a pending call: the call that waits, and the sealed script."""
        sealed = _seal(shared).seal(_PURPOSE, user, self._payload(), _SECONDS)
        # What was approved and counted of the waiting call is sealed; beside it stands that of the tool.
        return replace(self.waiting, script=sealed, approved=None, approved_by=None, counted=None)

    @property
    def waiting(self) -> Pending:
        """The call whose question is asked now."""
        stored = self.open[self.first].pending
        assert stored is not None, "it waits for a person"
        return Pending.from_json(stored)

    async def take(self, shared: SharedSeal | None) -> None:
        """Resume it; `ScriptNotResumable` if somebody did that before."""
        try:
            spent = OneTimeUse(_OWN) if shared is None else shared.spent
            is_new = await spent.use(self.id)
        except OSError as error:
            raise ScriptNotResumable(f"it cannot be recorded that the script is resumed: {error}") from None
        if not is_new:
            raise ScriptNotResumable(
                "the script was already resumed from here; see the audit log for its calls, "
                "and run the script again if it may start over"
            )

    def _payload(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "script": self.script,
            "snapshot": base64.b64encode(zlib.compress(self.snapshot, 9)).decode(),
            "tools": self.tools,
            "calls": [asdict(one) for one in self.calls],
            "open": {str(number): asdict(one) for number, one in self.open.items()},
            "first": self.first,
            "printed": self.printed,
            "tool": self.tool,
            "input": self.input,
        }


def opened(sealed: str, user: str, shared: SharedSeal | None) -> SuspendedScript:
    """The script of a pending call; `ScriptNotResumable` if it was not sealed here for this user.

    With `shared`, here is wherever the same store is used.
    """
    values: Any = _seal(shared).opened(_PURPOSE, user, sealed)
    if values is None:
        raise ScriptNotResumable(
            "the suspended script was changed, has expired, or belongs to another user or machine"
        )
    return SuspendedScript(
        id=values["id"],
        script=values["script"],
        snapshot=zlib.decompress(base64.b64decode(values["snapshot"])),
        tools=values["tools"],
        calls=[JournalEntry(**one) for one in values["calls"]],
        open={int(number): UnfinishedCall(**one) for number, one in values["open"].items()},
        first=values["first"],
        printed=values["printed"],
        tool=values.get("tool", ""),
        input=values.get("input", {}),
    )


def new_id() -> str:
    """An id for one suspension of a script."""
    return OneTimeUse().issue(_SECONDS)


def _seal(shared: SharedSeal | None) -> Seal:
    if shared is not None:
        return shared.seal
    try:
        return _OWN.wait(kept_seal(_OWN))
    except OSError as error:
        raise ScriptNotResumable(f"no key to seal suspended scripts with: {error}") from None
