"""The boundary between TARN and what plugins bring: a fault of a provider names its plugin."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import attrs

from tarn.errors import PluginError, TarnError

__all__ = ["guarded"]

_F = TypeVar("_F")

_MAKERS = ("create", "deployer", "runtime", "state_store")
"""The fields of a factory that make something when they are called."""

_USED_BY_CLIENTS = frozenset(
    {("storage", "create"), ("secrets", "create"), ("runtime", "deployer")}
)
"""What these make is called by a client, where nobody but the reader hears an exception. In a
master each provider has a caller that catches, counts and shows what it raises."""


def guarded(factory: _F, owner: str, kind: str, name: str) -> _F:
    """Return *factory* with the same settings; what it raises becomes a `PluginError` of *owner*.

    A `TarnError` is what a provider says on purpose, and passes.
    """
    if not attrs.has(type(factory)):
        return factory
    told = _Boundary(owner, f"{kind} '{name}'")
    changed: dict[str, Any] = {}
    for field in _MAKERS:
        make = getattr(factory, field, None)
        if make is not None:
            wraps = (kind, field) in _USED_BY_CLIENTS
            changed[field] = told.maker(make) if wraps else told.call(make)
    return attrs.evolve(factory, **changed)  # type: ignore[misc] # it is an attrs class: see above


@attrs.frozen
class _Boundary:
    """Who is named when something raises."""

    owner: str
    what: str

    def call(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def guard(*args: object, **options: object) -> Any:
            try:
                made = call(*args, **options)
            except TarnError:
                raise
            except Exception as error:
                raise self._fault(error) from error
            return self._each(made) if isinstance(made, Iterator) else made

        return guard

    def maker(self, make: Callable[..., Any]) -> Callable[..., Any]:
        guard = self.call(make)

        @functools.wraps(make)
        def made(*args: object, **options: object) -> Any:
            return _GuardedProvider(guard(*args, **options), self)

        return made

    def _each(self, items: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from items
        except TarnError:
            raise
        except Exception as error:
            raise self._fault(error) from error

    def _fault(self, error: Exception) -> PluginError:
        found = f"{self.what} raised {type(error).__name__}: {error}"
        step = f"Tell the plugin's author, or set TARN_DISABLED_PLUGINS={self.owner}"
        return PluginError(self.owner, found, next_step=step)


class _GuardedProvider:
    """A provider whose methods are called through the boundary."""

    def __init__(self, provider: object, boundary: _Boundary) -> None:
        self._provider, self._boundary = provider, boundary
        kind = type(provider)
        # Python 3.12 looks for a protocol's methods without `__getattr__`: see `isinstance`
        for name in dir(kind):
            if not name.startswith("_") and callable(getattr(kind, name)):
                self.__dict__[name] = boundary.call(getattr(provider, name))

    def __getattr__(self, name: str) -> Any:
        """Return what only the object has, not its class; a method is guarded."""
        value = getattr(self._provider, name)
        return self._boundary.call(value) if callable(value) else value
