"""OpenCL C that feinsum's own transforms make, for :mod:`benchmarks.feinsum_transforms`; runs where feinsum is installed.

Standard input has a list of cases as JSON: ``transform`` (a file of feinsum's ``tuning/impls``), ``subscripts``, ``shapes`` (a text is a
symbolic length), ``dtype``, ``long`` (the length of what is symbolic), ``given`` (arguments that the file itself would derive wrongly),
``points`` and ``seconds``. Parameters are drawn from the space that
the transform declares until so many points have a kernel, or the time is up. Standard output has for each case its texts and refusals.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import feinsum
import loopy as lp
from feinsum.codegen.loopy import generate_loopy
from feinsum.tuning import IntParameter, TupleParameter, get_transform_func_from_module_path

MOST_REFUSED = 400
"""Points without a kernel, after which no more are drawn."""
FOLDER = Path(feinsum.__file__).parent / "tuning" / "impls"


def drawn(domain: Any, generator: random.Random) -> Any:
    """A value of a parameter."""
    if isinstance(domain, IntParameter):
        return generator.randint(domain.low, domain.high)
    if isinstance(domain, TupleParameter):
        return tuple(drawn(part, generator) for part in domain._data)
    if isinstance(domain, tuple):
        return tuple(drawn(part, generator) for part in domain)
    return generator.random() < 0.5


def text_of(unit: Any) -> dict[str, Any]:
    """A kernel's text, its grid, and its arguments in order."""
    unit = lp.preprocess_kernel(unit)
    code = lp.generate_code_v2(unit)
    (kernel,) = [program for program in code.device_programs if program.name == unit.default_entrypoint.name]
    known = unit.default_entrypoint
    groups, items = known.get_grid_size_upper_bounds_as_exprs(unit.callables_table)
    local = [int(n) for n in items] or [1]
    counts = [int(n) for n in groups]
    sizes = [(counts[k] if k < len(counts) else 1) * (local[k] if k < len(local) else 1) for k in range(max(len(counts), len(local)))]
    arguments = [
        {"name": a.name, "dtype": a.dtype.numpy_dtype.name, "shape": [int(n) for n in a.shape], "is_output": bool(a.is_output)}
        for a in known.args
    ]
    local += [1] * (len(sizes) - len(local))
    return {"source": code.device_code(), "kernel": kernel.name, "global": sizes, "local": local, "arguments": arguments}


def texts(case: dict[str, Any]) -> dict[str, Any]:
    """What a transform makes of an einsum at points of its space."""
    transform = get_transform_func_from_module_path(str(FOLDER / f"{case['transform']}.py"))
    arrays = [feinsum.array(f"operand_{k}", tuple(shape), case["dtype"]) for k, shape in enumerate(case["shapes"])]
    einsum = feinsum.einsum(case["subscripts"], *arrays)
    generator, end = random.Random(0), time.monotonic() + case["seconds"]
    found: dict[str, dict[str, Any]] = {}
    refused, outside = Counter[str](), Counter[str]()
    while len(found) < case["points"] and sum(refused.values()) < MOST_REFUSED and time.monotonic() < end:
        try:
            point = {parameter.var_name: drawn(parameter.func(einsum), generator) for parameter in transform.transform_params}
            if str(point) in found:
                refused["drawn before"] += 1
                continue
            given = {argument.var_name: argument.func(einsum) for argument in transform.einsum_derivative_args} | case["given"]
            unit = transform.transform(generate_loopy(einsum), **given, **point, insn_match=None, kernel_name=None)
            lengths = dict.fromkeys(unit.default_entrypoint.all_params(), case["long"])
            found[str(point)] = {"parameters": point, **text_of(lp.fix_parameters(unit, within=None, **lengths))}
        except feinsum.InvalidParameterError as error:
            outside[str(error)] += 1
        except Exception as error:  # whatever feinsum and loopy raise is a reason
            refused[f"{type(error).__name__}: {(str(error) or 'no message').splitlines()[0][:120]}"] += 1
    return {"texts": list(found.values()), "refused": dict(refused), "outside": dict(outside)}


if __name__ == "__main__":
    cases = json.load(sys.stdin)
    answers = []
    for one in cases:
        answers.append(texts(one))
        print(one["transform"], one["subscripts"], len(answers[-1]["texts"]), answers[-1]["refused"], file=sys.stderr, flush=True)
    json.dump(answers, sys.stdout)
