//! What columns take, and what writing, reading and searching them costs.
//! `cargo bench -p frond --bench columns`.

#[path = "columns/integers.rs"]
mod integers;
#[path = "columns/strings.rs"]
mod strings;

fn main() {
    integers::print();
    println!();
    strings::print();
}
