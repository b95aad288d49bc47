"""The lint rules that come with TARN, offered as anybody's are."""

import importlib
from collections.abc import Iterable

from tarn.hookspecs import LintRule, hookimpl

__all__ = ["tarn_lint_rules"]

_RULES = {
    "layout": "the top directory: missing, empty, one level off, no models, links, junk",
    "names": "names of models, and `name` in the configuration",
    "versions": "version directories, and what `version_policy` says of them",
    "files": "the model file that the back end needs",
    "config": "config.pbtxt: whether it exists, is text, and can be read",
    "backend": "`backend` and `platform`",
    "batching": "`max_batch_size` and the schedulers",
    "instances": "`instance_group`, GPUs and shared memory",
    "tensors": "inputs and outputs",
    "ensembles": "ensembles: their steps, tensors and circles",
    "parameters": "`parameters` and the files that the configuration names",
}
"""Module to what it looks at."""


@hookimpl
def tarn_lint_rules() -> Iterable[LintRule]:
    """Offer one rule for each module here."""
    return tuple(
        LintRule(name, summary, importlib.import_module(f"{__name__}.{name}").check)
        for name, summary in _RULES.items()
    )
