"""Names with one fault each."""

import threading

from tarn.testing.fakes import FakeUserDirectory


class LetsInEveryRealm(FakeUserDirectory):
    """Cuts off the realm, whichever it is."""

    def short(self, principal: str) -> str:
        return principal.partition("@")[0]


class GivesAVisitorsName(FakeUserDirectory):
    """Has a name for whom it does not know."""

    def short(self, principal: str) -> str:
        return super().short(principal) or "visitor"


class ChangesItsMind(FakeUserDirectory):
    """Knows somebody once."""

    def short(self, principal: str) -> str:
        first = self.__dict__.setdefault("asked", set())
        new = principal not in first
        first.add(principal)
        return super().short(principal) if new else ""


class PutsStrangersIntoAGroup(FakeUserDirectory):
    """Everybody is in the group `users`."""

    def groups(self, user: str) -> frozenset[str]:
        return super().groups(user) | {"users"}


class GivesAList(FakeUserDirectory):
    """Gives a set that others can change."""

    def groups(self, user: str) -> frozenset[str]:
        return set(super().groups(user))  # type: ignore[return-value]


class MixesUpThreads(FakeUserDirectory):
    """Keeps the asked name in itself while it looks."""

    def groups(self, user: str) -> frozenset[str]:
        self.__dict__["user"] = user
        threading.Event().wait(0.0005)
        return super().groups(self.__dict__["user"])
