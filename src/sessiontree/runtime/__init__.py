"""A live agent on a session: async, and never left half moved.

Start with `create_agent_session` (``create``); plug in an agent with `Agent` (``agent``) or
`AgentBase` (``agent_base``). Imported only by programs that run agents: listing and searching
sessions must not pay for asyncio.
"""
