"""TensorFlow's operations: one table with a line for each public name, and generic tests over it.

Each line gives NumPy's answer to a call. The call is made eagerly, and deferred in a graph with constants
and with placeholders of unknown sizes; its gradients are compared with finite differences, eagerly and in
the graph. What has no gradient in TensorFlow must have None in both.
"""

import dataclasses
import math as numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import in_groups, naming
from scipy import special

import fgrad as fg
import fgrad.testing
from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.graph import Graph, GraphTensor, Placeholder, operation
from fgrad.compat.deferred.session import Session
from fgrad.compat.deferred.state import GraphVariable, global_variables_initializer
from fgrad.compat.deferred.symbolic import gradients
from fgrad.compat.tensorflow import arrays, dtypes, initializers, linalg, math, nn, random
from fgrad.core.primitive import FUNCTIONS

MODULES = {"arrays": arrays, "math": math, "linalg": linalg, "nn": nn, "random": random, "initializers": initializers}
HELPERS = {f"fgrad.compat.tensorflow.{name}" for name in ("arguments", "formulas", "missing")}


@dataclasses.dataclass
class Row:
    """One call.

    Attributes:
        name: `module.function`.
        reference: what NumPy answers to `arrays`, in double precision.
        arrays: the tensors to call with.
        call: from the function and the tensors to the results.
        gradient: whether there are gradients; a tuple of the places of the arrays that have them.
        missing: a function of NumPy that has no derivative rule in fgrad yet, perhaps.
        by_values: whether the shape of the result depends on values.
        step: of the finite differences.
    """

    name: str
    reference: Callable[..., Any]
    arrays: tuple[Any, ...]
    call: Callable[..., Any]
    gradient: Any = True
    missing: Any = None
    by_values: bool = False
    step: float = 1e-5

    @property
    def function(self) -> Any:
        module, name = self.name.split(".")
        return getattr(MODULES[module], name)

    def __call__(self, *tensors: Any) -> list[Any]:
        return flat(self.call(self.function, *tensors))

    def expects_gradient(self, place: int) -> bool:
        if self.arrays[place].dtype.kind not in "fc":
            return False
        return self.gradient if isinstance(self.gradient, bool) else place in self.gradient


def flat(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def plain_call(function, *tensors):
    return function(*tensors)


TABLE: list[Row] = []


def row(name, reference, *tensors, call=plain_call, **options):
    TABLE.append(Row(name, reference, tuple(np.asarray(x) for x in tensors), call, **options))


X = np.array([[0.3, 0.75, 0.5], [0.9, 0.2, 0.65]])
Y = np.array([[0.55, 0.35, 0.8], [0.15, 0.6, 0.45]])
S = np.array([[-1.3, 0.7, 2.4], [0.4, -0.6, -2.2]])  # of both signs
V = np.array([0.4, -1.2, 0.9])
M = np.array([[2.0, 0.3, -0.4], [0.1, 1.5, 0.6], [-0.7, 0.2, 1.8]])
P = M @ M.T + np.eye(3)  # positive definite
Z = X + 1j * S
CUBE = np.sin(np.arange(24.0)).reshape(2, 3, 4)
INTEGERS = np.array([[3, -2, 5], [7, 2, -4]], np.int32)
TRUTH = np.array([[True, False, True], [True, True, True]])
SPECIAL = np.array([1.0, np.inf, -np.inf, np.nan])
IMAGES = np.cos(np.arange(2 * 5 * 4 * 3) * 0.7).reshape(2, 5, 4, 3)
FILTERS = np.sin(np.arange(3 * 2 * 3 * 2) * 0.9).reshape(3, 2, 3, 2)


def symmetric(x):
    return (x + linalg.matrix_transpose(x)) / 2


# math: of each element
for name, reference, argument in (
    ("abs", np.abs, S), ("negative", np.negative, S), ("sign", np.sign, S), ("square", np.square, S),
    ("sqrt", np.sqrt, X), ("rsqrt", lambda x: 1 / np.sqrt(x), X), ("reciprocal", lambda x: 1 / x, S),
    ("exp", np.exp, S), ("expm1", np.expm1, S), ("log", np.log, X), ("log1p", np.log1p, X),
    ("sin", np.sin, S), ("cos", np.cos, S), ("tan", np.tan, X),
    ("asin", np.arcsin, X), ("acos", np.arccos, X), ("atan", np.arctan, S),
    ("sinh", np.sinh, S), ("cosh", np.cosh, S), ("tanh", np.tanh, S),
    ("asinh", np.arcsinh, S), ("acosh", np.arccosh, 1 + X), ("atanh", np.arctanh, X),
    ("conj", np.conj, Z), ("real", np.real, Z), ("imag", np.imag, Z), ("angle", np.angle, Z),
    ("sigmoid", special.expit, S), ("log_sigmoid", special.log_expit, S),
    ("softplus", lambda x: np.log1p(np.exp(x)), S),
    ("erf", special.erf, S), ("erfc", special.erfc, S),
):  # fmt: skip
    row(f"math.{name}", reference, argument)
for name, reference, argument in (
    ("floor", np.floor, S), ("ceil", np.ceil, S), ("round", np.round, S), ("rint", np.rint, S),
    ("is_nan", np.isnan, SPECIAL), ("is_inf", np.isinf, SPECIAL), ("is_finite", np.isfinite, SPECIAL),
    ("logical_not", np.logical_not, TRUTH),
):  # fmt: skip
    row(f"math.{name}", reference, argument, gradient=False)

# math: of pairs
for name, reference, first, second in (
    ("add", np.add, X, S), ("subtract", np.subtract, X, V), ("multiply", np.multiply, X, V),
    ("truediv", np.divide, X, S), ("divide", np.divide, V, X), ("div", np.divide, V, X),
    ("mod", np.mod, S, 1.1 * Y), ("floormod", np.mod, S, 1.1 * Y), ("pow", np.power, X, S),
    ("maximum", np.maximum, X, Y), ("minimum", np.minimum, X, Y),
    ("squared_difference", lambda x, y: (x - y) ** 2, X, V), ("nextafter", np.nextafter, X, S),
    ("atan2", np.arctan2, X, S),
    ("complex", lambda x, y: x + 1j * y, X, S), ("xlogy", special.xlogy, S, X), ("xlog1py", special.xlog1py, S, X),
    ("xdivy", np.divide, S, X), ("multiply_no_nan", np.multiply, X, S), ("divide_no_nan", np.divide, X, S),
    ("scalar_mul", np.multiply, np.array(0.7), S),
):  # fmt: skip
    row(f"math.{name}", reference, first, second)
for name, reference, first, second in (
    ("floordiv", np.floor_divide, S, 1.1 * Y), ("equal", np.equal, X, X), ("not_equal", np.not_equal, X, Y),
    ("less", np.less, X, Y), ("less_equal", np.less_equal, X, Y), ("greater", np.greater, X, Y),
    ("greater_equal", np.greater_equal, X, X), ("logical_and", np.logical_and, TRUTH, TRUTH[:1]),
    ("logical_or", np.logical_or, TRUTH, TRUTH[:1]), ("logical_xor", np.logical_xor, TRUTH, TRUTH[:1]),
):  # fmt: skip
    row(f"math.{name}", reference, first, second, gradient=False)
row("math.div", lambda x: np.array([[1, -1, 2], [3, 1, -2]], np.int32), INTEGERS, call=lambda f, x: f(x, 2))
row("math.add_n", lambda x, y: x + y + x, X, S, call=lambda f, x, y: f([x, y, x]))
row("math.accumulate_n", lambda x, y: x + y, X, S, call=lambda f, x, y: f([x, y]))

# math: along axes
for name, reference in (
    ("sum", np.sum), ("prod", np.prod), ("mean", np.mean), ("max", np.max), ("min", np.min),
    ("variance", np.var), ("std", np.std),
):  # fmt: skip
    row(f"math.reduce_{name}", reference, S)
    row(f"math.reduce_{name}", lambda x, f=reference: f(x, axis=1), S, call=lambda f, x: f(x, 1))
    row(f"math.reduce_{name}", lambda x, f=reference: f(x, axis=(0, 2), keepdims=True), CUBE,
        call=lambda f, x: f(x, axis=[0, -1], keepdims=True))  # fmt: skip
row("math.reduce_logsumexp", lambda x: special.logsumexp(x, axis=1), S, call=lambda f, x: f(x, axis=1))
row("math.reduce_euclidean_norm", lambda x: np.linalg.norm(x, axis=0), S, call=lambda f, x: f(x, axis=0))
row("math.reduce_any", lambda x: np.any(x, axis=1), TRUTH, call=lambda f, x: f(x, 1), gradient=False)
row("math.reduce_all", lambda x: np.all(x, axis=0), TRUTH, call=lambda f, x: f(x, 0), gradient=False)
row("math.count_nonzero", np.count_nonzero, np.array([0.0, 2.0, 3.0]), gradient=False)
row("math.argmax", lambda x: np.argmax(x, axis=1), S, call=lambda f, x: f(x, 1), gradient=False)
row("math.argmin", lambda x: np.argmin(x, axis=0), S, gradient=False)
row("math.cumsum", lambda x: np.cumsum(x, axis=1), S, call=lambda f, x: f(x, 1))
row(
    "math.cumsum",
    lambda x: np.cumsum(x[::-1], axis=0)[::-1] - x,
    S,
    call=lambda f, x: f(x, exclusive=True, reverse=True),
)
row("math.cumprod", lambda x: np.cumprod(x, axis=-1), S, call=lambda f, x: f(x, -1))
row("math.cumprod", lambda x: np.stack([np.ones(3), x[0]]), S, call=lambda f, x: f(x, exclusive=True))
row(
    "math.top_k",
    lambda x: (np.sort(x)[:, :0:-1], np.argsort(x)[:, :0:-1].astype(np.int32)),
    S,
    call=lambda f, x: f(x, 2),
)
row("math.segment_sum", lambda x: np.stack([x[0] + x[1], 0 * x[2], x[2]]), M, call=lambda f, x: f(x, [0, 0, 2]))
row("math.scatter_nd", lambda x: np.stack([0 * x[0], x[0] + x[1], 0 * x[0]]), X,
    call=lambda f, x: f([[1], [1]], x, [3, 3]))  # fmt: skip
row("math.scatter_nd", lambda x: np.array([[0, x[0], 0], [0, 0, x[2] + x[1]]]), V,
    call=lambda f, x: f([[0, 1], [1, 2], [1, 2]], x, (2, 3)))  # fmt: skip
row("math.tensor_scatter_nd_add", lambda x, y: x + np.stack([0 * y, 2 * y]), X, V,
    call=lambda f, x, y: f(x, [[1], [1]], arrays.stack([y, y])))  # fmt: skip
row("math.segment_mean", lambda x: np.stack([(x[0] + x[1]) / 2, 0 * x[2], x[2]]), M, call=lambda f, x: f(x, [0, 0, 2]))
row("math.segment_prod", lambda x: np.stack([x[0] * x[1], 1 + 0 * x[2], x[2]]), M, call=lambda f, x: f(x, [0, 0, 2]))
row("math.segment_max", lambda x: np.stack([np.maximum(x[0], x[1]), 0 * x[2], x[2]]), M,
    call=lambda f, x: f(x, [0, 0, 2]))  # fmt: skip
row("math.segment_min", lambda x: np.stack([np.minimum(x[0], x[1]), 0 * x[2], x[2]]), M,
    call=lambda f, x: f(x, [0, 0, 2]))  # fmt: skip
row("math.unsorted_segment_sum", lambda x: np.stack([x[1], x[0]]), M, call=lambda f, x: f(x, [1, 0, -1], 2))

# math: products and limits
row("math.matmul", np.matmul, X, M)
row("math.matmul", lambda x, y: x.T @ y.T, X, np.cos(np.arange(8.0)).reshape(4, 2),
    call=lambda f, x, y: f(x, y, transpose_a=True, transpose_b=True))  # fmt: skip
row("math.matmul", lambda x, y: x.conj().T @ y, Z, Z, call=lambda f, x, y: f(x, y, adjoint_a=True))
row("math.tensordot", lambda x, y: np.tensordot(x, y, 1), X, M, call=lambda f, x, y: f(x, y, 1))
row("math.tensordot", lambda x, y: np.tensordot(x, y, [[1], [0]]), CUBE, M, call=lambda f, x, y: f(x, y, [[1], [0]]))
row("math.einsum", lambda x, y: x @ y.T, X, M, call=lambda f, x, y: f("ij,kj->ik", x, y))
row("math.l2_normalize", lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), S, call=lambda f, x: f(x, axis=1))
row("math.clip_by_value", lambda x: np.clip(x, -1, 1), S, call=lambda f, x: f(x, -1.0, 1.0))
row("math.clip_by_norm", lambda x: x / np.linalg.norm(x), S, call=lambda f, x: f(x, 1.0))
row(
    "math.clip_by_norm",
    lambda x: x / np.linalg.norm(x, axis=1, keepdims=True),
    S,
    call=lambda f, x: f(x, 1.0, axes=[1]),
)
row("math.clip_by_average_norm", lambda x: 0.6 * x / np.linalg.norm(x), S, call=lambda f, x: f(x, 0.1))
row("math.global_norm", lambda x, y: np.sqrt(np.sum(x**2) + np.sum(y**2)), S, V, call=lambda f, x, y: f([x, None, y]))
NORM = np.sqrt(np.sum(S**2) + np.sum(V**2))
row("math.clip_by_global_norm", lambda x, y: (x / NORM, y / NORM, NORM), S, V,
    call=lambda f, x, y: (lambda clipped, norm: [clipped[0], clipped[2], norm])(*f([x, None, y], 1.0)))  # fmt: skip

# arrays: new tensors
CONSTANT: dict[str, Any] = {"gradient": False}
row("arrays.zeros", lambda: np.zeros((2, 3)), call=lambda f: f([2, 3]), **CONSTANT)
row("arrays.zeros", lambda: np.zeros((), np.int32), call=lambda f: f((), dtypes.int32), **CONSTANT)
row("arrays.ones", lambda: np.ones(3), call=lambda f: f(3), **CONSTANT)
row("arrays.zeros_like", np.zeros_like, X, **CONSTANT)
row("arrays.ones_like", lambda x: np.ones(x.shape, np.int32), X, call=lambda f, x: f(x, "int32"), **CONSTANT)
row("arrays.fill", lambda x: np.full((2, 3), x), np.array(0.7), call=lambda f, x: f([2, 3], x))
row("arrays.range", lambda: np.arange(5, dtype=np.int32), call=lambda f: f(5), **CONSTANT)
row("arrays.range", lambda: np.arange(1, 2, 0.25), call=lambda f: f(1, 2, 0.25), **CONSTANT)
row("arrays.linspace", lambda: np.linspace(0, 1, 5), call=lambda f: f(0.0, 1, 5))
row("arrays.linspace", lambda x, y: np.linspace(x, y, 4), 0.5, -2.0, call=lambda f, x, y: f(x, y, 4))
row("arrays.linspace", lambda x, y: np.linspace(x, y, 3, axis=-1), V, -V,
    call=lambda f, x, y: f(x, y, 3, axis=-1))  # fmt: skip
row("arrays.eye", lambda: np.eye(3), call=lambda f: f(3), **CONSTANT)
row("arrays.eye", lambda: np.stack([np.eye(2, 3)] * 2), call=lambda f: f(2, 3, batch_shape=[2]), **CONSTANT)
row("arrays.one_hot", lambda x: np.eye(3)[[2, 0]], np.array([2, 0], np.int32), call=lambda f, x: f(x, 3), **CONSTANT)
row("arrays.one_hot", lambda x: np.array([[5, 5], [5, 7], [5, 5]], np.int32), np.array([-1, 1], np.int32),
    call=lambda f, x: f(x, 3, 7, 5, axis=0), **CONSTANT)  # fmt: skip

# arrays: conversions and facts
row("arrays.convert_to_tensor", lambda x: x, X)
row("arrays.identity", lambda x: x, X)
row("arrays.cast", lambda x: x.astype(complex), X, call=lambda f, x: f(x, np.result_type(x.dtype, np.complex64)))
row("arrays.cast", lambda x: x.astype(np.int32), S, call=lambda f, x: f(x, dtypes.int32), **CONSTANT)
row("arrays.to_float", lambda x: x, INTEGERS * 1.0, step=0.25)
row("arrays.to_double", lambda x: x.astype(np.longdouble), S)  # what is not double is compared as it is
row("arrays.to_int32", lambda x: x.astype(np.int32), S, **CONSTANT)
row("arrays.to_int64", lambda x: x.astype(np.int64), S, **CONSTANT)
row("arrays.stop_gradient", lambda x: x, X, **CONSTANT)
row("arrays.shape", lambda x: np.array(x.shape, np.int32), CUBE, **CONSTANT)
row("arrays.size", lambda x: np.int32(x.size), CUBE, **CONSTANT)
row("arrays.rank", lambda x: np.int32(3), CUBE, **CONSTANT)
row("arrays.ensure_shape", lambda x: x, X, call=lambda f, x: f(x, [None, 3]))

# arrays: moving elements
row("arrays.reshape", lambda x: x.reshape(3, 2), X, call=lambda f, x: f(x, [3, -1]))
row("arrays.transpose", np.transpose, CUBE)
row("arrays.transpose", lambda x: x.transpose(1, 0, 2), CUBE, call=lambda f, x: f(x, perm=[1, 0, 2]))
row("arrays.squeeze", lambda x: x[:, 0], X[:, None], call=lambda f, x: f(x, [1]))
row("arrays.expand_dims", lambda x: x[:, None], X, call=lambda f, x: f(x, 1))
row("arrays.broadcast_to", lambda x: np.broadcast_to(x, (2, 3)), V, call=lambda f, x: f(x, [2, 3]))
row("arrays.tile", lambda x: np.tile(x, (2, 3)), X, call=lambda f, x: f(x, [2, 3]))
row("arrays.repeat", lambda x: np.repeat(x, [2, 0, 1], axis=1), X, call=lambda f, x: f(x, [2, 0, 1], axis=1))
row("arrays.repeat", lambda x: np.repeat(x, 2), X, call=lambda f, x: f(x, 2))
row("arrays.reverse", lambda x: x[::-1, :, ::-1], CUBE, call=lambda f, x: f(x, [0, 2]))
row("arrays.roll", lambda x: np.roll(x, (1, -5), (0, 2)), CUBE, call=lambda f, x: f(x, [1, -5], [0, 2]))
row("arrays.pad", lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=7), X,
    call=lambda f, x: f(x, [[1, 0], [0, 2]], constant_values=7))  # fmt: skip
row(
    "arrays.pad",
    lambda x: np.pad(x, ((1, 1), (0, 2)), "reflect"),
    X,
    call=lambda f, x: f(x, [[1, 1], [0, 2]], "REFLECT"),
)
row("arrays.pad", lambda x: np.pad(x, ((2, 1), (0, 2)), "symmetric"), X,
    call=lambda f, x: f(x, [[2, 1], [0, 2]], "SYMMETRIC"))  # fmt: skip
row("arrays.concat", lambda x, y: np.concatenate([x, y, x], 1), X, Y, call=lambda f, x, y: f([x, y, x], 1))
row("arrays.stack", lambda x, y: np.stack([x, y], 1), X, Y, call=lambda f, x, y: f([x, y], axis=1))
row("arrays.unstack", lambda x: list(x.T), X, call=lambda f, x: f(x, 3, axis=1))
row("arrays.split", lambda x: np.split(x, 2, 2), CUBE, call=lambda f, x: f(x, 2, axis=2))
row("arrays.split", lambda x: [x[:, :, :1], x[:, :, 1:3], x[:, :, 3:]], CUBE, call=lambda f, x: f(x, [1, -1, 1], 2))
row("arrays.meshgrid", np.meshgrid, V, V[:2])
row(
    "arrays.meshgrid",
    lambda x, y: np.meshgrid(x, y, indexing="ij"),
    V,
    V[:2],
    call=lambda f, x, y: f(x, y, indexing="ij"),
)
row("arrays.diag", np.diag, V)
row("arrays.diag", lambda x: np.diag(x.ravel()).reshape(2, 3, 2, 3), X)

# arrays: choosing and ordering
row("arrays.slice", lambda x: x[1:, 0:2], X, call=lambda f, x: f(x, [1, 0], [-1, 2]))
row("arrays.strided_slice", lambda x: x[0:2, 2:0:-1], X, call=lambda f, x: f(x, [0, 2], [2, 0], [1, -1]))
row("arrays.strided_slice", lambda x: x[..., None, 1, :2], CUBE,
    call=lambda f, x: f(x, [0, 0, 1, 3], [0, 0, 0, 2], [1, 1, 1, 1], 8, 0, 1, 2, 4))  # fmt: skip
row("arrays.strided_slice", lambda x: x[1:, ::-2], X, call=lambda f, x: f(x, [1, 0], [1, 0], [1, -2], 2, 3))
row("arrays.gather", lambda x: x[[[0], [1]], [[2, 0], [1, 1]]], X,
    call=lambda f, x: f(x, [[2, 0], [1, 1]], batch_dims=-1))  # fmt: skip
row("arrays.gather_nd", lambda x: np.stack([x[0, 2, 1], x[1, 0, 3]]), CUBE,
    call=lambda f, x: f(x, [[2, 1], [0, 3]], batch_dims=1))  # fmt: skip
row("arrays.gather", lambda x: x[[1, 0, 1]], X, call=lambda f, x: f(x, [1, 0, 1]))
row("arrays.gather", lambda x: x[:, [[2, 0], [1, 1]]], X, call=lambda f, x: f(x, [[2, 0], [1, 1]], axis=-1))
row("arrays.gather", lambda x: np.stack([x[0, :, [3, 1]].T, x[1, :, [0, 0]].T]), CUBE,
    call=lambda f, x: f(x, [[3, 1], [0, 0]], axis=2, batch_dims=1))  # fmt: skip
row("arrays.gather_nd", lambda x: np.stack([x, x, x]), X, call=lambda f, x: f(x, np.zeros((3, 0), np.int32)))
row("arrays.gather_nd", lambda x: np.stack([x, x], 1), X,
    call=lambda f, x: f(x, np.zeros((2, 2, 0), np.int32), batch_dims=1))  # fmt: skip
row("arrays.gather_nd", lambda x: np.stack([x[1, 2], x[0, 0]]), CUBE, call=lambda f, x: f(x, [[1, 2], [0, 0]]))
row("arrays.boolean_mask", lambda x, mask: x[mask], X, TRUTH, by_values=True)
row(
    "arrays.boolean_mask",
    lambda x: x[:, [0, 2]],
    X,
    call=lambda f, x: f(x, [True, False, True], axis=1),
    by_values=True,
)
row("arrays.where", np.where, TRUTH, X, Y)
row("arrays.where", np.argwhere, TRUTH, gradient=False, by_values=True)
row("arrays.sort", lambda x: np.sort(x, axis=0), S, call=lambda f, x: f(x, 0))
row("arrays.sort", lambda x: -np.sort(-x), S, call=lambda f, x: f(x, direction="DESCENDING"))
row("arrays.argsort", lambda x: np.argsort(x).astype(np.int32), S, **CONSTANT)

# linalg
row("linalg.matvec", lambda x, y: x.T @ y, X, V[:2], call=lambda f, x, y: f(x, y, transpose_a=True))
row("linalg.cross", np.cross, X, S)
row("linalg.matrix_transpose", lambda x: np.swapaxes(x, 1, 2), CUBE)
row("linalg.adjoint", lambda x: x.conj().T, Z)
row("linalg.diag", lambda x: np.stack([np.diag(each) for each in x]), X)
row("linalg.diag", lambda x: np.stack([np.diag(each, 2) for each in x]), X, call=lambda f, x: f(x, k=2))
row("linalg.diag", lambda x: np.diag(x, -1) + 5 * (1 - np.eye(4, k=-1)), V,
    call=lambda f, x: f(x, k=-1, padding_value=5))  # fmt: skip
row("linalg.diag_part", lambda x: np.diagonal(x, 1, axis1=1, axis2=2), CUBE, call=lambda f, x: f(x, k=1))
row("linalg.diag_part", lambda x: np.diagonal(x, -1, axis1=1, axis2=2), CUBE, call=lambda f, x: f(x, k=-1))
row("linalg.diag_part", lambda x: np.diagonal(x, axis1=1, axis2=2), CUBE)
row("linalg.set_diag", lambda x, d: np.where(np.eye(2, 3) > 0, d[:, None], x), X, V[:2])
row("linalg.set_diag", lambda x, d: np.where(np.eye(3, 2) > 0, d, x), X.T, V[:2])
row(
    "linalg.diag",
    lambda d: np.diag(d[0, 1:], 1) + np.diag(d[1]) + np.diag(d[2, :-1], -1),
    M[:3, :3],
    call=lambda f, x: f(x, k=(-1, 1)),
)
row(
    "linalg.diag",
    lambda d: np.diag(d[0, :-1], 1) + np.diag(d[1]) + np.diag(d[2, 1:], -1),
    M[:3, :3],
    call=lambda f, x: f(x, k=(-1, 1), align="LEFT_RIGHT"),
)
row(
    "linalg.diag",
    lambda x: np.pad(np.diag(x, -1), ((0, 0), (0, 1))),
    V[:2],
    call=lambda f, x: f(x, k=-1, num_rows=3, num_cols=4),
)
row(
    "linalg.diag_part",
    lambda x: np.stack(
        [np.stack([np.r_[7.0, np.diag(each, 1)], np.diag(each), np.r_[np.diag(each, -1), 7.0]]) for each in x]
    ),
    CUBE[:, :3, :3],
    call=lambda f, x: f(x, k=(-1, 1), padding_value=7.0),
)
row(
    "linalg.set_diag",
    lambda x, d: np.where(np.eye(3, k=1) > 0, np.r_[0, d][None, :], x),
    M[:3, :3],
    V[:2],
    call=lambda f, x, d: f(x, d, k=1),
)
row("linalg.band_part", lambda x: np.tril(np.triu(x, -1)), M, call=lambda f, x: f(x, 1, 0))
row("linalg.band_part", np.triu, M, call=lambda f, x: f(x, 0, -1))
row("linalg.trace", np.trace, M)
for order in ("euclidean", 1, 2, np.inf, 3):
    row("linalg.norm", lambda x, p=order: np.linalg.norm(x, None if p == "euclidean" else p, axis=1), S,
        call=lambda f, x, p=order: f(x, p, axis=1))  # fmt: skip
for order in ("fro", 1, np.inf):
    row("linalg.norm", lambda x, p=order: np.linalg.norm(x, p, keepdims=True), S,
        call=lambda f, x, p=order: f(x, p, axis=[0, 1], keepdims=True))  # fmt: skip
row("linalg.norm", lambda x: np.linalg.norm(x, 2), S, call=lambda f, x: f(x, 2, axis=(0, 1)), missing=np.linalg.norm)
row("linalg.inv", np.linalg.inv, M, missing=np.linalg.inv)
row("linalg.solve", np.linalg.solve, M, P, missing=np.linalg.solve)
row("linalg.triangular_solve", lambda a, b: np.linalg.solve(np.triu(a).T, b), M, P,
    call=lambda f, a, b: f(a, b, lower=False, adjoint=True), missing=np.linalg.solve)  # fmt: skip
row("linalg.cholesky", np.linalg.cholesky, P, call=lambda f, x: f(symmetric(x)), missing=np.linalg.cholesky)
row("linalg.cholesky_solve", lambda c, b: np.linalg.solve(np.tril(c) @ np.tril(c).T, b), M, P, missing=np.linalg.solve)
row("linalg.lstsq", lambda a, b: np.linalg.lstsq(a, b)[0], X.T, M, missing=np.linalg.solve)
row("linalg.lstsq", lambda a, b: np.linalg.lstsq(a, b)[0], X, X, missing=np.linalg.solve)
row("linalg.lstsq", lambda a, b: np.linalg.lstsq(a, b)[0], X.T, M,
    call=lambda f, a, b: f(a, b, fast=False), missing=np.linalg.pinv)  # fmt: skip
row("linalg.pinv", np.linalg.pinv, X, missing=np.linalg.pinv)
row("linalg.det", np.linalg.det, M, missing=np.linalg.det)
row("linalg.slogdet", np.linalg.slogdet, -M, missing=np.linalg.slogdet)
row("linalg.logdet", lambda x: np.linalg.slogdet(x)[1], P,
    call=lambda f, x: f(symmetric(x)), missing=np.linalg.cholesky)  # fmt: skip
row("linalg.eigvalsh", np.linalg.eigvalsh, P, call=lambda f, x: f(symmetric(x)), missing=np.linalg.eigvalsh)
row("linalg.eigh", lambda x: (np.linalg.eigh(x)[0], np.linalg.eigh(x)[1] ** 2), P,
    call=lambda f, x: (f(symmetric(x))[0], math.square(f(symmetric(x))[1])), missing=np.linalg.eigh)  # fmt: skip
row("linalg.svd", lambda x: np.linalg.svd(x)[1], X, call=lambda f, x: f(x, compute_uv=False), missing=np.linalg.svd)
row("linalg.svd", lambda x: (np.linalg.svd(x)[1], x), X, missing=np.linalg.svd,
    call=lambda f, x: (lambda s, u, v: (s, math.matmul(u * s, v, transpose_b=True)))(*f(x)))  # fmt: skip
row("linalg.qr", lambda x: x, X.T, call=lambda f, x: math.matmul(*f(x)), missing=np.linalg.qr)


# nn
def softmax_of(x):
    return np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)


SELU = (1.0507009873554805, 1.6732632423543772)
row("nn.relu", lambda x: np.maximum(x, 0), S)
row("nn.relu6", lambda x: np.clip(x, 0, 6), 4 * S)
row("nn.leaky_relu", lambda x: np.where(x > 0, x, 0.2 * x), S)
row("nn.elu", lambda x: np.where(x > 0, x, np.expm1(x)), S)
row("nn.selu", lambda x: SELU[0] * np.where(x > 0, x, SELU[1] * np.expm1(x)), S)
row("nn.gelu", lambda x: x * special.ndtr(x), S)
row(
    "nn.gelu",
    lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    S,
    call=lambda f, x: f(x, True),
)
row("nn.swish", lambda x: x * special.expit(x), S)
row("nn.softsign", lambda x: x / (1 + np.abs(x)), S)
row("nn.softmax", softmax_of, S)
row("nn.log_softmax", lambda x: np.log(softmax_of(x)), S)
row("nn.bias_add", np.add, CUBE, np.arange(4.0))
row("nn.bias_add", lambda x, b: x + b[:, None], CUBE, V, call=lambda f, x, b: f(x, b, "NCHW"))
row("nn.xw_plus_b", lambda x, w, b: x @ w + b, X, M, V)
row("nn.embedding_lookup", lambda x: x[[[2, 0], [2, 1]]], M, call=lambda f, x: f(x, [[2, 0], [2, 1]]))
row("nn.embedding_lookup", lambda x: (x / np.linalg.norm(x, axis=1, keepdims=True))[[2, 0]], M,
    call=lambda f, x: f([x], [2, 0], max_norm=1.0))  # fmt: skip
row("nn.batch_normalization", lambda x, m, v, o, s: (x - m) / np.sqrt(v + 0.1) * s + o, S, V, X[0], V[::-1], X[1],
    call=lambda f, *tensors: f(*tensors, 0.1))  # fmt: skip
row(
    "nn.batch_normalization",
    lambda x, m, v: (x - m) / np.sqrt(v),
    S,
    V,
    X[0],
    call=lambda f, x, m, v: f(x, m, v, None, None, 0.0),
)
row("nn.l2_loss", lambda x: np.sum(x**2) / 2, S)
row("nn.moments", lambda x: (np.mean(x, 0), np.var(x, 0)), S, call=lambda f, x: f(x, [0]))
row("nn.zero_fraction", lambda x: np.array(0.5), np.array([0.0, 1.0]), call=lambda f, x: f(x), gradient=False)
row("nn.in_top_k", lambda x: np.array([True, False]), S, call=lambda f, x: f(x, [1, 2], 2), gradient=False)
LABELS = softmax_of(X)
row("nn.softmax_cross_entropy_with_logits", lambda z, x: -np.sum(z * np.log(softmax_of(x)), -1), LABELS, S,
    call=lambda f, z, x: f(labels=z, logits=x))  # fmt: skip
row("nn.softmax_cross_entropy_with_logits_v2", lambda z, x: -np.sum(z * np.log(softmax_of(x)), -1), LABELS, S)
row("nn.sparse_softmax_cross_entropy_with_logits", lambda x: -np.log(softmax_of(x))[[0, 1], [2, 0]], S,
    call=lambda f, x: f(labels=[2, 0], logits=x))  # fmt: skip


def logistic_loss(z, x, weight=1.0):
    return -weight * z * special.log_expit(x) - (1 - z) * special.log_expit(-x)


row("nn.sigmoid_cross_entropy_with_logits", logistic_loss, X, S, call=lambda f, z, x: f(labels=z, logits=x))
row("nn.weighted_cross_entropy_with_logits", logistic_loss, X, S, np.array(2.5))


def windows(x, height, width, stride, padding):
    """Return windows of images: batch, rows, columns, channels, height, width."""
    if padding == "SAME":
        sides = []
        for size, extent in zip(x.shape[1:3], (height, width), strict=True):
            total = max((-(-size // stride) - 1) * stride + extent - size, 0)
            sides.append((total // 2, total - total // 2))
        x = np.pad(x, ((0, 0), *sides, (0, 0)), constant_values=np.nan)
    return np.lib.stride_tricks.sliding_window_view(x, (height, width), (1, 2))[:, ::stride, ::stride]


def correlated(x, filters, stride, padding):
    return np.einsum("nyxchw,hwcf->nyxf", np.nan_to_num(windows(x, 3, 2, stride, padding)), filters)


def correlated_by_channel(x, filters, stride, padding):
    found = np.einsum("nyxchw,hwcf->nyxcf", np.nan_to_num(windows(x, 3, 2, stride, padding)), filters)
    return found.reshape(*found.shape[:3], -1)


for stride, padding in ((1, "VALID"), (2, "SAME"), (1, "SAME")):
    row("nn.depthwise_conv2d", lambda x, w, s=stride, p=padding: correlated_by_channel(x, w, s, p), IMAGES, FILTERS,
        call=lambda f, x, w, s=stride, p=padding: f(x, w, [1, s, s, 1], p))  # fmt: skip
    row("nn.conv2d", lambda x, w, s=stride, p=padding: correlated(x, w, s, p), IMAGES, FILTERS,
        call=lambda f, x, w, s=stride, p=padding: f(x, w, [1, s, s, 1], p))  # fmt: skip
    row("nn.max_pool", lambda x, s=stride, p=padding: np.nanmax(windows(x, 2, 3, s, p), (4, 5)), IMAGES,
        call=lambda f, x, s=stride, p=padding: f(x, [1, 2, 3, 1], s, p))  # fmt: skip
    row("nn.avg_pool", lambda x, s=stride, p=padding: np.nanmean(windows(x, 2, 3, s, p), (4, 5)), IMAGES,
        call=lambda f, x, s=stride, p=padding: f(x, (2, 3), (s, s), p))  # fmt: skip
row("nn.conv2d", lambda x, w: np.moveaxis(correlated(x, w, 1, "VALID"), 3, 1), IMAGES, FILTERS,
    call=lambda f, x, w: f(arrays.transpose(x, [0, 3, 1, 2]), w, 1, "VALID", data_format="NCHW"))  # fmt: skip


ALIASES = {
    "linalg.tensor_diag": arrays.diag, "linalg.matrix_inverse": linalg.inv, "linalg.matrix_determinant": linalg.det,
    "linalg.matrix_solve": linalg.solve, "linalg.matrix_triangular_solve": linalg.triangular_solve,
    "linalg.matrix_diag": linalg.diag, "linalg.matrix_diag_part": linalg.diag_part,
    "linalg.matrix_set_diag": linalg.set_diag, "linalg.matrix_band_part": linalg.band_part,
    "linalg.matrix_solve_ls": linalg.lstsq, "linalg.self_adjoint_eig": linalg.eigh,
    "linalg.self_adjoint_eigvals": linalg.eigvalsh, "nn.silu": nn.swish, "nn.max_pool2d": nn.max_pool,
    "nn.avg_pool2d": nn.avg_pool, "random.random_normal": random.normal, "random.random_uniform": random.uniform,
    "random.random_shuffle": random.shuffle, "random.set_random_seed": random.set_seed,
}  # fmt: skip

# What draws at random: a call that makes a tensor of the shape (500, 40), and the interval, mean and deviation
# of its numbers; None is not checked.
DRAWN: dict[str, tuple[Callable[..., Any], Any]] = {
    "random.normal": (lambda f: f([500, 40], 1.0, 2.0), (-np.inf, np.inf, 1, 2)),
    "random.truncated_normal": (lambda f: f([500, 40], 1.0, 2.0), (-3, 5, 1, 2 * 0.8796)),
    "random.uniform": (lambda f: f([500, 40], -1.0, 3.0), (-1, 3, 1, 4 / np.sqrt(12))),
    "random.stateless_normal": (lambda f: f([500, 40], [1, 2], 1.0, 2.0), (-np.inf, np.inf, 1, 2)),
    "random.stateless_truncated_normal": (lambda f: f([500, 40], [1, 2], 1.0, 2.0), (-3, 5, 1, 2 * 0.8796)),
    "random.stateless_uniform": (lambda f: f([500, 40], [1, 2], -1.0, 3.0), (-1, 3, 1, 4 / np.sqrt(12))),
    "random.shuffle": (lambda f: f(np.arange(500 * 40, dtype=np.float32).reshape(500, 40)), (0, 20000, 9999.5, None)),
    "random.Generator": (lambda f: f.from_seed(3).normal([500, 40], 1.0, 2.0), (-np.inf, np.inf, 1, 2)),
    "nn.dropout": (lambda f: f(np.ones((500, 40), np.float32), rate=0.25), (0, 4 / 3 + 1e-6, 1, np.sqrt(1 / 3))),
    "initializers.Zeros": (lambda f: f()([500, 40]), (0, 0, 0, 0)),
    "initializers.Ones": (lambda f: f()([500, 40]), (1, 1, 1, 0)),
    "initializers.Constant": (lambda f: f(2.5)([500, 40]), (2.5, 2.5, 2.5, 0)),
    "initializers.Identity": (lambda f: f(3.0)([500, 40]), (0, 3, 3 / 500, 3 * np.sqrt(0.002 * 0.998))),
    "initializers.RandomNormal": (lambda f: f(1.0, 2.0)([500, 40]), (-np.inf, np.inf, 1, 2)),
    "initializers.TruncatedNormal": (lambda f: f(1.0, 2.0)([500, 40]), (-3, 5, 1, 2 * 0.8796)),
    "initializers.RandomUniform": (lambda f: f(-1.0, 3.0)([500, 40]), (-1, 3, 1, 4 / np.sqrt(12))),
    "initializers.VarianceScaling": (
        lambda f: f(3.0, "fan_out", "untruncated_normal")([500, 40]), (-np.inf, np.inf, 0, np.sqrt(3 / 40))),
    "initializers.GlorotUniform": (lambda f: f()([500, 40]), (-0.10541, 0.10541, 0, np.sqrt(1 / 270))),
    "initializers.GlorotNormal": (lambda f: f()([500, 40]), (None, None, 0, np.sqrt(1 / 270))),
    "initializers.HeNormal": (lambda f: f()([500, 40]), (None, None, 0, np.sqrt(2 / 500))),
    "initializers.HeUniform": (lambda f: f()([500, 40]), (-0.10955, 0.10955, 0, np.sqrt(2 / 500))),
    "initializers.LecunNormal": (lambda f: f()([500, 40]), (None, None, 0, np.sqrt(1 / 500))),
    "initializers.LecunUniform": (lambda f: f()([500, 40]), (-0.07746, 0.07746, 0, np.sqrt(1 / 500))),
    "initializers.UniformUnitScaling": (lambda f: f(2.0)([500, 40]), (-0.15493, 0.15493, 0, 2 * np.sqrt(1 / 500))),
    "initializers.Orthogonal": (lambda f: f()([500, 40]), (-1, 1, 0, np.sqrt(1 / 500))),
}  # fmt: skip

ELSEWHERE = {  # with tests of their own below
    "arrays.is_tensor", "random.categorical", "random.multinomial", "random.set_seed", "random.Draw",
    "math.TopK", "math.check_numerics", "nn.max_pool3d",
    "nn.avg_pool3d", "nn.dynamic_rnn", "nn.static_rnn", "initializers.Initializer",
}  # fmt: skip


def lookup(path):
    module, name = path.split(".")
    return getattr(MODULES[module], name)


def public_names():
    for module_name, module in MODULES.items():
        for name, value in vars(module).items():
            made_in = getattr(value, "__module__", None) or ""
            is_ours = made_in.startswith("fgrad.compat.tensorflow") and made_in not in HELPERS
            if callable(value) and is_ours and not name.startswith("_"):
                yield f"{module_name}.{name}", value


def test_every_public_name_has_a_line():
    tested = {id(row.function) for row in TABLE} | {id(lookup(name)) for name in [*DRAWN, *ELSEWHERE]}
    assert [name for name, value in public_names() if id(value) not in tested] == []


def test_every_public_name_is_documented_and_knows_its_name():
    for path, value in public_names():
        assert value.__doc__, path
        if path not in ALIASES and not isinstance(value, type):
            assert value.__name__ == path.partition(".")[2], path


@pytest.mark.parametrize("name", ALIASES)
def test_other_names_are_the_same_functions(name):
    assert lookup(name) is ALIASES[name]


@pytest.mark.parametrize(
    ("name", "initializer"),
    [
        ("zeros", "Zeros"), ("ones", "Ones"), ("constant", "Constant"), ("random_normal", "RandomNormal"),
        ("random_uniform", "RandomUniform"), ("truncated_normal", "TruncatedNormal"),
        ("variance_scaling", "VarianceScaling"), ("glorot_uniform", "GlorotUniform"),
        ("glorot_normal", "GlorotNormal"), ("orthogonal", "Orthogonal"),
    ],
)  # fmt: skip
def test_names_of_initializers(name, initializer):
    cls = getattr(initializers, initializer)
    assert getattr(initializers, name) is getattr(initializers, name + "_initializer") is cls


# Generic tests over the table


def name_of(row):
    return row.name


SINGLE = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}


def single(x):
    return x.astype(SINGLE.get(x.dtype, x.dtype))


def expected_of(row):
    for each in flat(row.reference(*row.arrays)):
        exact = np.asarray(each)
        if exact.dtype == np.longdouble:
            yield exact, np.dtype(np.float64)
        else:
            yield exact, SINGLE.get(exact.dtype, exact.dtype)


def check_values(row, results):
    expected = list(expected_of(row))
    assert len(results) == len(expected)
    for result, (value, dtype) in zip(results, expected, strict=True):
        assert result.dtype == dtype
        assert result.shape == value.shape
        np.testing.assert_allclose(np.asarray(result), value.astype(dtype), rtol=3e-5, atol=3e-6)


@in_groups("row", TABLE, name_of)
def test_value_and_dtype(row):
    """Of tensors and of plain arrays."""
    results = row(*(fg.Tensor(single(x)) for x in row.arrays))
    assert all(type(result) is fg.Tensor for result in results)
    check_values(row, results)
    check_values(row, row(*map(single, row.arrays)))


@in_groups("row", TABLE, name_of)
@pytest.mark.slow
def test_value_in_a_graph(row):
    """Of constants, and of placeholders with unknown sizes."""
    check_constants(row)
    check_placeholders(row)


def check_constants(row):
    with Graph().as_default() as graph:
        results = row(*map(single, row.arrays))
        assert all(isinstance(result, GraphTensor) for result in results)
    values = Session(graph=graph).run(results)
    check_values(row, values)
    for result, value in zip(results, values, strict=True):
        assert result.dtype == value.dtype
        assert result.shape.admits(value.shape)
        assert row.by_values or result.shape.is_fully_defined()


def check_placeholders(row):
    with Graph().as_default() as graph:
        fed = {Placeholder(x.dtype, [None] * x.ndim): x for x in map(single, row.arrays)}
        results = row(*fed)
    values = Session(graph=graph).run(results, fed)
    check_values(row, values)
    for result, value in zip(results, values, strict=True):
        assert result.dtype in (None, value.dtype)
        assert result.shape.admits(value.shape)


def weights_for(results):
    return [np.cos(np.arange(float(result.size)) + 0.5).reshape(result.shape) for result in results]


@operation("loss")
def weighed(results, weights):
    """Sum up results with weights; of complex numbers, also the imaginary part."""
    total = 0.0
    for result, weight in zip(results, weights, strict=True):
        total = total + np.sum(np.real(result) * weight)
        if result.dtype.kind == "c":
            total = total + np.sum(np.imag(result) * weight[..., ::-1])
    return total


def loss(row, tensors, weights=None):
    results = row(*tensors)
    if weights is None:
        weights = weights_for(results)
    pairs = [(r, w) for r, w in zip(results, weights, strict=True) if r.dtype is None or r.dtype.kind in "fc"]
    return weighed([r for r, _ in pairs], [w for _, w in pairs]) if pairs else None


def eager_gradients(row):
    tensors = [fg.Tensor(x) for x in row.arrays]
    with fg.GradientTape() as tape:
        tape.watch([x for x in tensors if x.dtype.kind in "fc"])
        total = loss(row, tensors)
    return [None] * len(tensors) if total is None else tape.gradient(total, tensors)


def differences(row, place):
    """Return the gradient with respect to one array by central differences."""
    x = row.arrays[place]
    found = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        for direction in (1, 1j) if x.dtype.kind == "c" else (1,):
            ends = []
            for step in (row.step, -row.step):
                moved = x.copy()
                moved[index] += step * direction
                others = [fg.Tensor(moved if i == place else each) for i, each in enumerate(row.arrays)]
                ends.append(float(loss(row, others)))
            found[index] += direction * (ends[0] - ends[1]) / (2 * row.step)
    return found


def lacks_rule(row):
    return row.missing is not None and row.missing not in FUNCTIONS


DIFFERENTIATED = [each for each in TABLE if any(x.dtype.kind in "fc" for x in each.arrays)]


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
@in_groups("row", DIFFERENTIATED, name_of)
@pytest.mark.slow
def test_gradient_equals_finite_differences_or_is_none(row):
    if lacks_rule(row):
        with pytest.raises(errors.MissingRuleError, match=r"np\.linalg\."):
            eager_gradients(row)
        return
    for place, gradient in enumerate(eager_gradients(row)):
        if not row.expects_gradient(place):
            assert gradient is None
            continue
        assert gradient.dtype == row.arrays[place].dtype
        np.testing.assert_allclose(gradient.numpy(), differences(row, place), rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
@in_groups("row", DIFFERENTIATED, name_of)
@pytest.mark.slow
def test_gradient_in_a_graph_equals_the_eager_one(row):
    weights = weights_for(row(*map(fg.Tensor, row.arrays)))
    with Graph().as_default() as graph:
        fed = {Placeholder(x.dtype, [None] * x.ndim): x for x in row.arrays}
        total = loss(row, list(fed), weights)
        found = [None] * len(fed) if total is None else gradients(total, list(fed))
    wanted = [row.expects_gradient(place) for place in range(len(fed))]
    assert [gradient is not None for gradient in found] == wanted
    present = [gradient for gradient in found if gradient is not None]
    if lacks_rule(row):
        with pytest.raises(errors.MissingRuleError, match=r"np\.linalg\."):
            Session(graph=graph).run(present, fed)
        return
    values = Session(graph=graph).run(present, fed)
    eager = [gradient for gradient in eager_gradients(row) if gradient is not None]
    for value, gradient in zip(values, eager, strict=True):
        np.testing.assert_allclose(value, gradient.numpy(), rtol=1e-12, atol=1e-14)


def test_names_of_nodes():
    def named(function):
        return lambda *args, **keywords: function(*args, name="mine", **keywords)

    for row in TABLE:
        with naming(row.name), Graph().as_default() as graph:
            flat(row.call(named(row.function), *map(single, row.arrays)))
            assert any(name.startswith("mine") for name in graph.nodes)


# Values and kinks that the table leaves out


def gradient_of(function, *points):
    tensors = [fg.Tensor(np.asarray(x)) for x in points]
    with fg.GradientTape() as tape:
        tape.watch(tensors)
        total = np.sum(function(*tensors))
    found = [gradient.tolist() for gradient in tape.gradient(total, tensors)]
    return found[0] if len(found) == 1 else found


def values_of(tensors):
    return [None if each is None else each.tolist() for each in tensors]


LARGE = np.array([-1e4, -100.0, 0.0, 100.0, 1e4])


@pytest.mark.parametrize(
    ("function", "values", "derivatives"),
    [
        (math.sigmoid, [0, np.exp(-100), 0.5, 1, 1], [0, np.exp(-100), 0.25, np.exp(-100), 0]),
        (math.log_sigmoid, [-1e4, -100, -np.log(2), -np.exp(-100), 0], [1, 1, 0.5, np.exp(-100), 0]),
        (math.softplus, [0, np.exp(-100), np.log(2), 100, 1e4], [0, np.exp(-100), 0.5, 1, 1]),
        (nn.elu, [-1, -1, 0, 100, 1e4], [0, np.exp(-100), 1, 1, 1]),
        (nn.softsign,
         [-1e4 / 10001, -100 / 101, 0, 100 / 101, 1e4 / 10001], [10001**-2, 101**-2, 1, 101**-2, 10001**-2]),
        (nn.swish, [0, -100 * np.exp(-100), 0, 100, 1e4], [0, -99 * np.exp(-100), 0.5, 1, 1]),
        (lambda x: nn.sigmoid_cross_entropy_with_logits(labels=np.ones(5), logits=x),
         [1e4, 100, np.log(2), np.exp(-100), 0], [-1, -1, -0.5, -np.exp(-100), 0]),
        (lambda x: nn.weighted_cross_entropy_with_logits(np.ones(5), x, 2.0),
         [2e4, 200, 2 * np.log(2), 2 * np.exp(-100), 0], [-2, -2, -1, -2 * np.exp(-100), 0]),
        (math.erf, [-1, -1, 0, 1, 1], [0, 0, 2 / np.sqrt(np.pi), 0, 0]),
    ],
)  # fmt: skip
def test_large_arguments(function, values, derivatives):
    with np.errstate(under="ignore"):
        # What is not zero must have the right leading digits, however small; the loss cancels its last ones.
        np.testing.assert_allclose(function(fg.Tensor(LARGE)).numpy(), values, rtol=1e-9, atol=1e-40)
        np.testing.assert_allclose(gradient_of(function, LARGE), derivatives, rtol=1e-9, atol=1e-13)


def test_cross_entropies_of_large_logits():
    logits = np.array([[1e4, 0.0, -1e4]])
    labels = np.array([[0.0, 1.0, 0.0]])

    def dense(x):
        return nn.softmax_cross_entropy_with_logits(labels=labels, logits=x)

    def sparse(x):
        return nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=x)

    for function in (dense, sparse):
        assert function(fg.Tensor(logits)).tolist() == [1e4]
        assert gradient_of(function, logits) == [[1.0, -1.0, 0.0]]
    assert nn.softmax(np.array([1000.0, 1000.0], np.float32)).tolist() == [0.5, 0.5]
    assert nn.softmax([-np.inf, 0.0]).tolist() == [0.0, 1.0]
    assert math.reduce_logsumexp(np.array([1e4, 1e4])).tolist() == 1e4 + np.log(2)


@pytest.mark.parametrize(
    ("function", "point", "derivative"),
    [
        (nn.relu, 0.0, 0.0),
        (nn.relu6, 0.0, 0.0),
        (nn.relu6, 6.0, 0.0),
        (nn.leaky_relu, 0.0, 0.2),
        (math.abs, 0.0, 0.0),
        (math.sign, 0.3, 0.0),
        (math.sqrt, 0.0, np.inf),
        (lambda x: math.maximum(x, 1.0), 1.0, 0.5),
        (lambda x: math.clip_by_value(x, 0.0, 1.0), 1.0, 1.0),
        (lambda x: math.clip_by_value(x, 0.0, 1.0), 0.0, 1.0),
        (lambda x: math.clip_by_value(2.0, 0.0, x), 1.0, 1.0),
        (nn.elu, 0.0, 1.0),
        (nn.selu, 0.0, 1.0507009873554805),
        (lambda x: math.pow(x, 2.0), 0.0, 0.0),
        (lambda x: math.pow(x, 0.0), 0.0, 0.0),
        (lambda x: math.xlogy(x, 0.0), 0.0, 0.0),
        (lambda x: math.xdivy(x, 0.0), 0.0, 0.0),
        (lambda x: math.divide_no_nan(3.0, x), 0.0, 0.0),
        (lambda x: math.multiply_no_nan(3.0, x), 0.0, 3.0),
        (lambda x: math.multiply_no_nan(np.inf, x), 0.0, 0.0),
        (lambda x: arrays.where(x > 0, math.sqrt(x), 0.0), 0.0, 0.0),
        (lambda x: math.l2_normalize([x, 0.0]), 0.0, 1e6),
        (lambda x: linalg.norm([x, x]), 0.0, 0.0),
        (lambda x: linalg.norm([x, x], 3), 0.0, 0.0),
        (lambda x: math.reduce_euclidean_norm([x, x]), 0.0, 0.0),
        (lambda x: math.reduce_std([x, x]), 0.0, 0.0),
        (lambda x: math.cumprod([x, 2.0, 3.0]), 0.0, 9.0),
        (lambda x: math.clip_by_norm([x, 0.0], 1.0), 0.0, 1.0),
    ],
)
def test_kinks(function, point, derivative):
    assert gradient_of(function, point) == pytest.approx(derivative)


def test_nan_stays_nan():
    for function in (nn.relu, nn.relu6, nn.leaky_relu, nn.elu, nn.selu, math.sigmoid, math.softplus, nn.swish):
        assert np.isnan(function(np.nan).numpy())
    assert np.isnan(linalg.norm([np.nan, 1.0]).numpy())
    assert math.clip_by_value([np.nan, 5.0], -1.0, 1.0).tolist()[1] == 1.0


def test_second_derivatives():
    for function in (math.sigmoid, math.log_sigmoid, math.softplus, nn.softmax, nn.log_softmax, nn.gelu, math.erfc):
        fg.testing.check_grads(function, (np.array([0.3, -1.2, 0.0]),), order=2)
    fg.testing.check_grads(lambda x: nn.sigmoid_cross_entropy_with_logits(labels=X, logits=x), (S,), order=2)
    for function in (math.erf, math.erfc):
        fg.testing.check_primitive(function, V)
    assert math.erf(1).dtype == np.float64
    at_kink = fg.hessian(lambda x: nn.sigmoid_cross_entropy_with_logits(labels=0.3, logits=x))(fg.Tensor(0.0))
    assert at_kink.tolist() == 0.25


def test_dtypes_of_numbers():
    assert math.add(1.0, 2.0).dtype == np.float32
    assert math.add(1, 2).dtype == np.int32
    assert math.add(2.0, 1).dtype == math.add(1, 2.0).dtype == np.float32
    assert math.add(np.float64(1.0), 2.0).dtype == np.float64
    assert math.multiply(fg.Tensor(np.float32(2.0)), np.ones(3)).dtype == np.float32
    assert math.truediv(1, 2).dtype == np.float64
    assert math.truediv(1, 2).tolist() == 0.5
    assert math.div(-7, 2).tolist() == -4
    assert math.div(-7.0, 2).tolist() == -3.5


def test_reductions_of_integers_keep_their_dtype():
    small = np.array([1, 0, 1, 0, -3], np.int8)
    for function, value in ((math.reduce_sum, -1), (math.reduce_prod, 0), (math.reduce_mean, 0), (math.reduce_max, 1)):
        assert (function(small).tolist(), function(small).dtype) == (value, np.int8)
    assert math.reduce_mean([1, 0, 1, 0]).tolist() == 0
    assert math.cumsum(small).dtype == np.int8
    for function in (math.reduce_sum, math.reduce_mean, math.reduce_prod):
        with pytest.raises(errors.DtypeError, match="booleans cannot be summed"):
            function([True, False])


def test_extremes_of_nothing():
    nothing = np.zeros((2, 0), np.float32)
    assert math.reduce_max(nothing).tolist() == -np.inf
    assert math.reduce_min(nothing, axis=1).tolist() == [np.inf, np.inf]
    assert math.reduce_max(nothing, axis=0, keepdims=True).shape == (1, 0)
    assert math.reduce_max(nothing).dtype == np.float32
    assert math.reduce_max(np.zeros(0, np.int32)).tolist() == -(2**31)
    assert math.reduce_min(np.zeros(0, np.int32)).tolist() == 2**31 - 1
    with fg.GradientTape() as tape:
        x = fg.Tensor(nothing)
        tape.watch(x)
        y = math.reduce_max(x)
    assert tape.gradient(y, x).shape == (2, 0)


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_casts():
    assert arrays.cast([1.7, -1.7], np.int32).tolist() == [1, -1]
    assert arrays.cast([0.0, 0.5], "bool").tolist() == [False, True]
    assert arrays.cast(np.array([1 + 2j]), dtypes.float32).tolist() == [1.0]
    x = fg.Tensor(2.5)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        there = arrays.cast(x, np.int32)
        back = arrays.cast(there, np.float64)
        half = arrays.cast(x, np.float16) * 3
    assert tape.gradient(back, x) is None
    assert tape.gradient(half, x).tolist() == 3.0
    with Graph().as_default():
        x = Placeholder(np.float32)
        assert gradients(arrays.cast(arrays.cast(x, np.int32), np.float32), x) == [None]


def test_stop_gradient_cuts_one_path():
    assert gradient_of(lambda x: x * arrays.stop_gradient(x), 3.0) == 3.0


def test_old_keywords_of_reductions():
    for name in ("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp"):
        function = getattr(math, f"reduce_{name}")
        x = TRUTH if name in ("any", "all") else fg.Tensor(S)
        old = function(x, reduction_indices=[1], keep_dims=True)
        assert old.tolist() == function(x, axis=[1], keepdims=True).tolist()
        with pytest.raises(errors.ParameterError, match="reduction_indices is the old name of axis; pass one of them"):
            function(x, axis=0, reduction_indices=0)
        with pytest.raises(errors.ParameterError, match="keep_dims is the old name of keepdims"):
            function(x, keepdims=True, keep_dims=True)
    assert math.argmax(S, dimension=1).tolist() == math.argmin(-S, dimension=1).tolist() == [2, 0]
    assert math.argmax(S, 1, output_type=np.int32).dtype == np.int32
    assert math.count_nonzero(S, reduction_indices=[0], keep_dims=True).tolist() == [[2, 2, 2]]
    assert math.reduce_sum(S, axis=[]).tolist() == S.tolist()


def test_other_old_keywords():
    assert arrays.squeeze(X[None], squeeze_dims=[0]).shape == (2, 3)
    assert arrays.squeeze(X[None, :, None]).shape == (2, 3)
    assert arrays.squeeze(X[None, :, None], []).shape == (2, 3)
    assert arrays.expand_dims(X, dim=1).shape == (2, 1, 3)
    assert nn.softmax(S, dim=0).tolist() == nn.softmax(S, axis=0).tolist()
    assert nn.log_softmax(S, dim=0).tolist() == nn.log_softmax(S, axis=0).tolist()
    assert math.l2_normalize(S, dim=1).tolist() == math.l2_normalize(S, 1).tolist()
    assert linalg.norm(S, axis=1, keep_dims=True).shape == (2, 1)
    assert nn.moments(S, [0], keep_dims=True)[1].shape == (1, 3)
    found = nn.weighted_cross_entropy_with_logits(targets=X, logits=S, pos_weight=1.0)
    np.testing.assert_allclose(found.numpy(), logistic_loss(X, S))
    assert arrays.convert_to_tensor(1, preferred_dtype=np.float64).dtype == np.float64
    assert nn.softmax_cross_entropy_with_logits(labels=LABELS, logits=S, dim=0).shape == (3,)
    filtered = nn.conv2d(IMAGES, filter=FILTERS, strides=1, padding="SAME")
    assert filtered.tolist() == nn.conv2d(IMAGES, filters=FILTERS, strides=1, padding="SAME").tolist()


def test_indices_are_integers():
    for call, name in (
        (lambda: arrays.gather(X, [True, False]), "indices"),
        (lambda: arrays.one_hot([0.5], 3), "indices"),
        (lambda: nn.sparse_softmax_cross_entropy_with_logits(labels=[0.5, 1.0], logits=S), "labels"),
        (lambda: nn.embedding_lookup(X, [0.0]), "ids"),
        (lambda: math.unsorted_segment_sum(X, [0.0, 1.0], 2), "segment_ids"),
    ):
        with pytest.raises(TypeError, match=f"{name} must be integers, and their dtype is"):
            call()
    assert arrays.one_hot([], 3).shape == (0, 3)


def test_a_weighted_loss_of_large_logits_keeps_its_digits():
    logits = np.array([12.0, 16.0], np.float32)
    found = nn.weighted_cross_entropy_with_logits(np.ones(2, np.float32), logits, 2.0)
    np.testing.assert_allclose(found.numpy(), 2 * np.log1p(np.exp(-logits.astype(float))), rtol=1e-5)


def test_dropout_of_whole_rows():
    found = nn.dropout(np.ones((500, 4)), rate=0.5, noise_shape=[None, 1]).numpy()
    assert np.all(found == found[:, :1])
    assert set(np.unique(found)) == {0, 2}


def test_expand_dims_needs_an_axis():
    with pytest.raises(errors.ParameterError, match="expand_dims needs the axis to insert"):
        arrays.expand_dims(X)


# Arguments


def test_shapes_may_hold_tensors():
    x = fg.Tensor(X)
    assert arrays.reshape(x, [arrays.shape(x)[1], -1]).shape == (3, 2)
    assert arrays.zeros(arrays.shape(x)).shape == (2, 3)
    assert arrays.fill([fg.Tensor(2), 1], 7.0).tolist() == [[7.0], [7.0]]
    with Graph().as_default() as graph:
        y = Placeholder(np.float32, [None, 3])
        flattened = arrays.reshape(y, [arrays.shape(y)[0] * 3])
        zeros = arrays.zeros(arrays.shape(y))
        drawn = random.normal([arrays.shape(y)[0], 5])
        assert drawn.shape.as_list() == [None, 5]
        drawn_alike = random.uniform(arrays.shape(y))
    values = Session(graph=graph).run([flattened, zeros, drawn, drawn_alike], {y: X})
    assert [value.shape for value in values] == [(6,), (2, 3), (2, 5), (2, 3)]


def test_shape_that_is_not_known_before_a_run():
    with Graph().as_default() as graph:
        x = Placeholder(np.float32, [None, 3])
        y = arrays.zeros(x.shape)
        with pytest.raises(errors.ShapeError, match=r"the shape \(None, 3\) has a size that is unknown before a run"):
            Session(graph=graph).run(y)
        with pytest.raises(errors.ShapeError, match=r"use tf.shape\(x\) in place of x.shape"):
            random.normal(x.shape)


def test_static_shapes_of_equations():
    with Graph().as_default():
        a, b = Placeholder(np.float32, [None, 3, 3]), Placeholder(np.float32, [None, 3, 2])
        for function in (linalg.inv, linalg.cholesky, linalg.pinv):
            assert function(a).shape.as_list() == [None, 3, 3]
        for function in (linalg.solve, linalg.triangular_solve, linalg.cholesky_solve, linalg.lstsq):
            assert function(a, b).shape.as_list() == [None, 3, 2]
        for function in (linalg.det, linalg.logdet):
            assert function(a).shape.as_list() == [None]
        assert linalg.eigh(a)[1].shape.as_list() == linalg.svd(a)[2].shape.as_list() == [None, 3, 3]


def test_number_of_results_in_a_graph():
    with Graph().as_default() as graph:
        x = Placeholder(np.float32, [None, 3])
        assert len(arrays.unstack(x, axis=1)) == 3
        assert len(arrays.split(x, arrays.convert_to_tensor([1, 2]), axis=1)) == 2
        with pytest.raises(errors.ShapeError, match="the number of results is the size of axis 0.*pass num"):
            arrays.unstack(x)
        with pytest.raises(errors.ShapeError, match="the number of results is the size of axis 0.*pass num"):
            arrays.unstack(Placeholder(np.float32))
        sizes = Placeholder(np.int32)
        with pytest.raises(errors.ShapeError, match="pass num"):
            arrays.split(x, sizes)
        parts = arrays.split(x, sizes, num=2)
        rows = arrays.unstack(x, 2)
    values = Session(graph=graph).run([parts, rows], {x: X, sizes: [1, 1]})
    np.testing.assert_allclose(values[0], X[:, None])
    np.testing.assert_allclose(values[1], X)
    with pytest.raises(errors.ShapeError, match="num is 2, and axis 0"):
        Session(graph=graph).run(rows, {x: M})
    with pytest.raises(errors.ShapeError, match=r"the sizes \[1, 1\] do not sum to 3"):
        Session(graph=graph).run(parts, {x: M, sizes: [1, 1]})


def test_static_shapes_of_what_depends_on_values():
    with Graph().as_default():
        x = Placeholder(np.float32, [4, 2])
        mask = Placeholder(np.bool_, [4])
        assert arrays.boolean_mask(x, mask).shape.as_list() == [None, 2]
        assert arrays.where(mask).shape.as_list() == [None, 1]
        assert arrays.squeeze(Placeholder(np.float32, [None, 1])).shape.ndims is None
        assert arrays.squeeze(Placeholder(np.float32, [3, 1])).shape.as_list() == [3]
        assert arrays.repeat(x, Placeholder(np.int32, [4]), axis=0).shape.as_list() == [None, 2]
        images = Placeholder(np.float32, [None, None, 8, 3])
        assert nn.max_pool(images, 3, 3, "SAME").shape.as_list() == [None, None, 3, 3]
        assert nn.avg_pool(Placeholder(np.float32, [None, 6, 6, 3]), 2, 2, "VALID").shape.as_list() == [None, 3, 3, 3]
        assert arrays.strided_slice(images, [0, 0, 0], [1, 1, 6], [1, 1, 2]).shape.as_list() == [None, None, 3, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: arrays.gather(X, [0, 2]), r"indices holds 2, which is not in \[0, 2\)"),
        (lambda: arrays.gather(X, [-1]), r"indices holds -1, which is not in \[0, 2\)"),
        (lambda: arrays.gather(X, [3], axis=1), r"indices holds 3, which is not in \[0, 3\)"),
        (lambda: arrays.gather_nd(X, [[0, 3]]), r"indices holds 3, which is not in \[0, 3\)"),
        (lambda: nn.embedding_lookup(X, [5]), r"ids holds 5, which is not in \[0, 2\)"),
        (lambda: math.scatter_nd([[2]], V[None], [2, 3]), r"indices holds 2, which is not in \[0, 2\)"),
        (lambda: math.unsorted_segment_sum(X, [0, 4], 2), r"segment_ids holds 4, which is not in \[0, 2\)"),
        (lambda: nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 3], logits=S), r"labels holds 3"),
        (lambda: nn.in_top_k(S, [0, -1], 1), r"targets holds -1"),
        (lambda: arrays.slice(X, [0, 2], [1, 2]), r"begins at \(0, 2\) with the size \(1, 2\) is not inside of"),
        (
            lambda: arrays.ensure_shape(X, [2, 2]),
            r"Shape of tensor \(2, 3\) is not compatible with expected shape \(2, 2\)",
        ),
        (lambda: math.top_k(X, 4), r"at least k = 4 columns, and its shape is \(2, 3\)"),
        (lambda: random.uniform([2], 5, 5, np.int32), r"need minval < maxval, but they are 5 and 5"),
    ],
)
def test_values_that_do_not_fit(call, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.bias_add(X, np.ones(1)), r"must be a vector of 3 elements, and has shape \(1,\)"),
        (lambda: nn.bias_add(X, X), r"must be a vector of 3 elements, and has shape \(2, 3\)"),
        (lambda: math.scatter_nd([[1]], V, [2, 3]), r"updates must have the shape \(1, 3\), but they have \(3,\)"),
        (lambda: arrays.split(X, 2, 1), r"axis 1 of the shape \(2, 3\) cannot be split into 2 equal parts"),
        (lambda: arrays.split(X, [2, 2], 1), r"the sizes \[2, 2\] do not sum to 3"),
        (lambda: math.add_n([X, V]), r"must have the same shape, but there are \(2, 3\) and \(3,\)"),
        (lambda: math.segment_sum(X, [0]), r"data has the shape \(2, 3\), but there are segment_ids of shape \(1,\)"),
        (
            lambda: nn.sparse_softmax_cross_entropy_with_logits(labels=[0], logits=S),
            r"labels of shape \(1,\) do not fit",
        ),
        (
            lambda: nn.sigmoid_cross_entropy_with_logits(labels=V, logits=S),
            r"logits of shape \(2, 3\) and labels of \(3,\)",
        ),
        (lambda: nn.conv2d(IMAGES, FILTERS[:, :, :1], 1, "SAME"), "the images have 3 channels, but the filters have 1"),
        (lambda: nn.max_pool(IMAGES, 6, 1, "VALID"), r"windows of \(6, 6\) do not fit into images of \(5, 4\)"),
        (lambda: initializers.Orthogonal()([3]), r"at least two axes, but the shape is \(3,\)"),
        (lambda: initializers.Identity()([3]), r"an identity matrix has two axes, but the shape is \(3,\)"),
        (lambda: arrays.tile(X, [2]), r"multiples must have an element for each axis.* shape \(2, 3\), and has 1"),
        (lambda: arrays.slice(X, [0, 0, 0], [1, 1]), "begin must have an element for each axis.*, and has 3"),
        (lambda: arrays.slice(X, [0, 0], [1]), "size must have an element for each axis.*, and has 1"),
        (lambda: arrays.pad(X, [[1, 1]]), "paddings must have an element for each axis.*, and has 1"),
        (lambda: arrays.pad(X, [[1, 1]], "REFLECT"), "paddings must have an element for each axis.*, and has 1"),
    ],
)
def test_shapes_that_do_not_fit(call, message):
    with pytest.raises(errors.ShapeError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: arrays.where(TRUTH, X), "x and y must both be given, or both omitted"),
        (lambda: arrays.pad(X, [[1, 1], [1, 1]], "EDGE"), "mode is 'EDGE'; use 'CONSTANT', 'REFLECT' or 'SYMMETRIC'"),
        (lambda: arrays.sort(X, direction="UP"), "direction is 'UP'; use 'ASCENDING' or 'DESCENDING'"),
        (lambda: arrays.meshgrid(V, V, indexing="yx"), "indexing is 'yx'; use 'xy' or 'ij'"),
        (
            lambda: arrays.convert_to_tensor(fg.Tensor(X), np.float32),
            "requested dtype float32 for a tensor of dtype float64",
        ),
        (lambda: math.add_n([]), "a list with at least one tensor"),
        (lambda: math.matmul(X, M, transpose_a=True, adjoint_a=True), "either transposed or its adjoint is taken"),
        (lambda: math.clip_by_norm(X, -1.0), "clip_norm must not be negative"),
        (lambda: linalg.norm(X, "fro"), "ord is 'fro', which is not a supported norm of vectors"),
        (lambda: linalg.norm(X, 3, axis=[0, 1]), "ord is 3, which is not a supported norm of matrices"),
        (lambda: linalg.norm(X, -1), "ord is -1, which is not a supported norm of vectors"),
        (lambda: nn.embedding_lookup([X, X], [0]), "params must be one table; join its parts with tf.concat"),
        (lambda: nn.conv2d(IMAGES, FILTERS, 1, "FULL"), "padding is 'FULL'; use 'SAME' or 'VALID'"),
        (lambda: nn.conv2d(IMAGES, FILTERS, 1), "conv2d needs filters, strides and padding"),
        (
            lambda: nn.conv2d(IMAGES, FILTERS, 1, "SAME", dilations=2),
            "dilations is 2, but fgrad supports only 1",
        ),
        (
            lambda: nn.conv2d(IMAGES, FILTERS, 1, "SAME", data_format="CHWN"),
            "data_format is 'CHWN'; use 'NHWC' or 'NCHW'",
        ),
        (lambda: nn.max_pool(IMAGES, [2, 2, 2, 1], 1, "SAME"), "must be 1 for the axes of batch and channels"),
        (lambda: nn.max_pool(IMAGES, [2, 2, 2], 1, "SAME"), r"\[2, 2, 2\] must be one number, two, or four"),
        (lambda: nn.dropout(X), "pass rate, the probability of an element to be dropped, or keep_prob"),
        (lambda: nn.dropout(X, rate=0.5, keep_prob=0.5), "pass rate, the probability of an element to be dropped"),
        (lambda: nn.dropout(X, rate=1.0), r"the rate must be in \[0, 1\), but it is 1.0"),
        (lambda: nn.dropout(X, keep_prob=0.0), r"the rate must be in \[0, 1\), but it is 1.0: rate is 1 - keep_prob"),
        (lambda: random.uniform([2], dtype=np.int32), "Must specify maxval for integer dtype int32"),
        (lambda: random.stateless_uniform([2], [1, 2], dtype=np.int32), "Must specify maxval for integer dtype int32"),
        (lambda: initializers.VarianceScaling(-1.0), "scale must be positive, but it is -1.0"),
        (lambda: initializers.VarianceScaling(mode="fan"), "mode is 'fan'; use 'fan_in', 'fan_out' or 'fan_avg'"),
        (
            lambda: initializers.VarianceScaling(distribution="cauchy"),
            "distribution is 'cauchy'; use 'truncated_normal'",
        ),
    ],
)
def test_options_that_do_not_exist(call, message):
    with pytest.raises(errors.ParameterError, match=message):
        call()


def test_tensors_of_a_graph_have_their_dtype():
    with Graph().as_default():
        x = Placeholder(np.float32)
        assert arrays.convert_to_tensor(x) is arrays.convert_to_tensor(x, np.float32) is x
        with pytest.raises(
            errors.ParameterError, match="requested dtype float64 for a tensor of dtype float32; use tf.cast"
        ):
            arrays.convert_to_tensor(x, np.float64)


@pytest.mark.parametrize(
    "function",
    [
        nn.softmax_cross_entropy_with_logits,
        nn.sparse_softmax_cross_entropy_with_logits,
        nn.sigmoid_cross_entropy_with_logits,
    ],
)
def test_cross_entropies_are_called_by_name(function):
    for call in (lambda: function(LABELS, S), lambda: function(logits=S), lambda: function(labels=LABELS)):
        with pytest.raises(ValueError, match=r"Only call `\w+` with named arguments \(labels=..., logits=...\)"):
            call()


def test_derivatives_of_labels_in_both_versions():
    def by_labels(labels):
        return nn.softmax_cross_entropy_with_logits(labels=labels, logits=S)

    np.testing.assert_allclose(gradient_of(by_labels, LABELS), -np.log(softmax_of(S)))
    with mode.TENSORFLOW_1.active(), Graph().as_default() as graph:
        labels, logits = Placeholder(np.float64), Placeholder(np.float64)
        old = nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        new = nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)
        assert gradients(old, labels) == [None]
        found = Session(graph=graph).run(
            [old, *gradients(old, logits), *gradients(new, labels)], {labels: X, logits: S}
        )
    np.testing.assert_allclose(found[0], -np.sum(X * np.log(softmax_of(S)), -1))
    np.testing.assert_allclose(found[1], softmax_of(S) * np.sum(X, -1, keepdims=True) - X)
    np.testing.assert_allclose(found[2], -np.log(softmax_of(S)))


def test_where_chooses_rows_in_version_1():
    condition = np.array([True, False, True])
    assert arrays.where(condition, M, -M)[0].tolist() == [2.0, -0.3, -0.4]
    with mode.TENSORFLOW_1.active(), mode.block(None):
        assert arrays.where(condition, M, -M).tolist() == (M * [[1], [-1], [1]]).tolist()


def test_top_k_of_equal_and_unsigned_elements():
    found = math.top_k(np.array([3, 7, 7, 0], np.uint8), 3)
    assert isinstance(found, math.TopK)
    assert values_of(found) == [[7, 7, 3], [1, 2, 0]]
    assert math.top_k([1.0, 2.0]).values.tolist() == [2.0]
    assert arrays.argsort([1.0, 2.0, 1.0], direction="DESCENDING").tolist() == [1, 0, 2]
    assert arrays.argsort([1.0, 2.0, 1.0]).tolist() == [0, 2, 1]


def test_in_top_k_takes_both_orders():
    predictions = np.array([[0.1, 0.7, 0.7], [np.inf, 2.0, 3.0]])
    for order in ((predictions, [2, 0]), ([2, 0], predictions)):
        assert nn.in_top_k(*order, 1).tolist() == [True, False]


def test_is_tensor():
    with Graph().as_default():
        graph_tensors = [Placeholder(np.float32), GraphVariable(1.0)]
    assert all(map(arrays.is_tensor, [fg.Tensor(1.0), fg.Variable(1.0), *graph_tensors]))
    assert not any(map(arrays.is_tensor, [1.0, np.ones(2), [fg.Tensor(1.0)]]))


def test_variables_are_read():
    w = fg.Variable(np.array([1.0, 2.0]))
    with fg.GradientTape() as tape:
        total = math.reduce_sum(math.square(w) * w)
    assert tape.gradient(total, w).tolist() == [3.0, 12.0]
    with Graph().as_default() as graph:
        v = GraphVariable([1.0, 2.0])
        total = math.reduce_sum(math.pow(v, 3))
        session = Session(graph=graph)
        session.run(global_variables_initializer())
        assert session.run([total, gradients(total, v)[0]])[1].tolist() == [3.0, 12.0]


def test_dtypes():
    assert dtypes.as_dtype("float32") is dtypes.as_dtype(np.float32) is dtypes.float32
    assert (dtypes.half, dtypes.double) == (np.float16, np.float64)
    for name in ("float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        assert getattr(dtypes, name) == np.dtype(name)
    assert [getattr(dtypes, name).name for name in ("bool", "complex64", "complex128")] == [
        "bool",
        "complex64",
        "complex128",
    ]
    assert isinstance(dtypes.float32, dtypes.DType)
    assert isinstance(np.dtype(np.float32), dtypes.DType)  # that of an eager tensor
    assert not isinstance(np.float32, dtypes.DType)
    with pytest.raises(errors.DtypeError, match="'float31' is not a dtype; use tf.float32"):
        dtypes.as_dtype("float31")


# Clipping


def test_clip_by_norm():
    assert math.clip_by_norm([3.0, 4.0], 1.0).numpy() == pytest.approx(np.array([0.6, 0.8]))
    assert math.clip_by_norm([3.0, 4.0], 5.0).tolist() == [3.0, 4.0]
    assert math.clip_by_norm([0.0, 0.0], 1.0).tolist() == [0.0, 0.0]
    assert math.clip_by_norm([3.0, 4.0], 0.0).tolist() == [0.0, 0.0]
    assert math.clip_by_norm([[3.0, 4.0], [0.3, 0.4]], 1.0, axes=[1]).numpy() == pytest.approx(
        np.array([[0.6, 0.8], [0.3, 0.4]])
    )
    jacobian = fg.jacobian(lambda x: math.clip_by_norm(x, 1.0))
    np.testing.assert_allclose(jacobian(np.array([3.0, 4.0])).numpy(), [[0.128, -0.096], [-0.096, 0.072]])
    np.testing.assert_allclose(jacobian(np.zeros(2)).numpy(), np.eye(2))


def test_global_norm():
    assert math.global_norm([[3.0], np.float32([4.0]), None]).tolist() == 5.0
    for empty in ([], [None]):
        assert (math.global_norm(empty).tolist(), math.global_norm(empty).dtype) == (0.0, np.float32)
    clipped, norm = math.clip_by_global_norm([[3.0], None, [4.0]], 1.0)
    assert clipped[1] is None
    assert (clipped[0].tolist(), norm.tolist()) == ([pytest.approx(0.6)], 5.0)
    assert values_of(math.clip_by_global_norm([[3.0], [4.0]], 1.0, use_norm=2.0)[0]) == [[1.5], [2.0]]
    clipped, norm = math.clip_by_global_norm([[np.inf], [4.0]], 1.0)
    assert np.isnan(clipped[0].numpy()).all()
    assert np.isnan(clipped[1].numpy()).all()
    assert norm.tolist() == np.inf
    for function in (math.global_norm, lambda t: math.clip_by_global_norm(t, 1.0)):
        with pytest.raises(errors.StructureError, match=r"(?s)t_list must be a list of tensors.*pass \[t\] for one"):
            function(fg.Tensor(X))
        with Graph().as_default(), pytest.raises(TypeError, match="t_list must be a list of tensors"):
            function(Placeholder(np.float32))


def test_clip_by_value_where_the_bounds_cross():
    assert math.clip_by_value([0.0, 5.0], 2.0, 1.0).tolist() == [2.0, 2.0]
    assert math.clip_by_value([1, 5], 2, 3).tolist() == [2, 3]


# Random numbers


@pytest.mark.parametrize("name", DRAWN)
def test_distributions(name):
    call, (low, high, mean, deviation) = DRAWN[name]
    random.set_seed(5)
    drawn = call(lookup(name))
    assert type(drawn) is fg.Tensor
    check_distribution(drawn.numpy(), low, high, mean, deviation)
    with Graph().as_default() as graph:
        random.set_seed(5)
        node = call(lookup(name))
        assert isinstance(node, GraphTensor)
        assert (node.shape.as_list(), node.dtype) == ([500, 40], np.float32)
    check_distribution(Session(graph=graph).run(node), low, high, mean, deviation)


def check_distribution(values, low, high, mean, deviation):
    assert (values.shape, values.dtype) == ((500, 40), np.float32)
    assert low is None or values.min() >= low
    assert high is None or values.max() <= high
    spread = 1 if deviation is None else max(deviation, 1e-9)
    assert abs(values.mean() - mean) <= 0.05 * spread
    assert deviation is None or values.std() == pytest.approx(deviation, rel=0.03, abs=1e-9)


def sequence(graph, node, count=2):
    session = Session(graph=graph)
    return [session.run(node).tolist() for _ in range(count)]


def test_every_run_draws_anew_and_seeds_make_it_repeatable():
    with Graph().as_default() as graph:
        unseeded = random.normal([3])
        random.set_seed(1)
        first, second, own = random.normal([3]), random.normal([3]), random.normal([3], seed=7)
        used_twice = first - first
    for node in (first, second, own):
        assert sequence(graph, node) == sequence(graph, node)
        assert len(set(map(tuple, sequence(graph, node, 3)))) == 3
    assert sequence(graph, unseeded) != sequence(graph, unseeded)
    assert sequence(graph, first) != sequence(graph, second)
    assert sequence(graph, used_twice, 1) == [[0.0, 0.0, 0.0]]


def test_seeds_of_eager_calls():
    def draws():
        return [random.normal([2]).tolist(), random.normal([2]).tolist(), random.uniform([2], seed=3).tolist()]

    random.set_seed(1)
    first = draws()
    random.set_seed(1)
    assert draws() == first
    assert draws() != first
    random.set_seed(2)
    assert draws() != first
    assert len(set(map(tuple, first))) == 3
    random.set_seed(1)
    repeated = [random.uniform([2], seed=3).tolist() for _ in range(2)]
    assert repeated[0] == first[2] != repeated[1]


def test_draws_of_other_dtypes():
    dice = random.uniform([1000], 1, 7, np.int32)
    assert (dice.dtype, set(dice.tolist())) == (np.int32, {1, 2, 3, 4, 5, 6})
    assert random.uniform([1000], -3, -1, np.int64).dtype == np.int64
    assert set(random.uniform([100], -3, -1, np.int64).tolist()) == {-3, -2}
    assert set(random.Generator.from_seed(1).uniform([100], 0, 2, np.int32).tolist()) == {0, 1}
    assert set(random.stateless_uniform([100], [1, 2], 0, 2, np.int32).tolist()) == {0, 1}
    for dtype in (np.float16, np.float64):
        for function in (random.normal, random.truncated_normal, random.uniform):
            assert function([2], dtype=dtype).dtype == dtype
    assert random.uniform([20000], dtype=np.float16).numpy().max() < 1


def test_derivatives_of_the_parameters():
    def total(mean, deviation):
        random.set_seed(4)
        return random.normal([3], mean, deviation, np.float64)

    random.set_seed(4)
    standard = random.normal([3], dtype=np.float64).numpy()
    assert gradient_of(total, 1.0, 2.0) == [3.0, pytest.approx(standard.sum())]
    with Graph().as_default() as graph:
        mean = Placeholder(np.float32)
        draw = random.normal([3], mean)
        found = Session(graph=graph).run([draw, *gradients(draw * draw, mean)], {mean: 1.0})
    assert found[1] == pytest.approx(2 * found[0].sum())


def test_stateless_draws_follow_from_their_seed():
    for function in (random.stateless_normal, random.stateless_uniform, random.stateless_truncated_normal):
        first = function([3], seed=[1, 2]).tolist()
        assert function([3], seed=[1, 2]).tolist() == first
        assert function([3], seed=[2, 1]).tolist() != first
        with Graph().as_default() as graph:
            node = function([3], seed=[1, 2])
        assert sequence(graph, node) == [first, first]


def test_shuffle_keeps_rows_together():
    shuffled = random.shuffle(np.arange(20).reshape(10, 2), seed=1).numpy()
    assert shuffled.tolist() != np.arange(20).reshape(10, 2).tolist()
    assert sorted(shuffled.tolist()) == np.arange(20).reshape(10, 2).tolist()
    with Graph().as_default() as graph:
        node = random.shuffle(arrays.range(20))
    first, second = sequence(graph, node)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(20))


def test_categorical():
    logits = np.log(np.array([[0.2, 0.5, 0.3], [1.0, 1e-30, 1e-30]]))
    random.set_seed(1)
    drawn = random.categorical(logits, 4000)
    assert (drawn.dtype, drawn.shape) == (np.int64, (2, 4000))
    shares = np.mean(drawn.numpy()[0][:, None] == np.arange(3), axis=0)
    assert shares == pytest.approx(np.array([0.2, 0.5, 0.3]), abs=0.03)
    assert not drawn.numpy()[1].any()
    assert random.multinomial(logits, 5, output_dtype=np.int32).dtype == np.int32
    with Graph().as_default() as graph:
        node = random.multinomial(Placeholder(np.float32, name="logits"), 50, seed=1)
    first, second = (Session(graph=graph).run(node, {"logits": logits}) for _ in range(2))
    assert first.shape == (2, 50)
    assert first.tolist() == second.tolist()


def test_generators():
    generator = random.Generator.from_seed(1)
    first, second = generator.normal([2]).tolist(), generator.normal([2]).tolist()
    assert first != second
    assert random.Generator.from_seed(1).normal([2]).tolist() == first
    assert random.Generator.from_non_deterministic_state().normal([2]).tolist() != first
    assert abs(random.Generator.from_seed(1).truncated_normal([1000]).numpy()).max() <= 2
    with Graph().as_default() as graph:
        node = random.Generator.from_seed(1).normal([2])
        integers = random.Generator.from_seed(1).uniform([9], 0, 3, np.int64)
    assert sequence(graph, node) == [first, second]
    assert set(Session(graph=graph).run(integers).tolist()) <= {0, 1, 2}


def test_draw_is_a_node_of_its_graph():
    with Graph().as_default() as graph:
        node = random.normal([2], name="noise")
        count = Placeholder(np.int32, [])
    assert isinstance(graph.nodes["noise"], random.Draw)
    assert random.uniform([count, 2]).graph is graph
    assert node.graph is graph


# Dropout


def test_dropout():
    x = np.arange(1.0, 10001.0)
    found = nn.dropout(x, rate=0.4, seed=1).numpy()
    kept = found != 0
    assert kept.mean() == pytest.approx(0.6, abs=0.02)
    np.testing.assert_allclose(found[kept], x[kept] / 0.6)
    assert nn.dropout(x, 0.0).tolist() == x.tolist()
    columns = nn.dropout(np.ones((50, 40)), rate=0.5, noise_shape=[1, 40]).numpy()
    assert (columns == columns[0]).all()
    with pytest.raises(errors.DtypeError, match="x must be floats, since it is scaled, but its dtype is int32"):
        nn.dropout([1, 2], rate=0.5)
    with pytest.raises(TypeError, match="several values for argument 'rate'"):
        nn.dropout(x, 0.5, rate=0.5)


def test_dropout_by_position_in_both_versions():
    x = np.ones(10000)
    assert (nn.dropout(x, 0.1).numpy() != 0).mean() == pytest.approx(0.9, abs=0.02)
    with mode.TENSORFLOW_1.active(), mode.block(None):
        assert (nn.dropout(x, 0.1).numpy() != 0).mean() == pytest.approx(0.1, abs=0.02)


def test_dropout_in_a_graph():
    with Graph().as_default() as graph:
        x, keep = Placeholder(np.float32), Placeholder(np.float32)
        y = nn.dropout(x, keep_prob=keep)
        derivative = gradients(y, x)[0]
    session = Session(graph=graph)
    fed = {x: np.full(100, 3.0), keep: 0.5}
    value, slope = session.run([y, derivative], fed)
    assert set(value.tolist()) == {0.0, 6.0}
    assert slope.tolist() == (value / 3).tolist()
    assert session.run(y, fed).tolist() != value.tolist()
    assert session.run(y, {x: [1.0], keep: 1.0}).tolist() == [1.0]


# Initializers


def test_initializers():
    assert initializers.Constant([1, 2, 3, 4])([2, 2]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert initializers.Zeros(np.int32)([2]).dtype == np.int32
    assert initializers.Ones()([2], dtype=np.float64).dtype == np.float64
    assert initializers.GlorotUniform(seed=1)([2, 2], np.float64).dtype == np.float64
    random.set_seed(3)
    first = initializers.HeNormal(seed=1)([2, 2]).tolist()
    random.set_seed(3)
    assert initializers.HeNormal(seed=1)([2, 2]).tolist() == first
    with pytest.raises(ValueError, match="cannot reshape array of size 3"):
        initializers.Constant([1, 2, 3])([2])


def test_variance_counts_the_connections_of_filters():
    wide = initializers.VarianceScaling(1.0, "fan_in", "normal")([5, 5, 8, 100]).numpy()
    assert wide.std() == pytest.approx(numbers.sqrt(1 / 200), rel=0.03)
    assert initializers.VarianceScaling()([]).shape == ()
    assert initializers.VarianceScaling(3.0, distribution="uniform")([100]).numpy().max() <= 0.3


@pytest.mark.parametrize("shape", [[4, 4], [6, 3], [3, 6], [2, 2, 3]])
def test_orthogonal(shape):
    found = initializers.Orthogonal(gain=2.0)(shape, np.float64).numpy()
    matrix = found.reshape(-1, shape[-1])
    product = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_orthogonal_matrices_are_equally_likely():
    random.set_seed(1)
    corners = [float(initializers.Orthogonal()([2, 2])[0, 0]) for _ in range(200)]
    assert np.mean(np.array(corners) > 0) == pytest.approx(0.5, abs=0.1)


def test_initializers_of_graph_variables():
    with Graph().as_default() as graph:
        random.set_seed(1)
        v = GraphVariable(lambda: initializers.GlorotNormal()([2, 2]))
        init = global_variables_initializer()
    values = []
    for _ in range(2):
        session = Session(graph=graph)
        session.run(init)
        values.append(session.run(v).tolist())
    assert values[0] == values[1]
    session.run(init)
    assert session.run(v).tolist() != values[0]


# Layers for images


def test_pooling_of_integers_and_ties():
    x = np.arange(16, dtype=np.int32).reshape(1, 4, 4, 1)
    assert nn.max_pool(x, 2, 2, "SAME").numpy().ravel().tolist() == [5, 7, 13, 15]
    assert nn.max_pool(-x, 3, 2, "SAME").numpy().ravel().tolist() == [0, -2, -8, -10]
    assert gradient_of(lambda x: nn.max_pool(x, 2, 2, "VALID"), np.ones((1, 2, 2, 1))) == [
        [[[1.0], [0.0]], [[0.0], [0.0]]]
    ]
    rows = np.array([[1.0, 3.0, 3.0], [3.0, 2.0, 3.0]]).reshape(1, 2, 3, 1)
    found = gradient_of(lambda x: nn.max_pool(x, 2, 1, "VALID"), rows)
    assert np.ravel(found).tolist() == [0, 2, 0, 0, 0, 0]


@pytest.mark.parametrize("function", [linalg.cholesky, linalg.logdet])
def test_gradients_of_symmetric_matrices_are_symmetric(function):
    """TensorFlow's formula, from the gradient of the factor."""
    lower = np.tril(P) + np.triu(M, 1)  # the upper triangle is not read
    factor = np.linalg.cholesky(P)
    weights = np.tril(S[:1] + V[:, None]) if function is linalg.cholesky else 2 * np.diag(1 / np.diag(factor))
    inverse = np.linalg.inv(factor)
    middle = np.tril(factor.T @ weights)
    middle[np.diag_indices(3)] *= 0.5
    expected = inverse.T @ middle @ inverse
    found = gradient_of(lambda x: function(x) * (weights if function is linalg.cholesky else 1.0), lower)
    np.testing.assert_allclose(found, (expected + expected.T) / 2, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(function(lower).numpy(), function(P).numpy())


def test_only_one_triangle_of_a_factor_has_a_gradient():
    factor = np.linalg.cholesky(P)
    with fg.GradientTape() as tape:
        x = fg.Tensor(factor)
        tape.watch(x)
        y = linalg.cholesky_solve(x, M)
    gradient = tape.gradient(y, x).numpy()
    assert np.all(np.triu(gradient, 1) == 0)
    assert np.all(np.tril(gradient) == gradient)


def test_convolution_of_a_whole_image():
    x = np.arange(9.0).reshape(1, 3, 3, 1)
    kernel = np.ones((3, 3, 1, 1))
    assert nn.conv2d(x, kernel, 1, "VALID").tolist() == [[[[36.0]]]]
    assert nn.conv2d(x, kernel, 1, "SAME").numpy()[0, :, :, 0].tolist() == [[8, 15, 12], [21, 36, 27], [20, 33, 24]]
