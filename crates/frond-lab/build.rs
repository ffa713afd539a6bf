//! Links the rivals that are installed, when the feature `compare` asks for them.
//!
//! A rival that is missing is no build error: its target then says which package to install.

use std::path::Path;

const RIVALS: [&str; 3] = ["rocksdb", "sqlite3", "lmdb"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for rival in RIVALS {
        println!("cargo:rustc-check-cfg=cfg(has_{rival})");
    }
    if std::env::var_os("CARGO_FEATURE_COMPARE").is_none() {
        return;
    }
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let places = [
        format!("/usr/lib/{arch}-linux-gnu"),
        "/usr/lib64".to_owned(),
        "/usr/lib".to_owned(),
        "/usr/local/lib".to_owned(),
    ];
    for rival in RIVALS {
        for place in &places {
            let library = format!("{place}/lib{rival}.so");
            println!("cargo:rerun-if-changed={library}");
            if Path::new(&library).exists() {
                println!("cargo:rustc-cfg=has_{rival}");
                println!("cargo:rustc-link-search=native={place}");
                println!("cargo:rustc-link-lib=dylib={rival}");
                break;
            }
        }
    }
}
