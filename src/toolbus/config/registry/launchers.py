"""The command lines of npx, uvx, dnx and docker for a package.

Publishers put options, the package itself and its arguments into `runtimeArguments` in any order. A word
that is not an option of the launcher never comes before the package: the launcher would run it instead.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from toolbus.config.registry.document import PublishedPackage

_NPX_ALONE = frozenset({"-y", "--yes", "-q", "--quiet", "--offline", "--prefer-offline", "--bun"})
_UVX_ALONE = frozenset({"-q", "--quiet", "--offline", "--isolated", "-n", "--no-cache"})
_UVX_VALUE = frozenset({"--with", "-p", "--python", "--prerelease", "--exclude-newer"})
_DNX_ALONE = frozenset(
    {"--prerelease", "--ignore-failed-sources", "--disable-parallel", "--no-http-cache", "--interactive"}
)
_DOCKER_ALONE = frozenset(
    {
        *("-i", "-t", "-it", "-ti", "-d", "-P", "--interactive", "--tty", "--detach", "--rm", "--init"),
        *("--privileged", "--read-only", "--publish-all", "--no-healthcheck", "--oom-kill-disable"),
    }
)
_DOCKER_VALUE = frozenset(
    {
        *(
            "-a",
            "-c",
            "-e",
            "-h",
            "-l",
            "-m",
            "-p",
            "-u",
            "-v",
            "-w",
            "--add-host",
            "--annotation",
            "--attach",
        ),
        *("--blkio-weight", "--cap-add", "--cap-drop", "--cgroup-parent", "--cgroupns", "--cidfile"),
        *("--cpu-period", "--cpu-quota", "--cpu-shares", "--cpus", "--cpuset-cpus", "--cpuset-mems"),
        *("--detach-keys", "--device", "--device-cgroup-rule", "--dns", "--dns-option", "--dns-search"),
        *("--domainname", "--entrypoint", "--env", "--env-file", "--expose", "--gpus", "--group-add"),
        *("--hostname", "--ip", "--ip6", "--ipc", "--isolation", "--label", "--label-file", "--link"),
        *("--log-driver", "--log-opt", "--mac-address", "--memory", "--memory-reservation", "--memory-swap"),
        *(
            "--mount",
            "--name",
            "--net",
            "--network",
            "--network-alias",
            "--pid",
            "--pids-limit",
            "--platform",
        ),
        *("--publish", "--pull", "--restart", "--runtime", "--secret", "--security-opt", "--shm-size"),
        *("--stop-signal", "--stop-timeout", "--storage-opt", "--sysctl", "--tmpfs", "--ulimit", "--user"),
        *("--userns", "--uts", "--volume", "--volume-driver", "--volumes-from", "--workdir"),
    }
)
"""Options whose value may be the next word; the value of any other one is attached to it."""
_POWERFUL = re.compile(
    r"--privileged|--(?:cap-add|device|security-opt|pid|ipc|userns|gpus)\b.*|/:.*|.*docker\.sock.*"
    r"|--network=host|type=bind,(?:src|source)=/,.*"
)
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)=(?P<value>.*)", re.DOTALL)
_BARE_NAME = re.compile(r"(?P<name>@?[\w.~-]+(?:/[\w.~-]+)?)(?P<extras>\[[\w,.-]+\])?(?:(?:@|==).*)?")


@dataclass(slots=True)
class LaunchLine:
    """A program, its arguments and variables, and what a person should know about them."""

    command: str
    args: list[str]
    env: dict[str, str]
    warnings: list[str]


Words = tuple[Sequence[str], Sequence[str]]
"""The runtime arguments and the package arguments, filled in."""


def _npm(package: PublishedPackage, words: Words, env: dict[str, str]) -> LaunchLine:
    command = "bunx" if package.runtime_hint == "bunx" else "npx"
    spec = _at(package.identifier, package.version)
    split = _split(words[0], package, alone=_NPX_ALONE, with_value=frozenset(), naming=("-p", "--package"))
    flags = [] if command == "bunx" else ["-y"]
    options = [word for word in split.options if word not in ("-y", "--yes")]
    named = ["--package", spec, split.program] if split.program else [spec]
    args = [*flags, *options, *named, *split.rest, *words[1]]
    return LaunchLine(command, args, env, split.warnings)


def _pypi(package: PublishedPackage, words: Words, env: dict[str, str]) -> LaunchLine:
    runtime = list(words[0])
    module = re.fullmatch(r"python[\d.]*", package.runtime_hint) and runtime[:1] == ["-m"]
    naming = ("--from", "--spec")
    split = _split([] if module else runtime, package, alone=_UVX_ALONE, with_value=_UVX_VALUE, naming=naming)
    extras = split.extras if "[" not in package.identifier else ""
    spec = _at(f"{package.identifier}{extras}", package.version)
    program = ["python", *runtime] if module else [split.program] if split.program else []
    if package.runtime_hint == "pipx":
        spec = f"{package.identifier}{extras}=={package.version}" if package.version else spec
        named = ["run", "--spec", spec, *program] if program else ["run", spec]
        return LaunchLine("pipx", [*named, *split.rest, *words[1]], env, split.warnings)
    named = ["--from", spec, *program] if program else [spec]
    return LaunchLine("uvx", [*split.options, *named, *split.rest, *words[1]], env, split.warnings)


def _nuget(package: PublishedPackage, words: Words, env: dict[str, str]) -> LaunchLine:
    options = [word for word in words[0] if word not in ("--yes", "-y", "--")]
    stray = [word for word in options if word not in _DNX_ALONE]
    rest = [*options, *words[1]] if stray else list(words[1])
    before = [] if stray else options
    spec = _at(package.identifier, package.version)
    return LaunchLine("dnx", [spec, *before, "--yes", "--", *rest], env, [])


def _oci(package: PublishedPackage, words: Words, env: dict[str, str]) -> LaunchLine:
    command = package.runtime_hint if package.runtime_hint in ("podman", "nerdctl") else "docker"
    image, warnings, given = image_of(package), list[str](), dict(env)
    options, rest = _docker_words(words[0], image, given, warnings)
    flags = [flag for flag in ("-i", "--rm") if flag not in options]
    if powerful := [word for word in options if _POWERFUL.fullmatch(word)]:
        warnings.append(f"{' '.join(powerful)} gives the container power over this machine")
    named = [word for name in given for word in ("-e", name)]
    args = ["run", *flags, *named, *options, image, *rest, *words[1]]
    return LaunchLine(command, args, given, warnings)


LAUNCHERS: Mapping[str, Callable[[PublishedPackage, Words, dict[str, str]], LaunchLine]] = {
    "npm": _npm,
    "pypi": _pypi,
    "nuget": _nuget,
    "oci": _oci,
}
"""The command line of each type of package."""

INSTALL_LINES = {
    "cargo": "cargo install {id} --version {version}",
    "go": "go install {id}@{version}",
    "maven": "jbang {id}:{version}",
}
"""The command that installs a package that no launcher runs."""


def image_of(package: PublishedPackage) -> str:
    """The image with its tag or digest."""
    name = package.identifier
    has_tag = "@" in name or ":" in name.rpartition("/")[2]
    return name if has_tag or not package.version else f"{name}:{package.version}"


def _at(name: str, version: str) -> str:
    return f"{name}@{version}" if version else name


@dataclass(slots=True, kw_only=True)
class _Split:
    """The runtime arguments of npx or uvx, apart."""

    options: list[str]
    program: str
    """The program to run, if it has another name than the package."""
    extras: str
    rest: list[str]
    """Arguments of the program."""
    warnings: list[str]


def _split(
    words: Sequence[str],
    package: PublishedPackage,
    *,
    alone: frozenset[str],
    with_value: frozenset[str],
    naming: Sequence[str],
) -> _Split:
    found = _Split(options=[], program="", extras="", rest=[], warnings=[])
    waiting, is_named = list(words), False
    while waiting:
        word = waiting.pop(0)
        option, _, value = word.partition("=")
        if word in alone:
            found.options.append(word)
        elif option in with_value:
            found.options += [word] if value else [word, *waiting[:1]]
            waiting = waiting if value else waiting[1:]
        elif option in naming:
            value = value or "".join(waiting[:1])
            waiting = waiting if "=" in word else waiting[1:]
            is_named = _is_same(value, package, found)
            if not is_named:
                found.warnings.append(f"{word} {value} was left out: it names another package")
                waiting = waiting[1:]  # its program
        elif word.startswith("-"):
            found.rest += [word, *waiting]
            break
        else:
            is_package = not is_named and _is_same(word, package, found)
            found.program = word if is_named else ""
            found.rest += waiting if is_package or is_named else [word, *waiting]
            break
    return found


def _is_same(word: str, package: PublishedPackage, found: _Split) -> bool:
    """Whether a word names the package itself; its extras are kept."""
    named, own = _BARE_NAME.fullmatch(word), package.identifier.partition("[")[0]
    if named is None or _normal(named["name"]) != _normal(own):
        return False
    found.extras = named["extras"] or ""
    return True


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _docker_words(
    words: Sequence[str], image: str, env: dict[str, str], warnings: list[str]
) -> tuple[list[str], list[str]]:
    """The options, and the words after the image, if there is one; variables move to `env`."""
    waiting, options = list(words), list[str]()
    if waiting[:1] == ["run"]:
        waiting.pop(0)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("-"):
            if repository(word) != repository(image):
                warnings.append(f"its arguments name the image {word!r}; {image!r} is run instead")
            return options, waiting
        if word in _DOCKER_ALONE or "=" in word:
            options.append(word)
            continue
        value = waiting.pop(0) if waiting else ""
        if word in ("-e", "--env"):
            assigned = _ASSIGNED.fullmatch(value)
            if assigned is not None:  # with its value, other users would see it in the list of processes
                env.setdefault(assigned["name"], assigned["value"])
            # A name alone passes on a variable, which is in `env` if it has a value.
            continue
        if word in _DOCKER_VALUE:
            options += [word, value]
        elif value.startswith("-") or repository(value) in ("", repository(image)):  # it is a switch
            options.append(word)
            waiting = [value, *waiting] if value else []
        else:  # as a word of its own it would be the image, if the option is a switch
            options.append(f"{word}={value}")
    return options, []


def repository(image: str) -> str:
    """The image without tag and digest."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}".removeprefix("docker.io/")
