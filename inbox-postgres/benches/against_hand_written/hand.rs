//! The loops that a careful person writes, with the same driver.

use crate::work::{Order, Outcome, fingerprint, insert_all, insert_one};
use inbox_postgres::sqlx::{Connection as _, PgConnection, query, query_scalar};
use std::collections::HashSet;

/// A message, as a client hands it over.
pub(crate) type Incoming = (String, String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) batch: usize,
    /// Whether a message is known again.
    pub(crate) claims: bool,
    /// One statement for the effects of a batch.
    pub(crate) set_based: bool,
}

/// One insert per message, each a transaction of its own.
pub(crate) async fn naive(connection: &mut PgConnection, messages: &[Incoming]) -> Outcome<()> {
    for (_, payload) in messages {
        insert_one(connection, serde_json::from_str(payload)?).await?;
    }
    Ok(())
}

async fn claim_one(connection: &mut PgConnection, (id, payload): &Incoming) -> Outcome<bool> {
    let claimed = query(
        "INSERT INTO hand_claims (group_id, id, fingerprint) VALUES (1, $1, $2) ON CONFLICT DO NOTHING",
    )
    .bind(id)
    .bind(fingerprint(payload))
    .execute(connection)
    .await?;
    Ok(claimed.rows_affected() == 1)
}

/// The ids that were not there.
async fn claim_all(connection: &mut PgConnection, batch: &[Incoming]) -> Outcome<HashSet<String>> {
    let mut rows: Vec<(&str, Vec<u8>)> =
        batch.iter().map(|(id, payload)| (id.as_str(), fingerprint(payload))).collect();
    rows.sort_unstable();
    let (ids, fingerprints): (Vec<&str>, Vec<Vec<u8>>) = rows.into_iter().unzip();
    let fresh: Vec<String> = query_scalar(
        "INSERT INTO hand_claims (group_id, id, fingerprint) SELECT 1, * FROM unnest($1::text[], $2::bytea[]) \
         ON CONFLICT DO NOTHING RETURNING id",
    )
    .bind(ids)
    .bind(fingerprints)
    .fetch_all(connection)
    .await?;
    Ok(fresh.into_iter().collect())
}

impl Loop {
    pub(crate) async fn run(self, connection: &mut PgConnection, messages: &[Incoming]) -> Outcome<()> {
        for batch in messages.chunks(self.batch) {
            let mut tx = connection.begin().await?;
            let fresh = match batch {
                [one] if self.claims => {
                    claim_one(&mut tx, one).await?.then(|| one.0.clone()).into_iter().collect()
                }
                _ if self.claims => claim_all(&mut tx, batch).await?,
                _ => HashSet::new(),
            };
            let is_fresh = |id: &str| !self.claims || fresh.contains(id);
            let mut orders: Vec<Order> = Vec::with_capacity(batch.len());
            for (id, payload) in batch {
                if is_fresh(id) {
                    orders.push(serde_json::from_str(payload)?);
                }
            }
            if self.set_based {
                insert_all(&mut tx, orders).await?;
            } else {
                for order in orders {
                    insert_one(&mut tx, order).await?;
                }
            }
            tx.commit().await?;
        }
        Ok(())
    }
}
