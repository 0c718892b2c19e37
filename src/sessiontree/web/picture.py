"""The tree of a session as a picture: time runs down, each branch has a lane. Pure.

Every line is a message, in the order of the file; a branch bends away where it parts. Tool calls
and settings are left out, and of very long sessions all but prompts, forks, summaries and labels.
The lane of the active branch is the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sessiontree.export.html.document import title_of
from sessiontree.export.html.markup import attribute, text
from sessiontree.export.html.outline import KINDS, Row
from sessiontree.web.comparison import find_branches
from sessiontree.web.frame import Frame
from sessiontree.web.listing import count
from sessiontree.web.reading import Reading

MOST_NODES = 3_000
_ROW, _LANE, _LEFT, _RADIUS = 26, 18, 20, 5
_TEXT_WIDTH = 760
_CHARACTERS = 96
_MOST_LANES = 40
_TALK = frozenset(("user", "assistant", "command", "note", "compaction", "summary"))
_MARKS = frozenset(("user", "compaction", "summary"))
_ANCHOR, _PARENT, _KIND, _NAME, _TEXT, _LABEL = 0, 1, 2, 3, 4, 7


@dataclass(slots=True)
class Node:
    """A message of the picture: ``number`` is its entry's, ``parent`` that of the node above."""

    number: int
    parent: int
    kind: str
    lane: int = 0
    line: int = 0


def lay_out(rows: Sequence[Row], leaf: int) -> dict[int, Node]:
    """The nodes by number, in the order of their lines."""
    nodes = _choose(rows, _is_talk)
    if len(nodes) > MOST_NODES:
        forks = _forks(nodes)
        nodes = _choose(rows, lambda row, number: _is_mark(row) or number in forks)
    for line, node in enumerate(nodes.values()):
        node.line = line
    _take_lanes(nodes, _path_to(rows, leaf))
    return nodes


def _is_talk(row: Row, number: int) -> bool:
    del number
    return KINDS[row[_KIND]] in _TALK or bool(row[_LABEL])


def _is_mark(row: Row) -> bool:
    return KINDS[row[_KIND]] in _MARKS or bool(row[_LABEL])


def _choose(rows: Sequence[Row], is_shown: Callable[[Row, int], bool]) -> dict[int, Node]:
    """Nodes for the rows that are shown, each below the nearest one above it that is."""
    nodes: dict[int, Node] = {}
    above: list[int] = []
    for number, row in enumerate(rows):
        parent = row[_PARENT]
        nearest = above[parent] if 0 <= parent < number else -1
        if is_shown(row, number):
            nodes[number] = Node(number, nearest, KINDS[row[_KIND]])
            nearest = number
        above.append(nearest)
    return nodes


def _forks(nodes: Mapping[int, Node]) -> set[int]:
    """Where branches part, where each begins, and the ends."""
    counts: dict[int, int] = {}
    for node in nodes.values():
        counts[node.parent] = counts.get(node.parent, 0) + 1
    found = {number for number in nodes if counts.get(number, 0) != 1}
    return found | {node.number for node in nodes.values() if counts.get(node.parent, 0) > 1}


def _path_to(rows: Sequence[Row], leaf: int) -> set[int]:
    path: set[int] = set()
    at = leaf
    while 0 <= at < len(rows) and at not in path:
        path.add(at)
        at = rows[at][_PARENT]
    return path


def _take_lanes(nodes: Mapping[int, Node], active: set[int]) -> None:
    """Give each node its parent's lane if it continues that, else a free one to the right."""
    heirs: dict[int, int] = {}
    for node in nodes.values():
        if node.parent not in heirs or (node.number in active and heirs[node.parent] not in active):
            heirs[node.parent] = node.number
    ends: dict[int, int] = {}  # the last line of the run that each node is in
    for node in reversed(list(nodes.values())):  # children stand below their parents
        heir = heirs.get(node.number)
        ends[node.number] = ends[heir] if heir is not None else node.line
    taken: list[int] = []  # the last line of each lane
    for node in nodes.values():
        parent = nodes.get(node.parent)
        if heirs[node.parent] == node.number and parent is not None:
            node.lane = parent.lane
            continue
        begin = parent.line if parent is not None else node.line
        first = 0 if node.number in active or not taken else 1
        lane = next((at for at in range(first, len(taken)) if taken[at] < begin), len(taken))
        lane = max(lane, first)
        taken += [-1] * (lane + 1 - len(taken))
        taken[lane] = ends[node.number]
        node.lane = lane


def draw_page(frame: Frame, reading: Reading) -> str:
    """The page around the picture."""
    title = title_of(reading.view)
    here = frame.url(f"s/{reading.row.key}")
    drawn = draw_picture(reading.rows, reading.leaf, here, f"Tree of {title}")
    branches = len(find_branches(reading.rows, reading.leaf))
    compare = f' · <a href="{here}/compare">Compare two branches</a>' if branches > 1 else ""
    main = (
        f'<h1 dir="auto">{text(title)}</h1><p class="lead">{count(branches, "branch")} · '
        f'<a href="{here}">To the session</a>{compare}</p>'
        '<div class="zoom" role="group" aria-label="Size of the picture">'
        '<button type="button" data-zoom="out" aria-label="Smaller">−</button>'
        '<output id="zoomed">100%</output>'
        '<button type="button" data-zoom="in" aria-label="Larger">+</button>'
        '<button type="button" data-zoom="fit">Fit</button></div>'
        f'<div id="frame" tabindex="0">{drawn}</div>'
    )
    return frame.page(f"Tree · {title}", main, scripts=("picture.js",), classes="plain wide")


# -- drawing -----------------------------------------------------------------------------------


def draw_picture(rows: Sequence[Row], leaf: int, page: str, title: str) -> str:
    """The picture as SVG; ``page`` is the address of the session's page."""
    nodes = lay_out(rows, leaf)
    active = _path_to(rows, leaf)
    lanes = min(_MOST_LANES, 1 + max((node.lane for node in nodes.values()), default=0))
    start = _LEFT + lanes * _LANE
    width, height = start + _TEXT_WIDTH, max(1, len(nodes)) * _ROW + 12
    edges = "".join(_draw_edge(nodes[node.parent], node, active) for node in nodes.values()
                    if node.parent in nodes)  # fmt: skip
    drawn = "".join(_draw_node(node, rows[node.number], active, leaf, start, page)
                    for node in nodes.values())  # fmt: skip
    return (
        f'<svg id="picture" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="group" aria-label="{attribute(title)}">{edges}{drawn}</svg>'
    )


def _draw_edge(parent: Node, node: Node, active: set[int]) -> str:
    x, y = _place(parent)
    to_x, to_y = _place(node)
    kind = "active" if node.number in active else "edge"
    if x == to_x:
        return f'<path class="{kind}" d="M{x} {y}V{to_y}"/>'
    bend = y + _ROW
    return (
        f'<path class="{kind}" d="M{x} {y}C{x} {y + _ROW * 0.7:.0f} {to_x} {y + _ROW * 0.3:.0f} '
        f'{to_x} {bend}V{max(bend, to_y)}"/>'
    )


def _draw_node(node: Node, row: Row, active: set[int], leaf: int, start: int, page: str) -> str:
    x, y = _place(node)
    state = " active" if node.number in active else ""
    label = f'<tspan class="label">{text(row[_LABEL])}</tspan> ' if row[_LABEL] else ""
    said = _shorten(row[_TEXT], _CHARACTERS - len(row[_LABEL]) - len(row[_NAME]))
    ring = f'<circle class="leaf" cx="{x}" cy="{y}" r="{_RADIUS + 3}"/>' if (
        node.number == leaf
    ) else ""  # fmt: skip
    return (
        f'<a class="{node.kind}{state}" href="{page}#{attribute(row[_ANCHOR])}">'
        f"<title>{text(row[_NAME])}: {text(row[_TEXT])}</title>"
        f'<rect class="line" x="0" y="{y - _ROW // 2}" width="{start + _TEXT_WIDTH}" '
        f'height="{_ROW}"/>{ring}<circle cx="{x}" cy="{y}" r="{_RADIUS}"/>'
        f'<text x="{start}" y="{y + 4}">{label}<tspan class="who">{text(row[_NAME])}</tspan> '
        f"<tspan>{text(said)}</tspan></text></a>"
    )


def _place(node: Node) -> tuple[int, int]:
    return _LEFT + min(node.lane, _MOST_LANES - 1) * _LANE, node.line * _ROW + _ROW // 2 + 6


def _shorten(said: str, most: int) -> str:
    return said if len(said) <= most else said[: max(0, most - 1)] + "…"
