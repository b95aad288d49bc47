"""The test requests for the models of a fleet, and what is known about each.

They come from the user, or are made from a model's configuration if that is safe for the model.
"""

import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from tarn.domain.spec import NO_TEST
from tarn.triton.test_requests import BYTES, MADE, SIZES, TestRequest, in_binary

__all__ = ["MOST_BYTES", "MOST_COPIES", "KnownTests", "MadeFrom", "made_from"]


MOST_COPIES = 8
"""Copies of a model in one instance (``instance_group``) that are tested, one after another."""
MOST_BYTES = 4 << 20
"""Of a made request; a model with larger inputs needs one from the user."""
# The parameter in ``config.pbtxt`` whose value ``none`` prevents a made request.
_OPT_OUT = "tarn_test_request"

Json = Mapping[str, Any]


@attrs.frozen
class MadeFrom:
    """What a test request can be made from, by the configuration of a model."""

    model: str
    copies: int = 1
    """Copies of the model in one instance."""
    unsafe: str = ""
    """Why no request is made; empty if one can be."""
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    """Name, data type and shape of each required input."""

    def request(self) -> TestRequest | None:
        """Return a request of zeros and empty strings; None if that is not safe."""
        if self.unsafe:
            return None
        body, length = in_binary(
            (name, datatype, list(shape), bytes(_size(datatype) * math.prod(shape)))
            for name, datatype, shape in self.inputs
        )
        return TestRequest(
            self.model,
            body,
            (("Inference-Header-Content-Length", str(length)),),
            "application/octet-stream",
            source=MADE,
            copies=self.copies,
        )


def made_from(model: str, config: Json) -> MadeFrom:
    """Return what a test request can be made from, by ``GET /v2/models/<model>/config``."""
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    try:
        copies = min(_copies(config), MOST_COPIES)
    except (TypeError, ValueError, AttributeError):
        copies = 1
    try:
        unsafe = _unsafe(config)
        if not unsafe:
            inputs = tuple(_inputs(config))
            if sum(_size(kind) * math.prod(shape) for _, kind, shape in inputs) > MOST_BYTES:
                unsafe = f"its inputs have more than {MOST_BYTES} bytes"
    except (KeyError, TypeError, ValueError, AttributeError):
        unsafe = "its configuration cannot be read"
    return MadeFrom(model, copies, unsafe, () if unsafe else inputs)


def _unsafe(config: Json) -> str:
    """Return why no request is made for the model of *config*; empty if one may be."""
    if config.get("platform") == "ensemble":
        return "it is an ensemble, and its steps are tested instead"
    if "sequence_batching" in config:
        return "it keeps a state for each sequence"
    if (config.get("model_transaction_policy") or {}).get("decoupled"):
        return "it is decoupled: it answers over gRPC only"
    chosen = (config.get("parameters") or {}).get(_OPT_OUT) or {}
    if chosen.get("string_value") == NO_TEST:
        return f"its config.pbtxt says {_OPT_OUT} = {NO_TEST}"
    reasons = (_unsafe_input(tensor) for tensor in config.get("input") or ())
    return next(filter(None, reasons), "")


def _keeps_answers(config: Json) -> bool:
    cache = config.get("response_cache")
    return isinstance(cache, Mapping) and bool(cache.get("enable"))


def _unsafe_input(tensor: Json) -> str:
    if tensor.get("is_shape_tensor"):
        return "one of its inputs is a shape, which cannot be zero"
    datatype = _datatype(tensor)
    known = datatype == BYTES or datatype in SIZES
    return "" if known else f"one of its inputs has the type {datatype or 'none'}"


def _inputs(config: Json) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    batch = (1,) if int(config.get("max_batch_size") or 0) > 0 else ()
    for tensor in config.get("input") or ():
        if not tensor.get("optional"):
            dims = tuple(1 if int(size) < 0 else int(size) for size in tensor["dims"])
            yield str(tensor["name"]), _datatype(tensor), (*batch, *dims)


def _datatype(tensor: Json) -> str:
    """Return the data type as in requests, where ``TYPE_STRING`` is ``BYTES``."""
    name = str(tensor.get("data_type") or "").removeprefix("TYPE_")
    return BYTES if name == "STRING" else name


def _size(datatype: str) -> int:
    """Return the bytes of one zero element; an empty string consists of its length."""
    return struct.calcsize("<I") if datatype == BYTES else SIZES[datatype]


def _copies(config: Json) -> int:
    groups = config.get("instance_group") or ()
    return max(
        1,
        sum(
            int(group.get("count") or 1) * max(1, len(group.get("gpus") or ()))
            for group in groups
            if not group.get("passive")
        ),
    )


class KnownTests:
    """The test requests of a whole fleet, by model.

    The thread of the scraper changes it, and any thread may read it: each change is of one entry.

    Args:
        written: The requests of the user's file, then warm-up requests. Of several for one model,
            the first that is not unfit counts.
        off: Whether the user wants none (``instance.test_request: none``).
        cached: Whether instances have a response cache. Models that use it get no test request,
            since Triton would answer it without computing, even when the model is broken.
    """

    def __init__(
        self, written: Iterable[TestRequest] = (), *, off: bool = False, cached: bool = False
    ) -> None:
        self._written, self._off, self._cached = tuple(written), off, cached
        self._keeping: set[str] = set()
        self._made: dict[str, MadeFrom] = {}
        # Requests from `_made`, cached since the control thread asks for them in every tick.
        self._built: dict[str, TestRequest | None] = {}
        self._proven: set[tuple[str, str]] = set()
        self._unfit: dict[tuple[str, str], str] = {}

    def take(self, others: "KnownTests") -> None:
        """Take the user's requests of *others*; what was learned of models is kept."""
        written = {_key(test) for test in self._written}
        self._written, self._off, self._cached = others.wanted
        self._proven -= written
        for key in written:
            self._unfit.pop(key, None)

    @property
    def wanted(self) -> tuple[tuple[TestRequest, ...], bool, bool]:
        """The requests of the user, whether none is wanted, and whether answers are kept."""
        return self._written, self._off, self._cached

    def learn(self, model: str, config: Mapping[str, Any]) -> None:
        """Store Triton's answer about the configuration of *model*."""
        made = made_from(model, config)
        if self._cached and _keeps_answers(config):
            self._keeping.add(model)
        else:
            self._keeping.discard(model)
        if made != self._made.get(model):
            self._made[model] = made
            self._built.pop(model, None)
            self._proven.discard((model, MADE))
            self._unfit.pop((model, MADE), None)

    def is_proven(self, test: TestRequest) -> bool:
        """Return whether an instance has answered this request well."""
        return _key(test) in self._proven

    def prove(self, test: TestRequest) -> None:
        """Note that an instance has answered this request well."""
        self._proven.add(_key(test))

    def refuse(self, test: TestRequest, why: str) -> None:
        """Note that this request is unfit, so that the next source is used."""
        self._unfit[_key(test)] = why

    def is_unfit(self, test: TestRequest) -> bool:
        """Return whether this request is unfit."""
        return _key(test) in self._unfit

    def test_for(self, model: str, number: int = 1, timeout_s: float = 10.0) -> TestRequest | None:
        """Return the test request for *model*; None if there is none, or none is wanted.

        Args:
            model: The name of the model.
            number: The number of the test; a new number is a new test.
            timeout_s: For the whole test.
        """
        if self._off or model in self._keeping:
            return None
        made = self._made.get(model)
        of_model = (test for test in self._written if test.model == model)
        fit = (test for test in of_model if _key(test) not in self._unfit)
        found = next(fit, None)
        if found is None and (model, MADE) not in self._unfit:
            found = None if made is None else self._built_from(made)
        if found is None:
            return None
        copies = 1 if made is None else made.copies
        return attrs.evolve(found, number=number, timeout_s=timeout_s, copies=copies)

    def _built_from(self, made: MadeFrom) -> TestRequest | None:
        if made.model not in self._built:
            self._built[made.model] = made.request()
        return self._built[made.model]

    def tests_for(
        self, suspect: str, model: str, number: int, *, peer: str = "", timeout_s: float = 10.0
    ) -> dict[str, TestRequest]:
        """Return the instances that get a test request now, with the request.

        Args:
            suspect: The instance that seems to fail.
            model: The model that fails there.
            number: The number of the test.
            peer: Another instance that serves the model. It is tested too if the request is made
                and not yet proven, since the model may fail for zeros on every instance.
            timeout_s: For each test.
        """
        test = self.test_for(model, number, timeout_s)
        if test is None:
            return {}
        asked = [suspect]
        if peer and test.source == MADE and not self.is_proven(test):
            asked.append(peer)
        return dict.fromkeys(asked, test)

    def why_none(self, model: str) -> str:
        """Return why there is no test request for *model*; empty if there is one."""
        if self._off:
            return "instance.test_request is none"
        if model in self._keeping:
            return "its answers come from the response cache, so that one proves nothing"
        if self.test_for(model) is not None:
            return ""
        made = self._made.get(model)
        if made is None:
            return "its configuration is not known yet"
        return (
            made.unsafe
            or f"the generated request was refused: {self._unfit.get((model, MADE), '')}"
        )


def _key(test: TestRequest) -> tuple[str, str]:
    return test.model, test.source
