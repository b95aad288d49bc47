"""What a cluster returns, as plain data that a notebook shows well."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from tarn.cluster import card
from tarn.cluster.sizes import explained
from tarn.cluster.table import columns, moment

if TYPE_CHECKING:
    from tarn.cluster.frames import Frame
    from tarn.cluster.plots import Plot

__all__ = [
    "Alerts",
    "Decisions",
    "Events",
    "Explanation",
    "History",
    "Instances",
    "Metrics",
    "Status",
    "Table",
    "Usage",
    "Words",
]

Row = Mapping[str, Any]
_WHOLE = 1e5
"""Greater numbers are shown without a fraction."""


class Status(dict[str, Any]):
    """The status as a dict; a notebook shows it as a card."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return card.cluster(self)


class Table(tuple[Row, ...]):
    """Rows of plain values; printed as columns, shown by a notebook as a table.

    `to_pandas` makes a frame of them where pandas is installed.
    """

    __slots__ = ()

    TIMES: ClassVar[frozenset[str]] = frozenset()
    """Columns of wall seconds."""
    COLUMNS: ClassVar[tuple[str, ...]] = ()
    """Those that are always there, first; others come as the rows have them."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        found = dict.fromkeys(self.COLUMNS)
        for row in self:
            found |= dict.fromkeys(row)
        return tuple(found)

    def to_pandas(self) -> "Frame":
        """Return a frame with a row for each row; wall seconds become UTC times.

        Raises:
            ProviderMissingError: pandas is not installed.
        """
        from tarn.cluster.frames import frame  # noqa: PLC0415 (seldom)

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
        return self._html(self.columns)

    def _html(self, names: Sequence[str]) -> str:
        """Return a table of these columns."""
        cells = [[self._said(name, row.get(name)) for name in names] for row in self]
        return card.rows([name.replace("_", " ") for name in names], cells)

    def _said(self, name: str, value: object) -> object:
        if name in self.TIMES and isinstance(value, int | float):
            return moment(value)
        if not isinstance(value, float):
            return value
        # a million requests are not 1e+06
        return f"{value:.0f}" if abs(value) >= _WHOLE else f"{value:.6g}"


class Instances(Table):
    """Instances, by id; a notebook shows a table."""

    __slots__ = ()

    COLUMNS = ("id", "state")

    def _repr_html_(self) -> str:
        return card.instances(self)


class Events(Table):
    """Events, oldest first; a notebook shows a table."""

    __slots__ = ()

    COLUMNS = ("code", "severity", "subject", "message", "first", "last", "count")
    TIMES = frozenset({"first", "last"})

    def _repr_html_(self) -> str:
        return card.events(self)


class Decisions(Table):
    """Decisions about the size, oldest first; a notebook shows a table."""

    __slots__ = ()

    COLUMNS = ("at", "wanted", "desired", "by", "reason", "held_back")
    TIMES = frozenset({"at"})

    def _repr_html_(self) -> str:
        return card.decisions(self)


class Alerts(Table):
    """What is wrong now, the newest first, then what was; a notebook shows what to do, too."""

    __slots__ = ()

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


class Metrics(Table):
    """The samples of ``/metrics``, as they are now: name, type, labels and value."""

    __slots__ = ()

    COLUMNS = ("name", "type", "labels", "value")

    def to_pandas(self) -> "Frame":
        """Return a frame with a column for each label, and none where there is no such label.

        Raises:
            ProviderMissingError: pandas is not installed.
        """
        from tarn.cluster.frames import frame  # noqa: PLC0415 (seldom)

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


class Usage(Table):
    """What instances and models did and held: a row each, by ``kind`` and ``name``.

    ``begun`` and ``until`` are the wall seconds of what is summed: whole slots, so a little more
    than what was asked for.
    """

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
        made = cls(rows)
        made.begun, made.until = answer["from"], answer["to"]
        return made


class History(Table):
    """A row for each step of the last hours: sizes, load, queue, requests, latency.

    What is not known is None. `plot` draws it where matplotlib is installed.
    """

    COLUMNS = (
        *("at", "desired", "ready", "running", "load", "queue"),
        *("requests_per_s", "failures_per_s", "latency_ms"),
    )
    TIMES = frozenset({"at"})
    name: str = ""
    step_s: float = 0.0
    """How long a step is."""

    @classmethod
    def of(cls, name: str, answer: Row) -> "History":
        """Return the rows of an answer of ``GET /api/v1/history`` about the cluster *name*."""
        made = cls(dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"])
        made.name, made.step_s = name, answer["step_s"]
        return made

    def to_pandas(self) -> "Frame":
        """Return a frame with the times as its index.

        Raises:
            ProviderMissingError: pandas is not installed.
        """
        return super().to_pandas().set_index("at")

    def load(self) -> Mapping[str, list[float]]:
        """Return the requests as a load that `Cluster.replay` takes: ``t_s``, ``requests_per_s``.

        A step of which the rate is not known is left out, so the rate before it goes on.
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

    def plot(self) -> "Plot":
        """Return a drawing: size, load, requests and latency over time.

        Raises:
            ProviderMissingError: matplotlib is not installed.
        """
        from tarn.cluster.plots import PlotPanel, PlotSeries, plot  # noqa: PLC0415 (seldom)

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


class Explanation(dict[str, Any]):
    """The answer to "why this size" as a dict; shown as text, and in a notebook as a card."""

    __slots__ = ()

    def __str__(self) -> str:
        return explained(self)

    def __repr__(self) -> str:
        return explained(self)

    def _repr_html_(self) -> str:
        return card.sizes(self)


class Words(str):
    """Text of several lines, shown as it is rather than quoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
