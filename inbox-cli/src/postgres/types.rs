//! The types that parameters can have, as the server tells them.

use inbox_postgres::sqlx::{AssertSqlSafe, Error, PgConnection, Row as _, raw_sql};

/// What a value has to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    /// A whole number of so many bytes: 2, 4 or 8.
    Integer(u8),
    Numeric,
    Real,
    Double,
    /// Text of any kind; also the labels of an enumeration.
    Text,
    Bytes,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Uuid,
    Json,
    Jsonb,
}

/// The type of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParamType {
    /// What the server calls it by.
    pub(crate) oid: u32,
    /// As it is written in SQL.
    pub(crate) name: String,
    /// What one value has to become.
    pub(crate) kind: Kind,
    /// The type of the elements, when it is an array.
    pub(crate) element_oid: Option<u32>,
    /// The same as `name`; of a domain, the type that it is made of.
    pub(crate) base_name: String,
}

/// A type that no value can be made for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unsupported {
    pub(crate) name: String,
}

/// All kinds, for a text that lists them.
pub(crate) const SUPPORTED: &str = "only for smallint, integer, bigint, numeric, real, double precision, boolean, \
     text, varchar, char, bytea, date, time, timestamp, timestamptz, uuid, json, jsonb, enumerations, domains and \
     arrays of these";

impl Kind {
    fn of(oid: u32) -> Option<Self> {
        Some(match oid {
            16 => Self::Bool,
            17 => Self::Bytes,
            20 => Self::Integer(8),
            21 => Self::Integer(2),
            23 => Self::Integer(4),
            // name, text, char(n), varchar
            19 | 25 | 1042 | 1043 => Self::Text,
            114 => Self::Json,
            700 => Self::Real,
            701 => Self::Double,
            1082 => Self::Date,
            1083 => Self::Time,
            1114 => Self::Timestamp,
            1184 => Self::TimestampTz,
            1700 => Self::Numeric,
            2950 => Self::Uuid,
            3802 => Self::Jsonb,
            _ => return None,
        })
    }
}

/// Looks a type up: what it is, and for a domain, what that is made of.
pub(crate) async fn look_up(
    connection: &mut PgConnection,
    oid: u32,
) -> Result<Result<ParamType, Unsupported>, Error> {
    let mut row = Row::read(connection, oid).await?;
    let name = row.name.clone();
    let (mut at, mut base_name, mut element_oid) = (oid, name.clone(), None);
    loop {
        if let Some(kind) = Kind::of(at).or(row.is_enumeration.then_some(Kind::Text)) {
            return Ok(Ok(ParamType { oid, name, kind, element_oid, base_name }));
        }
        at = match (row.base, row.element) {
            (Some(base), _) => base,
            (None, Some(element)) if element_oid.is_none() => {
                element_oid = Some(element);
                element
            }
            _ => return Ok(Err(Unsupported { name })),
        };
        row = Row::read(connection, at).await?;
        if element_oid.is_none() {
            base_name.clone_from(&row.name);
        }
    }
}

/// What the catalogue says of a type.
struct Row {
    name: String,
    is_enumeration: bool,
    /// What a domain is made of.
    base: Option<u32>,
    /// What an array holds.
    element: Option<u32>,
}

impl Row {
    async fn read(connection: &mut PgConnection, oid: u32) -> Result<Self, Error> {
        let sql = format!(
            "SELECT pg_catalog.format_type(t.oid, NULL), t.typtype = 'e', nullif(t.typbasetype, 0)::bigint, \
             (SELECT e.oid::bigint FROM pg_catalog.pg_type e WHERE e.typarray = t.oid) \
             FROM pg_catalog.pg_type t WHERE t.oid = {oid}"
        );
        let row = raw_sql(AssertSqlSafe(sql)).fetch_one(connection).await?;
        let number = |column| {
            let number = row.try_get::<Option<i64>, _>(column)?;
            Ok::<_, Error>(number.and_then(|number| u32::try_from(number).ok()))
        };
        Ok(Self {
            name: row.try_get(0)?,
            is_enumeration: row.try_get(1)?,
            base: number(2)?,
            element: number(3)?,
        })
    }
}
