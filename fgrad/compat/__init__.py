"""Other libraries' spellings for what fgrad does."""

import fgrad.core as _core  # noqa: F401  # first, so that threads import it in one order
