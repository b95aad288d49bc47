"""Filters models that a user may not list out of answers. Pure.

The filter works on plain mappings and lists just before they are sent. A record that names its
models in a field (an issue, an event, an alert, an unwell instance) is judged by that field: a user
who may not see the details of one of them gets only the title of its code. Texts that are not ours
(Triton's errors, a policy's reasons, what people write) may name any model, so names are masked in
them. A text field that is not known is treated like those, so a new field is covered too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import attrs

from tarn.domain import CODES, Issue
from tarn.domain.model_totals import OTHER

__all__ = ["NOTHING", "VisibilityFilter", "models_in"]

MASK = "***"

_KEPT = frozenset(
    {
        *("id", "instance_id", "container_id", "node", "host", "http", "grpc", "metrics"),
        *("spec_hash", "state", "code", "severity", "epoch", "runtime", "by", "unit"),
        *("cluster", "via", "address"),
    }
)
"""Keys of our answers whose texts are the master's own words, or addresses."""
_OF_MODELS = frozenset({"models", "serve"})
"""Keys of lists of models, by name or with a row each."""
_WORD = re.compile(r"[\w.\-]+")
_BROKEN = "TARN-1111"
"""The code of a model that cannot be served, which an instance may blame."""
_MODEL = re.compile(rb'[{,]model="((?:[^"\\]|\\.)*+)"')
"""A quote inside a label's value is escaped, so no value looks like this."""
_OTHERS = b"tarn_models_other "
_MOST_SPANS = 1024
"""Places in one word where a name may be; a word with more is masked, to bound the work."""

_LONGEST_KEPT, _MOST_KEPT = 32, 4096

Json = Mapping[str, object]


def models_in(spec: object) -> Iterator[str]:
    """Yield the models in ``models.serve`` of a plain spec."""
    models = spec.get("models") if isinstance(spec, Mapping) else None
    served = models.get("serve") if isinstance(models, Mapping) else None
    if isinstance(served, list | tuple):
        yield from (name for name in served if isinstance(name, str))


@attrs.frozen
class VisibilityFilter:
    """What one user may not see."""

    names: frozenset[str] = frozenset()
    """Models that the user may not list."""
    shown: frozenset[str] = frozenset()
    """Models that the user may see in full: a hidden name inside one of these is not masked."""
    cluster: str = ""
    """Name of the cluster: the names of its instances begin with it, and are not masked."""
    closed: frozenset[str] = frozenset()
    """Models that the user may list, without details: no text says which of them it is about."""

    _masks: frozenset[str] = attrs.field(init=False, eq=False, repr=False)
    """Names that are masked in texts."""
    _odd: tuple[str, ...] = attrs.field(init=False, eq=False, repr=False)
    """Those that are not a single word, the longest first."""
    _seen: dict[str, str] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    """A cache of short texts and keys: most are in every row."""

    @_masks.default
    def _find_masks(self) -> frozenset[str]:
        return self.names | self.closed

    @_odd.default
    def _find_odd(self) -> tuple[str, ...]:
        odd = [name for name in self._masks if name and not _WORD.fullmatch(name)]
        return tuple(sorted(odd, key=len, reverse=True))

    def __bool__(self) -> bool:
        return bool(self._masks)

    def head(self, row: Json) -> Json:
        """Return *row*, whose ``name`` is the cluster's, without hidden models."""
        return _named(row, self.row(row)) if self else row

    def row(self, row: Json) -> Json:
        """Return *row* without the rows and keys of hidden models, and with their names masked."""
        return self._mapping(row, _KEPT) if self else row

    def config(self, spec: Json) -> Json:
        """Return a plain *spec* without hidden models."""
        # Users choose keys in a spec, so no key is exempt.
        return _named(spec, self._mapping(spec, frozenset())) if self else spec

    def sees(self, models: Iterable[str]) -> bool:
        """Return whether the user may see the details of all *models*."""
        return self._masks.isdisjoint(models)

    def issue(self, issue: Issue) -> Issue:
        """Return *issue*, in general terms if the user may not see its models."""
        if self.sees(issue.models):
            return issue
        return attrs.evolve(
            issue,
            subject=self.cluster if issue.subject in issue.models else issue.subject,
            found=issue.public or _title(issue.code),
            next_step="",
            models=(),
        )

    def text(self, text: str) -> str:
        """Return *text* with each hidden name in it masked.

        A name counts if no letter or digit touches it. Of the names that begin at one place the
        longest counts: with ``ocr`` hidden and ``ocr-large`` shown, ``ocr-large`` is not masked.
        """
        if not self:
            return text
        if len(text) > _LONGEST_KEPT:
            return self._masked(text)
        known = self._seen.get(text)
        if known is None:
            known = self._masked(text)
            if len(self._seen) < _MOST_KEPT:
                self._seen[text] = known
        return known

    def metrics(self, text: bytes) -> bytes:
        """Return the Prometheus *text* without the samples of hidden models."""
        if not self or b'model="' not in text:
            return text
        # OTHER sums up many models, and may count hidden ones.
        escaped = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
        masked = {
            name.translate(escaped).encode("utf-8", "replace") for name in (*self._masks, OTHER)
        }
        kept = (one for one in text.split(b"\n") if masked.isdisjoint(_MODEL.findall(one)))
        return b"\n".join(one for one in kept if not one.startswith(_OTHERS))

    def _masked(self, text: str) -> str:
        for name in self._odd:
            text = text.replace(name, MASK)
        masked = _WORD.sub(lambda match: self._word(match[0]), text)
        # A name that touched another one may be separate now.
        return masked if masked == text else self._masked(masked)

    def _mapping(self, row: Json, kept: frozenset[str]) -> dict[str, object]:
        row = self._without_message(row)
        return {
            key: self._field(key, value, kept)
            for key, value in row.items()
            if self.text(key) == key
        }

    def _without_message(self, row: Json) -> Json:
        """Return *row*; if the user may not see its models, without its texts about them."""
        if row.get("blamed") and not self.sees(_names(row["blamed"])):
            general = {key: row.get(key) and _title(_BROKEN) for key in ("reason", "suspect")}
            row = {**row, "blamed": "", **general}
        if "message" not in row:
            return row
        about = frozenset(_names(row.get("models", row.get("model"))))
        if self.sees(about):
            return row
        instead: dict[str, object] = {"models": []} if "models" in row else {"model": MASK}
        if not about.isdisjoint(_names(row.get("subject"))):
            instead["subject"] = self.cluster or MASK
        return {**row, "message": _title(str(row.get("code", ""))), **instead}

    def _field(self, key: str, value: object, kept: frozenset[str]) -> object:
        if key in kept and isinstance(value, str):
            return value
        if key in _OF_MODELS and isinstance(value, list | tuple):
            return [self._model(part, kept) for part in self._listed(value)]
        return self._plain(value, kept)

    def _model(self, part: object, kept: frozenset[str]) -> object:
        """Return one item of a list of models; only the name if the model is closed."""
        name = part.get("name") if isinstance(part, Mapping) else part
        if not (isinstance(name, str) and name in self.closed):
            return self._plain(part, kept)
        if not isinstance(part, Mapping):
            return part
        # Without a code a model counts as well, so the code is left out, not blank.
        blank = {k: "" if isinstance(v, str) else None for k, v in part.items() if k != "code"}
        return {**blank, "name": name}

    def _plain(self, value: object, kept: frozenset[str]) -> object:
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return self._mapping(value, kept)
            case list() | tuple():
                return [self._plain(part, kept) for part in self._listed(value)]
            case _:
                return value

    def _listed(self, parts: Iterable[object]) -> Iterator[object]:
        for part in parts:
            name = part.get("name") if isinstance(part, Mapping) else part
            if not (isinstance(name, str) and name in self.names):
                yield part

    def _word(self, word: str) -> str:
        """Return *word*, which matches `_WORD`, with the hidden names in it masked."""
        if word.isalnum():
            return MASK if word in self._masks else word
        last = len(word)
        starts = [i for i in range(last) if i == 0 or not word[i - 1].isalnum()]
        ends = [i for i in range(last, 0, -1) if i == last or not word[i].isalnum()]
        if len(starts) * len(ends) > _MOST_SPANS:
            return MASK
        done, at = "", 0
        for start in starts:
            end = self._known(word, start, ends) if start >= at else 0
            if end:
                name = word[start:end]
                done += word[at:start] + (MASK if name in self._masks else name)
                at = end
        return done + word[at:]

    def _known(self, word: str, start: int, ends: list[int]) -> int:
        """Return the end of the longest known name that begins at *start*; 0 if there is none."""
        for end in ends:
            if end <= start:
                break
            name = word[start:end]
            cluster, _, number = name.rpartition("-")
            is_instance = cluster and cluster == self.cluster and number.isdigit()
            if name in self._masks or name in self.shown or is_instance:
                return end
        return 0


def _title(code: str) -> str:
    known = CODES.get(code)
    return MASK if known is None else known.title


def _names(models: object) -> Iterator[str]:
    """Yield the texts in *models*, which is a list or a single text."""
    listed = models if isinstance(models, list | tuple) else (models,)
    yield from (name for name in listed if isinstance(name, str))


def _named(row: Json, clean: Json) -> Json:
    return {**clean, "name": row["name"]} if "name" in row else clean


NOTHING = VisibilityFilter()
"""Nothing is hidden."""
