"""Packages that use HIPS Autograd, run on fgrad: their own tests with either, and Autograd's examples."""
