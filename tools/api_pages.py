"""A hook of MkDocs: the pages of the API reference, one for each public module, from the names that it exports.

Users import names from where they are re-exported, so a page lists these, and not where they are defined.
"""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType
from typing import Any

import numpy as np
from mkdocs.structure.files import File, Files

from fgrad.ops.creation import CONSTRUCTORS

_TENSORFLOW = "fgrad.compat.tensorflow"
_AUTOGRAD = "fgrad.compat.autograd"

PUBLIC = (
    "fgrad",
    "fgrad.distributed",
    "fgrad.errors",
    "fgrad.extend",
    "fgrad.interop",
    "fgrad.numpy",
    "fgrad.optimizers",
    "fgrad.optimizers.schedules",
    "fgrad.plot",
    "fgrad.progress",
    "fgrad.random",
    "fgrad.scipy.integrate",
    "fgrad.scipy.interpolate",
    "fgrad.scipy.linalg",
    "fgrad.scipy.ndimage",
    "fgrad.scipy.optimize",
    "fgrad.scipy.signal",
    "fgrad.scipy.sparse",
    "fgrad.scipy.sparse.linalg",
    "fgrad.scipy.spatial.distance",
    "fgrad.scipy.special",
    "fgrad.scipy.stats",
    "fgrad.testing",
    "fgrad.tree",
    "fgrad.typing",
    _TENSORFLOW,
    *(f"{_TENSORFLOW}.{name}" for name in ("linalg", "math", "nn", "random", "train", "contrib.eager")),
    "fgrad.compat.tensorflow1",
    _AUTOGRAD,
)

GROUPS = ("fgrad.loops", "fgrad.sparse", "fgrad.uncertainty")
"""Modules that group names of `fgrad` itself, on whose page these stand."""

TOPICS = {
    "Gradients": "grad value_and_grad gradients_function value_and_gradients_function implicit_gradients "
    "implicit_value_and_gradients elementwise_grad",
    "Products": "vjp make_vjp jvp linearize hvp gauss_newton_vp",
    "Whole derivatives, and batching": "jacobian jacfwd jacrev hessian vmap",
    "High orders": "taylor derivatives laplacian",
    "Sparse derivatives": "sparsity sparse_jacobian sparse_hessian SparsePlan",
    "Tape": "GradientTape gradients UnconnectedGradients ForwardAccumulator",
    "Tensors and variables": "Tensor constant convert_to_tensor is_traced to_numpy stack Variable "
    "ExponentialMovingAverage",
    "What is differentiated, and what is kept": "stop_gradient custom_gradient custom_vjp custom_jvp implicit_diff "
    "checkpoint score_function",
    "Loops and branches": "scan fori_loop while_loop map cond switch",
    "Seeing and being told": "explain check debug_nans debug_overwrites debug_lines profile trace Graph",
    "Compiling": "compile Compiled Inspection load_exported to_jax",
    "Uncertainty": "propagate standard_errors parameter_covariance",
    "Clipping": "clip_by_value clip_by_norm clip_by_global_norm global_norm",
    "Containers and files": "tree_map tree_leaves register_pytree_node register_dataclass save load",
}
"""The names of `fgrad` itself, by what they are for."""


def exports(module: ModuleType) -> list[str]:
    """Return the names of a module that have an entry on its page."""
    if module.__name__ == "fgrad.numpy":
        return list(CONSTRUCTORS)  # which it finds when they are asked for
    if module.__name__ == f"{_TENSORFLOW}1":
        return []  # all that the other namespace has
    return [name for name in module.__all__ if not _has_other_page(getattr(module, name))]


def _has_other_page(value: Any) -> bool:
    """Return whether a value is a module, or documented by NumPy or SciPy."""
    is_fgrads = str(getattr(value, "__module__", "fgrad")).startswith("fgrad")
    return isinstance(value, (ModuleType, np.ufunc)) or not is_fgrads


def page(name: str) -> str:
    """Return the page of a module as Markdown."""
    module = importlib.import_module(name)
    parts = [f"# `{name}`", markdown_of(module.__doc__ or "")]
    if name == "fgrad":
        parts += [f"## {topic}\n\n" + _entries(name, names.split()) for topic, names in TOPICS.items()]
    elif name == "fgrad.numpy" or name.startswith((_TENSORFLOW, _AUTOGRAD)):
        parts.append(_table(module))
    else:
        parts.append(_entries(name, sorted(exports(module))))
    return "\n\n".join(parts) + "\n"


OPTIONS = {
    "fgrad.errors": "{separate_signature: false, show_signature: false}",  # nobody but the library makes them
    "fgrad.scipy.stats": "{separate_signature: false, show_attribute_values: false, show_labels: false}",  # formulas
    "fgrad.Compiled": "{members: [inspect], merge_init_into_class: false}",
    "fgrad.SparsePlan": "{members: [shape, count], merge_init_into_class: false}",
    "fgrad.Tensor": "{members: [numpy, item, tolist], inherited_members: true}",  # all others are NumPy's
}
"""How the names of a module, or one name, are shown."""


def _entries(module: str, names: list[str]) -> str:
    return "\n\n".join(_entry(module, f"{module}.{name}") for name in names)


def _entry(module: str, path: str) -> str:
    options = OPTIONS.get(path) or OPTIONS.get(module)
    return f"::: {path}" + (f"\n    options: {options}" if options else "")


def markdown_of(docstring: str) -> str:
    """Return a module's docstring with its examples as code that can be copied, as those of functions are."""
    blocks = []
    for block in docstring.strip().split("\n\n"):
        if all(line.startswith("    ") for line in block.split("\n")):
            code = "\n".join(line[4:] for line in block.split("\n"))
            block = _table_of(code) or f"```{'pycon' if code.startswith('>>>') else 'text'}\n{code}\n```"
        blocks.append(block)
    return "\n\n".join(blocks)


def _table_of(text: str) -> str:
    """Return two columns of text, names and what they are for, as a table; nothing if the text has not two columns."""
    rows = [re.fullmatch(r"(\S+(?: \S+)*) {2,}(\S.*)", line) for line in text.split("\n")]
    found = [row.groups() for row in rows if row]
    if text.startswith(">>>") or len(found) < max(2, len(rows)):
        return ""
    names = (left if "(" in left else left.replace(", ", "`, `") for left, _ in found)
    lines = [f"| `{left}` | {right} |" for left, (_, right) in zip(names, found, strict=True)]
    return "\n".join(["| names | what they are for |", "| --- | --- |", *lines])


def _table(module: ModuleType) -> str:
    """Return names with a line each, where more is in the documentation of NumPy or TensorFlow."""
    values = {name: getattr(module, name) for name in sorted(exports(module), key=str.lower)}
    if not values:
        return ""
    rows = [f"| {_called(name, value)} | {first_sentence(name, value)} |" for name, value in values.items()]
    return "\n".join(["| name | what it is |", "| --- | --- |", *rows])


def _called(name: str, value: Any) -> str:
    """Return how something is called, without types and NumPy's rarer keywords."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return f"`{name}`"
    if isinstance(value, type):
        return f"`{name}`"
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = [
        stars.get(p.kind, "") + p.name + ("" if p.default is p.empty else f"={_shown(p.default)}")
        for p in parameters
        if p.name not in ("like", "device", "subok", "order")
    ]
    return f"`{name}({', '.join(shown)})`"


def _shown(default: Any) -> str:
    return str(default.__name__ if isinstance(default, type) else repr(default))


def first_sentence(name: str, value: Any) -> str:
    """Return what something is: the first line of its docstring that is no signature; of a constant, its value."""
    if isinstance(value, (str, np.dtype)):
        return f"`{value!r}`"
    if isinstance(value, type) and value.__module__ == "numpy":
        return f"NumPy's `{value.__name__}`."
    lines = (inspect.getdoc(value) or "").splitlines()
    signatures = f"{name}(", f"{getattr(value, '__name__', name)}("
    return next((line for line in lines if line and not line.startswith(signatures)), "")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages to those that lie in `docs`."""
    for name in PUBLIC:
        files.append(File.generated(config, f"api/{name}.md", content=page(name)))
    return files
