"""Texts and issues about the end of the delegation tokens. Pure."""

import datetime as dt

from tarn.domain import Issue
from tarn_plugins.runtime.yarn.keytab import Renewal

__all__ = ["TOKENS_ENDED", "day", "issue", "note", "refusal"]

# Code of a final error: the tokens of this submission have ended.
TOKENS_ENDED = "TARN-1016"
# Codes: a keytab gets new tokens; the master could not log in with its keytab.
RENEWED, NO_LOGIN = "TARN-3760", "TARN-3767"
NOT = Renewal()
_SUBMIT = "submit the cluster again (`tarn down`, then `tarn up`)"
_AGAIN = "unless the cluster is submitted again (`tarn down`, then `tarn up`)"


def day(ends_at: float) -> str:
    """Return *ends_at* (Unix seconds) as text."""
    return f"{dt.datetime.fromtimestamp(ends_at, dt.UTC):%Y-%m-%d %H:%M} UTC"


def note(ends_at: float, renewal: Renewal = NOT) -> str:
    """Return the note for the user who submits."""
    ends = f"the delegation tokens of this submission end at {day(ends_at)}"
    if renewal.works:
        return f"{ends}, and the master gets new ones by the keytab of {renewal.principal}"
    return f"{ends}: {_what(over=False)}, {_AGAIN}"


def issue(ends_at: float | None, at: float, renewal: Renewal = NOT) -> Issue | None:
    """Return the issue for `tarn status` at *at*; None if there is no token."""
    if ends_at is None:
        return Issue("", renewal.trouble, code=NO_LOGIN) if renewal.trouble else None
    over = at >= ends_at
    ends = f"delegation tokens {'ended' if over else 'end'} at {day(ends_at)}"
    if renewal.works:
        found = f"the first {ends}; the keytab of {renewal.principal} gets new ones"
        return Issue("", found, code=RENEWED, until=ends_at)
    why = f" (its keytab does not help: {renewal.trouble})" if renewal.trouble else ""
    code = NO_LOGIN if renewal.trouble else TOKENS_ENDED
    return Issue("", f"the {ends}: {_what(over=over)}{why}; {_SUBMIT}", code=code, until=ends_at)


def refusal(ends_at: float) -> str:
    """Return why a wanted instance is not started."""
    return (
        f"the delegation tokens ended at {day(ends_at)}, and no new instance can start "
        f"without them; {_SUBMIT}"
    )


def _what(*, over: bool) -> str:
    then = "" if over else "after that, "
    return f"{then}instances go on and the master can be restarted, but no new instance can start"
