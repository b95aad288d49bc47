"""Checked by mypy, never run: what the methods of a cluster return."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import tarn
from tarn.cluster import current_environment
from tarn.cluster.inspection import Inspection
from tarn.cluster.read.dashboard import Address
from tarn.cluster.read.frames import Plot
from tarn.cluster.read.logs import LogLine
from tarn.cluster.read.records import (
    CallsAnswer,
    CallStatus,
    CommandAnswer,
    Explanation,
    FollowerStatus,
    InstanceModel,
    InstanceStatus,
    IssueRecord,
    SignalReading,
    SizeDecision,
    SizeLimits,
    StartPlan,
    Status,
)
from tarn.cluster.read.results import (
    Alerts,
    Decisions,
    Events,
    History,
    Instances,
    Metrics,
    Usage,
)
from tarn.interfaces import ClusterInspection

inspection: ClusterInspection = Inspection(current_environment())

cluster = tarn.connect("llama")
assert_type(cluster, tarn.Cluster)

status = cluster.status()
assert_type(status, Status)
assert_type(status.ready, int)
assert_type(status.state, str)
assert_type(status.limits, SizeLimits | None)
assert_type(status.instances, tuple[InstanceStatus, ...])
assert_type(status.instances[0].models, tuple[InstanceModel, ...])
assert_type(status.instances[0].http, str | None)
assert_type(status.issues, tuple[IssueRecord, ...])
assert_type(status.followers, tuple[FollowerStatus, ...])
assert_type(status["ready"], Any)
assert_type(status.get("ready"), Any | None)

assert_type(cluster.plan(), StartPlan)
assert_type(cluster.scale(3), CommandAnswer)
assert_type(cluster.adapt(1, 4), CommandAnswer)
assert_type(cluster.pause("30m"), CommandAnswer)
assert_type(cluster.resume(), CommandAnswer)
assert_type(cluster.drain("llama-0001"), CommandAnswer)
assert_type(cluster.drain("llama-0001").message, str)
assert_type(cluster.load_model("embed"), CallStatus)
assert_type(cluster.unload_model("embed"), CallStatus)
assert_type(cluster.update_trace_settings("embed"), CallStatus)
assert_type(cluster.update_log_settings({}), CallStatus)
assert_type(cluster.control(), CallsAnswer)
assert_type(cluster.control().calls, tuple[CallStatus, ...])

assert_type(cluster.instances(), Instances)
assert_type(cluster.instances()[0], InstanceStatus)
assert_type(cluster.events(), Events)
assert_type(cluster.events()[0].count, int)
assert_type(cluster.decisions(), Decisions)
assert_type(cluster.decisions()[0], SizeDecision)
assert_type(cluster.alerts(), Alerts)
assert_type(cluster.alerts()[0].next_step, str)
assert_type(cluster.explain(), Explanation)
assert_type(cluster.explain().signals, tuple[SignalReading, ...])
assert_type(cluster.metrics(), Metrics)
assert_type(cluster.metrics()[0].value, float | str)
assert_type(cluster.history(), History)
assert_type(cluster.history()[0].latency_ms, float | None)
assert_type(cluster.usage(), Usage)
assert_type(cluster.usage()[0].gpu_s, float | None)
assert_type(cluster.plot(), Plot)
assert_type(cluster.dashboard(), Address)
assert_type(cluster.logs(), Iterator[str])
assert_type(cluster.log_lines(), Iterator[LogLine])
assert_type(cluster.support_bundle(), Path)
