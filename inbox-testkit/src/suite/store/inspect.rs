//! Contract of looking: pages, single records, counts.

use super::{harness::StoreHarness, help::*};
use inbox_core::{Conflict, GroupStats, Inspect, Letter, LetterReason, Page};

/// Five letters and five conflicts in each of two groups, in turns.
async fn fill<S: Inspect>(store: &S) {
    for number in 0..5 {
        for name in ["billing", "shipping"] {
            let group = named_group(name);
            let id = format!("{name}-{number}");
            let letter = Letter::new(message(&id, "content"), LetterReason::Failed, "no", 1);
            let conflict = Conflict::new(message(&id, "other"), content("content"));
            let mut tx = begin(store).await;
            store.claim(&mut tx, &group, &[request(&id)]).await.expect("an answer");
            store.bury(&mut tx, &group, &[letter]).await.expect("it is buried");
            store.record_conflicts(&mut tx, &group, &[conflict]).await.expect("it is recorded");
            commit(store, tx).await;
        }
    }
}

/// Pages go up by number, without gaps or repeats, and end with an empty one.
pub async fn pages_cover_everything_once<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let empty = store.letters(&Page::first(None, 10)).await.expect("letters are listed");
    assert!(empty.is_empty(), "an empty database");
    fill(&store).await;
    for (group, count) in [(None, 10), (Some(named_group("shipping")), 5)] {
        let (mut letters, mut conflicts) = (Vec::new(), Vec::new());
        let mut page = Page::first(group.clone(), 3);
        loop {
            let found = store.letters(&page).await.expect("letters are listed");
            let Some(last) = found.last() else { break };
            assert!(found.len() <= 3);
            page.after = last.letter_id;
            letters.extend(found.into_iter().map(|letter| (letter.letter_id, letter.group)));
            assert!(letters.len() <= count, "a page repeats: {letters:?}");
        }
        page.after = 0;
        loop {
            let found = store.conflicts(&page).await.expect("conflicts are listed");
            let Some(last) = found.last() else { break };
            page.after = last.conflict_id;
            conflicts.extend(found.into_iter().map(|conflict| (conflict.conflict_id, conflict.group)));
            assert!(conflicts.len() <= count, "a page repeats: {conflicts:?}");
        }
        for rows in [letters, conflicts] {
            assert_eq!(rows.len(), count);
            assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "numbers rise: {rows:?}");
            assert!(group.as_ref().is_none_or(|group| rows.iter().all(|row| row.1 == group.as_str())));
        }
    }
    let nobody = store.letters(&Page::first(Some(named_group("nobody")), 10)).await;
    assert!(nobody.expect("letters are listed").is_empty());
}

/// A letter is found by its number; another number finds none.
pub async fn letter_by_number<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    fill(&store).await;
    let letters = store.letters(&Page::first(None, 100)).await.expect("letters are listed");
    for letter in &letters {
        let found = store.letter(letter.letter_id).await.expect("a letter is read").expect("it is there");
        assert_eq!((found.letter_id, &found.claim), (letter.letter_id, &letter.claim));
    }
    let beyond = letters.last().expect("letters").letter_id + 1;
    assert!(store.letter(beyond).await.expect("an answer").is_none());
    assert!(store.letter(-1).await.expect("an answer").is_none());
}

/// Rows are counted by group and disposition, groups by name.
pub async fn rows_are_counted_by_group<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    assert_eq!(store.group_stats().await.expect("counts"), []);
    fill(&store).await;
    deliver(h, &store, "applied").await;
    let of = |name: &str, applied| {
        let mut stats = GroupStats::new(name);
        (stats.applied, stats.dead, stats.conflicts) = (applied, 5, 5);
        stats
    };
    assert_eq!(store.group_stats().await.expect("counts"), [of("billing", 1), of("shipping", 0)]);
}
