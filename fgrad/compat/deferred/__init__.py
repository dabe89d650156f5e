"""Deferred expressions: TensorFlow's graph mode over fgrad's eager operations.

Read in this order:

    mode.py        whether a call is executed immediately or becomes a node of a graph
    dtypes.py      dtypes with TensorFlow's names
    convert.py     conversion of Python values to tensors, by TensorFlow's defaults
    graph.py       Graph, its nodes, and `operation`, which makes a function deferrable
    state.py       graph variables, whose values belong to sessions, and their assignments
    branches.py    conditional execution
    symbolic.py    gradients as nodes
    session.py     Session: evaluates each node once per run, under a tape if derivatives are requested
    loops.py       while loops

Graphs are not differentiated separately: a node holds a Python function, a run calls the function
on eager tensors, and the derivatives are those of a `GradientTape`.
"""
