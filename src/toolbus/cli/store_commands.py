"""`toolbus store`: commands about the database that several gateways share."""

import typer

from toolbus.cli.options import Settings, with_config_settings, with_settings


def add_store_commands(app: typer.Typer) -> None:
    """Register these commands with the app."""
    store = typer.Typer(
        help="Manage the store that several gateways share.",
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    store.callback()(with_settings(_store))
    store.command("rekey")(with_config_settings(_rekey))
    app.add_typer(store, name="store")


def _store(settings: Settings) -> None:
    """Manage the store that several gateways share."""


def _rekey(settings: Settings) -> int:
    """Encrypt all that is stored with the first key of $TOOLBUS_STORE_KEY.

    Then the other keys in it are not needed any more. Gateways may run meanwhile, if they have both.

    \b
    TOOLBUS_STORE_KEY="$NEW,$OLD" toolbus store rekey
    """
    from toolbus.cli.commands.store import rekey

    return rekey(settings)
