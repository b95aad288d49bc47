"""Why one instance is not as desired: pure, over one item of the status."""

from collections.abc import Iterator, Mapping
from typing import Any

from tarn.cluster.reported_issue import ReportedIssue, age, first_words, span
from tarn.domain.reading import NOT_LOADED

__all__ = ["about_instance", "about_life"]

Item = Mapping[str, Any]

_NO_SHARED_MEMORY = ("shared memory", "No space left on device")
"""What Triton's Python back end says when /dev/shm is full: no fault of the model."""


def about_instance(item: Item, *, halted: bool = False) -> Iterator[ReportedIssue]:
    """Yield a cause for each thing of one alive instance that is not as desired.

    *halted*: launching is given up, so nothing is replaced.
    """
    match item["state"]:
        case "requested":
            yield _requested(item)
        case "starting":
            yield _starting(item, halted=halted)
        case "ready" if _is_silent(item):
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


def about_life(item: Item) -> ReportedIssue:
    """Return how one instance that is over ended."""
    id_, reason = item["id"], first_words(item.get("reason") or "")
    ago = f" {age(item['state_for_s'])} ago" if item.get("state_for_s") is not None else ""
    if item["state"] == "failed":
        found = f"{id_} failed{ago}: {reason or 'no reason is known'}"
        step = _memory(reason) or f"`tarn logs {id_}` shows Triton's log."
        return ReportedIssue(id_, found, step, "TARN-1105")
    return ReportedIssue(id_, f"{id_} {item['state']}{ago}" + (f": {reason}" if reason else ""))


def _since(item: Item) -> str:
    """Return how long it has been in its state, where that is known."""
    for_s = item.get("state_for_s", item.get("age_s"))
    return "" if for_s is None else f" for {age(for_s)}"


def _until(item: Item, what: str) -> str:
    """Return what happens when it does not come to that in time, and when."""
    until_s = (item.get("waits") or {}).get("until_in_s")
    return "" if until_s is None else f"; {what} in {span(until_s)}"


def _reason(item: Item) -> str:
    return first_words(item.get("suspect") or item.get("reason") or "")


def _requested(item: Item) -> ReportedIssue:
    id_, reason = item["id"], _reason(item)
    if reason:
        step = "Free what it waits for, or lower `instance.resources` or the size."
        return ReportedIssue(id_, f"{id_} has waited{_since(item)} for a place: {reason}", step)
    return ReportedIssue(
        id_, f"{id_} has waited{_since(item)} for a place; nothing is known to be wrong"
    )


def _starting(item: Item, *, halted: bool) -> ReportedIssue:
    id_, reason = item["id"], _reason(item)
    found = f"{id_} is starting{_since(item)}" + (f": {reason}" if reason else "")
    ends = "it will be ended, and not replaced," if halted else "it will be replaced"
    found += _until(item, f"{ends} unless it is ready")
    return ReportedIssue(id_, found, _memory(reason) or f"`tarn logs {id_}` shows Triton's log.")


def _is_silent(item: Item) -> bool:
    """Say whether it is out of the view for another reason than its outcomes: that is worse."""
    unwell = item.get("unwell") or {}
    return bool(item.get("suspect")) and item["suspect"] != unwell.get("message")


def _suspect(item: Item, *, halted: bool) -> ReportedIssue:
    id_ = item["id"]
    found = f"{id_} is kept out of the view: {_reason(item)}"
    ends = "it will be killed, and not replaced," if halted else "it will be killed and replaced"
    found += _until(item, f"{ends} unless it answers")
    return ReportedIssue(id_, found, f"`tarn logs {id_}` shows Triton's log.", "TARN-1106")


def _unwell(item: Item, *, halted: bool) -> ReportedIssue:
    """Say what its outcomes show, and what follows."""
    id_, unwell = item["id"], item["unwell"]
    found = f"{id_} is {unwell['symptom']}: {first_words(unwell['message'])}"
    step = f"`tarn logs {id_}` shows Triton's log."
    if unwell["symptom"] == "slow":
        return ReportedIssue(id_, found, step, "TARN-1162")
    found += "; it is out of the view" if unwell["ejected"] else "; it stays in the view"
    if not unwell["confirmed"]:
        found += ", and gets test requests"
    elif halted:
        found += ", and is not replaced, since launching is given up"
    return ReportedIssue(id_, found, step, "TARN-1122")


def _retiring(item: Item) -> ReportedIssue:
    id_, lacks = item["id"], item["waits"].get("lacks") or "a replacement is ready"
    found = f"{id_} keeps serving until a replacement serves all its models, then drains: {lacks}"
    step = f"`tarn drain {id_} --now` does not wait for a replacement."
    return ReportedIssue(id_, found, step, "TARN-1117")


def _draining(item: Item) -> ReportedIssue:
    id_, reason = item["id"], _reason(item)
    found = f"{id_} is draining{_since(item)}" + (f" ({reason})" if reason else "")
    waits = item.get("waits") or {}
    names = ", ".join(waits.get("followers", ()))
    match waits.get("for"):
        case "followers" if names:
            step = f"Restart {names} if lost; the wait also ends when its lease expires."
            return ReportedIssue(id_, f"{found}: waits for {names} to acknowledge", step)
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
    return ReportedIssue(id_, found)


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


def _models(item: Item) -> Iterator[ReportedIssue]:
    """Say which models do not serve, with Triton's own first line, unless it was said above."""
    id_, reason = item["id"], item.get("reason") or ""
    for model in item.get("models", ()):
        why = model.get("reason") or ""
        if model["state"] != "UNAVAILABLE" or (why and why in reason):
            continue
        if why == NOT_LOADED:
            found = f"{id_}: model '{model['name']}' is not loaded: it came after {id_} started"
            step = f"`tarn drain {id_}` replaces it with one that has it."
            yield ReportedIssue(id_, found, step, "TARN-1147")
            continue
        found = f"{id_}: model '{model['name']}' is unavailable"
        step = f"Fix the model in the repository; `tarn logs {id_}` shows more."
        found += f": {first_words(why)}" if why else ""
        yield ReportedIssue(id_, found, _memory(why) or step, "TARN-1111")


def _memory(reason: str) -> str:
    """Return what to do about shared memory, where *reason* tells of it; else nothing."""
    lacks = all(mark in reason for mark in _NO_SHARED_MEMORY)
    return "`tarn help TARN-3159` says how to get more." if lacks else ""
