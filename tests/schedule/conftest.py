"""Golden texts, and scripts of steps that the tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` writes what the tests see into ``tests/golden`` instead of comparing."""
    parser.addoption("--update-golden", action="store_true", default=False, help="rewrite the golden texts")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)`` compares a text with ``tests/golden/<name>.txt``."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden", default=False):
            path.write_text(text + "\n")
        assert text + "\n" == path.read_text(), f"{path.name} differs; pytest tests/schedule --update-golden rewrites it"

    return check
