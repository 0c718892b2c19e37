"""Follow a session that another process writes to as well.

Only an idle agent follows: while it runs, its own answer is what continues the conversation.
"""

from __future__ import annotations

from sessiontree.runtime.state import Wiring
from sessiontree.runtime.switching import emit_replaced
from sessiontree.session.manager import SessionManager


async def catch_up(wiring: Wiring) -> int:
    """Read what others appended; return the number of entries.

    If they carry our path on, session and agent continue from the last of them. If they are on
    another branch, we stay where we are.
    """
    async with wiring.operating.hold("catching up"):
        if wiring.agent.is_running or wiring.is_failing:
            return 0
        manager = wiring.manager
        count, is_ahead = await wiring.disk.run(lambda: _read_growth(manager))
        if is_ahead:
            await wiring.refresh()
    if is_ahead:
        await emit_replaced(wiring)
    return count


def _read_growth(manager: SessionManager) -> tuple[int, bool]:
    """Read new entries; return their number, and whether the leaf has moved to the last of them."""
    count = manager.refresh()
    if not count:
        return 0, False
    newest = manager.get_entries()[-1]
    leaf_id = manager.leaf_id
    is_ahead = newest.id != leaf_id and any(
        entry.id == leaf_id for entry in manager.get_branch(newest.id)
    )
    if is_ahead:
        manager.branch(newest.id)
    return count, is_ahead
