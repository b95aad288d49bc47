"""The process that holds the JVM for a client; `deployer` starts it as a module.

It answers lines of JSON from standard input on standard output, one after another, and ends when
its input is closed, or after a minute without a question (exit code 0: none was lost). All
else that would be written to standard output, by Java too, goes to standard error.
"""

import json
import os
import select
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from tarn.errors import ProviderError, TarnError
from tarn.java import leave
from tarn_plugins.runtime.yarn.client.failures import pack

__all__ = ["QuestionServer", "main", "serve"]

IDLE_S = 60.0
_CHUNK = 65536


class QuestionServer(Protocol):
    """Answers questions by name."""

    def answer(self, question: str, parts: Mapping[str, Any]) -> Any:
        """Return JSON values; raise a `TarnError` for the asker."""
        ...

    def close(self) -> None:
        """End what no asker waits for any more: there is none."""
        ...


def serve(reading: int, writing: int, answering: QuestionServer, idle_s: float = IDLE_S) -> None:
    """Answer lines from descriptor *reading* on *writing* until its end, or a silence."""
    for line in _lines(reading, idle_s):
        message = json.loads(line)
        reply = _reply(answering, str(message["question"]), message["parts"])
        view = memoryview(json.dumps(reply).encode() + b"\n")
        while view:
            view = view[os.write(writing, view) :]


def _reply(answering: QuestionServer, question: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": answering.answer(question, parts)}
    except TarnError as error:
        return {"error": pack(error)}
    except Exception as error:  # noqa: BLE001 (the asker must hear of it, whatever it is)
        # Not its text: it may hold anything. The trace names places only.
        traceback.print_tb(error.__traceback__)
        found = f"'{question}' failed by {type(error).__name__}, which is a bug in TARN"
        return {"error": pack(ProviderError("yarn", found))}


def _lines(reading: int, idle_s: float) -> Iterator[bytes]:
    heard = b""
    while True:
        ready, _, _ = select.select([reading], [], [], idle_s)
        data = os.read(reading, _CHUNK) if ready else b""
        if not data:
            return
        *lines, heard = (heard + data).split(b"\n")
        yield from lines


def main() -> None:
    """Run as the child of a client; leaves without waiting for Java's threads."""
    from tarn_plugins.runtime.yarn.child.questions import Questions  # noqa: PLC0415

    writing = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    code = 0
    questions = Questions()
    try:
        serve(sys.stdin.fileno(), writing, questions)
    except BrokenPipeError:
        pass  # the client left: nobody wants the answer
    except Exception:  # noqa: BLE001 (the process is left without Python's own word about it)
        traceback.print_exc()
        code = 1
    questions.close()
    leave(code)


if __name__ == "__main__":
    main()
