//! Contract of claims: fresh once, found for ever.

use super::{harness::StoreHarness, help::*};
use inbox_core::{
    Claim, ClaimRequest, Disposition, FINGERPRINT_BYTES, Fingerprint, InboxStore, Letter, LetterReason,
    Letters, Resolution,
};

/// A key is fresh in one committed transaction only.
pub async fn fresh_once<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let answers =
        [deliver(h, &store, "a").await, deliver(h, &store, "a").await, deliver(h, &store, "a").await];
    assert_eq!(answers, [Claim::Fresh, Claim::Applied, Claim::Applied]);
    assert_eq!(h.effects().await, ["a"]);
}

/// A duplicate is found by a store that was opened later.
pub async fn duplicate_found_after_reopen<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    deliver(h, &store, "a").await;
    drop(store);
    assert_eq!(deliver(h, &h.open().await, "a").await, Claim::Applied);
    assert_eq!(h.effects().await, ["a"]);
}

/// Looking at a found row changes nothing, also when the transaction is rolled back.
pub async fn found_rows_stay<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    deliver(h, &store, "a").await;
    let mut tx = begin(&store).await;
    assert_eq!(claim(&store, &mut tx, "a").await, Claim::Applied);
    store.rollback(tx).await.expect("it rolls back");
    assert_eq!(deliver(h, &store, "a").await, Claim::Applied);
}

/// Other content under a known id is a conflict, which tells the fingerprint of the row.
pub async fn conflict_tells_what_is_stored<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    deliver(h, &store, "a").await;
    let mut tx = begin(&store).await;
    let answers = store.claim(&mut tx, &group(), &[asked("a", "other"), request("b")]).await;
    assert_eq!(answers.expect("answers"), [Claim::Conflict { stored: content("content") }, Claim::Fresh]);
    commit(&store, tx).await;
    // The row is as it was.
    let row = Resolution::Committed { disposition: Disposition::Applied, fingerprint: content("content") };
    assert_eq!(resolve(&store, "a").await, row);
}

/// Fingerprints that are switched off, and those of other versions, never conflict; whichever is stored
/// reads back as it was.
pub async fn fingerprints_of_other_versions<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let version_2 = Fingerprint::from_bytes(&[2; FINGERPRINT_BYTES]).expect("a fingerprint");
    let kinds = [("off", Fingerprint::off()), ("one", content("content")), ("two", version_2)];
    let of = |fingerprint| move |(id, _): &(&str, Fingerprint)| ClaimRequest { key: key(id), fingerprint };
    let mut tx = begin(&store).await;
    let requests: Vec<ClaimRequest> = kinds
        .iter()
        .map(|(id, fingerprint)| ClaimRequest { key: key(id), fingerprint: *fingerprint })
        .collect();
    store.claim(&mut tx, &group(), &requests).await.expect("answers");
    commit(&store, tx).await;
    for (id, fingerprint) in kinds {
        let row = Resolution::Committed { disposition: Disposition::Applied, fingerprint };
        assert_eq!(resolve(&store, id).await, row);
        let mut tx = begin(&store).await;
        let requests: Vec<ClaimRequest> = kinds.iter().map(of(fingerprint)).collect();
        let answers = store.claim(&mut tx, &group(), &requests).await;
        assert_eq!(answers.expect("answers"), [Claim::Applied; 3], "asked with {fingerprint}");
        commit(&store, tx).await;
    }
}

/// The same id is fresh in every group.
pub async fn groups_are_separate<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    for round in [Claim::Fresh, Claim::Applied] {
        for name in ["billing", "shipping", "Billing", "billing ", "été"] {
            let mut tx = begin(&store).await;
            let answer = store.claim(&mut tx, &named_group(name), &[request("a")]).await;
            assert_eq!(one(answer.expect("an answer")), round, "{name:?}");
            commit(&store, tx).await;
        }
    }
    let absent = store.resolve(&named_group("nobody"), &[key("a")]).await;
    assert_eq!(absent.expect("an answer"), [Resolution::Absent]);
}

/// The same id is fresh in every scope, and scope and id are not run together.
pub async fn scopes_are_separate<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let keys =
        [scoped("", "abc"), scoped("a", "bc"), scoped("ab", "c"), scoped("x", "abc"), scoped("X", "abc")];
    let requests: Vec<ClaimRequest> =
        keys.iter().map(|key| ClaimRequest { key: key.clone(), fingerprint: content("content") }).collect();
    for round in [Claim::Fresh, Claim::Applied] {
        let mut tx = begin(&store).await;
        let answers = store.claim(&mut tx, &group(), &requests).await;
        assert_eq!(answers.expect("answers"), [round; 5]);
        commit(&store, tx).await;
    }
    let elsewhere = store.resolve(&group(), &[scoped("y", "abc")]).await;
    assert_eq!(elsewhere.expect("an answer"), [Resolution::Absent]);
}

/// Answers stand in the order of the requests, whatever order they are taken in.
pub async fn answers_in_the_order_of_requests<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    deliver(h, &store, "m").await;
    let mut tx = begin(&store).await;
    let requests = [request("z"), request("m"), request("a"), asked("m2", "x")];
    let answers = store.claim(&mut tx, &group(), &requests).await;
    assert_eq!(answers.expect("answers"), [Claim::Fresh, Claim::Applied, Claim::Fresh, Claim::Fresh]);
    commit(&store, tx).await;
    let mut tx = begin(&store).await;
    let requests = [request("y"), request("z"), asked("a", "other"), request("n"), request("m")];
    let answers = store.claim(&mut tx, &group(), &requests).await.expect("answers");
    let conflict = Claim::Conflict { stored: content("content") };
    assert_eq!(answers, [Claim::Fresh, Claim::Applied, conflict, Claim::Fresh, Claim::Applied]);
    commit(&store, tx).await;
}

/// A thousand keys in one call.
pub async fn a_thousand_keys_in_one_call<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let ids: Vec<String> = (0..1000_u32).map(|i| format!("{:04}", i * 7 % 1000)).collect();
    let requests: Vec<ClaimRequest> = ids.iter().map(|id| request(id)).collect();
    // Every third one is there already.
    let some: Vec<ClaimRequest> = requests.iter().step_by(3).cloned().collect();
    let mut tx = begin(&store).await;
    store.claim(&mut tx, &group(), &some).await.expect("answers");
    commit(&store, tx).await;
    let mut tx = begin(&store).await;
    let answers = store.claim(&mut tx, &group(), &requests).await.expect("answers");
    commit(&store, tx).await;
    let expected: Vec<Claim> =
        (0..1000).map(|i| if i % 3 == 0 { Claim::Applied } else { Claim::Fresh }).collect();
    assert_eq!(answers, expected);
    let keys: Vec<_> = requests.into_iter().map(|request| request.key).collect();
    let resolved = store.resolve(&group(), &keys).await.expect("answers");
    assert_eq!(resolved.len(), 1000);
    assert!(resolved.iter().all(|resolution| matches!(resolution, Resolution::Committed { .. })));
}

/// Ids are compared byte by byte, at every length and with every character that they may have.
pub async fn ids_are_exact<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let longest = "x".repeat(255);
    let longest_other = format!("{}y", "x".repeat(254));
    let wide = "é".repeat(127);
    let ids = [
        "a",
        "A",
        "a ",
        " a",
        "a  ",
        "a\t",
        "a\n",
        "ä",
        "a\u{308}",
        "%",
        "_",
        "a%",
        "'",
        "''",
        "\"",
        "\\",
        "\\\\",
        "\\x00",
        "a'; DROP TABLE effects; --",
        "$1",
        "?1",
        ":a",
        "{}",
        "1",
        "01",
        "1.0",
        "1e0",
        "NULL",
        "null",
        "true",
        "\u{1}",
        "\u{7f}",
        "😀",
        "ß",
        "ss",
        "\u{fffd}",
        "\u{200b}",
        "I",
        "i",
        "İ",
        "ı",
        &longest,
        &longest_other,
        &wide,
    ];
    let requests: Vec<ClaimRequest> = ids.iter().map(|id| request(id)).collect();
    for round in [Claim::Fresh, Claim::Applied] {
        let mut tx = begin(&store).await;
        let answers = store.claim(&mut tx, &group(), &requests).await.expect("answers");
        for (id, answer) in ids.iter().zip(answers) {
            assert_eq!(answer, round, "{id:?}");
        }
        commit(&store, tx).await;
    }
    // One by one it is the same.
    for id in ids {
        assert_eq!(deliver(h, &store, id).await, Claim::Applied, "{id:?}");
        assert!(matches!(resolve(&store, id).await, Resolution::Committed { .. }), "{id:?}");
    }
}

/// A buried message is found as dead, also by a store that was opened later.
pub async fn dead_is_found<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = claimed(&store, "a").await;
    let letter = Letter::new(message("a", "content"), LetterReason::Failed, "no", 1);
    store.bury(&mut tx, &group(), &[letter]).await.expect("it is buried");
    commit(&store, tx).await;
    let later = h.open().await;
    assert_eq!(deliver(h, &later, "a").await, Claim::Dead);
    assert_eq!(h.effects().await, Vec::<String>::new());
    // Other content is a conflict for it as well.
    let mut tx = begin(&later).await;
    let answer = later.claim(&mut tx, &group(), &[asked("a", "other")]).await;
    assert_eq!(one(answer.expect("an answer")), Claim::Conflict { stored: content("content") });
    drop(tx);
}
