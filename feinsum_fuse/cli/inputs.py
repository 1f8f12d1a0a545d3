"""Which of the given files are mappings to be compared, and where the architecture comes from if no file has one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .console import note, progress

if TYPE_CHECKING:
    import pyopencl as cl

_TOP_KEY = r"^{}\s*:"


def has_top_key(file: Path, key: str) -> bool:
    """Whether a file's text has this top key; false for a file that cannot be read, which loading reports."""
    try:
        return re.search(_TOP_KEY.format(key), file.read_text(), re.MULTILINE) is not None
    except (OSError, UnicodeDecodeError):
        return False


def variants(files: Sequence[Path]) -> tuple[list[Path], dict[str, list[Path]]]:
    """(Files that all variants share, label -> files of this variant alone).

    Several files with a mapping are as many variants, called by what distinguishes their names; otherwise there is one.
    """
    mappings = [file for file in dict.fromkeys(files) if has_top_key(file, "mapping")]
    shared = [file for file in files if file not in mappings]
    if len(mappings) < 2:
        label = _label(mappings[0]) if mappings else "no mapping"
        return shared, {label: list(mappings)}
    labels = [_label(file) for file in mappings]
    if len(set(labels)) < len(labels):
        labels = [str(file) for file in mappings]
    return shared, {label: [file] for label, file in zip(labels, mappings, strict=True)}


def _label(file: Path) -> str:
    """``mapping_fused.yaml`` -> ``fused``."""
    return file.stem.removeprefix("mapping_") or file.stem


def with_arch(files: Sequence[Path], device: str | cl.Device | None, *, measure_now: bool = False) -> list[Path]:
    """``files``, and unless they have an arch, the device file: of an earlier calibration, or of a quick one now.

    A calibration is made if there is none yet, or if ``measure_now``.
    """
    if any(has_top_key(file, "arch") for file in files):
        return list(files)
    from ..device.catalogue import find_device
    from .calibrate import calibrated, default_file

    chosen = find_device(device) if device is None or isinstance(device, str) else device
    file = default_file(chosen)
    if measure_now or not file.exists():
        with progress("measuring the device"):
            calibrated(chosen, file, quick=True)
        note(f"device file: {file}")
    return [*files, file]
