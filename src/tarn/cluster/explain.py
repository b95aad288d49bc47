"""Why a cluster is not as desired: pure, over what ``GET /api/v1/status`` answers."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

__all__ = ["age", "explain", "first_words"]


def age(seconds: float | None) -> str:
    """Return *seconds* in the two units that matter: ``45s``, ``3m12s``, ``5h02m``, ``2d03h``."""
    if seconds is None:
        return ""
    whole = max(0, int(seconds))
    for size, unit, small_size, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // small_size:02}{small}"
    return f"{whole // 60}m{whole % 60:02}s" if whole >= 60 else f"{whole}s"  # noqa: PLR2004


def first_words(text: object) -> str:
    """Return the first paragraph of *text* as one line: what went wrong, without its traceback."""
    return " ".join(str(text).strip().partition("\n\n")[0].split())


def explain(status: Mapping[str, Any], instance: str | None = None) -> tuple[str, ...]:
    """Return a sentence for each thing that is not as desired; one that says so when all is.

    Args:
        status: The answer of ``GET /api/v1/status``.
        instance: Only what concerns this instance id; None: the whole cluster.
    """
    if instance is not None:
        return tuple(first_words(line) for line in _about(status, instance))
    said = map(
        first_words,
        (
            *_cluster(status),
            *(line for item in status.get("instances", ()) for line in _instance(item)),
            *_failures(status),
            *_size(status),
            *(f"{warning}" for warning in status.get("warnings", ())),
            *(f"{fault}" for fault in status.get("faults", ())),
        ),
    )
    unique = tuple(dict.fromkeys(said))
    return unique or (f"{_ratio(status)} ready; nothing is amiss",)


def _ratio(status: Mapping[str, Any]) -> str:
    return f"{status['name']}: {status.get('ready', 0)} of {status.get('desired', 0)}"


def _cluster(status: Mapping[str, Any]) -> Iterator[str]:
    state, reason = status["state"], status.get("reason", "")
    if status.get("stale"):
        yield f"{status['name']}: what follows is what the master last knew; it stopped acting"
    if state != "ready" or reason:
        yield f"{status['name']} is {state}" + (f": {reason}" if reason else "")
    if (status.get("ready") or 0) < (status.get("desired") or 0):
        yield f"{_ratio(status)} ready"


def _instance(item: Mapping[str, Any]) -> Iterator[str]:
    reason = item.get("reason", "")
    if item["state"] != "ready":
        since = f" for {age(item['age_s'])}" if item.get("age_s") is not None else ""
        yield f"{item['id']} is {item['state']}{since}" + (f": {reason}" if reason else "")
    elif item.get("suspect"):
        yield f"{item['id']} is kept out of the view: {item['suspect']}"
    for model in item.get("models", ()):
        why = model.get("reason") or ""
        if model["state"] == "UNAVAILABLE" and not (why and why in reason):
            yield f"{item['id']}: model '{model['name']}' is unavailable" + (
                f": {why}" if why else ""
            )


def _failures(status: Mapping[str, Any]) -> Iterator[str]:
    """The newest failure stands for the others: five equal ones are one fact."""
    failed = [item for item in status.get("ended", ()) if item["state"] == "failed"]
    if failed and (status.get("ready") or 0) < (status.get("desired") or 0):
        last = failed[-1]
        yield f"{last['id']} failed: {last.get('reason') or 'no reason is known'}"


def _size(status: Mapping[str, Any]) -> Iterator[str]:
    limits = status.get("limits") or {}
    if limits.get("ceiling") is not None and limits["ceiling"] < limits.get("max", 0):
        yield f"at most {limits['ceiling']} replicas: {limits.get('ceiling_reason', '')}"
    if pause := status.get("pause"):
        until = datetime.fromtimestamp(pause["until"], UTC).strftime("%H:%M:%SZ")
        why = f": {pause['reason']}" if pause.get("reason") else ""
        yield f"scaling is paused until {until}{why} (`tarn resume` ends it)"
    if status.get("manual") is not None:
        yield f"the size was set by hand to {status['manual']} (`tarn scale --auto` gives it back)"


def _about(status: Mapping[str, Any], instance: str) -> Iterator[str]:
    for item in (*status.get("instances", ()), *status.get("ended", ())):
        if item["id"] != instance:
            continue
        lines = tuple(_instance(item))
        where = f" at {item['http']}" if item.get("http") else ""
        yield from lines or (f"{instance} is ready{where}; nothing is amiss",)
        return
