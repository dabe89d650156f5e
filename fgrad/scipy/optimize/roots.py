"""Roots and fixed points, differentiable with respect to the inputs of their equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from fgrad import errors
from fgrad.core.tensor import boxed
from fgrad.core.tree import flatten, tree_map
from fgrad.rules.closures import followers
from fgrad.rules.implicit import solved
from fgrad.rules.rule import settled
from fgrad.rules.vectors import raveled
from fgrad.scipy._plain import called_as, is_boxed
from fgrad.scipy.optimize._search import (
    SCIPYS,
    Search,
    as_tuple,
    dense_results,
    for_scipy,
    itself,
    on_own,
    python_of,
    result_from,
    result_of,
    unknowns_of,
)
from fgrad.transforms.callbacks import check_solvers_function
from fgrad.transforms.calls import name_of
from fgrad.transforms.forward import jvp
from fgrad.transforms.reverse import grad
from fgrad.typing import Array, ArrayLike, Operand

TAKE_JACOBIANS = {"hybr", "lm"}


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    tol: float | None = None,
    callback: Any = None,
    options: dict[str, Any] | None = None,
    *,
    compile: bool = False,
) -> OptimizeResult:
    """Find a root of a function of several unknowns, as `scipy.optimize.root`, with derivatives.

    The root has derivatives by the implicit function theorem, with respect to `args`, and traced values and
    variables that `fun` closes over; in both modes, to any order. The derivative with respect to `x0` is 0.

    Args:
        fun: `fun(x, *args)` returns as many numbers as there are unknowns.
        x0: the starting point: a vector, or a container of arrays, which `fun` then takes.
        args: extra arguments, which may be containers of arrays.
        method, tol, callback, options: as in SciPy.
        jac: by default the exact Jacobian, for methods that use one ("hybr", "lm"); with False SciPy uses
            finite differences; otherwise as in SciPy. It may return a sparse array, as `fg.sparse_jacobian(fun)` does.
        compile: whether SciPy calls native code for `fun` and for the exact Jacobian, as in `minimize`.

    Returns:
        SciPy's result; `x` has the structure of `x0`.

    Raises:
        ConvergenceError: a RuntimeError; no root was found, and a derivative is needed.
        SingularEquationError: a ValueError; the root is not a unique function of the inputs.
        ConcretizationError, FrozenValueError, MissingExtraError: with `compile`, as for `fg.compile`.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def crossing(r):                        # of a circle and the diagonal
        ...     return root(lambda x: np.stack([x[0] ** 2 + x[1] ** 2 - r**2, x[0] - x[1]]), [1.0, 1.0]).x
        >>> fg.jacobian(crossing)(2.0)
        Tensor([0.70710678, 0.70710678])
    """
    check_solvers_function("fun of root", fun, "x", as_tuple(args))
    search = Search("root", fun, x0, compile)
    fun = search.function
    residuals: Callable[..., Any] = fun if jac is not True else lambda x, *args: fun(x, *args)[0]

    plain = search.plain(search.on_vectors(residuals))
    exact = search.plain_jacobian(search.on_vectors(residuals))
    pair = for_scipy(itself, fun, search.compile)

    def solve(start: Array, *args: Array) -> Any:
        function: Any = plain(args)
        slopes = jac
        if jac is None and method in TAKE_JACOBIANS:
            slopes = exact(args)
        elif callable(jac) and method in TAKE_JACOBIANS:
            slopes = dense_results(jac)
        elif jac is True:
            both = pair(args)
            function, slopes = (lambda vector, *_: both(vector)), True
        return SCIPYS.root(function, start, args, method, slopes or None, tol, search.callback(callback), options)

    extra = as_tuple(args)
    x = search.find(solve, residuals, extra)
    if not followers(flatten(x)[0]):
        return search.result(x=x)
    return search.result(x=x, fun=raveled(residuals(x, *extra))[0])


@called_as(SCIPYS.fsolve, "compile")
def fsolve(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    fprime: Any = None,
    full_output: bool = False,
    *,
    compile: bool = False,
    epsfcn: float | None = None,
    **options: object,
) -> Any:
    """Find a root by MINPACK's hybrid method, as `scipy.optimize.fsolve`; the same as `root(...).x`.

    Args:
        func, x0, args, compile: as `fun`, `x0`, `args` and `compile` of `root`.
        fprime: as `jac` of `root`: by default the exact Jacobian.
        full_output: also return the report of SciPy.
        epsfcn, options: further options of SciPy, such as `xtol`, `maxfev` and `col_deriv`, which is for `fprime`.

    Returns:
        The root, with the structure of `x0`; with `full_output` the root, a dict of MINPACK, its status and message.

    Raises:
        ConvergenceError, SingularEquationError: as for `root`.

    Example:
        >>> import fgrad as fg
        >>> fg.jacobian(lambda a: fsolve(lambda x: x**2 - a, [1.0]))(4.0)
        Tensor([0.25])
    """
    check_solvers_function("func of fsolve", func, "x", as_tuple(args))
    if epsfcn is not None:
        options["eps"] = epsfcn
    found = root(func, x0, args, jac=fprime, options=options, compile=compile)
    if not full_output:
        return found.x
    report = {"fvec": found.fun, **{name: found[name] for name in _OF_MINPACK if name in found}}
    return found.x, report, found.status, found.message


_OF_MINPACK = ("nfev", "njev", "fjac", "r", "qtf")


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    fprime: Any = None,
    fprime2: Any = None,
    x0: Any = None,
    x1: Any = None,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    options: dict[str, Any] | None = None,
    *,
    compile: bool = False,
) -> OptimizeResult:
    """Find a root of a function of one unknown, as `scipy.optimize.root_scalar`, with derivatives.

    Args:
        f: `f(x, *args)` returns a number.
        args: extra arguments; derivatives are with respect to these and the values that `f` closes over.
        method: as in SciPy. Newton's and Halley's method use exact derivatives; they are the default
            if only `x0` is given, or `x0` with `fprime2=True`.
        bracket: two numbers at which `f` has different signs.
        fprime, fprime2: as in SciPy; not needed.
        x0, x1: the starting points.
        xtol, rtol, maxiter, options: as in SciPy.
        compile: whether SciPy calls native code for `f` and its exact derivatives, as in `minimize`.

    Returns:
        SciPy's result, with `root`.

    Raises:
        ConvergenceError: a RuntimeError; no root was found, and a derivative is needed.
        SingularEquationError: a ValueError; the derivative of `f` at the root is 0.

    Example:
        >>> import fgrad as fg
        >>> def cube_root(a):
        ...     return root_scalar(lambda x: x**3 - a, bracket=(0, 10)).root
        >>> fg.grad(cube_root)(8.0), fg.grad(fg.grad(cube_root))(8.0)
        (Tensor(0.08333333), Tensor(-0.00694444))
    """
    if method is None and bracket is None and x1 is None:
        method = "halley" if fprime2 else "newton"

    check_solvers_function("f of root_scalar", f, "x", as_tuple(args))
    numbers = _OfNumber(f, compile)
    f = numbers.function

    def solve(bracket: object, x0: Operand | None, x1: Operand | None, *args: Array) -> Any:
        slopes = [fprime, fprime2]
        for order in range({"newton": 1, "halley": 2}.get(method or "", 0)):
            if slopes[order] is None or slopes[order] is False:
                slopes[order] = numbers.slope(order + 1, args)
        options_given = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter, "options": options}
        plain = numbers.value(args)
        return SCIPYS.root_scalar(plain, args, method, bracket, slopes[0], slopes[1], x0=x0, x1=x1, **options_given)

    value = f if fprime is not True else lambda x, *args: f(x, *args)[0]
    start = x0 if x0 is not None else bracket[0]
    root, found = _one_unknown(value, solve, start, (bracket, x0, x1), as_tuple(args))
    return result_of("root_scalar", found, root=root)


class _OfNumber:
    """A function of one number and arguments, and its derivatives, for SciPy's calls with plain ones."""

    def __init__(self, function: Callable[..., Any], compile: bool) -> None:
        self.function = python_of(function)
        compile = compile or self.function is not function
        self._bind = [for_scipy(derive, self.function, compile) for derive in (itself, grad, _second)]

    def value(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the function."""
        call = self._bind[0](args)
        return lambda x, *_: call(x)

    def slope(self, order: int, args: tuple[Any, ...]) -> Callable[..., Any]:
        """Return a derivative."""
        call = self._bind[order](args)
        return lambda x, *_: float(call(float(x)))


def _second(function: Callable[..., Any]) -> Callable[..., Any]:
    return grad(grad(function))


def _one_unknown(
    f: Callable[..., Any], solve: Callable[..., Any], start: ArrayLike, ends: tuple[Any, ...], args: tuple[Any, ...]
) -> tuple[Any, list[Any]]:
    """Return the differentiable root of a function of one number, and SciPy's results."""
    found: list[Any] = []

    def solver(ends: object, args: tuple[Any, ...]) -> Any:
        found.append(solve(*tree_map(float, ends), *args))
        return np.float64(found[-1].root)

    def left(x: Array, ends: object, args: tuple[Any, ...]) -> Any:
        return f(x, *args)

    root = solved(f, solver, left, (ends, args), start=settled(start) * 1.0)
    if followers([root]) and not all(each.converged for each in found):
        flags = ", ".join(sorted({each.flag for each in found}))
        raise errors.ConvergenceError(
            f"SciPy did not find the root of {name_of(f)}: {flags}. There is no root to differentiate.\n"
            "Increase maxiter, give a bracket, or use another starting point."
        )
    return boxed(root) if is_boxed((ends, args)) else root, found


_DOC_OF_BRACKETED = """Find a root between two numbers, as `scipy.optimize.NAME`, with derivatives.

    Args:
        f: `f(x, *args)` returns a number; its signs at `a` and `b` differ.
        a, b: the ends of the interval; the derivative with respect to them is 0.
        args: extra arguments; derivatives are with respect to these and the values that `f` closes over.
        xtol, rtol, maxiter, disp: SciPy's.
        full_output: also return the report of SciPy, with the differentiable root.
        compile: SciPy calls native code for `f`, as in `minimize`.
        further: `k` of `toms748`.

    Returns:
        The root, or with `full_output` the root and the report.

    Raises:
        ValueError: `f` has the same sign at both ends.
        ConvergenceError, SingularEquationError: as for `root_scalar`.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda a: NAME(lambda x: x**2 - a, 0.0, 10.0))(4.0)
        Tensor(0.25)
    """


def _bracketed(scipys: Callable[..., Any]) -> Any:
    """Make a function that finds a root between two numbers by a SciPy method."""

    def find(
        f: Callable[..., Any],
        a: ArrayLike,
        b: ArrayLike,
        args: tuple[Any, ...] = (),
        xtol: float = 2e-12,
        rtol: float = 4 * float(np.finfo(float).eps),
        maxiter: int = 100,
        full_output: bool = False,
        disp: bool = True,
        *,
        compile: bool = False,
        **further: object,
    ) -> Any:
        check_solvers_function(f"f of {scipys.__name__}", f, "x", as_tuple(args))
        numbers = _OfNumber(f, compile)
        options = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter, "disp": disp, **further}

        def solve(a: float, b: float, *args: object) -> Any:
            return scipys(numbers.value(args), a, b, full_output=True, **options)[1]

        root, found = _one_unknown(numbers.function, solve, a, (a, b), as_tuple(args))
        return (root, result_of("root_scalar", found, root=root)) if full_output else root

    name = scipys.__name__
    find.__name__ = find.__qualname__ = name
    find.__doc__ = _DOC_OF_BRACKETED.replace("NAME", name)
    return called_as(scipys, "compile")(find)


brentq = _bracketed(SCIPYS.brentq)
brenth = _bracketed(SCIPYS.brenth)
ridder = _bracketed(SCIPYS.ridder)
bisect = _bracketed(SCIPYS.bisect)
toms748 = _bracketed(SCIPYS.toms748)


def newton(
    func: Callable[..., Any],
    x0: Any,
    fprime: Any = None,
    args: Any = (),
    tol: float = 1.48e-8,
    maxiter: int = 50,
    fprime2: Any = None,
    x1: Any = None,
    rtol: float = 0.0,
    full_output: bool = False,
    disp: bool = True,
    *,
    compile: bool = False,
) -> Any:
    """Find a root of a function of one unknown by Newton's method, as `scipy.optimize.newton`, with derivatives.

    Args:
        func: `func(x, *args)` returns a number; for an array of unknowns an array, of which each element depends on
            the unknown in the same place alone.
        x0: the starting point, or an array of starting points.
        fprime: by default the exact derivative; otherwise as in SciPy. With `x1` the secant method is used.
        args: extra arguments; derivatives are with respect to these and the values that `func` closes over.
        tol, maxiter, fprime2, x1, rtol, disp: as in SciPy.
        full_output: whether to return SciPy's report, too, with the differentiable root.
        compile: whether SciPy calls native code for `func` and its exact derivative, as in `minimize`.

    Returns:
        The root, or with `full_output` the root and the report; for an array SciPy's named tuple.

    Raises:
        ConvergenceError, SingularEquationError: as for `root_scalar`.
        ShapeError: a ValueError; for an array of unknowns, `func` returns another shape.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda a: newton(lambda x: x**2 - a, 1.0))(4.0)
        Tensor(0.25)
    """
    check_solvers_function("func of newton", func, "x", as_tuple(args))
    if np.ndim(x0):
        options = {"tol": tol, "maxiter": maxiter, "fprime2": fprime2, "x1": x1, "rtol": rtol, "disp": disp}
        return _newton_of_many(func, x0, fprime, as_tuple(args), options, full_output, compile)
    numbers = _OfNumber(func, compile)

    def solve(x0: Operand, x1: Any, *args: Array) -> Any:
        options = {"tol": tol, "maxiter": maxiter, "x1": x1, "rtol": rtol, "disp": disp}
        slope = numbers.slope(1, args) if fprime is None and x1 is None else fprime
        return SCIPYS.newton(numbers.value(args), x0, slope, args, fprime2=fprime2, full_output=True, **options)[1]

    root, found = _one_unknown(numbers.function, solve, x0, (x0, x1), as_tuple(args))
    return (root, result_of("root_scalar", found, root=root)) if full_output else root


def _newton_of_many(
    func: Callable[..., Any], x0: ArrayLike, fprime: Any, args: tuple[Any, ...], options: dict[str, Any],
    full_output: bool, compile: bool,
) -> Any:  # fmt: skip
    """Return the roots of equations that share nothing, as SciPy finds them together."""
    search = Search("newton", func, x0, compile)
    found: list[Any] = []

    def slopes(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: jvp(function, (x,), (np.ones_like(x),))[1]

    plain, exact = (for_scipy(derive, search.function, search.compile) for derive in (itself, slopes))

    def plain_of(call: Callable[..., Any]) -> Callable[..., Any]:
        def on_plain(x: Array, *_: object) -> Any:
            values = np.array(call(x))
            if values.shape != x.shape:
                raise errors.ShapeError(
                    f"func of newton, {name_of(func)}, returned shape {values.shape} for unknowns of shape {x.shape}.\n"
                    "Return one number for each unknown."
                )
            return values

        return on_plain

    def solve(start: Array, *args: Array) -> OptimizeResult:
        slope = plain_of(exact(args)) if fprime is None and options["x1"] is None else fprime
        start = np.reshape(start, np.shape(search.start))
        found.append(SCIPYS.newton(plain_of(plain(args)), start, slope, args, full_output=True, **options))
        is_success, message = bool(np.all(found[-1].converged)), "some roots have not converged."
        return result_from({"x": found[-1].root, "success": is_success, "message": message})

    root = search.find(solve, search.function, args)
    return found[-1]._replace(root=root) if full_output else root


def fixed_point(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    xtol: float = 1e-8,
    maxiter: int = 500,
    method: str = "del2",
    *,
    compile: bool = False,
) -> Any:
    """Find a fixed point of a function, as `scipy.optimize.fixed_point`, with derivatives.

    Args:
        func: `func(x, *args)` returns as many numbers as there are unknowns.
        x0: the starting point: a number, an array, or a container of arrays.
        args: extra arguments; derivatives are with respect to these and the values that `func` closes over.
        xtol: the relative tolerance.
        maxiter: the maximal number of iterations.
        method: "del2" (Steffensen's method with Aitken's acceleration) or "iteration".
        compile: whether SciPy calls native code for `func`, as in `minimize`.

    Returns:
        The point, with the structure of `x0`.

    Raises:
        RuntimeError: SciPy's solver failed.
        SingularEquationError: a ValueError; the point is not a unique function of the inputs.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: fixed_point(lambda x: np.cos(a * x), 0.5))(1.0)
        Tensor(-0.29747434)
    """
    check_solvers_function("func of fixed_point", func, "x", as_tuple(args))
    x0 = unknowns_of(x0, at_least_vector=False)
    restore = raveled(x0)[1]
    compile, func = compile or python_of(func) is not func, on_own(python_of(func))
    bind = for_scipy(itself, lambda vector, *args: raveled(func(restore(vector), *args))[0], compile)

    def solver(start: Array, args: tuple[Any, ...]) -> Any:
        call = bind(args)

        def step(vector: Array) -> Any:
            return np.array(call(vector))

        return restore(SCIPYS.fixed_point(step, raveled(start)[0], (), xtol, maxiter, method))

    def left(x: Array, start: Array, args: tuple[Any, ...]) -> Any:
        return tree_map(lambda x, image: x - image, x, func(x, *args))

    extra = as_tuple(args)
    point = solved(func, solver, left, (x0, extra), start=x0)
    return tree_map(boxed, point) if is_boxed((x0, extra)) else point
