"""Hostile names: ``python -m tests.attack.names`` gives each to a tensor, an Einsum, a rank, a rank variable and a memory in turn.

A name is refused by one of our errors, or it survives whatever is done with a workload: it is written and read back, drawn, predicted,
lowered, accepted by the device's compiler, recorded, exported and imported.
"""

from __future__ import annotations

import keyword
import string
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse import archive
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.runtime.loaded_executable import context_of
from feinsum_fuse.formats.language.functions import FUNCTIONS
from feinsum_fuse.formats.writing.drawing import spec_svg
from feinsum_fuse.formats.writing.yaml_text import Tagged, YamlData, yaml_text
from tests.archive.samples import measurement

ROLES = ("T", "E", "M", "m", "Buffer")
"""What is called something else in turn: a tensor, an Einsum, a rank, a rank variable, a memory."""
_OPENCL = """
    NULL _Complex _Imaginary _Bool __kernel kernel vec_step pipe generic uniform linux unix asm typeof half float4 double16
    convert_int4 as_uint image2d_t sampler_t event_t M_PI FLT_MAX HALF_MAX INT_MAX CLK_LOCAL_MEM_FENCE get_global_id barrier printf
    select mix step clamp dot vload4 vstore4 atomic_add work_group_barrier sub_group_reduce_add main memcpy restrict volatile goto
    struct union enum sizeof register __attribute__ __global __local__ _Float16 xi64 I this template class operator new delete try
    catch namespace true false
"""
_LOOPY = """
    sum product argmax reduce gid lid loopy_kernel loopy_dtype if for lid0 gid0 _lp_idx0 i0_outer i0_inner acc acc_0 tv
"""
_YAML = """
    null ~ true yes no on off y n 1 1.5 0x10 0o7 1e5 1_000 1:30:00 .inf -.inf .nan 2001-01-01 <<: = !x &x *x %x @x `x` - -- --- ...
    ? : #x
"""
_OURS = """
    All Inputs Outputs Intermediates Nothing Persistent inf pi global local private cache group None self output input
    rank_variables e0 e0.m t0
"""
_SHELLS = (
    *("$(touch hole)", "`touch hole`", "; touch hole", "| touch hole", "a && b", "> hole", "-rf", "--help", "%n%s"),
    *("${HOME}", "~root", "*", "?"),
)
_MARKS = (
    *("<b>", "</svg>", "<script>alert(1)</script>", "&amp;", "&#0;", "]]>", "<!--", "a\"b", "a'b", "a\\b", "a/*b", "a*/b"),
    *("a//b", "a\\", "a??/", "a\\\nb", "'; DROP TABLE cascade; --", "\" OR 1=1", "{{ 7 * 7 }}", "{% raw %}", "{# x #}", "{0.__class__}"),
    *("%(x)s", "#define A", "??/", "R\"(x)\"", "__class__", "__import__('os')", "().__class__", "lambda: 0", "a.b", "a.b.c"),
    *(".a", "a.", "a[m]", "a(b)", "a = b", "a, b", "a:b", "A*B", "../../hole", "/etc/passwd", "C:\\x", "con", "a\tb", "a b"),
    *(" a", "a ", "a\nb", "a\rb", "a\x00b", "a\x7fb", "a\x1b[31mb", "a\x9b31mb"),
)
_UNICODE = (
    *("é", "e\u0301", "\u00df", "\u0131", "\u01c5", "\u212a", "\uff21", "\u03bc", "\u00b5", "\u4e2d", "\u0627", "\u202eabc"),
    *("\u200b", "a\u200db", "\ufeffa", "\ud800", "\udfff", "\U0001f600", "\U0001d400", "\U000e0041", "\uffff", "\ue000"),
    *("\u2028", "\u0085", "\u00a0", "²", "٣", "Ⅷ", "ª"),
)
_LENGTHS = (
    *("", "a", "a" * 31, "a" * 32, "a" * 63, "a" * 64, "a" * 255, "a" * 256, "a" * 4096, "a" * 100_000, "é" * 100, "_", "__"),
    *("_" * 300,),
)


def names() -> tuple[str, ...]:
    """All of them, each once."""
    words = (*_OPENCL.split(), *_LOOPY.split(), *_YAML.split(), *_OURS.split(), *keyword.kwlist, *sorted(FUNCTIONS))
    return tuple(dict.fromkeys((*words, *_SHELLS, *_MARKS, *_UNICODE, *_LENGTHS, *string.punctuation, *(chr(k) for k in range(32)))))


def workload(role: str, name: str) -> str:
    """A product of matrices with a mapping, in which one thing has the name; ranks begin with a capital letter, their variables do not."""

    cased = {"M": name[:1].upper(), "m": name[:1].lower()}.get(role, name[:1]) + name[1:]

    def n(own: str) -> str:
        return cased if own == role else own

    tensors = {"T": [("M", "m"), ("N", "n")], "A": [("M", "m"), ("K", "k")], "B": [("K", "k"), ("N", "n")]}
    accesses: list[YamlData] = [
        {"name": n(t), "projection": {n(rank): n(variable) for rank, variable in ranks}} | ({"output": True} if t == "T" else {})
        for t, ranks in tensors.items()
    ]
    actions: list[YamlData] = [{"name": action, "energy": 1, "throughput": 8} for action in ("read", "write")]
    about: dict[str, YamlData] = {"size": "inf", "leak_power": 0, "area": 0, "actions": actions}
    memories = [Tagged("Memory", {"name": part, **about}) for part in ("DRAM", n("Buffer"))]
    unit = Tagged("Compute", {"name": "MAC", "leak_power": 0, "area": 0, "actions": [{"name": "compute", "energy": 1, "throughput": 4}]})
    nodes = [
        Tagged("Storage", {"component": "DRAM", "tensors": [n("T"), "A", "B"]}),
        Tagged("Temporal", {"rank_variable": n("m"), "tile_shape": 2}),
        Tagged("Storage", {"component": n("Buffer"), "tensors": ["A"]}),
        *(Tagged("Temporal", {"rank_variable": variable, "tile_shape": 1}) for variable in ("n", "k", n("m"))),
        Tagged("Compute", {"einsum": n("E"), "component": "MAC"}),
    ]
    einsum: YamlData = {"name": n("E"), "tensor_accesses": accesses}
    whole: dict[str, YamlData] = {
        "workload": {"rank_sizes": {n("M"): 4, "N": 6, "K": 3}, "bits_per_value": {"All": 32}, "einsums": [einsum]},
        "arch": {"nodes": [*memories, unit]},
        "mapping": {"nodes": nodes},
        "opencl": {"memories": {"DRAM": "global", n("Buffer"): "private"}},
    }
    return yaml_text(whole)


def survives(text: str, folder: Path) -> bool:
    """Whether a workload is accepted, and then survives everything; ``AssertionError`` and foreign errors if it does not."""
    try:
        spec = ff.loads(text)
    except ff.Error as error:
        assert str(error)
        assert not set(str(error)) & set("\x1b\x9b\x00")
        return False
    assert ff.loads(spec.to_yaml()) == spec
    assert ff.predict(spec).energy > 0
    ElementTree.fromstring(spec_svg(spec))
    cascade = ff.cascade(spec)
    schedule = ff.lower(spec)
    source = executable(schedule.apply(cascade.kernel())).source
    cl.Program(context_of(find_device()), source).compile()
    assert ff.match(cascade.kernel()).cascade.key == cascade.key
    made = measurement(cascade, schedule)
    first, second, file = (folder / name for name in ("first.sqlite3", "second.sqlite3", "facts.jsonl"))
    for old in (first, second):
        old.unlink(missing_ok=True)
    ff.record(made, url=str(first))
    file.write_text("".join(f"{line}\n" for line in archive.export_facts(str(first))))
    archive.import_facts(file, str(second))
    assert [*archive.export_facts(str(second))] == file.read_text().splitlines()
    return True


def attack(chosen: Sequence[str], folder: Path) -> Iterator[tuple[str, str, str]]:
    """Role, name and how it ended (``kept``, ``refused``, or what escaped), for each name in each role."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in chosen:
            for role in ROLES:
                try:
                    yield role, name, "kept" if survives(workload(role, name), folder) else "refused"
                except Exception as error:
                    yield role, name, f"{type(error).__name__}: {error}"[:300]


def main() -> int:
    """Print the counts, and every name that something foreign came of; returns how many these are."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for role, name, ending in attack(names(), Path(folder)):
            known = ending in ("kept", "refused")
            counts[ending if known else "escaped"] += 1
            if not known:
                print(f"{role} called {name!r:.80}: {ending}")
    print(f"{len(names())} names in {len(ROLES)} roles: {dict(counts)}")
    return counts["escaped"]


if __name__ == "__main__":
    sys.exit(main() > 0)
