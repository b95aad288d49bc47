"""From what a NodeManager writes for ``container-executor`` to the arguments of docker."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from executor_rights import Configuration, invalid, parser, say, split

COMMAND = "docker-command-execution"
"""The one section of the files in which a NodeManager writes what Docker is to do."""


class Docker:
    """The command line of docker."""

    def __init__(self, configuration: Configuration) -> None:
        host = configuration.get("docker.host")
        self.argv = [configuration.get("docker.binary", "/usr/bin/docker")]
        self.argv += [f"--host={host}"] if host else []

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.argv, *arguments], check=False, capture_output=True, text=True, errors="replace"
        )

    def become(self, *arguments: str) -> None:
        os.execv(self.argv[0], [*self.argv, *arguments])


def command_in(path: str) -> dict[str, str]:
    read = parser()
    read.read_string(Path(path).read_text())
    return dict(read[COMMAND])


def told(path: str) -> list[str]:
    """Return docker's arguments for anything but a start."""
    given = command_in(path)
    word = given["docker-command"]
    named = {
        "inspect": lambda: [f"--format={given['format']}", given["name"]],
        "kill": lambda: [*flag(given, "signal"), given["name"]],
        "stop": lambda: [*flag(given, "time"), given["name"]],
        "rm": lambda: ["--force", given["name"]],
        "start": lambda: [given["name"]],
        "pull": lambda: [given["image"]],
        "load": lambda: [f"--input={given['image']}"],
        "images": lambda: ["--format={{json .}}", "--filter=dangling=false"],
    }
    return [word, *named[word]()]


def flag(given: dict[str, str], name: str) -> list[str]:
    return [f"--{name}={given[name]}"] if given.get(name) else []


def run_arguments(given: dict[str, str], configuration: Configuration) -> list[str]:
    """Return what is behind ``docker run``; raises `Refused` for what is not allowed."""
    image = given["image"]
    return [
        f"--name={given['name']}",
        *privileges(given, configuration),
        *(["--detach"] if given.get("detach") == "true" else []),
        *flag(given, "workdir"),
        *network(given, configuration),
        *mounts(given, configuration),
        *(f"--tmpfs={path}" for path in split(given.get("tmpfs", ""), ",")),
        *flag(given, "cgroup-parent"),
        *capabilities(given, configuration),
        *runtime(given, configuration),
        *flag(given, "hostname"),
        *(f"--group-add={group}" for group in split(given.get("group-add", ""), ",")),
        *devices(given, configuration),
        *([f"--env-file={given['environ']}"] if given.get("environ") else []),
        image,
        *split(given.get("launch-command", ""), ","),
    ]


def privileges(given: dict[str, str], configuration: Configuration) -> Iterator[str]:
    if given.get("privileged") == "true":
        if not configuration.allows("docker.privileged-containers.enabled"):
            raise invalid(63, "Privileged containers are disabled")
        yield "--privileged"
        return
    yield f"--user={given['user']}"
    if configuration.allows("docker.no-new-privileges.enabled"):
        yield "--security-opt=no-new-privileges"


def network(given: dict[str, str], configuration: Configuration) -> Iterator[str]:
    wanted = given.get("net")
    if wanted is None:
        return
    if wanted not in configuration.many("docker.allowed.networks"):
        said = "Could not find requested network in allowed networks"
        raise invalid(60, f"Invalid param '{wanted}' requested", said)
    yield f"--net={wanted}"
    if wanted in ("host", "none"):
        return
    ports = split(given.get("ports-mapping", ""), ",")
    yield from (f"--publish={each}" for each in ports) if ports else ("--publish-all",)


def mounts(given: dict[str, str], configuration: Configuration) -> Iterator[str]:
    wanted = split(given.get("mounts", ""), ",")
    if wanted and not configuration.trusts(given["image"]):  # as natively: dropped, not refused
        say("Disable mount volume for untrusted image", 2)
        return
    readable = [resolved(each) for each in configuration.many("docker.allowed.ro-mounts")]
    writable = [resolved(each) for each in configuration.many("docker.allowed.rw-mounts")]
    if None in (*readable, *writable):
        raise invalid(52, "Unable to find permitted docker mounts on disk")
    for each in wanted:
        source, _, mode = each.split(":")
        found = resolved(source)
        if found is None:
            lines = f"Could not determine real path of mount '{source}'", f"'{each}'"
            raise invalid(49, lines[0], f"Invalid docker mount {lines[1]}, realpath={source}")
        said = f"Configuration does not allow docker mount '{each}', realpath={source}"
        if mode.startswith("rw") and not within(found, writable):
            raise invalid(51, said)
        if not within(found, [*writable, *readable]):
            raise invalid(50, said)
        yield f"--volume={each}"


def resolved(path: str) -> str | None:
    """Return where *path* leads, a directory with a slash at its end; None: nothing is there."""
    real = os.path.realpath(path)
    if not Path(real).exists():
        return None
    return real.rstrip("/") + "/" if Path(real).is_dir() else real


def within(path: str, allowed: Sequence[str | None]) -> bool:
    """Say whether *path* is one of *allowed*, or lies below a directory among them."""
    known = [each for each in allowed if each]
    return any(path == each or (each[-1] == "/" and path.startswith(each)) for each in known)


def capabilities(given: dict[str, str], configuration: Configuration) -> Iterator[str]:
    yield "--cap-drop=ALL"
    wanted = split(given.get("cap-add", ""), ",")
    if wanted and not configuration.trusts(given["image"]):
        say("Disable cap-add for untrusted image", 2)
        return
    allowed = configuration.many("docker.allowed.capabilities")
    for each in wanted:
        if each not in allowed:
            lines = f"Invalid param '{each}' requested", "Invalid docker capability requested"
            raise invalid(62, *lines)
        yield f"--cap-add={each}"


def runtime(given: dict[str, str], configuration: Configuration) -> Iterator[str]:
    wanted = given.get("runtime")
    if not wanted:
        return
    said = "Could not find requested runtime in allowed runtimes"
    if not configuration.trusts(given["image"]):
        raise invalid(74, "Disable runtime for untrusted image", said)
    if wanted not in configuration.many("docker.allowed.runtimes"):
        raise invalid(74, f"Invalid param '{wanted}' requested", said)
    yield f"--runtime={wanted}"


def devices(given: dict[str, str], configuration: Configuration) -> Iterator[str]:
    allowed = configuration.many("docker.allowed.devices")
    for each in split(given.get("devices", ""), ","):
        if not any(each.startswith(one) for one in allowed):
            lines = f"Invalid param '{each}' requested", "Invalid docker device requested"
            raise invalid(64, *lines)
        yield f"--device={each}"
