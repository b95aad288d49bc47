"""What the runtime holds for one instance, and the fact it makes of it."""

import attrs

from tarn.domain import Ended, Endpoint, ExitStatus, Fact, Pending, Running, StubEnded
from tarn.triton.stubs import StubHistory
from tarn_plugins.runtime.local.processes import ProcessHandle
from tarn_plugins.runtime.local.records import ProcessRecord

__all__ = ["LocalInstance", "fact", "never_started", "ports"]


@attrs.define(eq=False)
class LocalInstance:
    """What the runtime holds for one instance."""

    record: ProcessRecord
    handle: ProcessHandle | None = None
    adopted: bool = False
    forced: bool = False
    ended: ExitStatus | None = None
    stubs: StubHistory = attrs.field(factory=StubHistory)
    stub_ended: StubEnded | None = None
    rss_mib: int | None = None
    """Memory that its processes hold; None: not measured."""


def fact(slot: LocalInstance) -> Fact:
    """Return what is so of one instance."""
    record = slot.record
    container_id = None if record.pid is None else str(record.pid)
    node = record.endpoint.host or None
    if slot.ended is not None:
        return Ended(record.instance_id, record.spec_hash, slot.ended, container_id, node)
    if container_id is None:
        return Pending(record.instance_id, record.spec_hash)
    return Running(
        record.instance_id,
        record.spec_hash,
        container_id,
        record.endpoint.host,
        record.endpoint,
        started_at=record.started_at,
        adopted=slot.adopted,
        rss_mib=slot.rss_mib,
    )


def ports(record: ProcessRecord) -> tuple[int, int, int]:
    """Return the three ports that an instance holds."""
    endpoint = record.endpoint
    return endpoint.http_port, endpoint.grpc_port, endpoint.metrics_port


def never_started(instance_id: str, spec_hash: str) -> LocalInstance:
    """Return the slot of an instance whose stop came before its start."""
    nothing = ProcessRecord(instance_id, spec_hash, Endpoint("", 0, 0, 0), "", 0.0, 0.0)
    return LocalInstance(nothing, ended=ExitStatus("cancelled before it started", expected=True))
