"""Secrets in a keystore of Hadoop's credential provider: on this machine, or where Hadoop reads."""

from collections.abc import Mapping

import attrs

from tarn.hookspecs import SecretStoreFactory, hookimpl
from tarn.interfaces import ClientContext, SecretStore
from tarn_plugins.secrets.jceks.place import place

__all__ = ["JceksSettings", "tarn_secret_stores"]


@attrs.frozen
class JceksSettings:
    """``secrets[].options`` of ``jceks``."""

    path: str = attrs.field(metadata={"path": True})
    """A file of this machine, a URI that Hadoop reads (``hdfs:///user/me/hf.jceks``), or the name
    of a provider as `hadoop credential` writes it (``jceks://hdfs/user/me/hf.jceks``)."""
    password: str = "default"  # noqa: S105 (a kind, not a secret)
    """Of the keystore: ``file:PATH``, ``env:NAME``, or ``default``: what Hadoop takes itself."""
    names: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Which environment variable an instance gets from a secret, by the secret's name, where it is
    another one than ``HUGGING_FACE_HUB_TOKEN`` and ``HF_TOKEN`` from ``huggingface.token`` and
    ``NAME`` from ``tarn.env.name``."""
    hadoop_home: str | None = None
    """Directory of a Hadoop client, for a keystore that Hadoop reads; null: as its environment
    says."""
    java_home: str | None = None
    """Directory of a Java, for a keystore that Hadoop reads and to write any; null: as its
    environment says."""

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be meant, before anything is opened."""
        place(self.path)
        kind, colon, name = self.password.partition(":")
        # Never the value: somebody may have put the password itself here.
        if not (self.password == "default" or (kind in {"file", "env"} and colon and name)):  # noqa: S105 (a kind)
            raise ValueError("password does not say where; use default, file:PATH or env:NAME")
        if kind == "file" and not name.startswith(("/", "~")):
            raise ValueError("password names a relative path; use an absolute one: file:/etc/hf.pw")


def _store(settings: JceksSettings, context: ClientContext) -> SecretStore:
    from tarn_plugins.secrets.jceks.store import JceksStore  # noqa: PLC0415 (only clients need it)

    return JceksStore(settings, context)


def _names(settings: JceksSettings) -> Mapping[str, str]:
    """Return the user's choices by the names that a keystore of Java's keeps: in lower case."""
    return {name.lower(): variable for name, variable in settings.names.items()}


@hookimpl
def tarn_secret_stores() -> Mapping[str, SecretStoreFactory]:
    """Offer ``jceks``."""
    return {
        "jceks": SecretStoreFactory(
            JceksSettings,
            _store,
            "a JCEKS keystore, on this machine or where Hadoop reads",
            extra="secrets",
            names=_names,
        )
    }
