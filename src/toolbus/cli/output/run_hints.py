"""The commands that a message about durable runs suggests, whole: to be copied and run."""

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from toolbus.core.text.display import without_passwords

if TYPE_CHECKING:
    from toolbus.agent.durable.questions import Asked
    from toolbus.core.values.elicitation import Answer


class Hints:
    """Commands with the `--store` that the user has given, without its password."""

    def __init__(self, store: str | None) -> None:
        self._store = [] if store is None else ["--store", without_passwords(store)]

    def runs(self, *words: str) -> str:
        """A command of `toolbus runs`."""
        return self._command("runs", *words)

    def answer(self, run: str, asked: "Asked") -> str:
        """How to answer a question, as a sentence."""
        command = self.runs("resume", run, "--question", asked.id, *_blank_answer(asked))
        if asked.is_approval:
            return f"to refuse the call, answer=no; to allow it, run: {command}"
        return f"to answer, run: {command}"

    def no_worker(self, agent: str, version: str | None, pinned: Sequence[str] = ()) -> str:
        """That nobody executes the runs of an agent, or of its version, and what to do.

        `pinned` are the versions that have workers.
        """
        options = [] if agent == "agent" else ["--agent", agent]
        if version is not None:
            options += ["--version", version]
        which = repr(agent) if version is None else f"{agent!r} of version {version!r}"
        others = f"its workers take only runs of version {' and '.join(pinned)}; " if pinned else ""
        return (
            f"no worker takes runs of {which} now; {others}start one: toolbus worker MODULE:NAME, or, with "
            f"the servers of your config, {self._command('worker', *options)}"
        )

    def _command(self, *words: str) -> str:
        return shlex.join(["toolbus", *words, *self._store])


def answer_text(answers: "Mapping[str, Answer]", *, is_approval: bool) -> str:
    """What was answered, in a few words."""
    said: list[str] = []
    for answer in answers.values():
        content = answer.content or {}
        if answer.action != "accept" or not content:
            said.append(answer.action)
        elif is_approval:
            said.append(str(content.get("answer")))
        else:
            said += [f"{name}={value}" for name, value in content.items()]
    return " ".join(said)


def _blank_answer(asked: "Asked") -> list[str]:
    """The words of an answer, to be filled in; none if only a terminal can ask."""
    questions = list(asked.pending.questions.values())
    if len(questions) != 1:
        return []
    fields = () if questions[0].url is not None else questions[0].form.fields
    if asked.is_approval:
        return [f"{field.name}={next(iter(field.choices))}" for field in fields]  # the first one allows it
    return [f"{field.name}=..." for field in fields if field.required] or ["--accept"]
