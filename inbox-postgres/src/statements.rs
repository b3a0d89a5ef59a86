//! The statements of a store, written out once with its schema and prefix.

use crate::{convert::RECORD_COLUMNS, convert::RECORD_WIDTH, schema::qualifier};
use sqlx::{AssertSqlSafe, Postgres, postgres::PgArguments, query::Query};
use std::sync::Arc;

/// A statement of the store's.
#[derive(Debug)]
pub(crate) struct Sql {
    text: Arc<str>,
    /// Whether the server keeps what it prepared under a name, which belongs to its connection.
    is_named: bool,
}

/// A query of one of the store's own statements. sqlx finds what was prepared by the text.
pub(crate) fn query(sql: &Sql) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(Arc::clone(&sql.text))).persistent(sql.is_named)
}

#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) find_group: Sql,
    pub(crate) add_group: Sql,
    pub(crate) claim: Sql,
    pub(crate) claim_one: Sql,
    pub(crate) claim_in: Sql,
    pub(crate) find_claims: Sql,
    pub(crate) find_claims_waited: Sql,
    pub(crate) find_claims_decided: Sql,
    pub(crate) lock_claims: Sql,
    pub(crate) take_stored: Sql,
    pub(crate) mark_claims: Sql,
    pub(crate) add_letter: Sql,
    pub(crate) add_conflict: Sql,
    pub(crate) add_stored: Sql,
    pub(crate) remove_stored: Sql,
    pub(crate) put_failure: Sql,
    pub(crate) due: Sql,
    pub(crate) next_due: Sql,
    pub(crate) letters: Sql,
    pub(crate) letter: Sql,
    pub(crate) conflicts: Sql,
    pub(crate) count_claims: Sql,
    pub(crate) count_conflicts: Sql,
    pub(crate) find_checkpoints: Sql,
    pub(crate) lock_checkpoints: Sql,
    pub(crate) touch_checkpoints: Sql,
    pub(crate) list_checkpoints: Sql,
    pub(crate) forward_checkpoints: Sql,
    pub(crate) add_checkpoint: Sql,
    pub(crate) put_checkpoint: Sql,
    pub(crate) raise_epoch: Sql,
    pub(crate) forget: Sql,
    pub(crate) find_init: Sql,
    pub(crate) add_init: Sql,
    pub(crate) open_run: Sql,
    pub(crate) close_run: Sql,
    pub(crate) marks: Sql,
    pub(crate) mark_start: Sql,
    pub(crate) clear_marks: Sql,
}

const CHECKPOINT: &str = "next, epoch, mark_at, mark_digest, mark_timestamp_ms";

/// Bounds the waiting of the statement that it stands in, `$1` in milliseconds. Whatever reads from it
/// comes after it.
const WAIT: &str = "wait AS MATERIALIZED (SELECT set_config('lock_timeout', $1, true) AS set)";

/// Takes that bound back: what handlers wait for is not the store's business. In a projection above an
/// aggregate it comes last.
const WAITED: &str = "set_config('lock_timeout', NULL, true)";

/// Parameters `$first` to the last of a record's columns.
fn record_parameters(first: usize) -> String {
    let parameters: Vec<String> = (first..first + RECORD_WIDTH).map(|number| format!("${number}")).collect();
    parameters.join(", ")
}

impl Statements {
    #[allow(clippy::too_many_lines)]
    pub(crate) fn new(schema: &str, prefix: &str, is_named: bool) -> Self {
        let sql = |text: String| Sql { text: text.into(), is_named };
        let p = format!("{}{prefix}", qualifier(schema));
        // In the order of the arrays, which are sorted, so that two transactions never wait crosswise.
        let insert = format!(
            "INSERT INTO {p}claims (at_s, group_id, disposition, scope, id, fingerprint) \
             SELECT clock.at_s, $2, 1, asked.scope, asked.id, asked.fingerprint \
             FROM clock, unnest($3::text[], $4::bytea[], $5::bytea[]) WITH ORDINALITY AS asked (scope, id, fingerprint, n) \
             ORDER BY asked.n ON CONFLICT ON CONSTRAINT {prefix}claims_pkey DO NOTHING RETURNING scope, id"
        );
        let seconds = "(extract(epoch FROM now()) - 1577836800)::integer";
        // A subquery per key, so that the index is used whatever the planner thinks of the arrays.
        let lookup = |lock: &str| {
            format!(
                "unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS asked (scope, id, n) CROSS JOIN LATERAL \
                 (SELECT c.disposition, c.fingerprint FROM {p}claims c WHERE c.group_id = $3 \
                 AND c.scope = asked.scope AND c.id = asked.id LIMIT 1{lock}) AS found"
            )
        };
        let checkpoint_of = format!(
            "unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS asked (source, partition, n) CROSS JOIN LATERAL \
             (SELECT {CHECKPOINT} FROM {p}checkpoints c WHERE c.group_id = $1 AND c.source = asked.source \
             AND c.partition = asked.partition LIMIT 1"
        );
        let letter = format!(
            "SELECT l.letter_id, g.name, l.scope, l.id, l.reason, l.error, l.attempts, \
             (extract(epoch FROM l.created_at) * 1000)::bigint, \
             {RECORD_COLUMNS} FROM {p}letters l JOIN {p}groups g USING (group_id)"
        );
        Self {
            find_group: sql(format!("SELECT group_id FROM {p}groups WHERE name = $1")),
            add_group: sql(format!(
                "INSERT INTO {p}groups (name) VALUES ($1) ON CONFLICT ON CONSTRAINT {prefix}groups_name DO NOTHING"
            )),
            claim: sql(format!(
                "WITH {WAIT}, clock AS MATERIALIZED (SELECT {seconds} AS at_s FROM wait WHERE set IS NOT NULL), \
                 made AS ({insert}) SELECT count(*), array_agg(scope), array_agg(id), {WAITED} FROM made"
            )),
            // Without a `WITH`, which would cost as much as the rest. The bound is taken back by the row that was
            // made, or else by `find_claims_waited`, which follows then.
            claim_one: sql(format!(
                "INSERT INTO {p}claims (at_s, group_id, disposition, scope, id, fingerprint) \
                 SELECT {seconds}, $2, 1, $3, $4, $5 WHERE set_config('lock_timeout', $1, true) IS NOT NULL \
                 ON CONFLICT ON CONSTRAINT {prefix}claims_pkey DO NOTHING RETURNING {WAITED}"
            )),
            // Somebody else's transaction, with its own bound on waiting.
            claim_in: sql(format!(
                "WITH clock AS MATERIALIZED (SELECT {seconds} AS at_s WHERE $1::text IS NULL), \
                 made AS ({insert}) SELECT count(*), array_agg(scope), array_agg(id) FROM made"
            )),
            find_claims: sql(format!("SELECT asked.n, disposition, fingerprint FROM {}", lookup(""))),
            find_claims_waited: sql(format!(
                "SELECT asked.n, disposition, fingerprint, {WAITED} FROM {}",
                lookup("")
            )),
            // Waits for whoever is about to change one of them.
            find_claims_decided: sql(format!(
                "SELECT asked.n, disposition, fingerprint FROM {}",
                lookup(" FOR SHARE")
            )),
            lock_claims: sql(format!(
                "WITH wait AS MATERIALIZED (SELECT set_config('lock_timeout', $4, true) AS set), \
                 found AS (SELECT asked.n, disposition, fingerprint FROM wait CROSS JOIN {} \
                 WHERE wait.set IS NOT NULL) \
                 SELECT array_agg(n), array_agg(disposition), array_agg(fingerprint), {WAITED} FROM found",
                lookup(" FOR UPDATE")
            )),
            take_stored: sql(format!(
                "WITH asked AS (SELECT * FROM unnest($2::text[], $3::text[], $4::bytea[]) AS asked (scope, text_id, id)), \
                 gone AS (DELETE FROM {p}stored s USING asked WHERE s.group_id = $1 \
                 AND s.scope = asked.scope AND s.id = asked.text_id) \
                 UPDATE {p}claims c SET disposition = 1 FROM asked WHERE c.group_id = $1 \
                 AND c.scope = asked.scope AND c.id = asked.id"
            )),
            mark_claims: sql(format!(
                "UPDATE {p}claims c SET disposition = $2 FROM unnest($3::text[], $4::bytea[]) AS asked (scope, id) \
                 WHERE c.group_id = $1 AND c.scope = asked.scope AND c.id = asked.id"
            )),
            add_letter: sql(format!(
                "INSERT INTO {p}letters (group_id, scope, id, reason, error, attempts, {RECORD_COLUMNS}) \
                 VALUES ($1, $2, $3, $4, $5, $6, {}) ON CONFLICT ON CONSTRAINT {prefix}letters_claim DO NOTHING",
                record_parameters(7)
            )),
            add_conflict: sql(format!(
                "INSERT INTO {p}conflicts AS c (group_id, scope, id, stored, refused, seen, {RECORD_COLUMNS}) \
                 VALUES ($1, $2, $3, $4, $5, 1, {}) ON CONFLICT ON CONSTRAINT {prefix}conflicts_claim \
                 DO UPDATE SET seen = c.seen + 1, last_at = excluded.last_at",
                record_parameters(6)
            )),
            add_stored: sql(format!(
                "INSERT INTO {p}stored (group_id, scope, id, fingerprint, attempts, due_at, {RECORD_COLUMNS}) \
                 VALUES ($1, $2, $3, $4, 0, '-infinity', {})",
                record_parameters(5)
            )),
            remove_stored: sql(format!(
                "DELETE FROM {p}stored s USING unnest($2::text[], $3::text[]) AS asked (scope, id) \
                 WHERE s.group_id = $1 AND s.scope = asked.scope AND s.id = asked.id"
            )),
            put_failure: sql(format!(
                "UPDATE {p}stored SET attempts = $4, error = $5, \
                 due_at = CASE WHEN $6::bigint > 3000000000000000 THEN 'infinity'::timestamptz \
                 ELSE clock_timestamp() + $6::bigint * interval '1 millisecond' END \
                 WHERE group_id = $1 AND scope = $2 AND id = $3"
            )),
            due: sql(format!(
                "SELECT scope, id, fingerprint, attempts, error, {RECORD_COLUMNS} FROM {p}stored \
                 WHERE group_id = $1 AND due_at <= clock_timestamp() ORDER BY stored_id LIMIT $2"
            )),
            next_due: sql(format!(
                "SELECT CASE WHEN due_at = '-infinity' THEN 0 WHEN due_at = 'infinity' THEN 9223372036854775807 \
                 ELSE greatest(0, ceil(extract(epoch FROM due_at - clock_timestamp()) * 1000))::bigint END \
                 FROM {p}stored WHERE group_id = $1 ORDER BY due_at LIMIT 1"
            )),
            letters: sql(format!(
                "{letter} WHERE l.letter_id > $1 AND ($2::text IS NULL OR g.name = $2) ORDER BY l.letter_id LIMIT $3"
            )),
            letter: sql(format!("{letter} WHERE l.letter_id = $1")),
            conflicts: sql(format!(
                "SELECT c.conflict_id, g.name, c.scope, c.id, c.stored, c.refused, c.seen, \
                 (extract(epoch FROM c.first_at) * 1000)::bigint, \
                 {RECORD_COLUMNS} FROM {p}conflicts c JOIN {p}groups g USING (group_id) \
                 WHERE c.conflict_id > $1 AND ($2::text IS NULL OR g.name = $2) ORDER BY c.conflict_id LIMIT $3"
            )),
            count_claims: sql(format!(
                "SELECT g.name, c.disposition, count(c.id) FROM {p}groups g LEFT JOIN {p}claims c USING (group_id) \
                 GROUP BY g.name, c.disposition ORDER BY g.name"
            )),
            count_conflicts: sql(format!(
                "SELECT g.name, count(*) FROM {p}conflicts c JOIN {p}groups g USING (group_id) GROUP BY g.name"
            )),
            find_checkpoints: sql(format!("SELECT {CHECKPOINT}, asked.n FROM {checkpoint_of}) AS found")),
            lock_checkpoints: sql(format!(
                "WITH wait AS MATERIALIZED (SELECT set_config('lock_timeout', $4, true) AS set), \
                 found AS (SELECT {CHECKPOINT}, asked.n FROM wait CROSS JOIN {checkpoint_of} FOR UPDATE) AS found \
                 WHERE wait.set IS NOT NULL) \
                 SELECT array_agg(next), array_agg(epoch), array_agg(mark_at), array_agg(mark_digest), \
                 array_agg(mark_timestamp_ms), array_agg(n), {WAITED} FROM found"
            )),
            touch_checkpoints: sql(format!(
                "UPDATE {p}checkpoints c SET updated_at = clock_timestamp() \
                 FROM unnest($2::text[], $3::bigint[]) AS asked (source, partition) \
                 WHERE c.group_id = $1 AND c.source = asked.source AND c.partition = asked.partition"
            )),
            list_checkpoints: sql(format!(
                "SELECT {CHECKPOINT}, partition FROM {p}checkpoints \
                 WHERE group_id = $1 AND source = $2 ORDER BY partition"
            )),
            forward_checkpoints: sql(format!(
                "WITH {WAIT}, moved AS (INSERT INTO {p}checkpoints AS c \
                 (group_id, source, partition, {CHECKPOINT}) \
                 SELECT $2, asked.source, asked.partition, asked.next, asked.epoch, asked.mark_at, \
                 asked.mark_digest, asked.mark_timestamp_ms FROM wait, \
                 unnest($3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[], $9::bigint[]) \
                 WITH ORDINALITY AS asked (source, partition, {CHECKPOINT}, n) \
                 WHERE wait.set IS NOT NULL ORDER BY asked.n \
                 ON CONFLICT ON CONSTRAINT {prefix}checkpoints_pkey DO UPDATE SET next = excluded.next, \
                 mark_at = excluded.mark_at, mark_digest = excluded.mark_digest, \
                 mark_timestamp_ms = excluded.mark_timestamp_ms, updated_at = excluded.updated_at \
                 WHERE excluded.next > c.next RETURNING 1) \
                 SELECT count(*), {WAITED} FROM moved"
            )),
            add_checkpoint: sql(format!(
                "INSERT INTO {p}checkpoints (group_id, source, partition, {CHECKPOINT}) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
                 ON CONFLICT ON CONSTRAINT {prefix}checkpoints_pkey DO NOTHING"
            )),
            put_checkpoint: sql(format!(
                "UPDATE {p}checkpoints SET next = $4, epoch = $5, mark_at = $6, mark_digest = $7, \
                 mark_timestamp_ms = $8, updated_at = clock_timestamp() \
                 WHERE group_id = $1 AND source = $2 AND partition = $3"
            )),
            raise_epoch: sql(format!(
                "INSERT INTO {p}checkpoints AS c (group_id, source, partition, next, epoch) \
                 VALUES ($1, $2, $3, 0, 1) ON CONFLICT ON CONSTRAINT {prefix}checkpoints_pkey \
                 DO UPDATE SET epoch = c.epoch + 1, updated_at = excluded.updated_at RETURNING {CHECKPOINT}"
            )),
            forget: sql(format!("DELETE FROM {p}checkpoints WHERE group_id = $1 AND source = $2")),
            find_init: sql(format!("SELECT 1 FROM {p}init WHERE digest = $1")),
            add_init: sql(format!(
                "INSERT INTO {p}init (digest) VALUES ($1) ON CONFLICT ON CONSTRAINT {prefix}init_pkey DO NOTHING"
            )),
            open_run: sql(format!(
                "WITH before AS (SELECT open_max FROM {p}runs WHERE group_id = $1 AND instance = $2), \
                 put AS (INSERT INTO {p}runs AS r (group_id, instance, open_max) VALUES ($1, $2, $3) \
                 ON CONFLICT ON CONSTRAINT {prefix}runs_pkey DO UPDATE \
                 SET open_max = greatest(r.open_max, excluded.open_max), opened_at = excluded.opened_at) \
                 SELECT open_max FROM before"
            )),
            close_run: sql(format!("DELETE FROM {p}runs WHERE group_id = $1 AND instance = $2")),
            marks: sql(format!("SELECT marks FROM {p}marks WHERE group_id = $1 AND scope = $2 AND id = $3")),
            mark_start: sql(format!(
                "INSERT INTO {p}marks (group_id, scope, id, marks) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT ON CONSTRAINT {prefix}marks_pkey DO UPDATE SET marks = excluded.marks"
            )),
            clear_marks: sql(format!(
                "DELETE FROM {p}marks m USING unnest($2::text[], $3::text[]) AS asked (scope, id) \
                 WHERE m.group_id = $1 AND m.scope = asked.scope AND m.id = asked.id"
            )),
        }
    }
}
