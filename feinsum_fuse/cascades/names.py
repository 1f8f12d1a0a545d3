"""What the entities of a cascade are called in a loopy kernel.

No entity is called by a word that means something to OpenCL C, its headers, a compiler or loopy. Those words are collected from the
specification of OpenCL C 3.0 (sections 6.1 to 6.15) and the headers ``opencl-c.h`` and ``opencl-c-base.h`` of Clang, with the extensions
of Khronos, Intel, AMD, Arm and PoCL. Families of names (``convert_...``, ``float16``) are patterns.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from constantdict import constantdict

from ..formats.language.functions import IN_KERNELS
from ..formats.language.reductions import SYMBOLS
from .sequence import EinsumSequence

_CONSTANTS = ("M_", "FLT_", "DBL_", "HALF_", "INT_", "LONG_")
"""Constants of OpenCL start so; loopy takes every name that starts like most of these for one."""


@lru_cache(4096)
def identifier(name: str) -> str:
    """A valid C and loopy identifier made from any name: the name itself if it is one."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not text or text[0].isdigit() or text.startswith(("_", *_CONSTANTS)):
        text = f"x{text}"
    return f"{text}_" if is_reserved(text) else text


def whole_of(name: str) -> str:
    """The Einsum or tensor of which this one is a part, ``X`` of ``X.scale``; empty if it is none.

    Names that users give have no dots. What a rewriting or a step adds for an Einsum is called after it.
    """
    return name.rpartition(".")[0]


def is_part(name: str, whole: str) -> bool:
    """Whether an Einsum or a tensor is a part of another one, or of a part of it."""
    return name.startswith(f"{whole}.")


def with_underlines(name: str, taken: Container[str]) -> str:
    """The name, with as many underlines as tell it from those that are taken."""
    while name in taken:
        name += "_"
    return name


class Identifiers:
    """Hands out identifiers, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def __call__(self, name: str) -> str:
        base = result = identifier(name)
        number = 0
        while result in self._taken:
            number += 1
            result = f"{base}_{number}"
        self._taken.add(result)
        return result


@dataclass(frozen=True)
class Names:
    """Entities of a cascade -> names in a loopy kernel."""

    instructions: constantdict[str, str]
    """Einsum -> instruction id."""
    inames: constantdict[tuple[str, str], str]
    """(Einsum, rank variable) -> iname."""
    arrays: constantdict[str, str]
    """Tensor -> argument or temporary variable."""
    rules: constantdict[tuple[str, int], str]
    """(Einsum, operand position) -> substitution rule, called with the operand's rank variables."""
    sizes: constantdict[str, str] = field(default_factory=constantdict)
    """Size parameter -> argument."""

    def __str__(self) -> str:
        lines = [f"Einsum {einsum}: instruction {insn}" for einsum, insn in self.instructions.items()]
        lines += [f"rank variable {variable} of {einsum}: iname {iname}" for (einsum, variable), iname in self.inames.items()]
        lines += [f"tensor {tensor}: array {array}" for tensor, array in self.arrays.items()]
        lines += [f"operand {position} of {einsum}: rule {rule}" for (einsum, position), rule in self.rules.items()]
        lines += [f"size {size}: argument {argument}" for size, argument in self.sizes.items()]
        return "\n".join(lines)


def chosen_names(cascade: EinsumSequence) -> Names:
    """The names that :func:`feinsum_fuse.cascades.kernel.kernel.base_kernel` gives; tensors keep theirs where they are identifiers."""
    fresh = Identifiers()
    arrays = {tensor: fresh(tensor) for tensor in cascade.tensors}
    sizes = {symbol: fresh(symbol) for symbol in cascade.size_parameters}
    instructions, inames, rules = {}, {}, {}
    for einsum in cascade.einsums:
        instructions[einsum.name] = fresh(einsum.name) if identifier(einsum.name) not in arrays.values() else fresh(f"{einsum.name}_einsum")
        for variable in einsum.variables:
            inames[einsum.name, variable] = fresh(f"{variable}_{einsum.name}")
        for position, operand in enumerate(einsum.operands):
            rules[einsum.name, position] = fresh(f"{operand.tensor}_{position}_{einsum.name}")
    return Names(constantdict(instructions), constantdict(inames), constantdict(arrays), constantdict(rules), constantdict(sizes))


_LANGUAGE = """
    alignas alignof and asm auto bool break case char class complex const constexpr continue default defined delete do double elif else enum
    explicit export extern false float for friend generic global goto half if imaginary import inline int intptr_t kernel local long
    module mutable namespace new not nullptr operator or pipe private protected ptrdiff_t public register restrict return short signed
    size_t sizeof static static_assert struct switch template this thread_local true try catch throw typedef typeid typename typeof
    uchar uint uintptr_t ulong uniform union unsigned unroll ushort using vec_step vec_type_hint virtual void volatile wchar_t while
    constant addrspace_cast compl bitand bitor xor and_eq or_eq xor_eq not_eq const_cast static_cast dynamic_cast reinterpret_cast
    decltype noexcept concept requires co_await co_return co_yield char8_t char16_t char32_t
    event_t sampler_t queue_t clk_event_t clk_profiling_info reserve_id_t ndrange_t kernel_enqueue_flags_t kernel_exec ext_vector_type
    NULL INFINITY NAN HUGE_VAL HUGE_VALF MAXFLOAT MAX_WORK_DIM EOF OPENCL EXTENSION INTTYPE linux unix i386 main
"""
_BUILT_IN = """
    abs abs_diff acos acosh acospi add_sat all any args asin asinh asinpi atan atan2 atan2pi atanh atanpi barrier bit_reverse bitselect
    capture_event_profiling_info cbrt ceil clamp clz copysign cos cosh cospi create_user_event cross ctz degrees distance dot erf erfc exp
    exp10 exp2 expm1 fabs fast_distance fast_length fast_normalize fdim floor fma fmax fmin fmod fract frexp hadd hypot ilogb
    is_valid_event is_valid_reserve_id isequal isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan isnormal
    isnotequal isordered isunordered ldexp length lgamma lgamma_r log log10 log1p log2 logb mad mad24 mad_hi mad_sat max maxmag min minmag
    mix modf mul24 mul_hi nan nextafter normalize popcount pow pown powr prefetch printf radians release_event remainder remquo
    retain_event rhadd rint rootn rotate round rsqrt select set_user_event_status shuffle shuffle2 sign signbit sin sincos sinh sinpi
    smoothstep sqrt step sub_sat tan tanh tanpi tgamma trunc upsample memcpy memmove memset
"""
_LOOPY = """
    sum prod product reduce simul_reduce argmax argmin segmented_sum segmented_product where gid lid lambda None True False inf
"""
_WORDS = frozenset(
    (
        *_LANGUAGE.split(),
        *_BUILT_IN.split(),
        *_LOOPY.split(),
        *SYMBOLS,
        *IN_KERNELS,
        *(name for function in IN_KERNELS.values() for name in (function.opencl, function.opencl_integers) if name),
    )
)
_FAMILIES = re.compile(
    r"(u?(char|short|int|long)|float|double|half|bool|quad|size_t)\d+(x\d+)?"
    r"|(as|convert|atomic|atom|intel|sub_group|work_group|work|native|half|get|read|write|memory|mem|async|wait_group|enqueue|event"
    r"|ndrange|bitfield|dot|arm|amd|cl|clk|pocl|spir|reqd|max_constant|vload|vloada|vstore|vstorea)_\w+"
    r"|bfloat\w*|v(load|store)a?\d*|vload_half\w*|vstorea?_half\w*|image(1|2|3)d\w*"
    r"|(CLK|CL|CLANG|ATOMIC|FP|ENQUEUE|SPIR|LLVM|POCL|IMG)_\w+|(S|U)?(CHAR|SHRT|INT|LONG)_(BIT|MAX|MIN)|USHRT_MAX|(LLVM|POCL)\w*"
)


def is_reserved(name: str) -> bool:
    """Whether an identifier means something else already; those that start with an underscore are compilers', none ends with one."""
    return name.startswith("_") or name in _WORDS or (not name.endswith("_") and _FAMILIES.fullmatch(name) is not None)
