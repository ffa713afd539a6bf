//! What columns take, and what writing, reading and searching them costs.
//! `cargo bench -p frond --bench columns`.

#[path = "columns/strings.rs"]
mod strings;

fn main() {
    strings::print();
}
