"""Any bytes as another agent's session, and as a table of models."""

from __future__ import annotations

import atheris

with atheris.instrument_imports(include=["sessiontree"]):
    from tests.torture.hostile import GOLDEN

    from sessiontree import SessionTreeError
    from sessiontree.importers.foreign import read_source
    from sessiontree.runtime.models import ModelRegistry

from tests.torture.fuzzing import fuzz, scratch_folder

_path = scratch_folder() / "5f2c81d0-0000-4000-8000-000000000001.jsonl"


def try_one(data: bytes) -> None:
    _path.write_bytes(data)
    for agent in ("claude-code", "codex", None):
        try:
            read_source(_path, agent=agent)
        except SessionTreeError:
            pass
    registry = ModelRegistry()
    registry.add_table(data.decode("utf-8", "replace"), "fuzz")
    for model in registry:
        assert model.context_window > 0
        model.cost(1, 1)


def _seeds() -> list[bytes]:
    files = [*GOLDEN.glob("claude-code/*.jsonl"), *GOLDEN.glob("codex/**/*.jsonl")]
    table = b'[[models]]\nprovider = "p"\nid = "m"\ncontext_window = 10\n'
    return [*(path.read_bytes()[:8_000] for path in sorted(files)), table]


if __name__ == "__main__":
    fuzz(try_one, _seeds())
