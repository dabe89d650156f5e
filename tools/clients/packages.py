"""Which packages are run, at which versions, and what of theirs is known to come out differently."""

from __future__ import annotations

from dataclasses import dataclass, field

AUTOGRAD = "1.9.1"
"""The version of Autograd that fgrad is set beside."""


@dataclass(frozen=True)
class Client:
    """A package that imports Autograd.

    Attributes:
        name, version: on PyPI.
        tests: the file or folder of its tests in its source, or several.
        repository: where its source is, at `commit`, if the archive on PyPI has none, or not all of its tests.
        commit: of the repository; the one of the version.
        needs: what its tests import besides what it requires.
        build_needs: what has to be there before it is built, which is then done without isolation.
        is_built: it is installed from its repository, since the release on PyPI does not run with Autograd's releases.
        options: for pytest.
        variables: of the environment.
        note: what is special about this run, for the table.
    """

    name: str
    version: str
    tests: tuple[str, ...]
    repository: str = ""
    commit: str = ""
    needs: tuple[str, ...] = ()
    build_needs: tuple[str, ...] = ()
    is_built: bool = False
    options: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    note: str = ""


CLIENTS = (
    Client(
        "autograd",
        AUTOGRAD,
        ("tests",),
        repository="https://github.com/HIPS/autograd",
        commit="a9a0c434a2b09a1aaf880638fc73c42dca8b0ea8",
        needs=("pytest-cov", "pytest-xdist", "scipy", "xarray"),
        options=("-n0", "--no-cov"),  # in one process, which says to which module the name `autograd` led
        note="its own tests",
    ),
    Client(
        "lifelines",
        "0.30.3",
        ("lifelines/tests/test_estimation.py",),
        needs=("dill", "flaky", "joblib", "psutil", "statsmodels"),
        # Others have no code that Autograd differentiates, and take most of the time.
        options=("-k", "Weibull or Spline or LogNormal or LogLogistic or GeneralizedGamma or MixtureCure or CustomReg"),
        note="parametric models",
    ),
    Client(
        "pymanopt",
        "2.2.1",
        ("tests",),
        needs=("matplotlib",),
        options=("--noconftest", "--continue-on-collection-errors"),  # what needs PyTorch and TensorFlow is not there
        note="without PyTorch and TensorFlow",
    ),
    Client(
        "geomstats",
        "2.8.0",
        (
            "tests/tests_geomstats/test_backend",
            "tests/tests_geomstats/test_numerics",
            "tests/tests_geomstats/test_geometry/test_pullback_metric.py",
            "tests/tests_geomstats/test_geometry/test_invariant_metric.py",
        ),
        repository="https://github.com/geomstats/geomstats",
        commit="3e05560c5146c873af2f123b4ce0b07c3c8f7e3a",
        needs=("networkx", "nbconvert", "nbformat", "numpy<2.4"),  # it imports np.trapz
        variables={"GEOMSTATS_BACKEND": "autograd"},
        note="its backend, numerics and metrics",
    ),
    Client(
        "autograd-gamma",
        "0.5.0",
        ("tests",),
        repository="https://github.com/CamDavidsonPilon/autograd-gamma",
        commit="5876e0320865c592ed4a370c6a6ef282cf163480",
    ),
    Client(
        "surpyval",
        "0.25",
        ("surpyval/tests/univariate/regression",),
        needs=("hypothesis", "pymongo"),
        note="its regression models",
    ),
    Client("reliability", "0.9.0", ("tests",)),
    Client(
        "ssm",
        "0.0.1",
        ("tests",),
        repository="https://github.com/lindermanlab/ssm",
        commit="eb6c8aa33e5311d3564075807dec340759dd8081",
        needs=("nose", "numba", "seaborn"),
        build_needs=("cython", "numpy", "scipy", "setuptools", "wheel"),
        is_built=True,
        note="its repository",
    ),
    Client("mici", "0.4.1", ("tests/test_autodiff.py",), needs=("multiprocess",)),
    Client(
        "paragami",
        "0.42",
        ("paragami/tests",),
        repository="https://github.com/rgiordan/paragami",
        commit="ff4a9946f04a2e473d7cabc144f62bdde579b353",
        note="written for NumPy 1",
    ),
    Client(
        "autoptim",
        "0.3",
        ("autoptim/tests",),
        repository="https://github.com/pierreablin/autoptim",
        commit="0b03d0f8c5b54000d679009640303fad2caf1ebf",
        needs=("scipy",),
    ),
    Client(
        "ceviche",
        "0.1.3",
        ("tests/test_primitives.py", "tests/test_gradients_fdfd.py", "tests/test_gradients_fdfd_complex.py"),
        repository="https://github.com/fancompute/ceviche",
        commit="269cf5aaf41571e4a4c43d4f2b26f24e7172184d",
        needs=("matplotlib",),
        note="those of its primitives and of gradients",
    ),
    Client(
        "legume-gme",
        "1.0.3",
        ("tests/test_primitives.py", "tests/test_gme_grad.py"),
        repository="https://github.com/fancompute/legume",
        commit="edef021a98d5972ef52e3a65bd36ccfb742381be",
        note="those of its primitives and of gradients",
    ),
)

EXCEPTIONS = {
    ("autograd", "tests.test_fft::test_rfftn_odd_not_implemented"): "expects an error where fgrad has the derivative",
    ("autograd", "tests.test_graphs::test_assignment_raises_error"): "expects that `x[0] = y` raises; fgrad follows it",
    (
        "autograd",
        "tests.test_misc::test_const_graph_args",
    ): "the first call records the function and then runs the record, so that primitives run twice in it",
    (
        "autograd",
        "tests.test_numpy::test_cast_to_int",
    ): "`np.int64(x)` of a traced array asks NumPy for a plain one, which fgrad refuses: `x.astype(int)` does the same",
    ("autograd", "tests.test_wrappers::test_wrapped_name_and_docs"): "compares the first words of a docstring",
    (
        "paragami",
        "paragami.tests.test_autograd_supplement_lib.TestAutogradSupplement::test_slogdet_3d",
    ): "expects an error where Autograd has no derivative, of slogdet of several matrices; fgrad has it",
    (
        "reliability",
        "tests.test_ALT_fitters::test_Fit_Exponential_Power",
    ): "gradients agree to 15 digits, and the fit has a valley so flat that the last of them decides where the "
    "optimizer stops; it ends at a likelihood that is higher than the one expected",
    (
        "surpyval",
        "surpyval.tests.univariate.regression.test_no_maximum"
        "::test_728_weibull_ph_shape_and_coefficient_run_off_together",
    ): "the likelihood has no maximum, and gradients differ only where it overflowed: Autograd's have NaN from the "
    "branch that `where` did not select; with NaN in place of fgrad's, the fit ends as expected",
}
"""Tests that pass with Autograd and not with fgrad, each with the reason why that is right."""
