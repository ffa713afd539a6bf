//! Tests that the header in the repository is generated from the sources. `FROND_WRITE_HEADER=1`
//! writes it.

#[path = "../../frond-c-macro/src/expand.rs"]
mod expand;

use std::path::Path;

use syn::Item;

/// The items of a module and of the modules inside it, with `#[api]` functions expanded to C.
fn expanded(file: &Path) -> Vec<Item> {
    let mut items = syn::parse_file(&std::fs::read_to_string(file).unwrap()).unwrap().items;
    for item in &mut items {
        match item {
            Item::Mod(inner) if inner.content.is_none() => {
                let folder = match file.file_stem().unwrap().to_str().unwrap() {
                    "lib" | "mod" => file.parent().unwrap().to_owned(),
                    _ => file.with_extension(""),
                };
                let name = inner.ident.to_string();
                let found = [folder.join(&name).join("mod.rs"), folder.join(name + ".rs")];
                let inside = expanded(found.iter().find(|file| file.exists()).unwrap());
                inner.content = Some((Default::default(), inside));
            }
            Item::Fn(function) => {
                let before = function.attrs.len();
                function.attrs.retain(|attribute| !attribute.path().is_ident("api"));
                if function.attrs.len() < before {
                    *item = syn::parse2(expand::expand(function.clone()).unwrap()).unwrap();
                }
            }
            _ => {}
        }
    }
    items
}

/// The header generated from the current sources.
fn made() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (source, items) = (dir.path().join("frond_c.rs"), expanded(&root.join("src/lib.rs")));
    std::fs::write(&source, quote::quote!(#(#items)*).to_string()).unwrap();
    let made = cbindgen::Builder::new().with_src(source).with_config(config).generate().unwrap();
    let mut text = Vec::new();
    made.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_matches_the_sources() {
    let (made, place) = (made(), Path::new(env!("CARGO_MANIFEST_DIR")).join("include/frond.h"));
    if std::env::var_os("FROND_WRITE_HEADER").is_some() {
        std::fs::write(&place, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(
        kept == made,
        "include/frond.h is out of date: run this test with FROND_WRITE_HEADER=1"
    );
}

/// A constant that is not a literal is silently left out of the header.
#[test]
fn every_constant_is_in_the_header() {
    let (header, mut constants) = (made(), 0);
    let mut found = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(path) = found.pop() {
        if path.is_dir() {
            found.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        for (_, rest) in text.match_indices("pub const FROND_").map(|(at, _)| text.split_at(at)) {
            let name = rest["pub const ".len()..].split(':').next().unwrap();
            assert!(header.contains(&format!("#define {name} ")), "{name} is not in frond.h");
            constants += 1;
        }
    }
    assert!(constants > 30, "{constants} constants: the sources were not found");
}
