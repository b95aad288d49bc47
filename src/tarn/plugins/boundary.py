"""Call plugins so that every exception names the plugin that raised it.

Each hook is called for one plugin at a time, so a plugin that fails does not stop the others.
Providers are called through `guarded`.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

import attrs
import pluggy

from tarn.domain import ClusterSpec
from tarn.errors import PluginError, TarnError
from tarn.interfaces import Check, CheckResult, ClientContext

__all__ = ["HookCall", "checks_offered", "guarded", "hook_calls"]

_F = TypeVar("_F")


class HookCall:
    """One hook of one plugin, with the wrappers of all plugins around it."""

    def __init__(self, manager: pluggy.PluginManager, hook: str, own: pluggy.HookImpl) -> None:
        self.hook, self.plugin, self._own = hook, own.plugin_name, own
        every = getattr(manager.hook, hook).get_hookimpls()
        wrappers = [one for one in every if _wraps(one)]
        others = [one.plugin for one in every if one is not own and not _wraps(one)]
        self._wrapped = manager.subset_hook_caller(hook, others) if wrappers else None
        self._names = {_code(one): one.plugin_name for one in (*wrappers, own)}

    def __call__(self, **arguments: object) -> Any:
        """Call the hook and return its result."""
        if self._wrapped is None:
            return self._own.function(*(arguments[name] for name in self._own.argnames))
        results = self._wrapped(**arguments)  # a list, from which pluggy drops None
        return results[0] if results else None

    def fault(self, error: Exception) -> PluginError:
        """Return the error for an exception of the call; it names the plugin that raised it."""
        plugin, trace = self.plugin, error.__traceback__
        while trace is not None:  # the innermost frame of a plugin counts, not a wrapper around it
            plugin = self._names.get(trace.tb_frame.f_code, plugin)
            trace = trace.tb_next
        found = f"{self.hook} raised {type(error).__name__}: {error}"
        made = PluginError(
            plugin, found, next_step=f"Fix the plugin, or set TARN_DISABLED_PLUGINS={plugin}"
        )
        made.__cause__ = error
        return made


def hook_calls(manager: pluggy.PluginManager, hook: str) -> tuple[HookCall, ...]:
    """Return the calls of *hook*, one for each plugin, in the order of loading."""
    every = getattr(manager.hook, hook).get_hookimpls()
    return tuple(HookCall(manager, hook, one) for one in every if not _wraps(one))


def _wraps(implementation: pluggy.HookImpl) -> bool:
    return implementation.wrapper or implementation.hookwrapper


def _code(implementation: pluggy.HookImpl) -> object:
    return getattr(implementation.function, "__code__", implementation.function)


def checks_offered(
    calls: Iterable[HookCall], spec: ClusterSpec, context: ClientContext
) -> tuple[tuple[str, Check], ...]:
    """Return (plugin, check) of each check that the *calls* offer, sorted by plugin."""
    # The doctor must finish whatever plugins do, so an exception becomes a check that raises it.
    found: list[tuple[str, Check]] = []
    for call in sorted(calls, key=lambda call: call.plugin):
        try:
            checks = tuple(map(_as_check, call(spec=spec, context=context)))
        except TarnError as error:
            checks = (_failed(call.plugin, error),)
        except Exception as error:  # noqa: BLE001 (a plugin's code; it is reported)
            checks = (_failed(call.plugin, call.fault(error)),)
        found += [(call.plugin, check) for check in checks]
    return tuple(found)


def _as_check(offer: object) -> Check:
    if not isinstance(offer, Check):
        raise TypeError(f"it offers {offer!r:.80}, which is not a Check")
    return offer


def _failed(plugin: str, error: TarnError) -> Check:
    def fail() -> NoReturn:
        raise error

    look: Callable[[], CheckResult] = fail
    return Check(f"checks of {plugin}", "TARN cannot tell what this plugin would check.", look)


# The fields of a factory that create a provider when they are called.
_PROVIDER_FIELDS = ("create", "deployer", "runtime", "state_store")

# Clients call the methods of these providers directly, so their exceptions must name the plugin. In
# a master each provider has a caller that catches, counts and shows its exceptions.
_USED_BY_CLIENTS = frozenset(
    {("storage", "create"), ("secrets", "create"), ("runtime", "deployer")}
)


def guarded(factory: _F, owner: str, kind: str, name: str) -> _F:
    """Return a copy of *factory* whose exceptions become a `PluginError` of *owner*.

    A `TarnError` stays as it is.
    """
    if not attrs.has(type(factory)):
        return factory
    boundary = _Boundary(owner, f"{kind} '{name}'")
    changed: dict[str, Any] = {}
    for field in _PROVIDER_FIELDS:
        make = getattr(factory, field, None)
        if make is not None:
            wraps = (kind, field) in _USED_BY_CLIENTS
            changed[field] = boundary.maker(make) if wraps else boundary.call(make)
    return attrs.evolve(factory, **changed)  # type: ignore[misc] # it is an attrs class: see above


@attrs.frozen
class _Boundary:
    """Wraps the calls of one provider."""

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
        # `isinstance` with a protocol ignores `__getattr__` since Python 3.12.
        for name in dir(kind):
            if not name.startswith("_") and callable(getattr(kind, name)):
                self.__dict__[name] = boundary.call(getattr(provider, name))

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that only the object has; guard it if it can be called."""
        value = getattr(self._provider, name)
        return self._boundary.call(value) if callable(value) else value
