"""Ceiling sources with one fault each."""

import threading
from collections.abc import Mapping

from tarn.domain import Known, Sample, Unknown
from tarn.errors import UnreachableError
from tarn.testing.fakes import FakeCeilingSource


class TakesUnknownForZero(FakeCeilingSource):
    """Grants nothing when the farm does not answer."""

    def ceiling(self) -> Sample[int]:
        answer = super().ceiling()
        return Known(0) if isinstance(answer, Unknown) else answer


class KeepsTheLast(FakeCeilingSource):
    """Goes on with an old number when the farm is away."""

    def ceiling(self) -> Sample[int]:
        answer = super().ceiling()
        if isinstance(answer, Known):
            self.__dict__["last"] = answer
        return self.__dict__.get("last", answer)


class AsksOnce(FakeCeilingSource):
    """Does not notice that the grant changed."""

    def ceiling(self) -> Sample[int]:
        first = self.__dict__.get("first")
        answer = super().ceiling()
        if isinstance(answer, Unknown):
            return answer
        return self.__dict__.setdefault("first", answer) if first is None else first


class TakesZeroForNothing(FakeCeilingSource):
    """Takes a ceiling of zero for the want of one."""

    def ceiling(self) -> Sample[int]:
        answer = super().ceiling()
        if isinstance(answer, Known) and not answer.value:
            return Unknown("nothing granted")
        return answer


class RaisesWhenAway(FakeCeilingSource):
    """Raises instead of saying that it does not know."""

    def ceiling(self) -> Sample[int]:
        if self.farm.away:
            raise UnreachableError(self.farm.away)
        return super().ceiling()


class RaisesAtRegistering(FakeCeilingSource):
    """Raises when it cannot register."""

    def register(self, status: Mapping[str, object]) -> None:
        if self.farm.away:
            raise UnreachableError(self.farm.away)
        super().register(status)


class GrantsFractions(FakeCeilingSource):
    """Grants a float."""

    def ceiling(self) -> Sample[int]:
        answer = super().ceiling()
        return Known(float(answer.value)) if isinstance(answer, Known) else answer  # type: ignore[arg-type]


class GrantsLessEachTime(FakeCeilingSource):
    """Takes every registration for another cluster."""

    def register(self, status: Mapping[str, object]) -> None:
        super().register(status)
        if len(self.farm.statuses) > 1:
            self.farm.granted -= 1


class WritesIntoTheStatus(FakeCeilingSource):
    """Changes what belongs to the caller."""

    def register(self, status: Mapping[str, object]) -> None:
        super().register(status)
        status["registered"] = True  # type: ignore[index]


class AnswersANumber(FakeCeilingSource):
    """Gives a number where a sample is asked for."""

    def ceiling(self) -> Sample[int]:
        answer = super().ceiling()
        return answer.value if isinstance(answer, Known) else answer  # type: ignore[return-value]


class WaitsForTheFarm(FakeCeilingSource):
    """Waits longer than it may when the farm is away."""

    def ceiling(self) -> Sample[int]:
        if self.farm.away:
            threading.Event().wait(0.8)
        return super().ceiling()


class IsAwayWithoutReason(FakeCeilingSource):
    """Does not say why it does not know."""

    def ceiling(self) -> Sample[int]:
        answer = super().ceiling()
        return Unknown("") if isinstance(answer, Unknown) else answer
