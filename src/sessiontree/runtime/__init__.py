"""A live agent on a session: async; it moves to another session completely or not at all.

Start with `create_agent_session` (``create``); plug in an agent with `Agent` (``agent``) or
`AgentBase` (``agent_base``). Imported only by programs that run agents: listing and searching
sessions must not pay for asyncio.
"""
