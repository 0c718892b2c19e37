"""Tell whether a database's functions, rules and columns are those that this version made.

``note_made`` writes into the comment of ``st_meta`` of which text they were made, and a digest of
each as the database describes it. A later look finds what was made of another text (by another
build of the same version), and what was changed since.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, cast

from psycopg import sql

from sessiontree.stores.postgres.pool import Connection

_FUNCTION = re.compile(r"CREATE OR REPLACE FUNCTION (?:%1\$I\.)?(st_\w+)\(")
_DIGITS = 12
_RUN = ("function ", "policy ")

# what a schema is called differs from one database to another
_PLAIN = "replace({}, quote_ident(current_schema()) || '.', '')"
_TABLES = (
    "SELECT c.oid, c.relname, c.relrowsecurity, c.relforcerowsecurity FROM pg_class c "
    "WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') "
    r"AND c.relname ~ '^st_(meta|member|session|entry(_\d)?|text|blob|blob_use|gone|policy)$'"
)
_DESCRIBED = rf"""
WITH t AS ({_TABLES})
SELECT 'function ' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
       concat_ws('|', {_PLAIN.format("p.prosrc")}, pg_get_function_result(p.oid), p.provolatile,
                 p.prosecdef, l.lanname,
                 replace(array_to_string(p.proconfig, ','), quote_ident(current_schema()), ''))
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
 WHERE p.pronamespace = current_schema()::regnamespace AND p.proname::text = ANY (%(functions)s)
UNION ALL
SELECT 'row-level security of ' || relname, concat_ws('|', relrowsecurity, relforcerowsecurity)
  FROM t
UNION ALL
SELECT 'policy ' || o.polname || ' of ' || t.relname,
       concat_ws('|', o.polcmd, o.polpermissive,
                 (SELECT string_agg(coalesce(r.rolname::text, 'public'), ',')
                    FROM unnest(o.polroles) u(oid) LEFT JOIN pg_roles r ON r.oid = u.oid),
                 {_PLAIN.format("pg_get_expr(o.polqual, o.polrelid)")},
                 {_PLAIN.format("pg_get_expr(o.polwithcheck, o.polrelid)")})
  FROM pg_policy o JOIN t ON t.oid = o.polrelid
UNION ALL
SELECT 'column ' || a.attname || ' of ' || t.relname,
       concat_ws('|', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated)
  FROM pg_attribute a JOIN t ON t.oid = a.attrelid
 WHERE a.attnum > 0 AND NOT a.attisdropped AND t.relname !~ '\d$'
UNION ALL
SELECT 'statistics of ' || t.relname, string_agg(a.attname, ',' ORDER BY a.attname)
  FROM pg_attribute a JOIN t ON t.oid = a.attrelid
 WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attstattarget = 0 GROUP BY t.relname
UNION ALL
SELECT 'index ' || i.relname, {_PLAIN.format("pg_get_indexdef(i.oid)")}
  FROM pg_index x JOIN t ON t.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
"""
_LEFT_OVER = (
    "SELECT 'FUNCTION ' || p.oid::regprocedure::text FROM pg_proc p "
    "WHERE p.pronamespace = current_schema()::regnamespace AND p.proname::text = ANY (%s) "
    "AND p.xmin <> pg_current_xact_id()::xid UNION ALL "
    "SELECT format('POLICY %%I ON %%I', o.polname, t.relname) FROM pg_policy o "
    f"JOIN ({_TABLES}) t ON t.oid = o.polrelid WHERE o.xmin <> pg_current_xact_id()::xid"
)


def digest_of(*texts: str) -> str:
    """A short digest of some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_DIGITS]


def note_made(connection: Connection, text: str, rules: str) -> None:
    """Note what was just made of ``text``; ``rules`` is the part of it that has the functions."""
    before: dict[str, str] = _noted(connection).get("parts", {})
    # a table that was changed by hand is not right because the rules were made again
    tables = {name: digest for name, digest in before.items() if not is_rule(name)}
    parts = {**_describe(connection, rules), **tables}
    noted = json.dumps({"text": digest_of(text), "parts": parts})
    comment = sql.SQL("COMMENT ON TABLE st_meta IS {}")
    connection.execute(comment.format(sql.Literal(noted)))


def drop_left_over(connection: Connection, rules: str) -> None:
    """Drop functions of our names, and policies, that this transaction has not made."""
    for (what,) in connection.execute(_LEFT_OVER.encode(), (_functions(rules),)).fetchall():
        connection.execute(sql.SQL("DROP {}").format(sql.SQL(what)))


def is_of_other_text(connection: Connection, text: str) -> bool:
    """Whether the functions and rules were made of another text than this."""
    return _noted(connection).get("text") != digest_of(text)


def find_changed(connection: Connection, rules: str) -> list[str]:
    """What was changed since it was made: functions, policies, columns, indexes, by name."""
    noted: dict[str, str] = _noted(connection).get("parts", {})
    found = _describe(connection, rules)
    changed = [name for name, digest in noted.items() if found.get(name) != digest]
    # others may add indexes and columns, but nothing that runs in our place or shows more rows
    added = [name for name in found if name not in noted and name.startswith(_RUN)]
    return sorted([*changed, *added]) if noted else []


def is_rule(name: str) -> bool:
    """Whether making the rules again makes this right."""
    return name.startswith((*_RUN, "row-level security ", "statistics "))


def _describe(connection: Connection, rules: str) -> dict[str, str]:
    rows = connection.execute(_DESCRIBED.encode(), {"functions": _functions(rules)}).fetchall()
    return {name: digest_of(described or "") for name, described in rows}


def _functions(rules: str) -> list[str]:
    return sorted(set(_FUNCTION.findall(rules)))


def _noted(connection: Connection) -> dict[str, Any]:
    found = connection.execute("SELECT obj_description('st_meta'::regclass, 'pg_class')").fetchone()
    try:
        return cast("dict[str, Any]", json.loads(found[0])) if found and found[0] else {}
    except (ValueError, TypeError):
        return {}
