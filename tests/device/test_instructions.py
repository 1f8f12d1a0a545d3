"""What a compiler says of its instructions."""

from __future__ import annotations

import pytest

from feinsum_fuse.device import instructions
from feinsum_fuse.device.catalogue import find_device


def test_the_first_that_the_compiler_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or none: which of them this processor's compiler takes, no test depends on."""
    device = find_device("Portable")
    assert instructions.dot_instruction(device) in {None, *instructions.DOT_INSTRUCTIONS}
    monkeypatch.setattr(instructions, "DOT_INSTRUCTIONS", {"no such": "defined(NO_SUCH)", "any": "1"})
    assert instructions.dot_instruction(device) == "any"
    monkeypatch.setattr(instructions, "DOT_INSTRUCTIONS", {"no such": "defined(NO_SUCH)"})
    assert instructions.dot_instruction(device) is None
