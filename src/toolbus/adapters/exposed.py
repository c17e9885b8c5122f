"""Which tools of a bus a model is shown, as an option of every adapter and of the agent."""

from collections.abc import Sequence
from typing import TypedDict, overload

from toolbus.adapters.tool_list import Bus, ToolSource, bus_of
from toolbus.bus.view import View
from toolbus.config.settings.expose import ExposeMode, check_mode


class Exposed(TypedDict, total=False):
    """How a model gets to its tools; by default as the view or the config says."""

    expose: ExposeMode
    """All tools, a search for them, or by their cost (`auto`)."""
    always: Sequence[str] | str
    """Patterns of tools that are shown in every mode, for public names and `server/tool`."""


@overload
def shown(source: Bus, exposed: Exposed) -> Bus: ...
@overload
def shown(source: ToolSource, exposed: Exposed) -> ToolSource: ...
def shown(source: ToolSource, exposed: Exposed) -> ToolSource:
    """The source, shown in that way; ValueError if it is a list of tools, which are shown as they are."""
    check_exposed(exposed)
    if not exposed:
        return source
    if not isinstance(source, Bus):
        raise ValueError("expose and always are for the tools of a bus, not for a list of tools")
    return shown_view(bus_of(source), exposed)


def check_exposed(exposed: Exposed) -> None:
    """TypeError for other options, which Python lets through; ValueError for an unknown mode."""
    if unknown := exposed.keys() - Exposed.__annotations__.keys():
        raise TypeError(f"unexpected options: {', '.join(sorted(unknown))}")
    check_mode(exposed.get("expose"))


def shown_view(view: View, exposed: Exposed) -> View:
    """A view, shown in that way."""
    return view.view(expose=exposed.get("expose"), always=exposed.get("always")) if exposed else view
