"""Fill in the status fields that a master of an earlier version does not send.

Earlier masters have some facts only as sentences, so this is the only module that parses our own
sentences. A status that has ``issues`` is left as it is.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tarn.domain.reading import is_not_loaded
from tarn.triton.exits import lacks_shared_memory

__all__ = ["completed"]

Status = Mapping[str, Any]

# How earlier runtimes wrote a warning that has a code.
_CODED = re.compile(r"(TARN-\d{4}) (.*)", re.DOTALL)


def completed(status: Status) -> Status:
    """Return *status* with the fields that its master does not send."""
    if "issues" in status:
        return status
    holds: Mapping[str, Any] = status.get("holds") or {}
    failed = [item["id"] for item in status.get("ended", ()) if item["state"] == "failed"]
    halted = holds.get("halted") or ""
    return {
        **status,
        "holds": {**holds, "halted_by": next((id_ for id_ in failed[::-1] if id_ in halted), "")},
        "instances": [_instance(item) for item in status.get("instances", ())],
        "ended": [_instance(item) for item in status.get("ended", ())],
        "issues": list(_issues(status)),
    }


def _instance(item: Status) -> Status:
    reason = item.get("reason") or ""
    unwell = item.get("unwell") or {}
    models = [{**model, "code": _code(model)} for model in item.get("models", ())]
    named = (one["name"] for one in models if one.get("reason") and one["reason"] in reason)
    return {
        **item,
        "silent": bool(item.get("suspect")) and item["suspect"] != unwell.get("message"),
        "blamed": next(named, ""),
        "code": "TARN-3159" if lacks_shared_memory(reason) else "",
        "models": models,
    }


def _code(model: Status) -> str:
    reason = model.get("reason") or ""
    if is_not_loaded(model["state"], reason):
        return "TARN-1147"
    return "TARN-3159" if lacks_shared_memory(reason) else ""


def _issues(status: Status) -> Iterator[Status]:
    """Yield the troubles, then the runtime's warnings, which begin with their code."""
    troubles = status.get("troubles")
    failing = [one for one in status.get("followers", ()) if one.get("error")]
    for trouble in troubles or ():
        about = trouble["message"]
        told = (o["name"] for o in failing if about == f"discovery {o['name']}: {o['error']}")
        yield _issue(trouble["subject"], trouble["message"], trouble["code"], *told)
    said = {trouble["message"] for trouble in troubles or ()}
    lines = [line for line in status.get("warnings", ()) if line not in said]
    for line in (*lines, *(status.get("faults", ()) if troubles is None else ())):
        match = _CODED.fullmatch(line)
        yield _issue("", match[2], match[1]) if match else _issue("", line, "")


def _issue(subject: str, message: str, code: str, *followers: str) -> Status:
    return {
        "subject": subject,
        "message": message,
        "code": code,
        "next_step": "",
        "since": None,
        "until": None,
        "models": [],
        "instances": [],
        "followers": list(followers),
    }
