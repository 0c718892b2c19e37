"""The unit tests mirror the source: a test file's place and name say what it tests."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent.parent / "src" / "sessiontree"


def _names(package: Path) -> set[str]:
    """The package itself, and its modules and packages."""
    inside = (path.stem for path in package.iterdir() if path.suffix == ".py" or path.is_dir())
    return {package.name, *(name for name in inside if not name.startswith("__"))}


def _names_one(test: str, names: set[str]) -> bool:
    """Whether a test is called after a module: ``test_bundle_hostile``, ``bundle_import``."""
    first_word = test.removeprefix("test_").split("_")[0]
    subject = test.removeprefix("test_")
    return any(subject.startswith(name) or name.startswith(f"{first_word}_") for name in names)


def test_each_folder_of_unit_tests_is_a_package() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    assert [folder for folder in sorted(folders) if not (SOURCE / folder).is_dir()] == []


def test_each_file_of_unit_tests_names_what_it_tests() -> None:
    """Except at the top, where tests of the whole package are."""
    astray = [
        str(path.relative_to(TESTS))
        for path in sorted(TESTS.rglob("test_*.py"))
        if path.parent != TESTS
        and not _names_one(path.stem, _names(SOURCE / path.parent.relative_to(TESTS)))
    ]
    assert astray == [], "rename them after the module that they test: test_{module}_{subject}.py"
