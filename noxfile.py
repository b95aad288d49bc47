# /// script
# dependencies = ["nox>=2025.2.9", "uv"]
# ///
"""How TARN is checked. `nox` alone runs the fast sessions; `nox -l` lists them all.

A session runs where its interpreter is: on one Python, `unit` on the oldest and the newest of 3.11,
3.12 and 3.13 that are present. What is missing is named, never silently left out.
``tests/budget.toml`` holds how many minutes a session may take: beyond is said loudly, beyond three
times (and three minutes for a slow download) is a failure.
"""

import argparse
import functools
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import nox

# Images of containers often set it. Without bytecode each of the thousands of processes that tests
# start compiles 400 modules again: `tarn status` takes 1.3 s of a core instead of 0.7.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # noqa: TID251

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests"))
import changelog_fragments  # noqa: E402 (nox leaves the project off the path)
from changed_tests import changed, selected  # noqa: E402
from system_packages import BUILD_KERBEROS, missing, needs, packages  # noqa: E402

PROJECT = nox.project.load_toml("pyproject.toml")
_BUDGET_FILE = tomllib.loads((ROOT / "tests" / "budget.toml").read_text())
BUDGET, UNCOUNTED = _BUDGET_FILE["minutes"], _BUDGET_FILE["uncounted"]
SUPPORTED = ("3.11", "3.12", "3.13")
EVERYTHING = ".[local,examples,zookeeper,haproxy,schedule,keystore]"
WITH_YARN = ".[local,examples,zookeeper,haproxy,schedule,yarn,kerberos,keystore,pack]"
WITH_PROOFS = ".[local,examples,zookeeper,haproxy,schedule,yarn,kerberos,keystore,ranger,secrets]"
WITH_EYES = ".[local,examples,schedule,keystore,notebook,plot]"
BOTH_CORES = ("-n", "2", "--dist", "worksteal")
# Where tests of one file share what is dear to make.
BY_FILE = ("-n", "2", "--dist", "loadfile")
THREE_BY_FILE = ("-n", "3", "--dist", "loadfile")
# Tests that wait more than they compute, such as those with a fleet each.
SIDE_BY_SIDE = ("-n", "4", "--dist", "worksteal")
WITHOUT_SERVERS = "not triton and not discovery and not security and not observe"
OLDER_HADOOP, NEWER_HADOOP = "3.3.6", "3.5.0"
NEWER_HAPROXYS = ("3.0", "3.2")
"""The last of the line before the one that `tarn sandbox` fetches by itself."""
SPELLED = ("src", "examples", "docs", "changelog.d", *(path.name for path in ROOT.glob("*.md")))
LEAST_OF_YARN_S = 900.0
"""With less time than that, `yarn` would leave out more than it runs."""
STARVED_AT_MOST = 5
"""More tests that fail in one run are no accident of its load."""
BANNED_NAMES = {"base.py", "common.py", "helpers.py", "manager.py", "misc.py", "utils.py"}

nox.options.sessions = ["lint", "types", "layers", "unit", "contract", "local"]
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True
nox.options.reuse_existing_virtualenvs = True


def _works(version: str) -> bool:
    """Say whether this Python starts (a shim on PATH may stand for nothing)."""
    program = shutil.which(f"python{version}")
    if program is None:
        return False
    done = subprocess.run([program, "-c", ""], check=False, capture_output=True, timeout=30)
    return done.returncode == 0


OWN = ".".join(platform.python_version_tuple()[:2])
PRESENT = [version for version in SUPPORTED if version == OWN or _works(version)]
MISSING = [version for version in SUPPORTED if version not in PRESENT]
# The models of example 01 end at Python 3.12, so the one interpreter is the oldest there is.
ONE = PRESENT[0] if PRESENT else SUPPORTED[0]
# The oldest and the newest; `nox -s unit --extra-pythons 3.12` adds one between.
ENDS = list(dict.fromkeys((PRESENT[0], PRESENT[-1]))) if PRESENT else [ONE]

if sum(BUDGET.values()) - sum(BUDGET[name] for name in UNCOUNTED) >= 65:
    raise SystemExit("tests/budget.toml: the sum must stay under 65 minutes")


def budgeted(session_function: Callable[[nox.Session], None]) -> Callable[[nox.Session], None]:
    """Hold a session to its minutes, and let it say first which system packages it needs."""

    @functools.wraps(session_function)
    def run(session: nox.Session) -> None:
        began_s = time.monotonic()
        if line := needs(session_function.__name__):
            session.log(line)
        session_function(session)
        minutes = (time.monotonic() - began_s) / 60
        budget = BUDGET[session_function.__name__]
        session.log(f"{minutes:.1f} of {budget} minutes")
        # Thrice: what was measured here may be slower elsewhere. And the time of a slow download.
        if minutes > 3 * budget + 3:
            session.error(f"took {minutes:.1f} minutes, far more than its {budget}")
        if minutes > budget:
            session.warn(f"OVER BUDGET: {minutes:.1f} minutes of {budget} (tests/budget.toml)")

    return run


def _group(name: str) -> list[str]:
    return list(nox.project.dependency_groups(PROJECT, name))


def _pytest(session: nox.Session, *arguments: str) -> None:
    """Run pytest as `_pytest_with` does, with the arguments of the command line, too."""
    _pytest_with(session, {}, *arguments, *session.posargs)


def _pytest_with(session: nox.Session, environ: dict[str, str], *arguments: str) -> None:
    """Run pytest; the few tests that fail run once more, by themselves.

    Processes side by side on two cores starve each other now and then, and something then takes
    longer than a test waits. A fault fails again, also with the example that Hypothesis found.
    Tests that passed the second time are named: either the test or the product is to be corrected.
    `endurance`, `scaling` and `security` have no second run: a request that was lost once is lost,
    and a secret that was seen once is out.
    """
    failed = _cache(session) / "v" / "cache" / "lastfailed"
    failed.unlink(missing_ok=True)  # of an earlier run
    try:
        _pytest_once(session, environ, *arguments)
    except nox.command.CommandFailed:
        names = sorted(json.loads(failed.read_text())) if failed.exists() else []
        if not 0 < len(names) <= STARVED_AT_MOST:
            raise
        session.warn(f"FAILED ONCE, once more by themselves: {' '.join(names)}")
        only = ("-n", "0", "--last-failed", "--last-failed-no-failures", "none")
        _pytest_once(session, environ, *arguments, *only)
        session.warn(f"FAILED BESIDE OTHERS, passed alone: {' '.join(names)}")


def _pytest_once(session: nox.Session, environ: dict[str, str], *arguments: str) -> None:
    """Run pytest; each session keeps a cache of its own, and no user's settings reach it."""
    if not any(argument.startswith("tests") for argument in arguments):
        session.skip("no such tests yet")
    cache = f"cache_dir={_cache(session)}"
    session.run("pytest", "-o", cache, *arguments, env={"HTTP_PROXY": "", **environ})


def _cache(session: nox.Session) -> Path:
    return Path(session.create_tmp()) / "pytest"


class _Strict(argparse.ArgumentParser):
    """Says what is wrong, and leaves the end to its caller."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}\n{self.format_usage().strip()}")


def _hadoop(session: nox.Session, version: str = "") -> tuple[dict[str, str], list[str]]:
    """Return the environment that names the Hadoop of `session.posargs`, and pytest's options.

    Args:
        session: Its arguments are ours up to a second ``--``, and pytest's after it.
        version: Where none is named; empty: the one that `tarn sandbox` fetches.
    """
    words = [*session.posargs, "--"]
    end = words.index("--")
    usage = f"nox -s {session.name.partition('-')[0]} -- [--hadoop VERSION] [--repository URL]"
    parser = _Strict(usage=f"{usage} [-- OPTIONS OF PYTEST]", add_help=False, allow_abbrev=False)
    parser.add_argument("--hadoop", default=version)
    parser.add_argument("--repository", default="")
    try:
        given = parser.parse_args(words[:end])
    except ValueError as error:
        session.error(str(error))
    named = {"TARN_TEST_HADOOP": given.hadoop, "TARN_TEST_REPOSITORY": given.repository}
    return {name: value for name, value in named.items() if value}, words[end + 1 : -1]


def _memory_gib() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def _install_with_kerberos(session: nox.Session, *what: str) -> None:
    """Install what needs `gssapi`, which comes as source only on Linux: it is compiled here."""
    lacking = missing(BUILD_KERBEROS)
    if lacking:
        session.error(
            f"{', '.join(lacking)} not found: the Python module gssapi is compiled from source, "
            f"with the headers of MIT Kerberos. On Debian: apt-get install {packages(lacking)}"
        )
    session.install(*what)


def _folders(*names: str) -> list[str]:
    """Return those that exist: each part of TARN brings its own."""
    return [f"tests/{name}" for name in names if (ROOT / "tests" / name).is_dir()]


def _marked(mark: str, *names: str) -> list[str]:
    """Return the files of some folders that may have tests with *mark*.

    Only these are collected: every worker would else import all unit tests for a few of them.
    """
    words = (f"mark.{mark}", "servers.triton") if mark == "triton" else (f"mark.{mark}",)
    files = (path for name in names for path in sorted((ROOT / "tests" / name).rglob("test_*.py")))
    chosen = (path for path in files if any(word in path.read_text("utf-8") for word in words))
    return [str(path.relative_to(ROOT)) for path in chosen]


@nox.session(python=ONE)
@budgeted
def lint(session: nox.Session) -> None:
    """Ruff, its formatter, spelling, dropped words, and names that refuse nothing or exist twice.

    A change of the source that changelog.d does not tell of is named.
    """
    session.install(*_group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell", *SPELLED)
    session.run("towncrier", "build", "--draft", "--version", "next", silent=True)
    banned = [str(path) for path in (ROOT / "src").rglob("*.py") if path.name in BANNED_NAMES]
    if banned:
        session.error(f"a module's name must say what it is about: {', '.join(banned)}")
    session.run("python", "-m", "tests.house_names")
    session.run("python", "-m", "tests.house_words")
    if (ROOT / ".git").exists() and (told := changelog_fragments.reminder(changed())):
        session.warn(told)


@nox.session(python=ONE)
@budgeted
def types(session: nox.Session) -> None:
    """Mypy, strict."""
    session.install("-e", EVERYTHING, *_group("typing"))
    session.run("mypy", "src", *_folders("typing"))


@nox.session(python=ONE)
@budgeted
def layers(session: nox.Session) -> None:
    """Check that imports go down the floors only."""
    session.install("-e", ".", *_group("lint"))
    session.run("lint-imports", "--no-logo")


@nox.session(python=ONE)  # without a budget: a wide change may take longer, and is not wrong for it
def quick(session: nox.Session) -> None:
    """Check a change in under a minute: lint, layers, types, and the unit tests of its packages.

    A change is what differs from where the branch left main, or from ``-- REV``; what is not
    committed counts, too. Each law gets a tenth of its examples.
    """
    session.install("-e", EVERYTHING, *_group("lint"), *_group("typing"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-logo")
    # A cache of its own: that of `types` knows its libraries by another path.
    cache = Path(session.create_tmp()) / "mypy"
    session.run("mypy", "--cache-dir", str(cache), "src", *_folders("typing"))
    tests, alone = selected(changed(*session.posargs[:1]))
    if alone:
        session.warn(f"no tests are called like {', '.join(alone)}")
    if tests:
        chosen = (*BOTH_CORES, "-m", WITHOUT_SERVERS)
        _pytest_with(session, {"TARN_TEST_PROFILE": "quick"}, *chosen, *tests)
    else:
        session.log("no tests: nothing was changed that a unit test is about")


@nox.session(python=ENDS)
@budgeted
def unit(session: nox.Session) -> None:
    """Everything that needs no real server; each test on one interpreter.

    What may depend on an interpreter runs on the newest one. Long property tests, pure code, the
    contract's and the pages' tests do not: they run on the oldest one, where `minimums` runs the
    others, with the oldest libraries. With one interpreter only, all run there.
    """
    if MISSING and session.python == PRESENT[-1]:
        session.warn(f"not tested, for there is no such interpreter: {', '.join(MISSING)}")
    session.install("-e", EVERYTHING, *_group("tests"))
    part = "all" if len(ENDS) == 1 else "once" if session.python == ENDS[0] else "each"
    chosen = ("-m", WITHOUT_SERVERS, f"--interpreters={part}")
    _pytest(session, *BOTH_CORES, *chosen, *_folders("unit", "compat", "docs"))


@nox.session(python=ONE)
@budgeted
def contract(session: nox.Session) -> None:
    """Each Protocol's suite over every provider, and over the broken ones."""
    session.install("-e", EVERYTHING, *_group("tests"))
    _pytest(session, *BOTH_CORES, "-m", "not triton", *_folders("contract"))


@nox.session(python=ONE)
@budgeted
def local(session: nox.Session) -> None:
    """Real Tritons on this machine, and the examples as a user runs them."""
    session.install("-e", EVERYTHING, *_group("tests"))
    chosen = ("-m", "triton and not endurance", "--timeout", "300")
    files = _marked("triton", "local", "unit", "compat", "docs")
    _pytest(session, *SIDE_BY_SIDE, *chosen, *files)


@nox.session(python=ONE)
@budgeted
def first_user(session: nox.Session) -> None:
    """Lint, client, custom policy, why, verify and notebook, on real Tritons."""
    session.install("-e", EVERYTHING, *_group("tests"))
    chosen = ("-m", "triton", "--timeout", "300")
    _pytest(session, *BY_FILE, *chosen, *_folders("first_user"))


@nox.session(python=ONE)
@budgeted
def endurance(session: nox.Session) -> None:
    """Real Tritons under load, killed masters, a provider blocked for a minute."""
    session.install("-e", EVERYTHING, *_group("tests"))
    # The tests of a file may share a fleet. (xdist's groups do nothing with pytest 9.2.)
    chosen = (*THREE_BY_FILE, "-m", "endurance", "--timeout", "300")
    files = _marked("endurance", "compat", "first_user", "local", "unit")
    _pytest_once(session, {}, *chosen, *files, *session.posargs)


@nox.session(python=ONE)
@budgeted
def scaling(session: nox.Session) -> None:
    """Load that steps, and random scale sequences: nothing is lost."""
    session.install("-e", EVERYTHING, *_group("tests"))
    # Four lanes, and the sequences through HAProxy, three at a time: five keep both cores so busy
    # that loads are seconds late. Then those that are timed.
    lanes = ("-n", "3", "--dist", "loadscope", "-k", "sequence", "--timeout", "300")
    files = (*_folders("scaling"), *session.posargs)
    _pytest_once(session, {}, *lanes, *files)
    _pytest_once(session, {}, "-k", "not sequence", "--timeout", "300", *files)


@nox.session(python=ONE)
@budgeted
def yarn(session: nox.Session) -> None:
    """Real HDFS and YARN on this machine; needs Java and, the first time, Maven.

    With ``-- --hadoop VERSION [--repository URL]`` on another Hadoop; what is pytest's comes after
    a second ``--``.
    """
    until_s = float(os.environ.get("TARN_TEST_UNTIL", "inf"))  # noqa: TID251
    if time.time() > until_s - LEAST_OF_YARN_S:
        session.error("too little is left of the time of .ci/run")
    hadoop, own = _hadoop(session)
    _install_with_kerberos(session, "-e", WITH_YARN, *_group("tests"), *_group("browser"))
    # The JVM and faulthandler want the same signals. Each worker has a sandbox of its own and takes
    # whole files, in the order of tests/yarn/conftest.py; a sandbox that runs already is one. A
    # worker waits for YARN half of its time, and takes 4 GiB at most.
    most = 3 if _memory_gib() >= 15 else 2
    workers = 0 if "TARN_TEST_SANDBOX" in os.environ else most  # noqa: TID251
    by_file = ("-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder")
    # -rs: what `.ci/run` leaves no time for is named.
    chosen = ("-m", "yarn", "-p", "no:faulthandler", "--timeout", "300", "-rs")
    # What the smoke suite says, others say in more detail; `yarn_older` runs it.
    chosen = (*chosen, "--ignore", "tests/yarn/test_yarn_smoke.py")
    _pytest_with(session, hadoop, *by_file, *chosen, *_folders("yarn"), *own)


@nox.session(python=ONE)
@budgeted
def yarn_older(session: nox.Session) -> None:
    """The smoke suite on the older Hadoop that is promised, or on ``-- --hadoop VERSION``."""
    _yarn_smoke(session, OLDER_HADOOP)


@nox.session(python=ONE)
@budgeted
def yarn_newer(session: nox.Session) -> None:
    """The same on a newer Hadoop."""
    _yarn_smoke(session, NEWER_HADOOP)


def _yarn_smoke(session: nox.Session, version: str) -> None:
    hadoop, own = _hadoop(session, version)
    _install_with_kerberos(session, "-e", WITH_YARN, *_group("tests"))
    chosen = ("-m", "yarn", "-p", "no:faulthandler", "--timeout", "300")
    _pytest_with(session, hadoop, *chosen, "tests/yarn/test_yarn_smoke.py", *own)


@nox.session(python=ONE)
@budgeted
def docker(session: nox.Session) -> None:
    """A real YARN that runs Docker containers; needs root, a dockerd, and debootstrap once."""
    _install_with_kerberos(session, "-e", WITH_YARN, *_group("tests"))
    chosen = ("-m", "docker", "-p", "no:faulthandler", "--timeout", "300")
    _pytest(session, *chosen, *_folders("docker"))


@nox.session(python=ONE)
@budgeted
def knox_jar(session: nox.Session) -> None:
    """Build the jar for Knox into the package; needs a JDK and, the first time, Maven."""
    session.install("-e", ".")
    target = "src/tarn_plugins/discovery/knox/tarn-knox.jar"
    session.run("python", "-m", "servers.knox_jar", target, env={"PYTHONPATH": "tests"})


@nox.session(python=ONE)
@budgeted
def discovery(session: nox.Session) -> None:
    """Real ZooKeeper, HAProxy and Knox; needs haproxy, Java and, the first time, Maven."""
    session.install("-e", EVERYTHING, *_group("tests"))
    files = _marked("discovery", "discovery", "compat")
    # Three, since they wait half of the time.
    _pytest(session, *THREE_BY_FILE, "-m", "discovery and not timed", "--timeout", "300", *files)
    for series in NEWER_HAPROXYS:
        named = ("haproxy_contract", "haproxy_servers", "haproxy_holding", "haproxy_neighbours")
        named += ("haproxy_master", "agent_haproxy", "lb_config_haproxy")
        newer = [f"tests/discovery/test_{name}.py" for name in named]
        chosen = (*THREE_BY_FILE, "-m", "discovery and not timed", "--timeout", "300")
        _pytest_with(session, {"TARN_TEST_HAPROXY": series}, *chosen, *newer)
    # One by one: their loads are timed, and a starved HAProxy takes healthy servers for dead ones.
    _pytest(session, "-m", "discovery and timed", "--timeout", "300", *files)


@nox.session(python=ONE)
@budgeted
def security(session: nox.Session) -> None:
    """Who asks, who may, and nothing leaks: a real KDC, Ranger's engine, TLS, and Tritons.

    Needs a KDC, the headers of MIT Kerberos, a compiler, Java and, the first time, Maven.
    """
    _install_with_kerberos(session, "-e", WITH_PROOFS, *_group("tests"))
    # The JVM and faulthandler want the same signals.
    chosen = ("-m", "security", "-p", "no:faulthandler", "--timeout", "300")
    files = (*_folders("security"), *_marked("security", "compat"))
    _pytest_once(session, {}, *THREE_BY_FILE, *chosen, *files, *session.posargs)


@nox.session(python=ONE)
@budgeted
def gray(session: nox.Session) -> None:
    """Real Tritons that are healthy by their own word and fail their users; needs haproxy."""
    session.install("-e", EVERYTHING, *_group("tests"))
    chosen = ("-m", "gray", "--timeout", "300")
    _pytest(session, *SIDE_BY_SIDE, *chosen, *_marked("gray", "local"))
    # Two fleets at a time: a fault is waited for longer than it is worked for, but loads are timed.
    _pytest(session, *BOTH_CORES, *chosen, *_folders("gray"))


@nox.session(python=ONE)
@budgeted
def one_triton(session: nox.Session) -> None:
    """What a client of one Triton sees of a fleet behind a HAProxy; needs haproxy."""
    session.install("-e", EVERYTHING, *_group("tests"))
    # Each worker has a fleet for the tests that only ask; a file that scales one has its own.
    chosen = ("-m", "one_triton and not timed", "--timeout", "300")
    _pytest(session, *BY_FILE, *chosen, *_folders("one_triton"))


@nox.session(python=ONE)
@budgeted
def perf_analyzer(session: nox.Session) -> None:
    """NVIDIA's load client, which pip fetches the first time, on such a fleet; needs haproxy."""
    session.install("-e", EVERYTHING, *_group("tests"), "pip")
    # One by one, since it times what it sends.
    _pytest(session, "-m", "one_triton and timed", "--timeout", "300", *_folders("one_triton"))


@nox.session(python=ONE)
@budgeted
def limits(session: nox.Session) -> None:
    """Real masters without descriptors, disk, threads or a steady clock; root and a C compiler."""
    session.install("-e", EVERYTHING, *_group("tests"))
    _pytest(session, *BOTH_CORES, "-m", "limits", "--timeout", "180", *_folders("limits"))


@nox.session(python=ONE)
@budgeted
def observe(session: nox.Session) -> None:
    """What people look at: a real Chromium, a real Prometheus, and Tritons; needs both programs."""
    session.install("-e", WITH_EYES, *_group("tests"), *_group("browser"))
    _pytest(session, *THREE_BY_FILE, "-m", "observe", "--timeout", "300", *_folders("observe"))


@nox.session(python=ONE)
@budgeted
def documentation(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    session.install("-e", ".[local]", *_group("docs"))
    output = ROOT / "docs" / "_build" / "html"
    session.run("sphinx-build", "-nW", "--keep-going", "-q", "-b", "html", "docs", str(output))
    session.log(f"{output / 'index.html'}")


@nox.session(python=ONE, venv_backend="virtualenv")
@budgeted
def minimums(session: nox.Session) -> None:
    """Run the unit tests with the oldest versions that pyproject.toml promises."""
    session.install("uv")
    oldest = ("--resolution", "lowest-direct", "--python", session.virtualenv.location)
    session.run(
        "uv", "pip", "install", "-q", *oldest, "-e", ".[local,zookeeper,haproxy,schedule,keystore]"
    )
    session.run(
        "uv", "pip", "install", "-q", "--python", session.virtualenv.location, *_group("tests")
    )
    # A library's age shows with the first examples of a law; `unit` has tried all of them.
    chosen = (*BOTH_CORES, "-m", "not triton", "--interpreters=each")
    quick = {"TARN_TEST_PROFILE": "quick"}
    _pytest_with(session, quick, *chosen, *_folders("unit"), *session.posargs)


@nox.session(python=ONE)
@budgeted
def bench(session: nox.Session) -> None:
    """Measure, and write docs/reference/performance.md between its markers."""
    _install_with_kerberos(session, "-e", WITH_YARN, *_group("tests"))
    session.run("python", "tests/bench/run.py", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session(venv_backend="none")
@budgeted
def figures(session: nox.Session) -> None:
    """Count what the source is made of, and write docs/explanation/architecture.md."""
    session.run(sys.executable, "-m", "tests.code_figures", "--write", *session.posargs)


@nox.session(python=ONE)
@budgeted
def policies(session: nox.Session) -> None:
    """Compare the default policy with those of others, and write docs/reference/policies.md."""
    session.install("-e", ".")
    session.run("python", "-m", "bench.policies", *session.posargs, env={"PYTHONPATH": "tests"})
