"""The choice between SciPy's own function and one that is differentiated.

@differentiates(scipy.linalg.expm)    the decorated function runs where a trace follows an argument;
                                      elsewhere SciPy's own does, with its speed, warnings and errors
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from fgrad.ops.tracing import run

F = TypeVar("F", bound=Callable[..., Any])


def differentiates(function: Any) -> Callable[[F], F]:
    """Let a function of SciPy answer where nothing is traced, and the decorated one where something is.

    Containers among the arguments are looked into. Where SciPy answers for tensors, its arrays are
    returned as tensors.
    """

    def enter(answer: Any) -> Any:
        @functools.wraps(answer)
        def choose(*args: Any, **keywords: Any) -> Any:
            return run(function, answer, args, keywords)

        return choose

    return enter
