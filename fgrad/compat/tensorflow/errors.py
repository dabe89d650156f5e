"""`tf.errors`: the errors of sessions, by TensorFlow's names."""

from fgrad.compat.tensorflow.missing import missing
from fgrad.errors import FailedPreconditionError as FailedPreconditionError
from fgrad.errors import FgradError as OpError
from fgrad.errors import InvalidArgumentError as InvalidArgumentError

__all__ = ["FailedPreconditionError", "InvalidArgumentError", "OpError"]

__getattr__ = missing(__name__)
