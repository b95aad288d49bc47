"""One instance: its environment, its slot in the runtime, and the reason of its end. Pure."""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from tarn.domain import Ended, Endpoint, ExitStatus, Fact, Launch, Pending, Running, StubEnded
from tarn.errors import LaunchError
from tarn.triton import binary, exits
from tarn.triton.binary import TritonProgram
from tarn.triton.exits import hopeless, last_error
from tarn.triton.stubs import StubHistory
from tarn_plugins.runtime.local.files import ProcessRecord
from tarn_plugins.runtime.local.machine import (
    DIRECTORY_VARIABLE,
    INSTANCE_VARIABLE,
    MASTER_VARIABLE,
)
from tarn_plugins.runtime.local.processes import ProcessHandle

__all__ = [
    "LocalInstance",
    "ProcessExit",
    "allocate_gpus",
    "could_not_start",
    "environment",
    "explain",
    "fact",
    "lacking_gpus",
    "masters_own",
    "never_started",
    "ports",
    "shm_prefix",
    "visible_gpus",
]


def environment(  # noqa: PLR0913 (all by keyword)
    launch: Launch,
    *,
    instance_id: str,
    directory: Path,
    program: TritonProgram,
    gpus: Sequence[str],
    inherited: Mapping[str, str],
) -> dict[str, str]:
    """Return Triton's environment: *inherited*, TARN's, ``triton.env``, and secrets."""
    environ = binary.environment(program, inherited)
    environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    environ.pop(MASTER_VARIABLE, None)
    environ.update(launch.triton.env)
    environ.update({name: secret.reveal() for name, secret in launch.secrets.items()})
    environ[INSTANCE_VARIABLE] = instance_id
    environ[DIRECTORY_VARIABLE] = str(directory)
    return environ


def masters_own(environ: Mapping[str, str], api_token: str) -> dict[str, str]:
    """Return *environ* without the variable that holds the API token."""
    kind, _, name = api_token.partition(":")
    secret = name if kind == "env" else None
    return {key: value for key, value in environ.items() if key != secret}


def shm_prefix(directory: Path, instance_id: str) -> str:
    """Return the machine-wide unique prefix of an instance's shared memory."""
    of = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
    return f"tarn_{of}_{instance_id}_"


def allocate_gpus(
    present: Sequence[str], taken: Iterable[str], count: int
) -> tuple[str, ...] | None:
    """Return the first *count* UUIDs of *present* that are not *taken*; None if too few.

    A taken GPU that is no longer present, since it fell off the bus, is ignored.
    """
    held = frozenset(taken)
    free = [uuid for uuid in present if uuid not in held]
    return tuple(free[:count]) if len(free) >= count else None


def lacking_gpus(count: int, present: int, held: Mapping[str, int]) -> str:
    """Return why *count* GPUs cannot be given: ``0 of 1 free (a-0001 has it)``.

    Args:
        count: How many are needed.
        present: How many there are for this fleet.
        held: How many of them each instance has.
    """
    having = {name: many for name, many in sorted(held.items()) if many}
    free = max(0, present - sum(having.values()))
    needs = f"needs {count} GPU{'' if count == 1 else 's'}; {free} of {present} free"
    if not having:
        return needs
    if len(having) == 1 and present == 1:
        return f"{needs} ({next(iter(having))} has it)"
    return f"{needs} ({', '.join(f'{name} has {many}' for name, many in having.items())})"


def visible_gpus(present: Sequence[str], setting: str | None) -> tuple[str, ...]:
    """Return those of *present* that ``CUDA_VISIBLE_DEVICES`` allows this process.

    *setting* is its value: indices, UUIDs or prefixes of UUIDs; None allows all.
    """
    if setting is None:
        return tuple(present)
    found: list[str] = []
    for word in (part.strip() for part in setting.split(",")):
        if word.isdecimal():
            named = list(present)[int(word) : int(word) + 1]
        else:
            named = [uuid for uuid in present if word and uuid.startswith(word)]
        # CUDA ignores everything after the first invalid entry (CUDA C++ Programming Guide,
        # environment variables).
        if len(named) != 1:
            break
        found += named
    return tuple(found)


@attrs.frozen
class ProcessExit:
    """How a process ended, as far as its watcher could see."""

    code: int | None = None
    """Exit code, or minus the signal; None: unknown, since it was not our child."""
    asked: bool = False
    """Its stop was requested."""
    forced: bool = False
    """We killed it, since it did not end in time."""
    peak_mib: int = 0
    """The peak memory of tritonserver without its stubs; 0: unknown."""
    machine_mib: int = 0
    """The machine's memory; 0: unknown."""
    asked_mib: int = 0
    """The value of ``instance.resources.memory``."""


def explain(end: ProcessExit, lines: Iterable[str]) -> ExitStatus:
    """Return the exit status, with its reason from the last *lines* of Triton's log."""
    error = last_error(lines)
    if end.asked:
        if end.forced:
            how = "it did not end in time and was killed; requests in flight are lost"
        elif end.code == 1:  # Triton's status when its exit timeout passed first
            how = "connections were still open at triton.exit_timeout; requests on them are lost"
        else:
            how = "stopped as asked" if not end.code else f"stopped as asked ({_ended(end.code)})"
        return ExitStatus(how, end.code, expected=True, last_error=error)
    reason = f"{_died(end)}: {error}" if error else _died(end)
    return ExitStatus(reason, end.code, permanent=hopeless(error), last_error=error)


def could_not_start(error: LaunchError | OSError) -> ExitStatus:
    """Return the exit status of an instance whose process could not be started."""
    if isinstance(error, LaunchError):
        return ExitStatus(str(error), permanent=error.retry_after_s is None)
    what = f" ({error.filename})" if error.filename else ""
    return ExitStatus(f"could not be started: {error.strerror}{what}")


def _ended(code: int | None) -> str:
    if code is None:
        return "ended; its exit status is unknown, since an earlier master had started it"
    return exits.ended(code)


def _died(end: ProcessExit) -> str:
    if end.code is None or not exits.killed(end.code):
        return _ended(end.code)
    # A SIGKILL that TARN did not send mostly comes from the kernel's out-of-memory killer.
    told = f"{_ended(end.code)}, not by TARN: probably out of memory"
    if not end.machine_mib:
        return told
    used = f"it used up to {end.peak_mib} MiB without its Python models; " if end.peak_mib else ""
    return (
        f"{told} ({used}instance.resources.memory says {end.asked_mib} MiB, the machine has "
        f"{end.machine_mib} MiB). Run fewer or smaller instances, or raise the machine's memory or "
        "the limit of the container that the master is in"
    )


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
    """Return the fact that describes an instance."""
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
    """Return the HTTP, gRPC and metrics ports of an instance."""
    endpoint = record.endpoint
    return endpoint.http_port, endpoint.grpc_port, endpoint.metrics_port


def never_started(instance_id: str, spec_hash: str) -> LocalInstance:
    """Return the slot of an instance that was stopped before it started."""
    nothing = ProcessRecord(instance_id, spec_hash, Endpoint("", 0, 0, 0), "", 0.0, 0.0)
    return LocalInstance(nothing, ended=ExitStatus("cancelled before it started", expected=True))
