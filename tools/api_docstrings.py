"""An extension of griffe, which reads the sources for the API reference: what it has to know of fgrad's docstrings.

Functions that are made by calls, such as `bisect = _bracketed(...)`, are shown as the functions that they are.
"""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import griffe

_PAGES = runpy.run_path(str(Path(__file__).with_name("api_pages.py")))


class Docstrings(griffe.Extension):  # type: ignore[misc]  # griffe is not among what is checked
    """Prepares docstrings and signatures for the pages."""

    def on_package(self, *, pkg: griffe.Module, loader: Any, **_: Any) -> None:
        """Put functions in the place of values that are functions."""
        for module_name in _PAGES["PUBLIC"]:
            module = importlib.import_module(module_name)
            for name in _PAGES["exports"](module):
                path = f"{module_name}.{name}".removeprefix(f"{pkg.name}.")
                _show_as_function(pkg, path.split("."), getattr(module, name))

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Leave out types that say nothing; what comes back is described by a sentence."""
        for parameter in func.parameters:
            if str(parameter.annotation) == "Any":
                parameter.annotation = None
        func.returns = None

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Let examples be shown as code."""
        if obj.docstring:
            obj.docstring.value = _prepared(obj.docstring.value)


def _prepared(text: str) -> str:
    """Return a docstring with the heading of its examples as griffe knows it, or its examples in fences."""
    if "\nExample:\n" in text:
        return re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
    return str(_PAGES["markdown_of"](text)) if "    >>>" in text else text


def _show_as_function(package: griffe.Module, path: list[str], value: Any) -> None:
    member = package
    for name in path:
        if name not in member.members:
            return
        member = member.members[name]
        if member.is_alias:
            target = member.target_path.removeprefix(f"{package.name}.").split(".")
            return _show_as_function(package, target, value)
    if not member.is_attribute or not inspect.isroutine(value) or not inspect.getdoc(value):
        return
    function = griffe.Function(member.name, parameters=_parameters(value), docstring=_docstring(value))
    member.parent.set_member(member.name, function)


def _docstring(function: Any) -> griffe.Docstring:
    return griffe.Docstring(_prepared(inspect.getdoc(function) or ""), parser="google")


def _parameters(function: Any) -> griffe.Parameters:
    kinds = {
        inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
        inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
        inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
        inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
        inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
    }
    empty = {inspect.Parameter.VAR_POSITIONAL: "()", inspect.Parameter.VAR_KEYWORD: "{}"}
    return griffe.Parameters(
        *(
            griffe.Parameter(p.name, kind=kinds[p.kind], default=empty.get(p.kind) if p.default is p.empty else repr(p.default))
            for p in inspect.signature(function).parameters.values()
        )
    )
