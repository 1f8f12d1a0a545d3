"""AccelForge's own figures, for ``accelforge_cases`` and ``accelforge_files``; its interpreter has ``accelforge`` (Python 3.12).

Reads a line of JSON for each case from standard input: its name, and the text of its file, or the names of its files below the folder that
is the argument, with their template variables. Writes its name and figures, or an error, and whether files were loaded; a workload alone
of few Einsums counts as loaded if its expressions have a value.
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
FEW = 40
"""Einsums; the expressions of larger workloads take minutes."""


def loaded(case, folder):
    """The spec of a case; of top keys, all that there are."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(case.get("text", ""))
        file.flush()
        files = [os.path.join(folder, name) for name in case.get("files", ())] + ([file.name] if case.get("text") else [])
        variables = case.get("variables") or {}
        if case.get("top_keys"):
            kinds = {"arch": accelforge.Arch, "variables": accelforge.Variables, "workload": accelforge.Workload}
            parts = {key: kinds[key].from_yaml(*files, jinja_parse_data=variables, top_key=key) for key in case["top_keys"]}
            return accelforge.Spec(**parts)
        return accelforge.Spec.from_yaml(*files, jinja_parse_data=variables)


def figures(spec):
    """Key -> figure: totals, actions, energies, latencies and memory in use."""
    row = spec.evaluate_mapping().data.iloc[0]
    keys = (key for key in row.index if key.split(SEPARATOR)[-1] != "mapping" and not key.startswith("reservation"))
    return {key.replace(SEPARATOR, "|"): float(f"{row[key]:.7g}") for key in keys}


def main():
    """Case by case."""
    folder = sys.argv[1] if len(sys.argv) > 1 else ""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        case = json.loads(line)
        found = {}
        try:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                spec = loaded(case, folder)
                if "files" in case and not case["top_keys"] and not spec.arch.nodes and 0 < len(spec.workload.einsums) <= FEW:
                    spec._spec_eval_expressions()
                found |= {"loaded": True} if "files" in case else {}
                found |= {"figures": figures(spec)} if case.get("evaluate", True) else {}
        except Exception as error:  # whatever AccelForge raises is its answer
            found["error"] = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps({"name": case["name"], **found}), flush=True)


if __name__ == "__main__":
    main()
