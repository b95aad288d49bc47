"""An api token among the arguments is taken out of what `ps` shows."""

import subprocess
import sys
from pathlib import Path

import pytest

from tarn.cli import hide, secrets_in

SECRET = "sesame-open-0123456789"

PROGRAM = """
import sys
from pathlib import Path
from tarn.cli import hide
print(hide(sys.argv[1:]), Path("/proc/self/cmdline").read_bytes())
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["up", "--token", SECRET],
        ["up", f"--token={SECRET}", "-f", "x"],
        ["up", "-t", SECRET],
        ["up", f"-t{SECRET}"],
        ["compat", f"yarn jar tarn.jar varga.tarn.yarn.Client -t {SECRET} -p 8000"],
    ],
)
def test_it_is_gone_however_it_was_written(arguments: list[str]) -> None:
    """The other words stay, each as long as it was: whoever looks sees what runs."""
    assert secrets_in(arguments) == (SECRET,)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.startswith("True ")
    assert "sesame" not in done.stdout
    for word in " ".join(arguments).replace(SECRET, "*" * len(SECRET)).split():
        assert word in done.stdout


def test_arguments_without_one_are_left_alone(tmp_path: Path) -> None:
    """Nothing is opened, so a system without /proc does not matter."""
    for arguments in ([], ["up", "-f", "tarn.yaml"], ["status", "--timeout", "5s"], ["up", "-t"]):
        assert hide(arguments, tmp_path / "nowhere")


def test_where_it_cannot_be_done_that_is_known(tmp_path: Path) -> None:
    """The command line then says so."""
    assert not hide(["up", "--token", SECRET], tmp_path)
