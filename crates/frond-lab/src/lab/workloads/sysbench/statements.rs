//! The statements of sysbench's tests, and the statements of which an event of each test consists.

/// A test of sysbench.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    PointSelect,
    ReadOnly,
    RandomPoints,
    RandomRanges,
    UpdateIndex,
    UpdateNonIndex,
    WriteOnly,
    ReadWrite,
    Insert,
    Delete,
}

/// A kind of prepared statement; each table has one of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Kind {
    Point,
    Range,
    Sum,
    Order,
    Distinct,
    UpdateIndex,
    UpdateNonIndex,
    Delete,
    Insert,
    Points,
    Ranges,
}

/// Number of kinds.
pub const KINDS: usize = Kind::Ranges as usize + 1;

/// Number of rows in a range.
pub const RANGE: u64 = 100;
/// Number of values in the list of `random_points`, and of ranges in `random_ranges`.
pub const LIST: usize = 10;
/// Difference between the two ends of a range of `random_ranges`.
pub const DELTA: u64 = 5;

impl Test {
    /// All tests: first the read-only ones, then those that write, at last those that change the
    /// number of rows.
    pub const ALL: [Self; 10] = [
        Self::PointSelect,
        Self::ReadOnly,
        Self::RandomPoints,
        Self::RandomRanges,
        Self::UpdateIndex,
        Self::UpdateNonIndex,
        Self::WriteOnly,
        Self::ReadWrite,
        Self::Insert,
        Self::Delete,
    ];

    /// Name of the test in sysbench, without `oltp_` and `select_`.
    pub fn name(self) -> &'static str {
        match self {
            Self::PointSelect => "point_select",
            Self::ReadOnly => "read_only",
            Self::RandomPoints => "random_points",
            Self::RandomRanges => "random_ranges",
            Self::UpdateIndex => "update_index",
            Self::UpdateNonIndex => "update_non_index",
            Self::WriteOnly => "write_only",
            Self::ReadWrite => "read_write",
            Self::Insert => "insert",
            Self::Delete => "delete",
        }
    }

    /// Whether the test changes rows.
    pub fn writes(self) -> bool {
        !matches!(
            self,
            Self::PointSelect | Self::ReadOnly | Self::RandomPoints | Self::RandomRanges
        )
    }

    /// Whether an event is a transaction, with BEGIN and COMMIT.
    pub fn is_transaction(self) -> bool {
        matches!(self, Self::ReadOnly | Self::WriteOnly | Self::ReadWrite)
    }

    /// The statements that an event executes, in order, each with the number of times. The INSERT
    /// of the test `insert` is not among them, since it is sent as text.
    pub fn groups(self) -> &'static [(Kind, u32)] {
        match self {
            Self::PointSelect => &[(Kind::Point, 1)],
            Self::ReadOnly => &MIX[..5],
            Self::WriteOnly => &MIX[5..],
            Self::ReadWrite => &MIX,
            Self::UpdateIndex => &[(Kind::UpdateIndex, 1)],
            Self::UpdateNonIndex => &[(Kind::UpdateNonIndex, 1)],
            Self::Delete => &[(Kind::Delete, 1)],
            Self::RandomPoints => &[(Kind::Points, 1)],
            Self::RandomRanges => &[(Kind::Ranges, 1)],
            Self::Insert => &[],
        }
    }

    /// The kinds of statements that the test prepares. In a transaction, an INSERT belongs to the
    /// DELETE.
    pub fn kinds(self) -> impl Iterator<Item = Kind> {
        let replaces = self.is_transaction() && self.writes();
        self.groups().iter().map(|(kind, _)| *kind).chain(replaces.then_some(Kind::Insert))
    }
}

/// The statements of a transaction that reads and writes. The last one represents DELETE and INSERT
/// of the same id.
const MIX: [(Kind, u32); 8] = [
    (Kind::Point, 10),
    (Kind::Range, 1),
    (Kind::Sum, 1),
    (Kind::Order, 1),
    (Kind::Distinct, 1),
    (Kind::UpdateIndex, 1),
    (Kind::UpdateNonIndex, 1),
    (Kind::Delete, 1),
];

impl Kind {
    /// The text of the statement for a table.
    pub fn text(self, table: &str) -> String {
        let list = |part: &str, between: &str| [part; LIST].join(between);
        match self {
            Self::Point => format!("SELECT c FROM {table} WHERE id=?"),
            Self::Range => format!("SELECT c FROM {table} WHERE id BETWEEN ? AND ?"),
            Self::Sum => format!("SELECT SUM(k) FROM {table} WHERE id BETWEEN ? AND ?"),
            Self::Order => format!("SELECT c FROM {table} WHERE id BETWEEN ? AND ? ORDER BY c"),
            Self::Distinct => {
                format!("SELECT DISTINCT c FROM {table} WHERE id BETWEEN ? AND ? ORDER BY c")
            }
            Self::UpdateIndex => format!("UPDATE {table} SET k=k+1 WHERE id=?"),
            Self::UpdateNonIndex => format!("UPDATE {table} SET c=? WHERE id=?"),
            Self::Delete => format!("DELETE FROM {table} WHERE id=?"),
            Self::Insert => format!("INSERT INTO {table} (id, k, c, pad) VALUES (?, ?, ?, ?)"),
            Self::Points => {
                format!("SELECT id, k, c, pad FROM {table} WHERE k IN ({})", list("?", ", "))
            }
            Self::Ranges => {
                format!("SELECT count(k) FROM {table} WHERE {}", list("k BETWEEN ? AND ?", " OR "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_as_many_statements_as_sysbench_reports() {
        let statements = |test: Test| {
            let groups: u32 = test.groups().iter().map(|(_, times)| times).sum();
            let inserts =
                u32::from(test == Test::Insert || test.kinds().any(|k| k == Kind::Insert));
            groups + inserts + if test.is_transaction() { 2 } else { 0 }
        };
        let found = Test::ALL.map(|test| (test.name(), statements(test)));
        let expected = [
            ("point_select", 1),
            ("read_only", 16),
            ("random_points", 1),
            ("random_ranges", 1),
            ("update_index", 1),
            ("update_non_index", 1),
            ("write_only", 6),
            ("read_write", 20),
            ("insert", 1),
            ("delete", 1),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn statements_of_lists_have_ten_values_or_ranges() {
        assert_eq!(Kind::Points.text("t").matches('?').count(), LIST);
        assert_eq!(Kind::Ranges.text("t").matches('?').count(), 2 * LIST);
        assert!(Kind::Ranges.text("t").ends_with("OR k BETWEEN ? AND ?"));
    }
}
