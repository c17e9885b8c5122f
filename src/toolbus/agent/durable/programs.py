"""The programs that execute an agent's runs: their tools, and who continues which run during a deploy.

A label is a digest of the tools that a worker has for an agent. A queued run has the label of the workers
that take it: it is the run's application version in DBOS. So workers of several versions of a program share
an agent's queue, and each takes the runs whose tools it has.
"""

import hashlib
import json
import random
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import sqlalchemy as sa

from toolbus.agent.durable.lease import Leases, WorkerRow
from toolbus.agent.durable.settings import JOURNAL_VERSION, Durable, named
from toolbus.agent.durable.store.dbos_private import open_labels, queued_runs, relabel
from toolbus.agent.durable.store.engines import change, stored_value
from toolbus.agent.durable.store.store import UNFINISHED, WORKFLOW, RunStore
from toolbus.core.operation.run_errors import RunStoreError

_SHOWN = 3
_DIGITS = 12
_AT_ONCE = 200
"""Runs with records that are relabeled at one beat: their steps are read."""
_UNKNOWN = "/*"


def label_of(tools: Set[str]) -> str:
    """The label of workers with these tools."""
    digest = hashlib.sha256(json.dumps(sorted(tools)).encode()).hexdigest()
    return f"{JOURNAL_VERSION}+{digest[:_DIGITS]}"


def lacking(tools: Set[str], needed: Set[str]) -> set[str]:
    """The needed tools that are not among these; `server/*` is any tool of that server."""
    servers = {tool.partition("/")[0] for tool in tools if "/" in tool}
    return {
        tool for tool in needed - tools if not (tool.endswith(_UNKNOWN) and tool[: -len(_UNKNOWN)] in servers)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A live worker of a queue."""

    worker: str
    label: str
    tools: Set[str]
    joined: int


class Programs:
    """The tools of the live workers of a store, by label."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._leases = Leases(store.engine)
        self._tools: dict[str, Set[str]] = {}
        self._unused: set[str] = set()

    def publish(self, tools: Iterable[Set[str]]) -> None:
        """Tell other processes what the labels of these tools stand for."""
        for one in tools:
            self._tools[label_of(one)] = one
            change(
                self._store.engine,
                "INSERT INTO toolbus_programs (label, tools) VALUES (:label, :tools) "
                "ON CONFLICT (label) DO NOTHING",
                label=label_of(one),
                tools=json.dumps(sorted(one)),
            )

    def tools(self, label: str) -> Set[str]:
        """The tools that a label stands for; none if that is not known."""
        if label not in self._tools:
            query = "SELECT tools FROM toolbus_programs WHERE label = :label"
            stored = stored_value(self._store.engine, query, label=label)
            try:
                self._tools[label] = frozenset(map(str, json.loads(stored or "")))
            except (TypeError, ValueError, RecursionError):  # it has none, or toolbus did not write it
                return frozenset()
        return self._tools[label]

    def members(self, rows: Iterable[WorkerRow], queue: str) -> list[Member]:
        return [
            Member(worker=row.worker, label=label, tools=self.tools(label), joined=row.joined)
            for row in rows
            if row.takes(queue) and (label := row.labels[queue]).startswith(f"{JOURNAL_VERSION}+")
        ]

    def adopt(self, queues: Set[str], known: Iterable[WorkerRow]) -> None:
        """Give queued runs whose label no live worker has to the live workers that suit them best."""
        served = {pair for row in known if row.is_alive for pair in row.labels.items()}
        queued = open_labels(self._store.client, ["ENQUEUED"])
        orphans = {
            (queue, label)
            for queue, label in queued - served
            if queue in queues and label.partition("+")[0] == JOURNAL_VERSION
        }
        # Read now: a worker that has joined meanwhile has a row before it starts a run.
        rows = self._leases.all() if orphans else []
        for queue, label in orphans:
            members = self.members(rows, queue)
            if members and label not in {member.label for member in members}:
                self._adopt(queue, label, members)

    def _adopt(self, queue: str, label: str, members: Sequence[Member]) -> None:
        client = self._store.client
        relabel(client, queue, label, best(members, self.tools(label)).label)
        for run in queued_runs(client, queue, label, _AT_ONCE):
            relabel(client, queue, label, best(members, self._store.called(run)).label, run)

    def forget(self, rows: Iterable[WorkerRow]) -> None:
        """Delete the tools of labels that no worker and no open run had, neither now nor the last time."""
        used = {label for row in rows for label in row.labels.values()}
        used |= {label for _, label in open_labels(self._store.client, UNFINISHED)}
        with self._store.engine.begin() as connection:
            unused = set(connection.scalars(sa.text("SELECT label FROM toolbus_programs"))) - used
            for label in unused & self._unused:  # a worker that joins adds its tools before its row
                delete = sa.text("DELETE FROM toolbus_programs WHERE label = :label")
                connection.execute(delete, {"label": label})
        self._unused = unused


def best(members: Iterable[Member], needed: Set[str]) -> Member:
    """The member that lacks the fewest of the needed tools; of several, the newest."""
    return min(members, key=lambda member: (len(lacking(member.tools, needed)), -member.joined))


def any_suited(members: Iterable[Member], needed: Set[str]) -> Member | None:
    """One of the members that have all needed tools, each as likely as the others."""
    suited = [member for member in members if not lacking(member.tools, needed)]
    return random.choice(suited) if suited else None


def better(members: Iterable[Member], own: Set[str], missing: Set[str], needed: Set[str]) -> Member | None:
    """A member that has tools which are missing here, and lacks fewer of the needed ones than we do.

    Each hand-over leaves fewer tools missing, so no two workers hand a run back and forth.
    """
    suited = [member for member in members if missing & member.tools]
    if not suited:
        return None
    found = best(suited, needed)
    return found if len(lacking(found.tools, needed)) < len(lacking(own, needed)) else None


def claim_name(store: RunStore, settings: Durable, tools: Set[str]) -> None:
    """Note the functions and servers of an agent; `RunStoreError` if its name belongs to another program.

    A program that was changed still has some of those that it had. One that has none of them is another
    program; it gets the name only if nobody uses it. Each pinned version has a note of its own.
    """
    agent = named(settings.queue)
    noted = stored_value(store.engine, "SELECT tools FROM toolbus_agents WHERE agent = :agent", agent=agent)
    known: set[str] = set(json.loads(noted or "[]"))
    if known and not known & tools and (use := _use(store, settings)) is not None:
        names = ", ".join(sorted(known)[:_SHOWN])
        problem = f"its agent {agent!r} is another program (with {names}), and has {use}"
        step = "give this one another name or version: Durable(agent=..., version=...), --agent, --version"
        raise RunStoreError(store.place, problem, step)
    change(
        store.engine,
        "INSERT INTO toolbus_agents (agent, tools) VALUES (:agent, :tools) "
        "ON CONFLICT (agent) DO UPDATE SET tools = excluded.tools",
        agent=agent,
        tools=json.dumps(sorted(tools)),
    )


def _use(store: RunStore, settings: Durable) -> str | None:
    """The current user of an agent's name; None if it is free."""
    runs = store.client.list_workflows(
        name=WORKFLOW,
        status=UNFINISHED,
        queue_name=settings.queue,
        limit=1,
        load_input=False,
        load_output=False,
    )
    if runs:
        return f"runs that have not ended ({runs[0].workflow_id})"
    for row in Leases(store.engine).all():
        if row.takes(settings.queue):
            return f"a worker ({row.worker})"
    return None
