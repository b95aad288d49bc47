"""Warm-up: the requests that an instance must have answered once before it gets traffic."""

import asyncio
from collections.abc import Callable

import attrs

from tarn.control.http1 import connect, request
from tarn.control.line import attempt
from tarn.domain import Endpoint

__all__ = ["WarmupRequest", "warm_up"]

TIMEOUT_S = 300.0
"""For one request: the first inference of a model may build an engine."""

RETRY_S = 5.0
"""After a request that failed."""


@attrs.frozen
class WarmupRequest:
    """One request that must have succeeded once before the instance is warm."""

    path: str
    """For example ``/v2/models/ocr/infer``."""
    body: bytes = b"{}"
    method: str = "POST"
    content_type: str = "application/json"


async def warm_up(
    endpoint: Endpoint,
    requests: tuple[WarmupRequest, ...],
    failed: Callable[[str], None],
    retry_s: float = RETRY_S,
    headers: tuple[tuple[str, str], ...] = (),
) -> None:
    """Return once each of *requests* was answered with a 2xx status, in order.

    A request that fails is sent again after *retry_s*, for as long as it takes: the instance's
    start timeout ends that. *failed* hears why, in words. *headers* open Triton's inference
    API, where it is restricted.
    """
    for wanted in requests:
        while (problem := await _send(endpoint, wanted, headers)) is not None:
            failed(f"{wanted.method} {wanted.path}: {problem}")
            await asyncio.sleep(retry_s)


async def _send(
    endpoint: Endpoint, wanted: WarmupRequest, headers: tuple[tuple[str, str], ...]
) -> str | None:
    """Return None when *wanted* succeeded, else why it did not."""
    question = request(
        wanted.method,
        wanted.path,
        endpoint.http,
        body=wanted.body,
        content_type=wanted.content_type,
        headers=headers,
    )
    problems = []

    async def ask() -> None:
        connection = await connect(endpoint.host, endpoint.http_port, lambda: None)
        try:
            reply = await connection.ask(question)
        finally:
            connection.close()
        if reply.status // 100 != 2:  # noqa: PLR2004
            problems.append(f"{reply.status} {reply.body[:200].decode(errors='replace')}".strip())

    failure = await attempt(endpoint.http, TIMEOUT_S, ask())
    if failure is not None:
        return failure.reason
    return problems[0] if problems else None
