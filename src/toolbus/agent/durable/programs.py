"""Which program an agent's name belongs to: two programs of one name would take each other's runs."""

import json
from collections.abc import Set

import sqlalchemy as sa

from toolbus.agent.durable.lease import Leases, has_ended
from toolbus.agent.durable.settings import Durable
from toolbus.agent.durable.store import UNFINISHED, WORKFLOW, RunStore
from toolbus.core.errors import RunStoreError

_SHOWN = 3


def claim_name(store: RunStore, settings: Durable, tools: Set[str]) -> None:
    """Note the functions and servers of an agent; `RunStoreError` if its name belongs to another program.

    A program that was changed still has some of those that it had. One that has none of them is another
    program; it gets the name only if nobody uses it.
    """
    with store.engine.connect() as connection:
        noted = connection.scalar(
            sa.text("SELECT tools FROM toolbus_agents WHERE agent = :agent"), {"agent": settings.agent}
        )
    known: set[str] = set(json.loads(noted or "[]"))
    if known and not known & tools and (use := _use(store, settings)) is not None:
        names = ", ".join(sorted(known)[:_SHOWN])
        problem = f"its agent {settings.agent!r} is another program (with {names}), and has {use}"
        raise RunStoreError(store.place, problem, 'name this one: Durable(store=..., agent="other")')
    with store.engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO toolbus_agents (agent, tools) VALUES (:agent, :tools) "
                "ON CONFLICT (agent) DO UPDATE SET tools = excluded.tools"
            ),
            {"agent": settings.agent, "tools": json.dumps(sorted(tools))},
        )


def _use(store: RunStore, settings: Durable) -> str | None:
    """Who uses the name of an agent now; None if nobody does."""
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
        if settings.agent in row.agents.split(", ") and not row.dead and not has_ended(row):
            return f"a worker ({row.worker})"
    return None
