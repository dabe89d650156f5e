"""SciPy's names with derivatives, by the rules of `fgrad.scipy`; others are SciPy's own."""

from fgrad.compat.autograd.scipy import integrate, linalg, signal, special, stats

__all__ = ["integrate", "linalg", "signal", "special", "stats"]
