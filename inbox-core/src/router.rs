//! Routing by message type: a handler for each, and rules for those that have none.

use crate::{
    Group, Handler, InboxStore, JsonPointer, Message, WithState,
    handler::{AnyHandler, Prepared, Refusal, erase},
};
use std::{collections::HashMap, sync::Arc};

/// Where the message type is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypeFrom {
    /// What the broker's own format carries. The default.
    Native,
    /// The last header of this name, as UTF-8.
    Header(Box<str>),
    /// A string in the JSON payload.
    JsonPointer(JsonPointer),
}

/// What is done with a message whose type has no route, or that has no type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Unknown {
    /// It becomes a letter. The default.
    #[default]
    DeadLetter,
    /// It is acknowledged and leaves no row.
    Ignore,
    /// The run ends with an error, the message is not acknowledged.
    Halt,
}

/// Handlers by message type.
///
/// A route is a whole type (`order.placed`) or a prefix (`order.*`, or `*` for all). Whole types are
/// looked up first, then the longest prefix decides.
#[must_use]
pub struct Router<S: InboxStore, App = ()> {
    app: App,
    type_from: TypeFrom,
    whole: HashMap<Box<str>, Target<S>>,
    /// Prefixes, longest first.
    prefixes: Vec<(Box<str>, Target<S>)>,
    unknown: Unknown,
}

enum Target<S: InboxStore> {
    Handler(Arc<dyn AnyHandler<S>>),
    Ignore,
}

impl<S: InboxStore> Default for Router<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: InboxStore> Router<S> {
    /// No routes, and no state.
    pub fn new() -> Self {
        Self {
            app: (),
            type_from: TypeFrom::Native,
            whole: HashMap::new(),
            prefixes: Vec::new(),
            unknown: Unknown::default(),
        }
    }

    /// The application's state, for handlers that are added behind it.
    pub fn with_state<App: Clone + Send + Sync + 'static>(self, app: App) -> Router<S, App> {
        let Self { app: (), type_from, whole, prefixes, unknown } = self;
        Router { app, type_from, whole, prefixes, unknown }
    }
}

impl<S: InboxStore, App: Clone + Send + Sync + 'static> Router<S, App> {
    /// Where the message type is read from. Default: the broker's own format.
    pub fn type_from(mut self, type_from: TypeFrom) -> Self {
        self.type_from = type_from;
        self
    }

    /// Handles a type, or a prefix of types. A route that is named twice is the later one.
    pub fn on<Args: 'static, H: Handler<S, App, Args>>(self, message_type: &str, handler: H) -> Self {
        let bound: WithState<App, H> = crate::with_state(self.app.clone(), handler);
        self.add(message_type, Target::Handler(erase::<S, (App, Args), _>(bound)))
    }

    /// Acknowledges a type, or a prefix of types, without handling it. It leaves no row.
    pub fn ignore(self, message_type: &str) -> Self {
        self.add(message_type, Target::Ignore)
    }

    /// What is done with all others. Default: they become letters.
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.unknown = unknown;
        self
    }

    fn add(mut self, route: &str, target: Target<S>) -> Self {
        match route.strip_suffix('*') {
            None => drop(self.whole.insert(route.into(), target)),
            Some(prefix) => {
                self.prefixes.retain(|(known, _)| &**known != prefix);
                self.prefixes.push((prefix.into(), target));
                self.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
            }
        }
        self
    }

    fn target(&self, message_type: &str) -> Option<&Target<S>> {
        self.whole.get(message_type).or_else(|| {
            let is_it = |(prefix, _): &&(Box<str>, Target<S>)| message_type.starts_with(&**prefix);
            self.prefixes.iter().find(is_it).map(|(_, target)| target)
        })
    }
}

/// The type of a message; `None` when there is none, or it is not text.
fn type_of(message: &Message, from: &TypeFrom) -> Option<String> {
    match from {
        TypeFrom::Native => message.inbound().message_type.as_deref().map(str::to_owned),
        TypeFrom::Header(name) => {
            message.headers().get(name).and_then(|value| std::str::from_utf8(value).ok()).map(str::to_owned)
        }
        TypeFrom::JsonPointer(pointer) => {
            let found = pointer.find(message.payload()?).ok()??;
            serde_json::from_str(found.get()).ok()
        }
    }
}

impl<S: InboxStore, App: Clone + Send + Sync + 'static> AnyHandler<S> for Router<S, App> {
    fn prepare(&self, message: &Message, group: &Group, attempt: u32) -> Result<Prepared<S>, Refusal> {
        let message_type = type_of(message, &self.type_from);
        match message_type.as_deref().and_then(|message_type| self.target(message_type)) {
            Some(Target::Handler(handler)) => handler.prepare(message, group, attempt),
            Some(Target::Ignore) => Ok(Prepared::Ignore),
            None => match self.unknown {
                Unknown::Ignore => Ok(Prepared::Ignore),
                unknown => Err(Refusal::UnknownType { message_type, halt: unknown == Unknown::Halt }),
            },
        }
    }
}

impl<S: InboxStore, App> std::fmt::Debug for Router<S, App> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut routes: Vec<String> = self.whole.keys().map(|route| route.to_string()).collect();
        routes.extend(self.prefixes.iter().map(|(prefix, _)| format!("{prefix}*")));
        routes.sort();
        f.debug_struct("Router")
            .field("routes", &routes)
            .field("unknown", &self.unknown)
            .finish_non_exhaustive()
    }
}
