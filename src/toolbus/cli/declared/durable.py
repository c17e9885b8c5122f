"""Commands about durable runs: list, watch, answer and execute them. Their arguments and options."""

from typing import Annotated, Literal

import typer

from toolbus.cli.declared.parameters import FormValues, Model
from toolbus.cli.options import Settings, with_group_settings, with_settings

_Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where the runs are: a SQLite file, or a postgresql:// URL; default: $TOOLBUS_RUNS, or runs.db.",
    ),
]
_Run = Annotated[str, typer.Argument(metavar="ID", help="The id of the run, which is its key if it has one.")]
_Name = Annotated[
    str,
    typer.Option("--agent", metavar="NAME", help="The name of the agent: its workers execute the run."),
]


def add_durable_commands(app: typer.Typer) -> None:
    """Register these commands with the app."""
    runs = typer.Typer(
        short_help="List, answer, start and cancel durable runs of agents.",
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    runs.callback(invoke_without_command=True)(with_group_settings(_runs))
    runs.command("show")(with_settings(_show))
    runs.command("watch")(with_settings(_watch))
    runs.command("resume")(with_settings(_resume))
    runs.command("cancel")(with_settings(_cancel))
    runs.command("delete")(with_settings(_delete))
    runs.command("start")(with_settings(_start))
    app.add_typer(runs, name="runs")
    app.command("worker")(with_settings(_worker))


def _runs(
    settings: Settings,
    all: Annotated[bool, typer.Option("--all", help="Include finished runs.")] = False,  # noqa: A002  the option
    store: _Store = None,
) -> int:
    """List, answer, start and cancel durable runs of agents.

    Without a command, lists the runs. Requires pip install "toolbus[durable]".
    """
    from toolbus.cli.commands.agents.runs import list_runs

    return list_runs(settings, store, ended=all)


def _show(settings: Settings, run: _Run, store: _Store = None) -> int:
    """Show a run: its steps, what it waits for, and how it ended."""
    from toolbus.cli.commands.agents.runs import show

    return show(settings, store, run)


def _watch(settings: Settings, run: _Run, store: _Store = None) -> int:
    """Print the events of a run until it ends.

    Starts with the first event. With --json, prints one document per event.
    """
    from toolbus.cli.commands.agents.runs_watch import watch

    return watch(settings, store, run)


def _resume(
    settings: Settings,
    run: _Run,
    pairs: FormValues = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept the URL, or submit the form with its defaults.")
    ] = False,
    decline: Annotated[bool, typer.Option("--decline", help="Decline the request.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the question without answering.")] = False,
    question: Annotated[
        str | None,
        typer.Option(
            "--question",
            metavar="ID",
            help="Answer this question and no other; required to allow or refuse a call, unless asked on a "
            "terminal. 'toolbus runs show' prints it.",
        ),
    ] = None,
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Let it use the tools that changed since it began.")
    ] = False,
    store: _Store = None,
) -> int:
    """Answer a run's question, or continue a stopped run.

    A run that failed or was cancelled continues where it stopped.

    \b
    toolbus runs resume order-17 seats=2
    toolbus runs resume order-18 --question q1 answer=once
    """
    from toolbus.cli.commands.agents.runs_resume import Reply, resume
    from toolbus.cli.commands.use.resume import chosen_action

    action = chosen_action(accept=accept, decline=decline, cancel=cancel)
    reply = Reply(words=pairs or [], action=action, question=question)
    return resume(settings, store, run, reply, accept_changes=accept_changes)


def _cancel(settings: Settings, run: _Run, store: _Store = None) -> int:
    """Cancel a run, wherever it is executed."""
    from toolbus.cli.commands.agents.runs import cancel

    return cancel(settings, store, run)


def _delete(settings: Settings, run: _Run, store: _Store = None) -> int:
    """Delete a run that has ended, with all that is recorded of it."""
    from toolbus.cli.commands.agents.runs import delete

    return delete(settings, store, run)


def _start(
    settings: Settings,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What the agent is to do.")],
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The id of the run: the same key is the same run."),
    ] = None,
    agent: _Name = "agent",
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="VERSION", help="Pin the run to the workers of this version of the agent."
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, and print the output.")] = False,
    store: _Store = None,
) -> int:
    """Add a run for the workers, and print its id."""
    from toolbus.cli.commands.agents.runs import start

    return start(settings, store, prompt, key=key, agent=agent, version=version, wait=wait)


def _worker(
    settings: Settings,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:NAME",
            help="Your Agent(..., durable=...), or a function that returns it; default: an agent with the "
            "servers of the config.",
        ),
    ] = None,
    model: Model = None,
    approve: Annotated[
        Literal["never", "writes", "ask"] | None,
        typer.Option("--approve", help="Which calls wait for 'toolbus runs resume'; default: writes."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", metavar="NAME", help="Execute the runs of the agent of this name; default: agent."
        ),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="VERSION", help="Execute only the runs that are pinned to this version."
        ),
    ] = None,
    store: _Store = None,
) -> int:
    """Execute durable runs until stopped; start as many as you need, on any machine.

    With MODULE:NAME, your program decides about the model, approvals, name and store. The first Ctrl-C or
    SIGTERM lets calls in flight end; other workers continue its runs.
    """
    from toolbus.cli.commands.agents.worker import WorkerOptions, run

    options = WorkerOptions(model=model, approve=approve, agent=agent, version=version, store=store)
    return run(settings, target, options)
