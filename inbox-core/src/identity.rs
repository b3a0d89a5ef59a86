//! Names under which work is claimed: consumer group, scope and message id.

use std::{fmt, sync::Arc};

/// The longest group, scope or message id, in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 255;

/// The first character of scopes that inbox keeps for itself.
pub const RESERVED_SCOPE_PREFIX: char = '~';

/// Why a text cannot serve as a group, scope or message id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text has no characters.
    #[error("it is empty")]
    Empty,
    /// The text is longer than [`NAME_BYTES_MAX`].
    #[error("it is {bytes} bytes long; the limit is {NAME_BYTES_MAX}")]
    TooLong {
        /// The length of the refused text, in bytes.
        bytes: usize,
    },
    /// The text contains the NUL character, which PostgreSQL cannot store in a text column.
    #[error("it contains a NUL character")]
    Nul,
    /// The text contains a space where a space separates it from the next part.
    #[error("it contains a space")]
    Space,
    /// The text begins with [`RESERVED_SCOPE_PREFIX`].
    #[error("it begins with '~', which is reserved")]
    Reserved,
}

fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong { bytes: text.len() });
    }
    if text.as_bytes().contains(&0) {
        return Err(NameError::Nul);
    }
    Ok(())
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

name_type! {
    /// The consumer group: the namespace of claims. Each group gets every message once.
    ///
    /// 1 to 255 bytes, no NUL. Cloning shares the text.
    Group
}

name_type! {
    /// The id under which a message is claimed: 1 to 255 bytes of UTF-8, no NUL. Cloning shares the text.
    ///
    /// The length limit keeps every index entry of the supported databases below its maximum; NUL is
    /// refused because PostgreSQL's `text` cannot hold it.
    MessageId
}

name_type! {
    /// A namespace of ids inside a group, for sources that number independently. Empty by default.
    ///
    /// Scopes that begin with `~` are reserved: [`Scope::unidentified`] is one.
    Scope
}

impl Group {
    /// Checks `text` and makes a group of it.
    ///
    /// # Errors
    /// [`NameError`] when the text is empty, longer than 255 bytes, or contains NUL.
    pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
        let text = text.as_ref();
        check(text)?;
        Ok(Self(Arc::from(text)))
    }
}

impl MessageId {
    /// Checks `text` and makes a message id of it.
    ///
    /// # Errors
    /// [`NameError`] when the text is empty, longer than 255 bytes, or contains NUL.
    pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
        let text = text.as_ref();
        check(text)?;
        Ok(Self(Arc::from(text)))
    }
}

impl Scope {
    /// Checks `text` and makes a scope of it. The empty text is the default scope.
    ///
    /// # Errors
    /// [`NameError`] when the text is longer than 255 bytes, contains NUL, or begins with `~`.
    pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
        let text = text.as_ref();
        if text.starts_with(RESERVED_SCOPE_PREFIX) {
            return Err(NameError::Reserved);
        }
        Self::stored(text)
    }

    /// A scope as a store reads it back, reserved ones included.
    ///
    /// # Errors
    /// [`NameError`] when the text is longer than 255 bytes or contains NUL.
    pub fn stored(text: impl AsRef<str>) -> Result<Self, NameError> {
        let text = text.as_ref();
        if !text.is_empty() {
            check(text)?;
        }
        Ok(Self(Arc::from(text)))
    }

    /// The reserved scope of messages without a usable id. They are claimed by where they stand in
    /// their source, so that a redelivery finds the letter instead of writing a second one.
    pub fn unidentified() -> Self {
        Self(Arc::from("~unidentified"))
    }

    /// Whether this is the default (empty) scope.
    pub fn is_default(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

/// What a claim is made for inside a group: scope and message id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimKey {
    /// The namespace of the id.
    pub scope: Scope,
    /// The id of the message.
    pub id: MessageId,
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scope.is_default() {
            write!(f, "{}", self.id)
        } else {
            write!(f, "{}/{}", self.scope, self.id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked_at_both_ends_of_the_limit() {
        assert_eq!(MessageId::new("").unwrap_err(), NameError::Empty);
        assert_eq!(MessageId::new("x").unwrap().as_str(), "x");
        assert!(MessageId::new("x".repeat(255)).is_ok());
        assert_eq!(MessageId::new("x".repeat(256)).unwrap_err(), NameError::TooLong { bytes: 256 });
        assert_eq!(MessageId::new("a\0b").unwrap_err(), NameError::Nul);
        assert!(MessageId::new("é".repeat(127)).is_ok());
        assert_eq!(MessageId::new("é".repeat(128)).unwrap_err(), NameError::TooLong { bytes: 256 });
    }

    #[test]
    fn the_empty_scope_is_the_default_and_reserved_ones_cannot_be_made() {
        assert!(Scope::new("").unwrap().is_default());
        assert_eq!(Scope::new("~x").unwrap_err(), NameError::Reserved);
        assert_eq!(Scope::stored("~unidentified").unwrap(), Scope::unidentified());
    }
}
