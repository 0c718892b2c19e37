"""What the documents show is true: their examples run, their format examples load."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

import pytest

import sessiontree
import sessiontree.testing
from sessiontree import (
    SessionManager,
    SessionStorage,
    SessionStorageReader,
    SessionStorageWriter,
)

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
_SECTION_LINK = re.compile(r"\]\((?!https?:)([^)#]*)#([^)]+)\)")
_NAMED_PAGE = re.compile(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?")
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


def blocks(document: Path, language: str) -> list[str]:
    text = document.read_text(encoding="utf-8")
    return [body for kind, body in _BLOCK.findall(text) if kind == language]


@pytest.mark.parametrize("name", ["README.md", "docs/building.md", "docs/discovery.md"])
def test_the_python_examples_of_a_document_run_one_after_the_other(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = blocks(ROOT / name, "python")
    assert examples
    scope: dict[str, object] = {"__name__": "example"}
    for example in examples:
        exec(compile(example, name, "exec"), scope)


def test_the_python_examples_pass_strict_type_checks_as_they_stand(tmp_path: Path) -> None:
    files = []
    for document in DOCUMENTS:
        # These would have whole frameworks checked, which takes minutes.
        if document.name not in ("agents.md", "adapters.md") and (
            examples := blocks(document, "python")
        ):
            file = tmp_path / f"{document.stem.lower()}_examples.py"
            file.write_text("\n".join(examples), encoding="utf-8")
            files.append(file)
    assert len(files) > 3
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", *files],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_example_is_about_ten_lines() -> None:
    lines = [line for line in blocks(ROOT / "README.md", "python")[0].splitlines() if line.strip()]
    assert len(lines) <= 12


@pytest.mark.parametrize("seam", [SessionStorage, SessionStorageReader, SessionStorageWriter])
def test_the_guide_lists_every_method_that_a_storage_must_have(seam: type) -> None:
    text = (ROOT / "docs/building.md").read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row.startswith(f"| `{seam.__name__}`")]
    listed = re.findall(r"`(\w+)`", "".join(row.split("|")[2] for row in rows))
    assert sorted(listed) == sorted(name for name in vars(seam) if not name.startswith("_"))


def test_every_example_of_the_format_loads_without_a_warning(tmp_path: Path) -> None:
    lines = "".join(blocks(ROOT / "docs/format.md", "json"))
    file = tmp_path / "session.jsonl"
    file.write_text(lines, encoding="utf-8")
    session = SessionManager.open(file)
    assert session.warnings == []
    assert len(session.get_entries()) == lines.count("\n") - 1
    assert session.session_name == "Fix the login"
    assert session.get_label("a0000003") == "before the fix"


def test_the_format_shows_every_entry_type_that_the_manager_writes() -> None:
    source = "".join(
        path.read_text("utf-8") for path in (ROOT / "src/sessiontree/session").glob("*.py")
    )
    written = set(re.findall(r"\.append\(\s*\"([a-z_]+)\"", source))
    assert {"message", "label", "custom", "compaction", "context_edit"} <= written
    shown = set(re.findall(r'"type":"(\w+)"', "".join(blocks(ROOT / "docs/format.md", "json"))))
    assert written <= shown


def test_make_finds_all_it_needs_in_a_source_archive() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    used = {
        *project["tool"]["mypy"]["files"],
        *re.findall(r"(?<![\w/])(\w+)/[\w/]+\.(?:sh|py)\b", makefile),
    }
    assert used - {*project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in _LINK.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def anchors(document: Path) -> set[str]:
    """What can follow the ``#`` of a link to this page, as GitHub and mkdocs spell headings."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in headings}


def test_pages_named_in_the_code_exist_and_have_the_section() -> None:
    named = [
        (file.relative_to(ROOT), page, anchor)
        for folder in ("src", "tests", "benchmarks", "examples")
        for file in (ROOT / folder).rglob("*.py")
        for page, anchor in _NAMED_PAGE.findall(file.read_text(encoding="utf-8"))
    ]
    assert len(named) > 10
    for file, page, anchor in named:
        assert (ROOT / page).is_file(), f"{file} names {page}"
        assert not anchor or anchor in anchors(ROOT / page), f"{file} names {page}#{anchor}"


def test_every_extra_that_code_and_documents_name_is_one_that_can_be_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    sources = [*DOCUMENTS, *(ROOT / "src").rglob("*.py")]
    named = {
        extra.strip()
        for source in sources
        for found in re.findall(
            r"""sessiontree\[([\w, -]+)\]|needs_extra\("([\w-]+)\"""", source.read_text("utf-8")
        )
        for extra in "".join(found).split(",")
    }
    assert named - project["optional-dependencies"].keys() == set()
    assert {"web", "mcp"} <= named


def test_the_extra_of_the_viewer_brings_what_shows_markdown_and_code() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    brought = {re.split(r"\W*[>=]", each)[0] for each in project["optional-dependencies"]["web"]}
    assert brought == {"starlette", "uvicorn", "markdown-it-py", "pygments"}


def test_the_api_reference_has_every_public_name() -> None:
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    public = {f"sessiontree.{name}" for name in sessiontree.__all__ if name != "__version__"}
    public |= {f"sessiontree.testing.{name}" for name in sessiontree.testing.__all__}
    assert public - shown == set()


def test_the_navigation_of_the_site_has_every_page_once() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    home, *sections = site["project"]["nav"]
    listed = [*home.values()]
    for section in sections:
        for pages in section.values():
            listed += [path for page in pages for path in page.values()]
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    ours = {"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
    assert sorted(listed) == sorted(pages | ours | {"docs/decisions/README.md"})


def test_the_list_of_decisions_has_each_with_its_title() -> None:
    folder = ROOT / "docs/decisions"
    expected = [
        f"- [{path.read_text(encoding='utf-8').splitlines()[0].removeprefix('# ')}]({path.name})"
        for path in sorted(folder.glob("0*.md"))
    ]
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("- ")] == expected


def test_links_to_sections_lead_to_one() -> None:
    for document in DOCUMENTS:
        for page, anchor in _SECTION_LINK.findall(document.read_text(encoding="utf-8")):
            target = document.parent / page if page else document
            assert anchor in anchors(target), f"{document.name} links to {page}#{anchor}"


def test_the_map_of_the_code_names_modules_and_functions_that_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    stops = re.findall(r"`([\w/]+\.py)`(?: `(\w+)`)?", text)
    source = ROOT / "src" / "sessiontree"
    wrong = [
        (module, name)
        for module, name in stops
        if "/" in module
        and not (
            (source / module).is_file()
            and re.search(rf"\bdef {name}", (source / module).read_text() if name else "def ")
        )
    ]
    assert len(stops) > 50
    assert wrong == []


def test_the_map_of_the_code_draws_the_layers_that_are_enforced_in_their_order() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    place = {name: at for at, layer in enumerate(layers) for name in layer.split(" | ")}
    drawing = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("```")[1]
    # what a line begins with: the name of a package, or several
    heads = re.findall(r"^[ │└]*((?:\w+, )*\w+)(?=  |$)", drawing, re.MULTILINE)
    drawn = [name for head in heads for name in head.split(", ")]
    assert sorted(drawn) == sorted(place)
    assert [place[name] for name in drawn] == sorted(place[name] for name in drawn)


def test_the_code_cites_no_document_that_readers_do_not_have() -> None:
    citation = "SP" + "EC"  # spelled so that this file does not cite it either
    for folder in ("src", "tests", "benchmarks", "examples", "docs"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {".py", ".md", ".toml", ".tcss", ".mjs"}:
                assert citation not in file.read_text(encoding="utf-8"), file.relative_to(ROOT)


_QUESTION = re.compile(r"(What|When|Where|Which|Who|Whose|Whom|Whether|How|Why)\b")
_RIDDLE = re.compile(
    r"\banew\b|\bwhoever\b|\bnobody\b|\b(is|are) (told|said|looked at|asked about)\b"
    r"|\blet go of\b|\b(go|goes|going) on (with|from)\b|\bwant of\b|\bmend(s|ed|ing)?\b"
    r"|\bis there already\b|\bis not there any more\b|\bthat (is|are) none\b"
    # "there is no reason" is plain; "what is no entry" is not
    r"|(?<!there )\b(is|are) no (?!longer\b|such\b|more\b)",
    re.IGNORECASE,
)


def _prose(source: str) -> list[str]:
    """The docstrings and comments of a module."""
    texts = [
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return texts + [token.string for token in tokens if token.type == tokenize.COMMENT]


def test_modules_begin_with_what_they_are_or_do_and_name_who_acts() -> None:
    """The commonest ways in which docstrings became riddles; CONTRIBUTING has the tone."""
    found = []
    for file in sorted((ROOT / "src").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        first = ast.get_docstring(ast.parse(source)) or ""
        if _QUESTION.match(first):
            found.append(f"{file.relative_to(ROOT)}: begins with a question: {first[:60]}")
        found += [
            f"{file.relative_to(ROOT)}: {riddle[0]}: {text[:60]}"
            for text in _prose(source)
            if (riddle := _RIDDLE.search(" ".join(text.split())))
        ]
    assert found == []
