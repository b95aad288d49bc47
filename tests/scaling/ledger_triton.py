"""The fake Triton as a program that keeps a ledger: the id of each request that it executed.

It is started with ``python -I -S``, which spares a third of the start; so it finds TARN itself.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from tarn.testing import fake_http, fake_program

answered = fake_http.echo
ledger = os.open(
    f"{os.environ['LEDGER']}/{os.getpid()}",  # noqa: TID251 (a program of its own)
    os.O_WRONLY | os.O_CREAT | os.O_APPEND,
)


def noted(model: str, body: bytes, json_length: int | None) -> tuple[bytes, int | None]:
    """Answer as the fake does, and write down to what."""
    answer = answered(model, body, json_length)
    number = body.partition(b'"id":"')[2].partition(b'"')[0]
    os.write(ledger, number + b"\n")
    return answer


fake_http.echo = noted
fake_program.main()
