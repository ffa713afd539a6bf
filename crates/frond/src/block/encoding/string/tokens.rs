//! Tokens: the slots of a string, that is, the parts that vary among strings of one format, found
//! in one pass.
//!
//! | slot | contents |
//! |---|---|
//! | digits | decimal digits, anywhere |
//! | GUID | 36 bytes, all letters of one case |
//! | hex | 8 to 64 hexadecimal digits, both letters and digits, all letters of one case |
//! | word | starts with a letter after a quote, up to the next quote; or a name after `=` |
//!
//! Everything else is the string's skeleton. Strings of one skeleton have the same
//! [`Tokens::hash`]; what a hash finds is compared before it is used, so choices made here affect
//! only the encoding, never correctness.

/// Most slots of a string that a template can represent.
pub(super) const SLOTS_MAX: usize = 48;
/// Longer strings have no template.
pub(super) const TEXT_BYTES_MAX: usize = 4096;
/// Length of a GUID as text.
pub(super) const GUID_BYTES: usize = 36;
/// Fewer hexadecimal digits are treated as a word or a number, more as text.
const HEX_MIN: usize = 8;
pub(super) const HEX_MAX: usize = 64;
/// Longest distance from a quote to its end.
const QUOTED_MAX: usize = 256;

/// The contents of a slot. The numbers are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub(super) enum SlotKind {
    Digits = 0,
    Hex = 1,
    Guid = 2,
    Word = 3,
}

impl SlotKind {
    pub fn from_disk(byte: u8) -> Option<Self> {
        [Self::Digits, Self::Hex, Self::Guid, Self::Word].get(usize::from(byte)).copied()
    }
}

/// The range of a slot in its string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub start: u16,
    pub end: u16,
    pub kind: SlotKind,
}

/// The slots of one string. Reusable.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    slots: [Slot; SLOTS_MAX],
    count: usize,
    hash: u64,
}

impl Default for Tokens {
    fn default() -> Self {
        let none = Slot { start: 0, end: 0, kind: SlotKind::Digits };
        Self { slots: [none; SLOTS_MAX], count: 0, hash: 0 }
    }
}

const DIGIT: u8 = 1;
const HEX_LOWER: u8 = 2;
const HEX_UPPER: u8 = 4;
const LETTER: u8 = 8;

/// Classes of letters and digits; 0 for other bytes.
static CLASSES: [u8; 256] = {
    let mut all = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        all[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'f' => HEX_LOWER,
            b'A'..=b'F' => HEX_UPPER,
            b'g'..=b'z' | b'G'..=b'Z' => LETTER,
            _ => 0,
        };
        byte += 1;
    }
    all
};

#[inline]
fn class(text: &[u8], at: usize) -> u8 {
    text.get(at).map_or(0, |&byte| CLASSES[usize::from(byte)])
}

/// True if bytes of these classes are hexadecimal digits of one case.
#[inline]
fn is_hex(classes: u8) -> bool {
    classes & LETTER == 0 && classes & (HEX_LOWER | HEX_UPPER) != HEX_LOWER | HEX_UPPER
}

impl Tokens {
    /// Finds the slots of `text`; false if it has too many, or is too long.
    #[inline]
    pub fn find(&mut self, text: &[u8]) -> bool {
        self.count = 0;
        if text.len() > TEXT_BYTES_MAX {
            return false;
        }
        let mut hash = Skeleton::default();
        let (mut at, mut literal) = (0, 0);
        while at < text.len() {
            // Skips to the next letter or digit.
            let mut classes = class(text, at);
            if classes == 0 {
                at += 1;
                continue;
            }
            let start = at;
            at += 1;
            loop {
                let next = class(text, at);
                if next == 0 {
                    break;
                }
                classes |= next;
                at += 1;
            }
            let (kind, end) = if classes == DIGIT {
                match is_guid(text, start, at) {
                    true => (SlotKind::Guid, start + GUID_BYTES),
                    false => (SlotKind::Digits, at),
                }
            } else {
                match long_token(text, start, at, classes) {
                    Some(token) => token,
                    // Numbers in names are slots by themselves.
                    None if classes & DIGIT != 0 => {
                        if !self.find_numbers(text, start..at, &mut literal, &mut hash) {
                            return false;
                        }
                        continue;
                    }
                    None => continue,
                }
            };
            if !self.push(
                text,
                literal,
                Slot { start: start as u16, end: end as u16, kind },
                &mut hash,
            ) {
                return false;
            }
            (at, literal) = (end, end);
        }
        hash.literal(text.get(literal..).unwrap_or_default());
        self.hash = hash.0;
        true
    }

    /// Adds the runs of digits among letters.
    fn find_numbers(
        &mut self,
        text: &[u8],
        range: std::ops::Range<usize>,
        literal: &mut usize,
        hash: &mut Skeleton,
    ) -> bool {
        let mut at = range.start;
        while at < range.end {
            let start = at;
            while at < range.end && class(text, at) == DIGIT {
                at += 1;
            }
            if at == start {
                at += 1;
                continue;
            }
            let slot = Slot { start: start as u16, end: at as u16, kind: SlotKind::Digits };
            if !self.push(text, *literal, slot, hash) {
                return false;
            }
            *literal = at;
        }
        true
    }

    #[inline]
    fn push(&mut self, text: &[u8], literal: usize, slot: Slot, hash: &mut Skeleton) -> bool {
        if !self.add(slot) {
            return false;
        }
        hash.literal(text.get(literal..slot.start.into()).unwrap_or_default());
        hash.slot(slot.kind);
        true
    }

    /// Removes all slots, so that others can be added.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds a slot after the others; false if there are too many.
    #[inline]
    pub fn add(&mut self, slot: Slot) -> bool {
        let Some(to) = self.slots.get_mut(self.count) else { return false };
        *to = slot;
        self.count += 1;
        true
    }

    /// The slots, in order.
    #[inline]
    pub fn slots(&self) -> &[Slot] {
        &self.slots[..self.count]
    }

    /// The hash of the skeleton.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// True if a GUID starts at `start`, where a run of letters and digits ends at `end`.
#[inline]
fn is_guid(text: &[u8], start: usize, end: usize) -> bool {
    if end - start != 8 || text.get(end) != Some(&b'-') {
        return false;
    }
    let Some(guid) = text.get(start..start + GUID_BYTES) else { return false };
    let mut classes = 0;
    for (at, &byte) in guid.iter().enumerate() {
        let class = CLASSES[usize::from(byte)];
        if matches!(at, 8 | 13 | 18 | 23) != (byte == b'-') || class == 0 && byte != b'-' {
            return false;
        }
        classes |= class;
    }
    is_hex(classes) && class(text, start + GUID_BYTES) == 0
}

/// The kind and end of the slot that starts with the run of letters and digits from `start` to
/// `end`, if it is one slot.
#[inline]
fn long_token(text: &[u8], start: usize, end: usize, classes: u8) -> Option<(SlotKind, usize)> {
    if is_hex(classes) && end - start >= HEX_MIN {
        if is_guid(text, start, end) {
            return Some((SlotKind::Guid, start + GUID_BYTES));
        }
        if classes & DIGIT != 0 && end - start <= HEX_MAX {
            return Some((SlotKind::Hex, end));
        }
    }
    match start.checked_sub(1).and_then(|before| text.get(before)) {
        Some(&quote @ (b'\'' | b'"')) => {
            let closing = word_end(text, end, quote)?;
            // A name in JSON is not a slot.
            (text.get(closing + 1) != Some(&b':')).then_some((SlotKind::Word, closing))
        }
        Some(b'=') if !matches!(text.get(end), Some(b'\'' | b'"')) => {
            Some((SlotKind::Word, name_end(text, end)))
        }
        _ => None,
    }
}

/// The end of the quoted text that contains `start`; `None` if the quote is not closed, or too far
/// away.
#[inline]
pub(super) fn word_end(text: &[u8], start: usize, quote: u8) -> Option<usize> {
    let rest = text.get(start..)?;
    let room = rest.get(..QUOTED_MAX).unwrap_or(rest);
    Some(start + room.iter().position(|&byte| byte == quote)?)
}

/// The end of the name after `=` that contains `start`.
#[inline]
pub(super) fn name_end(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let ends = |&byte: &u8| CLASSES[usize::from(byte)] == 0 && !matches!(byte, b'_' | b'-' | b'.');
    start + rest.iter().position(ends).unwrap_or(rest.len())
}

/// The end of the letters and digits from `start` on.
#[inline]
pub(super) fn run_end(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|&&byte| CLASSES[usize::from(byte)] != 0).count()
}

/// A hash over the literals of a string and the kinds of its slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Skeleton(pub u64);

impl Default for Skeleton {
    fn default() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }
}

impl Skeleton {
    #[inline]
    fn word(&mut self, word: u64) {
        let product = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }

    /// Adds the bytes before a slot, or after the last.
    #[inline]
    pub fn literal(&mut self, literal: &[u8]) {
        let (eights, rest) = literal.as_chunks::<8>();
        eights.iter().for_each(|eight| self.word(u64::from_le_bytes(*eight)));
        let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        // Seven bytes and the length.
        self.word(last | (literal.len() as u64) << 56);
    }

    #[inline]
    pub fn slot(&mut self, kind: SlotKind) {
        self.0 = self.0.rotate_left(7) ^ (1 + kind as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::{SlotKind::*, *};

    fn slots(text: &str) -> Option<Vec<(SlotKind, &str)>> {
        let mut tokens = Tokens::default();
        let slot = |slot: &Slot| (slot.kind, &text[slot.start.into()..slot.end.into()]);
        tokens.find(text.as_bytes()).then(|| tokens.slots().iter().map(slot).collect())
    }

    #[test]
    fn slots_are_the_changing_tokens() {
        let guid = "5E0F9A44-11AA-4BCD-8001-0123456789AB";
        for (text, expected) in [
            ("", vec![]),
            ("no slot at all", vec![]),
            ("7", vec![(Digits, "7")]),
            ("@a=00712,@b=-3.50", vec![(Digits, "00712"), (Digits, "3"), (Digits, "50")]),
            ("t1_x22 DEPOT03", vec![(Digits, "1"), (Digits, "22"), (Digits, "03")]),
            ("@k='5E0F9A44-11AA-4BCD-8001-0123456789AB'", vec![(Guid, guid)]),
            (
                "12345678-1234-1234-1234-123456789012",
                vec![(Guid, "12345678-1234-1234-1234-123456789012")],
            ),
            ("id 0123abcd45 ok", vec![(Hex, "0123abcd45")]),
            ("ABCDEFAB cafe", vec![]),
            ("@c=N'en-US',@d='on'", vec![(Word, "en-US"), (Word, "on")]),
            ("{\"name\":\"ash tree\"}", vec![(Word, "ash tree")]),
            ("?state=open&by=a.b-c_d;", vec![(Word, "open"), (Word, "a.b-c_d")]),
            ("don't", vec![]),
        ] {
            assert_eq!(slots(text), Some(expected), "{text}");
        }
        assert_eq!(slots(&"7,".repeat(SLOTS_MAX)).unwrap().len(), SLOTS_MAX);
        assert_eq!(slots(&"7,".repeat(SLOTS_MAX + 1)), None);
        assert_eq!(slots(&" ".repeat(TEXT_BYTES_MAX + 1)), None);
    }

    #[test]
    fn strings_of_one_skeleton_have_one_hash() {
        let hash = |text: &str| {
            let mut tokens = Tokens::default();
            tokens.find(text.as_bytes());
            tokens.hash()
        };
        assert_eq!(hash("@a=1,@b='x'"), hash("@a=4711,@b='yes'"));
        for other in ["@a=1,@b='x", "@a=1,@c='x'", "@a=z,@b='x'", "@a=1,@b='1'", "@a=1@b='x',"] {
            assert_ne!(hash("@a=1,@b='x'"), hash(other), "{other}");
        }
    }
}
