"""An extension of griffe, which reads the sources for the API reference: what it has to know of fgrad's docstrings.

Functions that are made by calls, such as `bisect = _bracketed(...)`, are shown as the functions that they are; so are
those of `fgrad.scipy`, whose decorators complete the docstring and may give the parameters of their family. Classes
that are made from declarations of their parameters are shown with these. Examples of errors have their messages, by
which the search of the site finds them.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import runpy
from inspect import Parameter
from pathlib import Path
from typing import Any

import griffe

from fgrad.optimizers.declared import declarations

_PAGES = runpy.run_path(str(Path(__file__).with_name("api_pages.py")))
_MESSAGES = runpy.run_path(str(Path(__file__).with_name("error_messages.py")))
_KINDS = {
    Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}


class Docstrings(griffe.Extension):
    """Prepares docstrings and signatures for the pages."""

    def on_package(self, *, pkg: griffe.Module, loader: Any, **_: Any) -> None:
        """Put functions in the place of values that are functions, and complete those of families."""
        for module_name in _PAGES["PUBLIC"]:
            module = importlib.import_module(module_name)
            for name in _PAGES["exports"](module):
                value, member = getattr(module, name), _found(pkg, f"{module_name}.{name}")
                if member is None or not inspect.getdoc(value):
                    continue
                if dataclasses.is_dataclass(value) and any(declarations(value)):
                    _as_made(member, value)
                if member.is_function and module_name.startswith("fgrad.scipy"):
                    _complete(member, value)
                if not member.is_attribute:
                    continue
                docstring = griffe.Docstring(_prepared(inspect.getdoc(value) or ""), parser="google")
                if inspect.isroutine(value):
                    function = griffe.Function(member.name, parameters=_parameters(value), docstring=docstring)
                    member.parent.set_member(member.name, function)
                elif member.docstring is None:
                    member.docstring = docstring  # of its class

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Leave out types that say nothing; what comes back is described by a sentence."""
        for parameter in func.parameters:
            if str(parameter.annotation) in ("Any", "object"):
                parameter.annotation = None
        func.returns = None

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Let examples be shown as code."""
        if obj.docstring:
            text = obj.docstring.value
            if obj.is_class and obj.path.startswith("fgrad.errors."):
                text = _MESSAGES["with_messages"](text)
            obj.docstring.value = _prepared(text)


def _as_made(member: griffe.Class, cls: Any) -> None:
    """Show a class with the parameters and the docstring that were made from its declarations."""
    member.docstring = griffe.Docstring(_prepared(inspect.getdoc(cls) or ""), parser="google", parent=member)
    member.set_member("__init__", griffe.Function("__init__", parameters=_parameters(cls.__init__), parent=member))


def _complete(member: griffe.Function, function: Any) -> None:
    """Let a function that was read from its source have the docstring and the parameters that it has when it runs."""
    if member.docstring:
        member.docstring.value = inspect.getdoc(function) or ""
    parameters, types = _parameters(function), {p.name: p.annotation for p in member.parameters}
    if [p.name for p in parameters] != list(types):
        for parameter in parameters:
            parameter.annotation = parameter.annotation or types.get(parameter.name)
        member.parameters = parameters


def _prepared(text: str) -> str:
    """Return a docstring with the heading of its examples as griffe knows it, or its examples in fences."""
    if "\nExample:\n" in text:
        return re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
    return str(_PAGES["markdown_of"](text)) if "    >>>" in text else text


def _found(package: griffe.Module, path: str) -> Any:
    """Return what a path means, also where another module exports it."""
    member: Any = package
    for name in path.split(".")[1:]:
        if name not in member.members:
            return None
        member = member.members[name]
        if member.is_alias:
            return _found(package, member.target_path)
    return member


def _parameters(function: Any) -> griffe.Parameters:
    return griffe.Parameters(
        *(
            griffe.Parameter(p.name, kind=_KINDS[p.kind], default=_default(p), annotation=_type(p))
            for p in inspect.signature(function).parameters.values()
        )
    )


def _type(parameter: Parameter) -> str | None:
    return parameter.annotation if isinstance(parameter.annotation, str) else None


def _default(parameter: Parameter) -> str | None:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return "()"
    if parameter.kind is Parameter.VAR_KEYWORD:
        return "{}"
    return None if parameter.default is Parameter.empty else repr(parameter.default)
