"""`toolbus store`: commands about the databases that gateways and workers share."""

from pathlib import Path
from typing import Annotated

import typer

from toolbus.cli.options import Settings, with_config_settings, with_settings

_Backup = Annotated[Path, typer.Argument(metavar="FILE", help="The file of the backup.")]
_Runs = Annotated[
    str | None,
    typer.Option(
        "--runs",
        metavar="URL",
        help="The store of durable runs: a SQLite file, or a postgresql:// URL; default: $TOOLBUS_RUNS, or "
        "runs.db.",
    ),
]


def add_store_commands(app: typer.Typer) -> None:
    """Register these commands with the app."""
    store = typer.Typer(
        help="Back up, restore and re-encrypt shared databases.",
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    store.callback()(with_settings(_store))
    store.command("rekey")(with_config_settings(_rekey))
    store.command("backup")(with_settings(_backup))
    store.command("restore")(with_settings(_restore))
    app.add_typer(store, name="store")


def _store(settings: Settings) -> None:
    """Back up, restore and re-encrypt shared databases."""


def _rekey(settings: Settings) -> int:
    """Encrypt all that is stored with the first key of $TOOLBUS_STORE_KEY.

    Then the other keys in it are not needed any more. Gateways may run meanwhile, if they have both.

    \b
    TOOLBUS_STORE_KEY="$NEW,$OLD" toolbus store rekey
    """
    from toolbus.cli.commands.gateway.store import rekey

    return rekey(settings)


def _backup(
    settings: Settings,
    file: _Backup,
    runs: _Runs = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> int:
    """Save the store of the config and the durable runs in one file.

    Gateways and workers may run meanwhile; each database is saved as of one moment. Values of the store stay
    encrypted, and their key is not in the file. Runs are not encrypted. Only you can read the file.

    \b
    toolbus store backup monday.db
    toolbus store backup monday.db --runs postgresql://db.internal/runs
    """
    from toolbus.cli.commands.gateway.store import backup

    return backup(settings, file, runs, force=force)


def _restore(settings: Settings, file: _Backup, runs: _Runs = None) -> int:
    """Restore a backup into empty databases.

    The store goes into the store of the config, and durable runs into their own. Each may be SQLite or
    Postgres, whatever it was before. Stop the gateways and workers of the old databases first, and start
    others afterwards: keys, logins, sessions and runs continue from the backup.

    \b
    toolbus store restore monday.db --runs postgresql://new.internal/runs
    """
    from toolbus.cli.commands.gateway.store import restore

    return restore(settings, file, runs)
