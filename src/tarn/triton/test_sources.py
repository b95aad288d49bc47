"""Which test requests there are for the models of a fleet, and what is known of each.

One object for a whole fleet. The scraper's thread tells it what was learned; any thread may ask it.
Each change is of one entry, so nobody sees a half of it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tarn.triton.made_tests import MadeFrom, made_from
from tarn.triton.test_requests import MADE, TestRequest

__all__ = ["KnownTests"]


class KnownTests:
    """Finds the test request for a model.

    Args:
        written: Those of the user's file, then warm-up requests; of two for one model the first
            counts, and the next one when that is unfit.
        off: The user wants none (``instance.test_request: none``).
    """

    def __init__(self, written: Iterable[TestRequest] = (), *, off: bool = False) -> None:
        self._written, self._off = tuple(written), off
        self._made: dict[str, MadeFrom] = {}
        self._built: dict[str, TestRequest | None] = {}
        """Requests of `_made` that were asked for: the control thread asks in every tick."""
        self._proven: set[tuple[str, str]] = set()
        self._unfit: dict[tuple[str, str], str] = {}

    def learn(self, model: str, config: Mapping[str, Any]) -> None:
        """Take what a Triton answered for the configuration of *model*."""
        made = made_from(model, config)
        if made != self._made.get(model):
            self._made[model] = made
            self._built.pop(model, None)
            self._proven.discard((model, MADE))
            self._unfit.pop((model, MADE), None)

    def is_proven(self, test: TestRequest) -> bool:
        """Return whether an instance has answered this request well."""
        return _key(test) in self._proven

    def prove(self, test: TestRequest) -> None:
        """Note that an instance has."""
        self._proven.add(_key(test))

    def refuse(self, test: TestRequest, why: str) -> None:
        """Note that this request says nothing of any instance: the next source is taken."""
        self._unfit[_key(test)] = why

    def is_unfit(self, test: TestRequest) -> bool:
        """Return whether this request says nothing of any instance."""
        return _key(test) in self._unfit

    def test_for(self, model: str, number: int = 1, timeout_s: float = 10.0) -> TestRequest | None:
        """Return the test request for *model*; None where there is none, or none is wanted.

        Args:
            model: Its name.
            number: Of the test; another number is another test.
            timeout_s: For all of it.
        """
        if self._off:
            return None
        made = self._made.get(model)
        of_model = (test for test in self._written if test.model == model)
        fit = (test for test in of_model if _key(test) not in self._unfit)
        found = next(fit, None)
        if found is None and (model, MADE) not in self._unfit:
            found = None if made is None else self._built_from(made)
        if found is None:
            return None
        copies = 1 if made is None else made.copies
        return attrs.evolve(found, number=number, timeout_s=timeout_s, copies=copies)

    def _built_from(self, made: MadeFrom) -> TestRequest | None:
        if made.model not in self._built:
            self._built[made.model] = made.request()
        return self._built[made.model]

    def tests_for(
        self, suspect: str, model: str, number: int, *, peer: str = "", timeout_s: float = 10.0
    ) -> dict[str, TestRequest]:
        """Return which instances get a test request now, so that *suspect* is told from its model.

        Args:
            suspect: The instance that seems to fail its users.
            model: The model that it fails in.
            number: Of the test.
            peer: Another instance that serves the model. It is asked too where the request is made
                of zeros and no instance has answered it yet: the model may refuse zeros.
            timeout_s: For each.
        """
        test = self.test_for(model, number, timeout_s)
        if test is None:
            return {}
        asked = [suspect]
        if peer and test.source == MADE and not self.is_proven(test):
            asked.append(peer)
        return dict.fromkeys(asked, test)

    def why_none(self, model: str) -> str:
        """Return why there is no test request for *model*, in words; empty where there is one."""
        if self._off:
            return "instance.test_request is none"
        if self.test_for(model) is not None:
            return ""
        made = self._made.get(model)
        if made is None:
            return "its configuration is not known yet"
        return (
            made.unsafe
            or f"the generated request was refused: {self._unfit.get((model, MADE), '')}"
        )


def _key(test: TestRequest) -> tuple[str, str]:
    return test.model, test.source
