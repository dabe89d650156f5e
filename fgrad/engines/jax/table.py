"""The table of primitives in JAX: one line each, mostly with the same name.

    rule_of(name)            the function of arrays that computes a primitive, or None
    @lowers("scale")         register one: `rule(*arrays, **metadata)`
    @refuses("solve")        register a check for NumPy's errors: `check(result, *arrays, **metadata)`

Arrays have the dtypes in which NumPy computes: for ufuncs those of NumPy's loop, for other primitives the precision
of the result, and for `AS_GIVEN` their own. Results are cast to the recorded dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.engines.jax.library import named
from fgrad.native.composites import COMPOSITES
from fgrad.native.scalars import SCALAR_OPERATIONS

Rule = Callable[..., Any]

# fmt: off
SAME_NAMES = {
    "numpy": (
        "nextafter", "ldexp", "frexp", "spacing", "bitwise_count", "left_shift", "right_shift", "gcd",
        "lcm", "conjugate", "real", "imag", "round", "matmul", "reshape", "transpose", "broadcast_to", "cumsum",
        "cumprod", "nanmax", "nanmin", "prod", "all", "any", "roll", "searchsorted", "cross",
        "polyval",
    ),
    "numpy.linalg": ("solve", "det"),
    "numpy.fft": ("fft", "ifft", "rfft", "irfft"),
    "scipy.special": (
        "beta", "betainc", "betaln", "boxcox", "boxcox1p", "entr", "erfinv", "exp1", "expi", "fresnel", "gamma",
        "gammainc", "gammaincc", "gammaln", "gammasgn", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr", "logit",
        "logsumexp", "ndtr", "ndtri", "poch", "rel_entr", "sici", "spence", "erfcx", "dawsn", "expn", "hyp1f1",
        "hyp2f1", "owens_t", "wofz",
    ),
    "scipy.linalg": ("expm",),
}
"""Primitives with the same name in JAX, by module; `SCALAR_OPERATIONS` has those of single numbers."""

OTHER_NAMES = {
    "psi": "scipy.special.digamma", "hurwitz_zeta": "scipy.special.zeta", "special_cbrt": "numpy.cbrt",
    "special_exp2": "numpy.exp2", "special_expm1": "numpy.expm1", "special_log1p": "numpy.log1p",
    "special_round": "numpy.rint", "stop_gradient": "lax.stop_gradient",
}
"""Primitives with another name in JAX."""

AS_GIVEN = {
    "index", "scatter", "replace", "permute", "unpermute", "tally", "astype", "real", "imag", "argmax",
    "argmin", "all", "any", "searchsorted", "isin", "lexsort", "stable_order", "argsorted", "rank_places",
    "solve_factored", "max", "min", "sealed", "unknown", "round",
}
"""Primitives whose arguments keep their dtypes."""
# fmt: on

NAMES: dict[str, str] = {name: f"{row.jax}.{name}" for name, row in SCALAR_OPERATIONS.items() if row.jax}
NAMES.update({name: f"{module}.{name}" for module, names in SAME_NAMES.items() for name in names})
NAMES.update(OTHER_NAMES)

RULES: dict[str, Rule] = {}
"""Rules with code of their own."""

REFUSALS: dict[str, Rule] = {}
"""Checks for cases in which NumPy raises, or has a different result, as booleans."""

MADE_OF_OTHERS = {"unitary_factor"} | COMPOSITES - {
    "central_difference", "beta_distribution_inverse", "f_distribution_inverse", "f_distribution_tail",
    "gamma_distribution_inverse", "student_distribution_inverse", "student_distribution_tail",
}  # fmt: skip
"""Primitives whose NumPy implementation is recorded in their place."""


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of primitives."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def refuses(*names: str) -> Callable[[Rule], Rule]:
    """Register a check for invalid results, because NumPy would have raised, or has a different result."""

    def register(check: Rule) -> Rule:
        REFUSALS.update(dict.fromkeys(names, check))
        return check

    return register


def is_lowered(name: str) -> bool:
    """Return whether there is a rule, as far as this is known without JAX."""
    return name in RULES or name in NAMES or name in MADE_OF_OTHERS


def rule_of(name: str) -> Rule | None:
    """Return the function that computes a primitive; None if this version of JAX has none."""
    return RULES[name] if name in RULES else named(NAMES[name]) if name in NAMES else None
