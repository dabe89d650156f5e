"""`fgrad.profile`: what each line of a function costs."""

import functools
from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad import errors


def layer(h: Any, w: Any) -> Any:
    return np.tanh(np.exp(h @ w * 0.01))


def network(weights: Any, x: Any) -> Any:
    h = x
    for w in weights:
        h = layer(h, w)
    h = h * 2.0
    return np.sum(h)


def by_source(report: Any) -> dict[str, Any]:
    return {line.source.strip(): line for line in report.lines}


def test_each_line_has_its_operations_and_the_memory_that_it_keeps():
    report = fg.profile(network)([np.eye(10)] * 3, np.ones((50, 10)))
    lines = by_source(report)
    assert lines["h = layer(h, w)"].operations == 3 * 4  # within what the line calls, too
    assert lines["h = layer(h, w)"].bytes_kept == (3 + 2) * 50 * 10 * 8  # results of exp; and of tanh, for `@`
    assert lines["h = h * 2.0"].operations == 1
    assert lines["h = h * 2.0"].bytes_kept == 0
    assert lines["h = x"].operations == 0
    assert report.total.operations == 14
    assert float(report.value) == pytest.approx(float(network([np.eye(10)] * 3, np.ones((50, 10)))))


def test_times_are_of_the_lines_that_take_them():
    def work(x: Any) -> Any:
        y = np.linalg.inv(x)
        z = y * 2.0
        return np.sum(z)

    lines = by_source(fg.profile(work)(np.eye(300) + 0.01))
    heavy, light = lines["y = np.linalg.inv(x)"], lines["z = y * 2.0"]
    assert heavy.forward > light.forward > 0
    assert heavy.backward > light.backward > 0


def test_a_checkpoint_is_advised_where_it_pays_and_keeps_nothing_where_it_is():
    def plain(x: Any) -> Any:
        y = layer(x, np.eye(10))
        return np.sum(y * y)

    def spared(x: Any) -> Any:
        y = fg.checkpoint(layer)(x, np.eye(10))
        return np.sum(y)

    report = fg.profile(plain)(np.ones((50, 10)))
    assert "A checkpoint would save memory in line" in report.advice
    assert f"line {by_source(report)['y = layer(x, np.eye(10))'].number}:" in report.advice
    again = fg.profile(spared)(np.ones((50, 10)))
    assert by_source(again)["y = fg.checkpoint(layer)(x, np.eye(10))"].bytes_kept <= 10 * 10 * 8  # the constant matrix
    assert again.advice == "" or "checkpoint(layer)" not in again.advice


def test_variables_are_inputs_and_functions_with_rules_have_their_line():
    w = fg.Variable(np.ones(4))

    @fg.custom_vjp
    def clipped(x: Any) -> Any:
        return x * 1.0

    clipped.defvjp(lambda x: (clipped(x), None), lambda residuals, ct: (ct,))

    def loss(x: Any) -> Any:
        y = w * x
        z = clipped(y)
        return np.sum(z * z)

    lines = by_source(fg.profile(loss)(np.arange(4.0)))
    assert lines["y = w * x"].operations == 1
    assert lines["z = clipped(y)"].backward > 0


def test_as_text_and_as_html():
    report = fg.profile(network)([np.eye(2)], np.ones((3, 2)))
    text = str(report)
    assert text.splitlines()[0] == "network: costs of differentiation by line"
    assert "h = layer(h, w)" in text
    assert text.splitlines()[2].split() == ["line", "operations", "kept", "forward", "backward", "source"]
    page = report._repr_html_()
    assert page.count("<tr") == len(report.lines) + 2
    assert "for w in weights:" in page


def test_methods_and_partials():
    class Model:
        def loss(self, x: Any) -> Any:
            return np.sum(x * x)

    assert fg.profile(Model().loss)(np.ones(2)).total.operations == 2
    assert fg.profile(functools.partial(network, [np.eye(2)]))(np.ones((3, 2))).total.operations == 6


def test_what_cannot_be_shown_says_so():
    with pytest.raises(errors.ParameterError, match="the source of sin is not available: it was not written in"):
        fg.profile(np.sin)(1.0)
    with pytest.raises(errors.NoResultError, match="a function that returns None"):
        fg.profile(lambda x: None)(1.0)
    with pytest.raises(errors.NotCallableError, match="profile takes a function"):
        fg.profile(3.0)
