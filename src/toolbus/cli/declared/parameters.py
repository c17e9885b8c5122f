"""Arguments and options of the commands: metavar, help text and completion."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from toolbus.cli.completion.candidates import (
    argument_names,
    editor_names,
    prompt_arguments,
    prompt_names,
    read_arguments,
    server_names,
    tool_names,
)

Servers = Annotated[
    list[str] | None,
    typer.Argument(metavar="SERVER", help="Servers to include; default: all.", autocompletion=server_names),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="S", help="Time limit for the tool, in seconds.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Save images and other binary data in this folder."),
]
OnInput = Annotated[
    Literal["ask", "suspend"],
    typer.Option(
        "--on-input",
        help="When the server asks for input: ask on the terminal, or stop and print the call as JSON for "
        "'toolbus resume'.",
    ),
]
ToolName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Tool name, or SERVER/TOOL.", autocompletion=tool_names),
]
ToolArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Tool arguments. Values are converted to the types in the tool's schema. Examples: n=5, "
        "on=true, tags=a,b (or tags=a tags=b), a.b=1 (nested), text=@FILE (from a file). Use - to read a "
        "JSON object from stdin.",
        autocompletion=argument_names,
    ),
]
Args = Annotated[str | None, typer.Option("--args", metavar="JSON", help="Arguments as a JSON object.")]
ArgsFile = Annotated[
    Path | None, typer.Option("--args-file", metavar="FILE", help="File that contains the JSON object.")
]
SuspendedCall = Annotated[
    str,
    typer.Argument(metavar="FILE", help="Output of 'toolbus call --on-input suspend'; - for stdin."),
]
FormValues = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Values for the form; without them, you are asked on the terminal.",
    ),
]
ReadTarget = Annotated[
    str,
    typer.Argument(
        metavar="[SERVER] URI",
        help="URI to read; SERVER is optional if only one server has it.",
        autocompletion=read_arguments,
    ),
]
TemplateValues = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Values for a URI template; pass the template as URI.",
        autocompletion=read_arguments,
    ),
]
OutFile = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE|DIR", help="Save to this file or folder; never overwrites a file."),
]
PromptName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="SERVER/PROMPT, or the prompt's name if only one server has it.",
        autocompletion=prompt_names,
    ),
]
PromptArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Arguments as text; text=@FILE to read a file.",
        autocompletion=prompt_arguments,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A model such as openai:gpt-5.1, or the URL of an OpenAI-compatible server such as "
        "http://localhost:11434/v1#qwen3. Default: $TOOLBUS_MODEL, or the first available, from a provider "
        "whose API key is set or a local server.",
    ),
]
ImportSource = Annotated[
    str | None,
    typer.Argument(
        metavar="EDITOR|FILE",
        help="claude, claude-code, cursor, vscode, windsurf, gemini, goose, codex, zed, opencode, or a file; "
        "default: every config found.",
        autocompletion=editor_names,
    ),
]
Write = Annotated[
    bool,
    typer.Option(
        "--write", help="Add them to toolbus.yaml in this folder, or to --config; default: only show them."
    ),
]
