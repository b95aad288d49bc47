"""Apply the Java TARN's options to a draft: each has an effect, a note or an error."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tarn.config.aliases import ALIASES, Alias, by_name
from tarn.config.draft import Draft
from tarn.errors import ConfigError
from tarn.plain import UNITS, did_you_mean, join, masked, shown

__all__ = ["Legacy"]

_DECIMAL = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_BLANK = " \t\r\n"
_WORDS = {"true": True, "yes": True, "on": True, "1": True}
_WORDS |= {"false": False, "no": False, "off": False, "0": False}


@attrs.frozen
class GivenOption:
    """One option with its value."""

    alias: Alias
    value: Any = attrs.field(hash=False, repr=False)
    """The value as in a spec: a duration or an amount of memory has a unit."""
    origin: str
    """``argument --min-instances`` or ``environment MIN_CONTAINERS``."""

    @property
    def is_argument(self) -> bool:
        """Whether it is an argument of this command."""
        return self.origin.startswith("argument")


def collect(
    arguments: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[dict[str, GivenOption], tuple[ConfigError, ...]]:
    """Return the given options by key, and the errors in others.

    None, False (a flag left out), an empty list and an empty variable count as not given.
    """
    raw: dict[str, tuple[object, str]] = {
        alias.key: (environ[alias.env], f"environment {alias.env}")
        for alias in ALIASES
        if alias.env and environ.get(alias.env)
    }
    errors: list[ConfigError] = []
    for name, value in arguments.items():
        alias = by_name.get(str(name).replace("_", "-"))
        if alias is None:
            near = did_you_mean(name, [key for key in by_name if key.islower()])
            where = f"argument --{name}"
            errors.append(
                ConfigError("no such option", code="TARN-2001", where=where, next_step=near)
            )
        elif value is not None and value is not False and value not in ((), []):
            raw[alias.key] = (value, f"argument --{alias.long}")
    found: dict[str, GivenOption] = {}
    for key, (value, origin) in raw.items():
        try:
            found[key] = GivenOption(by_name[key], _READ[by_name[key].kind](value), origin)
        except ValueError as error:
            wrong = f"needs {error}"
            if key not in {"token", "env"}:  # these may be secrets
                wrong += f", not {shown(value, '')}"
            errors.append(ConfigError(wrong, code="TARN-2002", where=origin))
    return found, tuple(errors)


def _text(value: object) -> str:
    if isinstance(value, bool | Mapping | list | tuple) or not str(value).strip():
        raise ValueError("a text that is not empty")
    return str(value)


def _integer(value: object, needed: str = "a whole number") -> int:
    text = str(value).strip(_BLANK)
    digits = text.removeprefix("-")
    if isinstance(value, bool) or not (digits.isascii() and digits.isdigit() and len(digits) < 19):  # noqa: PLR2004 (a Java long)
        raise ValueError(needed)
    _refuse_octal(digits)
    return int(text)


def _refuse_octal(digits: str) -> None:
    # A shell and YAML 1.1 read 010 as 8, the Java TARN as 10.
    if len(digits) > 1 and digits.startswith("0"):
        read = f" ({int(digits, 8)} or {int(digits)})" if set(digits) <= set("01234567") else ""
        raise ValueError(f"a number without a leading zero{read}")


def _number(value: object) -> float:
    text = str(value).strip(_BLANK)
    if isinstance(value, bool) or not _DECIMAL.fullmatch(text):
        raise ValueError("a number")
    _refuse_octal(text.lstrip("+-").partition(".")[0].partition("e")[0].partition("E")[0])
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number")
    return number


def _flag(value: object) -> bool:
    word = str(value).strip(_BLANK).lower()
    if word not in _WORDS:
        raise ValueError("true or false")
    return _WORDS[word]


def _milliseconds(value: object) -> str:
    number = _integer(value, "a whole number of milliseconds, without a unit")
    if number < 0:
        raise ValueError("a whole number of milliseconds, 0 or more")
    return UNITS["_s"].format(number / 1000)


def _megabytes(value: object) -> str:
    number = _integer(value, "a whole number of MB, without a unit")
    if number < 0:
        raise ValueError("a whole number of MB, 0 or more")
    return UNITS["_mib"].format(number)


def _list(value: object) -> list[str]:
    parts = value if isinstance(value, list | tuple) else _text(value).split(",")
    return [str(part).strip() for part in parts if str(part).strip()]


def _pairs(value: object) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items()}
    pairs = [value] if isinstance(value, str) else value
    result = {}
    for pair in pairs if isinstance(pairs, list | tuple) else [pairs]:
        name, equals, text = str(pair).partition("=")
        if not equals or not name:
            raise ValueError("NAME=VALUE")
        result[name] = text
    return result


_READ: Mapping[str, Callable[[object], Any]] = {
    "text": _text,
    "integer": _integer,
    "number": _number,
    "flag": _flag,
    "ms": _milliseconds,
    "mb": _megabytes,
    "list": _list,
    "pairs": _pairs,
}


_ACCELERATORS = {
    "NVIDIA_GPU": "yarn.io/gpu",
    "AMD_GPU": "amd.com/gpu",
    "INTEL_GAUDI": "habana.ai/gaudi",
    "AWS_NEURON": "aws.amazon.com/neuron",
    "CPU_ONLY": "",
}
# Options that have an effect only if a policy changes the size.
_SIZES = ("min-instances", "max-instances", "cooldown")
_MODES = ("gpu_util", "queue_depth", "composite")
_MIG = re.compile(r"[0-9]+g\.[0-9]+gb")
_FRACTION = re.compile(r"0?\.[0-9]+|1\.0")
# Options that have an effect only together with another one, or with the same part of the file.
_NEEDS = {
    "zk-path": "--zk-ensemble",
    "zk-required": "--zk-ensemble",
    "zk-jaas": "--zk-ensemble",
    "ranger-app-id": "--ranger-service",
    "ranger-audit": "--ranger-service",
    "ranger-strict": "--ranger-service",
    "tls-keystore": "--tls-enabled",
    "tls-keystore-type": "--tls-enabled",
    "tls-keystore-password-alias": "--tls-enabled",
}
# The Java TARN's least interval between two readiness checks.
_LEAST_POLL_S = 0.25


class Legacy:
    """One application of the options; afterwards `notes`, `errors` and `api_token` are filled."""

    def __init__(self, draft: Draft) -> None:
        self.notes: list[str] = []
        self.errors: list[ConfigError] = []
        self.api_token: str | None = None
        self._draft = draft
        self._given: dict[str, GivenOption] = {}
        self._rules: Mapping[str, Callable[[GivenOption], None]] = {
            "token": self._token,
            "secrets": self._secrets,
            "env": self._env,
            "zk-ensemble": self._zookeeper,
            "ranger-service": self._ranger,
            "warmup-poll-interval-ms": self._poll,
            "tls-enabled": self._tls,
            "accelerator-type": self._accelerator,
            "gpu-slice-size": self._slice,
        }

    def apply(self, arguments: Mapping[str, object], environ: Mapping[str, str]) -> None:
        """Merge the given options into the draft; arguments take precedence."""
        self._given, unreadable = collect(arguments, environ)
        self.errors.extend(unreadable)
        companions = [g for key, g in self._given.items() if key in _NEEDS]
        for given in [g for key, g in self._given.items() if key not in _NEEDS]:
            self._apply(given)
        for given in companions:
            self._companion(given)
        self._thresholds()
        self._gpus()

    def _apply(self, given: GivenOption) -> None:
        alias = given.alias
        if alias.part:
            self._refuse(given)
        elif alias.note:
            self.notes.append(f"{given.origin}: accepted, but has no effect: {alias.note}")
        elif alias.key in self._rules:
            self._rules[alias.key](given)
        elif alias.key.startswith("docker-"):
            self._docker(given)
        elif alias.to[0] == "scaling" and "options" in alias.to:
            self._scaling(given)
        else:
            self._put(given)

    def _put(self, given: GivenOption, value: object = None) -> None:
        self._draft.put(given.alias.to, given.value if value is None else value, given.origin)

    def _wrong(
        self, given: GivenOption, found: str, code: str = "TARN-2002", step: str = ""
    ) -> None:
        self.errors.append(ConfigError(found, code=code, where=given.origin, next_step=step))

    def _refuse(self, given: GivenOption) -> None:
        alias, off = given.alias, given.value in (False, 0.0)
        if off and alias.key in {"openai-proxy-enabled", "shadow-sample-rate"}:
            return  # off, as it is in this version
        if alias.part != "-" and not given.is_argument:
            # A variable such as OTEL_EXPORTER_OTLP_ENDPOINT may be meant for other programs.
            self.notes.append(f"{given.origin}: not used: comes with the part {alias.part}")
            return
        later = f": comes with the part {alias.part}" if alias.part != "-" else ""
        self._wrong(given, f"not in this version{later}", "TARN-2004", "Remove it")

    def _companion(self, given: GivenOption) -> None:
        key, main = given.alias.key, _NEEDS[given.alias.key]
        listed = self._draft.get("discovery")
        chosen = {
            "zk": any(
                isinstance(item, dict) and item.get("use") == "zookeeper"
                for item in (listed if isinstance(listed, list) else ())
            ),
            "ranger": self._draft.get("authorizer.use") == "ranger",
            "tls": isinstance(self._draft.get("api.tls"), dict),
        }[key.partition("-")[0]]
        if chosen and key == "zk-jaas":
            # An error, not a note: an ensemble that needs a login must not be used without one.
            found = "TARN no longer reaches ZooKeeper from a JVM, so it does not read a JAAS file"
            step = (
                "Write user:password into a file, and set digest: file:PATH in the discovery's "
                "options"
            )
            self._wrong(given, found, "TARN-2004", step)
        elif chosen:
            self._put(given)
        elif given.value is not False:
            self.notes.append(f"{given.origin}: has no effect without {main}")

    # -- options with their own rules

    def _token(self, given: GivenOption) -> None:
        self.api_token = given.value
        self._draft.put(("api", "token"), "auto", given.origin)
        if given.is_argument:
            self.notes.append(
                f"{given.origin}: every user of this machine can read arguments, and shells keep "
                "them; use TARN_TOKEN, or api.token: file:PATH"
            )

    def _env(self, given: GivenOption) -> None:
        for name, text in given.value.items():
            self._draft.put((*given.alias.to, name), text, given.origin)

    def _secrets(self, given: GivenOption) -> None:
        # The Java TARN read a plain path as one in HDFS.
        self._put(given, f"hdfs://{given.value}" if given.value.startswith("/") else None)

    def _zookeeper(self, given: GivenOption) -> None:
        self._put(given)
        # The Java TARN required it; zk-required is applied later and may change that.
        self._draft.put((*given.alias.to[:2], "required"), True, given.origin)  # noqa: FBT003

    def _ranger(self, given: GivenOption) -> None:
        self._draft.put(("authorizer", "use"), "ranger", given.origin)
        self._put(given)

    def _poll(self, given: GivenOption) -> None:
        unit = UNITS["_s"]
        wanted = max(unit.parse(given.value), _LEAST_POLL_S)
        monitor = self._given.get("monitor-interval-ms")
        if monitor is not None and unit.parse(monitor.value) <= wanted:
            return  # the interval of decisions is shorter already
        if monitor is not None:
            self.notes.append(
                f"{given.origin}: readiness and load are read together, so scaling.interval = "
                f"{unit.format(wanted)}, not {monitor.value}"
            )
        self._draft.put(("scaling", "interval"), unit.format(wanted), given.origin)

    def _tls(self, given: GivenOption) -> None:
        present = isinstance(self._draft.get("api.tls"), dict)
        if given.value and not present:
            self._draft.put(given.alias.to, {}, given.origin)
            if "tls-keystore" not in self._given:
                self._wrong(given, "TLS needs a keystore", "TARN-2003", "Add --tls-keystore")
        elif present and not given.value:
            self.notes.append(f"{given.origin}: has no effect: api.tls is set")

    def _accelerator(self, given: GivenOption) -> None:
        word = given.value.upper().replace("-", "_")
        if word not in _ACCELERATORS:
            known = [name.lower() for name in _ACCELERATORS]
            needed = f"needs {', '.join(known[:-1])} or {known[-1]}, not '{given.value}'"
            self._wrong(given, needed, step=did_you_mean(given.value, known))
        elif word == "CPU_ONLY":
            self._draft.put(("instance", "resources", "gpus"), 0, given.origin)
        else:
            self._put(given, _ACCELERATORS[word])

    def _slice(self, given: GivenOption) -> None:
        if _MIG.fullmatch(given.value):
            self._put(given, f"nvidia.com/mig-{given.value}")
        elif _FRACTION.fullmatch(given.value):
            found = f"'{given.value}': a fraction of a GPU is not in this version"
            step = "Use a MIG profile such as 1g.10gb, or whole GPUs"
            self._wrong(given, found, "TARN-2004", step)
        else:
            self._wrong(given, f"needs a MIG profile such as 1g.10gb, not '{given.value}'")

    def _docker(self, given: GivenOption) -> None:
        uses_containers = self._draft.get("runtime.use", "local") in {"yarn", "skein"}
        if not uses_containers and not given.is_argument:
            self.notes.append(f"{given.origin}: has no effect: runtime.use is not 'yarn'")
            return
        if not uses_containers:
            self._draft.put(("runtime", "use"), "yarn", given.origin)
        self._put(given)

    def _scaling(self, given: GivenOption) -> None:
        key, value = given.alias.key, given.value
        if key == "scale-mode" and value not in _MODES:
            words = f"{', '.join(_MODES[:-1])} or {_MODES[-1]}"
            self._wrong(given, f"needs {words}, not '{value}'", step=did_you_mean(value, _MODES))
        elif key == "scale-up" and not 0 < value <= 1:
            self._wrong(given, f"needs more than 0 and at most 1, not {value:g}")
        elif key == "scale-down" and not 0 <= value < 1:
            self._wrong(given, f"needs at least 0 and less than 1, not {value:g}")
        elif key == "queue-capacity-per-container" and value < 1:
            self._wrong(given, f"needs at least 1, not {value}")
        else:
            self._draft.put(("scaling", "use"), "threshold", given.origin)
            self._put(given)

    def _thresholds(self) -> None:
        up, down = self._given.get("scale-up"), self._given.get("scale-down")
        if up and down and down.value >= up.value:
            found = f"{down.value:g} is not below scale-up = {up.value:g}"
            self._wrong(down, found, "TARN-2003", "Lower the one or raise the other")

    def _gpus(self) -> None:
        """Request a GPU for each rank, as the Java TARN did, if an option implies GPUs."""
        ranks = 1
        for name in ("tensor", "pipeline"):
            count = self._draft.get(f"instance.parallelism.{name}", 1)
            ranks *= count if isinstance(count, int) else 1
        parallel = [self._given.get(k) for k in ("tensor-parallelism", "pipeline-parallelism")]
        reasons = [self._given.get("gpu-slice-size"), self._given.get("accelerator-type")]
        reasons += parallel if ranks > 1 else []
        reason = next((given for given in reasons if given is not None), None)
        if reason is not None and self._draft.get("instance.resources.gpus") is None:
            self._draft.put(("instance", "resources", "gpus"), max(1, ranks), reason.origin)

    # -- rules that need every layer in the draft

    def scale(self) -> None:
        """Choose the Java TARN's policy if its options of size are given, and no policy is."""
        given = next((self._given[key] for key in _SIZES if key in self._given), None)
        if given is not None and self._draft.get("scaling.use") is None:
            self._draft.put(("scaling", "use"), "threshold", given.origin)
            self.notes.append(
                f"{given.origin}: no scaling.use is written: 'threshold', as the Java TARN scaled"
            )
        cooldown = self._given.get("cooldown")
        if (
            cooldown is not None
            and self._draft.get("scaling.use") == "threshold"
            and self._draft.get("scaling.down.window") is None
        ):  # the Java TARN removed one instance in each cooldown
            self._draft.put(("scaling", "down", "window"), cooldown.value, cooldown.origin)

    def log_verbose(self, environ: Mapping[str, str]) -> None:
        """Turn ``TRITON_LOG_VERBOSE``, which Triton ignores, into its option ``log-verbose``."""
        name = "TRITON_LOG_VERBOSE"
        at = join("triton.env", name)
        inside = self._draft.get(at)
        level = environ.get(name) if inside is None else inside
        origin = f"environment {name}" if inside is None else self._draft.origin(at)
        if not level:
            return
        if not str(level).isdigit():
            self.notes.append(
                f"{origin}: Triton does not read {name}={masked(str(level))}; not used"
            )
            return
        if inside is not None:
            self._draft.discard(at)
        if self._draft.get("triton.args.log-verbose") is None:
            self._draft.put(("triton", "args", "log-verbose"), int(str(level)), origin)
            self.notes.append(
                f"{origin}: Triton does not read {name}; it became triton.args.log-verbose = "
                f"{level}"
            )
