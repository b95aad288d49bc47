"""The backends of one HAProxy: read them, plan, do it, look again. Not for several threads."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

from tarn.domain import Epoch, Member
from tarn.errors import DiscoveryError
from tarn_plugins.discovery.haproxy.fleet_variables import FleetVariables, epoch_in
from tarn_plugins.discovery.haproxy.plan import (
    BackendPlan,
    HaproxyBackend,
    WantedServer,
    ours,
    plan,
)
from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi
from tarn_plugins.discovery.haproxy.runtime_commands import RuntimeCommand, complaint
from tarn_plugins.discovery.haproxy.stats_parser import BackendServer, Load, loads_in, servers_in
from tarn_plugins.discovery.haproxy.target import HaproxyTarget

__all__ = ["HaproxyBackends", "SettleResult", "Traffic"]

_PASSES = 4
"""Drain, take out, look: three are enough where no request is open."""
_FASTER_S = 0.1
"""Between checks of a server whose last check or connection failed."""
_SOON_S = 0.05
"""Between checks of a server that is down, so the longest wait of a new one for its first."""
_CHECKS_PER_S = 4000
"""Of servers that are down, at most, in one backend: so with more than 200 they come less often."""
_FALL = 3
"""Checks in a row that fail before a server is down: a busy Triton may miss one."""
_SHOWN_COMPLAINTS = 3


@attrs.frozen
class Traffic:
    """What clients meet, over all backends of the target."""

    refused: int
    """Requests that found no live server, since HAProxy began (answered 503)."""
    queued: int
    """Requests that wait for a server now."""
    open: int
    """Requests and streams that are being served now."""


@attrs.frozen
class SettleResult:
    """How things stand after the work."""

    sessions: tuple[tuple[str, int], ...] = ()
    """(instance id, open requests and streams) of those that leave, where there are any."""
    leaving: int = 0
    """Servers that are not gone yet."""
    held: bool = False
    """Whether servers that should leave are kept until another one works."""
    without_slot: tuple[str, ...] = ()
    """Instance ids for which no placeholder was free."""
    stayed: bool = False
    """Whether nobody could leave: which slot is whose is not known while an address is missing."""


class HaproxyBackends:
    """One or two backends."""

    def __init__(self, target: HaproxyTarget, api: RuntimeApi) -> None:
        self._target = target
        self._api = api
        self._ours = ours(target.slots, target.fleet)
        self._backends = _backends(target, 0)
        self._memory = FleetVariables(api, target.backend, target.fleet)
        self.orders_given = 0
        """Commands that changed something, in all."""

    def check(self) -> None:
        """Make sure that HAProxy can do what will be asked of it.

        Raises:
            DiscoveryError: It cannot, with the reason and what to do.
        """
        self._api.check(adds_servers=not self._target.slots)
        capacity = self.capacity()
        if capacity == 0:
            raise self._without_slots()
        if capacity is not None and capacity < self._target.at_least:
            raise self._api.error(
                f"backend '{self._target.backend}' has {capacity} placeholder servers "
                f"'{self._target.slots}…' for {self._target.at_least} instances",
                next_step="Add placeholders to haproxy.cfg, or lower replicas.max.",
                code="TARN-3308",
            )

    def capacity(self) -> int | None:
        """Return for how many instances there is room; None: for any number.

        Raises:
            DiscoveryError: HAProxy does not answer, or has no such backend.
        """
        shown, _ = self._read()
        return min(len(servers) for servers in shown) if self._target.slots else None

    def _without_slots(self) -> DiscoveryError:
        shown, _ = self._read()
        pairs = zip(self._backends, shown, strict=True)
        empty = next((backend.name for backend, servers in pairs if not servers), "")
        return self._api.error(
            f"no server of backend '{empty}' has a name that begins with '{self._target.slots}'",
            next_step="Correct the prefix, or add placeholders to haproxy.cfg, as many as "
            "replicas.max: `tarn lb haproxy config --slots N`.",
            code="TARN-3308",
        )

    def is_another(self, epoch: Epoch) -> bool:
        """Say whether this is no longer the HAProxy that *epoch* published to: cheap to ask.

        Raises:
            DiscoveryError: HAProxy does not answer.
        """
        return self._memory.is_another(epoch)

    def traffic(self) -> Traffic:
        """Count requests.

        Raises:
            DiscoveryError: HAProxy does not answer, or has no such backend.
        """
        totals = [load for row in self._loads(2) for load in row.values()]
        return Traffic(
            refused=sum(load.failed_connections for load in totals),
            queued=sum(load.queued for load in totals),
            open=sum(load.sessions for load in totals),
        )

    def settle(
        self,
        epoch: Epoch | None,
        members: Iterable[Member],
        addresses: Mapping[str, str],
        *,
        remove: bool,
        hold: bool = False,
    ) -> SettleResult:
        """Bring the servers to *members*, those without an address left as they are.

        Args:
            epoch: Of the master that wants it; None: nobody's, and nobody is asked.
            members: Who may get traffic.
            addresses: By host; a member whose host is missing is neither added nor taken out.
            remove: Whether whoever is not a member leaves.
            hold: Whether they may be kept until a member works.

        Raises:
            DiscoveryError: HAProxy is away, or refused a command; all others were done.
            Superseded: A master with a higher epoch published here.
        """
        members = tuple(members)
        homeless = {m.instance_id for m in members if m.endpoint.host not in addresses}
        # which slot is whose can only be told by its address
        stayed = remove and bool(self._target.slots and homeless)
        situation = _Situation(
            _backends(self._target, len(members)),
            tuple(_wanted(backend, members, addresses) for backend in self._backends),
            frozenset(homeless),
            slots=bool(self._target.slots),
            remove=remove and not stayed,
            hold=hold,
        )
        settled, done = SettleResult(), _Done()
        for _ in range(_PASSES):
            shown, theirs = self._read()
            if epoch is not None and theirs != epoch:
                self._memory.claim(epoch, theirs)
            plans, loads = self._plan(situation, shown)
            self._remember(situation, shown)
            if situation.slots:
                leaving = (server for made in plans for server in made.leaving)
                self._memory.recall((server.address, server.port) for server in leaving)
            settled = self._settled(plans, loads)
            refused, done = done.wrong, self._do([o for made in plans for o in made.orders])
            # a new complaint: since it was read, HAProxy may have been reloaded, or another
            # agent may have done the same
            if not done.some and done.wrong == refused:
                break
        if done.wrong:
            raise self._refused(done.wrong)
        return attrs.evolve(settled, stayed=stayed)

    def _plan(
        self, situation: "_Situation", shown: "_Servers"
    ) -> tuple[tuple[BackendPlan, ...], tuple[dict[str, Load], ...]]:
        """Plan; loads are asked only where a server leaves."""
        nothing: tuple[dict[str, Load], ...] = tuple({} for _ in self._backends)
        plans = situation.plans(shown, nothing)
        if not any(made.leaving for made in plans):
            return plans, nothing
        loads = self._loads(4)
        return situation.plans(shown, loads), loads

    def _read(self) -> tuple["_Servers", Epoch | None]:
        """Return our servers of each backend, and the epoch that HAProxy remembers."""
        questions = [f"show servers state {backend.name}" for backend in self._backends]
        *answers, said = self._api.ask([*questions, self._memory.question])
        shown = []
        for backend, answer in zip(self._backends, answers, strict=True):
            try:
                servers = servers_in(answer)
            except ValueError as error:
                raise self._unknown(backend, str(error)) from error
            shown.append(tuple(one for one in servers if self._ours(one.name)))
        return tuple(shown), epoch_in(said)

    def _loads(self, kinds: int) -> tuple[dict[str, Load], ...]:
        """Return the loads of each backend: of the backend itself (2), or of its servers (4)."""
        answers = self._api.ask(
            [f"show stat {backend.name} {kinds} -1" for backend in self._backends]
        )
        loads = []
        for backend, answer in zip(self._backends, answers, strict=True):
            try:
                loads.append(loads_in(answer))
            except (ValueError, KeyError) as error:
                raise self._unknown(backend, str(error)) from error
        return tuple(loads)

    def _unknown(self, backend: HaproxyBackend, said: str) -> DiscoveryError:
        """Return the error for an answer that is none."""
        backends = self._api.backends()
        if backend.name in backends:
            return self._api.error(
                f"HAProxy's answer about '{backend.name}' cannot be read: {said}"
            )
        return self._api.error(
            f"HAProxy has no backend '{backend.name}'",
            code="TARN-3305",
            right=f"It has {', '.join(backends) or 'none'}.",
            next_step="Name one of them, or add it to haproxy.cfg: `tarn lb haproxy config`.",
        )

    def _do(self, orders: Sequence[RuntimeCommand]) -> "_Done":
        """Give *orders*, and check each answer."""
        answers = self._api.ask([order.text for order in orders])
        self.orders_given += len(orders)
        wrong: dict[str, str] = {}  # what follows a server's first complaint comes of it
        done = set()
        for order, answer in zip(orders, answers, strict=True):
            if said := complaint(order, answer):
                wrong.setdefault(order.server, f"'{order.text}' was answered with '{said}'")
            elif "still has connections" not in answer:
                done.add(order.server)
        return _Done(wrong, some=bool(done - wrong.keys()))

    def _refused(self, wrong: Mapping[str, str]) -> DiscoveryError:
        """Return the error for commands that HAProxy complained about, by server."""
        more = len(wrong) - _SHOWN_COMPLAINTS
        tail = f" (and {more} more)" if more > 0 else ""
        noun = "server" if len(wrong) == 1 else "servers"
        return self._api.error(
            f"HAProxy refused commands about {len(wrong)} {noun}: "
            f"{'; '.join(list(wrong.values())[:_SHOWN_COMPLAINTS])}{tail}",
            next_step="Fix what it complains about; the commands are repeated automatically.",
        )

    def _remember(self, situation: "_Situation", shown: "_Servers") -> None:
        """Remember who is where: a slot that drains is known by its address only."""
        if not situation.slots:
            return
        wants = [one for wants in situation.wanted for one in wants]
        there = {(one.address, one.port) for servers in shown for one in servers}
        self._memory.note({(one.address, one.port): one.instance_id for one in wants}, there)

    def _name_of(self, server: BackendServer) -> str:
        """Return the instance that *server* stands for; its own name where nobody knows."""
        if not self._target.slots:
            return server.name
        return self._memory.name_at((server.address, server.port)) or server.name

    def _settled(
        self, plans: tuple[BackendPlan, ...], loads: tuple[dict[str, Load], ...]
    ) -> SettleResult:
        sessions: Counter[str] = Counter()
        for made, known in zip(plans, loads, strict=True):
            for server in made.leaving:
                load = known.get(server.name)
                sessions[self._name_of(server)] += load.sessions + load.queued if load else 0
        return SettleResult(
            sessions=tuple(sorted((name, count) for name, count in sessions.items() if count)),
            leaving=sum(len(made.leaving) for made in plans),
            held=any(made.held for made in plans),
            without_slot=tuple(dict.fromkeys(i for made in plans for i in made.without_slot)),
        )


@attrs.frozen
class _Done:
    """How HAProxy took some commands."""

    wrong: Mapping[str, str] = attrs.field(factory=dict)
    """Server to what HAProxy complained about first."""
    some: bool = False
    """Whether a server was changed, so that another look is worth it."""


_Servers = tuple[tuple[BackendServer, ...], ...]


@attrs.frozen
class _Situation:
    """What is wanted of each backend."""

    backends: tuple[HaproxyBackend, ...]
    wanted: tuple[tuple[WantedServer, ...], ...]
    homeless: frozenset[str]
    """Members whose address is not known: their servers stay as they are."""
    slots: bool
    remove: bool
    hold: bool

    def plans(self, shown: _Servers, loads: tuple[dict[str, Load], ...]) -> tuple[BackendPlan, ...]:
        """Return a plan for each backend."""
        return tuple(
            plan(
                backend,
                wants,
                [server for server in servers if server.name not in self.homeless],
                known,
                slots=self.slots,
                remove=self.remove,
                hold=self.hold,
            )
            for backend, wants, servers, known in zip(
                self.backends, self.wanted, shown, loads, strict=True
            )
        )


def _backends(target: HaproxyTarget, servers: int) -> tuple[HaproxyBackend, ...]:
    """Return the backends of *target*, for so many servers: HTTP, and gRPC where there is one."""
    inter = max(1, round(target.check_interval_s * 1000))
    spread_s = max(_SOON_S, servers / _CHECKS_PER_S)
    faster, soon = (min(inter, round(s * 1000)) for s in (_FASTER_S, spread_s))
    parameters = (
        f"check inter {inter}ms fastinter {faster}ms downinter {soon}ms rise 1 fall {_FALL} "
        "observe layer4 error-limit 1 on-error fastinter"  # a refused connection: look at once
    )
    # an added server has no pool by default: each request would open a connection
    parameters += " pool-max-conn -1 pool-purge-delay 5s"
    if target.max_connections:
        parameters += f" maxconn {target.max_connections}"
    http = HaproxyBackend(target.backend, parameters)
    if not target.grpc_backend:
        return (http,)
    # without check-proto the check would speak HTTP/2 to Triton's HTTP port
    grpc = f"proto h2 {parameters} check-proto h1"
    return http, HaproxyBackend(target.grpc_backend, grpc, checks_elsewhere=True)


def _wanted(
    backend: HaproxyBackend, members: tuple[Member, ...], addresses: Mapping[str, str]
) -> tuple[WantedServer, ...]:
    """Return *members* as *backend* should have them, without those that have no address."""
    return tuple(
        WantedServer(
            one.instance_id,
            addresses[one.endpoint.host],
            one.endpoint.grpc_port if backend.checks_elsewhere else one.endpoint.http_port,
            one.endpoint.http_port,
            one.weight,
        )
        for one in members
        if one.endpoint.host in addresses
    )
