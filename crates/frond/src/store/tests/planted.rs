//! The planted bugs of this module that its own tests claim, each caught by its test. Those that
//! need crashes of the whole engine are in `crates/frond/tests/planted.rs`.

use super::{basics, damage, directory, dropped_trees, fallback, faults};
use crate::plant;

#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "store: the root directory is written unread" =>
            basics::an_unreadable_root_directory_is_never_published,
        "store: a zone is encoded under another number" =>
            basics::every_published_page_is_accepted_by_its_reader,
        "store: a space map's directory is encoded as a zone" =>
            basics::every_published_page_is_accepted_by_its_reader,
        "store: a slot is encoded in a format to come" =>
            basics::every_published_page_is_accepted_by_its_reader,
        "store: slot of higher sequence ignored" => basics::published_pages_survive_reopening,
        "store: a slot that was passed over stays" =>
            fallback::a_slot_skipped_by_recovery_is_never_chosen_again,
        "store: a sequence is issued twice" =>
            fallback::numbers_of_a_slot_that_cannot_be_read_are_not_issued_again,
        "store: an unreadable slot counts for nothing" =>
            fallback::numbers_of_a_slot_that_cannot_be_read_are_not_issued_again,
        "store: reuse extents one checkpoint early" =>
            basics::a_page_dead_at_v_is_free_only_after_the_next_checkpoint,
        "store: a part of a page is backed" =>
            faults::free_space_is_taken_for_punching_in_whole_pages,
        "store: a freed extent is kept" => faults::released_space_shrinks_the_file,
        "store: identity not mixed in" =>
            damage::stale_misplaced_and_corrupt_pages_are_distinguished,
        "store: a dropped tree keeps its pages" =>
            dropped_trees::a_dropped_tree_is_freed_in_steps_that_continue_after_reopening,
        "store: checksum not verified" =>
            damage::stale_misplaced_and_corrupt_pages_are_distinguished,
        "store: a failed write does not close the file" =>
            faults::a_failed_write_stops_all_writes_and_the_last_version_opens,
        "store: a failed write stops only the file" => faults::a_failed_write_is_reported_at_once,
        "store: the lock file is not locked" => basics::a_second_opener_learns_which_process_owns_the_store,
        "store: replaced pages of the directory never die" =>
            directory::named_snapshots_show_their_trees_until_they_are_dropped,
        "store: a named pin keeps nothing" =>
            directory::named_snapshots_show_their_trees_until_they_are_dropped,
        "store: commits are admitted on a full disk" =>
            faults::checkpoints_use_the_reserve_on_a_full_disk,
    };
    plant::assert_claims_hold("store", claims);
}
