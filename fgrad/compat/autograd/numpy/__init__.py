"""NumPy's names, as `autograd.numpy` has them: `import fgrad.compat.autograd.numpy as np`.

    >>> import fgrad.compat.autograd.numpy as np
    >>> from fgrad.compat.autograd import grad
    >>> grad(lambda x: np.sum(np.array([x, x**2])))(3.0)
    np.float64(7.0)

NumPy's own functions are differentiable for traced values, so most names are NumPy's. Functions that create arrays, or
accept iterables, return a writable plain array, or a tensor if an argument is traced.
"""

from fgrad.compat.autograd.numpy import (
    fft,
    linalg,
    numpy_boxes,
    numpy_jvps,
    numpy_vjps,
    numpy_vspaces,
    numpy_wrapper,
    random,
)

__version__ = numpy_wrapper.numpy_version

__all__ = [
    "fft", "linalg", "numpy_boxes", "numpy_jvps", "numpy_vjps", "numpy_vspaces", "numpy_wrapper", "random",
]  # fmt: skip
__all__ += numpy_wrapper.__all__


globals().update({name: getattr(numpy_wrapper, name) for name in numpy_wrapper.__all__ if name not in globals()})
