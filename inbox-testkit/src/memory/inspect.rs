//! Looking at the letters and conflicts of a memory database.

use super::MemoryStore;
use crate::lock::lock;
use async_trait::async_trait;
use inbox_core::{Disposition, GroupStats, Inspect, Page, StoreError, StoredConflict, StoredLetter};
use std::collections::BTreeMap;

fn page_of<T: Clone>(page: &Page, all: &[T], about: impl Fn(&T) -> (i64, &str)) -> Vec<T> {
    let is_wanted = |row: &&T| {
        let (number, group) = about(row);
        number > page.after && page.group.as_ref().is_none_or(|wanted| wanted.as_str() == group)
    };
    let rows_max = usize::try_from(page.rows_max).unwrap_or(usize::MAX);
    all.iter().filter(is_wanted).take(rows_max).cloned().collect()
}

#[async_trait]
impl Inspect for MemoryStore {
    async fn letters(&self, page: &Page) -> Result<Vec<StoredLetter>, StoreError> {
        let state = lock(&self.database.0.state);
        Ok(page_of(page, &state.letters, |letter| (letter.letter_id, &letter.group)))
    }

    async fn letter(&self, letter_id: i64) -> Result<Option<StoredLetter>, StoreError> {
        let state = lock(&self.database.0.state);
        Ok(state.letters.iter().find(|letter| letter.letter_id == letter_id).cloned())
    }

    async fn conflicts(&self, page: &Page) -> Result<Vec<StoredConflict>, StoreError> {
        let state = lock(&self.database.0.state);
        Ok(page_of(page, &state.conflicts, |conflict| (conflict.conflict_id, &conflict.group)))
    }

    async fn group_stats(&self) -> Result<Vec<GroupStats>, StoreError> {
        let state = lock(&self.database.0.state);
        let mut stats: BTreeMap<&str, GroupStats> = BTreeMap::new();
        for ((group, _), row) in &state.claims {
            let of_group = stats.entry(group.as_str()).or_insert_with(|| GroupStats::new(group.as_str()));
            match row.disposition {
                Disposition::Applied => of_group.applied += 1,
                Disposition::Dead => of_group.dead += 1,
                Disposition::Parked => of_group.parked += 1,
                Disposition::Stored => of_group.stored += 1,
                // A disposition this version does not know is in no column.
                _ => {}
            }
        }
        for conflict in &state.conflicts {
            let group = conflict.group.as_str();
            stats.entry(group).or_insert_with(|| GroupStats::new(group)).conflicts += 1;
        }
        Ok(stats.into_values().collect())
    }
}
