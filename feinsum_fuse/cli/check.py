"""``check``: do these files mean something, and what."""

from __future__ import annotations

from .console import emit, emit_json
from .inputs import check_variables, with_dtypes
from .options import DtypeOption, FilesArgument, JsonOption, SetOption, dtypes, variables


def command(files: FilesArgument, set_: SetOption = None, dtype: DtypeOption = None, as_json: JsonOption = False) -> None:
    """Load and validate files, and print the cascade and the LoopTree that they describe.

    Constraints of the architecture that the mapping breaks are warnings: the model evaluates such a mapping, and no mapper returns it.
    """
    import feinsum_fuse as ff

    from ..formats.checking.constraint_check import broken_by

    given = variables(set_)
    check_variables(files, given)
    spec = with_dtypes(ff.load(*files, variables=given), dtypes(dtype))
    meaning = ff.cascade(spec)
    if as_json:
        emit_json(
            {
                "einsums": {e.name: str(e) for e in meaning.einsums},
                "tensors": {t.name: {"shape": t.shape, "dtype": t.dtype} for t in meaning.tensors.values()},
                "inputs": meaning.inputs,
                "outputs": meaning.outputs,
                "intermediates": meaning.intermediates,
                "has_arch": spec.arch is not None,
                "has_mapping": spec.mapping is not None,
                "violations": [str(one) for one in broken_by(spec)],
            }
        )
        return
    emit(spec.workload)
    if spec.mapping is not None:
        emit(f"\n{spec.mapping}")
    present = [name for name in ("arch", "mapping", "opencl") if getattr(spec, name) is not None]
    broken = len(broken_by(spec))
    but = f"; but the mapping breaks {broken} constraint{'s' if broken > 1 else ''} of arch" if broken else ""
    emit(f"\nok: workload{''.join(f', {name}' for name in present)}{but}")
