"""Random small cascades and architectures, drawn by number, on which a brute force can find the optimum."""

from __future__ import annotations

import random
from dataclasses import dataclass

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec

KINDS = ("pair", "fanout", "imperfect", "deep", "triple")
"""What a case is about: two Einsums on two memories; loops in space; tiles that do not divide; three or four memories; three Einsums."""

LATER = ("network", "shared", "carried", "copied", "loose", "ruled", "even")
"""Kinds that came later, each with a thousand numbers of its own from 10,000 on: networks carry tensors; intermediates live below fanouts;
they do so where networks carry tensors; copies are among the Einsums; memories need not keep the order of their hierarchy; tiles are
constrained, and often two windows move together; and each memory's tensors have two places, before networks or in any order of memories.
"""
FIRST = 10_000
SIZES = {
    "network": (2, 3, 4),
    "shared": (2, 3, 4),
    "carried": (2, 3, 4),
    "copied": (2, 2, 4),
    "loose": (2, 3, 4),
    "even": (2, 2, 3, 4),
    "pair": (2, 3, 4, 6),
    "fanout": (2, 3, 4, 6),
    "imperfect": (4, 5, 6, 7),
    "deep": (2, 3, 4),
    "triple": (2, 3),
}


@dataclass(frozen=True)
class Case:
    """A Spec without mapping, as text."""

    number: int
    text: str

    @property
    def kind(self) -> str:
        """What the case is about."""
        return kind_of(self.number)

    @property
    def imperfect(self) -> bool:
        """Whether tiles may be of any size."""
        return self.kind == "imperfect"

    @property
    def even(self) -> bool:
        """Whether a memory's tensors have two places among the loops of an Einsum."""
        return self.kind == "even"

    @property
    def spec(self) -> Spec:
        """The Spec."""
        return ff.loads(self.text)


def case(number: int) -> Case:
    """The case of this number: the same text on every machine."""
    chance = random.Random(f"mapper {number}")
    kind = kind_of(number)
    if kind == "ruled":
        return Case(number, ruled(chance))
    workload = _workload(chance, kind)
    later = {
        "network": networked,
        "shared": below_fanouts,
        "carried": carried_below_fanouts,
        "copied": copied_below_fanouts,
        "loose": loose,
        "even": evened,
    }
    arch = later[kind](chance, _bits(workload)) if kind in later else _arch(chance, kind, _bits(workload))
    return Case(number, workload + arch)


def kind_of(number: int) -> str:
    """The kind of the case of a number."""
    return KINDS[number % len(KINDS)] if number < FIRST else LATER[(number - FIRST) // 1000]


def _workload(chance: random.Random, kind: str) -> str:
    if kind == "network" and chance.random() < 0.2:
        return _window(chance)
    if kind == "copied":
        return _copies(chance)
    if kind == "even":
        return _product(chance)
    count = {"pair": 2, "triple": 3, "shared": 2 + (kind == "shared" and chance.random() < 0.1)}.get(kind, chance.choice((1, 1, 2)))
    count = 2 if kind == "carried" else count
    pool = "abcdefgh"
    sizes = {rank: chance.choice(SIZES[kind]) for rank in pool}
    lines: list[str] = []
    made: list[tuple[str, str]] = []
    used: list[str] = []
    fresh = iter(pool)
    for number in range(1, count + 1):
        output, inputs, left, right = f"T{number}", [], "", ""
        if made:
            name, left = made[-1] if chance.random() < 0.8 else chance.choice(made)
            inputs.append((name, left))
        else:
            widths = {"triple": (1, 2), "shared": (1, 1, 2), "carried": (1, 1, 2)}
            width = 2 if kind == "imperfect" else chance.choice(widths.get(kind, (2, 2, 1)))
            left = "".join(next(fresh) for _ in range(width))
            inputs.append(("A0", left))
        most = 1 if kind == "imperfect" else len(left)
        kept = "".join(sorted(chance.sample(left, chance.choice(range(1, most + 1)))))
        wide = len(left) == 1 if kind == "imperfect" else chance.random() < {"triple": 0.4, "shared": 0.3, "carried": 0.3}.get(kind, 0.75)
        new = next(fresh, "") if wide else ""
        reduced = "".join(r for r in left if r not in kept)
        right = (reduced + new) or kept
        if len(made) > 1 and chance.random() < 0.5:
            skip, axes = made[0]
            if set(axes) <= set(left + new) and skip != inputs[0][0]:
                inputs.append((skip, axes))
        if len(inputs) < 2 and (number == 1 or chance.random() < 0.85):
            inputs.append((f"B{number}", right))
        axes = kept + new if any(new in a for _, a in inputs if new) else kept
        terms = " * ".join(f"{name}[{', '.join(a)}]" for name, a in inputs)
        lines.append(f"  - '{output}[{', '.join(axes)}] = {terms}'")
        made.append((output, axes))
        used += [*axes, *(rank for _, a in inputs for rank in a)]
    ranks = ", ".join(f"{r.upper()}: {sizes[r]}" for r in dict.fromkeys(used))
    bits = chance.choice((8, 16))
    other = chance.choice((f"{{All: {bits}}}", f"{{Intermediates: {2 * bits}, Other: {bits}}}"))
    return f"workload:\n  rank_sizes: {{{ranks}}}\n  bits_per_value: {other}\n  einsums:\n" + "\n".join(lines) + "\n"


def _window(chance: random.Random) -> str:
    """A convolution."""
    p, r, c = (chance.choice((2, 3)) for _ in range(3))
    return (
        f"workload:\n  rank_sizes: {{P: {p}, R: {r}, C: {c}, H: {p + r - 1}}}\n  bits_per_value: {{All: 8}}\n  einsums:\n"
        "  - {name: T1, tensor_accesses: [{name: A0, projection: {H: p + r, C: c}}, {name: B1, projection: {R: r, C: c}}, "
        "{name: T1, projection: {P: p}, output: true}]}\n"
    )


def _product(chance: random.Random) -> str:
    """A product, and what is made of it or nothing."""
    sizes = ", ".join(f"{rank}: {chance.choice(SIZES['even'])}" for rank in "ABC")
    einsums = ["T1[a, b] = A0[a, c] * B1[c, b]", *(["T2[a] = T1[a, b] * B2[b]"] if chance.random() < 0.25 else [])]
    lines = "".join(f"  - '{e}'\n" for e in einsums)
    return f"workload:\n  rank_sizes: {{{sizes}}}\n  bits_per_value: {{All: 8}}\n  einsums:\n{lines}"


def _copies(chance: random.Random) -> str:
    """A copy before, between or after one or two other Einsums."""
    sizes = {rank: chance.choice(SIZES["copied"]) for rank in "ABC"}
    kept = chance.choice(("a", "ab"))
    axes = {"A0": chance.choice((kept, "a")), "B1": "c" if chance.random() < 0.4 else kept}
    place = chance.choice((0, 1, 2)) if kept == "a" else chance.choice((0, 2))
    lines: list[str] = []
    last = "A0"
    for number in range(chance.choice((2, 2, 3)) if place == 1 else 2):
        name = f"T{number + 1}"
        if number == min(place, 1):
            axes[name] = axes[last]
            own, other = ", ".join(axes[last]), ", ".join(axes[name])
            accesses = f"{{name: {last}, projection: [{own}]}}, {{name: {name}, projection: [{other}], output: true}}"
            lines.append(f"  - {{name: {name}, is_copy_operation: true, tensor_accesses: [{accesses}]}}")
        else:
            axes[name] = chance.choice(("a", kept)) if number else kept
            weight = axes["B1"] if number == (place == 0) else "a"
            inputs = f"{last}[{', '.join(axes[last])}] * B{number}[{', '.join(weight)}]"
            axes[name] = "".join(r for r in axes[name] if r in axes[last] + weight)
            lines.append(f"  - '{name}[{', '.join(axes[name])}] = {inputs}'")
        last = name
    used = dict.fromkeys(r.upper() for line in lines for r in "abc" if f"[{r}" in line or f", {r}" in line)
    ranks = ", ".join(f"{r}: {sizes[r]}" for r in used)
    bits = chance.choice(("{All: 8}", "{Intermediates: 16, Other: 8}", "{Intermediates: 4, Other: 8}"))
    return f"workload:\n  rank_sizes: {{{ranks}}}\n  bits_per_value: {bits}\n  einsums:\n" + "\n".join(lines) + "\n"


def _bits(workload: str) -> int:
    """The bits of the largest tensor."""
    spec = ff.loads(workload)
    result = 0
    for einsum in spec.workload.einsums:
        for access in einsum.tensor_accesses:
            size = access.bits_per_value
            for v in access.rank_variables:
                size *= einsum.bounds[v]
            result = max(result, size)
    return result


def _arch(chance: random.Random, kind: str, bits: int) -> str:
    inner = {"deep": chance.choice((2, 2, 3)), "fanout": chance.choice((1, 1, 2))}.get(kind, 1)
    names = ["Main", "Shared", "Local", "Register"]
    lines = ["arch:", "  nodes:", _memory(chance, "Main", "inf", "keep: ~Intermediates, may_keep: All", 0)]
    fanout_above = chance.choice((1, inner)) if kind == "fanout" else None
    for level in range(1, inner + 1):
        if fanout_above == level and level > 1:
            lines.append(_fanout(chance))
        below = fanout_above is not None and level > 1 and fanout_above <= level
        parts = (0.06, 0.09, 0.12, 0.16) if kind == "imperfect" else (0.1, 0.25, 0.5, 1, 2)
        endless = chance.random() < 0.2 and kind != "imperfect"
        size = "inf" if endless else str(max(32, int(bits * chance.choice(parts) / 2 ** (level - 1))))
        lines.append(_memory(chance, names[level], size, _constraint(chance, kind, level, below), level))
    if fanout_above is not None and not (fanout_above > 1):
        lines.append(_fanout(chance))
    actions = f"[{{name: compute, energy: 1, throughput: {chance.choice((1, 4))}}}]"
    lines.append(f"  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: {actions}}}")
    return "\n".join(lines) + "\n"


def _constraint(chance: random.Random, kind: str, level: int, below: bool) -> str:
    """Which tensors a memory may hold; few of them in the inner memories of deep hierarchies, where spaces grow fastest."""
    if below:
        return "may_keep: " + chance.choice(("All - Intermediates", "Outputs - Intermediates", "Inputs - Intermediates"))
    if level == 1 and kind != "deep":
        return "may_keep: All"
    mixed = "keep: Outputs, may_keep: Intermediates"
    return chance.choice(("may_keep: Outputs", "may_keep: Inputs", "keep: Outputs", mixed, "may_keep: Intermediates"))


def networked(chance: random.Random, bits: int) -> str:
    """Main memory, and a buffer or none, a register or none, with fanouts and networks between them."""
    lines = ["arch:", "  nodes:", _memory(chance, "Main", "inf", "keep: ~Intermediates, may_keep: All", 0)]
    buffered, registered = chance.random() < 0.5, chance.random() < 0.5
    if buffered:
        size = "inf" if chance.random() < 0.3 else str(max(64, int(bits * chance.choice((0.25, 0.5, 1, 2)))))
        lines.append(_memory(chance, "Shared", size, _constraint(chance, "network", 1, below=False), 1))
    outer = chance.random() < 0.7
    if outer:
        lines += [_network(chance, "Array"), _fanout(chance)]
    if registered:
        lines.append(_memory(chance, "Register", str(max(16, int(bits / 8))), _constraint(chance, "network", 2, below=outer), 2))
    if not outer or chance.random() < 0.3:
        lines.append(_network(chance, "Lanes"))
    own = "" if outer else f", spatial: [{{name: X, fanout: {chance.choice((2, 3, 4))}}}, {{name: Y, fanout: 2}}]"
    lines.append(f"  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]{own}}}")
    return "\n".join(lines) + "\n"


def below_fanouts(chance: random.Random, bits: int) -> str:
    """Main memory, a buffer or none, and a memory for intermediates below a fanout, with a register below or none."""
    lines = ["arch:", "  nodes:", _memory(chance, "Main", "inf", "keep: ~Intermediates, may_keep: All", 0)]
    buffered, registered = chance.random() < 0.2, chance.random() < 0.15
    if buffered:
        size = str(max(64, int(bits * chance.choice((0.5, 1, 2)))))
        lines.append(_memory(chance, "Shared", size, chance.choice(("keep: Outputs", "may_keep: Intermediates", "may_keep: Inputs")), 1))
    lines.append(_fanout(chance))
    size = "inf" if chance.random() < 0.15 else str(max(32, int(bits * chance.choice((0.25, 0.5, 1, 2)))))
    may_keep = "All" if not (buffered or registered) else chance.choice(("Outputs", "Intermediates", "All - Outputs | Intermediates"))
    lines.append(_memory(chance, "Local", size, f"may_keep: {may_keep}", 2))
    if registered:
        lines += ["  - !Container {name: Lanes, spatial: [{name: Z, fanout: 2, may_reuse: All}]}"] if chance.random() < 0.5 else []
        rule = "may_keep: " + chance.choice(("Outputs", "Intermediates"))
        lines.append(_memory(chance, "Register", str(max(16, int(bits / 8))), rule, 3))
    actions = f"[{{name: compute, energy: 1, throughput: {chance.choice((1, 4))}}}]"
    lines.append(f"  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: {actions}}}")
    return "\n".join(lines) + "\n"


def carried_below_fanouts(chance: random.Random, bits: int) -> str:
    """The same with a network, or two, somewhere on the way."""
    lines = below_fanouts(chance, bits).splitlines()
    for name in ("Array", "Links") if chance.random() < 0.25 else ("Array",):
        lines.insert(chance.choice(range(3, len(lines))), _network(chance, name))
    return "\n".join(lines) + "\n"


def copied_below_fanouts(chance: random.Random, bits: int) -> str:
    """The same with or without networks; as a copy within main memory is free, that often has no intermediates."""
    text = (carried_below_fanouts if chance.random() < 0.25 else below_fanouts)(chance, bits)
    return text.replace("keep: ~Intermediates, may_keep: All", "keep: ~Intermediates", 1) if chance.random() < 0.7 else text


def loose(chance: random.Random, bits: int) -> str:
    """Main memory and two inner ones in any order, with a fanout or none above them."""
    asks, free = chance.choice(("Shared", "Local", "mapper", "mapper")), ", force_memory_hierarchy_order: false"
    lines = ["arch:", "  nodes:", _memory(chance, "Main", "inf", "keep: ~Intermediates, may_keep: All", 0)]
    lines += [_fanout(chance)] if chance.random() < 0.25 else []
    size = str(max(16, int(bits * chance.choice((0.1, 0.25, 0.5)))))
    rule = chance.choice(("may_keep: All", "may_keep: Inputs", "keep: Inputs"))
    lines.append(_memory(chance, "Shared", size, rule + free * (asks == "Shared"), 1))
    size = str(max(16, int(bits * chance.choice((0.25, 0.5, 1)))))
    rule = chance.choice(("may_keep: Outputs", "keep: Outputs", "keep: Outputs, may_keep: Intermediates", "may_keep: Inputs"))
    lines.append(_memory(chance, "Local", size, rule + free * (asks == "Local"), 2))
    lines.append("  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}")
    lines += ["mapper: {force_memory_hierarchy_order: false}"] if asks == "mapper" else []
    return "\n".join(lines) + "\n"


def evened(chance: random.Random, bits: int) -> str:
    """Main memory and a small buffer, below units that a network reaches, or beside another in any order."""
    size = str(max(24, int(bits * chance.choice((0.2, 0.3, 0.45, 0.6)) / 8) * 8))
    lines = ["arch:", "  nodes:", _memory(chance, "Main", "inf", "keep: ~Intermediates, may_keep: All", 0)]
    inner = chance.choice(("network", "network", "loose"))
    lines += [_network(chance, "Array"), _fanout(chance)] if inner == "network" else []
    free = ", force_memory_hierarchy_order: false" if inner == "loose" else ""
    lines.append(_memory(chance, "Shared", size, f"may_keep: All{free}", 1))
    if inner == "loose":
        lines.append(_memory(chance, "Local", size, chance.choice(("may_keep: Outputs", "may_keep: Inputs")), 2))
    lines.append("  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}")
    return "\n".join(lines) + "\n"


def ruled(chance: random.Random) -> str:
    """A chain of two, in most cases with two windows, on two memories; tiles in the inner one are constrained, in most cases."""
    p, k, windows = chance.choice((2, 3, 4)), chance.choice((1, 2, 3)), chance.random() < 0.6
    ranks, axes, more, rest = f"R: 2, N: {chance.choice((2, 4))}", "p", "", "p"
    if k > 1:
        ranks, axes, more, rest = f"{ranks}, K: {k}", "p,k", ", K: k", "k"
    if windows:
        first = f"'T[{axes}] = I[H: p + r] * J[H: p + r{more}]', iteration_space_shape: [0 <= p < {p}, 0 <= r < 2]"
    else:
        first = f"'T[{axes}] = I[p,r] * J[r{more.lower().replace(': k', '')}]', iteration_space_shape: [0 <= p < {p}]"
    second = chance.choice((f"'O[p] = T[{axes}] * V[{rest}]'", f"'O[p,n] = T[{axes}] * V[{rest},n]'"))
    einsums = "".join(f"  - {{einsum: {e}}}\n" for e in (first, f"{second}, iteration_space_shape: [0 <= p < {p}]"))
    workload = f"workload:\n  rank_sizes: {{{ranks}}}\n  bits_per_value: {{All: 8}}\n  einsums:\n{einsums}"
    name, relation = chance.choice(("p", "p", "r", "All")), chance.choice(("==", "<=", ">=", ">=", "product>="))
    rule = f", tile_shape: [{{expression: {name}, operator: '{relation}', value: {chance.choice((1, 2, 2, 3))}}}]"
    size, inner = str(chance.randrange(16, 88, 8)), "may_keep: All" + (rule if chance.random() < 0.8 else "")
    lines = ["arch:", "  nodes:", _memory(chance, "Main", "inf", "keep: ~Intermediates, may_keep: All", 0)]
    lines += [_memory(chance, "Buffer", size, inner, 1)]
    lines.append("  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}")
    return workload + "\n".join(lines) + "\n"


def _network(chance: random.Random, name: str) -> str:
    """A network; its hops cost about as much as its neighbours' accesses."""
    energy, latency, rate = round(chance.uniform(0.2, 8), 2), chance.choice((0, 0.1, 2)), chance.choice((2, 16, 64))
    hop = f"{{name: hop, energy: {energy}, latency: {latency}, throughput: {rate}}}"
    more = chance.choice(("", ", bits_per_action: 4", ", bits_per_value: {Outputs: 32}"))
    topology = chance.choice(("mesh", "mesh", "all_to_all"))
    return f"  - !Network {{name: {name}, topology: {topology}, leak_power: {chance.choice((0, 1))}, area: 0{more}, actions: [{hop}]}}"


def _memory(chance: random.Random, name: str, size: str, constraint: str, level: int) -> str:
    read, write = (round(chance.uniform(0.5, 1.5) * 64 / 8**level, 3) for _ in range(2))
    speeds = [chance.choice((8, 16, 32, 64)) * 4**level for _ in range(2)]
    leak = chance.choice((0, 0, 0, 1)) * round(chance.uniform(1, 20), 2)
    actions = f"[{{name: read, energy: {read}, throughput: {speeds[0]}}}, {{name: write, energy: {write}, throughput: {speeds[1]}}}]"
    return f"  - !Memory {{name: {name}, size: {size}, leak_power: {leak}, area: 0, tensors: {{{constraint}}}, actions: {actions}}}"


def _fanout(chance: random.Random) -> str:
    reuse = chance.choice(("All", "All", "Nothing", "Inputs"))
    width = chance.choice((2, 3, 4))
    second = f", {{name: Y, fanout: {chance.choice((2, 3))}, may_reuse: All}}" if chance.random() < 0.3 else ""
    return f"  - !Container {{name: PEs, spatial: [{{name: X, fanout: {width}, may_reuse: {reuse}}}{second}]}}"
