"""How many of a hundred planted faults the tests catch; `make faults` runs it."""
