"""Record the tour in the README: drive the real program in tmux, and draw what it shows.

``python scripts/record_tour.py`` writes ``docs/images/tour.svg``, an animated picture without
scripts and without network. It uses a home of its own with sessions made up below. Needs tmux and
the extra ``tui``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from rich.cells import cell_len
from rich.color import blend_rgb
from rich.color_triplet import ColorTriplet
from rich.console import Console
from rich.segment import Segment
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "tour.svg"
COLUMNS, ROWS = 120, 28
GROUND, INK = "#16181d", "#dcdfe4"
_CELL, _LINE, _SIZE, _EDGE = 8.4, 18, 14, 12

# -- the tour -------------------------------------------------------------------------------------

UP, ENTER, ESCAPE = "Up", "Enter", "Escape"


@dataclass(frozen=True)
class Step:
    """Keys to press, what must then be on the screen, and how long to look at it."""

    keys: tuple[str, ...]
    expected: str
    seconds: float


TOUR = (
    Step((), "Release notes", 1.2),
    Step(("Tab", "Tab"), "Login fails", 1.6),
    Step(("t", "o", "k"), "Login fails", 0.6),
    Step(("e", "n"), "nobody renews it", 1.8),
    Step((ENTER,), "is a session of pi", 1.4),
    Step((ENTER,), "All 212 tests pass", 2.0),
    Step((ESCAPE, ESCAPE), "Jump to a point", 2.2),
    Step((UP, UP, UP), "Renew it in the background", 0.8),
    Step((UP,), "Continue from here", 1.6),
    Step((ENTER,), "No summary", 1.2),
    Step((ENTER,), "Ask anything", 2.5),
)

TALKS = (
    ("pi", "Login fails after an hour", 40),
    ("sessiontree", "Parser: empty input", 3),
    ("claude-code", "Move the job queue to Redis", 5),
    ("sessiontree", "Release notes for 2.4", 8),
    ("omp", "Why is the first page slow?", 9),
    ("codex", "Flaky test in the invoice module", 12),
    ("claude-code", "Type hints for the billing package", 15),
    ("pi", "Cache headers on the image server", 19),
    ("codex", "Dark mode for the settings page", 21),
    ("omp", "A retry that never gives up", 26),
    ("claude-code", "Rotate the signing keys", 48),
    ("pi", "Upgrade to Postgres 17", 52),
    ("codex", "Rate limits for the public API", 61),
    ("claude-code", "Split the checkout into two pages", 70),
)

_WHY = """\
The **token** expires after 60 minutes, and nobody renews it.

1. Renew it in the background, or
2. renew it when a request is refused."""
_DONE = """\
Done in `api/client.py`:

```python
if answer.status == 401:
    renew(token)
    answer = send(request)
```

All 212 tests pass."""


def make_home(home: Path) -> Path:
    """Make up a project and its sessions; returns the project."""
    from sessiontree import SessionManager

    project = home / "code" / "shop"
    project.mkdir(parents=True)
    for agent, title, days in TALKS:
        moment = time.time() - days * 86_400
        if agent in ("claude-code", "codex"):
            _write_foreign(home, agent, title, project, moment)
            continue
        when = int(moment * 1000)
        with SessionManager.create(project, profile=agent) as session:

            def say(role: str, text: str, to: SessionManager = session, when: int = when) -> str:
                content = [{"type": "text", "text": text}]
                message = {"role": role, "content": content, "timestamp": when}
                if role == "assistant":
                    message |= {"provider": "acme", "model": "large", "stopReason": "stop"}
                return to.append_message(message)

            session.set_session_name(title)
            if title.startswith("Login"):
                _tell_the_story(session, say)
            else:
                say("user", f"{title}. Where do I begin?")
                say("assistant", "With a test that fails, so that you see when it is done.")
    return project


def _write_foreign(home: Path, agent: str, title: str, project: Path, moment: float) -> None:
    """Write a transcript as Claude Code or Codex does."""
    session_id = str(uuid.uuid5(uuid.NAMESPACE_URL, title))
    when = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    answer = "There are two places to change. Begin with the test."
    if title.startswith(("Rotate", "Rate")):
        answer = "Each token names its key, so both can be valid for a day."
    said = (("user", title), ("assistant", answer))
    if agent == "codex":
        path = home / ".codex/sessions/2026/01/01" / f"rollout-{when[:19]}-{session_id}.jsonl"
        meta = {"id": session_id, "timestamp": when, "cwd": str(project)}
        lines = [{"type": "session_meta", "timestamp": when, "payload": meta}]
        for role, text in said:
            kind = "input_text" if role == "user" else "output_text"
            item = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
            shown = {"type": f"{'user' if role == 'user' else 'agent'}_message", "message": text}
            lines.append({"type": "response_item", "timestamp": when, "payload": item})
            lines.append({"type": "event_msg", "timestamp": when, "payload": shown})
    else:
        path = home / ".claude/projects/-code-shop" / f"{session_id}.jsonl"
        lines = [
            {"type": role, "uuid": f"{session_id}-{number}",
             "parentUuid": f"{session_id}-0" if number else None, "sessionId": session_id,
             "cwd": str(project), "timestamp": when, "version": "2.1.0",
             "message": {"role": role, "content": [{"type": "text", "text": text}]}}
            for number, (role, text) in enumerate(said)
        ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _tell_the_story(session: object, say: object) -> None:
    assert callable(say)
    say("user", "Login fails after an hour. Why?")
    why = say("assistant", _WHY)
    say("user", "Renew it in the background")
    say("assistant", "Done, but two tests fail: the timer outlives the page.")
    session.branch(why)  # type: ignore[attr-defined]
    say("user", "Renew it when a request is refused")
    say("assistant", _DONE)


# -- the terminal ---------------------------------------------------------------------------------


class Terminal:
    """The program on a terminal of tmux's."""

    def __init__(self, command: str, cwd: Path, env: dict[str, str]) -> None:
        self._socket = f"tour-{os.getpid()}"
        size = ("-x", str(COLUMNS), "-y", str(ROWS))
        self._tmux("new-session", "-d", *size, "-c", str(cwd), command, env=env)

    def press(self, *keys: str) -> None:
        for key in keys:
            self._tmux("send-keys", key)
            time.sleep(0.08)

    def wait_for(self, words: str) -> str:
        """Return the screen, with colours, once it shows the words and stands still."""
        deadline = time.monotonic() + 20
        before = ""
        while time.monotonic() < deadline:
            time.sleep(0.5)
            screen = self._tmux("capture-pane", "-e", "-p", "-N")
            if screen == before and words in Text.from_ansi(screen).plain:
                return screen
            before = screen
        raise SystemExit(f"never shown: {words!r}\n{Text.from_ansi(before).plain}")

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        command = ["tmux", "-L", self._socket, "-f", "/dev/null", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
        return done.stdout


# -- the picture ----------------------------------------------------------------------------------


def draw(screens: Sequence[tuple[str, float]]) -> str:
    """Return an animated SVG. A row that stays the same over several screens is in it once."""
    total = sum(seconds for _, seconds in screens)
    starts = [sum(seconds for _, seconds in screens[:at]) for at in range(len(screens) + 1)]
    rows = [[*Text.from_ansi(screen).split("\n", allow_blank=True)][:ROWS] for screen, _ in screens]
    rules: dict[tuple[int, int], str] = {}
    body = []
    for row in range(ROWS):
        spelled = ["".join(_spell(each[row], row)) if row < len(each) else "" for each in rows]
        first = 0
        for at in range(1, len(spelled) + 1):
            if at < len(spelled) and spelled[at] == spelled[first]:
                continue
            if spelled[first]:
                name = rules.setdefault((first, at), f"f{len(rules)}")
                body.append(f'<g class="{name}">{spelled[first]}</g>')
            first = at
    last = len(screens)
    style = [_rule(name, starts[a] / total, starts[b] / total, total, is_last=b == last)
             for (a, b), name in rules.items()]  # fmt: skip
    width, height = COLUMNS * _CELL + 2 * _EDGE, ROWS * _LINE + 2 * _EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" role="img" aria-label="Find a session, '
        f'open it, and go back to an earlier answer in its tree">\n'
        f"<style>text{{font-size:{_SIZE}px;"
        f"font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"white-space:pre}}{''.join(style)}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>\n'
        f'<g transform="translate({_EDGE} {_EDGE})">\n' + "\n".join(body) + "\n</g></svg>\n"
    )


def _rule(name: str, start: float, end: float, total: float, *, is_last: bool) -> str:
    """Show a group from ``start`` to ``end``; without motion, only the last screen is shown."""
    frames = [(0.0, start == 0), (start, True), (end, False)]
    words = {True: "visible", False: "hidden"}
    steps = "".join(f"{at:.2%}{{visibility:{words[shown]}}}" for at, shown in frames if at < 1)
    still = words[is_last]
    return (
        f".{name}{{visibility:{still}}}@keyframes {name}{{{steps}}}"
        f"@media(prefers-reduced-motion:no-preference)"
        f"{{.{name}{{animation:{name} {total:.1f}s step-end infinite}}}}"
    )


_CONSOLE = Console(width=COLUMNS, color_system="truecolor", force_terminal=True)


def _spell(line: Text, row: int) -> Iterator[str]:
    """The pieces of a row: a rectangle for each ground, a text for each run of one style."""
    column = 0
    line.end = ""
    for segment in line.render(_CONSOLE):
        columns = cell_len(segment.text)
        ink, ground = _colours(segment)
        x, y, width = column * _CELL, row * _LINE, columns * _CELL
        if ground != GROUND:
            size = f'width="{width:.1f}" height="{_LINE}"'
            yield f'<rect x="{x:.1f}" y="{y}" {size} fill="{ground}"/>'
        if segment.text.strip():
            style = segment.style
            extra = ' font-weight="bold"' if style and style.bold else ""
            extra += ' font-style="italic"' if style and style.italic else ""
            yield (
                f'<text x="{x:.1f}" y="{y + 13.5}" fill="{ink}" textLength="{width:.1f}" '
                f'lengthAdjust="spacingAndGlyphs" xml:space="preserve"{extra}>'
                f"{escape(segment.text)}</text>"
            )
        column += columns


def _colours(segment: Segment) -> tuple[str, str]:
    style = segment.style
    ink = _hex(style.color.get_truecolor() if style and style.color else None, INK)
    ground = _hex(
        style.bgcolor.get_truecolor(foreground=False) if style and style.bgcolor else None, GROUND
    )
    if style and style.reverse:
        ink, ground = ground, ink
    if style and style.dim:
        ink = blend_rgb(_triplet(ink), _triplet(ground), 0.4).hex
    return ink, ground


def _hex(colour: ColorTriplet | None, otherwise: str) -> str:
    return colour.hex if colour is not None and colour != ColorTriplet(0, 0, 0) else otherwise


def _triplet(spelled: str) -> ColorTriplet:
    return ColorTriplet(*bytes.fromhex(spelled.removeprefix("#")))


def main() -> None:
    """Record and write the picture."""
    with tempfile.TemporaryDirectory(prefix="tour-") as folder:
        home = Path(folder)
        for name in ("PI_CODING_AGENT_DIR", "SESSIONTREE_AGENT_DIR", "SESSIONTREE_STORE"):
            os.environ.pop(name, None)
        os.environ.update(HOME=folder, SESSIONTREE_CACHE_DIR=f"{folder}/cache",
                          COLORTERM="truecolor", TERM="xterm-256color")  # fmt: skip
        project = make_home(home)
        program = f"{sys.executable} -m sessiontree -r"
        terminal = Terminal(program, project, dict(os.environ))
        try:
            screens = []
            for step in TOUR:
                terminal.press(*step.keys)
                screens.append((terminal.wait_for(step.expected), step.seconds))
        finally:
            terminal.close()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(draw(screens), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
