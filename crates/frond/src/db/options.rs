//! Options for opening a store, and the environment and sizes that tests replace.

use crate::{
    Durability, Error,
    io::Env,
    pipeline::Limits,
    run::{MergeOperator, Operators},
    sync::Arc,
    tree::Shape,
    txn::lock_table::Hooks,
};

/// Options for opening a store: how much memory it may use, how durable commits are, and some more
/// with good defaults.
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let options = frond::Options::new().cache_size(64 << 20).durability(frond::Durability::Os);
/// let db = frond::Db::open(dir.path().join("store"), options)?;
/// db.close()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "options have no effect until a store is opened with them"]
pub struct Options {
    pub(crate) cache_bytes: u64,
    pub(crate) durability: Durability,
    pub(crate) keep_log_bytes: u64,
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    pub(crate) operators: Operators,
    /// The first error of the options, for `Db::open` to return.
    pub(crate) invalid: Option<Error>,
    pub(crate) lock_hooks: Option<Arc<dyn Hooks>>,
    pub(crate) env: Env,
    pub(crate) tuning: Tuning,
}

/// Sizes for tests, so that a few hundred keys exercise what otherwise takes a few hundred million.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// Tree shape; default by [`Shape::default`].
    pub shape: Option<Shape>,
    /// Pipeline limits; default by the cache size.
    pub limits: Option<Limits>,
    /// Log segment bytes.
    pub segment_bytes: Option<u64>,
    /// Log group buffer bytes.
    pub group_bytes: Option<usize>,
}

/// Smallest memory budget of a store, bytes.
pub const CACHE_BYTES_MIN: u64 = 4 << 20;

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("cache_bytes", &self.cache_bytes)
            .field("durability", &self.durability)
            .field("create", &self.create)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            durability: Durability::Sync,
            keep_log_bytes: 0,
            create: true,
            read_only: false,
            operators: Operators::default(),
            invalid: None,
            lock_hooks: None,
            env: Env::real(),
            tuning: Tuning::default(),
        }
    }
}

impl Options {
    /// The defaults: 256 MiB of cache, durability `sync`, create the store if there is none.
    pub fn new() -> Self {
        Self::default()
    }

    /// All the memory the store may use, bytes: cache, memtables, buffers, filters. Less than
    /// [`CACHE_BYTES_MIN`] counts as that.
    pub fn cache_size(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes.max(CACHE_BYTES_MIN);
        self
    }

    /// When commits are acknowledged, unless a commit says otherwise.
    pub fn durability(mut self, level: Durability) -> Self {
        self.durability = level;
        self
    }

    /// Bytes of log to keep for followers of [`Db::changes`](crate::Db::changes) beyond what
    /// recovery needs; default 0. Choose it by how long a follower may be away: if the log does not
    /// reach back that far, the follower must start again with a copy of the trees. Kept log is not
    /// part of recovery; no more of it is kept than there is free space in the file system.
    pub fn keep_log(mut self, bytes: u64) -> Self {
        self.keep_log_bytes = bytes;
        self
    }

    /// Whether to create the store if the directory contains no store files. Default: yes.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens without writing a byte; writes fail with [`Error::ReadOnly`](crate::Error::ReadOnly).
    /// A store can be open like this several times at once, in one process or several, but not
    /// while it is open for writing.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Registers a merge operator under a number from 64 on. It must be associative and
    /// deterministic. Once a tree has used it, the store does not open without it
    /// ([`Error::OperatorNeeded`](crate::Error::OperatorNeeded)), read-only or not.
    /// [`Db::open`](crate::Db::open) fails with `InvalidArgument` if the number is one of the
    /// built-in ones, or the name is not allowed.
    pub fn operator(mut self, number: u8, operator: Arc<dyn MergeOperator>) -> Self {
        if let Err(error) = self.operators.register(number, operator) {
            self.invalid.get_or_insert(error);
        }
        self
    }

    /// Sets callbacks for lock waits and for choosing deadlock victims: see
    /// [`LockHooks`](crate::txn::lock_table::Hooks).
    pub fn lock_hooks(mut self, hooks: impl Hooks + 'static) -> Self {
        self.lock_hooks = Some(Arc::new(hooks));
        self
    }

    /// Replaces files, clock, randomness and threads.
    #[doc(hidden)]
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Replaces sizes.
    #[doc(hidden)]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }
}
