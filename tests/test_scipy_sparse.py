import pytest
import scipy_sparse_table as table
from rows import check_calls, with_calls

@pytest.mark.parametrize("row", with_calls(table.DIFFERENTIABLE))
def test_values_and_derivatives(row):
    """SciPy's values; both modes to second order; single precision; batches."""
    check_calls(row)
