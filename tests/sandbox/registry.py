"""A registry for npm and uv on this machine, with one package: a server in JavaScript, or the probe."""

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

from tests.sandbox.place import PROBE

PACKAGE = "toolbus-probe"
WHEEL = "toolbus_probe-1.0-py3-none-any.whl"
INSTALL_JS = """
const fs = require('fs');
const seen = {env: process.env, secret: fs.existsSync(process.env.npm_config_place || '/nowhere')};
fs.writeFileSync('seen.json', JSON.stringify(seen));
"""
SERVER_JS = """#!/usr/bin/env node
const fs = require('fs'), path = require('path');
const tools = [{name: 'look', inputSchema: {type: 'object'}}];
function written() {
  try { fs.writeFileSync(path.join(__dirname, 'planted'), 'x'); } catch (error) { return error.code; }
}
function look() {
  return {args: process.argv.slice(2), env: process.env, written: written(),
          installing: JSON.parse(fs.readFileSync(path.join(__dirname, 'seen.json')))};
}
const answers = {
  'initialize': () => ({
    protocolVersion: '2025-06-18', capabilities: {tools: {}}, serverInfo: {name: 'js', version: '1'}
  }),
  'tools/list': () => ({tools}),
  'tools/call': () => ({content: [{type: 'text', text: JSON.stringify(look())}]}),
};
require('readline').createInterface({input: process.stdin}).on('line', line => {
  const {id, method} = JSON.parse(line);
  if (id === undefined) return;
  const answer = answers[method] ? {result: answers[method]()} : {error: {code: -32601, message: 'no'}};
  console.log(JSON.stringify({jsonrpc: '2.0', id, ...answer}));
});
"""
MANIFEST = {
    "name": PACKAGE,
    "version": "1.0.0",
    "bin": {PACKAGE: "server.js"},
    "scripts": {"postinstall": "node install.js"},
}


def _tarball(manifest: Mapping[str, object], more: Mapping[str, str]) -> bytes:
    own = {"package.json": json.dumps(manifest), "server.js": SERVER_JS, "install.js": INSTALL_JS}
    files = {**own, **more}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size, info.mode = len(text.encode()), 0o755
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _wheel(more: Mapping[str, str]) -> bytes:
    info = "toolbus_probe-1.0.dist-info"
    files = {
        "toolbus_probe.py": PROBE.read_text(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{PACKAGE} = toolbus_probe:serve\n",
    }
    files |= more
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


class Registry:
    """The requests that it got, and whether it answers."""

    def __init__(
        self, manifest: Mapping[str, object], npm: Mapping[str, str], wheel: Mapping[str, str]
    ) -> None:
        self.asked: list[str] = []
        self.was_asked = Event()
        self.answers = Event()
        self.answers.set()
        self.url = ""
        self._manifest = {**MANIFEST, **manifest}
        self._tarball, self._wheel = _tarball(self._manifest, npm), _wheel(wheel)

    def variables(self) -> dict[str, str]:
        """The variables that lead the launchers to it."""
        return {"npm_config_registry": self.url, "UV_DEFAULT_INDEX": f"{self.url}/simple"}

    def content(self, path: str) -> tuple[bytes, str] | None:
        if path == f"/{PACKAGE}":
            return json.dumps(self._packument()).encode(), "application/json"
        if path == f"/simple/{PACKAGE}/":
            return f'<a href="{self.url}/{WHEEL}">{WHEEL}</a>'.encode(), "text/html"
        files = {"/package.tgz": self._tarball, f"/{WHEEL}": self._wheel}
        return (files[path], "application/octet-stream") if path in files else None

    def _packument(self) -> object:
        digest = base64.b64encode(hashlib.sha512(self._tarball).digest()).decode()
        dist = {"tarball": f"{self.url}/package.tgz", "integrity": f"sha512-{digest}"}
        return {
            "name": PACKAGE,
            "dist-tags": {"latest": "1.0.0"},
            "versions": {"1.0.0": {**self._manifest, "hasInstallScript": True, "dist": dist}},
        }


@contextmanager
def serving(
    manifest: Mapping[str, object] | None = None,
    npm: Mapping[str, str] | None = None,
    wheel: Mapping[str, str] | None = None,
) -> Generator[Registry]:
    """A registry on a free port; with another manifest, and further files in its packages."""
    registry = Registry(manifest or {}, npm or {}, wheel or {})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            registry.was_asked.set()
            registry.answers.wait()
            found = registry.content(self.path)
            self.send_response(404 if found is None else 200)
            body, kind = found or (b"{}", "application/json")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda request, client_address: None  # a client that was ended
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        registry.answers.set()
        server.shutdown()
        server.server_close()
        thread.join()
