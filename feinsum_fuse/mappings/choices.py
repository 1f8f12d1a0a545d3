"""Decisions that make a mapping, and who takes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Generic, Protocol, TypeVar, cast

from ..errors import LoweringError

T = TypeVar("T")


@dataclass(frozen=True)
class Choice(Generic[T]):
    """One decision. Its options are those that are possible after the decisions before it; the first is what the rules suggest."""

    kind: str
    """What is decided: one of :data:`~feinsum_fuse.mappings.family.CHOICE_KINDS`."""
    about: str
    """The Einsums it concerns, joined by ``+``; empty for the whole cascade."""
    options: tuple[T, ...]

    @classmethod
    def of(cls, kind: str, about: str, usual: T, others: Sequence[T] = ()) -> Choice[T]:
        """A decision between the usual option and others; options that occur twice are kept once."""
        rest = [other for k, other in enumerate(others) if other != usual and other not in others[:k]]
        return cls(kind, about, (usual, *rest))

    @property
    def name(self) -> str:
        """What no other decision of a mapping is called, such as ``lane of Z``."""
        return f"{self.kind} of {self.about}" if self.about else self.kind

    @property
    def usual(self) -> T:
        """What the default mapping takes."""
        return self.options[0]

    def __str__(self) -> str:
        return f"{self.name}: {' | '.join(map(str, self.options))}"


class Chooser(Protocol):
    """Takes decisions one after another."""

    def choose(self, choice: Choice[T]) -> T:
        """One of the options."""
        ...


class Rules:
    """Takes the usual option everywhere: the default mapping."""

    def choose(self, choice: Choice[T]) -> T:
        """The first option."""
        return choice.usual


@dataclass(frozen=True)
class Drawn:
    """Takes the usual option or, with a given chance, any."""

    random: Random
    change: float

    def choose(self, choice: Choice[T]) -> T:
        """An option by the generator's next numbers; none are used where there is but one option."""
        if len(choice.options) > 1 and self.random.random() < self.change:
            return self.random.choice(choice.options)
        return choice.usual


@dataclass(frozen=True)
class Given:
    """Takes what is given for a decision, by its name or its kind, and leaves the others to another chooser."""

    values: Mapping[str, object]
    rest: Chooser = field(default_factory=Rules)

    def choose(self, choice: Choice[T]) -> T:
        """The option that equals what is given. Raises :class:`~feinsum_fuse.errors.LoweringError` if there is none."""
        key = next((key for key in (choice.name, choice.kind) if key in self.values), None)
        if key is None:
            return self.rest.choose(choice)
        for option in choice.options:
            if option == self.values[key]:
                return option
        raise LoweringError(f"{self.values[key]} is no option for {choice.name}", hint=f"There are {', '.join(map(str, choice.options))}.")


@dataclass
class Noted:
    """Notes the decisions that another chooser takes."""

    rest: Chooser = field(default_factory=Rules)
    choices: list[Choice[object]] = field(default_factory=list)
    taken: dict[str, object] = field(default_factory=dict)
    """By name; :class:`Given` with these builds the same mapping again."""

    def choose(self, choice: Choice[T]) -> T:
        """What the other chooser takes."""
        option = self.rest.choose(choice)
        self.choices.append(cast("Choice[object]", choice))
        self.taken[choice.name] = option
        return option


def sweep(build: Callable[[Chooser], T], kinds: Collection[str] | None = None, rest: Chooser | None = None) -> Iterator[T]:
    """What ``build`` makes of every combination of options, the last decision varying fastest.

    ``kinds``: only decisions of these kinds are varied, the others are left to ``rest`` (default: the rules). ``build`` must take the same
    decisions after the same options.
    """
    numbers: tuple[int, ...] | None = ()
    while numbers is not None:
        counter = _Counter(numbers, kinds, rest or Rules())
        yield build(counter)
        numbers = counter.following()


class _Counter:
    """Takes options by their numbers, and the first where no number is given."""

    def __init__(self, numbers: Sequence[int], kinds: Collection[str] | None, rest: Chooser) -> None:
        self.numbers = numbers
        self.kinds = kinds
        self.rest = rest
        self.taken: list[tuple[int, int]] = []
        """(number of the option, how many there were)."""

    def choose(self, choice: Choice[T]) -> T:
        if self.kinds is not None and choice.kind not in self.kinds:
            return self.rest.choose(choice)
        place = len(self.taken)
        number = self.numbers[place] if place < len(self.numbers) else 0
        self.taken.append((number, len(choice.options)))
        return choice.options[number]

    def following(self) -> tuple[int, ...] | None:
        """The next numbers, as an odometer counts; ``None`` after the last."""
        taken = list(self.taken)
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        return (*(number for number, _ in taken[:-1]), taken[-1][0] + 1) if taken else None
