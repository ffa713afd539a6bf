//! Tests of findings about blobs: the space map, the log or the stored bytes contradict the runs
//! that list a blob.

use super::*;

/// Rules: I21, I22.
#[test]
fn a_space_map_that_contradicts_the_blobs_of_runs_is_reported() {
    let honest: fn(&Forge) -> Vec<u8> = |forge| forge.blob(TREE, 1).to_disk().into();
    let report = check_lie(&Lie { blob: Some(honest), ..Lie::default() });
    assert!(report.findings.is_empty() && report.checked.blobs == 1, "{report}");
    let lies: [(&str, fn(&Forge) -> Vec<u8>); 6] = [
        ("blobs", |_| vec![0; 16]),
        ("references", |forge| forge.blob(TREE, 2).to_disk().into()),
        ("lineage", |forge| forge.blob(Lineage(TREE.0 + 1), 1).to_disk().into()),
        ("leak", |forge| {
            forge.blob(TREE, 1);
            forge.blob(TREE, 1).to_disk().into()
        }),
        ("not-listed", |forge| {
            // Alive only as long as the process that wrote it.
            let written = Blob::write(&forge.store, &[9; 5000], BlobOptions::default());
            let (blob, hold) = written.unwrap();
            std::mem::forget(hold);
            blob.to_disk().into()
        }),
        ("listed-as", |forge| {
            let mut reference = forge.blob(TREE, 1).to_disk();
            reference[5] += 1; // a page longer
            reference.into()
        }),
    ];
    for (code, blob) in lies {
        let report = check_lie(&Lie { blob: Some(blob), ..Lie::default() });
        assert!(report.names(code), "{code} is not named: {report}");
    }
}

/// Rule: I22. A run of the second version no longer lists the blob: the space map frees it too
/// early.
#[test]
fn a_blob_freed_too_early_is_reported() {
    let blob: fn(&Forge) -> Vec<u8> = |forge| forge.blob(TREE, 1).to_disk().into();
    let second: fn(&Forge, Link, Link) = |forge, _, _| {
        let blob = forge.blobs.borrow()[0];
        forge.store.count_blob(blob, TREE, false, forge.at.next()).unwrap();
    };
    names("listed-dead", Lie { blob: Some(blob), second: Some(second), ..Lie::default() });
}

/// Rule: I11. What replay would use is read; what the log names can be claimed.
#[test]
fn blobs_named_in_the_log_are_checked() {
    fn bring(log: &Log, extent: LogExtent, reference: &[u8]) {
        let mut builder = RecordBuilder::new();
        builder.extent(extent);
        builder.tree(TreeId(1));
        builder.entry(b"m", Tag::PUT_BLOB, reference);
        write(log, &[builder.finish(), &trailer(Seqno(7))].concat());
    }
    const FIRST: u64 = store::DATA_START;
    let lies: [(&str, fn(&Log)); 4] = [
        ("does not bring", |log| bring(log, LogExtent { offset: FIRST, bytes: 4096 }, &[0; 16])),
        ("cannot be", |log| bring(log, LogExtent { offset: 1 << 40, bytes: 4096 }, &[0; 16])),
        ("cannot be", |log| bring(log, LogExtent { offset: FIRST, bytes: 1 << 33 }, &[0; 16])),
        ("another page occupies", |log| {
            bring(log, LogExtent { offset: FIRST, bytes: 16 << 10 }, &[0; 16]);
        }),
    ];
    for (words, log) in lies {
        let report = check_lie(&Lie { log: Some(log), ..Lie::default() });
        assert!(report.to_string().contains(words), "{words}: {report}");
        assert!(report.names("log") && !report.names("checksum"), "{report}");
    }
    // A page of the tree lies where the commit says that its blob is.
    let report = check_lie(&Lie {
        log: Some(|log| {
            let reference = [&(FIRST / 4096).to_le_bytes()[..5], &[1, 0, 0, 0], &[7; 7]].concat();
            bring(log, LogExtent { offset: FIRST, bytes: 4096 }, &reference);
        }),
        ..Lie::default()
    });
    assert!(report.names("checksum"), "{report}");
}
