"""A module that runs behind the start of a JVM. With a real one: tests/yarn."""

import json
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tarn.java import HadoopJvm


def test_a_module_runs_as_by_itself_where_no_jvm_starts(tmp_path: Path) -> None:
    """It gets its arguments; the error of the JVM is its own, once it needs one."""
    (tmp_path / "asked.py").write_text(
        "import sys\n"
        "from tarn.errors import LaunchError\n"
        "from tarn.java import HadoopJvm\n"
        "print(__name__, sys.argv[1:], 'numpy' in sys.modules)\n"
        "try:\n"
        "    HadoopJvm(64).start({'PATH': ''})\n"
        "except LaunchError as error:\n"
        "    print(error.code)\n"
    )
    jvm = json.dumps(attrs.asdict(HadoopJvm(64)))
    done = subprocess.run(
        [sys.executable, "-m", "tarn.java", jvm, "asked", "one", "--two"],
        env={"PATH": "", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["__main__ ['one', '--two'] False", "TARN-3120"]


@pytest.mark.parametrize(
    "jvm", [HadoopJvm(64), HadoopJvm(256, "/hadoop", "/java", ("-Xms64m", "-Xmn32m"), "/a", True)]
)
def test_it_is_the_same_after_json(jvm: HadoopJvm) -> None:
    """Else a process would start a second one."""
    assert HadoopJvm.from_plain(json.loads(json.dumps(attrs.asdict(jvm)))) == jvm
