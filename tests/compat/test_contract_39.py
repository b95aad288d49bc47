"""39: the Java TARN put tokens and values into a command line, unquoted."""

import subprocess
import sys
from pathlib import Path

from compat.fleets import house, spec
from house import House

from tarn import config

__all__ = ["house"]


ODD = "b c $(id)"
TOKEN = "sesame-open-0123456789"

SHOWN = """
import sys
from pathlib import Path
from tarn.cli import hide
assert hide(sys.argv[1:])
print(Path("/proc/self/cmdline").read_text())
"""


def test_a_value_arrives_byte_for_byte_and_no_secret_is_an_argument(house: House) -> None:
    """Neither a shell nor `ps` sees them."""
    path = spec(house)
    done = house.tarn("up", "-f", path, "--env", f"A={ODD}", TARN_TOKEN="sesame-open-0123456789")
    assert done.returncode == 0, done.stderr
    (pid,) = house.tritons("w")
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert f"A={ODD}".encode() in environ
    assert (house.directory("w") / "api_token").read_text() == "sesame-open-0123456789"
    for argv in house.processes("w").values():
        assert "sesame" not in " ".join(argv)


def test_a_token_that_was_an_argument_is_not_in_ps() -> None:
    """`-t` and `--token` of the Java TARN are taken, with a warning, and written over at once."""
    command = ["yarn", "jar", "tarn.jar", "-t", TOKEN, f"--token={TOKEN}"]
    done = subprocess.run(
        [sys.executable, "-c", SHOWN, *command], check=True, capture_output=True, text=True
    )
    assert "sesame" not in done.stdout
    assert "tarn.jar" in done.stdout
    plain = {"name": "w", "models": {"repository": "/m"}}
    loaded = config.load(plain, aliases={"token": TOKEN}, environ={})
    (note,) = [note for note in loaded.notes if "--token" in note]
    assert "TARN_TOKEN" in note
    assert TOKEN not in note
