//! The planted bugs of this module that its own tests claim, each caught by its test. Those that
//! need crashes of the whole engine are in `crates/frond/tests/planted.rs`.

use super::{basics, damage, directory, ending, fallback, faults};
use crate::plant;

#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "store: the root directory is written unread" => basics::a_root_directory_that_could_not_be_read_is_not_published,
        "store: a zone is encoded under another number" => basics::what_a_publish_writes_could_be_read,
        "store: a space map's directory is encoded as a zone" => basics::what_a_publish_writes_could_be_read,
        "store: a slot is encoded in a format to come" => basics::what_a_publish_writes_could_be_read,
        "store: slot of higher sequence ignored" => basics::what_was_published_is_there_after_reopening,
        "store: a slot that was passed over stays" => fallback::a_slot_that_was_passed_over_never_wins_again,
        "store: a sequence is issued twice" => fallback::numbers_of_a_slot_that_cannot_be_read_are_not_issued_again,
        "store: an unreadable slot counts for nothing" => fallback::numbers_of_a_slot_that_cannot_be_read_are_not_issued_again,
        "store: reuse extents one checkpoint early" => basics::a_page_dead_at_v_is_free_only_after_the_next_checkpoint,
        "store: a part of a page is backed" => faults::free_space_is_held_by_whole_pages,
        "store: a freed extent is kept" => faults::given_back_space_shrinks_the_file,
        "store: identity not mixed in" => damage::stale_misplaced_and_rotten_pages_are_told,
        "store: a dropped tree keeps its pages" => ending::a_dropped_tree_ends_in_pieces_and_goes_on_after_reopening,
        "store: checksum not verified" => damage::stale_misplaced_and_rotten_pages_are_told,
        "store: a failed write does not close the file" => faults::after_the_nth_failed_write_nothing_more_is_written_and_the_last_version_opens,
        "store: the lock file is not locked" => basics::a_second_owner_is_told_who_the_first_is,
        "store: replaced pages of the directory never die" => directory::named_snapshots_show_their_trees_until_they_are_dropped,
        "store: a named pin keeps nothing" => directory::named_snapshots_show_their_trees_until_they_are_dropped,
        "store: commits are admitted on a full disk" => faults::the_reserve_carries_checkpoints_on_a_full_disk,
    };
    plant::assert_claims_hold("store", claims);
}
