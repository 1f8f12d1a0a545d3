"""Conditions on tile shapes: broken by one mapping, an error; broken by some of many assignments, a mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError


@dataclass
class Legality:
    """What is still legal after the conditions so far."""

    legal: bool | NDArray[np.bool_] = True

    def require(self, condition: bool | NDArray[np.bool_], message: Callable[[], str], hint: str = "") -> None:
        """Demand a condition: one truth value, or one for each assignment. Raises :class:`ModelError` if the one is false."""
        if isinstance(condition, np.ndarray):
            self.legal = self.legal & condition
        elif not condition:
            raise ModelError(message(), hint=hint)
