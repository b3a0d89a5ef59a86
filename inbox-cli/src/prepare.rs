//! Before a run: everything that is the caller's mistake is found here, while no message is read.

use crate::{
    args::RunArgs,
    endpoint::{Origin, Target},
    error::CliError,
    source::ParamSource,
};
use inbox_core::IdFrom;
use inbox_file::FileBroker;

/// Opens the source, and reads where the effects go. Nothing is made yet.
pub(crate) fn ends(args: &RunArgs) -> Result<(FileBroker, Target), CliError> {
    let origin = Origin::parse(&args.from).map_err(|error| CliError::usage(error.to_string()))?;
    let target = Target::parse(&args.into).map_err(|error| CliError::usage(error.to_string()))?;
    check_headers(args, &origin)?;
    Ok((broker(args, &origin)?, target))
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
