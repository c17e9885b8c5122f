"""Internal names of `toolbus.state` that tests use."""

from toolbus.state.files import (
    FileExposed as FileExposed,
)
from toolbus.state.files import (
    Foreign as Foreign,
)
from toolbus.state.files import (
    PrivateFolder as PrivateFolder,
)
from toolbus.state.files import (
    make_private as make_private,
)
from toolbus.state.one_time_use import (
    LocalOneTimeUse as LocalOneTimeUse,
)
from toolbus.state.seal import (
    KEY_BYTES as KEY_BYTES,
)
from toolbus.state.seal import (
    Seal as Seal,
)
from toolbus.state.store import (
    backup as backup,
)
from toolbus.state.store import (
    sql as sql,
)
from toolbus.state.store.backup import (
    Part as Part,
)
from toolbus.state.store.backup import (
    opened_backup as opened_backup,
)
from toolbus.state.store.backup import (
    save as save,
)
from toolbus.state.store.cipher import (
    VARIABLE as VARIABLE,
)
from toolbus.state.store.cipher import (
    Cipher as Cipher,
)
from toolbus.state.store.mirror import (
    Mirror as Mirror,
)
from toolbus.state.store.one_time_use import (
    SharedOneTimeUse as SharedOneTimeUse,
)
from toolbus.state.store.one_time_use import (
    shared_seal as shared_seal,
)
from toolbus.state.store.postgres import (
    PostgresDatabase as PostgresDatabase,
)
from toolbus.state.store.rekey import (
    KeyUse as KeyUse,
)
from toolbus.state.store.rekey import (
    key_use as key_use,
)
from toolbus.state.store.rekey import (
    rekey as rekey,
)
from toolbus.state.store.sqlite import (
    SqliteDatabase as SqliteDatabase,
)
from toolbus.state.store.store import (
    Allowance as Allowance,
)
from toolbus.state.store.store import (
    Store as Store,
)
from toolbus.state.store.url import (
    StoreUrl as StoreUrl,
)
from toolbus.state.store.url import (
    parse_store_url as parse_store_url,
)
from toolbus.state.tokens.keyring import (
    KeyringStore as KeyringStore,
)
from toolbus.state.tokens.lock import (
    Locks as Locks,
)
from toolbus.state.tokens.login import (
    Login as Login,
)
from toolbus.state.tokens.shared import (
    SharedLocks as SharedLocks,
)
from toolbus.state.tokens.shared import (
    SharedTokens as SharedTokens,
)
from toolbus.state.tokens.store import (
    StoreCalls as StoreCalls,
)
from toolbus.state.tokens.tokens import (
    TokenSource as TokenSource,
)
from toolbus.state.tokens.tokens import (
    open_tokens as open_tokens,
)
