"""`tf.train.Saver`: the variables of a session in files that `fgrad.save` writes."""

from __future__ import annotations

import os
from typing import Any

from fgrad import errors, saving
from fgrad.compat.deferred.graph import default_graph
from fgrad.compat.deferred.state import GraphVariable

_ENDING = ".safetensors"


class Saver:
    """Writes the values of a graph's variables to files, and gives them back to a session.

    A file holds what optimizers remember, too, unless the variables are chosen.

    Args:
        var_list: variables, or a dict of them by the names that they have in the file; by default all.
        max_to_keep: how many files to keep: when there are more, the oldest is removed. None keeps all.
        options: TensorFlow's others, without effect.

    Raises:
        NoVariablesError: a ValueError; the graph has no variables.

    Example:
        >>> import tempfile
        >>> import fgrad.compat.tensorflow1 as tf
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     w = tf.Variable(2.0, name="w")
        ...     saver = tf.train.Saver()
        ...     session.run(w.initializer)
        ...     path = saver.save(session, tempfile.mkdtemp() + "/model", global_step=7)
        ...     session.run(w.assign(0.0))
        ...     saver.restore(session, path)
        ...     session.run(w)
        np.float32(0.0)
        np.float32(2.0)
    """

    def __init__(self, var_list: Any = None, *, max_to_keep: int | None = 5, **options: Any) -> None:
        self._is_whole = var_list is None
        variables = default_graph().variables if var_list is None else var_list
        named = variables if isinstance(variables, dict) else {each._name: each for each in variables}
        if not named:
            raise errors.NoVariablesError("No variables to save: make the variables first, and then the Saver.")
        self._variables: dict[str, GraphVariable] = dict(named)
        self._max_to_keep = max_to_keep
        self.last_checkpoints: list[str] = []

    def save(self, sess: Any, save_path: str, global_step: Any = None, **options: Any) -> str:
        """Write a file.

        Args:
            sess: the session whose values are written.
            save_path: of the file, to which ".safetensors" is added.
            global_step: a number or variable to add to the name.
            options: TensorFlow's on its other files, without effect.

        Returns:
            The path for `restore`.

        Raises:
            FailedPreconditionError: a RuntimeError; a variable has no value.
        """
        if isinstance(global_step, GraphVariable):
            global_step = sess.variable(global_step).numpy()
        path = str(save_path) if global_step is None else f"{save_path}-{int(global_step)}"
        values = {name: sess.variable(variable).numpy() for name, variable in self._variables.items()}
        saving.save(path + _ENDING, {"variables": values, "optimizers": self._optimizers(sess)})
        self._keep(path)
        return path

    def _optimizers(self, sess: Any) -> dict[str, Any]:
        """Return what the optimizers of a session remember, by the order in which the graph has them."""
        places = enumerate(_graph_of(self._variables).optimizers) if self._is_whole else ()
        return {str(place): sess.optimizers[each].state_dict() for place, each in places if each in sess.optimizers}

    def _keep(self, path: str) -> None:
        kept = [each for each in self.last_checkpoints if each != path] + [path]
        while self._max_to_keep and len(kept) > self._max_to_keep:
            oldest = kept.pop(0) + _ENDING
            if os.path.exists(oldest):
                os.remove(oldest)
        self.last_checkpoints = kept

    def restore(self, sess: Any, save_path: str) -> None:
        """Give variables the values in a file; they need not be initialized before.

        Args:
            sess: the session.
            save_path: what `save` returned.

        Raises:
            LoadError: a ValueError; the file lacks a variable, or has it in another shape. Nothing has changed then.
            OSError: there is no such file.
        """
        held = saving.load(str(save_path) + _ENDING)
        values = held["variables"]
        for name, variable in self._variables.items():
            if name not in values:
                raise errors.LoadError(f"Key {name} not found in checkpoint {save_path}; it has {sorted(values)}.")
            if not variable.shape.admits(values[name].shape):
                raise errors.LoadError(
                    f"variable {name} has shape {variable.shape}, and {values[name].shape} in {save_path}."
                )
        for name, variable in self._variables.items():
            sess.create(variable, values[name].astype(variable.dtype))
        optimizers = _graph_of(self._variables).optimizers
        for place, state in held["optimizers"].items() if self._is_whole else ():
            if int(place) < len(optimizers):
                native = optimizers[int(place)].fresh()
                native.load_state_dict(state)
                sess.optimizers[optimizers[int(place)]] = native


def _graph_of(variables: dict[str, GraphVariable]) -> Any:
    """Return the graph in which variables are."""
    return next(iter(variables.values())).graph
