"""TensorFlow's names over fgrad: `import fgrad.compat.tensorflow as tf`.

Eager, like TensorFlow 2, until `tf.disable_v2_behavior()`; inside of `with tf.Graph().as_default():`
deferred, like TensorFlow 1. The names of both are available. `fgrad.compat.tensorflow1` is the same in graph
mode from the start. Python numbers become float32 and int32, as in TensorFlow. The argument `name` of a
function is the name of its nodes in a graph.

    >>> import fgrad.compat.tensorflow as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tf.reduce_sum(tf.square(x))
    >>> tape.gradient(y, x)
    Tensor([2., 4.], dtype=float32)
"""

# fmt: off
# isort: off
from fgrad.compat.deferred.graph import Dimension, Graph, Operation, TensorShape, reset_default_graph
from fgrad.compat.deferred.session import InteractiveSession, Session
from fgrad.compat.deferred.state import (
    assign, assign_add, assign_sub, constant, global_variables_initializer, group, initialize_all_variables,
    initialize_variables, variables_initializer,
)
from fgrad.compat.tensorflow import (
    autodiff, compat, contrib, dtypes, errors, initializers, layers, linalg, math, nn, python, random, train,
)
from fgrad.compat.tensorflow.arrays import (
    argsort, boolean_mask, broadcast_to, cast, concat, convert_to_tensor, diag, ensure_shape, expand_dims, eye, fill,
    gather, gather_nd, identity, is_tensor, linspace, meshgrid, one_hot, ones, ones_like, pad, range, rank, repeat,
    reshape, reverse, roll, shape, size, slice, sort, split, squeeze, stack, stop_gradient, strided_slice, tile,
    to_double, to_float, to_int32, to_int64, transpose, unstack, where, zeros, zeros_like,
)
from fgrad.compat.tensorflow.dtypes import (
    DType, as_dtype, bool, complex128, complex64, double, float16, float32, float64, half, int16, int32, int64, int8,
    uint16, uint32, uint64, uint8,
)
from fgrad.compat.tensorflow.gradient import (
    AggregationMethod, GradientTape, UnconnectedGradients, custom_gradient, grad_pass_through, gradients, hessians,
    recompute_grad,
)
from fgrad.compat.tensorflow.graphs import (
    ConfigProto, Tensor, add_check_numerics_ops, colocate_with, cond, control_dependencies, device, function,
    get_default_graph, get_default_session, no_op, placeholder, placeholder_with_default, vectorized_map, while_loop,
)
from fgrad.compat.tensorflow.initializers import (
    constant_initializer, glorot_normal_initializer, glorot_uniform_initializer, ones_initializer,
    orthogonal_initializer, random_normal_initializer, random_uniform_initializer, truncated_normal_initializer,
    uniform_unit_scaling_initializer, variance_scaling_initializer, zeros_initializer,
)
from fgrad.compat.tensorflow.linalg import (
    cholesky, cholesky_solve, diag_part, matrix_band_part, matrix_determinant, matrix_diag, matrix_diag_part,
    matrix_inverse, matrix_set_diag, matrix_solve, matrix_solve_ls, matrix_triangular_solve, norm, qr, self_adjoint_eig,
    self_adjoint_eigvals, svd, trace,
)
from fgrad.compat.tensorflow.math import (
    abs, accumulate_n, acos, acosh, add, add_n, angle, argmax, argmin, asin, asinh, atan, atan2, atanh, ceil,
    check_numerics, clip_by_average_norm, clip_by_global_norm, clip_by_norm, clip_by_value, complex, conj, cos, cosh,
    count_nonzero, cumprod, cumsum, div, divide, einsum, equal, erf, erfc, exp, expm1, floor, floordiv, floormod,
    global_norm, greater, greater_equal, imag, is_finite, is_inf, is_nan, less, less_equal, log, log1p, logical_and,
    logical_not, logical_or, logical_xor, matmul, maximum, minimum, mod, multiply, negative, not_equal, pow, real,
    reciprocal, reduce_all, reduce_any, reduce_euclidean_norm, reduce_logsumexp, reduce_max, reduce_mean, reduce_min,
    reduce_prod, reduce_std, reduce_sum, reduce_variance, rint, round, rsqrt, scalar_mul, scatter_nd, segment_max,
    segment_mean, segment_min, segment_prod, segment_sum, sigmoid, sign, sin, sinh, sqrt, square, squared_difference,
    subtract, tan, tanh, tensor_scatter_nd_add, tensordot, truediv, unsorted_segment_sum,
)
from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.modes import (
    disable_eager_execution, disable_v2_behavior, enable_eager_execution, enable_v2_behavior, executing_eagerly,
)
from fgrad.compat.tensorflow.random import (
    multinomial, random_normal, random_shuffle, random_uniform, set_random_seed, truncated_normal,
)
from fgrad.compat.tensorflow.rows import foldl, foldr, map_fn, scan
from fgrad.compat.tensorflow.variables import (
    AUTO_REUSE, GraphKeys, IndexedSlices, Variable, VariableScope, add_to_collection, get_collection, get_variable,
    get_variable_scope, global_variables, moving_average_variables, name_scope, scatter_add, scatter_div, scatter_max,
    scatter_min, scatter_mul, scatter_nd_add, scatter_nd_sub, scatter_nd_update, scatter_sub, scatter_update,
    trainable_variables, variable_scope,
)
# isort: on

__all__ = [
    "AUTO_REUSE", "AggregationMethod", "ConfigProto", "DType", "Dimension", "GradientTape", "Graph", "GraphKeys",
    "IndexedSlices", "InteractiveSession", "Operation", "Session", "Tensor", "TensorShape", "UnconnectedGradients",
    "Variable", "VariableScope", "abs", "accumulate_n", "acos", "acosh", "add", "add_check_numerics_ops", "add_n",
    "add_to_collection", "angle", "argmax", "argmin", "argsort", "as_dtype", "asin", "asinh", "assign",
    "assign_add", "assign_sub", "atan", "atan2", "atanh", "autodiff", "bool", "boolean_mask", "broadcast_to",
    "cast", "ceil", "check_numerics", "cholesky", "cholesky_solve", "clip_by_average_norm", "clip_by_global_norm",
    "clip_by_norm", "clip_by_value", "colocate_with", "compat", "complex", "complex64", "complex128", "concat",
    "cond", "conj", "constant", "constant_initializer", "contrib", "control_dependencies", "convert_to_tensor",
    "cos", "cosh", "count_nonzero", "cumprod", "cumsum", "custom_gradient", "device", "diag", "diag_part",
    "disable_eager_execution", "disable_v2_behavior", "div", "divide", "double", "dtypes", "einsum",
    "enable_eager_execution", "enable_v2_behavior", "ensure_shape", "equal", "erf", "erfc", "errors",
    "executing_eagerly", "exp", "expand_dims", "expm1", "eye", "fill", "float16", "float32", "float64", "floor",
    "floordiv", "floormod", "foldl", "foldr", "function", "gather", "gather_nd", "get_collection",
    "get_default_graph", "get_default_session", "get_variable", "get_variable_scope", "global_norm",
    "global_variables", "global_variables_initializer", "glorot_normal_initializer", "glorot_uniform_initializer",
    "grad_pass_through", "gradients", "greater", "greater_equal", "group", "half", "hessians", "identity", "imag",
    "initialize_all_variables", "initialize_variables", "initializers", "int8", "int16", "int32", "int64",
    "is_finite", "is_inf", "is_nan", "is_tensor", "layers", "less", "less_equal", "linalg", "linspace", "log",
    "log1p", "logical_and", "logical_not", "logical_or", "logical_xor", "map_fn", "math", "matmul",
    "matrix_band_part", "matrix_determinant", "matrix_diag", "matrix_diag_part", "matrix_inverse",
    "matrix_set_diag", "matrix_solve", "matrix_solve_ls", "matrix_triangular_solve", "maximum", "meshgrid",
    "minimum", "mod", "moving_average_variables", "multinomial", "multiply", "name_scope", "negative", "nn",
    "no_op", "norm", "not_equal", "one_hot", "ones", "ones_initializer", "ones_like", "orthogonal_initializer",
    "pad", "placeholder", "placeholder_with_default", "pow", "python", "qr", "random", "random_normal",
    "random_normal_initializer", "random_shuffle", "random_uniform", "random_uniform_initializer", "range", "rank",
    "real", "reciprocal", "recompute_grad", "reduce_all", "reduce_any", "reduce_euclidean_norm", "reduce_logsumexp",
    "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_std", "reduce_sum", "reduce_variance",
    "repeat", "reset_default_graph", "reshape", "reverse", "rint", "roll", "round", "rsqrt", "scalar_mul", "scan",
    "scatter_add", "scatter_div", "scatter_max", "scatter_min", "scatter_mul", "scatter_nd", "scatter_nd_add",
    "scatter_nd_sub", "scatter_nd_update", "scatter_sub", "scatter_update", "segment_max", "segment_mean",
    "segment_min", "segment_prod", "segment_sum", "self_adjoint_eig", "self_adjoint_eigvals", "set_random_seed",
    "shape", "sigmoid", "sign", "sin", "sinh", "size", "slice", "sort", "split", "sqrt", "square",
    "squared_difference", "squeeze", "stack", "stop_gradient", "strided_slice", "subtract", "svd", "tan", "tanh",
    "tensor_scatter_nd_add", "tensordot", "tile", "to_double", "to_float", "to_int32", "to_int64", "trace", "train",
    "trainable_variables", "transpose", "truediv", "truncated_normal", "truncated_normal_initializer", "uint8",
    "uint16", "uint32", "uint64", "uniform_unit_scaling_initializer", "unsorted_segment_sum", "unstack",
    "variable_scope", "variables_initializer", "variance_scaling_initializer", "vectorized_map", "where",
    "while_loop", "zeros", "zeros_initializer", "zeros_like",
]
# fmt: on

__dir__ = __all__.copy

newaxis = None

__getattr__ = missing(__name__)
