"""AccelForge's own figures for cases: run by an interpreter that has ``accelforge`` (Python 3.12), as ``benchmarks.accelforge_cases`` says.

Reads a line of JSON for each case from standard input, its name and the text of its files; writes its name and figures, or an error.
"""

import contextlib
import json
import logging
import os
import sys
import tempfile
import warnings

import accelforge

SEPARATOR = "<SEP>"


def figures(text):
    """Key -> figure: totals, actions, energies, latencies and memory in use."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        row = accelforge.Spec.from_yaml(file.name).evaluate_mapping().data.iloc[0]
    keys = (key for key in row.index if key.split(SEPARATOR)[-1] != "mapping" and not key.startswith("reservation"))
    return {key.replace(SEPARATOR, "|"): float(row[key]) for key in keys}


def main():
    """Case by case."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        case = json.loads(line)
        try:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                found = {"figures": figures(case["text"])}
        except Exception as error:  # whatever AccelForge raises is its answer
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({"name": case["name"], **found}), flush=True)


if __name__ == "__main__":
    main()
