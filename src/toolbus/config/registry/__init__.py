"""Servers of the MCP registry, `server.json` documents and MCP bundles, as config entries.

`server_json` reads a document, and `choices` or `chosen` picks one of its packages or remotes. `with_bundle`
adds a verified archive, and `bundle_choice` reads one alone. `inputs` lists the values of a choice, and
`missing` the required ones that have none. `entry` makes the config entry; `bundle.unpack()` follows once the
user has agreed.

`values` maps the label of an input to a tuple of texts. Nothing here starts, downloads or asks: reading a
registry is `toolbus.connect.registry`, and the questions are in `toolbus.cli`. Show `found.config` with
`exact()` before you use it. The secrets are in no text of the config; store them with `add_secrets`.
"""

from toolbus.config.registry.bundle import MAX_BUNDLE, Bundle, opened_bundle
from toolbus.config.registry.conversion import (
    ConvertedEntry,
    LaunchChoice,
    alias_for,
    bundle_choice,
    choices,
    chosen,
    entry,
    inputs,
    missing,
    with_bundle,
)
from toolbus.config.registry.document import (
    MAX_DOCUMENT,
    PublishedInput,
    PublishedServer,
    parsed_document,
    server_json,
)
from toolbus.config.registry.versions import (
    BUNDLE_FOLDER,
    split_origin,
    unpinned,
    updated_package,
    updated_texts,
    version_key,
)

__all__ = [
    "BUNDLE_FOLDER",
    "MAX_BUNDLE",
    "MAX_DOCUMENT",
    "Bundle",
    "ConvertedEntry",
    "LaunchChoice",
    "PublishedInput",
    "PublishedServer",
    "alias_for",
    "bundle_choice",
    "choices",
    "chosen",
    "entry",
    "inputs",
    "missing",
    "opened_bundle",
    "parsed_document",
    "server_json",
    "split_origin",
    "unpinned",
    "updated_package",
    "updated_texts",
    "version_key",
    "with_bundle",
]
