"""The process of a master: creates all its objects and connects them.

``python -m tarn.master DIRECTORY`` runs the cluster whose files a deployer wrote into DIRECTORY:
``spec.yaml``, ``staged.json`` and, unless the API needs no token, ``api_token``. With ``--runtime
NAME`` that runtime writes them there first.

Exit status: 0 after SIGTERM or the end of the cluster, 3 if a newer master superseded it, 1 if its
runtime ended by an error, and the `exit_code` of the error if it could not start.
"""

import argparse
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import attrs

from tarn import config, descriptors, plugins
from tarn import log as lines
from tarn.clock import SystemClock
from tarn.control.affinity import AffinityRunner
from tarn.control.discoveries import named, reach
from tarn.control.editions import Editions, files_in, spec_of
from tarn.control.issues import of_files
from tarn.control.journal import Announcer, Journal, event_file_in
from tarn.control.loop import Control, ControlDependencies, ControlResult
from tarn.control.mailbox import Inbox
from tarn.control.policy import PolicyRunner, Scaling, scaling
from tarn.control.pulse import Pulse
from tarn.control.recorder import Recorder
from tarn.control.scrape import Families, Scraper
from tarn.control.state import Memory, Saver, load_state
from tarn.domain import ClusterSpec, EditionFiles, Recovered, SavedState
from tarn.domain.access import AccessRules
from tarn.domain.fleet import Fleet
from tarn.domain.memory import begin
from tarn.domain.reading import LOOK_WITHIN_S
from tarn.domain.state import present
from tarn.errors import ConfigError, DiscoveryError, LaunchError, Superseded, TarnError
from tarn.hookspecs import RuntimeFactory
from tarn.http.app import Application
from tarn.http.blocking_pool import AccessGate, AuthorizerPool, DirectAuthorizer, LogReader
from tarn.http.grpc_service import GrpcListener
from tarn.http.master_secrets import (
    CODE,
    brought_secrets,
    keep_port,
    last_port,
    prepared,
    token_after,
)
from tarn.http.request import Hosts
from tarn.http.rights import Sources
from tarn.http.server import HttpServer
from tarn.interfaces import Authorizer, Discovery, MasterContext, Runtime, StateStore
from tarn.java import leave
from tarn.plain.master_files import SPEC, TLS
from tarn.read.snapshot import Board, blank_snapshot
from tarn.tls.contexts import connects, known_as, of_master
from tarn.triton.restricted import keys
from tarn.triton.test_sources import KnownTests

__all__ = ["main", "prepare_interpreter", "run"]

log = logging.getLogger("tarn.master")
Closed = TypeVar("Closed", AffinityRunner, Announcer, Journal, PolicyRunner, Scraper)

# Exit status after which the process that keeps a master running does not start another one.
SUPERSEDED = 3
# Exit status by outcome; 0 for any other.
_STATUS = {ControlResult.SUPERSEDED: SUPERSEDED, ControlResult.FAILED: TarnError.exit_code}
# The interpreter's switch interval. With the default, a busy control thread delays answers of the
# HTTP thread by 130 ms at the 99th percentile; with this one by 23 ms.
SWITCH_S = 0.0005
# New objects after which the collector looks at the youngest, and how often it goes on to the older
# ones. With the usual 700 and 10, it holds up a master of 2,000 instances for a tenth of a second
# every few seconds, to find next to nothing: readings have no cycles.
COLLECT_AFTER = (20_000, 5, 20)
# An exit takes 150 ms; after the end of a cluster its discoveries may have to withdraw it first.
LEAVE_WITHIN_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a master from the command line; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tarn.master", description=__doc__)
    parser.add_argument("directory", type=Path, help="the cluster's directory")
    parser.add_argument("--runtime", default="", help="the runtime that brings the files there")
    given = parser.parse_args(arguments)
    prepare_interpreter()
    descriptors.raise_limit()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        outcome = run(given.directory, config.environ(), stop, given.runtime)
    except Superseded as error:
        log.warning("%s", error)
        return SUPERSEDED
    except TarnError as error:
        log.error("[%s] %s", error.code, error)  # noqa: TRY400 (made for people: no traceback)
        return error.exit_code
    log.info("outcome: %s", outcome)
    return _STATUS.get(outcome, 0)


def prepare_interpreter() -> None:
    """Set up the interpreter of a process that does nothing but run a master."""
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()  # what was imported stays
    gc.set_threshold(*COLLECT_AFTER)


def run(
    directory: Path,
    environ: Mapping[str, str],
    stop: threading.Event,
    runtime: str = "",
    offered: plugins.Plugins | None = None,
) -> ControlResult:
    """Run the cluster of *directory* until it ends, is superseded, or *stop* is set.

    *runtime* names the runtime that first writes the files there; '' if a deployer did. *offered*
    are the plugins; None: the installed ones.
    """
    offered = offered or plugins.load(disabled=environ.get("TARN_DISABLED_PLUGINS", ""))
    if runtime:
        offered.choose("runtime", runtime, "--runtime").unpack(directory, environ)
    base = files_in(directory)
    spec = _spec(base, directory, runtime)
    lines.hide(brought_secrets(directory))
    lines.begin(spec.log.format, spec.log.level, spec.name)
    factory = offered.choose("runtime", spec.runtime.use, "runtime.use")
    settings = offered.settings(factory, spec.runtime.options, "runtime.options")
    wake = threading.Event()
    context = MasterContext(
        clock=SystemClock(),
        environ=environ,
        paths=config.paths(environ),
        spec=spec,
        epoch=factory.epoch(settings, directory, environ),
        directory=directory,
        wake=wake.set,
        spec_hash=base.spec_hash,
    )
    lines.of_epoch(str(context.epoch))
    log.info("epoch %s of %s", context.epoch, spec.name)
    with ExitStack() as owned:
        master = _Master(context, offered, wake, stop, owned)
        return master.work(factory, settings, base)


def _spec(base: EditionFiles, directory: Path, runtime: str) -> ClusterSpec:
    """Return the spec with which the cluster was started."""
    spec = spec_of(base.files)
    if runtime not in ("", spec.runtime.use):
        raise ConfigError(
            f"runtime.use = '{spec.runtime.use}'; the master was started for '{runtime}'",
            where=str(directory / SPEC),
            right="Only the cluster's own runtime may start its master.",
        )
    return spec


class _Master:
    """Makes each object once, in order, and closes them in the opposite order."""

    def __init__(
        self,
        context: MasterContext,
        offered: plugins.Plugins,
        wake: threading.Event,
        stop: threading.Event,
        owned: ExitStack,
    ) -> None:
        self._context = context
        self._offered = offered
        self._wake = wake
        self._stop = stop
        self._owned = owned
        self._notes: list[tuple[str, str, str]] = []
        """Events before there is a fleet to record them: code, subject, message."""
        self._pulse = Pulse(context.clock, context.spec.scaling.interval_s)
        self._editions = Editions(context.directory, self._scaling)

    def _scaling(self, spec: ClusterSpec) -> Scaling:
        return scaling(self._offered, attrs.evolve(self._context, spec=spec))

    def work(self, factory: RuntimeFactory, settings: Any, base: EditionFiles) -> ControlResult:
        context = self._context
        self._editions.keep_to(base)  # until the saved state says which one it is
        server = self._server(factory)
        rules = self._editions.present.rules
        board = Board(blank_snapshot(context.epoch, rules, context.clock.at()))
        sources = self._sources(factory, settings, board, server)
        store = factory.state_store(settings, context)
        reading = self._begin_reading(store)
        runtime = factory.runtime(settings, context)
        self._owned.callback(runtime.close)
        sources = self._remembering(sources, runtime, store, server.url)
        app = Application(self._as_one_triton(sources, factory))
        # Before the address is announced, as an unreadable state ends this master.
        memory = reading.result()
        editions = self._editions_of(memory[0], base)
        self._context = attrs.evolve(
            context,
            api_url=server.start(app),
            spec=self._editions.present.spec,
            spec_hash=self._editions.present.files.spec_hash,
        )
        discoveries = self._discoveries(first=memory == (None, ()))
        recovered = runtime.start(self._context.api_url)
        fleet = attrs.evolve(self._begin(store, memory, recovered), editions=editions)
        control = self._control(fleet, runtime, sources.inbox, board, discoveries)
        self._offered.master_started(context)
        control.start()
        # A full collection stops every thread for as long as it looks at each object. Most are here
        # by now, and stay.
        gc.freeze()
        self._owned.callback(gc.unfreeze)
        self._stop.wait()
        control.leave()
        control.wait(LEAVE_WITHIN_S)
        outcome = control.outcome
        if outcome is ControlResult.ENDED:
            runtime.finish()
        self._offered.master_stopping(self._context, str(outcome))
        return outcome

    def _editions_of(
        self, state: SavedState | None, base: EditionFiles
    ) -> tuple[EditionFiles, ...]:
        """Return the fleet's editions, and keep to the present one of them."""
        if state is None or not state.editions:
            return (base,)
        self._editions.keep_to(present(state.editions, state.update))
        return state.editions

    def _begin_reading(self, store: StateStore) -> "Future[Memory]":
        """Read the saved state on a thread, while the runtime is made; both may take long."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="state")
        reading = pool.submit(load_state, store, self._context.clock, self._stop)
        pool.shutdown(wait=False)  # it ends with that, at the latest once this master is to stop
        return reading

    def _sources(
        self,
        factory: RuntimeFactory,
        settings: Any,
        board: Board,
        server: HttpServer,
    ) -> Sources:
        """Return the sources of the API: its data, and the checks of identity and rights."""
        context, spec = self._context, self._context.spec
        authorizer = self._provider("authorizer", spec.authorizer.use, spec.authorizer.options)
        self._owned.callback(authorizer.close)
        proxy = factory.proxy(settings, context.directory, context.environ)
        api_token = self._token_after(server.displaced)
        names = factory.names(settings, context.directory, context.environ)
        proofs = prepared(spec.api, context.directory, api_token, names)
        self._owned.callback(proofs.close)
        return Sources(
            board=board,
            inbox=Inbox(self._wake.set),
            gate=self._gate(authorizer),
            readiness=authorizer.ready,
            config=lambda: self._editions.present.plain,
            editions=self._editions,
            clock=context.clock,
            api_token=api_token,
            access=AccessRules("" if proxy is None else proxy.owner, spec.admins, spec.viewers),
            groups=proofs.groups,
            guards_models=spec.authorizer.use != "none",
            rate_limit=spec.api.rate_limit,
            proxy=proxy,
            proofs=proofs,
            hosts=Hosts.of(
                (
                    urlsplit(server.url).hostname or "",
                    factory.host(context.environ),
                    socket.gethostname(),
                ),
                spec.api.hosts,
            ),
            silent_s=self._pulse.silent_s,
        )

    def _token_after(self, port: int | None) -> bytes | None:
        """Return the api token, a new one if another user listens at the last master's *port*."""
        context = self._context
        token, found = token_after(context.directory, context.spec.api.token, port, os.getuid())
        if found:
            lines.hide(brought_secrets(context.directory))
            self._notes.append((CODE, context.spec.name, found))
        return token

    def _remembering(
        self, sources: Sources, runtime: Runtime, store: StateStore, url: str
    ) -> Sources:
        """Return *sources* with the history and the logs."""
        recorder = Recorder(sources.board, store, self._context)
        self._owned.callback(recorder.close)
        logs = LogReader(runtime.log)
        self._owned.callback(logs.close)
        return attrs.evolve(sources, dashboard=f"{url}/dashboard", past=recorder.past, logs=logs)

    def _as_one_triton(self, sources: Sources, factory: RuntimeFactory) -> Sources:
        """Return *sources* with what the fleet needs to answer as one Triton."""
        context, api = self._context, self._context.spec.api
        proof = None if api.tls is None else context.directory / TLS
        listener = GrpcListener(factory.host(context.environ), api.grpc_port, proof=proof)
        # They depend on what an update refuses to change, so any edition has the same.
        launch = self._editions.present.launch
        return attrs.evolve(sources, keys_of=lambda id_: keys(launch, id_), grpc=listener)

    def _server(self, factory: RuntimeFactory) -> HttpServer:
        context, api = self._context, self._context.spec.api
        host = factory.host(context.environ)
        tls = of_master(api, context.directory)
        last = last_port(context.directory)
        try:
            server = HttpServer(
                host,
                api.port,
                preferred=last,
                advertised=known_as(tls, context.directory, host),
                tls=tls,
                most=descriptors.most_connections(descriptors.limit()),
                trusted=connects(api.trusted_proxies),
            )
        except LaunchError:
            if api.port and api.port == last:
                self._token_after(last)  # the next master that can listen uses the new token
            raise
        self._owned.callback(server.close)
        keep_port(context.directory, server.port)
        return server

    def _begin(self, store: StateStore, memory: Memory, recovered: Recovered) -> Fleet:
        """Return the fleet of the saved state; alerts about damaged states become events."""
        context, rules = self._context, self._editions.present.rules
        state, alerts = memory
        now_s, at = context.clock.now_s(), context.clock.at()
        fleet = begin(context.epoch, state, recovered, rules, now_s=now_s, at=at)
        fleet = fleet.notes(at, [("TARN-1006", fleet.name, alert) for alert in alerts])
        fleet = fleet.notes(at, [("TARN-1004", fleet.name, note) for note in recovered.notes])
        fleet = fleet.notes(at, self._notes)
        self._saver = Saver(store, context.epoch, context.clock, self._wake.set, fleet.next_number)
        return fleet

    def _control(
        self,
        fleet: Fleet,
        runtime: Runtime,
        inbox: Inbox,
        board: Board,
        discoveries: Mapping[str, Discovery],
    ) -> Control:
        context, spec = self._context, self._context.spec
        edition = self._editions.present
        sizing = edition.scaling
        few = descriptors.few(spec.replicas.max, descriptors.limit())
        tests = KnownTests()
        tests.take(edition.tests)
        scraper = self._scraper(sizing.families, tests)
        policy_runner = self._closed(
            PolicyRunner(sizing.policy, context.clock, self._wake.set, sizing.signals)
        )
        near = ControlDependencies(
            clock=context.clock,
            runtime=runtime,
            discoveries=discoveries,
            scraper=scraper,
            policy=policy_runner,
            affinity=self._affinity(),
            saver=self._saver,
            announcer=self._closed(Announcer(self._offered)),
            inbox=inbox,
            board=board,
            wake=self._wake,
            over=self._stop.set,
            journal=self._closed(Journal(context.spec.name, event_file_in(context.directory))),
            pulse=self._pulse,
            lasting=tuple(of_files(few, spec.name)),
        )
        return Control(fleet, self._editions, near)

    def _affinity(self) -> AffinityRunner:
        chosen, clock = self._context.spec.affinity, self._context.clock
        affinity = self._provider("affinity", chosen.use, chosen.options)
        owner = self._offered.owner("affinity", chosen.use)
        return self._closed(AffinityRunner(affinity, clock, self._wake.set, owner))

    def _scraper(self, families: Families, tests: KnownTests) -> Scraper:
        clock, interval_s = self._context.clock, self._context.spec.scaling.interval_s
        made = Scraper(
            clock, interval_s, LOOK_WITHIN_S, self._wake.set, families=families, tests=tests
        )
        made.start()
        return self._closed(made)

    def _closed(self, made: Closed) -> Closed:
        """Return *made*, which is closed when the master exits."""
        self._owned.callback(made.close)
        return made

    def _discoveries(self, *, first: bool) -> dict[str, Discovery]:
        """Create the master's own discoveries; at the *first* start the required ones must answer.

        Called before this master is announced, so that a failure is reported to the user.
        """
        # A later master works without them: its fleet serves already, and each view is retried.
        own = [one for one in named(self._context.spec.discovery) if not one.followers]
        made: dict[str, Discovery] = {
            one.name: self._provider("discovery", one.spec.use, one.spec.options) for one in own
        }
        if first:
            required = {one.name: made[one.name] for one in own if one.spec.required}
            try:
                reach(required, self._context.clock, self._stop)
            except DiscoveryError:
                for discovery in made.values():
                    discovery.close(withdraw=False)
                raise
        return made

    def _provider(self, kind: str, name: str, options: Mapping[str, object]) -> Any:
        factory = self._offered.choose(kind, name, f"{kind}.use")
        settings = self._offered.settings(factory, options, f"{kind}.options")
        return factory.create(settings, self._context)

    def _gate(self, authorizer: Authorizer) -> AccessGate:
        if self._context.spec.authorizer.use == "none":  # it answers at once, without a thread
            return DirectAuthorizer(authorizer)
        gate = AuthorizerPool(authorizer)
        self._owned.callback(gate.close)
        return gate


if __name__ == "__main__":
    try:
        leave(main())
    except Exception:
        log.exception("the master failed")
        leave(TarnError.exit_code)
