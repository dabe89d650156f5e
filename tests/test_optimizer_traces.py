"""Optimizers: the paths that each of them takes, against other implementations; and what holds for all."""

import inspect
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from helpers import plain

import fgrad as fg
from fgrad import optimizers
from fgrad.optimizers import (
    Adadelta,
    Adagrad,
    AdagradDA,
    Adam,
    Adamax,
    AdamW,
    AMSGrad,
    Ftrl,
    GradientDescent,
    Lamb,
    Lion,
    Momentum,
    Nadam,
    ProximalAdagrad,
    ProximalGradientDescent,
    RAdam,
    RMSProp,
    schedules,
)

H = np.array([[3.0, 1.0], [1.0, 1.0]])
START = [1.0, 2.0]
REGULARIZED = {"l1_regularization_strength": 0.1, "l2_regularization_strength": 0.2}

# Every optimizer, made with a learning rate, and a rate at which it gets far in 300 steps on a quadratic.
OPTIMIZERS = {
    GradientDescent: (GradientDescent, 0.1),
    Momentum: (lambda rate, **options: Momentum(rate, momentum=0.9, **options), 0.05),
    Adagrad: (Adagrad, 0.5),
    AdagradDA: (AdagradDA, 0.5),
    Adadelta: (lambda rate, **options: Adadelta(rate, rho=0.9, epsilon=1e-4, **options), 1.0),
    RMSProp: (RMSProp, 0.02),
    Adam: (Adam, 0.05),
    AdamW: (AdamW, 0.05),
    Adamax: (Adamax, 0.05),
    Nadam: (Nadam, 0.05),
    AMSGrad: (AMSGrad, 0.05),
    Lion: (Lion, 0.02),
    Ftrl: (Ftrl, 0.5),
    ProximalGradientDescent: (ProximalGradientDescent, 0.1),
    ProximalAdagrad: (ProximalAdagrad, 0.5),
    Lamb: (Lamb, 0.02),
    RAdam: (RAdam, 0.05),
}
RECOMPUTING = (AdagradDA, Ftrl)
EVERY = pytest.mark.parametrize("kind", OPTIMIZERS, ids=lambda kind: kind.__name__)


def make(kind, rate=None, **options):
    constructor, usual = OPTIMIZERS[kind]
    return constructor(usual if rate is None else rate, **options)


# Three steps on x H x / 2 from (1, 2), and the slots after the third. The source is TensorFlow 2.21 with
# hyper-parameters in float64 where it has the optimizer, else what is named.
TRACES = {
    "gradient descent": (
        lambda: GradientDescent(0.1),
        [[0.5, 1.7], [0.17999999999999994, 1.48], [-0.02200000000000002, 1.314]],
        {},
    ),
    "momentum": (
        lambda: Momentum(0.1, momentum=0.9),
        [[0.5, 1.7], [-0.27, 1.21], [-1.0030000000000001, 0.6749999999999999]],
        {"momentum": [7.33, 5.35]},
    ),
    "nesterov": (
        lambda: Momentum(learning_rate=0.1, momentum=0.9, use_nesterov=True),
        [[0.050000000000000044, 1.43], [-0.6552, 0.9057999999999999], [-0.946318, 0.5196059999999999]],
        {"momentum": [4.4122, 4.0126]},
    ),
    "adagrad": (
        lambda: Adagrad(0.1),
        [
            [0.9001994019930251, 1.9005509683802306],
            [0.832557802044843, 1.832511042193352],
            [0.7788571775411199, 1.7781635091208807],
        ],
        {"accumulator": [65.02107108124795, 24.046794581675034]},
    ),
    "adagrad from 1": (
        lambda: Adagrad(0.1, initial_accumulator_value=1.0),
        [
            [0.9019419324309079, 1.9051316701949486],
            [0.8348701280229203, 1.838746030372867],
            [0.7814579344847522, 1.7853035044073224],
        ],
        {"accumulator": [66.12567370985155, 25.027885572993952]},
    ),
    "adadelta": (
        lambda: Adadelta(),
        [
            [0.9999995527864063, 1.9999995527864094],
            [0.9999990998756734, 1.9999990998756667],
            [0.9999986431112596, 1.999998643111225],
        ],
        {
            "accum": [3.5656223500463198, 1.2836242050138558],
            "accum_update": [2.9200272680744866e-08, 2.9200274247690332e-08],
        },
    ),
    "adadelta with the paper's rate": (
        lambda: Adadelta(1.0, epsilon=1e-6),
        [
            [0.9955278658338538, 1.9955278690140321],
            [0.9910066754672735, 1.9910053595582937],
            [0.9864577511396592, 1.9864533087198046],
        ],
        {
            "accum": [3.539220548200168, 1.2756994732777724],
            "accum_update": [2.908090115634438e-06, 2.9100781956774918e-06],
        },
    ),
    "adadelta, PyTorch's defaults": (
        lambda: Adadelta(1.0, rho=0.9, epsilon=1e-6),
        [None, None, [0.9903057192247534, 1.9903035131739801]],
        None,
    ),
    "rmsprop": (
        lambda: RMSProp(0.1),
        [
            [0.7288369277306674, 1.7763932022562323],
            [0.5446743249412648, 1.609289375797034],
            [0.40270918292550645, 1.4727000049917804],
        ],
        {
            "momentum": [0.14196514201575833, 0.1365893708052534],
            "rms": [5.219322220178295, 2.486811982787298],
        },
    ),
    "rmsprop with momentum": (
        lambda: RMSProp(0.1, momentum=0.9),
        [
            [0.7288369277306674, 1.7763932022562323],
            [0.30062755989886547, 1.408043257827643],
            [-0.1912985838523692, 0.9642229242385114],
        ],
        {
            "momentum": [0.49192614375123467, 0.4438203335891316],
            "rms": [4.700990503494058, 2.3148116167124932],
        },
    ),
    "rmsprop centered": (
        lambda: RMSProp(0.1, centered=True),
        [
            [0.7182819150949662, 1.7705842661361462],
            [0.51928083638687, 1.5932689908589521],
            [0.361361097035093, 1.4439548649083567],
        ],
        {
            "mg": [1.07339985102985, 0.6782529390353822],
            "momentum": [0.15791973935177697, 0.14931412595059546],
            "rms": [5.133760438266405, 2.4617876153864695],
        },
    ),
    "rmsprop centered with momentum": (
        lambda: RMSProp(0.1, momentum=0.9, centered=True),
        [
            [0.7182819150949662, 1.7705842661361462],
            [0.2657345599723395, 1.3867948303814837],
            [-0.2556571136455724, 0.921143769322591],
        ],
        {
            "mg": [0.976688552057744, 0.6322508953461823],
            "momentum": [0.5213916736179119, 0.46565106105889265],
            "rms": [4.617795019009459, 2.288586276725152],
        },
    ),
    "adam": (
        lambda: Adam(0.1),
        [
            [0.9000000063245549, 1.9000000105409245],
            [0.8003037372921366, 1.800239079820717],
            [0.7011555580976525, 1.7009027518698407],
        ],
        {"m": [1.2391150318260256, 0.7550542832291784], "v": [0.0637385290446896, 0.023576992037989516]},
    ),
    "adam with a large epsilon": (
        lambda: Adam(learning_rate=0.1, beta1=0.9, beta2=0.999, epsilon=0.1),
        [
            [0.9387425886722793, 1.9513167019494861],
            [0.8702527837126375, 1.8945421813174212],
            [0.7983042346103986, 1.833506351245853],
        ],
        {"m": [1.2846090553625023, 0.7795848326589647], "v": [0.06795450866152464, 0.02497019045926146]},
    ),
    "adam, PyTorch's form": (
        lambda: Adam(0.1, corrected_epsilon=True),
        [
            [0.9000000001999999, 1.9000000003333333],
            [0.800303726762565, 1.8002390622924858],
            [0.701155543929412, 1.7009027282889986],
        ],
        None,
    ),
    "adamw, PyTorch's form": (
        lambda: AdamW(0.1),
        [
            [0.8990000001999999, 1.8980000003333333],
            [0.7984098198318472, 1.7963457053241565],
            [0.6984775899535421, 1.6952259729243513],
        ],
        None,
    ),
    "adamw, Keras' form": (
        lambda: AdamW(0.1, weight_decay=0.01, epsilon=1e-7, corrected_epsilon=False),
        [
            [0.8990000632455132, 1.8980001054091442],
            [0.7984099287423142, 1.7963458866208692],
            [0.6984777370786142, 1.6952262177822075],
        ],
        None,
    ),
    "adamax, PyTorch": (
        lambda: Adamax(0.1),
        [None, None, [0.7123758600550856, 1.7102674792514037]],
        None,
    ),
    "nadam, Keras": (
        lambda: Nadam(0.1),
        [
            [0.8937212217946985, 1.8937212232117488],
            [0.8194156909063082, 1.8188779763756968],
            [0.7526403713775767, 1.7513116489168574],
        ],
        None,
    ),
    "nadam, PyTorch": (
        lambda: Nadam(0.1, epsilon=1e-8, momentum_decay=0.004),
        [
            [0.8943548223757515, 1.8943548225166118],
            [0.8191222864606871, 1.8185704642510045],
            [0.7505867436111776, 1.7491854913880462],
        ],
        None,
    ),
    "lion": (lambda: Lion(0.1), [[0.9, 1.9], [0.8, 1.8], [0.7, 1.7]], None),
    "lion with weight decay": (
        lambda: Lion(0.1, weight_decay=0.01),
        [[0.899, 1.898], [0.798101, 1.796102], [0.697302899, 1.694305898]],
        None,
    ),
    "ftrl": (
        lambda: Ftrl(0.1),
        [
            [0.8370799616832448, 1.6908940010358469],
            [0.7728168791567728, 1.626664027544311],
            [0.7211581222211567, 1.574609725886364],
        ],
        {"accum": [58.321858916702205, 21.24816097780872], "linear": [-55.0739439455536, -72.58278091208123]},
    ),
    "ftrl regularized": (
        lambda: Ftrl(0.1, **REGULARIZED),
        [
            [0.828469410316698, 1.6654947874775325],
            [0.7650595797086942, 1.602421266498408],
            [0.7139386774280767, 1.55111452315578],
        ],
        None,  # TensorFlow's are rounded: see the test of its numbers
    ),
    "ftrl with shrinkage": (
        lambda: Ftrl(0.1, **REGULARIZED, l2_shrinkage_regularization_strength=0.3),
        [
            [0.8165881987176713, 1.6262357446682518],
            [0.7463278525531786, 1.5390646574114086],
            [0.6901515925391379, 1.4684553467651285],
        ],
        None,
    ),
    "ftrl with beta": (
        lambda: Ftrl(0.1, beta=0.5),
        [
            [0.7611197549811989, 1.4504793841404942],
            [0.7057898874965208, 1.3983248986822614],
            [0.6599499131931159, 1.3544130094697935],
        ],
        {"accum": [51.40165930484725, 18.418469785579997], "linear": [-50.614825939954954, -64.89906243908892]},
    ),
    "ftrl with another power": (
        lambda: Ftrl(0.1, learning_rate_power=-1),
        [
            [0.9760956175298805, 1.9450549450549453],
            [0.9661193726132666, 1.9284886739602767],
            [0.9594291624927873, 1.917360649179063],
        ],
        {"accum": [72.14791022818046, 26.01187635257795], "linear": [-692.2080908582798, -498.74148129744367]},
    ),
    "proximal gradient descent": (
        lambda: ProximalGradientDescent(0.1, **REGULARIZED),
        [
            [0.48039215686274506, 1.656862745098039],
            [0.15743944636678195, 1.4050365244136869],
            [-0.019898078416295414, 1.2144989483682744],
        ],
        {},
    ),
    "proximal adagrad": (
        lambda: ProximalAdagrad(0.1, **REGULARIZED),
        [
            [0.8946319976982271, 1.8847402941854714],
            [0.8233474324067075, 1.8057382517507408],
            [0.7668453968620715, 1.7425699508624044],
        ],
        {"accumulator": [64.25473682841056, 23.73700187153248]},
    ),
    "adagrad da": (
        lambda: AdagradDA(0.1),
        [
            [-0.0998005980069749, -0.0994490316197694],
            [-0.09154982797220079, -0.09264210657210592],
            [-0.08401770517333643, -0.0863892885589732],
        ],
        {
            "gradient_accumulator": [4.233857583870598, 2.616558435828949],
            "gradient_squared_accumulator": [25.393985093557987, 9.17362708365757],
        },
    ),
    "adagrad da regularized": (
        lambda: AdagradDA(0.1, **REGULARIZED),
        [
            [-0.09741570024126157, -0.09550089910346658],
            [-0.0871130496777181, -0.08512138914072279],
            [-0.0778078788628287, -0.07561808702413375],
        ],
        None,
    ),
}

# PyTorch keeps the product of the momenta of NAdam in float32.
TOLERANCE = {"nadam, PyTorch": 1e-9}


def close(result, expected, tolerance=1e-12):
    # Slots reach 700, so an absolute tolerance is given room for their own precision.
    np.testing.assert_allclose(np.asarray(result), expected, rtol=4e-15, atol=tolerance)


def loss_of(x):
    return 0.5 * x @ (H @ x)


def test_every_optimizer_is_in_the_table():
    classes = {
        each for _, each in inspect.getmembers(optimizers, inspect.isclass) if issubclass(each, optimizers.Optimizer)
    }
    assert classes - {optimizers.Optimizer} == set(OPTIMIZERS)
    traced = {type(make_one()) for make_one, *_ in TRACES.values()}
    assert set(OPTIMIZERS) - traced == {kind for kind, *_ in BY_EQUATIONS.values()}


@pytest.mark.parametrize("name", TRACES)
def test_three_steps_of_minimize(name):
    make_one, path, slots = TRACES[name]
    optimizer, x = make_one(), fg.Variable(START)
    assert optimizer.get_slot_names() == []
    for point in path:
        assert optimizer.minimize(lambda: loss_of(x)) is None
        if point is not None:
            close(x, point, TOLERANCE.get(name, 1e-12))
    if slots is not None:
        assert optimizer.get_slot_names() == sorted(slots)
        for slot, value in slots.items():
            close(optimizer.get_slot(x, slot), value)


@pytest.mark.parametrize("name", TRACES)
def test_three_steps_of_apply_gradients(name):
    make_one, path, slots = TRACES[name]
    optimizer, x = make_one(), fg.Variable(START)
    for point in path:
        assert optimizer.apply_gradients([(H @ x.numpy(), x)]) is None
        if point is not None:
            close(x, point, TOLERANCE.get(name, 1e-12))
    for slot, value in (slots or {}).items():
        close(optimizer.get_slot(x, slot), value)


@pytest.mark.parametrize("name", TRACES)
def test_three_steps_as_pure_functions(name):
    make_one, path, slots = TRACES[name]
    optimizer = make_one()
    params = {"x": np.array(START), "more": [2.0]}
    before = plain(params)
    state = optimizer.init(params)
    assert slots is None or sorted(state.slots) == sorted(slots)
    states, first = [state], None
    for point in path:
        grads = fg.grad(lambda p: loss_of(p["x"]) + p["more"][0] ** 2)(params)
        params, state = optimizer.update(grads, state, params)
        first = first or params
        if point is not None:
            close(params["x"], point, TOLERANCE.get(name, 1e-12))
        states.append(state)
    for slot, value in (slots or {}).items():
        close(state.slots[slot]["x"], value)
    assert before == {"x": START, "more": [2.0]}
    # Nothing has been changed in place: the first state gives the first step again.
    start = {"x": np.array(START), "more": [2.0]}
    again, _ = optimizer.update({"x": H @ START, "more": [4.0]}, states[0], start)
    assert plain(again) == plain(first)
    assert [s.step for s in states] == [0, 1, 2, 3]


def test_rounded_numbers_of_tensorflow():
    # TensorFlow rounds Ftrl's strengths to float32, so that its numbers differ a little.
    for options, x3, accum, linear, tolerance in (
        (
            REGULARIZED,
            [0.7139386774005941, 1.551114523108945],
            [57.521281670064376, 20.92482297628754],
            [-54.53267369971816, -71.67409892929729],
            2e-8,
        ),
        (
            {**REGULARIZED, "l2_shrinkage_regularization_strength": 0.3},
            [0.6901515715924231, 1.4684553434718814],
            [55.98742703168392, 20.29040771750328],
            [-52.01647859041067, -66.83376965880183],
            4e-7,
        ),
    ):
        optimizer, x = Ftrl(0.1, **options), fg.Variable(START)
        for _ in range(3):
            optimizer.minimize(lambda: loss_of(x))
        close(x, x3, 1e-7)
        close(optimizer.get_slot(x, "accum"), accum, tolerance)
        close(optimizer.get_slot(x, "linear"), linear, tolerance)


# Those that no other implementation was asked about: the equations of their papers, once more in NumPy


def amsgrad(x, rate, steps, beta1=0.9, beta2=0.999, epsilon=1e-8):
    m = v = largest = np.zeros(2)
    for t in range(1, steps + 1):
        g = H @ x
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        largest = np.maximum(largest, v)
        x = x - rate * np.sqrt(1 - beta2**t) / (1 - beta1**t) * m / (np.sqrt(largest) + epsilon)
    return x


def radam(x, rate, steps, beta1=0.9, beta2=0.999, epsilon=1e-8, threshold=4):
    m = v = np.zeros(2)
    rho_inf = 2 / (1 - beta2) - 1
    for t in range(1, steps + 1):
        g = H @ x
        v = beta2 * v + (1 - beta2) * g**2
        m = beta1 * m + (1 - beta1) * g
        mhat = m / (1 - beta1**t)
        rho = rho_inf - 2 * t * beta2**t / (1 - beta2**t)
        if rho > threshold:
            length = np.sqrt(1 - beta2**t) / (np.sqrt(v) + epsilon)
            r = np.sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
            x = x - rate * r * mhat * length
        else:
            x = x - rate * mhat
    return x


def lamb(x, rate, steps, beta1=0.9, beta2=0.999, epsilon=1e-6, decay=0.0):
    m = v = np.zeros(2)
    for t in range(1, steps + 1):
        g = H @ x
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + epsilon)
        r = r + decay * x
        x = x - rate * np.linalg.norm(x) / np.linalg.norm(r) * r
    return x


def lion(x, rate, steps, beta1=0.9, beta2=0.99, decay=0.0):
    m = np.zeros(2)
    for _ in range(steps):
        g = H @ x
        c = beta1 * m + (1 - beta1) * g
        x = x - rate * (np.sign(c) + decay * x)
        m = beta2 * m + (1 - beta2) * g
    return x


def adamax(x, rate, steps, beta1=0.9, beta2=0.999):
    m = u = np.zeros(2)
    for t in range(1, steps + 1):
        g = H @ x
        m = beta1 * m + (1 - beta1) * g
        u = np.maximum(beta2 * u, np.abs(g))
        x = x - rate / (1 - beta1**t) * m / u
    return x


BY_EQUATIONS = {
    "amsgrad": (AMSGrad, amsgrad, {}),
    "radam": (RAdam, radam, {}),
    "lamb": (Lamb, lamb, {}),
}
MORE_BY_EQUATIONS = {
    **BY_EQUATIONS,
    "amsgrad that forgets fast": (AMSGrad, amsgrad, {"beta2": 0.5}),
    "radam, PyTorch's threshold": (RAdam, radam, {"threshold": 5.0}),
    "radam, never steady": (RAdam, radam, {"beta2": 0.6}),
    "radam, soon steady": (RAdam, radam, {"beta2": 0.9}),
    "lamb with weight decay": (Lamb, lamb, {"decay": 0.3}),
    "lion": (Lion, lion, {}),
    "lion with weight decay": (Lion, lion, {"decay": 0.3}),
    "adamax without epsilon": (Adamax, adamax, {}),
}


@pytest.mark.parametrize("steps", [1, 2, 5, 6, 12])
@pytest.mark.parametrize("name", MORE_BY_EQUATIONS)
def test_the_equations_of_the_papers(name, steps):
    kind, equations, settings = MORE_BY_EQUATIONS[name]
    own = {"weight_decay" if key == "decay" else key: value for key, value in settings.items()}
    if kind is Adamax:
        own["epsilon"] = 0.0
    optimizer, x = kind(0.1, **own), fg.Variable(START)
    for _ in range(steps):
        optimizer.minimize(lambda: loss_of(x))
    close(x, equations(np.array(START), 0.1, steps, **settings), 1e-13)


def test_radam_and_amsgrad_can_place_epsilon_as_adam_can():
    # With a huge epsilon and the corrected form, each step is learning_rate * mhat / epsilon, nearly.
    for kind in (Adam, AMSGrad, Nadam, Lamb, RAdam):
        x, y = fg.Variable(START), fg.Variable(START)
        kind(0.1, beta2=0.9, epsilon=3.0, corrected_epsilon=True).minimize(lambda: loss_of(x))
        kind(0.1, beta2=0.9, epsilon=3.0, corrected_epsilon=False).minimize(lambda: loss_of(y))
        if kind is RAdam:  # the first step does not divide
            assert x.tolist() == y.tolist()
        else:
            assert np.abs(x.numpy() - y.numpy()).min() > 1e-3


# What holds for all


@EVERY
def test_variables_and_pure_functions_take_the_same_path(kind):
    rng = np.random.default_rng(0)
    optimizer, pure = make(kind), make(kind)
    w, b = fg.Variable(rng.normal(size=(3, 2))), fg.Variable(rng.normal(size=2))
    params = (w.numpy(), b.numpy())
    state = pure.init(params)
    for _ in range(8):
        grads = (rng.normal(size=(3, 2)), rng.normal(size=2))
        optimizer.apply_gradients(zip(grads, (w, b), strict=True))
        params, state = pure.update(grads, state, params)
    np.testing.assert_array_equal(np.asarray(params[0]), w.numpy())
    np.testing.assert_array_equal(np.asarray(params[1]), b.numpy())
    for name in optimizer.get_slot_names():
        np.testing.assert_array_equal(np.asarray(state.slots[name][0]), optimizer.get_slot(w, name))


@EVERY
def test_a_quadratic_is_minimized(kind):
    optimizer, x = make(kind), fg.Variable(START)
    for _ in range(300):
        optimizer.minimize(lambda: loss_of(x))
    assert loss_of(x.numpy()) < 0.02 * loss_of(np.array(START))
    assert optimizer.iterations == 300


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
@EVERY
def test_dtypes_are_kept(kind, dtype):
    real = np.float16 if dtype == np.float16 else np.float32
    x = fg.Variable(np.array(START, dtype))
    optimizer = make(kind, np.array([0.1, 0.1]), weight_decay=0.0 if kind in RECOMPUTING else np.float64(0.1))
    for _ in range(2):
        optimizer.apply_gradients([(np.ones(2), x)])  # a float64 gradient and a float64 learning rate
        assert x.dtype == dtype
    for slot in optimizer.get_slot_names():
        assert optimizer.get_slot(x, slot).dtype in (dtype, real)
    params, state = {"x": np.array(START, dtype)}, optimizer.init({"x": np.array(START, dtype)})
    kinds = [leaf.dtype for leaf in fg.tree_leaves(state.slots)]
    for _ in range(2):
        params, state = optimizer.update({"x": np.ones(2)}, state, params)
        assert params["x"].dtype == dtype
        assert [leaf.dtype for leaf in fg.tree_leaves(state.slots)] == kinds
    assert set(kinds) <= {np.dtype(dtype), np.dtype(real)}


@EVERY
def test_a_complex_parameter_turns_with_the_complex_plane(kind):
    # A real path is the path of complex numbers on the real axis, and turning the axis turns the path.
    iteration = np.exp(0.7j)
    real, flat, turned = fg.Variable(START), fg.Variable(np.array(START) + 0j), fg.Variable(np.array(START) * iteration)
    one, two, three = make(kind, 0.1), make(kind, 0.1), make(kind, 0.1)
    for _ in range(4):
        one.minimize(lambda: loss_of(real))
        for optimizer, z in ((two, flat), (three, turned)):
            optimizer.minimize(lambda: np.real(0.5 * np.conj(z) @ (H @ z)))
    np.testing.assert_allclose(flat.numpy(), real.numpy(), rtol=1e-14)
    np.testing.assert_allclose(turned.numpy(), iteration * real.numpy(), rtol=1e-13)


@EVERY
def test_a_complex_quadratic_is_minimized(kind):
    target = np.array([2.0 - 1.0j, 1.0 + 1.0j])
    z = fg.Variable([1.0 + 5.0j, -3.0j])
    optimizer = make(kind, 0.05 if kind is Lion else None)
    start = np.sum(np.abs(z.numpy() - target) ** 2)
    for _ in range(600):
        optimizer.minimize(lambda: np.sum(np.abs(z - target) ** 2))
    assert np.sum(np.abs(z.numpy() - target) ** 2) < 0.05 * start


@EVERY
def test_gradients_that_are_zero(kind):
    x = fg.Variable([1.0, -2.0])
    optimizer = make(kind)
    for _ in range(3):
        optimizer.apply_gradients([(np.zeros(2), x)])
    assert np.isfinite(x.numpy()).all()
    assert all(np.isfinite(optimizer.get_slot(x, name)).all() for name in optimizer.get_slot_names())


@EVERY
def test_empty_arrays(kind):
    x = fg.Variable(np.zeros((0, 3)))
    optimizer = make(kind)
    optimizer.apply_gradients([(np.zeros((0, 3)), x)])
    assert x.shape == (0, 3)
    assert optimizer.update([], optimizer.init([]), [])[0] == []


# Rows gathered from a table: after two steps, of which the first used row 0 twice, the second rows 1 and 2.
# Gradients are dense, so rows that were not used have the gradient 0, and move where their state says so.
ROWS = {
    "gradient descent": (lambda: GradientDescent(0.1), [0.8, 0.9, 0.9], {}),
    # TensorFlow's sparse form of this one lets untouched rows rest: [.8, .9, .9] and momentum [2, 1, 1].
    "momentum": (lambda: Momentum(0.1, momentum=0.9), [0.62, 0.9, 0.9], {"momentum": [1.8, 1.0, 1.0]}),
    "adagrad": (lambda: Adagrad(0.1), [0.9012270, 0.9046537, 0.9046537], {}),
    # And of this one: rms [1.3, 1, 1].
    "rmsprop": (lambda: RMSProp(0.1), [0.8245884, 0.8951715, 0.8951715], {"rms": [1.17, 0.91, 0.91]}),
    "adam": (lambda: Adam(0.1), [0.8329942, 0.9255863, 0.9255863], {"m": [0.18, 0.1, 0.1]}),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_a_table(name):
    make_one, rows, slots = ROWS[name]
    table, optimizer = fg.Variable(np.ones((3, 1))), make_one()
    optimizer.minimize(lambda: np.sum(np.take(table, [0, 0], axis=0)))
    optimizer.minimize(lambda: np.sum(np.take(table, [1, 2], axis=0)))
    np.testing.assert_allclose(table.numpy()[:, 0], rows, rtol=0, atol=5e-8)
    for slot, value in slots.items():
        np.testing.assert_allclose(optimizer.get_slot(table, slot)[:, 0], value, rtol=1e-12)


@EVERY
def test_memory_does_not_grow(kind):
    optimizer, x = make(kind, 1e-3), fg.Variable(np.ones(1000))

    def steps(count):
        for _ in range(count):
            optimizer.minimize(lambda: np.sum(x * x))

    steps(20)
    tracemalloc.start()
    steps(20)
    before = tracemalloc.get_traced_memory()[0]
    steps(100)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 8000, "less than a single array of those that each step makes"


# Training that is interrupted, saved, and goes on in another process


def resumable(kind, scheduled):
    rate = OPTIMIZERS[kind][1]
    return make(kind, schedules.ExponentialDecay(rate, 3, 0.5) if scheduled else rate)


def variables_of_a_model():
    rng = np.random.default_rng(1)
    return [
        fg.Variable(rng.normal(size=(3, 2)), name="w"),
        fg.Variable(rng.normal(size=2).astype(np.float32), name="b"),
        fg.Variable(rng.normal(size=2) * 1j, name="z"),
    ]


def trained(optimizer, variables, first, last):
    for step in range(first, last):
        x = np.random.default_rng(step).normal(size=(5, 3))
        w, b, z = variables
        optimizer.minimize(lambda: np.sum(np.tanh(x @ w + b) ** 2) + np.sum(np.abs(z - step) ** 2), var_list=variables)
    return [variable.numpy() for variable in variables]


def resume(folder):
    """Go on with every run in a folder; this is what the other process does."""
    for path in Path(folder).glob("*.begun"):
        name, scheduled = path.stem.split("-")
        optimizer = resumable(getattr(optimizers, name), scheduled == "True")
        saved = fg.load(path)
        variables = saved["model"]
        optimizer.load_state_dict(saved["optimizer"])
        result = trained(optimizer, variables, 2, 4)
        fg.save(path.with_suffix(".done"), {"model": result, "optimizer": optimizer.state_dict()})


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for kind in OPTIMIZERS:
        for scheduled in (False, True):
            optimizer, variables = resumable(kind, scheduled), variables_of_a_model()
            trained(optimizer, variables, 0, 2)
            path = folder / f"{kind.__name__}-{scheduled}.begun"
            fg.save(path, {"model": variables, "optimizer": optimizer.state_dict()})
    here = str(Path(__file__).parent)
    program = f"import test_optimizer_traces; test_optimizer_traces.resume({str(folder)!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, str(Path(here).parent)])}
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, env=environment)
    return folder


def identical(left, right):
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(identical(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(identical, left, right))
    left, right = np.asarray(left), np.asarray(right)
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


@pytest.mark.parametrize("scheduled", [False, True])
@EVERY
def test_a_run_that_was_interrupted_ends_as_one_that_was_not(resumed, kind, scheduled):
    optimizer, variables = resumable(kind, scheduled), variables_of_a_model()
    expected = trained(optimizer, variables, 0, 4)
    done = fg.load(resumed / f"{kind.__name__}-{scheduled}.done")
    assert identical(done["model"], expected)
    assert identical(done["optimizer"], optimizer.state_dict())
    assert done["optimizer"]["step"] == 4


@EVERY
def test_a_pure_state_is_saved_whole(kind, tmp_path):
    optimizer = make(kind)
    params = {"w": np.array(START), "b": (np.float32(3.0), [])}
    grads = {"w": np.ones(2), "b": (1.0, [])}
    params, state = optimizer.update(grads, optimizer.init(params), params)
    fg.save(tmp_path / "state", (params, state))
    loaded_params, loaded_state = fg.load(tmp_path / "state", like=(params, state))
    assert type(loaded_state) is optimizers.State
    expected = optimizer.update(grads, state, params)
    again = optimizer.update(grads, loaded_state, loaded_params)
    assert identical(fg.tree_leaves(expected), fg.tree_leaves(again))
