"""fgrad"""
from fgrad import ops
