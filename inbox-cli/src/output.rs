//! Writing to standard output, which may be closed at any time.

use crate::error::CliError;
use std::io::{self, ErrorKind, Write};

/// Writes all of `text` to standard output. A reader that has gone away (`| head`) is no failure: it has
/// seen what it wanted.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    write(&mut io::stdout().lock(), text)
}

fn write(to: &mut dyn Write, text: &str) -> Result<(), CliError> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CliError::failed("writing to standard output").caused_by(&error))
        }
        _ => Ok(()),
    }
}

/// Writes one line to standard error, where a failure cannot be told to anybody.
pub(crate) fn complain(line: &str) {
    let _closed = writeln!(io::stderr().lock(), "inbox: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
        assert!(write(&mut Broken(ErrorKind::BrokenPipe), "x").is_ok());
        let full = write(&mut Broken(ErrorKind::StorageFull), "x").unwrap_err();
        assert_eq!(full.exit().code(), 1);
    }
}
