//! A consumer of a fake broker.

use super::{
    FakeQueue,
    state::{Scripted, Step},
};
use crate::lock::lock;
use async_trait::async_trait;
use inbox_core::{
    Ack, AckError, Assignment, Broker, BrokerError, Capabilities, Checkpoint, Credit, Event, Partition,
    Revocation, Settled, Settlement,
};
use std::{
    collections::HashMap,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};

/// Names one hand-over; never used twice by one [`FakeQueue`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FakeReceipt {
    pub(super) number: u64,
    pub(super) connection: u64,
}

impl fmt::Display for FakeReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} of consumer {}", self.number, self.connection)
    }
}

type Positions = HashMap<Partition, Checkpoint>;

/// A consumer. Dropping it disconnects: what it did not settle is delivered to the next one.
#[derive(Debug)]
pub struct FakeBroker {
    queue: FakeQueue,
    connection: u64,
    capabilities: Capabilities,
    /// Assignments that are not answered.
    assigning: Vec<(Vec<u32>, oneshot::Receiver<Positions>)>,
    /// Revocations that are not dropped.
    revoking: Vec<(Vec<u32>, Instant, oneshot::Receiver<()>)>,
}

impl FakeBroker {
    pub(super) fn new(queue: FakeQueue, connection: u64, capabilities: Capabilities) -> Self {
        Self { queue, connection, capabilities, assigning: Vec::new(), revoking: Vec::new() }
    }

    /// Opens what was answered and closes what was let go; gives the next time to look again.
    fn hear_replies(&mut self, now: Instant) -> Option<Instant> {
        let mut state = lock(&self.queue.0.state);
        // Who has been followed by another owner opens and closes nothing any more.
        let is_owner = state.log.owner == Some(self.connection);
        self.assigning.retain_mut(|(numbers, reply)| {
            let checkpoints = match reply.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => return true,
                Err(oneshot::error::TryRecvError::Closed) => HashMap::new(),
                Ok(checkpoints) => checkpoints,
            };
            for &number in numbers.iter().filter(|_| is_owner) {
                let checkpoint = checkpoints.get(&state.partition(number));
                state.open_partition(number, checkpoint);
            }
            false
        });
        self.revoking.retain_mut(|(numbers, by, released)| {
            let waits = matches!(released.try_recv(), Err(oneshot::error::TryRecvError::Empty)) && now < *by;
            if !waits && is_owner {
                state.let_go(numbers);
            }
            waits
        });
        state.set_revoking(self.connection, !self.revoking.is_empty());
        self.revoking.iter().map(|(_, by, _)| *by).min()
    }

    /// Waits until a consumer has answered an assignment or let a revocation go. What arrived is put
    /// back for `hear_replies`, so that cancelling this loses nothing.
    async fn replied(&mut self) {
        poll_fn(|cx| {
            for (_, reply) in &mut self.assigning {
                if let Poll::Ready(answer) = Pin::new(&mut *reply).poll(cx) {
                    let (again, put_back) = oneshot::channel();
                    *reply = put_back;
                    if let Ok(checkpoints) = answer {
                        let _heard = again.send(checkpoints);
                    }
                    return Poll::Ready(());
                }
            }
            for (_, _, released) in &mut self.revoking {
                if Pin::new(&mut *released).poll(cx).is_ready() {
                    *released = oneshot::channel().1;
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        })
        .await;
    }

    fn report(&mut self, event: Scripted, now: Instant) -> Event<FakeReceipt> {
        let names = |numbers: &[u32]| -> Vec<Partition> {
            let state = lock(&self.queue.0.state);
            numbers.iter().map(|&number| state.partition(number)).collect()
        };
        match event {
            Scripted::Assign(numbers) => {
                let (assignment, reply) = Assignment::new(names(&numbers));
                self.assigning.push((numbers, reply));
                Event::Assigned(assignment)
            }
            Scripted::Revoke(numbers, wait) => {
                let by = now + wait;
                let (revocation, released) = Revocation::new(names(&numbers), by);
                self.queue.pause(&numbers);
                lock(&self.queue.0.state).set_revoking(self.connection, true);
                self.revoking.push((numbers, by, released));
                Event::Revoked(revocation)
            }
            Scripted::Lost(numbers) => Event::Lost(names(&numbers)),
        }
    }
}

#[async_trait]
impl Broker for FakeBroker {
    type Receipt = FakeReceipt;
    type Ack = FakeAck;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn ack_handle(&self) -> FakeAck {
        FakeAck { queue: self.queue.clone() }
    }

    async fn next(&mut self, credit: &Credit) -> Result<Event<FakeReceipt>, BrokerError> {
        let shared = self.queue.clone();
        loop {
            // Registered before looking, so that no change between looking and waiting is missed.
            let changed = shared.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let now = Instant::now();
            let replies_by = self.hear_replies(now);
            // Nothing is awaited between taking deliveries and returning them: cancelling loses nothing.
            let step = lock(&shared.0.state).step(self.connection, credit, now);
            let expires = match step {
                Step::Deliver(deliveries) => return Ok(Event::Deliveries(deliveries)),
                Step::Report(event) => return Ok(self.report(event, now)),
                Step::Ended => return Ok(Event::Ended),
                Step::Severed => {
                    return Err(BrokerError::transient("reading from fake: the connection was cut"));
                }
                Step::Wait(expires) => expires,
            };
            let until = [expires, replies_by].into_iter().flatten().min();
            // Without a time to wait for, the branch is switched off and the value unused.
            let at = until.unwrap_or_else(|| now + Duration::from_secs(1));
            tokio::select! {
                () = &mut changed => {}
                () = sleep_until(at), if until.is_some() => {}
                () = self.replied() => {}
            }
        }
    }

    async fn close(self, _by: Instant) -> Result<(), BrokerError> {
        // Dropping it disconnects.
        Ok(())
    }
}

impl Drop for FakeBroker {
    fn drop(&mut self) {
        self.queue.disconnect(self.connection);
    }
}

/// Takes settlements for a [`FakeQueue`].
#[derive(Debug, Clone)]
pub struct FakeAck {
    queue: FakeQueue,
}

#[async_trait]
impl Ack for FakeAck {
    type Receipt = FakeReceipt;

    async fn settle(&self, batch: Vec<Settlement<FakeReceipt>>) -> Vec<Result<Settled, AckError>> {
        self.queue.settle(batch)
    }
}
