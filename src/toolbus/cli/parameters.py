"""Arguments and options that several commands take: metavar, help text and completion."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from toolbus.cli.completion import argument_names, server_names

Servers = Annotated[
    list[str] | None,
    typer.Argument(metavar="SERVER", help="Servers to include; default: all.", autocompletion=server_names),
]
ServersOrTargets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SERVER",
        help="Servers to include, or one to use without a config, as for --server; default: all.",
        autocompletion=server_names,
    ),
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
FormValues = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Values for the form; without them, you are asked on the terminal.",
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
Accept = Annotated[
    bool, typer.Option("--accept", help="Accept the URL, or submit the form with its defaults.")
]
Decline = Annotated[bool, typer.Option("--decline", help="Decline the request.")]
WriteUnasked = Annotated[bool, typer.Option("--yes", "-y", help="Write the file without asking.")]
