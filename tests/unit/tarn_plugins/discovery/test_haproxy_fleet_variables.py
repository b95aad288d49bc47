"""What one agent keeps of the places of instances, while these come and go."""

from collections.abc import Sequence
from typing import Any

import pytest

from tarn_plugins.discovery.haproxy.backends import FleetVariables


class Said:
    """A Runtime API that takes everything, and knows what was set."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.set = 0

    def ask(self, commands: Sequence[str]) -> list[str]:
        return [self._answer(command) for command in commands]

    def _answer(self, command: str) -> str:
        words = command.split()
        if command == "experimental-mode on":
            return ""
        if words[0] == "set":
            self.set += 1
            self.variables[words[2]] = words[3].removeprefix("str(").removesuffix(")")
            return ""
        return f"value=<{self.variables[words[2]]}>" if words[2] in self.variables else ""


@pytest.fixture
def api() -> Any:
    return Said()


def test_what_is_kept_does_not_grow_with_the_places_that_were(api: Any) -> None:
    """A new port with each instance, for days: two are there at a time."""
    memory = FleetVariables(api, "b", "fleet")
    for number in range(5000):
        now = {("10.0.0.1", 20000 + number): f"fleet-{number:04d}"}
        memory.note(now, {*now, ("10.0.0.1", 20000 + number - 1)})
    assert len(memory._noted) == len(memory._ids) == 2
    assert memory.name_at(("10.0.0.1", 24998)) == "fleet-4998"
    assert memory.name_at(("10.0.0.1", 24000)) is None


def test_what_stays_is_noted_once(api: Any) -> None:
    """And again where another instance is at the place, or it comes back to it."""
    memory, place, other = FleetVariables(api, "b", "fleet"), ("10.0.0.1", 8000), ("10.0.0.2", 8000)
    for _ in range(3):
        memory.note({place: "fleet-0001"}, [place])
    assert api.set == 1
    memory.note({place: "fleet-0002"}, [place])
    memory.note({other: "fleet-0003"}, [other])
    memory.note({place: "fleet-0002"}, [place])
    assert api.set == 4
    later = FleetVariables(api, "b", "fleet")
    later.recall([place])
    assert later.name_at(place) == "fleet-0002"
