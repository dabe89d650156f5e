"""Deferred expressions: TensorFlow's graph mode over fgrad's eager operations.

Read in this order:

    mode.py        whether a call happens now or becomes a node of a graph
    dtypes.py      dtypes with TensorFlow's names
    convert.py     from Python values to tensors, by TensorFlow's defaults
    graph.py       Graph, its nodes, and `operation`, which makes a function deferrable
    state.py       variables of a graph, which live in sessions, and assignments to them
    branches.py    what runs only where a condition holds
    symbolic.py    gradients as nodes
    session.py     Session: evaluates each node once per run, under a tape where derivatives are asked for
    loops.py       what runs as often as a condition holds

There is no second differentiation here: a node holds a Python function, running it calls the function
on eager tensors, and the derivatives are those of a `GradientTape`.
"""
