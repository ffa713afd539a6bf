//! Debug checks that a cursor returns rows in key order.
//!
//! Every public cursor has a [`KeyOrder`] and reports each row to it when it returns the row:
//! cursors of trees and snapshots (`db/read/cursor/mod.rs`), of transactions, locking or not
//! (`db/session/cursor/mod.rs`), and scans of indexes (`table/scan.rs`). The C API uses these. A
//! row out of order panics in builds with debug assertions, so every test that scans anything
//! checks order, whatever else it is about.
//!
//! Invariant: in builds without debug assertions the type has no size and its methods do nothing.
//!
//! Threads: one. Cost: with debug assertions a comparison and a copy of the key for each row.

/// The key that a cursor has returned last.
#[derive(Debug, Default)]
pub(crate) struct KeyOrder {
    #[cfg(debug_assertions)]
    last: Option<Vec<u8>>,
}

/// When a cursor may return the same key twice in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repeats {
    Never,
    Always,
}

impl KeyOrder {
    /// Forgets the last key: the cursor was repositioned, or has reached its end.
    #[inline(always)]
    pub fn forget(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.last = None;
        }
    }

    /// Reports a key that is returned.
    ///
    /// # Panics
    /// With debug assertions, if the key does not follow the last one in this direction.
    #[inline(always)]
    pub fn hands_out(&mut self, forward: bool, key: &[u8], repeats: Repeats) {
        #[cfg(debug_assertions)]
        self.must_follow(forward, key, repeats);
        #[cfg(not(debug_assertions))]
        let _ = (forward, key, repeats);
    }

    #[cfg(debug_assertions)]
    fn must_follow(&mut self, forward: bool, key: &[u8], repeats: Repeats) {
        use std::cmp::Ordering;

        let Some(last) = &mut self.last else {
            self.last = Some(key.to_vec());
            return;
        };
        let follows = match (key.cmp(last), repeats) {
            (Ordering::Equal, Repeats::Never) => false,
            (Ordering::Equal, Repeats::Always) => true,
            (order, _) => forward == (order == Ordering::Greater),
        };
        assert!(
            follows,
            "a cursor that goes {} hands out key {:?} after {:?}",
            if forward { "up" } else { "down" },
            key.escape_ascii().to_string(),
            last.escape_ascii().to_string(),
        );
        last.clear();
        last.extend_from_slice(key);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn is_refused(steps: &[(bool, &str)], repeats: Repeats) -> bool {
        let mut order = KeyOrder::default();
        let (last, before) = steps.split_last().unwrap();
        before.iter().for_each(|(forward, key)| order.hands_out(*forward, key.as_bytes(), repeats));
        catch_unwind(move || order.hands_out(last.0, last.1.as_bytes(), repeats)).is_err()
    }

    #[test]
    fn rows_out_of_order_panic_in_debug_builds() {
        let checks = cfg!(debug_assertions);
        for (forward, low, high) in [(true, "a", "b"), (false, "b", "a")] {
            for repeats in [Repeats::Never, Repeats::Always] {
                assert!(!is_refused(&[(forward, low), (forward, high)], repeats));
                assert_eq!(is_refused(&[(forward, high), (forward, low)], repeats), checks);
                let again = is_refused(&[(forward, low), (forward, low)], repeats);
                assert_eq!(again, checks && repeats != Repeats::Always);
                let turned = is_refused(&[(!forward, low), (forward, low)], repeats);
                assert_eq!(turned, checks && repeats == Repeats::Never);
            }
        }
    }

    #[test]
    fn a_repositioned_cursor_may_return_any_key() {
        let mut order = KeyOrder::default();
        order.hands_out(true, b"b", Repeats::Never);
        order.forget();
        order.hands_out(true, b"a", Repeats::Never);
        assert_eq!(size_of::<KeyOrder>() == 0, !cfg!(debug_assertions));
    }
}
