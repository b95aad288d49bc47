"""Instances as child processes of a master on one machine."""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import attrs

from tarn.descriptors import shortage
from tarn.domain import (
    Endpoint,
    Fact,
    Issue,
    Launch,
    Pending,
    Recovered,
    Running,
    RuntimeWish,
    StubEnded,
)
from tarn.errors import LaunchError, Superseded, TimedOutError
from tarn.interfaces import ClusterRef, LogTail, MasterContext
from tarn.triton import binary, exits, regions
from tarn.triton.abandoned import remove_abandoned
from tarn.triton.command import argv
from tarn.triton.gpus import present
from tarn.triton.stubs import LOOK_EVERY_S, ChildProcesses
from tarn_plugins.runtime.local.files import (
    ProcessRecord,
    Records,
    clear,
    log_tail,
    read_keeper,
    remove_files,
    remove_oldest,
    write_ref,
)
from tarn_plugins.runtime.local.instances import (
    LocalInstance,
    ProcessExit,
    allocate_gpus,
    could_not_start,
    environment,
    explain,
    fact,
    lacking_gpus,
    masters_own,
    never_started,
    ports,
    shm_prefix,
    visible_gpus,
)
from tarn_plugins.runtime.local.machine import (
    LOOPBACK,
    Ports,
    alive,
    holder,
    kill,
    memory_mib,
    outward,
    processes_of,
    rss_mib,
    start_ticks,
)
from tarn_plugins.runtime.local.processes import LOG, Watcher, rotate, spawn, tail
from tarn_plugins.runtime.local.state import Fence

__all__ = ["LocalRuntime"]

log = logging.getLogger(__name__)
# After ``triton.exit_timeout``, at which Triton itself drops the requests in flight.
KILL_AFTER_S = 2.0
ROTATE_EVERY_S = 10.0
_LATER = {"kind": "what an instance left behind will be removed later"}
_KEEPER_GONE = "no keeper: nobody restarts the master when it ends; see `tarn up`"


class LocalRuntime:
    """The ``Runtime`` of one machine.

    The worker calls `apply`; the watcher's thread handles the ends of processes.
    """

    def __init__(
        self, context: MasterContext, *, present_gpus: Callable[[], tuple[str, ...]] = present
    ) -> None:
        self._context = context
        self._fence = Fence(context.directory, context.epoch)
        self._records = Records(context.directory / "instances")
        bind = context.spec.triton.bind or LOOPBACK
        self._ports = Ports(bind)
        self._host = outward(bind)
        self._gpus = present_gpus
        self._lock = threading.Lock()
        self._slots: dict[str, LocalInstance] = {}
        self._asked: dict[str, Pending] = {}
        self._moved: dict[str, Issue] = {}
        self._facts: tuple[Fact, ...] = ()
        self._keeper_gone = True
        self._program: binary.TritonProgram | None = None
        self._watcher: Watcher | None = None
        self._children = ChildProcesses()

    # -- the Protocol ------------------------------------------------------------------------

    def start(self, api_url: str) -> Recovered:
        """Write ``ref.json``, and adopt the running instances of an earlier master."""
        context = self._context
        watcher = self._watcher = Watcher(context.clock)
        ref = ClusterRef(
            name=context.spec.name,
            runtime="local",
            epoch=context.epoch,
            url=api_url,
            pid=os.getpid(),
            pid_started=start_ticks(os.getpid()),
            started_at=context.clock.at(),
        )
        with self._fence.held():
            write_ref(context.directory, ref)
        notes = self._recover()
        keeper = read_keeper(context.directory)
        if keeper is not None and alive(keeper.pid, keeper.start):
            self._keeper_gone = False
            watcher.watch(keeper.pid, keeper.start, self._keeper_has_ended)
        self._rotate_logs()
        watcher.at(context.clock.now_s(), self._look_at_stubs)
        self._publish()
        facts = self.facts()
        return Recovered(tuple(f for f in facts if isinstance(f, Running)), notes)

    def apply(self, wish: RuntimeWish) -> None:
        """Start missing instances, stop those of ``wish.stop``, forget those not named."""
        self._fence.check()
        named = {instance_id for instance_id, _ in wish.want} | wish.stop
        self._forget(named)
        for instance_id in sorted(wish.stop):
            self._stop(instance_id)
        for instance_id, spec_hash in sorted(wish.want):
            if instance_id not in wish.stop and instance_id not in self._slots:
                self._launch(instance_id, wish.launch(spec_hash))
                self._publish()
        if self._context.spec.instance.max_rss_mib is not None:
            # Often enough here: a wish comes at least every ten seconds.
            with self._lock:
                running = [slot for slot in self._slots.values() if slot.ended is None]
            for slot in running:
                if slot.record.pid is not None:
                    slot.rss_mib = rss_mib(slot.record.pid)
        self._publish()

    def facts(self) -> tuple[Fact, ...]:
        """Return one fact for each instance, and another if one of its stubs ended."""
        return self._facts

    def heard_s(self) -> float:
        """Return the present time: this machine always answers."""
        return self._context.clock.now_s()

    def warnings(self) -> tuple[Issue, ...]:
        """Warn of a missing keeper, and of fixed ports that other programs hold."""
        with self._lock:
            moved = [*self._moved.values()]
        if self._keeper_gone:
            moved.append(Issue("", _KEEPER_GONE, code="TARN-1014"))
        return tuple(moved)

    def log(self, instance_id: str, lines: int) -> LogTail:
        """Return the last *lines* of an instance's log, until that is removed."""
        return log_tail(self._context.directory, instance_id, lines)

    def finish(self) -> None:
        """Remove the cluster's files, except its logs."""
        with self._fence.held():
            clear(self._context.directory)
            remove_files(self._context.directory)
            if self._keeper_gone:
                (self._context.directory / "keeper.json").unlink(missing_ok=True)
            else:
                # The keeper removes it when it leaves; without one it would stay.
                (self._context.directory / "ended").touch(mode=0o600)
        with self._lock:
            self._slots.clear()
            self._asked.clear()
            self._moved.clear()
        self._publish()

    def close(self) -> None:
        """End the watcher; instances keep running."""
        if self._watcher is not None:
            self._watcher.close()

    # -- starting ----------------------------------------------------------------------------

    def _launch(self, instance_id: str, launch: Launch) -> None:
        """Start one instance; a failure becomes a fact."""
        count = launch.instance.resources.gpus
        mine = self._allocate(count)
        if mine is None:
            self._wait_for(self._lacks(count), instance_id, launch)
            return
        record = ProcessRecord(
            instance_id=instance_id,
            spec_hash=launch.spec_hash,
            endpoint=Endpoint(self._host, 0, 0, 0),
            shm_prefix=shm_prefix(self._context.directory, instance_id),
            exit_timeout_s=launch.triton.exit_timeout_s,
            started_at=self._context.clock.at(),
            gpus=mine,
        )
        slot = self._put(LocalInstance(record))
        try:
            slot.record = record = attrs.evolve(record, endpoint=self._reserve(slot, launch))
            self._spawn(slot, launch)
        except (LaunchError, OSError) as error:
            self._not_started(slot, launch, error)
        except (Superseded, TimedOutError):
            self._take_back(slot)
            raise

    def _wait_for(self, what: str, instance_id: str, launch: Launch) -> None:
        with self._lock:
            self._asked[instance_id] = Pending(instance_id, launch.spec_hash, what)

    def _not_started(
        self, slot: LocalInstance, launch: Launch, error: LaunchError | OSError
    ) -> None:
        """Mark *slot* as failed, or as pending if this machine lacks a resource."""
        lack, record = shortage(error, starting=True), slot.record
        if record.pid is not None:  # it runs, but could not be watched
            # Our child, not reaped yet: no other process can have this pid.
            os.kill(record.pid, signal.SIGKILL)
            os.waitpid(record.pid, 0)
        if not lack:
            slot.ended = could_not_start(error)
            self._ports.release(ports(record))
            return
        self._take_back(slot)
        with contextlib.suppress(OSError):
            self._records.remove(record.instance_id)
        self._wait_for(f"this machine lacks a resource: {lack}", record.instance_id, launch)

    def _take_back(self, slot: LocalInstance) -> None:
        """Forget a failed start, so that the next wish repeats it."""
        with self._lock:
            del self._slots[slot.record.instance_id]
            self._moved.pop(slot.record.instance_id, None)
        self._ports.release(ports(slot.record))

    def _allocate(self, count: int) -> tuple[str, ...] | None:
        with self._lock:
            held = [g for s in self._slots.values() if s.ended is None for g in s.record.gpus]
        return allocate_gpus(self._our_gpus(), held, count) if count else ()

    def _our_gpus(self) -> tuple[str, ...]:
        return visible_gpus(self._gpus(), self._context.environ.get("CUDA_VISIBLE_DEVICES"))

    def _lacks(self, count: int) -> str:
        """Return how many GPUs are free, and which instances have the others."""
        ours = self._our_gpus()
        with self._lock:
            held = {
                slot.record.instance_id: len(set(slot.record.gpus) & set(ours))
                for slot in self._slots.values()
                if slot.ended is None
            }
        return lacking_gpus(count, len(ours), held)

    def _reserve(self, slot: LocalInstance, launch: Launch) -> Endpoint:
        """Reserve an instance's ports; note each port of the spec that another program has."""
        triton, moved = launch.triton, []
        wanted = {
            "http_port": triton.http_port,
            "grpc_port": triton.grpc_port,
            "metrics_port": triton.metrics_port,
        }
        given = []
        for key, port in wanted.items():
            # No issue if another instance of this master has the port of the spec.
            ours = self._ports.owns(port or 0)
            given.append(self._ports.reserve(port or 0))
            if port and given[-1] != port and not ours:
                by = holder(port) or "another program"
                moved.append(f"triton.{key} = {port} is in use by {by}: {given[-1]} is taken")
        with self._lock:
            self._moved.pop(slot.record.instance_id, None)
            if moved:
                id_ = slot.record.instance_id
                self._moved[id_] = Issue(id_, f"{id_}: {'; '.join(moved)}", code="TARN-3833")
        return Endpoint(self._host, *given)

    def _spawn(self, slot: LocalInstance, launch: Launch) -> None:
        context, record = self._context, slot.record
        if self._program is None:
            setting = context.spec.triton.binary
            self._program = binary.prepare(setting, context.environ, context.paths.cache)
        command = argv(
            launch,
            record.endpoint,
            self._program.path,
            bind=context.spec.triton.bind or LOOPBACK,
            server_id=record.instance_id,
            backend_directory=self._program.backend_directory,
            cache_directory=self._program.cache_directory,
            shm_prefix=record.shm_prefix,
        )
        environ = environment(
            launch,
            instance_id=record.instance_id,
            directory=context.directory,
            program=self._program,
            gpus=record.gpus,
            inherited=masters_own(context.environ, context.spec.api.token),
        )
        remove_abandoned()
        with self._fence.held():
            self._records.write(record)
            # The record comes first, so that a later master adopts the process even if this one is
            # killed now.
            pid = spawn(regions.private(command), environ, self._logs(record.instance_id))
            slot.record = attrs.evolve(record, pid=pid)
            # In two steps: if `start_ticks` raises, `_not_started` needs the pid to kill it.
            slot.record = attrs.evolve(record, pid=pid, start=start_ticks(pid))
            self._records.write(slot.record)
        self._watch(slot, just_started=True)

    # -- ending ------------------------------------------------------------------------------

    def _stop(self, instance_id: str) -> None:
        """Send SIGTERM; the watcher's timer kills Triton if it does not end."""
        slot = self._slots.get(instance_id)
        if slot is None:
            waiting = self._asked.get(instance_id)
            spec_hash = waiting.spec_hash if waiting else ""
            slot = self._put(never_started(instance_id, spec_hash))
        if slot.ended is not None or slot.handle is None or slot.record.stop_at is not None:
            return
        with self._fence.held():
            slot.record = attrs.evolve(slot.record, stop_at=self._context.clock.at())
            # A full disk must not prevent the stop; the next master then requests it once more.
            with contextlib.suppress(OSError):
                self._records.write(slot.record)
            # A process stopped by SIGSTOP receives SIGTERM only after SIGCONT.
            slot.handle.send(signal.SIGTERM, signal.SIGCONT)
        self._kill_after(slot, slot.record.exit_timeout_s + KILL_AFTER_S)

    def _kill_after(self, slot: LocalInstance, delay_s: float) -> None:
        assert self._watcher is not None
        self._watcher.at(self._context.clock.now_s() + delay_s, lambda: self._kill(slot))

    def _kill(self, slot: LocalInstance) -> None:
        if slot.ended is not None or slot.handle is None:
            return
        try:
            with self._fence.held():
                slot.forced = True
                slot.handle.send(signal.SIGKILL)
        except Superseded:
            return
        except TimedOutError:
            self._kill_after(slot, 1.0)

    def _has_ended(self, slot: LocalInstance, code: int | None) -> None:
        """Clean up after an instance, then publish why it ended. On the watcher's thread."""
        record = slot.record
        self._clear(record)
        end = ProcessExit(
            code,
            asked=record.stop_at is not None,
            forced=slot.forced,
            peak_mib=slot.handle.peak_mib if slot.handle else 0,
            machine_mib=memory_mib(),
            asked_mib=self._context.spec.instance.resources.memory_mib,
        )
        status = explain(end, tail(self._logs(record.instance_id)))
        with self._lock:
            slot.ended = status
        self._ports.release(ports(record))
        self._publish()
        self._context.wake()

    def _clear(self, record: ProcessRecord) -> None:
        """Remove the leftovers of an instance; retry in a second if resources lack."""
        try:
            # A superseded master leaves this to the newer one.
            with contextlib.suppress(Superseded, TimedOutError), self._fence.held():
                clear(self._context.directory, record)
        except OSError as error:
            log.warning(
                "what %s left behind will be removed later: %s",
                record.instance_id,
                error,
                extra=_LATER,
            )
            assert self._watcher is not None
            self._watcher.at(self._context.clock.now_s() + 1.0, lambda: self._clear(record))

    def _forget(self, named: set[str]) -> None:
        with self._lock:
            gone = [i for i, s in self._slots.items() if s.ended is not None and i not in named]
            for instance_id in gone:
                del self._slots[instance_id]
                self._moved.pop(instance_id, None)
            for instance_id in [i for i in self._asked if i not in named]:
                del self._asked[instance_id]
        for instance_id in gone:
            self._records.remove(instance_id)

    def _look_at_stubs(self) -> None:
        """Find the processes of Python models that ended, and schedule the next look."""
        assert self._watcher is not None
        # First, so that the looks go on after an exception below.
        self._watcher.at(self._context.clock.now_s() + LOOK_EVERY_S, self._look_at_stubs)
        with self._lock:
            # A stopping instance ends its stubs itself.
            serving = [s for s in self._slots.values() if s.ended is None and not s.record.stop_at]
            slots = {slot.record.pid: slot for slot in serving if slot.record.pid is not None}
        try:
            found = self._children.look(slots.keys())
        except OSError as error:  # no stub counts as ended without having been looked at
            log.debug("processes of Python models cannot be looked at: %s", error)
            return
        changed = False
        for pid, slot in slots.items():
            ends = slot.stubs.seen(found[pid], self._context.clock.at())
            stub_ended = None
            if ends:
                said, last = exits.stubs_ended(ends), exits.newest(ends)
                stub_ended = StubEnded(slot.record.instance_id, said, last.at, last.model)
            changed = changed or stub_ended != slot.stub_ended
            slot.stub_ended = stub_ended
        if changed:
            self._publish()
            self._context.wake()

    # -- recovery ----------------------------------------------------------------------------

    def _recover(self) -> tuple[str, ...]:
        records, damaged = self._records.read()
        notes = [f"the record {name} could not be read" for name in damaged]
        found = {p.instance_id: p for p in processes_of(self._context.directory) if p.leader}
        for record in records:
            process = found.pop(record.instance_id, None)
            if process is not None:
                record = attrs.evolve(record, pid=process.pid, start=process.start)  # noqa: PLW2901
            if record.pid is None:
                # It was never started; the control thread will ask for it again.
                self._records.remove(record.instance_id)
                continue
            self._adopt(record)
        for process in found.values():
            with self._fence.held():
                kill(process.pid, process.start)
            notes.append(f"{process.instance_id} (pid {process.pid}) had no record and was ended")
        return tuple(notes)

    def _adopt(self, record: ProcessRecord) -> None:
        slot = self._put(LocalInstance(record, adopted=True))
        self._ports.keep(ports(record))
        if not alive(record.pid, record.start):
            self._has_ended(slot, None)
            return
        with self._fence.held():
            self._records.write(record)
        self._watch(slot, just_started=False)
        if record.stop_at is not None:
            since_s = max(0.0, self._context.clock.at() - record.stop_at)
            self._kill_after(slot, max(0.0, record.exit_timeout_s + KILL_AFTER_S - since_s))

    def _watch(self, slot: LocalInstance, *, just_started: bool) -> None:
        assert self._watcher is not None
        assert slot.record.pid is not None
        slot.handle = self._watcher.watch(
            slot.record.pid,
            None if just_started else slot.record.start,
            lambda code: self._has_ended(slot, code),
        )

    # -- the rest ----------------------------------------------------------------------------

    def _put(self, slot: LocalInstance) -> LocalInstance:
        with self._lock:
            self._slots[slot.record.instance_id] = slot
            self._asked.pop(slot.record.instance_id, None)
        return slot

    def _publish(self) -> None:
        with self._lock:
            slots = [fact(slot) for slot in self._slots.values()]
            running = (slot for slot in self._slots.values() if slot.ended is None)
            stubs = [slot.stub_ended for slot in running if slot.stub_ended is not None]
            self._facts = (*slots, *self._asked.values(), *stubs)

    def _keeper_has_ended(self, _code: int | None) -> None:
        self._keeper_gone = True
        self._context.wake()

    def _rotate_logs(self) -> None:
        assert self._watcher is not None
        most = self._context.spec.log
        with self._lock:
            ids = [i for i, slot in self._slots.items() if slot.ended is None]
        rotate(self._context.directory / "logs" / "master.log", most.master_max_size_mib * 2**20)
        for instance_id in ids:
            rotate(self._logs(instance_id) / LOG, most.triton_max_size_mib * 2**20)
        # A superseded master leaves this to the newer one; failures are retried the next time.
        with contextlib.suppress(Superseded, TimedOutError, OSError), self._fence.held():
            remove_oldest(self._context.directory, frozenset(ids))
        self._watcher.at(self._context.clock.now_s() + ROTATE_EVERY_S, self._rotate_logs)

    def _logs(self, instance_id: str) -> Path:
        return self._context.directory / "logs" / instance_id
