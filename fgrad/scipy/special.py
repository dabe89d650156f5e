"""Special functions, as in `scipy.special`."""

from fgrad.ops.reductions import logsumexp as logsumexp
