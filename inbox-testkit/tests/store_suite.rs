//! The reference store and the wrappers around it pass the store suite.

use crate::harness::store::OverMemory;
use inbox_testkit::{CrashPlan, CrashStore, attempt_log_suite, store_suite};

mod memory_store {
    use super::*;
    store_suite!(paused, OverMemory::new(|store| store));
    attempt_log_suite!(paused, OverMemory::new(|store| store));
}

mod memory_store_in_real_time {
    use super::*;
    store_suite!(OverMemory::new(|store| store));
}

mod crash_store {
    use super::*;
    store_suite!(paused, OverMemory::new(|store| CrashStore::new(store, &CrashPlan::dry())));
    attempt_log_suite!(paused, OverMemory::new(|store| CrashStore::new(store, &CrashPlan::dry())));
}
