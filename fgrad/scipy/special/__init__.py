"""Special functions, as in `scipy.special`.

SciPy's own names work on tensors without this module: `scipy.special.gammaln(t)`. It has them all again,
and those that do not dispatch.
"""

from fgrad.ops.reductions import logsumexp as logsumexp
