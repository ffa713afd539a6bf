//! The planted bugs of this module, each caught by the test that claims it.
//!
//! Run: `cargo test -p frond-db --features planted-bugs --lib planted`. One is missing here:
//! "sample the covered position after the sync" needs a writer concurrent with the syncer, which
//! only the model checker schedules (`interleavings.rs`).

use super::{crash, damage, full, guarantee, idle, open};
use crate::plant;

#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "wal: acknowledge before the sync" => super::each_durability_level_waits_for_its_guarantee,
        "wal: skip the sync" => crash::a_power_failure_leaves_a_prefix_with_all_synced_records,
        "wal: no directory sync for a new segment" =>
            crash::a_power_failure_leaves_a_prefix_with_all_synced_records,
        "wal: an open group grows beyond its page" =>
            open::acknowledged_commits_survive_a_kill_at_any_page,
        "wal: no salt" => damage::row_content_cannot_imitate_a_group,
        "wal: chain not checked" =>
            damage::a_group_that_does_not_fit_its_predecessor_is_not_replayed,
        "wal: stop silently at damage" => damage::no_damaged_sector_shortens_a_synced_log,
        "wal: read error is the end of the log" =>
            damage::an_unreadable_block_is_an_error_and_never_the_end,
        "wal: append after the torn tail" =>
            crash::a_recovered_log_survives_further_writes_and_crashes,
        "wal: retry a failed sync" =>
            crash::a_failed_operation_stops_acknowledgements_and_loses_no_acknowledged_commit,
        "wal: a failed write does not poison" =>
            crash::a_failed_operation_stops_acknowledgements_and_loses_no_acknowledged_commit,
        "wal: trim one segment early" =>
            super::trimming_recycles_segments_and_recovery_starts_after_them,
        "wal: trim before the next segment is synced" =>
            crash::a_segment_is_kept_until_its_successor_is_synced,
        "wal: spares given back leave a gap" =>
            idle::an_idle_log_shrinks_to_a_short_segment_and_a_busy_one_keeps_all,
        "wal: guaranteed space is given away" => guarantee::other_records_leave_a_buffer,
        "wal: bytes after the cut stay" => full::groups_after_the_truncation_point_do_not_reappear,
        "wal: a recovery needs a new segment" => full::recovery_needs_no_free_disk_space,
        "wal: deletes have no reserve" => full::deletes_have_log_space_on_a_full_disk,
        "wal: rows take the reserve" => full::deletes_have_log_space_on_a_full_disk,
        "wal: a record exists without its last fragment" =>
            super::a_large_record_exists_only_with_its_last_fragment,
    };
    plant::assert_claims_hold("wal", claims);
}
