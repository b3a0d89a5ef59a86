//! Reads an open file in chunks, and notices when it becomes shorter than what was read.

use crate::error::ReadError;
use bytes::Bytes;
use std::{
    fs::File,
    io::{ErrorKind, Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
};

/// A file that is read forwards.
#[derive(Debug)]
pub(crate) struct Chunks {
    file: File,
    path: Arc<Path>,
    at: u64,
    chunk_bytes: usize,
}

impl Chunks {
    pub(crate) fn new(file: File, path: Arc<Path>, chunk_bytes: usize) -> Self {
        Self { file, path, at: 0, chunk_bytes: chunk_bytes.max(1) }
    }

    pub(crate) fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// The file's length now.
    pub(crate) fn len(&self) -> Result<u64, ReadError> {
        let metadata = self.file.metadata().map_err(|error| self.failed(error))?;
        Ok(metadata.len())
    }

    /// Goes on at byte `at`.
    pub(crate) fn seek(&mut self, at: u64) -> Result<(), ReadError> {
        self.at = at;
        self.file.seek(SeekFrom::Start(at)).map_err(|error| self.failed(error))?;
        Ok(())
    }

    /// The next chunk; `None` at the end as it is now.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        loop {
            // Looked at before each read: a read at the end tells nothing about a file cut off before it.
            let len = self.len()?;
            if len < self.at {
                return Err(ReadError::Shrunk { path: self.path.clone(), at: self.at, len });
            }
            let wanted = (len - self.at).min(self.chunk_bytes as u64) as usize;
            if wanted == 0 {
                return Ok(None);
            }
            let mut chunk = vec![0; wanted];
            match self.file.read(&mut chunk) {
                // Cut off since its length was read: look again.
                Ok(0) => {}
                Ok(bytes) => {
                    chunk.truncate(bytes);
                    self.at += bytes as u64;
                    return Ok(Some(Bytes::from(chunk)));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn failed(&self, error: std::io::Error) -> ReadError {
        ReadError::io(&self.path, self.at, error)
    }
}
