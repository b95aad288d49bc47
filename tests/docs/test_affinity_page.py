"""The page about affinity: its specs are right, and its plugin keeps the contract."""

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarn import config, plugins
from tarn.domain import AffinityRule, ModelTraits
from tarn.domain.affinity import affinity_key
from tarn.testing.contracts import AffinityContract

PAGE = Path(__file__).parents[2] / "docs/how-to/keep-requests-together.md"
TEXT = PAGE.read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
INLINE = re.findall(r"`(\{use: .*?\})`", TEXT)


def example() -> types.ModuleType:
    """Return the plugin of the page as a module."""
    (code,) = (code for language, code in BLOCKS if language == "python" and "hookimpl" in code)
    module = types.ModuleType("by_user")
    sys.modules[module.__name__] = module  # attrs looks the annotations up there
    exec(compile(code, str(PAGE), "exec"), vars(module))
    return module


PLUGIN = example()


class TestExample(AffinityContract):
    """The plugin of the page."""

    factory = PLUGIN.tarn_affinities()["by-user"]
    settings = {"models": ("planner",)}


def specs() -> list[Any]:
    """Return each value of `affinity` on the page."""
    whole = [yaml.safe_load(code)["affinity"] for language, code in BLOCKS if language == "yaml"]
    return [*whole, *map(yaml.safe_load, INLINE), "none"]


@pytest.mark.parametrize("given", specs())
def test_every_spec_of_the_page_is_right(given: Any) -> None:
    """Held against the installed plugins."""
    plain = {"name": "w", "models": "/models", "affinity": given}
    config.load(plain, environ={}, plugins=plugins.load())


def test_the_example_is_chosen_like_any_other_and_recognizes_users() -> None:
    """A spec names it, its options are checked, and its rule finds the key."""
    offered = plugins.load([PLUGIN])
    plain = {"name": "w", "models": "/models",
             "affinity": {"use": "by-user", "options": {"models": ["planner"]}}}  # fmt: skip
    spec = config.load(plain, environ={}, plugins=offered).spec
    factory = offered.choose("affinity", spec.affinity.use, "affinity.use")
    settings = offered.settings(factory, spec.affinity.options, "affinity.options")
    made = factory.create(settings, None)
    sequences, users = made.rules((ModelTraits("acc", True, 60.0), ModelTraits("planner")))
    assert sequences == AffinityRule(("acc",), "sequence", idle_s=65.0)
    assert affinity_key(users, {"x-user": "ada"}, {}, b"") == b"ada"
