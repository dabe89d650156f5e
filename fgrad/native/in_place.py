"""Results of a program that are stored in the memory of an input.

A function that writes into an argument, such as `w -= step`, is a program with the final value as a result. If the
program reads no element of the input after it has computed that of the result, both can share their memory.

    homes(plan, results, written)    the inputs in whose memory results are stored
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fgrad.native.nests import Rows, Write, memory_of
from fgrad.native.nodes import Elementwise, Node
from fgrad.native.plan import Item, Plan


def homes(plan: Plan, results: Sequence[Node], written: Mapping[Node, Node]) -> dict[Node, Node]:
    """Return the inputs in whose memory results can be stored, by the array of the result.

    Args:
        plan: the plan of the program.
        results: all results of the program.
        written: by result, the input of which it is the final value.
    """
    roots = [memory_of(each) for each in results]
    return {
        result: given
        for result, given in written.items()
        if result.size
        and roots.count(result) == 1
        and given not in roots
        and (result.shape, result.dtype) == (given.shape, given.dtype)
        and _is_last_use(plan, result, given)
    }


def _is_last_use(plan: Plan, result: Node, given: Node) -> bool:
    """Return whether no element of an input is read after that of the result is stored."""
    places = [place for place, item in enumerate(plan.items) if result in _targets(item)]
    item = plan.items[places[0]] if len(places) == 1 else None
    if not isinstance(item, Rows) or any(given in _read_by(later, plan) for later in plan.items[places[0] + 1 :]):
        return False
    writes = list(item.writes)
    last = _targets(item).index(result)
    return (
        writes[last].value is result
        and all(_reads_equal_index(write, given, plan) for write in writes[: last + 1])
        and not any(given in _read_for(write, write.value, plan) for write in writes[last + 1 :])
    )


def _targets(item: Item) -> list[Node]:
    return [write.target for write in item.writes] if isinstance(item, Rows) else []


def _read_by(item: Item, plan: Plan) -> set[Node]:
    """Return the arrays in memory that an item reads."""
    if isinstance(item, Rows):
        return set[Node]().union(*(_read_for(write, write.value, plan) for write in item.writes))
    return set(map(memory_of, item.arguments))


def _is_computed(node: Node, write: Write, plan: Plan) -> bool:
    """Return whether a write computes a node, whose elements are not in memory."""
    return node is write.target or node not in plan.stored


def _read_for(write: Write, value: Node, plan: Plan) -> set[Node]:
    """Return the arrays in memory from which a write computes a value."""
    seen, waiting = set[Node](), [value]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.arguments if _is_computed(node, write, plan) else ()
    return set(map(memory_of, seen))


def _reads_equal_index(write: Write, given: Node, plan: Plan) -> bool:
    """Return whether a write reads an input only at the index of the element that it computes."""
    seen, waiting = set[Node](), [write.value]
    while waiting:
        node = waiting.pop()
        if node in seen or (node is given and node.shape == write.space):
            continue
        seen.add(node)
        if isinstance(node, Elementwise) and _is_computed(node, write, plan):
            waiting += node.arguments
        elif given in _read_for(write, node, plan):
            return False
    return True
