//! What the URL of a database may say. The driver's own parser passes over what it does not know.

use crate::{OpenError, error::one_line};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use std::str::FromStr as _;

/// The parameters that the driver understands, by the names that are told.
const KNOWN: &str = "application_name, dbname, host, hostaddr, options, password, port, sslcert, sslkey, sslmode, \
     sslrootcert, statement-cache-capacity, user";

/// Further spellings of the driver's.
const SPELLINGS: [&str; 5] = ["ssl-ca", "ssl-cert", "ssl-key", "ssl-mode", "ssl-root-cert"];

/// Parameters that mean nothing on a connection without TLS.
const OF_TLS: [&str; 7] =
    ["sslcert", "ssl-cert", "sslkey", "ssl-key", "sslrootcert", "ssl-root-cert", "ssl-ca"];

/// Whether this program can do TLS.
const HAS_TLS: bool = cfg!(feature = "tls");

/// Reads a URL. No error repeats any of it but the name of a parameter: it may hold a password.
pub(crate) fn parse(url: &str) -> Result<PgConnectOptions, OpenError> {
    parse_with(url, HAS_TLS)
}

fn parse_with(url: &str, has_tls: bool) -> Result<PgConnectOptions, OpenError> {
    let refuse = |reason: &str| Err(OpenError::Url { reason: reason.into() });
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return refuse("it does not begin with postgres://");
    }
    // A password with one of these unescaped would be taken for a host, a database or a parameter.
    if url.contains('#') {
        return refuse("it has a #; write %23 where that is part of a name or a password");
    }
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    let behind = place.find(['/', '?']).and_then(|at| place.get(at..)).unwrap_or_default();
    if behind.contains('@') {
        return refuse(
            "it has an @ behind the first / or ?; in a password write / as %2F, ? as %3F and @ as %40, elsewhere @ as %40",
        );
    }
    let query = behind.split_once('?').map_or("", |(_, query)| query);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        check_parameter(pair.split_once('=').map_or(pair, |(name, _)| name), has_tls)?;
    }
    let options =
        PgConnectOptions::from_str(url).map_err(|error| OpenError::Url { reason: one_line(&error) })?;
    check_mode(&options, has_tls)?;
    Ok(options)
}

fn check_parameter(name: &str, has_tls: bool) -> Result<(), OpenError> {
    let is_option = name.starts_with("options[") && name.ends_with(']');
    if !is_option && !KNOWN.split(", ").chain(SPELLINGS).any(|known| known == name) {
        return Err(OpenError::Parameter { name: name.into(), known: KNOWN });
    }
    if !has_tls && OF_TLS.contains(&name) {
        return Err(OpenError::NoTls { what: name.into() });
    }
    Ok(())
}

/// Refuses a mode that insists on TLS in a program that has none; it may also come from the environment.
pub(crate) fn check_tls(options: &PgConnectOptions) -> Result<(), OpenError> {
    check_mode(options, HAS_TLS)
}

fn check_mode(options: &PgConnectOptions, has_tls: bool) -> Result<(), OpenError> {
    let mode = match options.get_ssl_mode() {
        PgSslMode::Require => "require",
        PgSslMode::VerifyCa => "verify-ca",
        PgSslMode::VerifyFull => "verify-full",
        _ => return Ok(()),
    };
    if has_tls { Ok(()) } else { Err(OpenError::NoTls { what: format!("sslmode={mode}") }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        let error = parse_with(url, true).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3"), "{error:?}");
        error.to_string()
    }

    #[test]
    fn unknown_parameters_are_named() {
        let told = refused("postgres://me:s3@db/shop?sslmode=disable&conect_timeout=3");
        assert!(told.contains("\"conect_timeout\"") && told.contains("sslmode"), "{told}");
        let known =
            "postgres://db/shop?application_name=a&options[search_path]=x&options=-c%20a%3Db&ssl-mode=prefer";
        parse(known).unwrap();
    }

    #[test]
    fn what_breaks_out_of_a_password_is_not_told() {
        for url in [
            "postgres://me:a?s3=b@db/shop",
            "postgres://me:12/s3@db/shop",
            "postgres://me#s3@db/shop",
            "postgres://me:a/s3?x@db",
            "postgres:me:s3@db/shop",
            "mysql://me:s3@db/shop",
            "s3",
        ] {
            assert!(refused(url).contains("cannot be read"), "{url}");
        }
    }

    #[test]
    fn tls_is_refused_where_there_is_none() {
        for (url, what) in [
            ("postgres://db/shop?sslmode=require", "sslmode=require"),
            ("postgres://db/shop?ssl-mode=verify-full", "sslmode=verify-full"),
            ("postgres://db/shop?sslrootcert=ca.pem", "sslrootcert"),
        ] {
            let told = parse_with(url, false).unwrap_err().to_string();
            assert!(told.starts_with(what) && told.contains("feature tls"), "{told}");
            parse_with(url, true).unwrap();
        }
        parse_with("postgres://db/shop?sslmode=prefer", false).unwrap();
    }
}
