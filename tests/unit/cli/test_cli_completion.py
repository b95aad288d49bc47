import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_fleet import FakeFleet

from tarn.cli import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str, fleet: FakeFleet, capsys) -> None:
    """It names the variable by which the shell asks."""
    assert run(["completion", shell], fleet.environment) == 0
    assert f"_TARN_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_a_shell_that_is_not_known_is_refused(fleet: FakeFleet) -> None:
    """With the ones that are."""
    assert run(["completion", "csh"], fleet.environment) == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_real_bash_completes_verbs_and_names_of_clusters(tmp_path: Path) -> None:
    """As its completion calls the function: by words and the one that is being written."""
    kept = tmp_path / "home" / "clusters" / "wonder"
    kept.mkdir(parents=True)
    (kept / "ref.json").write_text('{"name": "wonder"}')
    (tmp_path / "tarn").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tarn "$@"\n')
    (tmp_path / "tarn").chmod(0o755)
    script = (
        'eval "$(tarn completion bash)"\n'
        "COMP_WORDS=(tarn supp); COMP_CWORD=1; _tarn_completion tarn; echo ${COMPREPLY[@]}\n"
        "COMP_WORDS=(tarn status -c w); COMP_CWORD=3; COMPREPLY=(); _tarn_completion tarn\n"
        "echo ${COMPREPLY[@]}\n"
    )
    environ = {
        "PATH": f"{tmp_path}:{os.defpath}",
        "TARN_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", "-c", script], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["support-bundle", "wonder"]
