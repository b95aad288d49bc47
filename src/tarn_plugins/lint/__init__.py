"""The lint rules that come with TARN; a plugin offers its own in the same way."""

from collections.abc import Iterable

from tarn.hookspecs import LintRule, hookimpl

__all__ = ["tarn_lint_rules"]


@hookimpl
def tarn_lint_rules() -> Iterable[LintRule]:
    """Offer the rules of `tarn lint`."""
    from tarn_plugins.lint import config, layout, tensors  # noqa: PLC0415 (only when it is asked)

    return (
        LintRule(
            "layout",
            "the top directory: missing, empty, one level off, no models, links, junk",
            layout.check_layout,
        ),
        LintRule("names", "names of models, and `name` in the configuration", layout.check_names),
        LintRule(
            "versions",
            "version directories, and what `version_policy` says of them",
            layout.check_versions,
        ),
        LintRule("files", "the model file that the back end needs", layout.check_files),
        LintRule(
            "config",
            "config.pbtxt: whether it exists, is text, and can be read",
            config.check_config,
        ),
        LintRule("backend", "`backend` and `platform`", config.check_backend),
        LintRule("batching", "`max_batch_size` and the schedulers", config.check_batching),
        LintRule("cache", "`response_cache`, and the cache of the spec", config.check_cache),
        LintRule("sequences", "Python models that call a sequence model", config.check_sequences),
        LintRule("instances", "`instance_group`, GPUs and shared memory", config.check_instances),
        LintRule("tensors", "inputs and outputs", tensors.check_tensors),
        LintRule(
            "ensembles", "ensembles: their steps, tensors and circles", tensors.check_ensembles
        ),
        LintRule(
            "parameters",
            "`parameters` and the files that the configuration names",
            config.check_parameters,
        ),
    )
