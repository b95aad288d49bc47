"""25: the Java TARN's script evaluated the token as shell text."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/update_haproxy.sh"


@pytest.mark.parametrize("token", ['x"; touch p; "', "$(touch p)", "`touch p`"])
def test_a_token_is_never_shell_text(token: str, tmp_path: Path) -> None:
    """It is handed over in a file, and no program is started by it."""
    stub = tmp_path / "bin/tarn"
    stub.parent.mkdir()
    stub.write_text('#!/bin/sh\nfor word; do file=$word; done\ncat "$file" > seen\n')
    stub.chmod(0o755)
    command = ["sh", str(SCRIPT), "/run/haproxy.sock", token]
    environ = {"PATH": f"{stub.parent}:/usr/bin:/bin"}
    subprocess.run(command, cwd=tmp_path, env=environ, check=True, timeout=20)
    assert (tmp_path / "seen").read_text().rstrip("\n") == token
    assert not (tmp_path / "p").exists()
