"""An event of a trail in words, as far as every output of it uses the same ones."""

from collections.abc import Iterable

from toolbus.audit.read import Recorded


def what_happened(event: Recorded) -> str:
    """The decision, the outcome, or the name of an event that has neither."""
    return str(event.get("decision") or event.get("outcome") or event.get("event"))


def target_of(event: Recorded) -> str:
    """What an event is about: `server/tool`, with the method in front if it is not a call of a tool."""
    route = str(event.get("route", ""))
    name = "/".join(str(event[key]) for key in ("server", "tool") if key in event)
    return name if route in ("", "tools/call") else f"{route} {name}"


def decision_of(event: Recorded) -> Iterable[str]:
    """Who decided and why; a rule that the reason names is not repeated."""
    by, rule, reason = event.get("by"), event.get("rule"), str(event.get("reason", ""))
    denial = f"rule {rule} denies it"
    if rule and reason.startswith(denial):
        reason = f"{rule}{reason.removeprefix(denial)}"
    if by and not (rule and str(rule) in reason):
        yield f"{rule} by {by}" if rule and by != "policy" else str(rule or by)
    if reason:
        yield reason
