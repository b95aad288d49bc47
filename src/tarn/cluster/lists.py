"""What a cluster returns, as plain data that a notebook shows well."""

from collections.abc import Mapping
from typing import Any

from tarn.cluster import card

__all__ = ["Decisions", "Events", "Instances", "Status", "Words"]

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


class Words(str):
    """Text of several lines, shown as it is rather than quoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
