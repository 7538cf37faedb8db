"""The code graph: names -> the definitions of this project that they reach, each with a digest of its code.

The graph follows names, not modules: a function reaches the functions, classes and constants that it names, wherever
they are defined. Comments, docstrings, layout, type hints of functions and the texts of raised errors are not part of a
digest, and neither is the module of a definition. Code that looks names up at run time is treated
cautiously: it reaches its whole module, and a computed import reaches its whole package.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

LOOKS_UP_NAMES = {"globals", "locals", "vars", "eval", "exec"}
IMPORTS_MODULES = {"import_module", "__import__", "walk_packages", "iter_modules"}
DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
WHOLE = "*"
"""All names of a module."""

LOOSE = "<module>"
"""The statements of a module that define nothing, such as a call that registers something."""


@dataclass
class Reached:
    """The definitions that a set of names reaches."""

    parts: dict[str, str] = field(default_factory=dict)
    """By dotted name of a definition, the digest of its code."""

    strings: set[str] = field(default_factory=set)
    """Every string constant in these definitions, and every name of an attribute or a keyword argument."""

    @property
    def words(self) -> set[str]:
        """Return the words in the strings; they include the columns that expressions name."""
        return {word for text in self.strings for word in re.findall(r"\w+", text)}


@dataclass(frozen=True)
class Source:
    """The folder of the code, and the keyword arguments, as (function, argument), that change no results."""

    folder: Path
    ignored: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Module:
    """The top level of a module."""

    name: str
    is_package: bool
    definitions: dict[str, list[ast.stmt]]
    """By name, the statements that bind it, stripped of everything that changes no results."""

    digests: dict[str, str]
    """By name, the digest of these statements."""

    imports: dict[str, str]
    """By local name, the dotted name that it refers to."""

    stars: list[str]
    """Modules imported with `*`."""


def reach(roots: Iterable[str], source: Source, stops: Iterable[str] = ()) -> Reached:
    """Follow names, such as `lake.tables.upsert`, to every definition that they need.

    stops: dotted names, of packages, modules or definitions, that are not followed.
    """
    stopped = tuple(f"{stop}." for stop in stops)
    found = Reached()
    todo = sorted(roots)
    while todo:
        located = _locate(todo.pop(), source)
        key = f"{located[0].name}.{located[1]}" if located else ""
        if located is None or key in found.parts or f"{key}.".startswith(stopped):
            continue
        module, name = located
        if name == WHOLE:
            found.parts[key] = ""
            todo += [f"{module.name}.{each}" for each in module.definitions]
            todo += [f"{each}.{WHOLE}" for each in module.stars]
            continue
        code = module.definitions[name]
        targets = {target for statement in code for target in _targets(statement, module, source)}
        followed = sorted((local, target) for local, target in targets if not f"{target}.".startswith(stopped))
        # Each name is digested with the content of its target: a definition may move, but not be replaced by another.
        contents = [f"{local} is {_content(target, source)}" for local, target in followed]
        found.parts[key] = digest([module.digests[name], *contents])
        found.strings |= {text for statement in code for text in _strings(statement)}
        todo += [target for _, target in followed]
        if LOOSE in module.definitions:
            todo.append(f"{module.name}.{LOOSE}")
    found.parts = {key: value for key, value in found.parts.items() if value}
    return found


def digest(parts: Iterable[object]) -> str:
    """Return a short hash of some values."""
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


def _locate(dotted: str, source: Source) -> tuple[Module, str] | None:
    """Find the module that defines a dotted name, through re-exports; None if it is not in this project."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        module = _module(".".join(parts[:length]), source)
        if module is None:
            continue
        name = parts[length] if length < len(parts) else WHOLE
        if name in module.definitions or name == WHOLE:
            return module, name
        if name in module.imports:
            return _locate(".".join([module.imports[name], *parts[length + 1 :]]), source)
        return module, WHOLE  # defined at run time, or imported by a star
    return None


def _module(name: str, source: Source) -> Module | None:
    path = source.folder.joinpath(*name.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return _parsed(name, file, file.stat().st_mtime_ns, source.ignored)
    return None


@cache
def _parsed(name: str, file: Path, _changed: int, ignored: frozenset[tuple[str, str]]) -> Module:
    module = Module(name, file.name == "__init__.py", {}, {}, {}, [])
    strip = _Strip(ignored)
    for statement in ast.parse(file.read_text()).body:
        if _is_text(statement) or _never_runs(statement):
            continue
        if not isinstance(statement, DEFINES):
            module.imports.update(_imports(statement, module))
            module.stars.extend(_stars(statement, module))
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        bound = set(_bound(statement))
        # A loop or a condition may bind names and have other effects.
        only_binds = bound and isinstance(statement, (*DEFINES, ast.Assign, ast.AnnAssign, ast.AugAssign))
        stripped = strip.visit(statement)
        for each in bound if only_binds else bound | {LOOSE}:
            module.definitions.setdefault(each, []).append(stripped)
    module.digests.update({each: digest(map(_canonical, code)) for each, code in module.definitions.items()})
    return module


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _never_runs(statement: ast.stmt) -> bool:
    """Return whether a statement does nothing when its module is imported."""
    test = ast.unparse(statement.test) if isinstance(statement, ast.If) else ""
    return test.endswith("TYPE_CHECKING") or test.startswith("__name__")


def _bound(statement: ast.stmt) -> Iterator[str]:
    """List the names that a top-level statement binds, except imports."""
    if isinstance(statement, DEFINES):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, DEFINES):
            yield node.name


def _imports(statement: ast.AST, module: Module) -> dict[str, str]:
    """Map the local names of the imports in a statement to the dotted names that they refer to."""
    found = {}
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            source = _source(node, module)
            found |= {alias.asname or alias.name: f"{source}.{alias.name}" for alias in node.names if alias.name != "*"}
    return found


def _stars(statement: ast.stmt, module: Module) -> list[str]:
    if isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names):
        return [_source(statement, module)]
    return []


def _source(node: ast.ImportFrom, module: Module) -> str:
    """Return the module that names are imported from; a relative import starts at the package of its module."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    package = parts[: len(parts) - node.level + (1 if module.is_package else 0)]
    return ".".join([*package, *([node.module] if node.module else [])])


def _targets(statement: ast.AST, module: Module, source: Source) -> Iterator[tuple[str, str]]:
    """List the names in a statement that refer to definitions of this project, each with that definition."""
    known = module.imports | _imports(statement, module)
    for name in _chains(statement):
        first, _, rest = name.partition(".")
        names = [f"{module.name}.{first}"] if first in module.definitions else []
        if first in known:
            names.append(f"{known[first]}.{rest}" if rest else known[first])
            if names[-1].rpartition(".")[2] in IMPORTS_MODULES:
                yield from ((name, each) for each in _package(module.name.partition(".")[0], source.folder))
        elif not names and first in LOOKS_UP_NAMES:
            yield name, f"{module.name}.{WHOLE}"
        for located in (_locate(each, source) for each in names):
            if located:
                yield name, f"{located[0].name}.{located[1]}"


def _chains(statement: ast.AST) -> Iterator[str]:
    """List the names that a statement loads, each with its attributes, such as `ledger.record_entry`."""
    inner: set[ast.AST] = set()
    for node in ast.walk(statement):  # from the outside in: the longest chain comes first
        parts: list[str] = []
        base = node
        while isinstance(base, ast.Attribute) and base not in inner:
            parts.append(base.attr)
            base = base.value
            if isinstance(base, ast.Name):
                yield ".".join([base.id, *reversed(parts)])
            inner.add(base)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in inner:
            yield node.id


def _package(name: str, folder: Path) -> Iterator[str]:
    for file in sorted((folder / name).rglob("*.py")):
        parts = file.relative_to(folder).with_suffix("").parts
        yield ".".join([*(parts[:-1] if parts[-1] == "__init__" else parts), WHOLE])


def _content(dotted: str, source: Source) -> str:
    located = _locate(dotted, source)
    return located[0].digests.get(located[1], "") if located else ""


def _strings(statement: ast.AST) -> Iterator[str]:
    """List string constants, attributes and keyword arguments: any of them may name a column."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg


class _Strip(ast.NodeTransformer):
    """Removes everything from code that cannot change its results."""

    def __init__(self, ignored: frozenset[tuple[str, str]]) -> None:
        self.ignored = ignored

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Remove docstrings and other strings that are statements."""
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each) and not isinstance(each, ast.Pass)]  # type: ignore[attr-defined]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Keep the type hints of fields: dataclasses and pydantic read them."""
        for each in node.body:
            if isinstance(each, ast.AnnAssign):
                each.simple = 2  # marks a field; in a module or a function it is 0 or 1
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Remove the type hint of a variable."""
        if node.simple != 2 and node.value is not None:
            return self.generic_visit(ast.Assign([node.target], node.value))
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Remove the return type hint of a function."""
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Remove the return type hint of a function."""
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Remove the type hint of an argument."""
        return ast.arg(node.arg)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Remove keyword arguments that change no results."""
        if isinstance(node.func, ast.Name):
            node.keywords = [each for each in node.keywords if (node.func.id, each.arg) not in self.ignored]
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Remove the text of an error."""
        return ast.Raise(node.exc.func) if isinstance(node.exc, ast.Call) else node


def _canonical(value: object) -> str:
    """Return one text for equal code, independent of layout and, unlike `ast.dump`, of the version of Python."""
    if isinstance(value, list):
        return f"[{','.join(map(_canonical, value))}]"
    if not isinstance(value, ast.AST):
        return repr(value)
    fields = {
        name: each for name, each in ast.iter_fields(value) if each not in (None, []) and name not in ("ctx", "kind")
    }
    return f"{type(value).__name__}({','.join(f'{name}={_canonical(each)}' for name, each in fields.items())})"
