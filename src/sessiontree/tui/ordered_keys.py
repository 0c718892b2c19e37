"""Text widgets whose keys take effect in the order they were pressed.

Textual runs a widget's bindings only after the key has bubbled up to the app. By then the widget
may already have inserted the letters typed after it: while the machine is busy, a line break lands
behind the words that follow it, and a backspace deletes the wrong letter. So widgets for text run
their bindings themselves, at once.
"""

from __future__ import annotations

from textual import events
from textual.binding import BindingsMap, NoBinding
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input


async def run_bindings(widget: Widget, bindings: BindingsMap, event: events.Key) -> None:
    """Run the key's bindings, if it has any, and stop the event then."""
    try:
        found = bindings.get_bindings_for_key(event.key)
    except NoBinding:
        return
    event.stop()
    event.prevent_default()
    for binding in found:
        await widget.app.run_action(binding.action, widget)


class LineInput(Input):
    """One line of text whose keys take effect in order."""

    def __init__(
        self,
        text: str = "",
        *,
        placeholder: str = "",
        classes: str = "",
        suggester: Suggester | None = None,
    ) -> None:
        super().__init__(
            text,
            placeholder=placeholder,
            compact=True,
            classes=classes or None,
            suggester=suggester,
        )
        self.cursor_blink = False

    async def on_key(self, event: events.Key) -> None:
        """Run bindings of keys that are not letters."""
        if not event.is_printable:
            await run_bindings(self, self._bindings, event)
