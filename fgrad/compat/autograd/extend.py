"""The extension interface, under the names of `autograd.extend`."""

from fgrad.compat.autograd.core import (
    JVPNode,
    SparseObject,
    VJPNode,
    VSpace,
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    deflinear,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    vspace,
)
from fgrad.compat.autograd.tracer import Box, notrace_primitive, primitive, register_notrace

__all__ = [
    "Box", "JVPNode", "SparseObject", "VJPNode", "VSpace", "def_linear", "defjvp", "defjvp_argnum", "defjvp_argnums",
    "deflinear", "defvjp", "defvjp_argnum", "defvjp_argnums", "notrace_primitive", "primitive", "register_notrace",
    "vspace",
]  # fmt: skip
