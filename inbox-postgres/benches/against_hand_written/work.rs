//! The work that both sides do: the messages, the tables and the effects.

use inbox_core::Fingerprint;
use inbox_postgres::sqlx::{self, PgConnection, query, raw_sql};
use std::error::Error;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Debug, serde::Deserialize)]
pub(crate) struct Order {
    pub(crate) order_id: i64,
    pub(crate) customer: String,
    pub(crate) amount: i64,
}

/// A message as it comes from a broker: an id of 36 bytes and about 60 of payload.
pub(crate) fn id(n: u64) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

pub(crate) fn payload(n: u64) -> String {
    format!(r#"{{"order_id": {n}, "customer": "customer {}", "amount": {}}}"#, n % 1000, n % 977)
}

const SCHEMA: &str = "DROP TABLE IF EXISTS invoices; DROP TABLE IF EXISTS hand_claims;
    CREATE TABLE invoices (order_id bigint NOT NULL, customer text, amount bigint NOT NULL);
    CREATE TABLE hand_claims (group_id integer NOT NULL, id text COLLATE \"C\" NOT NULL, fingerprint bytea NOT NULL,
        at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (group_id, id));";

pub(crate) async fn make_tables(connection: &mut PgConnection) -> Outcome<()> {
    raw_sql(SCHEMA).execute(connection).await?;
    Ok(())
}

/// One insert for one order.
pub(crate) async fn insert_one(connection: &mut PgConnection, order: Order) -> Result<(), sqlx::Error> {
    query("INSERT INTO invoices (order_id, customer, amount) VALUES ($1, $2, $3)")
        .bind(order.order_id)
        .bind(order.customer)
        .bind(order.amount)
        .execute(connection)
        .await?;
    Ok(())
}

/// One insert for all orders.
pub(crate) async fn insert_all(
    connection: &mut PgConnection,
    orders: impl IntoIterator<Item = Order>,
) -> Result<(), sqlx::Error> {
    let (mut ids, mut customers, mut amounts) = (Vec::new(), Vec::new(), Vec::new());
    for order in orders {
        ids.push(order.order_id);
        customers.push(order.customer);
        amounts.push(order.amount);
    }
    query("INSERT INTO invoices (order_id, customer, amount) SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[])")
        .bind(ids)
        .bind(customers)
        .bind(amounts)
        .execute(connection)
        .await?;
    Ok(())
}

/// What tells a message with the same id and other content.
pub(crate) fn fingerprint(payload: &str) -> Vec<u8> {
    Fingerprint::of_payload(Some(payload.as_bytes())).to_bytes().to_vec()
}
