"""Entry points to registered plugins; whatever fails names the plugin."""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

import pluggy

import tarn.hookspecs
from tarn.errors import PluginError
from tarn.plugins.registry import Plugins
from tarn.release import DISTRIBUTION

__all__ = ["load"]

GROUP = "tarn"


def load(
    extra: Iterable[object] = (),
    *,
    points: Iterable[EntryPoint] | None = None,
    disabled: str = "",
) -> "Plugins":
    """Load every plugin once and ask what it offers.

    Args:
        extra: Objects with hook implementations, besides the installed ones (for tests and
            notebooks).
        points: The entry points to load; None: those installed in group ``tarn``.
        disabled: Value of ``TARN_DISABLED_PLUGINS``: names of entry points to leave out,
            separated by commas; ``*`` leaves out all but those of the distribution ``tarn``.

    Raises:
        PluginError: A plugin cannot be imported, has a hook that does not exist, fails while
            offering, or offers a name that another one offers.
    """
    manager = pluggy.PluginManager("tarn")
    manager.add_hookspecs(tarn.hookspecs)
    found = entry_points(group=GROUP) if points is None else points
    for point in sorted(found, key=lambda each: each.name):
        if not _is_disabled(point, disabled):
            _register(manager, _imported(point), point.name)
    for number, plugin in enumerate(extra):
        name = getattr(plugin, "__name__", None) or f"{type(plugin).__name__} (extra {number})"
        _register(manager, plugin, name)
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise _broken(manager, error.plugin, error) from error
    _refuse_wrappers(manager)
    return Plugins(manager)


def _refuse_wrappers(manager: pluggy.PluginManager) -> None:
    for hook in vars(manager.hook).values():
        for implementation in hook.get_hookimpls():
            if implementation.wrapper or implementation.hookwrapper:
                raise PluginError(
                    implementation.plugin_name,
                    f"{hook.name} is a wrapper",
                    right="Every plugin is called separately, so a wrapper has nothing to wrap",
                )


def _is_disabled(point: EntryPoint, disabled: str) -> bool:
    names = {name.strip() for name in disabled.split(",")}
    ours = point.dist is not None and point.dist.name == DISTRIBUTION
    return point.name in names or ("*" in names and not ours)


def _imported(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:
        raise PluginError(
            point.name,
            f"cannot be imported from '{point.value}': {type(error).__name__}: {error}",
            next_step=f"Fix or uninstall it, or set TARN_DISABLED_PLUGINS={point.name}",
        ) from error


def _register(manager: pluggy.PluginManager, plugin: object, name: str) -> None:
    try:
        manager.register(plugin, name=name)
    except pluggy.PluginValidationError as error:
        raise PluginError(name, str(error)) from error
    except ValueError as error:
        raise PluginError(name, "is registered twice", next_step="Remove one of the two") from error


def _broken(manager: pluggy.PluginManager, plugin: object, error: Exception) -> PluginError:
    name = manager.get_name(plugin) or repr(plugin)
    return PluginError(
        name,
        str(error).strip(),
        right="The hooks are listed in tarn.hookspecs; their names must match exactly",
    )
