//! Checking a columnar block completely, once, when it comes from the device.
//!
//! Columns are decoded one at a time and compared: keys ascend if for each two neighbours some
//! column ascends and all previous columns are equal.

use super::{
    super::{
        BLOCK_RAW_BYTES_MAX, BadBlock, Chunks,
        encoding::{PAD_BYTES, string::Strings},
        varint_bytes,
    },
    columns::{Column, Holds},
    frame::{ColumnarBlock, FILLER_BYTES_MAX, FILLERS_BYTES_MAX, TOO_LONG},
    reference,
};

const DESCENDS: BadBlock = BadBlock("its keys do not ascend");

/// The state of a check.
struct Seen<'c> {
    chunks: &'c mut Chunks,
    /// For each row, whether its value is in the columns.
    in_columns: Vec<bool>,
    /// For each row, whether its key is known to be above the previous one.
    above: Vec<bool>,
    raw_bytes: usize,
    /// The number of raw bytes that the block states.
    raw_bytes_max: usize,
    filler_bytes: usize,
    words: Vec<u64>,
    strings: Strings,
    references: reference::Scratch,
    /// Number of columns that refer to others.
    referring_columns: usize,
}

/// Checks order, lengths, tags, and that every column fits its place. Memory: 26 bytes per row;
/// twice the length of the rows and their placeholders for the longest string column, and as much
/// for a codec's chunk; with references, twice that length once more, plus once for each of four
/// targets. What codecs decode stays in `chunks`, which must be empty.
pub fn check_into(columnar: &ColumnarBlock<'_>, chunks: &mut Chunks) -> Result<(), BadBlock> {
    if columnar.raw_bytes() > BLOCK_RAW_BYTES_MAX {
        return Err(TOO_LONG);
    }
    let rows = columnar.rows();
    let mut seen = Seen {
        chunks,
        in_columns: Vec::with_capacity(rows),
        above: vec![false; rows],
        raw_bytes: 0,
        raw_bytes_max: columnar.raw_bytes(),
        filler_bytes: 0,
        words: vec![0; rows],
        strings: Strings::new(),
        references: reference::Scratch::default(),
        referring_columns: 0,
    };
    seen.look_at_words(columnar, 0)?;
    for &number in &seen.words {
        seen.in_columns.push(columnar.tag_of(number)?.1);
    }
    for (index, column) in columnar.key_side().columns.iter().enumerate() {
        seen.check_key(columnar, columnar.key_at(index), column)?;
    }
    if seen.above.iter().skip(1).any(|above| !above) {
        return Err(DESCENDS);
    }
    for (index, column) in columnar.columns().value.columns.iter().enumerate() {
        if let Some(at) = columnar.value_at(index) {
            // Column 0 is the version, where rows carry one.
            let version = columnar.columns().value.version.filter(|_| index == 0);
            seen.check_value(columnar, at, column, version)?;
        }
    }
    if let Some(at) = columnar.others_at() {
        seen.look_at_strings(columnar, at)?;
        if seen
            .in_columns
            .iter()
            .zip(seen.strings.iter())
            .any(|(&is, other)| is && !other.is_empty())
        {
            return Err(BadBlock("a row has two payloads"));
        }
        seen.raw_bytes += seen.strings.bytes().len();
    }
    if seen.raw_bytes != columnar.raw_bytes() {
        return Err(BadBlock("its rows are not as long as it says"));
    }
    Ok(())
}

/// Checks as [`check_into`] does, keeping nothing.
pub fn check(columnar: &ColumnarBlock<'_>) -> Result<(), BadBlock> {
    check_into(columnar, &mut Chunks::default())
}

impl Seen<'_> {
    fn look_at_words(&mut self, columnar: &ColumnarBlock<'_>, at: usize) -> Result<(), BadBlock> {
        let words = columnar.words(at)?;
        fills(columnar, at, words.bytes_used())?;
        words.check()?;
        words.decode(0, &mut self.words);
        Ok(())
    }

    /// Checks a string column of the value; it may refer to columns that were checked before. The
    /// strings are decoded, unless all have one length, which is then returned: strings that may be
    /// `any` need no further check.
    fn look_at_texts(
        &mut self,
        columnar: &ColumnarBlock<'_>,
        at: usize,
        any: bool,
    ) -> Result<Option<usize>, BadBlock> {
        let texts = columnar.texts(at, self.chunks.of(at))?;
        self.referring_columns += usize::from(texts.has_references());
        if self.referring_columns > reference::REFERRING_MAX {
            return Err(BadBlock("too many columns refer to others"));
        }
        fills(columnar, at, texts.bytes_used())?;
        texts.strs().check()?;
        self.strings.clear();
        if any
            && !texts.has_references()
            && let Some(bytes) = texts.strs().even_bytes()
        {
            return Ok(Some(bytes));
        }
        let rows = 0..columnar.rows();
        texts.decode(columnar, rows, &mut self.references, &mut self.strings).map(|()| None)
    }

    fn look_at_strings(&mut self, columnar: &ColumnarBlock<'_>, at: usize) -> Result<(), BadBlock> {
        let strs = columnar.strs(at, self.chunks.of(at))?;
        fills(columnar, at, strs.bytes_used())?;
        strs.check()?;
        self.strings.clear();
        strs.decode_all(&mut self.strings)
    }

    fn check_key(
        &mut self,
        columnar: &ColumnarBlock<'_>,
        at: usize,
        column: &Column,
    ) -> Result<(), BadBlock> {
        let Holds::Word(bytes, _) = column.holds else {
            self.look_at_strings(columnar, at)?;
            let mut last: &[u8] = &[];
            for (row, string) in self.strings.iter().enumerate() {
                if !column.may_hold(string) {
                    return Err(BadBlock("a string is not what its part can be"));
                }
                if row > 0 && !self.above[row] {
                    if last > string {
                        return Err(DESCENDS);
                    }
                    self.above[row] = last < string;
                }
                last = string;
            }
            return self.add_bytes(self.strings.bytes().len());
        };
        self.look_at_words(columnar, at)?;
        fit(&self.words, bytes)?;
        let mut descends = false;
        let pairs = self.words.iter().zip(self.words.iter().skip(1));
        for (above, (last, word)) in self.above.iter_mut().skip(1).zip(pairs) {
            descends |= !*above & (last > word);
            *above |= last < word;
        }
        if descends {
            return Err(DESCENDS);
        }
        self.add_bytes(columnar.rows() * usize::from(bytes))
    }

    fn check_value(
        &mut self,
        columnar: &ColumnarBlock<'_>,
        at: usize,
        column: &Column,
        version: Option<u16>,
    ) -> Result<(), BadBlock> {
        if let Holds::Word(bytes, _) = column.holds {
            self.look_at_words(columnar, at)?;
            fit(&self.words, bytes)?;
            if let Some(version) = version {
                let mut rows = self.words.iter().zip(&self.in_columns);
                if rows.any(|(&word, &is_in)| is_in && word != version.into()) {
                    return Err(BadBlock("a row of another version than its columns"));
                }
            }
            let rows = self.in_columns.iter().filter(|&&is| is).count();
            return self.add_bytes(rows * usize::from(bytes));
        }
        let is_content = column.holds == Holds::Content;
        let are_all_in = self.in_columns.iter().all(|&is_in| is_in);
        if let Some(bytes) = self.look_at_texts(columnar, at, is_content && are_all_in)? {
            let bytes = bytes + varint_bytes(bytes as u64);
            return self.add_bytes(columnar.rows() * bytes);
        }
        let mut bytes = 0;
        for (string, &is_in) in self.strings.iter().zip(&self.in_columns) {
            if !is_in {
                self.filler_bytes += string.len();
                if string.len() > FILLER_BYTES_MAX || self.filler_bytes > FILLERS_BYTES_MAX {
                    return Err(BadBlock("what stands for missing values is too long"));
                }
                continue;
            }
            if !column.may_hold(string) {
                return Err(BadBlock("a string is not what its part can be"));
            }
            let length = if is_content { varint_bytes(string.len() as u64) } else { 0 };
            bytes += length + string.len();
        }
        self.add_bytes(bytes)
    }

    fn add_bytes(&mut self, bytes: usize) -> Result<(), BadBlock> {
        self.raw_bytes += bytes;
        if self.raw_bytes > self.raw_bytes_max {
            return Err(TOO_LONG);
        }
        Ok(())
    }
}

/// Checks that a column ends where the next one starts.
fn fills(columnar: &ColumnarBlock<'_>, at: usize, bytes_used: usize) -> Result<(), BadBlock> {
    if columnar.bytes(at)?.len() != bytes_used + PAD_BYTES {
        return Err(BadBlock("bytes between its columns"));
    }
    Ok(())
}

/// Checks that all words have at most this many bytes; this includes placeholders.
fn fit(words: &[u64], bytes: u8) -> Result<(), BadBlock> {
    let all = words.iter().fold(0, |all, word| all | word);
    match all.checked_shr(8 * u32::from(bytes)).unwrap_or(0) {
        0 => Ok(()),
        _ => Err(BadBlock("a number is wider than its part")),
    }
}
