"""What the control thread measures besides the fleet itself: its tally, and its models' looks."""

from tarn.control.scrape import Scraper
from tarn.domain import Fact
from tarn.domain.fleet import Fleet
from tarn.domain.model_totals import ModelTotalsHistory
from tarn.domain.tally import Tally
from tarn.interfaces import Clock

__all__ = ["Measures"]


class Measures:
    """Keeps both from one step to the next. Control thread only."""

    def __init__(self, fleet: Fleet, scraper: Scraper, clock: Clock) -> None:
        self._counted = fleet
        self._scraper, self._clock = scraper, clock
        self.tally = Tally(clock.at())
        self.models = ModelTotalsHistory()

    def count(self, fleet: Fleet, facts: tuple[Fact, ...], now_s: float, *, late: bool) -> None:
        """Count what happened since the last fleet, of which *facts* tell how instances ended."""
        before, self._counted = self._counted, fleet
        self.tally = self.tally.counted(before, fleet, facts, now_s)
        if late:
            self.tally = self.tally.was_late()

    def look(self, now_s: float) -> None:
        """Look at what the models did, once a second."""
        if self.models.due(now_s):
            self.models = self.models.looked(now_s, *self._scraper.model_totals())

    def ticked(self, began_s: float) -> None:
        """Note how long the step took that began then."""
        self.tally = self.tally.ticked(self._clock.now_s() - began_s)
