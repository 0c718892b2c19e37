-- What the tables of version 1 are used by: functions, and who sees which rows. Read with schema_1.sql.
--
-- All of it may be made again at any time, while clients run: `store upgrade` does so where the
-- database has other ones than this.

-- Whose rows a statement sees: a role that is bound to a tenant sees that one, whatever it asks for.
--
-- All of row-level security hangs on this, so each name in it says its schema: a role may put tables,
-- types and operators of its own before ours in its search_path. A role without a row of its own has
-- the tenant of the roles whose rights it inherits; one that nobody let in has none.
DO $do$
BEGIN
    EXECUTE format($create$
CREATE OR REPLACE FUNCTION %1$I.st_tenant_of(p_role name) RETURNS pg_catalog.text LANGUAGE plpgsql STABLE AS $$
DECLARE
    bound pg_catalog.text;
    is_let_in pg_catalog.bool;
    asked pg_catalog.text := coalesce(pg_catalog.current_setting('sessiontree.tenant', true), '');
    held pg_catalog.text[];
BEGIN
    SELECT m.tenant INTO bound FROM %1$I.st_member m WHERE m.role OPERATOR(pg_catalog.=) p_role;
    is_let_in := FOUND;
    IF bound IS NOT NULL THEN RETURN bound; END IF;
    IF session_user OPERATOR(pg_catalog.<>) p_role THEN
        SELECT m.tenant INTO bound FROM %1$I.st_member m
         WHERE m.role OPERATOR(pg_catalog.=) session_user;
        IF bound IS NOT NULL THEN RETURN bound; END IF;
    END IF;
    IF is_let_in OR EXISTS (SELECT FROM pg_catalog.pg_roles r
                            WHERE r.rolname OPERATOR(pg_catalog.=) p_role AND r.rolsuper) THEN
        RETURN asked;
    END IF;
    SELECT pg_catalog.array_agg(DISTINCT m.tenant) FILTER (WHERE m.tenant IS NOT NULL),
           pg_catalog.bool_or(m.tenant IS NULL)
      INTO held, is_let_in FROM %1$I.st_member m
     WHERE pg_catalog.pg_has_role(p_role, m.role, 'USAGE');
    IF pg_catalog.array_length(held, 1) OPERATOR(pg_catalog.=) 1 THEN RETURN held[1]; END IF;
    IF asked OPERATOR(pg_catalog.=) ANY (held) OR (held IS NULL AND is_let_in) THEN
        RETURN asked;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = CASE WHEN held IS NULL
        THEN pg_catalog.format('role %%s was not let in; to do so: sessiontree store grant', p_role)
        ELSE pg_catalog.format('role %%s is of several tenants: name one by ?tenant=', p_role) END;
END $$;
CREATE OR REPLACE FUNCTION %1$I.st_tenant() RETURNS pg_catalog.text LANGUAGE plpgsql STABLE AS $$
DECLARE bound pg_catalog.text;
BEGIN
    -- asked several times by each statement, so the usual case without a call
    SELECT m.tenant INTO bound FROM %1$I.st_member m WHERE m.role OPERATOR(pg_catalog.=) current_user;
    RETURN coalesce(bound, %1$I.st_tenant_of(current_user));
END $$;
    $create$, current_schema());
END $do$;

-- The mark of one's own rows among the words of a text, and the query for it: an index of words that
-- all tenants share would be read through everybody's rows with a word, and the time would tell.
CREATE OR REPLACE FUNCTION st_own_mark() RETURNS tsvector LANGUAGE sql STABLE AS
$$ SELECT array_to_tsvector(ARRAY[chr(1) || st_tenant()]) $$;

-- Append entries, once however often the statement is sent, and say what others wrote since.
--
-- The session's row is changed or locked first: its head numbers the entries, in the order of commits.
-- Every statement of the function sees what was committed before it, the waiting included.
-- The first row of the answer is the verdict: ok, missing, gone, deleted, conflict, lost, exists,
-- taken. The rows behind it are the entries of others between p_known and ours.
CREATE OR REPLACE FUNCTION st_append(
    p_sid bigint, p_known bigint, p_last text, p_epoch integer, p_header_revision integer,
    p_expected bigint, p_is_again boolean,
    p_ids text[], p_parents text[], p_kinds text[], p_times text[], p_lines bytea[],
    p_messages bigint, p_bytes bigint, p_answered boolean, p_status text,
    p_first_message text, p_info_name text, p_short_summary text, p_said timestamptz,
    p_names tsvector, p_blobs bytea[], p_new jsonb, p_header bytea
) RETURNS TABLE (
    verdict text, head bigint, epoch integer, revision bigint, header_revision integer,
    header bytea, id text, parent text, kind text, "time" text, line bytea
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s st_session;
    new st_session;
    t text := st_tenant();
    n bigint := coalesce(array_length(p_ids, 1), 0);
    held bigint;
    is_seen boolean;
    -- the server's clock, but for what was said long before: that is brought from elsewhere
    spoken timestamptz := CASE WHEN p_said > clock_timestamp() - interval '1 hour'
                               THEN clock_timestamp() ELSE p_said END;
BEGIN
    IF p_names IS NOT NULL THEN
        p_names := p_names || st_own_mark();
    END IF;
    IF p_new IS NOT NULL THEN
        new := jsonb_populate_record(NULL::st_session, p_new);
        INSERT INTO st_session (sid, tenant, scope, id, cwd, dialect, header, title, parent, bytes,
                                created, modified, names)
        VALUES (p_sid, t, new.scope, new.id, new.cwd, new.dialect, p_header, new.title, new.parent,
                octet_length(p_header) + 1, coalesce(new.created, now()),
                least(new.created, clock_timestamp()), p_names)
        ON CONFLICT DO NOTHING;
    END IF;
    -- One who wrote last, and goes on, needs no look before: all that it would find is compared.
    is_seen := p_is_again OR p_new IS NOT NULL OR n = 0;
    LOOP
        IF is_seen THEN
            SELECT * INTO s FROM st_session x
             WHERE x.sid = p_sid AND x.tenant = t FOR NO KEY UPDATE;
            IF NOT FOUND THEN
                verdict := CASE WHEN EXISTS (
                    SELECT FROM st_gone g WHERE g.sid = p_sid AND g.tenant = t)
                    THEN 'gone' WHEN p_new IS NOT NULL THEN 'taken' ELSE 'missing' END;
                RETURN NEXT;
                RETURN;
            END IF;
            IF p_is_again AND n > 0 THEN
                SELECT count(*) INTO held FROM st_entry e
                  JOIN unnest(p_ids, p_lines) AS o(id, line) ON e.id = o.id AND e.line = o.line
                 WHERE e.sid = p_sid;
                IF held = n THEN
                    n := 0;
                    p_expected := NULL;
                END IF;
            END IF;
            IF s.deleted IS NOT NULL THEN
                verdict := 'deleted';
            ELSIF s.epoch = p_epoch AND p_last IS NOT NULL
                  AND (s.head <> p_known OR s.last IS DISTINCT FROM p_last) AND NOT EXISTS (
                SELECT FROM st_entry e WHERE e.sid = p_sid AND e.seq = p_known AND e.id = p_last)
            THEN
                verdict := 'lost';
            ELSIF p_expected IS NOT NULL AND s.revision <> p_expected THEN
                verdict := 'conflict';
            END IF;
            IF verdict IS NOT NULL THEN
                n := 0;
            END IF;
            EXIT WHEN n = 0;
        END IF;
        UPDATE st_session x SET
            head = x.head + n,
            last = p_ids[n],
            revision = x.revision + 1,
            messages = x.messages + p_messages,
            bytes = x.bytes + p_bytes,
            answered = x.answered OR p_answered,
            status = CASE WHEN x.messages + p_messages = 0 THEN 'empty' ELSE p_status END,
            first_message = coalesce(x.first_message, p_first_message),
            info_name = coalesce(p_info_name, x.info_name),
            short_summary = coalesce(p_short_summary, x.short_summary),
            names = coalesce(p_names, x.names),
            said = greatest(x.said, spoken),
            modified = coalesce(greatest(x.said, spoken), x.modified)
          WHERE x.sid = p_sid AND x.tenant = t AND (is_seen OR (
                x.deleted IS NULL AND x.epoch = p_epoch AND x.head = p_known AND x.last = p_last
                AND (p_expected IS NULL OR x.revision = p_expected)))
          RETURNING * INTO s;
        EXIT WHEN FOUND;
        is_seen := true;
    END LOOP;
    IF n > 0 THEN
        IF n = 1 THEN
            INSERT INTO st_entry (sid, seq, tenant, id, parent, kind, time, line)
            VALUES (p_sid, s.head, t, p_ids[1], p_parents[1], p_kinds[1], p_times[1], p_lines[1])
            ON CONFLICT DO NOTHING;
        ELSE
            INSERT INTO st_entry (sid, seq, tenant, id, parent, kind, time, line)
            SELECT p_sid, s.head - n + o.at, t, o.id, o.parent, o.kind, o.time, o.line
              FROM unnest(p_ids, p_parents, p_kinds, p_times, p_lines) WITH ORDINALITY
                   AS o(id, parent, kind, time, line, at)
            ON CONFLICT DO NOTHING;
        END IF;
        GET DIAGNOSTICS held = ROW_COUNT;
        IF held < n THEN
            RAISE EXCEPTION 'an entry of this id is there already' USING ERRCODE = 'ST001';
        END IF;
        IF p_blobs IS NOT NULL THEN
            INSERT INTO st_blob_use (tenant, sha, sid)
            SELECT t, b.sha, p_sid FROM unnest(p_blobs) AS b(sha) ON CONFLICT DO NOTHING;
        END IF;
        IF s.followed > clock_timestamp() THEN
            -- every role may listen to every name, and guess a number; it tells nothing but "look"
            PERFORM pg_notify('st_' || left(encode(sha256(convert_to(p_sid || ' ' || s.id, 'UTF8')),
                                                   'hex'), 40), '');
        END IF;
    END IF;
    verdict := coalesce(verdict, 'ok');
    head := s.head;
    epoch := s.epoch;
    revision := s.revision;
    header_revision := s.header_revision;
    IF s.header_revision <> p_header_revision THEN
        header := s.header;
    END IF;
    RETURN NEXT;
    IF s.head - n > p_known AND s.epoch = p_epoch AND verdict <> 'lost' THEN
        RETURN QUERY
            SELECT NULL::text, e.seq, NULL::integer, NULL::bigint, NULL::integer, NULL::bytea,
                   e.id, e.parent, e.kind, e.time, e.line
              FROM st_entry e WHERE e.sid = p_sid AND e.seq > p_known AND e.seq <= s.head - n
             ORDER BY e.seq;
    END IF;
END $$;

-- Append an entry to each of several sessions, and name those to which that was done.
--
-- Not to one that is locked, or not as its writer has read it: that one sends its own st_append. So
-- this waits for no lock, and can be part of no deadlock.
CREATE OR REPLACE FUNCTION st_append_each(
    p_sids bigint[], p_known bigint[], p_last text[], p_epochs integer[], p_header_revisions integer[],
    p_ids text[], p_parents text[], p_kinds text[], p_times text[], p_lines bytea[],
    p_messages integer[], p_answered boolean[], p_statuses text[], p_first_messages text[],
    p_said timestamptz[]
) RETURNS TABLE (sid bigint, head bigint, revision bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    t text := st_tenant();
BEGIN
    RETURN QUERY
    WITH o AS MATERIALIZED (
        SELECT *, CASE WHEN o.said > clock_timestamp() - interval '1 hour'
                       THEN clock_timestamp() ELSE o.said END AS spoken
          FROM unnest(p_sids, p_known, p_last, p_epochs, p_header_revisions, p_ids, p_parents,
            p_kinds, p_times, p_lines, p_messages, p_answered, p_statuses, p_first_messages, p_said)
            AS o(sid, known, last, epoch, header_revision, id, parent, kind, time, line, messages,
                 answered, status, first_message, said)
    ), l AS MATERIALIZED (
        SELECT x.sid FROM st_session x WHERE x.sid = ANY (p_sids) AND x.tenant = t
          FOR NO KEY UPDATE SKIP LOCKED
    ), u AS (
        UPDATE st_session x SET
            head = x.head + 1,
            last = o.id,
            revision = x.revision + 1,
            messages = x.messages + o.messages,
            bytes = x.bytes + octet_length(o.line) + 1,
            answered = x.answered OR o.answered,
            status = CASE WHEN x.messages + o.messages = 0 THEN 'empty' ELSE o.status END,
            first_message = coalesce(x.first_message, o.first_message),
            said = greatest(x.said, o.spoken),
            modified = coalesce(greatest(x.said, o.spoken), x.modified)
          FROM l, o
         WHERE x.sid = l.sid AND o.sid = l.sid AND x.tenant = t AND x.deleted IS NULL
           AND x.epoch = o.epoch AND x.header_revision = o.header_revision
           AND x.head = o.known AND x.last = o.last
           -- who is followed tells so by itself
           AND (x.followed IS NULL OR x.followed <= clock_timestamp())
        RETURNING x.sid, x.head, x.revision, o.id AS key, o.parent, o.kind, o.time, o.line
    ), i AS (
        INSERT INTO st_entry (sid, seq, tenant, id, parent, kind, time, line)
        SELECT u.sid, u.head, t, u.key, u.parent, u.kind, u.time, u.line FROM u
    )
    SELECT u.sid, u.head, u.revision FROM u;
END $$;

-- Copy a session, all of its entries, or these in this order (a line where it differs).
CREATE OR REPLACE FUNCTION st_copy(
    p_from bigint, p_new jsonb, p_header bytea, p_names tsvector, p_ids text[], p_parents text[], p_kinds text[],
    p_times text[], p_lines bytea[]
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s st_session;
    new st_session := jsonb_populate_record(NULL::st_session, p_new);
    t text := st_tenant();
BEGIN
    SELECT * INTO s FROM st_session x
     WHERE x.sid = p_from AND x.tenant = t AND x.deleted IS NULL FOR SHARE;
    IF NOT FOUND THEN RETURN 'missing'; END IF;
    IF EXISTS (SELECT FROM st_session x WHERE x.sid = new.sid AND x.tenant = t) THEN
        RETURN 'ok';  -- this statement's own answer was lost
    END IF;
    IF p_ids IS NULL THEN
        new.answered := s.answered;
        new.info_name := s.info_name;
        new.short_summary := s.short_summary;
        new.first_message := s.first_message;
        new.status := s.status;
        new.messages := s.messages;
        new.bytes := s.bytes - octet_length(s.header) + octet_length(p_header);
        p_names := s.names;
        new.head := s.head;
        new.last := s.last;
        new.said := s.said;
    ELSE
        p_names := p_names || st_own_mark();
        new.head := coalesce(array_length(p_ids, 1), 0);
        new.last := p_ids[new.head];
    END IF;
    INSERT INTO st_session (sid, tenant, scope, id, cwd, dialect, header, head, last, answered, title,
                            info_name, short_summary, first_message, parent, status, messages,
                            bytes, created, modified, said, names)
    VALUES (new.sid, t, new.scope, new.id, new.cwd, new.dialect, p_header,
            new.head, new.last, new.answered, new.title, new.info_name, new.short_summary,
            new.first_message, new.parent, new.status, new.messages, coalesce(new.bytes, 0),
            coalesce(new.created, now()),
            least(coalesce(new.said, new.created), clock_timestamp()), new.said, p_names)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RETURN 'taken'; END IF;
    IF p_ids IS NULL THEN
        INSERT INTO st_entry (sid, seq, tenant, id, parent, kind, time, line)
        SELECT new.sid, e.seq, t, e.id, e.parent, e.kind, e.time, e.line
          FROM st_entry e WHERE e.sid = p_from;
    ELSE
        INSERT INTO st_entry (sid, seq, tenant, id, parent, kind, time, line)
        SELECT new.sid, o.at, t, o.id,
               CASE WHEN o.line IS NULL THEN e.parent ELSE o.parent END,
               coalesce(o.kind, e.kind), coalesce(o.time, e.time), coalesce(o.line, e.line)
          FROM unnest(p_ids, p_parents, p_kinds, p_times, p_lines) WITH ORDINALITY
               AS o(id, parent, kind, time, line, at)
          LEFT JOIN st_entry e ON e.sid = p_from AND e.id = o.id;
        UPDATE st_session x SET bytes = octet_length(x.header) + 1 + (
            SELECT coalesce(sum(octet_length(e.line) + 1), 0) FROM st_entry e
             WHERE e.sid = new.sid)
         WHERE x.sid = new.sid AND x.tenant = t;
    END IF;
    INSERT INTO st_blob_use (tenant, sha, sid)
    SELECT t, u.sha, new.sid FROM st_blob_use u WHERE u.sid = p_from AND u.tenant = t
    ON CONFLICT DO NOTHING;
    RETURN 'ok';
END $$;

-- Remove sessions for good, with all that only they need; how many there were.
CREATE OR REPLACE FUNCTION st_purge(p_sids bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    t text := st_tenant();
    gone bigint;
BEGIN
    PERFORM 1 FROM st_session x WHERE x.sid = ANY (p_sids) AND x.tenant = t
      ORDER BY x.sid FOR UPDATE;
    INSERT INTO st_gone (sid, tenant)
    SELECT x.sid, t FROM st_session x WHERE x.sid = ANY (p_sids) AND x.tenant = t
    ON CONFLICT DO NOTHING;
    DELETE FROM st_entry e WHERE e.sid = ANY (p_sids) AND e.tenant = t;
    DELETE FROM st_text x WHERE x.sid = ANY (p_sids) AND x.tenant = t;
    WITH used AS (
        DELETE FROM st_blob_use u WHERE u.sid = ANY (p_sids) AND u.tenant = t RETURNING u.sha
    ) DELETE FROM st_blob b USING (SELECT DISTINCT sha FROM used) d
       WHERE b.tenant = t AND b.sha = d.sha AND b.place IS NULL
         -- a younger one may be about to be named by an append
         AND b.touched < now() - interval '1 hour' AND NOT EXISTS (
             SELECT FROM st_blob_use o
              WHERE o.tenant = t AND o.sha = b.sha AND o.sid <> ALL (p_sids));
    DELETE FROM st_session x WHERE x.sid = ANY (p_sids) AND x.tenant = t;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;

-- The search: which sessions have such words in their messages, or in their names.
--
-- Row-level security keeps an index of words from being used, because it lets no function that might
-- tell of a row see it first. So these two run as the owner of the tables, and ask for the tenant's
-- rows themselves: that of their caller, who may have set its role. (By CASE, because the mark among
-- the words has chosen them already: the planner would expect the same few of these few.)
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
CREATE OR REPLACE FUNCTION st_own_query() RETURNS tsquery LANGUAGE sql STABLE SET search_path FROM CURRENT AS
$$ SELECT (chr(39) || replace(replace(chr(1) || st_tenant_of(
            coalesce(nullif(current_setting('role'), 'none')::name, session_user)),
        chr(92), repeat(chr(92), 2)), chr(39), repeat(chr(39), 2)) || chr(39))::tsquery $$;
CREATE OR REPLACE FUNCTION st_said(p_query tsquery, p_roles text[], p_since bigint, p_most bigint)
RETURNS SETOF bigint LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    t text := st_tenant_of(coalesce(nullif(current_setting('role'), 'none')::name, session_user));
    q tsquery := p_query && st_own_query();
BEGIN
    RETURN QUERY SELECT x.sid FROM st_text x
     WHERE x.words @@ q AND x.role = ANY (p_roles) AND CASE x.tenant WHEN t THEN true ELSE false END
       AND (p_since IS NULL OR x.said >= p_since) LIMIT p_most;
END $$;
CREATE OR REPLACE FUNCTION st_called(p_query tsquery, p_most bigint)
RETURNS SETOF bigint LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    t text := st_tenant_of(coalesce(nullif(current_setting('role'), 'none')::name, session_user));
    q tsquery := p_query && st_own_query();
BEGIN
    RETURN QUERY SELECT x.sid FROM st_session x
     WHERE x.names @@ q AND CASE x.tenant WHEN t THEN true ELSE false END
       AND x.deleted IS NULL AND x.answered LIMIT p_most;
END $$;

DO $$
DECLARE
    name text;
    place text := current_schema();
    own text := 'tenant = (SELECT st_tenant())';
    -- nobody puts rows into a session of others, whose number may be guessed by EXPLAIN
    its text := ' AND EXISTS (SELECT FROM st_session s WHERE s.sid = %1$I.sid AND s.tenant = %1$I.tenant)';
BEGIN
    FOREACH name IN ARRAY ARRAY['st_session', 'st_blob', 'st_policy',
                                'st_entry', 'st_text', 'st_blob_use', 'st_gone'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('DROP POLICY IF EXISTS st_own ON %I', name);
        EXECUTE format('CREATE POLICY st_own ON %1$I USING (' || own || ') WITH CHECK (' || own || CASE
            WHEN name IN ('st_session', 'st_blob', 'st_policy') THEN '' ELSE its END || ')', name);
    END LOOP;
    -- What the planner knows of a column, EXPLAIN tells everybody, whoever's rows it is from.
    FOREACH name IN ARRAY ARRAY['tenant', 'scope', 'id', 'cwd', 'header', 'last', 'title',
        'info_name', 'short_summary', 'first_message', 'parent', 'batch'] LOOP
        EXECUTE format('ALTER TABLE st_session ALTER COLUMN %I SET STATISTICS 0', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['tenant', 'id', 'parent', 'kind', 'time', 'line'] LOOP
        EXECUTE format('ALTER TABLE st_entry ALTER COLUMN %I SET STATISTICS 0', name);
        FOR part IN 0..7 LOOP
            EXECUTE format('ALTER TABLE st_entry_%s ALTER COLUMN %I SET STATISTICS 0', part, name);
        END LOOP;
    END LOOP;
    ALTER TABLE st_text ALTER COLUMN tenant SET STATISTICS 0;
    ALTER TABLE st_blob ALTER COLUMN tenant SET STATISTICS 0, ALTER COLUMN sha SET STATISTICS 0,
        ALTER COLUMN place SET STATISTICS 0;
    ALTER TABLE st_blob_use ALTER COLUMN tenant SET STATISTICS 0, ALTER COLUMN sha SET STATISTICS 0;
    -- before PostgreSQL 15 everybody may make functions where ours are looked for
    IF pg_has_role((SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = place), 'USAGE') THEN
        EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', place);
    END IF;
END $$;
ALTER TABLE st_member ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS st_own ON st_member;
CREATE POLICY st_own ON st_member FOR SELECT
    USING (role = session_user OR pg_has_role(role, 'USAGE'));

REVOKE ALL ON FUNCTION st_purge(bigint[]), st_said(tsquery, text[], bigint, bigint),
    st_called(tsquery, bigint) FROM PUBLIC;
GRANT SELECT ON st_member, st_meta TO PUBLIC;
