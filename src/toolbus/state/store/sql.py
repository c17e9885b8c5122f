"""The tables and statements of a store: one text for both databases, with `:name` for values.

Times are the database's, so the clocks of replicas do not matter. A newer version only adds to the tables,
so that two versions can share a store while replicas are replaced one by one.
"""

import re
from dataclasses import dataclass

VERSION = 1
"""The version of these tables; each change adds one."""
OLDEST = 1
"""The oldest version whose programs can use a store of this version."""

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS toolbus_store (
        kind TEXT NOT NULL, name TEXT NOT NULL, value {bytes} NOT NULL,
        mark BIGINT NOT NULL, expires DOUBLE PRECISION, PRIMARY KEY (kind, name)
    )
    """,
    "CREATE INDEX IF NOT EXISTS toolbus_store_expires ON toolbus_store (expires) WHERE expires IS NOT NULL",
    """
    CREATE TABLE IF NOT EXISTS toolbus_schema (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
        version INTEGER NOT NULL, oldest INTEGER NOT NULL, proof {bytes} NOT NULL
    )
    """,
    """
    INSERT INTO toolbus_schema (only_row, version, oldest, proof) VALUES (1, :version, :oldest, :proof)
    ON CONFLICT (only_row) DO NOTHING
    """,
)
UPGRADE = (
    "UPDATE toolbus_schema SET version = :version, oldest = :oldest WHERE only_row = 1 AND version < :version"
)
PROVE = "UPDATE toolbus_schema SET proof = :proof WHERE only_row = 1"
SCHEMA = "SELECT version, oldest, proof, {now} FROM toolbus_schema"

_LIVE = "(expires IS NULL OR expires > {now})"
_ROW = "kind = :kind AND name = :name"
_EXPIRY = "{now} + CAST(:seconds AS DOUBLE PRECISION)"
_INSERT = (
    "INSERT INTO toolbus_store (kind, name, value, mark, expires)"
    f" VALUES (:kind, :name, :value, :mark, {_EXPIRY})"
    " ON CONFLICT (kind, name) DO UPDATE"
    " SET value = excluded.value, mark = excluded.mark, expires = excluded.expires"
)

GET = f"SELECT value, mark FROM toolbus_store WHERE {_ROW} AND {_LIVE}"
PUT = _INSERT
# A repeated statement after a lost connection finds its own mark, and has added the row then, too.
ADD = f"{_INSERT} WHERE toolbus_store.expires <= {{now}} OR toolbus_store.mark = excluded.mark"
REPLACE = (
    f"UPDATE toolbus_store SET value = :value, mark = :mark, expires = {_EXPIRY}"
    f" WHERE {_ROW} AND {_LIVE} AND (mark = :was OR mark = :mark)"
)
KEEP = f"UPDATE toolbus_store SET expires = {_EXPIRY} WHERE {_ROW} AND {_LIVE}"
REMOVE = f"DELETE FROM toolbus_store WHERE {_ROW}"
CLEAR = "DELETE FROM toolbus_store WHERE kind = :kind"
ITEMS = f"SELECT name, value, mark FROM toolbus_store WHERE kind = :kind AND {_LIVE} ORDER BY name"
PAGE = (
    "SELECT kind, name, value, mark FROM toolbus_store"
    f" WHERE (kind, name) > (:kind, :name) AND {_LIVE} ORDER BY kind, name LIMIT :most"
)
# The mark stays: for everybody who follows the value, nothing has changed.
REENCRYPT = f"UPDATE toolbus_store SET value = :value WHERE {_ROW} AND mark = :was"
# Marks are random, so the sum differs after any change; its terms are small enough not to overflow.
STATE = (
    f"SELECT count(*), coalesce(sum(mark & 2147483647), 0) FROM toolbus_store WHERE kind = :kind AND {_LIVE}"
)
PURGE = "DELETE FROM toolbus_store WHERE expires <= {now}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The differences between the databases' dialects."""

    now: str
    """The time as seconds since the epoch."""
    bytes: str
    is_pyformat: bool
    """Whether values are written as `%(name)s`."""

    def text(self, statement: str) -> str:
        """The statement for this database."""
        made = statement.replace("{now}", self.now).replace("{bytes}", self.bytes)
        return re.sub(r"(?<!:):(\w+)", r"%(\1)s", made) if self.is_pyformat else made
