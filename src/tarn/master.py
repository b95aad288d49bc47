"""One master: the only place that builds the graph of objects.

``python -m tarn.master DIRECTORY`` runs the cluster whose files a deployer left in DIRECTORY:
``spec.yaml``, ``staged.json`` and, unless nobody is asked for one, ``api_token``. With ``--runtime
NAME`` that runtime brings them there first.

Exit status: 0 when it left (SIGTERM) or ended the cluster, 3 when a newer master superseded it, 1
when its runtime ended by an error, another class's `exit_code` when it could not start.
"""

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import attrs

from tarn import config, descriptors, plugins
from tarn import log as lines
from tarn.clock import SystemClock
from tarn.control.announcer import Announcer
from tarn.control.build_snapshot import blank_snapshot
from tarn.control.discoveries import NamedDiscovery, named, reach, rules_of
from tarn.control.inbox import Inbox
from tarn.control.issues import of_files
from tarn.control.journal import Journal, beside
from tarn.control.launching import launch_in, tests_in, warmup_in
from tarn.control.loop import Control, ControlDependencies, ControlResult
from tarn.control.policy import PolicyRunner
from tarn.control.pulse import Pulse
from tarn.control.recorder import Recorder
from tarn.control.scaling import scaling
from tarn.control.scrape import Families, Scraper
from tarn.control.snapshot import Board
from tarn.control.state import Memory, Saver, load_state
from tarn.domain import ClusterSpec, Launch, Recovered
from tarn.domain.access import AccessRules
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.memory import begin
from tarn.errors import ConfigError, DiscoveryError, LaunchError, Superseded, TarnError
from tarn.hookspecs import RuntimeFactory
from tarn.http.app import create_app
from tarn.http.authorizer_pool import AccessGate, AuthorizerPool, DirectAuthorizer
from tarn.http.hosts import Hosts
from tarn.http.identity import Proofs, connects
from tarn.http.identity.prepared import brought_secrets, prepared
from tarn.http.log_reader import LogReader
from tarn.http.server import HttpServer
from tarn.http.sources import Sources
from tarn.http.takeover import CODE, keep_port, last_port, token_after
from tarn.http.tls import known_as, of_master
from tarn.interfaces import Authorizer, Discovery, MasterContext, Runtime, StateStore
from tarn.java import leave
from tarn.triton.test_sources import KnownTests

__all__ = ["main", "run"]

log = logging.getLogger("tarn.master")
Closed = TypeVar("Closed", Announcer, Journal, PolicyRunner, Scraper)

SUPERSEDED = 3
"""Exit status that tells a keeper not to start another one."""
_STATUS = {ControlResult.SUPERSEDED: SUPERSEDED, ControlResult.FAILED: TarnError.exit_code}
"""Every other outcome is 0."""
SWITCH_S = 0.0005
"""The interpreter's switch interval: with the default a busy control thread costs the HTTP thread
a p99 of 130 ms, with this one 23 ms."""
SCRAPE_TIMEOUT_S = 2.0
LEAVE_WITHIN_S = 10.0
"""Leaving takes 150 ms; a cluster that ended may have to withdraw from its discoveries first."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a master from the command line; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tarn.master", description=__doc__)
    parser.add_argument("directory", type=Path, help="the cluster's directory")
    parser.add_argument("--runtime", default="", help="the runtime that brings the files there")
    given = parser.parse_args(arguments)
    sys.setswitchinterval(SWITCH_S)
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


def run(
    directory: Path,
    environ: Mapping[str, str],
    stop: threading.Event,
    runtime: str = "",
    offered: plugins.Plugins | None = None,
) -> ControlResult:
    """Run the cluster of *directory* until it ends, is superseded, or *stop* is set.

    Its files are brought there by *runtime*; without one, a deployer has put them there. *offered*
    are the plugins; None: those that are installed.
    """
    offered = offered or plugins.load(disabled=environ.get("TARN_DISABLED_PLUGINS", ""))
    if runtime:
        offered.choose("runtime", runtime, "--runtime").unpack(directory, environ)
    plain, spec = _spec(directory, runtime)
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
        spec_hash=config.spec_hash(spec),
    )
    lines.of_epoch(str(context.epoch))
    log.info("epoch %s of %s", context.epoch, spec.name)
    with ExitStack() as owned:
        master = _Master(context, offered, wake, stop, owned)
        return master.work(factory, settings, plain)


def _spec(directory: Path, runtime: str) -> tuple[dict[str, Any], ClusterSpec]:
    """Read what the deployer left; the environment's own settings were folded in by the client."""
    loaded = config.load(directory / "spec.yaml", environ={})
    if runtime not in ("", loaded.spec.runtime.use):
        raise ConfigError(
            f"runtime.use = '{loaded.spec.runtime.use}'; the master was started for '{runtime}'",
            where=str(directory / "spec.yaml"),
            right="Only the cluster's own runtime may start its master.",
        )
    plain = config.redact(config.dump(loaded.spec))
    return cast(dict[str, Any], plain), loaded.spec


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
        """What happened before there was a fleet to note it in: code, subject, words."""
        self._pulse = Pulse(context.clock, context.spec.scaling.interval_s)

    def work(
        self, factory: RuntimeFactory, settings: Any, plain: Mapping[str, Any]
    ) -> ControlResult:
        context, spec = self._context, self._context.spec
        launch = launch_in(context.directory, spec)
        rules = rules_of(spec, launch.spec_hash)
        server = self._server(factory)
        board = Board(blank_snapshot(context.epoch, rules, context.clock.at()))
        sources = self._sources(factory, settings, board, plain, server)
        runtime = factory.runtime(settings, context)
        self._owned.callback(runtime.close)
        store = factory.state_store(settings, context)
        app = create_app(self._remembering(sources, runtime, store, server.url))
        # a state that cannot be read ends this master before it is announced
        memory = load_state(store, context.clock, self._stop)
        self._context = attrs.evolve(context, api_url=server.start(app))
        discoveries = self._discoveries(first=memory == (None, ()))
        recovered = runtime.start(self._context.api_url)
        fleet = self._begin(store, memory, recovered, rules)
        control = self._control(fleet, rules, launch, runtime, sources.inbox, board, discoveries)
        self._offered.master_started(context)
        return self._until_over(control, runtime)

    def _sources(
        self,
        factory: RuntimeFactory,
        settings: Any,
        board: Board,
        plain: Mapping[str, Any],
        server: HttpServer,
    ) -> Sources:
        """Return what the API reads and asks: who is believed, and who may."""
        context, spec = self._context, self._context.spec
        authorizer = self._provider("authorizer", spec.authorizer.use, spec.authorizer.options)
        self._owned.callback(authorizer.close)
        proxy = factory.proxy(settings, context.directory, context.environ)
        api_token = self._token_after(server.displaced)
        proofs = self._proofs(factory, settings, api_token)
        return Sources(
            board=board,
            inbox=Inbox(self._wake.set),
            gate=self._gate(authorizer),
            readiness=authorizer.ready,
            config=plain,
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
        """Return the api token; a new one where a stranger has the *port* of the last master."""
        context = self._context
        token, found = token_after(context.directory, context.spec.api.token, port, os.getuid())
        if found:
            lines.hide(brought_secrets(context.directory))
            self._notes.append((CODE, context.spec.name, found))
        return token

    def _remembering(
        self, sources: Sources, runtime: Runtime, store: StateStore, url: str
    ) -> Sources:
        """Return *sources* with what was: the hours, and the logs."""
        recorder = Recorder(sources.board, store, self._context)
        self._owned.callback(recorder.close)
        logs = LogReader(runtime.log)
        self._owned.callback(logs.close)
        return attrs.evolve(sources, dashboard=f"{url}/dashboard", past=recorder.past, logs=logs)

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
                self._token_after(last)  # the next master, which can listen, has the new one
            raise
        self._owned.callback(server.close)
        keep_port(context.directory, server.port)
        return server

    def _proofs(self, factory: RuntimeFactory, settings: Any, api_token: bytes | None) -> Proofs:
        context = self._context
        names = factory.names(settings, context.directory, context.environ)
        proofs = prepared(context.spec.api, context.directory, api_token, names)
        self._owned.callback(proofs.close)
        return proofs

    def _begin(
        self, store: StateStore, memory: Memory, recovered: Recovered, rules: Rules
    ) -> Fleet:
        """Take up the saved state; alerts about damaged ones become events."""
        context = self._context
        state, alerts = memory
        now_s, at = context.clock.now_s(), context.clock.at()
        fleet = begin(context.epoch, state, recovered, rules, now_s=now_s, at=at)
        fleet = fleet.notes(at, [("TARN-1006", fleet.name, alert) for alert in alerts])
        fleet = fleet.notes(at, [("TARN-1004", fleet.name, note) for note in recovered.notes])
        fleet = fleet.notes(at, self._notes)
        self._saver = Saver(store, context.epoch, context.clock, self._wake.set, fleet.next_number)
        return fleet

    def _control(  # noqa: PLR0913, PLR0917 (the graph's centre)
        self,
        fleet: Fleet,
        rules: Rules,
        launch: Launch,
        runtime: Runtime,
        inbox: Inbox,
        board: Board,
        discoveries: Mapping[str, Discovery],
    ) -> Control:
        context, spec = self._context, self._context.spec
        sizing = scaling(self._offered, context)
        few = descriptors.few(spec.replicas.max, descriptors.limit())
        warmup = warmup_in(spec, launch.repository)
        scraper = self._scraper(sizing.families, tests_in(context.directory, spec, warmup))
        policy_runner = self._closed(
            PolicyRunner(sizing.policy, context.clock, self._wake.set, sizing.signals)
        )
        near = ControlDependencies(
            clock=context.clock,
            runtime=runtime,
            discoveries=discoveries,
            scraper=scraper,
            policy=policy_runner,
            saver=self._saver,
            announcer=self._closed(Announcer(self._offered)),
            inbox=inbox,
            board=board,
            wake=self._wake,
            over=self._stop.set,
            kept=sizing.kept,
            journal=self._closed(Journal(context.spec.name, beside(context.directory))),
            pulse=self._pulse,
            lasting=tuple(of_files(few, spec.name)),
        )
        return Control(fleet, rules, launch, warmup, near)

    def _scraper(self, families: Families, tests: KnownTests) -> Scraper:
        clock, interval_s = self._context.clock, self._context.spec.scaling.interval_s
        made = Scraper(
            clock, interval_s, SCRAPE_TIMEOUT_S, self._wake.set, families=families, tests=tests
        )
        made.start()
        return self._closed(made)

    def _closed(self, made: Closed) -> Closed:
        """Return *made*, which is closed when the master leaves."""
        self._owned.callback(made.close)
        return made

    def _discoveries(self, *, first: bool) -> dict[str, Discovery]:
        """Make those that the master runs itself; of its *first* start the required ones answer.

        A later master goes on without them: its fleet serves, and each view is tried again. So
        does one that finds a saved state which cannot be read. All of it is before this master is
        announced: whoever started it learns why it ended.
        """
        own = [one for one in named(self._context.spec.discovery) if not one.followers]
        made = {one.name: self._discovery(one) for one in own}
        if first:
            required = {one.name: made[one.name] for one in own if one.spec.required}
            try:
                reach(required, self._context.clock, self._stop)
            except DiscoveryError:
                for discovery in made.values():
                    discovery.close(withdraw=False)
                raise
        return made

    def _discovery(self, one: NamedDiscovery) -> Discovery:
        return cast(Discovery, self._provider("discovery", one.spec.use, one.spec.options))

    def _until_over(self, control: Control, runtime: Runtime) -> ControlResult:
        control.start()
        self._stop.wait()
        control.leave()
        control.wait(LEAVE_WITHIN_S)
        outcome = control.outcome
        if outcome is ControlResult.ENDED:
            runtime.finish()
        self._offered.master_stopping(self._context, str(outcome))
        return outcome

    def _provider(self, kind: str, name: str, options: Mapping[str, object]) -> Any:
        factory = self._offered.choose(kind, name, f"{kind}.use")
        settings = self._offered.settings(factory, options, f"{kind}.options")
        return factory.create(settings, self._context)

    def _gate(self, authorizer: Authorizer) -> AccessGate:
        if self._context.spec.authorizer.use == "none":
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
