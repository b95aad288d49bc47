"""Wait for something with a deadline, without sleeping for a fixed time."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tarn.errors import TimedOutError

__all__ = ["until", "within"]

T = TypeVar("T")
_LOOK_EVERY_S = 0.005


def until(ask: Callable[[], T], within_s: float = 10.0, what: str = "") -> T:
    """Return the first true answer of *ask*.

    Args:
        ask: Called repeatedly on the caller's thread; must be quick.
        within_s: Seconds after which to give up.
        what: A description for the message.

    Raises:
        TimedOutError: The deadline passed; the message has the last answer.
    """
    deadline_s = time.monotonic() + within_s
    never = threading.Event()
    while not (answer := ask()):
        if time.monotonic() >= deadline_s:
            found = f"{what or 'what was waited for'} did not come in {within_s:g} s"
            raise TimedOutError(f"{found}; the last answer was {answer!r}")
        never.wait(_LOOK_EVERY_S)
    return answer


def within(within_s: float, call: Callable[[], T], what: str = "") -> T:
    """Return the result of *call*, or raise its exception, within a deadline.

    Raises:
        TimedOutError: The call did not return in *within_s* seconds.
    """
    # on a daemon thread, so that a call that hangs does not hang the test
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 (raised again on the caller's thread)
            answer.set_exception(error)

    threading.Thread(target=run, name="within", daemon=True).start()
    try:
        return answer.result(within_s)
    except TimeoutError as late:
        if answer.done():
            raise
        found = f"{what or 'the call'} did not come back in {within_s:g} s"
        raise TimedOutError(found) from late
