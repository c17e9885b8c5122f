"""`toolbus key`: commands about the keys that let clients into the gateway. Their arguments and options."""

from typing import Annotated

import typer

from toolbus.cli.options import Settings, with_config_settings, with_settings

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the key, such as who holds it.")]


def add_key_commands(app: typer.Typer) -> None:
    """Register these commands with the app."""
    keys = typer.Typer(
        help="Manage the keys that let clients into toolbus serve.",
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    keys.callback()(with_settings(_key))
    keys.command("add")(with_config_settings(_add))
    keys.command("list")(with_config_settings(_list))
    keys.command("revoke")(with_config_settings(_revoke))
    app.add_typer(keys, name="key")


def _key(settings: Settings) -> None:
    """Manage the keys that let clients into toolbus serve.

    They belong to the config. Of each key only a digest is stored, in your state folder.
    """


def _add(
    settings: Settings,
    name: _Name,
    views: Annotated[
        list[str] | None,
        typer.Option(
            "--view",
            metavar="VIEW",
            show_default=False,
            help="The view of the config that it gives; default: default_view. Repeat it for views that it "
            "may also use by their paths.",
        ),
    ] = None,
    user: Annotated[
        str,
        typer.Option(
            "--user",
            metavar="USER",
            show_default=False,
            help="Whose logins and secrets its calls use; default: those of the config.",
        ),
    ] = "",
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="When it expires: 12h, 30d, 2027-01-31."),
    ] = None,
) -> int:
    """Make a key and print it; it cannot be shown again.

    toolbus key add ann --view research --expires 30d
    """
    from toolbus.cli.commands.gateway.key import add

    return add(settings, name, views or (), user, expires)


def _list(settings: Settings) -> int:
    """List the keys, and when each was last used."""
    from toolbus.cli.commands.gateway.key import list_keys

    return list_keys(settings)


def _revoke(settings: Settings, name: _Name) -> int:
    """Revoke a key; a running gateway refuses it within two seconds."""
    from toolbus.cli.commands.gateway.key import revoke

    return revoke(settings, name)
