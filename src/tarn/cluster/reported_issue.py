"""One thing that is not as desired: what was found, and what can be done; and how it is said."""

from collections.abc import Mapping
from typing import Any

import attrs

from tarn.domain import CODES

__all__ = ["ReportedIssue", "age", "first_words", "instance_reason", "instance_state", "span"]

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


@attrs.frozen
class ReportedIssue:
    """One thing that is not as desired."""

    subject: str
    """The cluster's name, an instance id, or who else it is about."""
    found: str
    """What is the case: a sentence without its full stop."""
    next_step: str = ""
    """What can be done now; empty where only time helps."""
    code: str = ""
    """Of the table of codes (`tarn help CODE`); empty where it has none."""

    @property
    def step(self) -> str:
        """The next step: its own, else that of its code."""
        return self.next_step or _step(self.code)

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.found.rstrip('.')}. {self.step}" if self.step else self.found

    def plain(self) -> dict[str, str]:
        """Return it for programs."""
        said = {"subject": self.subject, "found": self.found, "next_step": self.step}
        return {**said, "code": self.code}


def _step(code: str) -> str:
    """Return the table's next step for *code*; nothing where there is nothing to do."""
    known = CODES.get(code)
    return "" if known is None or known.next_step == "Nothing." else known.next_step


def age(seconds: float | None) -> str:
    """Return *seconds* in the two units that matter: ``45s``, ``3m12s``, ``5h02m``, ``2d03h``."""
    if seconds is None:
        return ""
    whole = max(0, int(seconds))
    for size, unit, small_size, small in ((DAY_S, "d", HOUR_S, "h"), (HOUR_S, "h", MINUTE_S, "m")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // small_size:02}{small}"
    return f"{whole // MINUTE_S}m{whole % MINUTE_S:02}s" if whole >= MINUTE_S else f"{whole}s"


def span(seconds: float) -> str:
    """Return a time to come like `age`, rounded up: what is in 0.2 s is not in ``0s``."""
    return age(int(seconds) + (seconds % 1 > 0))


def first_words(text: object) -> str:
    """Return the first paragraph of *text* as one line: what went wrong, without its traceback."""
    return " ".join(str(text).strip().partition("\n\n")[0].split())


def instance_state(item: Mapping[str, Any]) -> str:
    """Return the state of an instance of the status in one word: a ready one may be suspect."""
    return "suspect" if item.get("suspect") else str(item["state"])


def instance_reason(item: Mapping[str, Any]) -> str:
    """Return why an instance of the status is in its state, or is unwell in the view."""
    unwell = (item.get("unwell") or {}) if item["state"] == "ready" else {}
    return first_words(item.get("suspect") or unwell.get("message") or item.get("reason") or "")
