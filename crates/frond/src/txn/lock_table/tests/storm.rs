//! Many threads, few rows, all at random: at the end the table is empty, and no count was lost. The
//! locks of prepared transactions are released by another thread, which requests none.

use std::{ops::Bound, sync::mpsc};

use super::*;
use crate::{io::RealClock, sync::Ordering};

const THREADS: u64 = 12;
const ROWS: u64 = 6;

fn next(toss: &mut u64, below: u64) -> u64 {
    *toss ^= *toss << 13;
    *toss ^= *toss >> 7;
    *toss ^= *toss << 17;
    (*toss >> 11) % below
}

/// Runs one transaction; what it wrote is counted in `rows` while it holds the rows, unless it was
/// refused.
fn transact(
    table: &LockTable,
    locks: &mut LockSet,
    toss: &mut u64,
    rows: &[AtomicU32],
) -> Result<u64, LockError> {
    let mut writes = 0;
    let wait_policy = |toss: &mut u64| match next(toss, 4) {
        0 => WaitPolicy::NoWait,
        1 => WaitPolicy::For(Duration::from_micros(next(toss, 300))),
        _ => WaitPolicy::Forever,
    };
    let intent =
        if next(toss, 40) == 0 { TableMode::Exclusive } else { TableMode::IntentExclusive };
    locks.begin_call();
    table.lock_table(locks, TREE, intent, wait_policy(toss))?;
    for _ in 0..1 + next(toss, 5) {
        locks.begin_call();
        let row = next(toss, ROWS);
        let key = [row as u8];
        match next(toss, 8) {
            0 => drop(table.lock_range(locks, TREE, (Bound::Included(&key), Bound::Unbounded))),
            1 | 2 => {
                let mark = locks.mark();
                table.lock_row(locks, TREE, &key, RowMode::Write, wait_policy(toss))?;
                table.before_insert(locks, TREE, &key, mark, wait_policy(toss))?;
            }
            3 => {
                table.lock_row(locks, TREE, &key, RowMode::Shared, wait_policy(toss))?;
                if next(toss, 2) == 0 {
                    table.unlock_last(locks);
                }
            }
            _ => {
                table.lock_row(locks, TREE, &key, RowMode::Write, wait_policy(toss))?;
                // A read and a write that are atomic only because of the lock.
                let before = rows[row as usize].load(Ordering::Relaxed);
                if next(toss, 4) == 0 {
                    thread::yield_now();
                }
                rows[row as usize].store(before + 1, Ordering::Relaxed);
                writes += 1;
                locks.owner().set_writes(writes);
            }
        }
    }
    Ok(writes)
}

#[test]
fn a_storm_of_locks_ends_with_an_empty_table() {
    let effort: u64 =
        std::env::var("FROND_EFFORT").ok().and_then(|effort| effort.parse().ok()).unwrap_or(1);
    let table = Arc::new(LockTable::new(Arc::new(RealClock::new())));
    let rows: Arc<Vec<AtomicU32>> = Arc::new((0..ROWS).map(|_| AtomicU32::new(0)).collect());
    let owners: Arc<Mutex<Vec<Arc<Owner>>>> = Arc::default();
    let (detached, to_decide) = mpsc::channel::<LockSet>();
    let decides = thread::spawn({
        let table = table.clone();
        move || {
            let mut decided = 0u64;
            for mut locks in to_decide {
                thread::yield_now();
                table.release_all(&mut locks);
                assert!(locks.is_empty());
                decided += 1;
            }
            decided
        }
    });
    let threads: Vec<_> = (1..=THREADS)
        .map(|id| {
            let (table, rows, owners) = (table.clone(), rows.clone(), owners.clone());
            let detached = detached.clone();
            thread::spawn(move || {
                let mut toss = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mut locks = table.begin(id);
                owners.lock().unwrap().push(locks.owner().clone());
                let mut written = 0;
                for round in 0..1500 * effort {
                    let before = locks.owner().writes();
                    assert_eq!(before, 0);
                    let went = transact(&table, &mut locks, &mut toss, &rows);
                    match &went {
                        Ok(writes) => written += writes,
                        // What it wrote stays; only the counts must be right.
                        Err(_) => written += locks.owner().writes(),
                    }
                    let next_id = id + (round + 1) * THREADS;
                    if went.is_ok() && next(&mut toss, 10) == 0 {
                        table.release_at_prepare(&mut locks, |_, _| true);
                        detached.send(locks).unwrap();
                        locks = table.begin(next_id);
                        owners.lock().unwrap().push(locks.owner().clone());
                    } else {
                        table.release_all(&mut locks);
                        assert!(locks.is_empty());
                        locks.renew(next_id, 0);
                    }
                    if next(&mut toss, 50) == 0 {
                        let owners = owners.lock().unwrap();
                        let victim = &owners[next(&mut toss, owners.len() as u64) as usize];
                        victim.interrupt(victim.id());
                    }
                }
                written
            })
        })
        .collect();
    drop(detached);
    let written: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    let counted: u32 = rows.iter().map(|row| row.load(Ordering::Relaxed)).sum();
    assert_eq!(written, u64::from(counted), "an update was lost");
    let decided = decides.join().unwrap();
    println!("{decided} prepared, {:?}", table.stats());
    assert!(decided > 0);
    assert!(table.stats().deadlocks > 0 && table.stats().timeouts > 0);
    owners.lock().unwrap().clear();
    assert_empty(&table);
}
