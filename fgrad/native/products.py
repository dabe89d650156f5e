"""How products of matrices, and what is solved with them, are lowered."""
