"""Sparse Jacobians and Hessians: `sparsity`, `sparse_jacobian`, `sparse_hessian`.

The pattern is found by tracing the function (`trace.py`); a few directional derivatives then contain all elements
(`coloring.py`), and a plan stores where to read them (`plans.py`). Arguments are flattened into one vector, the leaves
of containers concatenated, and so are results.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Generic, ParamSpec, overload

import numpy as np

from fgrad import errors
from fgrad.core.layers import below, is_undecided
from fgrad.core.tensor import Tensor, strip_ended
from fgrad.core.tree import flatten, paths, unflatten
from fgrad.errors.hints import names_keywords
from fgrad.ops.tracing import concrete_value
from fgrad.patterns.plans import SparsePlan, as_pattern, parts, plan_of
from fgrad.patterns.trace import PatternTrace, sparse_library
from fgrad.transforms.calls import Decorator, Selection, Transformed, decorator, name_of, place_name, select
from fgrad.transforms.forward import jvp
from fgrad.transforms.jacobians import along_all, as_selected, check_chunk_size
from fgrad.transforms.linearization import differentiable
from fgrad.transforms.reverse import grad, vjp
from fgrad.transforms.running import call_users, check_detached, check_result, run
from fgrad.typing import Array

P = ParamSpec("P")
Options = dict[str, Any]


class _Point:
    """A function and a point, with the selected arguments as a list of arrays.

    Attributes:
        leaves: the arrays.
        sizes: the size of each selected argument.
        form: a key of the arguments' structure, shapes and dtypes, for plans.
    """

    def __init__(
        self, transform: str, function: Callable[..., Any], args: Any, keywords: dict[str, Any], argnums: Selection
    ) -> None:
        self.transform, self.function = transform, function
        self.places, keywords = select(function, argnums, args, keywords)
        self._args, self._keywords = args, keywords
        chosen = [args[place] if isinstance(place, int) else keywords[place] for place in self.places]
        flat = [flatten(each) for each in chosen]
        self._counts, self._treedefs = [len(leaves) for leaves, _ in flat], [treedef for _, treedef in flat]
        self.leaves = [
            _real(transform, function, place_name(function, place) + path, leaf)
            for place, each, (leaves, _) in zip(self.places, chosen, flat, strict=True)
            for path, leaf in zip(paths(each), leaves, strict=True)
        ]
        ends = np.cumsum([0, *self._counts])
        self.sizes = [sum(x.size for x in self.leaves[a:b]) for a, b in pairwise(ends)]

    def of_leaves(self, leaves: Sequence[Any]) -> Any:
        """Return the result of the function with other arrays in place of the selected ones."""
        args, keywords, rest = list(self._args), dict(self._keywords), iter(leaves)
        for place, count, treedef in zip(self.places, self._counts, self._treedefs, strict=True):
            value = unflatten(treedef, [next(rest) for _ in range(count)])
            if isinstance(place, int):
                args[place] = value
            else:
                keywords[place] = value
        return call_users(self.function, args, keywords)

    @property
    def form(self) -> Any:
        leaves, treedef = flatten((self._args, self._keywords))
        return tuple(self.places), str(treedef), tuple(map(_form, leaves))


def _form(leaf: Any) -> Any:
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return leaf.shape, str(leaf.dtype)
    return leaf if isinstance(leaf, (int, str, bool)) or leaf is None else type(leaf)


def _real(transform: str, function: Callable[..., Any], name: str, leaf: Any) -> Any:
    value = differentiable(leaf)
    if value is None:
        raise errors.IntegerInputError(
            f"{transform} of {name_of(function)}: the argument {name} is {leaf!r:.100}, which has no derivative.\n"
            "Pass floating-point numbers, or choose other arguments with argnums."
        )
    if value.dtype.kind != "f":
        raise errors.DtypeError(
            f"{transform} of {name_of(function)}: the argument {name} must be real floating-point numbers, and its "
            f"dtype is {value.dtype}.\nFor complex numbers, pass the real and the imaginary part as two arguments."
        )
    return value


# Patterns


def _unfollowed(x: Array) -> Any:
    """Return an array without the layers of differentiating traces: patterns have none."""
    return below(x, is_undecided)


def _pattern(function: Callable[..., Any], leaves: Sequence[Any]) -> tuple[Any, bool]:
    """Return the pattern of a function of a list of arrays; and whether a result is complex."""
    ends = np.cumsum([0, *(x.size for x in leaves)])
    trace = PatternTrace(int(ends[-1]))
    roots = [trace.root(_unfollowed(x), first) for x, first in zip(leaves, ends, strict=False)]
    result, outputs, _, _ = run(trace, function, lambda: ((roots,), {}))
    check_result(function, result, outputs)
    found = [trace.pattern_of(leaf) for leaf in outputs]
    if not any(each.nnz for each in found):
        check_detached(function, trace)
    is_complex = any(np.result_type(leaf).kind == "c" for leaf in outputs)
    return as_pattern(sparse_library().vstack(found), name_of(function)), is_complex


def _run_sparsity(function: Callable[..., Any], args: tuple[Any, ...], keywords: Options, argnums: Selection) -> Any:
    point = _Point("sparsity", function, args, keywords, argnums)
    return as_selected(parts(_pattern(_named(point), point.leaves)[0], point.sizes, 1), argnums)


def _named(point: _Point) -> Callable[[Sequence[Any]], Any]:
    def of_leaves(leaves: Sequence[Any]) -> Any:
        return point.of_leaves(leaves)

    of_leaves.__name__ = name_of(point.function)
    return of_leaves


@overload
def sparsity(function: Callable[P, Any], argnums: Selection = 0) -> Callable[P, Any]: ...
@overload
def sparsity(function: None = None, argnums: Selection = 0) -> Decorator[Any]: ...
@names_keywords
def sparsity(function: Any = None, argnums: Selection = 0) -> Any:
    """Return a function that computes which elements of the result of `function` depend on which of its arguments.

    It depends on operations and not on values, so that it holds for all points at which the function takes the same
    branches: `x * 0` depends on `x`. An operation without a pattern, such as a function with a custom rule, is assumed
    to depend on all its arguments; so no dependence is missing, and some may be superfluous.

    Args:
        function: takes floating-point numbers, arrays or containers of them, and returns the same.
        argnums: position or name of the argument, or several.

    Returns:
        A function of the same arguments. It returns a boolean `scipy.sparse.csr_array` with a row for each element of
        the result and a column for each of the argument, both flattened; for several `argnums` a tuple.

    Raises:
        IntegerInputError: a TypeError; a selected argument holds integers.
        SparsityError: a ValueError; the pattern is too large, since nearly everything depends on everything.
        ParameterError, NoResultError, NotCallableError: as for `jacobian`.
        MissingExtraError: an ImportError; SciPy is not installed.

    Example:
        >>> sparsity(lambda x: x[1:] * x[:-1])(np.zeros(4)).toarray().astype(int)
        array([[1, 1, 0, 0],
               [0, 1, 1, 0],
               [0, 0, 1, 1]])
    """
    return decorator(_run_sparsity, function, argnums=argnums)


# Matrices


class SparseDerivative(Transformed, Generic[P]):
    """A function that returns a sparse matrix of derivatives, and stores the plans it has made."""

    def __init__(
        self, run: Callable[..., Any], function: Callable[..., Any], options: Options, is_kept: bool = True
    ) -> None:
        super().__init__(run, function, options, is_kept)
        self._options = {"plans": {}, **options}

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> Any:
        return super().__call__(*args, **keywords)

    @property
    def plans(self) -> dict[Any, SparsePlan]:
        """The plans, by the structure, shapes and dtypes of the arguments."""
        return self._options["plans"]  # type: ignore[no-any-return]

    def plan(self, *args: P.args, **keywords: P.kwargs) -> SparsePlan:
        """Return the plan for arguments like these: the pattern, its colors, and the mode.

        Args:
            args, keywords: the arguments of the function.

        Raises:
            SparsityError, IntegerInputError: as for the derivative itself.
        """
        options = {**self._options, "only_plan": True}
        found: SparsePlan = Transformed(self._run, self._function, options, is_kept=False)(*args, **keywords)
        return found

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None or not hasattr(self._function, "__get__"):
            return self
        return SparseDerivative(self._run, self._function.__get__(instance, owner), self._options)

    def __reduce__(self) -> Any:
        found = super().__reduce__()
        if isinstance(found, tuple) and found[0] is Transformed:
            options = {name: option for name, option in self._options.items() if name != "plans"}
            return SparseDerivative, (self._run, self._function, options)
        return found


class _Problem:
    """The computation at a point: the pattern of a matrix, and its elements along directions.

    Args:
        point: the function and its arguments.
        chunk_size: the number of directions computed at once.
        is_hessian: whether the matrix has second derivatives.

    Attributes:
        rounding: the relative error of a product due to the precision of the arguments.
    """

    def __init__(self, point: _Point, chunk_size: int | None, is_hessian: bool) -> None:
        self.point, self.chunk_size = point, chunk_size
        self.rounding = max((float(np.sqrt(np.finfo(x.dtype).eps)) for x in point.leaves), default=0.0)
        of_leaves = _named(point)
        self.function: Callable[..., Any] = grad(of_leaves) if is_hessian else of_leaves

    def plan(self, given: object, mode: str) -> SparsePlan:
        """Return the plan for a given pattern, or for the pattern of the operations at this point.

        Raises:
            ShapeError: a given pattern does not match the arguments.
        """
        if given is None:
            pattern, is_complex = _pattern(self.function, self.point.leaves)
            return plan_of(pattern, "forward" if is_complex and mode == "auto" else mode)
        plan = given if isinstance(given, SparsePlan) else plan_of(as_pattern(given, name_of(self.function)), mode)
        if plan.shape[1] != sum(self.point.sizes):
            raise errors.ShapeError(
                f"sparsity has {plan.shape[1]} columns, and {self.point.transform} of {name_of(self.function)} has "
                f"{sum(self.point.sizes)} inputs.\nPass one with a row for each result and a column for each input."
            )
        return plan

    def along(self, plan: SparsePlan) -> Any:
        """Return the products with the directions of a plan, a row for each."""
        rows = plan.directions()
        if plan.mode == "reverse":
            return self._pulled(rows, max(plan.shape))
        if len(rows[0]) != sum(self.point.sizes):
            return _OTHER
        leaves = self.point.leaves

        def push(tangents: Sequence[Any]) -> list[Any]:
            return flatten(jvp(self.function, (leaves,), (tangents,))[1])[0]

        return self._along_all(push, leaves, rows, max(plan.shape))

    def _pulled(self, rows: Any, size: int) -> Any:
        value, pullback = vjp(self.function, self.point.leaves)
        leaves, treedef = flatten(value)
        outputs = [leaf if type(leaf) is Tensor else np.asarray(leaf) for leaf in leaves]
        if any(x.dtype.kind == "c" for x in outputs):
            raise errors.ParameterError(
                f"the results of {name_of(self.function)} are complex, and reverse mode needs real ones.\n"
                'Use mode="forward".'
            )
        if len(rows[0]) != sum(x.size for x in outputs):
            return _OTHER
        return self._along_all(lambda cts: pullback(unflatten(treedef, cts))[0], outputs, rows, size)

    def _along_all(self, function: Callable[[Any], Any], arrays: Sequence[Any], rows: Sequence[Any], size: int) -> Any:
        """Return the results of a function for each row, split into the shapes of arrays."""
        ends = np.cumsum([x.size for x in arrays])[:-1]

        def apart(rows: Array) -> list[Any]:
            pieces = zip(np.split(rows, ends, axis=-1), arrays, strict=True)
            return [piece.reshape((*rows.shape[:-1], *x.shape)).astype(x.dtype, copy=False) for piece, x in pieces]

        if self.chunk_size is None and size >= _LARGE:
            found = np.stack([_side_by_side(function(apart(row)), ()) for row in rows])
        else:
            found = _side_by_side(along_all(function, apart(np.stack(rows)), self.chunk_size), (len(rows),))
        return strip_ended(found if found.dtype.kind in "fc" else found * 0.0)  # the derivative of integers is 0


_OTHER = np.zeros((0, 0))
"""Returned if a plan was made for other shapes."""

_LARGE = 10_000
"""Size from which separate directions are faster than a batch, which exceeds the cache."""


def _side_by_side(leaves: Sequence[Any], lead: tuple[int, ...]) -> Any:
    rows = [np.reshape(leaf, (*lead, -1)) for leaf in leaves]
    return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=-1)


def _computed(problem: _Problem, plan: SparsePlan) -> tuple[Any, float]:
    """Return the matrix of a plan, SciPy's if its elements are plain, and the error of its products."""
    found = problem.along(plan)
    if not plan.fits(found.shape):
        return None, np.inf
    elements, tolerance = plan.elements(found), max(plan.rounding, problem.rounding)
    if type(found) is not Tensor:
        matrix = plan.matrix(elements)
        return matrix, plan.disagreement(matrix, found[-1], tolerance)
    known = concrete_value(found)
    # If there are numbers; under `vmap` those of all examples
    examples = () if known is None else known.reshape((-1, *known.shape[-2:]))
    far = [plan.disagreement(plan.matrix(plan.elements(each)), each[-1], tolerance) for each in examples]
    sparse: Any = importlib.import_module("fgrad.scipy.sparse.arrays")
    matrix = sparse.csr_array(plan.matrix(np.zeros(plan.pattern.nnz, np.bool_))).with_data(elements)
    return matrix, max(far, default=0.0)


_MOST_PLANS = 8
"""The number of plans kept by a derivative."""

_NOT_ROUNDING = 1e-3
"""The relative difference from which a new pattern does not match the function."""


def _found(problem: _Problem, mode: str, given: object, plans: dict[Any, SparsePlan]) -> Any:
    """Return the matrix by a stored plan, or by a new one if that is no longer valid.

    With the pattern of the operations at this point, a difference is due to rounding, and determines the tolerance: a
    function may compute internally in single precision.
    """
    form = problem.point.form
    if form in plans:
        matrix, far = _computed(problem, plans[form])
        if far <= max(plans[form].rounding, problem.rounding):
            return matrix
    plan = problem.plan(given, mode)
    matrix, far = _computed(problem, plan)
    if far <= (problem.rounding if given is not None else max(_NOT_ROUNDING, problem.rounding)):
        if given is None:
            plan.rounding = min(100 * far, _NOT_ROUNDING)
        if len(plans) >= _MOST_PLANS:
            plans.pop(next(iter(plans)), None)
        plans[form] = plan
        return matrix
    transform, name = problem.point.transform, name_of(problem.function)
    if given is not None:
        raise errors.SparsityError(
            f"{transform} of {name}: the derivative has elements where `sparsity` has none, or another number of rows "
            f"than its {plan.shape[0]}.\nOmit `sparsity`, so that it is computed, or compare it with "
            f"fg.sparsity({'fg.grad(f)' if plan.mode == 'symmetric' else 'f'})."
        )
    raise errors.SparsityError(
        f"{transform} of {name}: the computed elements do not agree with a product along a random direction.\n"
        "They agree if the function is the same in each call; check whether it draws random numbers, has "
        "state, or solves equations to a coarse tolerance."
    )


def _run_sparse_jacobian(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: Options,
    argnums: Selection,
    mode: str,
    sparsity: object,
    chunk_size: int | None,
    plans: dict[Any, SparsePlan],
    only_plan: bool = False,
) -> Any:
    check_chunk_size(chunk_size)
    if mode not in ("auto", "forward", "reverse"):
        raise errors.ParameterError(f'mode must be "auto", "forward" or "reverse", and it is {mode!r}.')
    point = _Point("sparse_jacobian", function, args, keywords, argnums)
    problem = _Problem(point, chunk_size, is_hessian=False)
    if only_plan:
        return plans.get(point.form) or problem.plan(sparsity, mode)
    matrix = _found(problem, mode, sparsity, plans)
    return as_selected(parts(matrix, point.sizes, 1) if len(point.sizes) > 1 else [matrix], argnums)


def _run_sparse_hessian(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: Options,
    argnums: Selection,
    sparsity: object,
    chunk_size: int | None,
    plans: dict[Any, SparsePlan],
    only_plan: bool = False,
) -> Any:
    check_chunk_size(chunk_size)
    point = _Point("sparse_hessian", function, args, keywords, argnums)
    problem = _Problem(point, chunk_size, is_hessian=True)
    if only_plan:
        return plans.get(point.form) or problem.plan(sparsity, "symmetric")
    matrix = _found(problem, "symmetric", sparsity, plans)
    if len(point.sizes) == 1:
        return as_selected([as_selected([matrix], argnums)], argnums)
    return tuple(tuple(parts(rows, point.sizes, 1)) for rows in parts(matrix, point.sizes, 0))


def _sparse(run: Callable[..., Any], function: Any, **options: Any) -> Any:
    made = decorator(run, function, **options)
    if function is None:
        return lambda function: SparseDerivative(run, function, options)
    return SparseDerivative(run, made.function, options)


@overload
def sparse_jacobian(
    function: Callable[P, Any],
    argnums: Selection = 0,
    mode: str = "auto",
    sparsity: Any = None,
    chunk_size: int | None = None,
) -> SparseDerivative[P]: ...
@overload
def sparse_jacobian(
    function: None = None,
    argnums: Selection = 0,
    mode: str = "auto",
    sparsity: Any = None,
    chunk_size: int | None = None,
) -> Callable[[Callable[P, Any]], SparseDerivative[P]]: ...
@names_keywords
def sparse_jacobian(
    function: object = None,
    argnums: Selection = 0,
    mode: str = "auto",
    sparsity: Any = None,
    chunk_size: int | None = None,
) -> Any:
    """Return a function that computes the Jacobian of `function` as a sparse matrix.

    The pattern is computed by `fgrad.sparsity` at the first call, and stored for arguments of the same shapes. Columns,
    or in reverse mode rows, without common elements are computed together, by one derivative along their sum (A. R.
    Curtis, M. J. D. Powell and J. K. Reid, https://doi.org/10.1093/imamat/13.1.117). One more derivative, along a
    random direction, checks whether the pattern is still valid: if the function takes other branches, a new one is
    computed.

    Args:
        function: takes real floating-point numbers, arrays or containers of them in the arguments that are
            differentiated; returns numbers, arrays or containers of them.
        argnums: position or name of the argument to differentiate, or several.
        mode: "forward", "reverse", or "auto", the one that needs fewer derivatives.
        sparsity: the positions of possible elements, if known: a sparse or boolean matrix, or the plan of another call.
            By default it is computed.
        chunk_size: the number of derivatives computed at once; a smaller one needs less memory. By default all.

    Returns:
        A function of the same arguments. It returns a `scipy.sparse.csr_array` with a row for each element of the
        result and a column for each element of the argument, both flattened; for several `argnums` a tuple. If its
        elements are traced, as in a gradient, it is an array of `fgrad.scipy.sparse`. Its method `plan` takes the same
        arguments, and returns the pattern with its colors.

    Raises:
        SparsityError: a ValueError; the Jacobian has elements where `sparsity` has none, or is not sparse at all.
        IntegerInputError: a TypeError; a differentiated argument holds integers.
        DtypeError: a TypeError; a differentiated argument is complex.
        ShapeError, ParameterError: ValueErrors; `sparsity`, an option or `argnums` is invalid.
        NoResultError, NotCallableError: as for `grad`.
        MissingExtraError: an ImportError; SciPy is not installed.

    Example:
        >>> jacobian = sparse_jacobian(lambda x: x[1:] - x[:-1] ** 2)
        >>> jacobian(np.array([1.0, 2.0, 3.0])).toarray()
        array([[-2.,  1.,  0.],
               [ 0., -4.,  1.]])
        >>> jacobian.plan(np.ones(3))
        <plan of 2 x 3 with 4 elements: 2 colors, forward mode>
    """
    options = {"argnums": argnums, "mode": mode, "sparsity": sparsity, "chunk_size": chunk_size}
    return _sparse(_run_sparse_jacobian, function, **options)


@overload
def sparse_hessian(
    function: Callable[P, Any], argnums: Selection = 0, sparsity: Any = None, chunk_size: int | None = None
) -> SparseDerivative[P]: ...
@overload
def sparse_hessian(
    function: None = None, argnums: Selection = 0, sparsity: Any = None, chunk_size: int | None = None
) -> Callable[[Callable[P, Any]], SparseDerivative[P]]: ...
@names_keywords
def sparse_hessian(
    function: Any = None, argnums: Selection = 0, sparsity: Any = None, chunk_size: int | None = None
) -> Any:
    """Return a function that computes the Hessian as a sparse matrix.

    It is the `sparse_jacobian` of the gradient, and uses the symmetry: each element is read at its position or at the
    transposed one, so that fewer derivatives are needed.

    Args:
        function: takes real floating-point numbers, arrays or containers of them; returns a number.
        argnums, sparsity, chunk_size: as for `sparse_jacobian`.

    Returns:
        As `sparse_jacobian`, with a row and a column for each element of the argument; for several `argnums` a tuple
        of tuples.

    Raises:
        NonScalarError: a TypeError; the result is not one number.
        SparsityError, IntegerInputError, DtypeError, ShapeError, ParameterError: as for `sparse_jacobian`.
        NoResultError, NotCallableError, MissingExtraError: as for `sparse_jacobian`.

    Example:
        >>> sparse_hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2))(np.array([1.0, 2.0, 3.0])).toarray()
        array([[4., 2., 0.],
               [2., 6., 4.],
               [0., 4., 0.]])
    """
    return _sparse(_run_sparse_hessian, function, argnums=argnums, sparsity=sparsity, chunk_size=chunk_size)
