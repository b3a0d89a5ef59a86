//! Claims: the rows by which a message is known again.

use crate::{
    SqliteStore,
    convert::{now_ms, read_fingerprint},
    error::failed,
    statements::Statements,
};
use inbox_core::{Claim, ClaimKey, ClaimRequest, Disposition, FaultClass, Fingerprint, Group, StoreError};
use rusqlite::{Connection, OptionalExtension};

/// Why claims could not be made.
#[derive(Debug)]
pub(crate) enum ClaimError {
    Sqlite(rusqlite::Error),
    /// The same key twice in one call.
    Repeated(ClaimKey),
    /// The row was there, and then it was not.
    Vanished(ClaimKey),
}

impl From<rusqlite::Error> for ClaimError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl ClaimError {
    /// In words, with the name of the store.
    pub(crate) fn told(self, store: &str) -> StoreError {
        let message = match self {
            Self::Sqlite(error) => return failed("claiming", store, error),
            Self::Repeated(key) => format!("claiming in {store}: {key} was asked for twice in one call"),
            Self::Vanished(key) => {
                format!(
                    "claiming in {store}: the row of {key} was neither written nor found; look for triggers"
                )
            }
        };
        StoreError::failed(FaultClass::Permanent, message)
    }
}

/// Claims the keys in sorted order, which is also the order of the rows in the table. `claimed` are those
/// that this transaction has made before.
pub(crate) fn claim(
    connection: &Connection,
    sql: &Statements,
    group_id: i64,
    requests: &[ClaimRequest],
    claimed: &[(i64, ClaimKey)],
) -> Result<Vec<Claim>, ClaimError> {
    let order = sorted(requests)?;
    let now_ms = now_ms();
    let mut claims = vec![Claim::Fresh; requests.len()];
    let mut insert = connection.prepare_cached(&sql.claim)?;
    for at in order {
        let ClaimRequest { key, fingerprint } = &requests[at];
        let rows = insert.execute((
            group_id,
            key.scope.as_str(),
            key.id.as_str(),
            Disposition::Applied.code(),
            fingerprint.to_bytes().as_slice(),
            now_ms,
        ))?;
        let is_own = || claimed.iter().any(|(group, own)| *group == group_id && own == key);
        if rows == 1 || is_own() {
            continue;
        }
        // The write lock is held, so the row that was in the way is committed.
        let (disposition, stored) =
            find(connection, sql, group_id, key)?.ok_or_else(|| ClaimError::Vanished(key.clone()))?;
        claims[at] = Claim::found(disposition, stored, *fingerprint);
    }
    Ok(claims)
}

/// The places of the requests by rising key; each key may be asked for once.
pub(crate) fn sorted(requests: &[ClaimRequest]) -> Result<Vec<usize>, ClaimError> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_unstable_by(|&a, &b| requests[a].key.cmp(&requests[b].key));
    match order.windows(2).find(|pair| requests[pair[0]].key == requests[pair[1]].key) {
        Some(pair) => Err(ClaimError::Repeated(requests[pair[0]].key.clone())),
        None => Ok(order),
    }
}

/// Reads the row of a key.
pub(crate) fn find(
    connection: &Connection,
    sql: &Statements,
    group_id: i64,
    key: &ClaimKey,
) -> rusqlite::Result<Option<(Disposition, Fingerprint)>> {
    let mut find = connection.prepare_cached(&sql.find_claim)?;
    find.query_row((group_id, key.scope.as_str(), key.id.as_str()), |row| {
        Ok((read_disposition(row, 0)?, read_fingerprint(row, 1)?))
    })
    .optional()
}

impl SqliteStore {
    /// Gives a claim that this transaction holds another disposition.
    pub(crate) fn mark_claim(
        &self,
        connection: &Connection,
        doing: &str,
        group_id: i64,
        key: &ClaimKey,
        disposition: Disposition,
    ) -> Result<(), StoreError> {
        let rows = connection
            .prepare_cached(&self.inner.sql.mark_claim)
            .and_then(|mut mark| {
                mark.execute((group_id, key.scope.as_str(), key.id.as_str(), disposition.code()))
            })
            .map_err(|e| self.failed(doing, e))?;
        if rows == 1 {
            return Ok(());
        }
        let message = format!("{doing}: the claim of {key} is no longer there; the handler removed it");
        Err(StoreError::failed(FaultClass::HandlerFault, message))
    }
}

/// Reads a disposition.
pub(crate) fn read_disposition(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Disposition> {
    let code: i64 = row.get(column)?;
    i16::try_from(code)
        .ok()
        .and_then(Disposition::from_code)
        .ok_or(rusqlite::Error::IntegralValueOutOfRange(column, code))
}

/// The number of a group, whose row is made if it is missing.
pub(crate) fn make_group(connection: &Connection, sql: &Statements, group: &Group) -> rusqlite::Result<i64> {
    let mut find = connection.prepare_cached(&sql.find_group)?;
    let found = find.query_row([group.as_str()], |row| row.get(0)).optional()?;
    match found {
        Some(id) => Ok(id),
        None => connection.prepare_cached(&sql.add_group)?.query_row([group.as_str()], |row| row.get(0)),
    }
}
