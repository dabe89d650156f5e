"""`scipy.special`, with the derivatives of `fgrad.scipy.special`."""

from typing import Any

import scipy.special

import fgrad.scipy.special
from fgrad.compat.autograd.namespaces import gathered, members
from fgrad.typing import ArrayLike

__getattr__, __dir__ = members(__name__, fgrad.scipy.special, scipy.special)


def logsumexp(a: ArrayLike, *args: Any, **kwargs: Any) -> Any:
    """Return the logarithm of a sum of exponentials, as SciPy's `logsumexp`; `a` may be a list of traced numbers."""
    return fgrad.scipy.special.logsumexp(gathered(a), *args, **kwargs)
