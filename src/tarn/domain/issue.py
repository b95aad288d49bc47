"""A problem as data: made where the fact is known, and carried unchanged to every screen.

The master's own issues, those of its runtime, and the findings of `tarn why` are all of this class.
Programs use its code, subject and names, and never parse its text.
"""

import attrs

from tarn.domain.codes import CODES

__all__ = ["Issue"]


@attrs.frozen
class Issue:
    """One thing that is wrong, or not as desired."""

    subject: str
    """What it is about: the cluster's name, an instance id, a model, or a provider."""
    found: str
    """The problem, for users who may `view`: a sentence without its full stop."""
    next_step: str = ""
    """What can be done now; empty: the step that the table has for its code."""
    code: str = ""
    """A code of the table (`tarn help CODE`); empty: it has none."""
    public: str = attrs.field(default="", kw_only=True)
    """The problem for everybody, as ``/health`` shows it, without names of models, users or hosts.
    Empty: it is not shown there."""
    since: float | None = attrs.field(default=None, kw_only=True)
    """Wall second at which it began; None: not known."""
    until: float | None = attrs.field(default=None, kw_only=True)
    """Wall second at which it ends by itself, or gets worse, as ``found`` says; None: not known."""
    models: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """Models that ``found`` is about. Users who may not see one of them do not get the issue."""
    instances: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """Ids of the instances that it is about, besides the subject."""
    followers: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """Followers whose own rows show the same problem."""
    source: str = attrs.field(default="", kw_only=True)
    """Who found it: the runtime's name, or ``watch``; empty: the control thread, or `tarn why`."""
    noted: bool = attrs.field(default=False, kw_only=True)
    """True: another part of the master makes the event for its beginning."""

    @property
    def step(self) -> str:
        """The next step: its own, else that of its code; empty if there is none."""
        if self.next_step:
            return self.next_step
        known = CODES.get(self.code)
        return known.step if known is not None else ""

    def __str__(self) -> str:
        """Return the problem and the next step as one line for people."""
        return f"{self.found.rstrip('.')}. {self.step}" if self.step else self.found

    @property
    def line(self) -> str:
        """The problem as in the status's ``warnings``: with its code, if it has a source."""
        return f"{self.code} {self.found}" if self.code and self.source else self.found

    def plain(self) -> dict[str, str]:
        """Return the fields that `tarn why` gives to programs."""
        said = {"subject": self.subject, "found": self.found, "next_step": self.step}
        return {**said, "code": self.code}
