"""Bring the backends of one HAProxy to the wanted instances. Not for several threads."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from tarn.domain import Epoch, Member
from tarn.errors import DiscoveryError, Superseded
from tarn_plugins.discovery.haproxy.affinity_text import (
    AFFINITY_VARIABLE,
    BOUNDED_SUFFIX,
    FILLED_VARIABLE,
    HELD_TABLE,
    KEY_TABLE,
    KEYED_SUFFIX,
    HaproxyRules,
    held_in,
    live_entries,
)
from tarn_plugins.discovery.haproxy.plan import (
    BackendPlan,
    HaproxyBackend,
    WantedServer,
    ours,
    plan,
)
from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi
from tarn_plugins.discovery.haproxy.runtime_messages import (
    BackendServer,
    Load,
    RuntimeCommand,
    complaint,
    loads_in,
    servers_in,
)
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

__all__ = ["FleetVariables", "HaproxyBackends", "SettleResult", "Traffic"]

Place = tuple[str, int]
"""Address and port of a server."""
_EPOCH = re.compile(r"value=<([0-9]+-[0-9]+)>")
_NOTED = re.compile(r"value=<([^>]+)>")
_RULES = 8  # parts of the rules that are set at once, for the same reason as `_NOTES`
_NOTES = 200  # variables set at once: `ask` must send them, and the mode, in one connection


class FleetVariables:
    """The variables that HAProxy keeps for one fleet: the epoch, and which instance is where."""

    def __init__(self, api: RuntimeApi, backend: str, fleet: str) -> None:
        self._api = api
        self._variable = _variable("epoch", backend, fleet)
        self._remembers = False
        self._noted: dict[Place, str] = {}
        self._ids: dict[Place, str] = {}

    @property
    def question(self) -> str:
        """The command whose answer `epoch_in` reads."""
        return f"get var {self._variable}"

    def is_another(self, epoch: Epoch) -> bool:
        """Return whether HAProxy has lost *epoch*, because it was restarted or reloaded.

        Raises:
            DiscoveryError: HAProxy does not answer.
        """
        return self._remembers and epoch_in(self._api.ask([self.question])[0]) != epoch

    def claim(self, mine: Epoch, theirs: Epoch | None) -> None:
        """Store the epoch *mine* in HAProxy; a HAProxy without variables goes without this guard.

        Raises:
            DiscoveryError: HAProxy does not answer.
            Superseded: *theirs* is higher.
        """
        if theirs is not None and theirs > mine:
            raise Superseded(str(mine), str(theirs))
        # HAProxy 2.6 sets variables only in experimental mode, which ends with the connection
        setting = f"set var {self._variable} str({mine})"
        self._remembers = not any(self._api.ask(["experimental-mode on", setting]))
        self._noted = {}  # HAProxy may be a new process, which has none of the variables

    def note(self, instances: Mapping[Place, str], there: Collection[Place]) -> None:
        """Store which instance is at which place.

        Args:
            instances: The wanted instances by their places.
            there: The places of all servers that HAProxy shows.

        Raises:
            DiscoveryError: HAProxy does not answer.
        """
        old = {place: name for place, name in self._ids.items() if place in there}
        self._ids = {**old, **instances}
        # forget places that no server has any more: ports and machines come and go
        self._noted = {at: name for at, name in self._noted.items() if at in self._ids}
        new = {at: name for at, name in instances.items() if self._noted.get(at) != name}
        settings = [f"set var {_place(at)} str({name})" for at, name in new.items()]
        for first in range(0, len(settings), _NOTES):  # each connection needs the mode
            self._api.ask(["experimental-mode on", *settings[first : first + _NOTES]])
        self._noted.update(new)

    def recall(self, places: Iterable[Place]) -> None:
        """Read from HAProxy which instances are at *places*, where another agent stored them.

        Raises:
            DiscoveryError: HAProxy does not answer.
        """
        unknown = [at for at in places if at not in self._ids]
        answers = self._api.ask([f"get var {_place(at)}" for at in unknown])
        for at, answer in zip(unknown, answers, strict=True):
            if found := _NOTED.search(answer):
                self._ids[at] = found.group(1)

    def name_at(self, place: Place) -> str | None:
        """Return the instance at *place*; None if it was never stored."""
        return self._ids.get(place)


def epoch_in(answer: str) -> Epoch | None:
    """Return the epoch in HAProxy's *answer*; None if there is none."""
    found = _EPOCH.search(answer)
    return Epoch.parse(found.group(1)) if found else None


def _variable(*words: str) -> str:
    # HAProxy allows few characters in a name; the code of any other keeps two names apart
    plain = (re.sub(r"[^A-Za-z0-9]", lambda c: f"_{ord(c[0]):02x}", word) for word in words)
    return f"proc.tarn_{'.'.join(plain)}"


def _place(at: Place) -> str:
    return _variable("at", at[0], str(at[1]))


_PASSES = 4  # drain, take out, look: three suffice unless requests are open
_FASTER_S = 0.1  # between checks of a server whose last check or connection failed
# Between checks of a server that is down: a new server waits no longer for its first check.
_SOON_S = 0.05
# Checks of servers that are down, in one backend: above 200 such servers, each is checked less
# often, so that a large fleet that starts does not keep HAProxy busy with checks.
_CHECKS_PER_S = 4000
_FALL = 3  # failed checks in a row until a server is down: a busy Triton may miss one
_SHOWN_COMPLAINTS = 3
_NOTHING_SAID = ("", "")
_PROVEN_S = 2  # a new server that is down for so long is not waited for


@attrs.frozen
class Traffic:
    """Counts of requests, over all backends of the target."""

    refused: int
    """Requests that were answered 503 for want of a live server, since HAProxy started."""
    queued: int
    """Requests that wait for a server now."""
    open: int
    """Requests and streams that are being served now."""
    held: int = 0
    """Requests that HAProxy keeps waiting now because there is no server."""


@attrs.frozen
class SettleResult:
    """The state of the backends after `HaproxyBackends.settle`."""

    sessions: tuple[tuple[str, int], ...] = ()
    """(instance id, open requests and streams) of the leaving instances that still have some."""
    leaving: int = 0
    """Servers that drain, or wait to be deleted."""
    held: bool = False
    """Whether servers that should leave stay until another one works."""
    without_slot: tuple[str, ...] = ()
    """Instance ids for which no placeholder was free."""
    stayed: bool = False
    """Whether no server left, because a missing address hides which slot is whose."""
    sequences: tuple[tuple[str, int], ...] = ()
    """(instance id, sequences that have not ended) of the leaving instances that have some."""
    filled: bool = True
    """Whether HAProxy knows that all servers are there, or need not know."""


class HaproxyBackends:
    """The backends of one target: HTTP, and gRPC if it has one."""

    def __init__(self, target: HaproxyTarget, api: RuntimeApi) -> None:
        self._target = target
        self._api = api
        self._ours = ours(target.slots, target.fleet)
        self._backends = _backends(target, 0)
        self._said = _NOTHING_SAID
        self.rules = HaproxyRules()
        """Which requests belong together; HAProxy is told by the next `settle`."""
        self._memory = FleetVariables(api, target.backend, target.fleet)
        self.orders_given = 0
        """Commands that were given to change something."""

    def check(self) -> None:
        """Check that HAProxy can serve the fleet.

        Raises:
            DiscoveryError: It cannot.
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
        """Return how many instances have room; None if the number is not limited.

        Raises:
            DiscoveryError: HAProxy does not answer, or has no such backend.
        """
        shown, _ = self._read()  # also without slots: it is an error if a backend is missing
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
        """Return whether HAProxy was restarted or reloaded since *epoch* published to it.

        Raises:
            DiscoveryError: HAProxy does not answer.
        """
        return self._memory.is_another(epoch)

    def traffic(self) -> Traffic:
        """Return the counts of requests.

        Raises:
            DiscoveryError: HAProxy does not answer, or has no such backend.
        """
        totals = [load for row in self._loads(2) for load in row.values()]
        held = held_in(self._api.ask([f"show table {HELD_TABLE}"])[0]) if self.keyed else 0
        return Traffic(
            refused=sum(load.failed_connections for load in totals),
            queued=sum(load.queued for load in totals),
            open=sum(load.sessions for load in totals),
            held=held,
        )

    @property
    def keyed(self) -> bool:
        """Whether HAProxy, when it was last read, had backends for requests with a key."""
        return any(backend.keyed for backend in self._backends)

    @property
    def bounded(self) -> bool:
        """Whether it had a backend that obeys a bound on an instance's load."""
        return any(backend.name.endswith(BOUNDED_SUFFIX) for backend in self._backends)

    def settle(
        self,
        epoch: Epoch | None,
        members: Iterable[Member],
        addresses: Mapping[str, str],
        *,
        remove: bool,
        hold: bool = False,
    ) -> SettleResult:
        """Change the servers so that they are *members*.

        Args:
            epoch: The epoch of the master that asks for it; None skips the comparison of epochs.
            members: The instances that may get traffic.
            addresses: Host to address; a member whose host is missing is neither added nor removed.
            remove: Whether the servers that are not members leave.
            hold: Whether leaving servers may stay until a member works.

        Raises:
            DiscoveryError: HAProxy is away, or refused a command; all others were done.
            Superseded: A master with a higher epoch published here.
        """
        members = tuple(members)
        homeless = {m.instance_id for m in members if m.endpoint.host not in addresses}
        # only its address tells which instance a slot belongs to
        stayed = remove and bool(self._target.slots and homeless)
        settled, done = SettleResult(), _Done()
        for _ in range(_PASSES):
            shown, theirs = self._read()
            situation = _Situation(
                _sized(self._target, self._backends, len(members)),
                tuple(_wanted(backend, members, addresses) for backend in self._backends),
                frozenset(homeless),
                slots=bool(self._target.slots),
                remove=remove and not stayed,
                hold=hold,
            )
            if epoch is not None and theirs != epoch:
                self._memory.claim(epoch, theirs)
            self._tell_rules()
            loads: tuple[dict[str, Load], ...] = tuple({} for _ in self._backends)
            plans, entries = situation.plans(shown, loads, {}), dict[int, int]()
            if any(made.leaving for made in plans):  # only a leaving server needs its load
                loads, entries = self._loads(4), self._entries(plans)
                plans = situation.plans(shown, loads, entries)
            self._note_slots(situation, shown, plans)
            settled = self._settled(plans, loads, entries)
            settled = attrs.evolve(settled, filled=self._tell_filled(situation, shown, plans))
            refused, done = done.wrong, self._do([o for made in plans for o in made.orders])
            # After a new complaint look again: since the servers were read, HAProxy may have been
            # reloaded, or another agent may have done the same.
            if not done.some and done.wrong == refused:
                break
        if done.wrong:
            raise self._refused(done.wrong)
        return attrs.evolve(settled, stayed=stayed)

    def _refused(self, wrong: Mapping[str, str]) -> DiscoveryError:
        """Return the error for the servers about which HAProxy complained."""
        more = len(wrong) - _SHOWN_COMPLAINTS
        tail = f" (and {more} more)" if more > 0 else ""
        noun = "server" if len(wrong) == 1 else "servers"
        return self._api.error(
            f"HAProxy refused commands about {len(wrong)} {noun}: "
            f"{'; '.join(list(wrong.values())[:_SHOWN_COMPLAINTS])}{tail}",
            next_step="Fix what it complains about; the commands are repeated automatically.",
        )

    def _note_slots(
        self, situation: "_Situation", shown: "_Servers", plans: tuple[BackendPlan, ...]
    ) -> None:
        """Store which instance each slot serves: in HAProxy, the slot has only its address."""
        if not situation.slots:
            return
        wants = [one for wants in situation.wanted for one in wants]
        there = {(one.address, one.port) for servers in shown for one in servers}
        self._memory.note({(one.address, one.port): one.instance_id for one in wants}, there)
        leaving = (server for made in plans for server in made.leaving)
        self._memory.recall((server.address, server.port) for server in leaving)

    def _read(self) -> tuple["_Servers", Epoch | None]:
        """Return the fleet's servers of each backend, and the epoch stored in HAProxy."""
        every = (*_backends(self._target, 0), *_keyed(self._target, 0))
        questions = [f"show servers state {backend.name}" for backend in every]
        told = [f"get var {AFFINITY_VARIABLE}", f"get var {FILLED_VARIABLE}"] if self.keyed else []
        answers = self._api.ask([*questions, *told, self._memory.question])
        shown, found = [], []
        for backend, answer in zip(every, answers, strict=False):
            try:
                servers = servers_in(answer)
            except ValueError as error:
                if backend.keyed:  # a file without them is none of ours, or an older one
                    continue
                raise self._unknown(backend, str(error)) from error
            found.append(backend)
            shown.append(tuple(one for one in servers if self._ours(one.name)))
        self._said = (answers[-3], answers[-2]) if told else _NOTHING_SAID
        self._backends = tuple(found)
        return tuple(shown), epoch_in(answers[-1])

    # -- requests that belong together

    def _tell_rules(self) -> None:
        """Tell HAProxy the rules, unless it has them."""
        if not self.keyed or f"<{self.rules.head}>" in self._said[0]:
            return
        commands = self.rules.commands  # the last one makes the others count
        for first in range(0, len(commands), _RULES):  # each connection needs the mode
            self._api.ask(["experimental-mode on", *commands[first : first + _RULES]])

    def _tell_filled(
        self, situation: "_Situation", shown: "_Servers", plans: tuple[BackendPlan, ...]
    ) -> bool:
        """Tell HAProxy that all servers are there, if they are; return whether it knows."""
        if not self.keyed or "value=" in self._said[1]:
            return True
        if not situation.remove or any(made.orders or made.held for made in plans):
            return False
        there = [
            {(one.address, one.port) for one in servers if one.works or one.unchanged_s > _PROVEN_S}
            for servers in shown
        ]
        for wants, places in zip(situation.wanted, there, strict=True):
            if not all((one.address, one.port) in places for one in wants if one.weight):
                return False
        self._api.ask(["experimental-mode on", f"set var {FILLED_VARIABLE} int(1)"])
        return True

    def _entries(self, plans: tuple[BackendPlan, ...]) -> dict[int, int]:
        """Return server's number to the sequences that it still has, of those that leave."""
        leaving = {
            server.number
            for backend, made in zip(self._backends, plans, strict=True)
            for server in made.leaving
            if backend.keyed and server.number and not server.in_maintenance
        }
        asks = [f"show table {KEY_TABLE} data.server_id eq {number}" for number in sorted(leaving)]
        found: dict[int, int] = {}
        for answer in self._api.ask(asks):
            found |= live_entries(answer, self.rules.rests_s)
        return found

    def _loads(self, kinds: int) -> tuple[dict[str, Load], ...]:
        # *kinds* is the TYPE of `show stat`: 2 asks for the backend itself, 4 for its servers
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
        """Return the error for an answer that could not be read."""
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
        wrong: dict[str, str] = {}  # only a server's first complaint: later ones follow from it
        done = set()
        for order, answer in zip(orders, answers, strict=True):
            if said := complaint(order, answer):
                wrong.setdefault(order.server, f"'{order.text}' was answered with '{said}'")
            elif "still has connections" not in answer:
                done.add(order.server)
        return _Done(wrong, some=bool(done - wrong.keys()))

    def _settled(
        self,
        plans: tuple[BackendPlan, ...],
        loads: tuple[dict[str, Load], ...],
        entries: Mapping[int, int],
    ) -> SettleResult:
        sessions: Counter[str] = Counter()
        sequences: dict[str, int] = {}
        for backend, made, known in zip(self._backends, plans, loads, strict=True):
            for server in made.leaving:
                load, name = known.get(server.name), server.name
                if self._target.slots:  # a slot of unknown owner counts under its own name
                    name = self._memory.name_at((server.address, server.port)) or name
                sessions[name] += load.sessions + load.queued if load else 0
                # one table for HTTP and gRPC: the same entries in both backends
                if backend.keyed and server.state != 0 and server.number in entries:
                    sequences[name] = entries[server.number]
        for name, count in sequences.items():  # a request of a sequence is counted in both
            sessions[name] = max(sessions[name], count)
        return SettleResult(
            sequences=tuple(sorted(sequences.items())),
            sessions=tuple(sorted((name, count) for name, count in sessions.items() if count)),
            leaving=sum(len(made.leaving) for made in plans),
            held=any(made.held for made in plans),
            without_slot=tuple(dict.fromkeys(i for made in plans for i in made.without_slot)),
        )


@attrs.frozen
class _Done:
    """The result of some commands."""

    wrong: Mapping[str, str] = attrs.field(factory=dict)
    """Server to HAProxy's first complaint about it."""
    some: bool = False
    """Whether a server was changed, so that HAProxy must be read again."""


_Servers = tuple[tuple[BackendServer, ...], ...]


@attrs.frozen
class _Situation:
    """The wanted state of all backends."""

    backends: tuple[HaproxyBackend, ...]
    wanted: tuple[tuple[WantedServer, ...], ...]
    homeless: frozenset[str]
    """Members without a known address: their servers stay as they are."""
    slots: bool
    remove: bool
    hold: bool

    def plans(
        self, shown: _Servers, loads: tuple[dict[str, Load], ...], entries: Mapping[int, int]
    ) -> tuple[BackendPlan, ...]:
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
                entries=entries,
            )
            for backend, wants, servers, known in zip(
                self.backends, self.wanted, shown, loads, strict=True
            )
        )


def _backends(target: HaproxyTarget, servers: int) -> tuple[HaproxyBackend, ...]:
    """Return the backends of *target*, with checks fit for that number of *servers*."""
    inter = max(1, round(target.check_interval_s * 1000))
    spread_s = max(_SOON_S, servers / _CHECKS_PER_S)
    faster, soon = (min(inter, round(s * 1000)) for s in (_FASTER_S, spread_s))
    parameters = (
        f"check inter {inter}ms fastinter {faster}ms downinter {soon}ms rise 1 fall {_FALL} "
        "observe layer4 error-limit 1 on-error fastinter"  # check soon after a refused connection
    )
    # an added server has no connection pool by default: each request would open a connection
    parameters += " pool-max-conn -1 pool-purge-delay 5s"
    if target.max_connections:
        parameters += f" maxconn {target.max_connections}"
    http = HaproxyBackend(target.backend, parameters)
    if not target.grpc_backend:
        return (http,)
    # without check-proto the check would speak HTTP/2 to Triton's HTTP port
    grpc = f"proto h2 {parameters} check-proto h1"
    return http, HaproxyBackend(target.grpc_backend, grpc, checks_elsewhere=True)


def _keyed(target: HaproxyTarget, servers: int) -> tuple[HaproxyBackend, ...]:
    """Return the backends for requests with a key, which a file may have besides the others."""
    return tuple(
        attrs.evolve(one, name=f"{one.name}{suffix}", keyed=True)
        for suffix in (KEYED_SUFFIX, BOUNDED_SUFFIX)
        for one in _backends(target, servers)
        if suffix == KEYED_SUFFIX or not one.checks_elsewhere  # over gRPC nothing has a bound
    )


def _sized(
    target: HaproxyTarget, found: tuple[HaproxyBackend, ...], servers: int
) -> tuple[HaproxyBackend, ...]:
    """Return those of *target* that were found, with checks fit for that number of *servers*."""
    names = {one.name for one in found}
    every = (*_backends(target, servers), *_keyed(target, servers))
    return tuple(one for one in every if one.name in names)


def _wanted(
    backend: HaproxyBackend, members: tuple[Member, ...], addresses: Mapping[str, str]
) -> tuple[WantedServer, ...]:
    """Return the servers for those *members* that have an address."""
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
