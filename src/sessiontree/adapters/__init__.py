"""Sessiontree as the session store of agent frameworks: one module for each, imported by its name.

============================== ================================= ===================================
``adapters.pydantic_ai``       ``SessiontreeConversationStore``  ``sessiontree[pydantic-ai]``
``adapters.claude_agent_sdk``  ``SessiontreeSessionStore``       ``sessiontree[claude]``
``adapters.openai_agents``     ``SessiontreeSession``            ``sessiontree[openai]``
``adapters.google_adk``        ``SessiontreeSessionService``     ``sessiontree[adk]``
``adapters.strands``           ``SessiontreeSessionRepository``  ``sessiontree[strands]``
``adapters.agent_framework``   ``SessiontreeHistoryProvider``    ``sessiontree[agent-framework]``
``adapters.langgraph``         ``SessiontreeSaver``              ``sessiontree[langgraph]``
============================== ================================= ===================================

Each of them takes ``storage=`` (a store, a storage or a URL), ``profile=`` and ``scope=``. Their
common ground:

- ``sessions`` keeps sessions open by the framework's ids and runs work on them off the event loop;
- ``verbatim`` keeps a framework's own object exactly, beside the message that everybody can read.
"""
