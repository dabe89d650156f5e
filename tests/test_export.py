"""Functions that leave Python: C files that are compiled and run, libraries that are loaded, function pointers."""

import contextlib
import ctypes
import functools
import gc
import http.server
import importlib.util
import inspect
import io
import itertools
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import matplotlib.image
import numpy as np
import pytest
import scipy
import scipy.integrate
import scipy.ndimage
import scipy.optimize

import fgrad as fg
import fgrad.scipy.linalg as linalg
from fgrad import errors
from fgrad.native.dense import ARGUMENTS
from fgrad.native.machine import Machine

ROOT = Path(__file__).parent.parent
GCC = shutil.which("gcc")
needs_compiler = pytest.mark.skipif(GCC is None, reason="there is no gcc to link and compile with")
RNG = np.random.default_rng(0)
A, B, V = RNG.standard_normal((7, 7)), RNG.standard_normal((7, 3)), RNG.standard_normal(7)
S = A @ A.T + 7 * np.eye(7)
SINGULAR = np.array([np.zeros((3, 3)), [[0, 1, 2], [0, 3, 4], [0, 5, 6]], [[1, 2, 3], [2, 4, 7], [3, 6, 1.0]]])
ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e-310])
WEIGHTS = fg.Variable(RNG.standard_normal((3, 4)))


class Pair(NamedTuple):
    first: object
    second: object


@fg.register_dataclass
@dataclass
class Layer:
    weight: object
    bias: object


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def along(x):
    return fg.scan(lambda carry, each: (np.tanh(carry * 0.9 + each), carry), x[0], x)


def long_loop(x):
    y = x
    for _ in range(200):
        y = np.sin(y) * 1.01 + 0.01 * x
    return np.sum(y)


def few_rows(a, b):
    """Return solutions and determinants of the first rows and columns of a matrix."""
    sizes = range(1, 6)
    return [np.linalg.solve(a[:n, -n:], b[:n]) for n in sizes] + [np.linalg.slogdet(a[:n, -n:])[1] for n in sizes]


FUNCTIONS = {
    "a product of matrices": (lambda a, b: a @ b, (A, B)),
    "a product of transposes": (lambda a, b: b.T @ a.T, (A, B)),
    "a matrix times a vector": (lambda a, b: a @ b, (A, V)),
    "a vector times a matrix": (lambda a, b: b @ a, (A, V)),
    "stacked products": (lambda a, b: a @ b, (RNG.standard_normal((4, 9, 16)), RNG.standard_normal((4, 16, 12)))),
    "large products": (
        fg.grad(lambda a, b: np.sum(np.tanh(a @ b) ** 2), argnums=(0, 1)),
        (RNG.standard_normal((60, 50)), RNG.standard_normal((50, 40))),
    ),
    "a large matrix times a vector": (
        fg.grad(lambda a, b: np.sum(np.tanh(a @ b) ** 2), argnums=(0, 1)),
        (RNG.standard_normal((300, 200)), RNG.standard_normal(200)),
    ),
    "single precision": (
        lambda a, b: np.tanh(a @ b),
        (A.astype(np.float32), B.astype(np.float32)),
    ),
    "large products in single precision": (
        lambda a, b: a @ b,
        (RNG.standard_normal((40, 50)).astype(np.float32), RNG.standard_normal((50, 40)).astype(np.float32)),
    ),
    "solutions": (np.linalg.solve, (A, B)),
    "one solution": (np.linalg.solve, (A, V)),
    "gradients of solutions": (fg.grad(lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), argnums=(0, 1)), (A, B)),
    "solutions with few rows, whose order changes": (few_rows, (A[::-1], V)),
    "gradients of solutions with few rows": (fg.grad(lambda a, b: sum(map(np.sum, few_rows(a, b)))), (A[::-1], V)),
    "an inverse": (np.linalg.inv, (A,)),
    "a determinant": (fg.value_and_grad(lambda a: np.linalg.slogdet(a)[1]), (A,)),
    "determinants of singular matrices": (lambda a: (np.linalg.det(a), np.linalg.slogdet(a)), (SINGULAR,)),
    "Cholesky factors": (np.linalg.cholesky, (S,)),
    "gradients of Cholesky factors": (fg.grad(lambda a: np.sum(np.linalg.cholesky(a) ** 3)), (S,)),
    "a lower triangle": (lambda a, b: linalg.solve_triangular(a, b, lower=True), (np.tril(S), B)),
    "the transpose of an upper triangle": (lambda a, b: linalg.solve_triangular(a, b, trans=1), (np.triu(S), B)),
    "a triangle with ones": (
        lambda a, b: linalg.solve_triangular(a, b, lower=True, unit_diagonal=True),
        (np.tril(S), V),
    ),
    "factors that are kept": (lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b), (S, B)),
    "a scan": (along, (V,)),
    "the gradient of a scan": (fg.grad(lambda x: np.sum(along(x)[1] ** 2)), (V,)),
    "a loop over a known matrix": (lambda x: fg.scan(lambda c, e: (S @ c / 30 + e, c[0]), x, V), (V,)),
    "a loop while a condition holds": (
        lambda x: fg.while_loop(lambda c: c[0] < 100.0, lambda c: (c[0] * 1.5, c[1] + 1.0), (x, 0.0)),
        (1.3,),
    ),
    "the gradient of a Python loop": (fg.grad(long_loop), (V,)),
    "a Hessian": (fg.hessian(lambda x: np.sum(np.sin(x) * x[::-1])), (V,)),
    "an argument that is a result, twice": (lambda x: (x, x, x * 2, np.arange(3.0)), (V,)),
    "a view": (lambda x: x[::-1].reshape(7, 1), (V,)),
    "a constant": (lambda x: np.ones((2, 2), np.float32), (V,)),
    "elements at indices": (lambda x, i: x[i], (V, np.array([1, -2, 3]))),
    "truth values and counts": (lambda x: (x > 0, np.sum(x > 0)), (V,)),
    "a variable": (lambda x: WEIGHTS @ x, (V[:4],)),
    "containers": (
        lambda p, q: {"s": p["w"] @ p["b"], "l": [p["w"].sum(), (q[0] * 2,)]},
        ({"w": A, "b": V}, [V, 2.0]),
    ),
    "objects": (lambda p, q: (p.weight @ q.first, Pair(q.second, p.bias)), (Layer(A, V), Pair(V, B))),
    "a number": (lambda x, k: x * k, (V, 2.5)),
    "part of the program": (lambda x, name, n: getattr(np, name)(x) * sum(range(n)), (V, "cos", True)),
    "elementary functions": (lambda x: np.where(x > 0, np.log1p(abs(x)), np.expm1(x)) + np.arctan2(x, 2.0), (V,)),
    "nothing in, one number out": (lambda: np.sum(WEIGHTS**2), ()),
}


@dataclass
class Backwards:
    first: object
    second: object


fg.register_pytree_node(Backwards, lambda x: ((x.second, x.first), None), lambda _, xs: Backwards(xs[1], xs[0]))
ORDERED = OrderedDict(b=V, a=V + 1)
FUNCTIONS |= {
    "dicts with an order": (lambda p: (p["b"] - 10 * p["a"], OrderedDict(b=p["b"] * 2, a=p["a"])), (ORDERED,)),
    "dicts in another order": (lambda p: {"b": p["b"] * 2, "a": p["a"]}, (dict(ORDERED),)),
    "dicts with a default": (lambda p: p["b"] - 10 * p["a"], (defaultdict(list, ORDERED),)),
    "queues": (lambda q: q[0] - 10 * q[1], (deque([V, V + 1]),)),
    "children in another order": (lambda p: p.first - 10 * p.second, (Backwards(V, V + 1),)),
    "what is not finite": (lambda x: (x * ODD, x + np.inf, x * -0.0, x * 5e-324, np.copysign(x, ODD)), (np.ones(6),)),
    "integers that wrap": (lambda x: (x * x, x + x, -x, abs(x)), (np.array([3, -7, np.iinfo(int).min]),)),
    "nothing in arrays": (lambda x, y: (x @ y, np.sum(x), x.T), (np.zeros((3, 0)), np.zeros((0, 2)))),
}


def arrays_of(args):
    return [x for x in args if not isinstance(x, (str, bool))]


def as_plain(tree):
    """Return results as an exported function returns them: what has attributes as a dict."""
    tree = fg.to_numpy(tree)
    if isinstance(tree, OrderedDict):
        return dict(tree)
    if hasattr(tree, "_asdict"):
        return {key: as_plain(x) for key, x in tree._asdict().items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(as_plain, tree))
    return {key: as_plain(x) for key, x in tree.items()} if isinstance(tree, dict) else tree


def assert_same(found, wanted):
    assert type(found) is type(wanted) or not isinstance(wanted, (dict, list, tuple))
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            assert_same(found[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        for x, y in zip(found, wanted, strict=True):
            assert_same(x, y)
    else:
        wanted = np.asarray(wanted)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        single = wanted.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if single else 1e-10, atol=1e-5 if single else 1e-12)


@needs_compiler
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_library_does_what_the_function_does(name, tmp_path):
    function, args = FUNCTIONS[name]
    files = fg.compile(function).export(tmp_path / "model", *args)
    loaded = fg.load_exported(files.library)
    assert_same(loaded(*arrays_of(args)), as_plain(function(*args)))


def test_every_function_of_blas_and_lapack_is_tested_as_loops_and_as_a_symbol(tmp_path):
    used = set()
    for name in itertools.takewhile(lambda name: name != "a scan", FUNCTIONS):  # those of matrices stand before it
        function, args = FUNCTIONS[name]
        files = fg.compile(function).export(tmp_path / "model", *args, blas=True, library=False)
        used |= set(json.loads(files.description.read_text())["symbols"])
    assert {each[1:-1] for each in used} == set(ARGUMENTS)
    assert {each[0] for each in used} == {"s", "d"}


@needs_compiler
def test_a_matrix_without_factors_and_an_index_out_of_range_have_no_result(tmp_path):
    compiled = fg.compile(lambda a: np.linalg.cholesky(a))
    cholesky = fg.load_exported(compiled.export(tmp_path / "factor", S).library)
    for bad in (-S, np.zeros((7, 7)), np.full((7, 7), np.nan)):
        with pytest.raises(errors.ParameterError, match="factor has no result for these arguments"):
            cholesky(bad)
    solve = fg.load_exported(fg.compile(np.linalg.solve).export(tmp_path / "solve", A, V).library)
    with pytest.raises(errors.ParameterError, match="singular"):
        solve(np.zeros((7, 7)), V)
    with pytest.raises(errors.ParameterError, match="infinities or NaN in products or factors"):
        solve(np.full((7, 7), np.nan), V)
    pick = fg.load_exported(fg.compile(lambda x, i: x[i]).export(tmp_path / "pick", V, np.array([0])).library)
    assert pick(V, np.array([-1])) == V[-1]
    with pytest.raises(errors.ParameterError, match="out of range"):
        pick(V, np.array([7]))


@needs_compiler
def test_what_is_part_of_the_code_must_be_the_same_in_containers(tmp_path):
    def power(p):
        return getattr(np, p["name"])(sum(p["w"] * k for k in range(p["steps"]))) * p["scale"]

    given = {"w": V, "name": "sin", "steps": 3, "scale": fg.Variable(2.0)}
    loaded = fg.load_exported(fg.compile(power).export(tmp_path / "power", given).library)
    np.testing.assert_allclose(loaded({"w": V, "name": "sin", "steps": 3}), power(given), rtol=1e-13)
    for other, said in (({"steps": 5}, r"p\['steps'\] is 5, and was 3"), ({"name": "cos"}, "is 'cos', and was 'sin'")):
        with pytest.raises(errors.ParameterError, match=said):
            loaded(given | other)
    with pytest.raises(errors.ParameterError, match="p has 'further', without which the function was exported"):
        loaded(given | {"further": V})
    del given["name"]
    with pytest.raises(errors.ParameterError, match="p has no 'name'"):
        loaded(given)


@needs_compiler
def test_functions_in_containers_are_told_apart_by_their_names_in_any_process(tmp_path):
    def ours(x):
        return x * 2

    given, again = types.FunctionType(ours.__code__, {}), types.FunctionType(ours.__code__, {})
    apply = fg.compile(lambda p: p["f"](p["x"]))
    own = fg.load_exported(apply.export(tmp_path / "own", {"f": given, "x": V}).library)
    assert repr(given) != repr(again)
    np.testing.assert_array_equal(own({"f": again, "x": V}), V * 2)
    sine = fg.load_exported(apply.export(tmp_path / "sine", {"f": np.sin, "x": V}).library)
    with pytest.raises(errors.ParameterError, match="is <ufunc 'cos'>, and was <ufunc 'sin'>"):
        sine({"f": np.cos, "x": V})


@needs_compiler
def test_pivots_are_the_largest(tmp_path):
    matrix = np.array([[1e-20, 1.0], [1.0, 1.0]])
    solve = fg.load_exported(fg.compile(np.linalg.solve).export(tmp_path / "solve", matrix, np.ones(2)).library)
    np.testing.assert_allclose(solve(matrix, np.array([1.0, 2.0])), np.linalg.solve(matrix, [1.0, 2.0]), rtol=1e-15)


# The files


HEADER = """\
/* rosen: a function exported by fgrad. Arrays are in C order; bool is one byte, 0 or 1.
 *
 * in  x            5
 * out value        one number
 * out gradient     5
"""

C_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include "rosen.h"

static void *descend(void *found) {
    double x[5], value, gradient[5];
    void *workspace = malloc(rosen_workspace_bytes());
    for (int k = 0; k < 5; k++) x[k] = -1.2 + 0.3 * k;
    for (int step = 0; step < 50000; step++) {
        if (rosen(x, &value, gradient, workspace)) abort();
        for (int k = 0; k < 5; k++) x[k] -= 5e-4 * gradient[k];
    }
    *(double *)found = x[4];
    free(workspace);
    return 0;
}

int main(void) {
    pthread_t threads[8];
    double found[8];
    for (int k = 0; k < 8; k++) pthread_create(&threads[k], 0, descend, &found[k]);
    for (int k = 0; k < 8; k++) pthread_join(threads[k], 0);
    for (int k = 0; k < 8; k++) printf("%.17g\n", found[k]);
    return ROSEN_INTERFACE != 1 || rosen_description[0] != '{';
}
"""


def exported_rosenbrock(folder, **options):
    compiled = fg.compile(fg.value_and_grad(rosenbrock))
    return compiled.export(folder / "rosen", np.zeros(5), results=["value", "gradient"], **options)


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_compiler
@pytest.mark.parametrize("checks", [[], ["-fsanitize=address,undefined", "-fno-sanitize-recover"]])
def test_a_c_program_descends_in_eight_threads(checks, tmp_path):
    files = exported_rosenbrock(tmp_path, library=False)
    assert files.library is None
    assert files.header.read_text().startswith(HEADER)
    (tmp_path / "main.c").write_text(C_PROGRAM)
    strict = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    run(GCC, *strict, *checks, tmp_path / "main.c", files.object, "-lm", "-lpthread", "-o", tmp_path / "main")
    x = np.array([-1.2 + 0.3 * k for k in range(5)])
    slope = fg.compile(fg.grad(rosenbrock))
    for _ in range(50000):
        x = x - 5e-4 * slope(x).numpy()
    found = np.array(list(map(float, run(tmp_path / "main").split())))
    assert (found == found[0]).all()
    np.testing.assert_allclose(found[0], x[4], rtol=1e-9)


@needs_compiler
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind")
def test_valgrind_finds_nothing(tmp_path):
    function, _ = FUNCTIONS["gradients of solutions"]
    files = fg.compile(function).export(tmp_path / "model", np.eye(16), np.ones((16, 3)), library=False)
    workspace = json.loads(files.description.read_text())["workspace_bytes"]
    assert workspace
    (tmp_path / "main.c").write_text(
        '#include <stdlib.h>\n#include "model.h"\nint main(void) {\n'
        "double *a = calloc(256, 8), *b = calloc(48, 8), *one = malloc(256 * 8), *two = malloc(48 * 8), total = 0;\n"
        "char *work = malloc(model_workspace_bytes());\n"
        "for (int k = 0; k < 256; k++) a[k] = k % 17 ? 0.1 * (k % 5) : 3.0;\n"
        "for (int k = 0; k < 48; k++) b[k] = k;\n"
        "int failed = model(a, b, one, two, work);\n"
        "for (int k = 0; k < 256; k++) total += one[k];\n"
        "free(a); free(b); free(one); free(two); free(work);\n"
        "return failed || !(total == total);\n}\n"
    )
    run(GCC, "-g", tmp_path / "main.c", files.object, "-lm", "-o", tmp_path / "main")
    run("valgrind", "--error-exitcode=9", "--leak-check=full", "--quiet", tmp_path / "main")


@needs_compiler
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_a_cpp_program(tmp_path):
    files = exported_rosenbrock(tmp_path, library=False)
    (tmp_path / "main.cpp").write_text(
        '#include <cstdio>\n#include <vector>\n#include "rosen.h"\nint main() {\n'
        "std::vector<double> x(5, 0.5), gradient(5); double value;\n"
        "std::vector<char> workspace(rosen_workspace_bytes());\n"
        "rosen(x.data(), &value, gradient.data(), workspace.data());\n"
        'std::printf("%.17g %.17g", value, gradient[0]);\n}\n'
    )
    run("g++", "-Wall", "-Werror", tmp_path / "main.cpp", files.object, "-lm", "-o", tmp_path / "main")
    value, slope = map(float, run(tmp_path / "main").split())
    wanted = fg.value_and_grad(rosenbrock)(np.full(5, 0.5))
    np.testing.assert_allclose([value, slope], [wanted[0], wanted[1][0]], rtol=1e-13)


@needs_compiler
@pytest.mark.skipif(shutil.which("rustc") is None, reason="there is no rustc")
def test_a_rust_program(tmp_path):
    files = exported_rosenbrock(tmp_path, library=False)
    (tmp_path / "main.rs").write_text(
        'extern "C" { fn rosen(x: *const f64, value: *mut f64, gradient: *mut f64, work: *mut u8) -> i32; }\n'
        "fn main() {\n let x = [0.5; 5];\n let mut value = 0.0;\n let mut gradient = [0.0; 5];\n"
        " let mut work = vec![0u8; 4096];\n"
        " let state = unsafe { rosen(x.as_ptr(), &mut value, gradient.as_mut_ptr(), work.as_mut_ptr()) };\n"
        ' println!("{} {} {}", state, value, gradient[0]);\n}\n'
    )
    run("rustc", tmp_path / "main.rs", "-C", f"link-arg={files.object}", "-o", tmp_path / "main", cwd=tmp_path)
    state, value, slope = map(float, run(tmp_path / "main").split())
    wanted = fg.value_and_grad(rosenbrock)(np.full(5, 0.5))
    np.testing.assert_allclose([state, value, slope], [0, wanted[0], wanted[1][0]], rtol=1e-13)


@pytest.mark.skipif(not (shutil.which("wasm-ld") and shutil.which("node")), reason="there is no wasm-ld, or no node")
def test_web_assembly_in_node(tmp_path):
    compiled = fg.compile(fg.value_and_grad(lambda x: np.sum(np.exp(-x) * np.sin(x))))
    files = compiled.export(tmp_path / "wave", np.zeros(3), target="wasm32-unknown-unknown")
    flags = ["--no-entry", "--export=wave", "--export=__heap_base", "--allow-undefined"]
    run("wasm-ld", *flags, files.object, "-o", tmp_path / "wave.wasm")
    (tmp_path / "main.mjs").write_text(
        'import fs from "fs";\n'
        'const module = await WebAssembly.compile(fs.readFileSync("wave.wasm"));\n'
        "const {exports} = await WebAssembly.instantiate(module, {env: Math});\n"
        "const heap = exports.__heap_base.value;\n"
        "new Float64Array(exports.memory.buffer, heap, 3).set([0.5, 1.0, -2.0]);\n"
        "const state = exports.wave(heap, heap + 24, heap + 32, heap + 64);\n"
        "console.log(state, ...new Float64Array(exports.memory.buffer, heap + 24, 4));\n"
    )
    found = list(map(float, run("node", "main.mjs", cwd=tmp_path).split()))
    x = np.array([0.5, 1.0, -2.0])
    slopes = np.exp(-x) * (np.cos(x) - np.sin(x))
    np.testing.assert_allclose(found, [0, np.sum(np.exp(-x) * np.sin(x)), *slopes], rtol=1e-13)


@pytest.fixture
def decay():
    spec = importlib.util.spec_from_file_location("example_decay", ROOT / "examples" / "export" / "decay.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def best_fit(decay):
    def residuals(params):
        return decay.model(params, points[:, 0]) - points[:, 1]

    points = decay.measure()
    return scipy.optimize.least_squares(residuals, decay.TRUTH, xtol=1e-14, ftol=1e-14, gtol=1e-14).x


@needs_compiler
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_a_cpp_program_with_maps_of_eigen(decay, tmp_path):
    if not decay.EIGEN.exists():
        pytest.skip("there is no Eigen")
    points = "\n".join(" ".join(map(repr, row)) for row in decay.measure().tolist())
    found = run(decay.program(tmp_path), input=points).split()
    np.testing.assert_allclose(list(map(float, found)), best_fit(decay), rtol=1e-8)


CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=20000", "--dump-dom",
]  # fmt: skip


@pytest.fixture
def served(tmp_path):
    """The address of a server of files in a folder."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "site")
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(not (CHROMIUM and shutil.which("wasm-ld")), reason="there is no Chromium, or no wasm-ld")
def test_a_page_in_the_browser(decay, served, tmp_path, monkeypatch):
    monkeypatch.setattr(decay, "EIGEN", tmp_path / "none")  # the page alone
    decay.main(tmp_path / "site")
    picture = tmp_path / "page.png"
    page = run(CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'new'}", f"--screenshot={picture}", served, timeout=100)
    found = re.search("<output>(.*)</output>", page)[1].split()
    np.testing.assert_allclose(list(map(float, found)), best_fit(decay), rtol=1e-8)
    red, green, blue = (matplotlib.image.imread(picture)[:, :, :3] * 255).round().transpose(2, 0, 1)
    is_curve = (red > 200) & (green < 60) & (blue < 60)
    assert np.any(is_curve, axis=0).sum() > 400  # the curve is as wide as the picture


NODE_PROGRAM = """
import fs from "fs";
const types = {json: "application/json", wasm: "application/wasm"};
globalThis.fetch = async (name) =>
  new Response(fs.readFileSync(name), {headers: {"content-type": types[name.split(".").pop()]}});
const {load} = await import("./exported.mjs");
const model = await load("model");
const [doubles, floats, whole] = model([0.7, -1.5, 1], [2, 3, NaN], [0.7, 1.5, 2], [7n, -9n]);
console.log(JSON.stringify([[...doubles].map(String), [...floats], [...whole].map(Number)]));
try { model([1], [2], [3], [4n]); } catch (error) { console.log(error.message); }
"""


@pytest.mark.skipif(not (shutil.which("wasm-ld") and shutil.which("node")), reason="there is no wasm-ld, or no node")
def test_any_exported_function_in_javascript(tmp_path):
    def function(x, y, single, whole):
        doubles = np.concatenate([np.fmod(x, y), np.exp2(x), abs(x) ** y, np.cumsum(np.ones(20000) * x[0])[-1:]])
        return doubles, np.exp(single) * np.sin(single), whole * 2

    args = np.array([0.7, -1.5, 1.0]), np.array([2, 3, np.nan]), np.array([0.7, 1.5, 2], "f4"), np.array([7, -9])
    files = fg.compile(function).export(tmp_path / "model", *args, target="wasm32-unknown-unknown")
    flags = ["--no-entry", "--export=model", "--export=__heap_base", "--allow-undefined"]
    run("wasm-ld", *flags, files.object, "-o", tmp_path / "model.wasm")
    shutil.copy(ROOT / "examples" / "export" / "exported.js", tmp_path / "exported.mjs")
    (tmp_path / "main.mjs").write_text(NODE_PROGRAM)
    found, message = run("node", "main.mjs", cwd=tmp_path).splitlines()
    for each, wanted, rtol in zip(json.loads(found), function(*args), (1e-13, 1e-6, 0), strict=True):
        np.testing.assert_allclose(np.array(each, float), wanted, rtol=rtol)
    assert message == "x has 3 numbers"


ARM = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")


@pytest.mark.skipif(None in ARM, reason="there is no compiler for ARM, or no emulator")
def test_another_processor_under_an_emulator(tmp_path):
    function, args = FUNCTIONS["gradients of Cholesky factors"]
    files = fg.compile(function).export(tmp_path / "model", *args, target="aarch64-unknown-linux-gnu")
    assert files.library is None
    numbers = ", ".join(map(repr, S.ravel().tolist()))
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "model.h"\nstatic char work[1 << 20];\nint main(void) {\n'
        f"double a[49] = {{{numbers}}}, slope[49];\n"
        "if (model_workspace_bytes() > sizeof work || model(a, slope, work)) return 1;\n"
        'for (int k = 0; k < 49; k++) printf("%.17g ", slope[k]);\n}\n'
    )
    run(ARM[0], "-static", tmp_path / "main.c", files.object, "-lm", "-o", tmp_path / "main")
    found = np.array(list(map(float, run(ARM[1], tmp_path / "main").split()))).reshape(7, 7)
    np.testing.assert_allclose(found, function(*args), rtol=1e-10, atol=1e-13)


TARGETS = ["aarch64-unknown-linux-gnu", "riscv64-unknown-linux-gnu", "armv7-unknown-linux-gnueabihf",
           "wasm32-unknown-unknown", "x86_64-pc-windows-msvc", "arm64-apple-darwin"]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_object_files_for_other_processors(target, tmp_path):
    files = exported_rosenbrock(tmp_path, target=target)
    magic = {"wasm32": b"\0asm", "x86_64": b"\x64\x86", "arm64": b"\xcf\xfa\xed\xfe"}
    assert files.object.read_bytes().startswith(magic.get(target.partition("-")[0], b"\x7fELF"))
    assert files.library is None
    assert json.loads(files.description.read_text())["target"] == target


def test_code_for_a_kind_of_processor(tmp_path):
    sizes = {
        features: exported_rosenbrock(tmp_path, library=False, features=features).object.read_bytes()
        for features in ("", "+avx2,+fma")
        if Machine.this().triple.startswith("x86_64")
    }
    assert len(set(sizes.values())) == len(sizes)
    exported_rosenbrock(tmp_path, library=False, cpu="native")
    with pytest.raises(errors.ParameterError, match="cpu='native' is for code that runs on this machine"):
        exported_rosenbrock(tmp_path, target="wasm32-unknown-unknown", cpu="native")
    with pytest.raises(errors.ParameterError, match=r"LLVM has no target 'nonsense'[\s\S]*at test_export.py"):
        exported_rosenbrock(tmp_path, target="nonsense")


def test_names_in_c(tmp_path):
    compiled = fg.compile(lambda p, double, workspace: {"a": p["in"] * double, "b": [workspace, p["x y"]]})
    files = compiled.export(tmp_path / "names", {"in": V, "x y": 1.0}, 2.0, A, library=False)
    line = next(line for line in files.header.read_text().splitlines() if line.startswith("int "))
    assert line == (
        "int names(const double *p_in, const double *p_x_y, const double *double_2, const double *workspace_2, "
        "double *result_a, double *result_b_0, double *result_b_1, void *workspace);"
    )
    for name in ("two words", "2nd", "double", "für"):
        with pytest.raises(errors.ParameterError, match="is no name in C"):
            fg.compile(np.sin).export(tmp_path / name, V, library=False)
    for results in (["a", "b"], "3", ["a", "b", "c", "d"], ["for", "b", "c"]):
        with pytest.raises(errors.ParameterError, match="results of export is one name"):
            fg.compile(lambda x: (x, x + 1, x + 2)).export(tmp_path / "model", V, results=results, library=False)


@needs_compiler
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_odd_names_in_c_and_cpp_and_two_models_in_one_program(tmp_path):
    def odd(new, this, int64_t, NULL, linux, λ, p, place):
        return np.exp(new * this * linux * λ + NULL) @ A[:2, :2] + int64_t * p["*/"] + p["/*"] + np.array([3.0, place])

    ones, whole = np.ones(2), np.array([1, 2])
    args = (ones, ones, whole, ones, ones, ones, {"*/": ones, "/*": ones})
    objects, lines = [], []
    for place, name in enumerate(("constant0", "own_dgemm")):
        files = fg.compile(odd, static="place").export(tmp_path / name, *args, place, library=False)
        objects.append(files.object)
        taken = ", ".join(["a", "a", "n", *["a"] * 5])
        lines.append(f'{name}({taken}, r, work); printf("%.17g %.17g\\n", r[0], r[1]);')
    text = (
        '#include <stdio.h>\n#include "constant0.h"\n#include "own_dgemm.h"\nint main(void) {\n'
        f"double a[2] = {{1, 1}}, r[2], work[512]; int64_t n[2] = {{1, 2}};\n{''.join(lines)}\nreturn 0;\n}}\n"
    )
    wanted = np.array([odd(*args, place) for place in (0, 1)])
    for compiler, standard, end in ((GCC, "c99", "c"), ("g++", "c++98", "cpp"), ("g++", "c++20", "cpp")):
        (tmp_path / f"main.{end}").write_text(text)
        strict = [f"-std={standard}", "-Wall", "-Wextra", "-Wno-long-long", "-pedantic", "-Werror"]
        run(compiler, *strict, tmp_path / f"main.{end}", *objects, "-lm", "-o", tmp_path / "main")
        found = np.array(run(tmp_path / "main").split(), float).reshape(2, 2)
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_a_function_is_not_called_as_one_of_cs_library(tmp_path):
    for name in ("exp", "expf", "memcpy", "main"):
        with pytest.raises(errors.ParameterError, match=f"{name!r} is a function of C's library"):
            fg.compile(lambda x: np.exp(x) * 2).export(tmp_path / name, V)
    assert not os.listdir(tmp_path)


class Hidden:
    def __init__(self, x):
        self.x = x


fg.register_pytree_node(Hidden, lambda h: ((h.x,), None), lambda _, xs: Hidden(xs[0]))


def test_what_has_no_type_or_place_in_c(tmp_path):
    for function, args in ((lambda h, y: h.x + y, (Hidden(V), V)), (lambda x: (x, Hidden(x)), (V,))):
        with pytest.raises(errors.UnsupportedError, match="export finds 1 of the 2 arrays in"):
            fg.compile(function).export(tmp_path / "model", *args)
    for function, x in ((lambda x: x * 2, V + 1j), (lambda x: abs(x), 1 + 1j), (lambda x: x * 2, V.astype("f2"))):
        with pytest.raises(errors.UnsupportedError, match=r"x is of dtype (complex128|float16), for which"):
            fg.compile(function).export(tmp_path / "model", x)
    with pytest.raises(errors.UnsupportedError, match="result is of dtype complex128"):
        fg.compile(lambda x: x * 1j).export(tmp_path / "model", V)
    with pytest.raises(errors.ParameterError, match="results of export is one name"):
        fg.compile(lambda x: (x, x)).export(tmp_path / "model", V, results=["a", "a"])
    assert not os.listdir(tmp_path)


def test_what_has_no_code_is_named_with_its_line(tmp_path):
    with pytest.raises(errors.UnsupportedError) as caught:
        fg.compile(lambda x: fg.numpy.linalg.eigvalsh(np.outer(x, x))).export(tmp_path / "model", V)
    assert "eigh has no native code, at test_export.py" in str(caught.value)
    with pytest.raises(
        errors.UnsupportedError, match="gammaln is computed by SciPy's or NumPy's own code, at test_export.py"
    ):
        fg.compile(lambda x: scipy.special.gammaln(x) * 2).export(tmp_path / "model", abs(V))
    with pytest.raises(errors.UnsupportedError, match="gammaln is computed by SciPy's or NumPy's own code"):
        fg.compile(lambda x: fg.scan(lambda c, e: (c + scipy.special.gammaln(e), c), 0.0, x)).export(
            tmp_path / "model", abs(V)
        )
    with pytest.raises(errors.UnsupportedError, match="assigns to variables"):
        fg.compile(lambda x: WEIGHTS.assign(WEIGHTS * x)).export(tmp_path / "model", 1.0)
    with pytest.raises(errors.UnsupportedError, match="returns 'text', and an exported function arrays alone"):
        fg.compile(lambda x: (x, "text")).export(tmp_path / "model", 1.0)
    with pytest.raises(errors.UnsupportedError, match="keys are texts"):
        fg.compile(lambda p: p[1] * 2).export(tmp_path / "model", {1: V})
    assert not os.listdir(tmp_path)


def test_without_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(errors.ParameterError, match="links a shared library with a C compiler, and finds none"):
        exported_rosenbrock(tmp_path)
    assert not os.listdir(tmp_path)
    assert exported_rosenbrock(tmp_path, library=False).object.exists()


@needs_compiler
def test_a_variable_has_the_value_that_it_had(tmp_path):
    weight = fg.Variable(2.0)
    files = fg.compile(lambda x: x * weight).export(tmp_path / "model", 1.0)
    weight.assign(5.0)
    assert fg.load_exported(files.library)(3.0) == 6.0


FIRST = """
import sys
import numpy as np, fgrad as fg
weights = fg.Variable(np.ones(3))
fg.compile(lambda: np.sum(weights**2)).export(sys.argv[1], library=False)
"""


def test_a_function_of_variables_is_the_first_one(tmp_path):
    run(sys.executable, "-c", FIRST, tmp_path / "model")
    assert (tmp_path / "model.o").exists()


@needs_compiler
def test_the_gradient_of_a_network_is_small(tmp_path):
    rng = np.random.default_rng(1)
    params = {"w": rng.standard_normal((64, 128)), "b": np.zeros(128), "v": rng.standard_normal((128, 10))}

    def loss(params, x, label):
        scores = np.tanh(x @ params["w"] + params["b"]) @ params["v"]
        return np.log(np.sum(np.exp(scores))) - scores[label]

    compiled = fg.compile(fg.grad(loss))
    files = compiled.export(tmp_path / "network", params, rng.standard_normal(64), np.int64(3))
    assert files.object.stat().st_size < 100_000
    x = rng.standard_normal(64)
    assert_same(fg.load_exported(files.library)(params, x, np.int64(3)), fg.to_numpy(compiled(params, x, np.int64(3))))


# In Python again


@pytest.mark.parametrize("processor", [{"cpu": "no-such-one"}, {"features": "+no-such-one"}])
def test_a_processor_that_llvm_does_not_know_is_refused(processor, tmp_path):
    compiled = fg.compile(lambda x: np.sin(x) * 2.0)
    with pytest.raises(errors.ParameterError, match="no-such-one.*is not a recognized"):
        compiled.export(tmp_path / "double_it", np.ones(3), library=False, **processor)
    compiled.export(tmp_path / "double_it", np.ones(3), library=False, target="x86_64-unknown-linux-gnu", cpu="haswell")


INTERRUPTED = """
import os, signal, sys
import numpy as np, fgrad as fg
from fgrad.native.machine import Machine

def handle(number, frame):
    assert np.all(fg.compile(lambda x: x + len(sent))(np.ones(2)) == 2.0)
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    handled.append(number)

def parsed(self, text, context, parse=Machine._parsed):
    if is_exporting and not sent:  # LLVM is at work
        sent.append(True)
        os.kill(os.getpid(), signal.SIGUSR1)
    return parse(self, text, context)

signal.signal(signal.SIGUSR1, handle)
handled, sent, is_exporting = [], [], False
double = fg.compile(lambda x: x * 2.0)
double(np.ones(3))
Machine._parsed, is_exporting = parsed, True
double.export(sys.argv[1] + "/double_it", np.ones(3), library=False)
assert handled
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_signal_handler_compiles_and_forks_while_a_function_is_exported(tmp_path):
    subprocess.run([sys.executable, "-c", INTERRUPTED, tmp_path], check=True, timeout=100)


@needs_compiler
def test_arguments_of_a_loaded_function_are_checked(tmp_path):
    function = fg.load_exported(
        fg.compile(lambda p, k=2.0, name="x": p["w"] * k).export(tmp_path / "model", {"w": V}, 3.0).library
    )
    assert (
        repr(function) == f"<exported function model{inspect.signature(function)}>" == "<exported function model(p, k)>"
    )
    np.testing.assert_array_equal(function({"w": V}, k=4), V * 4)
    np.testing.assert_array_equal(function({"w": V[::-1]}, 4.0), V[::-1] * 4)
    for wrong in (V[:3], V.astype(np.float32), V.tolist()[:2]):
        with pytest.raises(errors.ParameterError, match=r"p\['w'\] is of dtype .* was exported for float64 of shape"):
            function({"w": wrong}, 1.0)
    with pytest.raises(errors.ParameterError, match="p has no 'w'"):
        function({"v": V}, 1.0)
    with pytest.raises(TypeError, match="missing a required argument: 'k'"):
        function({"w": V})


@needs_compiler
def test_a_mask_and_a_traced_tensor_are_refused_by_name(tmp_path):
    doubled = fg.load_exported(fg.compile(lambda x: 2 * x).export(tmp_path / "doubled", np.ones(2)).library)
    with pytest.raises(errors.ParameterError, match=r"^x is a masked array(.|\n)*x.filled"):
        doubled(np.ma.array([1.0, 2.0], mask=[True, False]))
    with pytest.raises(errors.ParameterError, match=r"^x is a Tensor (.|\n)*is not differentiated"):
        fg.grad(lambda x: np.sum(doubled(x)))(np.ones(2))


def test_a_pickle_of_a_loaded_function_has_its_path(tmp_path):
    doubled = fg.load_exported(fg.compile(lambda x: 2 * x).export(tmp_path / "doubled", np.ones(2)).library)
    stored = pickle.dumps(doubled)
    np.testing.assert_array_equal(pickle.loads(stored)(np.ones(2)), [2.0, 2.0])
    (tmp_path / "doubled.json").unlink()
    with pytest.raises(errors.LoadError, match="there is no description"):
        pickle.loads(stored)


def test_arguments_are_passed_as_to_the_function(tmp_path):
    def function(x, /, y, *rest, k, **others):
        return x - 2 * y + 3 * rest[0] - k + others["u"] / others["v"]

    args, keywords = (V, V + 1, V + 2, V + 3), {"k": 2.0, "v": V + 5, "u": V + 6}
    loaded = fg.load_exported(fg.compile(function).export(tmp_path / "model", *args, keywords=keywords).library)
    assert inspect.signature(loaded) == inspect.signature(function)
    np.testing.assert_allclose(loaded(*args, **keywords), function(*args, **keywords))
    with pytest.raises(errors.ParameterError, match="rest is no tuple of 2 items"):
        loaded(V, V, **keywords)
    with pytest.raises(errors.ParameterError, match="others has no 'v'"):
        loaded(*args, k=2.0, u=V)
    with pytest.raises(errors.ParameterError, match="others has 'w', without which the function was exported"):
        loaded(*args, **keywords, w=V)


@needs_compiler
def test_a_number_that_the_dtype_does_not_hold_is_refused(tmp_path):
    files = fg.compile(lambda x: x + np.uint8(1)).export(tmp_path / "model", np.uint8(3))
    loaded = fg.load_exported(files.library)
    assert loaded(254) == 255
    for number in (300, 256, -1):
        with pytest.raises(errors.ParameterError, match=f"x is {number}, and the function was exported for uint8"):
            loaded(number)


@needs_compiler
def test_a_library_that_is_written_again_is_loaded_again(tmp_path):
    loaded = [
        fg.load_exported(fg.compile(lambda x, k=k: x * k).export(tmp_path / "model", 1.0).library)
        for k in (np.array(2.0), np.array(3.0), np.array(2.0))
    ]
    assert [each(1.0) for each in loaded] == [2.0, 3.0, 2.0]


@needs_compiler
def test_more_parameters_than_python_passes(tmp_path):
    library = fg.compile(lambda xs: xs[0]).export(tmp_path / "model", [1.0] * 1100).library
    with pytest.raises(errors.LoadError, match="has 1102 parameters, and Python calls functions of 1024 at most"):
        fg.load_exported(library)


@needs_compiler
def test_files_that_do_not_belong_together_are_refused(tmp_path):
    files = exported_rosenbrock(tmp_path)
    described = files.description.read_text()
    files.description.write_text(described.replace('"value"', '"energy"'))
    with pytest.raises(errors.LoadError, match="do not belong together"):
        fg.load_exported(files.library)
    for content, message in (
        ("nonsense", "does not describe an exported function"),
        ("{}", "does not describe an exported function"),
        (described.replace('"rosen"', '"other"'), "cannot be loaded as the function 'other'"),
    ):
        files.description.write_text(content)
        with pytest.raises(errors.LoadError, match=message):
            fg.load_exported(files.library)
    files.description.unlink()
    with pytest.raises(errors.LoadError, match="there is no description"):
        fg.load_exported(files.library)
    files.description.write_text(described)
    (tmp_path / "text.so").write_text("no library")
    (tmp_path / "text.json").write_text(described)
    with pytest.raises(errors.LoadError, match="It may be for another processor"):
        fg.load_exported(tmp_path / "text.so")


@needs_compiler
def test_a_loaded_function_needs_numpy_alone(tmp_path):
    files = exported_rosenbrock(tmp_path)
    code = (
        "import sys, numpy as np; from fgrad import load_exported\n"
        f"print(load_exported({str(files.library)!r})(np.ones(5)))\n"
        "print({'optree', 'llvmlite', 'scipy', 'fgrad.core'} & sys.modules.keys())"
    )
    found = run(sys.executable, "-c", code).splitlines()
    assert found[0].startswith("(np.float64(0.0), array([")
    assert found[1] == "set()"


@needs_compiler
def test_threads_share_a_loaded_function(tmp_path):
    function, args = FUNCTIONS["gradients of solutions"]
    loaded = fg.load_exported(fg.compile(function).export(tmp_path / "model", *args).library)
    wanted, wrong = fg.to_numpy(function(*args)), []

    def call():
        for _ in range(200):
            found = loaded(*args)
            wrong.extend(x for x, y in zip(found, wanted, strict=True) if not np.allclose(x, y, rtol=1e-10))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Function pointers


def test_quad_calls_compiled_code():
    compiled = fg.compile(lambda x: np.exp(-x * x) * np.cos(3 * x))
    wanted = scipy.integrate.quad(compiled.__wrapped__, 0, 5)
    for signature in ("double (double)", "double (double, void *)"):
        pointer = compiled.low_level(signature)
        user = {} if "void" not in signature else {"user_data": ctypes.c_void_p(0)}
        callable_ = scipy.LowLevelCallable(pointer, **user)
        np.testing.assert_allclose(scipy.integrate.quad(callable_, 0, 5), wanted, rtol=1e-12)
        np.testing.assert_allclose(pointer(*[0.3, None][: len(pointer.argtypes)]), np.exp(-0.09) * np.cos(0.9))


def test_nquad_takes_numbers_or_a_vector():
    def of_numbers(x, y, z):
        return np.exp(-x * x - y * y) * z

    limits = [[0, 1], [0, 1], [0, 2]]
    pointers = [
        fg.compile(of_numbers).low_level("double (int, double *)", 1.0, 1.0, 1.0),
        fg.compile(lambda x: of_numbers(*x)).low_level("double (int, double *)", np.ones(3)),
    ]
    for pointer in pointers:
        found = scipy.integrate.nquad(scipy.LowLevelCallable(pointer), limits)[0]
        np.testing.assert_allclose(found, scipy.integrate.nquad(of_numbers, limits)[0], rtol=1e-10)


def test_filters_and_maps_of_images():
    image = RNG.random((30, 30))
    signature = "int (double *, intptr_t, double *, void *)"
    filtered = fg.compile(lambda w: np.max(w) - np.min(w)).low_level(signature, np.zeros(9))
    wanted = scipy.ndimage.generic_filter(image, np.ptp, size=3)
    found = scipy.ndimage.generic_filter(image, scipy.LowLevelCallable(filtered), size=3)
    np.testing.assert_array_equal(found, wanted)
    mapped = fg.compile(lambda place: place * 0.5 + 1.0).low_level(
        "int (intptr_t *, double *, int, int, void *)", np.zeros(2, np.int64)
    )
    wanted = scipy.ndimage.geometric_transform(image, lambda place: tuple(k * 0.5 + 1.0 for k in place))
    found = scipy.ndimage.geometric_transform(image, scipy.LowLevelCallable(mapped))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_pointer_fails_where_it_is_handed_other_sizes_than_it_was_made_for():
    image, signature = RNG.random((8, 8)), "int (double *, intptr_t, double *, void *)"
    total = scipy.LowLevelCallable(fg.compile(np.sum).low_level(signature, np.zeros(9)))
    for size in (2, 5):
        with pytest.raises(RuntimeError):
            scipy.ndimage.generic_filter(image, total, size=size)
    signature = "int (intptr_t *, double *, int, int, void *)"
    for function in (lambda place: place[:1] * 1.0, lambda place: place[0] * 1.0, lambda place: np.ones(3) * place[0]):
        mapped = scipy.LowLevelCallable(fg.compile(function).low_level(signature, np.zeros(2, np.int64)))
        with pytest.raises(RuntimeError):
            scipy.ndimage.geometric_transform(image, mapped)
    product = fg.compile(lambda x, y: x * y).low_level("double (int, double *)", 1.0, 1.0)
    assert product(2, (ctypes.c_double * 2)(3.0, 4.0)) == 12.0
    assert np.isnan(product(3, (ctypes.c_double * 3)(3.0, 4.0, 5.0)))
    assert np.isnan(product(1, (ctypes.c_double * 1)(3.0)))


def rates(t, state, params):
    preys, predators = state
    growth, eaten, death, grown = params
    return np.stack([growth * preys - eaten * preys * predators, grown * preys * predators - death * predators]) * t


ODE = "void (double, double *, double *, double *)"


def doubles(*numbers):
    return (ctypes.c_double * len(numbers))(*numbers)


def test_right_hand_sides_and_their_jacobians_at_addresses():
    args = 2.0, np.array([5.0, 0.8]), np.array([1.5, 1.0, 3.0, 0.5])
    for function in (rates, fg.jacobian(rates, argnums=1), fg.jacobian(rates, argnums=2), lambda t, u, p: u):
        wanted = np.asarray(function(*args))
        made = doubles(*np.zeros(wanted.size + 1))
        fg.compile(function).low_level(ODE, *args)(args[0], doubles(*args[1]), made, doubles(*args[2]))
        np.testing.assert_allclose(made, [*wanted.ravel(), 0.0], rtol=1e-14)
    made = doubles(0.0)
    fg.compile(lambda t, u: t / u).low_level(ODE, 1.0, 1.0)(3.0, doubles(2.0), made, None)
    assert made[0] == 1.5
    named = fg.compile(lambda t, u, p: t * u + p["a"] - p["b"]).low_level(ODE, 1.0, 1.0, {"b": 1.0, "a": 1.0})
    named(3.0, doubles(2.0), made, doubles(7.0, 10.0))
    assert made[0] == 3.0


def test_arrays_of_a_vector_at_addresses():
    slope = fg.compile(fg.grad(rosenbrock)).low_level("void (double *, double *)", np.ones(5))
    made = doubles(*np.zeros(6))
    slope(doubles(*V[:5]), made)
    np.testing.assert_allclose(made, [*fg.grad(rosenbrock)(V[:5]), 0.0], rtol=1e-12)
    matrix = np.array([1.0, 2.0, 3.0, 4.0])
    solve = fg.compile(lambda a: np.linalg.solve(a.reshape(2, 2), np.ones(2)))
    pointer, made = solve.low_level("void (double *, double *)", matrix), doubles(0.0, 0.0, 0.0)
    pointer(doubles(*matrix), made)
    np.testing.assert_allclose(made, [*solve(matrix), 0.0], rtol=1e-14)
    pointer(doubles(0.0, 0.0, 0.0, 0.0), made)
    np.testing.assert_array_equal(made, [np.nan, np.nan, 0.0])


def test_a_derivative_that_is_constant():
    jacobian = fg.compile(fg.jacobian(lambda t, u: S @ u, argnums=1)).low_level(ODE, 0.0, V)
    made = doubles(*np.zeros(S.size))
    jacobian(0.0, doubles(*V), made, None)
    np.testing.assert_array_equal(made, S.ravel())
    assert fg.compile(fg.grad(lambda x: 3.0 * x)).low_level("double (double)")(7.0) == 3.0


def test_few_small_arrays_need_no_workspace(tmp_path):
    function = fg.value_and_grad(lambda a: np.linalg.slogdet(a @ a.T)[1])
    for size, is_small in ((3, True), (30, False)):
        files = fg.compile(function).export(tmp_path / f"model_{size}", np.eye(size), library=False)
        assert (json.loads(files.description.read_text())["workspace_bytes"] == 0) == is_small


def test_what_does_not_fit_a_right_hand_side():
    for args in ((1.0,), (V, V), (1.0, A), (1.0, V, A), (1.0, V, 2.0, V)):
        with pytest.raises(errors.ParameterError, match="of a time, a state of one vector or number, and parameters"):
            fg.compile(lambda *args: sum(map(np.sum, args)) * V).low_level(ODE, *args)
    with pytest.raises(errors.ParameterError, match=r"change of a state of shape \(7,\).*an array of shape \(3,\)"):
        fg.compile(lambda t, u: u[:3] * t).low_level(ODE, 1.0, V)
    with pytest.raises(errors.ParameterError, match="a function that returns one array of dtype float64"):
        fg.compile(lambda x: (x, x * 2)).low_level("void (double *, double *)", V)


def test_numba_keeps_the_code_that_it_calls():
    numba = pytest.importorskip("numba")
    pointer = fg.compile(lambda x: np.exp(-x) * 2.0).low_level("double (double)")
    code, twice = weakref.ref(pointer.module), numba.njit(lambda x: pointer(x) * 2.0)
    assert twice(0.0) == 4.0
    pointer = None
    gc.collect()
    assert code() is not None
    assert twice(0.0) == 4.0


@pytest.mark.parametrize("library", ["numba", "numbalsoda", "cffi", "ctypes"])
def test_blocks_of_the_page_with_other_libraries(library):
    pytest.importorskip(library)
    text = (ROOT / "docs" / "how-to" / "export.md").read_text()
    blocks = re.findall(rf"```python\n(import {library}\n[^`]*)```\n\n```text\n([^`]*)```", text)
    assert blocks
    for code, shown in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, f"export.md, {library}", "exec"), {"__name__": "block"})
        assert printed.getvalue() == shown


def test_a_pointer_keeps_its_code_and_its_constants():
    table = RNG.standard_normal(500)
    pointer = fg.compile(lambda x: np.sum(np.sin(x * table))).low_level("double (double)")
    wanted = np.sum(np.sin(0.7 * table))
    table[:] = 0.0
    gc.collect()
    np.testing.assert_allclose(pointer(0.7), wanted, rtol=1e-12)
    address = ctypes.cast(pointer, ctypes.c_void_p).value
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(0.7) == pointer(0.7)


def test_a_pointer_may_call_the_code_of_scipy():
    pointer = fg.compile(lambda x: scipy.special.gammaln(x) * 2).low_level("double (double)")
    assert pointer(4.5) == 2 * scipy.special.gammaln(4.5)


def test_a_pointer_returns_nan_where_there_is_no_result():
    pointer = fg.compile(lambda x: np.linalg.cholesky(x * np.eye(20))[0, 0]).low_level("double (double)")
    assert pointer(4.0) == 2.0
    assert np.isnan(pointer(-1.0))


def test_what_does_not_fit_a_signature():
    compiled = fg.compile(lambda x: np.sum(x * 2))
    with pytest.raises(errors.ParameterError, match=r"no signature 'float \(float\)'; there are:\n  double \(double\)"):
        compiled.low_level("float (float)")
    with pytest.raises(errors.ParameterError, match="is for a function of one number of dtype float64"):
        compiled.low_level("double (double)", np.ones(2))
    with pytest.raises(errors.ParameterError, match="of one vector, or numbers, of dtype float64"):
        compiled.low_level("double (int, double *)", np.ones(2, np.float32))
    with pytest.raises(errors.ParameterError, match="a function that returns one number"):
        fg.compile(lambda x: x * 2).low_level("double (int, double *)", np.ones(2))
    with pytest.raises(errors.ParameterError, match="a function that returns one number"):
        fg.compile(lambda x: x * 2).low_level("int (double *, intptr_t, double *, void *)", np.ones(9))
    with pytest.raises(errors.UnsupportedError, match="takes at most 262144 of the stack"):
        fg.compile(lambda x: np.sum(np.cumsum(x * np.ones((300, 300))) ** 2)).low_level("double (double)")
