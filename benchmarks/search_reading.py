"""What ``Result.save`` writes, read and evaluated by AccelForge: the model's energy must be what AccelForge says of the same file.

``python -m benchmarks.search_reading --accelforge PYTHON [CASE...]`` searches the cases of ``benchmarks/search_cases.py`` and saves each
result; ``PYTHON`` is an interpreter of an environment with AccelForge. It ends with 1 where a file is not read, or means something else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.mapper import Result

from .search import RUNNER
from .search_cases import CASES

CLOSE = 1e-6
"""AccelForge adds up in single precision."""
EVALUATE = """
import json, sys, accelforge
for file in sys.argv[1:]:
    try:
        energy = accelforge.Spec.from_yaml(file).evaluate_mapping().energy()
        print(json.dumps(float(energy)))
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"[:200]))
"""


def main() -> None:
    """Search, save, let AccelForge evaluate, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of cases; all without")
    parser.add_argument("--accelforge", metavar="PYTHON", required=True, help="the interpreter of an environment with AccelForge")
    given = parser.parse_intermixed_args()
    about = json.loads(subprocess.run([given.accelforge, str(RUNNER)], input="null", capture_output=True, text=True, check=True).stdout)
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = [case for case in CASES if not given.names or any(name in case.name for name in given.names)]
        saved: list[tuple[str, Path, Result]] = []
        for number, case in enumerate(cases):
            files = case.files(Path(about["examples"]), folder)
            spec = ff.load(*files, variables=case.variables, include_dirs=[about["examples"]])
            result = ff.search(spec, case.objective, fused=case.fused)  # type: ignore[arg-type]
            saved.append((case.name, folder / f"result{number}.yaml", result))
            result.save(saved[-1][1])
            bad += Result.load(saved[-1][1]) != result
        command = [given.accelforge, "-c", EVALUATE, *(str(file) for _, file, _ in saved)]
        answers = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True).stdout.splitlines()
        lines = [line for line in answers if line[:1] in '"-0123456789']
        for (case_name, _, result), line in zip(saved, lines, strict=True):
            said = json.loads(line)
            agrees = isinstance(said, float) and abs(said - result.front[0].energy) <= CLOSE * abs(said)
            bad += not agrees
            print(f"{case_name:<52} {result.front[0].energy:>16.9g} {said!s:>16} {'' if agrees else 'DIFFERS'}", flush=True)
    print(f"{len(saved)} results saved, read and evaluated; {bad} differ")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
