//! The header in the repository is the one that the sources make. `FROND_WRITE_HEADER=1` writes it.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap();
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).unwrap();
    let place = root.join("include/frond.h");
    if std::env::var_os("FROND_WRITE_HEADER").is_some() {
        std::fs::write(&place, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(
        kept == text,
        "include/frond.h is not of these sources: run this with FROND_WRITE_HEADER=1"
    );
}
