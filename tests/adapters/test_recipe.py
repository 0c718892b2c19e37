"""The recipe of the guide for another framework: it is a whole adapter, as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.adapters.contract import AdapterContract, AsyncAdapterOnFiles

_GUIDE = Path(__file__).parents[2] / "docs" / "adapters.md"


def _recipe() -> dict[str, Any]:
    """What the program defines, without running its last line."""
    programs = re.findall(r"```python\n(.*?)```", _GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (program,) = (each for each in programs if "class MyStore" in each)
    defined: dict[str, Any] = {}
    exec(compile(program.replace("asyncio.run(talk())", ""), str(_GUIDE), "exec"), defined)
    return defined


MyStore = _recipe()["MyStore"]


class Driver:
    """One store, as the framework of the recipe would use it."""

    def __init__(self, url: Any, scope: str | None = None) -> None:
        self.store = MyStore(storage=url, scope=scope)

    async def add(self, session_id: str, text: str) -> None:
        await self.store.save(session_id, {"from": "person", "text": text})

    async def answer(self, session_id: str, text: str) -> None:
        usage = {"input": 10, "output": 2}
        await self.store.save(session_id, {"from": "model", "text": text, "usage": usage})

    async def texts(self, session_id: str) -> list[str]:
        return [message["text"] for message in await self.store.load(session_id)]

    async def close(self) -> None:
        await self.store.aclose()


class TestInMemory(AdapterContract):
    driver = Driver


class TestOnFiles(AsyncAdapterOnFiles):
    driver = Driver
