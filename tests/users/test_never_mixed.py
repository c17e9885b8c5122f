"""Users, sessions and views never mix, for generated configs and interleavings.

Every list and result of the server names whom its connection belongs to. A model of a few lines predicts the
content of each view. The bus has to agree, after any history and any order of requests. After each step,
every tenant shows a snapshot of its current inputs. A change that was not announced would leave an old one in
place.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inside.bus import (
    BusSnapshot,
    CatalogShaper,
    LockApprovals,
    Scope,
    SnapshotInputs,
    Snapshots,
    View,
    calls_of,
)
from tests.inside.config import PolicyRule
from tests.inside.core import Caller, Inventory, Origin, Same, ToolSpec
from tests.inside.lock import NAME, Lockfile, snapshot, write_lock
from tests.inside.policy import Layer
from tests.properties import modest
from tests.users.personal_bus import heard
from toolbus import CallDenied, ConnectionLost, ServerDown, SessionView, Toolbus, ToolNotFound
from toolbus.config import load_config
from toolbus.events import CallEnded
from toolbus.records import Prompt, Resource

USERS = ("", "ann", "bob")
SESSIONS = (None, "one", "two")
ALIASES = ("own", "same", "open")
"""Servers with a token of each user, with a token that is the same for all, and without one."""
TOOLS = ("whoami", "long", "hang", "process", "log", "touch")
LOCKED: tuple[frozenset[str] | None, ...] = (
    None,
    frozenset(),
    frozenset({"whoami", "long", "log"}),
    frozenset({"whoami", "only_bus"}),
    frozenset({*TOOLS, "only_bus", "only_ann", "only_bob", "only_open"}),
)
"""The approved tools of every server; None without a lockfile."""
DENIALS: st.SearchStrategy[tuple[str, ...]] = st.sampled_from(
    [(), ("own/*",), ("*/only_*",), ("same/log", "open/whoami"), ("*/touch",)]
)

Who = tuple[str, str | None]
Step = tuple[str, Who, Any]

WHO = st.tuples(st.sampled_from(USERS), st.sampled_from(SESSIONS))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), WHO, st.sampled_from(ALIASES)),
        st.tuples(st.just("call"), WHO, st.sampled_from(ALIASES)),
        st.tuples(st.just("list"), WHO, DENIALS),
        st.tuples(st.just("cut"), WHO, WHO),
        st.tuples(st.just("policy"), st.just(("", None)), DENIALS),
        st.tuples(st.just("lock"), st.just(("", None)), st.sampled_from(LOCKED)),
        st.tuples(st.just("lose"), WHO, st.sampled_from(ALIASES)),
        st.tuples(st.just("together"), WHO, st.tuples(WHO, DENIALS, st.sampled_from(LOCKED))),
        st.tuples(st.just("end"), WHO, st.none()),
    ),
    min_size=4,
    max_size=12,
)


def tenant_of(view: Any) -> Any:
    return view._tenant


class Model:
    """A bus, and what each of its views has to show."""

    def __init__(
        self,
        port: int,
        folder: Path,
        differing: frozenset[str],
        apart: frozenset[str],
        approved: frozenset[str] | None,
    ) -> None:
        """The users whose token differs from the bus's own, and the servers with `per_session`."""
        self.differing, self.apart, self.port, self.folder = differing, apart, port, folder
        self.denied: Sequence[str] = ()
        self.approved = approved
        self.write()
        self.bus = Toolbus(load_config(folder / "toolbus.json"), get_secret=self.secret)
        self.views: dict[Who, View] = {}
        self.heard: dict[Who, list[CallEnded]] = {}
        self.made: dict[Who, list[str]] = {}

    def config(self) -> dict[str, Any]:
        tokens = {"own": "${TOKEN}", "same": "${SAME}", "open": "open"}
        url = f"http://127.0.0.1:{self.port}/mcp"
        servers = {
            alias: {"url": url, "headers": {"Authorization": f"Bearer {token}"}, "prefix": alias}
            | ({"per_session": True} if alias in self.apart else {})
            for alias, token in tokens.items()
        }
        rules = [{"tools": list(self.denied), "do": "deny"}] if self.denied else []
        return {"servers": servers, "policy": rules}

    def write(self) -> None:
        """Write the config, and the lockfile if there is one."""
        file, lockfile = self.folder / "toolbus.json", self.folder / NAME
        file.write_text(json.dumps(self.config()))
        lockfile.unlink(missing_ok=True)
        if self.approved is not None:
            config = load_config(file)
            locked = {
                alias: snapshot(server, config.folder, offered(alias, self.approved), None).locked
                for alias, server in config.servers.items()
            }
            write_lock(Lockfile(path=lockfile, servers=locked))

    async def reload(self) -> None:
        self.write()
        await self.bus.reload(load_config(self.folder / "toolbus.json"))

    def check_current(self) -> None:
        """Each tenant shows the snapshot of its inputs, or knows that it is outdated."""
        for view in (self.bus, *self.views.values()):
            tenant = tenant_of(view)
            live = tenant.live
            if not live.is_outdated and tenant.access.running:
                assert live._published.snapshot.inputs == tenant._inputs()
                assert live.current is live._published.shaped.catalog

    def secret(self, name: str, user: str) -> str:
        return user if name == "TOKEN" and user in self.differing else "bus"

    def owner(self, who: Who, alias: str) -> str:
        """The owner of a connection that `who` uses."""
        if alias == "own" and who[0] in self.differing:
            return who[0]
        return "open" if alias == "open" else "bus"

    def shown(self, who: Who, denied: Sequence[str]) -> set[str]:
        """The tools of a view that denies more."""
        every = {f"{alias}/{tool}" for alias in ALIASES for tool in TOOLS}
        every |= {f"{alias}/only_{self.owner(who, alias)}" for alias in ALIASES}
        if self.approved is not None:
            every = {name for name in every if name.partition("/")[2] in self.approved}
        patterns = (*self.denied, *denied)
        return {name for name in every if not any(fnmatchcase(name, one) for one in patterns)}

    def view(self, who: Who) -> View:
        if who not in self.views:
            user, session = who
            if session is not None:
                view = self.bus.as_user(user, session=session)
            else:
                view = self.bus.as_user(user) if user else self.bus
            self.views[who], self.heard[who] = view, heard(view, CallEnded)
            self.made[who] = []
        return self.views[who]

    async def step(self, kind: str, who: Who, given: Any) -> None:
        view = self.view(who)
        match kind:
            case "call":
                await self._call(who, view, given)
            case "list":
                await self._ready(view)
                rules = [{"tools": list(given), "do": "deny"}] if given else []
                narrow = view.view(policy=rules) if rules else view
                assert {
                    str(spec.origin) for spec in narrow.catalog if spec.route == "tools/call"
                } == self.shown(who, given)
                assert {item.uri for item in view.resources("own")} == {
                    "me://profile",
                    f"me://{self.owner(who, 'own')}",
                }
            case "cut":
                await self._cut(who, view, given)
            case "policy":
                self.denied = given
                await self.reload()
            case "lock":
                self.approved = given
                await self.reload()
            case "lose":
                await self._lose(view, given)
            case "together":
                await self._together(who, given)
            case _:
                if isinstance(view, SessionView):
                    del self.views[who]
                    await view.close()

    async def _lose(self, view: View, alias: str) -> None:
        """Lose a link of that view; a link that was not built yet cannot be lost."""
        tenant = tenant_of(view)
        await view.connect(alias)
        await tenant.access.run(tenant.servers.restart(alias))

    async def _together(self, who: Who, given: Any) -> None:
        """Calls while a link is lost, and the policy and the lock change: each refused, or its own."""
        other, denied, approved = given
        pairs = [(one, alias) for one in dict.fromkeys((who, other)) for alias in ALIASES]
        for one, _ in pairs:
            await self._ready(self.view(one))
        calls = [asyncio.create_task(self._call_meanwhile(one, alias)) for one, alias in pairs * 2]
        self.denied, self.approved = denied, approved
        await asyncio.gather(*calls[: len(pairs)], self.reload(), self._lose(self.view(who), "own"))
        await asyncio.gather(*calls)
        for one, alias in pairs:  # from now on, each call is decided by the new rules
            await self._call(one, self.view(one), alias)

    async def _call_meanwhile(self, who: Who, alias: str) -> None:
        try:
            text = (await self.view(who).call(f"{alias}/whoami", {"n": 1})).text
        except (CallDenied, ToolNotFound, ConnectionLost, ServerDown):
            return
        assert text == f"{self.owner(who, alias)} 1"
        self.made[who].append(f"{alias}_whoami")

    async def _ready(self, view: View) -> None:
        for alias in ALIASES:
            await view.connect(alias)

    async def _call(self, who: Who, view: View, alias: str) -> None:
        try:
            text = (await view.call(f"{alias}/whoami", {"n": 1})).text
        except (CallDenied, ToolNotFound):
            assert f"{alias}/whoami" not in self.shown(who, ())
        else:
            assert f"{alias}/whoami" in self.shown(who, ())
            assert text == f"{self.owner(who, alias)} 1"
            self.made[who].append(f"{alias}_whoami")

    async def _cut(self, who: Who, view: View, other: Who) -> None:
        await self._ready(view)
        if (tool := view.catalog.get("open/long")) is None:
            return
        kept: Any = (await calls_of(view).run(tool, {})).meta["toolbus"]
        self.made[who].append("open_long")
        for reader in dict.fromkeys((other, who)):
            if (read := self.view(reader).catalog.get("toolbus/read_result")) is not None:
                text = (await calls_of(self.view(reader)).run(read, {"id": kept["kept_as"]})).text
                self.made[reader].append("read_result")
                assert ("unknown result" in text) is (reader != who)
        assert "toolbus/read_result" in view.catalog


@settings(modest, max_examples=12)
@given(
    steps=STEPS,
    approved=st.sampled_from(LOCKED),
    differing=st.sets(st.sampled_from(USERS[1:])).map(frozenset),
    apart=st.sets(st.sampled_from(ALIASES)).map(frozenset),
    at_once=st.booleans(),
)
def test_whoever_comes_before_or_at_the_same_time(
    personal_port: int,
    steps: list[Step],
    approved: frozenset[str] | None,
    differing: frozenset[str],
    apart: frozenset[str],
    at_once: bool,
) -> None:
    async def run(folder: Path) -> None:
        model = Model(personal_port, folder, differing, apart, approved)
        async with model.bus:
            for kind, who, given in steps:
                await model.step(kind, who, given)
                model.check_current()
                if at_once and kind == "policy":
                    everybody = [(user, session) for user in USERS for session in SESSIONS]
                    await asyncio.gather(*(model.step("call", one, "own") for one in everybody))
            await asyncio.gather(*(model.step("list", who, ()) for who in list(model.views)))
            for who in model.views:
                ended = [event.name for event in model.heard[who] if not event.is_error]
                made = model.made[who]
                assert sorted(ended) == sorted(made), "of its own calls, and of nobody else's"

    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


def offered(alias: str, names: frozenset[str]) -> Inventory:
    """The listing of the server, as far as it is approved."""
    return Inventory(
        tools=tuple(
            ToolSpec(
                name=name, origin=Origin(alias, name), route="tools/call", input_schema={"type": "object"}
            )
            for name in sorted(names)
        )
    )


# What is remembered of a snapshot is what a fresh one has

NAMES = ("get", "put", "drop")
CONFIGS = [
    {"servers": {"a": {"command": "x"}, "b": {"command": "x"}}},
    {"servers": {"a": {"command": "x", "exclude": ["get"]}, "b": {"command": "x"}}, "resource_tools": True},
    {"servers": {"a": {"command": "x"}, "b": {"command": "x", "prefix": ""}}, "prompt_tools": True},
]
SHAPERS = [CatalogShaper(config, ()) for config in map(load_config, CONFIGS)]


def inventory(server: str, names: Sequence[str], word: str) -> Inventory:
    return Inventory(
        tools=tuple(
            ToolSpec(name=name, origin=Origin(server, name), route="tools/call", description=word)
            for name in names
        ),
        resources=tuple(Resource(server=server, uri=f"x://{name}", name=name) for name in names),
        prompts=tuple(Prompt(server=server, name=name) for name in names),
    )


INVENTORIES = [
    {server: inventory(server, names, word) for server in ("a", "b")}
    for names, word in (((), ""), (("get", "put"), "one"), (("get", "put"), "two"), (NAMES, "one"))
]


def approvals_of(*approved: int | None) -> LockApprovals:
    """The approvals of a lockfile with these approved INVENTORIES."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "toolbus.json"
        file.write_text(json.dumps(CONFIGS[0]))
        config = load_config(file)
        locked = {
            alias: snapshot(config.servers[alias], config.folder, INVENTORIES[one][alias], None).locked
            for alias, one in zip("ab", approved, strict=True)
            if one is not None
        }
        write_lock(Lockfile(path=Path(folder) / NAME, servers=locked))
        return LockApprovals(config)


APPROVALS = [
    LockApprovals(load_config(CONFIGS[0])),
    approvals_of(1, 1),
    approvals_of(2, 3),
    approvals_of(1, None),
]


def layer_of(denied: str | None, prefix: str) -> Layer | None:
    return None if denied is None else Layer([PolicyRule(tools=(denied,), do="deny")], prefix)


DENIED = st.none() | st.sampled_from(["a/*", "*/get", "b/drop", "*"])


@st.composite
def inputs_of(draw: st.DrawFn) -> SnapshotInputs:
    a, b = draw(st.sampled_from(INVENTORIES)), draw(st.sampled_from(INVENTORIES))
    return SnapshotInputs(
        shaping=Same(draw(st.sampled_from(SHAPERS))),
        approvals=Same(draw(st.sampled_from(APPROVALS))),
        listed=(("a", Same(a["a"])), ("b", Same(b["b"]))),
        policy=layer_of(draw(DENIED), ""),
        keeps_results=draw(st.booleans()),
    )


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    servers = draw(st.none() | st.sets(st.sampled_from(["a", "b"])))
    return Scope().narrowed(
        None if servers is None else frozenset(servers),
        draw(st.none() | st.sampled_from(["*", "a_*", "*/get"])),
        draw(st.none() | st.builds(Caller, user=st.sampled_from(USERS))),
        layer_of(draw(DENIED), "view."),
        draw(st.none() | st.sampled_from(["*_put", "b/*", "nothing"])),
    )


def facts(found: BusSnapshot, scope: Scope) -> Any:
    """All that a view of that scope gets from a snapshot."""
    shaped = found.shaped
    origins = [Origin(server, name) for server in "ab" for name in NAMES]
    targets = [shaped.target(origin) for origin in origins]
    return (
        [(spec.name, spec.description) for spec in scope.catalog(shaped.catalog)],
        list(shaped.removed.names),
        found.offered(scope.policies),
        sorted(found.held),
        [found.digest(kind, one.server, one.tool) for kind in ("tool", "prompt") for one in origins],
        [target and target.spec for target in targets],
    )


@modest
@given(st.lists(st.tuples(inputs_of(), scopes()), min_size=1, max_size=4))
def test_a_remembered_view_is_the_one_that_is_made_alone(asked: list[tuple[SnapshotInputs, Scope]]) -> None:
    """Of neighbors that differ in one field, in any order: a key that forgot a field would mix them."""
    first = asked[0]
    neighbors = [
        (replace(first[0], **{name: getattr(inputs, name)}), scope)
        for inputs, scope in asked
        for name in SnapshotInputs.__dataclass_fields__
    ]
    neighbors += [
        (first[0], replace(first[1], **{name: getattr(scope, name)}))
        for _, scope in asked
        for name in Scope.__dataclass_fields__
    ]
    snapshots, kept = Snapshots(), list[BusSnapshot]()
    for inputs, scope in (*asked, *neighbors, *asked):
        kept.append(snapshots.of(inputs))
        assert facts(kept[-1], scope) == facts(BusSnapshot(inputs), scope)
