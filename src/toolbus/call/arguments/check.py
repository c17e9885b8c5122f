"""Check the arguments of a call before they are sent: valid ones pass untouched, slips are repaired."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolbus.call.arguments.complaint import complaint
from toolbus.call.arguments.judge import TimeBox, Validator, judge_of
from toolbus.call.arguments.mending import Repairer
from toolbus.call.arguments.proof import proof
from toolbus.call.arguments.risk import compares, is_risky
from toolbus.call.arguments.scalars import Proof, silent
from toolbus.call.arguments.values import is_array, is_object, plain
from toolbus.core.records import JSON, JSONObject

_MOST_REPAIRS = 20
_MOST_COMPARED = 100
"""How many items of a list are compared each with each."""
_DEEPEST_SCHEMA = 80
"""How deep a schema may be nested; beyond that jsonschema comes near the end of Python's recursion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Arguments that may be sent, or the problem that keeps them from it."""

    arguments: Mapping[str, JSON]
    """The very object that was given, unless something was repaired."""
    repairs: tuple[str, ...] = ()
    """What was done, in plain sentences: `limit: '5' became 5`."""
    problem: str | None = None
    """What cannot be repaired, told to a model: which argument, what was expected, an example."""


class ArgumentCheck:
    """The check of one tool's arguments, kept and reused; compiled when first needed. Never raises."""

    def __init__(self, schema: JSONObject) -> None:
        self._schema: JSON = schema
        self._proof: Proof | None = None
        self._judge: Validator | None = None
        self._is_judged = False
        self._compares = False

    def checked(self, arguments: Mapping[str, JSON]) -> Checked:
        """The arguments, repaired if they have to be; as they are if the schema itself makes no sense."""
        if self._proof is None:
            self._proof = self._compiled()
        try:
            if self._proof(arguments):
                return Checked(arguments=arguments)
        except RecursionError:  # nested too deep for a proof
            pass
        return self._judged(arguments)

    def _compiled(self) -> Proof:
        try:
            self._schema = plain(self._schema, _DEEPEST_SCHEMA)
        except ValueError:
            self._is_judged = True  # by nobody
            return silent
        self._compares = compares(self._schema)
        if is_risky(self._schema):
            self._is_judged = True  # by nobody
            return silent
        return proof(self._schema)

    def _judged(self, arguments: Mapping[str, JSON]) -> Checked:
        if not self._is_judged:
            self._judge = judge_of(self._schema)
            self._is_judged = True
        judge = self._judge
        try:
            given = plain(arguments)
        except ValueError:  # no JSON, or too deep to look through: the server decides
            return Checked(arguments=arguments)
        if self._compares and _longest(given) > _MOST_COMPARED:
            return Checked(arguments=arguments)
        if judge is None or judge.accepts(given) is not False:
            return Checked(arguments=arguments)
        mended = Repairer(TimeBox(judge)).mended(given)
        if mended.fits and is_object(mended.value):
            return Checked(arguments=mended.value, repairs=_shortened(mended.notes))
        nearest = mended.value if is_object(mended.value) else given
        return Checked(arguments=arguments, problem=complaint(TimeBox(judge), nearest, given))


def _longest(value: JSON) -> int:
    """The length of the longest list in it."""
    if is_array(value):
        return max([len(value), *map(_longest, value)])
    return max(map(_longest, value.values()), default=0) if is_object(value) else 0


def _shortened(notes: tuple[str, ...]) -> tuple[str, ...]:
    more = len(notes) - _MOST_REPAIRS
    return notes if more <= 0 else (*notes[:_MOST_REPAIRS], f"and {more} more")
