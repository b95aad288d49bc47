"""Fixtures for YARN's Docker runtime. Run with ``-p no:faulthandler``: a JVM is in the process."""

from servers.docker import docker_house, shared_stage, stage

__all__ = ["docker_house", "shared_stage", "stage"]
