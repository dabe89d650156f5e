"""The program that a function runs, written down."""
