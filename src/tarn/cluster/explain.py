"""Explain why a cluster is not as desired, from the answer of ``GET /api/v1/status``. Pure.

The master reports facts and complete issues; this module turns them into sentences for people. It
never parses a sentence of the master: `older_master` does that for masters of earlier versions.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tarn.cluster.older_master import completed
from tarn.cluster.read.masterless import about_end, is_over
from tarn.cluster.read.table import age, first_words, span
from tarn.domain import Issue
from tarn.domain.counted import requests_refused, requests_wait

__all__ = ["about_instance", "about_life", "causes", "explain"]

Status = Mapping[str, Any]
Item = Mapping[str, Any]

_WELL = "nothing is wrong"
_SIZE_STEPS = {
    "limits": "`tarn adapt --min N --max M` changes the limits.",
    "down_window": "`scaling.down.window` sets how long; `tarn scale N` does not wait.",
    "up_window": "`scaling.up.window` sets how long; `tarn scale N` does not wait.",
    "cooldown": "`scaling.cooldown` sets how long; `tarn scale N` does not wait.",
}
# By what holds the size back: what the user can do. The first that fits is shown.
_SAID_BY_FACTS = frozenset({"TARN-1008", "TARN-1010"})
# The causes made from the facts (`stale`, `frozen_for_s`) say more than these issues' messages.


def explain(status: Status, instance: str | None = None) -> tuple[Issue, ...]:
    """Return the causes of what is not as desired, or one saying that all is well.

    Args:
        status: The answer of ``GET /api/v1/status``; an older master's has fewer fields.
        instance: Only causes that concern this instance id; None: the whole cluster.

    Returns:
        Causes, the most important first; empty for an unknown *instance*.
    """
    if instance is not None:
        return tuple(_about(completed(status), instance))
    if is_over(status):
        return (about_end(status),)
    found = causes(status)
    name, state = status["name"], status["state"]
    # The master's reason summarizes the causes: it is shown only where no cause says more.
    reason = "" if found else first_words(status.get("reason") or "")
    if state != "ready" or reason or _short(status):
        said = f"{name} is {state}, {_ratio(status)} ready"
        return (Issue(name, f"{said}: {reason}" if reason else said), *found)
    return found or (Issue(name, f"{name}: {_ratio(status)} ready; {_WELL}"),)


def causes(status: Status) -> tuple[Issue, ...]:
    """Return a cause for each thing that is not as desired; empty when all is well."""
    if is_over(status):
        return (about_end(status),)
    status = completed(status)
    halted = bool(_holds(status).get("halted"))
    items = status.get("instances", ())
    every = (
        *_master(status),
        *(cause for item in items for cause in about_instance(item, halted=halted)),
        *_launches(status),
        *_frozen(status),
        *_size(status),
        *_demand(status),
        *_policy(status),
        *_followers(status),
        *_issues(status),
    )
    return tuple(dict.fromkeys(every))


def _ratio(status: Status) -> str:
    return f"{status.get('ready', 0)} of {status.get('desired', 0)}"


def _short(status: Status) -> bool:
    return bool((status.get("ready") or 0) < (status.get("desired") or 0))


def _master(status: Status) -> Iterator[Issue]:
    name = status["name"]
    if code := status.get("code"):  # no master is at work: the status was made without one
        yield Issue(name, first_words(status.get("reason", "")), code=code)
    elif status.get("stale"):
        found = f"{name}: the master stopped acting, and this is its last known state"
        yield Issue(name, found, code="TARN-1008")
    if halted := _holds(status).get("halted"):
        step = f"Fix the cause, then run `tarn resume -c {name}`; `tarn help TARN-1112` says more."
        found = f"launching is given up: {first_words(halted)}"
        yield Issue(name, found, step, "TARN-1112")


def _launches(status: Status) -> Iterator[Issue]:
    """Yield the last failure and the pause after it, while instances are missing."""
    if not _short(status):
        return
    held = _holds(status)
    # Only the newest failure: five equal ones are one fact.
    failed = [item for item in status.get("ended", ()) if item["state"] == "failed"]
    if failed and failed[-1]["id"] != held.get("halted_by"):
        yield about_life(failed[-1])
    retry_s = held.get("retry_in_s")
    if retry_s is None or held.get("halted"):
        return
    count = held.get("failures_in_a_row", 0)
    after = "a quick failure" if count == 1 else f"{count} quick failures in a row"
    found = f"after {after}, the next launch is in {span(retry_s)}"
    if at := status.get("at"):  # older masters do not say when the status was made
        found += datetime.fromtimestamp(at + retry_s, UTC).strftime(" (at %H:%M:%SZ)")
    yield Issue(status["name"], found, "`tarn resume` tries at once.")


def _frozen(status: Status) -> Iterator[Issue]:
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
    yield Issue(status["name"], found, step, "TARN-1010")


def _size(status: Status) -> Iterator[Issue]:
    name, limits = status["name"], status.get("limits") or {}
    if limits.get("ceiling") is not None and limits["ceiling"] < limits.get("max", 0):
        why = limits.get("ceiling_reason") or "the farm does not grant more"
        yield Issue(name, f"at most {limits['ceiling']} replicas: {why}")
    if pause := status.get("pause"):
        until = datetime.fromtimestamp(pause["until"], UTC).strftime("%H:%M:%SZ")
        why = f": {pause['reason']}" if pause.get("reason") else ""
        step = "`tarn resume` ends the pause."
        yield Issue(name, f"scaling is paused until {until}{why}", step, "TARN-1201")
    if status.get("manual") is not None:
        step = "`tarn scale --auto` lets the policy choose the size again."
        yield Issue(name, f"the size was set by hand to {status['manual']}", step)


def _demand(status: Status) -> Iterator[Issue]:
    """Yield how many requests wait for an instance, while none is ready."""
    demand = status.get("demand")
    if not demand or status.get("ready"):
        return
    counted = []
    if demand["waiting"]:
        counted.append(f"{requests_wait(demand['waiting'])} there for an instance")
    if refused := demand.get("refused"):
        counted.append(f"{requests_refused(refused)} there per second, every attempt counted")
    found = f"asked for by {demand['from']}: {', and '.join(counted)}"
    yield Issue(status["name"], found, code="TARN-1204" if status.get("desired") else "")


def _policy(status: Status) -> Iterator[Issue]:
    """Yield what the policy wants, unless the size is manual, paused or not held back."""
    policy, size = _holds(status).get("policy") or {}, _holds(status).get("size") or {}
    wanted = policy.get("wanted")
    person = status.get("manual") is not None or status.get("pause")
    if wanted is None or wanted == status.get("desired") or person or not size.get("held"):
        return
    if status["state"] == "stopping":
        return
    kinds = {held["by"] for held in size["held"]}
    steps = [step for kind, step in _SIZE_STEPS.items() if kind in kinds]
    yield Issue(status["name"], size["sentence"], steps[0] if steps else "")


def _followers(status: Status) -> Iterator[Issue]:
    for follower in status.get("followers", ()):
        if follower.get("error"):
            name = follower["name"]
            found = f"follower {name} could not apply the view: {first_words(follower['error'])}"
            yield Issue(name, found, code="TARN-1303")


def _issues(status: Status) -> Iterator[Issue]:
    """Yield the master's issues, except those that other causes already explain."""
    failing = {one["name"] for one in status.get("followers", ()) if one.get("error")}
    for issue in status["issues"]:
        if issue["code"] not in _SAID_BY_FACTS and failing.isdisjoint(issue["followers"]):
            yield Issue(
                issue["subject"] or status["name"],
                first_words(issue["message"]),
                first_words(issue["next_step"]),
                issue["code"],
                since=issue["since"],
                until=issue["until"],
                models=tuple(issue["models"]),
                instances=tuple(issue["instances"]),
            )


def _about(status: Status, instance: str) -> Iterator[Issue]:
    for item in (*status.get("instances", ()), *status.get("ended", ())):
        if item["id"] != instance:
            continue
        where = f" at {item['http']}" if item.get("http") else ""
        well = Issue(instance, f"{instance} is ready{where}; {_WELL}")
        if item["state"] in ("stopped", "failed"):
            yield about_life(item)
        else:
            halted = bool(_holds(status).get("halted"))
            of_it = (i for i in _issues(status) if instance in (i.subject, *i.instances))
            yield from (*about_instance(item, halted=halted), *of_it) or (well,)
        return


def _holds(status: Status) -> Mapping[str, Any]:
    held: Mapping[str, Any] = status.get("holds") or {}
    return held


def about_instance(item: Item, *, halted: bool = False) -> Iterator[Issue]:
    """Yield a cause for each thing that is not as desired about a live instance.

    *halted* says that launching was given up, so nothing is replaced.
    """
    match item["state"]:
        case "requested":
            yield _requested(item)
        case "starting":
            yield _starting(item, halted=halted)
        case "ready" if item.get("silent"):  # before unwell: silence is the worse of the two
            yield _suspect(item, halted=halted)
        case "ready" if item.get("unwell"):
            yield _unwell(item, halted=halted)
        case "draining":
            yield _draining(item)
        case "ready" if (item.get("waits") or {}).get("for") == "replacement":
            yield _retiring(item)
        case "ready":
            pass
        case _:
            yield about_life(item)
    yield from _models(item)


def about_life(item: Item) -> Issue:
    """Return how an instance that stopped or failed ended."""
    id_, reason = item["id"], first_words(item.get("reason") or "")
    ago = f" {age(item['state_for_s'])} ago" if item.get("state_for_s") is not None else ""
    if item["state"] == "failed":
        found = f"{id_} failed{ago}: {reason or 'no reason is known'}"
        return Issue(
            id_, found, _memory(item) or f"`tarn logs {id_}` shows Triton's log.", "TARN-1105"
        )
    return Issue(id_, f"{id_} {item['state']}{ago}" + (f": {reason}" if reason else ""))


def _since(item: Item) -> str:
    for_s = item.get("state_for_s", item.get("age_s"))
    return "" if for_s is None else f" for {age(for_s)}"


def _until(item: Item, what: str) -> str:
    """Return *what* happens once the instance has waited too long, and when."""
    until_s = (item.get("waits") or {}).get("until_in_s")
    return "" if until_s is None else f"; {what} in {span(until_s)}"


def _reason(item: Item) -> str:
    return first_words(item.get("suspect") or item.get("reason") or "")


def _requested(item: Item) -> Issue:
    id_, reason = item["id"], _reason(item)
    if reason:
        step = "Free what it waits for, or lower `instance.resources` or the size."
        return Issue(id_, f"{id_} has waited{_since(item)} for a place: {reason}", step)
    return Issue(id_, f"{id_} has waited{_since(item)} for a place; nothing is known to be wrong")


def _starting(item: Item, *, halted: bool) -> Issue:
    id_, reason = item["id"], _reason(item)
    found = f"{id_} is starting{_since(item)}" + (f": {reason}" if reason else "")
    ends = "it will be ended, and not replaced," if halted else "it will be replaced"
    found += _until(item, f"{ends} unless it is ready")
    return Issue(id_, found, _memory(item) or f"`tarn logs {id_}` shows Triton's log.")


def _suspect(item: Item, *, halted: bool) -> Issue:
    id_ = item["id"]
    found = f"{id_} is kept out of the view: {_reason(item)}"
    ends = "it will be killed, and not replaced," if halted else "it will be killed and replaced"
    found += _until(item, f"{ends} unless it answers")
    return Issue(id_, found, f"`tarn logs {id_}` shows Triton's log.", "TARN-1106")


def _unwell(item: Item, *, halted: bool) -> Issue:
    id_, unwell = item["id"], item["unwell"]
    found = f"{id_} is {unwell['symptom']}: {first_words(unwell['message'])}"
    step = f"`tarn logs {id_}` shows Triton's log."
    if unwell["symptom"] == "slow":
        return Issue(id_, found, step, "TARN-1162")
    found += "; it is out of the view" if unwell["ejected"] else "; it stays in the view"
    if not unwell["confirmed"]:
        found += ", and gets test requests"
    elif halted:
        found += ", and is not replaced, since launching is given up"
    return Issue(id_, found, step, "TARN-1122")


def _retiring(item: Item) -> Issue:
    id_, lacks = item["id"], item["waits"].get("lacks") or "a replacement is ready"
    found = f"{id_} keeps serving until a replacement serves all its models, then drains: {lacks}"
    step = f"`tarn drain {id_} --now` does not wait for a replacement."
    return Issue(id_, found, step, "TARN-1117")


def _draining(item: Item) -> Issue:
    id_, reason = item["id"], _reason(item)
    found = f"{id_} is draining{_since(item)}" + (f" ({reason})" if reason else "")
    waits = item.get("waits") or {}
    names = ", ".join(waits.get("followers", ()))
    match waits.get("for"):
        case "followers" if names:
            step = f"Restart {names} if lost; the wait also ends when its lease expires."
            return Issue(id_, f"{found}: waits for {names} to acknowledge", step)
        case "followers":
            found += ": waits until it has left every follower's view"
        case "quiesce":
            found += ": it has no requests, and stops after `drain.quiesce`"
        case "requests":
            found += f": waits for {_busy(item)}" + _until(item, "what is left will be cut")
        case "unload":
            found += ": waits for its models to unload, each with the last request in it"
            found += _until(item, "what is left will be cut")
        case "sessions":
            found += f": waits for {_sessions(waits)}" + _until(item, "what is left will be cut")
        case "end":
            found += ": the runtime was asked to stop it"
    return Issue(id_, found)


def _sessions(waits: Mapping[str, Any]) -> str:
    names, count = ", ".join(waits.get("followers", ())), waits.get("sessions") or 0
    if not count:
        return f"{names} to report its open sessions"
    return f"1 open session at {names}" if count == 1 else f"{count} open sessions at {names}"


def _busy(item: Item) -> str:
    busy = item.get("busy")
    if busy is None:
        return "requests in flight; how many is unknown"
    return "1 request in flight" if busy == 1 else f"{busy:g} requests in flight"


def _models(item: Item) -> Iterator[Issue]:
    """Yield the models that do not serve, with Triton's own first line."""
    # The instance's own reason quotes the blamed model already.
    id_, blamed = item["id"], item.get("blamed") if item.get("reason") else None
    for model in item.get("models", ()):
        if model["state"] != "UNAVAILABLE" or model["name"] == blamed:
            continue
        if model.get("code") == "TARN-1147":
            found = f"{id_}: model '{model['name']}' is not loaded: it came after {id_} started"
            step = f"`tarn drain {id_}` replaces it with one that has it."
            yield Issue(id_, found, step, "TARN-1147")
            continue
        found = f"{id_}: model '{model['name']}' is unavailable"
        step = f"Fix the model in the repository; `tarn logs {id_}` shows more."
        found += f": {first_words(model['reason'])}" if model.get("reason") else ""
        yield Issue(id_, found, _memory(model) or step, "TARN-1111")


def _memory(row: Item) -> str:
    """Return what to do where *row* failed for lack of shared memory; else ''."""
    return "`tarn help TARN-3159` says how to get more." if row.get("code") == "TARN-3159" else ""
