"""Secret stores with one fault each."""

from tarn.errors import NotFoundError
from tarn.interfaces import Secret
from tarn.testing.fakes import FakeSecretStore


class _Open(Secret):
    def __repr__(self) -> str:
        return f"<secret {self.reveal()}>"


class _HalfMasked(Secret):
    def __str__(self) -> str:
        return self.reveal()


class ShowsInRepr(FakeSecretStore):
    """Gives secrets that print themselves."""

    def read(self, name: str) -> Secret:
        return _Open(super().read(name).reveal())


class ShowsInStr(FakeSecretStore):
    """Masks the repr, and not the text."""

    def read(self, name: str) -> Secret:
        return _HalfMasked(super().read(name).reveal())


class ShowsAll(FakeSecretStore):
    """Prints what it holds."""

    def __repr__(self) -> str:
        return f"FakeSecretStore({[self.read(name).reveal() for name in self.names()]})"


class ListsAsStored(FakeSecretStore):
    """Does not sort the names."""

    def names(self) -> tuple[str, ...]:
        return tuple(reversed(super().names()))


class GivesNothingForTheMissing(FakeSecretStore):
    """Answers an unknown name with an empty secret."""

    def read(self, name: str) -> Secret:
        return super().read(name) if name in self.names() else Secret("")


class RaisesForeignErrors(FakeSecretStore):
    """Lets a KeyError out."""

    def read(self, name: str) -> Secret:
        if name not in self.names():
            raise KeyError(name)
        return super().read(name)


class ExplainsTooMuch(FakeSecretStore):
    """Names the values that it has when one is missing."""

    def read(self, name: str) -> Secret:
        if name not in self.names():
            held = [super(ExplainsTooMuch, self).read(n).reveal() for n in self.names()]
            raise NotFoundError(f"no {name!r} among {held}")
        return super().read(name)


class KeepsTheFirst(FakeSecretStore):
    """Does not replace a value."""

    def write(self, name: str, value: str) -> None:
        if name not in self.names():
            super().write(name, value)


class StripsValues(FakeSecretStore):
    """Takes white space for an accident."""

    def write(self, name: str, value: str) -> None:
        super().write(name, value.strip())


class WritesAscii(FakeSecretStore):
    """Loses what is beyond ASCII."""

    def write(self, name: str, value: str) -> None:
        super().write(name, value.encode("ascii", "replace").decode())


class KeepsOneValue(FakeSecretStore):
    """Gives the last value for every name."""

    def write(self, name: str, value: str) -> None:
        for known in (*self.names(), name):
            super().write(known, value)
