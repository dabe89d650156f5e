"""Mistakes that newcomers make: what they write, what fgrad says to it, and what they write then.

Each row of MISTAKES is a program with a mistake, the class of the error or warning that it meets, words that the
message must have about what was wrong and about what to write instead, and the mended program with its value.
The site's page of mistakes, which `make docs` builds with `page`, shows the same programs and messages.
"""

import ast
import copy
import functools
import inspect
import itertools
import math
import os
import pickle
import re
import tempfile
import textwrap
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.fft
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.sparse
from helpers import plain

import fgrad as fg
import fgrad.numpy as fnp
import fgrad.scipy.linalg
import fgrad.scipy.optimize
import fgrad.scipy.sparse
from fgrad import errors
from fgrad.optimizers import schedules


@dataclass(frozen=True)
class Mistake:
    """A mistake, what is said to it, and the mended program.

    Attributes:
        area: the part of the page where it stands.
        title: the mistake in a few words.
        program: the program with the mistake.
        error: the class of the error or warning; None where the answer is None, and `fg.explain`, which the
            program returns, shows why.
        what: words in the message that say what was wrong, and where.
        instead: words in the message that say what to write.
        mended: the program without the mistake.
        expected: its value.
    """

    area: str
    title: str
    program: Callable[[], Any]
    error: type[Exception] | None
    what: tuple[str, ...]
    instead: tuple[str, ...]
    mended: Callable[[], Any]
    expected: Any


MISTAKES: list[Mistake] = []
AREA = ""


def mistake(title, program, error, *, what, instead, mended, expected):
    what, instead = (words if isinstance(words, tuple) else (words,) for words in (what, instead))
    MISTAKES.append(Mistake(AREA, title, program, error, what, instead, mended, expected))


AREA = "Asking for a gradient"


def wrong():
    def energy(mass, speed):
        return mass * speed**2 / 2

    return fg.gradients_function(energy, params=["sped"])(2.0, 3.0)


def right():
    def energy(mass, speed):
        return mass * speed**2 / 2

    return fg.gradients_function(energy, params=["speed"])(2.0, 3.0)


mistake(
    "A parameter's name is misspelled",
    wrong,
    errors.ParameterError,
    what=("energy has no parameter 'sped'", "its parameters are mass, speed"),
    instead="Did you mean 'speed'?",
    mended=right,
    expected=[6.0],
)


def wrong():
    def energy(mass, speed):
        return mass * speed**2 / 2

    return fg.check(energy)(2.0, 3.0)


def right():
    def energy(mass, speed):
        return mass * speed**2 / 2

    return fg.check(energy, 2.0, 3.0).ok


mistake(
    "check and explain are called as if they were transforms",
    wrong,
    errors.ParameterError,
    what="takes a function and its arguments, and no arguments were given for 'mass, speed'",
    instead="Write fg.check(energy, mass, speed), not fg.check(energy)(mass, speed)",
    mended=right,
    expected=True,
)


def wrong():
    return fg.grad(lambda width, height: width * height, argnums=2)(2.0, 3.0)


def right():
    return fg.grad(lambda width, height: width * height, argnums=1)(2.0, 3.0)


mistake(
    "argnums is out of range",
    wrong,
    errors.ParameterError,
    what=("position 2 is out of range", "2 positional arguments", "width, height"),
    instead="Positions count from 0",
    mended=right,
    expected=2.0,
)


def wrong():
    def scaled(x, *, scale):
        return scale * x**2

    return fg.grad(scaled, argnums=1)(3.0, scale=2.0)


def right():
    def scaled(x, *, scale):
        return scale * x**2

    return fg.grad(scaled, argnums="scale")(3.0, scale=2.0)


mistake(
    "A keyword-only parameter is counted",
    wrong,
    errors.ParameterError,
    what=("position 1 is out of range", "scaled was called with 1 positional argument"),
    instead="select keyword-only parameters by name: 'scale'",
    mended=right,
    expected=9.0,
)


def wrong():
    return fg.gradients_function(lambda x, y: x * y)(x=2.0, y=3.0)


def right():
    return fg.gradients_function(lambda x, y: x * y)(2.0, 3.0)


mistake(
    "All arguments are passed by keyword",
    wrong,
    errors.ParameterError,
    what="called with keyword arguments only",
    instead=("Pass the arguments by position", "params=['x', 'y']"),
    mended=right,
    expected=[3.0, 2.0],
)


def wrong():
    def f(x):
        return x**2

    return fg.grad(f(3.0))


def right():
    def f(x):
        return x**2

    return fg.grad(f)(3.0)


mistake(
    "The function is called where it should be passed",
    wrong,
    errors.NotCallableError,
    what="grad takes a function, not 9.0 of type float",
    instead=("Pass the function itself", "grad(f)(x), not grad(f(x))"),
    mended=right,
    expected=6.0,
)


def wrong():
    return fg.jacobian(lambda x: x**2, np.array([1.0, 2.0]))


def right():
    return fg.jacobian(lambda x: x**2)(np.array([1.0, 2.0]))


mistake(
    "The point is passed along with the function",
    wrong,
    errors.ParameterError,
    what=("argnums of jacobian must be positions or names of parameters", "it is array([1., 2.])"),
    instead="jacobian(f)(x), not jacobian(f, x)",
    mended=right,
    expected=[[2.0, 0.0], [0.0, 4.0]],
)


def wrong():
    @fg.grad(1)
    def area(width, height):
        return width * height

    return area(2.0, 3.0)


def right():
    @fg.grad(argnums=1)
    def area(width, height):
        return width * height

    return area(2.0, 3.0)


mistake(
    "A decorator gets its option without a name",
    wrong,
    errors.NotCallableError,
    what="grad takes a function, not 1 of type int",
    instead="@fg.grad(argnums=1)",
    mended=right,
    expected=2.0,
)


def wrong():
    w = fg.Variable(3.0, name="w")
    return fg.grad(w)


def right():
    w = fg.Variable(3.0, name="w")
    ((gradient, _),) = fg.implicit_gradients(lambda: w**2)()
    return gradient


mistake(
    "A variable is passed in place of the function that reads it",
    wrong,
    errors.NotCallableError,
    what="grad takes a function, not Variable(3., name='w')",
    instead=("the function that reads the variable", "fg.implicit_gradients(f)"),
    mended=right,
    expected=6.0,
)


def wrong():
    _, pullback = fg.vjp(np.sin)
    return pullback(1.0)


def right():
    _, pullback = fg.vjp(np.sin, 0.0)
    return pullback(1.0)


mistake(
    "vjp gets no point",
    wrong,
    errors.ParameterError,
    what="vjp takes the point together with the function",
    instead=("vjp(f, x)", "make_vjp(f)(x)"),
    mended=right,
    expected=(1.0,),
)


def wrong():
    return fg.jvp(np.sin, 0.0, 1.0)


def right():
    return fg.jvp(np.sin, (0.0,), (1.0,))


mistake(
    "jvp gets numbers in place of tuples",
    wrong,
    errors.TangentError,
    what="primals and tangents each in a tuple",
    instead="jvp(f, (x,), (t,))",
    mended=right,
    expected=(0.0, 1.0),
)


def wrong():
    return fg.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))


def right():
    return fg.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 0.0]))


mistake(
    "hvp gets no vector",
    wrong,
    errors.TangentError,
    what=("takes a point and a vector", "called with 1 argument"),
    instead="hvp(f)(x, v)",
    mended=right,
    expected=[6.0, 0.0],
)


def wrong():
    return fg.gradients_function(np.square)(np.array([1.0, 2.0, 3.0]), dy=np.array([1.0, 10.0]))


def right():
    return fg.gradients_function(np.square)(np.array([1.0, 2.0, 3.0]), dy=np.array([1.0, 10.0, 100.0]))


mistake(
    "dy has another shape than the result",
    wrong,
    errors.SeedError,
    what="dy has shape (2,), and its result has shape (3,)",
    instead=("Weights have the shape of the result", "a scalar applies to all elements"),
    mended=right,
    expected=[[2.0, 40.0, 600.0]],
)


AREA = "Arguments"


def wrong():
    return fg.grad(lambda x: x**2)(3)


def right():
    return fg.grad(lambda x: x**2)(3.0)


mistake(
    "A gradient with respect to an integer",
    wrong,
    errors.IntegerInputError,
    what="the argument 'x' is 3, of type int, which has no derivative",
    instead=("3.0 instead of 3", "x.astype(float)"),
    mended=right,
    expected=6.0,
)


def wrong():
    return fg.hessian(lambda x: np.sum(x**3))(np.array([1, 2]))


def right():
    return fg.hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))


mistake(
    "The Hessian at an array of integers",
    wrong,
    errors.IntegerInputError,
    what="hessian of <lambda>: the argument 'x' is of type int64",
    instead="x.astype(float)",
    mended=right,
    expected=[[6.0, 0.0], [0.0, 12.0]],
)


def wrong():
    return fg.grad(lambda p: p["scale"] ** p["order"])({"scale": 3.0, "order": 2})


def right():
    return fg.grad(lambda scale, order: scale ** order["order"])(3.0, {"order": 2})


mistake(
    "An integer setting in the container of parameters",
    wrong,
    errors.IntegerInputError,
    what="the argument 'p'['order'] is 2, of type int",
    instead="choose other arguments with argnums",
    mended=right,
    expected=6.0,
)


def wrong():
    return fg.grad(lambda x: np.sum(x**2))([1.0, 2.0])


def right():
    return fg.grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))


mistake(
    "A list where an array is meant",
    wrong,
    TypeError,
    what=("'list'", "<lambda> got a list for 'x', that is, a list of tensors"),
    instead="pass an array, np.array(...), in its place",
    mended=right,
    expected=[2.0, 4.0],
)


def wrong():
    class Circle:
        def __init__(self, radius):
            self.radius = radius

    return fg.grad(lambda circle: np.pi * circle.radius**2)(Circle(0.5))


def right():
    class Circle:
        def __init__(self, radius):
            self.radius = radius

    fg.register_pytree_node(Circle, lambda c: ((c.radius,), None), lambda _, children: Circle(*children))
    return fg.grad(lambda circle: np.pi * circle.radius**2)(Circle(0.5)).radius


mistake(
    "An object of a class that is not registered",
    wrong,
    errors.NonNumericInputError,
    what=("the argument 'circle' is", "of type Circle, which is not a number"),
    instead=("fg.register_pytree_node", "fg.register_dataclass"),
    mended=right,
    expected=np.pi,
)


def wrong():
    return fg.grad(np.sum)(np.ma.array([1.0, 2.0], mask=[False, True]))


def right():
    x = np.ma.array([1.0, 2.0], mask=[False, True])
    return fg.grad(lambda values: np.sum(values[~x.mask]))(x.filled(0))


mistake(
    "A masked array",
    wrong,
    errors.StructureError,
    what="a MaskedArray cannot be differentiated",
    instead="x.filled(0)",
    mended=right,
    expected=[1.0, 0.0],
)


def wrong():
    return fg.Variable(None)


def right():
    return fg.Variable(0.0).numpy()


mistake(
    "A variable without a value",
    wrong,
    errors.DtypeError,
    what="its initial value is None",
    instead="Pass a number or an array",
    mended=right,
    expected=0.0,
)


def wrong():
    def step(position):
        return position * 0.5, position

    return fg.grad(lambda x: fg.scan(step, x, np.arange(3.0))[0])(8.0)


def right():
    def step(position, _):
        return position * 0.5, position

    return fg.grad(lambda x: fg.scan(step, x, np.arange(3.0))[0])(8.0)


mistake(
    "The function of a loop takes the wrong arguments",
    wrong,
    errors.NotCallableError,
    what=("f of scan is called as f(carry, x)", "step(position) takes fewer arguments"),
    instead="Give it the parameters (carry, x); one that it does not need may be called _.",
    mended=right,
    expected=0.125,
)


AREA = "Results"


def wrong():
    def loss(x):
        y = x**2  # noqa: F841

    return fg.grad(loss)(3.0)


def right():
    def loss(x):
        y = x**2
        return y

    return fg.grad(loss)(3.0)


mistake(
    "The return is forgotten",
    wrong,
    errors.NoResultError,
    what="Cannot differentiate a function that returns None",
    instead="did you forget to return a value from loss?",
    mended=right,
    expected=6.0,
)


def wrong():
    return fg.grad(lambda x: x**2)(np.array([1.0, 2.0]))


def right():
    return fg.grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))


mistake(
    "grad of a function with many results",
    wrong,
    errors.NonScalarError,
    what=("grad needs a function with a scalar result", "returned shape (2,)"),
    instead=("Return a sum or mean", "fg.jacobian", "fg.elementwise_grad"),
    mended=right,
    expected=[2.0, 4.0],
)


def wrong():
    return fg.grad(lambda x: (x**2, "done"))(3.0)


def right():
    return fg.grad(lambda x: (x**2, "done"), has_aux=True)(3.0)


mistake(
    "A second result that is not to be differentiated",
    wrong,
    errors.OutputError,
    what="returned 'done' of type str, which is not a number, array or tensor",
    instead="has_aux=True",
    mended=right,
    expected=(6.0, "done"),
)


def wrong():
    def residuals(x):
        return x - np.array([1.0, 2.0])

    return scipy.optimize.least_squares(residuals, np.zeros(2), jac=fg.grad(residuals)).x


def right():
    def residuals(x):
        return x - np.array([1.0, 2.0])

    return scipy.optimize.least_squares(residuals, np.zeros(2), jac=fg.jacobian(residuals)).x


mistake(
    "SciPy wants a Jacobian and gets grad",
    wrong,
    errors.NonScalarError,
    what="grad needs a function with a scalar result",
    instead="use fg.jacobian",
    mended=right,
    expected=[1.0, 2.0],
)


def wrong():
    def f(x):
        return np.sum((x - 2.0) ** 2)

    return fgrad.scipy.optimize.minimize(f, np.zeros(3), jac=fg.gradients_function(f)).x


def right():
    def f(x):
        return np.sum((x - 2.0) ** 2)

    return fgrad.scipy.optimize.minimize(f, np.zeros(3)).x


mistake(
    "A jac of the wrong shape",
    wrong,
    errors.ShapeError,
    what="jac must return the gradient, of shape (3,), but it returned shape (1, 3)",
    instead=("Omit jac", "fg.grad(fun)"),
    mended=right,
    expected=[2.0, 2.0, 2.0],
)


def wrong():
    scores, labels = np.array([[2.0, 1.0], [0.5, 1.5]]), np.array([1, 1])
    return fg.grad(lambda s: np.mean(np.argmax(s, axis=1) != labels))(scores)


def right():
    scores, labels = np.array([[2.0, 1.0], [0.5, 1.5]]), np.array([1, 1])
    return fg.grad(lambda s: -np.mean(fgrad.scipy.special.log_softmax(s, axis=1)[np.arange(2), labels]))(scores).round(
        3
    )


mistake(
    "A loss that counts has the derivative zero",
    wrong,
    errors.NoGradientWarning,
    what="is zero: every path to the result leads through an operation whose derivative is zero",
    instead="use fgrad.explain for details",
    mended=right,
    expected=[[0.366, -0.366], [0.134, -0.134]],
)


AREA = "Values that leave the trace"


def wrong():
    return fg.grad(lambda x: np.sum(np.array([x, x**2], dtype=float)))(3.0)


def right():
    return fg.grad(lambda x: np.sum(np.array([x, x**2])))(3.0)


mistake(
    "np.array of tensors with a dtype",
    wrong,
    errors.ArrayConversionError,
    what=("requested a plain array from a traced tensor", "test_mistakes.py", "np.array([x, x**2], dtype=float)"),
    instead="write np.stack([x, y])",
    mended=right,
    expected=7.0,
)


def wrong():
    def total(x):
        return np.sum(np.linalg.inv(np.array([[x, 1.0], [0.0, x]])))

    return fg.grad(total)(2.0)


def right():
    def total(x):
        return np.sum(np.linalg.inv(fnp.array([[x, 1.0], [0.0, x]])))

    return fg.grad(total)(2.0)


mistake(
    "The inverse of np.array of tensors",
    wrong,
    errors.ObjectArrayError,
    what=(
        "needs floating-point numbers, and does not support an array of traced numbers",
        "it was built at test_mistakes.py",
        "np.linalg.inv(np.array([[x, 1.0], [0.0, x]]))",
    ),
    instead=("write fgrad.numpy.array([x, y])", "makes one tensor"),
    mended=right,
    expected=-0.25,
)


def wrong():
    return fg.grad(lambda x: np.sum(np.hypot(np.array([x, 4.0]), 3.0)))(4.0)


def right():
    return fg.grad(lambda x: np.sum(np.hypot(fnp.array([x, 4.0]), 3.0)))(4.0)


mistake(
    "A function of two numbers of an np.array of tensors and numbers",
    wrong,
    errors.ObjectArrayError,
    what=("does not support an array of traced numbers", "np.hypot(np.array([x, 4.0]), 3.0)"),
    instead=("write fgrad.numpy.array([x, y])", "makes one tensor"),
    mended=right,
    expected=0.8,
)


def wrong():
    return fg.grad(lambda x: np.mean(np.array([x, x**2])))(3.0)


def right():
    return fg.grad(lambda x: np.mean(fnp.array([x, x**2])))(3.0)


mistake(
    "The mean of np.array of tensors",
    wrong,
    errors.ArrayConversionError,
    what=("requested a plain array from a traced tensor", "np.mean(np.array([x, x**2]))"),
    instead=("write np.stack([x, y])", "np.mean(np.stack([x, y]))"),
    mended=right,
    expected=3.5,
)


def wrong():
    def total(x):
        y = x * np.ones(20_000)
        return np.sum(np.array([y, y**2]))

    return fg.grad(total)(3.0)


def right():
    def total(x):
        y = x * np.ones(20_000)
        return np.sum(np.stack([y, y**2]))

    return fg.grad(total)(3.0)


mistake(
    "np.array of large tensors",
    wrong,
    errors.ArrayConversionError,
    what=("requested a plain array from a traced tensor", "np.array([y, y**2])"),
    instead="write np.stack([x, y])",
    mended=right,
    expected=140000.0,
)


def wrong():
    return fg.grad(lambda x: np.mean([x, x**2, 1.0]))(3.0)


def right():
    return fg.grad(lambda x: np.mean(np.stack([x, x**2, 1.0])))(3.0)


mistake(
    "A list of tensors as an argument of NumPy",
    wrong,
    errors.ArrayConversionError,
    what=("requested a plain array from a traced tensor", "np.mean([x, x**2, 1.0])"),
    instead="np.mean(np.stack([x, y]))",
    mended=right,
    expected=7.0 / 3.0,
)


def wrong():
    def powers(x):
        result = np.zeros(3)
        for i in range(3):
            result[i] = x**i
        return np.sum(result)

    return fg.grad(powers)(3.0)


def right():
    def powers(x):
        result = fnp.zeros(3)
        for i in range(3):
            result[i] = x**i
        return np.sum(result)

    return fg.grad(powers)(3.0)


mistake(
    "A tensor is stored in a plain array",
    wrong,
    errors.ArrayConversionError,
    what=("its derivative would be lost", "result[i] = x**i"),
    instead=("create `result` with fgrad.numpy.zeros", "np.stack(values)"),
    mended=right,
    expected=7.0,
)


def wrong():
    def total(x):
        result = np.zeros(2)
        result += x
        return np.sum(result)

    return fg.grad(total)(np.ones(2))


def right():
    def total(x):
        result = np.zeros(2)
        result = result + x
        return np.sum(result)

    return fg.grad(total)(np.ones(2))


mistake(
    "A tensor is added in place to a plain array",
    wrong,
    errors.InPlaceError,
    what=("np.add would write a tensor into a plain NumPy array", "result += x"),
    instead=("a = a + x", "fgrad.numpy.zeros"),
    mended=right,
    expected=[1.0, 1.0],
)


def wrong():
    return fg.grad(lambda x: math.sin(x))(0.0)


def right():
    return fg.grad(lambda x: np.sin(x))(0.0)


mistake(
    "math in place of NumPy",
    wrong,
    errors.DetachedError,
    what=("math.sin requested a plain number from a traced tensor", "at test_mistakes.py", "math.sin(x)"),
    instead="Write np.sin for math.sin; x.item() for the plain number",
    mended=right,
    expected=1.0,
)


def wrong():
    return fg.grad(lambda x: x * math.exp(x))(0.5)


def right():
    return fg.grad(lambda x: x * np.exp(x))(0.5)


mistake(
    "math in a part of the formula",
    wrong,
    errors.DetachedError,
    what=("math.exp requested a plain number from a traced tensor", "its derivative would be lost", "x * math.exp(x)"),
    instead=("Write np.exp for math.exp", "fg.stop_gradient(x) for a constant"),
    mended=right,
    expected=1.5 * math.exp(0.5),
)


def wrong():
    functions = {"sine": math.sin, "root": math.sqrt}
    return fg.grad(lambda x: np.sum(x**2) + functions["sine"](x[0]))(np.array([1.0, 2.0]))


def right():
    functions = {"sine": np.sin, "root": np.sqrt}
    return fg.grad(lambda x: np.sum(x**2) + functions["sine"](x[0]))(np.array([1.0, 2.0]))


mistake(
    "A function of math from a table",
    wrong,
    errors.DetachedError,
    what=("Something requested a plain number from a traced tensor", 'functions["sine"](x[0])'),
    instead=("Write np.sin for math.sin", "x itself for float(x)", "x.item() for the plain number"),
    mended=right,
    expected=[2.0 + math.cos(1.0), 4.0],
)


def wrong():
    return fg.grad(lambda x: x * float(x))(3.0)


def right():
    return fg.grad(lambda x: x * x)(3.0)


mistake(
    "float(x) in a part of the formula",
    wrong,
    errors.DetachedError,
    what=("float() requested a plain number from a traced tensor", "its derivative would be lost", "x * float(x)"),
    instead=("Write x itself for float(x)", "x.item() for the plain number"),
    mended=right,
    expected=6.0,
)


def wrong():
    return fg.grad(lambda a, b: abs(a * complex(a, b)) / a, argnums=(0, 1))(3.0, 4.0)


def right():
    return fg.grad(lambda a, b: abs(a * (a + 1j * b)) / a, argnums=(0, 1))(3.0, 4.0)


mistake(
    "complex(a, b) of two tensors",
    wrong,
    errors.DetachedError,
    what=("complex() requested a plain number from a traced tensor", "complex(a, b)"),
    instead="Write a + 1j * b for complex(a, b)",
    mended=right,
    expected=(0.6, 0.8),
)


def wrong():
    losses = []

    def loss(x):
        value = np.sum(x**2)
        losses.append(float(value))
        return value

    return fg.grad(loss)(np.array([1.0, 2.0])), losses


def right():
    losses = []

    def loss(x):
        value = np.sum(x**2)
        losses.append(value.item())
        return value

    return fg.grad(loss)(np.array([1.0, 2.0])), losses


mistake(
    "The loss is kept for later by float()",
    wrong,
    errors.DetachedError,
    what=("float() requested a plain number from a traced tensor", "losses.append(float(value))"),
    instead="x.item() for the plain number",
    mended=right,
    expected=([2.0, 4.0], [5.0]),
)


def wrong():
    return fg.grad(lambda x, y: x * float(y) ** 2, argnums=(0, 1))(2.0, 3.0)


def right():
    return fg.grad(lambda x, y: x * y**2, argnums=(0, 1))(2.0, 3.0)


mistake(
    "float(x) in the middle",
    wrong,
    errors.DetachedError,
    what=("float() requested a plain number from a traced tensor", "at test_mistakes.py", "float(y) ** 2"),
    instead="Write x itself for float(x)",
    mended=right,
    expected=(9.0, 12.0),
)


def wrong():
    return fg.grad(lambda x: np.sum(x.numpy() ** 2))(np.array([1.0, 2.0]))


def right():
    return fg.grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))


mistake(
    "x.numpy() inside the function",
    wrong,
    errors.DetachedError,
    what=(".numpy() at test_mistakes.py", "x.numpy() ** 2"),
    instead="Compute with the tensors themselves",
    mended=right,
    expected=[2.0, 4.0],
)


def wrong():
    return fg.grad(lambda x: np.float64(x) ** 2)(3.0)


def right():
    return fg.grad(lambda x: x**2)(3.0)


mistake(
    "A conversion to another kind of number",
    wrong,
    errors.ArrayConversionError,
    what=("its derivative would be lost", "np.float64(x) ** 2"),
    instead="omit it",
    mended=right,
    expected=6.0,
)


def wrong():
    rng = np.random.default_rng(0)
    return fg.grad(lambda mean: rng.normal(mean, 2.0))(3.0)


def right():
    rng = np.random.default_rng(0)
    return fg.grad(lambda mean: mean + 2.0 * rng.normal())(3.0)


mistake(
    "Random numbers are drawn from what is differentiated",
    wrong,
    errors.ArrayConversionError,
    what=("its derivative would be lost", "rng.normal(mean, 2.0)"),
    instead="shift and scale them: x + s * rng.normal()",
    mended=right,
    expected=1.0,
)


def wrong():
    table = np.array([1.0, 10.0, 100.0])
    return fg.grad(lambda x: table[x] * x)(2.0)


def right():
    table = np.array([1.0, 10.0, 100.0])
    return fg.grad(lambda x: table[int(x)] * x)(2.0)


mistake(
    "A floating-point tensor as an index",
    wrong,
    IndexError,
    what="only integers",
    instead="An index must be an integer: int(x)",
    mended=right,
    expected=100.0,
)


def wrong():
    return fg.grad(lambda a: np.sum(scipy.linalg.expm(a)))(np.zeros((2, 2)))


def right():
    return fg.grad(lambda a: np.sum(fgrad.scipy.linalg.expm(a)))(np.zeros((2, 2)))


mistake(
    "A function of SciPy",
    wrong,
    errors.ScipyCallError,
    what=("scipy.linalg.expm takes plain arrays", "test_mistakes.py"),
    instead="Write fgrad.scipy.linalg.expm",
    mended=right,
    expected=[[1.0, 1.0], [1.0, 1.0]],
)


def wrong():
    def turned(angle):
        matrix = np.zeros((2, 2))
        matrix[0, 0] = matrix[1, 1] = np.cos(angle)
        return np.sum(matrix)

    return fg.grad(turned)(0.5)


def right():
    def turned(angle):
        matrix = np.zeros_like(angle, shape=(2, 2))
        matrix[0, 0] = matrix[1, 1] = np.cos(angle)
        return np.sum(matrix)

    return fg.grad(turned)(0.5)


mistake(
    "A matrix of traced numbers is filled",
    wrong,
    errors.ArrayConversionError,
    what=("its derivative would be lost", "matrix[0, 0] = matrix[1, 1] = np.cos(angle)"),
    instead=(
        "fgrad.numpy.zeros",
        "np.zeros_like(x, shape=(3, 3))",
        "np.stack(values)",
        "np.array([[x, 0.0], [0.0, y]])",
    ),
    mended=right,
    expected=-2.0 * math.sin(0.5),
)


def wrong():
    def total(x):
        y = x * np.ones(20_000)
        return np.sum(np.ones((2, 20_000)) * [y, y**2])

    return fg.grad(total)(3.0)


def right():
    def total(x):
        y = x * np.ones(20_000)
        return np.sum(np.ones((2, 20_000)) * np.stack([y, y**2]))

    return fg.grad(total)(3.0)


mistake(
    "An array times a list of large tensors",
    wrong,
    errors.ArrayConversionError,
    what=("requested a plain array from a traced tensor", "np.ones((2, 20_000)) * [y, y**2]"),
    instead="write array * np.stack([x, y])",
    mended=right,
    expected=140000.0,
)


def wrong():
    def total(x):
        y = x * np.ones(20_000)
        return np.sum(np.r_[y, 1.0] ** 2)

    return fg.grad(total)(3.0)


def right():
    def total(x):
        y = x * np.ones(20_000)
        return np.sum(np.concatenate([y, [1.0]]) ** 2)

    return fg.grad(total)(3.0)


mistake(
    "np.r_ of large tensors",
    wrong,
    errors.ArrayConversionError,
    what=("its derivative would be lost", "np.r_[y, 1.0]"),
    instead="write np.concatenate([x, [1.0]])",
    mended=right,
    expected=120000.0,
)


def wrong():
    def total(x):
        y = x * np.ones(20_000)
        return np.sum(np.c_[y, y**2] @ [1.0, 2.0])

    return fg.grad(total)(3.0)


def right():
    def total(x):
        y = x * np.ones(20_000)
        return np.sum(np.column_stack([y, y**2]) @ [1.0, 2.0])

    return fg.grad(total)(3.0)


mistake(
    "np.c_ of large tensors",
    wrong,
    errors.ArrayConversionError,
    what=("its derivative would be lost", "np.c_[y, y**2]"),
    instead="write np.column_stack([x, y])",
    mended=right,
    expected=260000.0,
)


def wrong():
    return fg.grad(lambda stop: stop * np.sum(np.arange(0, stop, 0.5)))(2.0)


def right():
    return fg.grad(lambda stop: stop * np.sum(np.arange(0, stop.item(), 0.5)))(2.0)


mistake(
    "np.arange up to what is differentiated",
    wrong,
    errors.ArrayConversionError,
    what=("its derivative would be lost", "np.arange(0, stop, 0.5)"),
    instead=("np.arange(0, x.item(), h)", "start + h * np.arange(n)"),
    mended=right,
    expected=3.0,
)


def wrong():
    rng = np.random.default_rng(0)
    return fg.grad(lambda x: rng.permutation(x) @ [1.0, 2.0, 3.0])(np.zeros(3))


def right():
    rng = np.random.default_rng(0)
    return fg.grad(lambda x: x[rng.permutation(len(x))] @ [1.0, 2.0, 3.0])(np.zeros(3))


mistake(
    "What is differentiated is shuffled",
    wrong,
    errors.ArrayConversionError,
    what=("its derivative would be lost", "rng.permutation(x)"),
    instead=("draw indices instead of elements", "x[rng.permutation(len(x))]", "x[rng.choice(len(x), n)]"),
    mended=right,
    expected=np.argsort(np.random.default_rng(0).permutation(3)) + 1.0,
)


def wrong():
    rng = fg.random.default_rng(0)
    return fg.grad(lambda rate: np.mean(rng.poisson(rate, 50)))(3.0)


def right():
    from fgrad.scipy import stats

    def mean(rate):
        counts = rng.poisson(fg.stop_gradient(rate), 50)
        return np.mean(fg.score_function(counts, stats.poisson.logpmf(counts, rate)))

    rng = fg.random.default_rng(0)
    return fg.grad(mean)(3.0)


COUNTS = np.random.default_rng(0).poisson(3.0, 50)


mistake(
    "What is differentiated is how probable a draw is",
    wrong,
    errors.NoDerivativeError,
    what=("rng.poisson has no derivative with respect to 'lam'", "its draws are discontinuous"),
    instead=("fg.stop_gradient(lam)", "fg.score_function(cost, log_probability)"),
    mended=right,
    expected=np.mean(COUNTS * (COUNTS / 3.0 - 1)),
)


def wrong():
    return fg.grad(lambda x: pd.Series(x).mean())(np.array([1.0, 2.0]))


def right():
    return pd.Series(fg.grad(lambda x: np.mean(x))(np.array([1.0, 2.0]))).to_numpy()


mistake(
    "A column of traced numbers",
    wrong,
    errors.ArrayConversionError,
    what=("its derivative would be lost", "pd.Series(x)"),
    instead=("compute with x itself", "pd.Series(y) after the function has ended"),
    mended=right,
    expected=[0.5, 0.5],
)


def wrong():
    days = pd.Series([1.0, 2.0, 4.0])
    return fg.grad(lambda rate: (rate * days).rolling(2).mean().max())(3.0)


def right():
    days = pd.Series([1.0, 2.0, 4.0])

    def highest(rate):
        windows = np.lib.stride_tricks.sliding_window_view((rate * days).to_numpy(), 2)
        return np.max(np.mean(windows, axis=1))

    return fg.grad(highest)(3.0)


mistake(
    "Rolling windows of a column that holds tensors",
    wrong,
    errors.ArrayConversionError,
    what=("its derivative would be lost", "(rate * days).rolling(2).mean()"),
    instead=("not supported, nor are s.expanding() and s.ewm()", "sliding_window_view(s.to_numpy(), n)"),
    mended=right,
    expected=3.0,
)


def wrong():
    def total(rate):
        days = pd.Series([1.0, 2.0, 4.0])
        days.loc[0] = rate
        return (days**2).sum()

    return fg.grad(total)(3.0)


def right():
    def total(rate):
        days = pd.Series([1.0, 2.0, 4.0])
        values = fnp.array(days.to_numpy())
        values[0] = rate
        return np.sum(values**2)

    return fg.grad(total)(3.0)


mistake(
    "A tensor is stored in a column of numbers",
    wrong,
    errors.ArrayConversionError,
    what=("its derivative would be lost", "days.loc[0] = rate"),
    instead="values = fgrad.numpy.array(s.to_numpy()), then values[i] = x",
    mended=right,
    expected=6.0,
)


def wrong():
    matrix = scipy.sparse.csr_array([[1.0, 0.0], [0.0, 2.0]])
    return fg.grad(lambda x: np.sum((matrix * x).toarray()))(np.ones(2))


def right():
    matrix = scipy.sparse.csr_array([[1.0, 0.0], [0.0, 2.0]])
    on_the_left = fg.grad(lambda x: np.sum((x * matrix).toarray()))(np.ones(2))
    ours = fgrad.scipy.sparse.csr_array(matrix)
    return [on_the_left, fg.grad(lambda x: np.sum((ours * x).toarray()))(np.ones(2))]


mistake(
    "A sparse matrix of SciPy's, scaled by a tensor",
    wrong,
    errors.ScipyCallError,
    what=("scipy.sparse.coo_array.toarray takes plain arrays", "matrix * x"),
    instead=("x * a", "fgrad.scipy.sparse.csr_array(a)"),
    mended=right,
    expected=[[1.0, 2.0], [1.0, 2.0]],
)


def wrong():
    return fg.grad(lambda x: scipy.signal.detrend(x)[0])(np.array([1.0, 5.0, 2.0]))


def right():
    return fg.grad(lambda x: fgrad.scipy.signal.detrend(x)[0])(np.array([1.0, 5.0, 2.0]))


mistake(
    "SciPy's own function is to be differentiated",
    wrong,
    errors.ScipyCallError,
    what=("scipy.signal.detrend takes plain arrays", "detrend(x)"),
    instead="Write fgrad.scipy.signal.detrend",
    mended=right,
    expected=[1 / 6, -1 / 3, 1 / 6],
)


def wrong():
    def lowest(a):
        return scipy.optimize.minimize(lambda x: (x[0] - a) ** 2, [1.0]).x[0]

    return fg.grad(lowest)(3.0)


def right():
    def lowest(a):
        return fgrad.scipy.optimize.minimize(lambda x: (x[0] - a) ** 2, [1.0]).x[0]

    return fg.grad(lowest)(3.0)


mistake(
    "SciPy's solver inside the function",
    wrong,
    errors.ScipyCallError,
    what=("scipy.optimize.minimize takes plain arrays", "got one from your function"),
    instead="Write fgrad.scipy.optimize.minimize",
    mended=right,
    expected=1.0,
)


def wrong():
    gamma = np.frompyfunc(math.gamma, 1, 1)
    return fg.grad(lambda x: gamma(x))(3.0)


def right():
    return fg.grad(lambda x: scipy.special.gamma(x))(1.0)


mistake(
    "A function without a rule",
    wrong,
    errors.MissingRuleError,
    what=("gamma (vectorized) has no derivative rule", "test_mistakes.py"),
    instead=("Write it with functions that have one", "fgrad.extend.register_primitive"),
    mended=right,
    expected=-np.euler_gamma,
)


def wrong():
    return fg.grad(lambda x: np.sum(x) if x > 0 else np.sum(-x))(np.array([1.0, -2.0]))


def right():
    return fg.grad(lambda x: np.sum(np.where(x > 0, x, -x)))(np.array([1.0, -2.0]))


mistake(
    "if on an array",
    wrong,
    ValueError,
    what="The truth value of an array with more than one element is ambiguous",
    instead="Use a.any() or a.all()",
    mended=right,
    expected=[1.0, -1.0],
)


def wrong():
    def squared(x):
        w = fg.Variable(x)
        return w**2

    return fg.grad(squared)(3.0)


def right():
    def squared(x):
        return x**2

    return fg.grad(squared)(3.0)


mistake(
    "A variable is made of what is differentiated",
    wrong,
    errors.DetachedError,
    what=("storing it in a variable at test_mistakes.py", "fg.Variable(x)"),
    instead="Compute with the tensors themselves",
    mended=right,
    expected=6.0,
)


def wrong():
    seen = []

    def loss(x):
        seen.append(pickle.dumps(x))
        return x**2

    return fg.grad(loss)(3.0)


def right():
    seen = []

    def loss(x):
        seen.append(pickle.dumps(x.numpy()))
        return x**2

    return fg.grad(loss)(3.0)


mistake(
    "A tensor is pickled while it is followed",
    wrong,
    errors.ExportError,
    what=("pickling would take a traced tensor out of its trace", "test_mistakes.py"),
    instead="Use x.numpy()",
    mended=right,
    expected=6.0,
)


def wrong():
    x = fg.constant(3.0)
    y = x**2
    y.backward()
    return x.grad


def right():
    return fg.grad(lambda x: x**2)(3.0)


mistake(
    "backward() and grad, as in PyTorch",
    wrong,
    errors.MissingNameError,
    what="'Tensor' object has no attribute 'backward'",
    instead=("fg.grad(f)(x)", "tape.gradient(y, x)"),
    mended=right,
    expected=6.0,
)


AREA = "Tapes"


def wrong():
    x = fg.Variable(3.0)
    with fg.GradientTape() as tape:
        y = x**2
        z = y**2
    return tape.gradient(y, x), tape.gradient(z, x)


def right():
    x = fg.Variable(3.0)
    with fg.GradientTape(persistent=True) as tape:
        y = x**2
        z = y**2
    return tape.gradient(y, x), tape.gradient(z, x)


mistake(
    "A tape is asked twice",
    wrong,
    errors.TapeError,
    what="can only be used to compute one set of gradients",
    instead="GradientTape(persistent=True)",
    mended=right,
    expected=(6.0, 108.0),
)


def wrong():
    x = np.array([1.0, 2.0])
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(x**2)
    return tape.gradient(y, x)


def right():
    x = fg.constant([1.0, 2.0])
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(x**2)
    return tape.gradient(y, x)


mistake(
    "A tape is to watch a plain array",
    wrong,
    errors.WatchError,
    what="Passed in object array([1., 2.]) of type 'ndarray', not a Tensor or Variable",
    instead="x = fg.constant(value), and compute with x",
    mended=right,
    expected=[2.0, 4.0],
)


def wrong():
    w = fg.Variable(3.0)
    with fg.GradientTape() as tape:
        loss = w.item() ** 2
    return tape.gradient(loss, w)


def right():
    w = fg.Variable(3.0)
    with fg.GradientTape() as tape:
        loss = w**2
    return tape.gradient(loss, w)


mistake(
    "The target is a plain number",
    wrong,
    errors.SourceError,
    what=("target must be a Tensor, a Variable or a container of them", "it holds 9.0 of type float"),
    instead=("Compute it from tensors or variables", "no float(x)"),
    mended=right,
    expected=6.0,
)


def wrong():
    w = fg.Variable(3.0)
    tape = fg.GradientTape()
    y = w**2
    return tape.gradient(y, w)


def right():
    w = fg.Variable(3.0)
    with fg.GradientTape() as tape:
        y = w**2
    return tape.gradient(y, w)


mistake(
    "A tape without with",
    wrong,
    errors.TapeError,
    what="this GradientTape was never entered: nothing has been recorded",
    instead="Compute inside its block, `with tape:`",
    mended=right,
    expected=6.0,
)


def wrong():
    w = fg.Variable(3.0, name="w")
    with fg.GradientTape() as tape:
        y = w**2
    z = 2.0 * y
    return fg.explain(tape, z, w)


def right():
    w = fg.Variable(3.0, name="w")
    with fg.GradientTape() as tape:
        y = w**2
        z = 2.0 * y
    return tape.gradient(z, w)


mistake(
    "The result is computed outside of the block",
    wrong,
    None,
    what=("with respect to the variable 'w' is None", "it was computed outside of the tape's block"),
    instead="Compute it inside the block",
    mended=right,
    expected=12.0,
)


def wrong():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        y = x**2
        tape.watch(x)
    return fg.explain(tape, y, x)


def right():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x**2
    return tape.gradient(y, x)


mistake(
    "Watching after computing",
    wrong,
    None,
    what=("is None", "it was computed before the source was watched", "watch at test_mistakes.py"),
    instead="Watch at the start of the block",
    mended=right,
    expected=6.0,
)


def wrong():
    w = fg.Variable(3.0, name="w")
    with fg.GradientTape() as tape:
        loss = w**2
    w -= 0.1 * tape.gradient(loss, w)
    with fg.GradientTape() as tape:
        loss = w**2
    return fg.explain(tape, loss, w)


def right():
    w = fg.Variable(3.0, name="w")
    with fg.GradientTape() as tape:
        loss = w**2
    w.assign_sub(0.1 * tape.gradient(loss, w))
    with fg.GradientTape() as tape:
        loss = w**2
    return tape.gradient(loss, w)


mistake(
    "A variable is updated with -=",
    wrong,
    None,
    what=("is None", "never watched", "v -= rate * g turns a variable into a tensor"),
    instead="write v.assign_sub(rate * g)",
    mended=right,
    expected=4.8,
)


def wrong():
    w, kept = fg.Variable(3.0, name="w"), fg.Variable(0.0, name="kept")
    with fg.GradientTape() as tape:
        kept.assign(w**2)
        loss = 2.0 * kept
    return fg.explain(tape, loss, w)


def right():
    w, kept = fg.Variable(3.0, name="w"), fg.Variable(0.0, name="kept")
    with fg.GradientTape() as tape:
        square = w**2
        kept.assign(square)
        loss = 2.0 * square
    return tape.gradient(loss, w)


mistake(
    "A derivative through assign",
    wrong,
    None,
    what=("storing it in a variable at test_mistakes.py", "a derivative does not pass through assign"),
    instead="Compute with the tensor itself",
    mended=right,
    expected=12.0,
)


def wrong():
    x = fg.constant(3.0)
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x**3
    slope = inner.gradient(y, x)
    return fg.explain(outer, slope, x)


def right():
    x = fg.constant(3.0)
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        slope = inner.gradient(y, x)
    return outer.gradient(slope, x)


mistake(
    "The first derivative is taken outside of the outer tape",
    wrong,
    None,
    what=("is None", "The target was not recorded by this tape"),
    instead="If the target is a gradient from that tape, compute it inside this tape's block",
    mended=right,
    expected=18.0,
)


def wrong():
    w = fg.Variable(3.0, name="w")
    squares = []
    with fg.GradientTape() as tape:
        thread = threading.Thread(target=lambda: squares.append(w**2))
        thread.start()
        thread.join()
    return tape.gradient(squares[0], w)


def right():
    w = fg.Variable(3.0, name="w")
    squares = []
    with fg.GradientTape() as tape:
        value = w.value()
        thread = threading.Thread(target=lambda: squares.append(value**2))
        thread.start()
        thread.join()
    return tape.gradient(squares[0], w)


mistake(
    "A variable is read in another thread",
    wrong,
    errors.NoGradientWarning,
    what="the variable 'w' was read in another thread, where reads are not recorded",
    instead="Read it in this thread and pass the tensor to the other thread",
    mended=right,
    expected=6.0,
)


def wrong():
    kept = []

    def loss(x):
        kept.append(x**2)
        return x**3

    x = fg.constant(3.0)
    fg.grad(loss)(x)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = kept[0] * 2.0
    return fg.explain(tape, y, x)


def right():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x**2 * 2.0
    return tape.gradient(y, x)


mistake(
    "A tensor is kept after the function that computed it",
    wrong,
    None,
    what=("is None", "it was computed before the source was watched"),
    instead="compute the target inside",
    mended=right,
    expected=12.0,
)


def wrong():
    x = fg.constant(3)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x**2
    return tape.gradient(y, x)


def right():
    x = fg.constant(3.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x**2
    return tape.gradient(y, x)


mistake(
    "A tape is to watch integers",
    wrong,
    errors.NoGradientWarning,
    what="the watched tensor has dtype int64",
    instead="Write 3.0 for 3",
    mended=right,
    expected=6.0,
)


def wrong():
    w, x = fg.Variable(3.0, name="w"), fg.constant(2.0)
    with fg.GradientTape() as tape:
        y = w * x**2
    return tape.gradient(y, x)


def right():
    w, x = fg.Variable(3.0, name="w"), fg.constant(2.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = w * x**2
    return tape.gradient(y, x)


mistake(
    "A tape does not watch the source",
    wrong,
    errors.NoGradientWarning,
    what="the gradient with respect to the source is None: the tape does not watch it",
    instead="Call tape.watch(x) in the tape's block, before x is used",
    mended=right,
    expected=12.0,
)


def wrong():
    w = fg.Variable(3.0, name="w")
    y = w**2
    with fg.GradientTape() as tape:
        pass
    return tape.gradient(y, w)


def right():
    w = fg.Variable(3.0, name="w")
    with fg.GradientTape() as tape:
        y = w**2
    return tape.gradient(y, w)


mistake(
    "The target is computed before the block",
    wrong,
    errors.NoGradientWarning,
    what="the target does not depend on any tensor or variable that the tape watches",
    instead="Compute it in the tape's block",
    mended=right,
    expected=6.0,
)


AREA = "vmap"


def wrong():
    return fg.vmap(lambda x: x + np.random.uniform())(np.zeros(3))


def right():
    rng = fg.random.default_rng(0)
    noisy = fg.vmap(lambda x: x + rng.uniform())(np.zeros(3))
    return noisy[0] == noisy[1]


mistake(
    "Random numbers under vmap are the same for all examples",
    wrong,
    errors.SharedDrawsWarning,
    what="they are the same for all examples",
    instead="Draw from fgrad.random.default_rng, which draws separately for each example",
    mended=right,
    expected=False,
)


def wrong():
    return fg.vmap(lambda x: x if x > 0 else -x)(np.array([1.0, -2.0]))


def right():
    return fg.vmap(lambda x: np.where(x > 0, x, -x))(np.array([1.0, -2.0]))


mistake(
    "if under vmap",
    wrong,
    errors.ConcretizationError,
    what=("bool() needs a value", "a tensor stands for many values", "x if x > 0 else -x"),
    instead="becomes np.where(x > 0, a, b)",
    mended=right,
    expected=[1.0, 2.0],
)


def wrong():
    table = np.array([1.0, 10.0, 100.0])
    return fg.vmap(lambda i: table[i])(np.array([2, 0]))


def right():
    table = np.array([1.0, 10.0, 100.0])
    return fg.vmap(lambda i: fg.constant(table)[i])(np.array([2, 0]))


mistake(
    "Looking up in a plain array under vmap",
    wrong,
    errors.ConcretizationError,
    what=("needs a value", "lambda i: table[i]"),
    instead="becomes fg.constant(a)[i]",
    mended=right,
    expected=[100.0, 1.0],
)


def wrong():
    return fg.vmap(lambda x, scale: scale * x, in_axes=(0,))(np.array([1.0, 2.0]), 10.0)


def right():
    return fg.vmap(lambda x, scale: scale * x, in_axes=(0, None))(np.array([1.0, 2.0]), 10.0)


mistake(
    "in_axes says nothing of an argument",
    wrong,
    errors.AxisError,
    what="in_axes is (0,), which does not match 2 arguments",
    instead=("Give an axis for each argument", "None if it is the same for all examples"),
    mended=right,
    expected=[10.0, 20.0],
)


def wrong():
    return fg.vmap(lambda x: x**2)([1.0, 2.0, 3.0])


def right():
    return fg.vmap(lambda x: x**2)(np.array([1.0, 2.0, 3.0]))


mistake(
    "vmap over a list of numbers",
    wrong,
    errors.AxisError,
    what="in_axes names axis 0 of 'x'[0], which has shape ()",
    instead="an array of numbers in place of a list of them",
    mended=right,
    expected=[1.0, 4.0, 9.0],
)


def wrong():
    def f(x):
        x**2

    return fg.vmap(f)(np.array([1.0, 2.0]))


def right():
    def f(x):
        return x**2

    return fg.vmap(f)(np.array([1.0, 2.0]))


mistake(
    "The return is forgotten under vmap",
    wrong,
    errors.NoResultError,
    what="f returned None, so vmap has no result to batch",
    instead="did you forget to return a value from f?",
    mended=right,
    expected=[1.0, 4.0],
)


def wrong():
    best = fg.Variable(0.0)

    def f(x):
        best.assign(x)
        return x**2

    return fg.vmap(f)(np.array([1.0, 2.0]))


def right():
    best = fg.Variable(0.0)
    squares = fg.vmap(lambda x: x**2)(np.array([1.0, 2.0]))
    best.assign(np.max(squares))
    return squares


mistake(
    "A variable is assigned under vmap",
    wrong,
    errors.ConcretizationError,
    what=("storing it in a variable needs a value", "best.assign(x)"),
    instead="Return the value from the function, and assign the result",
    mended=right,
    expected=[1.0, 4.0],
)


AREA = "Rules of one's own"


def wrong():
    @fg.custom_vjp
    def product(x, y):
        return x * y

    product.defvjp(lambda x, y: (product(x, y), (x, y)), lambda residuals, ct: ct * residuals[1])
    return fg.grad(product)(2.0, 3.0)


def right():
    @fg.custom_vjp
    def product(x, y):
        return x * y

    product.defvjp(lambda x, y: (product(x, y), (x, y)), lambda residuals, ct: (ct * residuals[1], ct * residuals[0]))
    return fg.grad(product)(2.0, 3.0)


mistake(
    "custom_vjp with too few gradients",
    wrong,
    errors.CustomRuleError,
    what="the rule of product was expected to return 2 gradients, one per argument, but returned 1",
    instead="Return them in a tuple, with None for an argument that has no derivative",
    mended=right,
    expected=3.0,
)


def wrong():
    @fg.custom_vjp
    def square(x):
        return x**2

    square.defvjp(lambda x: square(x), lambda x, ct: (2 * ct * x,))
    return fg.grad(square)(3.0)


def right():
    @fg.custom_vjp
    def square(x):
        return x**2

    square.defvjp(lambda x: (square(x), x), lambda x, ct: (2 * ct * x,))
    return fg.grad(square)(3.0)


mistake(
    "The forward part of a rule returns no residuals",
    wrong,
    errors.CustomRuleError,
    what="fwd of square must return a pair",
    instead="(result, residuals)",
    mended=right,
    expected=6.0,
)


def wrong():
    @fg.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (double(x), None), lambda ct: (2 * ct,))
    return fg.grad(double)(3.0)


def right():
    @fg.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (double(x), None), lambda residuals, ct: (2 * ct,))
    return fg.grad(double)(3.0)


mistake(
    "The backward part of a rule takes the wrong arguments",
    wrong,
    errors.CustomRuleError,
    what=("the rule of double", "(lambda ct) takes fewer arguments"),
    instead="is called as bwd(residuals, cotangent)",
    mended=right,
    expected=2.0,
)


def wrong():
    @fg.custom_gradient
    def clipped(x):
        return np.clip(x, 0.0, 1.0)

    return fg.grad(clipped)(2.0)


def right():
    @fg.custom_gradient
    def clipped(x):
        return np.clip(x, 0.0, 1.0), lambda dy: dy

    return fg.grad(clipped)(2.0)


mistake(
    "custom_gradient without its rule",
    wrong,
    errors.CustomRuleError,
    what=("returns (result, grad_fn)", "clipped returned"),
    instead="Write `return result, grad_fn`",
    mended=right,
    expected=1.0,
)


def wrong():
    def loss(w, x):
        @fg.custom_gradient
        def scaled(x):
            return w * x, lambda dy: dy * w

        return scaled(w * x)

    return fg.grad(loss)(2.0, 3.0)


def right():
    @fg.custom_gradient
    def scaled(w, x):
        return w * x, lambda dy: (dy * x, dy * w)

    return fg.grad(lambda w, x: scaled(w, w * x))(2.0, 3.0)


mistake(
    "A rule closes over what is differentiated",
    wrong,
    errors.ClosureError,
    what="scaled has a custom derivative rule and uses a traced value that is not one of its arguments",
    instead="Pass the value (or the variable) as an argument",
    mended=right,
    expected=12.0,
)


def wrong():
    @fg.custom_gradient
    def total(x):
        return np.sum(x), lambda dy: dy

    return fg.grad(total)(np.ones(3))


def right():
    @fg.custom_gradient
    def total(x):
        return np.sum(x), lambda dy: dy * np.ones_like(x)

    return fg.grad(total)(np.ones(3))


mistake(
    "A rule returns a gradient of another shape",
    wrong,
    errors.CustomRuleError,
    what=("the rule of total returned an array of shape ()", "which has shape (3,)"),
    instead="A gradient has the shape of its argument",
    mended=right,
    expected=[1.0, 1.0, 1.0],
)


AREA = "Optimizers"


def wrong():
    w = fg.Variable(3.0)
    fg.optimizers.GradientDescent(0.1).minimize(w**2)
    return w.numpy()


def right():
    w = fg.Variable(3.0)
    fg.optimizers.GradientDescent(0.1).minimize(lambda: w**2)
    return w.numpy()


mistake(
    "minimize gets a value",
    wrong,
    errors.NotCallableError,
    what=("loss must be a function without arguments", "it is Tensor(9.)"),
    instead="Write minimize(lambda: ...)",
    mended=right,
    expected=2.4,
)


def wrong():
    w = fg.Variable(3.0)
    fg.optimizers.GradientDescent(0.1).minimize(lambda w: w**2, var_list=[w])
    return w.numpy()


def right():
    w = fg.Variable(3.0)
    fg.optimizers.GradientDescent(0.1).minimize(lambda: w**2, var_list=[w])
    return w.numpy()


mistake(
    "The loss takes its variables as arguments",
    wrong,
    errors.NotCallableError,
    what="loss must be a function without arguments, and <lambda> takes 'w'",
    instead="Make it read variables of the enclosing scope",
    mended=right,
    expected=2.4,
)


def wrong():
    w = fg.constant(3.0)
    fg.optimizers.GradientDescent(0.1).minimize(lambda: w**2)
    return w


def right():
    w = fg.Variable(3.0)
    fg.optimizers.GradientDescent(0.1).minimize(lambda: w**2)
    return w.numpy()


mistake(
    "There is no variable to optimize",
    wrong,
    errors.NoGradientsError,
    what=("No gradients provided for any variable", "does not depend on any of the trainable variables"),
    instead="Compute the loss from trainable variables, w = fg.Variable(value)",
    mended=right,
    expected=2.4,
)


def wrong():
    w = fg.Variable(3.0, name="w")
    fg.optimizers.GradientDescent(0.1).minimize(lambda: w**2, w)
    return w.numpy()


def right():
    w = fg.Variable(3.0, name="w")
    fg.optimizers.GradientDescent(0.1).minimize(lambda: w**2, [w])
    return w.numpy()


mistake(
    "The variable to optimize is passed without a list",
    wrong,
    errors.ParameterError,
    what="global_step, to which each step adds 1, is Variable(3., name='w'), and the step updates that variable, too",
    instead=("minimize(loss, [w])", "minimize(loss, var_list=[w])"),
    mended=right,
    expected=2.4,
)


def wrong():
    return fg.optimizers.Adam(lr=0.1)


def right():
    return fg.optimizers.Adam(learning_rate=0.1).learning_rate


mistake(
    "A keyword of another library",
    wrong,
    errors.KeywordError,
    what="Adam() got an unexpected keyword argument 'lr'",
    instead=("here it is called learning_rate", "Its keywords are learning_rate, beta1, beta2, epsilon"),
    mended=right,
    expected=0.1,
)


def wrong():
    w = fg.Variable(3.0)
    optimizer = fg.optimizers.Adam([w])
    optimizer.minimize(lambda: w**2)


def right():
    w = fg.Variable(3.0)
    optimizer = fg.optimizers.GradientDescent(0.1)
    optimizer.minimize(lambda: w**2, var_list=[w])
    return w.numpy()


mistake(
    "The optimizer gets the variables",
    wrong,
    errors.ParameterError,
    what="learning_rate must be 0 or more, and it is a list of variables or tensors",
    instead="pass minimize(loss, var_list=[...])",
    mended=right,
    expected=2.4,
)


def wrong():
    w = fg.Variable([1.0, 2.0], name="w")
    fg.optimizers.GradientDescent(0.1).apply_gradients([(np.ones(3), w)])


def right():
    w = fg.Variable([1.0, 2.0], name="w")
    fg.optimizers.GradientDescent(0.1).apply_gradients([(np.ones(2), w)])
    return w.numpy()


mistake(
    "A gradient of the wrong shape is applied",
    wrong,
    errors.ShapeError,
    what="the gradient of variable 'w' has shape (3,), and the variable has shape (2,)",
    instead=("nothing has been changed", "It may be the gradient of another"),
    mended=right,
    expected=[0.9, 1.9],
)


def wrong():
    w = fg.Variable(3.0, name="w")
    fg.optimizers.GradientDescent(0.1).apply_gradients([(w, 6.0)])


def right():
    w = fg.Variable(3.0, name="w")
    fg.optimizers.GradientDescent(0.1).apply_gradients([(6.0, w)])
    return w.numpy()


mistake(
    "Gradients and variables change places",
    wrong,
    errors.StructureError,
    what=("apply_gradients takes pairs (gradient, variable)", "one element is (Variable(3., name='w'), 6.0)"),
    instead="apply_gradients(zip(gradients, variables))",
    mended=right,
    expected=2.4,
)


def wrong():
    w = fg.Variable([3, 4], name="w")
    fg.optimizers.GradientDescent(0.1).minimize(lambda: np.sum(w**2))


def right():
    w = fg.Variable([3.0, 4.0], name="w")
    fg.optimizers.GradientDescent(0.1).minimize(lambda: np.sum(w**2))
    return w.numpy()


mistake(
    "A variable of integers",
    wrong,
    errors.OutputError,
    what="the loss must be a floating-point tensor, and it is Tensor(25) of type int64",
    instead="Create its variables with floating-point numbers",
    mended=right,
    expected=[2.4, 3.2],
)


def wrong():
    return fg.optimizers.GradientDescent(lambda step: 0.1 / (1 + step))


def right():
    class Harmonic(schedules.Schedule):
        def value(self, step):
            return 0.1 / (1 + step)

    return fg.optimizers.GradientDescent(Harmonic()).learning_rate(3)


mistake(
    "A schedule that is a plain function of the step",
    wrong,
    errors.ParameterError,
    what="learning_rate must be a number, a schedule, or a function without arguments, and <lambda> takes 'step'",
    instead="a subclass of fg.optimizers.schedules.Schedule with value(self, step)",
    mended=right,
    expected=0.025,
)


def wrong():
    optimizer, params = fg.optimizers.GradientDescent(0.1), {"w": 3.0}
    state = optimizer.init(params)
    return optimizer.update({"w": 6.0}, params, state)


def right():
    optimizer, params = fg.optimizers.GradientDescent(0.1), {"w": 3.0}
    state = optimizer.init(params)
    return optimizer.update({"w": 6.0}, state, params)[0]


mistake(
    "State and parameters change places",
    wrong,
    errors.StateError,
    what=("state must be a result of init or update of GradientDescent", "it is {'w': 3.0}"),
    instead="The order is update(grads, state, params)",
    mended=right,
    expected={"w": 2.4},
)


def wrong():
    return fg.clip_by_norm([np.ones(2), np.ones(3)], 1.0)


def right():
    clipped, _ = fg.clip_by_global_norm([np.ones(2), np.ones(2)], 1.0)
    return clipped


mistake(
    "A list of gradients where one array is clipped",
    wrong,
    errors.StructureError,
    what="the argument to clip must be one array, and it is a list of several",
    instead=("clip_by_global_norm([...], clip_norm)", "[clip_by_norm(g, clip_norm) for g in gradients"),
    mended=right,
    expected=[[0.5, 0.5], [0.5, 0.5]],
)


def wrong():
    w = fg.Variable(3.0, name="weight")
    optimizer = fg.optimizers.Momentum(0.1, momentum=0.9)
    optimizer.minimize(lambda: w**2)
    again, v = copy.deepcopy(optimizer), fg.Variable(2.4, name="bias")
    again.minimize(lambda: v**2)


def right():
    w = fg.Variable(3.0, name="weight")
    optimizer = fg.optimizers.Momentum(0.1, momentum=0.9)
    optimizer.minimize(lambda: w**2)
    again, v = copy.deepcopy(optimizer), fg.Variable(2.4, name="weight")
    again.minimize(lambda: v**2)
    return again.get_slot(v, "momentum")


mistake(
    "An optimizer is restored, and the variables have other names",
    wrong,
    errors.StateError,
    what=("belongs to variables named ['weight']", "they are named ['bias']"),
    instead="Create variables with the names, name=, that they had",
    mended=right,
    expected=0.9 * 6.0 + 4.8,
)


AREA = "Infinities, files and names"


def wrong():
    with fg.debug_nans():
        slope = fg.grad(lambda x: np.sqrt(x) + x)(0.0)
    return slope


def right():
    with fg.debug_nans():
        slope = fg.grad(lambda x: np.where(x > 0, np.sqrt(x), 0.0) + x)(0.0)
    return slope


mistake(
    "The gradient of sqrt at 0 is infinite",
    wrong,
    errors.NonFiniteError,
    what=("the reverse rule of sqrt gave an infinity", "test_mistakes.py"),
    instead="np.where",
    mended=right,
    expected=1.0,
)


def wrong():
    return fg.save({"w": np.ones(2)}, "model.safetensors")


def right():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        fg.save(path, {"w": np.ones(2)})
        w = fg.load(path)["w"]
    return w


mistake(
    "save gets the container first",
    wrong,
    errors.SaveError,
    what="save takes the path first and then the container",
    instead="Write fg.save(path, tree)",
    mended=right,
    expected=[1.0, 1.0],
)


def wrong():
    return fg.jit(lambda x: x if x > 0 else -x)(-3.0)


def right():
    return fg.grad(lambda x: x if x > 0 else -x)(-3.0)


mistake(
    "jit",
    wrong,
    errors.MissingNameError,
    what="module 'fgrad' has no attribute 'jit'",
    instead="omit it: Python's if, for and while work; or use fg.compile, for speed",
    mended=right,
    expected=-1.0,
)

# The tests of the table


def message_of(row: Mistake) -> str:
    """Return what a program with a mistake is told, notes included."""
    if row.error is None:
        explanation = row.program()
        assert explanation.status == "none"
        return str(explanation)
    if issubclass(row.error, Warning):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            row.program()
        (warning,) = caught
        assert warning.category is row.error
        assert warning.filename == __file__  # it points at the user's line
        return str(warning.message)
    with pytest.raises(row.error) as raised:
        row.program()
    assert type(raised.value) is row.error
    return "\n".join([str(raised.value), *getattr(raised.value, "__notes__", ())])


@pytest.mark.parametrize("row", [pytest.param(row, id=row.title) for row in MISTAKES])
def test_what_is_said_to_a_mistake(row):
    message = message_of(row)
    for words in (*row.what, *row.instead):
        assert words in message
    if row.error is not None and issubclass(row.error, errors.FgradError):
        assert message.endswith(f"(help: fgrad.errors.{row.error.__name__})")
    assert plain(fg.grad(lambda x: x * x)(3.0)) == 6.0  # nothing was left open


@pytest.mark.parametrize("row", [pytest.param(row, id=row.title) for row in MISTAKES])
def test_the_mended_program(row):
    assert rounded(row.mended()) == rounded(row.expected)


def rounded(tree: Any) -> Any:
    """Return containers of plain numbers, to twelve digits."""
    tree = plain(tree)
    if isinstance(tree, dict):
        return {key: rounded(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(rounded, tree))
    return round(tree, 12) if isinstance(tree, float) else tree


def test_the_rows_are_different_mistakes():
    assert len({row.title for row in MISTAKES}) == len(MISTAKES)
    assert len({inspect.getsource(row.program) for row in MISTAKES}) == len(MISTAKES)
    for row in MISTAKES:
        assert all(row.what), row.title
        assert all(row.instead), row.title


# Further slips, in short: a program, the class, and the text


X = np.array([1.0, 2.0, 3.0])
LARGE = np.ones(20_000)
"""Of more elements than NumPy is to make objects of."""


def w():
    return fg.Variable(3.0, name="w")


def in_a_tape(f, ask):
    variable = w()
    with fg.GradientTape() as tape:
        y = f(variable)
    return ask(tape, y, variable)


@fg.custom_jvp
def halved(x):
    return x / 2


halved.defjvp(lambda primals, tangents: tangents[0] / 2)

square_of_each = np.vectorize(lambda x: x * x, otypes=[float])

SLIPS = {
    "no argument": (lambda: fg.grad(lambda x: x)(), errors.ParameterError, "with respect to 'x', which was not passed"),
    "an argument that is missing": (
        lambda: fg.grad(lambda x, y: x * y, argnums=1)(2.0),
        errors.ParameterError,
        "with respect to 'y', which was not passed.\nCall the gradient function like the function itself",
    ),
    "argnums of a wrong type": (lambda: fg.grad(np.sin, argnums=1.0), errors.ParameterError, "such as 0 or 'x'; it is"),
    "params of a wrong type": (lambda: fg.gradients_function(np.sin, X), errors.ParameterError, "params of gradients"),
    "a misspelled argnums": (lambda: fg.grad(lambda size: size, "sise")(1.0), errors.ParameterError, "mean 'size'"),
    "gauss_newton_vp without a vector": (
        lambda: fg.gauss_newton_vp(np.square)(X),
        errors.TangentError,
        r"called with 1 argument\.\nWrite gauss_newton_vp\(f\)\(x, v\)",
    ),
    "hvp with another container": (
        lambda: fg.hvp(lambda p: np.sum(p["a"] ** 2))({"a": X}, X),
        errors.TangentError,
        r"^hvp\(<lambda>\)\(x, v\): x has the structure {'a': \*}, and v \*\.\nv has the containers and shapes of x",
    ),
    "gauss_newton_vp with another shape": (
        lambda: fg.gauss_newton_vp(lambda p: p["a"] ** 2)({"a": X}, {"a": X[:2]}),
        errors.TangentError,
        r"x\['a'\] has shape \(3,\), and v\['a'\] has shape \(2,\)\.\nv has the containers and shapes of x",
    ),
    "hvp of integers": (lambda: fg.hvp(np.sum)(np.array([1, 2]), X[:2]), errors.IntegerInputError, "hvp of sum: the"),
    "a tuple as result": (lambda: fg.grad(lambda x: (x, x))(3.0), errors.NonScalarError, "a tuple.\n.*has_aux=True"),
    "a read-only loss": (
        lambda: fg.implicit_gradients(lambda: fg.Variable(2) * 3.0)(),
        errors.NoVariablesError,
        "integer ones are not trainable",
    ),
    "None as target": (
        lambda: in_a_tape(lambda v: None, lambda tape, y, v: tape.gradient(y, v)),
        errors.SourceError,
        "None of type NoneType.\nDid a function forget to return",
    ),
    "a function as target": (
        lambda: in_a_tape(lambda v: abs, lambda tape, y, v: tape.gradient(y, v)),
        errors.SourceError,
        "Call the function inside the tape's block",
    ),
    "a number as source": (
        lambda: in_a_tape(lambda v: v * v, lambda tape, y, v: tape.gradient(y, 3.0)),
        errors.SourceError,
        "3.0 of type float.\nPass the tensor itself",
    ),
    "a number under vmap": (
        lambda: fg.vmap(np.sin)(3.0),
        errors.AxisError,
        r"shape \(\)\.\nPass an array with a batch axis; or in_axes=None",
    ),
    "in_axes as text": (lambda: fg.vmap(np.add, in_axes="0")(X, X), errors.AxisError, r"containers \(\*, \*\)\.\nGive"),
    "out_axes out of range": (lambda: fg.vmap(np.sin, out_axes=2)(X), errors.AxisError, "Give one from -1 to 0"),
    "out_axes None": (
        lambda: fg.vmap(np.sin, out_axes=None)(X),
        errors.AxisError,
        "Give the position of the batch axis",
    ),
    "a loop under vmap": (
        lambda: fg.vmap(lambda n: sum(range(n)))(np.array([1, 2])),
        errors.ConcretizationError,
        "the number of iterations of a loop must be the same",
    ),
    "math under vmap": (lambda: fg.vmap(lambda x: math.sin(x))(X), errors.ConcretizationError, "np.sin.x. for math"),
    "max under vmap": (lambda: fg.vmap(lambda x: max(x, 0.0))(X), errors.ConcretizationError, "np.maximum"),
    "if in a recorded function": (
        lambda: fg.trace(lambda x: x if x > 0 else -x)(3.0),
        errors.ConcretizationError,
        "becomes np.where",
    ),
    "a forward rule without its value": (
        lambda: fg.grad(halved)(3.0),
        errors.CustomRuleError,
        r"the rule of halved must return a pair \(result, tangent\)",
    ),
    "a forward rule of one argument": (
        lambda: fg.custom_jvp(np.sin).defjvp(lambda primals: primals),
        errors.CustomRuleError,
        r"called as rule\(primals, tangents\)",
    ),
    "np.vectorize": (
        lambda: fg.grad(lambda x: np.sum(np.vectorize(math.sin)(x)))(X),
        errors.ArrayConversionError,
        r"fg\.vmap\(f\)",
    ),
    "np.vectorize with otypes": (
        lambda: fg.grad(lambda x: np.sum(np.vectorize(np.sin, otypes=[float])(x)))(X),
        errors.ArrayConversionError,
        r"\nnp\.vectorize\(f, otypes=\[float\]\) makes a plain array: omit otypes, or write fg\.vmap\(f\)\.\n\(help",
    ),
    "a function made by np.vectorize with otypes": (
        lambda: fg.grad(lambda x: np.sum(square_of_each(x)))(X),
        errors.ArrayConversionError,
        r"square_of_each\(x\).*\nnp\.vectorize\(f, otypes=\[float\]\) makes .*\n\(help",
    ),
    "np.lib.stride_tricks.as_strided": (
        lambda: fg.grad(lambda x: np.sum(np.lib.stride_tricks.as_strided(x, (2,), (8,))))(X),
        errors.ArrayConversionError,
        r"\nas_strided\(x\): .*sliding_window_view\(x, n\)",
    ),
    "a list in an operation": (
        lambda: fg.grad(lambda x: np.sum(np.ones((2, 20_000)) - [x, x]))(LARGE),
        errors.ArrayConversionError,
        r"write array \* np\.stack",
    ),
    "elements that are drawn": (
        lambda: fg.grad(lambda x: np.random.default_rng(0).permutation(x)[0])(X),
        errors.ArrayConversionError,
        r"x\[rng\.permutation\(len\(x\)\)\]",
    ),
    "a frame of traced numbers": (
        lambda: fg.grad(lambda x: pd.DataFrame({"x": x}).astype(float).sum())(X),
        errors.ArrayConversionError,
        r"compute with x itself",
    ),
    "an object of SciPy's": (
        lambda: fg.grad(lambda x: scipy.interpolate.interp1d([0.0, 1.0], [0.0, 1.0])(x))(0.5),
        errors.ScipyCallError,
        r"Write fgrad\.scipy\.interpolate\.interp1d",
    ),
    "a method of a sparse matrix": (
        lambda: fg.grad(lambda x: scipy.sparse.csr_array([[1.0, 0.0], [0.0, 2.0]]).multiply(x).tocsr())(np.ones(2)),
        errors.ScipyCallError,
        r"scipy\.sparse\.coo_array\.tocsr takes plain arrays(.|\n)*Write|write fgrad\.scipy\.sparse\.csr_array",
    ),
    "a sparse matrix as what is differentiated": (
        lambda: fg.grad(lambda a: np.sum(a @ np.ones(2)))(scipy.sparse.csr_array([[1.0, 0.0], [0.0, 2.0]])),
        errors.NonNumericInputError,
        r"make it fgrad\.scipy\.sparse\.csr_array\(a\)",
    ),
    "np.full": (
        lambda: fg.grad(lambda x: np.sum(np.full((2, 20_000), x)))(LARGE),
        errors.ArrayConversionError,
        r"use fgrad\.numpy\.full",
    ),
    "a product of a plain object": (
        lambda: fg.grad(lambda x: np.sum(np.asarray(x)))(LARGE),
        errors.ArrayConversionError,
        r"omit it .*; or x\.numpy\(\)",
    ),
    "an index of a list": (lambda: fg.grad(lambda x: [1.0, 2.0][x] * x)(1.0), TypeError, r"write int\(x\), which"),
    "a number of iterations": (
        lambda: fg.grad(lambda x: x * len(range(x)))(2.0),
        TypeError,
        "index must be an integer",
    ),
    "a torch method": (lambda: fg.constant(3.0).detach(), errors.MissingNameError, r"Instead: fg\.stop_gradient\(x\)"),
    "a method that is a function": (lambda: fg.Variable(X).exp(), errors.MissingNameError, r"Instead: np\.exp\(x\)"),
    "a method that is a function of two arrays": (
        lambda: fg.constant(X).arctan2(2.0),
        errors.MissingNameError,
        r"Instead: np\.arctan2\(x, y\)",
    ),
    "a method that is a function of several arguments": (
        lambda: fg.constant(X).broadcast_to((2, 3)),
        errors.MissingNameError,
        r"Instead: np\.broadcast_to\(array, shape\)",
    ),
    "a method that is a dtype": (lambda: fg.constant(X).half(), errors.MissingNameError, r"x\.astype\(np\.half\)"),
    "a method of another library": (
        lambda: fg.constant(X).masked_fill(X > 1, 0.0),
        errors.MissingNameError,
        r"Instead: np\.where\(mask, value, x\)",
    ),
    "a name that NumPy has never had": (
        lambda: fnp.arrray([1.0]),
        errors.MissingNameError,
        r"module 'fgrad\.numpy' has no attribute 'arrray'\.\nDid you mean array",
    ),
    "a name that NumPy had": (lambda: fnp.float, AttributeError, "use `float` by itself"),
    "a keyword of a method": (
        lambda: fg.constant(X).sum(dim=0),
        TypeError,
        r"^sum\(\) got an unexpected keyword argument 'dim'$",
    ),
    "a mask under vmap": (
        lambda: fg.vmap(lambda x: np.median(x[x > 1]))(X[:, None]),
        errors.ConcretizationError,
        r"x\[mask\] becomes np\.where\(mask, x, 0\.0\)",
    ),
    "distinct elements under vmap": (
        lambda: fg.vmap(lambda x: np.flatnonzero(x))(X[:, None]),
        errors.ConcretizationError,
        "np.flatnonzero needs a value.*\n.*\nThe shape of a result cannot depend on values",
    ),
    "a transform of SciPy's": (
        lambda: fg.grad(lambda x: np.abs(scipy.fft.rfft(x)[0]))(X),
        errors.ScipyCallError,
        r"function of the same name in np\.fft accepts tensors",
    ),
    "an iterator of NumPy's": (
        lambda: fg.grad(lambda x: sum(np.nditer(x)))(X),
        errors.ObjectArrayError,
        r"np\.nditer\(x\):  write operations on whole arrays",
    ),
    "a function of C's loops": (
        lambda: fg.grad(lambda x: np.sum(np.frompyfunc(lambda v: v * v, 1, 1)(x)))(X),
        errors.MissingRuleError,
        r"np\.vectorize\(f\) has one, if f is made of NumPy functions",
    ),
    "a pullback without its cotangent": (
        lambda: fg.vjp(np.sin, 2.0)[1](),
        TypeError,
        r"^pullback\(\) missing 1 required positional argument: 'cotangent'$",
    ),
    "linearize without a point": (
        lambda: fg.linearize(np.sin)(2.0),
        errors.ParameterError,
        r"value, pushforward = linearize\(f, x\)",
    ),
    "branches that are not in a list": (
        lambda: fg.switch(1, np.sin, np.cos, 1.0),
        errors.NotCallableError,
        r"switch\(index, \[f, g\], x\)",
    ),
    "a point that is traced at once": (
        lambda: fg.trace(np.sin, 1.0),
        errors.KeywordError,
        r"second call: trace\(f\)\(x\)",
    ),
    "a Jacobian of an array of tensors": (
        lambda: in_a_tape(lambda v: np.array([v, v]), lambda tape, y, v: tape.jacobian(y, v)),
        errors.SourceError,
        r"inside the tape's block: np\.stack\(\[x, y\]\)",
    ),
    "jax's at": (lambda: fg.constant(X).at[0], errors.MissingNameError, r"y\[i\] = value"),
    "step": (lambda: fg.optimizers.Adam().step(), errors.MissingNameError, r"optimizer\.minimize\(loss\)"),
    "zero_grad": (lambda: fg.optimizers.Adam().zero_grad(), errors.MissingNameError, "leave it out"),
    "SGD": (lambda: fg.optimizers.SGD(0.1), errors.MissingNameError, r"GradientDescent\(learning_rate\)"),
    "AdamOptimizer": (lambda: fg.optimizers.AdamOptimizer(), errors.MissingNameError, r"fg\.optimizers\.Adam\."),
    "an optimizer of fg": (lambda: fg.Adam(), errors.MissingNameError, r"fg\.optimizers\.Adam\."),
    "a function of NumPy's": (lambda: fg.concatenate([]), errors.MissingNameError, r"Instead: np\.concatenate\."),
    "a typo in a name": (lambda: fg.gradient_function, errors.MissingNameError, "Did you mean gradients_function"),
    "a keyword with a typo": (
        lambda: fg.optimizers.AdamW(learing_rate=0.1),
        errors.KeywordError,
        "here it is called learning_rate",
    ),
    "betas": (lambda: fg.optimizers.Adam(betas=(0.9, 0.99)), errors.KeywordError, "called beta1 and beta2"),
    "momentum of descent": (
        lambda: fg.optimizers.GradientDescent(0.1, momentum=0.9),
        errors.KeywordError,
        r"fg\.optimizers\.Momentum has\.\nIts keywords are learning_rate, weight_decay",
    ),
    "a class of schedules": (
        lambda: fg.optimizers.GradientDescent(schedules.ExponentialDecay),
        errors.ParameterError,
        "ExponentialDecay takes 'initial_learning_rate'.*\n.*For a class of schedules, pass an instance",
    ),
    "arrays in var_list": (
        lambda: fg.optimizers.Adam().minimize(lambda: 1.0, var_list=[X]),
        errors.StructureError,
        "var_list must hold variables; it holds array",
    ),
    "names in var_list": (
        lambda: fg.optimizers.Adam().minimize(lambda: 1.0, var_list=["w"]),
        errors.StructureError,
        "it holds 'w' of type str.\nCreate a variable",
    ),
    "gradients and variables apart": (
        lambda: fg.optimizers.Adam().apply_gradients([6.0], [w()]),
        errors.StructureError,
        r"one element is 6\.0.*\n.*zip\(gradients, variables\)",
    ),
    "a gradient function": (
        lambda: fg.optimizers.Adam().apply_gradients(fg.implicit_gradients(lambda: w() ** 2)),
        errors.StructureError,
        r"given a function.*\nCall it: implicit_gradients\(loss\)\(\)",
    ),
    "no gradient at all": (
        lambda: fg.optimizers.Adam().apply_gradients([(None, w())]),
        errors.NoGradientsError,
        r"\['w'\]\.\nfg\.explain\(tape, loss, variable\) shows why",
    ),
    "an integer variable": (
        lambda: fg.optimizers.Adam().apply_gradients([(1.0, fg.Variable(3, name="n"))]),
        errors.DtypeError,
        "variable 'n' has dtype int64.*\nCreate it with a dot",
    ),
    "a loss of an integer variable": (
        lambda: fg.optimizers.Adam(0.1).minimize((lambda v: lambda: v**2.0)(fg.Variable(3, name="n"))),
        errors.NoGradientsError,
        r"variable 'n' has dtype int64.*\nCreate it with floating-point numbers, such as fg\.Variable\(3\.0\)",
    ),
    "what clipping returns": (
        lambda: fg.optimizers.Adam().apply_gradients([(fg.clip_by_global_norm([X], 1.0)[0], fg.Variable(X))]),
        errors.ShapeError,
        "clip_by_global_norm returns the list and the norm",
    ),
    "a dict to clip": (lambda: fg.clip_by_global_norm({"w": X}, 1.0), errors.StructureError, "it is a dict.\nClip its"),
    "None to clip": (lambda: fg.clip_by_norm(None, 1.0), errors.StructureError, "it is None.*\n.*without those"),
    "None to limit": (lambda: fg.clip_by_value(None, 0.0, 1.0), errors.StructureError, "one array, and it is None"),
    "a class to run": (
        lambda: fg.optimizers.run(lambda: w() ** 2, w(), 3, fg.optimizers.Adam, progress=False),
        errors.ParameterError,
        r"optimizer must be an optimizer, such as fg\.optimizers\.Adam\(0\.1\)",
    ),
    "a root of SciPy's, which goes on without the number": (
        lambda: fg.grad(lambda b: scipy.optimize.brentq(lambda x: x - np.cos(x) * b, 0, 2))(1.0),
        errors.ScipyCallError,
        r"scipy\.optimize\.brentq takes plain arrays.*\n.*\nWrite fgrad\.scipy\.optimize\.brentq",
    ),
    "a root of SciPy's with an error of its own": (
        lambda: fg.grad(lambda b: b * scipy.optimize.brentq(lambda x: x + 5, 0, 2))(1.0),
        ValueError,
        r"^f\(a\) and f\(b\) must have different signs$",
    ),
    "a Hessian times a vector in one call": (
        lambda: fg.hvp(np.sum, np.ones(2), np.ones(2)),
        errors.KeywordError,
        r"^hvp\(\) takes function, and got 3 arguments\.\n.* of the function in a second call: hvp\(f\)\(x, v\)",
    ),
    "a Hessian of several arguments in one call": (
        lambda: fg.hessian(np.sum, 0, None, np.ones(2)),
        errors.KeywordError,
        r"takes function, argnums, chunk_size, and got 4 arguments",
    ),
    "a name in other letters": (
        lambda: fg.optimizers.ADAM,
        errors.MissingNameError,
        r"Did you mean Adam\?",
    ),
    "seeds under vmap": (
        lambda: fg.vmap(lambda seed: np.random.default_rng(seed).normal())(np.arange(3)),
        TypeError,
        "SeedSequence expects int",
    ),
    "a gradient of a function without arguments": (
        lambda: fg.grad(lambda: w() ** 2)(),
        errors.ParameterError,
        r"was called with 0 positional arguments\.\n.*fg\.implicit_gradients\(f\)\(\)",
    ),
    "an implicit function without its equation": (
        lambda: fg.implicit_diff(np.sqrt),
        errors.NotCallableError,
        r"got None\.\nWrite implicit_diff\(solver, optimality\)",
    ),
    "long containers in messages": (
        lambda: fg.optimizers.Adam().apply_gradients([(np.ones((30, 30)), np.ones((30, 30)))]),
        errors.StructureError,
        r"one element is \(array\(\[\[1\.[^O]{100,200}\. Only",
    ),
    "an object of a class without a module": (
        lambda: fg.grad(lambda x: x.a)(eval("type('P', (), {'a': 1.0})()", {})),
        errors.NonNumericInputError,
        "of type P, which is not a number",
    ),
    "averages of other variables": (
        lambda: pickle.loads(pickle.dumps(averages_of(w()))).averaged().__enter__(),
        errors.StateError,
        r"averages for \['w'\] have not been matched.*\n.*load_state_dict",
    ),
}


NAMES = {
    "ravel_pytree": "fg.tree.ravel(tree)",
    "remat": "fg.checkpoint(f)",
    "eval_shape": "look at .shape and .dtype",
    "device_put": "leave it out",
    "random.PRNGKey": "rng = fg.random.default_rng(seed)",
    "random.key": "rng = fg.random.default_rng(seed)",
    "random.split": "rng.spawn(n)",
    "hessian_vector_product": "fg.hvp(f)(x, v)",
    "flatten_util": "fg.tree.ravel(tree)",
    "tree_util": "fg.tree",
    "tree_structure": "fg.tree.structure(tree)",
    "split": "np.split",
    "clamp": "np.clip(x, low, high)",
    "random.seed": "rng = fg.random.default_rng(seed)",
    "numpy.sigmoid": "scipy.special.expit(x)",
    "tree.reduce": "functools.reduce(f, fg.tree.leaves(tree))",
    "tree.tree_map": "fg.tree_map",
    "optimizers.clip_by_global_norm": "fg.clip_by_global_norm",
    "optimizers.LBFGS": "method='L-BFGS-B'",
    "optimizers.schedules.StepLR": "schedules.ExponentialDecay(rate, decay_steps, decay_rate, staircase=True)",
    "reduce_sum": "import fgrad.compat.tensorflow as tf",
    "gradient": "fg.grad(f)(x), the derivative of a function",
    "vhp": "fg.hvp(f)(x, v)",
    "detach": "fg.stop_gradient(x)",
    "backward": "gradients are returned, not stored",
    "optim": "fg.optimizers",
    "relu": "np.maximum(x, 0)",
    "sigmoid": "scipy.special.expit(x)",
    "softmax": "fgrad.scipy.special.softmax(x)",
    "float32": "np.float32",
    "njit": "fg.compile(f)",
    "save_model": "fg.save(path, params)",
    "minimize": "fgrad.scipy.optimize.minimize(f, x0)",
    "solve_ivp": "fgrad.scipy.integrate.solve_ivp(f, (t0, t1), y0)",
    "associative_scan": "fg.scan",
}
"""Names of other libraries, and what is said of each."""


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_of_a_name_of_another_library(name):
    *modules, last = name.split(".")
    module = functools.reduce(getattr, modules, fg)
    with pytest.raises(errors.MissingNameError, match=rf"\nInstead: .*{re.escape(NAMES[name])}"):
        getattr(module, last)


def test_an_area_of_scipy_is_named():
    with pytest.raises(errors.MissingNameError, match=r"It is a separate module: import fgrad\.scipy\.stats\."):
        fg.stats  # noqa: B018


KEYWORDS = {
    "grad(f, holomorphic=True)": r"Instead: leave it out: .*fg.jvp(f, (z,), (1 + 0j,))[1]",
    "grad(f, argnum=1)": "here it is called argnums",
    "grad(argnum=1)": "here it is called argnums",
    "hvp(f, argnum=1)": "Instead: a function of the argument that is meant",
    "jacrev(f, holomorphic=True)": "Instead: leave it out",
    "value_and_grad(f, allow_int=True)": "Instead: leave it out",
    "grad(f, has_auxiliary=True)": "here it is called has_aux",
    "grad(f, nonsense=1)": "Its keywords are function, argnums, has_aux",
    "vmap(f, axis_size=3)": "the size is that of the arrays along in_axes",
    "vmap(f, axis_name='i')": "axes have no names",
    "vmap(f, in_dims=0)": "here it is called in_axes",
    "vmap(f, axis=1)": "Instead: in_axes=axis",
    "gradients_function(f, argnums=0)": "here it is called params",
    "compile(f, parallel=True)": "Instead: threads=n",
    "compile(f, static_argnums=0)": "here it is called static",
    "compile(static_argnames='n')": "here it is called static",
    "checkpoint(f, static_argnums=0)": "arguments may be anything",
    "grad(f, static_argnums=1)": "arguments that are not differentiated may be anything",
    "custom_vjp(f, nondiff_argnums=(0,))": "the rule returns None",
    "custom_vjp(nondiff_argnums=(0,))": "the rule returns None",
    "custom_jvp(f, nondiff_argnums=(0,))": "the rule uses no tangent",
    "fori_loop(0, 3, body_fun=f, init_val=1.0)": "here it is called body",
    "scan(f, 0.0, None, 3, unroll=2)": "Instead: leave it out",
    "optimizers.Adam(params=[])": "variables are named by minimize(loss, var_list=[...])",
    "optimizers.RMSProp(0.1, alpha=0.9)": "here it is called decay",
    "optimizers.GradientDescent(0.1, decay=1e-3)": "Instead: a schedule: learning_rate=schedules.InverseTimeDecay",
    "optimizers.GradientDescent(0.1, alpha=0.1)": "here it is called learning_rate",
}
"""Calls with a keyword of another library, and what is said of each."""


@pytest.mark.parametrize("call", KEYWORDS)
def test_what_is_said_of_a_keyword_of_another_library(call):
    with pytest.raises(errors.KeywordError, match="unexpected keyword argument") as raised:
        eval(f"fg.{call}", {"fg": fg, "f": np.sin})
    assert str(raised.value).startswith(f"{call.split('(')[0].removeprefix('optimizers.')}()")
    for words in KEYWORDS[call].split(".*"):
        assert words in str(raised.value)


def test_functions_that_know_their_keywords_keep_their_signatures():
    assert list(inspect.signature(fg.grad).parameters) == ["function", "argnums", "has_aux"]
    assert pickle.loads(pickle.dumps(fg.grad)) is fg.grad


def test_what_is_said_in_place_of_keywords_is_true():
    """Arguments of any kind need no option, and a rule returns None for one, or uses no tangent of it."""

    @fg.custom_vjp
    def times(x, how):
        return x * len(how)

    times.defvjp(lambda x, how: (times(x, how), how), lambda how, ct: (len(how) * ct, None))

    @fg.custom_jvp
    def again(x, how):
        return x * len(how)

    again.defjvp(lambda primals, tangents: (again(*primals), len(primals[1]) * tangents[0]))
    for function in (times, again, lambda x, how: x * len(how), fg.checkpoint(lambda x, how: x * len(how))):
        assert fg.grad(function)(3.0, "two") == 3.0
    assert fg.jvp(lambda z: z**3, (1 + 2j,), (1 + 0j,))[1] == 3 * (1 + 2j) ** 2
    assert [rng.random() for rng in fg.random.default_rng(0).spawn(2)]


def averages_of(variable):
    averages = fg.ExponentialMovingAverage(0.9)
    averages.apply([variable])
    return averages


@pytest.mark.parametrize("name", SLIPS)
def test_what_is_said_to_a_slip(name):
    program, kind, text = SLIPS[name]
    with pytest.raises(kind, match=text) as raised:
        program()
    assert type(raised.value) is kind


def test_a_seed_under_vmap_has_a_remedy():
    with pytest.raises(TypeError) as raised:
        SLIPS["seeds under vmap"][0]()
    assert "from which each example draws its own numbers" in raised.value.__notes__[0]


def test_names_that_are_nowhere_stay_pythons():
    for program in (lambda: fg.constant(1.0).nonsense, lambda: fg.optimizers.Adam().nonsense):
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'") as raised:
            program()
        assert not isinstance(raised.value, errors.FgradError)
    assert not hasattr(fg, "__nothing__")
    with pytest.raises(errors.MissingNameError, match="separate module: import fgrad.tests_of_names"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("importlib.util.find_spec", lambda name: name == "fgrad.tests_of_names")
            fg.tests_of_names  # noqa: B018


def test_random_numbers_are_drawn_once_under_vmap():
    """This cannot be told from what was meant; the documentation of vmap says it."""
    rng = np.random.default_rng(0)
    same = fg.vmap(lambda x: x + rng.normal())(np.zeros(3))
    assert len(set(same.tolist())) == 1
    different = fg.vmap(lambda x, noise: x + noise)(np.zeros(3), rng.normal(size=3))
    assert len(set(different.tolist())) == 3


def test_log_of_zero_behind_where_is_no_mistake():
    with np.errstate(divide="ignore"):
        assert plain(fg.grad(lambda x: np.where(x > 0, np.log(np.abs(x)), 0.0))(0.0)) == 0.0
        assert plain(fg.hessian(lambda x: np.where(x > 0, np.log(np.abs(x)), 0.0))(0.0)) == 0.0


# Functions of math


@pytest.mark.parametrize(
    ("function", "instead"),
    [
        (
            lambda x: x * math.log(x),
            r"math\.log requested .* at test_mistakes.py:\d+: .*\nWrite np\.log for math\.log;",
        ),
        (lambda x: x * math.gamma(x), r"\nWrite scipy\.special\.gamma for math\.gamma;"),
        (lambda x: x * math.fabs(x), r"\nWrite np\.abs for math\.fabs;"),
    ],
)
def test_functions_of_math_in_every_mode(function, instead):
    with pytest.raises(errors.DetachedError, match=f"(?s){instead}"):
        fg.jvp(function, (2.0,), (1.0,))
    with pytest.raises(errors.DetachedError, match=f"(?s){instead}"):
        fg.gradients_function(function)(2.0)
    with pytest.raises(errors.DetachedError, match=f"(?s){instead}"):
        in_a_tape(function, lambda tape, y, v: tape.gradient(y, v))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2.0 if math.isfinite(x.item()) else x,
        lambda x: x * math.floor(x),
        lambda x: x * math.exp(fg.stop_gradient(x)),
        lambda x: x * math.exp(x.numpy()),
        lambda x: x * math.exp(x.item()),
    ],
)
def test_where_math_is_no_mistake(function):
    fg.gradients_function(function)(2.0)


# Classes that compute when they are made


class Square:
    def __init__(self, side):
        self.side, self.area = side, side**2


fg.register_pytree_node(Square, lambda square: ((square.side,), None), lambda _, children: Square(*children))


def area(square):
    return square.area


@pytest.mark.parametrize(
    "derivative",
    [
        lambda: fg.grad(area)(Square(3.0)).side,
        lambda: fg.value_and_grad(area)(Square(3.0))[1].side,
        lambda: fg.gradients_function(area)(Square(3.0))[0].side,
        lambda: fg.grad(lambda x, square: area(square), argnums="square")(1.0, square=Square(3.0)).side,
        lambda: fg.vjp(area, Square(3.0))[1](1.0)[0].side,
        lambda: fg.make_vjp(area)(Square(3.0))[1]()[0].side,
        lambda: fg.jvp(area, (Square(3.0),), (Square(1.0),))[1],
        lambda: fg.linearize(area, Square(3.0))[1](Square(1.0)),
        lambda: fg.jacfwd(area)(Square(3.0)).side,
        lambda: fg.jacrev(area)(Square(3.0)).side,
        lambda: fg.grad(fg.checkpoint(area))(Square(3.0)).side,
        lambda: fg.grad(fg.trace(area)(Square(1.0)))(Square(3.0)).side,
        lambda: fg.vmap(fg.grad(area))(Square(np.array([3.0, 4.0]))).side[0],
        lambda: fg.explain(area, Square(3.0))[0].gradient,
        lambda: 3.0 * fg.hvp(area)(Square(3.0), Square(1.0)).side,
        lambda: fg.grad(lambda x: area(Square(x)))(3.0),
    ],
)
def test_a_class_that_computes_when_it_is_made(derivative):
    assert plain(derivative()) == 6.0


# Copies of optimizers without their variables


COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x)), "copy": copy.copy}


@pytest.mark.parametrize("how", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("kind", [fg.optimizers.Adam, lambda rate: fg.optimizers.Momentum(rate, momentum=0.9)])
def test_a_copied_optimizer_goes_on_with_the_variables_that_there_are(kind, how):
    def train(optimizer, v, b):
        for _ in range(3):
            optimizer.minimize(lambda: v**4 + b**2)
        return plain([v, b])

    v, b = fg.Variable(3.0, name="v"), fg.Variable(1.0, name="b")
    optimizer = kind(0.1)
    train(optimizer, v, b)
    before, twin = plain([v, b]), how(optimizer)
    assert plain(twin.state_dict()) == plain(optimizer.state_dict())
    after = train(optimizer, v, b)
    v.assign(before[0]), b.assign(before[1])
    assert train(twin, v, b) == after
    assert plain(twin.state_dict()) == plain(optimizer.state_dict())
    assert twin.get_slot(v, twin.get_slot_names()[0]) is not None


@pytest.mark.parametrize("how", [copy.deepcopy, pickle.dumps])
def test_a_copy_tells_variables_of_one_name_apart(how):
    v, b = fg.Variable(3.0, name="same"), fg.Variable(1.0, name="same")
    optimizer = fg.optimizers.Momentum(0.1, momentum=0.9)
    optimizer.minimize(lambda: v**2 + b**2)
    assert how(optimizer)
    assert copy.copy(optimizer).get_slot(v, "momentum").item() == 6.0
    assert optimizer.fresh().iterations == 0


@pytest.mark.parametrize("how", COPIES.values(), ids=COPIES)
def test_copied_averages_go_on_with_the_variables_that_there_are(how):
    v = w()
    averages = averages_of(v)
    twin = how(averages)
    v.assign(4.0)
    averages.apply([v]), twin.apply([v])
    assert plain(twin.average(v)) == plain(averages.average(v)) == pytest.approx(3.1)
    with twin.averaged():
        assert plain(v) == pytest.approx(3.1)
    again = how(averages)
    again.load_state_dict(again.state_dict(), var_list=[v])
    with again.averaged():
        assert plain(v) == pytest.approx(3.1)


# What the messages name, works


def test_every_way_to_fill_a_matrix_with_traced_numbers():
    def filled(empty):
        def total(x):
            matrix = empty(x)
            matrix[0, 0], matrix[1, 2] = np.cos(x), 3.0 * x
            return np.sum(matrix**2)

        return total

    def stacked(x):
        return np.sum(np.stack([np.stack([np.cos(x), 0.0, 0.0]), np.stack([0.0, 0.0, 3.0 * x])]) ** 2)

    ways = [
        stacked,
        filled(lambda x: np.zeros_like(x, shape=(3, 3))),
        filled(lambda x: fnp.zeros((3, 3))),
        filled(lambda x: fnp.empty_like(np.zeros((3, 3))) * 0.0),
        filled(lambda x: fnp.array([[0.0] * 3] * 3)),
    ]
    for way in ways:
        for derivative in (fg.grad, fg.jacfwd):
            assert derivative(way)(0.5) == pytest.approx(9.0 - math.sin(1.0))


@pytest.mark.filterwarnings("ignore:you are shuffling a 'Tensor' object")
def test_a_shuffle_moves_the_derivatives_along():
    def weighed(x):
        np.random.default_rng(3).shuffle(x)
        return x @ np.arange(5.0)

    order = np.arange(5)
    np.random.default_rng(3).shuffle(order)
    np.testing.assert_array_equal(fg.grad(weighed)(np.ones(5)), np.argsort(order))


@pytest.mark.parametrize(
    ("expression", "remedy"),
    [
        ("np.ones((2, 20_000)) * [x, x]", r"np\.stack"),
        ("np.c_[x, x]", "column_stack"),
        ("np.arange(0.0, x)", r"x\.item\(\)"),
    ],
)
def test_remedies_of_programs_without_source(expression, remedy):
    """As after `python -c`: what a program does is read off its instructions."""
    names = {"np": np}
    exec(compile(f"def f(x):\n    return np.sum({expression})", "<string>", "exec"), names)
    with pytest.raises(errors.ArrayConversionError, match=remedy) as caught:
        fg.grad(names["f"])(LARGE)
    assert len(str(caught.value).splitlines()) == 4


# Derivatives of the user's own for SciPy's minimize


def test_derivatives_of_ones_own_get_the_arguments():
    def distance(x, a):
        return np.sum((x - a) ** 2)

    minimize = fgrad.scipy.optimize.minimize
    given = {"args": (2.0,), "method": "Newton-CG", "jac": lambda x, a: 2 * (x - a)}
    for more in ({}, {"hess": lambda x, a: 2 * np.eye(len(x))}, {"hessp": lambda x, v, a: 2 * v}):
        np.testing.assert_allclose(minimize(distance, np.zeros(3), **given, **more).x, 2.0)
    found = fgrad.scipy.optimize.least_squares(lambda x, a: x - a, np.zeros(3), args=(2.0,), jac=lambda x, a: np.eye(3))
    np.testing.assert_allclose(found.x, 2.0)


# The page


def code_of(program: Callable[[], Any]) -> str:
    """Return the body of a function as a program of its own, its result on the last line."""
    source = textwrap.dedent(inspect.getsource(program))
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    lines = source.splitlines()[function.body[0].lineno - _decorators(function.body[0]) - 1 :]
    code = textwrap.dedent("\n".join(lines)).replace("  # noqa: F841", "")
    return re.sub(r"(?m)^return ", "", code)


def _decorators(statement: ast.stmt) -> int:
    return len(getattr(statement, "decorator_list", ()))


def page() -> str:
    """Return the page of mistakes."""
    parts = [INTRODUCTION]
    for area, rows in itertools.groupby(MISTAKES, key=lambda row: row.area):
        parts.append(f"## {area}\n")
        parts += [section(row) for row in rows]
    return "\n".join(parts)


def section(row: Mistake) -> str:
    message = re.sub(r"test_mistakes\.py:\d+: (return )?", "example.py: ", message_of(row))
    message = re.sub(r"test_mistakes\.py:\d+", "example.py", message)
    message = re.sub(r" at 0x[0-9a-f]+|\w+\.wrong\.<locals>\.", "", message)
    head = "" if row.error is None else f"{row.error.__name__}: "
    return (
        f"### {row.title}\n\n```python\n{code_of(row.program)}\n```\n\n```text\n{head}{message}\n```\n\n"
        f"```python\n{code_of(row.mended)}\n```\n\n```text\n{rounded(row.expected)}\n```\n"
    )


INTRODUCTION = """# Common mistakes

Each section shows a program with a mistake, its error message, and the corrected program with its result. The programs
begin with `import numpy as np, fgrad as fg, fgrad.numpy as fnp` and imports of the other modules that they use; all of
them run as tests. If the result is None and there is no message, the text is the output of `fg.explain`.
"""


def test_the_page_shows_every_mistake_and_its_programs_run(tmp_path):
    """As they stand there: what is wrong raises, and what is mended has the value that is shown."""
    sections = page().split("\n### ")[1:]
    assert [section.partition("\n")[0] for section in sections] == [row.title for row in MISTAKES]
    for number, (section, row) in enumerate(zip(sections, MISTAKES, strict=True)):
        wrong, said, mended, value = re.findall(r"```\w+\n(.*?)\n```", section, re.DOTALL)
        if row.error is None:
            assert str(result_of(wrong, tmp_path / f"wrong_{number}.py")).partition("\n")[0] in said
        elif not issubclass(row.error, Warning):
            with pytest.raises(row.error):
                result_of(wrong, tmp_path / f"wrong_{number}.py")
        assert str(rounded(result_of(mended, tmp_path / f"mended_{number}.py"))) == value, row.title


def result_of(code: str, path: Path) -> Any:
    """Write a program into a file and run it; return the value of its last line."""
    *lines, last = ast.parse(code).body
    path.write_text(code, encoding="utf-8")
    names = dict(globals())
    exec(compile(ast.Module(lines, []), path, "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), path, "eval"), names)
    exec(compile(ast.Module([last], []), path, "exec"), names)
    return None


def test_code_that_belongs_to_no_module_gets_the_same_errors():
    names = {"np": np}
    exec("def f(x):\n    return np.sum(np.exp(np.array([np.sin(x), 1.0])))", names)
    assert "__name__" not in names
    with pytest.raises(errors.ObjectArrayError):
        fg.grad(names["f"])(1.0)
