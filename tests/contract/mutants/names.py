"""Names with one fault each."""

import threading

from tarn.testing.fakes import FakeNames


class LetsInEveryRealm(FakeNames):
    """Cuts off the realm, whichever it is."""

    def short(self, principal: str) -> str:
        return principal.partition("@")[0]


class GivesAVisitorsName(FakeNames):
    """Has a name for whom it does not know."""

    def short(self, principal: str) -> str:
        return super().short(principal) or "visitor"


class ChangesItsMind(FakeNames):
    """Knows somebody once."""

    def short(self, principal: str) -> str:
        first = self.__dict__.setdefault("asked", set())
        new = principal not in first
        first.add(principal)
        return super().short(principal) if new else ""


class PutsStrangersIntoAGroup(FakeNames):
    """Everybody is in the group `users`."""

    def groups(self, user: str) -> frozenset[str]:
        return super().groups(user) | {"users"}


class GivesAList(FakeNames):
    """Gives a set that others can change."""

    def groups(self, user: str) -> frozenset[str]:
        return set(super().groups(user))  # type: ignore[return-value]


class MixesUpThreads(FakeNames):
    """Keeps the asked name in itself while it looks."""

    def groups(self, user: str) -> frozenset[str]:
        self.__dict__["user"] = user
        threading.Event().wait(0.0005)
        return super().groups(self.__dict__["user"])
