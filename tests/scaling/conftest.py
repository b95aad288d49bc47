"""Where the sequences' seed comes from: it is printed, and may be given."""

import secrets
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sequences-seed",
        type=int,
        default=None,
        help="draw the scale sequences from this number again; default: another one each time",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw one where none is given; a worker of pytest-xdist takes that of the whole run."""
    told = getattr(config, "workerinput", {}).get("sequences_seed")
    if config.getoption("sequences_seed", None) is None:
        config.option.sequences_seed = secrets.randbelow(10**6) if told is None else told


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist."""
    node.workerinput["sequences_seed"] = node.config.option.sequences_seed


def pytest_report_header(config: pytest.Config) -> str:
    return f"scale sequences: --sequences-seed={config.option.sequences_seed}"


@pytest.fixture(scope="session")
def sequences_seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.option.sequences_seed)
