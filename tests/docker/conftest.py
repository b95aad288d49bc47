"""Fixtures for YARN's Docker runtime. Run with ``-p no:faulthandler``: a JVM is in the process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from docker_stage import DockerHouse, DockerStage, session_stage


@pytest.fixture(scope="session")
def shared_stage() -> Iterator[DockerStage]:
    with session_stage() as one:
        yield one


@pytest.fixture
def stage(shared_stage: DockerStage) -> DockerStage:
    """The session's dockerd and YARN, every daemon of it at work."""
    shared_stage.hadoop.up()
    return shared_stage


@pytest.fixture
def docker_house(tmp_path: Path, stage: DockerStage) -> Iterator[DockerHouse]:
    one = DockerHouse(tmp_path, stage)
    yield one
    one.clear()
