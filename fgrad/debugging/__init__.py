"""Debugging of derivatives: why one is missing, zero, not finite or wrong.

Read in this order: `reports` (a reason, and how it is shown), `cuts` (where values left a trace), `notes` (operations
with the user's lines, and `debug_nans`), `explain`, `check`.
"""

import fgrad.core  # noqa: F401  # fills its tables before a module here is loaded
