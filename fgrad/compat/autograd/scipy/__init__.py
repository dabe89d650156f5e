"""SciPy's names, with the derivatives of `fgrad.scipy`; other functions are SciPy's own."""

from fgrad.compat.autograd.scipy import integrate, linalg, signal, special, stats

__all__ = ["integrate", "linalg", "signal", "special", "stats"]
