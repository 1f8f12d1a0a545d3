"""``check``: do these files mean something, and what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import CascadeError
from .console import emit, emit_json, note, passing
from .inputs import check_variables, with_dtypes
from .options import DtypeOption, FilesArgument, IncludeDirOption, JsonOption, SetOption, TopKeyOption, dtypes, variables

if TYPE_CHECKING:
    from ..cascades.cascade import Cascade
    from ..formats.spec import Spec


def command(
    files: FilesArgument,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    top_key: TopKeyOption = None,
    dtype: DtypeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load and validate files, and print the cascade and the LoopTree that they describe.

    Constraints of the architecture that the mapping breaks are warnings: the model evaluates such a mapping, and no mapper returns it.
    """
    import feinsum_fuse as ff

    from ..formats.checking.constraint_check import broken_by

    given = variables(set_)
    check_variables(files, given)
    spec = ff.load(*files, variables=given, include_dirs=include_dir or (), top_keys=top_key or (), progress=passing)
    spec = with_dtypes(spec, dtypes(dtype))
    meaning = _meaning(spec)
    if as_json:
        emit_json(
            {
                "einsums": {} if meaning is None else {e.name: str(e) for e in meaning.einsums},
                "tensors": {} if meaning is None else {t.name: {"shape": t.shape, "dtype": t.dtype} for t in meaning.tensors.values()},
                "inputs": () if meaning is None else meaning.inputs,
                "outputs": () if meaning is None else meaning.outputs,
                "intermediates": () if meaning is None else meaning.intermediates,
                "has_arch": spec.arch is not None,
                "has_mapping": spec.mapping is not None,
                "violations": [str(one) for one in broken_by(spec)],
            }
        )
        return
    present = [name for name in ("workload", "arch", "mapping", "opencl") if _is_there(spec, name)]
    for name in ("workload", "mapping"):
        if name in present:
            emit(f"{getattr(spec, name)}\n")
    broken = len(broken_by(spec))
    but = f"; but the mapping breaks {broken} constraint{'s' if broken > 1 else ''} of arch" if broken else ""
    emit(f"ok: {', '.join(present) or 'renames'}{but}")


def _is_there(spec: Spec, name: str) -> bool:
    return bool(spec.workload.einsums) if name == "workload" else getattr(spec, name) is not None


def _meaning(spec: Spec) -> Cascade | None:
    """The cascade; ``None``, and a remark, for a workload that the model takes and no kernel can compute."""
    from ..cascades.reading.reader import cascade

    if not spec.workload.einsums:
        return None
    try:
        return cascade(spec)
    except CascadeError as error:
        if not any(einsum.is_copy_operation for einsum in spec.workload.einsums):
            raise
        note(f"warning: predict takes this workload, and run does not: {error}")
        return None
