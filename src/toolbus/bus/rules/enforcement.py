"""The policy, the audit trail and the telemetry of a bus, which its users and views share."""

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import TypeAlias

from toolbus.config import BusConfig
from toolbus.config.load import setting
from toolbus.config.settings.audit import Audit
from toolbus.config.settings.policy import PolicyRule
from toolbus.core.operation.operation import Observer
from toolbus.core.values.records import JSON
from toolbus.policy.answers import Answers
from toolbus.policy.counts import RuleCounts
from toolbus.policy.guard import ActiveRules, AuditLog
from toolbus.policy.layers import Layer
from toolbus.policy.quotas.quotas import Quotas
from toolbus.state.seal import SharedSeal
from toolbus.telemetry.observer import BusTelemetry


class Enforcement:
    """The rules, quotas and audit log that the guards of a bus enforce; a reload replaces them at once."""

    def __init__(self, config: BusConfig) -> None:
        self.warn: Callable[[str], None] = lambda message: None
        """Reports a problem to the user, once."""
        self.changed: Callable[[], None] = lambda: None
        """Called when something else is enforced."""
        self.answers = Answers(lambda message: self.warn(message))
        self.shared: SharedSeal | None = None
        """The seal for suspended scripts, if other replicas are to resume them."""
        self.telemetry = BusTelemetry(config)
        self._audit: Audit | None = None
        self._trails: list[AuditLog] = []
        """The trail, and those that calls in flight may still use."""
        self._followers: tuple[Observer, ...] = ()
        """The observers that were added to the running bus."""
        self._views = False
        """Whether there are views with policies."""
        self._adding = RLock()
        """Held while any thread adds views or observers and lays the path for them."""
        self.disabled: tuple[str, ...] = ()
        """The aliases of disabled servers; a rule about one waits for it."""
        self.now = ActiveRules(layer=Layer(()))
        self.quotas = Quotas()
        self._use(config, self.prepare(config))

    def count_decisions(self) -> RuleCounts:
        """Count the decisions of the rules from now on; every caller gets the same counts."""
        with self._adding:
            if self.now.counts is None:
                self.now = ActiveRules(layer=self.now.layer, trail=self.now.trail, counts=RuleCounts())
            assert self.now.counts is not None, "it was just set"
            return self.now.counts

    @property
    def observers(self) -> tuple[Observer, ...]:
        """The audit trail, if there is one, and those that were added follow every operation."""
        return self._followers if self.now.trail is None else (self.now.trail, *self._followers)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Let an observer follow every operation from now on; returns a function that ends it."""
        with self._adding:
            self._followers = (*self._followers, observer)
            self.changed()

        def end() -> None:
            with self._adding:
                self._followers = tuple(one for one in self._followers if one is not observer)
                self.changed()

        return end

    @property
    def needed(self) -> bool:
        """Whether there is anything to enforce or to record."""
        return self._views or bool(self.now.layer.policy.rules) or self.now.trail is not None

    def of_view(self, rules: Sequence[PolicyRule] | Layer) -> Layer:
        """The policy of a view, to be enforced from now on."""
        with self._adding:
            if not self._views:
                self._views = True
                self.changed()
        return rules if isinstance(rules, Layer) else shared_rules(rules)

    def prepare(self, config: BusConfig) -> ActiveRules:
        """The rules and the audit log of a config; unchanged parts stay as they are, with their counts."""
        layer, wanted = self.now.layer, Layer(config.policy)
        if layer != wanted:
            layer = wanted
        trail = self.now.trail
        if config.audit != self._audit:
            trail = None if config.audit is None else _open_trail(config)
        return ActiveRules(layer=layer, trail=trail, counts=self.now.counts)

    def use(self, config: BusConfig, enforced: ActiveRules) -> None:
        """Enforce the prepared rules of a config."""
        self._use(config, enforced)
        self.changed()

    def _use(self, config: BusConfig, enforced: ActiveRules) -> None:
        self.answers.use(config.file)
        self.quotas.use(config.quotas)
        self._audit = config.audit
        self.telemetry.use(config)
        self.disabled = (*config.disabled, *config.outside)
        before, layer, self.now = self.now.trail, self.now.layer, enforced
        if enforced.counts is not None and enforced.layer is not layer:
            enforced.counts.begin()
        if enforced.trail is not before:
            if before is not None:
                before.close()
            if enforced.trail is not None:
                self._trails.append(enforced.trail)

    def close(self) -> None:
        """Release the files of the audit trail; calls that end later open them again."""
        for trail in self._trails:
            trail.close()


def _open_trail(config: BusConfig) -> AuditLog | None:
    from toolbus.audit.trail import open_trail  # only some programs have one

    return open_trail(config)


Rules: TypeAlias = Sequence[PolicyRule | Mapping[str, JSON]] | Layer | None
"""The rules of a view, as in a config; or the rules of several views, with shared call counts."""


def shared_rules(rules: Sequence[PolicyRule]) -> Layer:
    """Rules for several views: a rate counts the calls of one caller through all of them."""
    return Layer(rules, "view.")


def rules_of(rules: Sequence[PolicyRule | Mapping[str, JSON]] | Layer) -> tuple[PolicyRule, ...] | Layer:
    """The rules; `ConfigError` names the first that is invalid."""
    if isinstance(rules, Layer):
        return rules
    return setting("policy", rules)
