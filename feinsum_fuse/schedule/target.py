"""What a kernel is written for: a plain value, so that lowering and code generation need no device.

``feinsum_fuse.device.catalogue.target`` makes one of an OpenCL device; :data:`ANY_DEVICE` stands for those that nobody has named.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

LEAST_GROUPS = 16
"""Work-groups that share large work also where there are few cores, which others may be using, too."""
GROUPS_A_UNIT = 4
USED_FROM_MEMORY = 8
"""How many times an element that comes from memory may be used that what is computed with it does not take longer."""


@dataclass(frozen=True)
class DeviceLimits:
    """What is checked before OpenCL is reached. The defaults are those of :data:`ANY_DEVICE`."""

    max_work_group_size: int = 4096
    max_work_item_sizes: tuple[int, int, int] = (4096, 4096, 4096)
    local_bytes: int = 1 << 20
    private_bytes: int = 6 << 20
    """For all work-items of a group together."""


@dataclass(frozen=True)
class Quirks:
    """What a device gets wrong and a kernel has to avoid, a flag each; ``doc/pocl.rst`` has symptom and reproduction of each.

    A flag that is not set leaves no trace in the generated text. All of those known so far are PoCL 3.0's, and one is Intel's, too.
    """

    barrier_under_condition: bool = False
    """The compiler dies of a barrier under a condition, even if all work-items agree on it: the statements take the condition instead."""
    uneven_loops: bool = False
    """Loops that run longer on one work-item than on another are miscompiled: they run equally long, their statements under conditions."""
    agreed_conditions: bool = False
    """In kernels with barriers, loops under or around conditions on which all work-items agree are miscompiled, if the compiler sees that
    they agree: conditions are joined to one on the work-item that always holds.
    """
    widest_builtins: bool = False
    """Functions of OpenCL on 16 lanes do not link, and ``pow`` of a ``double8`` is wrong where zeros stand in other lanes: functions on 16
    lanes and on 64 bytes are taken of two halves."""
    slow_vector_loads: bool = False
    """``vload`` and ``vstore`` are compiled to worse code than loads through a vector type without alignment, which is used where the
    compiler has it. PoCL leaves them calls, around which every register is saved: a matrix product takes four times as long.
    """
    slow_vector_parts: bool = False
    """The first elements of a vector move slower by a choice among pairs of shorter vectors, which is a jump, than by one instruction under
    a mask, which is used where the compiler has it.
    """
    halved_vectors: bool = False
    """Vectors of 64 bytes are computed in halves, whose number is that of registers of half the length, in kernels that pass none to a
    function: what is loaded and splat goes through one that returns it as it is.
    """
    slow_functions: bool = False
    """Functions on vectors are calls around which registers are saved, are computed lane by lane, or take longer than ours: those of
    float32 and float64 are taken from :mod:`feinsum_fuse.formats.language.vector_functions` and ``double_functions`` as far as these have
    them.
    """
    unknown_instructions: bool = False
    """The compiler does not say which instructions it may use, and finds none for products of words of four bytes: bytes are multiplied one
    by one, as other short whole numbers are.
    """
    slow_powers: bool = False
    """``pow`` on vectors of float32 is computed lane by lane: it is taken from there, too."""
    mixed_arguments: bool = False
    """``sin`` and ``cos`` of vectors of float32 are wrong in lanes with small arguments if another lane has a very large or infinite
    one: they are taken from there, too.
    """
    chosen_ends: bool = False
    """Loops whose end is chosen among several are compiled to worse code unless they run up to the last iteration by ``<=``."""
    int_places: bool = False
    """Loops that read several rows are compiled to worse code where places in arrays are of type ``int``: with a counter for each row, and
    sums that are moved from register to register. Places that have a name are ``long``.
    """
    private_on_stack: bool = False
    """The private arrays of all work-items of a group lie on the stack of the thread that runs it, and where they exceed it the process
    dies of a segmentation fault: the limit of private memory is the stack of a thread, less an eighth for calls.
    """
    half_written_cache: bool = False
    """A process that dies while it compiles leaves an entry in the compiler's cache of which every later build fails: a child process
    compiles into a cache of its own, and what ran well is handed over.
    """


@dataclass(frozen=True)
class Target:
    """A device as lowering, the choice of mappings, the model and code generation see it.

    The defaults are no device's: they are careful limits and the figures of processors with 256-bit vectors. Whoever knows better says so.
    """

    limits: DeviceLimits = DeviceLimits()
    vector_bytes: int = 32
    """Of a vector register."""
    widest_vector: int = 16
    """Lanes of the longest vectors that the language has; 1 where kernels are better written in scalars."""
    vector_registers: int = 16
    load_cost: float = 0.5
    """What the load of a vector costs beside multiply-adds, which wait for few of them; in multiply-adds, until a calibration has found it:
    0.7 on a Xeon with vectors of 64 bytes."""
    far_line_cost: float = 8.0
    """What a line that comes from beyond a core's own caches costs more than one from these while all cores read such, in multiply-adds of
    vectors, until a calibration has found it: 0 on a Zen 4, 1 on Zen 3 and 5, 3 to 11 on Xeons."""
    own_line_cost: float = 4.0
    """What a line that comes from the largest cache of a core's own costs, in multiply-adds of vectors, until a calibration has found it: 4
    on a Zen 3, 2 to 4 with vectors of 64 bytes, for which a device without a calibration counts half of this."""
    own_line_loss: float = 1.0
    """The part of what such lines take that computing does not hide where it takes longer, until a calibration has found it: 0.1 on a Zen
    3, 0 to 0.05 on Zen 4 and 5, 0.2 to 1 on Xeons."""
    sums_at_once: float = 8.0
    """How many sums of vectors keep a core busy, each of whose multiply-adds waits for the one before, until a calibration has found it: 8
    where two begin in a cycle and take four, 4 on a Zen 4 with vectors of 64 bytes."""
    line_bytes: int = 64
    """Of a line of the cache, as memory is read and written."""
    nearest_cache_bytes: int = 32 << 10
    """Of a core's first data cache."""
    core_cache_bytes: int = 1 << 20
    """Of the largest cache that a core has for itself."""
    last_cache_bytes: int = 0
    """Of the largest cache, which all cores share; 0 where there is none."""
    page_bytes: int = 4096
    """Of a page of memory, as the system hands it out."""
    pages_ahead: int = 0
    """How many pages ahead of a stream its lines are best asked for; 0 where that is left to the hardware."""
    units: int = 1
    """Cores that run work-groups side by side."""
    shares_host_memory: bool = False
    """Whether the device reads the host's arrays where they lie."""
    items_in_step: int = 1
    """Work-items that run in step (a warp, a wavefront): their accesses to neighbouring elements are one. 1 on processors."""
    items_a_unit: int = 1
    """Work-items that a unit has under way at once, so that some compute while others wait; 1 on processors."""
    group_parts: tuple[int, int] = (1, 1)
    """Work-groups that the runtime hands to a thread at once, for each thread there is: while few are left, and while many are."""
    quirks: Quirks = field(default_factory=Quirks)

    @property
    def groups(self) -> int:
        """Work-groups that are enough for the cores to share the work evenly: the last to end is a quarter of a core's work at the most."""
        return max(LEAST_GROUPS, GROUPS_A_UNIT * self.units)

    def groups_of(self, items: int) -> int:
        """The same of groups with so many work-items: where these wait for memory in turns, as many as all units have under way."""
        return max(self.groups, self.units * self.items_a_unit // items)

    @property
    def lanes_are_items(self) -> bool:
        """Whether the lanes of a mapping are work-items, and not elements of vectors."""
        return self.items_in_step > 1

    @property
    def moves_aligned(self) -> bool:
        """Whether a vector is moved at once only where the compiler sees that it lies at a multiple of its length, as on GPUs."""
        return self.lanes_are_items

    def lanes(self, dtype: str) -> int:
        """How many elements of a NumPy type one vector register holds, of what the language can name; at least 1."""
        return max(1, min(self.longest(dtype), self.vector_bytes // np.dtype(dtype).itemsize))

    def adds_words(self, types: tuple[str, ...]) -> bool:
        """Whether one instruction may add up several products: of an output and operands of these types, and if the compiler has it."""
        from .intrinsics.intrinsic import DOT_PRODUCT  # a known program runs without the language that says what it means

        return DOT_PRODUCT.takes(types) and not self.quirks.unknown_instructions

    def longest(self, dtype: str) -> int:
        """How many elements of a NumPy type the language's longest vector has: a complex number takes two."""
        return max(1, self.widest_vector // (2 if np.dtype(dtype).kind == "c" else 1))


POCL = Quirks(
    barrier_under_condition=True,
    uneven_loops=True,
    agreed_conditions=True,
    widest_builtins=True,
    slow_vector_loads=True,
    slow_vector_parts=True,
    halved_vectors=True,
    slow_functions=True,
    slow_powers=True,
    mixed_arguments=True,
    chosen_ends=True,
    int_places=True,
    private_on_stack=True,
    half_written_cache=True,
)
"""What PoCL 3.0 gets wrong."""
INTEL = Quirks(slow_vector_loads=True, slow_vector_parts=True, slow_functions=True, unknown_instructions=True)
"""Of Intel's runtime for processors: a product of 512 x 512 x 512 takes 3.5 ms with ``vload8``, 2.3 ms without. Its functions on whole
registers of AVX-512 take 1.2 (``exp``) to 4.3 times (``tanh`` of float64) as long as ours, 2.7 times for ``erf`` of float32."""
RUSTICL = Quirks(private_on_stack=True)
"""Of Mesa's runtime on processors (llvmpipe of Mesa 22.3), which does no more than 65,535 iterations on a work-item (``doc/pocl.rst``)."""
ANY_DEVICE = Target(quirks=POCL)
"""The neutral target, for a mapping that is lowered for no device: a processor of which nothing more is known, with every quirk of PoCL.

Its kernels are right on every device known that takes groups so large: 4,096 work-items, 1 MiB of local memory and 6 MiB of private memory.
Those are limits beyond which PoCL dies of a segmentation fault instead of reporting an error: it keeps private arrays on the 8 MiB stack of
the thread that runs a group, and 2 MiB are left for the rest. Vectors of 32 bytes in 16 registers, lines of 64 bytes, memory of its own.
"""

ANY_GPU = Target(
    limits=DeviceLimits(256, (256, 256, 64), 32 << 10, 256 << 10),
    vector_bytes=16,
    widest_vector=4,
    vector_registers=64,
    line_bytes=128,
    units=64,
    items_in_step=32,
    items_a_unit=2048,
)
"""A GPU of which nothing more is known: groups of 256 work-items, 32 KiB of local memory (what OpenCL 1.2 asks of a full profile), 256
registers of 4 bytes for each work-item, loads of 16 bytes, lines of 128 bytes, 64 units with 2,048 work-items each.

Of the registers a quarter is taken for sums, so that four times as many work-items stand by while others wait for memory.
"""
