"""The built URLManager, which a distribution may carry, and how to build it."""

from pathlib import Path

from tarn.errors import ProviderError

__all__ = ["NAME", "content"]

NAME = "tarn-knox.jar"
_HERE = Path(__file__).parent


def content() -> bytes:
    """Return the jar.

    Raises:
        ProviderError: This distribution was made without it.
    """
    try:
        return (_HERE / NAME).read_bytes()
    except FileNotFoundError as error:
        raise ProviderError(
            "knox",
            f"this installation of TARN has no {NAME}",
            code="TARN-3310",
            next_step="In TARN's sources `nox -s knox_jar` builds it. Or compile it on Knox's own "
            f"machine: javac -proc:none -cp '/path/to/knox/dep/*:/path/to/knox/lib/*' -d classes "
            f"{_HERE / 'java/tarn/knox'}/*.java; then name tarn.knox.InstancesURLManager in "
            "classes/META-INF/services/org.apache.knox.gateway.ha.provider.URLManager, and pack "
            f"it: jar cf {NAME} -C classes .",
        ) from error
