"""``ff.compile``: from what is to be computed to a program on a device.

What was chosen and built before is found before anything is read: imports neither loopy nor anything that does, until it has to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyopencl as cl

from ..arguments import ANYTHING, HOOK, NOTHING, SECONDS, TEXT, Kind, checked, instance, mapping
from ..device.catalogue import find_device
from ..device.program.program import Program
from ..errors import SpecError
from ..progress import Hook
from .known_programs import find, keep
from .texts import written

if TYPE_CHECKING:
    import loopy as lp

    from ..archive.tables.address import Url
    from ..cascades.cascade import Cascade
    from ..formats.spec import Spec
    from ..schedule.function import Transform
    from ..schedule.schedule import Schedule

    File: TypeAlias = str | os.PathLike[str]
    Computation: TypeAlias = Spec | Cascade | lp.TranslationUnit | File | Sequence[File]

BY_NAME = mapping("a mapping from names", TEXT, ANYTHING) | NOTHING
SIZES = mapping("a mapping from ranks to sizes, such as {'M': 64},", TEXT, ANYTHING) | NOTHING
TYPES = mapping("a mapping from tensors to types, such as {'All': 'float32'},", TEXT, ANYTHING) | NOTHING
BY = Kind("a schedule or a function", lambda value: value is None or isinstance(value, str) or callable(value) or hasattr(value, "steps"))
TUNE = Kind("a truth value or a number of seconds", lambda value: isinstance(value, bool) or SECONDS.holds(value))


@checked(
    SpecError,
    device=instance("a device", cl.Device) | TEXT | NOTHING,
    sizes=SIZES,
    dtypes=TYPES,
    variables=BY_NAME,
    tune=TUNE,
    by=BY,
    timeout_s=SECONDS | NOTHING,
    progress=HOOK,
)
def compile(
    what: Computation,
    device: cl.Device | str | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    dtypes: Mapping[str, str] | None = None,
    variables: Mapping[str, object] | None = None,
    tune: bool | float = False,
    by: Schedule | Transform | str | None = None,
    url: Url | None = None,
    timeout_s: float | None = None,
    reference_bytes: int | None = None,
    progress: Hook | None = None,
) -> Program:
    """The program of a computation on a device, by the best that is known; built and verified once in a child process.

    ``what``: a Spec, a cascade, a loopy kernel, an Einsum as text or a list of them (``sizes`` and ``dtypes`` as ``ff.cascade`` takes
    them), a file or a list of them (``variables`` as ``ff.load`` takes them). A kernel is matched first; the program takes its arrays,
    row-major, by name.

    ``by`` is a transformation of the caller's own: a :class:`~feinsum_fuse.schedule.schedule.Schedule`, or a function from loopy kernel to
    loopy kernel (or its name, ``module:function``), which is given the kernel, or the cascade's own, and leaves its arguments as they are.
    Nothing else is considered then, and what is measured and recorded is called by the function's name and version.

    Without, how it runs is decided by the first of these that has something to say: a mapping that was given; with ``tune``, a search that
    measures (``True``, or so many seconds); the best fact recorded at ``url`` or shipped, if it beats the default mapping here; the model
    of a calibrated device, within a second of search; the rules of the default mapping. ``program.origin`` says which, and why not others.

    What this machine has chosen and built before is found on disk. ``device`` is a device or a part of its name (default: PoCL);
    ``progress`` is told of stages. ``reference_bytes``: memory for the float64 reference, which is computed in parts where it does not
    fit; by default half of what is free. Raises :class:`~feinsum_fuse.errors.Error` for what cannot be read or lowered, and
    :class:`~feinsum_fuse.device.timing.outcome.KernelError`, which carries the :class:`~feinsum_fuse.device.timing.outcome.Outcome`, for a
    kernel that fails or computes something else within ``timeout_s`` seconds (by default 120).
    """
    text = written(what, sizes, dtypes, variables)
    chosen = device if isinstance(device, cl.Device) else find_device(device)
    request = text.request if text is not None else None
    if by is None and tune is False and (known := find(request, chosen, url)) is not None:
        return known.program
    from .making import BuildOptions
    from .selection import selected, tuned

    options = BuildOptions(chosen, url, timeout_s, reference_bytes, progress)
    asked = what if text is None else text.read()
    if by is not None:
        from .own_transformations import by_hand

        if tune is not False:
            raise SpecError("a program is tuned, or made by a transformation that is given (by), not both")
        return by_hand(asked, by, options)
    if tune is not False:
        return tuned(asked, options, None if tune is True else float(tune))
    found = selected(asked, options)
    keep(request, chosen, url, found)
    return found.program
