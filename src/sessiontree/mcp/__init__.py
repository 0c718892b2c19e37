"""An MCP server that lets agents search and read earlier sessions; it never writes (extra ``mcp``).

``reading`` spells a session in few words, ``server`` has the tools and resources.
"""
