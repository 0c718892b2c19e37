"""Check the built site: every link leads to a file, and pages load nothing from the network.

The build itself checks links between pages and their sections, but no link to another kind of
file: an example, a picture, a folder.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The addresses that a page links to, and those that a browser loads with it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in {"href", "src"}:
                (self.links if tag == "a" else self.loads).append(value)


def faults(site: Path) -> list[str]:
    """What is wrong with the pages, one line each."""
    found = []
    for file in sorted(site.rglob("*.html")):
        page = Page(file)
        name = file.relative_to(site)
        found += [
            f"{name} loads {url} from the network" for url in page.loads if urlsplit(url).netloc
        ]
        if file.name != "404.html":  # its links start at the site's root, wherever that will be
            missing = [url for url in page.links + page.loads if not leads_somewhere(file, url)]
            found += [f"{name} links to {url}, which the site does not have" for url in missing]
    return found


def leads_somewhere(file: Path, url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme or parts.netloc or not parts.path:
        return True
    return (file.parent / unquote(parts.path)).is_file()


if __name__ == "__main__":
    sys.exit("\n".join(faults(Path(sys.argv[1]))) or None)
