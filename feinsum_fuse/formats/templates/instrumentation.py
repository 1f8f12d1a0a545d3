"""Counting put into templates: what a template's tree becomes before Jinja compiles it.

Every body (of a loop, a condition, a macro) begins by paying for the nodes that stand in it; what a loop runs over, compares, slices or
builds goes through a filter that counts it; text and printed values go through filters that note where they stand in the file. These
filters have names with a blank, which no template can write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from ...errors import SpecError
from ..language.expressions import nearest
from .vocabulary import FILTERS, TESTS

STEPS, ELEMENTS, DATA, BUILT, PART, JOINED, VERBATIM, PRINTED = (
    f"counted {what}" for what in ("steps", "elements", "data", "literal", "part", "text", "verbatim", "print")
)
MAX_NODES = 10_000
SCOPED_HELPERS = frozenset(("include", "include_all", "include_text"))

_STATEMENTS = (
    nodes.Output, nodes.For, nodes.If, nodes.Assign, nodes.AssignBlock, nodes.FilterBlock, nodes.Macro, nodes.With, nodes.ExprStmt,
    nodes.Include, nodes.Block, nodes.Scope, nodes.Break, nodes.Continue,
)  # fmt: skip
_EXPRESSIONS = (
    nodes.Name, nodes.NSRef, nodes.Const, nodes.TemplateData, nodes.List, nodes.Tuple, nodes.Dict, nodes.CondExpr, nodes.Concat,
    nodes.Compare, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv,
    nodes.Mod, nodes.Pow, nodes.Filter, nodes.Test, nodes.Call, nodes.Getattr, nodes.Getitem, nodes.Slice,
)  # fmt: skip
_PARTS = (nodes.Template, nodes.Operand, nodes.Pair, nodes.Keyword)


class PlacedError(SpecError):
    """A refusal whose line is known and whose column is not."""

    def __init__(self, message: str, line: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.line = line


def _counted(name: str, node: nodes.Expr, *arguments: nodes.Expr | None) -> nodes.Filter:
    given = [nodes.Const(None) if argument is None else argument for argument in arguments]
    return nodes.Filter(node, name, given, [], None, None, lineno=node.lineno)


class Instrumentation(NodeTransformer):
    """Rewrites a template's tree in place, or raises :class:`PlacedError` for what templates may not use.

    ``places`` has the line and column of each piece of plain text, by the node's identity; ``texts`` collects the pieces.
    """

    def __init__(self, places: Mapping[int, tuple[int, int]]) -> None:
        self.places = places
        self.texts: list[tuple[str, int, int]] = []
        self.cost = 0
        self.nodes = 0

    def visit(self, node: nodes.Node, *args: object, **kwargs: object) -> object:
        """The node with counting put in; one step for each node."""
        self.cost += 1
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise PlacedError(f"The template has more than {MAX_NODES} parts.", node.lineno)
        if not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS, *_PARTS)):
            kind = "expression" if isinstance(node, nodes.Expr) else "statement"
            raise PlacedError(f"The template {kind} {type(node).__name__.lower()!r} is not available.", node.lineno)
        return super().visit(node)

    def _body(self, statements: Sequence[nodes.Node], lineno: int, also: int = 0) -> list[nodes.Node]:
        """Statements behind one that pays for them and for ``also`` nodes that run along with them."""
        outside, self.cost = self.cost, 1 + also
        visited = [self.visit(statement) for statement in statements]
        steps, self.cost = self.cost, outside
        payment = _counted(STEPS, nodes.Const(steps, lineno=lineno))
        return [nodes.ExprStmt(payment, lineno=lineno), *(node for node in visited if isinstance(node, nodes.Node))]

    def _expression(self, node: nodes.Node) -> nodes.Expr:
        visited = self.visit(node)
        assert isinstance(visited, nodes.Expr)
        return visited

    def visit_Template(self, node: nodes.Template) -> nodes.Node:
        node.body = self._body(node.body, 1)
        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        end = (node.lineno, 1)
        pieces: list[nodes.Expr] = []
        for piece in node.nodes:
            self.cost += 1
            if isinstance(piece, nodes.TemplateData):
                line, column = self.places.get(id(piece), (piece.lineno, 1))
                pieces.append(_counted(VERBATIM, nodes.Const(len(self.texts), lineno=piece.lineno)))
                self.texts.append((piece.data, line, column))
                tail = piece.data.rpartition("\n")[2]
                end = (line + piece.data.count("\n"), len(tail) + (column if tail == piece.data else 1))
            else:
                column = end[1] if end[0] == piece.lineno else 1
                pieces.append(self._printed(self._expression(piece), column))
        node.nodes = pieces
        return node

    @staticmethod
    def _printed(node: nodes.Expr, column: int) -> nodes.Filter:
        return _counted(PRINTED, node, nodes.Const(node.lineno), nodes.Const(column))

    def visit_For(self, node: nodes.For) -> nodes.Node:
        if node.recursive:
            raise PlacedError("Recursive loops are not available in templates.", node.lineno)
        outside, self.cost = self.cost, 0
        node.test = None if node.test is None else self._expression(node.test)
        each, self.cost = self.cost, outside
        node.target = self.visit(node.target)  # type: ignore[assignment]
        node.iter = _counted(ELEMENTS, self._expression(node.iter), nodes.Const(each))
        node.body = self._body(node.body, node.lineno)
        node.else_ = self._body(node.else_, node.lineno) if node.else_ else []
        return node

    def visit_If(self, node: nodes.If) -> nodes.Node:
        node.test = self._expression(node.test)
        node.body = self._body(node.body, node.lineno)
        node.elif_ = [self.visit(branch) for branch in node.elif_]  # type: ignore[misc]
        node.else_ = self._body(node.else_, node.lineno) if node.else_ else []
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        outside, self.cost = self.cost, 0
        node.defaults = [self._expression(default) for default in node.defaults]
        defaults, self.cost = self.cost, outside
        node.body = self._body(node.body, node.lineno, defaults)
        return node

    def visit_Block(self, node: nodes.Block) -> nodes.Node:
        node.body = self._body(node.body, node.lineno)
        return node

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.Node:
        self.generic_visit(node)
        node.filter = self._printed(node.filter, 1)
        return node

    def visit_Include(self, node: nodes.Include) -> nodes.Node:
        text = nodes.Call(nodes.Name("include_text", "load"), [node.template], [], None, None, lineno=node.lineno)
        return nodes.Output([self._printed(self._expression(text), 1)], lineno=node.lineno)

    def visit_Call(self, node: nodes.Call) -> nodes.Node:
        self._check_arguments(node)
        self.generic_visit(node)
        if isinstance(node.node, nodes.Name) and node.node.name in SCOPED_HELPERS:
            node.args.insert(0, nodes.DerivedContextReference(lineno=node.lineno))
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        self._check_name("filter", node, FILTERS)
        return self.generic_visit(node)

    def visit_Test(self, node: nodes.Test) -> nodes.Node:
        self._check_name("test", node, TESTS)
        return self.generic_visit(node)

    def _check_name(self, kind: str, node: nodes.Filter | nodes.Test, known: Mapping[str, object] | frozenset[str]) -> None:
        self._check_arguments(node)
        if node.name not in known:
            raise PlacedError(f"The template {kind} {node.name!r} is not available.", node.lineno, nearest(node.name, known))

    @staticmethod
    def _check_arguments(node: nodes.Call | nodes.Filter | nodes.Test) -> None:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise PlacedError("Starred arguments are not available in templates.", node.lineno)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _counted(DATA, node.expr)
        for operand in node.ops:
            operand.expr = _counted(DATA, operand.expr)
        return node

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.Node:
        self.generic_visit(node)
        node.expr2 = nodes.Const("") if node.expr2 is None else node.expr2
        return node

    def visit_List(self, node: nodes.List) -> nodes.Node:
        return _counted(BUILT, self.generic_visit(node))  # type: ignore[arg-type]

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        return _counted(BUILT, self.generic_visit(node))  # type: ignore[arg-type]

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return node if node.ctx == "store" else _counted(BUILT, node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _counted(JOINED, nodes.List(node.nodes, lineno=node.lineno))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        return _counted(PART, node.node, node.arg.start, node.arg.stop, node.arg.step)

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        if isinstance(node.value, float) and node.value in (float("inf"), float("-inf")):
            return _counted(DATA, nodes.Filter(nodes.Const("inf"), "float", [], [], None, None, lineno=node.lineno))
        return node
