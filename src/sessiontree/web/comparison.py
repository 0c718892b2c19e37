"""Two branches of a session side by side, from where they part. Pure.

Both are cut into turns, which begin with a prompt; turns of one number stand beside each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sessiontree.export.html.document import title_of
from sessiontree.export.html.markup import attribute, text
from sessiontree.export.html.outline import HAS_ARTICLE, KINDS, Row
from sessiontree.web.frame import Frame
from sessiontree.web.listing import count
from sessiontree.web.reading import Reading

MOST_ARTICLES = 150
"""The most messages to show of one side."""
_MOST_BRANCHES = 200
_PARENT, _KIND, _NAME, _TEXT, _FLAGS = 1, 2, 3, 4, 5
_ANCHOR = 0
_BEFORE = frozenset(("summary", "compaction", "note", "state"))
"""Kinds of entries that a new branch may have before its first prompt."""
_ONE_BRANCH = (
    '<div id="nothing"><h2>There is one branch only</h2><p>A second one begins where somebody goes '
    "back and says something else.</p></div>"
)


@dataclass(frozen=True, slots=True)
class Branch:
    """The end of a branch, and the entries that lead to it."""

    end: int
    path: Sequence[int]


def find_branches(rows: Sequence[Row], leaf: int) -> list[Branch]:
    """The branches: the active one first, then those that ended last."""
    parents = {row[_PARENT] for row in rows}
    ends = [number for number in range(len(rows)) if number not in parents]
    shown: dict[int, Branch] = {}
    for end in (leaf, *reversed(ends)):
        path = _path_to(rows, end)
        talk = [number for number in path if rows[number][_FLAGS] & HAS_ARTICLE]
        if talk and talk[-1] not in shown:
            shown[talk[-1]] = Branch(talk[-1], path)
        if len(shown) == _MOST_BRANCHES:
            break
    return _without_beginnings(list(shown.values()))


def _without_beginnings(branches: list[Branch]) -> list[Branch]:
    """Leave out branches that end on another one's path, as one that ends with a setting may."""
    inside = {number for branch in branches for number in branch.path if number != branch.end}
    return [branch for at, branch in enumerate(branches) if at == 0 or branch.end not in inside]


def _path_to(rows: Sequence[Row], end: int) -> list[int]:
    path: list[int] = []
    met: set[int] = set()
    while 0 <= end < len(rows) and end not in met:
        met.add(end)
        path.append(end)
        end = rows[end][_PARENT]
    return path[::-1]


def split(
    rows: Sequence[Row], one: Branch, other: Branch
) -> tuple[list[int], list[int], list[int]]:
    """Split two branches into what both have and what each has alone, as far as it shows."""
    common = 0
    for ours, theirs in zip(one.path, other.path, strict=False):
        if ours != theirs:
            break
        common += 1

    def shown(path: Sequence[int]) -> list[int]:
        return [number for number in path if rows[number][_FLAGS] & HAS_ARTICLE]

    return shown(one.path[:common]), shown(one.path[common:]), shown(other.path[common:])


def cut_into_turns(rows: Sequence[Row], numbers: Sequence[int]) -> list[list[int]]:
    """Prompts, each with what follows it; a summary or setting is with the prompt after it."""
    turns: list[list[int]] = []
    has_begun = True
    for number in numbers:
        kind = KINDS[rows[number][_KIND]]
        if not turns or (kind == "user" and has_begun):
            turns.append([])
            has_begun = False
        turns[-1].append(number)
        has_begun = has_begun or kind not in _BEFORE
    return turns


# -- the page ----------------------------------------------------------------------------------


def draw_comparison(frame: Frame, reading: Reading, given: Mapping[str, str]) -> str:
    """The page; the address names the ends of two branches."""
    rows, title = reading.rows, title_of(reading.view)
    here = frame.url(f"s/{reading.row.key}")
    branches = find_branches(rows, reading.leaf)
    head = (
        f'<h1 dir="auto">{text(title)}</h1><p class="lead"><a href="{here}">To the session</a> · '
        f'<a href="{here}/tree">Tree as a picture</a></p>'
    )
    if len(branches) < 2:
        body = _ONE_BRANCH
        return frame.page(f"Compare · {title}", head + body, classes="plain")
    one, other = _chosen(branches, given)
    common, left, right = split(rows, one, other)
    body = (
        _draw_form(rows, branches, one, other)
        + _draw_common(rows, common, here)
        + '<div class="sides">'
        + _draw_sides(reading, left, right)
        + "</div>"
        + _draw_rest(left, right)
    )
    return frame.page(f"Compare · {title}", head + body, classes="plain wide")


def _chosen(branches: Sequence[Branch], given: Mapping[str, str]) -> tuple[Branch, Branch]:
    by_end = {str(branch.end): branch for branch in branches}
    one = by_end.get(given.get("a", ""), branches[0])
    rest = [branch for branch in branches if branch is not one]
    other = by_end.get(given.get("b", ""), rest[0])
    return one, other if other is not one else rest[0]


def _draw_form(rows: Sequence[Row], branches: Sequence[Branch], one: Branch, other: Branch) -> str:
    def choice(name: str, label: str, chosen: Branch) -> str:
        options = "".join(
            f'<option value="{branch.end}"{" selected" if branch is chosen else ""}>'
            f"{'active: ' if at == 0 else ''}{text(_name(rows, branch))}</option>"
            for at, branch in enumerate(branches)
        )
        return f'<label>{label} <select name="{name}">{options}</select></label>'

    return (
        f'<form method="get" id="branches" class="branches">{choice("a", "Left", one)}'
        f'{choice("b", "Right", other)}<button type="submit">Compare</button></form>'
    )


def _name(rows: Sequence[Row], branch: Branch) -> str:
    """A branch by its last prompt, else by its end."""
    prompts = (at for at in reversed(branch.path) if KINDS[rows[at][_KIND]] == "user")
    row = rows[next(prompts, branch.end)]
    said = str(row[_TEXT] or row[_NAME])
    return said if len(said) <= 70 else said[:69] + "…"


def _draw_common(rows: Sequence[Row], common: Sequence[int], here: str) -> str:
    if not common:
        return '<p class="common">Nothing in common: they begin apart.</p>'
    last = rows[common[-1]]
    return (
        f'<p class="common">{count(len(common), "message")} in common, up to '
        f'<a href="{here}#{attribute(last[_ANCHOR])}" dir="auto">{text(last[_TEXT] or last[_NAME])}'
        "</a></p>"
    )


def _draw_sides(reading: Reading, left: Sequence[int], right: Sequence[int]) -> str:
    rows = reading.rows
    pairs = zip_longest(
        cut_into_turns(rows, left[:MOST_ARTICLES]), cut_into_turns(rows, right[:MOST_ARTICLES])
    )
    return "".join(
        _draw_turn(reading, "one", f"Left, part {at}", ours or ())
        + _draw_turn(reading, "other", f"Right, part {at}", theirs or ())
        for at, (ours, theirs) in enumerate(pairs, 1)
    )


def _draw_turn(reading: Reading, side: str, label: str, numbers: Sequence[int]) -> str:
    articles = "".join(reading.articles(numbers))
    return f'<section class="{side}" aria-label="{label}">{articles}</section>'


def _draw_rest(left: Sequence[int], right: Sequence[int]) -> str:
    if max(len(left), len(right)) <= MOST_ARTICLES:
        return ""
    return f'<p class="lead">Of each branch, the first {MOST_ARTICLES} messages are shown.</p>'
