"""What all probes' applications have in common when they are handed to YARN."""

import contextlib
from collections.abc import Callable
from typing import Any

from tarn.java import load, throwable
from tarn_plugins.runtime.yarn.client.cluster import Hadoop
from tarn_plugins.runtime.yarn.probe.messages import ProbeRequest

__all__ = ["APPLICATION_TYPE", "LIFETIME_S", "NAME", "submit"]

APPLICATION_TYPE = "TARN-PROBE"
LIFETIME_S = 180
"""Longer than any probe: after it the ResourceManager kills what a lost client left behind."""
NAME = "tarn-probe"
_RECORDS = "org.apache.hadoop.yarn.api.records."


def submit(hadoop: Hadoop, order: ProbeRequest, fill: Callable[[Any], None]) -> str:
    """Hand an application to YARN, and return its id once it is accepted.

    Args:
        hadoop: YARN as the client sees it.
        order: Names the queue.
        fill: Says in the ``ApplicationSubmissionContext`` what is to be started.

    Raises:
        LaunchError: YARN refused it.
    """
    context = hadoop.client.createApplication().getApplicationSubmissionContext()
    application_id = str(context.getApplicationId())
    context.setApplicationName(NAME)
    context.setApplicationType(APPLICATION_TYPE)
    context.setQueue(order.queue)
    context.setMaxAppAttempts(1)
    lifetime = load("java.util.HashMap")()
    kind = load(_RECORDS + "ApplicationTimeoutType").LIFETIME
    lifetime.put(kind, load("java.lang.Long")(LIFETIME_S))
    context.setApplicationTimeouts(lifetime)
    # (include, exclude, ...): its facts are in the diagnostics, so no log is kept of it
    logs = load(_RECORDS + "LogAggregationContext").newInstance("", ".*", "", ".*")
    context.setLogAggregationContext(logs)
    fill(context)
    try:
        hadoop.client.submitApplication(context)
    except throwable() as error:
        with contextlib.suppress(Exception):  # it may live, if only the answer was lost
            hadoop.kill(application_id, "its submission failed")
        raise hadoop.refused(application_id, error) from None
    return application_id
