"""What is not collected: tests and examples for a library that is not installed. `make peers-test` installs it."""

import importlib.util

_OF_TORCH = ["fgrad/interop/lent.py", "fgrad/interop/torch_functions.py", "tests/test_interop_torch.py"]

collect_ignore = [] if importlib.util.find_spec("torch") else _OF_TORCH
