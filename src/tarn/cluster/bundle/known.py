"""The secrets of a cluster as far as this machine knows them, so that a bundle holds none.

They are read to be searched for, and go nowhere.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tarn import config
from tarn.cluster import stores
from tarn.cluster.environment import ClusterEnvironment
from tarn.domain import ClusterSpec, Secret
from tarn.domain.master_files import (
    API_TOKEN,
    MASTER_FILES,
    PROXY_TOKENS,
    SECRETS,
    SPEC,
    STAGED,
    TLS,
    TLS_CA,
    TRITON_SECRET,
)
from tarn.domain.request_proof import scrape_token
from tarn.errors import TarnError
from tarn.plain import MASK, redact, secret_path
from tarn.triton import restricted

__all__ = ["NEVER_READ", "known"]

NEVER_READ = frozenset(MASTER_FILES) - {SPEC, STAGED, TLS_CA}
"""Files of a cluster that no bundle holds, whatever becomes of their content."""
_PEM_LINE = re.compile(r"^[A-Za-z0-9+/=]{24,}$", re.MULTILINE)
_PLACE = re.compile(r"[/~.][^\s]*|[A-Za-z][A-Za-z0-9+.\-]*://[^@\s]*")
_LINE = 12
"""Characters of a line that is searched for by itself."""
_KINDS = frozenset({"auto", "none", "true", "false"})
_WORD = re.compile(r"[a-z]*|[A-Z]*|[0-9]*")
_TOKEN, _SETTING, _VARIABLE = "api token", "setting", "environment variable"
_PROXY = "token of a proxy"


def known(
    spec: ClusterSpec | None,
    around: ClusterEnvironment,
    directory: Path,
    instances: tuple[str, ...],
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return secret to kind, and what could not be read, a sentence each.

    Args:
        spec: Of the cluster; None: nothing is known of it.
        around: Environment and plugins of this process.
        directory: Of the cluster, which may be gone.
        instances: Ids; each has a key of its own for Triton's restricted parts.
    """
    found: dict[str, str] = {}
    found.update(dict.fromkeys(_variables(around.environ), _VARIABLE))
    unread = list[str]()
    if spec is not None:
        plain = config.dump(spec)
        found.update(dict.fromkeys(_hidden(plain, redact(plain)), _SETTING))
        found.update(_named(spec, around.environ))
        if not (directory / SECRETS).is_file():  # which holds all that instances got
            unread += _of_stores(spec, around, found)
    if around.api_token is not None:
        with contextlib.suppress(TarnError):
            found[around.api_token() or ""] = _TOKEN
    found.update(_files(directory, instances))
    found.pop("", None)
    return {**dict(_lines(found)), **found}, tuple(unread)


def _lines(found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of those that have several: a log may write each by itself."""
    for value, kind in found.items():
        lines = value.splitlines()
        if len(lines) > 1:
            yield from ((line.strip(), kind) for line in lines if len(line.strip()) >= _LINE)


def _of_stores(
    spec: ClusterSpec, around: ClusterEnvironment, found: dict[str, str]
) -> Iterator[str]:
    if not spec.secrets:
        return
    try:
        for one in stores.held(spec, around):
            found[one.value.reveal()] = "secret"
    except TarnError as error:
        yield f"the secrets of the spec could not be read here ({error.code}): {error.found}"


def _named(spec: ClusterSpec, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the tokens for which the spec names a file or a variable."""
    tokens = [(spec.api.token, _TOKEN)]
    tokens += [(proxy.token or "", _PROXY) for proxy in spec.api.trusted_proxies]
    for named, kind in tokens:
        source, _, name = named.partition(":")
        if source == "env":
            yield environ.get(name, ""), kind
        elif source == "file":
            yield _text(Path(name)), kind


def _variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield values that variables of this process hold, where their names speak of secrets."""
    for name, value in environ.items():
        speaks = secret_path(f"env.{name}")
        if speaks and not _PLACE.fullmatch(value) and not _WORD.fullmatch(value):
            yield value


def _hidden(plain: object, shown: object) -> Iterator[str]:
    """Yield what *shown*, the redacted form of *plain*, does not show."""
    if isinstance(plain, Mapping) and isinstance(shown, Mapping):
        for key, value in plain.items():
            yield from _hidden(value, shown.get(key))
    elif isinstance(plain, list | tuple) and isinstance(shown, list | tuple):
        for value, told in zip(plain, shown, strict=False):
            yield from _hidden(value, told)
    elif plain != shown and shown is not None:
        yield from _parts(plain, str(shown))


def _parts(plain: object, shown: str) -> Iterator[str]:
    """Yield the texts in *plain* for which *shown* has a mask."""
    if isinstance(plain, Mapping | list | tuple):
        for value in plain.values() if isinstance(plain, Mapping) else plain:
            yield from _parts(value, MASK)
        return
    held = "(.*)".join(map(re.escape, shown.split(MASK)))
    found = re.fullmatch(held, str(plain), re.DOTALL)
    for value in found.groups() if found else (str(plain),):
        if not _PLACE.fullmatch(value) and value.lower() not in _KINDS:
            yield value
            if ":" in value:  # user and password of a URL: either alone tells it, too
                yield value.partition(":")[2]


def _files(directory: Path, instances: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    token = _text(directory / API_TOKEN)
    yield token, _TOKEN
    if token:
        yield scrape_token(token.encode()).decode(), "token of the metrics"
    for name, kind in ((SECRETS, "secret"), (PROXY_TOKENS, _PROXY)):
        with contextlib.suppress(ValueError, AttributeError):
            for value in json.loads(_text(directory / name) or "{}").values():
                yield str(value), kind
    seed = _text(directory / TRITON_SECRET)
    if seed:
        yield seed, "key of Triton"
        for one in instances:
            yield restricted.key(Secret(seed), one), "key of Triton"
    for line in _PEM_LINE.findall(_text(directory / TLS).partition("-----BEGIN CERT")[0]):
        yield line, "private key"


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "surrogateescape").strip()
    except OSError:
        return ""
