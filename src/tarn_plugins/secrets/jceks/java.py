"""The process that holds the JVM for one question: started, asked through its pipe, gone.

Secrets and passwords travel through the pipe only, never in arguments or in an environment.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn import errors
from tarn.domain import Secret
from tarn.errors import ConfigError, ProviderError, ProviderMissingError, TarnError, TimedOutError
from tarn.interfaces import ClientContext
from tarn_plugins.secrets.jceks.password import VARIABLE

__all__ = ["KeystoreProcess"]

PATIENCE_S = 60.0
"""A JVM starts in a second or two, and a name node that is away is given up after some 20 s."""
_LAST_LINES = 6
_CHILD = (sys.executable, "-P", "-X", "utf8", "-m", "tarn_plugins.secrets.jceks.child")


@attrs.frozen
class KeystoreProcess:
    """Asks `tarn_plugins.secrets.jceks.child`; a process for each question."""

    context: ClientContext = attrs.field(repr=False)
    hadoop_home: str | None
    java_home: str | None
    private: tuple[str, ...] = ()
    """Variables of the client that the process need not know."""
    patience_s: float = PATIENCE_S
    command: tuple[str, ...] = _CHILD

    def ask(self, question: str, where: str, password: Secret | None, **parts: Any) -> Any:
        """Return the answer, as JSON values.

        Raises:
            ConfigError: What the user wrote is wrong: the keystore, or its password.
            ProviderError: Java, Hadoop or the file system did not do it.
            TimedOutError: No answer in time; the process was killed.
        """
        order = {
            "question": question,
            "where": where,
            "hadoop_home": self.hadoop_home,
            "java_home": self.java_home,
            "password": None if password is None else password.reveal(),
            "environ": self._environ(),
            "parts": parts,
        }
        try:
            done = subprocess.run(
                self.command,
                input=json.dumps(order).encode(),
                capture_output=True,
                env=self._environ(),
                timeout=self.patience_s,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            # without its cause, which has the order in it
            raise _hangs(where, self.patience_s) from None
        return _answer(done, where)

    def _environ(self) -> dict[str, str]:
        """Return the child's environment: ours, with the same tarn, and without passwords."""
        own = {VARIABLE, *self.private}
        kept = {name: value for name, value in self.context.environ.items() if name not in own}
        root = str(Path(errors.__file__).parents[1])
        given = kept.get("PYTHONPATH")
        path = f"{root}:{given}" if given else root
        return {**kept, "PYTHONPATH": path, "MALLOC_ARENA_MAX": "2"}


def _answer(done: "subprocess.CompletedProcess[bytes]", where: str) -> Any:
    try:
        told: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        lines = [x for x in done.stderr.decode(errors="replace").splitlines() if x.strip()]
        words = "\n  ".join(["; its last output:", *lines[-_LAST_LINES:]]) if lines else ""
        raise ProviderError(
            "jceks",
            f"the process with the JVM ended with code {done.returncode} and no answer{words}",
            code="TARN-3744",
            where=where,
        ) from None
    if "error" in told:
        raise _error(told["error"], where)
    return told["answer"]


def _error(told: Mapping[str, str], where: str) -> TarnError:
    """Return what the child met: its kind, and the parts of the message."""
    found, code = told["found"], told["code"]
    right, step = told["right"], told["next_step"]
    if told["kind"] == "config":
        return ConfigError(found, code=code, where=where, right=right, next_step=step)
    if told["kind"] == "missing":
        return ProviderMissingError("jceks", found, next_step=step)
    return ProviderError("jceks", found, code=code, where=where, right=right, next_step=step)


def _hangs(where: str, patience_s: float) -> TimedOutError:
    return TimedOutError(
        f"Hadoop gave no answer within {patience_s:g} s",
        code="TARN-3744",
        where=where,
        next_step="Is the name node up, and does HADOOP_CONF_DIR name the right cluster?",
    )
