"""Where in the user's program an error points, and what is decided by who calls."""

import gc
import importlib
import importlib.util
import linecache
import subprocess
import sys
import textwrap
import traceback
import weakref
import zipfile

import matplotlib.figure
import numpy as np
import pytest

import fgrad as fg
from fgrad import errors
from fgrad.errors import places
from fgrad.testing import check_grads

# By whom: a package's own folder, and not what a folder is called


@pytest.mark.parametrize("folder", ["scipy", "numpy", "pandas", "fgrad"])
def test_a_script_in_a_folder_called_like_a_library_is_the_users(tmp_path, folder):
    path = tmp_path / folder / "model.py"
    path.parent.mkdir()
    path.write_text("import numpy as np\n\ndef asks(x):\n    y = float(x)\n    return x * 2.0 + 0.0 * y\n")
    spec = importlib.util.spec_from_file_location("model_of_the_user", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(errors.DetachedError, match=r"at model\.py:4: "):
        fg.grad(module.asks)(3.0)
    assert not places.is_library(str(path))
    with pytest.raises(errors.ArrayConversionError, match=r"at model\.py:2: def store"):
        path.write_text("import numpy as np\ndef store(x): return np.array([x], dtype=float)\n")
        linecache.checkcache(str(path))
        spec.loader.exec_module(module)
        fg.grad(lambda x: np.sum(module.store(x)))(3.0)


def test_libraries_are_known_by_their_own_folders():
    assert places.is_library(np.__file__)
    assert places.is_library(fg.__file__)
    assert not places.is_library(__file__)
    assert not places.is_file_of("a package that nobody has imported", __file__)


# What is called: read off the instructions, where there is no source, too


def test_stores_are_known_without_source():
    program = """
    import numpy as np, fgrad as fg
    def store(statement, point):
        code = f"def f(x):\\n    {statement}\\n    return np.sum(a) + np.sum(x)"
        exec(code, names := {"np": np, "a": np.zeros(3)})
        try:
            fg.grad(names["f"])(point)
        except fg.errors.ArrayConversionError as error:
            return "result[i]" in str(error)
    """
    stores = [
        ("a[0] = x", "1.0"), ("a[1:] = x[1:]", "np.ones(3)"), ("a[:] = x", "np.ones(3)"), ("a.fill(x)", "1.0"),
        ("a[0], a[1] = x, x", "1.0"), ("a[0] += x and x", "1.0"), ("list(map(a.__setitem__, [0], [x]))", "1.0"),
    ]  # fmt: skip
    calls = "".join(f"print(store({statement!r}, {point}))\n" for statement, point in stores)
    command = [sys.executable, "-c", textwrap.dedent(program) + calls]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert dict(zip(stores, ran.stdout.split(), strict=True)) == dict.fromkeys(stores, "True"), ran.stderr


def test_a_name_of_ones_own_is_not_that_of_the_library():
    def float64(x):
        return x * 3.0

    np_like = type("np_like", (), {"float64": staticmethod(float64)})
    assert fg.grad(lambda x: np_like.float64(x))(1.0).item() == 3.0


def test_each_place_is_looked_at_once(monkeypatch):
    looked = []
    step = places._step
    monkeypatch.setattr(places, "_step", lambda code, position: (looked.append(position), step(code, position))[1])

    def f(x):
        np.array([x, x])  # beside which a truth value may be asked for by NumPy
        for _ in range(5):
            if x:
                x = x * 1.5
        return x

    fg.grad(f)(1.0)
    fg.grad(f)(1.0)
    assert len(looked) == 1


def test_what_is_known_of_code_goes_with_the_code():
    before = len(places._known)
    for number in range(20):
        scope = {}
        exec(f"def f(x):\n    y = {number} if x > 0 else 0\n    return x * y", scope)
        fg.grad(scope["f"])(1.0)
        del scope
    gc.collect()  # a function and its module refer to each other
    assert len(places._known) <= before + 2


# Errors of NumPy's on top of fgrad's, and of the user's


class OwnError(Exception):
    pass


def raising(x):
    try:
        np.arange(0.0, x)
    except errors.FgradError as error:
        raise OwnError("the model refused") from error


def by_tape(f):
    def run(x):
        x = fg.constant(x)
        with fg.GradientTape() as tape:
            tape.watch(x)
            return f(x)

    return run


@pytest.mark.parametrize("transform", [fg.grad, fg.vmap, by_tape, lambda f: lambda x: fg.jvp(f, (x,), (x,))])
def test_a_users_error_from_one_of_fgrads_arrives(transform):
    point = np.ones(2) if transform is fg.vmap else 2.0
    with pytest.raises(OwnError, match="the model refused") as caught:
        transform(raising)(point)
    assert isinstance(caught.value.__cause__, errors.FgradError)


def test_what_numpy_has_wrapped_is_unwrapped():
    with pytest.raises(errors.ArrayConversionError):
        fg.grad(lambda x: np.sum(np.array([[x, 1.0], [x, x]], dtype=float)))(1.0)
    array = np.zeros(2)

    def store(x):
        array[:] = [x, x]
        return x

    with pytest.raises(errors.ArrayConversionError):
        fg.grad(store)(1.0)


# Tracebacks and lines


def frames(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def test_tracebacks_show_the_users_frames():
    def inner(x):
        return np.sum(x @ np.ones(7))

    with pytest.raises(ValueError, match="mismatch") as caught:
        fg.hessian(inner)(np.ones(3))
    assert set(frames(caught.value)) == {__file__}
    with pytest.raises(errors.NonScalarError) as caught:
        fg.grad(lambda x: x)(np.ones(3))
    assert set(frames(caught.value)) == {__file__}


def test_a_traceback_shows_the_line_at_which_numpy_has_wrapped_an_error():
    def stores(x):
        values = np.zeros(1)
        values[0] = x
        return values[0]

    with pytest.raises(errors.ArrayConversionError) as caught:
        fg.grad(stores)(1.0)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "stores"


def test_full_tracebacks_can_be_asked_for(monkeypatch):
    monkeypatch.setattr(places, "FULL_TRACEBACKS", True)
    with pytest.raises(errors.NonScalarError) as caught:
        fg.grad(lambda x: x)(np.ones(3))
    assert any("fgrad" in name and name != __file__ for name in frames(caught.value))


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: fg.grad(lambda x: x)(np.ones(3)),
        lambda: fg.gradients_function(lambda x: x, params="y")(1.0),
        lambda: fg.GradientTape().gradient(fg.constant(1.0), fg.constant(1.0)),
        lambda: fg.Variable([1.0]).assign([1.0, 2.0]),
        lambda: fg.vmap(lambda x: x)(3.0),
        lambda: fg.optimizers.Adam(lr=0.1),
    ],
)
def test_every_error_names_the_users_line(mistake):
    with pytest.raises(errors.FgradError, match=r"at test_places\.py:\d+") as caught:
        mistake()
    assert str(caught.value).count("test_places.py:") == 1


# Arguments that are no numbers


@pytest.mark.parametrize("transform", [fg.grad, fg.value_and_grad, fg.jacobian, fg.hessian])
@pytest.mark.parametrize(
    ("point", "text"),
    [
        (None, "the argument 'x' is None, which is not a number"),
        ("abc", "the argument 'x' is 'abc', of type str, which is not a number"),
        (np.array([None, None]), "the argument 'x' is of type object"),
        (np.array(["a"]), "the argument 'x' is of type <U1"),
    ],
)
def test_what_is_no_number_is_refused_before_the_function_runs(transform, point, text):
    ran = []
    with pytest.raises(errors.NonNumericInputError, match=text):
        transform(lambda x: ran.append(x))(point)
    assert not ran


def test_options_that_are_none():
    for wrong in (1.5, [0.5], "up"):
        with pytest.raises(errors.ParameterError, match="argnums of grad must be|no parameter 'up'"):
            fg.grad(lambda x: x, argnums=wrong)(1.0)
    for modes in (("up",), "fwd", ()):
        with pytest.raises(errors.ParameterError, match="modes of check_grads are 'fwd', 'rev' or both"):
            check_grads(np.sin, (1.0,), modes=modes)


def test_tensors_can_be_weakly_referenced():
    x = fg.constant([1.0, 2.0])
    reference = weakref.ref(x)
    assert reference() is x
    del x
    assert reference() is None


def test_a_block_of_pythons_is_not_the_users_line():
    """Between the call and the error are generators of contextlib."""
    code = "import fgrad as fg\nfg.compile(lambda x: x * 2.0)(1.0)"
    blocked = "import sys\nsys.modules['llvmlite'] = sys.modules['llvmlite.binding'] = None\n"
    found = subprocess.run([sys.executable, "-c", blocked + code], capture_output=True, text=True, check=False).stderr
    assert "MissingExtraError" in found
    assert "contextlib.py" not in found.split("MissingExtraError", 1)[1]


def test_a_module_in_an_archive_has_lines(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "models.zip", "w") as archive:
        archive.writestr("zipped_model.py", "import numpy as np\n\ndef loss(x):\n    return np.sum(np.floor(x) * 2)\n")
    monkeypatch.syspath_prepend(str(tmp_path / "models.zip"))
    model = importlib.import_module("zipped_model")
    assert "zipped_model.py:4: return np.sum(np.floor(x) * 2)" in str(fg.explain(model.loss, np.ones(3)))


# Warnings of NumPy's

WARNS = """
import pickle, warnings
import numpy as np, fgrad as fg

def loss(x):
    y = np.log(x)
    return np.sum(y)

def length(x):
    return np.sum(np.sqrt(x))

for transform in (fg.grad, fg.vmap, lambda f: lambda x: fg.jvp(f, (x,), (x,))):
    with warnings.catch_warnings(record=True) as caught:
        transform(loss)(np.zeros((1, 1)) if transform is fg.vmap else np.zeros(1))
        transform(length)(-np.ones((1, 1)) if transform is fg.vmap else -np.ones(1))
    print([each.lineno for each in caught if "encountered in" in str(each.message)][:2], caught[0].filename == __file__)
    globals().pop("__warningregistry__", None)
print(pickle.loads(pickle.dumps(warnings.filters)) == warnings.filters)
with warnings.catch_warnings(record=True) as caught:  # in a module with such a name, as in a doctest of fgrad
    exec(compile("fg.grad(np.log)(0.0)", "<example>", "exec"), {"__name__": "fgrad.example", "fg": fg, "np": np})
print([each.filename for each in caught][:1])
warnings.simplefilter("error")
try:
    fg.grad(loss)(np.zeros(1))
except RuntimeWarning as error:
    print(error)
warnings.simplefilter("ignore")
fg.grad(loss)(np.zeros(1))
"""


def test_warnings_of_numpy_name_the_users_line(tmp_path):
    """And each line of the user's gets its own; what users have set for warnings holds."""
    path = tmp_path / "program.py"
    path.write_text(WARNS)
    shown = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert shown.stderr == ""
    assert shown.stdout.splitlines() == [
        *["[6, 10] True"] * 3,
        "True",
        "['<example>']",
        "divide by zero encountered in log",
    ]


def test_other_warnings_are_left_alone():
    from fgrad.errors import numpy_warnings

    text, module = numpy_warnings._TEXT, numpy_warnings._MODULE
    assert not text.match("a warning of another kind")
    assert not module.match("fgrad.core.reverse")
    assert text.match("overflow encountered in exp")
    assert not module.match("users_module")
    assert warns_of_line(module) == __file__


def warns_of_line(module):
    with pytest.warns(RuntimeWarning, match="overflow encountered in exp") as caught:
        assert module.match("fgrad.core.reverse")
    return caught[0].filename


ROOT_OF_SCIPY = """
import numpy as np, scipy.optimize, fgrad as fg

try:
    fg.grad(lambda b: scipy.optimize.brentq(lambda x: x - np.cos(x) * b, 0, 2))(1.0)
except fg.errors.ScipyCallError as error:
    print(error)
"""


def test_a_root_of_scipy_names_the_function_at_its_first_call():
    """Its C code then goes on without the number that fgrad refuses, and complains of signs; later calls do not."""
    shown = subprocess.run([sys.executable, "-c", ROOT_OF_SCIPY], capture_output=True, text=True)
    assert shown.stderr == ""
    assert shown.stdout.startswith("scipy.optimize.brentq takes plain arrays")


def test_the_line_that_plots_is_the_users():
    axes = matplotlib.figure.Figure().subplots()

    def plotted(x):
        axes.plot([0.0, 1.0], [0.0, x])
        return x

    with pytest.raises(errors.DetachedError, match=r"at test_places\.py:\d+: axes\.plot\("):
        fg.grad(plotted)(2.0)
