"""Whether no value fits two of several alternatives: then `anyOf` means the same as `oneOf`."""

from collections.abc import Sequence

from toolbus.schema.values import JSON, Node, is_array, is_object
from toolbus.schema.work import Work

_MOST_COMPARED = 64
"""Alternatives of which each is compared with each; of more, only values and common tags are."""


def are_disjoint(forms: Sequence[Node], work: Work) -> bool:
    """Whether no value fits two alternatives: by type, by value, or by a required property that differs."""
    if _differ_by_value(forms, work):
        return True
    if any(_differ_by_value(_tagged(forms, name, work), work) for name in forms[0].get("required", ())):
        return True
    if len(forms) > _MOST_COMPARED:
        return False
    return all(
        _differ(form, other, work)
        or any(_have_tag(form, other, name, work) for name in form.get("required", ()))
        for number, form in enumerate(forms)
        for other in forms[:number]
    )


def _differ_by_value(forms: Sequence[Node], work: Work) -> bool:
    """Whether all list their values, and no value twice."""
    seen: set[str] = set()
    for form in forms:
        values = _listed(form)
        if values is None:
            return False
        texts = set(map(work.written, values))
        if not seen.isdisjoint(texts):
            return False
        seen |= texts
    return bool(forms)


def _tagged(forms: Sequence[Node], name: str, work: Work) -> list[Node]:
    """The property of that name in each alternative; empty unless all require and describe it."""
    found: list[Node] = []
    for form in forms:
        if (tag := _tag(form, name, work)) is None:
            return []
        found.append(tag)
    return found


def _tag(form: Node, name: str, work: Work) -> Node | None:
    work.spend(1 + len(form.get("required", ())) // 16)
    tag = form.get("properties", {}).get(name)
    return tag if is_object(tag) and name in form.get("required", ()) else None


def _have_tag(form: Node, other: Node, name: str, work: Work) -> bool:
    ours, theirs = _tag(form, name, work), _tag(other, name, work)
    return ours is not None and theirs is not None and _differ(ours, theirs, work)


def _differ(form: Node, other: Node, work: Work) -> bool:
    work.spend(1)
    mine, yours = _listed(form), _listed(other)
    if mine is not None and yours is not None:
        return set(map(work.written, mine)).isdisjoint(map(work.written, yours))
    types = [side["type"] if is_array(side.get("type")) else [side.get("type")] for side in (form, other)]
    if any(None in names for names in types):
        return False
    first, second = ({"number" if name == "integer" else name for name in names} for names in types)
    return first.isdisjoint(second)


def _listed(form: Node) -> list[JSON] | None:
    values: JSON = [form["const"]] if "const" in form else form.get("enum")
    return values if is_array(values) else None
