"""OpenCL C as a person would write it: the same statements, with what is repeated computed once.

loopy substitutes every index into every statement. These rewritings of a kernel's text name what they repeat; they change no value, and
none depends on what an Einsum computes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

Group = tuple[tuple[str, int], ...]
"""(device axis such as ``gid(0)``, factor), sorted: where a group's part of a rank variable starts."""

_TERM = r"(?:\d+ \* )?[gl]id\(\d\)"
_SUM = re.compile(rf"(?<![\w)] \* )(?<!- )(?<![\w.-]){_TERM}(?: \+ {_TERM})+(?! [*/%])")
_INTEGER = re.compile(r"-?\d+")
_ASSIGNMENT = re.compile(r"^( *)(\w+\[\w+\]|\w+) (\+?=) (.*);$")
_VECTOR_LOAD = re.compile(r"\bvload(?:upto)?_(?:global|local)_(\w+?)\(")
_DECLARATION = re.compile(r"__(?:global|local) (\w+)(?: const)?(?: \*__restrict__)? (\w+)")


def legible(kernel: str, names: Mapping[str, str], starts: Mapping[Group, str]) -> str:
    """One kernel's text, rewritten.

    ``names``: loops that may share a name with loops of other nests. ``starts``: a name for each sum of group numbers that is one.
    """
    if names:
        kernel = re.sub(rf"\b(?:{'|'.join(map(re.escape, names))})\b", lambda found: names[found[0]], kernel)
    lines = [_store(line) for line in kernel.splitlines()]
    kernel = _with_starts("\n".join(lines) + "\n", starts)
    lines = [_updated(_counted(_constants_last(_compared(line)))) for line in kernel.splitlines()]
    return "\n".join(_with_operands(lines)) + "\n"


def _store(line: str) -> str:
    """``A[i] = vstore(A[i], v);`` -> ``vstore(A[i], v);``: the call stores, and has the value of the element that it has stored."""
    found = re.match(r"^( *)(.+?) = (vstore\w+\((.+))$", line)
    return f"{found[1]}{found[3]}" if found and found[4].startswith(f"{found[2]}, ") else line


def _compared(line: str) -> str:
    """``-3 + i == 0`` -> ``i == 3``, ``x + -1 * y`` -> ``x - y``, and what unrolling leaves: ``-8 * 2 - i`` -> ``-16 - i``."""
    line = re.sub(r"(?<=[(,] )(-?\d+) \* (\d+)(?= [-+] )", lambda m: str(int(m[1]) * int(m[2])), line)
    line = re.sub(r"(?<=[(,] )0 (?:\+ |(-) )", r"\1", line)
    line = re.sub(r"(?<=\()-(\d+) \+ (\w+) == 0", r"\2 == \1", line)
    line = line.replace("-1 * INFINITY", "-INFINITY")
    return re.sub(r" \+ -(\d+(?:\.\d+f?)?) \* ", lambda m: " - " if m[1] in {"1", "1.0f", "1.0"} else f" - {m[1]} * ", line)


def _updated(line: str) -> str:
    """``x = x + a * b;`` -> ``x += a * b;`` where what is added is no sum."""
    found = _ASSIGNMENT.match(line)
    if not found or not found[4].startswith(f"{found[2]} + "):
        return line
    added = found[4].removeprefix(f"{found[2]} + ")
    return line if {"+", "-", "?"} & set(_words(added)) else f"{found[1]}{found[2]} += {added};"


def _constants_last(line: str) -> str:
    """``A[8 + 9 * (i + 1) + k]`` -> ``A[9 * i + k + 17]`` in every index.

    A compiler that multiplies a sum out forgets that it cannot overflow, and then extends every index to 64 bits by itself.
    """
    result, position = "", 0
    for found in re.finditer(r"\w\[", line):
        if found.end() > position:
            end = _closing(line, found.end() - 1)
            result += line[position : found.end()] + _sum_of(line[found.end() : end - 1]) + "]"
            position = end
    return result + line[position:]


def _counted(line: str) -> str:
    """``vloadupto(A[i], -8 * 1 - 16 * i + 20)`` -> ``vloadupto(A[i], 12 - 16 * i)``; the first argument of ``vindex`` likewise."""
    for found in reversed(list(re.finditer(r"\bv(?:load|store)upto_\w+\(", line))):
        end = _closing(line, found.end() - 1) - 1
        start = line.rfind(", ", found.end(), end) + 2
        line = line[:start] + _sum_of(line[start:end]) + line[end:]
    return re.sub(r"\b(vindex\w+\()([^,]+)", lambda m: m[1] + _sum_of(m[2]), line)


def _sum_of(index: str) -> str:
    """An index that is a sum, with what is constant in it at its end; any other as it is."""
    words = list(_words(index))
    # Half of a call is no sum.
    if set(words[1::2]) - set("+-*") or any(re.search(r"[\[?]", word) for word in words) or index.count("(") != index.count(")"):
        return index
    terms: list[list[str]] = [["+"]]
    for word in words:
        if word in {"+", "-"}:
            terms.append([word])
        else:
            terms[-1].append(word)
    constant, rest = 0, []
    for sign, *factors in terms:
        offset = 0
        if len(factors) == 1 and _INTEGER.fullmatch(factors[0]):
            offset, factors = int(factors[0]), []
        elif len(factors) == 3 and _INTEGER.fullmatch(factors[0]) and _INTEGER.fullmatch(factors[2]):
            offset, factors = int(factors[0]) * int(factors[2]), []
        elif len(factors) == 3 and factors[0].isdigit() and (inner := re.fullmatch(r"\((.+) ([+-]) (\d+)\)", factors[2])):
            offset = int(factors[0]) * int(inner[2] + inner[3])
            factors[2] = f"({inner[1]})" if " " in inner[1] else inner[1]
        constant += offset if sign == "+" else -offset
        if factors and factors[0].startswith("-") and sign == "+":
            sign, factors[0] = "-", factors[0][1:]
        rest += [sign, " ".join(factors)] if factors else []
    if not rest:
        return index
    if rest[0] == "-":
        return f"{constant} {' '.join(rest)}" if constant else f"-{' '.join(rest[1:])}"
    return " ".join(rest[1:]) + (f" {'-' if constant < 0 else '+'} {abs(constant)}" if constant else "")


def _words(text: str) -> Iterator[str]:
    """The words of an expression that stand outside all brackets."""
    depth = 0
    word = ""
    for character in text + " ":
        depth += (character in "([") - (character in ")]")
        if character == " " and depth == 0:
            yield word
            word = ""
        else:
            word += character


def _with_starts(kernel: str, starts: Mapping[Group, str]) -> str:
    """Where a group's part of a rank variable starts, computed once."""
    found: dict[str, str] = {}
    counts = Counter(match[0] for match in _SUM.finditer(kernel))
    for text, count in counts.items():
        terms = [term.rpartition(" * ") for term in text.split(" + ")]
        group = tuple(sorted((axis, int(factor or 1)) for factor, _, axis in terms))
        name = starts.get(group)
        if name is not None and count > 1 and name not in found.values() and not re.search(rf"\b{name}\b", kernel):
            found[text] = name
    if not found:
        return kernel
    kernel = _SUM.sub(lambda match: found.get(match[0], match[0]), kernel)
    head, opening, rest = kernel.partition("\n{\n")
    return head + opening + "".join(f"  int const {name} = {text};\n" for text, name in found.items()) + rest


def _with_operands(lines: Sequence[str]) -> Iterator[str]:
    """Statements that stand one after another, with the operands that several of them read loaded once."""
    types = {name: dtype for line in lines for dtype, name in _DECLARATION.findall(line)}
    taken = set(re.findall(r"\b[A-Za-z_]\w*", "\n".join(lines)))
    run: list[re.Match[str]] = []
    for line in lines:
        found = _ASSIGNMENT.match(line)
        if found and found[2].split("[")[0] not in types and (not run or found[1] == run[0][1]):
            run.append(found)
            continue
        yield from _loaded(run, types, taken)
        run = [found] if found and found[2].split("[")[0] not in types else []
        if not run:
            yield line
    yield from _loaded(run, types, taken)


def _loaded(run: Sequence[re.Match[str]], types: Mapping[str, str], taken: set[str]) -> Iterator[str]:
    """A run of assignments to private variables, which write nothing that these loads read."""
    written = {match[2].split("[")[0] for match in run}
    # What stands behind a condition may not be there.
    unconditional = [match[4] for match in run if "?" not in match[4]]
    counts = Counter(text for value in unconditional for text in dict.fromkeys(_operands(value, types)))
    counts = Counter({text: count for text, count in counts.items() if not written & set(re.findall(r"\w+", text))})
    names: dict[str, str] = {}
    for text, count in counts.items():
        if count > 1:
            vector = _VECTOR_LOAD.match(text)
            source = text[vector.end() :].split("[")[0] if vector else text.split("[")[0]
            number = 0
            while f"{source}_{number}" in taken:
                number += 1
            names[text] = f"{source}_{number}"
            taken.add(names[text])
            yield f"{run[0][1]}{vector[1] if vector else types[source]} const {names[text]} = {text};"
    for match in run:
        value = match[4]
        for text, name in names.items():
            value = value.replace(text, name)
        yield f"{match[1]}{match[2]} {match[3]} {value};"


def _operands(value: str, types: Mapping[str, str]) -> Iterator[str]:
    """The vector loads, and the elements of arrays that are not private, which an expression reads."""
    position = 0
    while found := re.compile(r"\b(?:vload(?:upto)?_(?:global|local)_\w+?\(|(\w+)\[)").search(value, position):
        end = _closing(value, found.end() - 1)
        if found[1] is None or found[1] in types:
            yield value[found.start() : end]
            position = end
        else:
            position = found.end()


def _closing(text: str, opening: int) -> int:
    """The place behind the bracket that closes the one here."""
    depth = 0
    for position in range(opening, len(text)):
        depth += (text[position] in "([") - (text[position] in ")]")
        if depth == 0:
            return position + 1
    return len(text)
