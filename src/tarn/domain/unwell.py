"""What is wrong with an instance that says it is well: the mark that outcomes put on it."""

import enum
from typing import NamedTuple

import attrs

__all__ = ["Ejection", "FirstSign", "FleetWideFailure", "Symptom", "Unwell"]


class Symptom(enum.StrEnum):
    """What the outcomes of its requests show."""

    FAILING = "failing"
    """It fails far more requests than other instances of the same model, or than it did before."""
    STALLED = "stalled"
    """Requests wait in it, and none has completed for much longer than the model takes."""
    SLOW = "slow"
    """The model computes several times as long as elsewhere: told, and nothing else."""

    @property
    def severe(self) -> bool:
        """Whether requests are lost by it."""
        return self is not Symptom.SLOW


class FirstSign(NamedTuple):
    """What one look has shown, which no other has confirmed yet."""

    since_s: float
    """Monotonic second of the first look that showed it."""
    model: str = ""
    said: str = ""
    """What was seen, in words."""


@attrs.frozen
class Unwell:
    """One instance that health checks pass and that fails its users, as far as was found out."""

    symptom: Symptom
    model: str
    said: str
    """What was seen, in words."""
    since_s: float
    """Monotonic second at which it was marked."""
    ejected: bool = False
    """It is out of the view for it."""
    tests: int = 0
    """Number of the newest test request that counted."""
    passed: int = 0
    """Test requests in a row that were answered well."""
    lost: int = 0
    """Test requests in a row that failed."""
    answer: str = ""
    """What the newest failed test request brought: Triton's own error, or that none came."""
    confirmed_s: float | None = None
    """Monotonic second at which it was proven; None: it is only suspected."""
    calm_s: float | None = None
    """Monotonic second since which nothing speaks against it any more, where it serves on."""
    alone: bool = False
    """No other instance could be compared with it: it was judged by its own past."""
    for_all: bool = False
    """Its model fails on all instances alike, and it gets the test requests for all of them."""

    @property
    def severe(self) -> bool:
        """Whether it fails its users; one that is only slow does not."""
        return self.symptom.severe

    @property
    def confirmed(self) -> bool:
        """Whether it was proven."""
        return self.confirmed_s is not None

    @property
    def words(self) -> str:
        """What was seen, and what a test request brought."""
        if self.answer:
            return f"{self.said}; a test request: {self.answer}"
        passed = "a test request was" if self.passed == 1 else f"{self.passed} test requests were"
        return f"{self.said}; {passed} answered well" if self.passed else self.said


@attrs.frozen
class Ejection:
    """How often an instance was ejected lately, and since when it is back."""

    count: int
    back_s: float
    """Monotonic second at which it came back: what it did before counts no more."""


@attrs.frozen
class FleetWideFailure:
    """A model that fails on all instances alike: the model or its callers, not the instances."""

    model: str
    symptom: Symptom
    said: str
    since_s: float
    seen_s: float
    """Monotonic second at which it was seen so last."""
    asked: str = ""
    """Id of the instance that gets the test requests for it."""
