"""Saving and loading: what comes back is what was saved, to the bit; and no file is ever half written."""

import builtins
import errno
import json
import os
import pickle
import stat
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from unittest import mock

import numpy as np
import pytest
from helpers import plain
from safetensors.numpy import load_file, save_file

import fgrad as fg
from fgrad import errors, saving
from fgrad.optimizers import Adam, Momentum, State

Point = namedtuple("Point", "x y")
Place = namedtuple("Place", "x y")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.safetensors"


def again(path, tree, **options):
    fg.save(path, tree)
    return fg.load(path, **options)


def same(left, right):
    """Return whether two trees have the same containers, and leaves of the same types and bits."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple, deque)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (np.ndarray, np.generic, fg.Tensor, fg.Variable)):
        a, b = np.asarray(left), np.asarray(right)
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(left, float):
        return left.hex() == right.hex()
    return left == right


def test_containers(path):
    tree = {
        "w": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "layers": [np.float32([1, 2]), (np.int8(3), None, []), {}],
        "more": {"z": 1, "a": (), "nested": {"deep": [[[np.array(True)]]]}},
        "settings": {"rate": 0.1, "name": "adam", "steps": 10**30, "on": True, "off": False, "z": 1 - 2j},
        3: "an integer as key",
        "": "no key",
        "a.b/c d\"'\\": "ä\n\0\ud800",
    }
    assert same(again(path, tree), tree)
    for each in (None, 1.5, "text", True, [], {}, (), np.arange(3), [None, [None]]):
        assert same(again(path, each), each)


@pytest.mark.parametrize("number", [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 5e-324, 0.1, 1e308, 1 / 3])
def test_numbers_of_python(path, number):
    assert same(again(path, number), number)
    result = again(path, complex(number, -0.0))
    assert same([result.real, result.imag], [number, -0.0])


KINDS = ["?", "b", "B", "h", "H", "i", "I", "i8", "u8", "e", "f", "d", "F", "D", ">f8", ">i2", ">c16", "<f4"]
KINDS += ["U5", "S3", "M8[ns]", "m8[D]"]


@pytest.mark.parametrize("dtype", KINDS)
def test_arrays_of_every_dtype(path, dtype):
    rng = np.random.default_rng(0)
    size = np.dtype(dtype).itemsize
    if np.dtype(dtype).kind in "US?":
        values = np.array(["0", "1", ""] if dtype != "?" else [0, 1, 1]).astype(dtype)
        values = np.tile(values, 8).reshape(2, 3, 4)
    else:  # any bits: NaN with payloads, denormal numbers, NaT
        values = np.frombuffer(rng.bytes(24 * size), dtype).reshape(2, 3, 4)
    matrix = values[0]
    tree = {
        "contiguous": values,
        "transposed": values.T,
        "strided": values[:, ::-1, ::2],
        "broadcast": np.broadcast_to(matrix[:1], (5, 4)),
        "fortran": np.asfortranarray(matrix),
        "no axes": np.array(matrix[0, 0]),
        "empty": np.zeros((0, 3), dtype),
        "also empty": np.zeros((2, 0, 3), dtype),
        "scalar": matrix[0, 0],
    }
    result = again(path, tree)
    assert same(result, tree)
    for name, array in result.items():
        assert array.dtype.str == tree[name].dtype.str
        if name != "scalar":
            assert array.flags.writeable
            assert array.flags.c_contiguous


def test_tensors_and_variables(path):
    tree = {
        "tensor": fg.constant([1.0, 2.0]),
        "scalar": fg.constant(np.float32(1)),
        "complex": fg.constant(1 + 2j),
        "variable": fg.Variable([1.0, 2.0], name="weights"),
        "frozen": fg.Variable(np.float16(3), trainable=False),
        "count": fg.Variable(3),
    }
    result = again(path, tree)
    assert same(result, tree)
    for name in ("variable", "frozen", "count"):
        one, other = tree[name], result[name]
        assert other is not one
        assert (other.name, other.trainable, other.dtype) == (one.name, one.trainable, one.dtype)
    tree["variable"].assign([7.0, 8.0])
    assert result["variable"].tolist() == [1.0, 2.0]


def test_keys_of_the_same_text(path):
    tree = {1: np.array(1.0), "1": np.array(2.0), "a": {"b": np.array(3.0)}, "a.b": np.array(4.0), None: np.array(5.0)}
    assert same(again(path, tree), tree)
    assert same(again(path, tree, like=tree), tree)


def test_arrays_have_names_for_other_tools(path):
    fg.save(path, {"params": {"w": np.ones(2), "layers": [np.zeros(3)]}, "z": np.array([1 + 2j])})
    arrays = load_file(path)
    assert sorted(arrays) == ["params.layers.0", "params.w", "z"]
    assert arrays["params.w"].tolist() == [1.0, 1.0]
    assert arrays["z"].tolist() == [[1.0, 2.0]]


# The containers of another tree


def test_like_restores_the_classes(path):
    tree = {
        "point": Point(np.ones(2), {"inner": Point(1.0, None)}),
        "ordered": OrderedDict([("b", 1), ("a", 2)]),
        "default": defaultdict(list, {"x": [np.zeros(1)]}),
        "queue": deque([1, 2.0], maxlen=5),
    }
    assert same(again(path, tree, like=tree), tree)
    result = fg.load(path, like=tree)
    assert result["default"].default_factory is list
    assert result["queue"].maxlen == 5
    simple = fg.load(path)
    assert [type(value) for value in simple.values()] == [tuple, dict, dict, list]
    assert type(simple["point"][1]["inner"]) is tuple
    assert list(simple["ordered"]) == ["b", "a"]


def test_the_state_of_an_optimizer(path):
    optimizer, params = Adam(0.1), {"w": np.ones((2, 2)), "b": [np.float32(1.0)]}
    state = optimizer.init(params)
    params, state = optimizer.update(fg.tree_map(np.ones_like, params), state, params)
    result = again(path, {"params": params, "state": state}, like={"params": params, "state": optimizer.init(params)})
    assert type(result["state"]) is State
    assert same(result["state"], state)
    assert same(result["params"], params)
    assert fg.load(path)["state"][0] == 1


class Layer:
    def __init__(self, w, b, name):
        self.w, self.b, self.name = w, b, name


fg.register_pytree_node(Layer, lambda layer: ((layer.w, layer.b), layer.name), lambda name, wb: Layer(*wb, name))


def test_registered_classes(path):
    tree = [Layer(np.ones(2), fg.constant(3.0), "first"), Layer(np.zeros(1), None, "second")]
    result = again(path, tree, like=tree)
    assert [type(layer) for layer in result] == [Layer, Layer]
    assert [layer.name for layer in result] == ["first", "second"]
    assert plain([[layer.w, layer.b] for layer in result]) == [[[1.0, 1.0], 3.0], [[0.0], None]]
    assert plain(fg.load(path)) == [[[1.0, 1.0], 3.0], [[0.0], None]]
    other = [Point(1.0, 2.0), Point(1.0, 2.0)]
    with pytest.raises(errors.LoadError, match="holds a Layer at '0', where `like` has a Point"):
        fg.load(path, like=other)


def test_leaves_of_like_do_not_matter(path):
    fg.save(path, {"a": np.ones(3), "b": None, "c": 1.0})
    result = fg.load(path, like={"c": None, "a": 0.0, "b": np.zeros(7)})
    assert plain(result) == {"a": [1.0, 1.0, 1.0], "b": None, "c": 1.0}


@pytest.mark.parametrize(
    ("tree", "like", "text"),
    [
        ({"w": 1.0}, {"w": 1.0, "b": 2.0}, r"the file holds a dict of \['w'\], where `like` has one of \['w', 'b'\]"),
        ({"w": 1.0, "b": 2.0}, {"w": 1.0}, r"a dict of \['w', 'b'\], where `like` has one of \['w'\]"),
        ({"w": 1.0}, {"b": 1.0}, r"the file holds a dict of \['w'\], where `like` has one of \['b'\]"),
        ({"w": [1.0, 2.0]}, {"w": [1.0]}, r"a list of \[0, 1\] at 'w', where `like` has one of \[0\]"),
        ({"w": [1.0]}, {"w": (1.0,)}, r"a list at 'w', where `like` has a tuple: \(1.0,\)"),
        ({"w": [1.0]}, {"w": 1.0}, r"a list at 'w', where `like` has a float: 1.0"),
        ({"w": [1.0]}, {"w": None}, r"a list at 'w', where `like` has a NoneType"),
        ({"w": 1.0}, {"w": [1.0]}, "a leaf at 'w', where `like` has a list"),
        (1.0, [1.0], "the file holds a leaf, where `like` has a list"),
        ((1.0, 2.0), Point(1.0, 2.0), "holds a tuple, where `like` has a Point"),
        (Point(1.0, 2.0), (1.0, 2.0), "holds a Point, where `like` has a tuple"),
        (State(0, {}), Point(1.0, 2.0), r"a State of \['step', .*, where `like` has one of \['x', 'y'\]"),
    ],
)
def test_like_of_another_structure(path, tree, like, text):
    fg.save(path, tree)
    with pytest.raises(errors.LoadError, match=text):
        fg.load(path, like=like)


def test_a_named_tuple_of_the_same_fields_will_do(path):
    assert again(path, Point(1.0, 2.0), like=Place(0.0, 0.0)) == Place(1.0, 2.0)


# What cannot be saved


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (lambda: 1, "the value to save is <function .* of type function, which cannot be saved"),
        ({"a": [1, object()]}, r"the value to save at 'a.1' is <object object .* of type object"),
        ({"a": {1, 2}}, "at 'a' is {1, 2} of type set"),
        (b"bytes", "of type bytes"),
        (range(3), "of type range"),
        (np.array([None, 1]), "is an array of dtype object, which cannot be saved"),
        (np.zeros(2, [("a", float)]), "is an array of dtype .*'a'"),
        (np.zeros(2, np.longdouble), "is an array of dtype .*, which cannot be saved"),
        (np.ma.masked_array([1.0], [True]), "of type MaskedArray"),
        ({(1, 2): 1.0}, r"has the key \(1, 2\); keys must be strings or integers"),
        ({1.5: 1.0}, "has the key 1.5"),
    ],
)
def test_what_cannot_be_saved(path, tree, text):
    path.write_bytes(b"old")
    with pytest.raises(errors.SaveError, match=text) as caught:
        fg.save(path, tree)
    assert isinstance(caught.value, TypeError)
    assert path.read_bytes() == b"old"


def test_a_tensor_that_is_followed(path):
    def f(x):
        fg.save(path, {"w": [x]})
        return x * x

    text = r"at 'w.0' is a traced tensor.*\n  at test_saving.py:\d+.*\nSave x.numpy\(\)"
    for transform in (fg.grad, lambda f: lambda x: fg.jvp(f, (x,), (1.0,))):
        with pytest.raises(errors.SaveError, match=text):
            transform(f)(3.0)
    with pytest.raises(errors.SaveError, match=text):
        fg.vmap(f)(np.ones(3))
    with pytest.raises(errors.SaveError, match=text):
        fg.trace(f)(3.0)
    w = fg.Variable(3.0)
    with fg.GradientTape() as tape:
        y = w * w
        with pytest.raises(errors.SaveError, match="is a traced tensor"):
            fg.save(path, y)
        fg.save(path, [w, y.numpy()])  # the value of a variable is no part of any trace
    assert tape.watched_variables() == (w,)
    assert tape.gradient(y, w).item() == 6.0
    assert plain(fg.load(path)) == [3.0, 9.0]
    assert plain(again(path, y)) == 9.0  # afterwards it is a value like any other


# Writing happens wholly or not at all


def full_disk(file, data):
    file.write(data[: len(data) // 2])
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(file, data):
    file.write(data[:10])
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("place", "failure", "error"),
    [
        ((saving, "_write"), full_disk, OSError),
        ((saving, "_write"), interrupted, KeyboardInterrupt),
        ((os, "fsync"), mock.Mock(side_effect=OSError(errno.EIO, "Input/output error")), OSError),
        ((os, "replace"), mock.Mock(side_effect=PermissionError("not allowed")), PermissionError),
    ],
)
def test_a_failure_leaves_the_old_file(path, monkeypatch, place, failure, error):
    fg.save(path, {"w": np.ones(2)})
    old = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(*place, failure)
        with pytest.raises(error, match="No space|Input/output|not allowed|^$"):
            fg.save(path, {"w": np.zeros(1000)})
        with pytest.raises(error, match="No space|Input/output|not allowed|^$"):
            fg.save(path.with_name("new"), {"w": np.zeros(1000)})
    assert path.read_bytes() == old
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert plain(fg.load(path)) == {"w": [1.0, 1.0]}


def test_the_data_are_on_disk_before_the_file_gets_its_name(path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("fsync"), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda *args: (events.append("replace"), replace(*args)))
    fg.save(path, 1.0)
    assert events[:2] == ["fsync", "replace"]
    assert fg.load(path) == 1.0


def test_paths(path, tmp_path, monkeypatch):
    fg.save(str(path), 1.0)
    assert fg.load(str(path)) == 1.0
    link = tmp_path / "link"
    link.symlink_to(path)
    fg.save(link, 2.0)
    assert link.is_symlink()
    assert fg.load(path) == 2.0
    path.chmod(0o640)
    fg.save(path, 3.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    monkeypatch.chdir(tmp_path)
    fg.save("relative", 4.0)
    assert fg.load(tmp_path / "relative") == 4.0
    with pytest.raises(FileNotFoundError, match="none"):
        fg.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="none"):
        fg.save(tmp_path / "none" / "file", 1.0)
    with pytest.raises(IsADirectoryError, match="directory"):
        fg.load(tmp_path)


# Files that are damaged, or are something else


def test_files_of_others(path):
    save_file({"w": np.ones(2)}, path)
    with pytest.raises(
        errors.LoadError, match=r"a safetensors file that was not written by fgrad.save of this version"
    ):
        fg.load(path)
    save_file({"w": np.ones(2)}, path, metadata={"fgrad": "99", "tree": "null"})
    with pytest.raises(errors.LoadError, match="not written by .* metadata are {.*99"):
        fg.load(path)
    for content in (b"", b"text", b"\x00" * 100, pickle.dumps({"w": 1.0}), b"PK\x03\x04" + b"x" * 100, b"\xff" * 64):
        path.write_bytes(content)
        with pytest.raises(
            errors.LoadError, match=r"file.safetensors' is damaged, or not a safetensors file"
        ) as caught:
            fg.load(path)
        assert isinstance(caught.value, ValueError)


def test_a_file_that_was_cut(path):
    fg.save(path, {"w": np.arange(10.0), "b": [1, 2.0, "text"]})
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(errors.LoadError, match="is damaged"):
            fg.load(path)
    path.write_bytes(data + b"more")
    with pytest.raises(errors.LoadError, match="is damaged"):
        fg.load(path)


def test_a_file_in_which_one_bit_has_changed(path):
    """It does not load, or as what it was: the bit was one of the checksum's name, or of a space."""
    tree = {"w": np.array([1.0, 2.0]), "z": np.array([1 + 2j]), "b": [1, 2.5, "text", None]}
    fg.save(path, tree)
    data = path.read_bytes()
    loaded = 0
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place * 5 % 8
        path.write_bytes(changed)
        try:
            found = fg.load(path)
        except errors.LoadError:
            continue
        loaded += 1
        assert same(found, tree)
    assert loaded < len(data) // 20


def test_files_without_a_checksum(path):
    outline = json.dumps({"kind": "dict", "class": "dict", "keys": ["w"], "children": [W]})
    save_file({"w": np.ones(2)}, path, metadata={"fgrad": "1", "tree": outline})
    assert fg.load(path)["w"].tolist() == [1.0, 1.0]


W = ["array", "w", "<f8", [2]]


@pytest.mark.parametrize(
    "outline",
    [
        ["array", "b", "<f8", [2]],
        ["array", "w", "<f4", [2]],
        ["array", "w", "<c16", [2]],
        ["array", "w", "O", [2]],
        ["array", "w", "bogus", [2]],
        ["array", "w", "<f8", [3]],
        ["array", "w", "<f8"],
        ["array", "w", "<U3", [2]],
        ["array", "w", "V8", [2]],
        ["bogus", "w", "<f8", [2]],
        ["float", "xyz"],
        ["float", 1.0],
        ["complex", "0x0p+0"],
        [],
        [[]],
        {},
        {"kind": "dict", "class": "dict", "keys": ["a", "b"], "children": [W]},
        {"kind": "dict", "class": "dict", "keys": [["a"]], "children": [W]},
        {"kind": "list", "class": "list", "keys": None, "children": [W]},
        ["variable", "w", "<f8", [2]],
        ["__import__", "os"],
    ],
)
def test_an_outline_that_does_not_fit(path, outline):
    save_file({"w": np.ones(2)}, path, metadata={"fgrad": "1", "tree": json.dumps(outline)})
    with pytest.raises(errors.LoadError, match="is damaged: its outline does not match its arrays"):
        fg.load(path)


def test_outlines_that_are_no_json(path):
    for text in ("", "{", "[" * 100_000, "nonsense", '{"a": }'):
        save_file({"w": np.ones(2)}, path, metadata={"fgrad": "1", "tree": text})
        with pytest.raises(errors.LoadError, match="is damaged"):
            fg.load(path)


def test_nothing_of_a_file_is_executed(path, monkeypatch):
    forbidden = mock.Mock(side_effect=AssertionError("executed"))
    for name in ("eval", "exec", "compile"):
        monkeypatch.setattr(builtins, name, forbidden)
    monkeypatch.setattr(pickle, "loads", forbidden)
    tree = {"w": np.ones(2), "text": "__import__('os').system('false')", "p": Point(1.0, 2.0)}
    assert same(again(path, tree, like=tree), tree)


# The library is optional


def test_without_safetensors(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    for call in (lambda: fg.save(path, 1.0), lambda: fg.load(path)):
        with pytest.raises(errors.MissingExtraError, match="pip install safetensors") as caught:
            call()
        assert isinstance(caught.value, ImportError)


def test_a_model_is_put_back_into_its_variables(path):
    w, b = fg.Variable([1.0, 2.0], name="w"), fg.Variable(3.0, name="b")
    optimizer = Momentum(0.1, momentum=0.9)
    optimizer.minimize(lambda: np.sum(w * w) + b * b)
    fg.save(path, {"model": {v.name: v.numpy() for v in (w, b)}, "optimizer": optimizer.state_dict()})
    expected = w.tolist(), b.tolist()
    w.assign([0.0, 0.0]), b.assign(0.0)
    saved = fg.load(path)
    for variable in (w, b):
        variable.assign(saved["model"][variable.name])
    optimizer.load_state_dict(saved["optimizer"])
    assert (w.tolist(), b.tolist()) == expected
    assert optimizer.iterations == 1
