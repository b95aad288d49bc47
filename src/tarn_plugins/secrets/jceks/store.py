"""The store: one reading of the keystore answers every question, until something is written."""

import base64
from collections.abc import Mapping

from tarn.domain import Secret
from tarn.errors import NotFoundError, ProviderError
from tarn.interfaces import ClientContext, Progress
from tarn_plugins.secrets.jceks import JceksSettings, file, keystore
from tarn_plugins.secrets.jceks.java import KeystoreProcess
from tarn_plugins.secrets.jceks.password import HADOOPS_DEFAULT, password
from tarn_plugins.secrets.jceks.place import LocalKeystore, place

__all__ = ["JceksStore"]


class JceksStore:
    """A keystore of Hadoop's credential provider. One thread.

    A file of this machine is read by pyjks, and written by Java; one that Hadoop reads is read and
    written by Hadoop's own provider, in a process with a JVM. Java keeps names in lower case, so
    any other way to write a name means the same secret.
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
        """Store *value*; the keystore is made where it is missing, mode 0600."""
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

        file.change(at.path, changed)

    def _all(self) -> Mapping[str, Secret]:
        if self._values is None:
            guard = password(self._settings.password, self._context.environ)
            self._values = self._read(guard)
        return self._values

    def _read(self, guard: Secret | None) -> Mapping[str, Secret]:
        where = str(self._place)
        if isinstance(self._place, LocalKeystore):
            data = file.read(self._place.path)
            found = keystore.secrets(data, guard.reveal() if guard else HADOOPS_DEFAULT, where)
            self._warn(open_to_others=file.open_to_others(self._place.path))
            return found
        told = self._java.ask(
            "read", where, guard, uri=self._place.uri, provider=self._place.provider
        )
        self._warn(open_to_others=told["open"])
        return {name: Secret(value) for name, value in told["values"].items()}

    def _warn(self, *, open_to_others: bool) -> None:
        if open_to_others:
            text = (
                f"note: {self._place}: users other than its owner may read it (TARN-3746): "
                "chmod 600"
            )
            self._context.progress(Progress("preflight", text))
