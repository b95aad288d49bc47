"""Hypothesis strategies for the domain's values, and how the contract suites use them.

Everything made here is legal: an instance has an endpoint exactly when it can have one, ids are
unique, views are sorted. Texts go beyond ASCII on purpose.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tarn.control.snapshot import Follower, Snapshot
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
    Known,
    Limits,
    Member,
    Pause,
    Pending,
    Principal,
    Running,
    Sample,
    SavedState,
    StubEnded,
    Unknown,
)

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
    "principals",
    "samples",
    "saved_states",
    "snapshots",
    "texts",
]

T = TypeVar("T")
_HASHES = ("aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc")
_MOST_INSTANCES = 6


def for_any(
    examples: int = 50, **arguments: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that runs a test method for *examples* values of each argument.

    The same examples come each time, nothing is kept between runs, and a suite may be inherited.
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
"""Any text, beyond ASCII, the empty one and control characters included."""
_words = st.text(min_size=1, max_size=20)
_wall = st.floats(0.0, 4e9, allow_nan=False)
_seconds = st.floats(0.0, 1e7, allow_nan=False)
_sizes = st.integers(0, 20)
_hashes = st.sampled_from(_HASHES)
_ports = st.integers(1, 65_535)

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
    """Return samples of *values*: known of any age, or unknown with a reason."""
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
    """Return fleets sorted by unique id, the empty one included."""
    drawn = st.lists(instances(states), max_size=_MOST_INSTANCES, unique_by=lambda i: i.id)
    return drawn.map(lambda fleet: tuple(sorted(fleet, key=lambda i: i.id)))


@st.composite
def fleet_views(draw: st.DrawFn, signals: tuple[str, ...] = ("load",)) -> FleetView:
    """Draw what a policy may see, with histories of *signals*, some of them empty."""
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
    """Draw what was scraped: by instance, oldest first, a second apart; some metrics absent."""
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
    """Draw a view of *epoch* (None: any), its members sorted by unique ids."""
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
    """Return what a runtime may say: at most one fact for an id, and one of a stub of it."""
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


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Draw a picture whose view holds exactly the instances that are in it."""
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
        faults=tuple(draw(st.lists(_words, max_size=2))),
        warnings=tuple(draw(st.lists(_words, max_size=2))),
        stale=draw(st.booleans()),
    )


def _view_of(alive: tuple[Instance, ...], epoch: Epoch, revision: int) -> DiscoveryView:
    shown = tuple(
        Member(i.id, i.container_id or "", i.endpoint, i.spec_hash)
        for i in alive
        if i.in_view and i.endpoint is not None
    )
    return DiscoveryView(epoch, revision, complete=True, members=shown)
