//! Build script: links the rivals that are installed if the feature `lab` is enabled, and collects
//! the files of the SQL targets.
//!
//! A missing rival is not a build error: its target then reports which package to install.

use std::path::Path;

const RIVALS: [&str; 3] = ["rocksdb", "sqlite3", "lmdb"]; // rusqlite needs SQLite

/// One file for each SQL target of the program `lab`.
const TARGETS: &str = "lab/targets";

/// Lists the target files, with their text, for `lab/target.rs`.
fn list_targets() {
    println!("cargo:rerun-if-changed={TARGETS}");
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let files = std::fs::read_dir(TARGETS).expect("the directory of target files is there");
    let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut list =
        String::from("/// Name and text of each file.\nconst FILES: &[(&str, &str)] = &[\n");
    for path in paths {
        println!("cargo:rerun-if-changed={}", path.display());
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        list += &format!("    ({name:?}, include_str!({:?})),\n", Path::new(&root).join(&path));
    }
    list += "];\n";
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("lab_targets.rs"), list).expect("OUT_DIR can be written");
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    list_targets();
    for rival in RIVALS {
        println!("cargo:rustc-check-cfg=cfg(has_{rival})");
    }
    build_environment();
    if std::env::var_os("CARGO_FEATURE_LAB").is_none() {
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

/// What built the lab, for the environment of its runs.
fn build_environment() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = std::process::Command::new(rustc).arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo:rustc-env=FROND_LAB_RUSTC={}", version.unwrap_or_default());
    // PROFILE says debug or release for every profile; the profile's own name is a part of the path
    // of the output: target/NAME/build/frond-lab-HASH/out.
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let name = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo:rustc-env=FROND_LAB_PROFILE={name}, opt-level {level}");
}
