"""What the master of a cluster says of it, as far as it answers."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tarn.cluster.bundle.part import Offer, Part, left_out, of_json, of_text
from tarn.cluster.link import Link
from tarn.errors import (
    NotAuthorizedError,
    NotFoundError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.follow import MasterApi

__all__ = ["MasterPages"]

_JSON = {
    "instances": "each instance: state, reason, addresses, models",
    "events": "what happened",
    "decisions": "the last decisions about the size",
    "scaling": "why the size is what it is",
    "models": "each model on each instance",
    "alerts": "what is wrong now, and what to do",
    "history": "size, load and requests over time",
}
_TEXTS = {
    "metrics": ("metrics", "txt", "the metrics as Prometheus gets them"),
    "health": ("health", "txt", "health, and every fault"),
    "config": ("config", "txt", "the spec as the master has it, redacted by itself"),
}
_SILENT = (UnreachableError, TimedOutError, NotAuthorizedError)
"""A master that answered so once will do it again, and each time only after a while."""


class MasterPages:
    """The pages of one master; the first sign that it does not answer counts for all of them.

    Args:
        link: To the master; None: there is no cluster to ask.
        why_not: Why nobody is asked; empty: somebody is.
    """

    def __init__(self, link: Link | None, why_not: str = "") -> None:
        self._link = link
        self._silent = why_not if link is not None else why_not or "there is no cluster to ask"

    def offers(self) -> Iterator[Offer]:
        """Yield a part for each page; one for all of them, where there is nobody to ask."""
        if self._link is None:
            what = "what the master says"
            yield Offer("cluster/…", what, lambda: left_out("cluster/…", what, self._silent))
            return
        for name, what in _JSON.items():
            path = f"cluster/{name}.json"
            yield Offer(path, what, partial(self._json, path, what, name))
        for name, (page, ending, what) in _TEXTS.items():
            path = f"cluster/{name}.{ending}"
            yield Offer(path, what, partial(self._text, path, what, page))

    def _json(self, path: str, what: str, name: str) -> Part:
        return self._part(path, what, lambda api: of_json(path, what, api.get(f"/api/v1/{name}")))

    def _text(self, path: str, what: str, page: str) -> Part:
        return self._part(path, what, lambda api: of_text(path, what, api.text(f"/{page}")))

    def _part(self, path: str, what: str, ask: Callable[[MasterApi], Part]) -> Part:
        if self._silent or self._link is None:
            return left_out(path, what, self._silent)
        try:
            made: Any = self._link.ask(ask)
        except _SILENT as error:
            self._silent = f"the master did not say: [{error.code}] {error}"
            return left_out(path, what, self._silent)
        except NotFoundError as error:
            return left_out(path, what, f"this master does not have that page: {error.found}")
        except TarnError as error:
            return left_out(path, what, f"[{error.code}] {error}")
        assert isinstance(made, Part)
        return made
