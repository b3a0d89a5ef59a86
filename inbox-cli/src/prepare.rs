//! Before a run: everything that is the caller's mistake is found here, while no message is read.

use crate::{
    args::RunArgs,
    endpoint::{Origin, Target},
    error::CliError,
    schema,
    sink::Sink,
    source::ParamSource,
    sqlite,
    store::{self, Missing},
};
use inbox_core::IdFrom;
use inbox_file::FileBroker;
use inbox_sqlite::SqliteStore;

/// What a run needs.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) broker: FileBroker,
    pub(crate) store: SqliteStore,
    pub(crate) sink: Sink,
}

/// Opens both ends, makes the tables, and checks the SQL against them.
pub(crate) async fn prepare(args: &RunArgs) -> Result<Prepared, CliError> {
    let origin = Origin::parse(&args.from).map_err(|error| CliError::usage(error.to_string()))?;
    let target = Target::parse(&args.into).map_err(|error| CliError::usage(error.to_string()))?;
    check_headers(args, &origin)?;
    // Before the database, which would be made.
    let broker = broker(args, &origin)?;
    let Target::Sqlite(path) = target;
    let store = store::open(path.clone(), Missing::Create).await?;
    if let Some(file) = &args.init {
        schema::apply(&store, file).await?;
    }
    let sink = Sink::prepare(&mut sqlite::open(&path)?, &args.sql, &args.params, args.handler_timeout_s)?;
    Ok(Prepared { broker, store, sink })
}

fn broker(args: &RunArgs, origin: &Origin) -> Result<FileBroker, CliError> {
    let Origin::File(path) = origin;
    let mut options = FileBroker::options()
        .line_bytes_max(usize::try_from(args.line_bytes_max).unwrap_or(usize::MAX))
        .source(origin.source()?);
    if let Some(key) = &args.key {
        options = options.key(key.clone());
    }
    options.open(path).map_err(|error| CliError::usage("--from").because(&error))
}

/// A source without headers would silently give NULL for every one of them.
fn check_headers(args: &RunArgs, origin: &Origin) -> Result<(), CliError> {
    if origin.has_headers() {
        return Ok(());
    }
    let refuse = |option: String| {
        Err(CliError::usage(format!("{option}: the messages of {origin} have no headers"))
            .hint("use a JSON pointer, such as /id"))
    };
    if let IdFrom::Header(name) = &args.id {
        return refuse(format!("--id header:{name}"));
    }
    for mapping in &args.params {
        if let ParamSource::Header(header) = &mapping.source {
            return refuse(format!("--param {}=header:{header}", mapping.name));
        }
    }
    Ok(())
}
