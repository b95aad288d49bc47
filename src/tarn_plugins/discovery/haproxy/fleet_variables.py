"""What HAProxy remembers for its agents, in variables of its process. Not for several threads.

Who published last is kept there, so that an old master is kept out wherever it runs; and which
instance is where, so that an agent knows whose slots drain after another one filled them. All of it
ends with the process, and comes back with the next view.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from tarn.domain import Epoch
from tarn.errors import Superseded
from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi

__all__ = ["FleetVariables", "Place", "epoch_in"]

Place = tuple[str, int]
"""Address and port of a server."""
_EPOCH = re.compile(r"value=<([0-9]+-[0-9]+)>")
_NOTED = re.compile(r"value=<([^>]+)>")
_NOTES = 200
"""In one connection."""


class FleetVariables:
    """The variables of one fleet in one HAProxy; epochs of two fleets are not compared."""

    def __init__(self, api: RuntimeApi, backend: str, fleet: str) -> None:
        self._api = api
        self._variable = _variable("epoch", backend, fleet)
        self._remembers = False
        self._noted: dict[Place, str] = {}
        self._ids: dict[Place, str] = {}

    @property
    def question(self) -> str:
        """The command whose answer `epoch_in` reads."""
        return f"get var {self._variable}"

    def is_another(self, epoch: Epoch) -> bool:
        """Say whether this is no longer the HAProxy that *epoch* was claimed for: cheap to ask.

        Raises:
            DiscoveryError: HAProxy does not answer.
        """
        return self._remembers and epoch_in(self._api.ask([self.question])[0]) != epoch

    def claim(self, mine: Epoch, theirs: Epoch | None) -> None:
        """Let HAProxy remember *mine*. A HAProxy that cannot is left without this guard.

        Raises:
            DiscoveryError: HAProxy does not answer.
            Superseded: *theirs* is higher.
        """
        if theirs is not None and theirs > mine:
            raise Superseded(str(mine), str(theirs))
        # variables are set in the experimental mode of the connection; it changes nothing else
        setting = f"set var {self._variable} str({mine})"
        self._remembers = not any(self._api.ask(["experimental-mode on", setting]))
        self._noted = {}  # it may be a new process, which knows nothing

    def note(self, instances: Mapping[Place, str], there: Collection[Place]) -> None:
        """Remember which of *instances* is where, and who was at the other places *there* are.

        Raises:
            DiscoveryError: HAProxy does not answer.
        """
        old = {place: name for place, name in self._ids.items() if place in there}
        self._ids = {**old, **instances}
        # ports and machines come and go: of places where nobody is any more nothing is kept
        self._noted = {at: name for at, name in self._noted.items() if at in self._ids}
        new = {at: name for at, name in instances.items() if self._noted.get(at) != name}
        settings = [f"set var {_place(at)} str({name})" for at, name in new.items()]
        for first in range(0, len(settings), _NOTES):  # the mode is each connection's own
            self._api.ask(["experimental-mode on", *settings[first : first + _NOTES]])
        self._noted.update(new)

    def recall(self, places: Iterable[Place]) -> None:
        """Ask who is at *places*, where another agent than this one noted it.

        Raises:
            DiscoveryError: HAProxy does not answer.
        """
        unknown = [at for at in places if at not in self._ids]
        answers = self._api.ask([f"get var {_place(at)}" for at in unknown])
        for at, answer in zip(unknown, answers, strict=True):
            if found := _NOTED.search(answer):
                self._ids[at] = found.group(1)

    def name_at(self, place: Place) -> str | None:
        """Return which instance is there; None: nobody noted it."""
        return self._ids.get(place)


def epoch_in(answer: str) -> Epoch | None:
    """Return the epoch that HAProxy remembers; None: none."""
    found = _EPOCH.search(answer)
    return Epoch.parse(found.group(1)) if found else None


def _variable(*words: str) -> str:
    """Return a name of a variable of the process, another one for any other words."""
    plain = (re.sub(r"[^A-Za-z0-9]", lambda c: f"_{ord(c[0]):02x}", word) for word in words)
    return f"proc.tarn_{'.'.join(plain)}"


def _place(at: Place) -> str:
    return _variable("at", at[0], str(at[1]))
