"""Distances between points, as in `scipy.spatial`: the area `distance`."""

from fgrad.scipy.spatial import distance as distance
