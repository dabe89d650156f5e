"""Recorded programs as native code: what `fgrad.compile` stands on."""
