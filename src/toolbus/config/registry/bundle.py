"""MCP bundles (`.mcpb`, formerly `.dxt`): a zip archive with a server and its `manifest.json`.

An archive comes from anyone. Before the user agrees, only its manifest is read. Then its files are unpacked
into a folder of their own, named by the archive's digest. An archive is refused as a whole if it has links,
files outside of that folder, or too much data.
"""

import io
import os
import re
import shutil
import stat
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from toolbus.config.location import is_list
from toolbus.config.registry.document import PublishedInput, PublishedServer, parsed_document
from toolbus.config.registry.launchers import LaunchLine
from toolbus.core.text.display import shortened
from toolbus.core.values.errors import ConfigError
from toolbus.state.files import state_folder

MAX_BUNDLE = 512 << 20
"""The most bytes of an archive."""
MAX_ENTRIES = 50_000
MAX_UNPACKED = 2 << 30
"""The most bytes of all its files."""
_MAX_RATIO = 200
"""The most that the files may be larger than the archive, beyond the first megabytes."""
_FREE = 64 << 20
_DAMAGE = (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError)
"""The errors of zipfile for an archive that is damaged, or has a password."""
BUNDLE_FOLDER = "bundles"
"""The folder of unpacked bundles, in the state folder."""
_PIECE = 1 << 20
_EXECUTABLE = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ", b"#!")
_REFERENCE = re.compile(
    r"\$\{(__dirname|HOME|DESKTOP|DOCUMENTS|DOWNLOADS|pathSeparator|/|user_config\.[\w.-]+)\}"
)
_PLACES = {"DESKTOP": "Desktop", "DOCUMENTS": "Documents", "DOWNLOADS": "Downloads"}
_Text = Annotated[str, Field(max_length=20_000)]
_Texts = Annotated[tuple[_Text, ...], Field(max_length=1000)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class _Config(_Part):
    command: _Text = ""
    args: _Texts = ()
    env: Annotated[dict[_Text, _Text], Field(max_length=300)] = {}
    platform_overrides: "Annotated[dict[_Text, _Config], Field(max_length=20)]" = {}


class _Server(_Part):
    type: Literal["python", "node", "binary", "uv"]
    entry_point: _Text = ""
    mcp_config: _Config = _Config()


class _Setting(_Part):
    type: Literal["string", "number", "boolean", "directory", "file"] = "string"
    title: _Text = ""
    description: _Text = ""
    required: bool = False
    sensitive: bool = False
    multiple: bool = False
    default: Annotated[
        tuple[str | float | bool, ...],
        BeforeValidator(lambda value: value if is_list(value) else () if value is None else (value,)),
        Field(max_length=100),
    ] = ()

    def as_input(self, name: str) -> PublishedInput:
        formats: dict[str, Any] = {"directory": "filepath", "file": "filepath"}
        return PublishedInput(
            name=name,
            description=self.description or self.title,
            is_required=self.required,
            is_secret=self.sensitive,
            is_repeated=self.multiple,
            format=formats.get(self.type, self.type),
            # Only whether there is one: several, and `${HOME}` in them, are filled in by the bundle.
            default=_settled(self.default[0]) if self.default else "",
        )


class _Compatibility(_Part):
    platforms: Annotated[tuple[_Text, ...], Field(max_length=20)] = ()


class BundleManifest(_Part):
    """The `manifest.json` of a bundle, of version 0.1 to 0.4."""

    manifest_version: _Text = ""
    dxt_version: _Text = ""
    """Its name in 0.1."""
    name: _Text
    version: _Text = ""
    description: _Text = ""
    server: _Server
    compatibility: _Compatibility = _Compatibility()
    user_config: Annotated[dict[_Text, _Setting], Field(max_length=300)] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A downloaded bundle whose manifest has been read, and nothing else."""

    content: bytes = field(repr=False)
    digest: str
    """The SHA-256 of the archive, in hexadecimal."""
    manifest: BundleManifest | None
    """None for a single executable file."""
    folder: Path
    """The folder of its files, once it has been unpacked."""
    files: frozenset[str] = field(default=frozenset(), repr=False)
    """Their names."""

    @property
    def fields(self) -> tuple[PublishedInput, ...]:
        """The inputs of its `user_config`."""
        settings = self.manifest.user_config if self.manifest else {}
        return tuple(one.as_input(name) for name, one in settings.items())

    @property
    def server(self) -> PublishedServer:
        """A server for a bundle that comes from no registry."""
        manifest = self.manifest
        name = (
            re.sub(r"[^\w.-]", "-", manifest.name if manifest else "", flags=re.ASCII).strip("-.") or "bundle"
        )
        version = manifest.version if manifest else ""
        about = manifest.description if manifest else ""
        return PublishedServer(name=f"bundle/{name[:200]}", version=version[:100], description=about)

    def line(self, values: Callable[[PublishedInput], tuple[str, ...]]) -> LaunchLine:
        """Its command line with these values."""
        if self.manifest is None:
            return LaunchLine(str(self.folder / "server"), [], {}, [])
        server = self.manifest.server
        config = server.mcp_config
        override = config.platform_overrides.get(sys.platform, _Config())
        fill = _Words(self, values)
        command, args = override.command or config.command, list(override.args or config.args)
        if server.type == "uv" or not command:
            command, args = _usual(server, args)
        words = [word for text in args for word in fill.words(text)]
        env = {name: fill.text(text) for name, text in {**config.env, **override.env}.items()}
        kept = {name: text for name, text in env.items() if text is not None}
        program = fill.text(command) or ""
        if not os.path.dirname(program) and (self._has(program) or server.type == "binary"):
            program = f"./{program}"
        if os.path.dirname(program) and not os.path.isabs(program):
            program = os.path.join(_escaped(self.folder), os.path.normpath(program))
        return LaunchLine(program, [self._located(word) for word in words], kept, [])

    def _located(self, word: str) -> str:
        """The word; a file of the bundle by its whole path, because a server may start anywhere."""
        return os.path.join(_escaped(self.folder), word) if "/" in word and self._has(word) else word

    def _has(self, name: str) -> bool:
        return name in self.files

    def unpack(self) -> None:
        """Write its files into its folder, unless that is done; ConfigError if one of them is refused."""
        if self.folder.is_dir():
            return
        state = state_folder()
        state.make_folders(f"{BUNDLE_FOLDER}/x")
        draft = self.folder.with_name(f".{self.folder.name}.{os.getpid()}")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            draft.mkdir(mode=0o700)
            if self.manifest is None:
                _write(draft / "server", [self.content], executable=True)
            else:
                _unpack(self.content, draft, self.manifest.server)
            draft.rename(self.folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def opened_bundle(content: bytes, *, sha256_hex: str | None = None, file: str | None = None) -> Bundle:
    """The bundle in an archive; ConfigError if the digest differs, or an entry of it is refused.

    Nothing is written. Without an archive, a single executable file is accepted if its digest is known.
    """
    digest = sha256(content).hexdigest()
    if sha256_hex is not None and digest != sha256_hex.lower():
        raise ConfigError(
            f"the file has the SHA-256 {digest}, but its server.json names {sha256_hex.lower()}; "
            "it was changed or damaged, and was not used",
            file=file,
        )
    folder = state_folder().base / BUNDLE_FOLDER / digest[:32]
    if not content.startswith(b"PK"):
        if sha256_hex is not None and content.startswith(_EXECUTABLE):
            return Bundle(content=content, digest=digest, manifest=None, folder=folder)
        raise ConfigError("not an MCP bundle: expected a zip archive; install it by hand", file=file)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_entries(archive, len(content))
            files = frozenset(archive.NameToInfo)
            manifest = _manifest(b"".join(_pieces(archive, "manifest.json", 1 << 20)))
    except ConfigError as error:
        raise ConfigError(error.problem, file=file, key=error.key) from None
    except (
        zipfile.BadZipFile,
        zlib.error,
        KeyError,
        OSError,
        struct.error,
        NotImplementedError,
        RuntimeError,
    ):
        raise ConfigError("not an MCP bundle: it is damaged, or has no manifest.json", file=file) from None
    return Bundle(content=content, digest=digest, manifest=manifest, folder=folder, files=files)


def _manifest(content: bytes) -> BundleManifest:
    try:
        manifest = BundleManifest.model_validate(dict(parsed_document(content)))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)[0]
        problem, key = shortened(found["msg"], 120), shortened(".".join(map(str, found["loc"])), 120)
    else:
        return _checked(manifest)
    raise ConfigError(f"its manifest.json is invalid: {problem}", key=key)


def _checked(manifest: BundleManifest) -> BundleManifest:
    version = manifest.manifest_version or manifest.dxt_version
    if not re.fullmatch(r"0\.[1-4](?:\.\d+)?", version):
        raise ConfigError(f"its manifest has version {shortened(version)!r}; toolbus knows 0.1 to 0.4")
    platforms = manifest.compatibility.platforms
    if platforms and sys.platform not in platforms:
        raise ConfigError(f"it is for {shortened(', '.join(platforms))}, not for {sys.platform}")
    if _is_outside(manifest.server.entry_point):
        raise ConfigError(
            f"its entry point {shortened(manifest.server.entry_point)!r} is outside of the bundle"
        )
    return manifest


def _check_entries(archive: zipfile.ZipFile, size: int) -> None:
    """ConfigError for an archive that would write elsewhere, or too much."""
    entries, seen = archive.infolist(), set[str]()
    if len(entries) > MAX_ENTRIES:
        raise ConfigError(f"the bundle has more than {MAX_ENTRIES:,} files")
    total = sum(one.file_size for one in entries)
    if total > min(MAX_UNPACKED, max(_FREE, size * _MAX_RATIO)):
        raise ConfigError(
            f"the bundle would unpack to {total:,} bytes, which is too much; nothing was written"
        )
    for one in entries:
        name = one.orig_filename
        kind = stat.S_IFMT(one.external_attr >> 16)
        if _is_outside(name):
            raise ConfigError(f"the bundle has a file outside of its folder: {shortened(name)!r}")
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise ConfigError(f"the bundle has a link or a device: {shortened(name)!r}")
        # Also on systems that do not tell case apart: a second file would replace the first.
        plain = str(PurePosixPath(name)).casefold()
        if plain in seen:
            raise ConfigError(f"the bundle has two files of one name: {shortened(name)!r}")
        seen.add(plain)


def _is_outside(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    odd = "\\" in name or "\0" in name or ":" in path.parts[0] if path.parts else False
    return path.is_absolute() or ".." in path.parts or odd


def _pieces(archive: zipfile.ZipFile, name: str, most: int) -> Iterator[bytes]:
    """The content of a file; ConfigError if it is larger than the archive says, or than allowed."""
    left = min(most, archive.getinfo(name).file_size)
    with archive.open(name) as file:
        while piece := file.read(min(_PIECE, left + 1)):
            left -= len(piece)
            if left < 0:
                raise ConfigError(f"the bundle has a file that is too large: {shortened(name)!r}")
            yield piece


def _unpack(content: bytes, folder: Path, server: _Server) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        _check_entries(archive, len(content))
        program = server.mcp_config.command.replace("${__dirname}", "").lstrip("./")
        for one in archive.infolist():
            path = folder.joinpath(*PurePosixPath(one.filename).parts)
            if one.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            is_program = bool(one.external_attr >> 16 & 0o111) or one.filename in (
                program,
                server.entry_point,
            )
            try:
                _write(path, _pieces(archive, one.filename, MAX_UNPACKED), executable=is_program)
            except _DAMAGE as error:
                raise ConfigError(f"the bundle is damaged: {shortened(one.filename)!r}") from error


def _write(path: Path, pieces: Sequence[bytes] | Iterator[bytes], *, executable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(path, flags, 0o700 if executable else 0o600), "wb") as file:
        for piece in pieces:
            file.write(piece)


def _usual(server: _Server, args: Sequence[str]) -> tuple[str, list[str]]:
    """The command of a manifest that has none."""
    place = f"${{__dirname}}/{server.entry_point}"
    match server.type:
        case "uv":
            own = [word for word in args if word not in ("run", "--directory", "${__dirname}")]
            further = [word for word in own if word.replace("${__dirname}/", "") != server.entry_point]
            return "uv", ["run", "--directory", "${__dirname}", server.entry_point, *further]
        case "python":
            return "python3", [place, *args]
        case "node":
            return "node", [place, *args]
        case "binary":
            return place, [*args]


@dataclass(frozen=True, slots=True)
class _Words:
    """Fills the variables of a manifest in."""

    bundle: Bundle
    values: Callable[[PublishedInput], tuple[str, ...]]

    def words(self, text: str) -> list[str]:
        """An argument; several values become several arguments, and one without a value is left out."""
        if (alone := _REFERENCE.fullmatch(text)) and alone[1].startswith("user_config."):
            return list(self._setting(alone[1]))
        filled = self.text(text)
        return [] if filled is None else [filled]

    def text(self, text: str) -> str | None:
        """The text with its variables; None if one has no value."""
        parts = _REFERENCE.split(text)
        filled = [self._value(part) if odd % 2 else _escaped(part) for odd, part in enumerate(parts)]
        return None if None in filled else joined_texts(part for part in filled if part is not None)

    def _value(self, name: str) -> str | None:
        if name == "__dirname":
            return _escaped(self.bundle.folder)
        if name.startswith("user_config."):
            return ",".join(self._setting(name)) or None
        return _place(name)

    def _setting(self, name: str) -> tuple[str, ...]:
        key = name.removeprefix("user_config.")
        assert self.bundle.manifest is not None
        setting = self.bundle.manifest.user_config.get(key)
        if setting is None:
            raise ConfigError(f"its manifest refers to ${{{name}}}, which it does not define")
        # Without values of the user, `values` has the first default only.
        given = self.values(setting.as_input(key).model_copy(update={"default": ""}))
        return given or tuple(_settled(one) for one in setting.default)


def _settled(value: str | float | bool) -> str:
    """A default as a text for a config, with the user's folders in it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return f"{value:g}"
    parts = _REFERENCE.split(value)
    return joined_texts(_place(part) if odd % 2 else _escaped(part) for odd, part in enumerate(parts))


def _place(name: str) -> str:
    if name in ("pathSeparator", "/"):
        return os.sep
    home = os.path.expanduser("~")
    return _escaped(home if name == "HOME" else os.path.join(home, _PLACES.get(name, "")))


def joined_texts(texts: Iterable[str]) -> str:
    """Escaped texts as one: a `$` at the end of one and a `{` at the start of the next are no reference."""
    whole = ""
    for text in texts:
        whole += f"${text}" if whole.endswith("$") and text.startswith("{") else text
    return whole


def _escaped(text: object) -> str:
    return str(text).replace("${", "$${")
