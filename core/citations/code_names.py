"""Names that the Python code of an answer takes from a package: what can be looked up with certainty.

These are imported names, the modules on the way, what stands behind the dot of an imported module, and the arguments
that calls of these name. Attributes of objects are left out: who made an object, no list of names tells.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Collection, Iterator, Mapping

_BLOCK = re.compile(r"^[ \t]*```(?:python|py)\b[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
# After any other decorator, what is called may take other arguments than the definition has.
_HARMLESS_DECORATORS = frozenset(
    {"staticmethod", "classmethod", "property", "abstractmethod", "overload", "override", "final"}
    | {"cache", "lru_cache", "contextmanager", "asynccontextmanager"}
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Of a dotted name.
MAX_PARTS = 8
# Among the parameters of a definition: it takes any argument, or nobody can tell.
ANY_ARGUMENT = "**"


def find_package_names(text: str, packages: Collection[str]) -> list[str]:
    """Return the dotted names that the Python blocks of an answer take from one of these packages, each once.

    >>> find_package_names("```python\\nfrom flask import Flask as F\\nimport flask as f\\nf.g.user\\n```", {"flask"})
    ['flask.Flask', 'flask', 'flask.g']
    """
    names: list[str] = []
    for tree in _iter_trees(text):
        objects, modules = _read_imports(tree)
        attributes = (_resolve(node, modules) for node in ast.walk(tree) if isinstance(node, ast.Attribute))
        names += [*objects.values(), *modules.values(), *filter(None, attributes)]
    return [name for name in dict.fromkeys(names) if name.partition(".")[0] in packages]


def find_named_arguments(text: str, packages: Collection[str]) -> list[tuple[str, str]]:
    """Return what the Python blocks of an answer call of these packages with a named argument, and that, each once.

    >>> find_named_arguments("```python\\nfrom flask import Flask as F\\nF('x', root_path=p(q=1))\\n```", {"flask"})
    [('flask.Flask', 'root_path')]
    """
    arguments: list[tuple[str, str]] = []
    for tree in _iter_trees(text):
        objects, modules = _read_imports(tree)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = objects.get(call.func.id) if isinstance(call.func, ast.Name) else _resolve(call.func, modules)
            arguments += [(name, keyword.arg) for keyword in call.keywords if name and keyword.arg]
    return [pair for pair in dict.fromkeys(arguments) if pair[0].partition(".")[0] in packages]


def find_parameters(code: str, name: str) -> frozenset[str]:
    """Return the parameters of the function or class of this name that Python code defines; empty if it defines none.

    `ANY_ARGUMENT` is one of them where a definition takes any, cannot be read, has a decorator that may change them, or
    is that of a class without an initializer of its own.

    >>> sorted(find_parameters("class A:\\n    def __init__(self, x: dict[str, int], *, y=(1, 2)): ...", "A"))
    ['self', 'x', 'y']
    """
    tree = _parse(textwrap.dedent(code), is_cut=True)
    if tree is None:
        return frozenset({ANY_ARGUMENT} if re.search(rf"\b(?:def|class)[ \t]+{re.escape(name)}\b", code) else ())
    definitions = (node for node in ast.walk(tree) if isinstance(node, _DEFINITIONS) and node.name == name)
    return frozenset[str]().union(*map(_read_parameters, definitions))


def _read_parameters(node: ast.AST) -> frozenset[str]:
    """Return the parameters of a definition; of a class those of its initializers."""
    if not isinstance(node, _DEFINITIONS) or not _HARMLESS_DECORATORS.issuperset(map(_get_name, node.decorator_list)):
        return frozenset({ANY_ARGUMENT})
    if isinstance(node, ast.ClassDef):
        initializers = [item for item in node.body if isinstance(item, _DEFINITIONS) and item.name == "__init__"]
        return frozenset[str]().union(*map(_read_parameters, initializers)) or frozenset({ANY_ARGUMENT})
    arguments = node.args
    named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return frozenset(argument.arg for argument in named) | ({ANY_ARGUMENT} if arguments.kwarg else set())


def _get_name(decorator: ast.expr) -> str:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _iter_trees(text: str) -> Iterator[ast.Module]:
    for block in _BLOCK.finditer(text):
        if tree := _parse(textwrap.dedent(block[1])):
            yield tree


def _parse(code: str, *, is_cut: bool = False) -> ast.Module | None:
    """Return the tree of Python code; None where it is no whole Python, of which nothing is certain.

    With `is_cut`, the code may end in the middle of a definition, which then is read up to the line with the error.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = compile(code, "answer", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as error:
            lines = code.split("\n")[: max(0, (error.lineno or 0) - 1)]
            return _parse("\n".join(lines) + " ...") if is_cut and lines else None
        except (ValueError, RecursionError, MemoryError):
            return None
    return tree if isinstance(tree, ast.Module) else None


def _read_imports(tree: ast.Module) -> tuple[dict[str, str], dict[str, str]]:
    """Return the objects and the modules that the code imports, by their names in the code."""
    objects: dict[str, str] = {}
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            aliases = [alias for alias in node.names if alias.name != "*"]
            objects |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in aliases}
    return objects, modules


def _resolve(node: ast.expr, modules: Mapping[str, str]) -> str | None:
    """Return the whole name of an attribute of a module; what follows the first attribute belongs to an object."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < MAX_PARTS:
        parts.insert(0, node.attr)
        node = node.value
    if not (parts and isinstance(node, ast.Name)):
        return None
    *path, attribute = (node.id, *parts)
    module = ".".join(path)
    return f"{modules[module]}.{attribute}" if module in modules and f"{module}.{attribute}" not in modules else None
