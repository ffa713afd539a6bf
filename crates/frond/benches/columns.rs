//! What columns and blocks of them take, and what writing, reading and searching them costs.
//! `cargo bench -p frond --bench columns`.

#[path = "columns/blocks.rs"]
mod blocks;
#[path = "columns/integers.rs"]
mod integers;
#[path = "columns/logs.rs"]
mod logs;
#[path = "columns/strings.rs"]
mod strings;

fn main() {
    blocks::print();
    println!();
    integers::print();
    println!();
    strings::print();
    println!();
    logs::print();
}
