"""A probe whose container is that of the application's master: where no unmanaged one is possible.

With Kerberos the ResourceManager hands the token of an unmanaged attempt to nobody: it compares the
caller's whole principal with the owner's short name. And a client behind a firewall reaches neither
the ResourceManager's address for masters nor a NodeManager. So YARN itself starts the container, as
the one of a master that never registers; its words come with the application's end. The price: it
counts against the part of the queue that masters may use, and the application ends as failed.
"""

import re
import time
from typing import Any

import attrs

from tarn.errors import LaunchError
from tarn.java import load, mask, throwable
from tarn_plugins.runtime.yarn.client.cluster import Hadoop
from tarn_plugins.runtime.yarn.client.reports import ApplicationAttempt, ApplicationReport, alive
from tarn_plugins.runtime.yarn.hadoop.node_managers import launch_context
from tarn_plugins.runtime.yarn.hadoop.requests import for_master, unknown_types
from tarn_plugins.runtime.yarn.messages import ContainerLaunch
from tarn_plugins.runtime.yarn.probe.messages import ProbeProgress, ProbeRequest
from tarn_plugins.runtime.yarn.probe.submitting import submit

__all__ = ["ManagedProbe"]

_RECORDS = "org.apache.hadoop.yarn.api.records."
_EXIT = re.compile(r"exitCode: (-?\d+)")


@attrs.define
class ManagedProbe:
    """One container of one application, started by YARN. One thread; needs the JVM.

    Args:
        hadoop: YARN as the client sees it.
        order: What to ask for.
        launch: What the container runs.
    """

    hadoop: Hadoop
    order: ProbeRequest
    launch: ContainerLaunch
    free_mib: int | None = attrs.field(default=None, init=False)
    """Never told: only masters hear of it."""
    application_id: str = attrs.field(default="", init=False)
    _step: ProbeProgress = attrs.field(default=ProbeProgress("submitted"), init=False)
    _submitted_at: float = attrs.field(default=0.0, init=False)

    def submit(self) -> None:
        """Hand the application to YARN; returns once it is accepted.

        Raises:
            LaunchError: YARN refused it, or does not know a resource type.
        """
        for kind in unknown_types(self.order.shape):
            raise LaunchError("yarn", f"YARN knows no resource type '{kind}'")
        self._submitted_at = time.time()
        self.application_id = submit(self.hadoop, self.order, self._fill)

    def step(self) -> ProbeProgress:
        """Look how far it is."""
        report = self.hadoop.report(self.application_id, attempts=True)
        if report is None:
            self._step = attrs.evolve(self._step, state="over")
        elif alive(report):
            self._step = self._alive(report)
        elif self._step.state != "ended":
            self._step = self._over(report)
        return self._step

    def end(self, why: str) -> None:
        """End the application, if it has not ended. Idempotent; *why* is for YARN's record."""
        report = self.hadoop.report(self.application_id)
        if report is not None and alive(report):
            self.hadoop.kill(self.application_id, why)

    def _fill(self, context: Any) -> None:
        ask = for_master(self.order.shape)
        context.setResource(ask.getCapability())
        context.setAMContainerResourceRequest(ask)
        context.setAMContainerSpec(launch_context(self.launch))

    def _alive(self, report: ApplicationReport) -> ProbeProgress:
        last = _last(report)
        if last is None or not last.container_id:
            return ProbeProgress("submitted", mask(report.diagnostics.strip()))
        if self._step.state == "running" and self._step.node:
            return self._step
        return ProbeProgress(
            "running",
            node=self._node(last.container_id),
            container_id=last.container_id,
            started_at=self._submitted_at,
        )

    def _over(self, report: ApplicationReport) -> ProbeProgress:
        last = _last(report)
        said = mask((report.diagnostics or (last.diagnostics if last else "")).strip())
        code = _EXIT.search(said)
        if last is None or not last.container_id or code is None:
            return ProbeProgress("over", said)
        return attrs.evolve(
            self._step,
            state="ended",
            diagnostics=said,
            exit_code=int(code[1]),
            container_id=last.container_id,
            started_at=self._submitted_at,
            heard_at=time.time(),
        )

    def _node(self, container_id: str) -> str:
        """Return where it is; empty where YARN does not say, or not any more."""
        java_id = load(_RECORDS + "ContainerId").fromString(container_id)
        try:
            node = self.hadoop.client.getContainerReport(java_id).getAssignedNode()
        except throwable():
            return ""
        return "" if node is None else str(node.getHost())


def _last(report: ApplicationReport) -> ApplicationAttempt | None:
    return report.attempts[-1] if report.attempts else None
