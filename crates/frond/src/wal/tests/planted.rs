//! The planted bugs of this module, each caught by the test that claims it.
//!
//! Run: `cargo test -p frond --features planted-bugs --lib planted`. One is missing here: "sample
//! the covered position after the sync" needs a writer concurrent with the syncer, which only the
//! model checker schedules (`interleavings.rs`).

use super::{crash, damage, full, guarantee, idle, open};
use crate::plant;

#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "wal: acknowledge before the sync" => super::levels_wait_for_what_they_promise,
        "wal: skip the sync" => crash::a_power_failure_anywhere_leaves_a_prefix_with_all_that_was_synced,
        "wal: no directory sync for a new segment" => crash::a_power_failure_anywhere_leaves_a_prefix_with_all_that_was_synced,
        "wal: an open group grows beyond its page" => open::what_is_acknowledged_survives_a_kill_at_any_page,
        "wal: no salt" => damage::row_content_cannot_imitate_a_group,
        "wal: chain not checked" => damage::a_group_that_does_not_fit_its_predecessor_is_not_replayed,
        "wal: stop silently at damage" => damage::no_damaged_sector_shortens_a_synced_log,
        "wal: read error is the end of the log" => damage::an_unreadable_block_is_an_error_and_never_the_end,
        "wal: append after the torn tail" => crash::a_recovered_log_is_written_to_and_crashed_again,
        "wal: retry a failed sync" => crash::after_a_failed_operation_nothing_is_acknowledged_and_nothing_acknowledged_is_lost,
        "wal: a failed write does not poison" => crash::after_a_failed_operation_nothing_is_acknowledged_and_nothing_acknowledged_is_lost,
        "wal: trim one segment early" => super::trimming_recycles_and_recovery_starts_behind_it,
        "wal: trim before the next segment is synced" => crash::the_segment_before_one_that_is_not_synced_stays,
        "wal: spares given back leave a gap" => idle::an_idle_log_shrinks_to_a_short_segment_and_a_busy_one_keeps_all,
        "wal: guaranteed space is given away" => guarantee::others_leave_a_buffer,
        "wal: bytes after the cut stay" => full::what_lay_behind_the_cut_does_not_come_back,
        "wal: a recovery needs a new segment" => full::a_recovery_needs_no_room_on_the_disk,
        "wal: deletes have no reserve" => full::deletes_have_room_in_a_log_whose_disk_is_full,
        "wal: rows take the reserve" => full::deletes_have_room_in_a_log_whose_disk_is_full,
        "wal: a record exists without its last fragment" => super::large_records_exist_with_their_last_part,
    };
    plant::assert_claims_hold("wal", claims);
}
