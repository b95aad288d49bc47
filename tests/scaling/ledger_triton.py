"""The fake Triton as a program that writes down what it does: `scaling.scene` says where.

It is started with ``python -I -S``, which spares a third of the start; so it finds TARN itself.
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from tarn.testing import fake_http, fake_triton
from tarn.testing.fake_state import FakeTritonState

answered, counted = fake_http.echo, fake_http.metrics_text


def opened(folder: str) -> int:
    """Open a file of this process's own, in the folder that a variable names."""
    place = os.environ[folder]  # noqa: TID251 (a program of its own)
    return os.open(f"{place}/{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


ledger, scrapes = opened("LEDGER"), opened("SCRAPES")


def noted(model: str, body: bytes, json_length: int | None) -> tuple[bytes, int | None]:
    """Answer as the fake does, and write down to what."""
    answer = answered(model, body, json_length)
    number = body.partition(b'"id":"')[2].partition(b'"')[0]
    os.write(ledger, number + b"\n")
    return answer


def scraped(state: FakeTritonState) -> bytes:
    """Tell the metrics as the fake does, with the queue that a file says; write down when."""
    queue = Path(os.environ["SCRAPES"]).with_name("queue")  # noqa: TID251
    if queue.exists():
        state.models["echo"].extra_pending = int(queue.read_text())
    os.write(scrapes, f"{time.time():.6f}\n".encode())
    return counted(state)


fake_http.echo, fake_http.metrics_text = noted, scraped
fake_triton.main()
