"""Answers without the models that somebody may not list. Pure.

It works on what is about to be sent: mappings and lists of plain values, row by row. What is
not known to be something else is taken for text that may name a model, so a field that is added
later is covered.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import attrs

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
"""Keys of our own answers whose texts are words of the master, or addresses."""
_OF_MODELS = frozenset({"models", "serve"})
"""Keys of lists of models: by name, or a row each."""
_WORD = re.compile(r"[\w.\-]+")
_MODEL = re.compile(rb'[{,]model="((?:[^"\\]|\\.)*+)"')
"""A quote within a label's value has a backslash before it, so no value looks like this."""
_OTHERS = b"tarn_models_other "
_MOST_SPANS = 1024
"""Places in one word at which a name could stand; a word with more is masked as a whole."""

_LONGEST_KEPT, _MOST_KEPT = 32, 4096

Json = Mapping[str, object]


def models_in(spec: object) -> Iterator[str]:
    """Yield the models of a spec as plain values: what stands in ``models.serve``."""
    models = spec.get("models") if isinstance(spec, Mapping) else None
    served = models.get("serve") if isinstance(models, Mapping) else None
    if isinstance(served, list | tuple):
        yield from (name for name in served if isinstance(name, str))


@attrs.frozen
class VisibilityFilter:
    """What somebody does not get to see, and what they do."""

    names: frozenset[str] = frozenset()
    """Models that they may not list."""
    shown: frozenset[str] = frozenset()
    """Models of which they see all: a hidden name inside one of these is left as it is."""
    cluster: str = ""
    """Name of the cluster, with which those of its instances begin: no secret of a model's."""
    closed: frozenset[str] = frozenset()
    """Models that they may list, and see no details of: no text says which of them it is about."""

    _masks: frozenset[str] = attrs.field(init=False, eq=False, repr=False)
    """Names that stand in no text."""
    _odd: tuple[str, ...] = attrs.field(init=False, eq=False, repr=False)
    """Those that are not a single word, the longest first."""
    _seen: dict[str, str] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    """Words and keys that were looked at: most stand in every row."""

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
        """Return *row*, whose ``name`` is that of the cluster, without hidden models."""
        return _named(row, self.row(row)) if self else row

    def row(self, row: Json) -> Json:
        """Return *row* without hidden models: their rows and keys left out, their names masked."""
        return self._mapping(row, _KEPT) if self else row

    def config(self, spec: Json) -> Json:
        """Return the plain values of a *spec* without hidden models; its keys are anybody's."""
        return _named(spec, self._mapping(spec, frozenset())) if self else spec

    def text(self, text: str) -> str:
        """Return *text* with each hidden name in it masked.

        A name counts where no letter or digit touches it. Of names that begin at one place the
        longest counts, so that the hidden ``ocr`` leaves the shown ``ocr-large`` alone.
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
        """Return the Prometheus *text* without samples that have a hidden model as a label.

        What stands for many models at once may count hidden ones, and is left out, too.
        """
        if not self or b'model="' not in text:
            return text
        masked = {_escaped(name).encode("utf-8", "replace") for name in (*self._masks, OTHER)}
        kept = (one for one in text.split(b"\n") if masked.isdisjoint(_MODEL.findall(one)))
        return b"\n".join(one for one in kept if not one.startswith(_OTHERS))

    def _masked(self, text: str) -> str:
        for name in self._odd:
            text = text.replace(name, MASK)
        masked = _WORD.sub(lambda match: self._word(match[0]), text)
        # a name that stood next to another one stands alone now
        return masked if masked == text else self._masked(masked)

    def _mapping(self, row: Json, kept: frozenset[str]) -> dict[str, object]:
        return {
            key: self._field(key, value, kept)
            for key, value in row.items()
            if self.text(key) == key
        }

    def _field(self, key: str, value: object, kept: frozenset[str]) -> object:
        if key in kept and isinstance(value, str):
            return value
        if key in _OF_MODELS and isinstance(value, list | tuple):
            return [self._model(part, kept) for part in self._listed(value)]
        return self._plain(value, kept)

    def _model(self, part: object, kept: frozenset[str]) -> object:
        """Return one of a list of models: of a closed one its name, and no details."""
        name = part.get("name") if isinstance(part, Mapping) else part
        if not (isinstance(name, str) and name in self.closed):
            return self._plain(part, kept)
        if not isinstance(part, Mapping):
            return part
        blank = {key: "" if isinstance(value, str) else None for key, value in part.items()}
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
        """Return *word* (no blank, slash or quote in it) with the hidden names in it masked."""
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
        """Return where the longest name that begins at *start* ends; 0: none does."""
        for end in ends:
            if end <= start:
                break
            name = word[start:end]
            if name in self._masks or name in self.shown or self._instance(name):
                return end
        return 0

    def _instance(self, name: str) -> bool:
        cluster, dash, number = name.rpartition("-")
        return bool(cluster and dash) and cluster == self.cluster and number.isdigit()


def _named(row: Json, clean: Json) -> Json:
    return {**clean, "name": row["name"]} if "name" in row else clean


def _escaped(name: str) -> str:
    return name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


NOTHING = VisibilityFilter()
"""Nothing is hidden."""
