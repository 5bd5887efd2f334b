-- Maps by name and version. The rows of each version have a table of their own (rows_ID), so that a new version is
-- loaded and indexed beside the old one and takes its place in one transaction.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') THEN
        CREATE EXTENSION vector;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'displace') THEN
        CREATE SCHEMA displace;
    END IF;
END
$$;

CREATE TABLE displace.migrations (
    version integer PRIMARY KEY,
    applied timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE displace.maps (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    version integer NOT NULL,
    kind text NOT NULL,
    n_rows bigint NOT NULL,
    dim integer NOT NULL,
    degrees boolean,
    effort integer,
    recall real,
    head bytea,
    loaded timestamptz NOT NULL DEFAULT now(),
    UNIQUE (name, version)
);

CREATE TABLE displace.current (
    name text PRIMARY KEY,
    map_id bigint NOT NULL REFERENCES displace.maps (id)
);
