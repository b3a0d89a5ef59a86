//! The statements of a store, written out once with its prefix.

use crate::convert::RECORD_COLUMNS;

/// Texts for `prepare_cached`, which finds them again by their text.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) find_group: String,
    pub(crate) add_group: String,
    pub(crate) claim: String,
    pub(crate) find_claim: String,
    pub(crate) mark_claim: String,
    pub(crate) add_letter: String,
    pub(crate) add_conflict: String,
    pub(crate) add_stored: String,
    pub(crate) remove_stored: String,
    pub(crate) put_failure: String,
    pub(crate) due: String,
    pub(crate) next_due: String,
    pub(crate) letters: String,
    pub(crate) letter: String,
    pub(crate) conflicts: String,
    pub(crate) count_claims: String,
    pub(crate) count_conflicts: String,
    pub(crate) find_checkpoint: String,
    pub(crate) list_checkpoints: String,
    pub(crate) put_checkpoint: String,
    pub(crate) raise_epoch: String,
    pub(crate) forget: String,
    pub(crate) find_init: String,
    pub(crate) add_init: String,
    pub(crate) find_run: String,
    pub(crate) put_run: String,
    pub(crate) remove_run: String,
    pub(crate) find_marks: String,
    pub(crate) put_marks: String,
    pub(crate) remove_marks: String,
}

const CHECKPOINT: &str = "next, epoch, mark_at, mark_digest, mark_timestamp_ms";

impl Statements {
    pub(crate) fn new(p: &str) -> Self {
        let letter = format!(
            "SELECT l.letter_id, g.name, l.scope, l.id, l.reason, l.error, l.attempts, l.created_at_ms, \
             {RECORD_COLUMNS} FROM {p}letters l JOIN {p}groups g USING (group_id)"
        );
        Self {
            find_run: format!("SELECT open_max FROM {p}runs WHERE group_id = ?1 AND instance = ?2"),
            put_run: format!(
                "INSERT INTO {p}runs (group_id, instance, open_max, opened_at_ms) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (group_id, instance) DO UPDATE SET \
                 open_max = max(open_max, excluded.open_max), opened_at_ms = excluded.opened_at_ms"
            ),
            remove_run: format!("DELETE FROM {p}runs WHERE group_id = ?1 AND instance = ?2"),
            find_marks: format!("SELECT marks FROM {p}marks WHERE group_id = ?1 AND scope = ?2 AND id = ?3"),
            put_marks: format!(
                "INSERT INTO {p}marks (group_id, scope, id, marks, at_ms) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (group_id, scope, id) DO UPDATE SET marks = excluded.marks, at_ms = excluded.at_ms"
            ),
            remove_marks: format!("DELETE FROM {p}marks WHERE group_id = ?1 AND scope = ?2 AND id = ?3"),
            find_group: format!("SELECT group_id FROM {p}groups WHERE name = ?1"),
            add_group: format!("INSERT INTO {p}groups (name) VALUES (?1) RETURNING group_id"),
            claim: format!(
                "INSERT INTO {p}claims (group_id, scope, id, disposition, fingerprint, at_ms) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (group_id, scope, id) DO NOTHING"
            ),
            find_claim: format!(
                "SELECT disposition, fingerprint FROM {p}claims WHERE group_id = ?1 AND scope = ?2 AND id = ?3"
            ),
            mark_claim: format!(
                "UPDATE {p}claims SET disposition = ?4 WHERE group_id = ?1 AND scope = ?2 AND id = ?3"
            ),
            add_letter: format!(
                "INSERT INTO {p}letters (group_id, scope, id, reason, error, attempts, created_at_ms, \
                 {RECORD_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, \
                 ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18) \
                 ON CONFLICT (group_id, scope, id) DO NOTHING"
            ),
            add_conflict: format!(
                "INSERT INTO {p}conflicts (group_id, scope, id, stored, refused, seen, first_at_ms, last_at_ms, \
                 {RECORD_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?6, \
                 ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17) \
                 ON CONFLICT (group_id, scope, id, refused) \
                 DO UPDATE SET seen = seen + 1, last_at_ms = excluded.last_at_ms"
            ),
            // What may be there is the record of a claim that somebody removed by hand.
            add_stored: format!(
                "INSERT OR REPLACE INTO {p}stored (group_id, scope, id, attempts, due_at_ms, {RECORD_COLUMNS}) \
                 VALUES (?1, ?2, ?3, 0, 0, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
            ),
            remove_stored: format!("DELETE FROM {p}stored WHERE group_id = ?1 AND scope = ?2 AND id = ?3"),
            put_failure: format!(
                "UPDATE {p}stored SET attempts = ?4, error = ?5, due_at_ms = ?6 \
                 WHERE group_id = ?1 AND scope = ?2 AND id = ?3"
            ),
            // The index holds what decides, in the order that is wanted: only rows that are due are read, and
            // no more than asked for, however many are kept.
            due: format!(
                "SELECT s.scope, s.id, c.fingerprint, s.attempts, s.error, {RECORD_COLUMNS} \
                 FROM {p}stored s INDEXED BY {p}stored_due CROSS JOIN {p}claims c USING (group_id, scope, id) \
                 WHERE s.group_id = ?1 AND s.due_at_ms <= ?2 AND c.disposition = ?3 \
                 ORDER BY s.stored_id LIMIT ?4"
            ),
            next_due: format!(
                "SELECT min(due_at_ms) FROM {p}stored INDEXED BY {p}stored_due WHERE group_id = ?1"
            ),
            letters: format!(
                "{letter} WHERE l.letter_id > ?1 AND (?2 IS NULL OR g.name = ?2) ORDER BY l.letter_id LIMIT ?3"
            ),
            letter: format!("{letter} WHERE l.letter_id = ?1"),
            conflicts: format!(
                "SELECT c.conflict_id, g.name, c.scope, c.id, c.stored, c.refused, c.seen, c.first_at_ms, \
                 {RECORD_COLUMNS} FROM {p}conflicts c JOIN {p}groups g USING (group_id) \
                 WHERE c.conflict_id > ?1 AND (?2 IS NULL OR g.name = ?2) ORDER BY c.conflict_id LIMIT ?3"
            ),
            count_claims: format!(
                "SELECT g.name, c.disposition, count(c.id) FROM {p}groups g LEFT JOIN {p}claims c USING (group_id) \
                 GROUP BY g.name, c.disposition ORDER BY g.name"
            ),
            count_conflicts: format!(
                "SELECT g.name, count(*) FROM {p}conflicts c JOIN {p}groups g USING (group_id) GROUP BY g.name"
            ),
            find_checkpoint: format!(
                "SELECT {CHECKPOINT} FROM {p}checkpoints WHERE group_id = ?1 AND source = ?2 AND partition = ?3"
            ),
            list_checkpoints: format!(
                "SELECT {CHECKPOINT}, partition FROM {p}checkpoints \
                 WHERE group_id = ?1 AND source = ?2 ORDER BY partition"
            ),
            put_checkpoint: format!(
                "INSERT INTO {p}checkpoints (group_id, source, partition, updated_at_ms, {CHECKPOINT}) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (group_id, source, partition) \
                 DO UPDATE SET next = excluded.next, epoch = excluded.epoch, mark_at = excluded.mark_at, \
                 mark_digest = excluded.mark_digest, mark_timestamp_ms = excluded.mark_timestamp_ms, \
                 updated_at_ms = excluded.updated_at_ms"
            ),
            raise_epoch: format!(
                "INSERT INTO {p}checkpoints (group_id, source, partition, updated_at_ms, next, epoch) \
                 VALUES (?1, ?2, ?3, ?4, 0, 1) ON CONFLICT (group_id, source, partition) \
                 DO UPDATE SET epoch = epoch + 1, updated_at_ms = excluded.updated_at_ms RETURNING {CHECKPOINT}"
            ),
            forget: format!("DELETE FROM {p}checkpoints WHERE group_id = ?1 AND source = ?2"),
            find_init: format!("SELECT 1 FROM {p}init WHERE digest = ?1"),
            add_init: format!("INSERT INTO {p}init (digest, applied_at_ms) VALUES (?1, ?2)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// However many messages are kept, a page of those that are due is read without sorting.
    #[test]
    fn what_is_due_is_found_through_the_index_in_its_order() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&crate::schema::script("p_")).unwrap();
        let explain = format!("EXPLAIN QUERY PLAN {}", Statements::new("p_").due);
        let mut plan = connection.prepare(&explain).unwrap();
        let steps = plan.query_map((1, 1, 4, 10), |row| row.get("detail")).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert!(steps[0].contains("INDEX p_stored_due (group_id=?)"), "{steps:?}");
        assert!(steps.iter().all(|step| step.starts_with("SEARCH")), "{steps:?}");
    }
}
