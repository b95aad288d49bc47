"""Let tests that name their number of examples follow the profile of Hypothesis, too.

A profile changes only tests that name no number. Those that do would take their whole time in
``nox -s quick``, so their numbers are scaled by what the profile makes of the default.
"""

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import settings

WHOLE = 100
"""The default of Hypothesis, and of every profile that runs all examples."""


def scale_examples(tests: Iterable[Callable[..., Any]], cases: Iterable[type] = ()) -> None:
    """Scale the examples that tests ask for by what the loaded profile makes of the default.

    Args:
        tests: Functions; those without ``@settings`` have the profile's number already.
        cases: Classes of tests; those of state machines have ``settings``.
    """
    factor = settings.default.max_examples / WHOLE
    if factor == 1:
        return
    # A function that is a test several times (by parameters, by inheritance) is scaled once.
    for test in {id(test): test for test in tests}.values():
        if hasattr(test, "_hypothesis_internal_settings_applied"):
            # Hypothesis offers no other way to change the settings of a test that was decorated.
            asked = test._hypothesis_internal_use_settings
            test._hypothesis_internal_use_settings = _scaled(asked, factor)
    for case in set(cases):
        asked = getattr(case, "settings", None)
        # Without settings of its own, a machine has the profile's, a property of Hypothesis.
        if isinstance(asked, settings) and "settings" in vars(case):
            case.settings = _scaled(asked, factor)


def _scaled(asked: settings, factor: float) -> settings:
    return settings(asked, max_examples=max(1, round(asked.max_examples * factor)))
