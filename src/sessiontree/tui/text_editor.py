"""Let the user edit a text in their own editor: ``$VISUAL``, ``$EDITOR``, or the setting."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator

from sessiontree.config import Config
from sessiontree.errors import SessionTreeError

_FALLBACKS = ("nano", "vim", "vi")
_MAX_BYTES = 4 << 20


class EditorError(SessionTreeError):
    """The text was not edited; the message gives the reason."""


def editor_command(config: Config) -> list[str]:
    """The editor's program and arguments, split as a shell would. Raises EditorError."""
    spelled = config.text("editor")
    if spelled is None:
        found = next(filter(None, map(shutil.which, _FALLBACKS)), None)
        if found is None:
            raise EditorError("No editor found: set VISUAL or EDITOR")
        return [found]
    try:
        command = shlex.split(spelled)
    except ValueError as error:
        raise EditorError(f"The editor's command can't be read ({error}): {spelled}") from error
    if not command or shutil.which(os.path.expanduser(command[0])) is None:
        raise EditorError(f"Editor not found: {command[0] if command else spelled}")
    return [os.path.expanduser(command[0]), *command[1:]]


@contextlib.contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Leave Ctrl+C to the editor: the terminal sends it to this process as well."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A function and not SIG_IGN, which the editor would inherit.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def edit_file(path: str, config: Config) -> None:
    """Open a file in the editor and wait for its end. Raises EditorError if it says it failed."""
    command = editor_command(config)
    try:
        with ignoring_interrupts():
            code = subprocess.run([*command, path], check=False).returncode
    except OSError as error:
        raise EditorError(f"{command[0]}: {error.strerror}") from error
    if code != 0:
        raise EditorError(f"{os.path.basename(command[0])} ended with exit code {code}")


def edit_text(text: str, config: Config, suffix: str = ".md") -> str:
    """The text as the user left it in the editor. Raises EditorError, and the old text holds.

    It is in a file that only this user can read, in a folder of its own: editors leave backups
    and swap files beside what they edit. All of it is removed afterwards.
    """
    try:
        folder = tempfile.mkdtemp(prefix="sessiontree-")
    except OSError as error:
        raise EditorError(f"No folder for the text: {error.strerror}") from error
    try:
        path = os.path.join(folder, f"prompt{suffix}")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        edit_file(path, config)
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise EditorError(f"The text can't be read back: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
    if len(data) > _MAX_BYTES:
        raise EditorError("The text is too long (more than 4 MB)")
    # Editors end a file with a line break that the user did not type.
    edited = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return edited if text.endswith("\n") else edited.removesuffix("\n")
