"""One answer of a fleet, in Triton's form, from the answers of its instances. Pure.

Inference requests may go to any instance in the view. So a model counts as READY only if it is
READY on all of them, and answers that must be equal (a configuration, metadata) are an error that
names the difference if they are not.

Sources: Triton ``docs/protocol/extension_statistics.md`` and ``extension_model_repository.md``.
Measured on Triton 2.51: an unknown model is 404 for metadata and configuration, and 400 for
statistics and readiness; batches are sorted by size; entries of an index that are READY have no
reason.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from tarn.triton.stubs import PREFIX

__all__ = [
    "FleetAnswer",
    "InstanceAnswer",
    "answered",
    "everywhere",
    "merged_index",
    "merged_readiness",
    "merged_regions",
    "merged_server",
    "merged_settings",
    "merged_statistics",
    "same_answer",
    "summed_statistics",
]

Json = dict[str, Any]

OK = 200
BAD_REQUEST = 400
CONFLICT = 409
UNAVAILABLE = 503
# Instances that one text names.
NAMED = 5
_LONGEST_VALUE = 200


@attrs.frozen
class InstanceAnswer:
    """What one instance answered."""

    instance_id: str
    status: int = 0
    """0: it did not answer."""
    body: Any = None
    """The decoded JSON; None for an empty body."""
    failure: str = ""
    """Why there is no answer that can be read."""

    @property
    def error(self) -> str:
        """Triton's error, or why there is no answer."""
        said = self.body.get("error") if isinstance(self.body, Mapping) else None
        return self.failure or (said if isinstance(said, str) else f"status {self.status}")

    @classmethod
    def read(cls, instance_id: str, status: int, body: bytes) -> "InstanceAnswer":
        """Return the answer with its *body* decoded."""
        if not body.strip():
            return cls(instance_id, status)
        try:
            return cls(instance_id, status, json.loads(body))
        except (ValueError, RecursionError):
            return cls(instance_id, 0, None, f"it answered {status} with a body that is not JSON")


@attrs.frozen
class FleetAnswer:
    """The answer of the fleet."""

    status: int
    body: Any = None
    """None: an empty body."""

    @classmethod
    def refusal(cls, status: int, error: str) -> "FleetAnswer":
        """Return an error in Triton's form."""
        return cls(status, {"error": error})

    @property
    def error(self) -> str:
        """The error; empty if it is a good answer."""
        return "" if self.status == OK else str((self.body or {}).get("error", self.status))


def answered(answers: Sequence[InstanceAnswer]) -> FleetAnswer | None:
    """Return the answer if no instance did well: the error of most; None if some did."""
    if any(one.status == OK for one in answers):
        return None
    said = [one for one in answers if one.status]
    if not said:
        return _silent(answers)
    statuses = [one.status for one in said]
    status = max(statuses, key=lambda one: (statuses.count(one), one))
    errors = {one.error for one in said if one.status == status}
    # Equal errors are Triton's own text, as one Triton would answer.
    text = errors.pop() if len(errors) == 1 else _each(said, lambda one: one.error)
    return FleetAnswer.refusal(status, text)


def _silent(answers: Sequence[InstanceAnswer]) -> FleetAnswer:
    found = _each(answers, lambda one: one.error) if answers else "no instance is ready"
    return FleetAnswer.refusal(UNAVAILABLE, found)


def _each(answers: Iterable[InstanceAnswer], text: Callable[[InstanceAnswer], str]) -> str:
    """Return each different text once, with the instances that it is about."""
    about: dict[str, list[str]] = {}
    for one in answers:
        about.setdefault(" ".join(text(one).split()), []).append(one.instance_id)
    return "; ".join(f"{_names(ids)}: {said}" for said, ids in about.items())


def _names(ids: Sequence[str]) -> str:
    named = ", ".join(ids[:NAMED])
    return named if len(ids) <= NAMED else f"{named} and {len(ids) - NAMED} more"


def _bodies(answers: Iterable[InstanceAnswer]) -> list[InstanceAnswer]:
    return [one for one in answers if one.status == OK and isinstance(one.body, Mapping)]


def merged_server(answers: Sequence[InstanceAnswer], cluster: str) -> FleetAnswer:
    """Return the metadata of the server: the extensions are those that all instances have.

    The name is the configured one; *cluster*, if each instance has a name of its own. Versions that
    differ, as during an update, are all named.
    """
    refused, good = answered(answers), _bodies(answers)
    if refused is not None or not good:
        return refused or _silent(answers)
    first = good[0].body
    lists = [one.body.get("extensions") or [] for one in good]
    common = [one for one in lists[0] if all(one in each for each in lists)]
    body = {**first, "extensions": common}
    if all(one.body.get("name") == one.instance_id for one in good):
        body["name"] = cluster
    body["version"] = ", ".join(sorted({str(one.body.get("version", "")) for one in good}))
    return FleetAnswer(OK, body)


def same_answer(what: str, answers: Sequence[InstanceAnswer]) -> FleetAnswer:
    """Return the answer that all instances gave, or an error that says where they differ.

    An instance without the model differs. One that did not answer says nothing.
    """
    refused, good = answered(answers), _bodies(answers)
    if refused is not None or not good:
        return refused or _silent(answers)
    lacking = [one for one in answers if one.status not in (0, OK)]
    if lacking:
        found = _each(lacking, lambda one: one.error)
        has = _names([one.instance_id for one in good])
        return FleetAnswer.refusal(
            CONFLICT, f"the instances differ in {what}: {found}; {has} answered"
        )
    field = next(_differing([one.body for one in good]), None)
    if field is None:
        return FleetAnswer(OK, good[0].body)
    shown = _each(good, lambda one: _value(_at(one.body, field)))
    found = f"the instances differ in {what}: {'.'.join(field)} is {shown}"
    return FleetAnswer.refusal(CONFLICT, found)


def _differing(bodies: Sequence[Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each part in which *bodies* differ, as exact as possible."""
    if all(one == bodies[0] for one in bodies):
        return
    if not all(isinstance(one, Mapping) for one in bodies):
        yield above or ("the answer",)
        return
    for key in dict.fromkeys(key for one in bodies for key in one):
        yield from _differing([one.get(key) for one in bodies], (*above, str(key)))


def _at(body: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        body = body.get(key) if isinstance(body, Mapping) else body
    return body


def _value(value: Any) -> str:
    text = "not set" if value is None else json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} …"


def merged_settings(answers: Sequence[InstanceAnswer]) -> FleetAnswer:
    """Return settings of trace or log; a value that differs is a text that names each instance."""
    refused, good = answered(answers), _bodies(answers)
    if refused is not None or not good:
        return refused or _silent(answers)
    body: Json = {}
    for key in dict.fromkeys(key for one in good for key in one.body):
        values = [one.body.get(key) for one in good]
        same = all(value == values[0] for value in values)
        body[key] = values[0] if same else _each(good, lambda one, k=key: _value(one.body.get(k)))  # type: ignore[misc]
    return FleetAnswer(OK, body)


def merged_readiness(answers: Sequence[InstanceAnswer]) -> FleetAnswer:
    """Return 200 if every instance said that it is ready, else 400 with the reasons.

    Inference may go to any of them, so one that does not answer counts as not ready.
    """
    if not answers:
        return _silent(answers)
    bad = [one for one in answers if one.status != OK]
    if not bad:
        return FleetAnswer(OK)
    if all(one.status == 0 for one in answers):
        return _silent(answers)
    if len(bad) == len(answers) and len({one.error for one in bad}) == 1:
        return FleetAnswer.refusal(BAD_REQUEST, bad[0].error)
    return FleetAnswer.refusal(BAD_REQUEST, _each(bad, lambda one: one.error))


def merged_regions(answers: Sequence[InstanceAnswer]) -> FleetAnswer:
    """Return the regions of shared memory that every instance knows."""
    refused = answered(answers)
    if refused is not None:
        return refused
    lists = [one.body or [] for one in answers if one.status == OK]
    return FleetAnswer(OK, [row for row in lists[0] if all(row in each for each in lists)])


def everywhere(answers: Sequence[InstanceAnswer]) -> FleetAnswer:
    """Return 200 if every instance did it, else the errors of those that did not."""
    bad = [one for one in answers if one.status != OK]
    if answers and not bad:
        return FleetAnswer(OK)
    return answered(bad) or _silent(bad)


_RANK = ("UNAVAILABLE", "UNLOADING", "LOADING", "READY")


def merged_index(answers: Sequence[InstanceAnswer], *, only_ready: bool = False) -> FleetAnswer:
    """Return the repository index: a version is READY only if it is on every instance.

    Otherwise it has the worst state, and a reason that names the instances. Versions that no
    instance has loaded keep the form that Triton gives them.
    """
    refused = answered(answers)
    if refused is not None:
        return refused
    said = [one for one in answers if one.status == OK and isinstance(one.body, list)]
    rows: dict[tuple[str, str], list[tuple[str, Json]]] = {}
    for one in said:
        for row in one.body:
            if isinstance(row, dict) and not str(row.get("name", "")).startswith(PREFIX):
                key = (str(row.get("name", "")), str(row.get("version", "")))
                rows.setdefault(key, []).append((one.instance_id, row))
    silent = [(one.instance_id, one.error) for one in answers if one.status != OK]
    ids = [one.instance_id for one in said]
    versioned = {name for name, version in rows if version}
    merged = (
        _index_row(key, held, ids, silent)
        for key, held in sorted(rows.items())
        # Where others have loaded a version, the model's entry without one says nothing.
        if key[1] or key[0] not in versioned
    )
    body = [row for row in merged if not only_ready or row.get("state") == "READY"]
    return FleetAnswer(OK, body)


def _index_row(
    key: tuple[str, str],
    held: Sequence[tuple[str, Json]],
    ids: Sequence[str],
    silent: Sequence[tuple[str, str]],
) -> Json:
    have = {instance_id for instance_id, _ in held}
    absent = [(one, "not loaded") for one in ids if one not in have]
    states = {str(row.get("state", "")) for _, row in held}
    if len(states) == 1 and not absent and not (silent and states == {"READY"}):
        return _alike([row for _, row in held], held)
    bad = [
        (one, str(row.get("reason") or row.get("state") or "not loaded"))
        for one, row in held
        if row.get("state") != "READY"
    ]
    why = [InstanceAnswer(one, failure=said) for one, said in (*bad, *absent, *silent)]
    worst = min(states, key=lambda one: _RANK.index(one) if one in _RANK else 0)
    state = "UNAVAILABLE" if absent or silent or worst not in _RANK else worst
    reason = _each(why, lambda one: one.error)
    return {"name": key[0], "version": key[1], "state": state, "reason": reason}


def _alike(rows: Sequence[Json], held: Sequence[tuple[str, Json]]) -> Json:
    """Return the row of a version whose state is the same on all instances."""
    reasons = {str(row.get("reason", "")) for row in rows}
    if len(reasons) == 1:
        return dict(rows[0])
    why = [InstanceAnswer(one, failure=str(row.get("reason", ""))) for one, row in held]
    return {**rows[0], "reason": _each(why, lambda one: one.error)}


def merged_statistics(
    answers: Sequence[InstanceAnswer], former: Iterable[Mapping[str, Any]] = ()
) -> FleetAnswer:
    """Return the sum of the statistics.

    *former* are rows of instances that have left; those of models that no instance has any more do
    not count, since Triton forgets them, too.
    """
    refused = answered(answers)
    if refused is not None:
        return refused
    said = [one.body for one in _bodies(answers)]
    served = {_key(row) for body in said for row in body.get("model_stats") or ()}
    left = [row for row in former if _key(row) in served]
    return FleetAnswer(OK, summed_statistics((*said, {"model_stats": left})))


_NAMES = ("name", "version")
_BY = ("batch_size", "type", "id")
"""The fields by which the entries of a list are matched."""


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row.get("name", "")), str(row.get("version", ""))


def summed_statistics(said: Iterable[Mapping[str, Any]]) -> Json:
    """Return the sum of the statistics of several instances.

    Counters, times and memory are added. ``last_inference`` and each other ``last_`` and ``max_``
    field is the largest, and each ``min_`` field the smallest one. Models are matched by name and
    version, batches by their size, and responses by their number.
    """
    models: dict[tuple[str, str], Json] = {}
    for one in said:
        for model in one.get("model_stats") or ():
            key = _key(model)
            models[key] = _both(models[key], model) if key in models else dict(model)
    return {"model_stats": [models[key] for key in sorted(models)]}


def _both(a: Mapping[str, Any], b: Mapping[str, Any]) -> Json:
    keys = (*a, *(key for key in b if key not in a))
    return {name: _value_of(name, a.get(name), b.get(name)) for name in keys}


def _value_of(name: str, a: Any, b: Any) -> Any:
    if a is None or b is None or name in _NAMES:
        return b if a is None else a
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return _both(a, b)
    if isinstance(a, list) and isinstance(b, list):
        return _matched(a, b)
    if isinstance(a, str | bool) or not isinstance(b, int | float):
        return a
    if name.startswith(("last_", "max_")):
        return max(a, b)
    return min(a, b) if name.startswith("min_") else a + b


def _matched(a: list[Any], b: list[Any]) -> list[Any]:
    """Add the entries of two lists for the same batch size or memory."""
    found: dict[tuple[Any, ...], Any] = {}
    for entry in (*a, *b):
        about = {name: entry[name] for name in _BY if name in entry}
        key = tuple(about.get(name, "") for name in _BY)
        found[key] = {**_both(found[key], entry), **about} if key in found else entry
    return sorted(found.values(), key=lambda entry: [str(type(entry)), *_order(entry)])


def _order(entry: Mapping[str, Any]) -> list[Any]:
    size = entry.get("batch_size")
    number = size if isinstance(size, int) else 0
    return [number, str(entry.get("type", "")), str(entry.get("id", ""))]
