"""List, read and write the text files of one folder; nothing outside it is reachable."""

import os
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from toolbus.demo.serve import command_line, serve

MAX_FILES = 1000
MAX_BYTES = 1_000_000
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
REPLACES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
FilePath = Annotated[str, Field(description="Path of the file, relative to the folder, as returned by list.")]


class File(BaseModel):
    """One file."""

    path: str = Field(description="Relative to the folder.")
    bytes: int


class Listing(BaseModel):
    """The matching files, sorted by path."""

    files: list[File]


class Refused(Exception):
    """A path that is not served; the message is for the client."""


class Folder:
    """One folder, and safe access to the files in it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def files(self) -> Iterator[File]:
        """Every file, sorted by path. Skips links, which may point elsewhere, and non-UTF-8 names."""
        for parent, folders, names in os.walk(self._root):
            folders.sort()
            for path in (Path(parent, name) for name in sorted(names)):
                with suppress(FileNotFoundError, UnicodeEncodeError):  # deleted in the meantime; not UTF-8
                    status = path.lstat()
                    name = path.relative_to(self._root).as_posix().encode().decode()
                    if S_ISREG(status.st_mode):
                        yield File(path=name, bytes=status.st_size)

    def read(self, path: str) -> str:
        """The text of a file."""
        try:
            file = self._checked(path)
            if not file.is_file():
                raise Refused(f"{path!r} is not a file in this folder; call list to see the files")
            if file.stat().st_size > MAX_BYTES:
                raise Refused(f"{path!r} is larger than {MAX_BYTES} bytes")
            return file.read_bytes().decode()
        except UnicodeDecodeError:
            raise Refused(f"{path!r} is not text (UTF-8)") from None
        except OSError as error:
            raise Refused(f"{path!r} cannot be read: {error.strerror}") from error

    def write(self, path: str, text: str) -> int:
        """Create or replace a file and its parent folders; returns its size in bytes."""
        data = text.encode()
        try:
            file = self._checked(path)
            if file.exists() and not file.is_file():
                raise Refused(f"{path!r} is not a regular file; choose another name")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        except OSError as error:
            raise Refused(f"{path!r} cannot be written: {error.strerror}") from error
        return len(data)

    def _checked(self, path: str) -> Path:
        pure = PurePath(path)
        if pure.anchor or ".." in pure.parts or "\0" in path:
            raise Refused(f"{path!r} points outside the folder; use a path inside it, without '..'")
        file = self._root
        for part in pure.parts:
            file /= part
            if file.is_symlink():
                raise Refused(f"{path!r} goes through a symbolic link, which may point outside the folder")
        return file


def files_server(root: Path) -> MCPServer:
    """A server for this folder."""
    folder = Folder(root)
    server: MCPServer = MCPServer(
        "files",
        instructions="The text files of one folder. List them first; paths are relative to the folder.",
        log_level="WARNING",
    )

    @server.tool(name="list", annotations=READS)
    def list_files(
        pattern: Annotated[
            str, Field(description="Paths to match: * is any characters (including /), ? is one.")
        ] = "*",
    ) -> Listing:
        """List the files in the folder and its subfolders, with their sizes."""
        found = [file for file in folder.files() if fnmatchcase(file.path, pattern)]
        if len(found) > MAX_FILES:
            raise ToolError(f"{len(found)} files match, more than {MAX_FILES}; use a narrower pattern")
        return Listing(files=found)

    @server.tool(annotations=READS, structured_output=False)
    def read(path: FilePath) -> str:
        """Read a text file (UTF-8, at most 1 MB) and return its text."""
        try:
            return folder.read(path)
        except Refused as refused:
            raise ToolError(str(refused)) from refused

    @server.tool(annotations=REPLACES, structured_output=False)
    def write(path: FilePath, text: Annotated[str, Field(description="The whole new text.")]) -> str:
        """Write a text file. Replaces an existing file; creates missing folders."""
        try:
            return f"wrote {folder.write(path, text)} bytes to {path}"
        except Refused as refused:
            raise ToolError(str(refused)) from refused

    @server.resource("folder:///{+path}", mime_type="text/plain")
    def file(path: str) -> str:
        """A file in the folder."""
        try:
            return folder.read(path)
        except Refused as refused:
            raise ResourceError(str(refused)) from refused

    return server


def main() -> None:
    """Serve the folder given on the command line."""
    parser = command_line("files", __doc__)
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder to serve")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{str(options.folder)!r} is not a folder")
    serve(files_server(options.folder), options.http)


if __name__ == "__main__":
    main()
