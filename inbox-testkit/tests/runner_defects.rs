//! Records that cannot be handled: one letter each, found again when they come again.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;

/// Publishes one record, lets its first settlement get lost, and gives reason and error of its letter.
async fn letter_of(options: FakeOptions, record: Publish, id_from: IdFrom) -> (String, String) {
    let rig = Rig::new(options);
    rig.queue.publish(record);
    rig.queue.lose_settlements(1, LostAnswer::Well);
    let summary = rig.run(rig.builder(|_, _| Act::Apply).id_from(id_from)).await;
    assert_eq!((summary.received, summary.dead_letters, summary.failed_attempts), (2, 2, 0), "{summary:?}");
    assert!(rig.applied().is_empty());
    let letters = rig.letters();
    assert_eq!(letters.len(), 1, "{letters:?}");
    let (_, reason, error, attempts) = letters[0].clone();
    assert_eq!(attempts, 0);
    (reason, error)
}

#[tokio::test(start_paused = true)]
async fn each_defect_has_one_letter_with_its_reason() {
    let native = || IdFrom::Native;
    let pointer = || IdFrom::JsonPointer(JsonPointer::new("/id").unwrap());
    let header = || IdFrom::Header("id".into());
    let json = |text: &str| Publish::anonymous().payload(text);
    let long = "the broker's message id: it is 300 bytes long; the limit is 255";
    for (record, id_from, reason, error) in [
        (Publish::anonymous(), native(), "unidentified", "no message id: the broker's message id is missing"),
        (Publish::new(""), native(), "unidentified", "no message id: the broker's message id is missing"),
        (Publish::new("x".repeat(300)), native(), "unidentified", long),
        (Publish::new("a\0b"), native(), "unidentified", "it contains a NUL character"),
        (
            Publish::new("m").oversize(9000),
            native(),
            "oversize",
            "too large: 9000 bytes; the first 1 are kept",
        ),
        (json("{\"id\":"), pointer(), "undecodable", "undecodable: EOF while parsing"),
        (json("\u{feff}{}"), pointer(), "undecodable", "undecodable: expected value"),
        (json("{\"id\":\"\\ud800\"}"), pointer(), "undecodable", "undecodable: "),
        (json("{}"), pointer(), "unidentified", "no message id: /id is missing"),
        (json("{\"id\":null}"), pointer(), "unidentified", "no message id: /id is missing"),
        (
            json("{\"id\":[1]}"),
            pointer(),
            "unidentified",
            "bad message id: /id is neither a string nor a number",
        ),
        (Publish::anonymous(), pointer(), "unidentified", "no message id: /id is missing"),
        (Publish::new("m"), header(), "unidentified", "no message id: header id is missing"),
        (Publish::new("m").header("id", [0xff]), header(), "unidentified", "header id is neither a string"),
    ] {
        for options in [FakeOptions::queue(), FakeOptions::log()] {
            let found = letter_of(options, record.clone().key("k"), id_from.clone()).await;
            assert_eq!(found.0, reason, "{found:?}");
            assert!(found.1.contains(error), "{found:?} has no {error:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_the_handler_cannot_take_is_a_letter_too() {
    let rig = Rig::with(&["a1", "b1"]);
    rig.queue.publish(Publish::new("c1").payload("17"));
    let handler = |Json(_): Json<u64>, message: Message, mut tx: Tx<HookedStore>| async move {
        apply_effect(&mut tx, &message)
    };
    let builder = Runner::builder("billing").broker(rig.queue.connect()).store(rig.store()).handler(handler);
    let summary = rig.run(builder).await;
    assert_eq!((summary.applied, summary.dead_letters), (1, 2));
    assert!(rig.letters().iter().all(|letter| letter.1 == "undecodable" && letter.3 == 0));
}

#[tokio::test(start_paused = true)]
async fn without_letters_the_run_halts() {
    for (record, text) in [
        (Publish::anonymous().payload("x"), "no message id"),
        (Publish::new("good").payload("other"), "a conflict"),
    ] {
        let rig = Rig::with(&["good"]);
        rig.queue.publish(record);
        let builder =
            Runner::builder("billing").broker(rig.queue.connect()).store_without_letters(rig.store());
        let builder = builder.handler(rig.handler(|_, _| Act::Apply)).batch_max(1);
        let error = ends(builder.build().unwrap().run()).await.unwrap_err();
        assert!(matches!(error, RunError::NoLetters { .. }), "{error:?}");
        let told = error.to_string();
        assert!(
            told.contains(text) && told.ends_with("the store keeps no letters; use one that does"),
            "{told}"
        );
        assert_eq!(rig.applied(), ["good"]);
        assert_eq!(rig.queue.unsettled().len(), 1, "it is not acknowledged");
    }
}

#[tokio::test(start_paused = true)]
async fn without_letters_used_up_attempts_halt() {
    let rig = Rig::with(&["a1"]);
    let builder = Runner::builder("billing").broker(rig.queue.connect()).store_without_letters(rig.store());
    let builder = builder.handler(rig.handler(|_, _| Act::Fail));
    let error = ends(builder.build().unwrap().run()).await.unwrap_err();
    assert!(matches!(error, RunError::Halted { attempts: 5, .. }), "{error:?}");
    assert_eq!(rig.queue.unsettled(), ["a1"]);
}
