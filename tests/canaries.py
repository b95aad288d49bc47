"""Secrets that are like no other text, and a watcher that looks for them wherever they could be.

A canary is looked for as it is and as it looks in base64 (at each of the three places where it may
begin), in base64's alphabet for URLs, percent-encoded, in hexadecimal, and quoted in JSON.
"""

import base64
import contextlib
import json
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

import attrs

LOOK_EVERY_S = 0.1
SHORTEST = 16
"""Of a form: a shorter one could be found by chance."""


def canary(kind: str) -> str:
    """Return a new secret, with characters that each encoding changes."""
    return f"{kind}+{secrets.token_hex(12)}/%26={secrets.token_hex(6)}"


def forms(secret: str | bytes) -> frozenset[bytes]:
    """Return every text in which *secret* must not stand."""
    plain = secret.encode() if isinstance(secret, str) else secret
    made = {plain, plain.hex().encode(), plain.hex().upper().encode()}
    for before in range(3):
        # What stands before shifts the digits; those at the ends belong to neighbours, too.
        for encoded in (
            base64.b64encode(b"\0" * before + plain),
            base64.urlsafe_b64encode(b"\0" * before + plain),
        ):
            first = -(-before * 8 // 6)
            last = (before + len(plain)) * 8 // 6
            made.add(encoded[first:last])
    if isinstance(secret, str):
        made |= {quote(secret, safe="").encode(), quote(secret).encode()}
        made |= {quote_plus(secret).encode(), json.dumps(secret)[1:-1].encode()}
    return frozenset(form for form in made if len(form) >= SHORTEST)


@attrs.frozen
class Leak:
    """Where a secret was seen."""

    name: str
    where: str


@attrs.define
class Canaries:
    """The secrets of one run, and all that was seen of them."""

    forms: dict[str, frozenset[bytes]] = attrs.field(factory=dict, repr=False)
    leaks: set[Leak] = attrs.field(factory=set)
    seen: set[str] = attrs.field(factory=set)
    """Those that were found where they may be: they were looked for rightly."""
    looked: int = 0
    """Bytes in which they were looked for."""

    def add(self, name: str, secret: str | bytes) -> None:
        """Look for *secret* from now on; *name* is how a leak is told."""
        self.forms[name] = forms(secret)

    def new(self, name: str) -> str:
        """Return a new secret that is looked for from now on."""
        made = canary(name)
        self.add(name, made)
        return made

    def look(self, where: str, data: str | bytes, allowed: Iterable[str] = ()) -> None:
        """Note each secret, but those *allowed*, that stands in *data*."""
        found = data.encode(errors="surrogateescape") if isinstance(data, str) else data
        self.looked += len(found)
        known = set(allowed)
        for name in self.forms:
            if not any(form in found for form in self.forms[name]):
                continue
            if name in known:
                self.seen.add(name)
            else:
                self.leaks.add(Leak(name, where))

    def files(self, root: Path, private: Mapping[str, Iterable[str]], besides: str = "") -> None:
        """Look through all files under *root*, *besides* one folder of it.

        *private* maps the name of a file, or of one of its folders, to the secrets that it may
        hold, if nobody but its owner can read it.
        """
        for path in sorted(root.rglob("*")):
            within = path.relative_to(root).parts
            if within[0] == besides or not path.is_file() or path.is_symlink():
                continue
            mode = stat.S_IMODE(path.stat().st_mode)
            known = [private[part] for part in within if part in private]
            allowed = {name for names in known for name in names} if not mode & 0o077 else ()
            self.look(f"{path.relative_to(root)} ({mode:o})", path.read_bytes(), allowed)


Allowed = Callable[[list[bytes]], tuple[Iterable[str], Iterable[str]]]
"""From an argument list: what may stand in it, and in the environment of that process."""


@contextlib.contextmanager
def processes_watched(canaries: Canaries, allowed: Allowed) -> Iterator[None]:
    """Look at arguments and environment of every process of this machine, also short-lived ones.

    This process itself is left out: it holds every secret.
    """
    over = threading.Event()
    seen: set[tuple[int, bytes]] = set()

    def watch() -> None:
        while not over.wait(LOOK_EVERY_S):
            _look_at_processes(canaries, allowed, seen)

    watcher = threading.Thread(target=watch, name="canaries")
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _look_at_processes(canaries: Canaries, allowed: Allowed, seen: set[tuple[int, bytes]]) -> None:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            argv = (entry / "cmdline").read_bytes()
            if (int(entry.name), argv) in seen:
                continue
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue
        seen.add((int(entry.name), argv))
        words = argv.split(b"\0")
        in_argv, in_environ = allowed(words)
        shown = b" ".join(words[:4])[:120].decode(errors="replace")
        canaries.look(f"arguments of {shown}", argv, in_argv)
        canaries.look(f"environment of {shown}", environ, in_environ)
