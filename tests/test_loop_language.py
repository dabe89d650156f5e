"""The loop language: random programs against an interpreter, passes, the verifier, and what LLVM makes of them."""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_interpreter import Interpreter

pytest.importorskip("llvmlite")

from fgrad.native.hoisting import hoisted
from fgrad.native.ir import (
    FALSE,
    TRUE,
    Builder,
    Carried,
    Constant,
    If,
    Instruction,
    Loop,
    Op,
    Parameter,
    Type,
    Value,
    Variable,
    While,
    instructions_of,
    integer,
    listing,
    real,
)
from fgrad.native.lanes import Widths
from fgrad.native.llvm_text import parameter_list, printed
from fgrad.native.machine import Machine
from fgrad.native.scalars import SCALAR_OPERATIONS, SCALARS, loaded, store
from fgrad.native.tiling import tiled
from fgrad.native.vectorization import vectorized
from fgrad.native.verifier import VerificationError, verify, verify_reads

P, Q, OUT, TOTALS = (Parameter(name, is_noalias=True) for name in ("p", "q", "out", "totals"))
WIDTHS = Widths({64: 4, 32: 8}, frozenset(["exp"]))
SIZE = 112
EXACT = ("add", "subtract", "multiply", "maximum", "minimum", "negative", "abs", "square", "sign", "fmax")
KINDS = {"float64": np.float64, "float32": np.float32, "int64": np.int64, "int32": np.int32}


def arrays(dtype, seed):
    """Return arrays of small integers, whose sums and products are exact in any order."""
    rng = np.random.default_rng(seed)
    p, q = rng.integers(-3, 4, size=(2, 3 * SIZE)).astype(dtype)
    return {P: p, Q: q, OUT: np.zeros(3 * SIZE, dtype), TOTALS: np.zeros(4, dtype)}


@st.composite
def programs(draw):
    """Return a loop, what is behind it, and the dtype of its arrays."""
    name = draw(st.sampled_from(sorted(KINDS)))
    kind, code, body = SCALARS[name], Builder(), []
    start = draw(st.integers(0, 3))
    loop = Loop(Variable(), integer(start), integer(start + draw(st.integers(1, 100))), body)
    with code.within(body):
        values = [Constant(kind.type, draw(st.integers(-2, 2)))]
        for parameter in (P, Q):
            step = draw(st.sampled_from([0, 1, 1, 1, 2]))
            place = code.add(code.mul(loop.variable, integer(step)), integer(draw(st.integers(0, 4))))
            values.append(loaded(code, kind, code.address(parameter, kind.stored, place)))
        for each in draw(st.lists(st.sampled_from(EXACT), max_size=6)):
            row = SCALAR_OPERATIONS[each]
            if each in ("negative", "abs", "square", "sign"):
                values.append(row.emit(code, kind, draw(st.sampled_from(values))))
                continue
            a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
            values.append(row.emit(code, kind, a, b))
            if draw(st.booleans()):
                condition = code.compare("olt" if kind.is_float else "slt", a, b)
                values.append(code.select(condition, values[-1], a))
        if draw(st.booleans()):
            step = draw(st.sampled_from([1, 1, 2]))
            address = code.address(OUT, kind.stored, code.mul(loop.variable, integer(step)))
            store(code, kind, values[-1], address)
        if draw(st.booleans()):
            total = Carried(Constant(kind.type, 0))
            op, flags = (Op.FADD, draw(st.sampled_from(["", "reassoc"]))) if kind.is_float else (Op.ADD, "")
            small = code.intrinsic("fabs", values[1]) if kind.is_float else values[1]
            total.next = code.binary(op, total, small, flags)
            loop.carried.append(total)
    behind = Builder()
    for place, each in enumerate(loop.carried):
        store(behind, kind, each.after, behind.address(TOTALS, kind.stored, integer(place)))
    return loop, behind.body, KINDS[name]


def interpreted(body, dtype, seed):
    verify(body)
    verify_reads(body)
    given_ = arrays(dtype, seed)
    Interpreter(given_).run(body)
    return given_[OUT], given_[TOTALS]


def compiled(body, dtype, seed):
    text, used = printed(body)
    machine, parameters = Machine.this(), [P, Q, OUT, TOTALS]
    whole = f"{machine.declarations(used)}\ndefine void @run({parameter_list(parameters)}) #0 {{\n{text}\n}}"
    module = machine.compiled(whole, "", False)
    given_ = arrays(dtype, seed)
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(module.address("run"))(*(given_[x].ctypes.data for x in parameters))
    return given_[OUT], given_[TOTALS]


def check_same(found, wanted):
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=200, deadline=None)
@given(programs(), st.integers(0, 99))
def test_wide_loops_do_what_narrow_ones_do(program, seed):
    loop, behind, dtype = program
    count = loop.stop.integer - loop.start.integer
    wide = vectorized(loop, WIDTHS, count)
    if wide is not None:
        check_same(interpreted([*wide, *behind], dtype, seed), interpreted([loop, *behind], dtype, seed))


@settings(max_examples=100, deadline=None)
@given(programs(), st.integers(0, 99))
def test_wide_loops_of_a_length_that_is_not_known(program, seed):
    loop, behind, dtype = program
    start, stop = loop.start, loop.stop
    wanted = interpreted([loop, *behind], dtype, seed)
    code = Builder()
    loop.start, loop.stop = (code.do(Op.SELECT, Type.I64, TRUE, end, end) for end in (start, stop))
    loop.may_be_empty = True
    wide = vectorized(loop, WIDTHS, 100)
    if wide is not None:
        check_same(interpreted([*code.body, *wide, *behind], dtype, seed), wanted)


@st.composite
def sums(draw):
    """Return two loops, of which the inner one sums up, what is before it and behind it, and the dtype of arrays."""
    name = draw(st.sampled_from(sorted(KINDS)))
    kind = SCALARS[name]
    outer = Loop(Variable(0), integer(draw(st.integers(0, 3))), integer(draw(st.integers(4, 20))))
    inner = Loop(Variable(1), integer(0), integer(draw(st.integers(1, 9))))
    before, body, behind = Builder(), Builder(), Builder()
    row = before.add(outer.variable, integer(draw(st.integers(0, 2))))
    scale = loaded(before, kind, before.address(Q, kind.stored, row))
    values = [scale, Constant(kind.type, 2)]
    for parameter, across, along in ((P, 1, draw(st.integers(0, 4))), (Q, draw(st.integers(0, 1)), 1)):
        place = body.add(body.mul(outer.variable, integer(across)), body.mul(inner.variable, integer(along)))
        values.append(loaded(body, kind, body.address(parameter, kind.stored, place)))
    for each in draw(st.lists(st.sampled_from(["add", "multiply", "maximum"]), max_size=4)):
        values.append(SCALAR_OPERATIONS[each].emit(body, kind, draw(st.sampled_from(values)), values[-1]))
    total = Carried(Constant(kind.type, draw(st.integers(-1, 1))))
    total.next = body.binary(Op.FADD if kind.is_float else Op.ADD, total, values[-1])
    inner.body, inner.carried = body.body, [total]
    found = behind.binary(
        Op.FADD if kind.is_float else Op.ADD, total.after, draw(st.sampled_from([scale, total.after]))
    )
    store(behind, kind, found, behind.address(OUT, kind.stored, row))
    return outer, before.body, inner, behind.body, KINDS[name]


@settings(max_examples=150, deadline=None)
@given(sums(), st.booleans(), st.integers(0, 99))
def test_tiles_do_what_two_loops_do(program, is_known, seed):
    outer, before, inner, behind, dtype = program
    start, stop = outer.start, outer.stop
    wanted = interpreted([Loop(outer.variable, start, stop, [*before, inner, *behind])], dtype, seed)
    code = Builder()
    if not is_known:
        outer.start, outer.stop = (code.do(Op.SELECT, Type.I64, TRUE, end, end) for end in (start, stop))
        outer.may_be_empty = True
    count = stop.integer - start.integer
    outer.body = [*before, inner, *behind]
    tiles = tiled(outer, WIDTHS, count)
    assert (tiles is None) == (count < WIDTHS.lanes[64 if dtype in (np.float64, np.int64) else 32])
    if tiles is not None:
        found, totals = interpreted([*code.body, *tiles], dtype, seed)
        first = start.integer if is_known else 0  # a number of elements that is not known may begin with some more
        np.testing.assert_array_equal(found[first:], wanted[0][first:])
        check_same([totals], wanted[1:])
        check_same(compiled([*code.body, *tiles], dtype, seed), (found, totals))


@settings(max_examples=25, deadline=None)
@given(programs(), st.integers(0, 99))
def test_llvm_does_what_the_interpreter_does(program, seed):
    loop, behind, dtype = program
    widths = Machine.this().widths(precise=True)
    wide = vectorized(loop, widths, loop.stop.integer - loop.start.integer) or [loop]
    wanted = interpreted([loop, *behind], dtype, seed)
    check_same(compiled([loop, *behind], dtype, seed), wanted)
    check_same(compiled([*wide, *behind], dtype, seed), wanted)


@st.composite
def nests(draw):
    """Return the instructions of the innermost of two loops, with the loops' variables."""
    code, i, j = Builder(), Variable(0), Variable(1)
    indices = [integer(2), i, j, code.add(code.mul(i, integer(6)), j)]
    values = [real(2.0, Type.F64)]
    for _ in range(draw(st.integers(1, 8))):
        if draw(st.booleans()):
            memory, index = draw(st.sampled_from([P, Q, OUT])), draw(st.sampled_from(indices))
            values.append(code.load(Type.F64, code.address(memory, Type.F64, index)))
        else:
            values.append(code.fadd(draw(st.sampled_from(values)), draw(st.sampled_from(values))))
        if draw(st.booleans()):
            code.store(values[-1], code.address(OUT, Type.F64, draw(st.sampled_from(indices))))
    return list(instructions_of(code.body)), i, j


@settings(max_examples=200, deadline=None)
@given(nests(), st.integers(0, 99))
def test_what_is_hoisted_has_the_same_results(nest, seed):
    instructions, i, j = nest
    first, second, third = hoisted(instructions, [i, j], (), {OUT})
    assert len(first) + len(second) + len(third) == len(instructions)

    def loops(outside, between, within):
        inner = Loop(j, integer(0), integer(6), within)
        return [*outside, Loop(i, integer(0), integer(5), [*between, inner])]

    wanted = interpreted(loops([], [], instructions), np.float64, seed)
    check_same(interpreted(loops(first, second, third), np.float64, seed), wanted)


# Passes


def test_instructions_stand_as_deep_as_what_they_need():
    code, i, j, carried = Builder(), Variable(0), Variable(1), Carried(real(0.0, Type.F64))
    a = code.address(P, Type.F64, i)
    b = code.load(Type.F64, a)
    c = code.address(OUT, Type.F64, i)
    d = code.load(Type.F64, c)
    e = code.address(Q, Type.F64, integer(0))
    f = code.load(Type.F64, e)
    g = code.fadd(b, d)
    h = code.fadd(g, carried)
    k = code.store(h, c)
    found = hoisted(code.body, [i, j], [carried], written={OUT}, outer_writes=({Q}, 1))
    assert found == [[e], [a, b, c, f], [d, g, h, k]]


def copied_by(function, stop=20, step=1):
    """Return a loop that stores a function of each element of an array."""
    code, loop = Builder(), Loop(Variable(), integer(0), integer(stop))
    with code.within(loop.body):
        place = loop.variable if step == 1 else code.mul(loop.variable, integer(step))
        value = code.load(Type.F64, code.address(P, Type.F64, place))
        code.store(function(code, loop, value), code.address(OUT, Type.F64, loop.variable))
    return loop


def calls(items, name):
    return [each for each in instructions_of(items) if each.op is Op.CALL and each.attribute.name == name]


WIDE = Widths({64: 8, 32: 16}, frozenset(["exp"]))


def test_what_is_made_wide():
    def exp(code, loop, value):
        return code.call("exp", value)

    assert (
        len(calls(vectorized(copied_by(exp), WIDE, 20), "@_ZGVeN8v_exp")) == 3
    )  # two, and the last elements once more
    items = vectorized(copied_by(exp, stop=7), WIDE, 7)
    assert [len(calls(items, name)) for name in ("@_ZGVdN4v_exp", "@_ZGVbN2v_exp", "@exp")] == [1, 1, 1]
    items = vectorized(copied_by(exp, stop=1000), WIDE, 1000)
    assert [type(each) for each in items] == [Loop]  # without a rest
    assert items[0].step == 8


def is_wide(items):
    return any(each.lanes > 1 for each in instructions_of(items))


def test_elements_that_are_no_neighbours_and_numbers_of_iterations_are_made_wide():
    def counted(code, loop, value):
        return code.select(code.compare("slt", loop.variable, integer(4)), value, real(0.0, Type.F64))

    assert is_wide(vectorized(copied_by(lambda code, loop, value: value, step=3), WIDE, 20))
    assert is_wide(vectorized(copied_by(counted), WIDE, 20))


def test_what_is_left_to_the_compiler():
    def unknown(code, loop, value):
        return code.call("unknown", value)

    assert vectorized(copied_by(unknown), WIDE, 20) is None
    loop = copied_by(lambda code, loop, value: value)
    with Builder().within(loop.body):
        loop.body[-1] = Instruction(Op.STORE, None, [loop.body[-1].args[0], Q])  # one place for all iterations
    assert vectorized(loop, WIDE, 20) is None


def test_sums_in_order_are_taken_iteration_by_iteration():
    def sum_of(flags, stores=False):
        code, loop = Builder(), Loop(Variable(), integer(0), integer(20))
        total = Carried(real(0.0, Type.F64))
        with code.within(loop.body):
            value = code.load(Type.F64, code.address(P, Type.F64, loop.variable))
            total.next = code.binary(Op.FADD, total, value, flags)
            if stores:
                code.store(total.next, code.address(OUT, Type.F64, loop.variable))
        loop.carried.append(total)
        return vectorized(loop, WIDE, 20)

    assert not is_wide(sum_of(""))
    assert is_wide(sum_of("reassoc"))
    assert not is_wide(sum_of("reassoc", stores=True))


def sum_of_short_numbers(function):
    code, loop, total = Builder(), Loop(Variable(), integer(0), integer(1000)), Carried(real(0.0, Type.F64))
    with code.within(loop.body):
        value = function(code, code.load(Type.F32, code.address(P, Type.F32, loop.variable)))
        total.next = code.binary(Op.FADD, total, code.cast(Op.FPEXT, value, Type.F64), "reassoc")
    loop.carried.append(total)
    return vectorized(loop, WIDE, 1000)


def test_a_sum_has_several_totals():
    whole, *_ = sum_of_short_numbers(lambda code, value: value)
    assert whole.step == 4 * 16
    assert [(each.type, each.lanes) for each in whole.carried] == [(Type.F64, 16)] * 4


def test_a_long_sum_does_not_halve_the_lanes_of_a_function():
    items = sum_of_short_numbers(lambda code, value: code.call("expf", value))
    assert len(calls(items, "@_ZGVeN16v_expf")) == 1  # and one total: a call saves all vectors
    assert items[0].step == 16


# The verifier


def of_two_kinds():
    return [Instruction(Op.FADD, Type.F64, [real(1.0, Type.F64), real(1.0, Type.F32)])]


def integers_added_as_floats():
    return [Instruction(Op.FADD, Type.I64, [integer(1), integer(1)])]


def atomic_change_of_a_float():
    return [Instruction(Op.ATOMIC, Type.F64, [P, real(1.0, Type.F64)], "add")]


def undefined():
    return [Instruction(Op.ADD, Type.I64, [Value(Type.I64), integer(1)])]


def used_outside_of_its_loop():
    code = Builder()
    with code.loop(3) as i:
        inside = code.add(i, i)
    code.add(inside, inside)
    return code.body


def used_under_another_condition():
    code = Builder()
    with code.when(TRUE):
        inside = code.add(integer(1), integer(2))
    with code.when(FALSE):
        code.add(inside, inside)
    return code.body


def next_of_another_type():
    loop = Loop(Variable(), integer(0), integer(3), [], [Carried(integer(0))])
    loop.carried[0].next = real(1.0, Type.F64)
    return [loop]


def next_that_is_not_defined():
    loop = Loop(Variable(), integer(0), integer(3), [], [Carried(integer(0))])
    loop.carried[0].next = Value(Type.I64)
    return [loop]


def past_its_stop():
    return [Loop(Variable(), integer(0), integer(5), step=2)]


def without_iterations():
    return [Loop(Variable(), integer(3), integer(3))]


def condition_that_is_a_number():
    return [If(integer(1))]


def read_too_early():
    code = Builder()
    address = code.address(P, Type.F64, integer(0))
    value = code.load(Type.F64, address)
    with code.loop(3):
        code.store(code.fadd(value, value), address)
    return code.body


def vector_and_number():
    return [Instruction(Op.FADD, Type.F64, [Constant(Type.F64, 1, 2), real(1.0, Type.F64)], lanes=2)]


WRONG = [
    of_two_kinds, integers_added_as_floats, atomic_change_of_a_float, undefined, used_outside_of_its_loop,
    used_under_another_condition, next_of_another_type, next_that_is_not_defined, past_its_stop, without_iterations,
    condition_that_is_a_number, read_too_early, vector_and_number,
]  # fmt: skip


@pytest.mark.parametrize("body", WRONG, ids=lambda each: each.__name__)
def test_the_verifier_refuses(body):
    made = body()
    with pytest.raises(VerificationError):
        verify(made)
        verify_reads(made)


# Text


def test_a_listing_shows_loops_and_types():
    code, total = Builder(), Carried(real(0.0, Type.F64))
    loop = Loop(Variable(), integer(0), integer(3), [], [total])
    with code.within(loop.body):
        total.next = code.fadd(total, code.load(Type.F64, code.address(P, Type.F64, loop.variable)))
    assert listing([loop]).splitlines() == [
        "v0 = 0.0",
        "for v1 in range(0, 3, 1):",
        "    v2: ptr = getelementptr(p, v1)",
        "    v3: double = load(v2)",
        "    v4: double = fadd(v0, v3)",
        "    v0 = v4",
    ]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loops_with_a_condition(count):
    """Sums the first numbers, up to the first one that is negative."""
    code, sum_ = Builder(), Carried(real(0.0, Type.F64))
    loop = While(Variable(), [], FALSE, [], [sum_])
    with code.within(loop.head):
        value = code.load(Type.F64, code.address(P, Type.F64, loop.variable))
        loop.condition = code.both(
            code.compare("slt", loop.variable, integer(9)), code.compare("oge", value, real(0.0, Type.F64))
        )
    with code.within(loop.body):
        sum_.next = code.fadd(sum_, value)
    code.body.append(loop)
    code.store(sum_.after, code.address(OUT, Type.F64, integer(0)))
    verify(code.body)
    memory = np.array([2.0] * count + [-1.0] + [5.0] * 9), np.zeros(1)
    Interpreter({P: memory[0], OUT: memory[1]}).run(code.body)
    assert memory[1][0] == 2.0 * count
    text, used = printed(code.body)
    machine = Machine.this()
    whole = f"{machine.declarations(used)}\ndefine void @run({parameter_list([P, OUT])}) #0 {{\n{text}\n}}"
    memory[1][0] = 0.0
    module = machine.compiled(whole, "", False)  # its code lives as long as it does
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(module.address("run"))
    run(memory[0].ctypes.data, memory[1].ctypes.data)
    assert memory[1][0] == 2.0 * count
