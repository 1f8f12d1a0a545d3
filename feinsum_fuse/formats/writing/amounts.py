"""Figures with the prefix of their unit."""

from __future__ import annotations

import math

BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
DECIMAL = {-15: "f", -12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}


def prefixed(value: float, unit: str, *, binary: bool = False, digits: int = 3) -> str:
    """A figure as text, by powers of two (``64 Kibit``) or of ten (``2.5 µJ``), to so many digits."""
    if binary:
        power = min(max(0, int(math.log2(value) // 10)), len(BINARY) - 1) if value >= 1 else 0
        return f"{value / 1024**power:.{digits}g} {BINARY[power]}{unit}"
    power = 0 if value <= 0 else min(max(3 * math.floor(math.log10(value) / 3 + 1e-12), min(DECIMAL)), max(DECIMAL))
    return f"{value / 10.0**power:.{digits}g} {DECIMAL[power]}{unit}"


def amount(value: float, unit: str, *, digits: int = 3) -> str:
    """A figure as text: bits by powers of two (``64 Kibit``), others by powers of ten (``2.5 µJ``)."""
    return prefixed(value, unit, binary=unit == "bit", digits=digits)
