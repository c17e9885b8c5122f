"""The text files of one folder, to list, read and write; nothing outside of it can be reached."""

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

MOST_FILES = 1000
MOST_BYTES = 1_000_000
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
REPLACES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
FilePath = Annotated[str, Field(description="Path of the file, relative to the folder, as list gives it.")]


class File(BaseModel):
    """One file."""

    path: str = Field(description="Relative to the folder.")
    bytes: int


class Listing(BaseModel):
    """The files that match, by path."""

    files: list[File]


class Refused(Exception):
    """A path that is not served; the message is for whoever asked."""


class Folder:
    """One folder, and the way to the files in it that never leads out of it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def files(self) -> Iterator[File]:
        """Every file, by path, but no links: they may lead elsewhere; and no names that JSON cannot hold."""
        for place, folders, names in os.walk(self._root):
            folders.sort()
            for path in (Path(place, name) for name in sorted(names)):
                with suppress(FileNotFoundError, UnicodeEncodeError):  # it went while we looked; not UTF-8
                    status = path.lstat()
                    name = path.relative_to(self._root).as_posix().encode().decode()
                    if S_ISREG(status.st_mode):
                        yield File(path=name, bytes=status.st_size)

    def read(self, path: str) -> str:
        """The text of a file."""
        try:
            place = self._place(path)
            if not place.is_file():
                raise Refused(f"{path!r} is not a file in this folder; call list to see the files")
            if place.stat().st_size > MOST_BYTES:
                raise Refused(f"{path!r} is larger than {MOST_BYTES} bytes")
            return place.read_bytes().decode()
        except UnicodeDecodeError:
            raise Refused(f"{path!r} is not text (UTF-8)") from None
        except OSError as error:
            raise Refused(f"{path!r} cannot be read: {error.strerror}") from error

    def write(self, path: str, text: str) -> int:
        """Make or replace a file and the folders above it; gives its size in bytes."""
        data = text.encode()
        try:
            place = self._place(path)
            if place.exists() and not place.is_file():
                raise Refused(f"{path!r} is not a regular file; choose another name")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        except OSError as error:
            raise Refused(f"{path!r} cannot be written: {error.strerror}") from error
        return len(data)

    def _place(self, path: str) -> Path:
        pure = PurePath(path)
        if pure.anchor or ".." in pure.parts or "\0" in path:
            raise Refused(f"{path!r} points outside the folder; use a path inside it, without '..'")
        place = self._root
        for part in pure.parts:
            place /= part
            if place.is_symlink():
                raise Refused(f"{path!r} goes through a symbolic link, which may point outside the folder")
        return place


def files_server(root: Path) -> MCPServer:
    """A server on this folder."""
    folder = Folder(root)
    server: MCPServer = MCPServer(
        "files",
        instructions="The text files of one folder. List them first; paths are relative to the folder.",
        log_level="WARNING",
    )

    @server.tool(name="list", annotations=READS)
    def list_files(
        pattern: Annotated[
            str, Field(description="Which paths: * stands for any characters (also /), ? for one.")
        ] = "*",
    ) -> Listing:
        """List the files of the folder and of all folders in it, with their sizes."""
        found = [file for file in folder.files() if fnmatchcase(file.path, pattern)]
        if len(found) > MOST_FILES:
            raise ToolError(f"{len(found)} files match, more than {MOST_FILES}; use a narrower pattern")
        return Listing(files=found)

    @server.tool(annotations=READS, structured_output=False)
    def read(path: FilePath) -> str:
        """Read a text file (UTF-8, at most 1 MB) and give its whole text."""
        try:
            return folder.read(path)
        except Refused as refused:
            raise ToolError(str(refused)) from refused

    @server.tool(annotations=REPLACES, structured_output=False)
    def write(path: FilePath, text: Annotated[str, Field(description="The whole new text.")]) -> str:
        """Write a text file. Replaces the one that is there; makes missing folders."""
        try:
            return f"wrote {folder.write(path, text)} bytes to {path}"
        except Refused as refused:
            raise ToolError(str(refused)) from refused

    @server.resource("folder:///{+path}", mime_type="text/plain")
    def file(path: str) -> str:
        """A file of the folder."""
        try:
            return folder.read(path)
        except Refused as refused:
            raise ResourceError(str(refused)) from refused

    return server


def main() -> None:
    """Serve the folder that the command line names."""
    parser = command_line("files", __doc__)
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder whose files are served")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{str(options.folder)!r} is not a folder")
    serve(files_server(options.folder), options.http)


if __name__ == "__main__":
    main()
