"""A viewer of sessions in the browser: lists, searches, reads and looks after them.

``app`` has the pages, ``access`` who gets to see them. Needs the extra ``web``.
"""
