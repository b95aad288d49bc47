"""Secrets in a keystore of Hadoop's credential provider, on this machine or in Hadoop."""

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
    """Where the keystore's password is: ``file:PATH``, ``env:NAME``, or ``default``, where Hadoop
    itself takes it from."""
    names: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Name of a secret to the environment variable in which an instance gets it. By default
    ``huggingface.token`` becomes ``HUGGING_FACE_HUB_TOKEN`` and ``HF_TOKEN``, and ``tarn.env.name``
    becomes ``NAME``."""
    hadoop_home: str | None = None
    """Directory of a Hadoop client, for a keystore in Hadoop; null: by the environment."""
    java_home: str | None = None
    """Directory of a Java, for a keystore in Hadoop, and to write any; null: by the environment."""

    def __attrs_post_init__(self) -> None:
        """Refuse invalid options before anything is opened."""
        place(self.path)
        kind, colon, name = self.password.partition(":")
        # The message never quotes the value: it may be the password itself.
        if not (self.password == "default" or (kind in {"file", "env"} and colon and name)):  # noqa: S105 (a kind)
            raise ValueError("password does not say where; use default, file:PATH or env:NAME")
        if kind == "file" and not name.startswith(("/", "~")):
            raise ValueError("password names a relative path; use an absolute one: file:/etc/hf.pw")


def _store(settings: JceksSettings, context: ClientContext) -> SecretStore:
    from tarn_plugins.secrets.jceks.store import JceksStore  # noqa: PLC0415 (only clients need it)

    return JceksStore(settings, context)


def _names(settings: JceksSettings) -> Mapping[str, str]:
    # a keystore of Java's keeps its names in lower case
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
