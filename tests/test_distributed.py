"""Losses over partitions: the same on a cluster as in one process, whatever happens to the workers.

The cluster has two worker processes, and lives as long as this module. Worker processes are killed by their id.
"""

import dataclasses
import gc
import importlib.util
import logging
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.array
import distributed
import numpy as np
import pytest
from scipy.optimize import minimize

import fgrad as fg
import fgrad.distributed as fd
from fgrad.distributed.totals import Totals

ROOT = Path(__file__).parent.parent

# A connection or a loop that distributed closes when a worker was killed, or at its end, is collected later.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*:RuntimeWarning:distributed"),
]


@pytest.fixture(scope="module")
def client():
    """Two workers, which import fgrad from here."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with mock.patch.dict(os.environ, {"PYTHONPATH": paths}):
        options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
        with distributed.LocalCluster(**options, silence_logs=logging.CRITICAL) as cluster:
            with distributed.Client(cluster) as opened:
                yield opened


# What workers run is made by functions, so that it is sent as it is, and no worker imports this module.


def line_loss():
    def loss(p, part):
        x, y = part
        return np.sum((x @ p["w"] + p["b"] - y) ** 2) + np.sum(np.tanh(p["w"]))

    return loss


def made_at_workers():
    def made(number):
        rng = np.random.default_rng(number)
        rows = 40 + 3 * number  # parts of different sizes
        return rng.normal(size=(rows, 3)), rng.normal(size=rows)

    return made


COUNT = 10  # more than one level of sums, and a last group that is not full
PARAMS = {"w": np.array([0.3, -0.7, 1.1]), "b": 0.25}


@pytest.fixture
def parts():
    made = made_at_workers()
    return [made(number) for number in range(COUNT)]


def bits(tree):
    return [np.asarray(leaf).tobytes() for leaf in fg.tree_leaves(tree)]


def start():
    return {"w": np.zeros(3), "b": 0.0}


def kill(client, future=None):
    """Kill one worker, or those that hold a future, and return their processes."""
    running = client.run(os.getpid)
    chosen = [min(running)] if future is None else client.who_has([future])[future.key]
    for address in chosen:
        os.kill(running[address], signal.SIGKILL)
    return {running[address] for address in chosen}


def wait_for_two(client, killed):
    """Wait until the scheduler knows two workers, none of which was killed."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            found = set(client.run(os.getpid).values())
        except (OSError, TimeoutError):  # one is going just now
            found = set()
        if len(found) == 2 and not found & killed:
            return
        time.sleep(0.05)
    raise AssertionError("the workers did not come back")


# The same result


def test_the_sum_over_parts_and_its_gradient(parts):
    loss = line_loss()
    value, gradient = fd.value_and_grad(loss)(PARAMS, parts)

    def whole(p):
        return sum(loss(p, part) for part in parts)

    expected, slopes = fg.value_and_grad(whole)(PARAMS)
    assert value == pytest.approx(float(expected), rel=1e-13)
    assert gradient.keys() == slopes.keys()
    for name in slopes:
        np.testing.assert_allclose(gradient[name], slopes[name], rtol=1e-12)
    direction = {"w": np.array([1.0, 2.0, 3.0]), "b": 4.0}
    product, expected = fd.hvp(loss)(PARAMS, direction, parts), fg.hvp(whole)(PARAMS, direction)
    for name in expected:
        np.testing.assert_allclose(product[name], expected[name], rtol=1e-12)


def test_terms_are_added_in_a_tree_of_eight():
    terms = np.random.default_rng(0).normal(size=70) * 10.0 ** np.arange(70)
    found, _ = fd.value_and_grad(lambda x, part: x * part)(1.0, list(terms))
    level = list(terms)
    while len(level) > 1:
        groups = [level[i : i + 8] for i in range(0, len(level), 8)]
        level = [sum(group[1:], group[0]) for group in groups]
    assert float(found) == level[0]
    assert level[0] != sum(terms)  # otherwise this would not tell


def test_a_cluster_gives_the_same_bits_as_one_process(client, parts):
    loss = line_loss()
    here = fd.value_and_grad(loss)(PARAMS, parts)
    sent = fd.value_and_grad(loss, client=client)
    made = client.map(made_at_workers(), range(COUNT), pure=False)
    for given in (parts, fd.Partitions(parts, client), made):
        assert bits(sent(PARAMS, given)) == bits(here)
    direction = {"w": np.array([1.0, 2.0, 3.0]), "b": 4.0}
    product = fd.hvp(loss, client=client)(PARAMS, direction, made)
    assert bits(product) == bits(fd.hvp(loss)(PARAMS, direction, parts))


def test_one_worker_gives_the_same_bits_as_two(client, parts):
    address = min(client.run(os.getpid))
    loss = line_loss()
    spread = client.map(made_at_workers(), range(COUNT), pure=False)
    together = client.map(made_at_workers(), range(COUNT), pure=False, workers=[address])
    sent = fd.value_and_grad(loss, client=client)
    assert bits(sent(PARAMS, together)) == bits(sent(PARAMS, spread)) == bits(fd.value_and_grad(loss)(PARAMS, parts))


def test_containers_of_a_class_that_only_this_process_knows(client, parts):
    @fg.register_dataclass
    @dataclasses.dataclass
    class Line:
        slope: object
        offset: object

    def loss(p, part):
        x, y = part
        penalty = sum(np.sum(leaf**2) for leaf in fg.tree_leaves(p))
        return np.sum((x @ p.slope + p.offset[0] - y) ** 2) + penalty

    params = Line(np.ones(3), [0.5, None])
    value, gradient = fd.value_and_grad(loss, client=client)(params, parts)
    assert isinstance(gradient, Line)
    assert gradient.offset[1] is None
    assert bits((value, gradient)) == bits(fd.value_and_grad(loss)(params, parts))
    assert all(type(leaf) is fg.Tensor for leaf in fg.tree_leaves(gradient))


def test_dtypes_and_python_numbers_are_kept(client):
    params = {"single": np.float32([1.0, 2.0]), "complex": 1 + 2j, "number": 2.0, "tensor": fg.constant([3.0])}

    def loss(p, part):
        return np.sum(p["single"] * part) + np.abs(p["complex"]) ** 2 + p["number"] * p["tensor"][0]

    given = [np.float32([1, 2]), np.float32([3, 4])]
    value, gradient = fd.value_and_grad(loss, client=client)(params, given)
    assert {name: leaf.dtype for name, leaf in gradient.items()} == {
        "single": np.float32, "complex": np.complex128, "number": np.float64, "tensor": np.float64,
    }  # fmt: skip
    assert bits((value, gradient)) == bits(fd.value_and_grad(loss)(params, given))


@pytest.mark.parametrize("on_cluster", [False, True])
def test_aux_comes_back_for_each_part_in_order(client, on_cluster):
    def loss(slope, part):
        scores = slope * part
        return np.sum(scores**2), {"scores": scores, "rows": len(part)}

    parts = [np.arange(float(rows)) for rows in range(1, 12)]
    chosen = client if on_cluster else None
    (value, aux), gradient = fd.value_and_grad(loss, client=chosen, has_aux=True)(2.0, parts)
    assert [each["rows"] for each in aux] == list(range(1, 12))
    np.testing.assert_array_equal(aux[3]["scores"], [0.0, 2.0, 4.0, 6.0])
    assert gradient == value  # of a square at 2


def test_variables_in_params_and_closed_over_have_their_present_values(client, parts):
    w, scale = fg.Variable(np.ones(3), name="w"), fg.Variable(2.0, name="scale")

    def loss(p, part):
        x, y = part
        return scale * np.sum((x @ p["w"] - y) ** 2)

    sent = fd.value_and_grad(loss, client=client)
    first = sent({"w": w}, parts)
    w.assign(np.array([3.0, 2.0, 1.0]))
    scale.assign(5.0)
    second = sent({"w": w}, parts)
    assert bits(second) == bits(fd.value_and_grad(loss)({"w": w}, parts))
    assert bits(first) != bits(second)


def test_what_a_loss_closes_over_is_sent_again_when_it_changes(client):
    settings = {"power": 2}

    def loss(x, part):
        return np.sum((x * part) ** settings["power"])

    sent, given = fd.value_and_grad(loss, client=client), [np.ones(2), np.ones(3)]
    assert sent(2.0, given)[0] == 20
    settings["power"] = 3
    assert sent(2.0, given)[0] == 40


def test_a_list_is_sent_once_and_again_when_it_has_changed(client):
    given = [np.ones(4), np.full(4, 2.0), np.full(4, 3.0)]
    sent = fd.value_and_grad(lambda x, part: np.sum(x * part), client=client)
    with mock.patch.object(client, "scatter", wraps=client.scatter) as scatter:
        assert [float(sent(1.0, given)[0]) for _ in range(3)] == [24.0] * 3
        assert sum(len(call.args[0]) for call in scatter.mock_calls) == 3
        given[1][:] = 0.0
        assert sent(1.0, given)[0] == 16
        assert sum(len(call.args[0]) for call in scatter.mock_calls) == 6


def test_partitions_do_not_come_to_the_client_and_are_not_sent_again(client, parts):
    partitions = fd.Partitions(parts, client)
    futures = partitions.placed()
    assert len({places for holders in client.who_has(futures).values() for places in holders}) == 2  # spread over both
    sent = fd.value_and_grad(line_loss(), client=client)
    with mock.patch.object(client, "scatter", side_effect=AssertionError):
        sent(PARAMS, partitions)
        sent(PARAMS, partitions)
    assert all(a is b for a, b in zip(partitions.placed(), futures, strict=True))


def test_each_part_is_computed_by_the_worker_that_has_it(client, parts):
    futures = client.map(made_at_workers(), range(COUNT), pure=False)
    given = fd.Partitions(futures, client)
    distributed.wait(futures)
    sent = fd.value_and_grad(lambda p, part: (p * 1.0, os.getpid()), client=client, has_aux=True)
    processes, holders = client.run(os.getpid), client.who_has(futures)
    (_, aux), _ = sent(1.0, given)
    assert all(processes[holders[each.key][0]] == process for each, process in zip(futures, aux, strict=True))
    assert client.who_has(futures) == holders  # and no other has a copy


def test_parts_may_be_containers_of_futures(client):
    x, y = client.submit(np.arange, 5.0), client.submit(np.ones, 5)
    parts = [(x, y), {"x": x, "y": y}]

    def loss(p, part):
        first, second = part if isinstance(part, tuple) else (part["x"], part["y"])
        return np.sum((p * first - second) ** 2)

    assert fd.value_and_grad(loss, client=client)(0.5, parts)[0] == 2 * np.sum((0.5 * np.arange(5.0) - 1) ** 2)


def test_large_parameters_go_out_by_another_way(client):
    params, given = np.arange(100_000.0), [np.ones(100_000), np.full(100_000, 2.0)]
    value, gradient = fd.value_and_grad(lambda p, part: np.sum(p * part), client=client)(params, given)
    assert value == 3 * np.sum(params)
    np.testing.assert_array_equal(gradient, np.full(100_000, 3.0))


def test_scipy_minimizes_over_partitions(client, parts):
    loss = line_loss()

    def flat(x, part):
        return loss({"w": x[:3], "b": x[3]}, part) / 1000

    def fitted(chosen):
        found = fd.Partitions(parts, chosen)
        slopes, product = fd.value_and_grad(flat, client=chosen), fd.hvp(flat, client=chosen)
        return minimize(
            slopes, np.zeros(4), args=(found,), jac=True, hessp=product, method="trust-ncg", options={"gtol": 1e-9}
        )

    found = fitted(client)
    assert found.success
    assert found.x.tobytes() == fitted(None).x.tobytes()


# Failures


@pytest.mark.parametrize("on_cluster", [False, True])
def test_a_failing_loss_names_the_partition_and_the_line(client, on_cluster):
    def loss(p, part):
        if part > 3:
            raise ArithmeticError("too much of it")  # this line
        return p * part

    with pytest.raises(
        fg.errors.PartitionError, match=r"loss failed for partition 11 of 20: ArithmeticError"
    ) as caught:
        fd.value_and_grad(loss, client=client if on_cluster else None)(1.0, [1.0] * 11 + [4.0] * 9)
    assert 'raise ArithmeticError("too much of it")  # this line' in str(caught.value)
    assert "test_distributed.py:" in str(caught.value)
    assert caught.value.partition == 11
    assert type(caught.value.__cause__) is ArithmeticError
    assert str(caught.value.__cause__) == "too much of it"


def test_an_exception_that_cannot_be_sent_is_told(client):
    def loss(p, part):
        class OddError(Exception):
            def __init__(self, a, b):
                super().__init__("odd")

            def __reduce__(self):
                raise TypeError("no pickle")

        raise OddError(1, 2)

    with pytest.raises(fg.errors.PartitionError, match="RuntimeError: OddError: odd"):
        fd.value_and_grad(loss, client=client)(1.0, [1.0, 2.0])


def test_a_loss_that_is_no_number_names_the_partition(client):
    with pytest.raises(fg.errors.PartitionError, match="partition 0") as caught:
        fd.value_and_grad(lambda p, part: p * part, client=client)(1.0, [np.ones(2)])
    assert isinstance(caught.value.__cause__, fg.errors.NonScalarError)


def test_a_part_that_cannot_be_made_is_named(client):
    def made(number):
        if number == 2:
            raise FileNotFoundError("part-2.npy")
        return float(number)

    futures = client.map(made, range(4), pure=False)
    with pytest.raises(fg.errors.PartitionError, match="partition 2 of 4 could not be made") as caught:
        fd.value_and_grad(lambda p, part: p * part, client=client)(1.0, futures)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_an_error_of_partitions_survives_a_pickle():
    error = pickle.loads(pickle.dumps(fg.errors.PartitionError("partition 3 is lost", 3)))
    assert (type(error), error.partition) == (fg.errors.PartitionError, 3)


def test_a_loss_cannot_assign_a_variable_on_a_worker(client):
    count = fg.Variable(0.0, name="count")

    def loss(p, part):
        count.assign_add(1.0)
        return p * part

    with pytest.raises(fg.errors.PartitionError, match="assigns the variable 'count'"):
        fd.value_and_grad(loss, client=client)(1.0, [1.0, 2.0])


def test_a_variable_of_a_module_that_workers_import_is_refused(client, tmp_path, monkeypatch):
    module = tmp_path / "module_with_a_variable.py"
    module.write_text(
        "import fgrad as fg\nw = fg.Variable(1.0, name='theirs')\ndef loss(p, part): return p * w * part\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    client.run(lambda: sys.path.insert(0, str(tmp_path)))
    import module_with_a_variable

    module_with_a_variable.w.assign(100.0)
    with pytest.raises(fg.errors.PartitionError, match="reads the variable 'theirs' of a module"):
        fd.value_and_grad(module_with_a_variable.loss, client=client)(1.0, [1.0, 2.0])


def test_the_result_is_not_differentiated(client):
    sent = fd.value_and_grad(lambda p, part: p * p * part, client=client)
    for chosen in (sent, fd.value_and_grad(lambda p, part: p * p * part)):
        with pytest.raises(fg.errors.ExportError):
            fg.grad(lambda p: chosen(p, [1.0, 2.0])[0])(3.0)
    w = fg.Variable(3.0)
    with pytest.raises(fg.errors.ExportError):
        fg.implicit_gradients(lambda: sent(w, [1.0, 2.0])[0])()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: g(1.0, []), "ParameterError", "there are no partitions"),
        (lambda g: g(1.0, np.ones((3, 2))), "ParameterError", "must be a list of parts"),
        (lambda g: g(1.0), "ParameterError", r"Write value_and_grad\(loss, client=client\)\(params, partitions\)"),
        (lambda g: g(1, [1.0]), "IntegerInputError", "of type int"),
        (lambda g: fd.value_and_grad(3.0), "NotCallableError", "takes a function"),
        (lambda g: fd.value_and_grad(max, client="tcp://x"), "ParameterError", "must be a distributed.Client"),
        (lambda g: fd.hvp(max)(1.0, np.ones(2), [1.0]), "TangentError", r"hvp\(loss, client=client\)\(params, v,"),
        (lambda g: fd.run(max, None, [1.0], 1), "NoVariablesError", "params is None"),
        (lambda g: fd.run(max, 1.0, [1.0], 1, every=0), "ParameterError", "every must be"),
    ],
)  # fmt: skip
def test_wrong_arguments(call, error, message):
    with pytest.raises(getattr(fg.errors, error), match=message):
        call(fd.value_and_grad(lambda p, part: p * part))


def test_futures_need_a_client_and_dask_collections_are_not_parts(client):
    future = client.submit(float, 1)
    loss = line_loss()
    with pytest.raises(fg.errors.ParameterError, match="partition 1 is on a cluster"):
        fd.value_and_grad(loss)(1.0, [1.0, future])
    with pytest.raises(fg.errors.ParameterError, match="futures_of"):
        fd.value_and_grad(loss, client=client)(1.0, dask.array.ones(10, chunks=5))
    with pytest.raises(fg.errors.ParameterError, match="compute anew at each step"):
        fd.value_and_grad(loss, client=client)(1.0, [dask.delayed(float)(1)])
    with pytest.raises(fg.errors.ParameterError, match="the client is None"):
        fd.value_and_grad(loss)(1.0, fd.Partitions([1.0], client))


# Workers that are lost


@pytest.mark.parametrize("kind", ["sent", "made"])
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(client, kind, tmp_path, parts):
    marks = str(tmp_path)

    def slow(p, part):
        with open(f"{marks}/{time.monotonic_ns():020}-{os.getpid()}", "w"):
            time.sleep(0.05)
        x, y = part
        return np.sum((x @ p["w"] + p["b"] - y) ** 2) + np.sum(np.tanh(p["w"]))

    given = fd.Partitions(parts, client) if kind == "sent" else client.map(made_at_workers(), range(COUNT), pure=False)
    sent = fd.value_and_grad(slow, client=client)
    expected = bits(fd.value_and_grad(line_loss())(PARAMS, parts))

    def kill_when_begun():
        while len(begun := sorted(os.listdir(marks))) < 4:
            time.sleep(0.01)
        killed = int(begun[-1].split("-")[1])  # it is not done yet: the other may hold all that was done before
        os.kill(killed, signal.SIGKILL)
        return {killed}

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill_when_begun)
        found = sent(PARAMS, given)
        killed = killing.result()
    assert bits(found) == expected
    assert len(os.listdir(marks)) > COUNT  # what was lost has been computed again
    wait_for_two(client, killed)
    assert bits(sent(PARAMS, given)) == expected


def repeat_until_noticed(call):
    """Call until the scheduler has noticed that a worker is gone; a step before that finds its results elsewhere."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        call()
        time.sleep(0.05)


def test_a_lost_part_that_was_overwritten_here_is_an_error(client):
    arrays = [np.full(3, float(number)) for number in range(6)]
    partitions = fd.Partitions(arrays, client)
    for array in arrays:
        array += 1.0
    sent = fd.value_and_grad(lambda p, part: np.sum(p * part), client=client)
    assert sent(1.0, partitions)[0] == 45  # as they were sent
    killed = kill(client, partitions.placed()[2])
    with pytest.raises(fg.errors.PartitionError, match="has been overwritten since"):
        repeat_until_noticed(lambda: sent(1.0, partitions))
    wait_for_two(client, killed)


def test_a_lost_part_that_nobody_can_make_again_is_named(client):
    futures = client.scatter([np.full(3, float(number)) for number in range(6)], hash=False)
    sent = fd.value_and_grad(lambda p, part: np.sum(p * part), client=client)
    assert sent(1.0, futures)[0] == 45
    killed = kill(client, futures[2])
    with pytest.raises(fg.errors.PartitionError, match=r"is lost, and cannot be recovered"):
        repeat_until_noticed(lambda: sent(1.0, futures))
    wait_for_two(client, killed)


# Runs


def test_a_run_is_the_same_with_any_number_of_workers(client, parts):
    def ran(chosen, **options):
        return fd.run(line_loss(), start(), parts, 6, fg.optimizers.Adam(0.1), client=chosen, progress=False, **options)

    here, there = ran(None), ran(client)
    assert bits((here.params, here.state, here.losses)) == bits((there.params, there.state, there.losses))
    assert here.losses[-1] < here.losses[0]
    assert list(there.gradient_norms) == ["['b']", "['w']"]
    assert there.planned == len(there) == 6
    stopped = ran(client, callback=lambda step, loss, gradients: step == 2)
    assert (len(stopped), stopped.stopped) == (2, "callback")
    again = ran(None, state=here.state)
    assert bits(again.params) != bits(here.params)


def variables_and_loss():
    w, b = fg.Variable(np.zeros(3), name="w"), fg.Variable(0.0, name="b")

    def loss(part):
        x, y = part
        return np.sum((x @ w + b - y) ** 2) + np.sum(np.tanh(w))

    return [w, b], loss


def test_a_run_on_variables(client, parts):
    results = []
    for chosen in (None, client):
        variables, loss = variables_and_loss()
        history = fd.run(loss, variables, parts, 6, fg.optimizers.Adam(0.1), client=chosen, progress=False)
        results.append(bits([v.numpy() for v in variables]) + bits(history.losses))
        assert list(history.gradient_norms) == ["w", "b"]
        assert history.params is variables
    container = fd.run(line_loss(), start(), parts, 6, fg.optimizers.Adam(0.1), progress=False)
    assert results[0] == results[1]
    assert results[0][:2] == bits([container.params["w"], container.params["b"]])


def test_a_loss_that_reads_none_of_the_variables(client):
    with pytest.raises(fg.errors.PartitionError, match="partition 0") as caught:
        fd.run(lambda part: part, fg.Variable(1.0), [1.0], 2, client=client, progress=False)
    assert isinstance(caught.value.__cause__, fg.errors.FgradError)


@pytest.mark.parametrize("of_variables", [False, True])
def test_a_run_that_was_saved_goes_on_as_if_it_had_not_ended(tmp_path, parts, of_variables):
    def ran(steps, path=None, every=10):
        plateau = fg.optimizers.schedules.ReduceOnPlateau(0.1, patience=1)

        def callback(step, loss, gradients):
            plateau.update(loss)

        optimizer = fg.optimizers.Adam(plateau)
        options = {"progress": False, "save_to": path, "every": every, "callback": callback}
        if not of_variables:
            return fd.run(line_loss(), start(), parts, steps, optimizer, **options)
        variables, loss = variables_and_loss()
        history = fd.run(loss, variables, parts, steps, optimizer, **options)
        return dataclasses.replace(history, params=[v.numpy() for v in variables])

    path = tmp_path / "run.safetensors"
    ran(4, path)
    halves, whole = ran(9, path), ran(9)
    assert len(halves) == 9
    assert bits((halves.params, halves.state, halves.losses)) == bits((whole.params, whole.state, whole.losses))
    norms = [bits(history.gradient_norms) for history in (halves, whole)]
    assert norms[0] == norms[1]
    assert np.all(np.diff(halves.times) >= 0)
    assert bits(ran(9, path).params) == bits(whole.params)  # nothing is left to be done


def test_a_run_is_saved_after_every_so_many_steps(tmp_path, parts):
    path, counts = tmp_path / "run.safetensors", []

    def callback(step, loss, gradients):
        counts.append(len(fg.load(path)["losses"]))

    fd.run(line_loss(), start(), parts[:2], 8, save_to=path, every=3, callback=callback, progress=False)
    assert counts == [0, 0, 0, 3, 3, 3, 6, 6]
    assert len(fg.load(path)["losses"]) == 8


def test_the_file_of_another_run_is_refused(tmp_path, parts):
    path, loss = tmp_path / "run.safetensors", line_loss()
    options = {"save_to": path, "progress": False}
    fd.run(loss, start(), parts, 4, fg.optimizers.Adam(0.1), **options)
    with pytest.raises(fg.errors.LoadError, match="of shapes"):
        fd.run(loss, {"w": np.zeros(4), "b": 0.0}, parts, 5, **options)
    with pytest.raises(fg.errors.LoadError, match="10 partitions, and there are 9"):
        fd.run(loss, start(), parts[1:], 5, **options)
    with pytest.raises(fg.errors.LoadError, match="4 steps, and 3 are wanted"):
        fd.run(loss, start(), parts, 3, **options)
    with pytest.raises(fg.errors.StateError, match="optimizer Adam"):
        fd.run(loss, start(), parts, 5, fg.optimizers.Momentum(0.1, momentum=0.9), **options)
    variables, other = variables_and_loss()
    with pytest.raises(fg.errors.LoadError):
        fd.run(other, variables, parts, 5, **options)
    fg.save(path, {"w": 1.0})
    with pytest.raises(fg.errors.LoadError, match=r"not a file of fgrad\.distributed\.run"):
        fd.run(loss, start(), parts, 5, **options)


PROGRAM = """
import os, signal, sys
import numpy as np
import fgrad as fg, fgrad.distributed as fd

def made(number):
    rng = np.random.default_rng(number)
    return rng.normal(size=(50, 3)), rng.normal(size=50)

def ran(client, path, callback=None):
    def loss(p, part):
        x, y = part
        return np.sum((x @ p["w"] + p["b"] - y) ** 2)

    parts = client.map(made, range(10), pure=False) if client else list(map(made, range(10)))
    params, optimizer = {"w": np.zeros(3), "b": 0.0}, fg.optimizers.Adam(0.1)
    options = {"client": client, "save_to": path, "every": 2, "callback": callback, "progress": False}
    return fd.run(loss, params, parts, 9, optimizer, **options)
"""

KILLED = """
import distributed

def die(step, value, gradients):
    if step == 5:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        ran(client, sys.argv[1], die)
"""


def test_a_run_goes_on_bit_for_bit_after_its_client_was_killed(client, tmp_path):
    script, path = tmp_path / "script.py", tmp_path / "run.safetensors"
    script.write_text(PROGRAM + KILLED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), str(path)]
    killed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(fg.load(path)["losses"]) == 4

    here: dict[str, Any] = {"__name__": "here"}
    exec(PROGRAM, here)
    resumed, whole = here["ran"](client, path), here["ran"](None, tmp_path / "other.safetensors")
    assert len(resumed) == len(whole) == 9
    assert bits((resumed.params, resumed.state, resumed.losses)) == bits((whole.params, whole.state, whole.losses))


# The package


def test_fgrad_does_not_import_it():
    libraries = ("dask", "distributed", "cloudpickle")
    code = f"import sys, fgrad; print([m for m in sys.modules if m.partition('.')[0] in {libraries}])"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_without_dask_the_extra_is_named():
    code = """
    import importlib.util, sys
    found = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *rest: None if name == "distributed" else found(name, *rest)
    import fgrad
    try:
        import fgrad.distributed
    except ImportError as error:
        print(type(error).__name__, str(error).splitlines()[0])
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("MissingExtraError fgrad.distributed needs the library dask.distributed")
    assert "pip install 'dask[array,distributed]'" in ran.stdout


def test_the_example_gives_what_it_gives_in_memory(client):
    spec = importlib.util.spec_from_file_location("cluster_example", ROOT / "examples" / "cluster.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fits = module.run(client, rows=3000, columns=4, chunks=5)
    assert sorted(fits) == ["Poisson", "logistic"]
    for name, each in fits.items():
        np.testing.assert_allclose(each.coefficients, each.in_memory, rtol=0, atol=1e-10, err_msg=name)
        scale = 0.5 if name == "Poisson" else 1.0
        np.testing.assert_allclose(each.coefficients, scale * module.truth(4), atol=0.2, err_msg=name)


def test_steps_leave_nothing_in_the_client_or_on_the_workers(client, parts):
    partitions = fd.Partitions(parts, client)
    sent = fd.value_and_grad(line_loss(), client=client)
    sent(PARAMS, partitions)
    gc.collect()
    before = len(client.futures)
    for _ in range(5):
        sent(PARAMS, partitions)
    gc.collect()
    deadline = time.monotonic() + 10.0
    while len(client.futures) > before and time.monotonic() < deadline:
        time.sleep(0.01)  # dask forgets in a thread of its own
    assert len(client.futures) <= before  # fewer, where dask has forgotten some of an earlier test only now


# The last tests: dask does not always start a worker again that has ended by itself twice.


def test_a_sum_that_only_a_lost_worker_could_make_is_not_waited_for(client):
    """A task that is bound to a worker that is gone waits for ever, and nobody says so."""
    totals = Totals(client)
    there = set(client.nthreads())
    late = client.submit(lambda: time.sleep(1.5) or "here", pure=False)
    totals._wait(late, there)  # longer than between two looks
    assert late.result() == "here"
    bound = client.submit(lambda: 1, workers=["tcp://127.0.0.1:1"], pure=False)
    with pytest.raises(CancelledError), ThreadPoolExecutor(1) as aside:
        waiting = aside.submit(totals._wait, bound, there | {"tcp://127.0.0.1:1"})
        try:
            waiting.result(timeout=15.0)  # of what waits for ever this would be a TimeoutError
        finally:
            bound.cancel()


@pytest.mark.parametrize("kind", ["sent", "made"])
def test_a_loss_that_no_worker_survives_is_an_error(client, tmp_path, monkeypatch, kind):
    marks = str(tmp_path)
    client.wait_for_workers(1, timeout=120)

    def loss(p, part):
        if part == 2.0:
            with open(f"{marks}/{os.getpid()}", "w"):
                os._exit(1)
        return p * part

    # Once is enough: by default a sum is begun five times, and a task of dask's is tried on four workers.
    monkeypatch.setattr("fgrad.distributed.totals._ATTEMPTS", 1)
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    parts = [1.0, 2.0, 3.0] if kind == "sent" else client.map(float, [1, 2, 3], pure=False)
    expected = "workers were lost in each of 1 attempts|all workers that had partition [0-2] of 3"
    with pytest.raises(fg.errors.PartitionError, match=expected):
        fd.value_and_grad(loss, client=client)(1.0, parts)
