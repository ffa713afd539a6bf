//! Tests of what stops a store, and of the errors after that.

use super::*;

/// Promises: P12, P16.
#[test]
fn the_first_failure_is_kept() {
    let health = Health::default();
    assert!(health.check().is_ok() && health.why().is_none());
    health.fail("first");
    health.fail("second");
    health.close();
    assert!(matches!(health.check(), Err(Error::Failed(why)) if why == "first"));
}

/// Promise: P13.
#[test]
fn a_full_disk_does_not_stop_the_store_but_any_other_error_does() {
    let health = Health::default();
    assert!(health.watch::<()>(Err(Error::Full("a disk".into()))).is_err());
    assert!(health.check().is_ok());
    let error = std::io::Error::other("gone");
    assert!(health.watch::<()>(Err(Error::io("store", "read", 0, error))).is_err());
    assert!(matches!(health.check(), Err(Error::Failed(_))));
}

#[test]
fn a_closed_store_reports_that_it_is_closed() {
    let health = Health::default();
    health.close();
    assert!(matches!(health.check(), Err(Error::Closed)));
    assert_eq!(health.why(), None);
}
