//! Benchmark of writing and reading tuple keys, per key: `cargo bench -p frond-db --bench tuple`.

use std::{borrow::Cow, hint::black_box, time::Instant};

use frond::tuple::{self, Desc, Key, TupleEncode};

const KEYS: u64 = 5_000_000;

fn main() {
    let name = "a name of a person";
    let mut out = Vec::with_capacity(64);
    measure("encode (u64,)", |n| {
        out.clear();
        (n,).encode_into(&mut out);
        out.len()
    });
    measure("encode (u64, &str 18, Desc<i32>)", |n| {
        out.clear();
        (n, name, Desc(n as i32)).encode_into(&mut out);
        out.len()
    });
    let mut key = Key::new();
    measure("Key::reuse .u64 .str .desc .i32", |n| {
        key = Key::reuse(std::mem::take(&mut key)).u64(n).str(name).desc().i32(n as i32);
        key.len()
    });
    let stored = tuple::encode(&(7u64, name, Desc(-1i32)));
    measure("decode (u64, String, Desc<i32>)", |_| {
        let (id, name, _): (u64, String, Desc<i32>) =
            tuple::decode(black_box(&stored)).expect("it was written so");
        name.len() + id as usize
    });
    measure("decode (u64, Cow<str>, Desc<i32>)", |_| {
        let (id, name, _): (u64, Cow<'_, str>, Desc<i32>) =
            tuple::decode(black_box(&stored)).expect("it was written so");
        name.len() + id as usize
    });
    let layout = tuple::layout_of::<(u64, &str, Desc<i32>)>();
    let mut ends = Vec::new();
    measure("split by layout", |_| {
        ends.clear();
        layout.split(black_box(&stored), &mut ends);
        ends.len()
    });
}

fn measure(what: &str, mut work: impl FnMut(u64) -> usize) {
    let begin = Instant::now();
    for n in 0..KEYS {
        black_box(work(black_box(n)));
    }
    println!("{what:<36}{:7.1} ns", begin.elapsed().as_nanos() as f64 / KEYS as f64);
}
