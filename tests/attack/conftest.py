"""Where a call measures the device, it does so as quickly as it gets."""

from __future__ import annotations

from tests.cli.conftest import short_calibrations

__all__ = ["short_calibrations"]
