//! The transaction as it is lent to a handler.

use crate::InboxStore;
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

/// The unit of work's transaction, lent to a handler as its last argument. What is written through it
/// commits together with the claim, or not at all.
///
/// It derefs to the driver's connection. Dropping it gives the transaction back to the runner, which
/// commits; a handler therefore just lets it go out of scope. A `Tx` that outlives its handler (moved
/// into a spawned task, say) makes the attempt fail, and nothing of it is stored.
pub struct Tx<S: InboxStore> {
    // Present until drop.
    open: Option<S::Tx>,
    home: Arc<Home<S::Tx>>,
}

/// Where a lent transaction comes back to.
pub(crate) struct Home<T>(Mutex<Place<T>>);

enum Place<T> {
    Lent,
    Back(T),
    /// The unit of work has ended without it.
    Closed,
}

impl<T> Home<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Place::Lent)))
    }

    fn replace(&self, place: Place<T>) -> Place<T> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), place)
    }

    fn give_back(&self, tx: T) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*place, Place::Lent) {
            *place = Place::Back(tx);
        } else {
            // Dropping a driver's connection may take time: not under the lock.
            drop(place);
            drop(tx);
        }
    }

    /// Takes the transaction out again; `None` when somebody still holds it, who then can only drop it.
    pub(crate) fn take_back(&self) -> Option<T> {
        match self.replace(Place::Closed) {
            Place::Back(tx) => {
                self.replace(Place::Lent);
                Some(tx)
            }
            Place::Lent | Place::Closed => None,
        }
    }
}

impl<S: InboxStore> Tx<S> {
    pub(crate) fn lend(open: S::Tx, home: &Arc<Home<S::Tx>>) -> Self {
        Self { open: Some(open), home: Arc::clone(home) }
    }

    fn open(&self) -> &S::Tx {
        // `open` is only taken in `drop`.
        self.open.as_ref().unwrap_or_else(|| unreachable!("a lent transaction is present until drop"))
    }
}

impl<S: InboxStore> Deref for Tx<S> {
    type Target = <S::Tx as Deref>::Target;
    fn deref(&self) -> &Self::Target {
        self.open()
    }
}

impl<S: InboxStore> DerefMut for Tx<S> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.open.as_mut().unwrap_or_else(|| unreachable!("a lent transaction is present until drop"))
    }
}

impl<S: InboxStore> Drop for Tx<S> {
    fn drop(&mut self) {
        if let Some(tx) = self.open.take() {
            self.home.give_back(tx);
        }
    }
}

impl<S: InboxStore> fmt::Debug for Tx<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tx(lent)")
    }
}
