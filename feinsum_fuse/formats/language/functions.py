"""The functions that a map may call. A new one is a row of :data:`FUNCTIONS`, and nothing else.

The table lies with the language of the files because that is the first to need it; everything above asks it, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pymbolic import var
from pymbolic.primitives import Comparison, If, Power

from .double_functions import (
    DOUBLE_COS,
    DOUBLE_ERF,
    DOUBLE_EXP,
    DOUBLE_FLOOR,
    DOUBLE_LOG,
    DOUBLE_ROUND,
    DOUBLE_SIN,
    DOUBLE_TANH,
)
from .error_function import erf
from .vector_functions import (
    COS,
    ERF,
    EXP,
    FLOOR,
    HIGH4,
    HIGH4_OF_BYTES,
    HIGH4_OF_TABLE,
    LOG,
    LOW4,
    LOW4_OF_BYTES,
    LOW4_OF_TABLE,
    POW,
    ROUND,
    RUNNING_MAX,
    RUNNING_MIN,
    SIN,
    TANH,
    VECTOR_MAX,
    VECTOR_MIN,
)

if TYPE_CHECKING:
    from pymbolic.typing import Expression


@dataclass(frozen=True)
class Function:
    """A function of numbers, taken element by element."""

    name: str
    arity: int = 1
    numpy: Callable[..., Any] | None = None
    """The same for NumPy's arrays; ``None`` for what is composed."""
    composed: Callable[..., Expression] | None = None
    """The function as an expression in others, which then stands in its place; a function that has one needs no more than a name."""
    kernel: str | None = None
    """What loopy kernels call it; ``None``: they cannot."""
    aliases: tuple[str, ...] = ()
    """What else they call it."""
    opencl: str = ""
    """OpenCL C's name for floating-point numbers."""
    opencl_integers: str = ""
    """OpenCL C's name for integers, if it has one."""
    of_integers: Literal["number", "integer", "same"] = "number"
    """What it gives of integers: any number, so that floating-point numbers are computed; an integer; or the very argument."""
    leaves_reals: bool = False
    """Whether it gives of a real number the very argument."""
    is_real: bool = False
    """Whether it is not defined for complex numbers."""
    is_associative: bool = False
    """Whether order and grouping of its arguments mean nothing; then more than ``arity`` arguments are grouped."""
    is_finite: bool = False
    """Whether it is finite wherever its arguments are."""
    ulps: float = 0.0
    """The largest error in units in the last place that the OpenCL specification (full profile, section 7.4) allows."""
    amplification: float = 1.0
    """The relative error of the result over the argument's; 16 where it is the argument's magnitude, which is taken for that; 0 for steps,
    near whose jumps either side is right (:mod:`feinsum_fuse.cascades.reference.jumps`)."""
    cost: str | None = None
    """The function whose calibrated cost it has where its own was not measured; ``""`` for what costs nothing beside its arguments."""
    cycles: tuple[float, float] = (25.0, 20.0)
    """What one call takes on a vector and on a scalar where nothing was measured, in cycles: the time of two vector multiply-adds.

    The default is of the order of what a library's ``exp`` and ``tanh`` took on an EPYC, 16 to 28 and 22 to 40; the others are for
    functions that one instruction does (Fog, Instruction tables: Zen 2)."""
    is_divided: bool = False
    """Whether it is made of what a core's unit for divisions and roots does, which works beside the other ones."""
    is_instruction: bool = False
    """Whether one instruction of a core's arithmetic does it, as quick as any: it clears a bit."""
    probe: str | None = None
    """OpenCL C whose time a calibration measures, with ``{call}`` for the function, ``{0}`` for an argument and ``w`` for a second one;
    ``None``: it does not."""
    is_probed_below_zero: bool = False
    """Whether that argument may be negative."""
    probed_with: int = 0
    """Operations of that probe on vectors beside the call, where those are much of its time."""
    own: str = ""
    """OpenCL C of our own for vectors of float32 (:mod:`.vector_functions`), for devices whose functions on vectors are slow
    or wrong."""
    own_double: str = ""
    """The same for vectors of float64 (:mod:`.double_functions`)."""
    own_integers: str = ""
    """The same for vectors of whole numbers, for devices whose functions do not take the widest ones."""
    own_running: str = ""
    """The same for any type, where the first argument is what a reduction by this function has so far: none where it is ``own``."""
    own_ulps: float = 0.0
    """The largest error of these, in units in the last place."""
    is_ours: bool = False
    """Whether OpenCL C has none: then ``own`` is for scalars and vectors of every floating-point type."""
    of_bytes: str = ""
    """The same for vectors of unsigned bytes, for a function that OpenCL C lacks."""
    of_table: str = ""
    """The same for sixteen of them, where one instruction looks up sixteen numbers (:data:`.vector_functions.PERMUTES`)."""
    is_periodic: bool = False
    """Whether its argument is first brought into a period."""
    taken_where: Literal["slow_functions", "slow_powers", "mixed_arguments"] = "slow_functions"
    """The quirk (:class:`~feinsum_fuse.schedule.target.Quirks`) of devices for which ours is taken."""

    @property
    def kernel_of_integers(self) -> str | None:
        """What loopy kernels call it of integers: a name of its own where it is the very argument, so that it can be read back."""
        return f"{self.kernel}_of_integers" if self.kernel is not None and self.of_integers == "same" else self.kernel

    def is_argument(self, name: str) -> bool:
        """Whether a kernel that calls it by this name says that it is the very argument."""
        return name == self.kernel_of_integers != self.kernel

    @property
    def largest_ulps(self) -> float:
        """The largest error of OpenCL's function and ours."""
        return max(self.ulps, self.own_ulps)

    def own_text(self, element: str) -> str:
        """Our own function on vectors of one of OpenCL C's types; empty where there is none."""
        return {"float": self.own, "double": self.own_double}.get(element, self.own_integers)

    def opencl_name(self, kind: str) -> str:
        """OpenCL C's name for a kind of element type: ``f`` for floating-point numbers."""
        return self.opencl if kind == "f" else self.opencl_integers or self.opencl

    def text_of(self, name: str, kind: str, lanes: int = 0) -> str:
        """The OpenCL C text, under a name, of a function that OpenCL lacks, for a type of so many lanes; 0 lanes: for numbers."""
        text = self.own + self.of_bytes if lanes else self.own
        for word, meaning in (("NAME", name), ("VECTOR", kind), ("INTS", f"int{lanes or ''}"), ("BYTES", f"uchar{lanes or ''}")):
            text = text.replace(word, meaning)
        return text.strip()

    @property
    def scalar_text(self) -> str:
        """The same for single numbers of every floating-point type."""
        single, double = (self.text_of(self.opencl, kind) for kind in ("float", "double"))
        return f"{single}\n#ifdef cl_khr_fp64\n{double}\n#endif"


def _function(name: str, numpy: Callable[..., Any], **facts: Any) -> Function:
    """A function that OpenCL C has, under its own name unless ``facts`` give another."""
    return Function(name, numpy=numpy, **{"kernel": name, "opencl": name, **facts})


def _composed(name: str, arity: int, composed: Callable[..., Expression], **facts: Any) -> Function:
    return Function(name, arity, composed=composed, **facts)


_STEP: dict[str, Any] = {"of_integers": "same", "is_finite": True, "is_real": True, "amplification": 0.0, "cycles": (0.5, 0.5)}
_BITS: dict[str, Any] = {"is_ours": True, "is_finite": True, "is_real": True, "cycles": (1.5, 1.5)}
_EXP: dict[str, Any] = {"own": EXP, "own_double": DOUBLE_EXP, "own_ulps": 2}
_LOG: dict[str, Any] = {"own": LOG, "own_double": DOUBLE_LOG, "own_ulps": 4}
_TANH: dict[str, Any] = {"own": TANH, "own_double": DOUBLE_TANH, "own_ulps": 4}
_ERF: dict[str, Any] = {"own": ERF, "own_double": DOUBLE_ERF, "own_ulps": 4}
_TURN: dict[str, Any] = {"is_finite": True, "ulps": 4, "amplification": 16.0, "own_ulps": 4, "is_periodic": True}
_TURN |= {"probe": "{call}({0})", "is_probed_below_zero": True, "taken_where": "mixed_arguments"}
_BELOW: dict[str, Any] = {"is_probed_below_zero": True}
_LOW4 = {"own": LOW4, "of_bytes": LOW4_OF_BYTES, "of_table": LOW4_OF_TABLE}
_HIGH4 = {"own": HIGH4, "of_bytes": HIGH4_OF_BYTES, "of_table": HIGH4_OF_TABLE}
_ROWS = (
    _function("exp", np.exp, is_finite=True, ulps=3, amplification=16.0, probe="{call}(-{0})", is_probed_below_zero=True, **_EXP),
    _function("log", np.log, ulps=3, probe="{call}({0} + (REAL) 1.5)", **_LOG),
    _function("sqrt", np.sqrt, ulps=3, cycles=(6.0, 5.0), probe="{call}({0} + (REAL) 1)", is_divided=True),
    _function("rsqrt", lambda x: 1.0 / np.sqrt(x), ulps=2, cycles=(12.0, 10.0), probe="{call}({0} + (REAL) 1)", is_divided=True),
    _function("tanh", np.tanh, is_finite=True, ulps=5, probe="{call}({0})", is_probed_below_zero=True, **_TANH),
    _function("erf", erf, is_finite=True, is_real=True, ulps=16, probe="{call}({0})", is_probed_below_zero=True, **_ERF),
    _function(
        "abs",
        np.abs,
        aliases=("fabs",),
        opencl="fabs",
        opencl_integers="abs",
        of_integers="integer",
        is_finite=True,
        is_instruction=True,
        cycles=(0.5, 0.5),
    ),
    _function("sin", np.sin, own=SIN, own_double=DOUBLE_SIN, **_TURN),
    _function("cos", np.cos, own=COS, own_double=DOUBLE_COS, **_TURN),
    *(
        _function(
            name,
            numpy,
            arity=2,
            aliases=(f"f{name}",),
            opencl=f"f{name}",
            opencl_integers=name,
            of_integers="integer",
            is_real=True,
            is_associative=True,
            cycles=(1.5, 1.5),
            probe="{call}(-{0}, w)",  # of the same two values again compilers know the greater
            probed_with=1,
            own=own,
            own_double=own,
            own_integers=running,
            own_running=running,
        )
        for name, numpy, own, running in (
            ("min", np.minimum, VECTOR_MIN, RUNNING_MIN),
            ("max", np.maximum, VECTOR_MAX, RUNNING_MAX),
        )
    ),
    _function("log1p", np.log1p, is_real=True, ulps=2, cost="log", probe="{call}({0} + (REAL) 1.5)"),
    _function(
        "expm1", np.expm1, is_finite=True, is_real=True, ulps=3, amplification=16.0, cost="exp", probe="{call}(-{0})", **_BELOW
    ),
    _function("floor", np.floor, probe="{call}({0} + w)", own=FLOOR, own_double=DOUBLE_FLOOR, **_BELOW, **_STEP),
    # Half to even, as NumPy does it; what OpenCL C calls round goes away from zero.
    _function(
        "round", np.rint, kernel="rint", opencl="rint", probe="{call}({0} + w)", own=ROUND, own_double=DOUBLE_ROUND, **_BELOW, **_STEP
    ),
    # The four low and the four high bits of a whole number from 0 to 255, which stand for -8 to 7.
    _function("low4", lambda x: np.asarray(x).astype(np.int64) % 16 - 8.0, **_BITS, **_LOW4),
    _function("high4", lambda x: np.asarray(x).astype(np.int64) // 16 % 16 - 8.0, **_BITS, **_HIGH4),
    _function("conj", np.conj, of_integers="same", leaves_reals=True, is_finite=True, cost=""),
    _composed("isnan", 1, lambda x: If(Comparison(x, "!=", x), 1, 0), kernel="isnan"),
    # OpenCL C's gives 0 of what is no number.
    _composed("sign", 1, lambda x: If(Comparison(x, ">", 0), 1, If(Comparison(x, "<", 0), -1, x))),
    _composed(
        "pow",
        2,
        Power,
        kernel="pow",
        opencl="pow",
        ulps=16,
        amplification=16.0,
        probe="{call}({0} + (REAL) 1, w)",
        own=POW,
        own_ulps=1,
        taken_where="slow_powers",
    ),
    _composed("where", 3, If, cost=""),
    _composed("relu", 1, lambda x: var("max")(x, 0.0)),
    _composed("sigmoid", 1, lambda x: 1.0 / (1.0 + var("exp")(-1.0 * x))),
    _composed("gelu", 1, lambda x: 0.5 * x * (1.0 + var("erf")(x * math.sqrt(0.5)))),
    _composed("silu", 1, lambda x: x / (1.0 + var("exp")(-1.0 * x))),
)

FUNCTIONS: Mapping[str, Function] = {row.name: row for row in _ROWS}
"""Name -> function."""
IN_KERNELS: Mapping[str, Function] = {
    name: row for row in _ROWS for name in (row.kernel, row.kernel_of_integers, *row.aliases) if row.kernel is not None and name is not None
}
"""What loopy kernels call a function -> function."""
