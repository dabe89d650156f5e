"""TensorFlow's names over fgrad: `import fgrad.compat.tensorflow as tf`.

Eager, like TensorFlow 2, until `tf.disable_v2_behavior()`; inside of `with tf.Graph().as_default():`
deferred, like TensorFlow 1. The names of both are available. `fgrad.compat.tensorflow1` is the same in graph
mode from the start. Python numbers become float32 and int32, as in TensorFlow.

    >>> import fgrad.compat.tensorflow as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tf.reduce_sum(tf.square(x))
    >>> tape.gradient(y, x)
    Tensor([2., 4.], dtype=float32)
"""

from fgrad.compat.deferred.graph import Dimension as Dimension
from fgrad.compat.deferred.graph import Graph as Graph
from fgrad.compat.deferred.graph import Operation as Operation
from fgrad.compat.deferred.graph import TensorShape as TensorShape
from fgrad.compat.deferred.graph import reset_default_graph as reset_default_graph
from fgrad.compat.deferred.session import InteractiveSession as InteractiveSession
from fgrad.compat.deferred.session import Session as Session
from fgrad.compat.deferred.state import assign as assign
from fgrad.compat.deferred.state import assign_add as assign_add
from fgrad.compat.deferred.state import assign_sub as assign_sub
from fgrad.compat.deferred.state import constant as constant
from fgrad.compat.deferred.state import global_variables_initializer as global_variables_initializer
from fgrad.compat.deferred.state import group as group
from fgrad.compat.deferred.state import initialize_all_variables as initialize_all_variables
from fgrad.compat.deferred.state import initialize_variables as initialize_variables
from fgrad.compat.deferred.state import variables_initializer as variables_initializer
from fgrad.compat.tensorflow import autodiff as autodiff
from fgrad.compat.tensorflow import compat as compat
from fgrad.compat.tensorflow import contrib as contrib
from fgrad.compat.tensorflow import dtypes as dtypes
from fgrad.compat.tensorflow import errors as errors
from fgrad.compat.tensorflow import initializers as initializers
from fgrad.compat.tensorflow import layers as layers
from fgrad.compat.tensorflow import linalg as linalg
from fgrad.compat.tensorflow import math as math
from fgrad.compat.tensorflow import nn as nn
from fgrad.compat.tensorflow import python as python
from fgrad.compat.tensorflow import random as random
from fgrad.compat.tensorflow import train as train
from fgrad.compat.tensorflow.arrays import argsort as argsort
from fgrad.compat.tensorflow.arrays import boolean_mask as boolean_mask
from fgrad.compat.tensorflow.arrays import broadcast_to as broadcast_to
from fgrad.compat.tensorflow.arrays import cast as cast
from fgrad.compat.tensorflow.arrays import concat as concat
from fgrad.compat.tensorflow.arrays import convert_to_tensor as convert_to_tensor
from fgrad.compat.tensorflow.arrays import diag as diag
from fgrad.compat.tensorflow.arrays import ensure_shape as ensure_shape
from fgrad.compat.tensorflow.arrays import expand_dims as expand_dims
from fgrad.compat.tensorflow.arrays import eye as eye
from fgrad.compat.tensorflow.arrays import fill as fill
from fgrad.compat.tensorflow.arrays import gather as gather
from fgrad.compat.tensorflow.arrays import gather_nd as gather_nd
from fgrad.compat.tensorflow.arrays import identity as identity
from fgrad.compat.tensorflow.arrays import is_tensor as is_tensor
from fgrad.compat.tensorflow.arrays import linspace as linspace
from fgrad.compat.tensorflow.arrays import meshgrid as meshgrid
from fgrad.compat.tensorflow.arrays import one_hot as one_hot
from fgrad.compat.tensorflow.arrays import ones as ones
from fgrad.compat.tensorflow.arrays import ones_like as ones_like
from fgrad.compat.tensorflow.arrays import pad as pad
from fgrad.compat.tensorflow.arrays import range as range
from fgrad.compat.tensorflow.arrays import rank as rank
from fgrad.compat.tensorflow.arrays import repeat as repeat
from fgrad.compat.tensorflow.arrays import reshape as reshape
from fgrad.compat.tensorflow.arrays import reverse as reverse
from fgrad.compat.tensorflow.arrays import roll as roll
from fgrad.compat.tensorflow.arrays import shape as shape
from fgrad.compat.tensorflow.arrays import size as size
from fgrad.compat.tensorflow.arrays import slice as slice
from fgrad.compat.tensorflow.arrays import sort as sort
from fgrad.compat.tensorflow.arrays import split as split
from fgrad.compat.tensorflow.arrays import squeeze as squeeze
from fgrad.compat.tensorflow.arrays import stack as stack
from fgrad.compat.tensorflow.arrays import stop_gradient as stop_gradient
from fgrad.compat.tensorflow.arrays import strided_slice as strided_slice
from fgrad.compat.tensorflow.arrays import tile as tile
from fgrad.compat.tensorflow.arrays import to_double as to_double
from fgrad.compat.tensorflow.arrays import to_float as to_float
from fgrad.compat.tensorflow.arrays import to_int32 as to_int32
from fgrad.compat.tensorflow.arrays import to_int64 as to_int64
from fgrad.compat.tensorflow.arrays import transpose as transpose
from fgrad.compat.tensorflow.arrays import unstack as unstack
from fgrad.compat.tensorflow.arrays import where as where
from fgrad.compat.tensorflow.arrays import zeros as zeros
from fgrad.compat.tensorflow.arrays import zeros_like as zeros_like
from fgrad.compat.tensorflow.dtypes import DType as DType
from fgrad.compat.tensorflow.dtypes import as_dtype as as_dtype
from fgrad.compat.tensorflow.dtypes import bool as bool
from fgrad.compat.tensorflow.dtypes import complex64 as complex64
from fgrad.compat.tensorflow.dtypes import complex128 as complex128
from fgrad.compat.tensorflow.dtypes import double as double
from fgrad.compat.tensorflow.dtypes import float16 as float16
from fgrad.compat.tensorflow.dtypes import float32 as float32
from fgrad.compat.tensorflow.dtypes import float64 as float64
from fgrad.compat.tensorflow.dtypes import half as half
from fgrad.compat.tensorflow.dtypes import int8 as int8
from fgrad.compat.tensorflow.dtypes import int16 as int16
from fgrad.compat.tensorflow.dtypes import int32 as int32
from fgrad.compat.tensorflow.dtypes import int64 as int64
from fgrad.compat.tensorflow.dtypes import uint8 as uint8
from fgrad.compat.tensorflow.dtypes import uint16 as uint16
from fgrad.compat.tensorflow.dtypes import uint32 as uint32
from fgrad.compat.tensorflow.dtypes import uint64 as uint64
from fgrad.compat.tensorflow.gradient import AggregationMethod as AggregationMethod
from fgrad.compat.tensorflow.gradient import GradientTape as GradientTape
from fgrad.compat.tensorflow.gradient import UnconnectedGradients as UnconnectedGradients
from fgrad.compat.tensorflow.gradient import custom_gradient as custom_gradient
from fgrad.compat.tensorflow.gradient import grad_pass_through as grad_pass_through
from fgrad.compat.tensorflow.gradient import gradients as gradients
from fgrad.compat.tensorflow.gradient import hessians as hessians
from fgrad.compat.tensorflow.gradient import recompute_grad as recompute_grad
from fgrad.compat.tensorflow.graphs import ConfigProto as ConfigProto
from fgrad.compat.tensorflow.graphs import Tensor as Tensor
from fgrad.compat.tensorflow.graphs import add_check_numerics_ops as add_check_numerics_ops
from fgrad.compat.tensorflow.graphs import colocate_with as colocate_with
from fgrad.compat.tensorflow.graphs import cond as cond
from fgrad.compat.tensorflow.graphs import control_dependencies as control_dependencies
from fgrad.compat.tensorflow.graphs import device as device
from fgrad.compat.tensorflow.graphs import function as function
from fgrad.compat.tensorflow.graphs import get_default_graph as get_default_graph
from fgrad.compat.tensorflow.graphs import get_default_session as get_default_session
from fgrad.compat.tensorflow.graphs import no_op as no_op
from fgrad.compat.tensorflow.graphs import placeholder as placeholder
from fgrad.compat.tensorflow.graphs import placeholder_with_default as placeholder_with_default
from fgrad.compat.tensorflow.graphs import vectorized_map as vectorized_map
from fgrad.compat.tensorflow.graphs import while_loop as while_loop
from fgrad.compat.tensorflow.initializers import constant_initializer as constant_initializer
from fgrad.compat.tensorflow.initializers import glorot_normal_initializer as glorot_normal_initializer
from fgrad.compat.tensorflow.initializers import glorot_uniform_initializer as glorot_uniform_initializer
from fgrad.compat.tensorflow.initializers import ones_initializer as ones_initializer
from fgrad.compat.tensorflow.initializers import orthogonal_initializer as orthogonal_initializer
from fgrad.compat.tensorflow.initializers import random_normal_initializer as random_normal_initializer
from fgrad.compat.tensorflow.initializers import random_uniform_initializer as random_uniform_initializer
from fgrad.compat.tensorflow.initializers import truncated_normal_initializer as truncated_normal_initializer
from fgrad.compat.tensorflow.initializers import uniform_unit_scaling_initializer as uniform_unit_scaling_initializer
from fgrad.compat.tensorflow.initializers import variance_scaling_initializer as variance_scaling_initializer
from fgrad.compat.tensorflow.initializers import zeros_initializer as zeros_initializer
from fgrad.compat.tensorflow.linalg import cholesky as cholesky
from fgrad.compat.tensorflow.linalg import cholesky_solve as cholesky_solve
from fgrad.compat.tensorflow.linalg import diag_part as diag_part
from fgrad.compat.tensorflow.linalg import matrix_band_part as matrix_band_part
from fgrad.compat.tensorflow.linalg import matrix_determinant as matrix_determinant
from fgrad.compat.tensorflow.linalg import matrix_diag as matrix_diag
from fgrad.compat.tensorflow.linalg import matrix_diag_part as matrix_diag_part
from fgrad.compat.tensorflow.linalg import matrix_inverse as matrix_inverse
from fgrad.compat.tensorflow.linalg import matrix_set_diag as matrix_set_diag
from fgrad.compat.tensorflow.linalg import matrix_solve as matrix_solve
from fgrad.compat.tensorflow.linalg import matrix_solve_ls as matrix_solve_ls
from fgrad.compat.tensorflow.linalg import matrix_triangular_solve as matrix_triangular_solve
from fgrad.compat.tensorflow.linalg import norm as norm
from fgrad.compat.tensorflow.linalg import qr as qr
from fgrad.compat.tensorflow.linalg import self_adjoint_eig as self_adjoint_eig
from fgrad.compat.tensorflow.linalg import self_adjoint_eigvals as self_adjoint_eigvals
from fgrad.compat.tensorflow.linalg import svd as svd
from fgrad.compat.tensorflow.linalg import trace as trace
from fgrad.compat.tensorflow.math import abs as abs
from fgrad.compat.tensorflow.math import accumulate_n as accumulate_n
from fgrad.compat.tensorflow.math import acos as acos
from fgrad.compat.tensorflow.math import acosh as acosh
from fgrad.compat.tensorflow.math import add as add
from fgrad.compat.tensorflow.math import add_n as add_n
from fgrad.compat.tensorflow.math import angle as angle
from fgrad.compat.tensorflow.math import argmax as argmax
from fgrad.compat.tensorflow.math import argmin as argmin
from fgrad.compat.tensorflow.math import asin as asin
from fgrad.compat.tensorflow.math import asinh as asinh
from fgrad.compat.tensorflow.math import atan as atan
from fgrad.compat.tensorflow.math import atan2 as atan2
from fgrad.compat.tensorflow.math import atanh as atanh
from fgrad.compat.tensorflow.math import ceil as ceil
from fgrad.compat.tensorflow.math import check_numerics as check_numerics
from fgrad.compat.tensorflow.math import clip_by_average_norm as clip_by_average_norm
from fgrad.compat.tensorflow.math import clip_by_global_norm as clip_by_global_norm
from fgrad.compat.tensorflow.math import clip_by_norm as clip_by_norm
from fgrad.compat.tensorflow.math import clip_by_value as clip_by_value
from fgrad.compat.tensorflow.math import complex as complex
from fgrad.compat.tensorflow.math import conj as conj
from fgrad.compat.tensorflow.math import cos as cos
from fgrad.compat.tensorflow.math import cosh as cosh
from fgrad.compat.tensorflow.math import count_nonzero as count_nonzero
from fgrad.compat.tensorflow.math import cumprod as cumprod
from fgrad.compat.tensorflow.math import cumsum as cumsum
from fgrad.compat.tensorflow.math import div as div
from fgrad.compat.tensorflow.math import divide as divide
from fgrad.compat.tensorflow.math import einsum as einsum
from fgrad.compat.tensorflow.math import equal as equal
from fgrad.compat.tensorflow.math import erf as erf
from fgrad.compat.tensorflow.math import erfc as erfc
from fgrad.compat.tensorflow.math import exp as exp
from fgrad.compat.tensorflow.math import expm1 as expm1
from fgrad.compat.tensorflow.math import floor as floor
from fgrad.compat.tensorflow.math import floordiv as floordiv
from fgrad.compat.tensorflow.math import floormod as floormod
from fgrad.compat.tensorflow.math import global_norm as global_norm
from fgrad.compat.tensorflow.math import greater as greater
from fgrad.compat.tensorflow.math import greater_equal as greater_equal
from fgrad.compat.tensorflow.math import imag as imag
from fgrad.compat.tensorflow.math import is_finite as is_finite
from fgrad.compat.tensorflow.math import is_inf as is_inf
from fgrad.compat.tensorflow.math import is_nan as is_nan
from fgrad.compat.tensorflow.math import less as less
from fgrad.compat.tensorflow.math import less_equal as less_equal
from fgrad.compat.tensorflow.math import log as log
from fgrad.compat.tensorflow.math import log1p as log1p
from fgrad.compat.tensorflow.math import logical_and as logical_and
from fgrad.compat.tensorflow.math import logical_not as logical_not
from fgrad.compat.tensorflow.math import logical_or as logical_or
from fgrad.compat.tensorflow.math import logical_xor as logical_xor
from fgrad.compat.tensorflow.math import matmul as matmul
from fgrad.compat.tensorflow.math import maximum as maximum
from fgrad.compat.tensorflow.math import minimum as minimum
from fgrad.compat.tensorflow.math import mod as mod
from fgrad.compat.tensorflow.math import multiply as multiply
from fgrad.compat.tensorflow.math import negative as negative
from fgrad.compat.tensorflow.math import not_equal as not_equal
from fgrad.compat.tensorflow.math import pow as pow
from fgrad.compat.tensorflow.math import real as real
from fgrad.compat.tensorflow.math import reciprocal as reciprocal
from fgrad.compat.tensorflow.math import reduce_all as reduce_all
from fgrad.compat.tensorflow.math import reduce_any as reduce_any
from fgrad.compat.tensorflow.math import reduce_euclidean_norm as reduce_euclidean_norm
from fgrad.compat.tensorflow.math import reduce_logsumexp as reduce_logsumexp
from fgrad.compat.tensorflow.math import reduce_max as reduce_max
from fgrad.compat.tensorflow.math import reduce_mean as reduce_mean
from fgrad.compat.tensorflow.math import reduce_min as reduce_min
from fgrad.compat.tensorflow.math import reduce_prod as reduce_prod
from fgrad.compat.tensorflow.math import reduce_std as reduce_std
from fgrad.compat.tensorflow.math import reduce_sum as reduce_sum
from fgrad.compat.tensorflow.math import reduce_variance as reduce_variance
from fgrad.compat.tensorflow.math import rint as rint
from fgrad.compat.tensorflow.math import round as round
from fgrad.compat.tensorflow.math import rsqrt as rsqrt
from fgrad.compat.tensorflow.math import scalar_mul as scalar_mul
from fgrad.compat.tensorflow.math import scatter_nd as scatter_nd
from fgrad.compat.tensorflow.math import segment_max as segment_max
from fgrad.compat.tensorflow.math import segment_mean as segment_mean
from fgrad.compat.tensorflow.math import segment_min as segment_min
from fgrad.compat.tensorflow.math import segment_prod as segment_prod
from fgrad.compat.tensorflow.math import segment_sum as segment_sum
from fgrad.compat.tensorflow.math import sigmoid as sigmoid
from fgrad.compat.tensorflow.math import sign as sign
from fgrad.compat.tensorflow.math import sin as sin
from fgrad.compat.tensorflow.math import sinh as sinh
from fgrad.compat.tensorflow.math import sqrt as sqrt
from fgrad.compat.tensorflow.math import square as square
from fgrad.compat.tensorflow.math import squared_difference as squared_difference
from fgrad.compat.tensorflow.math import subtract as subtract
from fgrad.compat.tensorflow.math import tan as tan
from fgrad.compat.tensorflow.math import tanh as tanh
from fgrad.compat.tensorflow.math import tensor_scatter_nd_add as tensor_scatter_nd_add
from fgrad.compat.tensorflow.math import tensordot as tensordot
from fgrad.compat.tensorflow.math import truediv as truediv
from fgrad.compat.tensorflow.math import unsorted_segment_sum as unsorted_segment_sum
from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.modes import disable_eager_execution as disable_eager_execution
from fgrad.compat.tensorflow.modes import disable_v2_behavior as disable_v2_behavior
from fgrad.compat.tensorflow.modes import enable_eager_execution as enable_eager_execution
from fgrad.compat.tensorflow.modes import enable_v2_behavior as enable_v2_behavior
from fgrad.compat.tensorflow.modes import executing_eagerly as executing_eagerly
from fgrad.compat.tensorflow.random import multinomial as multinomial
from fgrad.compat.tensorflow.random import random_normal as random_normal
from fgrad.compat.tensorflow.random import random_shuffle as random_shuffle
from fgrad.compat.tensorflow.random import random_uniform as random_uniform
from fgrad.compat.tensorflow.random import set_random_seed as set_random_seed
from fgrad.compat.tensorflow.random import truncated_normal as truncated_normal
from fgrad.compat.tensorflow.rows import foldl as foldl
from fgrad.compat.tensorflow.rows import foldr as foldr
from fgrad.compat.tensorflow.rows import map_fn as map_fn
from fgrad.compat.tensorflow.rows import scan as scan
from fgrad.compat.tensorflow.variables import AUTO_REUSE as AUTO_REUSE
from fgrad.compat.tensorflow.variables import GraphKeys as GraphKeys
from fgrad.compat.tensorflow.variables import IndexedSlices as IndexedSlices
from fgrad.compat.tensorflow.variables import Variable as Variable
from fgrad.compat.tensorflow.variables import VariableScope as VariableScope
from fgrad.compat.tensorflow.variables import add_to_collection as add_to_collection
from fgrad.compat.tensorflow.variables import get_collection as get_collection
from fgrad.compat.tensorflow.variables import get_variable as get_variable
from fgrad.compat.tensorflow.variables import get_variable_scope as get_variable_scope
from fgrad.compat.tensorflow.variables import global_variables as global_variables
from fgrad.compat.tensorflow.variables import moving_average_variables as moving_average_variables
from fgrad.compat.tensorflow.variables import name_scope as name_scope
from fgrad.compat.tensorflow.variables import scatter_add as scatter_add
from fgrad.compat.tensorflow.variables import scatter_div as scatter_div
from fgrad.compat.tensorflow.variables import scatter_max as scatter_max
from fgrad.compat.tensorflow.variables import scatter_min as scatter_min
from fgrad.compat.tensorflow.variables import scatter_mul as scatter_mul
from fgrad.compat.tensorflow.variables import scatter_nd_add as scatter_nd_add
from fgrad.compat.tensorflow.variables import scatter_nd_sub as scatter_nd_sub
from fgrad.compat.tensorflow.variables import scatter_nd_update as scatter_nd_update
from fgrad.compat.tensorflow.variables import scatter_sub as scatter_sub
from fgrad.compat.tensorflow.variables import scatter_update as scatter_update
from fgrad.compat.tensorflow.variables import trainable_variables as trainable_variables
from fgrad.compat.tensorflow.variables import variable_scope as variable_scope

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
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


newaxis = None

__getattr__ = missing(__name__)
