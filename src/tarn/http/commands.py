"""Commands, from the body of a PUT. Pure; an error names the field and what is valid."""

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
    HoldUpdate,
    PauseScaling,
    Resume,
    Rollback,
    Scale,
)
from tarn.errors import ConfigError
from tarn.plain import seconds
from tarn.plain.master_files import SMOKE, SPEC, STAGED, TEST_REQUESTS

__all__ = ["VERBS", "acknowledge", "command", "demand", "revision", "update", "wrong"]

_CALLS = {
    "load": CallKind.LOAD,
    "unload": CallKind.UNLOAD,
    "trace-settings": CallKind.TRACE,
    "log-settings": CallKind.LOG,
}
VERBS = ("scale", "adapt", "pause", "resume", "drain", "down", "rollback", *_CALLS)

Body = Mapping[str, object]

_MOST = 2**31
# Files of an edition of the spec.
_EDITION = (SPEC, STAGED, TEST_REQUESTS, SMOKE)
# Lines about what an update changes; the event shows them.
_MOST_CHANGES = 50
# A follower that is gone is noticed only after its lease. An agent asks for 15 s.
LONGEST_LEASE_S = 300.0
# Bytes of a follower's error, which is kept for each follower and shown to people.
LONGEST_ERROR = 1024
# Instances in the open sessions of one acknowledgement.
MOST_SESSIONS = 4096
# Pairs of instance and failing model in one request.
MOST_FAILING = 256
_LONGEST_TEXT = 1024


def command(verb: str, body: Body) -> Command:
    """Return the command of ``PUT /api/v1/<verb>`` with *body*.

    Raises:
        ConfigError: The body is not valid.
    """
    match verb:
        case "scale":
            _only(body, "replicas")
            if "replicas" not in body:
                raise wrong("replicas", "is missing", "a whole number, or null for automatic")
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
            return _plain(verb, body)


def _plain(verb: str, body: Body) -> Command:
    if verb == "rollback":
        _only(body, "update")
        return Rollback(_whole(body, "update"))
    _only(body)
    return Resume() if verb == "resume" else Down()


def update(body: Body) -> HoldUpdate | tuple[dict[str, str], tuple[str, ...]]:
    """Return what ``PUT /api/v1/update`` asks for: a pause, or files and what they change.

    Raises:
        ConfigError: The body is not valid.
    """
    _only(body, "paused", "files", "changes")
    if "paused" in body:
        _only(body, "paused")
        return HoldUpdate(_flag(body, "paused"))
    files, changes = body.get("files"), body.get("changes", [])
    if not isinstance(files, Mapping) or not {SPEC, STAGED} <= files.keys() <= set(_EDITION):
        right = f"an object with {SPEC} and {STAGED}, and perhaps {' and '.join(_EDITION[2:])}"
        raise wrong("files", "is missing" if files is None else f"= {_shown(files)}", right)
    if not all(isinstance(text, str) for text in files.values()):
        raise wrong("files", "has something else than text", "the text of each file")
    if not isinstance(changes, list) or not all(isinstance(line, str) for line in changes):
        raise wrong("changes", f"= {_shown(changes)}", "a list of lines")
    lines = [line[:_LONGEST_TEXT] for line in changes[:_MOST_CHANGES]]
    return dict(files), tuple(lines)


def _control(kind: CallKind, body: Body) -> ControlRequest:
    # Triton itself checks the names and values of parameters and settings; here only their shape.
    of_models = kind in (CallKind.LOAD, CallKind.UNLOAD)
    given = "parameters" if of_models else "settings"
    _only(body, given, "request", *(() if kind is CallKind.LOG else ("model",)))
    model = "" if kind is CallKind.LOG else _text(body, "model", required=of_models)
    if not model.isprintable():
        raise wrong("model", f"= {_shown(model)}", "the name of a model")
    value = body.get(given, {} if of_models else None)
    if not isinstance(value, Mapping) or not (value or of_models):
        found = "is missing" if value is None else f"= {_shown(value)}"
        raise wrong(given, found, "an object: name to value")
    for name, one in value.items():
        values = one if isinstance(one, list) else [one]
        if not all(x is None or isinstance(x, str | bool | int | float) for x in values):
            right = "a text, a number, true, false or null, or a list of these"
            raise wrong(f"{given}.{name[:60]}", f"= {_shown(one)}", right)
    try:
        text = json.dumps(value, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise wrong(given, f"= {_shown(value)}", "values that JSON has") from error
    return ControlRequest(kind, model, text, _text(body, "request"))


def acknowledge(name: str, body: Body, at: float) -> Acknowledge:
    """Return a follower's acknowledgement; *at*, wall seconds, stands in for a missing time."""
    _only(body, "epoch", "revision", "at", "error", "sessions", "sequences", "lease")
    _named(name, "NAME")
    try:
        epoch = Epoch.parse(_text(body, "epoch", required=True))
    except ValueError as error:
        right = "the epoch of the view, like 1764201600000-1"
        raise wrong("epoch", f"= {_shown(body.get('epoch'))}", right) from error
    number = _whole(body, "revision")
    if number is None:
        raise wrong("revision", "is missing", "the whole number of the view that was applied")
    lease_s = _lasting(body.get("lease", 15.0), "lease")
    if lease_s > LONGEST_LEASE_S:
        found = f"= {_shown(body['lease'])}"
        raise wrong(
            "lease", found, f"at most {LONGEST_LEASE_S:g} s: it is renewed long before that"
        )
    open_ = body.get("sessions", {})
    sessions = _counts(open_, "sessions", MOST_SESSIONS, "instance id to open sessions")
    rest = body.get("sequences", {})
    sequences = _counts(rest, "sequences", MOST_SESSIONS, "instance id to sequences")
    applied = Applied(name, epoch, number, _time(body, at), _error(body), sessions, sequences)
    return Acknowledge(applied, lease_s)


def demand(body: Body) -> Demand:
    """Return the demand of ``PUT /api/v1/demand``: waiting, refused and failed requests."""
    _only(body, "from", "waiting", "refused", "failures")
    source = _text(body, "from", required=True)
    _named(source, "from")
    waiting = _whole(body, "waiting")
    if waiting is None:
        raise wrong("waiting", "is missing", "how many requests wait, a whole number")
    return Demand(source, waiting, _whole(body, "refused") or 0, _failures(body))


def revision(if_match: str | None) -> int | None:
    """Return the spec revision in ``If-Match``; None if it is absent or ``*``."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not (text.isascii() and text.isdigit() and len(text) < 16):  # noqa: PLR2004 (fits a double)
        raise wrong("If-Match", f"= '{if_match[:40]}'", "the spec_revision that status shows")
    return int(text)


def _named(name: str, where: str) -> None:
    if not FOLLOWER_NAME.fullmatch(name):
        right = "1 to 64 letters, digits, dots, dashes, underscores"
        raise wrong(where, f"= {_shown(name)}", right)


def _lasting(value: object, where: str) -> float:
    lasts_s = seconds(value, where)
    if lasts_s == 0:
        raise wrong(where, "= 0", "over 0")
    return lasts_s


def wrong(where: str, found: str, right: str) -> ConfigError:
    """Return the error of one part of a request; *right* says what is valid there."""
    return ConfigError(found, code="TARN-2002", where=where, right=f"Expected {right}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 (fits on a line)


def _only(body: Body, *fields: str) -> None:
    for key in body:
        if key not in fields:
            right = f"one of: {', '.join(fields)}" if fields else "an empty object"
            where = key if key.isidentifier() and len(key) <= 60 else _shown(key)  # noqa: PLR2004
            raise wrong(where, "is not a field of this request", right)


def _whole(body: Body, field: str) -> int | None:
    value = body.get(field)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
        raise wrong(field, f"= {_shown(value)}", "a whole number, 0 or more")
    return value


def _flag(body: Body, field: str) -> bool:
    value = body.get(field, False)
    if not isinstance(value, bool):
        raise wrong(field, f"= {_shown(value)}", "true or false")
    return value


def _text(body: Body, field: str, *, required: bool = False) -> str:
    value = body.get(field)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value):
        found = "is missing" if value is None else f"= {_shown(value)}"
        raise wrong(field, found, "a text")
    if len(value) > _LONGEST_TEXT:
        raise wrong(field, f"has {len(value)} characters", f"a text of at most {_LONGEST_TEXT}")
    return value


def _error(body: Body) -> str:
    """Return a follower's error, cut to `LONGEST_ERROR` bytes."""
    value = body.get("error")
    if not isinstance(value, str) or len(value.encode("utf-8", "replace")) <= LONGEST_ERROR:
        return _text(body, "error")
    tail = f" … ({len(value)} characters, cut here)"
    room = LONGEST_ERROR - len(tail.encode())
    return value.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + tail


def _time(body: Body, at: float) -> float:
    value = body.get("at", at)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:  # noqa: PLR2004
        raise wrong("at", f"= {_shown(value)}", "Unix seconds")
    return float(value)


def _failures(body: Body) -> tuple[tuple[str, str, int], ...]:
    """Return (instance, model, bad answers) of ``failures``."""
    value = body.get("failures", {})
    if not isinstance(value, Mapping):
        right = "an object: instance id to an object: model to bad answers"
        raise wrong("failures", f"= {_shown(value)}", right)
    told: list[tuple[str, str, int]] = []
    for id_, models in sorted(value.items()):
        where = f"failures.{id_[:60]}"
        told += (
            (id_, *one) for one in _counts(models, where, MOST_FAILING, "model to bad answers")
        )
        if len(told) > MOST_FAILING:
            raise wrong("failures", "names too many models", f"at most {MOST_FAILING} in all")
    return tuple(told)


def _counts(value: object, name: str, most: int, what: str) -> tuple[tuple[str, int], ...]:
    """Return the names and counts of *value*, an object of at most *most*."""
    if not isinstance(value, Mapping):
        raise wrong(name, f"= {_shown(value)}", f"an object: {what}")
    if len(value) > most:
        raise wrong(name, f"has {len(value)} entries", f"at most {most}")
    each = ((key, f"{name}.{key[:60]}", n) for key, n in value.items())
    return tuple(sorted((key, _whole({where: n}, where) or 0) for key, where, n in each))
