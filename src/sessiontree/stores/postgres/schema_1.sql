-- Sessions in PostgreSQL, version 1. Every name begins with st_. Read with docs/teams.md.
--
-- Texts that are keys are spelled by sessiontree.stores.postgres.spelling: whatever a session says,
-- PostgreSQL can hold it. The truth is in the bytes: st_session.header and st_entry.line.

CREATE TABLE st_meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL,
    oldest_client integer NOT NULL
);

-- Whom `store grant` let in. A role without a tenant names one itself, and may name any.
CREATE TABLE st_member (
    role name PRIMARY KEY,
    tenant text COLLATE "C"
);

CREATE TABLE st_session (
    sid bigint PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    cwd text COLLATE "C" NOT NULL,
    dialect text NOT NULL,
    header bytea NOT NULL,
    head bigint NOT NULL DEFAULT 0,
    last text COLLATE "C",
    epoch integer NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 1,
    header_revision integer NOT NULL DEFAULT 0,
    answered boolean NOT NULL DEFAULT false,
    title text,
    info_name text,
    short_summary text,
    first_message text,
    parent text,
    status text NOT NULL DEFAULT 'empty',
    messages bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    created timestamptz NOT NULL DEFAULT now(),
    modified timestamptz NOT NULL DEFAULT now(),
    minute timestamptz NOT NULL
        GENERATED ALWAYS AS (date_bin('1 minute', modified, '2000-01-01 00:00:00+00')) STORED,
    said timestamptz,
    followed timestamptz,
    indexed bigint NOT NULL DEFAULT 0,
    is_behind boolean NOT NULL GENERATED ALWAYS AS (indexed < head) STORED,
    names tsvector,
    deleted timestamptz,
    batch text
) WITH (fillfactor = 70);

-- No index has a column that changes with every append (``modified``, ``head``): then an append makes
-- a new version of the row and nothing else. Listings go by the minute, and sort within it.
CREATE UNIQUE INDEX st_session_id ON st_session (tenant, scope, id) WHERE deleted IS NULL;
CREATE INDEX st_session_project ON st_session (tenant, cwd, minute DESC)
    WHERE deleted IS NULL AND answered;
CREATE INDEX st_session_newest ON st_session (tenant, minute DESC)
    WHERE deleted IS NULL AND answered;
CREATE INDEX st_session_trash ON st_session (tenant, deleted) WHERE deleted IS NOT NULL;
CREATE INDEX st_session_unindexed ON st_session (tenant, minute DESC)
    WHERE deleted IS NULL AND answered AND is_behind;
CREATE INDEX st_session_names ON st_session USING gin (names) WITH (gin_pending_list_limit = 256)
    WHERE deleted IS NULL AND answered;

CREATE TABLE st_entry (
    sid bigint NOT NULL,
    seq bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    parent text COLLATE "C",
    kind text COLLATE "C" NOT NULL,
    time text COLLATE "C" NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (sid, seq)
) PARTITION BY HASH (sid);

DO $$
BEGIN
    FOR part IN 0..7 LOOP
        EXECUTE format('CREATE TABLE st_entry_%s PARTITION OF st_entry '
                       'FOR VALUES WITH (MODULUS 8, REMAINDER %s)', part, part);
    END LOOP;
    BEGIN
        ALTER TABLE st_entry ALTER COLUMN line SET COMPRESSION lz4;
        FOR part IN 0..7 LOOP
            EXECUTE format('ALTER TABLE st_entry_%s ALTER COLUMN line SET COMPRESSION lz4', part);
        END LOOP;
    EXCEPTION WHEN feature_not_supported OR syntax_error THEN
        NULL;  -- built without lz4: pglz, then
    END;
END $$;
CREATE UNIQUE INDEX st_entry_id ON st_entry (sid, id);
-- with the tenant, as every index by which one could ask for what others have: EXPLAIN ANALYZE
-- tells how many rows row-level security took away behind an index. The tenant comes second: led by it
-- the index would be read whole for one session, because the planner takes a tenant for small
CREATE INDEX st_entry_find ON st_entry (id, tenant);

-- What was said, as sets of words; made of st_entry, and may be dropped and made again.
CREATE TABLE st_text (
    sid bigint NOT NULL,
    seq bigint NOT NULL,
    role text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    said bigint,
    words tsvector NOT NULL,
    PRIMARY KEY (sid, seq, role)
);
-- each search reads the whole list of what waits to get into the index
CREATE INDEX st_text_words ON st_text USING gin (words) WITH (gin_pending_list_limit = 1024);

CREATE TABLE st_blob (
    tenant text COLLATE "C" NOT NULL,
    sha bytea NOT NULL,
    size bigint NOT NULL,
    data bytea,
    place text,
    touched timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, sha),
    CHECK (data IS NOT NULL OR place IS NOT NULL)
);
ALTER TABLE st_blob ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE st_blob_use (
    tenant text COLLATE "C" NOT NULL,
    sha bytea NOT NULL,
    sid bigint NOT NULL,
    PRIMARY KEY (tenant, sha, sid)
);
CREATE INDEX st_blob_use_session ON st_blob_use (sid);

-- Sessions that were deleted for good: nobody who still has one open may bring it back.
CREATE TABLE st_gone (
    sid bigint PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

-- After how many days sessions go to the trash, and from there for good.
CREATE TABLE st_policy (
    tenant text COLLATE "C" PRIMARY KEY,
    keep_days integer CHECK (keep_days > 0),
    trash_days integer CHECK (trash_days >= 0)
);

INSERT INTO st_member (role) VALUES (current_user);
INSERT INTO st_meta (version, oldest_client) VALUES (1, 1);
