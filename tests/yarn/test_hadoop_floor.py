"""Nodes whose Hadoop is too old: `tarn up` hears of it, and nothing stays."""

import zipfile
from pathlib import Path

import pytest
from house import until
from servers.yarn import Hadoop

pytestmark = pytest.mark.yarn

SCRIPT = """#!/bin/sh
[ "${{CONTAINER_ID:-}}" ] && exec echo {old}
exec {hadoop} "$@"
"""
"""The same path, and on the nodes another Hadoop behind it."""


def home(folder: Path, hadoop: Hadoop) -> Path:
    """Make an installation that is new enough for this client only."""
    old = folder / "lib" / "hadoop-common.jar"
    old.parent.mkdir(parents=True)
    with zipfile.ZipFile(old, "w") as made:
        made.writestr("common-version-info.properties", "version=3.2.4\n")
    program = folder / "bin" / "hadoop"
    program.parent.mkdir()
    program.write_text(SCRIPT.format(old=old, hadoop=hadoop.directory / "bin" / "hadoop"))
    program.chmod(0o755)
    return folder


def test_the_refusal_of_a_node_reaches_up_as_a_sentence(yarn_house, hadoop, tmp_path) -> None:
    """Which node, which version, what would be right, and what to do."""
    options = {"hadoop_home": str(home(tmp_path / "hadoop", hadoop))}
    done = yarn_house.tarn("up", "-f", yarn_house.spec("floor", options=options), timeout_s=120)
    assert done.returncode != 0
    for words in ("TARN-3121", "node nm", "Hadoop 3.2.4 is too old", "3.3.0 or newer", "updated"):
        assert words in done.stderr
    until(lambda: not yarn_house.applications("floor"), 20, "its end")
