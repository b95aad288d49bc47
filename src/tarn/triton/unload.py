"""How a Triton is emptied: in which order its models are unloaded. Pure.

What was measured on Triton 2.51, ``--model-control-mode=explicit``:

- The answer to an unload comes at once (2 ms), and asking twice is the same as asking once. The
  model is UNLOADING until the last request in it ended, waiting ones included; then, for a Python
  model, 1.3 s more. New requests get 404. Its counters vanish with it.
- An ensemble in work is safe: unloading one of its models makes it UNLOADING, and its requests
  still find all of them.
- A Python model in work that calls another one (business logic scripting) is not: when that one
  was unloaded, the call fails, and so does the request.

And of SIGTERM, in any mode: requests end, waiting and executing ones, those of callers too, and
Triton exits with 0 some 2 s after the last one. But one open HTTP connection, idle or not, holds
the exit until ``--exit-timeout-secs`` (8 s given: 8.2 s taken, exit code 1), where a request that
still executes is cut. So that time is no good place for a drain: made as long as ``drain.timeout``
it would have every instance with one idle client stay for all of it. And where a SIGKILL follows
at once, as on YARN, it is not given at all.
"""

from collections.abc import Iterable
from urllib.parse import quote

from tarn.triton.metrics import REQUEST_US, SUCCESS, TritonMetrics

__all__ = ["first", "path"]


def first(ready: Iterable[str], seen: TritonMetrics | None) -> str:
    """Return which of the *ready* models to unload next; the one before must be gone by then.

    Who calls another model is not told by Triton, but its requests take longer than the calls
    they wait for. So the one with the longest mean duration goes first; before it, those of which
    nothing is known.

    Args:
        ready: Names, at least one.
        seen: The newest scrape; None: none yet.
    """
    duration_us = {} if seen is None else seen.by_label(REQUEST_US, "model")
    count = {} if seen is None else seen.by_label(SUCCESS, "model")

    def mean_us(model: str) -> float:
        ended = count.get(model, 0.0)
        return duration_us.get(model, 0.0) / ended if ended else float("inf")

    return min(ready, key=lambda model: (-mean_us(model), model))


def path(model: str) -> str:
    """Return where to ask that *model* be unloaded."""
    return f"/v2/repository/models/{quote(model, safe='')}/unload"
