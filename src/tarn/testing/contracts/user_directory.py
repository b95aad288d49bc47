"""What names promise: a no where nobody knows better, and the same answer to everybody."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tarn.interfaces import UserDirectory
from tarn.testing.strategies import for_any, texts

__all__ = ["UserDirectoryContract"]

_THREADS = 8
_ALL_WITHIN_S = 60.0


class UserDirectoryContract:
    """Override `make`; `known` should name somebody who has groups, where there is one."""

    own: str = ""
    """A principal of the cluster's own realm; empty: none is known."""
    own_short: str = ""
    """The name of `own`."""
    foreign: str = "mallory@ELSEWHERE.EXAMPLE"
    """A principal of a realm for which there is no rule."""
    known: str = ""
    """A user who is in `known_group`; empty: nobody is known."""
    known_group: str = ""
    unknown: str = "nobody-of-this-name-7"

    def make(self, tmp_path: Path) -> UserDirectory:
        """Return the names under test."""
        raise NotImplementedError

    def test_a_principal_of_the_own_realm_has_a_name(self, tmp_path: Path) -> None:
        """The same each time."""
        names = self.make(tmp_path)
        if self.own:
            assert [names.short(self.own) for _ in range(2)] == [self.own_short] * 2

    def test_nobody_of_another_realm_has_a_name(self, tmp_path: Path) -> None:
        """Else the alice of any realm would be this cluster's."""
        assert _refused(self.make(tmp_path), self.foreign)

    @for_any(examples=30, text=texts)
    def test_nonsense_has_no_name(self, tmp_path: Path, text: str) -> None:
        """Names come from the network: without a realm that is known they lead nowhere."""
        assert _refused(self.make(tmp_path), f"{text}@NO-SUCH-REALM.EXAMPLE")

    def test_somebody_known_is_in_their_groups(self, tmp_path: Path) -> None:
        """By name, as a set that nobody can change."""
        names = self.make(tmp_path)
        if self.known:
            groups = names.groups(self.known)
            assert isinstance(groups, frozenset)
            assert self.known_group in groups

    def test_somebody_unknown_is_in_no_group(self, tmp_path: Path) -> None:
        """No group is everybody's."""
        assert self.make(tmp_path).groups(self.unknown) == frozenset()

    def test_many_threads_get_the_answers_of_one(self, tmp_path: Path) -> None:
        """Eight threads ask at once, and nobody gets another's answer."""
        names = self.make(tmp_path)
        asked = [self.own, self.foreign, *(f"user{n}@ELSEWHERE.EXAMPLE" for n in range(4))] * 4
        users = [self.known, self.unknown] * 12
        shorts, groups = [_short(names, one) for one in asked], [names.groups(u) for u in users]
        with ThreadPoolExecutor(_THREADS) as pool:
            found = [pool.submit(_short, names, one) for one in asked]
            in_groups = [pool.submit(names.groups, one) for one in users]
            assert [one.result(_ALL_WITHIN_S) for one in found] == shorts
            assert [one.result(_ALL_WITHIN_S) for one in in_groups] == groups


def _short(names: UserDirectory, principal: str) -> str:
    """Return the name of *principal*; an exception is a no, like an empty name."""
    try:
        return names.short(principal)
    except Exception:  # noqa: BLE001 (whatever it raises is a no)
        return ""


def _refused(names: UserDirectory, principal: str) -> bool:
    return _short(names, principal) == ""
