"""Reading constraints on mappings: what memories say of tensors, and fanouts of loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..arch import SizeConstraint, TensorRules
from ..language.expressions import nearest, parse_expression, whole
from ..validation.complaints import FieldPath
from .document import Document
from .fields import ComparisonInput, TensorsInput

RELATIONS = ("==", "<=", ">=", "<", ">")
RULE_OPERATORS = (*RELATIONS, *(f"product{relation}" for relation in RELATIONS))
_SETS = ("keep", "may_keep", "back", "no_refetch_from_above", "no_resend_to_below")


def read_rules(given: TensorsInput, document: Document, path: FieldPath, names: Mapping[str, object]) -> TensorRules:
    """The field ``tensors`` of a memory or toll; ``names`` are what the values of its comparisons may use."""
    for field in _SETS:
        text = getattr(given, field)
        if text is not None:
            _check_set(text, document, (*path, field))
    for number, option in enumerate(given.tensor_order_options):
        for place, text in enumerate(option):
            _check_set(text, document, (*path, "tensor_order_options", number, place))
    return TensorRules(
        given.keep,
        given.may_keep,
        given.back,
        read_comparisons(given.tile_shape, document, (*path, "tile_shape"), names),
        given.no_refetch_from_above,
        given.no_resend_to_below,
        tuple(map(tuple, given.tensor_order_options)),
        given.force_memory_hierarchy_order,
    )


def read_comparisons(
    given: Sequence[ComparisonInput], document: Document, path: FieldPath, names: Mapping[str, object]
) -> tuple[SizeConstraint, ...]:
    """Comparisons of loops; :class:`SpecError` for an operator that is none, and for what is no set or number."""
    result = []
    for number, item in enumerate(given):
        where = (*path, number)
        operator = item.operator.replace(" ", "")
        if operator not in RULE_OPERATORS:
            hint = nearest(operator, RULE_OPERATORS)
            raise document.error((*where, "operator"), f"{item.operator!r} compares nothing.", hint)
        _check_set(item.expression, document, (*where, "expression"))
        with document.blame((*where, "value")):
            value = whole(item.value, names, "The value of a comparison", least=0)
        result.append(SizeConstraint(item.expression, operator, value))
    return tuple(result)


def _check_set(text: str, document: Document, path: FieldPath) -> None:
    with document.blame(path):
        parse_expression(text)
