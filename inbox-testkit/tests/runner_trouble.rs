//! Claims held by others, stores out of reach, lost replies, broken brokers.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::time::Duration;

/// Opens a transaction beside the run that holds the claim of a message.
async fn rival(rig: &Rig, id: &str) -> MemoryTx {
    let store = rig.database.store();
    let mut tx = store.begin(&TxLimits::default()).await.unwrap();
    let key = ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() };
    let request = ClaimRequest { key, fingerprint: Fingerprint::of_payload(Some(id.as_bytes())) };
    assert_eq!(store.claim(&mut tx, &group(), &[request]).await.unwrap(), [Claim::Fresh]);
    tx
}

#[tokio::test(start_paused = true)]
async fn a_busy_message_waits_for_the_decision_and_nobody_is_charged() {
    for commits in [true, false] {
        let rig = Rig::with(&["a1", "a2", "b1"]);
        let tx = rival(&rig, "a1").await;
        let (_stop, run, counters) = start(rig.builder(|_, _| Act::Apply));
        pass(HOUR).await;
        assert_eq!(rig.applied(), ["b1"], "its key waits, another flows");
        assert_eq!(rig.queue.unsettled(), ["a1", "a2"]);
        // It is looked at again, but not as fast as that goes.
        assert!((100..4000).contains(&counters.read().busy), "{:?}", counters.read());
        assert!(rig.attempts("a1").is_empty());
        if commits {
            tx.commit().unwrap();
        } else {
            drop(tx);
        }
        let summary = balanced(ends(run).await.unwrap().unwrap());
        assert_eq!(summary.failed_attempts, 0);
        assert_eq!(summary.duplicates, u64::from(commits));
        assert_eq!(rig.attempts("a1"), if commits { vec![] } else { vec![1] });
        let expected: &[&str] = if commits { &["a2"] } else { &["a1", "a2"] };
        assert_eq!(rig.applied_of("a"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_pauses_and_charges_nobody() {
    let rig = Rig::with(&["a1", "b1"]);
    rig.database.set_available(false);
    let (_stop, run, counters) = start(rig.builder(|_, _| Act::Apply));
    pass(Duration::from_secs(1)).await;
    // Nothing more is taken in.
    rig.publish("c1");
    pass(HOUR).await;
    let count = counters.read();
    assert_eq!((count.received, count.failed_attempts, count.applied), (2, 0, 0));
    assert!((10..500).contains(&count.outages), "{count:?}");
    rig.database.set_available(true);
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.applied, summary.failed_attempts), (3, 0));
    assert_eq!(rig.attempts("a1"), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_cut_under_a_handler_is_an_outage() {
    let rig = Rig::with(&["a1", "b1"]);
    let gate = Gate::new();
    let at_gate = gate.clone();
    let script = move |id: &str, _| if id == "a1" { Act::Wait(at_gate.clone()) } else { Act::Apply };
    let (_stop, run, _) = start(rig.builder(script));
    gate.reached().await;
    rig.database.cut_connections();
    gate.open();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.applied, summary.failed_attempts, summary.outages), (2, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_doubt_is_asked_about_until_it_is_answered() {
    let rig = Rig::with(&["a1", "a2", "b1"]);
    rig.hooks.set().doubts = 1;
    rig.hooks.set().resolve_failures = 5;
    let summary = rig.run(rig.builder(|_, _| Act::Apply)).await;
    assert_eq!((summary.applied, summary.doubts, rig.database.counter(COUNTER)), (3, 1, 3));
    assert_eq!(rig.attempts("a1"), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_transient_broker_error_is_waited_for() {
    let rig = Rig::with(&["a1"]);
    let (_stop, run, _) =
        start(rig.builder(|_, _| Act::FailFor(HOUR)).retry(RetryPolicy::default().attempts_max(2)));
    pass(Duration::from_secs(1)).await;
    rig.queue.sever();
    rig.publish("b1");
    let summary = balanced(ends(run).await.unwrap().unwrap());
    // The old delivery of a1 is settled stale, the new one finds its letter.
    assert_eq!((summary.received, summary.stale), (3, 1));
    assert_eq!(rig.letters().len(), 2);
}

/// A broker that fails for good once its queue has nothing more to deliver.
struct Doomed(FakeBroker, FakeQueue);

#[async_trait::async_trait]
impl Broker for Doomed {
    type Receipt = FakeReceipt;
    type Ack = FakeAck;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn ack_handle(&self) -> FakeAck {
        self.0.ack_handle()
    }

    async fn next(&mut self, credit: &Credit) -> Result<Event<FakeReceipt>, BrokerError> {
        if self.1.deliveries().iter().all(|(_, count)| *count > 0) {
            return Err(BrokerError::fatal("reading from doomed: access was revoked"));
        }
        self.0.next(credit).await
    }

    async fn close(self, by: tokio::time::Instant) -> Result<(), BrokerError> {
        self.0.close(by).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_fatal_broker_error_ends_the_run_after_started_work() {
    let rig = Rig::with(&["a1", "b1"]);
    let gate = Gate::new();
    let at_gate = gate.clone();
    let runner = Runner::builder("billing")
        .broker(Doomed(rig.queue.connect(), rig.queue.clone()))
        .store(rig.store())
        .handler(rig.handler(move |_, _| Act::Wait(at_gate.clone())))
        .batch_max(1)
        .build()
        .unwrap();
    let run = tokio::spawn(runner.run());
    gate.reached().await;
    assert!(!run.is_finished());
    gate.open();
    let error = ends(run).await.unwrap().unwrap_err();
    assert!(matches!(error, RunError::Broker(_)), "{error:?}");
    assert_eq!(error.to_string(), "reading from doomed: access was revoked");
    assert_eq!((rig.applied(), rig.queue.unsettled()), (vec!["a1".to_owned()], vec!["b1".to_owned()]));
}
