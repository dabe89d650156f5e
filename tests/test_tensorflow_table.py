"""The table of `docs/from-tensorflow.md` is what its command prints."""

from pathlib import Path

import pytest
import tensorflow_table
from tensorflow_table import Row, result

PAGE = Path(__file__).parents[1] / "docs" / "from-tensorflow.md"


@pytest.mark.filterwarnings("ignore")
def test_the_page_has_what_the_command_prints():
    page = PAGE.read_text()
    assert "python tests/tensorflow_table.py" in page
    assert "\n".join(tensorflow_table.table()) in page, "write what the command prints"


def test_results_are_shown_without_types_of_the_library():
    assert (
        result(Row("eager", ("tf.constant([1.0, 1 / 3]), tf.constant(2), None",)), "fgrad")
        == "([1.0, 0.333333], 2, None)"
    )
    assert (
        result(Row("graph", ("x = tf.placeholder(tf.float32, [None])", "feed = {x: [1.0]}", "run(2.0 * x)")), "fgrad")
        == "[2.0]"
    )
    assert result(Row("eager", ("tf.no_such_name",)), "fgrad") == "raises AttributeError"
    assert (
        result(Row("eager", ("tfe.gradients_function(lambda x: 1.0 * x, params=['y'])(1.0)",)), "fgrad")
        == "raises ValueError"
    )
