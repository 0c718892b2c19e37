"""The list of slash commands above the editor, while one is being typed."""

from __future__ import annotations

from rich.text import Text

from sessiontree.tui.chat.command_list import Command, complete
from sessiontree.tui.pickers.row_list import RowList
from sessiontree.tui.theme import palette_of

_MAX_ROWS = 8
_NAME_WIDTH = 24


class Completions(RowList[Command]):
    """Shows the commands that a text could become, and takes no room otherwise."""

    def __init__(self) -> None:
        super().__init__(self._draw_command, id="completions")

    def on_mount(self) -> None:
        self.display = False

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def look(self, text: str) -> None:
        """Show what the text could become, if anything."""
        found = complete(text)
        if found == list(self.rows) and self.display == bool(found):
            return
        self.display = bool(found)
        self.styles.height = min(len(found), _MAX_ROWS)
        self.show_rows(found)

    def choose(self, text: str) -> Command | None:
        """What the text is to become: the chosen command, if the list is about this text."""
        found = complete(text)
        if self.current is not None and list(self.rows) == found:
            return self.current
        return found[0] if found else None

    def close(self) -> None:
        """Go away until something else is typed."""
        self.display = False

    def _draw_command(self, command: Command, width: int, is_chosen: bool) -> Text:
        palette = palette_of(self)
        line = Text.assemble(("❯ " if is_chosen else "  ", palette.of("accent")))
        name = f"/{command.name} {command.argument}".ljust(_NAME_WIDTH)
        line.append(name, palette.strong if is_chosen else palette.text)
        line.append(command.about, palette.dim)
        line.truncate(max(1, width), overflow="ellipsis")
        return line
