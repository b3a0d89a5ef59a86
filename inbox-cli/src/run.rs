//! `inbox run`: checks everything that can be checked first, then lets the runner work.

use crate::{
    args::{ReportFormat, RunArgs},
    endpoint::{Origin, Target},
    error::CliError,
    exit::Exit,
    logging, output,
    progress::Progress,
    report::{Counts, Report},
    schema::{self, Schema},
    signals::Signals,
    sink::Sink,
    source::ParamSource,
    sqlite,
};
use inbox_core::IdFrom;
use std::{
    fs,
    io::{self, IsTerminal as _},
    path::Path,
    time::Instant,
};

/// Runs until the source ends, something fails or a signal comes.
pub(crate) async fn run(args: RunArgs) -> Result<Exit, CliError> {
    let Prepared { origin, target, sink } = prepare(&args)?;
    let signals =
        Signals::listen().map_err(|error| CliError::failed("listening for signals").caused_by(&error))?;
    let terminal = io::stderr().is_terminal();
    let progress = Progress::choose(args.quiet, terminal);
    logging::start(
        if args.quiet { crate::args::LogLevel::Error } else { args.log },
        progress.bar(),
        terminal,
    );

    let started = Instant::now();
    // TODO(wiring): store, broker, runner with `sink`; `progress.show(counts)`; `signals.first()`.
    let (_, _, _, _, _) = (origin, target, sink, progress, signals.first());
    let counts = Counts::default();

    let report = Report::new(counts, started.elapsed());
    match args.report {
        ReportFormat::Text => output::print(&report.text())?,
        ReportFormat::Json => output::print(&report.json())?,
        ReportFormat::None => {}
    }
    Ok(signals.exit().unwrap_or(Exit::Done))
}

struct Prepared {
    origin: Origin,
    target: Target,
    sink: Sink,
}

/// Everything that is the caller's mistake is found here, before a message is read.
fn prepare(args: &RunArgs) -> Result<Prepared, CliError> {
    let origin = Origin::parse(&args.from).map_err(|error| CliError::usage(error.to_string()))?;
    let target = Target::parse(&args.into).map_err(|error| CliError::usage(error.to_string()))?;
    check_headers(args, &origin)?;
    let Origin::File(from) = &origin;
    check_readable(from)?;
    let Target::Sqlite(path) = &target;
    let mut connection = sqlite::open(path)?;
    let schema = args.init.as_deref().map(|file| schema::apply(&mut connection, file)).transpose()?;
    let sink = Sink::prepare(&mut connection, &args.sql, &args.params).map_err(|error| match &schema {
        Some(Schema::AlreadyThere(why)) => error.hint(&format!("--init was not run: {why}")),
        _ => error,
    })?;
    Ok(Prepared { origin, target, sink })
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

fn check_readable(path: &Path) -> Result<(), CliError> {
    let doing = || CliError::usage(format!("opening --from file:{}", path.display()));
    let meta = fs::metadata(path)
        .map_err(|error| doing().caused_by(&error).hint("name an existing file of JSON lines"))?;
    if meta.is_dir() {
        return Err(doing().hint("it is a folder: name a file of JSON lines"));
    }
    if !meta.is_file() {
        return Err(doing().hint("it is no regular file, and cannot be read again: name one"));
    }
    fs::File::open(path).map_err(|error| doing().caused_by(&error))?;
    Ok(())
}
