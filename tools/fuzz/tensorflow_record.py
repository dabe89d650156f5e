"""Write TensorFlow's answers to the programs of `tensorflow_programs.py`: `python -m fuzz.tensorflow_record 800`.

For an environment with TensorFlow and fgrad in it, with `tools` on the path. Of a program that TensorFlow
refuses the name of the error is the answer. Numbers are written with ten digits.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf

from fuzz.tensorflow_programs import RECORD, digest, program, run_text


def short(x: Any) -> Any:
    """Return numbers with ten digits."""
    if isinstance(x, list):
        return [short(item) for item in x]
    return float(f"{x:.10g}") if isinstance(x, float) else x


def main(count: int) -> None:
    """Write the record of the programs of so many seeds."""
    programs = {}
    for seed in range(count):
        mode, text = program(seed)
        try:
            answers = run_text(mode, text, tf, tf.compat.v1)
        except (ValueError, LookupError, TypeError) as error:
            print(f"{seed}: {type(error).__name__}: {str(error)[:100]}")
            answers = type(error).__name__
        programs[str(seed)] = [digest(text), short(answers)]
    lines = ",\n".join(f"{json.dumps(seed)}: {json.dumps(kept)}" for seed, kept in programs.items())
    RECORD.write_text(f'{{"version": {json.dumps(tf.__version__)}, "programs": {{\n{lines}\n}}}}\n')
    print(f"{len(programs)} of {count} programs")


if __name__ == "__main__":
    main(int(sys.argv[1]))
