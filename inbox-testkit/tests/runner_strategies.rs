//! When each strategy acknowledges, and what it does with a handler that fails.

use crate::rig::{Gate, Run, ends, group};
use inbox_core::*;
use inbox_testkit::*;

/// Messages in a queue, and a handler that stands before a gate, and fails at messages that begin with `bad`.
struct Shop {
    queue: FakeQueue,
    database: MemoryDatabase,
    gate: Gate,
}

impl Shop {
    fn with(ids: &[&str]) -> Self {
        let queue = FakeQueue::new(FakeOptions::queue().redeliver_after(None));
        let shop = Self { queue, database: MemoryDatabase::new(), gate: Gate::new() };
        shop.publish(ids);
        shop
    }

    fn publish(&self, ids: &[&str]) {
        ids.iter().for_each(|id| self.queue.publish(Publish::new(*id)));
    }

    fn start<B: Broker + Sync>(&self, broker: B, strategy: Strategy) -> Run {
        let gate = self.gate.clone();
        let handler = move |message: Message, mut tx: Tx<MemoryStore>| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                apply_effect(&mut tx, &message)?;
                let fails = message.id().starts_with("bad");
                if fails { Err(Failure::message("told to fail")) } else { Ok(()) }
            }
        };
        let parts = Runner::builder("billing").broker(broker).store(self.database.store()).stored_messages();
        let runner = parts.strategy(strategy).handler(handler).batch_max(1).seed(7).build().unwrap();
        tokio::spawn(runner.run())
    }

    fn run(&self, strategy: Strategy) -> Run {
        self.start(self.queue.connect(), strategy)
    }

    async fn end(&self, run: Run) -> Summary {
        self.gate.open();
        ends(run).await.unwrap().unwrap()
    }

    fn effects(&self) -> Vec<String> {
        self.database.rows(EFFECTS).into_iter().map(|row| row.id).collect()
    }

    fn kept(&self) -> Vec<(String, u32, Option<String>)> {
        let kept = self.database.stored(&group()).into_iter();
        kept.map(|kept| (kept.message.id().to_owned(), kept.attempts, kept.error)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn exactly_once_acknowledges_after_the_handler() {
    let shop = Shop::with(&["a"]);
    let run = shop.run(Strategy::ExactlyOnce);
    shop.gate.reached().await;
    assert_eq!(shop.queue.unsettled(), ["a"]);
    let summary = shop.end(run).await;
    assert_eq!((summary.applied, summary.stored, summary.deferred), (1, 0, 0));
    assert!(shop.queue.is_settled() && shop.kept().is_empty());
}

#[tokio::test(start_paused = true)]
async fn on_persist_acknowledges_before_the_handler_what_is_kept() {
    let shop = Shop::with(&["a"]);
    let run = shop.run(Strategy::OnPersist);
    shop.gate.reached().await;
    assert!(shop.queue.is_settled());
    assert_eq!(shop.kept(), [("a".to_owned(), 0, None)]);
    let summary = shop.end(run).await;
    assert_eq!((summary.received, summary.stored, summary.applied, summary.deferred), (1, 1, 1, 0));
    assert!(shop.kept().is_empty());
    assert_eq!(shop.effects(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn on_persist_what_fails_stays_and_is_handled_from_its_row() {
    let shop = Shop::with(&["bad", "c"]);
    let summary = shop.end(shop.run(Strategy::OnPersist)).await;
    assert_eq!((summary.stored, summary.applied, summary.deferred), (2, 1, 1));
    let [(id, 1, Some(error))] = &shop.kept()[..] else { panic!("{:?}", shop.kept()) };
    assert!(id == "bad" && error.contains("told to fail"), "{error}");
    assert_eq!(shop.effects(), ["c"]);
    assert_eq!(shop.queue.unsettled(), [""; 0]);
    // Its attempts are used up there, and it ends as a letter.
    let kept = StoredMessages::new(shop.database.store(), group());
    let summary = shop.end(shop.start(kept, Strategy::OnPersist)).await;
    assert_eq!((summary.applied, summary.dead_letters), (0, 1));
    assert!(shop.kept().is_empty());
    assert_eq!(shop.database.letters(&group()).len(), 1);
    assert_eq!(shop.effects(), ["c"]);
}

/// Under this strategy it comes again as what it is: kept, or applied, and the handler does not run twice.
#[tokio::test(start_paused = true)]
async fn on_persist_a_copy_is_a_duplicate() {
    let shop = Shop::with(&["bad", "c"]);
    shop.end(shop.run(Strategy::OnPersist)).await;
    shop.publish(&["bad", "c"]);
    let summary = shop.end(shop.run(Strategy::OnPersist)).await;
    assert_eq!((summary.duplicates, summary.stored, summary.applied), (2, 0, 0));
    assert_eq!(shop.kept().len(), 1);
    assert_eq!(shop.effects(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn on_success_applies_a_copy_again_and_leaves_no_row() {
    let shop = Shop::with(&["a", "a"]);
    let run = shop.run(Strategy::AtLeastOnce);
    shop.gate.reached().await;
    assert_eq!(shop.queue.unsettled().len(), 2);
    let summary = shop.end(run).await;
    assert_eq!((summary.applied, summary.duplicates), (2, 0));
    assert_eq!(shop.effects(), ["a", "a"]);
    assert!(shop.database.claims(&group()).is_empty());
}

/// Only letters have rows here: a copy is tried again, and its letter is found.
#[tokio::test(start_paused = true)]
async fn on_success_a_copy_of_a_letter_is_tried_again_and_has_no_second_letter() {
    let shop = Shop::with(&["bad"]);
    let first = shop.end(shop.run(Strategy::AtLeastOnce)).await;
    assert_eq!((first.dead_letters, first.applied), (1, 0));
    shop.publish(&["bad", "c"]);
    let second = shop.end(shop.run(Strategy::AtLeastOnce)).await;
    assert_eq!((second.dead_letters, second.applied), (1, 1));
    assert_eq!(second.failed_attempts, first.failed_attempts);
    assert_eq!(shop.database.letters(&group()).len(), 1);
    assert_eq!(shop.effects(), ["c"]);
    assert_eq!(shop.queue.unsettled(), [""; 0]);
}

/// What fails is not retried; its letter says that it is lost to the broker.
#[tokio::test(start_paused = true)]
async fn at_most_once_acknowledges_before_any_work() {
    let shop = Shop::with(&["bad", "c"]);
    let run = shop.run(Strategy::AtMostOnce);
    shop.gate.reached().await;
    assert_eq!(shop.queue.unsettled(), ["c"]);
    let summary = shop.end(run).await;
    assert_eq!((summary.applied, summary.failed_attempts, summary.dead_letters), (1, 1, 1));
    assert_eq!(shop.effects(), ["c"]);
    let rows = shop.database.claims(&group()).into_iter();
    assert_eq!(
        rows.map(|(key, _)| key.id.to_string()).collect::<Vec<_>>(),
        ["bad"],
        "a row for the letter alone"
    );
    assert!(shop.queue.is_settled());
}
