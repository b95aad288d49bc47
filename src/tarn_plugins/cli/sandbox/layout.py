"""The files of a sandbox: written, read again, removed."""

import contextlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs

from tarn.triton.folders import private_folder
from tarn_plugins.cli.sandbox.options import SandboxOptions

__all__ = ["is_formatted", "lay_out", "remove", "written"]

_OPTIONS = "sandbox.json"
_OWN = ("bin", "data", "etc", "lib", "logs", "run", "share")


def written(directory: Path) -> SandboxOptions | None:
    """Return the options with which the sandbox in *directory* was made; None: there is none."""
    try:
        return SandboxOptions.read(json.loads((directory / _OPTIONS).read_text("utf-8")))
    except FileNotFoundError:
        return None


def lay_out(
    directory: Path,
    options: SandboxOptions,
    texts: Mapping[str, str],
    programs: Mapping[str, str],
    jars: Iterable[Path],
) -> None:
    """Write everything that daemons and clients read; what is there is replaced.

    Args:
        directory: The sandbox's.
        options: Written last: from then on this is a sandbox.
        texts: Path below *directory* -> content.
        programs: As *texts*, and executable.
        jars: Linked in ``lib``.
    """
    for name in ("run", "logs", "data/tmp", "lib"):
        private_folder(directory / name, 0o755)
    for old in (directory / "lib").iterdir():
        old.unlink()
    for jar in jars:
        (directory / "lib" / jar.name).symlink_to(jar)
    for path, text in texts.items():
        _write(directory / path, text, 0o644)
    for path, text in programs.items():
        _write(directory / path, text, 0o755)
    _write(directory / _OPTIONS, json.dumps(attrs.asdict(options), indent=2), 0o644)


def is_formatted(directory: Path) -> bool:
    """Whether the NameNode has something to start from."""
    return (directory / "data" / "nn" / "current" / "VERSION").is_file()


def remove(directory: Path) -> None:
    """Remove the sandbox's own files; the directory too, unless others put something there."""
    for name in _OWN:
        shutil.rmtree(directory / name, ignore_errors=True)
    (directory / _OPTIONS).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()


def _write(file: Path, text: str, mode: int) -> None:
    private_folder(file.parent, 0o755)
    file.write_text(text, "utf-8")
    file.chmod(mode)
