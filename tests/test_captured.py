"""What a compiled function refers to, beyond numbers and arrays: its programs are those of the values at the call."""

import contextvars
import dataclasses
import functools
import operator
import types

import numpy as np
import pytest
import scipy.sparse
from test_compile import X, assert_same, check_like_plain

import fgrad as fg
import fgrad.scipy.interpolate
import fgrad.scipy.sparse


class Rates:
    rate = 2.0


class Store:
    """Has what operators and built-in functions call."""

    def __init__(self, rate):
        self._values = {"rate": rate}

    def __getitem__(self, key):
        return self._values[key]

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self._values[name]

    def __mul__(self, x):
        return x * self._values["rate"]

    __rmul__ = __mul__

    def __call__(self):
        return self

    def __iter__(self):
        return iter(self._values.values())

    def __contains__(self, key):
        return key in self._values

    def __float__(self):
        return self._values["rate"]

    def __array__(self, dtype=None, copy=None):
        return np.full(5, self._values["rate"])

    def __enter__(self):
        return self._values["rate"]

    def __exit__(self, *error):
        return None


def entered(store, x):
    with store as rate:
        return x * rate


SPECIAL = {
    "item": lambda store: lambda x: x * store["rate"],
    "attribute": lambda store: lambda x: x * store.rate,
    "product": lambda store: lambda x: store * x,
    "product of a call": lambda store: lambda x: 2.0 * store() * x,
    "iteration": lambda store: lambda x: x * next(iter(store)),
    "membership": lambda store: lambda x: x if "new" in store else -x,
    "number": lambda store: lambda x: x * float(store),
    "array": lambda store: lambda x: x * np.asarray(store),
    "block": lambda store: lambda x: entered(store, x),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_methods_are_code_that_the_function_runs(name):
    store = Store(2.0)
    function = SPECIAL[name](store)
    compiled = fg.compile(function)
    check_like_plain(compiled, function, X)
    store._values.update(rate=3.0, new=1.0)
    check_like_plain(compiled, function, X)


@dataclasses.dataclass
class Setting:
    value: float = 1.0


class Default:
    rate = 2.0


class Derived(Default):
    __slots__ = "__hidden"

    def __init__(self, hidden=1.0):
        self.__hidden = hidden * Rates.rate

    def hide(self, value):
        self.__hidden = value

    def of_slot(self, x):
        return self.__hidden * x


class Tripled:
    def __get__(self, owner, kind):
        return 3.0 * owner.base


class WithDescriptor:
    base = 1.0
    tripled = Tripled()


CONTEXT = contextvars.ContextVar("CONTEXT", default=1.0)


def changed_function(x, rate=2.0, *, shift=1.0):
    return x * rate + shift


def with_an_attribute(x):
    return x * with_an_attribute.rate


def _changes(name, monkeypatch):
    """Return a function of an array, and a function that changes what the first one refers to."""
    setting, namespace, own, table = Setting(), types.SimpleNamespace(), Derived(), bytearray(b"\x02")
    described, sparse = WithDescriptor(), scipy.sparse.csr_array(np.eye(5))
    own_sparse, spline = fg.scipy.sparse.csr_array(np.eye(5)), fg.scipy.interpolate.CubicSpline(X, X**2)
    get = operator.attrgetter("value")
    mapped = np.vectorize(lambda x: x * setting.value)
    cached = functools.cache(lambda: setting.value)
    monkeypatch.setattr(with_an_attribute, "rate", 2.0, raising=False)
    return {
        "dataclass compared": (lambda x: x if setting == Setting() else -x, lambda: setattr(setting, "value", 2.0)),
        "dataclass as a tuple": (
            lambda x: x * dataclasses.astuple(setting)[0], lambda: setattr(setting, "value", 2.0),
        ),
        "getter": (lambda x: x * get(setting), lambda: setattr(setting, "value", 2.0)),
        "new attribute": (lambda x: x * getattr(namespace, "rate", 2.0), lambda: setattr(namespace, "rate", 3.0)),
        "new attribute of a class": (
            lambda x: x * own.rate, lambda: monkeypatch.setattr(Derived, "rate", 3.0, raising=False),
        ),
        "another class": (lambda x: x * setting.kind, lambda: setattr(setting, "__class__", OtherSetting)),
        "private slot": (own.of_slot, lambda: own.hide(4.0)),
        "constructor": (lambda x: Derived().of_slot(x), lambda: monkeypatch.setattr(Rates, "rate", 4.0)),
        "descriptor": (lambda x: x * described.tripled, lambda: setattr(described, "base", 4.0)),
        "bytes": (lambda x: x * table[0], lambda: table.__setitem__(0, 3)),
        "context": (lambda x: x * CONTEXT.get(), lambda: CONTEXT.set(3.0)),
        "code": (
            lambda x: changed_function(x),
            lambda: monkeypatch.setattr(changed_function, "__code__", with_other_code.__code__),
        ),
        "defaults": (
            lambda x: changed_function(x), lambda: monkeypatch.setattr(changed_function, "__defaults__", (5.0,)),
        ),
        "keyword default": (
            lambda x: changed_function(x), lambda: monkeypatch.setitem(changed_function.__kwdefaults__, "shift", 5.0),
        ),
        "attribute of a function": (with_an_attribute, lambda: monkeypatch.setattr(with_an_attribute, "rate", 5.0)),
        "function of a library's object": (lambda x: np.stack(list(mapped(x))), lambda: setattr(setting, "value", 2.0)),
        "cached": (lambda x: x * cached(), lambda: (setattr(setting, "value", 2.0), cached.cache_clear())),
        "sparse array": (lambda x: sparse @ np.ones(5) * x, lambda: sparse.data.__setitem__(0, 3.0)),
        "sparse array of fgrad": (lambda x: own_sparse @ x, lambda: own_sparse.data.__setitem__(0, 3.0)),
        "spline": (spline, lambda: spline.c.__setitem__(0, 3.0)),
    }[name]  # fmt: skip


class OtherSetting(Setting):
    kind = 3.0


Setting.kind = 2.0


def with_other_code(x, rate=2.0, *, shift=1.0):
    return x + rate + shift


REFERRED_TO = [
    "dataclass compared",
    "dataclass as a tuple",
    "getter",
    "new attribute",
    "new attribute of a class",
    "another class",
    "private slot",
    "constructor",
    "descriptor",
    "bytes",
    "context",
    "code",
    "defaults",
    "keyword default",
    "attribute of a function",
    "function of a library's object",
    "cached",
    "sparse array",
    "sparse array of fgrad",
    "spline",
]


@pytest.mark.parametrize("name", REFERRED_TO)
def test_what_else_a_function_refers_to(name, monkeypatch):
    function, change = _changes(name, monkeypatch)
    compiled = fg.compile(function)
    check_like_plain(compiled, function, X)
    change()
    check_like_plain(compiled, function, X)


SLOPE = types.SimpleNamespace(rate=2.0)


@fg.custom_vjp
def of_vjp(x):
    return x * SLOPE.rate


of_vjp.defvjp(lambda x: (x * SLOPE.rate, x), lambda x, ct: (ct * SLOPE.rate * x,))


@fg.custom_jvp
def of_jvp(x):
    return x * SLOPE.rate


of_jvp.defjvp(lambda primals, tangents: (of_jvp(*primals), tangents[0] * SLOPE.rate))


@fg.custom_gradient
def of_gradient(x):
    return x * SLOPE.rate, lambda ct: ct * SLOPE.rate


@pytest.mark.parametrize("function", [of_vjp, of_jvp, of_gradient])
def test_rules_are_code_that_the_function_runs(function, monkeypatch):
    gradient = fg.grad(lambda x: np.sum(function(x)))
    compiled = fg.compile(gradient)
    assert_same(compiled(X), gradient(X))
    monkeypatch.setattr(SLOPE, "rate", 3.0)
    assert_same(compiled(X), gradient(X))


@pytest.mark.parametrize("kind", ["series", "table", "array"])
def test_tables_of_other_libraries_are_looked_at(kind):
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    table = pandas.DataFrame({"a": np.arange(5.0), "b": list("vwxyz")})
    series, labelled = table["a"].copy(), xarray.DataArray(np.arange(5.0))
    function, change = {
        "series": (lambda x: x * series.to_numpy(), lambda: series.__setitem__(0, 7.0)),
        "table": (lambda x: x * table["a"].to_numpy(), lambda: table.__setitem__("a", 2.0 * table["a"])),
        "array": (lambda x: x * labelled.values, lambda: labelled.__setitem__(0, 7.0)),
    }[kind]
    compiled = fg.compile(function)
    check_like_plain(compiled, function, X)
    change()
    check_like_plain(compiled, function, X)
