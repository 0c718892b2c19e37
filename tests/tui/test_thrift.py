"""What reaches a terminal: only what changes, and the same picture."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sessiontree.tui.driver import fills_with_ground
from sessiontree.tui.thrift import Thrift

WIDTH, HEIGHT = 24, 12
_SEQUENCE = re.compile(r"\x1b\[(?P<codes>[\d;?]*)(?P<final>[A-Za-z])|(?P<text>[^\x1b])", re.DOTALL)


class Terminal:
    """A terminal as simple as can be: positions, styles, text, scrolling between margins."""

    def __init__(self) -> None:
        self.cells = [[(" ", "[]")] * WIDTH for _ in range(HEIGHT)]
        self.row = self.column = 0
        self.look: dict[str, str] = {}
        self.margins = (0, HEIGHT - 1)

    def feed(self, data: str) -> None:
        for found in _SEQUENCE.finditer(data):
            if found["text"] is not None:
                self._put(found["text"])
            else:
                self._run(found["codes"], found["final"])

    def _run(self, codes: str, final: str) -> None:
        numbers = [int(each) for each in codes.split(";") if each.isdigit()]
        match final:
            case "H":
                self.row, self.column = numbers[0] - 1, numbers[1] - 1
            case "C":
                self.column += numbers[0] if numbers else 1
            case "X" | "K":
                assert not {"4", "7"} & self.look.keys()
                column, end = self.column, self.column + numbers[0] if final == "X" else WIDTH
                for _ in range(column, end):
                    self._put(" ")
                self.column = column
            case "G":
                self.column = numbers[0] - 1
            case "m":
                self._set_style(codes)
            case "r":
                self.margins = (numbers[0] - 1, numbers[1] - 1) if numbers else (0, HEIGHT - 1)
                self.row = self.column = 0
            case "S" | "T":
                top, bottom = self.margins
                inside = self.cells[top : bottom + 1]
                blank = [[(" ", "[]")] * WIDTH for _ in range(numbers[0])]
                count = numbers[0]
                moved = inside[count:] + blank if final == "S" else blank + inside[:-count]
                self.cells[top : bottom + 1] = moved
            case _:
                assert codes.startswith("?")

    def _set_style(self, codes: str) -> None:
        for code in re.findall(r"[34]8;5;\d+|\d+", codes or "0"):
            match code:
                case "0":
                    self.look = {}
                case "22":
                    self.look = {k: v for k, v in self.look.items() if k not in ("1", "2")}
                case "23" | "24" | "27" | "39" | "49":
                    end = {"39": "ink", "49": "ground"}.get(code, code[1])
                    self.look = {k: v for k, v in self.look.items() if k != end}
                case _:
                    kind = {"38": "ink", "48": "ground"}.get(code[:2], code)
                    self.look = {**self.look, kind: code}

    @property
    def style(self) -> str:
        return str(sorted(self.look.items()))

    @property
    def style_of_blank(self) -> str:
        if {"4", "7"} & self.look.keys():
            return self.style
        return str([each for each in sorted(self.look.items()) if each[0] == "ground"])

    def _put(self, letter: str) -> None:
        if letter == "\r":
            return  # a line feed, which draws from the first column on, follows
        if letter == "\n":
            self.row, self.column = self.row + 1, 0
            return
        width = cell_len(letter)
        if width == 0:
            before, style = self.cells[self.row][self.column - 1]
            self.cells[self.row][self.column - 1] = (before + letter, style)
            return
        row, end = self.cells[self.row], self.column + width
        if row[self.column][0] == "":  # half of a wide letter is no letter
            row[self.column - 1] = (" ", row[self.column - 1][1])
        if end < WIDTH and row[end][0] == "":
            row[end] = (" ", row[end][1])
        self.cells[self.row][self.column : end] = [
            (letter, self.style_of_blank if letter == " " else self.style),
            *[("", self.style)] * (width - 1),
        ]
        self.column += width

    @property
    def picture(self) -> list[list[tuple[str, str]]]:
        # A style doesn't show in the second half of a wide letter.
        return [[(letter, style if letter else "") for letter, style in row] for row in self.cells]


_WORDS = st.text(st.sampled_from("abc  xyz漢é│●"), max_size=10) | st.text(st.just(" "), max_size=20)
_PIECE = st.tuples(
    st.integers(0, HEIGHT - 1),
    st.integers(0, WIDTH - 21),
    _WORDS,
    st.sampled_from(
        ["", "1", "2;1", "3;4", "7;38;5;4", "38;5;4", "38;5;4;48;5;9", "1;38;5;7;48;5;9", "48;5;9"]
    ),
)


def draw(pieces: list[tuple[int, int, str, str]]) -> str:
    """Spell a drawing as Textual does."""
    spelled = [
        f"\x1b[{row + 1};{column + 1}H\x1b[{style}m{text}\x1b[0m" if style else
        f"\x1b[{row + 1};{column + 1}H{text}"
        for row, column, text, style in pieces
    ]  # fmt: skip
    return "\n".join(spelled)


def whole(lines: list[str]) -> str:
    """A drawing of the whole screen."""
    padded = (line + " " * (WIDTH - cell_len(line)) for line in lines)
    return draw([(n, 0, line, "") for n, line in enumerate(padded)])


def only(picture: list[list[tuple[str, str]]], known: list[list[bool]]) -> list[object]:
    """The known cells of a picture."""
    return [
        cell if is_known else None
        for row, flags in zip(picture, known, strict=True)
        for cell, is_known in zip(row, flags, strict=True)
    ]


@given(st.lists(st.lists(_PIECE, max_size=8), max_size=6), st.booleans())
def test_the_picture_is_the_same(
    drawings: list[list[tuple[int, int, str, str]]], can_erase: bool
) -> None:
    plain, thrifty = Terminal(), Terminal()
    thrift = Thrift(WIDTH, HEIGHT, can_erase=can_erase)
    for data in [whole([""] * HEIGHT), *map(draw, drawings)]:
        plain.feed(data)
        thrifty.feed(thrift.squeeze(data))
        # Of a wide letter that is half overwritten nothing is known.
        known = [[cell is not None for cell in row] for row in thrift.rows]
        assert only(plain.picture, known) == only(thrifty.picture, known)


@given(st.lists(st.integers(-4, 4), max_size=8), st.integers(0, 3), st.integers(0, 3))
def test_scrolled_rows_are_moved_and_the_picture_is_the_same(
    steps: list[int], head: int, foot: int
) -> None:
    plain, thrifty, thrift = Terminal(), Terminal(), Thrift(WIDTH, HEIGHT, can_erase=True)
    first = 20
    for step in [0, *steps]:
        first += step
        middle = [f"line {n} {'漢' if n % 7 == 3 else ''}" for n in range(first, first + 20)]
        rows = ["head"] * head + middle
        data = whole([*rows[: HEIGHT - foot], *["foot"] * foot])
        plain.feed(data)
        thrifty.feed(thrift.squeeze(data))
        assert plain.picture == thrifty.picture


def test_what_is_shown_already_is_not_sent() -> None:
    thrift = Thrift(WIDTH, HEIGHT)
    screen = whole([f"row {n}" for n in range(HEIGHT)])
    assert len(thrift.squeeze(screen)) > 100
    assert thrift.squeeze(screen) == ""
    sent = thrift.squeeze(draw([(3, 0, "row 4", "")]))
    assert sent == "\x1b[4;5H4"


def test_of_a_style_only_what_differs_is_sent() -> None:
    thrift = Thrift(WIDTH, HEIGHT)
    thrift.squeeze(whole([""] * HEIGHT))
    ground = "48;2;22;24;29"
    pieces = [
        (0, 0, "bold", f"1;38;2;220;223;228;{ground}"),
        (0, 4, "  ", f"38;2;1;2;3;{ground}"),
        (0, 6, "plain", f"38;2;220;223;228;{ground}"),
        (0, 11, "other", f"38;2;9;9;9;{ground}"),
    ]
    sent = thrift.squeeze(draw(pieces).replace("\n", ""))
    assert sent == (
        f"\x1b[1;1H\x1b[1;38;2;220;223;228;{ground}mbold  \x1b[22mplain\x1b[38;2;9;9;9mother\x1b[0m"
    )


def test_rows_that_look_alike_are_sent_style_by_style() -> None:
    def rows(word: str) -> str:
        return draw(
            [
                piece
                for row in range(HEIGHT)
                for piece in (
                    (row, 0, word[0], "1;38;5;111"),
                    (row, 1, word[1:], "38;5;188"),
                    (row, 12, word[::-1], "38;5;145"),
                )
            ]
        )

    thrift, terminal, plain = Thrift(WIDTH, HEIGHT), Terminal(), Terminal()
    for word in ("session", "another"):
        sent = thrift.squeeze(rows(word))
        terminal.feed(sent)
        plain.feed(rows(word))
    assert terminal.picture == plain.picture
    assert sent.count("38;5;188") == 1
    assert sent.count("m") <= 5


def test_a_scroll_costs_about_a_row() -> None:
    thrift = Thrift(WIDTH, HEIGHT)
    thrift.squeeze(whole([f"a long line {n:04} here" for n in range(HEIGHT)]))
    sent = thrift.squeeze(whole([f"a long line {n:04} here" for n in range(1, HEIGHT + 1)]))
    assert "\x1b[1S" in sent
    assert len(sent) < 60


def test_after_another_screen_or_size_everything_is_sent() -> None:
    thrift = Thrift(WIDTH, HEIGHT)
    screen = whole(["x"] * HEIGHT)
    for forget in (
        lambda: thrift.squeeze("\x1b[?1049h"),
        lambda: thrift.squeeze("\x1b[2J"),
        lambda: thrift.resize(WIDTH, HEIGHT),
    ):
        thrift.squeeze(screen)
        forget()
        assert thrift.squeeze(screen).count("x") == HEIGHT


def test_what_changes_no_cell_makes_nothing_be_sent_again() -> None:
    thrift = Thrift(WIDTH, HEIGHT)
    screen = whole([f"row {n}" for n in range(HEIGHT)])
    thrift.squeeze(screen)
    for data in (
        "\x1b]22;pointer\x07",
        "\x1b]52;c;eA==\x07",
        "\x1b]2;title\x1b\\",
        "\x07",
        "\x1b[?25l",
    ):
        assert thrift.squeeze(data) == data
        assert thrift.squeeze(screen) == ""


def test_blanks_are_erased_where_that_is_shorter_and_shows_the_same() -> None:
    lines = [f"{'x' * 20}    "] * HEIGHT
    for can_erase, most in ((True, 120), (False, 400)):
        thrift, terminal = Thrift(WIDTH, HEIGHT, can_erase=can_erase), Terminal()
        for data in (whole(lines), whole([""] * HEIGHT)):
            sent = thrift.squeeze(data)
            terminal.feed(sent)
        assert len(sent) < most
        assert {cell for row in terminal.picture for cell in row} == {(" ", "[]")}
        assert ("\x1b[K" in sent or "X" in sent) is can_erase


def test_only_terminals_that_fill_with_the_ground_are_told_to_erase() -> None:
    for term in ("xterm-256color", "tmux-256color", "alacritty", "xterm-kitty", "foot"):
        assert fills_with_ground({"TERM": term})
    assert fills_with_ground({"TERM": "screen-256color", "TMUX": "/tmp/tmux-0/default,1,0"})
    assert not fills_with_ground({"TERM": "screen.xterm-256color", "STY": "1.pts-0.host"})
    assert not fills_with_ground({"TERM": "vt100"})
    assert not fills_with_ground({})


def test_what_is_no_drawing_passes_unchanged() -> None:
    thrift = Thrift(WIDTH, HEIGHT)
    for data in ("\x1b[?2026h", "\x1b[?25l", "\x1b]52;c;eA==\x07", "\x1b[>1u", "\x1b[5;5H"):
        assert thrift.squeeze(data) == data
    odd = "\x1b[1;1Htext\x1b[3Cmore"
    assert thrift.squeeze(odd) == odd
    over_the_edge = f"\x1b[1;1H{'x' * (WIDTH + 1)}"
    assert thrift.squeeze(over_the_edge) == over_the_edge
