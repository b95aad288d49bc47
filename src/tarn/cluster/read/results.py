"""Tables of a cluster's answers, as text, for notebooks, and as pandas frames."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, Self, TypeVar

from tarn.cluster.read import card
from tarn.cluster.read.frames import Frame, Plot, PlotPanel, PlotSeries, frame, plot
from tarn.cluster.read.records import (
    AlertRecord,
    EventRecord,
    HistoryRow,
    InstanceStatus,
    MetricRow,
    Record,
    SizeDecision,
    UsageRow,
)
from tarn.cluster.read.table import columns, moment

__all__ = [
    "Alerts",
    "Decisions",
    "Events",
    "History",
    "Instances",
    "Metrics",
    "Table",
    "Usage",
    "Words",
]

Row = Mapping[str, Any]
R = TypeVar("R", bound=Record)
# From here on numbers are shown without a fraction; below, six digits show all that matters.
_WHOLE = 1e5


class Table(tuple[R, ...], Generic[R]):
    """Records, printed as columns and shown by a notebook as a table."""

    __slots__ = ()

    TIMES: ClassVar[frozenset[str]] = frozenset()
    """Columns of wall seconds."""
    COLUMNS: ClassVar[tuple[str, ...]] = ()
    """The first columns, which are always present; others follow as the rows have them."""
    ROW: ClassVar[type[Record]] = Record

    @classmethod
    def read(cls, rows: Iterable[Row]) -> Self:
        """Return the table of a master's *rows*."""
        return cls(map(cls.ROW.from_answer, rows))  # type: ignore[arg-type]  # a ClassVar has no R

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        found = dict.fromkeys(self.COLUMNS)
        for row in self:
            found |= dict.fromkeys(row)
        return tuple(found)

    def to_pandas(self) -> Frame:
        """Return the rows as a DataFrame; wall seconds become UTC times.

        Raises:
            ProviderMissingError: pandas is not installed.
        """
        names = self.columns
        return frame(self, names, self.TIMES.intersection(names))

    def __str__(self) -> str:
        """Return the rows as columns of text."""
        names = self.columns
        return columns(
            [name.upper() for name in names],
            [[self._said(name, row.get(name)) for name in names] for row in self],
        )

    def _repr_html_(self) -> str:
        names = self.columns
        cells = [[self._said(name, row.get(name)) for name in names] for row in self]
        return card.rows([name.replace("_", " ") for name in names], cells)

    def _said(self, name: str, value: object) -> object:
        if name in self.TIMES and isinstance(value, int | float):
            return moment(value)
        if not isinstance(value, float):
            return value
        # A million requests must not become 1e+06.
        return f"{value:.0f}" if abs(value) >= _WHOLE else f"{value:.6g}"


class Instances(Table[InstanceStatus]):
    """Instances, by id; a notebook shows a table."""

    __slots__ = ()

    ROW = InstanceStatus
    COLUMNS = ("id", "state")

    def _repr_html_(self) -> str:
        return card.instances(self)


class Events(Table[EventRecord]):
    """Events, oldest first; a notebook shows a table."""

    __slots__ = ()

    ROW = EventRecord
    COLUMNS = ("code", "severity", "subject", "message", "first", "last", "count")
    TIMES = frozenset({"first", "last"})

    def _repr_html_(self) -> str:
        return card.events(self)


class Decisions(Table[SizeDecision]):
    """Decisions about the size, oldest first; a notebook shows a table."""

    __slots__ = ()

    ROW = SizeDecision
    COLUMNS = ("at", "wanted", "desired", "by", "reason", "held_back")
    TIMES = frozenset({"at"})

    def _repr_html_(self) -> str:
        return card.decisions(self)


class Alerts(Table[AlertRecord]):
    """The active alerts, newest first, then past ones; a notebook also shows what to do."""

    __slots__ = ()

    ROW = AlertRecord
    COLUMNS = ("active", "severity", "code", "title", "subject", "message", "since", "next_step")
    TIMES = frozenset({"since", "last"})

    def __str__(self) -> str:
        """Return the rows as columns of text."""
        heads = ("SINCE", "SEVERITY", "CODE", "SUBJECT", "MESSAGE")
        return columns(
            heads,
            (
                (
                    moment(row["since"]),
                    row["severity"] if row["active"] else f"({row['severity']})",
                    row["code"],
                    row["subject"],
                    row["message"],
                )
                for row in self
            ),
        )

    def _repr_html_(self) -> str:
        return card.alerts(self)


class Metrics(Table[MetricRow]):
    """The current samples of ``/metrics``: name, type, labels and value."""

    __slots__ = ()

    ROW = MetricRow
    COLUMNS = ("name", "type", "labels", "value")

    def to_pandas(self) -> Frame:
        """Return a frame with a column for each label; None where a sample has no such label.

        Raises:
            ProviderMissingError: pandas is not installed.
        """
        labels = dict.fromkeys(label for row in self for label in row["labels"])
        named = {label: f"label_{label}" if label in self.COLUMNS else label for label in labels}
        flat = (
            {
                **{named[label]: said for label, said in row["labels"].items()},
                "name": row["name"],
                "type": row["type"],
                "value": float(row["value"]),
            }
            for row in self
        )
        return frame(flat, ("name", *named.values(), "value", "type"))

    def _said(self, name: str, value: object) -> object:
        if name == "labels" and isinstance(value, Mapping):
            return ", ".join(f"{label}={said}" for label, said in value.items())
        return super()._said(name, value)


class Usage(Table[UsageRow]):
    """The usage of instances and models: a row each, by ``kind`` and ``name``.

    ``begun`` and ``until`` are the wall seconds of the sum. It is made of whole slots, so it may
    begin a little before the time that was requested.
    """

    ROW = UsageRow
    COLUMNS = (
        *("kind", "name", "requests", "failures"),
        *("request_s", "instance_s", "gpu_s"),
    )
    begun: float
    until: float

    @classmethod
    def of(cls, answer: Row) -> "Usage":
        """Return the rows of an answer of ``GET /api/v1/usage``."""
        kinds = (("instance", "id", "instances"), ("model", "name", "models"))
        rows = (
            {"kind": kind, "name": row[key], **{k: row.get(k) for k in cls.COLUMNS[2:]}}
            for kind, key, many in kinds
            for row in answer[many]
        )
        made = cls.read(rows)
        made.begun, made.until = answer["from"], answer["to"]
        return made


class History(Table[HistoryRow]):
    """A row for each step: sizes, load, queue, requests, latency; None where unknown."""

    ROW = HistoryRow
    COLUMNS = (
        *("at", "desired", "ready", "running", "load", "queue"),
        *("requests_per_s", "failures_per_s", "latency_ms"),
    )
    TIMES = frozenset({"at"})
    name: str = ""
    step_s: float = 0.0
    """The length of a step."""

    @classmethod
    def of(cls, name: str, answer: Row) -> "History":
        """Return the rows of an answer of ``GET /api/v1/history`` about the cluster *name*."""
        made = cls.read(dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"])
        made.name, made.step_s = name, answer["step_s"]
        return made

    def to_pandas(self) -> Frame:
        """Return a frame with the times as its index.

        Raises:
            ProviderMissingError: pandas is not installed.
        """
        return super().to_pandas().set_index("at")

    def load(self) -> Mapping[str, list[float]]:
        """Return the requests as a load that `Cluster.replay` takes: ``t_s``, ``requests_per_s``.

        A step without a known rate is left out, so the rate before it continues.
        """
        known = [(row["at"], row["requests_per_s"]) for row in self]
        rates = [(at, rate) for at, rate in known if rate is not None]
        if not rates:
            return {"t_s": [], "requests_per_s": []}
        begun = rates[0][0]
        ended = (rates[-1][0] + self.step_s, 0.0)
        steps = [*rates, ended]
        return {
            "t_s": [at - begun for at, _rate in steps],
            "requests_per_s": [rate for _at, rate in steps],
        }

    def plot(self) -> Plot:
        """Return a drawing: size, load, requests and latency over time.

        Raises:
            ProviderMissingError: matplotlib is not installed.
        """

        def line(key: str, label: str, colour: str, **shape: bool) -> PlotSeries:
            return PlotSeries(label, [row[key] for row in self], colour, **shape)

        blue, green, red, violet = "#3b82f6", "#16a34a", "#dc2626", "#8b5cf6"
        panels = (
            PlotPanel(
                "instances",
                (
                    line("desired", "desired", blue, stepped=True),
                    line("ready", "ready", green, stepped=True, filled=True),
                ),
                whole=True,
            ),
            PlotPanel("load", (line("load", "load", violet, filled=True),)),
            PlotPanel(
                "requests a second",
                (
                    line("requests_per_s", "answered", green, filled=True),
                    line("failures_per_s", "failed", red),
                ),
            ),
            PlotPanel("latency, ms", (line("latency_ms", "latency", blue),)),
        )
        moments = [datetime.fromtimestamp(row["at"], UTC) for row in self]
        return plot(self.name, moments, panels)


class Words(str):
    """Text whose repr is the text itself, so that a notebook shows its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
