"""The contracts of an authorizer and of a user directory."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tarn.domain import ANONYMOUS, Principal, Readiness, Verdict
from tarn.domain.access import FLEET_ACTIONS, MODEL_ACTIONS
from tarn.hookspecs import Factory
from tarn.interfaces import Authorizer, UserDirectory
from tarn.testing.context import master_context
from tarn.testing.strategies import for_any, principals, texts
from tarn.testing.wait import within

__all__ = ["AuthorizerContract", "UserDirectoryContract"]

_THREADS = 8
_ALL_WITHIN_S = 60.0


class AuthorizerContract:
    """Set `factory` and `settings`; `askers` should get different answers if possible."""

    factory: Factory[Authorizer]
    settings: Mapping[str, Any] = {}
    answer_within_s: float = 5.0
    """Seconds that a caller waits."""
    askers: tuple[Principal, ...] = (
        ANONYMOUS,
        Principal("ops", frozenset({"ml-admins"}), "token"),
        Principal("alice", frozenset({"users"}), "spnego"),
    )
    actions: tuple[str, ...] = (*MODEL_ACTIONS, *FLEET_ACTIONS, "no such action", "")

    def make(self, tmp_path: Path) -> Authorizer:
        """Return the authorizer under test, made by its factory."""
        made = self.factory.settings(**self.settings)
        return self.factory.create(made, master_context(tmp_path))

    def test_answers_in_time(self, tmp_path: Path) -> None:
        """A caller waits for seconds, and denies when the answer is late."""
        authorizer = self.make(tmp_path)
        _check(within(self.answer_within_s, lambda: authorizer.check(ANONYMOUS, "infer", "ocr")))

    def test_answers_every_action_with_a_verdict(self, tmp_path: Path) -> None:
        """Each principal gets an answer with a reason, for unknown actions too."""
        authorizer = self.make(tmp_path)
        for principal in self.askers:
            for action in self.actions:
                _check(authorizer.check(principal, action, "ocr"))
                _check(authorizer.check(principal, action, ""))

    @for_any(principal=principals, action=texts, model=texts)
    def test_answers_whatever_is_asked(
        self, tmp_path: Path, principal: Principal, action: str, model: str
    ) -> None:
        """Names come from the network: no name may make it raise."""
        _check(self.make(tmp_path).check(principal, action, model))

    def test_the_same_question_gets_the_same_answer(self, tmp_path: Path) -> None:
        """Other questions in between change no answer."""
        authorizer = self.make(tmp_path)
        first = self._answers(authorizer)
        assert self._answers(authorizer) == first

    def test_a_list_of_models_gets_the_answers_of_each(self, tmp_path: Path) -> None:
        """The answers come in the order of the models; an empty list gets none."""
        authorizer = self.make(tmp_path)
        models = ("ocr", "llama", "ocr", "", "no/such model")
        for principal in self.askers:
            for action in self.actions:
                each = tuple(authorizer.check(principal, action, model) for model in models)
                assert authorizer.check_each(principal, action, models) == each
                assert authorizer.check_each(principal, action, ()) == ()

    def test_closes_twice(self, tmp_path: Path) -> None:
        """A master closes it within a second; closing it again does nothing."""
        authorizer = self.make(tmp_path)
        authorizer.check(ANONYMOUS, "infer", "ocr")
        for _ in range(2):
            within(1.0, authorizer.close)

    def test_many_threads_get_the_answers_of_one(self, tmp_path: Path) -> None:
        """Eight threads ask at once, and each gets its own answers."""
        authorizer = self.make(tmp_path)
        expected = self._answers(authorizer)
        with ThreadPoolExecutor(_THREADS) as pool:
            asked = [pool.submit(self._answers, authorizer) for _ in range(_THREADS * 4)]
            for answers in asked:
                assert answers.result(_ALL_WITHIN_S) == expected

    def test_says_whether_it_is_ready(self, tmp_path: Path) -> None:
        """Not being ready has a reason."""
        authorizer = self.make(tmp_path)
        readiness = within(self.answer_within_s, authorizer.ready)
        assert isinstance(readiness, Readiness)
        assert isinstance(readiness.ready, bool)
        assert readiness.ready or readiness.reason.strip()

    def test_allows_nobody_while_it_is_not_ready(self, tmp_path: Path) -> None:
        """An authorizer that is not ready denies, unless it marks its answer as stale."""
        authorizer = self.make(tmp_path)
        if not authorizer.ready().ready:
            for principal in self.askers:
                verdict = authorizer.check(principal, "admin", "")
                assert verdict.stale or not verdict.allowed

    def _answers(self, authorizer: Authorizer) -> list[bool]:
        return [
            authorizer.check(principal, action, "ocr").allowed
            for action in self.actions
            for principal in self.askers
        ]


def _check(verdict: Verdict) -> None:
    assert isinstance(verdict, Verdict)
    assert isinstance(verdict.allowed, bool)
    assert isinstance(verdict.stale, bool)
    assert verdict.reason.strip(), "a verdict without a reason explains nothing"


class UserDirectoryContract:
    """Override `make`; set `known` to a user with groups if there is one."""

    own: str = ""
    """A principal of the cluster's own realm; empty: there is none."""
    own_short: str = ""
    """The user name of `own`."""
    foreign: str = "mallory@ELSEWHERE.EXAMPLE"
    """A principal of a realm without a rule."""
    known: str = ""
    """A user who is in `known_group`; empty: there is none."""
    known_group: str = ""
    unknown: str = "nobody-of-this-name-7"

    def make(self, tmp_path: Path) -> UserDirectory:
        """Return the user directory under test."""
        raise NotImplementedError

    def test_a_principal_of_the_own_realm_has_a_name(self, tmp_path: Path) -> None:
        """It has the same name each time."""
        names = self.make(tmp_path)
        if self.own:
            assert [names.short(self.own) for _ in range(2)] == [self.own_short] * 2

    def test_nobody_of_another_realm_has_a_name(self, tmp_path: Path) -> None:
        """Otherwise a user of any realm could act as this cluster's user of the same name."""
        assert _refused(self.make(tmp_path), self.foreign)

    @for_any(examples=30, text=texts)
    def test_nonsense_has_no_name(self, tmp_path: Path, text: str) -> None:
        """Names come from the network: a principal of an unknown realm has no user name."""
        assert _refused(self.make(tmp_path), f"{text}@NO-SUCH-REALM.EXAMPLE")

    def test_somebody_known_is_in_their_groups(self, tmp_path: Path) -> None:
        """The groups are a frozen set of names."""
        names = self.make(tmp_path)
        if self.known:
            groups = names.groups(self.known)
            assert isinstance(groups, frozenset)
            assert self.known_group in groups

    def test_somebody_unknown_is_in_no_group(self, tmp_path: Path) -> None:
        """There is no group of all users."""
        assert self.make(tmp_path).groups(self.unknown) == frozenset()

    def test_many_threads_get_the_answers_of_one(self, tmp_path: Path) -> None:
        """Eight threads ask at once, and each gets its own answers."""
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
    """Return the user name of *principal*; '' if the directory has none, or raises."""
    try:
        return names.short(principal)
    except Exception:  # noqa: BLE001 (any exception means that there is no name)
        return ""


def _refused(names: UserDirectory, principal: str) -> bool:
    return _short(names, principal) == ""
