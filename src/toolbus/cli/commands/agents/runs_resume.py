"""`toolbus runs resume`: answer what a run waits for, accept changed tools, or continue a failed run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.commands.agents.run_store import Store, open_runs
from toolbus.cli.commands.agents.runs import RunId, print_no_worker
from toolbus.cli.commands.use.resume import (
    INTERRUPTED,
    Answers,
    ask_answers,
    chosen_action,
    field_lines,
    given_answers,
)
from toolbus.cli.errors import Usage
from toolbus.cli.input.ask import Interrupted
from toolbus.cli.input.elicitation import at_terminal
from toolbus.cli.output.run_lines import Hints, answer_text, question_lines, run_json
from toolbus.cli.output.screen import Screen, visible
from toolbus.cli.parameters import Accept, Decline, FormValues
from toolbus.core.values.elicitation import Action

if TYPE_CHECKING:
    from toolbus.agent.durable import RunInfo, Runs
    from toolbus.agent.durable.questions import WaitingCall


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAnswer:
    """The answer of a command line, if it has one."""

    words: Sequence[str]
    action: Action | None
    question: str | None
    """The id of the question that it is for."""

    @property
    def is_given(self) -> bool:
        """Whether there is something to answer with."""
        return bool(self.words) or self.action is not None

    @property
    def typed(self) -> list[str]:
        """As it was typed."""
        return [*self.words, *([] if self.action is None else [f"--{self.action}"])]


@command
async def resume(
    own: Invocation,
    run: RunId,
    pairs: FormValues = None,
    accept: Accept = False,
    decline: Decline = False,
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
    store: Store = None,
) -> CommandResult | int:
    """Answer a run's question, or continue a stopped run.

    A run that failed or was cancelled continues where it stopped.

    \b
    toolbus runs resume order-17 seats=2
    toolbus runs resume order-18 --question q1 answer=once
    """
    action = chosen_action(accept=accept, decline=decline, cancel=cancel)
    reply = RunAnswer(words=pairs or [], action=action, question=question)
    screen, hints = own.screen, Hints(store)
    async with open_runs(screen, store) as opened:
        info = await opened.get(run)
        _check_question(info, reply.question)
        done: list[str] = []
        if accept_changes and (tools := await opened.accept_changes(run)):
            done.append(f"accepted {', '.join(tools)}")
        try:
            said = await _go_on(screen, opened, info, reply, hints, is_done=bool(done))
        except Interrupted:
            screen.note("nothing was sent; the run is still waiting")
            return INTERRUPTED
        if said is not None:
            done.append(said)
        info, workers = await opened.get(run), await opened.workers()

    def lines() -> None:
        screen.line(visible(f"{run}: {', '.join(done)}"))
        print_no_worker(screen, info, workers, hints)

    has_worker = any(row.takes(info.queue) for row in workers)
    return CommandResult({"done": done, **run_json(info, has_worker=has_worker)}, lines)


def _check_question(info: "RunInfo", question: str | None) -> None:
    """Raise `NotWaiting` if the run does not wait for an answer to that question."""
    from toolbus.agent.durable import NotWaiting

    asked = info.question
    if question is None or (asked is not None and asked.id == question):
        return
    now = f"it is {info.status}" if asked is None else f"it waits for an answer to {asked.id}"
    raise NotWaiting(
        f"run {info.id!r} does not wait for an answer to {question}: {now}; see 'toolbus runs show {info.id}'"
    )


async def _go_on(
    screen: Screen, runs: "Runs", info: "RunInfo", reply: RunAnswer, hints: Hints, *, is_done: bool
) -> str | None:
    """Answer or continue the run, and describe that; None if nothing more is to be done."""
    if (asked := info.question) is not None and (reply.is_given or not is_done):
        answers = await _answers(screen, info.id, asked, reply, hints)
        await runs.answer(info.id, answers, question=asked.id)
        said = answer_text(answers, is_approval=asked.is_approval)
        return f"answered {asked.id} ({' '.join(asked.message.split())}): {said}"
    if reply.is_given:
        now = "was answered already" if info.answered else f"is {info.status}"
        raise Usage(f"run {info.id!r} {now}, and waits for no answer")
    if info.status in ("failed", "cancelled"):
        await runs.retry(info.id)
        return "continued"
    if is_done:
        return None
    hint = "watch it with" if info.is_open else "see it with"
    step = "watch" if info.is_open else "show"
    raise Usage(
        f"run {info.id!r} is {info.status}, and waits for nothing; {hint} 'toolbus runs {step} {info.id}'"
    )


async def _answers(screen: Screen, run: str, asked: "WaitingCall", reply: RunAnswer, hints: Hints) -> Answers:
    """The answers of the command line, or of the person at the terminal."""
    given = given_answers(asked.pending, reply.words, reply.action)
    if given is None:
        if at_terminal(screen):
            return await ask_answers(screen, asked.pending)
        raise Usage(f"{asked.pending}; {hints.answer(run, asked)}", field_lines(asked.pending))
    if asked.is_approval and reply.question is None:
        # Who sends the same line twice would allow the next call, which nobody has seen.
        command = hints.runs("resume", run, "--question", asked.id, *reply.typed)
        details = tuple(f"  {line}" for line in question_lines(asked))
        raise Usage(f"name the question that you answer; for this one, run: {command}", details)
    return given
