//! `--dump`: the trees of a dump, all of them or none.

use std::{collections::BTreeMap, io::BufRead, path::Path};

use frond::{Db, Options, TreeId, load::BulkLoad};

use crate::{
    common::{count_of, open_or_create, say},
    dump::{Described, End},
    escape::unescape,
    fail::{Fail, Result, error},
    interrupt,
    rows::{Header, index_name},
};

use super::{
    Args,
    input::{nothing_loaded, open_text},
};

/// Creates the trees of a dump with all their entries.
pub fn run(args: &Args, path: &Path) -> Result {
    let cannot = |why| Fail::Error(format!("cannot read {}: {why}", path.display()));
    interrupt::catch("stopping; press Ctrl-C again to stop immediately")?;
    let (mut input, _) = open_text((path != Path::new("-")).then_some(path)).map_err(cannot)?;
    // A file that is not a dump must not leave a store behind.
    let start = match input.fill_buf() {
        Err(_) if interrupt::is_requested() => return Err(nothing_loaded()),
        start => start.map_err(cannot)?.first(),
    };
    if start != Some(&b'\t') {
        return error(format!(
            "{} is not the output of `frond dump`; nothing was loaded",
            path.display()
        ));
    }
    let options = Options::new().cache_size(args.store.memory).durability(args.durability);
    let db = open_or_create(&args.store.dir, options)?;
    let loaded = load(&db, &mut *input, cannot);
    let closed = db.close();
    let End { trees, entries } = loaded?;
    closed?;
    say(&format!("{} in {}", count_of(entries, "entry"), count_of(trees, "tree")))
}

/// Returns the numbers of trees and entries, which the last line of the dump confirms.
fn load(db: &Db, input: &mut dyn BufRead, cannot: impl Fn(std::io::Error) -> Fail) -> Result<End> {
    let mut loads: Vec<BulkLoad> = Vec::new();
    let mut headers: BTreeMap<String, Option<Header>> = BTreeMap::new();
    let (mut text, mut name) = (String::new(), String::new());
    let (mut found, mut end) = (End::default(), None);
    for number in 1u64.. {
        text.clear();
        let read = input.read_line(&mut text);
        if interrupt::is_requested() {
            return Err(nothing_loaded());
        }
        if read.map_err(&cannot)? == 0 {
            break;
        }
        let wrong = |why: String| Fail::Error(format!("line {number}: {why}; nothing was loaded"));
        if end.is_some() {
            return Err(wrong("the dump has ended before this line".to_owned()));
        }
        let Some(line) = text.strip_suffix('\n') else {
            return Err(wrong("the dump ends within this line".to_owned()));
        };
        let fields: Vec<&str> = line.split('\t').collect();
        let &[first, second, third] = fields.as_slice() else {
            return Err(wrong("expected three fields separated by tabs".to_owned()));
        };
        if first.is_empty() && second.is_empty() {
            end = Some(serde_json::from_str(third).map_err(|why| wrong(why.to_string()))?);
            continue;
        }
        if first.is_empty() {
            found.trees += 1;
            let about: Described =
                serde_json::from_str(third).map_err(|why| wrong(why.to_string()))?;
            name = second.to_owned();
            let tree = unescape(second).map(|name| String::from_utf8_lossy(&name).into_owned());
            let tree = tree.map_err(wrong)?;
            let options = about.options().map_err(wrong)?;
            headers.insert(tree.clone(), Header::from_attributes(&options.attributes));
            let load = db.bulk_load(&tree, options);
            let mut load = load.map_err(|why| wrong(why.to_string()))?;
            if let Some(number) = about.number {
                load.copied_from(TreeId(number));
            }
            loads.push(load);
            continue;
        }
        let Some(load) = loads.last_mut().filter(|_| first == name) else {
            return Err(wrong("an entry does not follow the line of its tree".to_owned()));
        };
        let (key, value) = (unescape(second).map_err(wrong)?, unescape(third).map_err(wrong)?);
        load.put(&key, &value).map_err(|why| wrong(why.to_string()))?;
        found.entries += 1;
    }
    if end != Some(found) {
        return error(
            "the dump is incomplete: its last line, with the numbers of trees and entries, is missing \
             or does not match; nothing was loaded",
        );
    }
    must_have_indexes(&headers)?;
    BulkLoad::finish_all(loads)?;
    Ok(found)
}

/// Checks that every index that a header names is among the trees.
fn must_have_indexes(headers: &BTreeMap<String, Option<Header>>) -> Result {
    for (tree, header) in headers {
        let indexes = header.iter().flat_map(|header| &header.indexes);
        let mut names = indexes.map(|column| index_name(tree, column));
        if let Some(missing) = names.find(|index| !headers.contains_key(index)) {
            return error(format!(
                "the dump has tree \"{tree}\" without its index \"{missing}\"; nothing was loaded"
            ));
        }
    }
    Ok(())
}
