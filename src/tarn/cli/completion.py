"""`tarn completion`."""

import click
from click.shell_completion import get_completion_class

from tarn.cli.verbs import root
from tarn.errors import ProviderMissingError

_VARIABLE = "_TARN_COMPLETE"
"""By it a shell asks `tarn` what could come next; click reads it."""
_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(*, shell: str) -> None:
    """Print the script that makes SHELL complete verbs, options and names of clusters.

    bash: `eval "$(tarn completion bash)"` in ~/.bashrc. zsh: the same with zsh in ~/.zshrc, after
    compinit. fish: `tarn completion fish > ~/.config/fish/completions/tarn.fish`.
    """
    made = get_completion_class(shell)
    if made is None:  # click knows these three; a plugin of click's may have taken one away
        raise ProviderMissingError(shell, f"click completes no {shell}")
    click.echo(made(root, {}, "tarn", _VARIABLE).source())
