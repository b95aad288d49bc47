"""Commands of the Java TARN as data, each with what `tarn compat` prints for it.

``python tests/compat/golden.py`` writes the expectations anew: read the difference it makes.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import attrs

from tarn.config import compat
from tarn.errors import ConfigError, ConfigErrors

__all__ = ["COMING", "Golden", "goldens", "printed"]

FOLDER = Path(__file__).parent / "commands"
MEANS, REFUSED = "\n==> tarn.yaml\n", "\n==> refused\n"
COMING = {
    ("authorizer", "ranger"): "SECURITY",
    ("secrets", "jceks"): "SECURITY",
}
"""As at the first release; what exists later no longer gets a comment."""


@attrs.frozen
class Golden:
    """One file."""

    path: Path
    command: str
    refused: bool
    expected: str

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values of the command that must not be seen again."""
        words = self.command.replace("\\\n", " ").replace("'", " ").split()
        after = [b for a, b in itertools.pairwise(words) if a in ("-t", "--token")]
        named = ("TARN_TOKEN=", "HF_TOKEN=", "--token=", "DB_PASSWORD=")
        return (*after, *(w.partition("=")[2] for w in words if w.startswith(named)))


def goldens() -> Iterator[Golden]:
    for path in sorted(FOLDER.glob("*.txt")):
        text = path.read_text("utf-8")
        refused = REFUSED in text
        command, _, expected = text.partition(REFUSED if refused else MEANS)
        yield Golden(path, command, refused, expected)


def printed(command: str) -> tuple[bool, str]:
    """Return whether it is refused, and the YAML or the errors."""
    try:
        return False, compat.translate(compat.split_command(command), COMING)
    except ConfigErrors as error:
        return True, "".join(f"{one.code} {one}\n" for one in error.errors)
    except ConfigError as error:
        return True, f"{error.code} {error}\n"


if __name__ == "__main__":
    for golden in goldens():
        refused, text = printed(golden.command)
        golden.path.write_text(golden.command + (REFUSED if refused else MEANS) + text, "utf-8")
