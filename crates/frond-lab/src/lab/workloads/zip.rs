//! `zip`: the costs and savings of compression. Each data set is rebuilt by ALTER TABLE and then
//! read completely, as in the 2016 study of compression levels. Tables with compressed pages are
//! rebuilt at each level.
//!
//! Stock MariaDB compresses such pages only with zlib. LZ4, whose levels the study compared, is
//! therefore measured on the 16 KiB pages in the file of an uncompressed table, and so is zlib.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use super::compressed::{self, put};
use super::sbtest::{self, Batch, FILLS, Fill, INNODB_ROW_BYTES, Load, ROW_BYTES};
use super::{Entry, Workload, insertbench, linkbench, weblog};
use crate::lab::params::{Param, Params};
use crate::lab::sql::Bench;
use crate::lab::step::Step;
use crate::targets::{Failure, Result};

pub const ENTRY: Entry = Entry {
    name: "zip",
    about: "compression: ALTER TABLE rebuilds the table at each level, then a scan reads all of it",
    headline: ("rebuild", "seconds"),
    params: &[
        Param::sized("rows", ["2_000", "139_000", "4_000_000", "50_000_000"], "rows"),
        Param::fixed(
            "data",
            "sbtest",
            "rows of sbtest (sysbench), insertbench, nodes (LinkBench) or weblog",
        ),
        Param::fixed(
            "strings",
            "digits",
            "for sbtest, contents of c and pad: digits, letters, constant",
        ),
        Param::fixed(
            "levels",
            "1,9",
            "compression levels of InnoDB's pages, in addition to the target's own",
        ),
        Param::sized(
            "pages",
            ["100", "1_000", "60_000", "60_000"],
            "number of pages of the file to compress with LZ4 and zlib",
        ),
        Param::fixed("ratio", "2", "data to cache"),
        Param::sized("time_limit", ["60", "40", "1800", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(Zip::new(params, seed)?)),
};

/// Size of a page in bytes.
const PAGE: usize = 16 << 10;

/// The data set that is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Data {
    /// Rows of sysbench.
    Sbtest(Fill),
    /// Rows of the insert benchmark, with its indexes.
    InsertBench,
    /// Nodes of LinkBench.
    Nodes,
    /// The web log, without partitions.
    Weblog,
}

impl Data {
    /// Name of the table, and its primary key.
    fn table(self) -> (&'static str, &'static str) {
        match self {
            Self::Sbtest(_) => ("zip", "id"),
            Self::InsertBench => ("pi1", "transactionid"),
            Self::Nodes => ("nodetable", "id"),
            Self::Weblog => ("perf_log", "begin_ts,log_id"),
        }
    }

    /// Bytes of a row: those of its columns, and those that plain InnoDB needs.
    fn row_bytes(self) -> (u64, u64) {
        match self {
            Self::Sbtest(_) => (ROW_BYTES, INNODB_ROW_BYTES),
            Self::InsertBench => (insertbench::ROW_BYTES, insertbench::INNODB_ROW_BYTES),
            Self::Nodes => (linkbench::NODE_BYTES, linkbench::INNODB_NODE_BYTES),
            Self::Weblog => (weblog::ROW_BYTES, weblog::INNODB_ROW_BYTES),
        }
    }

    /// Creates the table and loads it. Returns the number of rows.
    fn load(self, bench: &mut Bench, rows: u64, seed: u64) -> Result<u64> {
        match self {
            Self::Sbtest(fill) => {
                let (table, _) = self.table();
                bench.create(&sbtest::definition(table, Some("k")), "")?;
                Load { batch: Batch::Bytes, fill, ..Load::new("load", table, rows, seed) }
                    .run(bench)
            }
            Self::InsertBench => insertbench::load_one(bench, rows, seed),
            Self::Nodes => linkbench::load_nodes(bench, rows, seed),
            Self::Weblog => weblog::load_whole(bench, rows, seed),
        }
    }
}

struct Zip {
    rows: u64,
    data: Data,
    levels: Vec<u64>,
    pages: usize,
    seed: u64,
}

impl Zip {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let (rows, levels) = (params.number("rows")?, params.numbers("levels")?);
        if !(1..=i32::MAX as u64).contains(&rows) || levels.iter().any(|level| *level > 9) {
            return Err(Failure("zip: rows from 1, levels from 0 to 9".to_owned()));
        }
        let data = match params.word("data", &["sbtest", "insertbench", "nodes", "weblog"])? {
            "insertbench" => Data::InsertBench,
            "nodes" => Data::Nodes,
            "weblog" => Data::Weblog,
            _ => Data::Sbtest(Fill::new(params.word("strings", &FILLS)?)),
        };
        if data != Data::Sbtest(Fill::Digits) && rows < 2_000 {
            return Err(Failure(format!("zip: rows from 2000 of {}", params.text("data"))));
        }
        let pages = params.number("pages")?.clamp(1, 1 << 24) as usize;
        Ok(Self { rows, data, levels, pages, seed })
    }

    /// Rebuilds the table, then reads it completely.
    fn rebuild(&self, bench: &mut Bench, suffix: &str) -> Result<()> {
        if bench.is_over() {
            return Ok(());
        }
        compressed::reset(bench)?;
        let ((table, key), (row_bytes, _)) = (self.data.table(), self.data.row_bytes());
        let rebuild = format!("ALTER TABLE {table} FORCE");
        let step =
            Step { name: &format!("rebuild{suffix}"), ..Step::load("", self.rows, row_bytes) };
        let variables = bench.target.bulk_variables.clone();
        bench.step(&step, |worker| {
            worker.request("rebuild", self.rows, |session| {
                session.with_variables(&variables, |session| session.run(&rebuild)).map(drop)
            })
        })?;
        bench.loaded((self.rows, self.rows * row_bytes))?;
        compressed::note(bench)?;
        compressed::note_lengths(bench, table)?;
        compressed::reset(bench)?;
        // Asks for the last row in the order of the primary key, so that the server reads all rows
        // before it with their columns.
        let read = format!(
            "SELECT * FROM {table} FORCE INDEX (PRIMARY) ORDER BY {key} LIMIT {},1",
            self.rows - 1
        );
        let step = Step { name: &format!("read{suffix}"), ..Step::load("", self.rows, 0) };
        bench.step(&step, |worker| {
            worker.request("read", self.rows, |session| session.rows(&read, |_| ()).map(drop))
        })?;
        compressed::note(bench)
    }

    /// Compresses pages of an uncompressed InnoDB table with LZ4 and with zlib.
    fn page_images(&self, bench: &mut Bench) -> Result<()> {
        let Some(dir) = bench.files().filter(|_| bench.target.name == "innodb") else {
            return Ok(());
        };
        if bench.is_over() {
            return Ok(());
        }
        // This writes out all pages, and they stay unchanged until the tables are unlocked.
        let (table, _) = self.data.table();
        bench.admin().run(&format!("FLUSH TABLES {table} FOR EXPORT"))?;
        let pages = read_pages(&dir.join(format!("{table}.ibd")), self.pages);
        bench.admin().run("UNLOCK TABLES")?;
        let pages = pages?;
        for codec in [Codec::Lz4, Codec::Zlib(1), Codec::Zlib(6), Codec::Zlib(9)] {
            if bench.is_over() {
                break;
            }
            let name = format!("page images {}", codec.name());
            let n = pages.len() as u64;
            let measured = std::sync::Mutex::new(None);
            bench.step(&Step { name: &name, ..Step::load("", n, 0) }, |worker| {
                let mut found = None;
                worker.request("pages", n, |_| {
                    found = Some(codec.measure(&pages)?);
                    Ok(())
                })?;
                *measured.lock().unwrap_or_else(|e| e.into_inner()) = found;
                Ok(())
            })?;
            let measured = measured.into_inner().unwrap_or_else(|e| e.into_inner());
            if let Some((compress_us, uncompress_us, saving)) = measured {
                put(bench, "compress_us_page", compress_us);
                put(bench, "uncompress_us_page", uncompress_us);
                put(bench, "saving_pct", saving);
            }
        }
        Ok(())
    }
}

/// Offset of the type in a page, and the type of leaf and inner pages of an index (fil0fil.h,
/// FIL_PAGE_INDEX).
const PAGE_TYPE: (usize, [u8; 2]) = (24, [0x45, 0xbf]);

/// Reads up to `most` index pages of a file, spread evenly over it.
fn read_pages(path: &Path, most: usize) -> Result<Vec<Vec<u8>>> {
    use std::os::unix::fs::FileExt;
    let file = fs::File::open(path)?;
    let all = file.metadata()?.len() / PAGE as u64;
    let step = (all / most as u64).max(1);
    let mut pages = Vec::new();
    let mut at = 0;
    while at < all && pages.len() < most {
        let mut page = vec![0; PAGE];
        file.read_exact_at(&mut page, at * PAGE as u64)?;
        if page[PAGE_TYPE.0..PAGE_TYPE.0 + 2] == PAGE_TYPE.1 {
            pages.push(page);
        }
        at += step;
    }
    match pages.is_empty() {
        true => Err(Failure(format!("zip: {} has no pages of an index", path.display()))),
        false => Ok(pages),
    }
}

#[derive(Clone, Copy, Debug)]
enum Codec {
    Lz4,
    Zlib(u32),
}

impl Codec {
    fn name(self) -> String {
        match self {
            Self::Lz4 => "lz4".to_owned(),
            Self::Zlib(level) => format!("zlib-{level}"),
        }
    }

    /// Measures µs to compress a page, µs to uncompress it, and the savings in percent.
    fn measure(self, pages: &[Vec<u8>]) -> Result<(f64, f64, f64)> {
        let (mut packed, mut compressed_s, mut uncompressed_s) = (0, 0.0, 0.0);
        for page in pages {
            let begin = Instant::now();
            let small = self.compress(page)?;
            compressed_s += begin.elapsed().as_secs_f64();
            packed += small.len().min(PAGE);
            let begin = Instant::now();
            let large = self.uncompress(&small)?;
            uncompressed_s += begin.elapsed().as_secs_f64();
            if large != *page {
                return Err(Failure(format!("zip: {} gives another page", self.name())));
            }
        }
        let n = pages.len() as f64;
        let saved = 100.0 * (1.0 - packed as f64 / (n * PAGE as f64));
        Ok((compressed_s * 1e6 / n, uncompressed_s * 1e6 / n, saved))
    }

    fn compress(self, page: &[u8]) -> Result<Vec<u8>> {
        match self {
            Self::Lz4 => Ok(lz4_flex::block::compress(page)),
            Self::Zlib(level) => {
                let level = flate2::Compression::new(level);
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::with_capacity(PAGE), level);
                encoder.write_all(page)?;
                Ok(encoder.finish()?)
            }
        }
    }

    fn uncompress(self, small: &[u8]) -> Result<Vec<u8>> {
        match self {
            Self::Lz4 => lz4_flex::block::decompress(small, PAGE)
                .map_err(|error| Failure(format!("zip: {error}"))),
            Self::Zlib(_) => {
                let mut decoder = flate2::write::ZlibDecoder::new(Vec::with_capacity(PAGE));
                decoder.write_all(small)?;
                Ok(decoder.finish()?)
            }
        }
    }
}

impl Workload for Zip {
    fn innodb_bytes(&self) -> u64 {
        self.rows * self.data.row_bytes().1
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        let loaded = self.data.load(bench, self.rows, self.seed)?;
        let live = (loaded, loaded * self.data.row_bytes().0);
        if loaded < self.rows {
            return Ok(live);
        }
        bench.loaded(live)?;
        self.rebuild(bench, "")?;
        self.page_images(bench)?;
        let has_levels = bench.target.create.to_uppercase().contains("ROW_FORMAT=COMPRESSED");
        for level in self.levels.iter().filter(|_| has_levels) {
            bench.admin().run(&format!("SET GLOBAL innodb_compression_level={level}"))?;
            self.rebuild(bench, &format!(" level={level}"))?;
        }
        bench.rest()?;
        bench.verify(self.data.table().0, Some(loaded), true)?;
        Ok(live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::workloads::testing::{on_both, step};

    #[test]
    fn sql_tables_are_rebuilt_and_read_and_their_pages_compressed() {
        on_both("zip", &[], |bench| {
            assert!(step(bench, "read").metrics["ops"] > 0.0);
            if bench.target.name == "frond" {
                let rebuild = &step(bench, "rebuild").metrics;
                let (before, after) = (rebuild["compress_in_b"], rebuild["compress_out_b"]);
                // All rows and their index entries are compressed once.
                assert!(before > 2_000.0 * 188.0 && before > after, "{rebuild:?}");
                assert!(
                    rebuild["compress_us_page"] > 0.0 && rebuild["compress_in_b.zip/PRIMARY"] > 0.0
                );
            }
            if bench.target.name == "innodb" {
                let saved = |name| step(bench, name).metrics["saving_pct"];
                assert!(saved("page images zlib-6") > saved("page images lz4"));
            }
        });
    }

    #[test]
    fn sql_other_rows_are_rebuilt_as_well() {
        for data in ["insertbench", "nodes", "weblog"] {
            on_both("zip", &[("data", data), ("rows", "3000")], |bench| {
                assert!(step(bench, "rebuild").metrics["ops"] >= 3_000.0, "{data}");
                // The table and the isolation level.
                assert_eq!(bench.result.facts.len(), 2, "{data}");
                let generated = |found: &&crate::lab::results::Verification| {
                    found.name.ends_with("as generated")
                };
                assert!(bench.result.verified.iter().any(|found| generated(&found)), "{data}");
            });
        }
    }

    #[test]
    fn pages_of_text_are_compressed_and_round_trip() {
        let text = b"0123456789-".iter().cycle().take(PAGE).copied().collect::<Vec<u8>>();
        for codec in [Codec::Lz4, Codec::Zlib(1), Codec::Zlib(9)] {
            let (_, _, saved) = codec.measure(std::slice::from_ref(&text)).expect("it comes back");
            assert!(saved > 90.0, "{codec:?}: {saved}");
        }
    }

    #[test]
    fn only_pages_of_indexes_are_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.ibd");
        let mut bytes = vec![0; 4 * PAGE];
        bytes[2 * PAGE + 24..2 * PAGE + 26].copy_from_slice(&PAGE_TYPE.1);
        fs::write(&path, &bytes).expect("written");
        let pages = read_pages(&path, 100).expect("there is one");
        assert_eq!((pages.len(), &pages[0][24..26]), (1, &PAGE_TYPE.1[..]));
        fs::write(&path, vec![0; PAGE]).expect("written");
        assert!(read_pages(&path, 100).is_err_and(|failure| failure.0.contains("no pages")));
    }
}
