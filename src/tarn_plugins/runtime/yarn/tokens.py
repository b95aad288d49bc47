"""The end of the delegation tokens, in words and for the clock. Pure."""

import datetime as dt

__all__ = ["TOKENS_ENDED", "day", "note", "refusal", "warning"]

TOKENS_ENDED = "TARN-1016"
"""Code of an error that no second try mends: the tokens of this submission are over."""


def day(ends_at: float) -> str:
    """Return *ends_at* (Unix seconds) for people."""
    return f"{dt.datetime.fromtimestamp(ends_at, dt.UTC):%Y-%m-%d %H:%M} UTC"


def note(ends_at: float) -> str:
    """Return what somebody who submits must know."""
    return (
        f"the delegation tokens of this submission end at {day(ends_at)}: {_what(over=False)}, "
        "unless the cluster is submitted again (`tarn down`, then `tarn up`)"
    )


def warning(ends_at: float | None, at: float) -> str:
    """Return what `status` says at *at*; '' where there is no token."""
    if ends_at is None:
        return ""
    over = at >= ends_at
    return (
        f"{TOKENS_ENDED} the delegation tokens {'ended' if over else 'end'} at {day(ends_at)}: "
        f"{_what(over=over)}; `tarn down`, then `tarn up` submits the cluster again"
    )


def refusal(ends_at: float) -> str:
    """Return why an instance that is asked for is not started."""
    return (
        f"the delegation tokens ended at {day(ends_at)}, and no new instance can start without; "
        "`tarn down`, then `tarn up` submits the cluster again"
    )


def _what(*, over: bool) -> str:
    then = "" if over else "after that, "
    return f"{then}instances go on and the master can be restarted, but no new instance can start"
