"""Collect the secrets of a cluster that this machine knows, to remove them from a bundle.

They are only searched for, and never stored or sent.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tarn.domain import ClusterSpec, Secret
from tarn.errors import TarnError
from tarn.interfaces import ClusterInspection
from tarn.plain import MASK, redact, secret_path, unstructure
from tarn.plain.credentials import scrape_token
from tarn.plain.master_files import (
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
from tarn.triton import restricted

__all__ = ["NEVER_READ", "known"]

# Files of a cluster that no bundle contains, not even cleaned.
NEVER_READ = frozenset(MASTER_FILES) - {SPEC, STAGED, TLS_CA}
_PEM_LINE = re.compile(r"^[A-Za-z0-9+/=]{24,}$", re.MULTILINE)
_PLACE = re.compile(r"[/~.][^\s]*|[A-Za-z][A-Za-z0-9+.\-]*://[^@\s]*")
# The shortest line of a secret of several lines that is searched for by itself.
_LINE = 12
_KINDS = frozenset({"auto", "none", "true", "false"})
_WORD = re.compile(r"[a-z]*|[A-Z]*|[0-9]*")
_TOKEN, _SETTING, _VARIABLE = "api token", "setting", "environment variable"
_PROXY = "token of a proxy"


def known(
    subject: ClusterInspection, directory: Path, instances: tuple[str, ...]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return secret to kind, and a sentence for each source that could not be read.

    Args:
        subject: The cluster, with the environment of this process.
        directory: The cluster's directory, which may be missing.
        instances: Ids; each instance has its own key for Triton's restricted parts.
    """
    found: dict[str, str] = {}
    spec, environ = subject.spec, subject.context.environ
    found.update(dict.fromkeys(_variables(environ), _VARIABLE))
    unread = list[str]()
    if spec is not None:
        plain = unstructure(spec)
        found.update(dict.fromkeys(_hidden(plain, redact(plain)), _SETTING))
        found.update(_named(spec, environ))
        if not (directory / SECRETS).is_file():  # that file has every secret of the instances
            try:
                found.update(dict.fromkeys(subject.stored_secrets(), "secret"))
            except TarnError as error:
                unread.append(
                    f"the secrets of the spec could not be read here ({error.code}): {error.found}"
                )
    with contextlib.suppress(TarnError):
        found[subject.api_token()] = _TOKEN
    found.update(_files(directory, instances))
    found.pop("", None)
    return {**dict(_lines(found)), **found}, tuple(unread)


def _lines(found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of secrets with several lines, which a log may write one by one."""
    for value, kind in found.items():
        lines = value.splitlines()
        if len(lines) > 1:
            yield from ((line.strip(), kind) for line in lines if len(line.strip()) >= _LINE)


def _named(spec: ClusterSpec, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the tokens whose file or variable the spec names."""
    tokens = [(spec.api.token, _TOKEN)]
    tokens += [(proxy.token or "", _PROXY) for proxy in spec.api.trusted_proxies]
    for named, kind in tokens:
        source, _, name = named.partition(":")
        if source == "env":
            yield environ.get(name, ""), kind
        elif source == "file":
            yield _text(Path(name)), kind


def _variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of environment variables whose names suggest a secret."""
    for name, value in environ.items():
        speaks = secret_path(f"env.{name}")
        if speaks and not _PLACE.fullmatch(value) and not _WORD.fullmatch(value):
            yield value


def _hidden(plain: object, shown: object) -> Iterator[str]:
    """Yield the values of *plain* that its redacted form *shown* hides."""
    if isinstance(plain, Mapping) and isinstance(shown, Mapping):
        for key, value in plain.items():
            yield from _hidden(value, shown.get(key))
    elif isinstance(plain, list | tuple) and isinstance(shown, list | tuple):
        for value, told in zip(plain, shown, strict=False):
            yield from _hidden(value, told)
    elif plain != shown and shown is not None:
        yield from _parts(plain, str(shown))


def _parts(plain: object, shown: str) -> Iterator[str]:
    """Yield the texts in *plain* that are masked in *shown*."""
    if isinstance(plain, Mapping | list | tuple):
        for value in plain.values() if isinstance(plain, Mapping) else plain:
            yield from _parts(value, MASK)
        return
    held = "(.*)".join(map(re.escape, shown.split(MASK)))
    found = re.fullmatch(held, str(plain), re.DOTALL)
    for value in found.groups() if found else (str(plain),):
        if not _PLACE.fullmatch(value) and value.lower() not in _KINDS:
            yield value
            if ":" in value:  # user and password of a URL: the password alone is a secret, too
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
