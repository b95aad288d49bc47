"""Where the sequences' seed comes from."""

import secrets

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sequences-seed",
        type=int,
        default=None,
        help="draw the scale sequences from this number again; default: another one each time",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw a seed once; pytest-xdist hands it to its workers as if it had been given."""
    if config.getoption("sequences_seed", 0) is None:
        config.option.sequences_seed = secrets.randbelow(10**6)


def pytest_report_header(config: pytest.Config) -> str:
    return f"scale sequences: --sequences-seed={config.getoption('sequences_seed', 0)}"


@pytest.fixture(scope="session")
def sequences_seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("sequences_seed", 0) or 0)
