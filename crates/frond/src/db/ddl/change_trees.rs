//! The public interface for changing several trees in one commit: a list of steps.
//!
//! 1. The steps are made on a draft of the catalog ([`CatalogChange`]), which shows which trees the
//!    change removes.
//! 2. Those trees are locked until the change is shown, so that neither transactions nor batches
//!    write them (`exclusive_lock.rs`). Then the draft is made again, because the catalog may have
//!    changed meanwhile. If the change now removes other trees, those are locked instead.
//! 3. The draft is committed in one commit.
//!
//! Invariants
//! 1. All steps are made, or none, whatever happens (P7).
//! 2. A step sees the effects of the steps before it.
//! 3. A repeatable change makes a step only if its tree is the one that the step was written for.
//!    Tree numbers are never reused, so a tree that does not exist any more was dropped, by this
//!    change or by a later one.
//!
//! Threads: a change has one owner until it is committed; commits of changes run one at a time.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    Error, Interrupter, Result, Seqno, TreeId,
    cancel::CancelToken,
    catalog::TreeRecord,
    db::{
        CatalogChange, Db, Shared, Tree, TreeOptions,
        commit::LOCK_WAIT,
        ddl::one_tree::{must_be_no_build, must_be_no_mark},
    },
    layout::{Layout, NewPart},
    txn::lock_table::WaitPolicy,
    types::StoreId,
};

/// Selects the tree of a step of a [`TreesChange`]: by its name (`"t"`), by its number
/// ([`Tree::id`], or a handle), or by both (`(number, "t")`); then the tree must have that name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WhichTree {
    id: Option<TreeId>,
    name: Option<String>,
    /// The store of its handle, if it was given by one.
    store: Option<StoreId>,
}

impl WhichTree {
    /// Selects by number, by name, or by both; with neither it selects no tree.
    pub fn new(id: Option<TreeId>, name: Option<&str>) -> Self {
        Self { id, name: name.map(Into::into), store: None }
    }
}

impl From<&str> for WhichTree {
    fn from(name: &str) -> Self {
        Self::new(None, Some(name))
    }
}

impl From<&String> for WhichTree {
    fn from(name: &String) -> Self {
        name.as_str().into()
    }
}

impl From<TreeId> for WhichTree {
    fn from(id: TreeId) -> Self {
        Self::new(Some(id), None)
    }
}

impl From<&Tree> for WhichTree {
    fn from(tree: &Tree) -> Self {
        let store = Some(tree.shared.engine.store.id());
        Self { id: Some(tree.id()), name: None, store }
    }
}

impl From<(TreeId, &str)> for WhichTree {
    fn from((id, name): (TreeId, &str)) -> Self {
        Self::new(Some(id), Some(name))
    }
}

impl fmt::Display for WhichTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.id, &self.name) {
            (None, name) => f.write_str(name.as_deref().unwrap_or_default()),
            (Some(id), None) => write!(f, "number {}", id.0),
            (Some(id), Some(name)) => write!(f, "{name} (number {})", id.0),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create { name: String, options: Box<TreeOptions> },
    Rename { tree: WhichTree, to: String },
    Drop(WhichTree),
    Swap(WhichTree, WhichTree),
    Truncate(WhichTree),
    Clone { of: WhichTree, to: String },
    SetAttributes { tree: WhichTree, attributes: Vec<u8> },
    ChangeLayout { tree: WhichTree, from: Option<u16>, parts: Vec<NewPart> },
    Publish(WhichTree),
}

/// Changes of trees that become one commit: see [`Db::change_trees`]. Until
/// [`commit`](Self::commit) it is only a list of steps and holds no locks.
#[derive(Clone)]
#[must_use = "nothing is changed before it is committed"]
pub struct TreesChange {
    db: Db,
    steps: Vec<Step>,
    is_repeatable: bool,
    lock_timeout: Option<Duration>,
    cancel: Option<CancelToken>,
}

short_debug!(TreesChange, "TreesChange", |change| change.steps.len());

/// The result of a change of trees.
#[derive(Clone, Debug)]
pub struct TreesChanged {
    /// The seqno of its commit; `None` if there was nothing to do.
    pub seqno: Option<Seqno>,
    /// The results of the steps, in order.
    pub steps: Vec<ChangeStep>,
}

/// The result of one step of a change of trees.
#[derive(Clone, Debug)]
pub struct ChangeStep {
    /// The tree that the step changed or made; for a truncation the new one, for a swap the first
    /// of the two. `None` if it does not exist.
    pub tree: Option<Tree>,
    /// False if a repeatable change skipped the step because it had been made before.
    pub was_made: bool,
}

impl Db {
    /// Starts a change of several trees that is one commit: after a crash all of it is there, or
    /// nothing, and a lookup of names finds them as before it or as after it.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let people = db.create_tree("people", Default::default())?;
    /// people.put(b"ada", b"London")?;
    /// // A rebuilt tree replaces the old one, which is dropped; and a queue is emptied.
    /// let rebuilt = db.create_tree("people, rebuilt", Default::default())?;
    /// rebuilt.put(b"ada", b"Paris")?;
    /// db.create_tree("queue", Default::default())?.put(b"1", b"task")?;
    /// let changed = db
    ///     .change_trees()
    ///     .swap("people", "people, rebuilt")
    ///     .drop_tree("people, rebuilt")
    ///     .truncate("queue")
    ///     .create("log", Default::default())
    ///     .commit()?;
    /// assert_eq!(db.open_tree("people")?.get(b"ada")?.as_deref(), Some(&b"Paris"[..]));
    /// assert_eq!(changed.steps[2].tree.as_ref().unwrap().get(b"1")?, None);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # For logs of changes
    /// A server may keep its own log of catalog changes, and after a crash repeat changes that may
    /// have been made already. Make such changes [`repeatable`](TreesChange::repeatable), and name
    /// trees by number and name:
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let old = db.create_tree("t", Default::default())?.id();
    /// let new = db.create_tree("t, rebuilt", Default::default())?.id();
    /// let replay = || {
    ///     let mut change = db.change_trees();
    ///     change.repeatable().swap((old, "t"), (new, "t, rebuilt"));
    ///     change.drop_tree((old, "t, rebuilt"));
    ///     change.commit()
    /// };
    /// assert!(replay()?.seqno.is_some());
    /// assert!(replay()?.seqno.is_none(), "it is as it should be");
    /// assert_eq!(db.open_tree("t")?.id(), new);
    /// # db.close()
    /// # }
    /// ```
    pub fn change_trees(&self) -> TreesChange {
        let (steps, is_repeatable, lock_timeout) = (Vec::new(), false, Some(LOCK_WAIT));
        TreesChange { db: self.clone(), steps, is_repeatable, lock_timeout, cancel: None }
    }
}

impl TreesChange {
    /// Makes the change repeatable: it may be committed even if it, and changes after it, have been
    /// made before. A step is skipped if its effect is there. It is also skipped if its tree is
    /// gone or has another name than the step says, because then a later change was made. What
    /// cannot be decided is still an error. Rules for the steps:
    ///
    /// - A tree given by its name alone is looked up by name. A rename counts as made if the old
    ///   name is free and the new one taken; a drop, if the name is free. Later changes can confuse
    ///   that: name trees by number and name.
    /// - A swap needs numbers and names of both trees, a truncation the number, a change of layout
    ///   the version that it starts from: repeated, they would do something else. If the tree has a
    ///   later version, the change of layout was made.
    /// - A creation was made if a tree with that name has the same options: give it attributes that
    ///   no other tree has. A clone was made if the tree with that name is a clone of the same
    ///   tree. If these names were changed later, a step that was made looks like one that was not:
    ///   a log that continues after creations must be repeated from its last entry only.
    /// - Publishing is repeated.
    pub fn repeatable(&mut self) -> &mut Self {
        self.is_repeatable = true;
        self
    }

    /// Limits how long [`commit`](Self::commit) waits in total for transactions before it fails
    /// with [`Error::LockTimeout`]; `None` means no limit. The default is ten seconds.
    pub fn lock_timeout(&mut self, timeout: Option<Duration>) -> &mut Self {
        self.lock_timeout = timeout;
        self
    }

    /// Makes [`commit`](Self::commit) cancellable: after this call, an interrupt ends a commit that
    /// waits for transactions, with [`Error::Step`] of [`Error::Interrupted`]. A commit that starts
    /// before the interrupt is cleared fails with `Interrupted` alone. In both cases nothing was
    /// done.
    pub fn set_interrupter(&mut self, interrupter: &Interrupter) -> &mut Self {
        interrupter.set_on(self.cancel.get_or_insert_default());
        self
    }

    /// Creates a tree, as [`Db::create_tree`] does.
    pub fn create(&mut self, name: &str, options: TreeOptions) -> &mut Self {
        self.step(Step::Create { name: name.into(), options: Box::new(options) })
    }

    /// Renames a tree, as [`Db::rename_tree`] does. The name must be free at this step: the tree
    /// that had it was renamed, swapped or dropped by an earlier step. Older snapshots can be read
    /// under the new name, too.
    pub fn rename(&mut self, tree: impl Into<WhichTree>, to: &str) -> &mut Self {
        self.step(Step::Rename { tree: tree.into(), to: to.into() })
    }

    /// Drops a tree, as [`Db::drop_tree`] does.
    pub fn drop_tree(&mut self, tree: impl Into<WhichTree>) -> &mut Self {
        self.step(Step::Drop(tree.into()))
    }

    /// Exchanges the names of two trees, so that a rebuilt tree takes the other's place. Both are
    /// born with this change, as by [`publish`](Self::publish): otherwise an older snapshot would
    /// find a rebuilt tree under its new name, perhaps only half filled.
    /// [`Snapshot::open_tree`](crate::Snapshot::open_tree) opens a tree as it was at a snapshot.
    ///
    /// Takes no lock: transactions with rows of a tree continue with it under its other name. To
    /// exclude them, lock both trees first ([`Txn::lock_tree`](crate::Txn::lock_tree),
    /// exclusively), and swap before that transaction ends.
    pub fn swap(&mut self, one: impl Into<WhichTree>, other: impl Into<WhichTree>) -> &mut Self {
        self.step(Step::Swap(one.into(), other.into()))
    }

    /// Removes all rows of a tree at once, however many there are: a new tree, with another number,
    /// takes its name, attributes, layouts and all settings; its counters start anew. The old tree
    /// is dropped as by [`drop_tree`](Self::drop_tree): its handles fail with `NoSuchTree` from
    /// then on, and snapshots taken earlier keep its rows.
    #[doc(alias = "clear")]
    pub fn truncate(&mut self, tree: impl Into<WhichTree>) -> &mut Self {
        self.step(Step::Truncate(tree.into()))
    }

    /// Makes a clone of a tree, as [`Db::clone_tree`] does; a later step may drop the original.
    pub fn clone_tree(&mut self, of: impl Into<WhichTree>, to: &str) -> &mut Self {
        self.step(Step::Clone { of: of.into(), to: to.into() })
    }

    /// Sets the attributes of a tree: see [`TreeOptions::attributes`].
    pub fn set_attributes(&mut self, tree: impl Into<WhichTree>, attributes: Vec<u8>) -> &mut Self {
        self.step(Step::SetAttributes { tree: tree.into(), attributes })
    }

    /// Changes the layout of a tree's values, as [`Db::change_layout`] does, so that names and
    /// attributes that belong to it change with it. `from` is the version
    /// ([`Tree::layout_version`]) that the numbers in `parts` refer to; a tree with another version
    /// is refused.
    pub fn change_layout(
        &mut self,
        tree: impl Into<WhichTree>,
        from: Option<u16>,
        parts: &[NewPart],
    ) -> &mut Self {
        self.step(Step::ChangeLayout { tree: tree.into(), from, parts: parts.to_vec() })
    }

    /// Sets a tree's birth ([`TreeInfo::birth`](crate::TreeInfo::birth)) to this change: an older
    /// snapshot fails with `DefinitionChanged` there, as if the tree had been created now. Meant
    /// for a tree that was filled under another name and is renamed by another step.
    pub fn publish(&mut self, tree: impl Into<WhichTree>) -> &mut Self {
        self.step(Step::Publish(tree.into()))
    }

    fn step(&mut self, step: Step) -> &mut Self {
        self.steps.push(step);
        self
    }

    /// Makes the change. Synced when this returns, whatever the durability of the store. Costs one
    /// commit of a few hundred bytes per tree plus its attributes and layouts, and reads no row.
    /// Waits for transactions, prepared ones included, that have rows of trees that it drops or
    /// truncates; if it makes clones, also until what was committed so far is applied. Transactions
    /// with rows of renamed trees continue with them.
    ///
    /// A transaction or batch with rows of a removed tree is either committed before the change, so
    /// that a clone made by the change has the rows, or fails with `NoSuchTree` and has done
    /// nothing. From the change on reads of such a tree fail with `NoSuchTree`; earlier snapshots
    /// and cursors still show all its rows.
    ///
    /// After an error the change may be committed again.
    ///
    /// # Errors
    /// [`Error::Step`] if a step cannot be made: `NoSuchTree`, `TreeExists`, `InvalidArgument`;
    /// `LockTimeout` if a transaction or batch with rows of a removed tree lasts too long;
    /// `Interrupted` if it was [cancelled](Self::set_interrupter). Nothing was done then.
    /// `BatchTooLarge`, `Full`: likewise, unless the message of `Full` says that the change will be
    /// there when the store is opened again. `OutcomeUnknown`: after the next opening the change is
    /// there completely or not at all.
    ///
    /// A change that clones trees or changes layouts, and drops or truncates others, is refused if
    /// the disk is full. If the disk fills up while the change is made, the call waits for space:
    /// by then the change is durable.
    pub fn commit(&self) -> Result<TreesChanged> {
        let shared = &self.db.shared;
        let now = || shared.engine.env.clock.now();
        let deadline = self.lock_timeout.map(|time| now().saturating_add(time));
        let (mut had, mut alone) = (Vec::new(), None);
        loop {
            self.cancel.as_ref().map_or(Ok(()), CancelToken::check_cancelled)?;
            let plan = self.plan()?;
            if plan.alone.keys().all(|tree| had.contains(tree)) {
                if plant!("db: trees are given back before their change is made") {
                    drop(alone.take());
                }
                return plan.commit(&self.db);
            }
            // The catalog must be free for others while this waits; and either all trees are locked
            // in order, or none.
            let Plan { alone: wanted, change, .. } = plan;
            drop((change, alone.take()));
            had = wanted.keys().copied().collect();
            let wait_policy = match deadline {
                Some(until) => WaitPolicy::For(until.saturating_sub(now())),
                None => WaitPolicy::Forever,
            };
            let locked = shared.lock_alone(&had, wait_policy, self.cancel.as_ref());
            alone = Some(locked.map_err(|(tree, error)| {
                let step = wanted.get(&tree).copied().unwrap_or_default();
                Error::Step { step, error: Box::new(error) }
            })?);
        }
    }

    /// Makes a change of one step; errors do not name the step.
    pub(in crate::db) fn commit_one(&self) -> Result<Option<Tree>> {
        match self.commit() {
            Ok(changed) => Ok(changed.steps.into_iter().find_map(|step| step.tree)),
            Err(Error::Step { error, .. }) => Err(*error),
            Err(error) => Err(error),
        }
    }

    /// Makes the steps on a draft of the catalog.
    fn plan(&self) -> Result<Plan<'_>> {
        let change = self.db.change_catalog()?;
        let (shared, is_repeatable) = (&*self.db.shared, self.is_repeatable);
        let (made, alone) = Default::default();
        let mut plan = Plan { change, shared, is_repeatable, made, alone };
        for (at, step) in self.steps.iter().enumerate() {
            let made = plan.step(at, step);
            let made = made.map_err(|error| Error::Step { step: at, error: Box::new(error) })?;
            plan.made.push(made);
        }
        Ok(plan)
    }
}

/// How a table or an index is dropped.
const DROP: &str = "Db::drop_table drops a table with its indexes, and Db::drop_index one index";

/// How a table is emptied.
const TRUNCATE: &str = "Table::delete_range deletes rows, and keeps the indexes in step";

/// The result of a step: the tree that it changed or made, now or before.
#[derive(Clone, Copy, Debug)]
enum Made {
    Now(Option<TreeId>),
    Before(Option<TreeId>),
}

/// A change whose steps were made on a draft.
struct Plan<'a> {
    change: CatalogChange<'a>,
    shared: &'a Shared,
    is_repeatable: bool,
    made: Vec<Made>,
    /// Trees that are removed, and the first step that removes each.
    alone: BTreeMap<TreeId, usize>,
}

impl Plan<'_> {
    fn commit(self, db: &Db) -> Result<TreesChanged> {
        let has_more = self.made.iter().any(|made| matches!(made, Made::Now(_)));
        let seqno = has_more.then(|| self.change.commit()).transpose()?;
        let steps = self.made.into_iter().map(|made| match made {
            Made::Now(tree) => (tree, true),
            Made::Before(tree) => (tree, false),
        });
        let steps = steps.map(|(tree, was_made)| ChangeStep {
            tree: tree.and_then(|tree| db.tree_by_id(tree)),
            was_made,
        });
        Ok(TreesChanged { seqno, steps: steps.collect() })
    }

    fn step(&mut self, at: usize, step: &Step) -> Result<Made> {
        match step {
            Step::Create { name, options } => self.create(name, options),
            Step::Rename { tree, to } => self.rename(tree, to),
            Step::Drop(tree) => {
                let found = match (self.find(tree), tree.id) {
                    (Err(Error::NoSuchTree(_)), None) if self.is_repeatable => None,
                    (found, _) => found?,
                };
                let Some(found) = found else { return Ok(self.skipped(tree)) };
                self.shared.must_be_of_no_table(found.id, DROP)?;
                self.note_removed(at, found.id);
                self.change.drop_tree(found.id);
                Ok(Made::Now(None))
            }
            Step::Swap(one, other) => self.swap(one, other),
            Step::Truncate(tree) => {
                if self.is_repeatable && tree.id.is_none() {
                    return Err(unclear("a truncation", "the number of the tree"));
                }
                let Some(found) = self.find(tree)? else { return Ok(self.skipped(tree)) };
                self.shared.must_be_of_no_table(found.id, TRUNCATE)?;
                self.note_removed(at, found.id);
                self.change.truncate(found.id).map(Some).map(Made::Now)
            }
            Step::Clone { of, to } => self.clone_tree(of, to),
            Step::SetAttributes { tree, attributes } => {
                let Some(found) = self.find(tree)? else { return Ok(self.skipped(tree)) };
                self.shared
                    .must_be_of_no_table(found.id, "its attributes say what indexes it has")?;
                must_be_no_mark(attributes)?;
                if found.attributes == *attributes {
                    return Ok(Made::Before(Some(found.id)));
                }
                self.change.set_attributes(found.id, attributes.clone())?;
                Ok(Made::Now(Some(found.id)))
            }
            Step::ChangeLayout { tree, from, parts } => self.change_layout(tree, *from, parts),
            Step::Publish(tree) => {
                let Some(found) = self.find(tree)? else { return Ok(self.skipped(tree)) };
                self.change.begin(found.id)?;
                Ok(Made::Now(Some(found.id)))
            }
        }
    }

    fn create(&mut self, name: &str, options: &TreeOptions) -> Result<Made> {
        if self.is_repeatable
            && let Some(there) = self.named(name)
            && TreeOptions::of(&there) == *options
        {
            return Ok(Made::Before(Some(there.id)));
        }
        self.change.create(name, options.clone()).map(Some).map(Made::Now)
    }

    fn rename(&mut self, tree: &WhichTree, to: &str) -> Result<Made> {
        let found = match (self.find(tree), self.named(to)) {
            (Err(Error::NoSuchTree(_)), Some(there)) if self.is_repeatable && tree.id.is_none() => {
                return Ok(Made::Before(Some(there.id)));
            }
            (found, _) => found?,
        };
        match found {
            None => Ok(self.skipped(tree)),
            Some(found) if self.is_repeatable && found.name == to => {
                Ok(Made::Before(Some(found.id)))
            }
            Some(found) => {
                self.shared.must_be_no_index(found.id)?;
                self.change.rename(found.id, to)?;
                Ok(Made::Now(Some(found.id)))
            }
        }
    }

    fn swap(&mut self, one: &WhichTree, other: &WhichTree) -> Result<Made> {
        let is_clear = |tree: &WhichTree| tree.id.is_some() && tree.name.is_some();
        if self.is_repeatable && !(is_clear(one) && is_clear(other)) {
            return Err(unclear("a swap", "the numbers and the names of both trees"));
        }
        let (Some(first), Some(second)) = (self.find(one)?, self.find(other)?) else {
            return Ok(self.skipped(one));
        };
        if first.id == second.id {
            let why = format!("tree \"{}\" is to be swapped with itself", first.name);
            return Err(Error::InvalidArgument(why));
        }
        self.shared.must_be_no_index(first.id)?;
        self.shared.must_be_no_index(second.id)?;
        self.change.swap(first.id, second.id)?;
        Ok(Made::Now(Some(first.id)))
    }

    fn clone_tree(&mut self, of: &WhichTree, to: &str) -> Result<Made> {
        let found = self.find(of);
        if self.is_repeatable
            && let Some(there) = self.named(to)
            && let Some(parent) = there.parent
        {
            // Its parent may have been dropped.
            let of = found.as_ref().ok().and_then(Option::as_ref).map(|found| found.id).or(of.id);
            if of == Some(parent.tree) {
                return Ok(Made::Before(Some(there.id)));
            }
        }
        let Some(found) = found? else { return Ok(self.skipped(of)) };
        self.change.clone_tree(found.id, to).map(Some).map(Made::Now)
    }

    fn change_layout(
        &mut self,
        tree: &WhichTree,
        from: Option<u16>,
        parts: &[NewPart],
    ) -> Result<Made> {
        if self.is_repeatable && from.is_none() {
            return Err(unclear("a change of layout", "the version that it begins with"));
        }
        let Some(found) = self.find(tree)? else { return Ok(self.skipped(tree)) };
        self.shared.must_be_of_no_table(found.id, "its columns change by Table::change_columns")?;
        let version = found.value_layout.as_ref().and_then(Layout::version);
        if let (Some(from), Some(version)) = (from, version)
            && from != version
        {
            if self.is_repeatable && from < version {
                return Ok(Made::Before(Some(found.id)));
            }
            let name = &found.name;
            let why = format!("the layout of \"{name}\" is version {version} and not {from}");
            return Err(Error::InvalidArgument(why));
        }
        self.change.change_layout(found.id, parts)?;
        Ok(Made::Now(Some(found.id)))
    }

    /// The tree that a step selects; `None` if the step should be skipped.
    fn find(&self, which: &WhichTree) -> Result<Option<TreeRecord>> {
        let missing = || Err(Error::NoSuchTree(which.to_string()));
        if which.store.is_some_and(|store| store != self.shared.engine.store.id()) {
            return Err(Error::InvalidArgument("the tree belongs to another store".into()));
        }
        let found = match (which.id, &which.name) {
            (Some(id), _) => self.change.look(id),
            (None, name) => name.as_deref().and_then(|name| self.named(name)),
        };
        match (found, which.id) {
            (Some(found), _) if which.name.as_ref().is_none_or(|name| *name == found.name) => {
                must_be_no_build(&found).map(|()| Some(found))
            }
            (Some(_), _) if self.is_repeatable => Ok(None),
            (None, Some(id)) if self.is_repeatable && self.change.was_made(id) => Ok(None),
            _ => missing(),
        }
    }

    fn named(&self, name: &str) -> Option<TreeRecord> {
        self.change.find(name).and_then(|id| self.change.look(id))
    }

    /// The result of a skipped step.
    fn skipped(&self, which: &WhichTree) -> Made {
        Made::Before(which.id.filter(|&id| self.change.look(id).is_some()))
    }

    /// Notes that a step removes a tree, so it must be locked.
    fn note_removed(&mut self, at: usize, tree: TreeId) {
        if !self.change.is_new(tree) {
            self.alone.entry(tree).or_insert(at);
        }
    }
}

fn unclear(step: &str, needs: &str) -> Error {
    Error::InvalidArgument(format!("{step} in a repeatable change needs {needs}"))
}
