"""What a cluster returns, as plain data that a notebook shows well."""

from collections.abc import Mapping
from typing import Any

from tarn.cluster import card
from tarn.cluster.sizes import explained

__all__ = ["Decisions", "Events", "Explanation", "Instances", "Status", "Words"]

Row = Mapping[str, Any]


class Status(dict[str, Any]):
    """The status as a dict; a notebook shows it as a card."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return card.cluster(self)


class Instances(tuple[Row, ...]):
    """Instances, by id; a notebook shows a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return card.instances(self)


class Events(tuple[Row, ...]):
    """Events, oldest first; a notebook shows a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return card.events(self)


class Decisions(tuple[Row, ...]):
    """Decisions about the size, oldest first; a notebook shows a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return card.decisions(self)


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
