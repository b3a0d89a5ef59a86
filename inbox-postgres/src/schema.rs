//! The store's tables and their versions.

use crate::{
    OpenError,
    error::{advice, one_line, state},
};
use sqlx::{AssertSqlSafe, Connection as _, Error, PgConnection, Row as _, raw_sql};

/// The SQLSTATE of a `COMMIT` that a handler sends.
pub(crate) const GUARD_STATE: &str = "INB01";

/// A change of the tables.
struct Migration {
    /// The oldest version whose programs can go on with the changed tables, as they do in a rolling deploy.
    compatible_with: i32,
    /// `{s}` is the schema with a dot, `{p}` the prefix.
    sql: &'static str,
}

/// What each version changes; the first entry makes version 1. Entries are never edited once released, new
/// ones are added behind.
///
/// A claim takes 4 + 72 bytes in the table with an id that is a UUID (see [`crate::convert::id_to_column`]),
/// and 4 + 32 in its only index; the order of the columns leaves no gaps.
const MIGRATIONS: &[Migration] = &[Migration {
    compatible_with: 1,
    sql: r#"
CREATE TABLE {s}{p}groups (
  group_id integer GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL,
  CONSTRAINT {p}groups_pkey PRIMARY KEY (group_id),
  CONSTRAINT {p}groups_name UNIQUE (name)
);
CREATE TABLE {s}{p}claims (
  at_s integer NOT NULL, -- seconds since 2020-01-01 UTC
  group_id integer NOT NULL,
  disposition smallint NOT NULL, -- 1 applied, 2 dead, 3 parked, 4 stored
  scope text COLLATE "C" NOT NULL,
  id bytea NOT NULL, -- UTF-8, or ff and the 16 bytes of a UUID; the view shows it as text
  fingerprint bytea NOT NULL,
  CONSTRAINT {p}claims_pkey PRIMARY KEY (group_id, scope, id)
);
CREATE VIEW {s}{p}claims_readable AS
  SELECT g.name AS "group", c.scope,
    CASE WHEN get_byte(c.id, 0) = 255 THEN encode(substr(c.id, 2), 'hex')::uuid::text
      ELSE convert_from(c.id, 'UTF8') END AS id,
    CASE c.disposition WHEN 1 THEN 'applied' WHEN 2 THEN 'dead' WHEN 3 THEN 'parked' WHEN 4 THEN 'stored'
      ELSE c.disposition::text END AS disposition,
    timestamptz '2020-01-01 00:00:00+00' + c.at_s * interval '1 second' AS at,
    c.fingerprint
  FROM {s}{p}claims c JOIN {s}{p}groups g USING (group_id);
CREATE TABLE {s}{p}letters (
  letter_id bigint GENERATED ALWAYS AS IDENTITY,
  group_id integer NOT NULL,
  scope text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  reason text NOT NULL,
  error text NOT NULL,
  attempts bigint NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  source text NOT NULL,
  partition bigint NOT NULL,
  position_at bigint,
  position_next bigint,
  key bytea,
  native_id text,
  message_type text,
  headers text NOT NULL, -- JSON: [[name, text | null | {"hex": bytes}], ...]
  payload bytea, -- NULL: a tombstone
  timestamp_ms bigint,
  oversize_bytes bigint,
  CONSTRAINT {p}letters_pkey PRIMARY KEY (letter_id),
  CONSTRAINT {p}letters_claim UNIQUE (group_id, scope, id)
);
CREATE TABLE {s}{p}conflicts (
  conflict_id bigint GENERATED ALWAYS AS IDENTITY,
  group_id integer NOT NULL,
  scope text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  stored bytea NOT NULL, -- fingerprint of the content that was applied
  refused bytea NOT NULL, -- fingerprint of the content below
  seen bigint NOT NULL,
  first_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  last_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  source text NOT NULL,
  partition bigint NOT NULL,
  position_at bigint,
  position_next bigint,
  key bytea,
  native_id text,
  message_type text,
  headers text NOT NULL,
  payload bytea,
  timestamp_ms bigint,
  oversize_bytes bigint,
  CONSTRAINT {p}conflicts_pkey PRIMARY KEY (conflict_id),
  CONSTRAINT {p}conflicts_claim UNIQUE (group_id, scope, id, refused)
);
CREATE TABLE {s}{p}checkpoints (
  group_id integer NOT NULL,
  source text COLLATE "C" NOT NULL,
  partition bigint NOT NULL,
  next bigint NOT NULL,
  epoch bigint NOT NULL,
  mark_at bigint,
  mark_digest bytea,
  mark_timestamp_ms bigint,
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT {p}checkpoints_pkey PRIMARY KEY (group_id, source, partition)
) WITH (fillfactor = 50);
CREATE TABLE {s}{p}stored ( -- the messages of claims with disposition 4
  stored_id bigint GENERATED ALWAYS AS IDENTITY, -- rises in the order of keeping
  group_id integer NOT NULL,
  scope text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  fingerprint bytea NOT NULL,
  attempts bigint NOT NULL,
  error text, -- of the last attempt that failed
  due_at timestamptz NOT NULL, -- -infinity: at once
  source text NOT NULL,
  partition bigint NOT NULL,
  position_at bigint,
  position_next bigint,
  key bytea,
  native_id text,
  message_type text,
  headers text NOT NULL,
  payload bytea,
  timestamp_ms bigint,
  oversize_bytes bigint,
  CONSTRAINT {p}stored_pkey PRIMARY KEY (stored_id),
  CONSTRAINT {p}stored_claim UNIQUE (group_id, scope, id)
);
CREATE INDEX {p}stored_order ON {s}{p}stored (group_id, stored_id);
CREATE INDEX {p}stored_due ON {s}{p}stored (group_id, due_at);
CREATE TABLE {s}{p}runs ( -- that have not ended cleanly
  group_id integer NOT NULL,
  instance text COLLATE "C" NOT NULL,
  open_max bigint NOT NULL,
  opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT {p}runs_pkey PRIMARY KEY (group_id, instance)
);
CREATE TABLE {s}{p}marks ( -- of messages that were started as suspects
  group_id integer NOT NULL,
  scope text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  marks bigint NOT NULL,
  CONSTRAINT {p}marks_pkey PRIMARY KEY (group_id, scope, id)
);
CREATE TABLE {s}{p}init (
  digest bytea NOT NULL, -- SHA-256 of a script that was run
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT {p}init_pkey PRIMARY KEY (digest)
);
-- Only the store commits a unit of work: it says so right before. The first row that a unit writes is looked at
-- when the transaction commits; transactions that are no unit of work are not looked at.
CREATE FUNCTION {s}{p}only_the_store_commits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('inbox.unit', true) IS DISTINCT FROM 'done' THEN
    RAISE EXCEPTION 'a handler must not commit: the store commits its unit of work' USING ERRCODE = '{guard}';
  END IF;
  RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER {p}only_the_store_commits AFTER INSERT OR UPDATE OF disposition ON {s}{p}claims
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (current_setting('inbox.unit', true) = 'open' AND set_config('inbox.unit', 'guarded', true) = 'guarded')
  EXECUTE FUNCTION {s}{p}only_the_store_commits();
CREATE CONSTRAINT TRIGGER {p}only_the_store_commits AFTER INSERT OR UPDATE ON {s}{p}checkpoints
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (current_setting('inbox.unit', true) = 'open' AND set_config('inbox.unit', 'guarded', true) = 'guarded')
  EXECUTE FUNCTION {s}{p}only_the_store_commits();
CREATE CONSTRAINT TRIGGER {p}only_the_store_commits AFTER INSERT ON {s}{p}init
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (current_setting('inbox.unit', true) = 'open' AND set_config('inbox.unit', 'guarded', true) = 'guarded')
  EXECUTE FUNCTION {s}{p}only_the_store_commits();
"#,
}];

const VERSIONS: &str = "
CREATE TABLE IF NOT EXISTS {s}{p}schema (
  version integer NOT NULL PRIMARY KEY,
  compatible_with integer NOT NULL, -- the oldest version whose programs can use these tables
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
";

/// The newest version.
const KNOWN: i32 = MIGRATIONS.len() as i32;

/// Checks a name that becomes part of statements.
pub(crate) fn check_name(what: &'static str, name: &str, bytes_max: usize) -> Result<(), OpenError> {
    let mut bytes = name.bytes();
    let first_fits = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    let rest_fits = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if first_fits && rest_fits && name.len() <= bytes_max {
        Ok(())
    } else {
        Err(OpenError::Name { what, name: name.into(), bytes_max })
    }
}

fn filled(sql: &str, schema: &str, prefix: &str) -> String {
    sql.replace("{s}", schema).replace("{p}", prefix).replace("{guard}", GUARD_STATE)
}

/// A schema's name as it is written before a table's, with the dot.
pub(crate) fn qualifier(schema: &str) -> String {
    format!("\"{}\".", schema.replace('"', "\"\""))
}

/// Everything at once, for people. Without a schema the search path decides.
pub(crate) fn script(schema: Option<&str>, prefix: &str) -> String {
    let mut script =
        schema.map(|schema| format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\";\n")).unwrap_or_default();
    let schema = schema.map(qualifier).unwrap_or_default();
    script.push_str(filled(VERSIONS, &schema, prefix).trim_start());
    for (version, migration) in (1..).zip(MIGRATIONS) {
        script.push_str(filled(migration.sql, &schema, prefix).trim_start());
        script.push_str(&add_version(version, migration, &schema, prefix));
    }
    script
}

fn add_version(version: i32, migration: &Migration, schema: &str, prefix: &str) -> String {
    let compatible_with = migration.compatible_with;
    format!(
        "INSERT INTO {schema}{prefix}schema (version, compatible_with) VALUES ({version}, {compatible_with});\n"
    )
}

/// Where the tables are, and what errors call that.
pub(crate) struct Place<'p> {
    pub(crate) database: &'p str,
    pub(crate) schema: &'p str,
    pub(crate) prefix: &'p str,
}

impl Place<'_> {
    fn tables(&self) -> String {
        format!("{}.{}", self.schema, self.prefix)
    }

    fn failed(&self, error: Error) -> OpenError {
        OpenError::Migrate {
            place: self.database.into(),
            tables: self.tables(),
            reason: one_line(&error),
            advice: advice(&error),
            source: error.into(),
        }
    }

    /// Brings the tables up to date. Several processes may do so at once: a lock lets them in one by one, and
    /// the later ones find nothing left to do.
    pub(crate) async fn migrate(&self, connection: &mut PgConnection, may: bool) -> Result<(), OpenError> {
        let (found, compatible_with) = self.version_outside(connection).await.map_err(|e| self.failed(e))?;
        if self.is_usable(found, compatible_with)? {
            return Ok(());
        }
        if !may {
            let (place, tables) = (self.database.into(), self.tables());
            return Err(OpenError::OldSchema { place, tables, found, known: KNOWN });
        }
        self.migrate_locked(connection).await
    }

    async fn migrate_locked(&self, connection: &mut PgConnection) -> Result<(), OpenError> {
        let failed = |error| self.failed(error);
        let mut tx = connection.begin_with("BEGIN READ WRITE").await.map_err(failed)?;
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
        sqlx::query(lock)
            .persistent(false)
            .bind(format!("inbox schema {}", self.tables()))
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        let (found, compatible_with) = self.version(&mut tx).await.map_err(failed)?;
        if self.is_usable(found, compatible_with)? {
            return tx.rollback().await.map_err(failed);
        }
        let schema = qualifier(self.schema);
        let mut sql = String::new();
        let exists =
            sqlx::query("SELECT 1 FROM pg_namespace WHERE nspname = $1").bind(self.schema).persistent(false);
        if exists.fetch_optional(&mut *tx).await.map_err(failed)?.is_none() {
            sql.push_str(&format!("CREATE SCHEMA \"{}\";", self.schema));
        }
        sql.push_str(&filled(VERSIONS, &schema, self.prefix));
        for (version, migration) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
            sql.push_str(&filled(migration.sql, &schema, self.prefix));
            sql.push_str(&add_version(version, migration, &schema, self.prefix));
        }
        raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await.map_err(failed)?;
        tx.commit().await.map_err(failed)
    }

    /// Whether nothing is left to do.
    fn is_usable(&self, found: i32, compatible_with: i32) -> Result<bool, OpenError> {
        if found > KNOWN && compatible_with > KNOWN {
            let (place, tables) = (self.database.into(), self.tables());
            return Err(OpenError::NewerSchema { place, tables, found, known: KNOWN });
        }
        Ok(found >= KNOWN)
    }

    /// The newest version, and the oldest whose programs can use it.
    async fn version(&self, connection: &mut PgConnection) -> Result<(i32, i32), Error> {
        let exists = "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = $1 AND c.relname = $2";
        let exists = sqlx::query(exists).bind(self.schema).bind(format!("{}schema", self.prefix));
        if exists.persistent(false).fetch_optional(&mut *connection).await?.is_none() {
            return Ok((0, 0));
        }
        self.version_there(connection).await
    }

    /// As `version`, with one round trip where the tables are there; not inside a transaction, which would be
    /// aborted where they are not.
    async fn version_outside(&self, connection: &mut PgConnection) -> Result<(i32, i32), Error> {
        match self.version_there(connection).await {
            Err(error) if matches!(state(&error), Some("42P01" | "3F000")) => Ok((0, 0)),
            found => found,
        }
    }

    async fn version_there(&self, connection: &mut PgConnection) -> Result<(i32, i32), Error> {
        let table = format!("{}{}schema", qualifier(self.schema), self.prefix);
        let newest =
            format!("SELECT coalesce(max(version), 0), coalesce(max(compatible_with), 0) FROM {table}");
        let row = raw_sql(AssertSqlSafe(newest)).fetch_one(connection).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["inbox_", "_", "a1", &"x".repeat(31)] {
            assert!(check_name("table prefix", good, 31).is_ok(), "{good}");
        }
        for bad in ["", "1a", "A", "a-b", "a\"b", "a.b", "é", &"x".repeat(32)] {
            assert!(check_name("table prefix", bad, 31).is_err(), "{bad}");
        }
    }
}
