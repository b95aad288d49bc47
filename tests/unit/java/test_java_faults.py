"""Java's exceptions in words, with plain objects in the place of Java's."""

from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from tarn.java import describe, mask


@attrs.define
class Kind:
    name: str
    above: Any = None

    def getName(self) -> str:  # noqa: N802
        return self.name

    def getSuperclass(self) -> Any:  # noqa: N802
        return self.above


THROWABLE = Kind("java.lang.Throwable", Kind("java.lang.Object"))
IO = Kind("java.io.IOException", THROWABLE)
REMOTE = Kind("org.apache.hadoop.ipc.RemoteException", IO)


@attrs.define
class Thrown:
    """What JPype gives for a Throwable."""

    kind: Kind = IO
    message: str | None = None
    cause: Any = None
    server: str = ""

    def getClass(self) -> Kind:  # noqa: N802
        return self.kind

    def getMessage(self) -> str | None:  # noqa: N802
        return self.message

    def getCause(self) -> Any:  # noqa: N802
        return self.cause

    def getClassName(self) -> str:  # noqa: N802
        return self.server


def test_the_class_the_first_line_and_the_root() -> None:
    """A person reads one line, not a stack trace."""
    root = Thrown(Kind("java.net.ConnectException", IO), "Connection refused")
    fault = describe(Thrown(IO, "\n\tat a.B.c(B.java:1)\n  Failed on local host\n\tat d", root))
    assert str(fault) == "IOException: Failed on local host (cause: Connection refused)"
    assert fault.is_a("java.net.ConnectException")
    assert not fault.is_a("java.lang.Object")


def test_a_servers_exception_is_known_by_its_own_class() -> None:
    """RemoteException is the envelope."""
    gone = "org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException"
    fault = describe(Thrown(REMOTE, f"{gone}: attempt is gone\n\tat x.Y.z", server=gone))
    assert fault.kinds[0] == gone
    assert str(fault) == "ApplicationAttemptNotFoundException: attempt is gone"


def test_an_inner_class_is_called_by_its_name() -> None:
    """`SecretManager$InvalidToken` is InvalidToken."""
    fault = describe(Thrown(Kind("org.x.SecretManager$InvalidToken", IO), "Token has expired"))
    assert str(fault) == "InvalidToken: Token has expired"


def test_nothing_said_is_still_a_name() -> None:
    """A NullPointerException has no message, and a ring of causes ends."""
    assert str(describe(Thrown(Kind("java.lang.NullPointerException", THROWABLE)))) == (
        "NullPointerException"
    )
    ring = Thrown(IO, "round")
    ring.cause = ring
    assert str(describe(ring)) == "IOException: round"


def test_long_messages_are_cut() -> None:
    """Some hold a whole request."""
    assert len(describe(Thrown(IO, "x" * 5000)).message) == 500


SECRET = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGH0123456789_-%", min_size=12)


@given(SECRET, st.sampled_from(["delegation", "token", "fs.s3a.secret.key", "user.password"]))
def test_no_secret_is_in_the_words(secret: str, name: str) -> None:
    """Whatever Java puts into a URL or a property."""
    cause = Thrown(IO, f"GET http://nn:9870/x?op=OPEN&{name}={secret}&offset=0 failed")
    text = str(describe(Thrown(IO, f"{name}={secret}", cause)))
    assert secret not in text.replace(name, "")
    assert "offset=0 failed" in text


@given(SECRET)
def test_a_password_in_an_address_is_masked(secret: str) -> None:
    """`user:password@host` is an old habit."""
    assert secret not in mask(f"cannot reach https://bob:{secret}@host:1/a")
    assert mask("InvalidToken: token (for alice) can't be found") == (
        "InvalidToken: token (for alice) can't be found"
    )
