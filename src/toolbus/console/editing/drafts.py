"""Drafts of servers that people add or change, with their plans and trials."""

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from toolbus.bus.toolbus import Toolbus
from toolbus.config import BusConfig
from toolbus.config.editing.edited import EditedFile, referring
from toolbus.config.find import DOTENV
from toolbus.config.location import is_list, is_mapping
from toolbus.config.model import OFFICIAL_REGISTRY
from toolbus.config.registry import (
    LaunchChoice,
    PublishedInput,
    PublishedServer,
    alias_for,
    choices,
    entry,
    inputs,
    missing,
    with_bundle,
)
from toolbus.config.secrets.literals import Secret, SecretNames, env_name, env_values, referenced_names
from toolbus.connect.registry import FoundServers, RegistrySource
from toolbus.console.editing.fields import Fields
from toolbus.console.editing.forms import (
    InvalidForm,
    MaskedEntry,
    entry_from,
    lines_in,
    restored,
    typed_server,
    with_fields,
)
from toolbus.console.editing.plan import (
    FilePlan,
    NotPlanned,
    adding,
    editing,
    entry_in,
    file_of_config,
    file_with,
    planned,
    removing,
    switching,
)
from toolbus.console.editing.server_trial import ServerTrial
from toolbus.console.trials import Begin
from toolbus.core.values.errors import ConfigError, ToolbusError
from toolbus.core.values.records import JSON
from toolbus.state.thread import in_thread
from toolbus.state.tokens.keyring import (
    free_keyring_name,
    has_keyring,
    keep_in_keyring,
    keyring_reference,
)

MOST_DRAFTS = 16
"""The oldest gives way to one more."""
LONGEST_FORM = 200_000
"""The characters of all fields of a form."""
MOST_SEARCHES = 8
MOST_FOUND = 30
RETRY_SECONDS = 10.0
"""Seconds until a failed search may be retried."""
_SECRET_FIELDS = ("token", "secret-value-1", "secret-value-2", "secret-value-3")
_NOT_KEPT = (*_SECRET_FIELDS, "draft", "digest")
Place: TypeAlias = Literal["env", "keyring"]
Switch: TypeAlias = Literal["enable", "disable", "remove"]


@dataclass(slots=True, kw_only=True)
class ServerDraft:
    """A server that somebody adds or changes. It is forgotten with the process."""

    number: int
    session: str
    """The session of the console that made it; no other one sees it."""
    alias: str = ""
    is_new: bool = True
    typed: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]], repr=False)
    """The fields of the form, without secrets."""
    problem: str = ""
    """The reason if there is nothing to write yet."""
    entry: JSON = field(default=None, repr=False)
    """The entry, with a reference such as `${NAME}` for each secret; None while it is invalid."""
    secrets: tuple[Secret, ...] = ()
    """Those that are stored nowhere yet."""
    place: Place = "env"
    in_keyring: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names in the keyring, by the names of the secrets that go there."""
    kept: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Credentials of the file that stay in it."""
    found: PublishedServer | None = None
    """The server of the registry that it comes from."""
    choice: LaunchChoice | None = None
    warnings: tuple[str, ...] = ()
    is_busy: bool = False
    """Whether the registry is asked."""
    task: asyncio.Task[None] | None = None
    """The look-up in the registry."""
    trial: ServerTrial | None = None

    @property
    def fields(self) -> Fields:
        """The fields of the form, as typed."""
        return Fields.of(self.typed)

    @property
    def written_entry(self) -> JSON:
        """The entry for the file."""
        entry: JSON = restored(self.entry, self.kept)
        for name, kept_as in self.in_keyring.items():
            entry = _replaced(entry, f"${{{name}}}", keyring_reference(kept_as))
        return entry


def _replaced(value: JSON, old: str, new: str) -> JSON:
    if isinstance(value, str):
        return value.replace(old, new)
    if is_mapping(value):
        return {key: _replaced(inner, old, new) for key, inner in value.items()}
    return [_replaced(one, old, new) for one in value] if is_list(value) else value


@dataclass(slots=True, kw_only=True)
class RegistrySearch:
    """A search of the registry, and what it found."""

    words: str
    place: str = ""
    found: FoundServers | None = None
    problem: str = ""
    task: asyncio.Task[None] | None = None
    began: float = field(default_factory=time.monotonic)


class ServerDrafts:
    """The drafts and searches of all sessions, and how a draft is written."""

    def __init__(self, bus: Toolbus, begin: Begin, changed: Callable[[], None]) -> None:
        self._bus = bus
        self._begin = begin
        self._changed = changed
        self._numbers = itertools.count(1)
        self._drafts: dict[int, ServerDraft] = {}
        self._searches: dict[str, RegistrySearch] = {}
        self.refusal: str = ""
        """The reason if this console must write nothing."""

    @property
    def config(self) -> BusConfig:
        return self._bus.config

    @property
    def may_edit(self) -> bool:
        """Whether this console may start programs and write the config."""
        return not self.why_not

    @property
    def why_not(self) -> str:
        """The reason why it may not; empty if it may."""
        if self.refusal:
            return self.refusal
        return "" if self.config.file is not None else "This bus has no config file."

    def check(self) -> None:
        """`NotPlanned` if this console may not write."""
        if self.why_not:
            raise NotPlanned(self.why_not)

    def get(self, number: str, session: str) -> ServerDraft | None:
        """The draft of a session, if it is still known."""
        draft = self._drafts.get(int(number)) if number.isdecimal() and len(number) < 10 else None
        return draft if draft is not None and draft.session == session else None

    def discard(self, draft: ServerDraft) -> None:
        self.end_trial(draft)
        self._drafts.pop(draft.number, None)

    def _new(self, session: str, **facts: Any) -> ServerDraft:
        self.check()
        if len(self._drafts) >= MOST_DRAFTS:
            self.discard(next(iter(self._drafts.values())))
        draft = ServerDraft(number=next(self._numbers), session=session, **facts)
        self._drafts[draft.number] = draft
        return draft

    # Adding by URL or command

    async def add_typed(self, session: str, form: Fields, number: str = "") -> ServerDraft:
        """The draft of the form to add a server by URL or command; its problem if it is invalid."""
        draft = self.get(number, session) or self._new(session)
        self._take_form(draft, form)
        try:
            typed = typed_server(form)
            draft.alias = typed.alias
            await in_thread(lambda: self._refer(draft, typed.entry, typed.secret_env))
        except ToolbusError as error:
            draft.problem = _problem(error)
        return draft

    def _take_form(self, draft: ServerDraft, form: Fields) -> None:
        if sum(len(value) for values in form.lists.values() for value in values) > LONGEST_FORM:
            raise NotPlanned(f"the form has more than {LONGEST_FORM:,} characters")
        self.end_trial(draft)
        draft.trial, draft.problem, draft.entry, draft.secrets = None, "", None, ()
        draft.in_keyring, draft.kept = {}, {}
        secret = {one.label for one in inputs(draft.choice) if one.is_secret} if draft.choice else set[str]()
        hidden = {*_NOT_KEPT, *(f"input-{label}" for label in secret)}
        draft.typed = {name: values for name, values in form.lists.items() if name not in hidden}
        draft.place = "keyring" if form.get("place") == "keyring" else "env"

    def _refer(self, draft: ServerDraft, plain: Mapping[str, JSON], secret_env: Mapping[str, str]) -> None:
        """Give the draft its entry, with references for secrets; in a thread."""
        path = file_of_config(self.config) if draft.is_new else file_with(self.config, draft.alias)
        edited = EditedFile.read(path, is_named=True)
        names = SecretNames(env_values(path.parent))
        others = {alias: one for alias, one in edited.servers().items() if alias != draft.alias}
        entry, secrets = referring(draft.alias, plain, others, names)
        avoid = frozenset[str]().union(*(referenced_names(one) for one in others.values() if is_mapping(one)))
        for name, value in secret_env.items():
            unique = names.name(env_name(name), draft.alias, value, avoid=avoid)
            secrets = (*secrets, Secret(server=draft.alias, key=f"env.{name}", name=unique, value=value))
            entry["env"] = {**entry.get("env", {}), name: f"${{{unique}}}"}
        self._settle(draft, entry, secrets)

    def _settle(self, draft: ServerDraft, entry: JSON, secrets: Sequence[Secret]) -> None:
        """Set the entry to write, unless it is invalid; in a thread."""
        if draft.place == "keyring":
            draft.in_keyring = {one.name: free_keyring_name(one.name, one.value) for one in secrets}
        draft.secrets, draft.entry = tuple(secrets), entry
        if (problem := self.plan(draft).problem) is not None:
            draft.entry = None
            raise InvalidForm(problem)

    # Adding from the registry

    def search(self, words: str) -> RegistrySearch:
        """Search the registry, unless that is known already."""
        known = self._searches.get(words)
        if known is not None and (not known.problem or time.monotonic() - known.began < RETRY_SECONDS):
            return known
        self.check()
        while len(self._searches) >= MOST_SEARCHES:
            self._searches.pop(next(iter(self._searches)))
        search = self._searches[words] = RegistrySearch(words=words)
        search.task = self._begin(self._search(search), "search the registry")
        return search

    async def _search(self, search: RegistrySearch) -> None:
        try:
            source = await asyncio.to_thread(self._registry)
            search.place = source.place
            search.found = await source.search(search.words.split(), MOST_FOUND)
        except ToolbusError as error:
            search.problem = str(error)
        finally:
            self._changed()

    def _registry(self) -> RegistrySource:
        """The registry that the config names; one in a file that is not trusted names none."""
        edited = EditedFile.read(file_of_config(self.config), is_named=self.config.reviewed is None)
        is_trusted = edited.is_named or edited.is_own
        return RegistrySource(place=edited.registry if is_trusted else OFFICIAL_REGISTRY)

    def add_published(self, session: str, name: str, kind: str) -> ServerDraft:
        """Begin a draft of a server of the registry: it is looked up, and a bundle is downloaded."""
        draft = self._new(session, is_busy=True, alias=name)
        draft.task = self._begin(self._look_up(draft, name, kind), f"look {name!r} up")
        return draft

    async def _look_up(self, draft: ServerDraft, name: str, kind: str) -> None:
        try:
            source = await asyncio.to_thread(self._registry)
            found = await source.named(name)
            if len(found) != 1:
                listed = ", ".join(one.name for one in found[:MOST_FOUND])
                raise InvalidForm(f"{len(found)} servers have that name; search for one of them: {listed}")
            draft.found = found[0]
            every = choices(found[0])
            usable = [one for one in every if one.problem is None]
            picked = next((one for one in usable if one.label == kind), next(iter(usable), None))
            if picked is None:
                raise InvalidForm(every[0].problem or "" if every else "it names no package and no URL")
            if picked.kind == "mcpb" and picked.package is not None:
                content = await source.download(picked.package.identifier)
                picked = await asyncio.to_thread(with_bundle, picked, content)
            draft.choice, draft.alias = picked, alias_for(found[0])
            if not inputs(picked):
                await self.fill(draft, Fields())
        except ToolbusError as error:
            draft.problem = _problem(error)
        finally:
            draft.is_busy = False
            self._changed()

    async def fill(self, draft: ServerDraft, form: Fields) -> None:
        """Take the inputs of a server of the registry."""
        choice = draft.choice
        assert choice is not None, "it was looked up"
        self._take_form(draft, form)
        given = {one.label: _values(form, one) for one in inputs(choice)}
        values = {label: texts for label, texts in given.items() if texts}
        draft.alias = form.get("name").strip() or alias_for(choice.server)
        try:
            if lacking := missing(choice, values):
                raise InvalidForm(f"needs a value for {', '.join(one.label for one in lacking)}")
            await in_thread(lambda: self._convert(draft, choice, values))
        except ToolbusError as error:
            draft.problem = _problem(error)

    def _convert(
        self, draft: ServerDraft, choice: LaunchChoice, values: Mapping[str, tuple[str, ...]]
    ) -> None:
        path = file_of_config(self.config)
        known = EditedFile.read(path, is_named=True).servers()
        names = SecretNames(env_values(path.parent))
        avoid = frozenset[str]().union(*(referenced_names(one) for one in known.values() if is_mapping(one)))
        made = entry(choice, values, alias=draft.alias, names=names, avoid=avoid)
        config, others = referring(draft.alias, made.config, known, names)
        draft.warnings = made.warnings
        self._settle(draft, config, (*made.secrets, *others))

    # Editing

    async def edit(self, session: str, alias: str, form: Fields) -> ServerDraft:
        """The draft of another entry for a server, from its usual fields or from its text."""
        draft = self.get(form.get("draft"), session)
        if draft is None or draft.is_new or draft.alias != alias:
            draft = self._new(session, alias=alias, is_new=False)
        self._take_form(draft, form)
        try:
            await in_thread(lambda: self._change(draft, form))
        except ToolbusError as error:
            draft.problem = _problem(error)
        return draft

    def _change(self, draft: ServerDraft, form: Fields) -> None:
        path, now = entry_in(self.config, draft.alias)
        masked = MaskedEntry.of(now)
        if form.get("as") == "text":
            edited: JSON = entry_from(form.get("text"), path)
        else:
            edited = with_fields(masked.shown, form)
        if isinstance(now, str) and edited == {"url": masked.shown}:
            edited = masked.shown
        entry, draft.kept = masked.kept(edited)
        if is_mapping(entry):
            self._refer(draft, {str(key): one for key, one in entry.items()}, {})
        else:
            self._settle(draft, entry, ())

    # What would be written

    def plan(self, draft: ServerDraft) -> FilePlan:
        """The plan for a valid draft; in a thread. `ToolbusError` if there is none."""
        if draft.is_new:
            path, change = file_of_config(self.config), adding(draft.alias, draft.written_entry)
        else:
            path, change = file_with(self.config, draft.alias), editing(draft.alias, draft.written_entry)
        return planned(self.config, path, draft.alias, change)

    def plan_switch(self, alias: str, switch: Switch) -> FilePlan:
        """The plan to enable, disable or remove a server; in a thread."""
        change = removing(alias) if switch == "remove" else switching(alias, on=switch == "enable")
        return planned(self.config, file_with(self.config, alias), alias, change)

    async def save(self, draft: ServerDraft, digest: str) -> str | None:
        """Write a draft if the file is as it was shown; what to know, None if it has changed meanwhile."""
        self.check()

        def write() -> str | None:
            plan = self.plan(draft)
            if plan.digest != digest:
                return None
            if (problem := plan.problem) is not None:
                raise InvalidForm(problem)
            if draft.choice is not None and draft.choice.bundle is not None:
                draft.choice.bundle.unpack()
            to_env = [one for one in draft.secrets if one.name not in draft.in_keyring]
            for one in draft.secrets:
                if one.name in draft.in_keyring:
                    keep_in_keyring(draft.in_keyring[one.name], one.value)
            note = plan.edited.save(plan.after, to_env) or ""
            if to_env and (plan.path.parent / ".git").exists():
                note = f"{note} Add {DOTENV} to .gitignore to keep it out of version control.".strip()
            return note

        done = await in_thread(write)
        if done is not None:
            self.discard(draft)
        return done

    async def save_switch(self, alias: str, switch: Switch, digest: str) -> str | None:
        """Enable, disable or remove a server in its file, if that is as it was shown; as `save`."""
        self.check()

        def write() -> str | None:
            plan = self.plan_switch(alias, switch)
            return None if plan.digest != digest else plan.edited.save(plan.after) or ""

        return await in_thread(write)

    async def until_used(self, is_used: Callable[[BusConfig], bool], seconds: float) -> bool:
        """Whether the bus uses a config like that within a time."""
        until = asyncio.get_running_loop().time() + seconds
        while not is_used(self.config):
            if asyncio.get_running_loop().time() >= until:
                return False
            await asyncio.sleep(0.1)
        return True

    # The trial

    async def begin_trial(self, draft: ServerDraft) -> None:
        """Start the server of a draft, and list its tools."""
        self.check()
        if draft.entry is None or (draft.trial is not None and draft.trial.is_running):
            return
        server = await in_thread(lambda: self._server_to_try(draft))
        draft.trial = trial = ServerTrial()
        secrets = {one.name: one.value for one in draft.secrets}
        trial.task = self._begin(
            trial.run(self.config, server, secrets, self._changed), f"try {draft.alias!r}"
        )

    def _server_to_try(self, draft: ServerDraft) -> Any:
        plan = self.plan(draft)
        if (problem := plan.problem) is not None:
            raise InvalidForm(problem)
        if draft.choice is not None and draft.choice.bundle is not None:
            draft.choice.bundle.unpack()
        if draft.in_keyring:  # nothing is in there yet
            draft_entry = restored(draft.entry, draft.kept)
            path: Path = plan.path
            change = adding(draft.alias, draft_entry) if draft.is_new else editing(draft.alias, draft_entry)
            plan = planned(self.config, path, draft.alias, change)
        assert plan.server is not None, "it is being added"
        return plan.server

    def end_trial(self, draft: ServerDraft) -> None:
        """End the trial, and its process."""
        if draft.trial is not None and draft.trial.task is not None:
            draft.trial.task.cancel()

    async def places(self) -> list[Place]:
        """The places that can keep secrets."""
        return ["env", "keyring"] if await in_thread(has_keyring) else ["env"]


def _values(form: Fields, one: PublishedInput) -> tuple[str, ...]:
    """The values of an input; an input with several values takes one per line."""
    text = form.get(f"input-{one.label}")
    return tuple(lines_in(text)) if one.is_repeated else (text,) if text else ()


def _problem(error: ToolbusError) -> str:
    """The problem, with the field; the alias is on the page."""
    if isinstance(error, ConfigError):
        return "; ".join(": ".join(filter(None, (one.key, one.problem))) for one in error.mistakes)
    return str(error)
