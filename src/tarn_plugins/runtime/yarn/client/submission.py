"""Submit one master to YARN: the Java part, in the process that holds the JVM."""

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tarn.java import jvm
from tarn_plugins.runtime.yarn.client.reports import APPLICATION_TYPE
from tarn_plugins.runtime.yarn.hadoop import credentials, local_files
from tarn_plugins.runtime.yarn.hadoop.requests import for_master
from tarn_plugins.runtime.yarn.launch import launch_file, run_script
from tarn_plugins.runtime.yarn.messages import LocalFile, Shape

__all__ = ["SubmissionRequest", "content", "submit"]

VALIDITY_MS = 10 * 60 * 1000
"""Attempts that failed longer ago no longer count against ``master.max_attempts``."""
_ROTATED = r".*std(err|out).*\.\d+"
"""Logs that YARN collects from running containers. Never one that is still written: a NodeManager
deletes what it collected, and all that its program says from then on would be lost (seen)."""
_RECORDS = "org.apache.hadoop.yarn.api.records"


@attrs.frozen
class SubmissionRequest:
    """What is to be submitted."""

    name: str
    queue: str
    priority: int
    memory_mib: int
    vcores: int
    max_attempts: int
    node_label: str
    tags: tuple[str, ...]
    command: str
    """A constant: nothing that a user wrote."""


def submit(
    client: Any, context: Any, order: SubmissionRequest, files: Iterable[LocalFile], collected: Any
) -> None:
    """Hand *order* to the ResourceManager.

    Args:
        client: The ``YarnClient``.
        context: The ``ApplicationSubmissionContext`` of the application that was created.
        order: What to submit.
        files: What is brought into the container; none of them is a secret.
        collected: The application's ``Credentials``.
    """
    context.setApplicationName(order.name)
    context.setApplicationType(APPLICATION_TYPE)
    context.setApplicationTags(_set(order.tags))
    context.setQueue(order.queue)
    context.setPriority(_record("Priority").newInstance(order.priority))
    context.setResource(_record("Resource").newInstance(order.memory_mib, order.vcores))
    context.setMaxAppAttempts(order.max_attempts)
    context.setAttemptFailuresValidityInterval(VALIDITY_MS)
    context.setKeepContainersAcrossApplicationAttempts(True)
    if order.node_label:
        # the label is for the master's container only: its instances have their own
        shape = Shape(order.memory_mib, order.vcores, node_label=order.node_label)
        context.setAMContainerResourceRequest(for_master(shape))
    # (include, exclude, rolled include, rolled exclude): at the end everything is collected.
    context.setLogAggregationContext(
        _record("LogAggregationContext").newInstance(".*", "", _ROTATED, "")
    )
    context.setAMContainerSpec(_launch(order.command, files, collected))
    client.submitApplication(context)


def _launch(command: str, files: Iterable[LocalFile], collected: Any) -> Any:
    resources = jvm.load("java.util.HashMap")()
    for file in files:
        resources.put(file.name, local_files.resource(file))
    environ = jvm.load("java.util.HashMap")()
    environ.put("MALLOC_ARENA_MAX", "2")
    commands = jvm.load("java.util.ArrayList")()
    commands.add(command)
    return _record("ContainerLaunchContext").newInstance(
        resources, environ, commands, None, credentials.buffer(collected), None
    )


def _set(values: Iterable[str]) -> Any:
    made = jvm.load("java.util.HashSet")()
    for value in values:
        made.add(value)
    return made


def _record(name: str) -> Any:
    return jvm.load(f"{_RECORDS}.{name}")


def content(argv: list[str], environ: Mapping[str, str], log_bytes: int) -> dict[str, bytes]:
    """Return the files that start a master; everybody may read them."""
    kept = launch_file.LogFiles(log_bytes)
    return {
        run_script.RUN_NAME: run_script.RUN,
        "master": launch_file.encode(argv, environ, logs=kept),
    }
