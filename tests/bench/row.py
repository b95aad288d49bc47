"""One line of the performance table."""

import attrs


@attrs.frozen
class Row:
    """What was measured, what was aimed at, and what it is compared with."""

    name: str
    value: float
    """The median of at least five rounds."""
    unit: str
    aim: float | None = None
    """No more than this; None: only watched."""
    baseline_name: str = ""
    baseline_value: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the value is above its aim."""
        return self.aim is not None and self.value > self.aim
