"""The installed command in a real terminal (tmux): from the shell and back to it."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sessiontree import HistoryStorage

from .support import Shop

PROGRAM = str(Path(sys.executable).with_name("sessiontree"))
PATIENCE_S = 40.0
PROMPT = "READY>"


class Terminal:
    """A shell in a tmux window of its own server."""

    def __init__(self, root: Path, width: int = 100, height: int = 30) -> None:
        # A socket's path is short by law; a test's folder is not.
        self._socket = f"sessiontree-test-{os.getpid()}-{time.monotonic_ns()}"
        self.root = root
        self._runs = 0
        env = {
            "HOME": str(root / "home"),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "PS1": f"{PROMPT} ",
            "SESSIONTREE_AGENT_DIR": str(root / "agent"),
            "XDG_CACHE_HOME": str(root / "home" / ".cache"),
        }
        (root / "home").mkdir(exist_ok=True)
        variables = [f"{name}={value}" for name, value in env.items()]
        shell = ["env", "-i", *variables, "bash", "--norc", "--noprofile"]
        size = ["-x", str(width), "-y", str(height)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(root / "app"), *shell)
        self.until(lambda: PROMPT in self.text)

    def _tmux(self, *arguments: str) -> str:
        ended = subprocess.run(
            ["tmux", "-L", self._socket, *arguments], capture_output=True, text=True, check=True
        )
        return ended.stdout

    @property
    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    @property
    def is_program(self) -> bool:
        """Whether a full-screen program has the terminal."""
        return self._tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def keys(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def run(self, command: str) -> None:
        """Type a command into the shell; its number and exit code are printed after it."""
        self._runs += 1
        self.type(f'clear; {command}; echo "[{self._runs} exit $?]"')
        self.keys("Enter")

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"it never came to that:\n{self.text}"
            time.sleep(0.05)

    def until_shown(self, *words: str) -> None:
        self.until(lambda: all(word in self.text for word in words))

    def until_quiet(self, quiet_s: float = 0.7) -> str:
        """Wait until nothing changes on the screen any more; what it shows."""
        shown, since = self.text, time.monotonic()
        deadline = since + PATIENCE_S
        while time.monotonic() - since < quiet_s and time.monotonic() < deadline:
            time.sleep(0.05)
            if self.text != shown:
                shown, since = self.text, time.monotonic()
        return shown

    def until_ended(self) -> int:
        """Wait for the shell to be back, in its own screen; the exit code."""
        found: list[str] = []

        def is_back() -> bool:
            found[:] = re.findall(rf"\[{self._runs} exit (\d+)\]", self.text)
            return bool(found) and not self.is_program

        self.until(is_back)
        return int(found[0])

    def is_sane(self) -> bool:
        """Whether the terminal echoes and breaks lines as a shell expects."""
        self.run("stty -a | grep -o -- '-\\?echo\\b\\|-\\?icanon'")
        self.until_ended()
        return "-echo" not in self.text and "-icanon" not in self.text

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], check=False)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    Shop(tmp_path)
    made = Terminal(tmp_path)
    yield made
    made.close()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture(autouse=True, scope="module")
def _needs_tmux() -> None:
    assert shutil.which("tmux"), "these tests need tmux"


def session_id(path: str) -> str:
    return Path(path).stem.rpartition("_")[2]


def test_a_new_session_is_talked_to_left_and_continued(terminal: Terminal) -> None:
    terminal.run(PROGRAM)
    terminal.until_shown("offline agent", "New session in")
    terminal.type("list")
    terminal.keys("Enter")
    terminal.until_shown("▌ list", "offline agent (no model)")
    terminal.keys("C-c")
    terminal.until_shown("Ctrl+C again leaves")
    terminal.keys("C-c")
    assert terminal.until_ended() == 0
    assert "Resume with: " in terminal.text
    assert terminal.is_sane()
    terminal.run(f"{PROGRAM} -c")
    terminal.until_shown("▌ list", "offline agent (no model)", "Resuming")
    terminal.type("/quit")
    terminal.keys("Enter")
    assert terminal.until_ended() == 0


def test_leaving_does_not_wait_for_who_holds_the_prompt_history(
    terminal: Terminal, shop: Shop
) -> None:
    with HistoryStorage.for_profile(shop.profile) as history:
        history.add("before")
    holder = sqlite3.connect(shop.profile.history_path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    terminal.run(PROGRAM)
    terminal.until_shown("offline agent", "New session in")
    terminal.type("list")
    terminal.keys("Enter")
    terminal.until_shown("▌ list", "offline agent (no model)")
    terminal.keys("C-c")
    terminal.until_shown("Ctrl+C again leaves")
    terminal.keys("C-c")
    began = time.monotonic()
    assert terminal.until_ended() == 0
    assert time.monotonic() - began < 5  # it was 10 to 17 s
    holder.close()
    assert "warning: 1 prompt could not be saved: " in terminal.text


def test_what_is_printed_on_leaving_resumes_the_session(terminal: Terminal, shop: Shop) -> None:
    path = shop.session("remember the milk", "I will.", title="Milk")
    terminal.run(f"{PROGRAM} --resume {session_id(path)[:-1]}")
    terminal.until_shown("remember the milk", "I will.", 'Resuming "Milk"')
    terminal.keys("C-d")
    assert terminal.until_ended() == 0
    found = re.search(r"Resume with: (.+)", terminal.text.replace("\n", ""))
    assert found is not None
    assert session_id(path) in found[1]


def test_the_picker_resumes_what_is_chosen(terminal: Terminal, shop: Shop) -> None:
    shop.session("first prompt", "first answer", title="First", age_s=100)
    shop.session("second prompt", "second answer", title="Second", age_s=10)
    terminal.run(f"{PROGRAM} --resume")
    terminal.until_shown("Resume a session", "First", "Second", "2 sessions")
    terminal.type("Fir")
    terminal.until_shown("1 of 2 sessions")
    terminal.keys("Enter")
    terminal.until_shown("first prompt", "first answer", "Ask anything, or type / for commands")
    terminal.keys("C-d")
    assert terminal.until_ended() == 0


def test_a_picker_that_is_cancelled_says_so(terminal: Terminal, shop: Shop) -> None:
    shop.session("a prompt", title="A session")
    terminal.run(f"{PROGRAM} --resume")
    terminal.until_shown("Resume a session", "A session")
    terminal.keys("Escape")
    assert terminal.until_ended() == 0
    assert "No session selected" in terminal.text


def test_ctrl_c_in_the_picker_restores_the_terminal_and_ends_with_0(
    terminal: Terminal, shop: Shop
) -> None:
    shop.session("a prompt", title="A session")
    terminal.run(f"{PROGRAM} --resume")
    terminal.until_shown("Resume a session", "A session")
    terminal.keys("C-c")
    assert terminal.until_ended() == 0
    assert "No session selected" not in terminal.text
    assert terminal.is_sane()


def test_without_sessions_there_is_nothing_to_pick(terminal: Terminal) -> None:
    terminal.run(f"{PROGRAM} --resume")
    assert terminal.until_ended() == 0
    assert "No sessions found" in terminal.text


def test_an_ambiguous_prefix_opens_the_picker_on_just_those(terminal: Terminal, shop: Shop) -> None:
    for name, new_id in (("one", "aa11"), ("two", "aa22"), ("three", "bb33")):
        give_id(Path(shop.session(f"prompt {name}", title=f"Candidate {name}")), new_id)
    terminal.run(f"{PROGRAM} --resume aa")
    terminal.until_shown("Which session?", "Candidate one", "Candidate two")
    assert "Candidate three" not in terminal.text
    terminal.type("one")
    terminal.until_shown("1 of 2 sessions")
    terminal.keys("Enter")
    terminal.until_shown("prompt one", "Ask anything, or type / for commands")
    terminal.keys("C-d")
    assert terminal.until_ended() == 0


def give_id(path: Path, new_id: str) -> None:
    """Have a session file look as if it had been made with this id."""
    old_id = session_id(str(path))
    path.write_text(path.read_text().replace(old_id, new_id))
    path.rename(path.with_name(path.name.replace(old_id, new_id)))


@pytest.mark.parametrize(
    ("keys", "code"), [(["Escape"], 1), (["o", "Up", "BSpace", "Enter"], 1), (["C-c"], 130)]
)
def test_a_question_in_a_line_knows_esc_and_ctrl_c(
    terminal: Terminal, shop: Shop, keys: list[str], code: int
) -> None:
    path = shop.session("over there", title="Elsewhere", cwd=shop.other_project)
    terminal.run(f"{PROGRAM} --resume {session_id(path)}")
    terminal.until_shown("Open there / Copy here / Cancel [o/c/N]?")
    terminal.keys(*keys)
    assert terminal.until_ended() == code
    shown = terminal.text
    assert "^[" not in shown
    assert ("Open it there: cd" in shown.replace("\n", "")) is (code == 1)
    assert terminal.is_sane()
    assert len(list((terminal.root / "agent" / "sessions").rglob("*.jsonl"))) == 1


@pytest.mark.parametrize(("answer", "code"), [("o", 0), ("c", 0), ("n", 1)])
def test_a_session_of_another_project_is_opened_there_or_copied_here(
    terminal: Terminal, shop: Shop, answer: str, code: int
) -> None:
    path = shop.session("over there", "the answer", title="Elsewhere", cwd=shop.other_project)
    terminal.run(f"{PROGRAM} --resume {session_id(path)}")
    terminal.until_shown("Open there / Copy here / Cancel [o/c/N]?")
    terminal.type(answer)
    terminal.keys("Enter")
    if answer != "n":
        terminal.until_shown("over there", "the answer", "Ask anything, or type / for commands")
        kept = len(list((terminal.root / "agent" / "sessions").rglob("*.jsonl")))
        assert kept == (1 if answer == "o" else 2)
        terminal.keys("C-d")
    assert terminal.until_ended() == code
    shown = terminal.text.replace("\n", "")
    if answer == "n":
        assert f'Session "{session_id(path)}" is in another project' in shown
        found = re.search(r"Open it there: (cd .+? --resume \w+)", shown)
        assert found is not None
        terminal.run(found[1])
        terminal.until_shown("over there", "the answer", "Ask anything, or type / for commands")
        terminal.keys("C-d")
        assert terminal.until_ended() == 0


@pytest.mark.parametrize(
    ("keys", "code"), [(["Enter"], 0), (["Down", "Enter"], 0), (["Escape"], 1)]
)
def test_the_picker_asks_where_to_open_a_session_of_another_project(
    terminal: Terminal, shop: Shop, keys: list[str], code: int
) -> None:
    path = shop.session("over there", "the answer", title="Elsewhere", cwd=shop.other_project)
    terminal.run(f"{PROGRAM} --resume")
    terminal.until_shown("Resume a session", "Elsewhere", "1 session")
    terminal.keys("Enter")
    terminal.until_shown("Elsewhere belongs to another project", "Open in", "Copy into", "Cancel")
    terminal.keys(*keys)
    if not code:
        terminal.until_shown("over there", "the answer", "Ask anything, or type / for commands")
        kept = len(list((terminal.root / "agent" / "sessions").rglob("*.jsonl")))
        assert kept == len(keys)
        terminal.keys("C-d")
    assert terminal.until_ended() == code
    shown = terminal.text.replace("\n", "")
    assert terminal.is_sane()
    if code:
        assert f"cd {shop.other_project} && " in shown
        assert f"--resume {session_id(path)}" in shown


def start_and_talk(terminal: Terminal) -> int:
    """The program with one answered prompt; its process id."""
    terminal.run(f"bash -c 'echo $$ > pid; exec {PROGRAM} --name Watched'")
    terminal.until_shown("New session in")
    terminal.type("list")
    terminal.keys("Enter")
    terminal.until_shown("▌ list", "offline agent (no model)")
    return int((terminal.root / "app" / "pid").read_text())


def test_a_killed_program_loses_nothing_and_is_continued(terminal: Terminal) -> None:
    os.kill(start_and_talk(terminal), signal.SIGKILL)
    terminal.until_shown("exit 137]")
    after = Terminal(terminal.root)
    try:
        after.run(f"{PROGRAM} -c")
        after.until_shown("▌ list", "offline agent (no model)", "Watched")
        after.keys("C-d")
        assert after.until_ended() == 0
    finally:
        after.close()


def test_a_prompt_is_not_lost_when_the_program_is_killed_before_the_answer(
    terminal: Terminal,
) -> None:
    terminal.run(f"bash -c 'echo $$ > pid; exec {PROGRAM}'")
    terminal.until_shown("New session in")
    terminal.type("run: sleep 60")
    terminal.keys("Enter")
    terminal.until_shown("Run a command in")
    os.kill(int((terminal.root / "app" / "pid").read_text()), signal.SIGKILL)
    terminal.until_shown("exit 137]")
    after = Terminal(terminal.root)
    try:
        after.run(f"{PROGRAM} -c")
        after.until_shown("▌ run: sleep 60")
        after.keys("C-d")
        assert after.until_ended() == 0
    finally:
        after.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_terminated_program_saves_and_restores_the_terminal(
    terminal: Terminal, number: int, code: int
) -> None:
    os.kill(start_and_talk(terminal), number)
    assert terminal.until_ended() == code
    assert terminal.is_sane()


def test_a_tool_is_confirmed_and_a_command_is_run(terminal: Terminal, shop: Shop) -> None:
    terminal.run(PROGRAM)
    terminal.until_shown("New session in")
    terminal.type("run: echo made-by-tool > made.txt")
    terminal.keys("Enter")
    terminal.until_shown("Run a command in", "y yes")  # after a pause in the typing
    terminal.type("y")
    terminal.until_shown("✓ bash")
    assert (Path(shop.project) / "made.txt").read_text() == "made-by-tool\n"
    terminal.type("!cat made.txt")
    terminal.keys("Enter")
    terminal.until_shown("$ cat made.txt", "│ made-by-tool")
    terminal.keys("C-d")
    assert terminal.until_ended() == 0


def test_typing_on_while_a_question_comes_up_runs_nothing(terminal: Terminal, shop: Shop) -> None:
    terminal.run(PROGRAM)
    terminal.until_shown("New session in")
    terminal.type("run: touch made.txt")
    terminal.keys("Enter")
    for letter in "yesterday I said":
        terminal.type(letter)
    terminal.until_shown("Run a command in", "y yes")
    assert not (Path(shop.project) / "made.txt").exists()
    terminal.keys("Enter")  # the choice that it starts on
    terminal.until_shown("✗ bash", "› yesterday I said")
    assert not (Path(shop.project) / "made.txt").exists()
    terminal.keys("C-c")
    terminal.keys("C-d")
    assert terminal.until_ended() == 0


def test_print_mode_asks_after_every_line_was_shown(terminal: Terminal, shop: Shop) -> None:
    lines = [f"echo line-{n}" for n in range(60)]
    (Path(shop.project) / "prompt").write_text("\n".join(["run: true", *lines, "touch made.txt"]))
    terminal.run(f'{PROGRAM} --model offline -p "$(cat prompt)"')
    terminal.until_shown("Run a command in", "echo line-20", "more lines: Enter or Space")
    assert "Allow bash?" not in terminal.text
    terminal.keys("Enter")
    terminal.until_shown("echo line-40", "more lines: Enter or Space")
    terminal.type("a")
    terminal.until_shown("touch made.txt", "Allow bash? [y/N]")
    assert not (Path(shop.project) / "made.txt").exists()
    terminal.type("y")
    terminal.keys("Enter")
    terminal.until_ended()
    assert (Path(shop.project) / "made.txt").exists()


def test_print_mode_throws_away_what_was_typed_ahead(terminal: Terminal, shop: Shop) -> None:
    terminal.run(f"{PROGRAM} --model offline -p 'run: touch made.txt'")
    terminal.type("y")
    terminal.keys("Enter")
    terminal.type("y")
    terminal.until_shown("Allow bash?")
    terminal.type("es")
    terminal.keys("Enter")
    terminal.until_shown("Allow bash? [y/N]")
    terminal.keys("Enter")
    terminal.until_ended()
    assert not (Path(shop.project) / "made.txt").exists()
    assert terminal.is_sane()


def test_print_mode_shows_what_is_invisible(terminal: Terminal, shop: Shop) -> None:
    terminal.run(f"{PROGRAM} --model offline -p $'run: echo a\\rtouch b\\u202e \\u200b'")
    terminal.until_shown("echo a\\x0dtouch b\\u202e", "Allow bash? [y/N]")
    terminal.keys("C-c")
    terminal.until_ended()
    assert terminal.is_sane()


def test_several_lines_esc_esc_and_alt_enter_work_in_a_plain_terminal(terminal: Terminal) -> None:
    terminal.run(PROGRAM)
    terminal.until_shown("New session in")
    terminal.type("first line")
    terminal.keys("C-j")
    terminal.type("second line")
    terminal.until_shown("› first line\n   second line")
    terminal.keys("M-Enter")
    terminal.until_shown("▌ first line", "offline agent (no model)")
    terminal.keys("Escape", "Escape")
    terminal.until_shown("Jump to a point in this session")
    terminal.keys("Up", "Enter")
    terminal.until_shown("You leave", "No summary")
    terminal.keys("Enter")
    terminal.until_shown("› first line\n   second line")
    terminal.keys("C-q")
    assert terminal.until_ended() == 0


def test_a_screen_drawn_piece_by_piece_is_the_one_drawn_whole(
    terminal: Terminal, shop: Shop
) -> None:
    chance = random.Random(5)
    words = ["parser", "token", "漢字", "café", "🎉", "naïve", "→", "session"]
    for number in range(40):
        title = " ".join(chance.choices(words, k=chance.randint(2, 14)))
        answer = "\n\n".join(" ".join(chance.choices(words, k=30)) for _ in range(6))
        shop.session(title, answer, age_s=3600 * number + 5400)
    terminal.run(f"bash -c 'echo $$ > pid; exec {PROGRAM} -r'")
    terminal.until_shown("40 sessions")
    keys = ["Down", "Up", "PageDown", "PageUp", "C-End", "C-Home", "C-t", "C-l", "C-s", "C-o"]
    for _ in range(3):
        for key in chance.choices([*keys, *"tepcn漢", "BSpace", "BSpace"], k=20):
            terminal.keys(key)
            time.sleep(chance.choice((0, 0.02, 0.1)))
        pieces = terminal.until_quiet()
        number = int((terminal.root / "app" / "pid").read_text())
        os.kill(number, signal.SIGTSTP)
        terminal.until(lambda: not terminal.is_program)
        terminal.type("fg\n")
        terminal.until(lambda: terminal.is_program)
        assert terminal.until_quiet() == pieces
    terminal.keys("C-c")
    terminal.until(lambda: not terminal.is_program)


def test_a_small_terminal_and_a_resize_do_no_harm(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.session("a prompt", "an answer", title="A session")
    terminal = Terminal(tmp_path, width=40, height=10)
    try:
        terminal.run(f"{PROGRAM} -c")
        terminal.until_shown("an answer")
        terminal._tmux("resize-window", "-x", "120", "-y", "40")
        terminal.until_shown("an answer", "offline agent")
        terminal._tmux("resize-window", "-x", "25", "-y", "6")
        terminal.until_shown("›")
        terminal.keys("C-d")
        assert terminal.until_ended() == 0
    finally:
        terminal.close()


def test_words_after_r_are_searched_in_the_picker(terminal: Terminal, shop: Shop) -> None:
    shop.session("please fix the login", title="Login form")
    shop.session("dark mode please", title="Dark mode")
    terminal.run(f"{PROGRAM} -r mode")
    terminal.until_shown("› mode", "❯ Dark mode")
    terminal.until(lambda: "Login form" not in terminal.text)
    terminal.keys("Escape")
    assert terminal.until_ended() == 0
    terminal.run(f"{PROGRAM} -r 0199ffff")
    assert terminal.until_ended() == 1
    assert 'Session "0199ffff" not found.' in terminal.text


def test_ctrl_g_edits_the_prompt_in_the_users_editor(terminal: Terminal) -> None:
    editor = terminal.root / "home" / "ed"
    editor.write_text(
        '#!/bin/bash\necho "EDITING $(cat "$1")"\n'
        'trap "echo INTERRUPTED" INT\nread -r line\necho "$line" > "$1"\n'
        '[ "$line" != fail ]\n'
    )
    editor.chmod(0o755)
    terminal.run(f"VISUAL='{editor}' {PROGRAM} --model offline")
    terminal.until_shown("Ask anything")
    terminal.type("hello there")
    terminal.until_shown("› hello there")
    terminal.keys("C-g")
    terminal.until_shown("EDITING hello there")
    assert not terminal.is_program
    terminal.keys("C-c")  # the editor's, not ours
    terminal.until_shown("INTERRUPTED")
    terminal.type("what came back")
    terminal.keys("Enter")
    terminal.until_shown("› what came back")
    terminal.keys("C-g")
    terminal.until_shown("EDITING what came back")
    terminal.type("fail")
    terminal.keys("Enter")
    terminal.until_shown("› what came back", "The prompt is unchanged: ed ended with exit code 1")
    terminal.keys("C-c")
    terminal.keys("C-d")
    assert terminal.until_ended() == 0
    assert terminal.is_sane()


def test_what_happens_while_another_program_has_the_terminal_is_shown_afterwards(
    terminal: Terminal,
) -> None:
    """A screen that draws meanwhile must neither spoil the other program's nor stand still."""
    editor = terminal.root / "home" / "ed"
    editor.write_text('#!/bin/sh\necho EDITING\nread -r line\necho "$line" > "$1"\n')
    editor.chmod(0o755)
    terminal.run(f"VISUAL='{editor}' {PROGRAM} --model offline")
    terminal.until_shown("Type a prompt")
    terminal.type("!for n in $(seq 60); do echo line $n; sleep 0.05; done; echo the end")
    terminal.keys("Enter")
    terminal.until_shown("line 3")
    terminal.keys("C-g")
    terminal.until_shown("EDITING")
    time.sleep(4)
    assert "line" not in terminal.text
    terminal.type("back again")
    terminal.keys("Enter")
    terminal.until_shown("› back again", "the end")


def test_hooks_of_the_user_run_a_project_s_don_t_and_a_failing_one_is_named(
    terminal: Terminal, shop: Shop
) -> None:
    folder = terminal.root / "home" / ".config" / "sessiontree"
    folder.mkdir(parents=True)
    (folder / "hooks.py").write_text(
        "from sessiontree.runtime.hooks import Cancel\n"
        "def session_before_switch(event): return Cancel('finish this first')\n"
        "def session_start(event): raise ValueError('boom')\n"
    )
    planted = Path(shop.project) / ".sessiontree" / "hooks.py"
    planted.parent.mkdir()
    planted.write_text("open('planted', 'w')\n")
    terminal.run(PROGRAM)
    terminal.until_shown("session_start failed: ValueError: boom", "until you trust it")
    terminal.type("/new")
    terminal.keys("Enter")
    terminal.until_shown("finish this first")
    terminal.keys("C-d")
    assert terminal.until_ended() == 0
    assert not (Path(shop.project) / "planted").exists()


def test_a_terminal_without_unicode_gets_ascii_and_takes_any_byte(
    terminal: Terminal, shop: Shop
) -> None:
    shop.session("Ärger mit dem Prüfstand", "Done", title="Ärger")
    plain = "env LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0"
    terminal.run(f"{plain} {PROGRAM} ls")
    assert terminal.until_ended() == 0
    assert "just now" in terminal.text
    assert terminal.text.isascii()
    terminal.run(f"{plain} {PROGRAM} -r")
    terminal.until_shown("> Arger", "Enter resume")
    assert terminal.text.isascii()
    terminal.keys("Enter")
    terminal.until_shown("Arger mit dem Prufstand", "> Ask anything")
    assert terminal.text.isascii()
    terminal.type("abc")
    terminal.keys("-H", "e9")
    terminal.type("def")
    terminal.until_shown("abc?def")
    terminal.keys("C-c", "C-d")
    assert terminal.until_ended() == 0


def test_a_byte_that_is_no_utf_8_ends_nothing(terminal: Terminal) -> None:
    terminal.run(PROGRAM)
    terminal.until_shown("Ask anything")
    terminal.type("abc")
    terminal.keys("-H", "e9")
    terminal.type("def")
    terminal.until_shown("abc\ufffddef")
    terminal.keys("C-c", "C-d")
    assert terminal.until_ended() == 0
