"""Which options of `tarn lb haproxy` prove who asks, and whom it asks."""

from pathlib import Path

import click

from tarn.follow import KerberosTickets, Trust

__all__ = ["tickets", "trust"]


def tickets(
    ctx: click.Context, keytab: Path | None, principal: str | None
) -> KerberosTickets | None:
    """Return whose tickets are shown; None: no keytab was named."""
    if keytab is None:
        if principal:
            raise click.UsageError(
                "--principal chooses a key of --keytab, which is not given.", ctx
            )
        return None
    if ctx.params["token_file"]:
        raise click.UsageError("Use either --keytab or --token-file.", ctx)
    return KerberosTickets(keytab, principal or "")


def trust(ctx: click.Context, ca: Path | None, cert: Path | None, key: Path | None) -> Trust | None:
    """Return by which files a master is known, and what is shown to it; None: none was named."""
    if key is not None and cert is None:
        raise click.UsageError("--key belongs to --cert, which is not given.", ctx)
    return Trust(ca, cert, key) if ca or cert else None
