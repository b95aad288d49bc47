"""What people and policies do to a fleet's size, drawn from a seed; and how it is played."""

import enum
import random
import time
from collections.abc import Sequence

import attrs
from house import until
from open_wave import Wave
from proxied_fleet import Fleet

__all__ = ["EVENTS", "FEWEST_OVERLAPS", "WILFUL", "Course", "Step", "Verb", "draw", "play", "story"]

EVENTS = 30
FEWEST_OVERLAPS = EVENTS // 10
"""Events of a sequence that come before the last one settled: some 8 to 20, the fewer the faster
the machine starts a Triton, and never so few that a sequence is one rest after another."""
WILFUL = {
    "use": "target",
    "options": {"target": 0.3},
    "interval": "200ms",
    "cooldown": "200ms",
    "down": {"window": "0s"},
}
"""A policy that decides between an ``adapt`` and the next ``scale``: it wants some 3 or 4
replicas for the loads of these tests, and changes its mind with each look."""
SETTLED_S = 60.0
_OFTEN = {"scale": 10, "adapt": 3, "drain": 3, "pause": 1, "resume": 1}
_MOVING = ("requested", "starting", "draining")


class Verb(enum.StrEnum):
    """What is said to the master."""

    SCALE = "scale"
    ADAPT = "adapt"
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"


@attrs.frozen
class Step:
    """One event, and what is waited for before the next one."""

    verb: Verb
    low: int
    high: int
    """Of ``adapt``; of ``scale`` the size."""
    part: float
    """Of ``drain``: which one of those that serve, in [0, 1); of ``pause``: for so many seconds."""
    answers: int
    """Answers that come meanwhile: the load's own clock."""
    settles: bool
    """Whether the fleet comes to rest first."""


def draw(seed: int, number: int, most: int, events: int = EVENTS) -> tuple[Step, ...]:
    """Return one sequence: the same for the same *seed* and *number*, on any machine.

    Sizes stay within what the last ``adapt`` allowed, from 1 to *most*.
    """
    chance = random.Random(f"{seed}/{number}")
    low, high = 1, most
    size = 0
    steps = []
    for _ in range(events):
        verb = Verb(chance.choices(list(_OFTEN), list(_OFTEN.values()))[0])
        if verb is Verb.ADAPT:
            low, high = sorted((chance.randint(1, most), chance.randint(1, most)))
        size = chance.choice([n for n in range(low, high + 1) if n != size] or [low])
        bounds = (low, high) if verb is Verb.ADAPT else (low, size)
        part, answers = chance.random(), chance.randint(1, 12)
        steps.append(Step(verb, *bounds, part, answers, settles=chance.random() < 1 / 15))
    return tuple(steps)


@attrs.define
class Course:
    """What became of one sequence."""

    overlapped: int = 0
    """Events that came while something was still on its way in or out."""
    size: int = 0
    """Set by a person at the end."""
    served: set[str] = attrs.field(factory=set)
    """Ids that were in the view at some event."""


def play(fleet: Fleet, load: Wave, steps: Sequence[Step], most: int, pace: int = 1) -> Course:
    """Play *steps* under *load*; at the end a person sets a size, and it is waited for.

    The answers of each step are waited for *pace* times: slow starts want more.
    """
    course = Course()
    fleet.api.adapt(1, most)
    fleet.api.resume()
    for step in steps:
        rows = fleet.all()
        course.overlapped += any(row["state"] in _MOVING for row in rows)
        serving = sorted(str(row["id"]) for row in rows if row["in_view"])
        course.served.update(serving)
        _say(fleet, step, serving)
        load.pass_(pace * step.answers)
        if step.settles:
            until(lambda: _rests(fleet), SETTLED_S, "a fleet at rest")
    fleet.api.adapt(1, most)
    course.size = 1 + len(course.served) % most
    fleet.api.scale(course.size)
    until(lambda: _rests(fleet, course.size), SETTLED_S, f"{course.size} at rest")
    return course


def story(fleet: Fleet, load: Wave) -> str:
    """Tell what the master noted of the instances where requests were lost."""
    since = {lost.number: lost.sent_s - time.monotonic() + time.time() for lost in load.report.lost}
    events = fleet.api.events()
    lines = []
    for missed in load.missed:
        sent, why = since[missed.number], missed.why
        lines.append(f"{missed.number}: lost {missed.ended - sent:.3f} s after it was sent: {why}")
        about = (e for e in events if e["subject"] in why)
        lines += [f"  {e['code']} {e['first'] - sent:+.3f} s: {e['message']}" for e in about]
    return "\n".join([*lines, str(load.report)])


def _say(fleet: Fleet, step: Step, serving: Sequence[str]) -> None:
    match step.verb:
        case Verb.SCALE:
            fleet.api.scale(step.high)
        case Verb.ADAPT:
            fleet.api.adapt(step.low, step.high)
        case Verb.PAUSE:
            fleet.api.pause(step.part, "a sequence")
        case Verb.RESUME:
            fleet.api.resume()
        case Verb.DRAIN:
            if len(serving) > 1:  # the only one is not taken from those who ask it
                fleet.api.drain(serving[int(step.part * len(serving))], now=True)


def _rests(fleet: Fleet, size: int | None = None) -> bool:
    """Say whether all that is wanted serves; those that leave may still be on their way."""
    status = fleet.api.status()
    serving = sum(row["state"] == "ready" and not row["suspect"] for row in status["instances"])
    coming = any(row["state"] in _MOVING[:2] for row in status["instances"])
    return not coming and serving == status["desired"] and size in (None, serving)
