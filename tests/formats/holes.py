"""Files that would run code or exhaust the machine if they were read naively; each must be refused quickly and cheaply.

Run as a script, it reads every one of them and prints name, processor seconds, mebibytes added to the peak, and what became of it.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings

WORKLOAD = "workload: {rank_sizes: {M: 4, K: 4}, bits_per_value: {All: 8}, einsums: ['Z[m] = A[m, k]']}\n"
MEMORY = "arch: {nodes: [!Memory {name: D, component_class: Dummy, size: SIZE}, !Compute {name: C, component_class: Dummy}]}\n"


def _size(expression: str) -> str:
    return WORKLOAD + MEMORY.replace("SIZE", json.dumps(expression))


def _einsum(text: str) -> str:
    return f"workload: {{rank_sizes: {{M: 4}}, bits_per_value: {{All: 8}}, einsums: [{json.dumps(text)}]}}\n"


def _constraint(*texts: str) -> str:
    shown = json.dumps(list(texts))
    return (
        "workload: {rank_sizes: {M: 4, K: 4}, bits_per_value: {All: 8}, "
        f"einsums: [{{einsum: 'Z[m] = A[m, k]', iteration_space_shape: {shown}}}]}}\n"
    )


def _assignment(width: int) -> str:
    names = [f"x{i}_{j}" for i in range(width) for j in range(width)]
    rows = [f"0 <= {name} <= 1" for name in names]
    rows += [" + ".join(f"x{i}_{j}" for j in range(width)) + " = 1" for i in range(width)]
    rows += [" + ".join(f"{1 + (i * j) % 5}*x{i}_{j}" for i in range(width)) + " <= 7" for j in range(width)]
    text = f"Z[{', '.join(names)}] = A[{', '.join(names)}]"
    einsum = json.dumps({"einsum": text, "iteration_space_shape": rows})
    return f"workload: {{bits_per_value: {{All: 8}}, einsums: [{einsum}]}}\n"


def _assignments(count: int, width: int) -> str:
    einsums = []
    for number in range(count):
        one = _assignment(width)
        einsum = json.loads(one[one.index("[") + 1 : -3])
        einsums.append({"einsum": einsum["einsum"].replace("Z[", f"Z{number}["), "iteration_space_shape": einsum["iteration_space_shape"]})
    return f"workload: {{bits_per_value: {{All: 8}}, einsums: {json.dumps(einsums)}}}\n"


def _bomb(levels: int, width: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n" + WORKLOAD


HOLES: dict[str, str] = {
    "template globals": "{% set x = cwd.__globals__['os'].system('touch hole') %}" + WORKLOAD,
    "template globals by attr": "{{ cwd|attr('__globals__') }}" + WORKLOAD,
    "template class walk": "{{ ().__class__.__mro__[1].__subclasses__() }}" + WORKLOAD,
    "template class walk by item": "{{ ''['__class__']['__mro__'] }}" + WORKLOAD,
    "template string format": "{{ '{0.__class__.__init__.__globals__}'.format(cwd) }}" + WORKLOAD,
    "template string format_map": "{{ '{a.__class__}'.format_map({'a': 1}) }}" + WORKLOAD,
    "template self": "{{ self.__init__.__globals__ }}" + WORKLOAD,
    "template cycler": "{{ cycler.__init__.__globals__.os.popen('id').read() }}" + WORKLOAD,
    "template lipsum": "{{ lipsum(n=1000000) }}" + WORKLOAD,
    "setenv": "{{ setenv('PATH', '/hole') }}" + WORKLOAD,
    "repeated text": "{{ 'a' * 10**8 }}" + WORKLOAD,
    "repeated list": "{{ [1] * 10**9 }}" + WORKLOAD,
    "wide format": "{{ '%0100000000d' % 1 }}" + WORKLOAD,
    "wide format by filter": "{{ '%0100000000d' | format(1) }}" + WORKLOAD,
    "wide format by star": "{{ '%0*d' % (100000000, 1) }}" + WORKLOAD,
    "precise format": "{{ '%.100000000f' % 1 }}" + WORKLOAD,
    "centred text": "{{ 'a' | center(100000000) }}" + WORKLOAD,
    "just text": "{{ 'a'.ljust(1000000000) }}" + WORKLOAD,
    "power": "{{ 9**(9**9) }}" + WORKLOAD,
    "product tower": "{% set ns = namespace(x=3) %}{% for i in range(100) %}{% set ns.x = ns.x * ns.x %}{% endfor %}{{ ns.x }}" + WORKLOAD,
    "doubling text": "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}" + WORKLOAD,
    "doubling sum": "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}" + WORKLOAD,
    "doubling list": (
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}"
        + WORKLOAD
    ),
    "doubling replace": (
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x|replace('a', ns.x) %}{% endfor %}"
        + WORKLOAD
    ),
    "doubling join": (
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x]|join(ns.x) %}{% endfor %}"
        + WORKLOAD
    ),
    "list in itself": "{% set x = [] %}{% do x.append(x) %}{{ x }}" + WORKLOAD,
    "nested ranges": (
        "{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}{% endfor %}{% endfor %}{% endfor %}"
        + WORKLOAD
    ),
    "walks in a loop": "{% set x = range(20000) %}{% for i in range(20000) %}{{ x | length }}{% endfor %}" + WORKLOAD,
    "loops that stop": "{% set x = range(20000) %}{% for i in x %}{% for j in x %}{% break %}{% endfor %}{% endfor %}" + WORKLOAD,
    "long text in a loop": "{% set x = 'ab' * 20000 %}{% for i in range(20000) %}{{ x | first }}{{ 'b' in x }}{% endfor %}" + WORKLOAD,
    "unique values": "{{ range(20000) | unique }}" + WORKLOAD,
    "huge range": "{% for a in range(10**12) %}{% endfor %}" + WORKLOAD,
    "long output": "{% for a in range(20000) %}" + "x" * 1000 + "\n{% endfor %}" + WORKLOAD,
    "endless macro": "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}" + WORKLOAD,
    "branching macro": "{% macro f(x) %}{% if x %}{{ f(x - 1) }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(39) }}" + WORKLOAD,
    "captured output": "{% set x %}{% for a in range(20000) %}" + "x" * 1000 + "{% endfor %}{% endset %}" + WORKLOAD,
    "deep template": "{{ " + "(" * 20000 + "1" + ")" * 20000 + " }}" + WORKLOAD,
    "deep template lists": "{{ " + "[" * 20000 + "]" * 20000 + " }}" + WORKLOAD,
    "deep conditions": "{% if 1 %}" * 5000 + "{% endif %}" * 5000 + WORKLOAD,
    "centred by a named width": "{{ 'a' | center(width=300000000) }}" + WORKLOAD,
    "centred block": "{% filter center(300000000) %}a{% endfilter %}" + WORKLOAD,
    "centred text set": "{% set x | center(300000000) %}a{% endset %}" + WORKLOAD,
    "format method": "{{ '{:300000000}'.format(1) }}" + WORKLOAD,
    "format method by item": "{{ 'a'['format'](1) }}" + WORKLOAD,
    "wide format without zero": "{{ '%300000000d' % 1 }}" + WORKLOAD,
    "wide format by name": "{{ '%(a)300000000d' % {'a': 1} }}" + WORKLOAD,
    "wide format by a test": "{{ '%0300000000d' is divisibleby 3 }}" + WORKLOAD,
    "wide format by an even test": "{{ '%0300000000d' is even }}" + WORKLOAD,
    "wide format by a test's name": "{{ ['%0300000000d'] | select('even') | list }}" + WORKLOAD,
    "formatted often": "{{ ('%s' * 2000) | format(*['a' * 20000] * 2000) }}{{ ('%(a)s' * 2000) | format(a='b' * 20000) }}" + WORKLOAD,
    "replaced everywhere": "{{ ('a' * 20000) | replace('a', 'b' * 20000) }}" + WORKLOAD,
    "replaced nothing": "{{ ('a' * 20000) | replace('', 'b' * 20000) }}" + WORKLOAD,
    "replaced by method": "{{ ('a' * 20000).replace('a', 'b' * 20000) }}" + WORKLOAD,
    "joined by method": "{{ ('a' * 20000).join('b' * 20000) }}" + WORKLOAD,
    "wide indent": "{{ 'a\nb' | indent(300000000) }}" + WORKLOAD,
    "indent of text": "{{ ('\n' * 20000) | indent('b' * 20000) }}" + WORKLOAD,
    "wrapped words": "{{ ('a ' * 10000) | wordwrap(1, True, 'b' * 20000) }}" + WORKLOAD,
    "wide batch": "{{ [1] | batch(300000000, 0) | list }}" + WORKLOAD,
    "many slices": "{{ [1] | slice(300000000) | list }}" + WORKLOAD,
    "precise round": "{{ 2.5 | round(300000000, 'ceil') }}" + WORKLOAD,
    "precise round by name": "{{ [2.5] | map('round', 300000000, 'ceil') | list }}" + WORKLOAD,
    "sum of lists": "{{ [[1], [2]] | sum(start=[]) }}" + WORKLOAD,
    "counting by name": "{{ [-1000000] | map('counted steps') | list }}" + WORKLOAD,
    "namespaces in print": "{% set ns = namespace(x='a' * 20000) %}{{ [ns] * 20000 }}" + WORKLOAD,
    "namespaces in text": "{% set ns = namespace(x='a' * 20000) %}{{ ns ~ ns }}" + WORKLOAD,
    "namespace in itself": "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns.x | string }}" + WORKLOAD,
    "namespace's class": "{{ namespace().__class__.__mro__ }}" + WORKLOAD,
    "lists kept": "".join(f"{{% set a{n} = range(20000) %}}" for n in range(1000)) + WORKLOAD,
    "lists appended": "{% set l = [] %}{% for i in range(20000) %}{% do l.append(range(1000)) %}{% endfor %}" + WORKLOAD,
    "long condition in a loop": "{% for i in range(20000) %}{% if " + " and ".join(["i"] * 150) + " %}{% endif %}{% endfor %}" + WORKLOAD,
    "long condition of a loop": "{% for i in range(20000) if " + " and ".join(["i"] * 150) + " %}{% endfor %}" + WORKLOAD,
    "long list in a loop": "{% for i in range(20000) %}{% set x = [" + ", ".join(["i"] * 15000) + "] %}{% endfor %}" + WORKLOAD,
    "loops that choose nothing": "{% for i in range(20000) %}{% for j in range(20000) if false %}{% endfor %}{% endfor %}" + WORKLOAD,
    "deep loops": "{% for i in [1] %}" * 60 + "{% endfor %}" * 60 + WORKLOAD,
    "deep sum": "{{ " + "1 + " * 1000 + "1 }}" + WORKLOAD,
    "deep filters": "{{ 'a'" + " | upper" * 1000 + "}}" + WORKLOAD,
    "macro growth": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% else %}" + "x" * 1000 + "{% endif %}{% endmacro %}{{ f(20) }}" + WORKLOAD
    ),
    "macro of a namespace": (
        "{% set ns = namespace() %}{% macro f() %}{{ ns.f() }}{% endmacro %}{% set ns.f = f %}{{ f() }}" + WORKLOAD
    ),
    "macro's globals": "{% macro f() %}{% endmacro %}{{ f._func.__globals__ }}" + WORKLOAD,
    "context of a helper": "{% macro include(x) %}{{ x.__class__ }}{% endmacro %}{{ include('a') }}" + WORKLOAD,
    "loop's class": "{% for i in [1] %}{{ loop._undefined.__init__ }}{% endfor %}" + WORKLOAD,
    "undefined class": "{{ missing.__class__ }}" + WORKLOAD,
    "block in itself": "{% block a %}{{ self.a() }}{% endblock %}" + WORKLOAD,
    "keyword of the compiler": "{% for i in [1] %}{{ dict(_loop_vars=1) }}{% endfor %}" + WORKLOAD,
    "slices in a loop": "{% set x = range(20000) %}{% for i in x %}{% set y = x[1:] %}{% endfor %}" + WORKLOAD,
    "equal texts in a loop": "{% set x = 'a' * 20000 %}{% for i in range(20000) %}{{ x == x ~ '' }}{% endfor %}" + WORKLOAD,
    "python object": "workload: !!python/object/apply:os.system ['touch hole']\n",
    "python name": "workload: !!python/name:os.system\n",
    "python tag": "workload: !python/object:os.system {}\n",
    "unknown tag": "workload: !Exec 'touch hole'\n",
    "alias bomb": _bomb(9, 9),
    "wide alias bomb": _bomb(4, 1000),
    "alias in itself": "workload: &w {einsums: [*w]}\n",
    "deep brackets": "workload: " + "[" * 20000 + "]" * 20000 + "\n",
    "deep braces": "workload: " + "{a: " * 20000 + "1" + "}" * 20000 + "\n",
    "deep dashes": "workload: \n" + "- " * 20000 + "x\n",
    "deep indentation": "".join(" " * n + "a:\n" for n in range(700)),
    "code in config": WORKLOAD + "config: {expression_custom_functions: [hole.py]}\n",
    "component models": WORKLOAD + "config: {component_models: [hole.py]}\n",
    "component model of a node": _size("1").replace("size:", "component_model: hole.py, size:"),
    "quotes and brackets": "a: |\n  'x\nb: " + "[" * 20000 + "]" * 20000 + "\n",
    "many quotes": 'a: "' + '\\"' * 100000 + "\n",
    "many apostrophes": "a: " + "'" * 200001 + "\n",
    "many braces": "{{" * 50000 + WORKLOAD,
    "many percents": "{%" * 50000 + WORKLOAD,
    "many spaces": "{% set x = 1 -%}" + " " * 200000 + "{{ x }}" + WORKLOAD,
    "many dashes": "-" * 200000 + "\n",
    "many anchors": "".join(f"a{n}: &b{n} [*b{n - 1}, *b{n - 1}]\n" if n else "a0: &b0 [1]\n" for n in range(2000)),
    "absolute include": "{{ include('/etc/passwd') }}\n" + WORKLOAD,
    "absolute include tag": "workload: !include /etc/passwd\n",
    "include above": "workload: !include ../../../../../../etc/passwd\n",
    "included text": "{{ include_text('/etc/passwd') }}\n" + WORKLOAD,
    "included glob": "{{ include_all('/etc/*') }}\n" + WORKLOAD,
    "found paths": "{{ find_paths('/etc/*') }}\n" + WORKLOAD,
    "folder above": "{{ add_to_path('/etc') }}{{ include_text('passwd') }}\n" + WORKLOAD,
    "statement include": "{% include '/etc/passwd' %}\n" + WORKLOAD,
    "class walk": _size("().__class__.__mro__[1].__subclasses__().__len__() + 131072"),
    "import": _size("__import__('os').system('touch hole')"),
    "lambda": _size("(lambda: 1)()"),
    "generator frame": _size("(x for x in [1]).gi_frame"),
    "expression power": _size("9**9**9"),
    "expression shift": _size("1 << 10**10"),
    "expression round": _size("round(8, -10000000)"),
    "expression round of an integer by an integer": _size("round(2**4000, -(2**4000))"),
    "expression repetition": _size("len('a' * 10**9)"),
    "expression format": _size("'%01000000000d' % 1"),
    "expression range": _size("sum(range(10**10))"),
    "expression loops": _size("sum(1 for a in range(9999) for b in range(9999) for c in range(9999))"),
    "expression nested lists": _size("len([[range(20000) for a in range(20000)] for b in range(20000)])"),
    "expression mapped lists": _size("len(map(range, range(20000)))"),
    "expression walks": _size("[[max(x) for a in range(9999)] for x in [range(20000)]]"),
    "expression text of lists": _size("[str([x for a in range(9999)]) for x in [range(20000)]]"),
    "expression shown": _size("[[x for a in range(9999)] for x in [range(9999)]]"),
    "expression equal lists": _size("[max([x, y]) for x in [range(9999)] for y in [range(9999)] for a in range(9999)]"),
    "expression sums of lists": _size("[len(x + x) for x in [range(9999)] for a in range(9999)]"),
    "set shown": WORKLOAD.replace("All: 8", "'[[x for a in range(9999)] for x in [range(9999)]]': 8"),
    "expression factorial": _size("factorial(10**7)"),
    "expression brackets": _size("(" * 20000 + "1" + ")" * 20000),
    "expression signs": _size("-" * 20000 + "1"),
    "expression comparisons": _size("1" + " < 2" * 5000),
    "many expressions": "variables:\n" + "".join(f"  a{n}: sum([1 for x in range(9000)])\n" for n in range(200)) + WORKLOAD,
    "set expression": WORKLOAD.replace("All: 8", "'All.__class__': 8"),
    "set expression import": WORKLOAD.replace("All: 8", '\'__import__("os").getpid() or All\': 8'),
    "projection": (
        "workload: {bits_per_value: {All: 8}, "
        "einsums: [{name: Z, tensor_accesses: [{name: A, projection: {M: '__import__(\"os\")'}}]}]}\n"
    ),
    "projection power": (
        "workload: {bits_per_value: {All: 8}, "
        "einsums: [{name: Z, tensor_accesses: [{name: A, projection: {M: 9**9**9*m}}]}]}\n"
    ),
    "long einsum": _einsum("Z[m] = " + "a" * 200_000),
    "long einsum of spaces": _einsum("Z[m] = A" + " " * 200_000 + "[m]"),
    "long words": _einsum("a " * 100_000 + "= A[m]"),
    "long expression": _size("a" * 200_000),
    "long sum": _size("1 +" * 60_000 + "1"),
    "long set expression": WORKLOAD.replace("All: 8", "'" + "All | " * 30_000 + "All': 8"),
    "long constraint": _constraint("0 <= " + "m" * 200_000),
    "long spaces in a constraint": _constraint("0 <= m" + " " * 200_000 + "< 4 x"),
    "long template word": "{{ " + "a" * 200_000 + " }}" + WORKLOAD,
    "long template sum": "{{ " + "1 + " * 50_000 + "1 }}" + WORKLOAD,
    "many tags": "{{ 1 }}" * 40_000 + WORKLOAD,
    "many statements": "{% if 1 %}{% endif %}" * 10_000 + WORKLOAD,
    "long template text": "{{ '" + "a" * 100_000 + "' * 2 }}" + WORKLOAD,
    "long plain text": "a: " + "b " * 100_000 + "\n" + WORKLOAD,
    "long key text": "a" * 200_000 + ": 1\n" + WORKLOAD,
    "long number": WORKLOAD.replace("M: 4", "M: " + "9" * 200_000),
    "long float": WORKLOAD.replace("M: 4", "M: 1e" + "9" * 100_000),
    "long tag": "!" + "a" * 200_000 + " {}\n",
    "long anchor": "a: &" + "b" * 200_000 + " 1\n" + WORKLOAD,
    "many question marks": "? " * 20_000 + "\n",
    "many ampersands": "&a " * 50_000 + "\n",
    "many colons": "a" + ": a" * 14_000 + "\n",
    "einsum attribute": _einsum("Z[m] = A[m].__class__"),
    "einsum call": _einsum("Z[m] = __import__('os').system('touch hole') * A[m]"),
    "einsum brackets": _einsum("Z[m] = " + "(" * 20000 + "A[m]" + ")" * 20000),
    "einsum number": _einsum("Z[m] = A[m] * " + "9" * 3000),
    "constraint brackets": _constraint("(" * 20000 + "0 <= m < 4" + ")" * 20000),
    "constraint injection": _constraint("0 <= m }; { [q] : q = 1"),
    "constraint alternatives": _constraint(*["(m = 1 or m = 2) and (k = 1 or k = 3)"] * 12),
    "constraint search": _assignment(9),
    "constraint searches": _assignments(40, 6),
    "constraint number": _constraint("0 <= m < 4 and " + "9" * 500 + " * m < 4"),
    "constraint length": _constraint("0 <= m < 4" + " and 0 <= m" * 5000),
    "large file": "# " + "x" * 3_000_000 + "\n" + WORKLOAD,
    "many values": WORKLOAD + "variables: {" + ", ".join(f"v{n}: {n}" for n in range(100_000)) + "}\n",
    "many lines": WORKLOAD + "variables:\n" + "".join(f"  v{n}: {n}\n" for n in range(80_000)),
    "long key": WORKLOAD + "? " + "[" * 500 + "\n",
    "wide list": "workload: [" + "a, " * 80_000 + "]\n",
}


def main() -> None:
    """Read every hole, and print one JSON line for each."""
    import feinsum_fuse as ff

    warnings.simplefilter("ignore")
    ff.loads(WORKLOAD)
    for name, text in HOLES.items():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        try:
            ff.loads(text, base=".")
            outcome = "accepted"
        except ff.Error as error:
            outcome = f"{type(error).__name__}: {error}"
        except BaseException as error:
            outcome = f"escaped {type(error).__name__}: {error}"
        seconds = time.process_time() - start
        added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        sys.stdout.write(json.dumps([name, seconds, added, outcome[:300]]) + "\n")


if __name__ == "__main__":
    main()
