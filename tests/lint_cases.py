"""The repositories under ``tests/lint``: broken ones with what must be found, and good ones.

``expected.toml`` of a case holds ``about``; ``findings`` as ``CODE file:line:column``;
``repaired``: what is left after ``--fix``, where anything is repaired; ``unavailable``: the
model that a real Triton with the Python back end refuses; ``loads``: every model loads in it;
and under ``make`` what git cannot hold.
"""

import os
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.interfaces.lint import LintFinding, Repository
from tarn.plugins import load as load_plugins
from tarn.triton import lint

ROOT = Path(__file__).parent / "lint"


@attrs.frozen
class Case:
    """One repository."""

    path: Path
    expected: Mapping[str, Any]

    @property
    def findings(self) -> list[str]:
        return self.expected.get("findings", [])

    def build(self, top: Path) -> Path:
        """Copy the repository below *top*, with what git cannot hold; return its place."""
        place = top / "models"
        if (self.path / "models").is_dir():
            shutil.copytree(self.path / "models", place)
        make = self.expected.get("make", {})
        for name in make.get("empty", ()):
            (place / raw(name)).mkdir(parents=True, exist_ok=True)
        for name, target in make.get("links", {}).items():
            (place / name).symlink_to(target)
        for name, size in make.get("big", {}).items():
            (place / name).write_bytes(b'name: "x" # '.ljust(size, b"#"))
        for name in make.get("pipes", ()):
            os.mkfifo(place / name)
        return place


def raw(name: str) -> str:
    r"""Turn ``\xe9`` of an expectation into the byte of a file's name."""
    return os.fsdecode(name.encode("ascii").decode("unicode_escape").encode("latin-1"))


def cases(kind: str) -> dict[str, Case]:
    """Return the cases of one kind by their names."""
    found = sorted((ROOT / kind).iterdir())
    return {
        path.name: Case(path, tomllib.loads((path / "expected.toml").read_text("utf-8")))
        for path in found
    }


RULES = load_plugins().lint_rules()
SCHEMA = lint.load()


def look(place: Path) -> Repository:
    """Return what is there; no test depends on this machine's GPU."""
    return attrs.evolve(lint.scan(place, str(place), SCHEMA.parse), gpu_present=False)


def found(place: Path) -> tuple[LintFinding, ...]:
    return lint.findings(look(place), RULES)


def said(findings: tuple[LintFinding, ...]) -> list[str]:
    """Return findings as an expectation writes them."""
    return sorted(
        f"{each.code} {each.place}".rstrip() + " ." * (not each.place.file) for each in findings
    )
