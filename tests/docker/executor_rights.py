"""What the stand-in for ``container-executor`` says, refuses, and is allowed."""

import configparser
import os
from pathlib import Path

BAD_CONFIGURATION, NO_DOCKER_COMMAND = 24, 29
"""What the native program exits with, when it is not set up, and for a refused ``docker run``."""
FAULTS = {
    49: "Invalid mount",
    50: "Invalid read-only mount",
    51: "Invalid read-write mount",
    52: "Mount access error",
    60: "Invalid docker network",
    62: "Invalid docker capability",
    63: "Privileged docker containers are disabled",
    64: "Invalid docker device",
    74: "Invalid docker runtime",
}


class Refused(Exception):  # noqa: N818 (this program is not at fault)
    """No: the exit code, and what is said about it."""

    def __init__(self, code: int, *lines: str) -> None:
        super().__init__(code, lines)
        self.code, self.lines = code, lines


def invalid(fault: int, *lines: str) -> Refused:
    """Return the refusal of a Docker command, in the native words."""
    words = f"docker error code={fault}, error message='{FAULTS[fault]}'"
    return Refused(NO_DOCKER_COMMAND, *lines, f"Error constructing docker command, {words}")


def say(line: str, stream: int = 1) -> None:
    """Write a line to stdout or stderr.

    The NodeManager that listened may be dead. Its container goes on, and so must this program: the
    next NodeManager reads the end from a file that is written here.
    """
    try:
        os.write(stream, line.encode(errors="replace") + b"\n")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


class Configuration:
    """A ``container-executor.cfg``: lines ``name=value``, those before any section are main's."""

    def __init__(self, path: str) -> None:
        self._read = parser()
        try:
            self._read.read_string("[main]\n" + Path(path).read_text())
        except OSError as error:
            raise Refused(BAD_CONFIGURATION, f"Could not open {path}: {error.strerror}") from None

    def get(self, name: str, otherwise: str = "", section: str = "docker") -> str:
        return self._read.get(section, name, fallback=otherwise).strip()

    def many(self, name: str, section: str = "docker") -> list[str]:
        return split(self.get(name, "", section), ",")

    def allows(self, name: str) -> bool:
        return self.get(name).lower() in ("1", "true")

    def trusts(self, image: str) -> bool:
        """Say whether *image* comes from a trusted registry; nothing is mounted into others."""
        registries = self.many("docker.trusted.registries")
        trusted = any(image.startswith(each.rstrip("/") + "/") for each in registries)
        if not trusted:
            say(f"image: {image} is not trusted.", 2)
        return trusted


def parser() -> configparser.ConfigParser:
    made = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    made.optionxform = str
    return made


def split(text: str, by: str) -> list[str]:
    return [part.strip() for part in text.split(by) if part.strip()]
