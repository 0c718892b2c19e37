"""The slash commands and shell commands that the editor accepts besides prompts. Pure.

Owns their names and arguments, and tells them from prompts. `commands` runs them.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

_SLASH = re.compile(r"/([A-Za-z][A-Za-z-]*)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """One slash command: its name, its argument as help shows it, and what it does."""

    name: str
    argument: str
    about: str

    @property
    def needs_argument(self) -> bool:
        """Whether the argument is required; optional ones are in brackets."""
        return bool(self.argument) and not self.argument.startswith("[")


COMMANDS: tuple[Command, ...] = (
    Command("resume", "[words]", "open another session"),
    Command("new", "", "start a new session"),
    Command("tree", "", "show all branches and jump to any point (Esc Esc)"),
    Command("branch", "", "edit an earlier prompt and resend it in a new session"),
    Command("fork", "", "duplicate this session and switch to the copy"),
    Command("clone", "", "duplicate this session, stay here"),
    Command("name", "[name]", "name the session, or clear its name"),
    Command("label", "[label]", "label the last message, to find it in the tree"),
    Command("session", "", "facts about this session"),
    Command("model", "[model]", "choose another model"),
    Command("thinking", "[level]", "choose how much the model thinks"),
    Command("allowed", "", "list what tools may do without asking; Enter revokes"),
    Command("plan", "", "plan mode on or off: the agent may only read"),
    Command("compact", "[instructions]", "summarize the older messages to free context"),
    Command("search", "words", "search all sessions"),
    Command("export", "[file]", "write the conversation as Markdown (or .html, .json)"),
    Command("copy", "", "copy the last answer to the clipboard"),
    Command("theme", "[name]", "choose the colours"),
    Command("demo", "[remove]", "add sample sessions, or remove them"),
    Command("help", "", "keys and commands"),
    Command("quit", "", "quit; you can resume the session later"),
)

_BY_NAME = {command.name: command for command in COMMANDS}
_OTHER_NAMES = {
    "exit": "quit",
    "q": "quit",
    "sessions": "resume",
    "rename": "name",
    "permissions": "allowed",
    "clear": "new",
    "rewind": "tree",
    "info": "session",
    "cost": "session",
    "themes": "theme",
    "colors": "theme",
    "colours": "theme",
    "?": "help",
}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt for the agent."""

    text: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """A slash command with its argument."""

    command: Command
    argument: str


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command for the shell; ``is_excluded`` keeps it out of what the model sees."""

    command: str
    is_excluded: bool


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistyped command; ``message`` says what to do."""

    message: str


Input = Prompt | Invocation | ShellCommand | Mistake


def parse_input(text: str) -> Input:
    """Parse the typed text. If it begins with a space it is always a prompt."""
    stripped = text.strip()
    if text.startswith(("!", "/")):
        if text.startswith("!"):
            return _parse_shell(stripped)
        found = _SLASH.fullmatch(stripped)
        if found is not None:
            return _parse_slash(found[1].casefold(), (found[2] or "").strip())
    return Prompt(stripped)


def _parse_shell(text: str) -> Input:
    is_excluded = text.startswith("!!")
    command = text[2 if is_excluded else 1 :].strip()
    if not command:
        return Mistake("Type a command after !, for instance: !git status")
    return ShellCommand(command, is_excluded)


def _parse_slash(name: str, argument: str) -> Input:
    command = _BY_NAME.get(_OTHER_NAMES.get(name, name))
    if command is not None:
        return Invocation(command, argument)
    close = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.6)
    meant = f"Did you mean /{close[0]}? " if close else ""
    return Mistake(f"Unknown command /{name}. {meant}/help lists them all")


def complete(text: str) -> list[Command]:
    """List the commands that a text could become; [] once its name is complete."""
    found = re.fullmatch(r"/([A-Za-z-]*)", text)
    if found is None:
        return []
    begun = found[1].casefold()
    first = [command for command in COMMANDS if command.name.startswith(begun)]
    rest = [command for command in COMMANDS if begun and begun in command.name[1:]]
    return list(dict.fromkeys([*first, *rest]))


KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "send; while the agent works: steer it"),
    ("Alt+Enter", "queue for when the agent is done"),
    ("Ctrl+J, Shift+Enter", "new line (also \\ before Enter)"),
    ("Up, Down", "earlier prompts"),
    ("Ctrl+R", "search earlier prompts"),
    ("Ctrl+G", "edit the prompt in your editor"),
    ("Esc", "stop the agent"),
    ("Esc Esc", "open the tree"),
    ("Ctrl+O", "unfold or fold tools and summaries"),
    ("Ctrl+T", "unfold or fold thoughts"),
    ("PageUp, PageDown", "scroll the conversation"),
    ("Ctrl+Up", "go into the conversation: arrows, Enter folds, c copies, l labels"),
    ("Shift+Tab", "next thinking level"),
    ("Tab", "complete a command or an @file; unfold a paste"),
    ("@file", "name a file of the project"),
    ("!command", "run a command and show it to the model"),
    ("!!command", "run it without showing it to the model"),
    ("F1", "keys and commands, as /help"),
    ("Ctrl+C", "clear the editor; twice: leave"),
    ("Ctrl+D", "leave, when the editor is empty"),
)
"""Keys of the chat, for ``/help``."""
