"""Switch tools of a server off and on in the text of a config, by the patterns that its entry excludes."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from toolbus.config.editing.edit import tool_patterns, with_pattern, without_exclude
from toolbus.config.editing.edited import EditedFile
from toolbus.config.hosts.read import document_in
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON

_WILD = re.compile(r"[*?\[]")


class NotSwitched(ToolbusError):
    """Tools cannot be switched this way; the message says what else decides about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchedText:
    """The text of a config in which tools are switched."""

    text: str
    cause: str = ""
    """The reason why the text is the same, as the end of a sentence."""
    note: str = ""
    """A note about other patterns that decide about these tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSwitch:
    """The tools of a server that match a pattern."""

    server: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.server}/{self.pattern}"

    @classmethod
    def of(cls, edited: EditedFile, name: str) -> "ToolSwitch | None":
        """The tools that `server/pattern` names; None if it is a server. `NotSwitched` without a pattern."""
        servers = edited.servers()
        found = [alias for alias in servers if name.startswith(f"{alias}/")]
        if name in servers or not found:
            return None
        alias = max(found, key=len)
        pattern = name.removeprefix(f"{alias}/")
        if not pattern.strip():
            raise NotSwitched(f"{name!r} names no tool; write such as {alias}/delete_*")
        return cls(server=alias, pattern=pattern)

    def off(self, edited: EditedFile) -> SwitchedText:
        """The text in which these tools are excluded; or the same one, and what already does that."""
        entry = edited.servers()[self.server]
        (_, include), (key, exclude) = tool_patterns(entry, "include"), tool_patterns(entry, "exclude")
        if (shadow := self._shadow(exclude)) is not None:
            cause = "" if shadow == self.pattern else f", by {shadow!r} in {key}"
            return SwitchedText(text=edited.text, cause=cause)
        is_listed = any(not isinstance(one, str) or fnmatchcase(self.pattern, one) for one in include)
        if include and not is_listed and _WILD.search(self.pattern) is None:
            return SwitchedText(text=edited.text, cause=", because include lists other tools")
        return SwitchedText(text=with_pattern(edited.text, edited.path, self.server, "exclude", self.pattern))

    def on(self, edited: EditedFile, known: Sequence[str]) -> SwitchedText:
        """The text in which this pattern is not excluded, and a note about what still disables it.

        `known` are the tools of the server. `NotSwitched` if other patterns disable all of it.
        """
        entry = edited.servers()[self.server]
        (_, include), (key, exclude) = tool_patterns(entry, "include"), tool_patterns(entry, "exclude")
        after, note = edited.text, ""
        shadow = self._shadow([one for one in exclude if one != self.pattern])
        if shadow is not None:
            note = f"{shadow!r} in {key} still disables it; to enable all of that: toolbus enable "
            note += f"{self.server}/{shadow}"
        if self.pattern in exclude:
            after = without_exclude(after, edited.path, self.server, self.pattern)
        elif shadow is not None:
            raise NotSwitched(f"{self}: {note}")
        if include and self._shadow(include) is None:
            after = with_pattern(after, edited.path, self.server, "include", self.pattern)
        if not note and (others := self._overlapping(known, exclude)):
            steps = " && ".join(f"toolbus enable {shlex.quote(f'{self.server}/{one}')}" for one in others)
            verb = "disables" if len(others) == 1 else "disable"
            named = ", ".join(map(repr, others))
            note = f"{named} in {key} still {verb} tools that match; to enable them: {steps}"
            if after == edited.text:
                raise NotSwitched(f"{self}: {note}")
        for one in document_in(edited.text.encode(), edited.path).get("exclude") or ():
            if isinstance(one, str) and _covers(one, str(self)):
                note = note or f"{one!r} in exclude for all servers still disables it"
        return SwitchedText(text=after, note=note)

    def _shadow(self, patterns: Sequence[JSON]) -> str | None:
        """A pattern that matches every tool that this one does."""
        return next((one for one in patterns if isinstance(one, str) and _covers(one, self.pattern)), None)

    def _overlapping(self, known: Sequence[str], exclude: Sequence[JSON]) -> list[str]:
        """The other patterns that exclude some of these tools."""
        tools = [tool for tool in known if fnmatchcase(tool, self.pattern)]
        return [
            one
            for one in exclude
            if isinstance(one, str)
            and one != self.pattern
            and (_covers(self.pattern, one) or any(fnmatchcase(tool, one) for tool in tools))
        ]


def _covers(wide: str, pattern: str) -> bool:
    # A text that has a wildcard stands for others, and only `*` is known to match all of these.
    return wide == pattern or (
        fnmatchcase(pattern, wide) and (_WILD.search(pattern) is None or re.search(r"[?\[]", wide) is None)
    )
