"""Hypothesis strategies for the domain's values, and the decorator of the contract suites.

All drawn values are legal: an instance has an endpoint exactly if its state allows one, ids are
unique, and views are sorted. Texts go beyond ASCII on purpose.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tarn.domain import (
    PLACED,
    Applied,
    ClusterState,
    Decision,
    DiscoveryView,
    Ended,
    Endpoint,
    Epoch,
    Event,
    ExitStatus,
    Fact,
    FleetView,
    Instance,
    InstanceState,
    Issue,
    Known,
    Limits,
    Member,
    ModelTraits,
    Pause,
    Pending,
    Principal,
    Running,
    Sample,
    SavedState,
    StubEnded,
    Unknown,
)
from tarn.read.snapshot import Follower, Snapshot

__all__ = [
    "applied",
    "decisions",
    "discovery_views",
    "endpoints",
    "epochs",
    "events",
    "facts",
    "fleet_views",
    "fleets",
    "for_any",
    "histories",
    "instance_ids",
    "instances",
    "limits",
    "members",
    "model_traits",
    "principals",
    "samples",
    "saved_states",
    "snapshots",
    "texts",
    "two_orders",
]

T = TypeVar("T")
_HASHES = ("aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc")
_MOST_INSTANCES = 6


def for_any(
    examples: int = 50, **arguments: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that runs a test method for *examples* values of each argument.

    The examples are the same in each run, nothing is stored, and a suite may be inherited.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        decorated: Callable[..., None] = settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=(Phase.explicit, Phase.generate, Phase.shrink),
            suppress_health_check=(
                HealthCheck.differing_executors,
                HealthCheck.function_scoped_fixture,
                HealthCheck.too_slow,
            ),
        )(given(**arguments)(test))
        return decorated

    return decorate


texts = st.text(max_size=20)
"""Any text, including the empty one, control characters, and text beyond ASCII."""
_words = st.text(min_size=1, max_size=20)
_wall = st.floats(0.0, 4e9, allow_nan=False)
_seconds = st.floats(0.0, 1e7, allow_nan=False)
_sizes = st.integers(0, 20)
_hashes = st.sampled_from(_HASHES)
_ports = st.integers(1, 65_535)


def _traits(name: str, idle_s: float, cached: bool) -> ModelTraits:  # noqa: FBT001 (drawn)
    return ModelTraits(name, idle_s > 0, idle_s, cached)


def model_traits() -> st.SearchStrategy[tuple[ModelTraits, ...]]:
    """Return a strategy of what models are like: few of any kind, or a hundred that all differ."""
    idle_s = st.just(0.0) | st.floats(1e-6, 604_800.0)
    few = st.lists(st.builds(_traits, _words, idle_s, st.booleans()), max_size=6,
                   unique_by=lambda model: model.name)  # fmt: skip
    many = st.integers(1, 6000).map(
        lambda step: [_traits(f"m{n}", float(n * step + 1), cached=False) for n in range(100)]
    )
    return (few | many).map(tuple)


def two_orders(
    many: st.SearchStrategy[tuple[T, ...]],
) -> st.SearchStrategy[tuple[tuple[T, ...], tuple[T, ...]]]:
    """Return a strategy of pairs of tuples that differ in their order at most."""
    return many.flatmap(lambda one: st.tuples(st.just(one), st.permutations(one).map(tuple)))


epochs = st.builds(Epoch, st.integers(0, 2**45), st.integers(0, 100))
instance_ids = st.builds("fleet-{:04d}".format, st.integers(1, 9999))
endpoints = st.builds(
    Endpoint, st.sampled_from(("127.0.0.1", "nm-1", "fe80::1")), _ports, _ports, _ports
)
principals = st.builds(
    Principal,
    texts,
    st.frozensets(texts, max_size=3),
    st.sampled_from(("none", "token", "spnego", "proxy")),
)
limits = st.builds(
    lambda low, more, ceiling: Limits(low, low + more, ceiling),
    _sizes,
    _sizes,
    st.none() | _sizes,
)


def samples(values: st.SearchStrategy[T]) -> st.SearchStrategy[Sample[T]]:
    """Return samples of *values*: known with any age, or unknown with a reason."""
    return st.builds(Known, values, _seconds) | st.builds(Unknown, _words)


numbers = st.just(0.0) | st.floats(0.0, 1e6, allow_nan=False)
_causes = st.sampled_from(("policy fake", "scale", "start"))
decisions = st.builds(
    Decision,
    at=_wall,
    wanted=st.none() | _sizes,
    desired=_sizes,
    by=_causes,
    reason=texts,
    held_back=texts,
)
events = st.builds(
    lambda code, subject, message, first, more_s, count: Event(
        code, subject, message, first, first + more_s, count
    ),
    st.sampled_from(("TARN-1100", "TARN-1105", "TARN-1200")),
    instance_ids,
    texts,
    _wall,
    _seconds,
    st.integers(1, 1000),
)


@st.composite
def instances(
    draw: st.DrawFn, states: frozenset[InstanceState] = frozenset(InstanceState)
) -> Instance:
    """Draw one instance in one of *states*."""
    state = draw(st.sampled_from(sorted(states)))
    placed = state in PLACED
    requested_s = draw(_seconds)
    return Instance(
        draw(instance_ids),
        draw(_hashes),
        state,
        since_s=requested_s + draw(_seconds),
        requested_s=requested_s,
        reason=draw(texts),
        container_id=draw(instance_ids) if placed else None,
        node="nm-1" if placed else None,
        endpoint=draw(endpoints) if placed else None,
        serving=state is InstanceState.READY,
        models=tuple(sorted(draw(st.lists(_models, max_size=2, unique_by=lambda m: m[0])))),
        busy=draw(samples(numbers)) if placed else Unknown("not scraped yet"),
        ready_s=requested_s if state is InstanceState.READY else None,
        suspect=draw(st.just("") | _words) if state is InstanceState.READY else "",
        condemned=state is InstanceState.DRAINING and draw(st.booleans()),
        stop_posted=state is InstanceState.DRAINING and draw(st.booleans()),
    )


_models = st.tuples(_words, st.sampled_from(("READY", "LOADING", "UNAVAILABLE")), texts)


def fleets(
    states: frozenset[InstanceState] = frozenset(InstanceState),
) -> st.SearchStrategy[tuple[Instance, ...]]:
    """Return fleets sorted by unique id, including the empty one."""
    drawn = st.lists(instances(states), max_size=_MOST_INSTANCES, unique_by=lambda i: i.id)
    return drawn.map(lambda fleet: tuple(sorted(fleet, key=lambda i: i.id)))


@st.composite
def fleet_views(draw: st.DrawFn, signals: tuple[str, ...] = ("load",)) -> FleetView:
    """Draw a policy's view of a fleet, with histories of *signals*, some of them empty."""
    now_s = draw(_seconds)
    history = st.lists(samples(numbers), max_size=4)
    return FleetView(
        now_s,
        draw(_sizes),
        draw(limits),
        draw(fleets()),
        {name: _timed(now_s, draw(history)) for name in signals},
        tuple(draw(st.lists(decisions, max_size=3))),
    )


def _timed(now_s: float, drawn: list[Sample[float]]) -> tuple[tuple[float, Sample[float]], ...]:
    first_s = now_s - len(drawn)
    return tuple((first_s + place, sample) for place, sample in enumerate(drawn))


@st.composite
def histories(
    draw: st.DrawFn, metrics: tuple[str, ...] = ("pending",)
) -> dict[str, tuple[tuple[float, dict[str, Sample[float]]], ...]]:
    """Draw samples by instance, oldest first, a second apart; some metrics are missing."""
    reading = st.dictionaries(st.sampled_from(metrics), samples(numbers))
    drawn = draw(st.dictionaries(instance_ids, st.lists(reading, max_size=4), max_size=3))
    now_s = 1000.0 + draw(_seconds)
    return {
        instance_id: tuple((now_s - len(taken) + n, metrics) for n, metrics in enumerate(taken))
        for instance_id, taken in drawn.items()
    }


members = st.builds(Member, instance_ids, instance_ids, endpoints, _hashes)


@st.composite
def discovery_views(draw: st.DrawFn, epoch: Epoch | None = None) -> DiscoveryView:
    """Draw a view of *epoch* (None: any), with members sorted by unique ids."""
    ids = (lambda m: m.instance_id, lambda m: m.container_id)
    drawn = draw(st.lists(members, max_size=4, unique_by=ids))
    return DiscoveryView(
        draw(epochs) if epoch is None else epoch,
        draw(st.integers(0, 1000)),
        draw(st.booleans()),
        tuple(sorted(drawn)),
    )


applied = st.builds(
    Applied,
    name=_words,
    epoch=epochs,
    revision=st.integers(0, 1000),
    at=_wall,
    error=texts,
    sessions=st.lists(st.tuples(instance_ids, _sizes), max_size=3).map(tuple),
)
_exits = st.builds(
    ExitStatus,
    _words,
    st.none() | st.integers(-64, 255),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
_asked = st.builds(Pending, instance_ids, _hashes, texts)
_running = st.builds(
    Running,
    instance_ids,
    _hashes,
    instance_ids,
    st.just("nm-1"),
    endpoints,
    st.integers(1, 4),
    _wall,
    st.booleans(),
)
_ended = st.builds(Ended, instance_ids, _hashes, _exits, st.none() | instance_ids)


def facts() -> st.SearchStrategy[tuple[Fact, ...]]:
    """Return facts of a runtime: at most one for an id, and one about its stub."""
    drawn: st.SearchStrategy[Fact] = st.one_of(_asked, _running, _ended)
    lives = st.lists(drawn, max_size=_MOST_INSTANCES, unique_by=lambda f: f.instance_id)
    return st.builds(_with_stubs, lives, st.lists(st.booleans(), max_size=_MOST_INSTANCES))


def _with_stubs(lives: list[Fact], ended: list[bool]) -> tuple[Fact, ...]:
    running = [fact.instance_id for fact in lives if isinstance(fact, Running)]
    chosen = (i for i, yes in zip(running, ended, strict=False) if yes)
    return (*lives, *(StubEnded(i, f"a process of {i} was killed", 0.0) for i in chosen))


saved_states = st.builds(
    SavedState,
    desired=_sizes,
    next_number=st.integers(1, 10_000),
    spec_revision=st.integers(1, 1000),
    view_revision=st.integers(0, 10_000),
    wish_revision=st.integers(0, 10_000),
    manual=st.none() | _sizes,
    min=st.none() | _sizes,
    max=st.none() | _sizes,
    pause=st.none() | st.builds(Pause, _wall, texts),
    changed_at=_wall,
    strikes=st.integers(0, 5),
    retry_at=_wall,
    halted=texts,
    drains=st.lists(st.tuples(instance_ids, _wall, texts), max_size=3).map(tuple),
    condemned=st.frozensets(instance_ids, max_size=3),
    stops=st.frozensets(instance_ids, max_size=3),
    ending=st.booleans(),
    decisions=st.lists(decisions, max_size=3).map(tuple),
)
_followers = st.builds(
    Follower,
    _words,
    st.booleans(),
    st.integers(-1, 1000),
    st.none() | _seconds,
    st.booleans(),
    texts,
)


_issues = st.builds(
    Issue,
    _words,
    _words,
    code=st.sampled_from(("", "TARN-1005", "TARN-1152")),
    public=st.just("") | _words,
    models=st.lists(_words, max_size=2).map(tuple),
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Draw a snapshot whose view has exactly the instances that are in the view."""
    over = frozenset({InstanceState.STOPPED, InstanceState.FAILED})
    alive = draw(fleets(frozenset(InstanceState) - over))
    epoch = draw(epochs)
    return Snapshot(
        at=draw(_wall),
        name="fleet",
        runtime="fake",
        epoch=epoch,
        state=draw(st.sampled_from(ClusterState)),
        reason=draw(texts),
        spec_revision=draw(st.integers(1, 1000)),
        desired=draw(_sizes),
        limits=draw(limits),
        manual=draw(st.none() | _sizes),
        pause=draw(st.none() | st.builds(Pause, _wall, texts)),
        instances=alive,
        ended=draw(fleets(over)),
        view=_view_of(alive, epoch, draw(st.integers(0, 1000))),
        followers=tuple(draw(st.lists(_followers, max_size=2))),
        events=tuple(draw(st.lists(events, max_size=3))),
        decisions=tuple(draw(st.lists(decisions, max_size=3))),
        stale=draw(st.booleans()),
        issues=tuple(draw(st.lists(_issues, max_size=2))),
    )


def _view_of(alive: tuple[Instance, ...], epoch: Epoch, revision: int) -> DiscoveryView:
    shown = tuple(
        Member(i.id, i.container_id or "", i.endpoint, i.spec_hash)
        for i in alive
        if i.in_view and i.endpoint is not None
    )
    return DiscoveryView(epoch, revision, complete=True, members=shown)
