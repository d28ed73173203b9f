"""Finds every TensorRT name that our code uses, by following values from `trt` through each function. For tests.

A value is followed from where it is made (`trt.Builder(log)`), from annotations (`config: "trt.IBuilderConfig"`), and
through what the real bindings say that methods and properties return. What cannot be followed is not seen, so code
annotates its TensorRT values.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from support.tensorrt_bindings import Bindings

_GUARDS = frozenset({"hasattr", "getattr", "member"})


@dataclass(frozen=True)
class Use:
    """One name that the code asks for."""

    where: str
    owner: str
    """The class; empty for the module."""
    name: str
    guarded: bool
    """Asked for with hasattr, getattr or member: it may be absent."""

    def __str__(self) -> str:
        return f"{self.where}: {'.'.join(filter(None, ('trt', self.owner, self.name)))}"


@dataclass(frozen=True)
class _Value:
    """What is known of an expression: the module, a class, an object, a method, or many objects."""

    kind: str
    name: str = ""


_MODULE = _Value("module")


@dataclass(frozen=True)
class Known:
    """What annotations say, by name: fields of classes, and results of functions."""

    fields: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)

    def __or__(self, closer: "Known") -> "Known":
        """Both; where they differ, `closer` is right."""
        return Known(self.fields | closer.fields, self.functions | closer.functions)


def known_of(source: str) -> Known:
    """Read the annotations of one file."""
    known = Known()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    _note(known.fields, item.target.id, item.annotation)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            _note(known.fields, node.target.attr, node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            _note(known.functions, node.name, node.returns)
    return known


def _note(names: dict[str, str], name: str, annotation: ast.expr) -> None:
    found = _annotated(annotation)
    if found and found.kind == "object":
        names[name] = found.name


def uses_in(source: str, file: str, around: Known, bindings: Bindings) -> list[Use]:
    """Every use in one file, once for each place. `around` is known of other files."""
    uses: list[Use] = []
    known = around | known_of(source)
    tree = ast.parse(source)
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        uses += _Scope(function, file, known, bindings).uses()
    return sorted(set(uses), key=str)


class _Scope:
    """One function, functions within it included."""

    def __init__(self, function: ast.FunctionDef, file: str, known: Known, bindings: Bindings) -> None:
        self._function, self._file, self._known, self._bindings = function, file, known, bindings
        self._values: dict[str, _Value] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.arg):
                self._learn(node.arg, _MODULE if node.arg == "trt" else _annotated(node.annotation))
        for _ in range(3):  # names may be followed in any order, a few steps deep
            self._follow()

    def uses(self) -> Iterator[Use]:
        for node in ast.walk(self._function):
            if isinstance(node, ast.Attribute):
                owner = self._owner(node.value)
                if owner is not None:
                    yield self._use(node, owner, node.attr, guarded=False)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _GUARDS:
                owner = self._owner(node.args[0])
                if owner is not None:
                    for name in _texts(node.args[1]):
                        yield self._use(node, owner, name, guarded=True)

    def _use(self, node: ast.expr, owner: str, name: str, *, guarded: bool) -> Use:
        return Use(f"{self._file}:{node.lineno}", owner, name, guarded)

    def _follow(self) -> None:
        for node in ast.walk(self._function):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                self._learn(node.target.id, _annotated(node.annotation))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self._learn(node.targets[0].id, self._value(node.value))
            elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
                many = self._value(node.iter)
                if many and many.kind == "many":
                    self._learn(node.target.id, _Value("object", many.name))

    def _learn(self, name: str, value: _Value | None) -> None:
        if value is not None:
            self._values[name] = value

    def _owner(self, node: ast.expr) -> str | None:
        """The class whose member is asked for; None where it is not TensorRT's."""
        value = self._value(node)
        return value.name if value and value.kind in {"module", "class", "object"} else None

    def _value(self, node: ast.expr) -> _Value | None:
        if isinstance(node, ast.Name):
            return self._values.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, ast.GeneratorExp | ast.ListComp):
            one = self._value(node.elt)
            return _Value("many", one.name) if one and one.kind == "object" else None
        return None

    def _attribute(self, node: ast.Attribute) -> _Value | None:
        if node.attr == "trt":
            return _MODULE
        of = self._value(node.value)
        if of is None:
            name = self._known.fields.get(node.attr)
            return _Value("object", name) if name else None
        if of.kind == "module":
            return _Value("class", node.attr) if self._bindings.names.get(node.attr) else None
        kind, given = self._bindings.gives(of.name, node.attr)
        return _Value("method" if kind == "method" else "object", given) if given else None

    def _called(self, node: ast.Call) -> _Value | None:
        if isinstance(node.func, ast.Name) and node.func.id == "member":
            owner = self._owner(node.args[0])
            return _Value("object", owner) if owner else None
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in self._known.functions:
            return _Value("object", self._known.functions[name])
        function = self._value(node.func)
        if function and function.kind in {"class", "method"}:
            return _Value("object", function.name)
        return None


def _annotated(annotation: ast.expr | None) -> _Value | None:
    """`trt.X` is an object; anything around it (a sequence, an iterator) is many. Annotations may be texts."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if annotation is None:
        return None
    for node in ast.walk(annotation):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "trt":
            return _Value("object" if node is annotation or isinstance(annotation, ast.BinOp) else "many", node.attr)
        if node is not annotation and isinstance(node, ast.Constant) and isinstance(node.value, str):
            inner = _annotated(node)
            if inner:
                return _Value("many", inner.name)
    return None


def _texts(node: ast.expr) -> list[str]:
    """A name, or the two of a choice; none for one that is put together at run time."""
    if isinstance(node, ast.IfExp):
        return _texts(node.body) + _texts(node.orelse)
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
