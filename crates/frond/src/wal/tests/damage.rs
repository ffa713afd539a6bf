//! Damage to a log that was synced, and hostile logs.

use super::{disk::*, *};
use crate::wal::group::{GROUP_HEADER_BYTES, GroupHeader, GroupKind, salted_crc};
use crate::wal::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, number_of};

fn env_on(disk: &Disk) -> Env {
    Env {
        vfs: Arc::new(disk.clone()),
        clock: Arc::new(ManualClock::default()),
        rng: Arc::new(SeededRng::default()),
        workers: Workers::Manual,
    }
}

/// A log of several segments whose whole content is synced, and whose idle mark says so.
fn settled(records: usize) -> (Disk, Vec<Vec<u8>>, Lsn) {
    let disk = Disk::default();
    let env = env_on(&disk);
    let log = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL).unwrap();
    let mut written = Vec::new();
    for i in 0..records {
        let reservation = append(&log, &record(i)).unwrap();
        written.push(record(i));
        if i % 4 == 0 {
            log.wait(&reservation, Durability::Sync).unwrap();
        }
    }
    log.sync_through_now().unwrap();
    let end = log.durable();
    // The first call may have to make the segment that the mark goes to.
    for _ in 0..2 {
        env.clock.sleep(Duration::from_secs(1));
        log.tick(env.clock.now()).unwrap();
    }
    (disk.settled(), written, end)
}

fn segments(disk: &Disk) -> Vec<std::path::PathBuf> {
    let is_segment = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| number_of(Path::new(name)).is_some())
    };
    disk.paths().into_iter().filter(is_segment).collect()
}

/// Asserts that recovery returns all records or an error, never silently fewer. Returns whether it
/// was all.
fn all_or_error(disk: &Disk, records: &[Vec<u8>], what: &str) -> bool {
    match read(&env_on(disk), Lsn(0), CRASHED) {
        Ok((found, _)) => {
            assert!(found == records, "{what}: {} of {} records", found.len(), records.len());
            true
        }
        Err(
            Error::WalDamaged { .. }
            | Error::WalMissing { .. }
            | Error::Checksum { .. }
            | Error::ForeignFile { .. },
        ) => false,
        Err(other) => panic!("{what}: {other}"),
    }
}

/// Promise: P9
#[test]
pub(super) fn no_damaged_sector_shortens_a_synced_log() {
    let (disk, records, _) = settled(60);
    assert!(segments(&disk).len() >= 3 && all_or_error(&disk, &records, "undamaged"));
    let (mut seen, mut harmless) = (0, 0);
    for path in segments(&disk) {
        let sectors = disk.edit(&path, |bytes| bytes.len()) / 512;
        for sector in 0..sectors {
            for pattern in [0x00u8, 0xff, 0x5a] {
                let copy = disk.settled();
                let changed = copy.edit(&path, |bytes| {
                    let sector = &mut bytes[sector * 512..(sector + 1) * 512];
                    let old = sector.to_vec();
                    sector.iter_mut().for_each(|byte| {
                        *byte = if pattern == 0x5a { *byte ^ 0x5a } else { pattern };
                    });
                    old != sector
                });
                let what = format!("{} sector {sector} {pattern:02x}", path.display());
                match all_or_error(&copy, &records, &what) {
                    true => harmless += usize::from(changed),
                    false => seen += 1,
                }
            }
        }
    }
    assert!(seen > 150 && harmless > 0, "{seen} seen, {harmless} harmless");
}

/// Promise: P9
#[test]
pub(super) fn no_flipped_bit_shortens_a_synced_log() {
    let (disk, records, end) = settled(5);
    let path = segments(&disk).remove(0);
    let bits = (SEGMENT_HEADER_BYTES + end.0 + 4096) * 8;
    let mut seen = 0;
    for bit in 0..bits as usize {
        disk.edit(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        seen += usize::from(!all_or_error(&disk, &records, &format!("bit {bit}")));
        disk.edit(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
    }
    let bytes: usize = records.iter().map(Vec::len).sum();
    assert!(seen > bytes * 8, "{seen} flips seen");
}

/// Promise: P9, P19
#[test]
pub(super) fn swapped_or_stale_blocks_and_cut_missing_or_renamed_files_are_detected() {
    let (disk, records, _) = settled(60);
    let paths = segments(&disk);
    let (mut seen, blocks) = (0, SMALL.first_segment_bytes as usize / 4096);
    for (n, path) in paths.iter().enumerate().take(3) {
        for a in 0..blocks {
            for b in 0..a {
                let copy = disk.settled();
                copy.edit(path, |bytes| {
                    let (low, high) = bytes.split_at_mut(a * 4096);
                    low[b * 4096..(b + 1) * 4096].swap_with_slice(&mut high[..4096]);
                });
                seen += usize::from(!all_or_error(&copy, &records, &format!("swap {a} {b}")));
            }
            let copy = disk.settled();
            let other = copy.edit(&paths[(n + 1) % 3], |b| b[a * 4096..(a + 1) * 4096].to_vec());
            copy.edit(path, |bytes| bytes[a * 4096..(a + 1) * 4096].copy_from_slice(&other));
            seen += usize::from(!all_or_error(&copy, &records, &format!("misdirected {a}")));
        }
        for len in (0..disk.edit(path, |bytes| bytes.len())).step_by(512) {
            let copy = disk.settled();
            copy.edit(path, |bytes| bytes.truncate(len));
            assert!(!all_or_error(&copy, &records, &format!("cut to {len}")));
        }
        let copy = disk.settled();
        copy.unlink(path);
        assert!(!all_or_error(&copy, &records, "missing"));
        let copy = disk.settled();
        copy.rename(path, &Path::new(DIR).join("log-0000000099.frond")).unwrap();
        assert!(!all_or_error(&copy, &records, "renamed"));
        let copy = disk.settled();
        copy.rename(path, &paths[(n + 1) % 3]).unwrap();
        assert!(!all_or_error(&copy, &records, "renamed over another"));
    }
    assert!(seen > 60, "{seen} seen");
}

/// Promise: P19
#[test]
fn the_segment_that_is_missing_is_named() {
    let (disk, _, end) = settled(60);
    let paths = segments(&disk);
    let missing = |disk: &Disk, from| match read(&env_on(disk), from, CRASHED) {
        Err(Error::WalMissing { file, what: "missing" }) => Some(file),
        Ok(_) => None,
        Err(other) => panic!("{other}"),
    };
    for from in [Lsn(0), end] {
        let mut named = 0;
        for path in &paths {
            let copy = disk.settled();
            copy.unlink(path);
            let file = missing(&copy, from);
            assert!(file.is_none() || file.as_ref() == Some(path), "{path:?}: {file:?}");
            named += usize::from(file.is_some());
        }
        assert!(named >= if from == end { 1 } else { 3 }, "{named} named from {from:?}");
    }
    // If all are gone, their numbers are not known, except that of a log that was never trimmed.
    paths.iter().for_each(|path| disk.unlink(path));
    assert_eq!(missing(&disk, Lsn(0)).as_ref(), Some(&paths[0]));
    assert_eq!(missing(&disk, end), Some(Path::new(DIR).join("log-*.frond")));
}

/// Promise: P19
#[test]
pub(super) fn a_log_shorter_than_recorded_is_damaged_and_a_foreign_one_refused() {
    let (disk, _, _) = settled(20);
    let env = env_on(&disk);
    let (_, tail) = read(&env, Lsn(0), CRASHED).unwrap();
    for expect in [Expect::CleanEnd(tail.end), Expect::Crashed { synced: tail.end }] {
        assert!(read(&env, Lsn(0), expect).is_ok());
    }
    let beyond = Lsn(tail.end.0 + 4096);
    for expect in [Expect::CleanEnd(beyond), Expect::Crashed { synced: beyond }] {
        assert!(matches!(read(&env, Lsn(0), expect), Err(Error::WalDamaged { .. })));
    }
    for from in [4095, beyond.0, 1 << 40, u64::MAX - 4095, u64::MAX] {
        let result = read(&env, Lsn(from), CRASHED);
        assert!(matches!(result, Err(Error::WalDamaged { .. })), "{from}: {result:?}");
    }
    let dir = Path::new(DIR);
    let other = recover(&env, dir, StoreId([8; 16]), Lsn(0), CRASHED, &mut |_, _| Ok(()));
    assert!(matches!(other, Err(Error::ForeignFile { .. })));
    let created = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL);
    assert!(matches!(created, Err(Error::NotAStore { .. })));
}

/// A group that reached the medium before its predecessor is cut off, unless a witness says that
/// the predecessor was synced.
#[test]
pub(super) fn a_reordered_tail_is_truncated_but_a_synced_gap_is_damage() {
    for synced_between in [false, true] {
        let disk = Disk::default();
        let env = env_on(&disk);
        let log = Log::create(env.clone(), DIR, STORE, Durability::Os, SMALL).unwrap();
        let mut lsns = Vec::new();
        for i in 0..3 {
            let reservation = append_alone(&log, &record(i)).unwrap();
            if i == 1 && synced_between {
                log.sync_through_now().unwrap();
            }
            lsns.push(reservation.lsn());
        }
        let disk = disk.settled();
        let at = (SEGMENT_HEADER_BYTES + lsns[1].0) as usize / 4096 * 4096;
        disk.edit(&segments(&disk)[0], |bytes| bytes[at..at + 512].fill(0));
        match read(&env_on(&disk), Lsn(0), CRASHED) {
            Ok((records, tail)) => {
                assert!(
                    !synced_between && records == [record(0)] && tail.end.0 + 4096 == at as u64
                );
            }
            Err(Error::WalDamaged { first_lost, last_known, .. }) => {
                assert!(synced_between && first_lost < last_known);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Promise: P11
#[test]
pub(super) fn an_unreadable_block_is_an_error_and_never_the_end() {
    let (disk, _, _) = settled(60);
    for block in 0..8 {
        let copy = disk.settled();
        copy.unreadable(block * 4096);
        let result = read(&env_on(&copy), Lsn(0), CRASHED);
        assert!(matches!(result, Err(Error::Io { .. })), "block {block}");
    }
}

/// Rule: I14. A row that contains the bytes of a log is not a witness.
#[test]
pub(super) fn row_content_cannot_imitate_a_group() {
    let disk = Disk::default();
    let env = env_on(&disk);
    let log = Log::create(env.clone(), DIR, STORE, Durability::Os, SMALL).unwrap();
    let forged = GroupHeader {
        first: Lsn(4096),
        synced: Lsn(1 << 30),
        bytes: 100,
        body_crc: 0,
        predecessor: 0,
        kind: GroupKind::Records,
        records: 0,
    };
    // The second block of the second group is all row content.
    let mut row = vec![0; 7000];
    let at = 4096 - GROUP_HEADER_BYTES - 8;
    row[at..at + GROUP_HEADER_BYTES].copy_from_slice(&forged.encode(0).0);
    for payload in [&b"first"[..], &row] {
        let reservation = append(&log, payload).unwrap();
        log.wait(&reservation, Durability::Os).unwrap();
    }
    let disk = disk.settled();
    let torn = SEGMENT_HEADER_BYTES as usize + 4096;
    disk.edit(&segments(&disk)[0], |bytes| bytes[torn..torn + 512].fill(0));
    let (records, tail) = read(&env_on(&disk), Lsn(0), CRASHED).unwrap();
    assert!(records == [b"first"] && tail.end == Lsn(4096) && !tail.torn);
}

/// Rule: I14. A group that verifies alone but has another predecessor is not replayed.
#[test]
pub(super) fn a_group_that_does_not_fit_its_predecessor_is_not_replayed() {
    let disk = Disk::default();
    let env = env_on(&disk);
    let log = Log::create(env.clone(), DIR, STORE, Durability::Os, SMALL).unwrap();
    for payload in [b"first", b"other"] {
        append_alone(&log, payload).unwrap();
    }
    let disk = disk.settled();
    disk.edit(&segments(&disk)[0], |bytes| {
        let salt = SegmentHeader::decode(bytes).unwrap().salt;
        let second = &mut bytes[SEGMENT_HEADER_BYTES as usize + 4096..];
        let (mut header, _) = GroupHeader::decode(second, salt).unwrap();
        header.predecessor ^= 1;
        second[..GROUP_HEADER_BYTES].copy_from_slice(&header.encode(salt).0);
    });
    let (records, tail) = read(&env_on(&disk), Lsn(0), CRASHED).unwrap();
    assert!(records == [b"first"] && tail.torn);
}

/// Mutates a log and repairs its checksums, so that the checks after them are reached.
///
/// Promise: P20
#[test]
pub(super) fn hostile_logs_with_valid_checksums_do_not_panic() {
    let (disk, _, _) = settled(60);
    let (mut answers, mut errors) = (0, 0);
    for seed in 0..4000u64 {
        let mut n = 0u64;
        let mut toss = |below: usize| {
            n += 1;
            xxhash_rust::xxh3::xxh3_64_with_seed(&n.to_le_bytes(), seed) as usize % below
        };
        let copy = disk.settled();
        for path in segments(&copy) {
            let mend = toss(4) != 0;
            copy.edit(&path, |bytes| {
                let headers = SegmentHeader::decode(bytes).is_ok();
                for _ in 0..toss(3) {
                    let spread = [SEGMENT_HEADER_BYTES as usize, 128, bytes.len()][toss(3)];
                    let start = if spread == 128 { toss(bytes.len() / 4096) * 4096 } else { 0 };
                    let at = start + toss(spread.min(bytes.len() - start));
                    bytes[at] = match toss(4) {
                        0 => 0,
                        1 => 0xff,
                        2 => bytes[at] ^ (1 << toss(8)),
                        _ => toss(256) as u8,
                    };
                }
                if mend && headers {
                    mend_checksums(bytes, &mut toss);
                }
            });
        }
        let dir = Path::new(DIR);
        let from = Lsn([0, 4096, 40960][toss(3)]);
        let result = recover(&env_on(&copy), dir, STORE, from, CRASHED, &mut |lsn, payload| {
            if let Ok(Record::Commit { mut items, .. }) = decode(lsn, payload) {
                while let Ok(Some(_)) = items.next() {}
            }
            Ok(())
        });
        match result {
            Ok(tail) => {
                answers += 1;
                let env = env_on(&copy);
                drop(Log::resume(env, DIR, STORE, Durability::Sync, SMALL, tail));
            }
            Err(_) => errors += 1,
        }
    }
    assert!(answers > 300 && errors > 300, "{answers} answers, {errors} errors");
}

/// Recomputes every checksum in a segment, and sometimes the chain.
fn mend_checksums(bytes: &mut [u8], toss: &mut impl FnMut(usize) -> usize) {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..128]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    let Ok(segment) = SegmentHeader::decode(bytes) else { return };
    let mut chain = segment.predecessor;
    let chained = toss(3) != 0;
    for at in (4096..bytes.len()).step_by(4096) {
        let block = &mut bytes[at..];
        if block[0..4] != *b"FrGp" {
            continue;
        }
        let used = u32::from_le_bytes(block[24..28].try_into().unwrap()) as usize;
        if let Some(body) = block.get(GROUP_HEADER_BYTES..used) {
            let crc = salted_crc(segment.salt, body);
            block[28..32].copy_from_slice(&crc.to_le_bytes());
        }
        if chained {
            block[32..36].copy_from_slice(&chain.to_le_bytes());
        }
        chain = salted_crc(segment.salt, &block[8..GROUP_HEADER_BYTES]);
        block[4..8].copy_from_slice(&chain.to_le_bytes());
        debug_assert!(GroupHeader::decode(block, segment.salt).is_none_or(|h| h.1 == chain));
    }
}
