"""The secret store; it reads the keystore once, and again after something was written."""

import base64
import contextlib
import fcntl
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn import errors
from tarn.domain import Secret
from tarn.errors import (
    ConfigError,
    NotFoundError,
    ProviderError,
    ProviderMissingError,
    TarnError,
    TimedOutError,
)
from tarn.interfaces import ClientContext, Progress
from tarn_plugins.secrets.jceks import JceksSettings, keystore
from tarn_plugins.secrets.jceks.place import (
    HADOOPS_DEFAULT,
    VARIABLE,
    LocalKeystore,
    password,
    place,
)

__all__ = ["JceksStore", "KeystoreProcess", "change_keystore", "open_to_others"]


def read_keystore(path: Path) -> bytes:
    """Return the bytes of a keystore.

    Raises:
        ConfigError: TARN-3740: it is missing, or this user may not read it.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(
            "there is no such file",
            code="TARN-3740",
            where=str(path),
            next_step="`tarn secrets put NAME` creates it; or correct options.path.",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", code="TARN-3740", where=str(path)
        ) from error


def open_to_others(path: Path) -> bool:
    """Return whether users other than the owner may access the file."""
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def change_keystore(path: Path, edit: Callable[[bytes], bytes]) -> None:
    """Replace the content of *path*, which may be missing, by the result of *edit*.

    Readers see the old keystore or the new one, even after a power failure; two changes at once are
    made one after the other. Afterwards the mode is 0600; a link stays a link.

    Raises:
        ProviderError: TARN-3745; the old keystore stays.
    """
    target = Path(os.path.realpath(path))
    try:
        with _alone(target.parent):
            old = target.read_bytes() if target.exists() else b""
            _replace(target, edit(old))
    except OSError as error:
        raise ProviderError(
            "jceks",
            f"cannot be written ({error.strerror}); it is as it was",
            code="TARN-3745",
            where=str(path),
        ) from error


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Be the only writer of this kind."""
    # The directory itself is locked, so that the lock leaves no file behind.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        # The directory, too: otherwise a power failure may undo the renaming.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, data: bytes) -> None:
    # mkstemp makes it 0600: nobody else ever reads a part of it
    descriptor, made = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor has no path)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


PATIENCE_S = 60.0
"""A JVM starts within two seconds, and gives up on a name node that is away after some 20 s."""
_LAST_LINES = 6
# secrets and passwords go through its pipe only, never through arguments or the environment
_CHILD = (sys.executable, "-P", "-X", "utf8", "-m", "tarn_plugins.secrets.jceks.child")


@attrs.frozen
class KeystoreProcess:
    """Runs `tarn_plugins.secrets.jceks.child`, a process for each question."""

    context: ClientContext = attrs.field(repr=False)
    hadoop_home: str | None
    java_home: str | None
    private: tuple[str, ...] = ()
    """Environment variables of the client that the process must not get."""
    patience_s: float = PATIENCE_S
    command: tuple[str, ...] = _CHILD

    def ask(self, question: str, where: str, password: Secret | None, **parts: Any) -> Any:
        """Return the answer, as JSON values.

        Raises:
            ConfigError: The keystore or its password is wrong.
            ProviderError: Java, Hadoop or the file system failed.
            TimedOutError: No answer came in time; the process was killed.
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
                # So that Ctrl-C reaches only this process, which then kills the child.
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            # without its cause, whose text contains the password
            raise TimedOutError(
                f"Hadoop gave no answer within {self.patience_s:g} s",
                code="TARN-3744",
                where=where,
                next_step="Is the name node up, and does HADOOP_CONF_DIR name the right cluster?",
            ) from None
        return _answer(done, where)

    def _environ(self) -> dict[str, str]:
        """Return the child's environment: the client's, with this TARN, without passwords."""
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
    """Return the error that the child described."""
    found, code = told["found"], told["code"]
    right, step = told["right"], told["next_step"]
    if told["kind"] == "config":
        return ConfigError(found, code=code, where=where, right=right, next_step=step)
    if told["kind"] == "missing":
        return ProviderMissingError("jceks", found, next_step=step)
    return ProviderError("jceks", found, code=code, where=where, right=right, next_step=step)


class JceksStore:
    """A keystore of Hadoop's credential provider. One thread.

    pyjks reads a file of this machine, and Java writes it. A keystore in Hadoop is read and written
    by Hadoop's own provider, in a process with a JVM. Java keeps names in lower case, so the case
    of a name does not matter.
    """

    def __init__(self, settings: JceksSettings, context: ClientContext) -> None:
        self._settings = settings
        self._context = context
        self._place = place(settings.path)
        kind, _, name = settings.password.partition(":")
        private = (name,) if kind == "env" else ()
        self._java = KeystoreProcess(context, settings.hadoop_home, settings.java_home, private)
        self._values: Mapping[str, Secret] | None = None

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted and in lower case."""
        return tuple(sorted(self._all()))

    def read(self, name: str) -> Secret:
        """Return one secret."""
        found = self._all().get(name.lower())
        if found is None:
            raise NotFoundError(
                f"there is no secret '{name}'",
                code="TARN-3743",
                where=str(self._place),
                right=f"There are: {', '.join(self.names()) or 'none'}.",
            )
        return found

    def write(self, name: str, value: str) -> None:
        """Store *value*; a missing keystore is created with the mode 0600."""
        if not value:
            raise ProviderError(
                "jceks",
                f"'{name}' would be empty, and a Java keystore cannot hold an empty value",
                code="TARN-3743",
                where=str(self._place),
            )
        guard = password(self._settings.password, self._context.environ)
        self._values = None
        if isinstance(self._place, LocalKeystore):
            self._edit(self._place, guard, name.lower(), value)
        else:
            uri, provider = self._place.uri, self._place.provider
            self._java.ask(
                "write",
                str(self._place),
                guard,
                uri=uri,
                provider=provider,
                name=name.lower(),
                value=value,
            )

    def _edit(self, at: LocalKeystore, guard: Secret | None, name: str, value: str) -> None:
        def changed(data: bytes) -> bytes:
            made = self._java.ask(
                "edit",
                str(at),
                guard,
                data=base64.b64encode(data).decode(),
                name=name,
                value=value,
            )
            return base64.b64decode(made)

        change_keystore(at.path, changed)

    def _all(self) -> Mapping[str, Secret]:
        if self._values is None:
            guard = password(self._settings.password, self._context.environ)
            self._values = self._read(guard)
        return self._values

    def _read(self, guard: Secret | None) -> Mapping[str, Secret]:
        where = str(self._place)
        if isinstance(self._place, LocalKeystore):
            data = read_keystore(self._place.path)
            found = keystore.secrets(data, guard.reveal() if guard else HADOOPS_DEFAULT, where)
            self._warn(open_to_others=open_to_others(self._place.path))
            return found
        told = self._java.ask(
            "read", where, guard, uri=self._place.uri, provider=self._place.provider
        )
        self._warn(open_to_others=told["open"])
        return {name: Secret(value) for name, value in told["values"].items()}

    def _warn(self, *, open_to_others: bool) -> None:
        if open_to_others:
            text = f"{self._place}: users other than its owner may read it (TARN-3746): chmod 600"
            self._context.progress(Progress("preflight", text, note=True))
