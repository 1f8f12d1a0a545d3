"""``transforms``: what the catalogue has for a workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..console import emit, emit_json, passing, table
from ..inputs import check_variables, with_dtypes
from ..options import DtypeOption, IncludeDirOption, JsonOption, SetOption, dtypes, variables

if TYPE_CHECKING:
    from ...cascades.cascade import Cascade
    from ...patterns.transform import Transform


def command(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILES]", help="YAML files with a workload; without, all transforms are listed.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only this transform, with its figure and its source.")] = None,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    dtype: DtypeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the catalogue's transforms, or those that apply to a workload, with the values of their parameters there.

    A transform is a short function that knows which rewritings and decisions suit a class of Einsums; `tune --transforms` tunes what it
    leaves open.
    """
    import feinsum_fuse as ff

    from ...patterns.registry import transform_called, transforms

    cascade: Cascade | None = None
    if files:
        given = variables(set_)
        check_variables(files, given)
        cascade = ff.cascade(with_dtypes(ff.load(*files, variables=given, include_dirs=include_dir or (), progress=passing), dtypes(dtype)))
    known = list(ff.transforms_for(cascade) if cascade is not None else transforms().values())
    if name is not None:
        known = [one for one in known if one.name == transform_called(name).name]
    if as_json:
        emit_json([to_data(one, cascade) for one in known])
    elif name is not None and known:
        emit(text(known[0]))
    elif not known:
        emit("No transform of the catalogue applies.")
    else:
        table(["transform", "parameters", "idea"], [[one.name, _parameters(one, cascade), one.idea] for one in known])


def text(transform: Transform) -> str:
    """A transform with its patterns, parameters, figure and source."""
    lines = [transform.name, "", transform.document, ""]
    lines += [f"for {'; then '.join(map(str, transform.patterns))}"]
    lines += [f"{name}: {parameter}" for name, parameter in transform.parameters.items()]
    lines += [f"with {condition}" for condition in transform.conditions]
    return "\n".join([*lines, f"source: {transform.source}"])


def _parameters(transform: Transform, cascade: Cascade | None) -> str:
    if cascade is None:
        return ", ".join(transform.parameters)
    return "; ".join(f"{name} {'|'.join(map(str, values))}" for name, values in transform.values(cascade).items())


def to_data(transform: Transform, cascade: Cascade | None) -> dict[str, object]:
    """Plain data for ``--json``; the values of parameters, the usual one first, for a workload."""
    return {
        "name": transform.name,
        "idea": transform.idea,
        "patterns": [str(pattern) for pattern in transform.patterns],
        "parameters": {name: str(parameter) for name, parameter in transform.parameters.items()},
        "values": transform.values(cascade) if cascade is not None else None,
        "conditions": list(transform.conditions),
        "source": transform.source,
    }
