"""Archives of classes in a real JVM: recorded, made, used, and ignored where they do not fit."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from house import until

from tarn.config import environ
from tarn.java import hadoop_classpath
from tarn_plugins.cli.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.yarn

BODY = """
import json, sys
from pathlib import Path
from tarn.config import environ
from tarn.java import HadoopJvm, leave, load
machine = HadoopJvm(64, archives=sys.argv[1], record=True)
archive = machine.start(environ())
assert machine.start(environ()) is archive
conf = load("org.apache.hadoop.yarn.conf.YarnConfiguration")()
answer = {
    "file": str(archive.file),
    "recorded": archive.recorded,
    "mapped": str(archive.file) in Path("/proc/self/maps").read_text(),
    "fs": str(conf.get("fs.defaultFS")),
}
if "make" in sys.argv:
    archive.make()
print(json.dumps(answer), flush=True)
leave(0)
"""


@pytest.fixture
def machine(hadoop: Sandbox, tmp_path: Path) -> Mapping[str, str]:
    """Return the environment of a client whose classpath has a jar of the test's own."""
    every = {**environ(), **hadoop.environ}
    conf, *jars = hadoop_classpath(every)
    own = tmp_path / "own.jar"
    shutil.copyfile(next(jar for jar in jars if "jsr311" in jar or "javax" in jar), own)
    path = ":".join(part for part in every["PATH"].split(":") if not Path(part, "hadoop").exists())
    left_out = ("HADOOP_HOME", "HADOOP_COMMON_HOME", "HADOOP_CONF_DIR")
    (tmp_path / "archives").mkdir(0o700)
    return {
        **{name: value for name, value in every.items() if name not in left_out},
        "PATH": path,
        # first, since Java ignores changes of jars behind the last one that it took classes from
        "CLASSPATH": ":".join((conf, str(own), *jars)),
    }


def start(machine: Mapping[str, str], tmp_path: Path, *words: str) -> dict[str, Any]:
    """Start a JVM, and return what it told."""
    done = subprocess.run(
        [sys.executable, "-c", BODY, str(tmp_path / "archives"), *words],
        env=dict(machine),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "cds" not in done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def made(machine: Mapping[str, str], tmp_path: Path) -> Path:
    """Have an archive made by the process that a JVM starts for it; wait for its end."""
    first = start(machine, tmp_path, "make")
    assert (first["recorded"], first["mapped"]) == (True, False)
    file = Path(first["file"])
    # that process removes the list once it is done
    until(lambda: not [*file.parent.glob("*.list")], 250, "an archive")
    return file


def test_the_second_jvm_uses_what_the_first_one_recorded(
    machine: Mapping[str, str], tmp_path: Path
) -> None:
    """With the same configuration; a damaged or foreign archive is ignored without a word."""
    file = made(machine, tmp_path)
    second = start(machine, tmp_path)
    assert (second["recorded"], second["mapped"]) == (False, True)
    whole = file.read_bytes()
    middle = len(whole) // 2
    page = bytes(byte ^ 0xFF for byte in whole[middle : middle + 4096])
    spoilt = {
        "damaged": whole[:middle] + page + whole[middle + 4096 :],
        "cut": whole[:middle],
        "foreign": b"no archive" * 4096,
    }
    for how, content in spoilt.items():
        file.write_bytes(content)
        third = start(machine, tmp_path)
        assert (how, third["mapped"], third["fs"]) == (how, False, second["fs"])


def test_a_stale_archive_is_not_used(machine: Mapping[str, str], tmp_path: Path) -> None:
    """An updated jar has another archive; under its name, Java itself finds it stale."""
    old = made(machine, tmp_path)
    os.utime(tmp_path / "own.jar", (1, 1))
    changed = start(machine, tmp_path)
    assert changed["file"] != str(old)
    assert (changed["recorded"], changed["mapped"]) == (True, False)
    shutil.copyfile(old, changed["file"])
    assert start(machine, tmp_path)["mapped"] is False
