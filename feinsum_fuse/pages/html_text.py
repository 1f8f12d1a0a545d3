"""Jinja2 for pages: every text is escaped, and a page says itself which scripts may run in it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.resources
import math
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..device.timing.measurement import time_text


@cache
def environment() -> Environment:
    """The templates of this package; texts that are none of ours are escaped wherever they stand."""
    found = Environment(
        loader=PackageLoader("feinsum_fuse.pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters["seconds"] = seconds
    found.globals["style"] = Markup(text("page.css"))
    return found


def seconds(value: float) -> str:
    """A time in a table; a dash where there is none."""
    return time_text(value) if math.isfinite(value) else "-"


@cache
def text(name: str) -> str:
    """A file beside the templates."""
    return (importlib.resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")


@cache
def plotly() -> str:
    """The script of plotly; empty where the package is not installed: charts are pictures then."""
    try:
        folder = importlib.resources.files("plotly")
    except ModuleNotFoundError:
        return ""
    return (folder / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


@cache
def packed(script: str) -> str:
    """A script by gzip as base64: a third of its length. The page unpacks it (``page.js``), and the policy's hash is that of the script."""
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode("ascii")


def policy(scripts: Sequence[str]) -> str:
    """The Content-Security-Policy of a page whose only scripts are these: nothing is fetched, nothing else runs."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode('ascii')}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes or chr(39) + 'none' + chr(39)}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
