//! Tests of rows of one length: taken many at a time, they equal those taken one by one.

use super::{
    super::{ColumnarBuilder, ColumnarRows, Columns, Plans},
    Both, Noise, Rows, trained,
};
use crate::{
    block::{
        Codec,
        columnar::{ColumnSelection, EvenLines},
    },
    coding::put_bytes,
    layout::{End, Hint, Layout, Part},
    message::Tag,
    sync::Arc,
};

/// A random string of a form: `9` is a digit, `f` and `F` are hexadecimal digits, `*` is any byte,
/// and others stand for themselves.
fn of_form(noise: &mut Noise, form: &str) -> Vec<u8> {
    let byte = |form: u8| match form {
        b'9' => b'0' + noise.below(10) as u8,
        b'f' => b"0123456789abcdef"[noise.below(16) as usize],
        b'F' => b"0123456789ABCDEF"[noise.below(16) as usize],
        b'*' => noise.below(256) as u8,
        other => other,
    };
    form.bytes().map(byte).collect()
}

pub(super) fn columns() -> Arc<Columns> {
    let key = Layout::new(vec![Part::Fixed(4, Hint::Integer)]);
    let value = vec![
        Part::Version(0),
        Part::Fixed(4, Hint::Integer),
        Part::Var(End::Prefixed),
        Part::Fixed(2, Hint::Integer),
        Part::Var(End::Prefixed),
    ];
    Arc::new(Columns::new(&key, &Layout::new(value)))
}

/// `count` rows of two strings of these forms, sometimes with a string of another length, or
/// without a value.
pub(super) fn rows(noise: &mut Noise, count: u32, forms: (&str, &str), odd: u64) -> Rows {
    let mut rows = Rows::new();
    for number in 0..count {
        let mut value = vec![0, 0];
        value.extend_from_slice(&(noise.below(1 << 20) as u32).to_be_bytes());
        let mut first = of_form(noise, forms.0);
        let is_odd = odd > 0 && noise.below(odd) == 0;
        if is_odd {
            first.push(b'!');
        }
        put_bytes(&mut value, &first);
        value.extend_from_slice(&(noise.below(1000) as u16).to_be_bytes());
        put_bytes(&mut value, &of_form(noise, forms.1));
        let (tag, value) = match is_odd && noise.below(2) == 0 {
            true => (Tag::DELETE, vec![]),
            false => (Tag::PUT, value),
        };
        rows.insert((3 * number).to_be_bytes().to_vec(), (tag, value));
    }
    rows
}

impl Both {
    /// Walks from several rows on, up to a limit, that take as many rows at once as possible, and
    /// sometimes fewer. Returns how many were taken in this way.
    pub(super) fn assert_walks(&self, noise: &mut Noise, selection: &ColumnSelection) -> usize {
        let columnar = self.parse_again();
        let (mut at, mut one) =
            (ColumnarRows::new(selection.clone()), ColumnarRows::new(selection.clone()));
        let mut at_once = 0;
        for start in [0, self.rows.len() / 3, self.rows.len() - 1] {
            let end = start + 1 + noise.below((self.rows.len() - start) as u64) as usize;
            at.leave(Default::default());
            at.expect(1 + noise.below(300) as usize);
            if let Some((key, ..)) = self.rows.get(end) {
                at.set_limit(&columnar, key).unwrap();
            }
            assert!(at.seek(&columnar, &self.rows[start].0).unwrap());
            let mut walked = Vec::new();
            loop {
                let few = 1 + noise.below(400) as usize;
                let taken = at.take_even(|rows, is_whole| {
                    let taken = rows.rows.min(few);
                    for row in 0..taken {
                        let line = |lines: EvenLines<'_>| {
                            lines.bytes[row * lines.apart..][..lines.width].to_vec()
                        };
                        walked.push((line(rows.keys), Tag::PUT, line(rows.values), is_whole));
                    }
                    at_once += taken;
                    Some((taken, true))
                });
                if taken.is_none() {
                    let taken = at.each_decoded(|key, tag, payload, is_whole| {
                        walked.push((
                            key.to_vec(),
                            tag.without_fresh(),
                            payload.to_vec(),
                            is_whole,
                        ));
                        Ok::<_, ()>(true)
                    });
                    assert_eq!(taken, Ok(true));
                }
                if at.is_before_limit() || !at.next(&columnar).unwrap() {
                    break;
                }
            }
            assert_eq!(walked.len(), end - start);
            for ((key, tag, payload, is_whole), row) in walked.iter().zip(start..) {
                one.row_at(&columnar, row).unwrap();
                assert_eq!((&key[..], *tag), (one.key(), one.tag().without_fresh()));
                assert_eq!((&payload[..], *is_whole), (one.payload(), one.is_whole()));
            }
        }
        at_once
    }
}

#[test]
fn rows_of_one_length_are_decoded_in_bulk() {
    let columns = columns();
    let mut noise = Noise(7);
    // Runs of one to fifteen digits, constants that fit after the last of them and others, and
    // constants at both ends.
    let digits: String = (1..16).map(|count| "9".repeat(count) + &"-".repeat(count % 5)).collect();
    let sixteens = "ffffffff-ffff-ffff-ffff-ffffffffffff";
    for forms in [
        (&digits[..], sixteens),
        ("99999999999-99999999999-99999999999", "9"),
        ("<99:99:99.999999>", "FFFFF{}FFFFFFFFF"),
        ("9999-99-99", "x"),
        ("999999999999 is a number of an order, and this is its text", "99999999999999999999"),
    ] {
        for odd in [0, 200] {
            let mut plans = Plans::new(&columns);
            let first = rows(&mut noise, 700, forms, odd);
            let models = trained(&columns, &first, &mut plans);
            let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, plans);
            for with in [&models[..], &[]] {
                let both = Both::new(&mut builder, &columns, with, &first);
                both.assert_reads();
                for selection in [
                    ColumnSelection::All,
                    ColumnSelection::Nothing,
                    columns.project(&[1]),
                    columns.project(&[2]),
                    columns.project(&[1, 4]),
                    columns.project(&[2, 3, 4]),
                ] {
                    let at_once = both.assert_walks(&mut noise, &selection);
                    // Other columns may be of other kinds: few distinct strings become a
                    // dictionary.
                    let is_shape = selection == columns.project(&[2]);
                    assert!(!is_shape || odd > 0 || with.is_empty() || at_once > 0, "{forms:?}");
                }
            }
        }
    }
}
