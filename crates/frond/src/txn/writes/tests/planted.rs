//! Each planted bug of the module, with the test that claims to catch it.

use super::{cursor, live_writes, *};

#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "txn: a rollback keeps the index" => a_rollback_restores_reads_counts_maximum_and_blobs,
        "txn: a rollback keeps the count of rows" =>
            a_rollback_restores_reads_counts_maximum_and_blobs,
        "txn: a rollback keeps the view" => cursor::a_view_is_rolled_back_with_its_writes,
        "txn: a view is made and not fed" => cursor::a_view_includes_writes_after_the_first_scan,
        "txn: a scan sees past its mark" =>
            cursor::a_scan_sees_writes_before_its_mark_and_later_deletes,
        "txn: a scan hands out what its statement deleted" =>
            cursor::a_scan_sees_writes_before_its_mark_and_later_deletes,
        "txn: a range delete hides what came after it" =>
            a_range_delete_hides_earlier_writes_but_not_later_ones,
        "txn: every insert is fresh" =>
            an_insert_is_fresh_unless_the_transaction_deleted_the_key_before,
        "txn: nothing is pending in a set on its way" =>
            live_writes::keys_are_pending_from_their_write_until_the_commit_ends,
        "txn: some writers are not asked" =>
            live_writes::writers_are_listed_from_their_first_write_to_their_end,
    };
    crate::plant::assert_claims_hold("txn writes", claims);
}

/// Random histories catch the planted bugs of write sets, too.
#[test]
fn planted_bugs_are_caught_by_random_histories_too() {
    std::panic::set_hook(Box::new(|_| {}));
    let bugs = crate::plant::BUGS.iter().filter(|bug| bug.caught_by == "txn writes");
    // These need other threads, of which there are none here.
    let alone =
        bugs.filter(|bug| !bug.name.contains("on its way") && !bug.name.contains("writers"));
    for bug in alone {
        crate::plant::arm(Some(bug.name));
        let test = model::random_histories_read_scan_roll_back_and_seal_as_the_map_does;
        let caught = std::panic::catch_unwind(test).is_err();
        crate::plant::arm(None);
        assert!(caught, "{}", bug.name);
    }
}
