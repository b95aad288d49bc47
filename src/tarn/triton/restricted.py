"""The parts of Triton's API that only the master may use, and what opens them. Pure.

What was measured on Triton 2.51 with ``--http-restricted-api=PARTS:NAME=VALUE`` and
``--grpc-restricted-protocol=PARTS:NAME=VALUE``:

- HTTP without the header NAME, or with another value: 403 and ``{"error":"This API is restricted,
  expecting header 'NAME'"}``, and the connection ends. The header is compared whole; its name
  counts in any case.
- gRPC wants the metadata ``triton-grpc-protocol-NAME``, else ``UNAVAILABLE: This protocol is
  restricted, expecting header 'triton-grpc-protocol-NAME'``.
- Both options may be given often, each with a key of its own; a part that stands in two of them
  ends Triton at once. So does a word that names no part, and an empty list.
- The metrics port knows no keys.

HTTP learned this at the end of 2023, gRPC half a year earlier: an older Triton does not know the
options, and ends.

The key stands in Triton's argument list, for it takes it in no other way: whoever may look at the
processes of that machine sees it. It guards against the network, not against users of the node.
"""

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping

import attrs

from tarn.domain import ClusterSpec, Launch, Secret
from tarn.domain.spec import RESTRICTABLE, TritonSpec
from tarn.interfaces import Finding

__all__ = [
    "HEADER",
    "LAUNCH_OPTIONS",
    "NO_KEYS",
    "PLANNED",
    "Keys",
    "findings",
    "key",
    "keys",
    "ours",
    "without_keys",
]

HEADER = "tarn-key"
"""Name of the HTTP header of our key; gRPC's is ``triton-grpc-protocol-tarn-key``."""
HTTP, GRPC = "http-restricted-api", "grpc-restricted-protocol"
LAUNCH_OPTIONS = (HTTP, GRPC)
"""Options of tritonserver that a user may have groups of their own in, besides ours."""
ADVISED = ("logging", "model-repository", "shared-memory", "trace")
"""Parts that change the server for everybody: in Triton itself, nobody's to use."""
_PURPOSE = b"tarn: restricted parts of Triton: "


@attrs.frozen
class Keys:
    """What opens the restricted parts of one instance's HTTP API."""

    held: tuple[tuple[str, str, str], ...] = attrs.field(default=(), repr=False)
    """(part, name of the header, value): one for each part that is restricted."""

    def of(self, part: str) -> tuple[tuple[str, str], ...]:
        """Return the headers, as (name, value), that a question to *part* must carry."""
        return tuple((name, value) for of, name, value in self.held if of == part)


NO_KEYS = Keys()
PLANNED = Secret("planned")
"""Stands for the secret where a launch is only shown: nobody ever starts anything with it."""


def key(secret: Secret, instance_id: str) -> str:
    """Return the key of one instance, 64 hexadecimal digits.

    Everybody who has the *secret* of the cluster knows it, so that a new master knows it, too;
    whoever has one key does not know another one.
    """
    return hmac.new(
        secret.reveal().encode(), _PURPOSE + instance_id.encode(), hashlib.sha256
    ).hexdigest()


def ours(launch: Launch, instance_id: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the options (name, values) that keep everybody else out of ``triton.restricted``.

    Parts for which a user has a key of their own in ``triton.args`` are left to that one.
    """
    if launch.keys is None:
        return
    opens = key(launch.keys, instance_id)
    for name in LAUNCH_OPTIONS:
        parts = _left(launch.triton, name)
        if parts:
            yield name, (f"{','.join(parts)}:{HEADER}={opens}",)


def keys(launch: Launch, instance_id: str) -> Keys:
    """Return what the master must say to an instance that *launch* started."""
    theirs = tuple(_theirs(launch.triton.args, HTTP))
    if launch.keys is None:
        return Keys(theirs)
    opens = key(launch.keys, instance_id)
    return Keys((*theirs, *((part, HEADER, opens) for part in _left(launch.triton, HTTP))))


def without_keys(text: str) -> str:
    """Return a line of Triton's, which repeats an option it does not know, without the key."""
    for name in LAUNCH_OPTIONS:
        before, found, after = text.partition(f"--{name}=")
        if found:
            group, equals, rest = after.partition("=")
            shown = f"{group}{equals}***{rest[rest.find(chr(39)) :] if chr(39) in rest else ''}"
            return f"{before}{found}{shown}"
    return text


def findings(spec: ClusterSpec, bind: str) -> Iterator[Finding]:
    """Yield what is wrong with the user's own groups, and what stays open. No value is shown.

    *bind* is where instances listen; empty: at the address of their node.
    """
    for option in LAUNCH_OPTIONS:
        wrong = _wrong(spec.triton.args, option)
        if wrong:
            yield Finding(
                "TARN-3782",
                f"triton.args.{option}",
                wrong,
                f"Write PARTS:NAME=VALUE; parts are {', '.join(RESTRICTABLE)}",
            )
    if bind.startswith("127.") or bind in ("localhost", "::1"):
        return
    for option in LAUNCH_OPTIONS:
        closed = {*_left(spec.triton, option), *(p for p, *_ in _theirs(spec.triton.args, option))}
        opened = [part for part in ADVISED if part not in closed]
        if opened:
            yield Finding(
                "TARN-3781",
                "triton.restricted" if option == HTTP else f"triton.restricted ({option})",
                f"leaves {', '.join(opened)} open to everybody who reaches an instance's port",
                "Add them there, or protect the ports with a firewall",
                fatal=False,
            )


def _wrong(args: Mapping[str, object], option: str) -> str:
    """Return what Triton would not read in the user's groups, without a value; '' if nothing."""
    groups = tuple(_given(args, option) or ())
    read = [tuple(_theirs({option: group}, option)) for group in groups]
    named = [part for group in read for part, _, _ in group]
    if any(not group for group in read):
        return "has no key"
    if any(
        not (name and value and f"{name}{value}".isprintable())
        for g in read
        for _, name, value in g
    ):
        return "has an empty key, or one that a header cannot carry"
    unknown = [part for part in named if part not in RESTRICTABLE]
    if unknown:
        return f"names parts that Triton's API does not have: {', '.join(map(repr, unknown))}"
    twice = sorted({part for part in named if named.count(part) > 1})
    return f"names {', '.join(twice)} twice" if twice else ""


def _left(triton: TritonSpec, option: str) -> tuple[str, ...]:
    """Return the restricted parts that no group of the user's names; () where they want none."""
    given = _given(triton.args, option)
    if given is not None and not given:
        return ()
    named = {part for part, _, _ in _theirs(triton.args, option)}
    return tuple(part for part in dict.fromkeys(triton.restricted) if part not in named)


def _theirs(args: Mapping[str, object], option: str) -> Iterator[tuple[str, str, str]]:
    """Yield (part, name, value) of each group; one that cannot be read is Triton's to refuse."""
    for group in _given(args, option) or ():
        parts, _, setting = str(group).partition(":")
        name, equals, value = setting.partition("=")
        if equals:
            yield from ((part.strip(), name.strip(), value.strip()) for part in parts.split(","))


def _given(args: Mapping[str, object], option: str) -> Iterable[object] | None:
    """Return the user's values of *option*, () for an explicit nothing; None: not named."""
    found: list[object] | None = None
    for raw, value in args.items():
        if raw.lstrip("-").replace("_", "-") == option:
            many = value if isinstance(value, list | tuple) else (value,)
            # As the command line is made: nothing takes away what stands before it.
            found = [] if value is None else [*(found or ()), *many]
    return found
