"""The small pieces: footer, todos, images, tools in a line, colours, sessions in a line."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color
from rich.text import Text

from sessiontree.core.described import describe_call, describe_image, describe_result, image_size
from sessiontree.tui.chat.event_state import Narrator
from sessiontree.tui.chat.footer import FooterFacts, draw_footer, short_number, word_branch
from sessiontree.tui.chat.panels import draw_queue
from sessiontree.tui.chat.session_reading import Branches
from sessiontree.tui.chat.status_line import StatusLine, draw_status, elapsed_text
from sessiontree.tui.chat.todos import Todo, draw_todos, load_todos
from sessiontree.tui.fuzzy import Query
from sessiontree.tui.palette import DARK, LIGHT, PALETTES, Palette, choose_palette
from sessiontree.tui.pickers.dialogs import draw_facts, draw_keys
from sessiontree.tui.pickers.row_list import titled
from sessiontree.tui.pickers.session_rows import (
    SessionIndex,
    draw_heading,
    draw_session,
    read_words,
    short_path,
)
from sessiontree.tui.theme import (
    OWN_THEMES,
    find_palette,
    is_line_slow,
    palette_in_force,
    theme_names,
)

from .support import NOW, make_info, result

# -- footer --------------------------------------------------------------------------------------

FACTS = FooterFacts(
    session="Fix the login",
    project="~/src/app",
    branch="branch 2 of 3",
    model="Claude Opus 5.5",
    thinking="medium",
    mode="plan",
    tokens=12_345,
    window=200_000,
    cost=0.123,
)


def test_the_footer_says_everything_where_there_is_room() -> None:
    line = draw_footer(FACTS, 140, DARK).plain
    assert line.startswith("Fix the login · branch 2 of 3 · plan mode · ~/src/app ")
    assert line.endswith("Claude Opus 5.5 · thinking medium · 12.3k of 200k (6%) · $0.12")
    assert len(line) == 140


@given(st.integers(1, 160))
def test_the_footer_fits_every_width_and_keeps_what_matters_most(width: int) -> None:
    line = draw_footer(FACTS, width, DARK)
    assert line.cell_len <= width
    if width >= 40:
        assert line.plain.startswith("Fix the login")


def test_a_long_name_gives_way_before_branch_model_and_context() -> None:
    name = "Sample: a conversation that has branches and a long name"
    facts = replace(FACTS, session=name, mode="")
    line = draw_footer(facts, 80, DARK).plain
    assert line.startswith("Sample: a conver")
    assert "… · branch 2 of 3 " in line
    assert "Claude Opus 5.5" in line
    assert "12.3k of 200k (6%)" in line
    labeled = replace(facts, branch="branch 2 of 2 [cause found]", model="", is_offline=True)
    line = draw_footer(replace(labeled, tokens=437, window=128_000), 78, DARK).plain
    assert line.startswith("Sample: a co")
    assert line.endswith("[cause found]  offline agent · 437 of 128k (0%)")
    wide = draw_footer(replace(facts, thinking="", cost=0.0), 120, DARK).plain
    assert wide.startswith(f"{facts.session} · branch 2 of 3 ")


def test_keys_that_do_not_fit_are_left_out_but_the_last_one_stays() -> None:
    keys = [("Enter", "resume"), ("^R", "rename"), ("^D", "delete")]
    drawn = [draw_keys(DARK, keys, width, ("F1", "keys")).plain for width in (43, 42, 35, 7)]
    assert drawn == [
        "Enter resume   ^R rename   ^D delete   F1 keys".replace("   ", "  "),
        "Enter resume  ^R rename  F1 keys",
        "Enter resume  ^R rename  F1 keys",
        "F1 keys",
    ]
    assert draw_keys(DARK, keys).plain == "Enter resume   ^R rename   ^D delete"


def test_a_notice_is_whole_before_title_and_facts() -> None:
    title, notice, facts = Text("Resume a session"), Text("Moved to the trash"), Text("7 sessions")
    assert titled(title, notice, facts, 60).plain.split("  ")[0] == "Resume a session"
    assert titled(title, notice, facts, 40).plain == "Moved to the trash            7 sessions"
    assert titled(title, notice, facts, 24).plain.rstrip() == "Moved to the trash"


def test_what_is_not_saved_is_said_even_when_narrow() -> None:
    facts = FooterFacts(session="s" * 30, project="p" * 30, model="m" * 30, unsaved=2)
    assert "2 not saved" in draw_footer(facts, 60, DARK).plain


def test_an_offline_agent_and_a_session_kept_nowhere_are_named() -> None:
    line = draw_footer(FooterFacts(session="s", is_offline=True, is_saved=False), 80, DARK).plain
    assert "offline agent" in line
    assert "kept nowhere" in line


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1k"),
        (12_340, "12.3k"),
        (1_000_000, "1M"),
        (2_560_000, "2.6M"),
    ],
)
def test_numbers_in_short(number: int, text: str) -> None:
    assert short_number(number) == text


@pytest.mark.parametrize(
    ("branches", "words"),
    [
        (Branches(1, 1), ""),
        (Branches(2, 3), "branch 2 of 3"),
        (Branches(2, 3, "works"), "branch 2 of 3 [works]"),
        (Branches(0, 3), "a new branch"),
        (Branches(0, 1, is_empty=True), ""),
        (Branches(1, 1, "start"), "[start]"),
    ],
)
def test_branches_in_words(branches: Branches, words: str) -> None:
    assert word_branch(branches) == words


# -- todos ---------------------------------------------------------------------------------------


def todos(tmp_path: Path, value: Any) -> list[Todo]:
    (tmp_path / "todos.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return load_todos(str(tmp_path))


def test_todos_nested_without_end_are_read_as_far_as_anybody_nests_them(tmp_path: Path) -> None:
    deep = '{"phases":["near",' * 500 + "[]" + "]}" * 500
    found = todos(tmp_path, deep)
    assert 5 <= len(found) <= 30
    assert {todo.text for todo in found} == {"near"}


def test_todos_are_read_in_the_forms_that_agents_write(tmp_path: Path) -> None:
    flat = [{"content": "a", "status": "completed"}, {"text": "b", "status": "in_progress"}, "c"]
    expected = [Todo("a", "done"), Todo("b", "active"), Todo("c", "open")]
    assert todos(tmp_path, flat) == expected
    assert todos(tmp_path, {"todos": flat}) == expected
    assert todos(tmp_path, {"phases": [{"name": "one", "tasks": flat}]}) == expected


@pytest.mark.parametrize("value", ["", "{", "5", "null", '{"todos": 5}', "[5, null, {}]", '"x"'])
def test_anything_else_is_no_todo_list(tmp_path: Path, value: str) -> None:
    assert todos(tmp_path, value) == []


def test_no_folder_and_no_file_mean_no_todos(tmp_path: Path) -> None:
    assert load_todos(None) == []
    assert load_todos(str(tmp_path / "missing")) == []


def test_open_todos_are_shown_with_the_active_one_first_and_done_ones_counted() -> None:
    lines = draw_todos([Todo("a", "done"), Todo("b", "open"), Todo("c\x1b", "active")], 40, DARK)
    assert [line.plain for line in lines] == ["Todo · 1 of 3 done", "▸ c\\x1b", "☐ b"]
    assert draw_todos([Todo("a", "done")], 40, DARK) == []


# -- images --------------------------------------------------------------------------------------


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480) + b"\x08\x02" * 10
GIF = b"GIF89a" + struct.pack("<HH", 10, 20) + b"\x00" * 10
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 33, 44) + b"\x00" * 20


@pytest.mark.parametrize(("data", "size"), [(PNG, (640, 480)), (GIF, (10, 20)), (JPEG, (44, 33))])
def test_the_size_of_an_image_is_read_off_its_head(data: bytes, size: tuple[int, int]) -> None:
    assert image_size(encoded(data)) == size


@given(st.binary(max_size=60))
def test_no_head_of_an_image_fails(data: bytes) -> None:
    for head in (b"", PNG[:8], GIF[:6], JPEG[:4]):
        image_size(encoded(head + data))
    image_size(data.decode("latin-1"))


def test_an_image_is_named_by_kind_size_and_bytes() -> None:
    block = {"type": "image", "mimeType": "image/png", "data": encoded(PNG)}
    assert describe_image(block) == "image · png · 640×480 · 44 B"
    assert describe_image({**block, "fileName": "a.png"}).startswith("a.png · png")
    assert describe_image({"mimeType": "image/png", "data": "blob:sha256:x"}).endswith("is missing")
    assert describe_image({}) == "image · unknown kind · its data is missing"


# -- tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("bash", {"command": "ls", "timeout": 5}, "ls"),
        ("read", {"path": "a.py"}, "a.py"),
        ("read", {"path": "a.py", "offset": 10, "limit": 5}, "a.py:10-14"),
        ("read", {"path": "a.py", "offset": 10}, "a.py:10"),
        ("grep", {"pattern": "x", "path": "src"}, "x in src"),
        ("grep", {"pattern": "x"}, "x"),
        ("todo", {"todos": [{"content": "A", "status": "completed"}, 5]}, "1 of 2 done"),
        ("TodoWrite", {"todos": [{"content": "A", "status": "in_progress"}]}, "0 of 1 done · A"),
        ("todo", {"todos": "A"}, "A"),
        ("other", {"what": "words"}, "words"),
        ("other", {"a": 1, "b": [2]}, '{"a":1,"b":[2]}'),
        ("other", {}, ""),
        ("other", None, ""),
    ],
)
def test_a_call_in_a_few_words(name: str, arguments: Any, words: str) -> None:
    assert describe_call(name, arguments) == words


def test_a_result_in_a_few_words() -> None:
    assert describe_result(result("1", "x", "a\nb")) == "2 lines"
    assert describe_result(result("1", "x", "")) == ""
    assert describe_result(result("1", "x", "a", details={"exitCode": 2})) == "exit 2"
    image = {"type": "image", "mimeType": "image/png", "data": ""}
    assert describe_result({"content": [image, image]}) == "2 images"


# -- colours -------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    triplet = Color.parse(colour).get_truecolor()
    parts = [part / 255 for part in (triplet.red, triplet.green, triplet.blue)]
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


OTHERS = [find_palette(name, {}) for name in theme_names() if name not in OWN_THEMES]


@pytest.mark.parametrize(
    "palette", [*PALETTES.values(), *filter(None, OTHERS)], ids=lambda palette: palette.name
)
@pytest.mark.parametrize("ground", ["background", "surface", "panel"])
def test_all_text_is_readable_on_every_ground(palette: Palette, ground: str) -> None:
    for colour in ("foreground", "muted", "accent", "secondary", "success", "warning", "error"):
        ratio = contrast(getattr(palette, colour), getattr(palette, ground))
        assert ratio >= 4.5, (colour, ratio)


@pytest.mark.parametrize(
    ("environ", "palette"),
    [
        ({}, DARK),
        ({"SESSIONTREE_THEME": "light"}, LIGHT),
        ({"SESSIONTREE_THEME": "dark", "COLORFGBG": "0;15"}, DARK),
        ({"COLORFGBG": "0;15"}, LIGHT),
        ({"COLORFGBG": "15;0"}, DARK),
        ({"SESSIONTREE_THEME": "nonsense"}, DARK),
    ],
)
def test_the_colours_follow_the_environment(environ: dict[str, str], palette: Palette) -> None:
    assert choose_palette(environ) is palette


def test_the_themes_of_textual_are_there_but_those_without_colours_of_their_own() -> None:
    assert len(OTHERS) >= 10
    assert None not in OTHERS
    assert {"nord", "dracula", "solarized-light"} <= set(theme_names())
    assert not any(name.startswith("ansi") for name in theme_names())
    assert find_palette("nonsense", {}) is None


def test_a_theme_keeps_the_colours_that_are_readable() -> None:
    nord = find_palette("nord", {})
    assert nord is not None
    assert (nord.background, nord.foreground, nord.accent) == ("#2e3440", "#d8dee9", "#88c0d0")
    assert nord.is_dark


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"SESSIONTREE_THEME": "Nord"}, "nord"),
        ({"SESSIONTREE_THEME": "auto", "COLORFGBG": "0;15"}, LIGHT.name),
        ({"SESSIONTREE_THEME": "nonsense", "COLORFGBG": "0;15"}, LIGHT.name),
    ],
)
def test_the_theme_follows_the_environment(environ: dict[str, str], name: str) -> None:
    assert palette_in_force(environ).name == name


# -- sessions in a line --------------------------------------------------------------------------


def line_of(query: str = "", width: int = 90, **fields: Any) -> str:
    index = SessionIndex([make_info(**fields)])
    index.put_words(index.infos[0].path, read_words(index.infos[0]))
    found = index.rows(Query(query), "recent")
    assert found
    drawn = draw_session(found[0], width, DARK, NOW, is_chosen=False, with_project=True)
    assert drawn.cell_len <= width
    return drawn.plain


def test_a_session_shows_name_project_messages_and_age() -> None:
    line = line_of(width=120, name="Fix the login", message_count=1_234, age_s=7_300)
    assert line.split() == ["Fix", "the", "login", "/home/me/app", "1,234", "msgs", "2h"]


def test_in_a_list_beside_a_preview_the_title_gets_half_of_the_room() -> None:
    title = "The cart loses its rows when the page is loaded again"
    shown = line_of(width=69, name=title, age_s=7_300)
    assert shown.split()[-2:] == ["app", "2h"]
    assert title[:44] in shown


def test_a_match_in_the_talk_is_shown_beside_the_name() -> None:
    assert "the tokenizer fails" in line_of(
        "tokenizer", 120, name="a", all_messages_text="the tokenizer fails"
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_was_looked_for_is_seen_in_a_narrow_line_too(width: int) -> None:
    said = "it was long ago in another country where the tokenizer fails"
    assert "tokenizer" in line_of("tokenizer", width, name="Fix 1", all_messages_text=said)


def test_a_damaged_session_is_marked() -> None:
    assert line_of(name="x", status="damaged").startswith("  ! x")


@pytest.mark.parametrize("width", [5, 12, 20, 33, 47, 61, 80, 200])
def test_a_line_fits_every_width(width: int) -> None:
    line_of("x", width, name="漢字 " * 20 + "\x1b", all_messages_text="x")


def test_the_heading_says_how_a_session_ended() -> None:
    index = SessionIndex([make_info("a", status="interrupted")])
    found = index.rows(Query(""), "recent")
    assert found
    lines = [line.plain for line in draw_heading(found[0], 60, DARK, NOW)]
    assert lines == ["a", "2 messages · just now · no answer yet", "id-a · /home/me/app"]


def test_a_narrow_heading_keeps_the_head_of_the_id() -> None:
    session_id = "01a1f170-5f5a-77fe-bdb7-c485aa799f56"
    found = SessionIndex([make_info("a", id=session_id)]).rows(Query(""), "recent")
    assert found
    place = [line.plain for line in draw_heading(found[0], 40, DARK, NOW)][2]
    assert place == "01a1f170-5f5a… · /home/me/app"


def test_paths_below_home_are_short() -> None:
    assert short_path("/home/me/src", "/home/me") == "~/src"
    assert short_path("/home/me", "/home/me") == "~"
    assert short_path("/home/merlin", "/home/me") == "/home/merlin"
    assert short_path("", "/home/me") == "?"


# -- status and queue ----------------------------------------------------------------------------


def test_the_status_says_what_goes_on_else_what_was_said() -> None:
    assert status("Running bash", 65)[0].endswith("Running bash · 1m 5s")
    assert status("", 0, "Resumed session") == ["Resumed session"]
    assert status("", 0) == [""]
    assert elapsed_text(59.9) == "59s"


def status(activity: str, seconds: float, notice: str = "", width: int = 76) -> list[str]:
    said = (notice, False) if notice else None
    return [line.plain for line in draw_status(activity, seconds, said, width, DARK)]


def test_a_long_notice_goes_on_in_the_next_line_and_ends_somewhere() -> None:
    notice = "Model sample/no-model is not available: using offline/offline, as you have it here"
    assert " ".join(status("", 0, notice)) == notice
    assert len(status("", 0, notice)) == 2
    lines = status("Working", 0, "word " * 200, 40)
    assert len(lines) == 3
    assert lines[-1].endswith("…")
    assert all(len(line) <= 40 for line in lines)


class Line:
    """A status line whose time is set by hand."""

    def __init__(self) -> None:
        self.now, self.is_asking = 100.0, False
        self.narrator = Narrator(lambda: self.now)
        self.status = StatusLine(self.narrator, lambda: self.now, lambda: self.is_asking)

    def pass_time(self, seconds: float) -> str:
        """What it says when so much time has passed."""
        self.now += seconds
        self.status.tick()
        return self.status.notice


def test_a_notice_stays_for_its_time_and_may_leave_another_behind() -> None:
    line = Line()
    line.status.say("Resumed session")
    assert line.pass_time(11) == "Resumed session"
    assert line.pass_time(2) == ""
    line.status.say("Cleared, again leaves", for_s=2, then="Cleared")
    assert line.pass_time(1.9) == "Cleared, again leaves"
    assert line.pass_time(0.1) == "Cleared"
    assert line.pass_time(12) == ""


def test_a_notice_is_taken_back_only_if_it_is_still_the_one() -> None:
    line = Line()
    line.status.say("Labeled x")
    line.status.unsay("something else")
    assert line.status.notice == "Labeled x"
    line.status.unsay("Labeled x")
    assert line.status.notice == ""


def test_the_queue_shows_a_line_for_each_and_counts_the_rest() -> None:
    lines = draw_queue(["one"], [f"n{n}" for n in range(6)], 40, DARK)
    assert lines[0].plain == "↳ steer  one"
    assert lines[1].plain == "↳ next  n0"
    assert lines[-1].plain == "  … 2 more"


def test_facts_stand_in_two_columns_and_wrap_below_themselves() -> None:
    lines = draw_facts([("Key", "does this and that and more"), ("", ""), ("K", "x")], 20, DARK)
    assert [line.plain.rstrip() for line in lines] == [
        "Key  does this and",
        "     that and more",
        "",
        "K    x",
    ]


@pytest.mark.parametrize(
    ("environ", "is_slow"),
    [
        ({}, False),
        ({"SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22"}, True),
        ({"SSH_TTY": "/dev/pts/1"}, True),
        ({"SSH_TTY": "/dev/pts/1", "SESSIONTREE_SLOW_LINE": "off"}, False),
        ({"SESSIONTREE_SLOW_LINE": "On"}, True),
        ({"SESSIONTREE_SLOW_LINE": "auto", "SSH_CLIENT": "10.0.0.1 5 22"}, True),
    ],
)
def test_a_line_is_slow_over_ssh_unless_the_user_says_otherwise(
    environ: dict[str, str], is_slow: bool
) -> None:
    assert is_line_slow(environ) is is_slow
