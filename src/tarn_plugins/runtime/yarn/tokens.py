"""The end of the delegation tokens, in words and for the clock. Pure."""

import datetime as dt

from tarn_plugins.runtime.yarn.keytab import Renewal

__all__ = ["NO_LOGIN", "RENEWED", "TOKENS_ENDED", "day", "note", "refusal", "warning"]

TOKENS_ENDED = "TARN-1016"
"""Code of an error that no second try fixes: the tokens of this submission are over."""
RENEWED, NO_LOGIN = "TARN-3760", "TARN-3767"
"""Codes: a keytab gets new tokens; a master was brought one, and could not log in with it."""
NOT = Renewal()
_SUBMIT = "`tarn down`, then `tarn up` submits the cluster again"
_AGAIN = "unless the cluster is submitted again (`tarn down`, then `tarn up`)"


def day(ends_at: float) -> str:
    """Return *ends_at* (Unix seconds) for people."""
    return f"{dt.datetime.fromtimestamp(ends_at, dt.UTC):%Y-%m-%d %H:%M} UTC"


def note(ends_at: float, renewal: Renewal = NOT) -> str:
    """Return what somebody who submits must know."""
    ends = f"the delegation tokens of this submission end at {day(ends_at)}"
    if renewal.works:
        return f"{ends}, and the master gets new ones by the keytab of {renewal.principal}"
    return f"{ends}: {_what(over=False)}, {_AGAIN}"


def warning(ends_at: float | None, at: float, renewal: Renewal = NOT) -> str:
    """Return what `status` says at *at*; '' where there is no token."""
    if ends_at is None:
        return f"{NO_LOGIN} {renewal.trouble}" if renewal.trouble else ""
    over = at >= ends_at
    ends = f"the delegation tokens {'ended' if over else 'end'} at {day(ends_at)}"
    if renewal.works:
        first = "the first delegation tokens" + ends.removeprefix("the delegation tokens")
        return f"{RENEWED} {first}; the keytab of {renewal.principal} gets new ones"
    why = f" (its keytab does not help: {renewal.trouble})" if renewal.trouble else ""
    code = NO_LOGIN if renewal.trouble else TOKENS_ENDED
    return f"{code} {ends}: {_what(over=over)}{why}; {_SUBMIT}"


def refusal(ends_at: float) -> str:
    """Return why an instance that is asked for is not started."""
    return (
        f"the delegation tokens ended at {day(ends_at)}, and no new instance can start without; "
        "`tarn down`, then `tarn up` submits the cluster again"
    )


def _what(*, over: bool) -> str:
    then = "" if over else "after that, "
    return f"{then}instances go on and the master can be restarted, but no new instance can start"
