//! The fixed populations of the web log: procedures, instances, words, pollers.
//!
//! Invariants
//! 1. They depend only on the seed and are drawn before the first row.
//! 2. Cardinalities are fixed; nothing is constant in order to make the rows compress well.

use crate::random::{Purpose, Random, RejectionZipf};

/// Number of procedures.
pub const PROCEDURES: usize = 400;
/// Number of database instances.
pub const INSTANCES: usize = 24;
/// Number of application servers.
pub const SERVERS: usize = 60;
/// Number of fixed calls that monitoring repeats.
pub const POLLERS: usize = 200;
/// Number of words in search texts.
pub const WORDS: usize = 5_000;
/// Number of accounts.
pub const ACCOUNTS: u64 = 20_000;
/// Number of users.
pub const USERS: u64 = 200_000;

const VERBS: [&str; 10] =
    ["Get", "List", "Find", "Save", "Update", "Delete", "Insert", "Check", "Count", "Sync"];
const ENTITIES: [&str; 20] = [
    "Account", "Address", "Basket", "Campaign", "Category", "Contact", "Customer", "Document",
    "Invoice", "Message", "Order", "Payment", "Price", "Product", "Report", "Session", "Shipment",
    "Stock", "Supplier", "User",
];
const SUFFIXES: [&str; 10] =
    ["", "ById", "ByAccount", "ByDate", "Details", "History", "Page", "Summary", "Status", "V2"];
const POOLS: [&str; 6] = ["web", "api", "batch", "report", "mobile", "partner"];

/// Distribution of the number of rows that a procedure returns.
#[derive(Clone, Copy, Debug)]
pub enum RowCount {
    /// Always none.
    None,
    /// Always one.
    One,
    /// Exponentially distributed with this mean.
    Many(f64),
}

/// A kind of parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    UserId,
    AccountId,
    Status,
    Culture,
    FromDate,
    PageIndex,
    PageSize,
    SearchText,
    SessionId,
    IncludeDeleted,
    Amount,
    RegionCode,
}

/// Kinds of parameters with their weights in the templates.
pub const KINDS: [(Kind, u32); 12] = [
    (Kind::UserId, 20),
    (Kind::AccountId, 10),
    (Kind::Status, 10),
    (Kind::Culture, 10),
    (Kind::FromDate, 12),
    (Kind::PageIndex, 8),
    (Kind::PageSize, 8),
    (Kind::SearchText, 4),
    (Kind::SessionId, 8),
    (Kind::IncludeDeleted, 8),
    (Kind::Amount, 5),
    (Kind::RegionCode, 7),
];

/// A stored procedure.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Name: `dbo.usp_…`
    pub name: String,
    /// Instances on which it exists, most used first.
    pub instances: Vec<usize>,
    /// Natural logarithm of its median duration in ms.
    pub log_median: f64,
    /// Number of rows it returns.
    pub rows: RowCount,
    /// The parameters.
    pub template: Vec<Kind>,
}

/// Everything that is drawn once.
#[derive(Clone, Debug)]
pub struct Population {
    /// Procedures, most called first.
    pub procedures: Vec<Procedure>,
    /// Names of the instances: `SQLPRD01\INST1` and so on.
    pub instances: Vec<String>,
    /// Names of the servers: `web-a-01` and so on.
    pub servers: Vec<String>,
    /// Login of each server: `svc_` and its pool.
    pub logins: Vec<String>,
    /// Words of search texts.
    pub words: Vec<String>,
    /// Distribution of the rank of a called procedure.
    pub procedure_zipf: RejectionZipf,
    /// Distribution of the rank of an instance among those of a procedure.
    pub instance_zipf: RejectionZipf,
    guid_seed: u64,
}

impl Population {
    /// Draws the population of `seed`; with `subsets` a procedure exists on a third of the
    /// instances.
    pub fn new(seed: u64, subsets: bool) -> Self {
        let mut random = Random::stream(seed, "weblog", 0, 0, Purpose::Population);
        let third = if subsets { INSTANCES / 3 } else { INSTANCES };
        let mut combinations: Vec<usize> =
            (0..VERBS.len() * ENTITIES.len() * SUFFIXES.len()).collect();
        shuffle(&mut combinations, &mut random);
        let procedures = combinations.iter().take(PROCEDURES);
        let procedures = procedures.map(|&n| procedure(n, third, subsets, &mut random)).collect();
        let instances =
            (0..INSTANCES).map(|i| format!("SQLPRD{:02}\\INST{}", i / 3 + 1, i % 3 + 1));
        let server = |i: usize| format!("web-{}-{:02}", ["a", "b", "c"][i / 20], i % 20 + 1);
        Self {
            procedures,
            instances: instances.collect(),
            servers: (0..SERVERS).map(server).collect(),
            logins: (0..SERVERS).map(|i| format!("svc_{}", POOLS[i % POOLS.len()])).collect(),
            words: words(&mut random),
            procedure_zipf: RejectionZipf::new(PROCEDURES as u64, 1.05),
            instance_zipf: RejectionZipf::new(third as u64, 0.8),
            guid_seed: random.next(),
        }
    }

    /// Returns the GUID of an account.
    pub fn account_guid(&self, account: u64) -> (u64, u64) {
        let mut random = Random::new(self.guid_seed ^ account);
        (random.next(), random.next())
    }
}

fn procedure(n: usize, third: usize, subsets: bool, random: &mut Random) -> Procedure {
    let (verb, rest) = (n % VERBS.len(), n / VERBS.len());
    let (entity, suffix) = (rest % ENTITIES.len(), rest / ENTITIES.len());
    let mut instances: Vec<usize> = (0..INSTANCES).collect();
    if subsets {
        shuffle(&mut instances, random);
    }
    instances.truncate(third);
    let rows = match random.below(5) {
        0 => RowCount::None,
        1..=3 => RowCount::One,
        _ => RowCount::Many([5.0, 10.0, 25.0, 50.0, 100.0][random.below(5) as usize]),
    };
    let parameters = (3.2 + 1.8 * random.normal()).round().clamp(0.0, 8.0) as usize;
    let mut kinds = KINDS.to_vec();
    let mut template = Vec::new();
    while template.len() < parameters {
        let weights: Vec<u32> = kinds.iter().map(|(_, weight)| *weight).collect();
        template.push(kinds.remove(random.weighted(&weights)).0);
    }
    Procedure {
        name: format!("dbo.usp_{}{}{}", VERBS[verb], ENTITIES[entity], SUFFIXES[suffix]),
        instances,
        log_median: 8f64.ln() + 1.2 * random.normal(),
        rows,
        template,
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// Draws distinct words of two to four syllables.
fn words(random: &mut Random) -> Vec<String> {
    const STARTS: [&str; 16] =
        ["b", "br", "c", "d", "f", "g", "l", "m", "n", "p", "pr", "r", "s", "st", "t", "v"];
    const VOWELS: [&str; 6] = ["a", "e", "i", "o", "u", "ea"];
    const ENDS: [&str; 8] = ["", "", "", "n", "r", "s", "t", "l"];
    let mut words = std::collections::BTreeSet::new();
    let mut list = Vec::with_capacity(WORDS);
    while list.len() < WORDS {
        let mut word = String::new();
        for _ in 0..random.between(2, 4) {
            word.push_str(STARTS[random.below(16) as usize]);
            word.push_str(VOWELS[random.below(6) as usize]);
            word.push_str(ENDS[random.below(8) as usize]);
        }
        if words.insert(word.clone()) {
            list.push(word);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn populations_have_the_cardinalities_of_the_specification() {
        let population = Population::new(42, true);
        let names: std::collections::BTreeSet<_> =
            population.procedures.iter().map(|procedure| &procedure.name).collect();
        assert_eq!(names.len(), PROCEDURES);
        assert!(population.procedures.iter().all(|procedure| procedure.instances.len() == 8));
        assert!(population.procedures.iter().all(|procedure| procedure.template.len() <= 8));
        let mean = population.procedures.iter().map(|p| p.template.len()).sum::<usize>() as f64
            / PROCEDURES as f64;
        assert!((2.8..3.6).contains(&mean), "{mean} parameters a procedure");
        assert_eq!(population.words.len(), WORDS);
        assert_eq!(population.servers.len(), SERVERS);
        assert_eq!(population.instances[0], "SQLPRD01\\INST1");
        assert_eq!(population.servers[59], "web-c-20");
    }
}
