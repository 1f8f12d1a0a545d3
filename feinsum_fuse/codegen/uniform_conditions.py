"""Conditions on which all work-items of a group agree, where PoCL must not see that they do.

In kernels with barriers PoCL 3.0 puts barriers of its own around and into innermost loops that all work-items run alike. Where such a loop
stands under a condition, in the text or because the compiler takes a condition that does not change out of it, the first work-item runs
what follows the loop twice, or finds the condition false. Loops under conditions that may differ from work-item to work-item are left
alone; so the condition is joined to one that is true of all of them, which costs nothing once the work-items are iterations of a loop: by
``&``, for ``&&`` would be a branch on what all agree on, followed by another.
"""

from __future__ import annotations

import re
from functools import partial
from math import prod

NAME = "agreed"
DEFINITION = f"""
/* All work-items agree on the condition. PoCL 3.0 miscompiles loops under or around such conditions, unless it does not know. */
#define {NAME}(condition) (((condition) != 0) & (get_local_id(0) < get_local_size(0)))
"""
_GROUP = re.compile(r"reqd_work_group_size\((\d+), (\d+), (\d+)\)")
_IF = re.compile(r"(?m)^( *(?:else )?)if \((.+)\)$")
_ITEMS = re.compile(r"\b(?:lid\(|get_local_id\()")
_NAMED = re.compile(r"^ *(?:bool|int) const (\w+) = (.+);$")
_CLOSING = {")": 1, "]": 1, "(": -1, "[": -1}


def hidden_agreement(source: str) -> str:
    """OpenCL C in which PoCL does not know of any condition that all work-items agree on it."""
    head, *kernels = re.split(r"(?m)^(?=__kernel)", source)
    texts = [_hidden(kernel) if _has_barriers(kernel) else kernel for kernel in kernels]
    if texts == kernels:
        return source
    return f"{DEFINITION.lstrip()}{head}{''.join(texts)}"


def _has_barriers(kernel: str) -> bool:
    """Whether several work-items wait for one another in this kernel."""
    size = _GROUP.search(kernel)
    return "barrier(" in kernel and (size is None or prod(map(int, size.groups())) > 1)


def _hidden(kernel: str) -> str:
    result: list[str] = []
    items = _ITEMS
    for line in kernel.splitlines(keepends=True):
        line = _IF.sub(partial(_with_condition, items), line)
        position = line.rfind(" ? ")
        while position >= 0:
            start = _start(line, position)
            line = line[:start] + _agreed(line[start:position], items) + line[position:]
            position = line.rfind(" ? ", 0, start)
        if (named := _NAMED.match(line)) and items.search(named[2]):
            items = re.compile(rf"{items.pattern}|\b{named[1]}\b")
        result.append(line)
    return "".join(result)


def _with_condition(items: re.Pattern[str], found: re.Match[str]) -> str:
    return f"{found[1]}if ({_agreed(found[2], items)})"


def _agreed(condition: str, items: re.Pattern[str]) -> str:
    """The condition with each part that says nothing of work-items, nor names what does, marked."""
    return " && ".join(part if items.search(part) else f"{NAME}({part})" for part in _parts(condition))


def _parts(condition: str) -> list[str]:
    """What ``&&`` joins, outside of parentheses; the condition itself where ``||`` or a choice binds less."""
    depth, starts = 0, [0]
    for position, character in enumerate(condition):
        depth -= _CLOSING.get(character, 0)
        if depth == 0 and condition.startswith((" || ", " ? "), position):
            return [condition]
        if depth == 0 and condition.startswith(" && ", position):
            starts.append(position + 4)
    return [condition[start:end] for start, end in zip(starts, [*(s - 4 for s in starts[1:]), len(condition)], strict=True)]


def _start(line: str, end: int) -> int:
    """Where the condition begins that ends here, before its ``?``."""
    depth = 0
    for position in range(end - 1, -1, -1):
        depth += _CLOSING.get(line[position], 0)
        if depth < 0 or (depth == 0 and (line[position] in ",;?:{}" or re.match(r"[^<>=!]= ", line[position - 1 :]))):
            return position + 1 + (line[position + 1] == " ")
    return len(line) - len(line.lstrip())
