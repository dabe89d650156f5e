"""A cell of a notebook never fails because it was run before."""

import dataclasses
import textwrap

import pytest

import fgrad as fg
import fgrad.extend

CELLS = {
    "a variable": """
        w = fg.Variable(3.0, name="w")
        optimizer = fg.optimizers.Adam()
        optimizer.minimize(lambda: w * w)
        result = fg.implicit_gradients(lambda: w * 2.0)()[0][0]
    """,
    "a dataclass": """
        @fg.register_dataclass
        @dataclasses.dataclass
        class Line:
            slope: float
        result = fg.grad(lambda line: 2.0 * line.slope)(Line(1.0)).slope
    """,
    "a dataclass of another cell": """
        fg.register_dataclass(Known)
        result = fg.grad(lambda known: 2.0 * known.value)(Known(1.0)).value
    """,
    "a class of another cell": """
        fg.register_pytree_node(Plain, lambda plain: ((plain.value,), None), lambda _, children: Plain(*children))
        result = fg.grad(lambda plain: 2.0 * plain.value)(Plain(1.0)).value
    """,
    "an operation": """
        def of_a_cell(x):
            return x * x
        operation = fgrad.extend.register_primitive(of_a_cell)
        fgrad.extend.defvjp(operation, lambda ct, x: ct * 2 * x)
        fgrad.extend.defjvp(operation, lambda t, x: t * 2 * x)
        fgrad.extend.defbatch(operation, lambda values, mapped, size, metadata: of_a_cell(*values))
        result = fg.grad(operation)(1.0)
    """,
    "rules of an operation of another cell": """
        fgrad.extend.defvjp(known, lambda ct, x: ct * 2 * x)
        fgrad.extend.defjvp(known, lambda t, x: t * 2 * x)
        fgrad.extend.defpattern(known, "->")
        result = fg.grad(known)(1.0)
    """,
    "a function with rules": """
        @fg.custom_vjp
        def squared(x):
            return x * x
        squared.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))
        result = fg.grad(squared)(1.0)
    """,
    "the rules of a function of another cell": """
        ruled.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))
        forward.defjvp(lambda primals, tangents: (forward(*primals), 2 * primals[0] * tangents[0]))
        result = fg.grad(ruled)(1.0) * fg.grad(forward)(1.0) / 2
    """,
    "a tape": """
        x = fg.constant(1.0)
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        result = tape.gradient(y, x)
    """,
    "a compiled gradient": "result = fg.compile(fg.grad(lambda x: x * x))(1.0)",
}
"""Cells of a notebook, each with the result 2."""


@pytest.mark.usefixtures("table")
@pytest.mark.filterwarnings("ignore::fgrad.errors.ReplacedPrimitiveWarning")
@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_can_be_run_again(cell):
    class Plain:
        def __init__(self, value):
            self.value = value

    names = {
        "Plain": Plain,
        "Known": dataclasses.make_dataclass("Known", [("value", float)]),
        "known": fgrad.extend.register_primitive(lambda x: x * x, name="square_of_another_cell"),
        "ruled": fg.custom_vjp(lambda x: x * x),
        "forward": fg.custom_jvp(lambda x: x * x),
        "fg": fg,
        "fgrad": fgrad,
        "dataclasses": dataclasses,
        "__name__": "__main__",
    }
    for _ in range(2):
        exec(textwrap.dedent(CELLS[cell]), names)
        assert names["result"] == 2.0


def test_a_class_that_is_registered_again_has_the_new_functions():
    class Pair:
        def __init__(self, x, y):
            self.x, self.y = x, y

    fg.register_pytree_node(Pair, lambda pair: ((pair.x,), pair.y), lambda y, children: Pair(children[0], y))
    gradient = fg.grad(lambda pair: pair.x * pair.y)
    compiled = fg.compile(gradient)
    assert gradient(Pair(2.0, 3.0)).y == compiled(Pair(2.0, 3.0)).y == 3.0
    assert len(fg.tree_leaves(Pair(2.0, 3.0))) == 1
    fg.register_pytree_node(Pair, lambda pair: ((pair.x, pair.y), None), lambda _, children: Pair(*children))
    assert gradient(Pair(2.0, 3.0)).y == compiled(Pair(2.0, 3.0)).y == 2.0
    assert len(fg.tree_leaves(Pair(2.0, 3.0))) == 2
