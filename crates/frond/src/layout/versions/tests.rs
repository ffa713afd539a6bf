//! Rows of random tables that change at random, compared with tables that rewrite every row.

use proptest::prelude::*;

use super::*;
use crate::bounds;
use crate::{
    block::columnar::Columns as ColumnarBlock,
    coding::put_varint,
    layout::{End, Hint},
};

/// A column of a changing table: its name, its part, and its default for earlier rows.
#[derive(Clone, PartialEq, Debug)]
struct Named {
    name: u32,
    part: Part,
    default: Vec<u8>,
}

/// The table: its current columns, and how many were ever added.
#[derive(Clone, Debug)]
struct Columns {
    now: Vec<Named>,
    names: u32,
}

fn part_of(kind: u8) -> Part {
    match kind % 5 {
        0 => Part::Fixed(4, Hint::Integer),
        1 => Part::Fixed(8, Hint::Float),
        2 => Part::Fixed(20, Hint::None),
        3 => Part::Var(End::Escaped),
        _ => Part::Var(End::Prefixed),
    }
}

/// The bytes of a part that encode `seed`.
fn bytes_of(part: Part, seed: u8) -> Vec<u8> {
    match part {
        Part::Fixed(width, _) => vec![seed; width.into()],
        Part::Var(End::Escaped) => {
            [&vec![seed.max(2); usize::from(seed) % 7][..], &[0, 1]].concat()
        }
        Part::Var(_) => {
            let mut out = Vec::new();
            put_varint(&mut out, u64::from(seed));
            out.resize(out.len() + usize::from(seed), seed);
            out
        }
        Part::Version(_) => unreachable!("comes by itself"),
    }
}

impl Columns {
    fn add(&mut self, kind: u8, seed: u8) -> Named {
        self.names += 1;
        let part = part_of(kind);
        Named { name: self.names, part, default: bytes_of(part, seed) }
    }

    /// Changes columns according to `choices`, and returns the parts for the layout.
    fn change(&mut self, choices: &[(u8, u8)]) -> Vec<NewPart> {
        let before = self.now.clone();
        for &(what, seed) in choices {
            let at = usize::from(seed) % (self.now.len() + 1);
            match what % 3 {
                0 => {
                    let added = self.add(what / 3, seed);
                    self.now.insert(at, added);
                }
                1 if at < self.now.len() && self.now.len() > 1 => drop(self.now.remove(at)),
                _ if at < self.now.len() => self.now.rotate_left(at),
                _ => {}
            }
        }
        let place = |named: &Named| before.iter().position(|other| other.name == named.name);
        let new = |named: &Named| match place(named) {
            Some(place) => NewPart::Keep(place + 1),
            None => NewPart::Add { part: named.part, default: named.default.clone() },
        };
        self.now.iter().map(new).collect()
    }

    /// A row: each column has bytes derived from `seed` and its name.
    fn row(&self, version: u16, seed: u8) -> Vec<u8> {
        let parts = self.now.iter().map(|named| bytes_of(named.part, seed ^ named.name as u8));
        [version.to_be_bytes().to_vec(), parts.collect::<Vec<_>>().concat()].concat()
    }

    /// The current form of a row that was written when the table had these columns.
    fn mapped(&self, then: &Columns, version: u16, seed: u8) -> Vec<u8> {
        let part = |named: &Named| match then.now.iter().any(|other| other.name == named.name) {
            true => bytes_of(named.part, seed ^ named.name as u8),
            false => named.default.clone(),
        };
        let parts: Vec<_> = self.now.iter().map(part).collect();
        [version.to_be_bytes().to_vec(), parts.concat()].concat()
    }
}

type Changes = Vec<Vec<(u8, u8)>>;

fn changes() -> impl Strategy<Value = Changes> {
    prop::collection::vec(prop::collection::vec(any::<(u8, u8)>(), 1..4), 0..12)
}

/// All states of a table with these changes, its final layout, and its history.
fn lived(changes: &Changes) -> (Vec<Columns>, Layout, History) {
    let mut columns = Columns { now: Vec::new(), names: 0 };
    for kind in 0..3 {
        let added = columns.add(kind, 1);
        columns.now.push(added);
    }
    let mut layout = Layout::versioned(columns.now.iter().map(|named| named.part));
    let mut history = History::default();
    let mut states = vec![columns.clone()];
    for choices in changes {
        let parts = columns.change(choices);
        (layout, history) = history.change(&layout, &parts).expect("it is allowed");
        states.push(columns.clone());
    }
    (states, layout, history)
}

proptest! {
    /// Rule: I49. However many changes lie between, a row is what it would be if each change had
    /// rewritten it.
    #[test]
    fn rows_of_every_version_are_mapped_to_the_newest(changes in changes(), seed: u8) {
        let (states, layout, history) = lived(&changes);
        let versions = history.versions(&layout).unwrap().expect("rows name their version");
        let newest = states.last().unwrap();
        prop_assert_eq!(usize::from(versions.newest()), changes.len());
        let mut mapped = Vec::new();
        for (version, then) in (0u16..).zip(&states) {
            let row = then.row(version, seed);
            let expected = newest.mapped(then, versions.newest(), seed);
            match versions.map(&row, &mut mapped) {
                Standing::AsItIs => prop_assert_eq!(&row, &expected),
                Standing::Mapped => prop_assert_eq!(&mapped, &expected),
                Standing::Newer(_) => prop_assert!(false, "there is none"),
            }
            let mut ends = Vec::new();
            prop_assert!(layout.split(&expected, &mut ends), "Invariant 2");
            // A reader that knows only versions up to this one returns the row unchanged, and sees
            // that later ones are newer.
            let known = History { changes: history.changes[..version.into()].to_vec() };
            let known = match history.changes.get(usize::from(version)) {
                Some(change) => known.versions(&change.before),
                None => known.versions(&layout),
            };
            let known = known.unwrap().unwrap();
            prop_assert_eq!(known.map(&row, &mut mapped), Standing::AsItIs);
            let later = newest.row(versions.newest(), seed);
            if version < versions.newest() {
                prop_assert_eq!(known.map(&later, &mut mapped), Standing::Newer(versions.newest()));
            }
        }
    }

    #[test]
    fn layout_histories_round_trip(changes in changes()) {
        let (_, layout, history) = lived(&changes);
        let mut bytes = Vec::new();
        history.encode(&mut bytes);
        prop_assert_eq!(History::decode(&bytes), Ok(history));
        prop_assert!(layout.validate().is_ok());
    }

    /// Promise: P20. Invariants 3 and 4: what decodes is canonical, and maps any row or leaves it.
    #[test]
    fn any_bytes_are_a_history_or_refused(
        changes in changes(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        row in prop::collection::vec(0u8..20, 0..60),
    ) {
        let (_, layout, history) = lived(&changes);
        let mut bytes = Vec::new();
        history.encode(&mut bytes);
        for (at, to) in flips {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        let Ok(decoded) = History::decode(&bytes) else { return Ok(()) };
        let mut again = Vec::new();
        decoded.encode(&mut again);
        prop_assert_eq!(again, bytes);
        if let Ok(Some(versions)) = decoded.versions(&layout) {
            let mut mapped = Vec::new();
            if versions.map(&row, &mut mapped) == Standing::Mapped {
                prop_assert!(layout.split(&mapped, &mut Vec::new()));
            }
        }
    }
}

#[test]
fn malformed_rows_are_not_mapped() {
    let layout = Layout::versioned([Part::Fixed(4, Hint::Integer)]);
    let added = NewPart::Add { part: Part::Fixed(1, Hint::None), default: vec![9] };
    let (layout, history) =
        History::default().change(&layout, &[NewPart::Keep(1), added]).expect("it is allowed");
    let versions = history.versions(&layout).unwrap().unwrap();
    let mut mapped = Vec::new();
    for row in [&[][..], &[0], &[0, 0], &[0, 0, 1, 2, 3], &[0, 0, 1, 2, 3, 4, 5], &[0, 1]] {
        assert_eq!(versions.map(row, &mut mapped), Standing::AsItIs, "{row:?}");
    }
    assert_eq!(versions.map(&[0, 0, 1, 2, 3, 4], &mut mapped), Standing::Mapped);
    assert_eq!(mapped, [0, 1, 1, 2, 3, 4, 9]);
}

#[test]
fn invalid_layout_changes_are_refused() {
    let number = Part::Fixed(4, Hint::Integer);
    let rest = Part::Var(End::Rest);
    let layout = Layout::versioned([number, rest]);
    let add = |part, default: &[u8]| NewPart::Add { part, default: default.to_vec() };
    let refused: &[&[NewPart]] = &[
        &[NewPart::Keep(0)],
        &[NewPart::Keep(3)],
        &[NewPart::Keep(1), NewPart::Keep(1)],
        &[NewPart::Keep(2), NewPart::Keep(1)],
        &[add(number, &[1, 2, 3])],
        &[add(number, &[1, 2, 3, 4, 5])],
        &[add(Part::Var(End::Escaped), &[1])],
        &[add(Part::Version(7), &[0, 7])],
        &[add(rest, &vec![1; bounds::LAYOUT_DEFAULTS_BYTES.len() + 1])],
    ];
    for parts in refused {
        let changed = History::default().change(&layout, parts);
        assert!(matches!(changed, Err(Error::InvalidArgument(_))), "{parts:?}: {changed:?}");
    }
    let unnamed = Layout::new(vec![number]);
    assert!(History::default().change(&unnamed, &[NewPart::Keep(1)]).is_err());
    // Even a layout with nothing but the version is allowed.
    assert!(History::default().change(&layout, &[]).is_ok());
}

#[test]
fn the_number_of_layout_changes_is_bounded() {
    let number = Part::Fixed(4, Hint::Integer);
    let mut layout = Layout::versioned([number]);
    let mut history = History::default();
    for _ in 0..bounds::LAYOUT_CHANGES.len() {
        (layout, history) = history.change(&layout, &[NewPart::Keep(1)]).expect("there is room");
    }
    assert!(history.change(&layout, &[NewPart::Keep(1)]).is_err());
    let versions = history.versions(&layout).unwrap().unwrap();
    let mut mapped = Vec::new();
    assert_eq!(versions.map(&[0, 0, 1, 2, 3, 4], &mut mapped), Standing::Mapped);
    assert_eq!(mapped, [0, 255, 1, 2, 3, 4]);
}

/// A column number means one part in all rows of a block, even if two versions have similar parts.
#[test]
fn a_row_of_another_version_fits_no_columns() {
    let number = Part::Fixed(1, Hint::Integer);
    let layout = Layout::versioned([number, number]);
    let turned = [NewPart::Keep(2), NewPart::Keep(1)];
    let (layout, _) = History::default().change(&layout, &turned).expect("it is allowed");
    let columns = ColumnarBlock::new(&Layout::default(), &layout);
    assert!(columns.fits(&[0, 1, 7, 8]));
    assert!(!columns.fits(&[0, 0, 7, 8]));
    assert!(!columns.fits(&[0, 1, 7]));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "layout: a row that is mapped keeps the version that it had" =>
            malformed_rows_are_not_mapped,
        "layout: a row of any version fits" => a_row_of_another_version_fits_no_columns,
    };
    crate::plant::assert_claims_hold("layout", claims);
}
