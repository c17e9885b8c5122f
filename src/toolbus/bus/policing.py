"""The policy and the audit trail of a bus, which its users and views share."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from toolbus.config import BusConfig
from toolbus.config.audit import Audit
from toolbus.config.location import Location
from toolbus.config.policy import PolicyRule, read_policy
from toolbus.core.operation import Observer
from toolbus.core.records import JSON
from toolbus.policy.answers import Answers
from toolbus.policy.guard import Enforced
from toolbus.policy.layers import Layer

if TYPE_CHECKING:
    from toolbus.audit.trail import AuditTrail


class Policing:
    """What the guards of a bus enforce; a reload replaces it in one step."""

    def __init__(self, config: BusConfig) -> None:
        self.warn: Callable[[str], None] = lambda message: None
        """Reports a problem to the user, once."""
        self.changed: Callable[[], None] = lambda: None
        """Called when something else is enforced."""
        self.answers = Answers(lambda message: self.warn(message))
        self._views = False
        """Whether there are views with policies."""
        self._trail: AuditTrail | None = None
        self._audit: Audit | None = None
        """The setting that the trail was opened with."""
        self.now = Enforced(layer=Layer(()))
        self._use(config, self.prepare(config))

    @property
    def observers(self) -> tuple[Observer, ...]:
        """The audit trail follows every operation."""
        return () if self._trail is None else (self._trail,)

    @property
    def needed(self) -> bool:
        """Whether there is anything to enforce or to record."""
        return self._views or bool(self.now.layer.policy.rules) or self.now.trail is not None

    def of_view(self, rules: Sequence[PolicyRule]) -> Layer:
        """The policy of a view, to be enforced from now on."""
        self._views = True
        self.changed()
        return Layer(rules, "view.")

    def prepare(self, config: BusConfig) -> Enforced:
        """What a config wants to be enforced; what did not change stays as it is, with its counts."""
        layer = self.now.layer
        if layer.policy.rules != config.policy:
            layer = Layer(config.policy)
        return Enforced(layer=layer, trail=self._trail if config.audit == self._audit else _trail_of(config))

    def use(self, config: BusConfig, enforced: Enforced) -> None:
        """Enforce what was prepared for a config."""
        self._use(config, enforced)
        self.changed()

    def close(self) -> None:
        """Release the file of the trail."""
        if self._trail is not None:
            self._trail.close()

    def _use(self, config: BusConfig, enforced: Enforced) -> None:
        self.answers.use(config.file)
        if enforced.trail is not self._trail:
            self.close()
            self._trail = cast("AuditTrail | None", enforced.trail)  # of `prepare`
        self._audit = config.audit
        self.now = enforced


def _trail_of(config: BusConfig) -> "AuditTrail | None":
    if config.audit is None:  # most have none, and are spared the import
        return None
    from toolbus.audit.trail import open_trail

    return open_trail(config)


Rules: TypeAlias = Sequence[PolicyRule | Mapping[str, JSON]] | None
"""The rules of a view, as in a config."""


def rules_of(rules: Sequence[PolicyRule | Mapping[str, JSON]]) -> tuple[PolicyRule, ...]:
    """The rules; `ConfigError` names the first that is invalid."""
    return read_policy(list(rules) if isinstance(rules, list | tuple) else rules, Location())
