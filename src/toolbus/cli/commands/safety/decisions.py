"""The rules of a policy, one decision of theirs, and stored answers, for `toolbus policy`."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from toolbus.bus.engine.stores import answers_of
from toolbus.bus.inner import calls_of
from toolbus.bus.rules.effects import decided, effects, rule_facts, whole_catalog
from toolbus.bus.rules.targets import listed_target
from toolbus.cli.command import CommandResult, Invocation
from toolbus.cli.commands.use.call import candidate_servers
from toolbus.cli.commands.use.tools import locked_bus
from toolbus.cli.errors import Usage
from toolbus.cli.input.arguments import GivenArguments, read
from toolbus.cli.input.lookup import servers_down
from toolbus.cli.output.policy_report import (
    AnswerFacts,
    Explanation,
    Overview,
    answer_json,
    explanation_json,
    for_user,
    overview_json,
    print_explanation,
    print_overview,
)
from toolbus.cli.output.screen import Screen, quoted, visible
from toolbus.cli.session import start_idle_servers
from toolbus.config import BusConfig
from toolbus.config.settings.policy import REQUESTS
from toolbus.core.values.errors import ServerNotFound, ToolbusError
from toolbus.core.values.records import JSON, OWN, Inventory, ToolSpec
from toolbus.lock.definitions import Kind as DefinitionKind
from toolbus.lock.definitions import any_digest, definitions
from toolbus.policy.answers import AnswerKey, StoredAnswer, rule_digest
from toolbus.policy.rule import label
from toolbus.policy.rules import Policy, PolicyTarget

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

Kind: TypeAlias = Literal["resource", "prompt", "request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyQuestion:
    """A question of the user about the policy."""

    name: str | None
    kinds: tuple[Kind, ...]
    """The kinds of the name, if it is not a tool."""
    given: GivenArguments
    forget: bool

    def check(self) -> None:
        """Raise `Usage` if the options contradict each other."""
        options = [f"--{kind}" for kind in self.kinds] + (["--forget"] if self.forget else [])
        has_arguments = bool(self.given.whole or self.given.single)
        if len(options) > 1:
            raise Usage(f"{options[0]} and {options[1]} exclude each other; keep one")
        if self.kinds and self.name is None:
            raise Usage(f"{options[0]} needs a name: SERVER/{_EXAMPLES[self.kinds[0]]}")
        if has_arguments and (self.forget or self.name is None):
            raise Usage("arguments belong to a call; name the tool, as in toolbus policy TOOL KEY=VALUE")


class NoAnswers(ToolbusError):
    """There are no stored answers about something."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        others = f"answers are stored for {', '.join(known)}" if known else "no answers are stored"
        super().__init__(f"no answer is stored for {name!r}; {others}")


_DEFINED: Mapping[str, DefinitionKind] = {"tool": "tools", "prompt": "prompts"}
_EXAMPLES: Mapping[Kind, str] = {"resource": "URI", "prompt": "PROMPT", "request": "|".join(REQUESTS)}


async def shown_policy(own: Invocation, question: PolicyQuestion) -> CommandResult:
    """The policy, one decision, or the answers that were forgotten; nobody is asked anything."""
    question.check()
    screen, config = own.screen, own.config
    if question.forget:
        return _forget(screen, config, await _stored_name(own, question.name))
    own.selected()  # there has to be one
    if question.name is None:
        async with _listed(own, list(config.servers)) as bus:
            overview = _overview(screen, config, bus)
        return CommandResult(lambda: overview_json(overview), lambda: print_overview(screen, overview))
    found = await _explained(own, question, question.name)
    return CommandResult(lambda: explanation_json(found), lambda: print_explanation(screen, found))


@asynccontextmanager
async def _listed(own: Invocation, servers: Sequence[str]) -> "AsyncGenerator[Toolbus]":
    """A bus that knows the tools of these servers: from the lockfile, else they are started."""
    if (locked := locked_bus(own.config, servers)) is not None:
        yield locked
        return
    async with own.bus(servers) as bus:
        yield bus


# The whole policy


def _overview(screen: Screen, config: BusConfig, bus: "Toolbus") -> Overview:
    catalog = whole_catalog(config, bus)
    down = servers_down(bus) if bus.running else {}
    listed = {alias: stock for alias, stock in bus.inventories.items() if alias not in down}
    found = effects(config, catalog, listed)
    return Overview(
        rules=rule_facts(config, found, catalog),
        tools=len(decided(catalog)),
        effects=found,
        answers=[_answer_facts(one, config, listed) for one in _stored(screen, config)],
        quotas=config.quotas,
        down=down,
    )


def _stored(screen: Screen, config: BusConfig) -> list[StoredAnswer]:
    """The stored answers of the config; none if they cannot be used, as for a bus."""
    answers = answers_of(config)
    if answers is None:
        return []
    try:
        return answers.all()
    except OSError as error:
        screen.note(
            f"stored answers are not used: {str(error.filename)!r} {error.strerror or 'cannot be read'}"
        )
    except ValueError as error:
        screen.note(f"stored answers are not used: {error}; delete them: toolbus policy --forget")
    return []


def _answer_facts(stored: StoredAnswer, config: BusConfig, listed: Mapping[str, Inventory]) -> AnswerFacts:
    about = stored.about
    rules = [index for index, rule in enumerate(config.policy) if rule_digest(rule) == about.rule]
    expired = _expiry(about, listed) if rules else "its rule was changed or removed"
    return AnswerFacts(stored=stored, rule=label(rules[0]) if rules else None, expired=expired)


def _expiry(about: AnswerKey, listed: Mapping[str, Inventory]) -> str | None:
    """The reason why a stored answer has expired; None if it has not, as far as that is known."""
    for alias, inventory in listed.items():
        name = about.target.removeprefix(f"{alias}/")
        kind = _DEFINED.get(about.kind)
        if kind is None or name == about.target:
            continue
        definition = definitions(inventory)[kind].get(name)
        if definition is None:
            return f"server {alias!r} does not offer it any more"
        return None if any_digest(definition) == about.definition else "its definition has changed"
    return None


def _forget(screen: Screen, config: BusConfig, name: str | None) -> CommandResult:
    """Delete stored answers."""
    answers = _stored(screen, config)
    gone = [one for one in answers if name is None or _is_about(one, name)]
    if name is not None and not gone:
        raise NoAnswers(name, sorted({one.about.target for one in answers}))
    kept = answers_of(config)
    if kept is not None:
        for target in {one.about.target for one in gone} if name is not None else [None]:
            kept.forget(target)

    def lines() -> None:
        for one in gone:
            about = one.about
            screen.line(visible(f"forgot {one.answer!r} for {about.target}{for_user(about.user)}"))
        if not gone:
            screen.note("there are no stored answers")

    return CommandResult({"forgotten": [answer_json(_answer_facts(one, config, {})) for one in gone]}, lines)


async def _stored_name(own: Invocation, name: str | None) -> str | None:
    """The name that stored answers use for a public tool name; other names are returned unchanged."""
    config, answers = own.config, _stored(own.screen, own.config)
    if name is None or not answers or any(_is_about(one, name) for one in answers):
        return name
    servers = [] if "/" in name else candidate_servers(config, name)
    if not servers:
        return name
    async with _listed(own, servers) as bus:
        spec = whole_catalog(config, bus).get(name)
    return name if spec is None else str(spec.origin)


def _is_about(stored: StoredAnswer, name: str) -> bool:
    return stored.about.target == name or stored.about.target.startswith(f"{name}/")


# One decision


async def _explained(own: Invocation, question: PolicyQuestion, name: str) -> Explanation:
    screen, config = own.screen, own.config
    if question.kinds:
        target, arguments = _named_target(config, question.kinds[0], name, question.given)
        return _explanation(config, target, arguments, None, _answers_about(screen, config, target, {}))
    is_given = bool(question.given.whole or question.given.single)
    async with _listed(own, candidate_servers(config, name)) as bus:
        spec = await _found(screen, config, bus, name)
        arguments = spec.to_server(read(question.given, spec, complete=False)) if is_given else None
        target = _target(spec, arguments)
        answers = _answers_about(screen, config, target, bus.inventories)
        return _explanation(config, target, arguments, spec, answers)


async def _found(screen: Screen, config: BusConfig, bus: "Toolbus", name: str) -> ToolSpec:
    """The tool of that name, regardless of the policy."""
    if (spec := whole_catalog(config, bus).get(name)) is not None:
        return spec
    if bus.running:
        # The server may be misspelt: with all of them up, the error can suggest the right name.
        await start_idle_servers(screen, bus, config)
    whole = whole_catalog(config, bus)
    if (spec := whole.get(name)) is None:
        raise calls_of(bus).missing(name, [str(one.origin) if "/" in name else one.name for one in whole])
    return spec


def _target(spec: ToolSpec, arguments: Mapping[str, JSON] | None) -> PolicyTarget | None:
    """The target of a call of the tool; None if it is always allowed."""
    if spec.route != "resources/read":
        return listed_target(spec)
    given = arguments or {}
    server = given.get("server") if spec.origin.server == OWN else spec.origin.server
    if not isinstance(server, str) or not isinstance(given.get("uri"), str):
        needed = "server=... uri=..." if spec.origin.server == OWN else "uri=..."
        raise Usage(f"{spec.name} reads a resource, and the policy decides by its URI; pass {needed}")
    return PolicyTarget(kind="resource", server=server, name=given["uri"])


def _named_target(
    config: BusConfig, kind: Kind, name: str, given: GivenArguments
) -> tuple[PolicyTarget, dict[str, JSON] | None]:
    """The resource, prompt or request that is named, and its arguments; no server is needed for it."""
    alias = next((alias for alias in config.servers if name.startswith(f"{alias}/")), None)
    if alias is None:
        if "/" not in name:
            raise Usage(f"{name!r} names no server; write SERVER/{_EXAMPLES[kind]}")
        raise ServerNotFound(name.partition("/")[0], list(config.servers))
    own = name.removeprefix(f"{alias}/")
    if kind == "request" and own not in REQUESTS:
        raise Usage(f"a server asks for {', '.join(REQUESTS)}, not {quoted(own)}")
    if kind != "prompt" and (given.whole or given.single):
        raise Usage(f"a {kind} takes no arguments")
    arguments = {**given.whole, **dict(given.single)} if given.whole or given.single else None
    if kind == "resource":
        arguments = {"uri": own}
    return PolicyTarget(kind=kind, server=alias, name=own), arguments


def _answers_about(
    screen: Screen, config: BusConfig, target: PolicyTarget | None, listed: Mapping[str, Inventory]
) -> list[AnswerFacts]:
    if target is None:
        return []
    about = target.kind, f"{target.server}/{target.name}"
    stored = _stored(screen, config)
    return [
        _answer_facts(one, config, listed) for one in stored if (one.about.kind, one.about.target) == about
    ]


def _explanation(
    config: BusConfig,
    target: PolicyTarget | None,
    arguments: Mapping[str, JSON] | None,
    spec: ToolSpec | None,
    answers: Sequence[AnswerFacts],
) -> Explanation:
    steps = [] if target is None else Policy(config.policy).explain(target, arguments)
    rule = next((config.policy[step.rule] for step in steps if step.decides), None)
    action = "allow" if rule is None else rule.do
    possible = {config.policy[step.rule].do for step in steps if step.matched is None}
    return Explanation(
        target=target,
        spec=spec,
        arguments=arguments,
        action=action,
        rule=rule,
        steps=steps,
        answers=answers,
        depends=bool(possible - {action}),
    )
