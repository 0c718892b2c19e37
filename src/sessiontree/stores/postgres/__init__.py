"""``PostgresStore``: sessions in PostgreSQL, for teams and fleets (docs/teams.md).

One row a session, one row an entry; an append is one statement. Needs the extra ``postgres``.
"""
