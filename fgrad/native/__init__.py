"""Recorded programs as native code: what `fgrad.compile` stands on."""

import fgrad.native.loading  # noqa: F401  # which fills a table of this package
