"""Random numbers with derivatives: `default_rng(seed)` is NumPy's generator, with the same numbers.

    >>> import fgrad as fg
    >>> rng = fg.random.default_rng(7)
    >>> fg.grad(lambda spread: rng.normal(1.0, spread))(2.0)
    Tensor(0.00123015)

Draws of continuous distributions have derivatives with respect to their parameters: location and scale, shapes such as
those of the gamma, beta and Student's t distributions, mean and covariance. Those of discrete ones have none:
`fg.score_function` differentiates their expectations.
"""

import typing as _typing

import fgrad.core as _core  # noqa: F401  # first, so that threads import it in one order
from fgrad.errors import hints as _names
from fgrad.random.generator import Generator, default_rng

__all__ = ["Generator", "default_rng"]

__dir__ = __all__.copy

if not _typing.TYPE_CHECKING:  # keep mypy's errors for undefined names

    def __getattr__(name):
        raise _names.missing_name(__name__, name)
