"""Send inference requests of the master: warm-up requests, and test requests.

Each has its own connection, since Triton waits for open connections when it exits.
"""

import asyncio
import logging
from typing import NamedTuple, Protocol, Self

import attrs

from tarn.control.http1 import LONGEST_BODY, Reply, request
from tarn.control.port_watcher import ProbeFailure, ask_once
from tarn.domain import Endpoint
from tarn.triton.test_requests import AnswerVerdict, TestRequest, judge
from tarn.triton.test_sources import KnownTests

__all__ = ["WarmupRequest", "try_out", "warm_up"]

log = logging.getLogger(__name__)

# Time limit of one request: the first inference of a model may build an engine.
TIMEOUT_S = 300.0

# Pause after a request that failed.
RETRY_S = 5.0

# Pause after a test request that had no result yet.
TRY_AGAIN_S = 1.0

# Most bytes of an answer to a test request that are read.
LONGEST_ANSWER = 4 << 20

# Replaces an answer that was too long to be read.
_TOO_LONG = Reply(200, b"", keep=False)


@attrs.frozen
class WarmupRequest:
    """A request that must succeed once before the instance is warm."""

    path: str
    """For example ``/v2/models/ocr/infer``."""
    body: bytes = b"{}"
    method: str = "POST"
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    proof: TestRequest | None = attrs.field(default=None, repr=False)
    """The request of ``update.smoke`` that it is; its answer must be the expected one."""

    @classmethod
    def proving(cls, proof: TestRequest) -> Self:
        """Return *proof* as a warm-up request."""
        kind = proof.content_type
        return cls(proof.path, proof.body, content_type=kind, headers=proof.headers, proof=proof)


class Failed(Protocol):
    """Hears why a request failed."""

    def __call__(self, reason: str, *, wrong: bool) -> None:
        """*wrong*: the instance answered, but not as ``update.smoke`` expects."""


async def warm_up(
    endpoint: Endpoint,
    requests: tuple[WarmupRequest, ...],
    failed: Failed,
    retry_s: float = RETRY_S,
    headers: tuple[tuple[str, str], ...] = (),
) -> None:
    """Send *requests* in order, and return when each was answered with a 2xx status.

    A request that fails is sent again after *retry_s*, until the instance's start timeout ends it.
    *failed* is called with the reason. *headers* have the key of Triton's inference API, if that is
    restricted.
    """
    for wanted in requests:
        while (problem := await _warm(endpoint, wanted, headers)) is not None:
            reason, wrong = problem
            failed(f"{wanted.method} {wanted.path}: {reason}", wrong=wrong)
            await asyncio.sleep(retry_s)


async def _warm(
    endpoint: Endpoint, wanted: WarmupRequest, headers: tuple[tuple[str, str], ...]
) -> tuple[str, bool] | None:
    """Return None if *wanted* succeeded, else why it did not, and whether its answer was wrong."""
    proof = wanted.proof
    longest = LONGEST_BODY if proof is None else LONGEST_ANSWER
    answer = await _send(endpoint, wanted, headers, TIMEOUT_S, longest)
    if isinstance(answer, ProbeFailure):
        return answer.reason, False
    if answer.status // 100 != 2:  # noqa: PLR2004
        said = f"{answer.status} {answer.body[:200].decode(errors='replace')}".strip()
        # An error of the model is an answer, too; a model that is not there yet gives none.
        verdict = None if proof is None else judge(proof, answer.status, answer.body, proven=True)
        return said, verdict is not None and verdict[0] is AnswerVerdict.BAD
    if proof is None or proof.expect is None:
        return None
    if answer is _TOO_LONG:
        return f"its answer has more than {LONGEST_ANSWER} bytes", True
    differs = proof.expect.differs(answer.body)
    return (differs, True) if differs else None


class RequestResult(NamedTuple):
    """The result of one test request."""

    ok: bool
    said: str = ""
    """Triton's own error, or that there was no answer; empty when the answer was good."""
    proven: bool = True
    """Some instance has answered the same request well, so a bad answer counts."""


async def try_out(
    endpoint: Endpoint,
    test: TestRequest,
    known: KnownTests,
    headers: tuple[tuple[str, str], ...] = (),
    again_s: float = TRY_AGAIN_S,
) -> RequestResult | None:
    """Send *test* once for each copy of the model, and return the result.

    None: it proves nothing, since the master lacked something, or the request is unfit, which
    *known* keeps. It takes at most `TestRequest.timeout_s`.
    """
    # A model that hangs never drops a request that was given up: its pending gauge stays higher by
    # one for each, even after the model was loaded again (seen on 2.51).
    silence = AnswerVerdict.BAD, f"no answer for {test.timeout_s:g} s"
    last, left = silence, test.copies
    try:
        async with asyncio.timeout(test.timeout_s):
            while left:
                answer = await _send(endpoint, test, headers, test.timeout_s + 1, LONGEST_ANSWER)
                if isinstance(answer, ProbeFailure):
                    return None if answer.own else RequestResult(ok=False, said=answer.reason)
                if answer is _TOO_LONG and test.expect is not None:
                    last = AnswerVerdict.UNFIT, f"its answer has more than {LONGEST_ANSWER} bytes"
                    break
                last = judge(test, answer.status, answer.body, proven=known.is_proven(test))
                if last[0] is AnswerVerdict.GOOD:
                    known.prove(test)
                    last, left = silence, left - 1
                elif last[0] is AnswerVerdict.LATER:
                    await asyncio.sleep(again_s)
                else:
                    break
            else:
                return RequestResult(ok=True)
    except TimeoutError:
        log.debug("the test request to %s was not answered in time", endpoint.http)
    judged, said = last
    if judged is AnswerVerdict.UNFIT:
        known.refuse(test, said)
        log.warning(
            "the test request for %s (%s) does not show whether an instance is healthy: %s",
            test.model,
            test.source,
            said,
        )
        return None
    return RequestResult(ok=False, said=said, proven=judged is not AnswerVerdict.UNPROVEN)


async def _send(
    endpoint: Endpoint,
    wanted: WarmupRequest | TestRequest,
    headers: tuple[tuple[str, str], ...],
    timeout_s: float,
    longest: int,
) -> Reply | ProbeFailure:
    """Return the answer to *wanted*, or why there was none."""
    # An answer of more than *longest* bytes counts as good, since Triton's errors are short.
    question = request(
        wanted.method,
        wanted.path,
        endpoint.http,
        body=wanted.body,
        content_type=wanted.content_type,
        headers=(*headers, *wanted.headers),
    )
    return await ask_once(endpoint, question, timeout_s, longest, _TOO_LONG)
