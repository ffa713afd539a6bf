//! What the parsers accept, and how they refuse everything else.

use std::io::{BufReader, Cursor};

use proptest::prelude::*;

use super::*;

type Row = Vec<(String, String)>;

/// All records of a text, read through a buffer of `piece` bytes, or the first error.
fn read(format: Format, text: &[u8], piece: usize) -> Result<Vec<(u64, Row)>, ParseError> {
    let input = BufReader::with_capacity(piece, Cursor::new(text.to_vec()));
    let mut source = open(format, Box::new(input), None, None)?;
    let (mut rows, mut record) = (Vec::new(), Record::default());
    while source.next(&mut record)? {
        let names = source.columns().names();
        let row = record
            .fields()
            .map(|(name, value)| {
                (names[name as usize].clone(), String::from_utf8_lossy(value).into_owned())
            })
            .collect();
        rows.push((record.line, row));
    }
    assert_eq!(source.position(), text.len() as u64);
    Ok(rows)
}

fn rows(format: Format, text: &str) -> Vec<(u64, Row)> {
    let rows = read(format, text.as_bytes(), 8192).expect("well-formed");
    // However the input is cut into pieces.
    for piece in [1, 2, 3, 7] {
        assert_eq!(read(format, text.as_bytes(), piece).as_ref(), Ok(&rows));
    }
    rows
}

fn error(format: Format, text: &[u8]) -> String {
    let error = read(format, text, 8192).expect_err("malformed").to_string();
    assert!(!error.contains('\n'));
    error
}

fn row(fields: &[(&str, &str)]) -> Row {
    fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn csv_fields_may_hold_commas_quotes_and_line_ends() {
    let text = "a,b\r\n1,\"x, y\"\r\n\r\n\"say \"\"hi\"\"\",\"two\r\nlines\"\n3,5\" disk\n,\"\"";
    assert_eq!(
        rows(Format::Csv, text),
        [
            (2, row(&[("a", "1"), ("b", "x, y")])),
            (4, row(&[("a", "say \"hi\""), ("b", "two\r\nlines")])),
            (6, row(&[("a", "3"), ("b", "5\" disk")])),
            (7, row(&[("a", ""), ("b", "")])),
        ]
    );
}

#[test]
fn csv_may_begin_with_a_byte_order_mark_and_end_without_a_line_end() {
    assert_eq!(rows(Format::Csv, "\u{feff}id\n1"), [(2, row(&[("id", "1")]))]);
    assert_eq!(rows(Format::Csv, "id\n"), []);
}

#[test]
fn malformed_csv_is_reported_with_its_line() {
    assert_eq!(
        error(Format::Csv, b"a,b\n1,2\n1,2,3\n"),
        "line 3: the record has 3 fields instead of 2"
    );
    assert_eq!(
        error(Format::Csv, b"a,b\n1,\"2\n3,4\n5,6\n"),
        "line 2: a quoted field is never closed"
    );
    assert_eq!(
        error(Format::Csv, b"a,b\n\n1,\"2\"x\n"),
        "line 3: a closing quote must be followed by a comma or the end of the line"
    );
    assert_eq!(error(Format::Csv, b"a,a\n"), "line 1: column \"a\" occurs twice");
    assert_eq!(error(Format::Csv, b"a,\xff\n"), "line 1: a column's name is not UTF-8");
    assert_eq!(
        error(Format::Csv, b"a,,b\n"),
        "line 1: a field's name is empty or has control characters"
    );
    assert_eq!(error(Format::Csv, b""), "line 1: the header line with the column names is missing");
}

#[test]
fn csv_values_may_be_any_bytes() {
    let input = Cursor::new(b"id,v\n1,\xff\xfe\x00\n".to_vec());
    let mut source = open(Format::Csv, Box::new(input), None, None).expect("a header");
    let mut record = Record::default();
    assert_eq!(source.next(&mut record), Ok(true));
    assert_eq!(record.fields().collect::<Vec<_>>(), [(0, &b"1"[..]), (1, &b"\xff\xfe\x00"[..])]);
}

#[test]
fn csv_columns_may_be_named_by_the_caller() {
    let names = ["x".to_owned(), "y".to_owned()];
    let input = Cursor::new(b"1,2\n".to_vec());
    let mut source =
        open(Format::Csv, Box::new(input), Some(&names), None).expect("names are good");
    let mut record = Record::default();
    assert_eq!(source.next(&mut record), Ok(true));
    assert_eq!(record.line, 1);
    assert_eq!(source.next(&mut record), Ok(false));
}

#[test]
fn endless_record_is_refused_in_bounded_memory() {
    let endless = || Box::new(BufReader::new(std::io::repeat(b'x')));
    let text = |start: &'static [u8]| {
        Box::new(std::io::Read::chain(Cursor::new(start), endless())) as Box<dyn BufRead>
    };
    let mut record = Record::default();
    for (format, start) in [
        (Format::Csv, &b"a\n\""[..]),
        (Format::Tsv, b"a\n"),
        (Format::Json, b"{\""),
        (Format::Control, b"A: "),
    ] {
        let mut source = open(format, text(start), None, None).expect("it begins well");
        let error = source.next(&mut record).expect_err("endless").to_string();
        assert!(error.contains("a record has more than 16777216 bytes"), "{format:?}: {error}");
    }
}

#[test]
fn tsv_escapes_and_nulls() {
    assert_eq!(
        rows(Format::Tsv, "a\tb\tc\n1\\t2\t\\N\t\\\\n\\q\\\n\t\t\"\r\n"),
        [
            (2, row(&[("a", "1\t2"), ("c", "\\n\\q\\")])),
            (3, row(&[("a", ""), ("b", ""), ("c", "\"")])),
        ]
    );
    assert_eq!(error(Format::Tsv, b"a\tb\n1\n"), "line 2: the record has 1 field instead of 2");
}

#[test]
fn json_values_are_kept_verbatim() {
    let text = r#"{"id": 1, "t": "a\nb\u00e9", "n": null, "x": [1, {"y": 2.50}], "ok": true}

{"z": 1e400, "id": "2"}"#;
    assert_eq!(
        rows(Format::Json, text),
        [
            (1, row(&[("id", "1"), ("t", "a\nbé"), ("x", "[1, {\"y\": 2.50}]"), ("ok", "true")])),
            (3, row(&[("z", "1e400"), ("id", "2")])),
        ]
    );
}

#[test]
fn malformed_json_is_reported_with_its_line() {
    let begins = |text: &[u8], start: &str| {
        let error = error(Format::Json, text);
        assert!(error.starts_with(start), "{error}");
    };
    begins(b"{\"a\":1}\n[1]\n", "line 2: not a JSON object: invalid type: sequence");
    begins(b"{\"a\":1}\n\n{\"a\":\n", "line 3: not a JSON object: EOF while parsing");
    begins(b"{\"a\":1} {\"a\":2}\n", "line 1: not a JSON object: trailing characters at column 9");
    begins(b"{\"a\":1,\"a\":2}\n", "line 1: a field occurs twice");
    begins(b"{\"a\":\"\xff\"}\n", "line 1: not a JSON object: invalid unicode code point");
    begins(b"{\"a\":\"\\ud800\"}\n", "line 1: no");
    let deep = ["{\"a\":".as_bytes(), &b"[".repeat(100_000)].concat();
    begins(&deep, "line 1: not a JSON object");
}

#[test]
fn control_paragraphs_with_continuation_lines() {
    let text = "\n# a comment\nPackage: zsh\nDepends: libc6,\n\tlibcap2\nDescription: shell\n Long \
                text.\n .\n More.  \n\n \nPackage:bash\nVersion: 5.2\r\npackage-x:\n";
    assert_eq!(
        rows(Format::Control, text),
        [
            (
                3,
                row(&[
                    ("Package", "zsh"),
                    ("Depends", "libc6,\n\tlibcap2"),
                    ("Description", "shell\n Long text.\n .\n More."),
                ])
            ),
            (12, row(&[("Package", "bash"), ("Version", "5.2"), ("package-x", "")])),
        ]
    );
    assert_eq!(
        rows(Format::Control, "A: 1\n\na: 2\n"),
        [(1, row(&[("A", "1")])), (3, row(&[("A", "2")]))]
    );
}

#[test]
fn malformed_control_is_reported_with_its_line() {
    assert_eq!(
        error(Format::Control, b"A: 1\nnonsense\n"),
        "line 2: expected a field (Name: value) or a continuation line"
    );
    assert_eq!(
        error(Format::Control, b" x\n"),
        "line 1: a continuation line without a field before it"
    );
    assert_eq!(
        error(Format::Control, b"A: 1\nB: 2\na: 3\n"),
        "line 3: a field occurs twice in one paragraph"
    );
    assert_eq!(
        error(Format::Control, b": 1\n"),
        "line 1: a field's name is empty or has a space or control byte"
    );
    assert_eq!(
        error(Format::Control, b"A b: 1\n"),
        "line 1: a field's name is empty or has a space or control byte"
    );
}

#[test]
fn names_are_bounded() {
    let many: String = (0..=COLUMNS_MAX).map(|n| format!("{{\"c{n}\":1}}\n")).collect();
    assert_eq!(
        error(Format::Json, many.as_bytes()),
        "line 4001: more than 4000 different field names"
    );
    let long = format!("{}: 1\n", "x".repeat(NAME_BYTES_MAX + 1));
    assert_eq!(
        error(Format::Control, long.as_bytes()),
        "line 1: a field's name has more than 1024 bytes"
    );
}

proptest! {
    /// Invariant 1: any bytes, in any pieces, give the same result, without a panic.
    #[test]
    fn any_bytes_are_records_or_one_error(
        text in prop::collection::vec(
            prop_oneof![
                Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), Just(b'\t'), Just(b' '),
                Just(b':'), Just(b'{'), Just(b'}'), Just(b'\\'), Just(b'a'), any::<u8>(),
            ],
            0..80,
        ),
        piece in 1usize..20,
    ) {
        for format in [Format::Csv, Format::Tsv, Format::Json, Format::Control] {
            prop_assert_eq!(read(format, &text, 8192), read(format, &text, piece));
        }
    }

    #[test]
    fn properly_quoted_csv_round_trips(
        table in prop::collection::vec(prop::collection::vec("[a\",\r\n é]{0,6}", 3), 0..6),
    ) {
        let quote = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
        let text: String = table
            .iter()
            .map(|row| row.iter().map(quote).collect::<Vec<_>>().join(",") + "\r\n")
            .collect();
        let read: Vec<Vec<String>> = rows(Format::Csv, &format!("x,y,z\n{text}"))
            .into_iter()
            .map(|(_, row)| row.into_iter().map(|(_, value)| value).collect())
            .collect();
        prop_assert_eq!(read, table);
    }
}

/// Only unquoted text is null.
#[test]
fn csv_has_the_null_that_was_named() {
    let values = |null| {
        let input = Cursor::new("a,b\n,\"\"\nNULL,x\n");
        let mut source = open(Format::Csv, Box::new(input), None, null).expect("a header");
        let (mut all, mut record) = (Vec::new(), Record::default());
        while source.next(&mut record).expect("well-formed") {
            let fields = record.fields().map(|(name, value)| (name, value.to_vec()));
            all.push(fields.collect::<Vec<_>>());
        }
        all
    };
    let field = |name, value: &str| (name, value.as_bytes().to_vec());
    let second = vec![field(0, "NULL"), field(1, "x")];
    assert_eq!(values(None), [vec![field(0, ""), field(1, "")], second.clone()]);
    assert_eq!(values(Some("")), [vec![field(1, "")], second]);
    assert_eq!(values(Some("NULL")), [vec![field(0, ""), field(1, "")], vec![field(1, "x")]]);
}
