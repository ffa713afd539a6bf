//! Tests of spans: they do not overlap, are counted, and are given back beyond the limit.

use proptest::prelude::*;

use super::*;

const LARGE: usize = slab::LARGE_BYTES;

fn fill(span: &mut Span, mark: u8) {
    span.bytes_mut().fill(mark);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 64 }, ..ProptestConfig::default() })]

    /// For any sequence of steps, no span holds bytes of another, spans are aligned as asked for,
    /// and the counters match reality.
    #[test]
    fn spans_are_disjoint_and_counted(
        steps in prop::collection::vec(
            (0usize..4, 1usize..60_000, prop::sample::select(vec![1usize, 1024, 4096])),
            1..if cfg!(miri) { 20 } else { 400 },
        ),
    ) {
        let spans = Spans::new(LARGE);
        let mut held: Vec<(Span, u8)> = Vec::new();
        for (step, (kind, bytes, align)) in steps.into_iter().enumerate() {
            if kind == 3 {
                // As if something else needed the memory for a while.
                let limit = if align == 1 { LARGE } else { bytes * 16 };
                spans.set_limit(limit);
                let slabs = spans.slabs.lock().unwrap();
                let holes = slabs.maps.iter().flatten().map(Map::pages_free).sum::<usize>();
                let most = limit + limit / TOLERATED_DIVISOR;
                assert!(spans.mapped_bytes() <= most || holes == 0, "{holes} pages that are not needed");
                continue;
            }
            if kind == 0 && !held.is_empty() {
                let (span, mark) = held.swap_remove(bytes % held.len());
                assert!(span.bytes().iter().all(|&byte| byte == mark));
                spans.give_back(span);
                continue;
            }
            let beyond = || (kind == 2).then(|| spans.take_beyond(bytes, align));
            let Some(mut span) = spans.take(bytes, align).or_else(beyond) else {
                assert!(spans.mapped_bytes() + LARGE > spans.limit.load(Ordering::Relaxed));
                continue;
            };
            assert_eq!(span.base().align_offset(align), 0);
            assert_eq!(span.bytes().len(), bytes.next_multiple_of(UNIT_BYTES));
            fill(&mut span, step as u8);
            held.push((span, step as u8));
        }
        let taken: usize = held.iter().map(|(span, _)| span.bytes().len()).sum();
        assert_eq!(spans.taken_bytes(), taken);
        assert!(spans.mapped_bytes() >= taken);
        for (span, mark) in held {
            assert!(span.bytes().iter().all(|&byte| byte == mark));
            spans.give_back(span);
        }
        spans.set_limit(LARGE);
        let slabs = spans.slabs.lock().unwrap();
        let maps: Vec<&Map> = slabs.maps.iter().flatten().collect();
        assert_eq!(slabs.empty, maps.len());
        let marked = |map: &Map| map.taken.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        assert!(maps.iter().all(|map| map.is_empty() && marked(map) == map.given));
        assert_eq!(slabs.given.iter().map(|hole| hole.units).sum::<usize>(), maps.iter().map(|map| map.given).sum());
        let mapped = maps.iter().map(|map| map.slab.bytes() - map.given * UNIT_BYTES).sum::<usize>();
        assert_eq!(mapped, spans.mapped_bytes());
        assert!(spans.mapped_bytes() <= LARGE + LARGE, "what is empty beyond the limit is given back");
    }
}

impl Map {
    /// Pages in holes that are long enough to be given back.
    fn pages_free(&self) -> usize {
        let page_units = slab::page_bytes() / UNIT_BYTES;
        let (mut at, mut pages) = (0, 0);
        while at < self.units() {
            let hole = self.next(at, false);
            at = self.next(hole, true);
            let whole = at.saturating_sub(hole.next_multiple_of(page_units)) / page_units;
            pages += if whole >= GIVEN_PAGES_MIN { whole } else { 0 };
        }
        pages
    }
}

#[test]
fn holes_beyond_the_limit_are_released_and_reusable() {
    let spans = Spans::new(LARGE);
    let mut held: Vec<_> = (0..64).filter_map(|_| spans.take(32 * UNIT_BYTES, 1)).collect();
    held.iter_mut().for_each(|span| fill(span, 7));
    // Every slab keeps every other span.
    let mut number = 0;
    let (kept, freed): (Vec<_>, Vec<_>) = held.into_iter().partition(|_| {
        number += 1;
        number % 2 == 0
    });
    freed.into_iter().for_each(|span| spans.give_back(span));
    assert_eq!(spans.mapped_bytes(), LARGE);
    spans.set_limit(LARGE / 2);
    assert_eq!(spans.mapped_bytes(), LARGE / 2 + LARGE / 64);
    assert!(spans.take(36 * UNIT_BYTES, 1).is_none(), "there is no more memory");
    spans.set_limit(LARGE);
    let mut again: Vec<_> = (0..32).filter_map(|_| spans.take(32 * UNIT_BYTES, 4096)).collect();
    assert_eq!((again.len(), spans.mapped_bytes()), (32, LARGE));
    again.iter_mut().for_each(|span| fill(span, 9));
    assert!(kept.iter().all(|span| span.bytes().iter().all(|&byte| byte == 7)));
    kept.into_iter().chain(again).for_each(|span| spans.give_back(span));
    assert_eq!(spans.taken_bytes(), 0);
}

#[test]
fn adjacent_holes_are_merged() {
    let spans = Spans::new(slab::SMALL_BYTES);
    let mut held: Vec<_> = (0..8).map(|_| spans.take(30 * UNIT_BYTES, 1)).collect();
    let first = held[2].as_ref().map(|span| span.place);
    // The order in which they are given back does not matter. No other hole is as long: 256 units
    // hold eight spans of thirty.
    for order in [[2, 3, 4], [4, 3, 2], [2, 4, 3]] {
        order.into_iter().filter_map(|at| held[at].take()).for_each(|span| spans.give_back(span));
        let long = spans.take(90 * UNIT_BYTES, 1).expect("three holes are one");
        assert_eq!(Some(long.place), first);
        spans.give_back(long);
        held[2..5].fill_with(|| spans.take(30 * UNIT_BYTES, 1));
    }
    assert!(held.iter().all(Option::is_some));
    held.into_iter().flatten().for_each(|span| spans.give_back(span));
    assert_eq!((spans.taken_bytes(), spans.mapped_bytes()), (0, slab::SMALL_BYTES));
}

#[test]
fn the_limit_holds_and_a_hole_is_used_at_it() {
    let spans = Spans::new(slab::SMALL_BYTES);
    let held: Vec<Span> = std::iter::from_fn(|| spans.take(20_000, 1)).collect();
    assert_eq!(held.len(), slab::SMALL_BYTES / UNIT_BYTES / 20);
    assert_eq!(spans.mapped_bytes(), slab::SMALL_BYTES);
    let beyond = spans.take_beyond(20_000, 1);
    assert!(spans.mapped_bytes() > slab::SMALL_BYTES);
    let mut held = held.into_iter();
    spans.give_back(held.next().unwrap());
    let again = spans.take(20_000, 1).expect("a hole as long");
    // The slab that was empty first stays; the other empty ones go.
    for span in held.chain([beyond, again]) {
        spans.give_back(span);
    }
    assert_eq!(spans.mapped_bytes(), slab::SMALL_BYTES);
    assert_eq!(spans.taken_bytes(), 0);
}
