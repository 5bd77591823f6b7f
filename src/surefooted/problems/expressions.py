"""Formulas in problem files: parsed, checked against a short list of what may stand in one, and never executed.

Python's parser reads the text; a small interpreter of our own walks the tree. There are numbers, words, names of
variables, arithmetic, comparisons, `and`, `or`, `not`, `x if condition else y`, and the functions in FUNCTIONS. There
are no attributes, no indices, no other calls, and no way to reach Python itself.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from surefooted.errors import InvalidInput

Value = float | int | bool | str
LONGEST = 2_000  # characters of a formula
DEEPEST = 50  # levels of a formula
LARGEST = 1e15  # numbers beyond are refused: whole numbers would no longer be exact
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": lambda x: math.floor(x + 0.5),
    "floor": math.floor,
    "ceil": math.ceil,
}
INSTEAD = {"&&": "and", "||": "or", "=<": "<=", "=>": ">=", "≤": "<=", "≥": ">=", "<>": "!=", "÷": "/", "×": "*"}
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda x, among: x in among,
    ast.NotIn: lambda x, among: x not in among,
}


class Formula:
    """A formula of some variables.

    >>> from surefooted.problems.expressions import Formula
    >>> after = Formula("max(0, stock + order - demand)", ["stock", "order", "demand"])
    >>> after(stock=3, order=2, demand=4)
    1
    """

    def __init__(self, text: str, variables: "list[str] | tuple[str, ...]") -> None:
        self.text, self.variables = text, tuple(variables)
        if len(text) > LONGEST:
            raise self._refused(f"it has {len(text)} characters; {LONGEST} are allowed")
        try:
            self._tree = ast.parse(" ".join(text.strip().splitlines()), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            meant = next((f"; write {right} for {wrong}" for wrong, right in INSTEAD.items() if wrong in text), "")
            said = (error.msg if isinstance(error, SyntaxError) else "it cannot be parsed") + meant
            raise self._refused(said) from error
        if faults := list(self._faults(self._tree, 0)):
            raise InvalidInput(f"{text!r} is not a formula", dict.fromkeys(faults))

    def __call__(self, **values: Value) -> Value:
        """The value of the formula for these values of its variables."""
        try:
            value: Value = _value(self._tree, values)
            return value
        except ZeroDivisionError as error:
            raise self._refused(f"it divides by zero for {_shown(values)}") from error
        except (TypeError, ValueError, OverflowError) as error:
            raise self._refused(f"{error}, for {_shown(values)}") from error

    @property
    def names(self) -> set[str]:
        """The variables that it names."""
        return {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)} & set(self.variables)

    def _refused(self, fault: str) -> InvalidInput:
        return InvalidInput(f"{self.text!r} is not a formula", [fault])

    def _faults(self, node: ast.AST, depth: int) -> "list[str]":
        """One sentence for each part that may not stand in a formula."""
        if depth > DEEPEST:
            return [f"it is nested more than {DEEPEST} levels deep"]
        parts: list[ast.AST] = []
        match node:
            case ast.Constant(value=bool() | int() | float() | str()):
                return [] if _is_small(node.value) else ["a number is too large"]
            case ast.Name(id=name):
                known = ", ".join(self.variables)
                return [] if name in self.variables else [f"there is no variable {name!r}; there are {known}"]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                parts = [left, right]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
                parts = [operand]
            case ast.BoolOp(values=values):
                parts = list(values)
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in COMPARISONS for op in ops):
                parts = [left, *others]
            case ast.IfExp(test=test, body=body, orelse=other):
                parts = [test, body, other]
            case ast.Tuple(elts=items) | ast.List(elts=items) if items:
                parts = list(items)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                wanted = len(arguments) >= 2 if name in ("min", "max") else len(arguments) == 1
                if not wanted:
                    return [f"{name} takes {'two numbers or more' if name in ('min', 'max') else 'one number'}"]
                parts = list(arguments)
            case ast.Call(func=ast.Name(id=name)):
                return [f"there is no function {name!r}; there are {', '.join(FUNCTIONS)}"]
            case _:
                return [f"{ast.unparse(node)!r} may not stand in a formula"]
        return [fault for part in parts for fault in self._faults(part, depth + 1)]


def _value(node: ast.AST, values: Mapping[str, Value]) -> Any:
    """The value of a node that was checked before."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _number(ARITHMETIC[type(op)](_number(_value(left, values)), _number(_value(right, values))))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, values)
        case ast.UnaryOp(op=op, operand=operand):
            number = _number(_value(operand, values))
            return -number if isinstance(op, ast.USub) else number
        case ast.BoolOp(op=op, values=parts):
            every = (bool(_value(part, values)) for part in parts)
            return all(every) if isinstance(op, ast.And) else any(every)
        case ast.Compare(left=left, ops=ops, comparators=others):
            first = _value(left, values)
            for comparison, other in zip(ops, others, strict=True):
                second = _value(other, values)
                if not COMPARISONS[type(comparison)](first, second):
                    return False
                first = second
            return True
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, values) else other, values)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(_value(item, values) for item in items)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return FUNCTIONS[name](*(_number(_value(argument, values)) for argument in arguments))
    raise AssertionError(f"{ast.dump(node)} was not checked")


def _number(value: Any) -> Any:
    """The value, if it is a number of ordinary size."""
    if isinstance(value, str | tuple):
        raise TypeError(f"{value!r} is not a number")
    if not _is_small(value):
        raise ValueError("a number becomes too large")
    return value


def _is_small(value: Any) -> bool:
    return isinstance(value, str) or abs(value) <= LARGEST


def _shown(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
