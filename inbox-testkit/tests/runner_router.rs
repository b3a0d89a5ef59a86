//! The router: which handler gets a message, and what becomes of those that have none.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;

type Routes = Router<HookedStore>;

/// A handler that leaves its message in a table of its own.
fn into(table: &'static str) -> impl Fn(Message, Tx<HookedStore>) -> futures::Boxed + Send + Sync + 'static {
    move |message, mut tx| Box::pin(async move { Ok(tx.append(table, &message)?) })
}

fn routed(rig: &Rig, router: Routes) -> Builder {
    Runner::builder("billing").broker(rig.queue.connect()).store(rig.store()).router(router)
}

/// Publishes messages `m0`, `m1`, … of these types.
fn of_types(types: &[&str]) -> Rig {
    let rig = Rig::new(FakeOptions::queue().redeliver_after(None));
    for (n, message_type) in types.iter().enumerate() {
        rig.queue.publish(Publish::new(format!("m{n}")).message_type(*message_type));
    }
    rig
}

fn rows(rig: &Rig, table: &str) -> Vec<String> {
    rig.database.rows(table).into_iter().map(|row| row.id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_whole_type_comes_before_the_longest_prefix() {
    let rig = of_types(&["order.placed", "order.paid", "order.item.added", "order.", "stock.low", "order"]);
    let router = Routes::new()
        .on("*", into("all"))
        .on("order.*", into("orders"))
        .on("order.item.*", into("items"))
        .on("order.placed", into("placed"));
    let summary = rig.run(routed(&rig, router)).await;
    assert_eq!(summary.applied, 6);
    assert_eq!(rows(&rig, "placed"), ["m0"]);
    assert_eq!(rows(&rig, "orders"), ["m1", "m3"]);
    assert_eq!(rows(&rig, "items"), ["m2"]);
    assert_eq!(rows(&rig, "all"), ["m4", "m5"]);
}

#[tokio::test(start_paused = true)]
async fn a_route_that_is_named_twice_is_the_later_one() {
    let rig = of_types(&["order.placed", "stock.low"]);
    let router = Routes::new()
        .on("order.placed", into("first"))
        .on("stock.*", into("first"))
        .on("order.placed", into("second"))
        .on("stock.*", into("second"));
    rig.run(routed(&rig, router)).await;
    assert_eq!((rows(&rig, "first").len(), rows(&rig, "second").len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn an_ignored_type_leaves_no_row_and_is_waived() {
    let rig = of_types(&["audit.read", "order.placed", "audit.read"]);
    let history = History::new(rig.database.witness(&group()));
    let router = Routes::new().on("order.placed", into("orders")).ignore("audit.*");
    let broker = RecordingBroker::fake(rig.queue.connect(), &history);
    let runner = Runner::builder("billing").broker(broker).store(rig.store()).router(router).build().unwrap();
    let summary = ends(runner.run()).await.unwrap();
    assert_eq!((summary.ignored, summary.applied, summary.commits), (2, 1, 1));
    assert_eq!(rig.database.claims(&group()).len(), 1);
    assert!(rig.queue.is_settled() && rig.letters().is_empty());
    let waived = |e: &Entry| matches!(e, Entry::Settled { id, verdict: Verdict::Waived, .. } if id != "m1");
    assert_eq!(history.entries().iter().filter(|e| waived(e)).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_prefix_with_a_handler_has_ignored_exceptions_and_the_other_way_round() {
    let rig = of_types(&["order.noise", "order.placed", "audit.read", "audit.login"]);
    let router = Routes::new()
        .on("order.*", into("handled"))
        .ignore("order.noise")
        .ignore("audit.*")
        .on("audit.login", into("handled"));
    let summary = ends(routed(&rig, router).build().unwrap().run()).await.unwrap();
    assert_eq!(rows(&rig, "handled"), ["m1", "m3"]);
    assert_eq!(summary.ignored, 2);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_type_becomes_a_letter_and_so_does_none() {
    let rig = of_types(&["order.placed", "stock.low"]);
    rig.queue.publish(Publish::new("untyped"));
    let router = Routes::new().on("order.placed", into("orders"));
    let summary = rig.run(routed(&rig, router)).await;
    assert_eq!((summary.applied, summary.dead_letters, summary.failed_attempts), (1, 2, 0));
    let letter = |id: &str, error: &str| (id.to_owned(), "unknown_type".to_owned(), error.to_owned(), 0);
    assert_eq!(
        rig.letters(),
        [letter("m1", "type \"stock.low\" has no route"), letter("untyped", "it has no type")]
    );
    assert!(rig.queue.is_settled());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_type_can_be_ignored() {
    let rig = of_types(&["order.placed", "stock.low"]);
    let router = Routes::new().on("order.placed", into("orders")).unknown(Unknown::Ignore);
    let summary = ends(routed(&rig, router).build().unwrap().run()).await.unwrap();
    assert_eq!((summary.applied, summary.ignored), (1, 1));
    assert_eq!((rig.letters().len(), rig.database.claims(&group()).len()), (0, 1));
    assert!(rig.queue.is_settled());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_type_can_end_the_run_and_stays_with_the_broker() {
    let rig = of_types(&["order.placed", "stock.low"]);
    let router = Routes::new().on("order.placed", into("orders")).unknown(Unknown::Halt);
    let error = ends(routed(&rig, router).batch_max(1).build().unwrap().run()).await.unwrap_err();
    let text = "message m1 has the type \"stock.low\", which has no route, and the policy is to halt";
    assert_eq!(error.to_string(), text);
    assert!(matches!(error, RunError::UnknownType { message_type: Some(named), .. } if named == "stock.low"));
    assert_eq!(rig.queue.unsettled(), ["m1"]);
    assert_eq!(rows(&rig, "orders"), ["m0"]);
}

#[tokio::test(start_paused = true)]
async fn the_type_is_read_where_the_router_is_told_to() {
    let json = r#"{"meta":{"type":"from.json"},"n":1}"#;
    let message = || Publish::new("m0").message_type("native").header("ce_type", "from.header").payload(json);
    let pointer = || TypeFrom::JsonPointer(JsonPointer::new("/meta/type").unwrap());
    for (type_from, table) in
        [(TypeFrom::Native, "native"), (TypeFrom::Header("ce_type".into()), "header"), (pointer(), "json")]
    {
        let rig = Rig::new(FakeOptions::queue());
        rig.queue.publish(message());
        let router = Routes::new()
            .type_from(type_from)
            .on("native", into("native"))
            .on("from.header", into("header"))
            .on("from.json", into("json"));
        rig.run(routed(&rig, router)).await;
        for other in ["native", "header", "json"] {
            assert_eq!(rows(&rig, other).len(), usize::from(other == table), "{table}: {other}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_type_that_is_not_there_or_not_text_is_none() {
    let pointer = || TypeFrom::JsonPointer(JsonPointer::new("/type").unwrap());
    for (type_from, message) in [
        (TypeFrom::Header("type".into()), Publish::new("m0")),
        (TypeFrom::Header("type".into()), Publish::new("m0").header("type", [0xff, 0xfe])),
        (TypeFrom::Header("type".into()), Publish::new("m0").header_without_value("type")),
        (pointer(), Publish::new("m0").payload(r#"{"type":7}"#)),
        (pointer(), Publish::new("m0").payload("no json")),
        (pointer(), Publish::new("m0").tombstone()),
    ] {
        let rig = Rig::new(FakeOptions::queue());
        rig.queue.publish(message);
        let router = Routes::new().type_from(type_from).on("order.placed", into("orders"));
        rig.run(routed(&rig, router)).await;
        assert_eq!(rig.letters()[0].2, "it has no type");
    }
}

/// The application's state, and a part of it.
#[derive(Debug, Clone)]
struct App {
    table: &'static str,
    currency: Currency,
}

#[derive(Debug, Clone)]
struct Currency(&'static str);

impl FromRef<App> for Currency {
    fn from_ref(app: &App) -> Self {
        app.currency.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_get_the_state_of_the_router_and_parts_of_it() {
    async fn whole(
        State(app): State<App>,
        message: Message,
        mut tx: Tx<HookedStore>,
    ) -> Result<(), MemoryError> {
        tx.append(app.table, &message)
    }
    async fn part(
        State(currency): State<Currency>,
        message: Message,
        mut tx: Tx<HookedStore>,
    ) -> Result<(), MemoryError> {
        tx.append(currency.0, &message)
    }
    let rig = of_types(&["whole", "part"]);
    let app = App { table: "orders", currency: Currency("eur") };
    let router = Router::new().with_state(app).on("whole", whole).on("part", part);
    let builder = Runner::builder("billing").broker(rig.queue.connect()).store(rig.store()).router(router);
    rig.run(builder).await;
    assert_eq!((rows(&rig, "orders"), rows(&rig, "eur")), (vec!["m0".to_owned()], vec!["m1".to_owned()]));
}
