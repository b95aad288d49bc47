"""Text recognition: two ONNX models, a detector of text regions and a reader of lines.

The models come with the wheel ``rapidocr-onnxruntime``; its code is not used, because that needs
OpenCV and with it a windowing library that servers lack.
"""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray
from PIL import Image

_DETECTOR = "ch_PP-OCRv4_det_infer.onnx"
_READER = "ch_PP-OCRv4_rec_infer.onnx"
_SIDE = 32  # the detector wants sides that are multiples of this
_LONGEST_SIDE = 1280
_TEXT_FROM = 0.3  # the detector's probability from which a pixel counts as text
_UNCLIP = 1.6  # the detector is trained on shrunken regions: grow them by this
_LINE_HEIGHT = 48  # what the reader was trained on
_LEAST_CONFIDENCE = 0.5

Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels; the last two are outside."""


class TritonPythonModel:
    """What Triton's Python backend calls."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load both networks, each with the number of threads that ``config.pbtxt`` names."""
        threads = int(json.loads(args["model_config"])["parameters"]["threads"]["string_value"])
        self._detector = _session(_DETECTOR, threads)
        self._reader = _session(_READER, threads)
        characters = self._reader.get_modelmeta().custom_metadata_map["character"].splitlines()
        self._alphabet = ["", *characters, " "]  # the first means: no character here

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer every request; a picture that cannot be read fails alone."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        picture = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()
        if min(picture.shape[:2]) < 1:
            error = pb_utils.TritonError(f"IMAGE has shape {list(picture.shape)}: no pixels")
            return pb_utils.InferenceResponse(error=error)
        read = [(*self._read(picture, box), box) for box in self._lines(picture)]
        sure = [line for line in read if line[1] >= _LEAST_CONFIDENCE]
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("TEXT", np.array([t.encode() for t, _, _ in sure], dtype=object)),
                pb_utils.Tensor("CONFIDENCE", np.array([c for _, c, _ in sure], np.float32)),
                pb_utils.Tensor("BOX", np.array([b for _, _, b in sure], np.int32).reshape(-1, 4)),
            ]
        )

    def _lines(self, picture: NDArray[np.uint8]) -> list[Box]:
        """Find the lines of upright text, from top to bottom."""
        height, width = picture.shape[:2]
        shrink = min(1.0, _LONGEST_SIDE / max(height, width))
        rows, columns = (max(_SIDE, round(n * shrink / _SIDE) * _SIDE) for n in (height, width))
        (probability,) = self._detector.run(None, {"x": _planes(picture, columns, rows)})
        scale = np.array([width / columns, height / rows] * 2)
        grown = [_grow(box) for box in _regions(probability[0, 0] > _TEXT_FROM)]
        boxes = [np.array(box) * scale for box in _join(grown)]
        limits = np.array([width, height] * 2)
        return [_whole(np.clip(box, 0, limits)) for box in boxes]

    def _read(self, picture: NDArray[np.uint8], box: Box) -> tuple[str, float]:
        """Return the text in *box*, and how sure the reader is of its characters on average."""
        left, top, right, bottom = box
        columns = max(_LINE_HEIGHT, round((right - left) * _LINE_HEIGHT / (bottom - top)))
        line = _planes(picture[top:bottom, left:right], columns, _LINE_HEIGHT)
        (scores,) = self._reader.run(None, {"x": line})
        best = scores[0].argmax(axis=1)
        new = (best != 0) & (best != np.concatenate(([0], best[:-1])))
        text = "".join(self._alphabet[i] for i in best[new])
        return text.strip(), float(scores[0].max(axis=1)[new].mean()) if new.any() else 0.0


def _session(name: str, threads: int) -> onnxruntime.InferenceSession:
    """Open one of the wheel's networks without importing the wheel's code."""
    wheel = importlib.util.find_spec("rapidocr_onnxruntime")
    if wheel is None or wheel.origin is None:
        raise ModuleNotFoundError(
            "the models of rapidocr-onnxruntime are missing; "
            "pip install 'tarn-orchestrator[examples]'"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    path = Path(wheel.origin).parent / "models" / name
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _planes(picture: NDArray[np.uint8], columns: int, rows: int) -> NDArray[np.float32]:
    """Scale to columns x rows, and lay out as both networks want it: blue first, from -1 to 1."""
    scaled = np.asarray(Image.fromarray(picture).resize((columns, rows)), np.float32)
    return (scaled[:, :, ::-1] / 127.5 - 1.0).transpose(2, 0, 1)[np.newaxis].copy()


def _regions(text: NDArray[np.bool_]) -> Iterator[Box]:
    """Yield the box around every region of touching text pixels, in no order."""
    pending = {(int(y), int(x)) for y, x in zip(*np.nonzero(text), strict=True)}
    while pending:
        edge, region = [pending.pop()], []
        while edge:
            y, x = edge.pop()
            region.append((y, x))
            near = {(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)} & pending
            pending -= near
            edge.extend(near)
        ys, xs = zip(*region, strict=True)
        yield min(xs), min(ys), max(xs) + 1, max(ys) + 1


def _grow(box: Box) -> Box:
    """Undo the shrinking of the training: the margin is area x ratio / perimeter."""
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    margin = round(width * height * _UNCLIP / (2 * (width + height)))
    return left - margin, top - margin, right + margin, bottom + margin


def _join(boxes: list[Box]) -> list[Box]:
    """Make one box of words that stand next to one another; the gap is at most a line's height."""
    lines: list[Box] = []
    for box in sorted(boxes):
        left, top, right, bottom = box
        for i, (l_left, l_top, l_right, l_bottom) in enumerate(lines):
            shared = min(bottom, l_bottom) - max(top, l_top)
            if shared > (bottom - top) / 2 and left - l_right < bottom - top:
                joined = min(top, l_top), max(right, l_right), max(bottom, l_bottom)
                lines[i] = (l_left, *joined)
                break
        else:
            lines.append(box)
    return sorted(lines, key=lambda line: (line[1], line[0]))


def _whole(box: NDArray[np.float64]) -> Box:
    left, top, right, bottom = (int(edge) for edge in box)
    return left, top, max(right, left + 1), max(bottom, top + 1)
