"""The words and options of the commands: what they are called, what they are for, what completes them."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from toolbus.cli.completion.candidates import (
    argument_names,
    editor_names,
    prompt_arguments,
    prompt_names,
    read_words,
    server_names,
    tool_names,
)

Servers = Annotated[
    list[str] | None,
    typer.Argument(metavar="SERVER", help="Only these servers.", autocompletion=server_names),
]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="S", help="Seconds the tool may take.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Save images and other blobs there.")]
OnInput = Annotated[
    Literal["ask", "suspend"],
    typer.Option(
        "--on-input",
        help="When the server asks something: ask for the answer on the terminal, or end for now and print "
        "the call as JSON, for 'toolbus resume'.",
    ),
]
ToolName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The tool's name, or SERVER/TOOL.", autocompletion=tool_names),
]
ToolWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Arguments, read by the tool's schema: n=5, on=true, list=a,b or given twice, a.b=1 for "
        "nested ones, text=@FILE for what a file holds; - reads a JSON object from stdin.",
        autocompletion=argument_names,
    ),
]
Args = Annotated[str | None, typer.Option("--args", metavar="JSON", help="The arguments as a JSON object.")]
ArgsFile = Annotated[
    Path | None, typer.Option("--args-file", metavar="FILE", help="A file with that JSON object.")
]
Stored = Annotated[
    str,
    typer.Argument(metavar="FILE", help="What 'toolbus call --on-input suspend' printed; - is stdin."),
]
ResumeWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="What to fill in, if there is one form; without it, you are asked on the terminal.",
    ),
]
ReadFirst = Annotated[
    str,
    typer.Argument(
        metavar="[SERVER] URI",
        help="What to read; the server may be left out where only one has it.",
        autocompletion=read_words,
    ),
]
ReadWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="The values of a template, which is then the URI, as it is listed.",
        autocompletion=read_words,
    ),
]
OutFile = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE|DIR", help="Save it there, never over a file that is there."),
]
PromptName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="SERVER/PROMPT, or the name alone where only one server has it.",
        autocompletion=prompt_names,
    ),
]
PromptWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Arguments, all of them text; text=@FILE for what a file holds.",
        autocompletion=prompt_arguments,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        envvar="TOOLBUS_MODEL",
        help="As in openai:gpt-5.1, or the address of a server that speaks as OpenAI does, as in "
        "http://localhost:11434/v1#qwen3. By default the first that can be used: a provider whose key is "
        "set, or a local server.",
    ),
]
Source = Annotated[
    str | None,
    typer.Argument(
        metavar="EDITOR|FILE",
        help="claude, claude-code, cursor, vscode, windsurf, gemini, goose, codex, zed, opencode, or a file; "
        "by default all that are found.",
        autocompletion=editor_names,
    ),
]
