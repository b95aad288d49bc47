"""What a real Triton does with a model repository: many repositories for one start of it.

A `Shape` is one repository; its models have names that no other shape has, so that one Triton can
be given the models of all. It runs with the arguments that TARN starts an instance with.
"""

import contextlib
import random
import re
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import psutil
from asking import free_ports
from lint_cases import Case

from tarn.config import environ
from tarn.domain import Endpoint, Launch
from tarn.domain.spec import InstanceSpec, ModelsSpec, TritonSpec
from tarn.triton import command
from tarn.triton.binary import environment, prepare

DEADLINE_S = 300.0
"""For all models of one start together, on a busy machine."""

STUB_WITHIN_S = 250
"""How long a model's process may take to begin; Triton's 30 s are too few on a busy machine."""
STILL = 10
"""Looks, 0.1 s apart, at which the log stands still and no model that is left has a process."""

READY = "ready"
REFUSED = "refused"
NO_BACKEND = "no back end"
"""The configuration was read and found good; only the back end is not in this Triton."""
NEVER = "never answers"
"""Triton waits for this model for ever, and serves nothing at all."""

_ENDED = (
    re.compile(r"Poll failed for model directory '(?P<model>.+?)': (?P<reason>.*)"),
    re.compile(r"failed to load model '(?P<model>.+?)': (?P<reason>.*)"),
    re.compile(r"failed to load '(?P<model>.+?)' version -?\d+: (?P<reason>.*)"),
    re.compile(r"Invalid argument: (?P<reason>(?:in )?ensemble '?(?P<model>[\w.-]+).*)"),
    re.compile(r"successfully loaded '(?P<model>.+?)'(?P<reason>)\"$"),
)
"""The lines of Triton's log that say what became of a model."""
_BEGUN = re.compile(r'"loading: (?P<model>.+):-?\d+"$')
_OF_PROCESS = re.compile(r"/models/(?P<model>[^/]+)/")
"""In the arguments of a model's process: where its file is."""
_BACKEND_MISSING = re.compile("unable to find (Python backend based )?backend library")
_LISTENS = "Started HTTPService at"


@attrs.frozen
class Shape:
    """One repository, built in a directory of its own."""

    name: str
    place: Path
    about: str = ""

    @property
    def models(self) -> tuple[str, ...]:
        """The directories at its top: Triton takes each for a model."""
        return tuple(sorted(entry.name for entry in self.place.iterdir() if entry.is_dir()))


def of_case(case: Case, top: Path) -> Shape:
    """Build *case* below *top*, its models renamed so that no other case has one of the name.

    Those that load in a Triton are all called differently already.
    """
    mark = case.path.name
    place = case.build(top / mark)
    if case.expected.get("loads"):
        return Shape(mark, place, case.expected["about"])
    names = [entry.name for entry in place.iterdir() if entry.is_dir() and entry.name[0] != "."]
    for name in names:
        ours = f"{mark}--{name}"
        for entry in place.iterdir():
            if entry.is_symlink() and entry.readlink() == Path(name):
                entry.unlink()
                entry.symlink_to(ours)
        (place / name).rename(place / ours)
        for config in place.glob("*/[Cc][Oo][Nn][Ff][Ii][Gg].*"):
            if config.is_file() and not config.is_symlink():
                text = config.read_bytes()
                config.write_bytes(text.replace(f'"{name}"'.encode(), f'"{ours}"'.encode()))
    return Shape(mark, place, case.expected["about"])


@attrs.frozen
class Verdict:
    """What Triton did with one model."""

    state: str
    """`READY`, `REFUSED`, `NO_BACKEND` or `NEVER`."""
    reason: str = ""


def verdicts(top: Path, shapes: Sequence[Shape], at_once: int = 8) -> dict[str, Verdict]:
    """Start one Triton with the models of all *shapes*; return model to what became of it.

    Where models keep it from ever answering, a second one gets those whose turn never came. Each
    such model takes one of the *at_once* threads that load.
    """
    asked = {model: shape for shape in shapes for model in shape.models}
    log, listens = run_triton(
        top / "first", {model: asked[model].place / model for model in asked}, at_once
    )
    found = _read(log)
    if not listens:
        found |= {model: Verdict(NEVER) for model in _begun(log) - found.keys()}
        late = {id(asked[model]): asked[model] for model in asked.keys() - found.keys()}
        again = {
            model: shape.place / model
            for shape in late.values()
            for model in shape.models
            if found.get(model) != Verdict(NEVER)
        }
        if again:
            log, listens = run_triton(top / "second", again, at_once)
            assert listens, "\n".join(log[-20:])
            found |= _read(log)
    return {model: found.get(model, Verdict(REFUSED, "it is not listed")) for model in asked}


def _read(log: Iterable[str]) -> dict[str, Verdict]:
    """Return what a log says of the models; the first reason that it gives."""
    found: dict[str, Verdict] = {}
    for line in log:
        for match in filter(None, (pattern.search(line) for pattern in _ENDED)):
            reason = match["reason"].removesuffix('"')
            missing = (
                NO_BACKEND
                if _BACKEND_MISSING.match(reason.removeprefix("Invalid argument: "))
                else REFUSED
            )
            found.setdefault(match["model"], Verdict(missing if reason else READY, reason))
    return found


def run_triton(top: Path, models: Mapping[str, Path], at_once: int = 8) -> tuple[list[str], bool]:
    """Let one Triton load *models*; return its log, and whether it came to listen."""
    repository = top / "models"
    repository.mkdir(parents=True)
    for model, place in models.items():
        (repository / model).symlink_to(place)
    program = prepare(None, environ(), top.parent.parent / "cache")
    args = {
        "model-load-thread-count": at_once,
        "backend-config": f"python,stub-timeout-seconds={STUB_WITHIN_S}",
    }
    spec = ModelsSpec(str(repository)), TritonSpec(args=args), InstanceSpec()
    prefix = f"tarn_oracle_{secrets.token_hex(4)}_"
    argv = command.argv(
        Launch(*spec, str(repository), ""),
        Endpoint("127.0.0.1", *free_ports()),
        program.path,
        bind="127.0.0.1",
        backend_directory=program.backend_directory,
        shm_prefix=prefix,
    )
    file = top / "triton.stderr"
    env = environment(program, environ())
    with (
        file.open("wb") as log,
        subprocess.Popen(argv, stderr=log, stdout=log, env=env, start_new_session=True) as process,
    ):
        try:
            listens = _wait(process, file)
        finally:
            process.kill()  # nothing was asked of it: there is nothing to drain
            process.wait()
            for region in Path("/dev/shm").glob(f"{prefix}*"):
                region.unlink(missing_ok=True)
    return file.read_text(errors="replace").splitlines(), listens


def _wait(process: "subprocess.Popen[bytes]", log: Path) -> bool:
    """Say whether Triton listens; no: it ended, or waits for models that never end."""
    pause, end_s, still, before = threading.Event(), time.monotonic() + DEADLINE_S, 0, ""
    while time.monotonic() < end_s and process.poll() is None and still < STILL:
        text = log.read_text(errors="replace")
        if _LISTENS in text:
            return True
        still, before = still + 1 if text == before and _lost(text, process.pid) else 0, text
        pause.wait(0.1)
    return False


def _lost(text: str, triton: int) -> bool:
    """Say whether models are left in the log *text*, and none of them has a process."""
    lines = text.splitlines()
    left = _begun(lines) - _read(lines).keys()
    return bool(left) and not left & _with_process(triton)


def _with_process(triton: int) -> set[str]:
    """Return the models whose process lives: one that ended before its first word is waited for.

    What such a process says last cannot be counted on: lines of several that end at once run
    into each other.
    """
    found = set()
    for child in psutil.Process(triton).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            words = " ".join(child.cmdline())  # of one that ended: nothing
            found |= {match["model"] for match in _OF_PROCESS.finditer(words)}
    return found


def _begun(log: Iterable[str]) -> set[str]:
    """Return the models whose loading began: Triton says so of all at once, but of ensembles."""
    return {match["model"] for line in log if (match := _BEGUN.search(line))}


# --- shapes that nobody wrote -------------------------------------------------------------------

PYTHON = """backend: "python"
max_batch_size: 8
input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1, 4 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] label_filename: "labels.txt" } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
dynamic_batching { preferred_batch_size: [ 2, 4 ] max_queue_delay_microseconds: 100 }
version_policy { latest { num_versions: 1 } }
parameters { key: "greeting" value { string_value: "hello" } }
"""
ENSEMBLE = """platform: "ensemble"
max_batch_size: 4
input [ { name: "RAW" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "SCORE" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling {
  step [
    {
      model_name: "FIRST"
      model_version: -1
      input_map { key: "IN" value: "RAW" }
      output_map { key: "OUT" value: "MID" }
    },
    {
      model_name: "FIRST"
      model_version: -1
      input_map { key: "IN" value: "MID" }
      output_map { key: "OUT" value: "SCORE" }
    }
  ]
}
"""
PART = """backend: "python"
max_batch_size: 4
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
MODEL = """class TritonPythonModel:
    def execute(self, requests):
        return []
"""

_WORD = re.compile(r'"[^"\n]*"|[A-Za-z0-9_.+-]+|[][{}:,]')
_BLANKS = "\t\v\f\r\xa0\u2003\u3000\x85\u2028\x1c\u200b\ufeff\x01"
_NUMBERS = ("-1", "0", "+8", "08", "010", "0x8", "8.0", "8f", "1e1", '"8"', "99999999999", "-2")
_VERSIONS = ("0", "00", "01", "1a", "-1", "+1", "v1", "1.0", "\uff11", "99999999999", "2-old")
_FILES = ("Model.py", "model.PY", "model.pyc", "main.py", "model")


def mutations(top: Path, seed: int, number: int) -> list[Shape]:
    """Build *number* repositories, each a good one with one thing changed by chance.

    Equal seeds give equal shapes.
    """
    chance = random.Random(seed)
    return [_mutation(top, chance, f"s{seed}x{index}") for index in range(number)]


def _mutation(top: Path, chance: random.Random, mark: str) -> Shape:
    place = top / mark / "models"
    is_ensemble = chance.random() < 0.35
    first = f"{mark}-first"
    version, file = "1", "model.py"
    texts = {first: PART, f"{mark}-both": ENSEMBLE.replace("FIRST", first)}
    if not is_ensemble:
        texts = {f"{mark}-one": PYTHON}
    changed = chance.choice(list(texts))
    about, text = _changed(chance, texts[changed])
    if not is_ensemble and chance.random() < 0.2:
        version = chance.choice(_VERSIONS)
        about, text = f"version {version!r}", texts[changed]
    elif not is_ensemble and chance.random() < 0.1:
        file = chance.choice(_FILES)
        about, text = f"file {file}", texts[changed]
    for name, config in {**texts, changed: text}.items():
        (place / name / version).mkdir(parents=True)
        (place / name / "config.pbtxt").write_text(config, newline="")
        if "both" not in name:
            (place / name / version / file).write_text(MODEL)
        (place / name / "labels.txt").write_text("a\nb\n")
    return Shape(mark, place, f"{changed.rpartition('-')[2]}: {about}")


def _changed(chance: random.Random, text: str) -> tuple[str, str]:
    """Return what was done to *text*, and the text after it."""
    words = list(_WORD.finditer(text))
    how = chance.choice(("drop", "double", "rename", "number", "retype", "shift", "blank", "line"))
    at = chance.choice(words)
    if how == "drop":
        return f"without {at[0]} at {at.start()}", text[: at.start()] + text[at.end() :]
    if how == "double":
        return f"twice {at[0]} at {at.start()}", f"{text[: at.end()]} {at[0]}{text[at.end() :]}"
    if how == "blank":
        blank = chance.choice(_BLANKS)
        put = text[: at.start()] + blank + text[at.start() :]
        return f"{blank!r} before {at[0]} at {at.start()}", put
    if how == "shift":
        brace = chance.choice([word for word in words if word[0] in "[]{}"])
        other = chance.choice([word for word in words if abs(word.start() - brace.start()) < 40])
        cut = text[: brace.start()] + " " + text[brace.end() :]
        put = f"{cut[: other.start()]}{brace[0]} {cut[other.start() :]}"
        return f"{brace[0]} from {brace.start()} to {other.start()}", put
    if how == "line":
        lines = text.splitlines(keepends=True)
        line = chance.randrange(len(lines))
        twice = chance.random() < 0.5
        kept = lines[: line + twice] + lines[line + (not twice) :]
        return f"{'twice' if twice else 'without'} line {line + 1}", "".join(kept)
    wanted = {"rename": str.islower, "number": str.isdigit, "retype": lambda _: True}[how]
    at = chance.choice([word for word in words if wanted(word[0].replace("_", "").strip("-"))])
    new = {
        "rename": lambda: chance.choice((at[0][:-1], f"{at[0]}s", at[0].title(), f"_{at[0]}")),
        "number": lambda: chance.choice(_NUMBERS),
        "retype": lambda: at[0].strip('"') if '"' in at[0] else f'"{at[0]}"',
    }[how]()
    return f"{at[0]} to {new} at {at.start()}", text[: at.start()] + new + text[at.end() :]


def several(top: Path, files: Mapping[str, Mapping[str, str]]) -> Iterator[Shape]:
    """Build a shape for each entry; a content that begins with ``->`` is a link's target."""
    for name, held in files.items():
        place = top / name / "models"
        shutil.rmtree(place, ignore_errors=True)
        for path, content in held.items():
            target = place / f"{name}-{path}"
            if path.endswith("/"):
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if content.startswith("->"):
                target.symlink_to(content[2:])
            else:
                target.write_text(content.replace("@", f"{name}-"), newline="")
        yield Shape(name, place)
