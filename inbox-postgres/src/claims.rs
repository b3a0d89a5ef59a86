//! Claims: the rows by which a message is known again.

use crate::{
    PostgresStore, PostgresTx,
    convert::{claim_key, fingerprint_of, id_from_column, id_to_column, read_disposition, read_fingerprint},
    error::{failed, state},
    statements::{Sql, Statements, query},
};
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, Disposition, FaultClass, Fingerprint, Resolution, StoreError,
};
use sqlx::{Error, PgConnection, Row as _};
use std::{borrow::Cow, collections::HashSet};

/// The places of the requests by rising key; each key may be asked for once.
pub(crate) fn sorted(doing: &str, store: &str, requests: &[ClaimRequest]) -> Result<Vec<usize>, StoreError> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_unstable_by(|&a, &b| requests[a].key.cmp(&requests[b].key));
    match order.windows(2).find(|pair| requests[pair[0]].key == requests[pair[1]].key) {
        Some(pair) => {
            let message =
                format!("{doing} in {store}: {} was asked for twice in one call", requests[pair[0]].key);
            Err(StoreError::failed(FaultClass::Permanent, message))
        }
        None => Ok(order),
    }
}

/// Keys as arrays to be bound.
#[derive(Default)]
pub(crate) struct KeyColumns<'k> {
    pub(crate) scopes: Vec<&'k str>,
    pub(crate) ids: Vec<Cow<'k, [u8]>>,
}

impl<'k> FromIterator<&'k ClaimKey> for KeyColumns<'k> {
    fn from_iter<I: IntoIterator<Item = &'k ClaimKey>>(keys: I) -> Self {
        let mut columns = Self::default();
        for key in keys {
            columns.scopes.push(key.scope.as_str());
            columns.ids.push(id_to_column(key.id.as_str()));
        }
        columns
    }
}

impl KeyColumns<'_> {
    pub(crate) fn ids(&self) -> Vec<&[u8]> {
        self.ids.iter().map(|id| &**id).collect()
    }
}

/// How a claim waits for others.
pub(crate) enum Mode {
    /// In a unit of work: bounded.
    Unit { lock_timeout_ms: String },
    /// In a transaction with a bound of its own.
    Foreign,
}

/// Claims the keys, which are sorted, and gives those that are ours now.
async fn insert(
    connection: &mut PgConnection,
    sql: &Statements,
    group_id: i32,
    requests: &[&ClaimRequest],
    mode: Mode,
) -> Result<Inserted, Error> {
    if let ([request], Mode::Unit { lock_timeout_ms }) = (requests, &mode) {
        let row = query(&sql.claim_one)
            .bind(lock_timeout_ms.clone())
            .bind(group_id)
            .bind(request.key.scope.as_str().to_owned())
            .bind(id_to_column(request.key.id.as_str()).into_owned())
            .bind(request.fingerprint.to_bytes().to_vec())
            .fetch_optional(connection)
            .await?;
        return Ok(if row.is_some() { Inserted::All } else { Inserted::Some(HashSet::new()) });
    }
    let keys: KeyColumns<'_> = requests.iter().map(|request| &request.key).collect();
    let fingerprints: Vec<_> = requests.iter().map(|request| request.fingerprint.to_bytes()).collect();
    let fingerprints: Vec<&[u8]> = fingerprints.iter().map(|bytes| &bytes[..]).collect();
    let claim = match mode {
        Mode::Unit { lock_timeout_ms } => query(&sql.claim).bind(lock_timeout_ms),
        Mode::Foreign => query(&sql.claim_in).bind(None::<String>),
    };
    let row = claim
        .bind(group_id)
        .bind(&keys.scopes)
        .bind(keys.ids())
        .bind(fingerprints)
        .fetch_one(connection)
        .await?;
    if row.try_get::<i64, _>(0)? == requests.len() as i64 {
        return Ok(Inserted::All);
    }
    let scopes: Option<Vec<String>> = row.try_get(1)?;
    let ids: Option<Vec<Vec<u8>>> = row.try_get(2)?;
    let pairs = scopes.into_iter().flatten().zip(ids.into_iter().flatten());
    let keys = pairs.map(|(scope, id)| {
        let id = id_from_column(&id).ok_or_else(|| Error::Decode("it is not an id".into()))?;
        claim_key(&scope, &id)
    });
    Ok(Inserted::Some(keys.collect::<Result<_, _>>()?))
}

enum Inserted {
    All,
    Some(HashSet<ClaimKey>),
}

/// Reads rows: each with its place in `keys`.
async fn find(
    connection: &mut PgConnection,
    statement: &Sql,
    group_id: i32,
    keys: &KeyColumns<'_>,
) -> Result<Vec<(usize, Disposition, Fingerprint)>, Error> {
    let rows =
        query(statement).bind(&keys.scopes).bind(keys.ids()).bind(group_id).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let at = usize::try_from(row.try_get::<i64, _>(0)? - 1).unwrap_or_default();
            Ok((at, read_disposition(row.try_get(1)?)?, read_fingerprint(row, 2)?))
        })
        .collect()
}

/// Claims, in a unit's transaction or in somebody else's. `is_own` knows the claims that this transaction
/// has made before.
pub(crate) async fn claim(
    connection: &mut PgConnection,
    sql: &Statements,
    store: &str,
    group_id: i32,
    requests: &[ClaimRequest],
    mode: Mode,
    is_own: impl Fn(&ClaimKey) -> bool,
) -> Result<Vec<Claim>, StoreError> {
    let doing = "claiming";
    let order = sorted(doing, store, requests)?;
    let mut claims = vec![Claim::Fresh; requests.len()];
    if requests.is_empty() {
        return Ok(claims);
    }
    let in_order: Vec<&ClaimRequest> = order.iter().map(|&at| &requests[at]).collect();
    let failed = |error| busy_or_failed(doing, store, error);
    let statement = match mode {
        Mode::Unit { .. } => &sql.find_claims_waited,
        Mode::Foreign => &sql.find_claims,
    };
    let inserted = insert(connection, sql, group_id, &in_order, mode).await.map_err(failed)?;
    let Inserted::Some(fresh) = inserted else { return Ok(claims) };
    let others: Vec<usize> = order
        .into_iter()
        .filter(|&at| !fresh.contains(&requests[at].key) && !is_own(&requests[at].key))
        .collect();
    let keys: KeyColumns<'_> = others.iter().map(|&at| &requests[at].key).collect();
    // Whoever was in the way has committed: the insertion waited for it.
    let found = find(connection, statement, group_id, &keys).await.map_err(failed)?;
    if found.len() != others.len() {
        // Removed between the two statements, by retention or by hand; the next try finds it free.
        let message = format!("{doing} in {store}: a row that was in the way was removed at the same time");
        return Err(StoreError::failed(FaultClass::Contention, message));
    }
    for (place, disposition, stored) in found {
        let at = others[place];
        claims[at] = Claim::found(disposition, stored, requests[at].fingerprint);
    }
    Ok(claims)
}

/// Waiting for another claim took too long, or it is an error.
fn busy_or_failed(doing: &str, store: &str, error: Error) -> StoreError {
    match state(&error) {
        Some("55P03") => StoreError::Busy,
        // The index was being built anew at the same time.
        Some("23505") => StoreError::failed(
            FaultClass::Contention,
            format!("{doing} in {store}: the index of the claims is being changed"),
        ),
        _ => failed(doing, store, error),
    }
}

impl PostgresStore {
    /// Tells the fate of keys: takes what is not there, which waits for whoever could still commit it, and
    /// locks what is there, which waits for whoever could still change it.
    pub(crate) async fn resolve_keys(
        &self,
        tx: &mut PostgresTx,
        group_id: i32,
        keys: &[ClaimKey],
    ) -> Result<Vec<Resolution>, StoreError> {
        let doing = "looking up claims";
        let fingerprint = Fingerprint::of_payload(None);
        let requests: Vec<ClaimRequest> =
            keys.iter().map(|key| ClaimRequest { key: key.clone(), fingerprint }).collect();
        let order = sorted(doing, self.name(), &requests)?;
        let in_order: Vec<&ClaimRequest> = order.iter().map(|&at| &requests[at]).collect();
        let mut resolutions = vec![Resolution::Absent; keys.len()];
        if keys.is_empty() {
            return Ok(resolutions);
        }
        let sql = self.sql();
        let inserted = insert(tx, sql, group_id, &in_order, Mode::Foreign).await;
        let Inserted::Some(absent) = inserted.map_err(|e| busy_or_failed(doing, self.name(), e))? else {
            return Ok(resolutions);
        };
        let there: Vec<usize> = order.into_iter().filter(|&at| !absent.contains(&keys[at])).collect();
        let columns: KeyColumns<'_> = there.iter().map(|&at| &keys[at]).collect();
        let found = find(tx, &sql.find_claims_decided, group_id, &columns).await;
        for (place, disposition, fingerprint) in found.map_err(|e| busy_or_failed(doing, self.name(), e))? {
            resolutions[there[place]] = Resolution::Committed { disposition, fingerprint };
        }
        Ok(resolutions)
    }

    /// Gives claims that this transaction holds another disposition.
    pub(crate) async fn mark_claims(
        &self,
        tx: &mut PostgresTx,
        doing: &str,
        group_id: i32,
        keys: &[&ClaimKey],
        disposition: Disposition,
    ) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let columns: KeyColumns<'_> = keys.iter().copied().collect();
        let done = query(&self.sql().mark_claims)
            .bind(group_id)
            .bind(disposition.code())
            .bind(&columns.scopes)
            .bind(columns.ids())
            .execute(&mut **tx)
            .await
            .map_err(|e| self.failed(doing, e))?;
        if done.rows_affected() == keys.len() as u64 {
            return Ok(());
        }
        let message =
            format!("{doing}: a claim of this transaction is no longer there; the handler removed it");
        Err(StoreError::failed(FaultClass::HandlerFault, message))
    }

    /// Locks rows and reads them, each with its place in `keys`; waits no longer than a claim does.
    pub(crate) async fn lock_claims(
        &self,
        tx: &mut PostgresTx,
        doing: &str,
        group_id: i32,
        keys: &KeyColumns<'_>,
    ) -> Result<Vec<(usize, Disposition, Fingerprint)>, StoreError> {
        let failed = |error| busy_or_failed(doing, self.name(), error);
        let wait = lock_timeout_ms(&tx.limits);
        let row = query(&self.sql().lock_claims)
            .bind(&keys.scopes)
            .bind(keys.ids())
            .bind(group_id)
            .bind(wait)
            .fetch_one(&mut **tx)
            .await
            .map_err(failed)?;
        let read = || {
            let places: Option<Vec<i64>> = row.try_get(0)?;
            let dispositions: Option<Vec<i16>> = row.try_get(1)?;
            let fingerprints: Option<Vec<Vec<u8>>> = row.try_get(2)?;
            let columns = places.into_iter().flatten().zip(dispositions.into_iter().flatten());
            columns
                .zip(fingerprints.into_iter().flatten())
                .map(|((place, disposition), fingerprint)| {
                    let place = usize::try_from(place - 1).unwrap_or_default();
                    Ok((place, read_disposition(disposition)?, fingerprint_of(&fingerprint)?))
                })
                .collect::<Result<Vec<_>, Error>>()
        };
        read().map_err(failed)
    }
}

/// The bound on waiting as PostgreSQL reads it; zero would mean none.
pub(crate) fn lock_timeout_ms(limits: &inbox_core::TxLimits) -> String {
    whole_ms(limits.lock_timeout).to_string()
}

/// A time in milliseconds as PostgreSQL's settings hold it, at least 1.
pub(crate) fn whole_ms(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).clamp(1, i64::from(i32::MAX))
}
