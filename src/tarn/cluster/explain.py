"""Why a cluster is not as desired: pure, over what ``GET /api/v1/status`` answers."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tarn.cluster.ended import about_end, is_over
from tarn.cluster.explain_instance import about_instance, about_life
from tarn.cluster.reported_issue import ReportedIssue, age, first_words, span
from tarn.domain.counted import requests_refused, requests_wait

__all__ = ["age", "causes", "explain", "first_words"]

Status = Mapping[str, Any]

_CODED = re.compile(r"(TARN-\d{4}) (.*)", re.DOTALL)
"""How a runtime writes a warning that the table explains."""
_WELL = "nothing is wrong"
_SIZE_STEPS = {
    "limits": "`tarn adapt --min N --max M` changes the limits.",
    "down_window": "`scaling.down.window` sets how long; `tarn scale N` does not wait.",
    "up_window": "`scaling.up.window` sets how long; `tarn scale N` does not wait.",
    "cooldown": "`scaling.cooldown` sets how long; `tarn scale N` does not wait.",
}
"""What holds a size, to what can be done about it; the first that fits is said."""
_SAID_BY_FACTS = frozenset({"TARN-1008", "TARN-1010"})
"""Troubles of which the facts say more than their message."""


def explain(status: Status, instance: str | None = None) -> tuple[ReportedIssue, ...]:
    """Return a cause for each thing that is not as desired; one that says so when all is.

    Args:
        status: The answer of ``GET /api/v1/status``; one of an older master says less.
        instance: Only what concerns this instance id; None: the whole cluster.

    Returns:
        Causes, the most important first; none for an *instance* that nobody knows.
    """
    if instance is not None:
        return tuple(_about(status, instance))
    if is_over(status):
        return (about_end(status),)
    found = causes(status)
    found = (*_cluster(status, alone=not found), *found)
    return found or (
        ReportedIssue(status["name"], f"{status['name']}: {_ratio(status)} ready; {_WELL}"),
    )


def causes(status: Status) -> tuple[ReportedIssue, ...]:
    """Return a cause for each thing that is not as desired; none when all is."""
    if is_over(status):
        return (about_end(status),)
    halted = bool(_holds(status).get("halted"))
    items = status.get("instances", ())
    every = (
        *_master(status),
        *_halted(status),
        *(cause for item in items for cause in about_instance(item, halted=halted)),
        *_failure(status),
        *_back_off(status),
        *_frozen(status),
        *_size(status),
        *_demand(status),
        *_policy(status),
        *_followers(status),
        *_troubles(status),
    )
    unique: dict[str, ReportedIssue] = {}
    for cause in every:
        unique.setdefault(cause.found, cause)
    return tuple(unique.values())


def _ratio(status: Status) -> str:
    return f"{status.get('ready', 0)} of {status.get('desired', 0)}"


def _short(status: Status) -> bool:
    return bool((status.get("ready") or 0) < (status.get("desired") or 0))


def _cluster(status: Status, *, alone: bool) -> Iterator[ReportedIssue]:
    """Say how the whole stands; the master's reason only where no cause says more of it."""
    name, state = status["name"], status["state"]
    reason = first_words(status.get("reason") or "")
    if state == "ready" and not (reason and alone) and not _short(status):
        return
    said = f"{name} is {state}, {_ratio(status)} ready"
    yield ReportedIssue(name, f"{said}: {reason}" if reason and alone else said)


def _master(status: Status) -> Iterator[ReportedIssue]:
    name = status["name"]
    if code := status.get("code"):  # no master is at work: the status was made without one
        yield ReportedIssue(name, first_words(status.get("reason", "")), code=code)
    elif status.get("stale"):
        found = f"{name}: the master stopped acting, and this is its last known state"
        yield ReportedIssue(name, found, code="TARN-1008")


def _halted(status: Status) -> Iterator[ReportedIssue]:
    if halted := _holds(status).get("halted"):
        name = status["name"]
        step = f"Fix the cause, then run `tarn resume -c {name}`; `tarn help TARN-1112` says more."
        found = f"launching is given up: {first_words(halted)}"
        yield ReportedIssue(name, found, step, "TARN-1112")


def _failure(status: Status) -> Iterator[ReportedIssue]:
    """The newest failure stands for the others: five equal ones are one fact."""
    failed = [item for item in status.get("ended", ()) if item["state"] == "failed"]
    if failed and _short(status) and failed[-1]["id"] not in _holds(status).get("halted", ""):
        yield about_life(failed[-1])


def _back_off(status: Status) -> Iterator[ReportedIssue]:
    held = _holds(status)
    retry_s = held.get("retry_in_s")
    if retry_s is None or held.get("halted") or not _short(status):
        return
    count = held.get("failures_in_a_row", 0)
    after = "a quick failure" if count == 1 else f"{count} quick failures in a row"
    found = f"after {after}, the next launch is in {span(retry_s)}{_clock(status, retry_s)}"
    yield ReportedIssue(status["name"], found, "`tarn resume` tries at once.")


def _frozen(status: Status) -> Iterator[ReportedIssue]:
    held = _holds(status)
    if held.get("frozen_for_s") is None:
        return
    thaw_s = held.get("thaws_in_s")
    until = "" if thaw_s is None else f"; they thaw in {span(thaw_s)} at the latest"
    found = (
        f"replacements are frozen for {age(held['frozen_for_s'])}: most instances fell silent "
        f"at once, so the master itself is suspect{until}"
    )
    step = "Check the network between master and instances; `tarn resume` thaws at once."
    yield ReportedIssue(status["name"], found, step, "TARN-1010")


def _size(status: Status) -> Iterator[ReportedIssue]:
    name, limits = status["name"], status.get("limits") or {}
    if limits.get("ceiling") is not None and limits["ceiling"] < limits.get("max", 0):
        why = limits.get("ceiling_reason") or "the farm does not grant more"
        yield ReportedIssue(name, f"at most {limits['ceiling']} replicas: {why}")
    if pause := status.get("pause"):
        until = datetime.fromtimestamp(pause["until"], UTC).strftime("%H:%M:%SZ")
        why = f": {pause['reason']}" if pause.get("reason") else ""
        step = "`tarn resume` ends the pause."
        yield ReportedIssue(name, f"scaling is paused until {until}{why}", step, "TARN-1201")
    if status.get("manual") is not None:
        step = "`tarn scale --auto` lets the policy choose the size again."
        yield ReportedIssue(name, f"the size was set by hand to {status['manual']}", step)


def _demand(status: Status) -> Iterator[ReportedIssue]:
    """Say who waits for an instance, while there is none."""
    demand = status.get("demand")
    if not demand or status.get("ready"):
        return
    counted = []
    if demand["waiting"]:
        counted.append(f"{requests_wait(demand['waiting'])} there for an instance")
    if refused := demand.get("refused"):
        counted.append(f"{requests_refused(refused)} there per second, every attempt counted")
    found = f"asked for by {demand['from']}: {', and '.join(counted)}"
    yield ReportedIssue(status["name"], found, code="TARN-1204" if status.get("desired") else "")


def _policy(status: Status) -> Iterator[ReportedIssue]:
    """Say what the policy wants, where something other than a pause or a person holds it back."""
    policy, size = _holds(status).get("policy") or {}, _holds(status).get("size") or {}
    wanted = policy.get("wanted")
    person = status.get("manual") is not None or status.get("pause")
    if wanted is None or wanted == status.get("desired") or person or not size.get("held"):
        return
    if status["state"] == "stopping":
        return
    kinds = {held["by"] for held in size["held"]}
    steps = [step for kind, step in _SIZE_STEPS.items() if kind in kinds]
    yield ReportedIssue(status["name"], size["sentence"], steps[0] if steps else "")


def _followers(status: Status) -> Iterator[ReportedIssue]:
    for follower in status.get("followers", ()):
        if follower.get("error"):
            name = follower["name"]
            found = f"follower {name} could not apply the view: {first_words(follower['error'])}"
            yield ReportedIssue(name, found, code="TARN-1303")


def _troubles(status: Status) -> Iterator[ReportedIssue]:
    """Yield what the master complains of: its troubles, then its runtime's warnings."""
    troubles = status.get("troubles")
    # the master's own discoveries are followers too, and were named as such
    named = (one for one in status.get("followers", ()) if one.get("error"))
    known = {f"discovery {one['name']}: {one['error']}" for one in named}
    said = set()
    for trouble in troubles or ():
        said.add(trouble["message"])
        if trouble["code"] not in _SAID_BY_FACTS and trouble["message"] not in known:
            message = first_words(trouble["message"])
            yield ReportedIssue(trouble["subject"] or status["name"], message, code=trouble["code"])
    for line in status.get("warnings", ()):
        if line not in said:
            yield _coded(status["name"], line)
    if troubles is None:
        for line in status.get("faults", ()):
            yield _coded(status["name"], line)


def _coded(subject: str, line: str) -> ReportedIssue:
    match = _CODED.fullmatch(line)
    code, found = (match[1], match[2]) if match else ("", line)
    return ReportedIssue(subject, first_words(found), code=code)


def _about(status: Status, instance: str) -> Iterator[ReportedIssue]:
    for item in (*status.get("instances", ()), *status.get("ended", ())):
        if item["id"] != instance:
            continue
        where = f" at {item['http']}" if item.get("http") else ""
        well = ReportedIssue(instance, f"{instance} is ready{where}; {_WELL}")
        if item["state"] in ("stopped", "failed"):
            yield about_life(item)
        else:
            halted = bool(_holds(status).get("halted"))
            of_it = (cause for cause in _troubles(status) if cause.subject == instance)
            yield from (*about_instance(item, halted=halted), *of_it) or (well,)
        return


def _holds(status: Status) -> Mapping[str, Any]:
    held: Mapping[str, Any] = status.get("holds") or {}
    return held


def _clock(status: Status, in_s: float) -> str:
    """Return the wall time of a moment to come, where the status says when it was made."""
    at = status.get("at")
    if not at:
        return ""
    return datetime.fromtimestamp(at + in_s, UTC).strftime(" (at %H:%M:%SZ)")
