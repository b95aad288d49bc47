"""The checks that plugins offer for `tarn doctor`, which must come to its end whatever they do."""

from collections.abc import Callable, Iterable
from typing import NoReturn, cast

import pluggy

from tarn.domain import ClusterSpec
from tarn.errors import PluginError, TarnError
from tarn.interfaces import Check, CheckResult, ClientContext

__all__ = ["offered"]


def offered(
    hook: pluggy.HookCaller, spec: ClusterSpec, context: ClientContext
) -> tuple[tuple[str, Check], ...]:
    """Return (plugin, check) of each check that *hook* brings, ordered by plugin.

    A plugin that fails while it offers has one check, which tells that.
    """
    found: list[tuple[str, Check]] = []
    for one in sorted(hook.get_hookimpls(), key=lambda one: one.plugin_name):
        call = cast("Callable[..., Iterable[object]]", one.function)
        given = {"spec": spec, "context": context}
        try:
            checks = tuple(map(_known, call(*(given[name] for name in one.argnames))))
        except TarnError as error:
            checks = (_failed(one.plugin_name, error),)
        except Exception as error:  # noqa: BLE001 (a stranger's code; it is told)
            said = f"{hook.name} raised {type(error).__name__}: {error}"
            told = PluginError(
                one.plugin_name,
                said,
                next_step=f"Fix it, or set TARN_DISABLED_PLUGINS={one.plugin_name}",
            )
            told.__cause__ = error
            checks = (_failed(one.plugin_name, told),)
        found += [(one.plugin_name, check) for check in checks]
    return tuple(found)


def _known(offer: object) -> Check:
    if not isinstance(offer, Check):
        raise TypeError(f"it offers {offer!r:.80}, which is not a Check")
    return offer


def _failed(plugin: str, error: TarnError) -> Check:
    def look() -> NoReturn:
        raise error

    say: Callable[[], CheckResult] = look
    return Check(f"checks of {plugin}", "It is not known what this plugin would check.", say)
