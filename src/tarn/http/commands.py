"""What a PUT says, as a command. Pure; every fault names the field and what is right."""

import json
from collections.abc import Mapping

from tarn.domain import (
    FOLLOWER_NAME,
    Acknowledge,
    Adapt,
    Applied,
    CallKind,
    Command,
    ControlRequest,
    Demand,
    Down,
    Drain,
    Epoch,
    PauseScaling,
    Resume,
    Scale,
)
from tarn.errors import ConfigError
from tarn.plain import seconds

__all__ = ["VERBS", "acknowledge", "command", "demand", "revision"]

_CALLS = {
    "load": CallKind.LOAD,
    "unload": CallKind.UNLOAD,
    "trace-settings": CallKind.TRACE,
    "log-settings": CallKind.LOG,
}
VERBS = ("scale", "adapt", "pause", "resume", "drain", "down", *_CALLS)

Body = Mapping[str, object]

_MOST = 2**31
LONGEST_LEASE_S = 300.0
"""A follower that is gone is noticed after its lease: an agent's own is 15 s."""
LONGEST_ERROR = 1024
"""Bytes of a follower's error; it is shown to people and kept with each of them."""
MOST_SESSIONS = 4096
"""Instances whose open sessions one acknowledgement may tell."""
MOST_FAILING = 256
"""Models on instances of which one request may tell that they fail."""
_LONGEST_TEXT = 1024


def command(verb: str, body: Body) -> Command:
    """Return what ``PUT /api/v1/<verb>`` with *body* asks; ``ConfigError`` when it is wrong."""
    match verb:
        case "scale":
            _only(body, "replicas")
            if "replicas" not in body:
                raise _wrong("replicas", "is missing", "a whole number, or null for automatic")
            return Scale(_whole(body, "replicas"))
        case "adapt":
            _only(body, "min", "max")
            return Adapt(_whole(body, "min"), _whole(body, "max"))
        case "pause":
            _only(body, "for", "reason")
            return PauseScaling(_lasting(body.get("for"), "for"), _text(body, "reason"))
        case "drain":
            _only(body, "instance", "now")
            return Drain(_text(body, "instance", required=True), now=_flag(body, "now"))
        case "load" | "unload" | "trace-settings" | "log-settings":
            return _control(_CALLS[verb], body)
        case _:
            _only(body)
            return Resume() if verb == "resume" else Down()


def _control(kind: CallKind, body: Body) -> ControlRequest:
    """Return a control call; whether Triton takes its parameters and settings is Triton's word."""
    of_models = kind in (CallKind.LOAD, CallKind.UNLOAD)
    given = "parameters" if of_models else "settings"
    _only(body, given, "request", *(() if kind is CallKind.LOG else ("model",)))
    model = "" if kind is CallKind.LOG else _text(body, "model", required=of_models)
    if not model.isprintable():
        raise _wrong("model", f"= {_shown(model)}", "the name of a model")
    value = body.get(given, {} if of_models else None)
    if not isinstance(value, Mapping) or not (value or of_models):
        found = "is missing" if value is None else f"= {_shown(value)}"
        raise _wrong(given, found, "an object: name to value")
    for name, one in value.items():
        if not all(map(_is_scalar, one if isinstance(one, list) else [one])):
            right = "a text, a number, true, false or null, or a list of these"
            raise _wrong(f"{given}.{name[:60]}", f"= {_shown(one)}", right)
    try:
        text = json.dumps(value, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise _wrong(given, f"= {_shown(value)}", "values that JSON has") from error
    return ControlRequest(kind, model, text, _text(body, "request"))


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | bool | int | float)


def acknowledge(name: str, body: Body, at: float) -> Acknowledge:
    """Return a follower's word; *at* (wall seconds) is used where it says no time itself."""
    _only(body, "epoch", "revision", "at", "error", "sessions", "lease")
    _named(name, "NAME")
    try:
        epoch = Epoch.parse(_text(body, "epoch", required=True))
    except ValueError as error:
        right = "the epoch of the view, like 1764201600000-1"
        raise _wrong("epoch", f"= {_shown(body.get('epoch'))}", right) from error
    number = _whole(body, "revision")
    if number is None:
        raise _wrong("revision", "is missing", "the whole number of the view that was applied")
    lease_s = _lasting(body.get("lease", 15.0), "lease")
    if lease_s > LONGEST_LEASE_S:
        found = f"= {_shown(body['lease'])}"
        raise _wrong(
            "lease", found, f"at most {LONGEST_LEASE_S:g} s: it is renewed long before that"
        )
    applied = Applied(name, epoch, number, _time(body, at), _error(body), _sessions(body))
    return Acknowledge(applied, lease_s)


def demand(body: Body) -> Demand:
    """Return what ``PUT /api/v1/demand`` says: who waits, how many; who was refused; who fails."""
    _only(body, "from", "waiting", "refused", "failures")
    source = _text(body, "from", required=True)
    _named(source, "from")
    waiting = _whole(body, "waiting")
    if waiting is None:
        raise _wrong("waiting", "is missing", "how many requests wait, a whole number")
    return Demand(source, waiting, _whole(body, "refused") or 0, _failures(body))


def revision(if_match: str | None) -> int | None:
    """Read ``If-Match``: a spec revision, quoted or not; None for absent or ``*``."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not (text.isascii() and text.isdigit() and len(text) < 16):  # noqa: PLR2004 (fits a double)
        raise _wrong("If-Match", f"= '{if_match[:40]}'", "the spec_revision that status shows")
    return int(text)


def _named(name: str, where: str) -> None:
    if not FOLLOWER_NAME.fullmatch(name):
        right = "1 to 64 letters, digits, dots, dashes, underscores"
        raise _wrong(where, f"= {_shown(name)}", right)


def _lasting(value: object, where: str) -> float:
    lasts_s = seconds(value, where)
    if lasts_s == 0:
        raise _wrong(where, "= 0", "over 0")
    return lasts_s


def _wrong(where: str, found: str, right: str) -> ConfigError:
    return ConfigError(found, code="TARN-2002", where=where, right=f"Expected {right}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 (fits on a line)


def _only(body: Body, *fields: str) -> None:
    for key in body:
        if key not in fields:
            right = f"one of: {', '.join(fields)}" if fields else "an empty object"
            where = key if key.isidentifier() and len(key) <= 60 else _shown(key)  # noqa: PLR2004
            raise _wrong(where, "is not a field of this request", right)


def _whole(body: Body, field: str) -> int | None:
    value = body.get(field)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
        raise _wrong(field, f"= {_shown(value)}", "a whole number, 0 or more")
    return value


def _flag(body: Body, field: str) -> bool:
    value = body.get(field, False)
    if not isinstance(value, bool):
        raise _wrong(field, f"= {_shown(value)}", "true or false")
    return value


def _text(body: Body, field: str, *, required: bool = False) -> str:
    value = body.get(field)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value):
        found = "is missing" if value is None else f"= {_shown(value)}"
        raise _wrong(field, found, "a text")
    if len(value) > _LONGEST_TEXT:
        raise _wrong(field, f"has {len(value)} characters", f"a text of at most {_LONGEST_TEXT}")
    return value


def _error(body: Body) -> str:
    """Return what a follower could not do, cut to a length that people can read."""
    value = body.get("error")
    if not isinstance(value, str) or len(value.encode("utf-8", "replace")) <= LONGEST_ERROR:
        return _text(body, "error")
    tail = f" … ({len(value)} characters, cut here)"
    room = LONGEST_ERROR - len(tail.encode())
    return value.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + tail


def _time(body: Body, at: float) -> float:
    value = body.get("at", at)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:  # noqa: PLR2004
        raise _wrong("at", f"= {_shown(value)}", "Unix seconds")
    return float(value)


def _sessions(body: Body) -> tuple[tuple[str, int], ...]:
    value = body.get("sessions", {})
    return _counts(value, "sessions", MOST_SESSIONS, "instance id to open sessions")


def _failures(body: Body) -> tuple[tuple[str, str, int], ...]:
    """Return what is said of models on instances, of at most `MOST_FAILING` pairs."""
    value = body.get("failures", {})
    if not isinstance(value, Mapping):
        right = "an object: instance id to an object: model to bad answers"
        raise _wrong("failures", f"= {_shown(value)}", right)
    told: list[tuple[str, str, int]] = []
    for id_, models in sorted(value.items()):
        where = f"failures.{id_[:60]}"
        told += (
            (id_, *one) for one in _counts(models, where, MOST_FAILING, "model to bad answers")
        )
        if len(told) > MOST_FAILING:
            raise _wrong("failures", "names too many models", f"at most {MOST_FAILING} in all")
    return tuple(told)


def _counts(value: object, name: str, most: int, what: str) -> tuple[tuple[str, int], ...]:
    """Return *value*, an object of at most *most* counts, each under a name."""
    if not isinstance(value, Mapping):
        raise _wrong(name, f"= {_shown(value)}", f"an object: {what}")
    if len(value) > most:
        raise _wrong(name, f"has {len(value)} entries", f"at most {most}")
    return tuple(sorted((key, _count(f"{name}.{key[:60]}", n)) for key, n in value.items()))


def _count(field: str, count: object) -> int:
    return _whole({field: count}, field) or 0
