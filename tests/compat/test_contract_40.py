"""40: the Java TARN put secrets into container environments, which YARN writes into a script."""

import subprocess
import sys
from pathlib import Path

import pytest

from tarn.domain import Endpoint, Launch, Secret
from tarn.domain.spec import InstanceSpec, ModelsSpec, TritonSpec
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.launch.instance import program
from tarn_plugins.runtime.yarn.launch.launch_file import COMMAND, LAUNCH, RUN, SCRIPT, encode
from tarn_plugins.runtime.yarn.messages import ContainerRecord

NAME = "HUGGING_FACE_HUB_TOKEN"
SECRET = "hunter2 $(id)"
RECORD = ContainerRecord("w-0001", 1, "container_1_1_1", "", "nm1", Endpoint("nm1", 1, 2, 3), 0.0)


@pytest.mark.parametrize(
    ("env", "secrets"),
    [({NAME: SECRET}, {}), ({}, {NAME: Secret(SECRET)})],
    ids=["triton.env", "secrets"],
)
def test_what_yarn_writes_down_holds_no_secret(
    tmp_path: Path, env: dict[str, str], secrets: dict[str, Secret]
) -> None:
    """``launch_container.sh`` is made of command and environment; the launch file is 0600."""
    triton = TritonSpec(env=env)
    launch = Launch(ModelsSpec("/m"), triton, InstanceSpec(), "/m", "", secrets)
    assert not secrets or "hunter2" not in repr(launch)
    for within in (None, Docker()):
        made = program(launch, RECORD, address="127.0.0.1", python="python3", within=within)
        assert "hunter2" not in f"{COMMAND}{made.container}{made!r}"
        assert "hunter2" not in "".join(made.argv)
    (tmp_path / ".tarn").mkdir()
    (tmp_path / SCRIPT).write_bytes(RUN)
    look = "import os; print(os.environ['HUGGING_FACE_HUB_TOKEN'])"
    (tmp_path / LAUNCH).write_bytes(encode([sys.executable, "-c", look], made.environ))
    done = subprocess.run(
        ["sh", SCRIPT], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.rstrip("\n") == SECRET
