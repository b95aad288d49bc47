"""Mutations of a good tarn.yaml end in an error that names the line, or in what the file says.

What the file says is judged without the loader: each mutation knows what it did, and the text of a
value is read by the table `READINGS`, written down from YAML 1.1 and the core schema of YAML 1.2.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn import config
from tarn.cli.options import overlay
from tarn.errors import ConfigErrors

TEXT, WHOLE, ANY = "text", "whole", "any"
NOTHING = object()


@attrs.frozen
class Line:
    """One line of the good file: its depth, its key, and what it means."""

    path: str
    text: str
    kind: str = ""
    """Empty: the line opens a mapping."""
    means: Any = NOTHING

    @property
    def written(self) -> str:
        *above, key = self.path.split(".")
        return f"{'  ' * len(above)}{key}:{' ' if self.text else ''}{self.text}"


GOOD = (
    Line("name", "llama", TEXT, "llama"),
    Line("models", ""),
    Line("models.repository", "/srv/models", TEXT, "/srv/models"),
    Line("models.control", "explicit", TEXT, "explicit"),
    Line("triton", ""),
    Line("triton.image", "example/triton:1.10", TEXT, "example/triton:1.10"),
    Line("triton.http_port", "8100", WHOLE, 8100),
    Line("triton.env", ""),
    Line("triton.env.UMASK", '"0027"', TEXT, "0027"),
    Line("triton.env.GREETING", "good day", TEXT, "good day"),
    Line("instance", ""),
    Line("instance.start_timeout", "15m", TEXT, "15m"),
    Line("instance.resources", ""),
    Line("instance.resources.memory", "8GiB", TEXT, "8GiB"),
    Line("instance.resources.vcores", "4", WHOLE, 4),
    Line("replicas", ""),
    Line("replicas.min", "2", WHOLE, 2),
    Line("replicas.max", "9", WHOLE, 9),
    Line("scaling", ""),
    Line("scaling.use", "target", TEXT, "target"),
    Line("scaling.cooldown", "90s", TEXT, "90s"),
    Line("scaling.options", ""),
    Line("scaling.options.target", "1.50", ANY, 1.5),
    Line("log", ""),
    Line("log.level", "debug", TEXT, "debug"),
)
LEAVES = [number for number, line in enumerate(GOOD) if line.kind]

READINGS: dict[str, tuple[Any, Any]] = {
    # text in the file: (YAML 1.1, YAML 1.2); NOTHING: neither text nor a value
    "010": (8, 10),
    "0027": (23, 27),
    "08": ("08", 8),
    "-010": (-8, -10),
    "0o10": ("0o10", 8),
    "0x10": (16, 16),
    "-0x10": (-16, "-0x10"),
    "0b11": (3, "0b11"),
    "1_000": (1000, "1_000"),
    "12:30": (750, "12:30"),
    "12:30:00": (45000, "12:30:00"),
    "1.5:30": ("1.5:30", "1.5:30"),
    "190:20:30.15": (685230.15, "190:20:30.15"),
    "on": (True, "on"),
    "Off": (False, "Off"),
    "NO": (False, "NO"),
    "yes": (True, "yes"),
    "y": ("y", "y"),  # true in the text of YAML 1.1; no program reads it so
    "n": ("n", "n"),
    "true": (True, True),
    "False": (False, False),
    "tRUE": ("tRUE", "tRUE"),
    "2024-01-01": (NOTHING, "2024-01-01"),
    "2024-13-45": (NOTHING, "2024-13-45"),
    "2001-12-14t21:59:43.10-05:00": (NOTHING, "2001-12-14t21:59:43.10-05:00"),
    "1e3": ("1e3", 1000.0),
    "1.5e3": ("1.5e3", 1500.0),
    "1.0e+3": (1000.0, 1000.0),
    ".5": (0.5, 0.5),
    "+.5": ("+.5", 0.5),
    "5.": (5.0, 5.0),
    "1.10": (1.1, 1.1),
    "+12": (12, 12),
    "00": (0, 0),
    "~": (None, None),
    "": (None, None),
    "null": (None, None),
    "Null": (None, None),
    "nULL": ("nULL", "nULL"),
    ".inf": (math.inf, math.inf),
    "-.INF": (-math.inf, -math.inf),
    ".nan": (math.nan, math.nan),
    "=": (NOTHING, "="),
    "<<": (NOTHING, "<<"),
    "1.2.3": ("1.2.3", "1.2.3"),
    "10.0.0.5": ("10.0.0.5", "10.0.0.5"),
    "plain words": ("plain words", "plain words"),
    "'010'": ("010", "010"),
    '"off"': ("off", "off"),
    '"1\\x32"': ("12", "12"),
    "!!str 010": ("010", "010"),
    "!!int '12'": (NOTHING, NOTHING),
    "!!float 3": (NOTHING, NOTHING),
    "!!python/name:os.system x": (NOTHING, NOTHING),
    "\u0664": ("\u0664", "\u0664"),  # a digit that is not ASCII
    "[3]": (NOTHING, NOTHING),
    "{a: 3}": (NOTHING, NOTHING),
    "5\u00a0": (NOTHING, NOTHING),
    "\u20035": (NOTHING, NOTHING),
    "5\u200b": (NOTHING, NOTHING),
    "a\u2028b": (NOTHING, NOTHING),
    "a\x85b": (NOTHING, NOTHING),
    "&b": (None, None),
    "! 5": (NOTHING, NOTHING),
    "! '5'": (NOTHING, NOTHING),
    "&b ! 5": (NOTHING, NOTHING),
        "@a": (NOTHING, NOTHING),
    "`a`": (NOTHING, NOTHING),
    "%a": (NOTHING, NOTHING),
    "*nobody": (NOTHING, NOTHING),
    "'open": (NOTHING, NOTHING),
    "a: b": (NOTHING, NOTHING),
    "5 # five": (5, 5),
    "5#five": ("5#five", "5#five"),
}  # fmt: skip
DEFAULTS = {
    "models.control": "none",
    "triton.image": "nvcr.io/nvidia/tritonserver:24.09-py3",
    "triton.http_port": None,
    "triton.env.UMASK": NOTHING,
    "triton.env.GREETING": NOTHING,
    "instance.start_timeout": "15m",
    "instance.resources.memory": "4GiB",
    "instance.resources.vcores": 2,
    "replicas.min": 1,
    "replicas.max": 10,
    "scaling.use": "target",  # chosen, since the bounds leave room
    "scaling.cooldown": "1m",
    "scaling.options.target": NOTHING,
    "log.level": "info",
}


def alike(one: Any, other: Any) -> bool:
    """Whether both are the same value: true is not 1."""
    number = isinstance(one, int | float) and isinstance(other, int | float)
    if number and not isinstance(one, bool) and not isinstance(other, bool):
        return one == other or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and one == other


def fits(value: Any, kind: str) -> bool:
    """Whether *value* may stand where a *kind* is wanted."""
    if kind == ANY:
        return not isinstance(value, float) or math.isfinite(value)
    if kind == WHOLE:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str)


def found(loaded: config.LoadedSpec, path: str) -> Any:
    """Return the value at *path* as plain data; NOTHING where there is none."""
    value: Any = config.dump(loaded.spec)
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return NOTHING
        value = value[key]
    return value


@attrs.frozen
class Mutation:
    """A file, and what is right: each changed path with its value, or errors on *lines*."""

    text: str
    says: dict[str, Any] | None
    """None: it must be refused."""
    lines: tuple[int, ...] = ()
    """An error may also be right; it names one of these. Empty: it must be read."""


def file_of(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def written() -> list[str]:
    return [line.written for line in GOOD]


RETYPED = {"models.repository", "triton.http_port", "triton.env.GREETING", "scaling.use",
           "instance.start_timeout", "scaling.options.target"}  # fmt: skip
"""One line of each kind: more of them find nothing else, and take long."""


def retyped() -> Iterator[Mutation]:
    for number in LEAVES:
        line = GOOD[number]
        for text, (older, newer) in READINGS.items() if line.path in RETYPED else ():
            if line.kind == ANY and text[0:1] in {"[", "{"}:
                continue
            lines = written()
            lines[number] = attrs.evolve(line, text=text or " ").written.rstrip(" ")
            same = older is not NOTHING and newer is not NOTHING and alike(older, newer)
            is_null = newer is None and line.path in {"name", "triton.http_port", "scaling.use"}
            if same and is_null:
                says = {line.path: {"name": "served", "scaling.use": "target"}.get(line.path)}
                yield Mutation(file_of(lines), says)
            elif same and fits(newer, line.kind):
                yield Mutation(file_of(lines), {line.path: newer}, (number + 1,))
            else:
                yield Mutation(file_of(lines), None, (number + 1,))


def dropped() -> Iterator[Mutation]:
    for number in LEAVES:
        line = GOOD[number]
        lines = written()
        del lines[number]
        if line.path == "models.repository":
            yield Mutation(file_of(lines), None, tuple(range(len(lines) + 1)))
        else:
            default = "served" if line.path == "name" else DEFAULTS[line.path]
            # its mapping may be left empty, which is null: an error at that line
            yield Mutation(file_of(lines), {line.path: default}, (number,))


def doubled() -> Iterator[Mutation]:
    for number, line in enumerate(GOOD):
        lines = written()
        lines.insert(number + 1, lines[number])
        yield Mutation(file_of(lines), None, (number + 2,))
        lines[number + 1] = lines[number + 1].replace(line.path.rpartition(".")[2], '"{}"'.format(
            line.path.rpartition(".")[2]), 1)  # fmt: skip
        yield Mutation(file_of(lines), None, (number + 2,))


def renamed() -> Iterator[Mutation]:
    for number in LEAVES:
        above, _, key = GOOD[number].path.rpartition(".")
        free = above in {"triton.env", "scaling.options"}
        for other in (
            f"{key}x", key.swapcase(), f"{key}\u00a0", f"{key} ", f"'{key}'", f'"{key}"',
            f"\t{key}", "OFF", "~", "1", "=", "2024-01-01", "[a]", "? a", "010",
        ):  # fmt: skip
            lines = written()
            lines[number] = lines[number].replace(key, other, 1)
            bare = other.strip("'\" ")
            if bare == key:
                yield Mutation(file_of(lines), {})
            elif free and bare in {f"{key}x", key.swapcase()}:
                moved = {GOOD[number].path: NOTHING, f"{above}.{bare}": GOOD[number].means}
                yield Mutation(file_of(lines), moved)
            else:
                yield Mutation(file_of(lines), None, (number + 1, number))


def swapped() -> Iterator[Mutation]:
    for number in LEAVES:
        for other in LEAVES:
            one, two = GOOD[number], GOOD[other]
            if number >= other:
                continue
            lines = written()
            if one.path.rpartition(".")[0] == two.path.rpartition(".")[0]:
                lines[number], lines[other] = lines[other], lines[number]
                yield Mutation(file_of(lines), {})
            lines = written()
            lines[number] = attrs.evolve(one, text=two.text).written
            lines[other] = attrs.evolve(two, text=one.text).written
            says = {one.path: two.means, two.path: one.means}
            right = fits(two.means, one.kind) and fits(one.means, two.kind)
            limits = tuple(n + 1 for n in LEAVES if GOOD[n].path.startswith("replicas."))
            touched = (number + 1, other + 1, *limits)  # the limits may contradict each other
            yield Mutation(file_of(lines), says if right else None, touched)


def indented() -> Iterator[Mutation]:
    for number, line in enumerate(GOOD):
        for change in (" ", "  ", "    ", "\t", "\u00a0", "\u3000", "-"):
            lines = written()
            lines[number] = change[1:] + lines[number].removeprefix(" ") if change == "-" else (
                change + lines[number]
            )  # fmt: skip
            if change == "-" and "." not in line.path:
                continue
            # an only child may be deeper; anything else is a mistake, told near the line
            yield Mutation(file_of(lines), {}, tuple(range(number - 1, number + 4)))


def quoted_and_spaced() -> Iterator[Mutation]:
    for number in LEAVES:
        line = GOOD[number]
        bare = line.text.strip('"')
        for text in (f'"{bare}"', f"'{bare}'", f"!!str {bare}", f"&b !!str {bare}"):
            lines = written()
            lines[number] = attrs.evolve(line, text=text).written
            if line.kind == ANY:
                yield Mutation(file_of(lines), {line.path: bare}, (number + 1,))
            else:
                is_text = line.kind == TEXT
                yield Mutation(file_of(lines), {} if is_text else None, (number + 1,))
        for text in (f"  {line.text}", f"{line.text}   ", f"{line.text} # why", f"&a {line.text}"):
            lines = written()
            lines[number] = attrs.evolve(line, text=text).written
            yield Mutation(file_of(lines), {})
        for space in "\t\u00a0\u2003\u3000\u2028\x85\x1c\ufeff\v\f":
            lines = written()
            lines[number] = lines[number].replace(": ", f":{space}", 1)
            yield Mutation(file_of(lines), None, (number + 1, number + 2))


def whole_files() -> Iterator[Mutation]:
    lines = written()
    text = file_of(lines)
    for same in (f"---\n{text}", f"{text}...\n", f"\ufeff{text}", text.replace("\n", "\r\n"),
                 f"%YAML 1.1\n---\n{text}", f"# why\n\n{text}", text.rstrip("\n"),
                 text.replace("\n", "\n\n")):  # fmt: skip
        yield Mutation(same, {})
    for wrong in (f"{text}---\n{text}", f"{text}...\n---\nname: b\n"):
        yield Mutation(wrong, None, (len(lines) + 1, len(lines) + 2))
    for number in range(1, len(lines)):
        cut = [*lines[:number], "---", *lines[number:]]
        yield Mutation(file_of(cut), None, tuple(range(len(cut) + 2)))


def anchored() -> Iterator[Mutation]:
    """Aliases and merge keys: a key of one's own wins, whichever comes first."""
    base = "models: /m\ninstance: {resources: &r {vcores: 3, memory: 1GiB}}\n"
    yield Mutation(f"name: a\n{base}master: {{<<: *r, vcores: 5}}\n",
                   {"master.vcores": 5, "master.memory": "1GiB"})  # fmt: skip
    yield Mutation(f"name: a\n{base}master: {{vcores: 5, <<: *r}}\n",
                   {"master.vcores": 5, "master.memory": "1GiB"})  # fmt: skip
    yield Mutation(f"name: a\n{base}master:\n  <<: *r\n  <<: {{vcores: 9}}\n", None, (5, 6))
    yield Mutation(f"name: a\n{base}master:\n  <<: {{vcores: 9, vcores: 8}}\n", None, (5,))
    yield Mutation(f"name: a\n{base}master:\n  <<: 5\n", None, (5,))
    yield Mutation(f"name: a\n{base}master: {{'<<': *r}}\n", None, (4,))
    yield Mutation("models: /m\nname: &n llama\nplacement: {tag: *n}\nadmins: {users: [*n]}\n",
                   {"name": "llama", "placement.tag": "llama"})  # fmt: skip
    yield Mutation("models: /m\nreplicas: {min: &n 3, max: *n}\ntriton: {env: {A: *n}}\n",
                   None, (2, 3))  # fmt: skip
    twice = "name: a\nmodels: /m\nupdate: &u {<<: {surge: 1}, surge: 1}\nlog: {level: info}\n"
    yield Mutation(twice, {"update.surge": 1})


KINDS = (retyped, dropped, doubled, renamed, swapped, indented, quoted_and_spaced, whole_files,
         anchored)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_mutated_file_is_refused_with_its_line_or_means_what_it_says(
    kind: Any, tmp_path: Path
) -> None:
    """Never another value, and never a word about another place."""
    folder = tmp_path / "served"
    folder.mkdir()
    path = folder / "tarn.yaml"
    good = {line.path: line.means for line in GOOD if line.kind} if kind is not anchored else {}
    mutations = list(kind())
    wrong = [said for mutation in mutations for said in judged(path, mutation, good)]
    assert mutations
    assert not wrong, f"{len(wrong)} of {len(mutations)}:\n" + "\n".join(wrong[:12])


def judged(path: Path, mutation: Mutation, good: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with how the loader takes *mutation*."""
    path.write_bytes(mutation.text.encode())
    try:
        loaded = config.load(path, environ={})
    except ConfigErrors as errors:
        places = [f"tarn.yaml:{line}:" if line else "tarn.yaml: " for line in mutation.lines]
        if not any(str(e).startswith(place) for e in errors.errors for place in places):
            yield f"{mutation.text!r}: {errors}; expected {mutation.says}"
        return
    if mutation.says is None:
        yield f"{mutation.text!r}: read"
        return
    for at, value in (good | mutation.says).items():
        right = str(path.parent / value) if at == "models.repository" else value
        if not alike(found(loaded, at), right):
            yield f"{mutation.text!r}: {at} = {found(loaded, at)!r}, not {right!r}"


@pytest.mark.parametrize("text", READINGS, ids=ascii)
def test_a_surprise_of_yaml_is_the_same_in_an_argument(text: str) -> None:
    """``--set`` reads as a file does, values and keys."""
    older, newer = READINGS[text]
    same = older is not NOTHING and newer is not NOTHING and alike(older, newer)
    for path, kind in (("triton.http_port", WHOLE), ("triton.env.V", TEXT)):
        if newer is None and kind == WHOLE:
            continue
        if same and fits(newer, kind):
            loaded = config.load(
                {"name": "a", "models": "/m"}, arguments=overlay([f"{path}={text}"]), environ={}
            )
            assert alike(found(loaded, path), newer)
        else:
            with pytest.raises(ConfigErrors):
                config.load(
                    {"name": "a", "models": "/m"}, arguments=overlay([f"{path}={text}"]), environ={}
                )


@pytest.mark.parametrize("text", READINGS, ids=ascii)
def test_a_surprise_of_yaml_is_none_in_the_environment(text: str) -> None:
    """A variable is text: a number in decimal digits, or refused with the variable's name."""
    right = {"+12": None, "00": None, ".5": 0.5, "+.5": 0.5, "5.": 5.0, "1.10": 1.1, "1e3": 1000.0,
             "1.5e3": 1500.0, "1.0e+3": 1000.0}.get(text)  # fmt: skip
    source = {"name": "a", "models": "/m"}
    if not text:
        return
    with pytest.raises(ConfigErrors, match="environment MAX_CONTAINERS"):
        config.load(source, environ={"MAX_CONTAINERS": text})
    if right is None and text != "+12":
        with pytest.raises(ConfigErrors, match="environment SCALE_UP_THRESHOLD"):
            config.load(source, environ={"SCALE_UP_THRESHOLD": text})
    assert config.load(source, environ={"BIND_ADDRESS": "10.0.0.5"}).spec.triton.bind == "10.0.0.5"
