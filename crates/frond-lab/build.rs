//! Build script: links the rivals that are installed if the feature `lab` is enabled, collects the
//! files of the SQL targets, and records what the lab was built from.
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

/// What the lab was built from and how, for the environment of its runs.
fn build_environment() {
    source();
    // Cargo separates the flags by 0x1f.
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    println!("cargo:rustc-env=FROND_LAB_RUSTFLAGS={}", flags.replace('\x1f', " "));
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
    println!("cargo:rustc-env=FROND_LAB_PROFILE={name}");
    println!("cargo:rustc-env=FROND_LAB_OPT_LEVEL={level}");
    // The profile's other settings are in Cargo.toml, unless the environment overrides them.
    for setting in ["LTO", "CODEGEN_UNITS"] {
        let variable = format!("CARGO_PROFILE_{}_{setting}", name.to_uppercase().replace('-', "_"));
        println!("cargo:rerun-if-env-changed={variable}");
        let value = std::env::var(&variable).unwrap_or_default();
        println!("cargo:rustc-env=FROND_LAB_{setting}={value}");
    }
}

/// The commit that is built, and whether tracked files of the program differ from it.
fn source() {
    const WATCHED: [&str; 6] = [
        "Cargo.toml",
        "Cargo.lock",
        "crates/frond/Cargo.toml",
        "crates/frond/src",
        "crates/frond-lab/lab",
        "crates/frond-lab/src",
    ];
    let root =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let git = |words: &[&str]| {
        let output =
            std::process::Command::new("git").arg("-C").arg(&root).args(words).output().ok()?;
        let text = output.status.success().then_some(output.stdout)?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    };
    let unknown = || "unknown".to_owned();
    let commit = git(&["rev-parse", "HEAD"]).unwrap_or_else(unknown);
    let status = [&["status", "--porcelain", "--untracked-files=no", "--"], &WATCHED[..]].concat();
    let dirty = git(&status).map(|changes| (!changes.is_empty()).to_string());
    println!("cargo:rustc-env=FROND_LAB_COMMIT={commit}");
    println!("cargo:rustc-env=FROND_LAB_DIRTY={}", dirty.unwrap_or_else(unknown));
    for path in WATCHED {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    // Builds that are measured follow the commit, too, even if it changes none of these files. For
    // others that would cost a build after each commit.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).map(|log| root.join(log));
    let is_measured = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if let Some(log) = log.filter(|log| is_measured && log.is_file()) {
        println!("cargo:rerun-if-changed={}", log.display());
    }
}
