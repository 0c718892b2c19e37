"""Put the manual page and the shell completions into the wheel, made from the program itself."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Extras(BuildHookInterface[Any]):
    """Generates files that installers put where ``man`` and shells look for them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the files before a wheel is built; an editable install goes without."""
        if version == "editable":
            return
        root = Path(self.root)
        sys.path[:0] = [str(root / "src"), str(root / "scripts")]
        folder = Path(tempfile.mkdtemp(prefix="sessiontree-build-"))
        for place, text in make_files().items():
            path = folder / Path(place).name
            path.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(path)] = place


def make_files() -> dict[str, str]:
    """Return the text of each file, by its place below the installation's prefix."""
    from click.shell_completion import ShellComplete, get_completion_class
    from man_page import man_page

    from sessiontree import __version__
    from sessiontree.cli.completion import teach_fish_commas
    from sessiontree.cli.program import start

    teach_fish_commas()

    def completion(shell: str) -> str:
        kind = get_completion_class(shell)
        assert kind is not None
        # The class's own source() would first ask the shell for its version.
        return ShellComplete.source(kind(start, {}, "sessiontree", "_SESSIONTREE_COMPLETE"))

    return {
        "share/man/man1/sessiontree.1": man_page(start, __version__),
        "share/bash-completion/completions/sessiontree": completion("bash"),
        "share/zsh/site-functions/_sessiontree": completion("zsh"),
        "share/fish/vendor_completions.d/sessiontree.fish": completion("fish"),
    }
