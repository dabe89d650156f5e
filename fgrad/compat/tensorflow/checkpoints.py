"""`tf.train.Saver`: the variables of a session in files that `fgrad.save` writes.

A file named "checkpoint" in the same folder, as in TensorFlow, names the last one:

Saver                        writes and reads files
latest_checkpoint(folder)    the path of the last checkpoint
get_checkpoint_state         the paths of all checkpoints; update_checkpoint_state changes them
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fgrad import errors, saving
from fgrad.compat.deferred.graph import default_graph
from fgrad.compat.deferred.state import GraphVariable

if TYPE_CHECKING:
    from fgrad.compat.deferred.session import Session

_ENDING = ".safetensors"
_STATE = "checkpoint"
_LINE = re.compile(r"^\s*(\w+)\s*:\s*(\"(?:[^\"\\]|\\.)*\")\s*$", re.MULTILINE)


@dataclass
class CheckpointState:
    """The contents of the file "checkpoint" of a folder.

    Args:
        model_checkpoint_path: the last checkpoint.
        all_model_checkpoint_paths: all checkpoints, the oldest first.
    """

    model_checkpoint_path: str = ""
    all_model_checkpoint_paths: list[str] = field(default_factory=list)


def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Return whether there is a checkpoint that `Saver.restore` can read."""
    return os.path.exists(f"{os.fspath(checkpoint_prefix)}{_ENDING}")


def update_checkpoint_state(
    save_dir: Any,
    model_checkpoint_path: Any,
    all_model_checkpoint_paths: Sequence[Any] | None = None,
    latest_filename: str | None = None,
) -> None:
    """Write the list of checkpoints of a folder.

    Args:
        save_dir: the folder.
        model_checkpoint_path: the last checkpoint.
        all_model_checkpoint_paths: all checkpoints, the oldest first.
        latest_filename: the name of the file, by default "checkpoint".
    """
    last = os.fspath(model_checkpoint_path)
    paths = [each for each in map(os.fspath, all_model_checkpoint_paths or ()) if each != last]
    lines = [("model_checkpoint_path", last), *(("all_model_checkpoint_paths", each) for each in (*paths, last))]
    text = "".join(f"{key}: {json.dumps(_relative(path, save_dir), ensure_ascii=False)}\n" for key, path in lines)
    name = os.path.join(save_dir, latest_filename or _STATE)
    with open(name + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(name + ".new", name)  # atomic: a concurrent reader finds the old or the new file


def _relative(path: str, folder: Any) -> str:
    """Return a path as stored in the file: a relative one is relative to the folder, which may be moved."""
    return path if os.path.isabs(path) else os.path.relpath(path, folder or ".")


def get_checkpoint_state(checkpoint_dir: Any, latest_filename: str | None = None) -> CheckpointState | None:
    """Return the list of checkpoints of a folder, or None if there is no such file.

    Args:
        checkpoint_dir: the folder.
        latest_filename: the name of the file, by default "checkpoint".
    """
    try:
        with open(os.path.join(checkpoint_dir, latest_filename or _STATE), encoding="utf-8") as file:
            found = [(key, os.path.join(checkpoint_dir, json.loads(path))) for key, path in _LINE.findall(file.read())]
    except FileNotFoundError:
        return None
    kept = [path for key, path in found if key == "all_model_checkpoint_paths"]
    last = [path for key, path in found if key == "model_checkpoint_path"]
    return CheckpointState(last[-1], kept) if last else None


def latest_checkpoint(checkpoint_dir: object, latest_filename: str | None = None) -> str | None:
    """Return the path of the last checkpoint in a folder, for `Saver.restore`; None if there is none.

    Args:
        checkpoint_dir: the folder.
        latest_filename: the name of the file, by default "checkpoint".
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    return state.model_checkpoint_path if state and checkpoint_exists(state.model_checkpoint_path) else None


class Saver:
    """Saves the values of a graph's variables to files, and restores them in a session.

    A file also contains the state of optimizers, unless a subset of variables is selected.

    Args:
        var_list: variables, or a dict of them by their names in the file; by default all.
        max_to_keep: the maximal number of files; older ones are removed. None keeps all.
        options: further options of TensorFlow, which are ignored.

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
            raise errors.NoVariablesError("No variables to save: create the variables before the Saver.")
        self._variables: dict[str, GraphVariable] = dict(named)
        self._max_to_keep = max_to_keep
        self.last_checkpoints: list[str] = []

    def save(
        self,
        sess: Any,
        save_path: Any,
        global_step: Any = None,
        latest_filename: str | None = None,
        *,
        write_state: bool = True,
        **options: Any,
    ) -> str:
        """Save a file, and register it in the file "checkpoint" as the last one.

        Args:
            sess: the session whose values are saved.
            save_path: the path, to which ".safetensors" is appended.
            global_step: a number or variable to append to the name.
            latest_filename: the name of the file with the list of checkpoints, by default "checkpoint".
            write_state: whether to update this list, and to remove files if there are too many.
            options: TensorFlow's options for its other files, which are ignored.

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
        if write_state:
            self._keep(path)
            update_checkpoint_state(os.path.dirname(path), path, self.last_checkpoints, latest_filename)
        return path

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[Any]) -> None:
        """Include checkpoints of an earlier saver in the list of kept ones.

        Args:
            checkpoint_paths: the checkpoints, the oldest first; missing ones are skipped.
        """
        self.last_checkpoints = [os.fspath(each) for each in checkpoint_paths if checkpoint_exists(each)]

    def _optimizers(self, sess: Session) -> dict[str, Any]:
        """Return the states of a session's optimizers, in the order of the graph."""
        places = enumerate(_graph_of(self._variables).optimizers) if self._is_whole else ()
        return {str(place): sess.optimizers[each].state_dict() for place, each in places if each in sess.optimizers}

    def _keep(self, path: str) -> None:
        kept = [each for each in self.last_checkpoints if each != path] + [path]
        while self._max_to_keep and len(kept) > self._max_to_keep:
            oldest = kept.pop(0) + _ENDING
            if os.path.exists(oldest):
                os.remove(oldest)
        self.last_checkpoints = kept

    def restore(self, sess: Any, save_path: object) -> None:
        """Restore the values of variables from a file; they need not be initialized before.

        Args:
            sess: the session.
            save_path: the return value of `save`.

        Raises:
            LoadError: a ValueError; the file lacks a variable, or its shape differs, or there is no path.
                Nothing is changed in this case.
            OSError: the file does not exist.
        """
        if save_path is None:
            raise errors.LoadError(
                "save_path is None: tf.train.latest_checkpoint did not find a checkpoint in its folder; save one first."
            )
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
    """Return the graph of variables."""
    return next(iter(variables.values())).graph
