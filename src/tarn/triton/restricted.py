"""The parts of Triton's API that only the master may use, and their keys. Pure.

Measured on Triton 2.51 with ``--http-restricted-api=PARTS:NAME=VALUE`` and
``--grpc-restricted-protocol=PARTS:NAME=VALUE``:

- HTTP without the header NAME, or with another value: 403 and ``{"error":"This API is restricted,
  expecting header 'NAME'"}``, and the connection is closed. The whole value is compared; the case
  of the name is ignored.
- gRPC needs the metadata ``triton-grpc-protocol-NAME``, otherwise ``UNAVAILABLE: This protocol is
  restricted, expecting header 'triton-grpc-protocol-NAME'``.
- Both options may be repeated, each with its own key. Triton exits at once if a part is in two of
  them, does not exist, or the list is empty.
- The metrics port has no keys.

HTTP has the option since the end of 2023, gRPC half a year longer; an older Triton exits because it
does not know the options.

The key can only be passed in Triton's argument list, where users of the same machine can read it.
It protects against the network, not against users of the node.
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
"""The HTTP header with our key; for gRPC it is ``triton-grpc-protocol-tarn-key``."""
HTTP, GRPC = "http-restricted-api", "grpc-restricted-protocol"
LAUNCH_OPTIONS = (HTTP, GRPC)
"""The options of tritonserver, to which users may add their own groups."""
# Parts that change the server for everybody, and so should be restricted.
ADVISED = ("logging", "model-repository", "shared-memory", "trace")
_PURPOSE = b"tarn: restricted parts of Triton: "


@attrs.frozen
class Keys:
    """The keys of one instance's restricted HTTP API."""

    held: tuple[tuple[str, str, str], ...] = attrs.field(default=(), repr=False)
    """(part, name of the header, value) for each restricted part."""

    def of(self, part: str) -> tuple[tuple[str, str], ...]:
        """Return the headers, as (name, value), that a request to *part* needs."""
        return tuple((name, value) for of, name, value in self.held if of == part)


NO_KEYS = Keys()
PLANNED = Secret("planned")
"""In place of the secret if a launch is only shown, and nothing is started."""


def key(secret: Secret, instance_id: str) -> str:
    """Return the key of one instance, 64 hexadecimal digits."""
    # Derived from the cluster's secret, so that a new master knows it too. A key does not reveal
    # those of other instances.
    return hmac.new(
        secret.reveal().encode(), _PURPOSE + instance_id.encode(), hashlib.sha256
    ).hexdigest()


def ours(launch: Launch, instance_id: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the options (name, values) that restrict the parts in ``triton.restricted``.

    Parts for which ``triton.args`` has a user's own key are left out.
    """
    if launch.keys is None:
        return
    opens = key(launch.keys, instance_id)
    for name in LAUNCH_OPTIONS:
        parts = _left(launch.triton, name)
        if parts:
            yield name, (f"{','.join(parts)}:{HEADER}={opens}",)


def keys(launch: Launch, instance_id: str) -> Keys:
    """Return the keys that the master needs for an instance that *launch* started."""
    theirs = tuple(_theirs(launch.triton.args, HTTP))
    if launch.keys is None:
        return Keys(theirs)
    opens = key(launch.keys, instance_id)
    return Keys((*theirs, *((part, HEADER, opens) for part in _left(launch.triton, HTTP))))


def without_keys(text: str) -> str:
    """Return Triton's message about an unknown option, without the key in it."""
    for name in LAUNCH_OPTIONS:
        before, found, after = text.partition(f"--{name}=")
        if found:
            group, equals, rest = after.partition("=")
            shown = f"{group}{equals}***{rest[rest.find(chr(39)) :] if chr(39) in rest else ''}"
            return f"{before}{found}{shown}"
    return text


def findings(spec: ClusterSpec, bind: str) -> Iterator[Finding]:
    """Yield flaws of the user's own groups, and the parts that stay open; without any key.

    *bind* is the address where instances listen; empty for the address of their node.
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
    """Return the first flaw of the user's groups, without a key; '' if there is none."""
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
    """Return the restricted parts that are in no group of the user's; () if they want none."""
    given = _given(triton.args, option)
    if given is not None and not given:
        return ()
    named = {part for part, _, _ in _theirs(triton.args, option)}
    return tuple(part for part in dict.fromkeys(triton.restricted) if part not in named)


def _theirs(args: Mapping[str, object], option: str) -> Iterator[tuple[str, str, str]]:
    """Yield (part, name, value) of each group; Triton will refuse an invalid one."""
    for group in _given(args, option) or ():
        parts, _, setting = str(group).partition(":")
        name, equals, value = setting.partition("=")
        if equals:
            yield from ((part.strip(), name.strip(), value.strip()) for part in parts.split(","))


def _given(args: Mapping[str, object], option: str) -> Iterable[object] | None:
    """Return the user's values of *option*; () for an explicit null, None if it is not given."""
    found: list[object] | None = None
    for raw, value in args.items():
        if raw.lstrip("-").replace("_", "-") == option:
            many = value if isinstance(value, list | tuple) else (value,)
            # As in the command line: a null removes the values before it.
            found = [] if value is None else [*(found or ()), *many]
    return found
