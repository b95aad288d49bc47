"""Whose fault an answer is. Every sentence is one that Triton 2.51 said."""

import json

import pytest

from tarn.triton.answers import GRPC_STATUS, Culprit, blame, error_line

RAISED = (
    "Failed to process the request(s) for model 'm_0_0', message: RuntimeError: CUDA error: "
    "device-side assert triggered\n\nAt:\n  /models/m/1/model.py(18): execute\n"
)


@pytest.mark.parametrize(
    ("status", "said", "whose"),
    [
        (500, "Stub process 'm_0_0' is not healthy.", Culprit.SERVER),
        (500, RAISED, Culprit.MODEL),
        (500, "no token", Culprit.MODEL),
        (500, "failed to parse the request JSON buffer: Missing a name at 1", Culprit.CALLER),
        (500, "Unable to parse 'data': Shape does not match true shape", Culprit.CALLER),
        (500, "failed to get request params.: attempt to get members", Culprit.CALLER),
        (503, "[request id: 1] Exceeds maximum queue size", Culprit.NOBODY),
        (503, "", Culprit.SERVER),
        (502, "<html>Bad Gateway</html>", Culprit.SERVER),
        (504, "", Culprit.SERVER),
        (501, "HTTP end point doesn't support models with decoupled", Culprit.CALLER),
        (400, "[request id: <id_unknown>] unexpected shape for input 'IN'", Culprit.CALLER),
        (404, "Request for unknown model: 'm' has no available versions", Culprit.CALLER),
        (429, "Too many requests", Culprit.CALLER),
    ],
)
def test_an_answer_is_somebodys_fault(status: int, said: str, whose: Culprit) -> None:
    assert blame(status, said) is whose


@pytest.mark.parametrize("status", range(400, 500))
def test_no_status_below_500_is_the_servers(status: int) -> None:
    """Whatever it says."""
    assert blame(status, "Stub process 'm_0_0' is not healthy.") is Culprit.CALLER


@pytest.mark.parametrize(
    ("code", "said", "whose"),
    [
        ("INTERNAL", "Stub process 'm_0_0' is not healthy.", Culprit.SERVER),
        ("INTERNAL", RAISED, Culprit.MODEL),
        ("UNAVAILABLE", "Exceeds maximum queue size", Culprit.NOBODY),
        ("UNAVAILABLE", "Socket closed", Culprit.SERVER),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", Culprit.SERVER),
        ("INVALID_ARGUMENT", "inference input 'IN' data-type is 'INT32'", Culprit.CALLER),
        ("NOT_FOUND", "Request for unknown model: 'm' is not found", Culprit.CALLER),
    ],
)
def test_grpc_says_the_same(code: str, said: str, whose: Culprit) -> None:
    assert blame(GRPC_STATUS[code], said) is whose


def test_an_error_is_one_line_without_its_traceback() -> None:
    body = json.dumps({"error": RAISED}).encode()
    assert error_line(body) == (
        "Failed to process the request(s) for model 'm_0_0', message: RuntimeError: CUDA error: "
        "device-side assert triggered"
    )


@pytest.mark.parametrize("body", [b"", b"[1]", b"\xff\xfe", b"{", b'{"error": 3}', b'{"a": 1}'])
def test_whatever_the_body_is_it_can_be_shown(body: bytes) -> None:
    assert isinstance(error_line(body), str)
    assert len(error_line(body * 1000)) < 310
