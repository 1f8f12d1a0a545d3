"""The documentation of the formats loads as it is written."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import feinsum_fuse as ff

PAGE = Path(__file__).resolve().parents[2] / "doc" / "formats.rst"


def test_the_examples_of_the_formats_page_make_one_spec() -> None:
    blocks = re.findall(r"\.\. code-block:: yaml\n\n((?:   .*\n|\n)+)", PAGE.read_text(encoding="utf-8"))
    spec = ff.loads("".join(textwrap.dedent(block) for block in blocks))
    assert [block.split(":")[0].strip() for block in blocks] == ["workload", "renames", "arch", "mapping", "opencl"]
    assert dict(spec.workload.einsum("Z").bounds) == {"m": 100, "n": 128, "p": 8, "r": 3}
    assert spec.workload.einsum("T").renames["input"] == {"A"}
    assert ff.loads(spec.to_yaml()) == spec
