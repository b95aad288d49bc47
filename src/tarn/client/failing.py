"""The errors of a client, in one place for threads and for asyncio."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import TypeVar

from tritonclient.utils import InferenceServerException

from tarn.client.http_connection import HttpResponse, LateError, WireError
from tarn.client.targets import ServiceAddress
from tarn.errors import RefusedError, TarnError, TimedOutError, UnreachableError
from tarn.triton.answers import Culprit, blame, error_line

__all__ = ["lost_sequence", "one_of", "raise_if_error", "several", "single", "whose_fault"]

T = TypeVar("T")

OK = 200


def raise_if_error(answer: HttpResponse) -> None:
    """Raise what tritonclient raises, when Triton answered with an error."""
    if answer.status_code == OK:
        return
    status, text = str(answer.status_code), answer.body.decode("utf-8", "replace")
    try:
        said = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        raise InferenceServerException(
            msg=f"the answer {status} has no error text: {text[:200]}",
            status=status,
            debug_details=text,
        ) from None
    raise InferenceServerException(msg=said, status=status)


def whose_fault(answer: HttpResponse) -> Culprit | None:
    """Return whose fault *answer* is; None: it is a good one."""
    if answer.status_code < HTTPStatus.BAD_REQUEST:
        return None
    return blame(answer.status_code, error_line(answer.body))


def single(target: ServiceAddress, error: WireError) -> TarnError:
    """Return the error of a request that was for *target* alone."""
    kind = TimedOutError if isinstance(error, LateError) else UnreachableError
    return kind(str(error), where=target.name)


def lost_sequence(sequence: object, target: ServiceAddress, error: WireError) -> TarnError:
    """Return the error of a sequence whose instance did not answer; it has to begin again."""
    if isinstance(error, LateError):
        return single(target, error)
    why = str(error)
    return UnreachableError(
        f"that instance held the state of sequence {sequence!r}, which is lost ({why})",
        where=target.name,
        next_step="Start the sequence again, with sequence_start=True",
    )


def one_of(said: Mapping[str, T]) -> T:
    """Return what one instance said to something that all were asked to do.

    Raises:
        UnreachableError: There was none, so nothing was done.
    """
    for answer in said.values():
        return answer
    raise UnreachableError("the view has no instance, so nothing was done")


def several(failed: Mapping[str, Exception], of: int) -> TarnError:
    """Return one error for those of several instances that failed."""
    each = "; ".join(f"{name}: {error}" for name, error in failed.items())
    kind = (
        UnreachableError
        if all(isinstance(error, TarnError) for error in failed.values())
        else RefusedError
    )
    return kind(f"{len(failed)} of {of} instances did not do it: {each}")
