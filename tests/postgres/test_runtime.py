"""An agent's session in the database moves as one in files does."""

from __future__ import annotations

from tests.samples import assistant, user

from sessiontree import SessionManager, create_agent_session
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

CWD = "/work/runtime"


def talk(store: PostgresStore, said: str) -> str:
    with SessionManager.create(CWD, storage=store) as session:
        session.append_message(user(said))
        session.append_message(assistant(f"answer to {said}"))
        return session.ref


async def test_it_switches_copies_forks_branches_and_begins_anew(store: PostgresStore) -> None:
    other = talk(store, "other")
    agent = ScriptedAgent([Reply("Hello")])
    async with await create_agent_session(agent, cwd=CWD, storage=store) as session:
        assert await session.switch_session(other)
        assert session.manager.ref == other
        assert [message["role"] for message in agent.messages] == ["user", "assistant"]
        assert await session.copy_session(other)
        assert session.manager.ref != other
        assert session.manager.header["parentSession"] == other
        copied = session.manager.ref
        assert await session.fork()
        assert session.manager.header["parentSession"] == copied
        prompt = session.manager.get_entries()[0].id
        assert await session.branch(prompt) == "other"
        assert await session.new_session()
        assert not [each for each in session.manager.get_entries() if each.type == "message"]
    assert len(store.list(CWD)) == 3
