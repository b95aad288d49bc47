"""Load plugins from the entry points in group ``tarn``.

Built-in providers are loaded in the same way as those of other distributions.
"""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

import pluggy

import tarn.hookspecs
from tarn.errors import PluginError
from tarn.plugins.kinds import COMING, KINDS, Provider
from tarn.plugins.registry import Plugins
from tarn.release import DISTRIBUTION

__all__ = ["COMING", "KINDS", "Plugins", "Provider", "load"]

GROUP = "tarn"


def load(
    extra: Iterable[object] = (),
    *,
    points: Iterable[EntryPoint] | None = None,
    disabled: str = "",
) -> Plugins:
    """Load every plugin once, and return what they offer.

    Args:
        extra: Objects with hook implementations, besides the installed ones (for tests and
            notebooks).
        points: The entry points to load; None: those installed in group ``tarn``.
        disabled: Value of ``TARN_DISABLED_PLUGINS``: names of entry points to leave out,
            separated by commas; ``*`` leaves out every plugin of other distributions.

    Raises:
        PluginError: A plugin cannot be imported, has an unknown hook, raises in a hook, or offers
            a name that another one offers.
    """
    manager = pluggy.PluginManager("tarn")
    manager.add_hookspecs(tarn.hookspecs)
    found = entry_points(group=GROUP) if points is None else points
    left_out = {name.strip() for name in disabled.split(",")}
    for point in sorted(found, key=lambda each: each.name):
        ours = point.dist is not None and point.dist.name == DISTRIBUTION
        if point.name in left_out or ("*" in left_out and not ours):
            continue
        try:
            plugin = point.load()
        except Exception as error:
            raise PluginError(
                point.name,
                f"cannot be imported from '{point.value}': {type(error).__name__}: {error}",
                next_step=f"Fix or uninstall it, or set TARN_DISABLED_PLUGINS={point.name}",
            ) from error
        _register(manager, plugin, point.name)
    for number, plugin in enumerate(extra):
        name = getattr(plugin, "__name__", None) or f"{type(plugin).__name__} (extra {number})"
        _register(manager, plugin, name)
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(
            manager.get_name(error.plugin) or repr(error.plugin),
            str(error).strip(),
            right="The hooks are listed in tarn.hookspecs; their names must match exactly",
        ) from error
    return Plugins(manager)


def _register(manager: pluggy.PluginManager, plugin: object, name: str) -> None:
    try:
        manager.register(plugin, name=name)
    except pluggy.PluginValidationError as error:
        raise PluginError(name, str(error)) from error
    except ValueError as error:
        raise PluginError(name, "is registered twice", next_step="Remove one of the two") from error
