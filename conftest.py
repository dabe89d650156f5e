"""What is not collected: tests and examples for a library that is not installed. `make peers-test` installs it."""

import importlib.util

_OF_TORCH = ["fgrad/interop/torch_export.py", "fgrad/interop/torch_functions.py", "tests/test_interop_torch.py"]

_OF_SPARSE = ["tests/test_payloads_sparse.py"]

collect_ignore = [
    name
    for package, names in {"torch": _OF_TORCH, "sparse": _OF_SPARSE}.items()
    if not importlib.util.find_spec(package)
    for name in names
]
