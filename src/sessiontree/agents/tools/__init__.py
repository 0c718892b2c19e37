"""The tools of our agents: ``read``, ``write``, ``edit``, ``bash``, ``grep``, ``ls``
and ``todo``.

`toolbox.Toolbox` is the door: it knows every tool, checks arguments, asks for confirmation and
makes ``toolResult`` messages. A tool knows its own business only.
"""
