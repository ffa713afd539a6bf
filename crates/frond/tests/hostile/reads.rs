//! All reads of a block. A block that passed the check answers all of them, and the same each time;
//! one that did not gives rows or errors. No read takes more memory than the block's rows and
//! columns allow.

use std::collections::BTreeMap;

use frond::{
    feed::Tag,
    internals::block::{
        BadBlock, Chunks, ColumnarFormat, Format, Payload, Position,
        columnar::{self, ColumnSelection, ColumnarRows},
    },
};

use crate::{counting::peak_of, samples::Block};

/// Bytes beyond what a block's own lengths allow: initial capacity of lists, contexts of codecs.
const SOME: usize = 64 << 10;
/// Most bytes that a row without a value may have in each string column
/// (docs/format.md, "Columnar block").
const FILLER_BYTES_MAX: usize = 64;

/// What is in a row: key, tag, payload.
type Row = (Vec<u8>, Tag, Vec<u8>);

/// Counts the columns of an intact columnar block by their encodings.
pub fn count(block: &Block, format: &Format, met: &mut BTreeMap<&'static str, u64>) {
    let Format::Columnar(format) = format else { return };
    let columnar = format.block(&block.raw).expect("it was built");
    let weighed =
        columnar::weigh(&columnar, |column| *met.entry(column.encoding.name()).or_default() += 1);
    weighed.expect("it was built");
}

/// Upper bound for the memory to read a block, in all its forms at once: columns, vectors of them,
/// and rows.
fn bound(block: &Block, format: &Format) -> usize {
    let (rows, row_bytes) = (block.rows as usize, block.row_bytes as usize);
    match format {
        // A backward scan holds the whole keys of sixteen rows.
        Format::Row => 40 * block.raw.len() + SOME,
        Format::Columnar(format) => {
            let columns = format.columns().count() + 1;
            16 * (row_bytes + block.raw.len()) + 2 * rows * columns * (FILLER_BYTES_MAX + 16) + SOME
        }
    }
}

/// Makes all reads; returns whether the block is sound.
pub fn everything(block: &Block, format: &Format) -> bool {
    let bound = bound(block, format);
    let (sound, peak) = peak_of(|| {
        let sound = check(block, format).is_ok();
        let walked = walk(block, format);
        assert!(!sound || walked.is_ok(), "checked, and not read: {walked:?}");
        let sought = block.keys.iter().map(Vec::as_slice).chain([&[][..], &[0; 9], &[0xff; 40]]);
        for key in sought {
            let answer = seek(block, format, key);
            assert!(!sound || answer.is_ok(), "checked, and not searched: {answer:?}");
        }
        if let Format::Columnar(columnar) = format {
            let answer = parts(block, columnar);
            assert!(!sound || answer.is_ok(), "checked, and no parts: {answer:?}");
        }
        if sound && let Ok(rows) = walked {
            agree(block, format, &rows);
            unpack(block, format, &rows);
        }
        sound
    });
    let Block { rows, row_bytes, .. } = block;
    assert!(peak <= bound, "{peak} bytes of memory; {rows} rows of {row_bytes} bytes: {bound}");
    sound
}

fn check(block: &Block, format: &Format) -> Result<(), BadBlock> {
    format.check(&block.raw, block.rows, block.row_bytes, &mut Chunks::default())
}

/// All rows, forward. Backward there must be as many, and the same if the block is sound.
fn walk(block: &Block, format: &Format) -> Result<Vec<Row>, BadBlock> {
    // Like a reader that does not check: the index's statements are compared first.
    format.agrees(&block.raw, block.rows, block.row_bytes)?;
    let raw = &block.raw[..];
    let mut at = Position::new(format);
    let mut bytes = 0;
    at.enter(raw, Chunks::default())?;
    at.last(raw, format)?;
    let mut backward = 1;
    while at.prev(raw, format)? {
        backward += 1;
        assert!(backward <= block.rows, "no end of rows");
    }
    at.first(raw, format)?;
    let mut rows = Vec::new();
    loop {
        assert!(rows.len() < block.rows as usize, "no end of rows");
        bytes += at.key().len() + at.payload(raw).len();
        if bytes <= block.row_bytes as usize {
            rows.push((at.key().to_vec(), at.tag(), at.payload(raw).to_vec()));
        } else {
            // Only unsound blocks, and row blocks cut by prefixes, have more rows; they are not
            // kept together.
            rows.push((Vec::new(), at.tag(), Vec::new()));
        }
        if !at.next(raw, format)? {
            break;
        }
    }
    assert_eq!((rows.len(), backward), (block.rows as usize, block.rows), "walked");
    Ok(rows)
}

fn seek(block: &Block, format: &Format, key: &[u8]) -> Result<(), BadBlock> {
    let raw = &block.raw[..];
    let mut at = Position::new(format);
    let found =
        format.find(raw, key, &columnar::ColumnSelection::All, &mut Chunks::default()).map(|_| ());
    at.enter(raw, Chunks::default())?;
    let mut sought = at.seek_before(raw, format, key);
    if let Ok(true) = sought {
        sought = at.prev(raw, format).and_then(|_| at.next(raw, format));
    }
    at.enter(raw, Chunks::default())?;
    if at.seek(raw, format, key)? {
        at.next(raw, format)?;
        at.prev(raw, format)?;
    }
    found.and(sought.map(|_| ()))
}

/// The sizes of columns, and projections of values.
fn parts(block: &Block, format: &ColumnarFormat) -> Result<(), BadBlock> {
    let columnar = format.block(&block.raw)?;
    if columnar.raw_bytes() != block.row_bytes as usize {
        return Ok(());
    }
    let weighed = columnar::weigh(&columnar, |_| {});
    let mut payload = Vec::new();
    for part in [0, 2] {
        let projection = format.columns().project(&[part]);
        for key in &block.keys {
            columnar::find_selected(
                &columnar,
                key,
                &projection,
                &mut Chunks::default(),
                &mut payload,
            )?;
        }
        let mut at = ColumnarRows::new(projection);
        at.first(&columnar)?;
        while at.next(&columnar)? {}
    }
    assert_eq!(format.columns().project(&[]), ColumnSelection::Nothing);
    weighed
}

/// The form into which a cache with space unpacks a sound block is sound as well, and has the same
/// rows.
fn unpack(block: &Block, format: &Format, rows: &[Row]) {
    if format.is_row() {
        return;
    }
    let mut chunks = Chunks::default();
    let checked = format.check(&block.raw, block.rows, block.row_bytes, &mut chunks);
    assert!(checked.is_ok(), "it was sound");
    // A thread that loads a block passes on what the check decoded of it.
    if let Some((key, tag, _)) = rows.last() {
        let found = format.find(&block.raw, key, &columnar::ColumnSelection::All, &mut chunks);
        assert_eq!(found.expect("it is sound").map(|(tag, _)| tag), Some(*tag));
    }
    let mut at = Position::new(format);
    at.enter(&block.raw, chunks.clone()).expect("it is sound");
    if let Some((key, tag, payload)) = rows.first() {
        at.first(&block.raw, format).expect("it is sound");
        assert_eq!((at.key(), at.tag(), at.payload(&block.raw)), (&key[..], *tag, &payload[..]));
    }
    let Some(raw) = format.unpack(&block.raw, &mut chunks) else { return };
    let unpacked = Block { raw: raw.into_vec(), keys: Vec::new(), ..*block };
    assert!(check(&unpacked, format).is_ok(), "checked, unpacked, and not sound");
    assert!(walk(&unpacked, format).as_deref() == Ok(rows), "unpacked, and other rows");
}

/// The rows of a sound block are in order, and each is found by its key as in the scan.
fn agree(block: &Block, format: &Format, rows: &[Row]) {
    let raw = &block.raw[..];
    if matches!(format, Format::Columnar(_)) {
        let bytes = rows.iter().map(|(key, _, payload)| key.len() + payload.len());
        assert_eq!(bytes.sum::<usize>(), block.row_bytes as usize);
    } else if rows.iter().any(|(key, ..)| key.is_empty()) {
        return;
    }
    let mut at = Position::new(format);
    at.enter(raw, Chunks::default()).expect("it is sound");
    for (number, (key, tag, payload)) in rows.iter().enumerate() {
        assert!(number == 0 || rows[number - 1].0 < *key, "checked, and descends");
        let found = format
            .find(raw, key, &columnar::ColumnSelection::All, &mut Chunks::default())
            .expect("it is sound");
        let (found, place) = found.unwrap_or_else(|| panic!("row {number} is not found"));
        let found_payload = match &place {
            Payload::InBlock(range) => &raw[range.clone()],
            Payload::Made(payload) | Payload::Parts(payload) => payload,
        };
        assert_eq!((found, found_payload), (*tag, &payload[..]));
        assert_eq!(at.seek_before(raw, format, key), Ok(number > 0));
        assert_eq!(at.seek(raw, format, key), Ok(true));
        assert_eq!((at.key(), at.payload(raw)), (&key[..], &payload[..]));
    }
}
