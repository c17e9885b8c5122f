"""Build the distributions and use them as a new user would: `make release`. RELEASING.md has the steps.

The wheel and the source distribution are built from a copy of the files that git knows, checked, installed
into an empty environment, and used. The first failure ends it with what the command printed.
"""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
TWINE = "twine==7.0.0"
"""The judge of the metadata; it also renders README as the index does."""
RECOVERED = "back after 1 restart"
"""What the demo says once it has killed a server."""
LINK = re.compile(r"(?P<mark>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
DIAGRAM = re.compile(r"^```mermaid\n.*?^```\n\n", re.MULTILINE | re.DOTALL)
UNWANTED = re.compile(r"(^|/)(\.venv|\.interop|\.adapters|\.git|__pycache__|[^/]*\.(pem|key|db)|\.env)(/|$)")
"""Parts of paths that no distribution may have; the certificate of the tests is named below."""
ALLOWED = {"tests/nobody.pem"}


class ReleaseFailed(Exception):
    """A step of the release failed; the message has what it printed."""


def project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def for_the_index(readme: str, repository: str, version: str) -> str:
    """README for a page elsewhere: links and pictures by their URL, without diagrams."""

    def absolute(link: re.Match[str]) -> str:
        target = link["target"]
        if "://" in target or target.startswith("#"):
            return link[0]
        kind = "raw" if link["mark"] else "blob"
        text = LINK.sub(absolute, link["text"])
        return f"{link['mark']}[{text}]({repository.rstrip('/')}/{kind}/v{version}/{target})"

    return LINK.sub(absolute, DIAGRAM.sub("", readme))


def left_to_do(about: Mapping[str, Any], changes: str) -> list[str]:
    """What a person has to decide before the upload, of what can be seen in the files."""
    left: list[str] = []
    if "Repository" not in about.get("urls", {}):
        left.append(
            "pyproject.toml has no [project.urls] with a Repository, so the links in README lead nowhere"
        )
    if f"## {about['version']} (unreleased)" in changes:
        left.append(f"CHANGELOG.md still calls {about['version']} unreleased")
    if f"## {about['version']}" not in changes:
        left.append(f"CHANGELOG.md has no section {about['version']}")
    return left


def run(*words: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """The output of a command; `ReleaseFailed` with all of it unless it succeeds."""
    program = shutil.which(words[0])  # here, because `env` may have a PATH without our tools
    if program is None:
        raise ReleaseFailed(f"{words[0]} is not installed")
    done = subprocess.run(
        [program, *map(str, words[1:])],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise ReleaseFailed(f"{' '.join(map(str, words))}\nexit code {done.returncode}\n{done.stdout}")
    return done.stdout


def build(about: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """Build both files in `dist/`, the wheel from the source distribution; returns them, the wheel first."""
    source = folder / "source"
    for name in run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    repository = about.get("urls", {}).get("Repository")
    if repository:
        readme = source / about["readme"]
        readme.write_text(for_the_index(readme.read_text("utf-8"), repository, about["version"]), "utf-8")
    shutil.rmtree(DIST, ignore_errors=True)
    run("uv", "build", "--no-config", "--out-dir", DIST, source)
    [wheel], [archive] = DIST.glob("toolbus-*.whl"), DIST.glob("toolbus-*.tar.gz")
    return wheel, archive


def check_contents(about: Mapping[str, Any], wheel: Path, archive: Path) -> None:
    """Raise unless both have what they need, and nothing else."""
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        said = email.message_from_bytes(packed.read(metadata))
    tops = {name.partition("/")[0] for name in names}
    needed = {"toolbus/py.typed", "toolbus/cli/entry.py", f"{metadata.partition('/')[0]}/licenses/LICENSE"}
    if missing := needed - set(names):
        raise ReleaseFailed(f"{wheel.name} has no {', '.join(sorted(missing))}")
    if tops != {"toolbus", metadata.partition("/")[0]}:
        raise ReleaseFailed(f"{wheel.name} has more than the package: {sorted(tops)}")
    for field, value in {"Name": "toolbus", "Version": about["version"], "License-Expression": "MIT"}.items():
        if said[field] != value:
            raise ReleaseFailed(f"{wheel.name}: {field} is {said[field]!r}, not {value!r}")
    with tarfile.open(archive) as packed:
        names += [name.partition("/")[2] for name in packed.getnames()]
    if unwanted := sorted(name for name in names if UNWANTED.search(name) and name not in ALLOWED):
        raise ReleaseFailed(f"these do not belong into a distribution: {', '.join(unwanted[:5])}")


def clean_environment(folder: Path, *programs: Path) -> dict[str, str]:
    """The environment variables of a user who has nothing of this project."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_", "LANG"))
    }
    own = str(ROOT)
    path = [one for one in os.environ["PATH"].split(os.pathsep) if not one.startswith(own)]
    return kept | {
        "PATH": os.pathsep.join([*map(str, programs), *path]),
        "HOME": str(home),
        "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or run("uv", "cache", "dir").strip(),
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }


def expect(printed: str, *wanted: str) -> None:
    """Raise unless all of this was printed."""
    for one in wanted:
        if one not in printed:
            raise ReleaseFailed(f"expected {one!r} in\n{printed}")


def use_installed(about: Mapping[str, Any], wheel: Path, folder: Path) -> None:
    """Install the wheel, without extras, into an empty environment, and make the first calls of README."""
    place, empty = folder / "installed", folder / "empty"
    empty.mkdir()
    programs = place / ("Scripts" if sys.platform == "win32" else "bin")
    run("uv", "venv", "--no-config", place)
    run("uv", "pip", "install", "--no-config", "--python", place, wheel)
    run("uv", "pip", "check", "--no-config", "--python", place)
    env = clean_environment(folder, programs)
    toolbus = programs / "toolbus"
    expect(run(toolbus, "--version", cwd=empty, env=env), f"toolbus {about['version']}\n")
    expect(run(toolbus, "demo", cwd=empty, env=env), RECOVERED)
    expect(
        run(toolbus, "add", "notes", "--", "python", "-m", "toolbus.demo.notes", cwd=empty, env=env),
        "added notes",
    )
    expect(run(toolbus, "tools", cwd=empty, env=env), "notes_add", "notes_search")
    expect(run(toolbus, "call", "notes_add", "text=buy tea", cwd=empty, env=env), "kept as note 1")
    expect(run(programs / "python", "-c", FIRST_CALL, cwd=empty, env=env), "kept as note 1")


FIRST_CALL = """
from toolbus import SyncToolbus
with SyncToolbus.from_servers(notes=["python", "-m", "toolbus.demo.notes"]) as bus:
    print(bus.call("notes_add", {"text": "buy tea"}).text)
"""


def use_without_installing(about: Mapping[str, Any], wheel: Path, folder: Path) -> None:
    """Run the demo as a stranger would: `uvx --from dist/toolbus-*.whl toolbus demo`."""
    env = clean_environment(folder)
    uvx = ("uvx", "--no-config", "--isolated", "--from", wheel, "toolbus")
    expect(run(*uvx, "demo", cwd=folder / "empty", env=env), RECOVERED)
    expect(run(*uvx, "--version", cwd=folder / "empty", env=env), f"toolbus {about['version']}\n")


def main() -> int:
    """Make all steps; returns the exit code."""
    about = project()
    with tempfile.TemporaryDirectory(prefix="toolbus-release-") as made:
        folder = Path(made)
        try:
            wheel, archive = build(about, folder)
            for file in (archive, wheel):
                print(f"built      dist/{file.name}, {file.stat().st_size / 1e6:.1f} MB", flush=True)
            check_contents(about, wheel, archive)
            run("uvx", "--no-config", TWINE, "check", "--strict", wheel, archive)
            print("checked    contents and metadata; README renders", flush=True)
            use_installed(about, wheel, folder)
            print(
                "installed  into an empty environment: --version, demo, add, tools, call, from Python",
                flush=True,
            )
            use_without_installing(about, wheel, folder)
            print(f"ran        uvx --from dist/{wheel.name} toolbus demo", flush=True)
        except ReleaseFailed as error:
            print(f"\nrelease failed: {error}", file=sys.stderr)
            return 1
    left = left_to_do(about, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    for one in left:
        print(f"to do      {one}")
    print("next       RELEASING.md" + (", before the upload" if left else ": the tag and the upload"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
