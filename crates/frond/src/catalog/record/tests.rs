//! Tests of the invariants of catalog records.

use proptest::prelude::*;

use super::*;
use crate::run::OPERATOR_NAME_BYTES_MAX;
use crate::{
    layout::{End, Hint, NewPart, Part},
    tuple,
};

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_. äß日]{1,40}"
}

fn layout() -> impl Strategy<Value = Option<Layout>> {
    prop_oneof![
        Just(None),
        Just(Some(Layout::default())),
        Just(Some(tuple::layout_of::<(u64, &str, Option<i32>)>())),
        Just(Some(Layout::new(vec![Part::Fixed(3, Hint::None), Part::Var(End::Prefixed)]))),
    ]
}

/// A layout after `changes` changes, and its history, if its rows name their version.
fn changed(layout: Option<Layout>, changes: u64) -> (Option<Layout>, History) {
    let mut history = History::default();
    if changes == 0 || layout.is_none() {
        return (layout, history);
    }
    let mut layout = Layout::versioned(layout.unwrap_or_default().parts().iter().copied());
    for _ in 1..changes {
        let kept = (1..layout.parts().len()).map(NewPart::Keep);
        let added = NewPart::Add { part: Part::Fixed(2, Hint::None), default: vec![7, 8] };
        let parts: Vec<_> = std::iter::once(added).chain(kept).collect();
        (layout, history) = history.change(&layout, &parts).expect("it is allowed");
    }
    (Some(layout), history)
}

fn any_record() -> impl Strategy<Value = Record> {
    let tree = (
        (any::<u32>(), name(), 1u8..4, any::<bool>()),
        prop::collection::vec(any::<u8>(), 0..100),
        (layout(), layout()),
        (any::<u32>(), any::<u64>()),
        prop::option::of((any::<u32>(), any::<u32>(), any::<u64>())),
        prop::collection::btree_map(64u8.., name(), 0..4),
    )
        .prop_map(
            |(
                (id, name, class, unique),
                attributes,
                layouts,
                (lineage, birth),
                parent,
                operators,
            )| {
                let (value_layout, history) = changed(layouts.1, birth % 4);
                Record::Tree(TreeRecord {
                    id: TreeId(id),
                    name,
                    size_class: SizeClass::from_disk(class).expect("a known class"),
                    unique,
                    attributes,
                    key_layout: layouts.0,
                    value_layout,
                    lineage: Lineage(lineage),
                    birth: Seqno(birth),
                    parent: parent.map(|(tree, lineage, at)| Parent {
                        tree: TreeId(tree),
                        lineage: Lineage(lineage),
                        at: Seqno(at),
                    }),
                    operators,
                    history,
                    carried: Carried::default(),
                })
            },
        );
    let piece = (prop::collection::vec(any::<u8>(), 1..256), any::<u32>(), any::<Vec<u8>>());
    let prepared = piece.prop_map(|(xid, number, content)| {
        let number = number.min(u32::MAX - 1);
        let xid = Xid::new(&xid).unwrap();
        let carried = Carried::default();
        Record::Prepared(PreparedPiece { xid, number, count: number + 1, content, carried })
    });
    prop_oneof![
        tree,
        prepared,
        (any::<u32>(), any::<u32>()).prop_map(|(tree, snapshot)| {
            Record::Counters(CounterRecord {
                next_tree: TreeId(tree),
                next_snapshot: snapshot,
                carried: Carried::default(),
            })
        }),
        (any::<u32>(), name(), any::<u64>(), any::<u64>()).prop_map(|(id, name, seqno, micros)| {
            Record::Snapshot(SnapshotRecord {
                id,
                name,
                seqno: Seqno(seqno),
                created_micros: micros,
                carried: Carried::default(),
            })
        }),
        (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(tree, lineage, at)| {
            Record::Dropped(DroppedRecord {
                tree: TreeId(tree),
                lineage: Lineage(lineage),
                at: Seqno(at),
                carried: Carried::default(),
            })
        }),
    ]
}

proptest! {
    #[test]
    fn record_round_trips_through_its_entry(record in any_record()) {
        let value = record.encode().expect("within bounds");
        prop_assert_eq!(Record::decode(&record.key(), &value), Ok(record));
    }

    /// Promise: P20. Invariants 1 and 3: flipped, cut and inserted bytes are decoded or refused.
    #[test]
    fn damaged_record_is_refused_or_canonical(
        record in any_record(), at: prop::sample::Index, byte: u8, how in 0..3,
    ) {
        let (key, mut value) = (record.key(), record.encode().expect("within bounds"));
        let at = at.index(value.len());
        match how {
            0 => value[at] ^= byte.max(1),
            1 => value.truncate(at),
            _ => value.insert(at, byte),
        }
        if let Ok(other) = Record::decode(&key, &value) {
            prop_assert_eq!(other.encode().expect("what decodes, encodes"), value);
        }
    }

    /// Promise: P20.
    #[test]
    fn any_bytes_decode_or_are_refused(
        kind in 0u8..6, key in prop::collection::vec(any::<u8>(), 0..5),
        value in prop::collection::vec(prop_oneof![0u8..12, any::<u8>()], 0..60),
    ) {
        let key = [vec![kind], key].concat();
        let value = [vec![VERSION], value].concat();
        if let Ok(record) = Record::decode(&key, &value) {
            prop_assert_eq!(record.encode().expect("what decodes, encodes"), value);
        }
    }
}

/// Invariant 2.
#[test]
fn fields_of_a_later_version_are_carried_or_refused() {
    let record = Record::Counters(CounterRecord::default());
    let value = record.encode().expect("within bounds");
    let with = |field: u64| {
        let mut fields = Fields { out: value.clone() };
        fields.bytes(field, b"later");
        fields.out
    };
    let carried = Record::decode(&record.key(), &with(64)).expect("may be carried");
    assert_eq!(carried.encode().expect("as it came"), with(64));
    assert_eq!(
        Record::decode(&record.key(), &with(3)),
        Err(DecodeError::TooNew { what: "catalog record field 3".to_owned() })
    );
    assert!(matches!(Record::decode(&[9, 0], &value), Err(DecodeError::TooNew { .. })));
    assert!(matches!(Record::decode(&record.key(), &[2]), Err(DecodeError::TooNew { .. })));
}

#[test]
fn record_under_a_wrong_key_is_refused() {
    let record =
        Record::Tree(TreeRecord { id: TreeId(7), name: "t".to_owned(), ..TreeRecord::default() });
    let value = record.encode().expect("within bounds");
    assert_eq!(Record::decode(&Record::tree_key(TreeId(7)), &value), Ok(record));
    assert!(matches!(
        Record::decode(&Record::tree_key(TreeId(8)), &value),
        Err(DecodeError::Malformed { .. })
    ));
    assert!(matches!(Record::decode(&[], &value), Err(DecodeError::Malformed { .. })));
}

#[test]
fn nothing_unreadable_is_written() {
    let tree = |name: &str| TreeRecord { name: name.to_owned(), ..TreeRecord::default() };
    let mut long = tree("t");
    long.attributes = vec![0; ATTRIBUTES_BYTES_MAX + 1];
    let mut bent = tree("t");
    bent.key_layout = Some(Layout::new(vec![]));
    for bad in [tree(""), tree("a\nb"), tree(&"x".repeat(NAME_BYTES_MAX + 1)), long, bent] {
        assert!(matches!(Record::Tree(bad).encode(), Err(Error::InvalidArgument(_))));
    }
    let mut largest = tree(&"x".repeat(NAME_BYTES_MAX));
    largest.attributes = vec![7; ATTRIBUTES_BYTES_MAX];
    largest.value_layout =
        Some(Layout::new(vec![Part::Fixed(9, Hint::None); crate::layout::LAYOUT_PARTS_MAX]));
    let name = |operator| (operator, "o".repeat(OPERATOR_NAME_BYTES_MAX));
    largest.operators = (OPERATOR_USER_MIN..=u8::MAX).map(name).collect();
    let largest = Record::Tree(largest);
    let value = largest.encode().expect("within bounds");
    assert_eq!(Record::decode(&largest.key(), &value), Ok(largest));
}

/// Promise: P20.
#[test]
fn operators_out_of_bounds_are_refused() {
    let decoded = |content: &[u8]| {
        let tree = TreeRecord { name: "t".to_owned(), ..TreeRecord::default() };
        let value = Record::Tree(tree).encode().expect("within bounds");
        let mut fields = Fields { out: value };
        fields.bytes(13, content);
        Record::decode(&Record::tree_key(TreeId(0)), &fields.out)
    };
    assert!(decoded(b"\x40\x01a\x41\x01b").is_ok());
    for bad in
        [&b""[..], b"\x3f\x01a", b"\x40\x00", b"\x40\x02a", b"\x41\x01a\x40\x01b", b"\x40\x01\n"]
    {
        assert!(matches!(decoded(bad), Err(DecodeError::Malformed { .. })), "{bad:?}");
    }
}
