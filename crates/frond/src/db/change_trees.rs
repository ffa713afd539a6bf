//! Changes of several trees at once, as programs make them: steps, in their order, that are one commit.
//!
//! 1. The steps are made on a picture of the catalog ([`CatalogChange`]), which says what trees the change takes away.
//! 2. Those are locked until the change is shown, so that neither transactions nor batches write them (`alter.rs`). Then step 1
//!    again, for meanwhile others may have changed the catalog. If it takes others away by now, those are locked instead.
//! 3. One commit.
//!
//! Invariants
//! 1. All steps are made, or none, whatever happens (P7).
//! 2. A step sees what those before it have made.
//! 3. Where a change may have been made before, a step is made only if its tree is what the step was written for; a number is
//!    never another tree's, so that a tree which is gone was dropped, by this change or by a later one.
//!
//! Threads: a change has one owner until it is committed; commits of changes take turns.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    Error, Interrupter, Layout, NewPart, Result, Seqno, StoreId, TreeId,
    catalog::{TABLE_ATTRIBUTES, TreeRecord},
    heed::Heed,
    txn::lock_table::Patience,
};

use super::{
    CatalogChange, Db, Tree, TreeOptions,
    catalog::{must_be_no_build, must_be_no_mark},
    commit::LOCK_WAIT,
};

/// Which tree a step of a [`TreesChange`] is about: by its name (`"t"`), by its number ([`Tree::id`], or a handle), or by
/// both (`(number, "t")`), and then it must have that name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WhichTree {
    id: Option<TreeId>,
    name: Option<String>,
    /// The store of its handle, if it was named by one.
    store: Option<StoreId>,
}

impl WhichTree {
    /// By number, by name, or by both; by neither it is none.
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

/// Changes of trees that are one commit: see [`Db::change_trees`]. Until [`commit`](Self::commit) it is a list of steps, and
/// holds nothing.
#[derive(Clone, Debug)]
#[must_use = "nothing is changed before it is committed"]
pub struct TreesChange {
    db: Db,
    steps: Vec<Step>,
    is_repeatable: bool,
    lock_timeout: Option<Duration>,
    heed: Option<Heed>,
}

/// What a change of trees came to.
#[derive(Clone, Debug)]
pub struct TreesChanged {
    /// Its commit; `None` if there was nothing to be done.
    pub seqno: Option<Seqno>,
    /// Each step, in their order.
    pub steps: Vec<ChangeStep>,
}

/// What one step of a change of trees came to.
#[derive(Clone, Debug)]
pub struct ChangeStep {
    /// The tree that it was about, or that it made; of a truncation the new one, of a swap the first of the two. `None` if it
    /// is gone.
    pub tree: Option<Tree>,
    /// False if a repeatable change passed it over, for it had been made.
    pub was_made: bool,
}

impl Db {
    /// Begins a change of several trees that is one commit: all of it is there after a crash, or nothing, and who looks for
    /// names finds them as before or as after it.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let people = db.create_tree("people", Default::default())?;
    /// people.put(b"ada", b"London")?;
    /// // Made anew beside it, it takes its place; the old one goes, and a queue begins again.
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
    /// A server that keeps a log of its own of what is to be changed, and after a crash does again what may have been done,
    /// makes its changes [`repeatable`](TreesChange::repeatable), and names trees by number and name:
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let old = db.create_tree("t", Default::default())?.id();
    /// let new = db.create_tree("t, rebuilt", Default::default())?.id();
    /// let replay = || {
    ///     let mut change = db.change_trees();
    ///     change.repeatable().swap((old, "t"), (new, "t, rebuilt")).drop_tree((old, "t, rebuilt"));
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
        TreesChange { db: self.clone(), steps, is_repeatable, lock_timeout, heed: None }
    }
}

impl TreesChange {
    /// The change may have been made before, and changes that came after it, too: a step whose outcome is there is passed
    /// over, and so is one whose tree is gone, or has another name than the step says, for then a later change has been
    /// there. What cannot be told is an error as ever. Of the steps:
    ///
    /// - A tree that is named by its name alone is looked for by that. A rename from a name that is free to one that is taken
    ///   was made; a drop of a name that is free, too. Later changes can confuse that: name trees by number and name.
    /// - A swap needs numbers and names of both, a truncation the number, a change of layout the version that it begins with:
    ///   twice, they would do something else. Of a tree whose version is a later one it was made.
    /// - A tree was created if one of that name has the same options: give it attributes that no other has. A clone was made
    ///   if that name is a clone of the same tree. Later changes of these names cannot be told from no change at all: a log that
    ///   goes on behind creations is to be repeated from the last entry on.
    /// - Publishing is done again.
    pub fn repeatable(&mut self) -> &mut Self {
        self.is_repeatable = true;
        self
    }

    /// How long [`commit`](Self::commit) waits for transactions, all together, before it fails with
    /// [`Error::LockTimeout`]; `None`: until they have ended. Ten seconds if nobody says.
    pub fn lock_timeout(&mut self, timeout: Option<Duration>) -> &mut Self {
        self.lock_timeout = timeout;
        self
    }

    /// From here on an interrupt ends a [`commit`](Self::commit) that waits for transactions, with [`Error::Step`] of
    /// [`Error::Interrupted`]; and one that begins, until it is cleared, with that alone. Nothing was done then.
    pub fn heed(&mut self, interrupter: &Interrupter) -> &mut Self {
        interrupter.set_on(self.heed.get_or_insert_default());
        self
    }

    /// A new tree, as [`Db::create_tree`] makes it.
    pub fn create(&mut self, name: &str, options: TreeOptions) -> &mut Self {
        self.step(Step::Create { name: name.into(), options: Box::new(options) })
    }

    /// Another name for a tree, as [`Db::rename_tree`] gives it. The name must be free by then: what had it was renamed,
    /// swapped or dropped by a step before. Snapshots of before can be read under the new name, too.
    pub fn rename(&mut self, tree: impl Into<WhichTree>, to: &str) -> &mut Self {
        self.step(Step::Rename { tree: tree.into(), to: to.into() })
    }

    /// A tree goes, as by [`Db::drop_tree`].
    pub fn drop_tree(&mut self, tree: impl Into<WhichTree>) -> &mut Self {
        self.step(Step::Drop(tree.into()))
    }

    /// Two trees exchange their names, so that one that was made anew takes the other's place. Both begin with this change, as
    /// by [`publish`](Self::publish): a snapshot of before must not find under a name what was made of it later, and half of it
    /// at that. As it was then, [`Snapshot::open_tree`](crate::Snapshot::open_tree) finds it.
    ///
    /// Takes no lock: transactions with rows of a tree go on with it under its other name. Who must not have any locks both
    /// trees first ([`Txn::lock_tree`](crate::Txn::lock_tree), exclusively), and swaps before that transaction ends.
    pub fn swap(&mut self, one: impl Into<WhichTree>, other: impl Into<WhichTree>) -> &mut Self {
        self.step(Step::Swap(one.into(), other.into()))
    }

    /// A tree loses all rows at once, whatever there are of them: a new tree takes its name, with another number, like it in
    /// attributes, layouts and all settings, whose counters begin again; and the old one goes as by
    /// [`drop_tree`](Self::drop_tree). Its handles fail with `NoSuchTree` from then on; snapshots taken earlier keep its rows.
    pub fn truncate(&mut self, tree: impl Into<WhichTree>) -> &mut Self {
        self.step(Step::Truncate(tree.into()))
    }

    /// A new tree that holds what another does, as [`Db::clone_tree`] makes it; the other may go by a step behind.
    pub fn clone_tree(&mut self, of: impl Into<WhichTree>, to: &str) -> &mut Self {
        self.step(Step::Clone { of: of.into(), to: to.into() })
    }

    /// Other bytes are kept with a tree: see [`TreeOptions::attributes`].
    pub fn set_attributes(&mut self, tree: impl Into<WhichTree>, attributes: Vec<u8>) -> &mut Self {
        self.step(Step::SetAttributes { tree: tree.into(), attributes })
    }

    /// Values of a tree get another layout, as by [`Db::change_layout`], so that names and attributes that belong to it change with
    /// it. `from`: the version ([`Tree::layout_version`]) that `parts` are numbered by; a tree that has another is refused.
    pub fn change_layout(
        &mut self,
        tree: impl Into<WhichTree>,
        from: Option<u16>,
        parts: &[NewPart],
    ) -> &mut Self {
        self.step(Step::ChangeLayout { tree: tree.into(), from, parts: parts.to_vec() })
    }

    /// A tree begins with this change ([`TreeInfo::birth`](crate::TreeInfo::birth)): a snapshot of before fails with
    /// `DefinitionChanged` there, as if it had been created now. For one that was filled under another name, and is renamed by
    /// a step beside.
    pub fn publish(&mut self, tree: impl Into<WhichTree>) -> &mut Self {
        self.step(Step::Publish(tree.into()))
    }

    fn step(&mut self, step: Step) -> &mut Self {
        self.steps.push(step);
        self
    }

    /// Makes the change. Synced when it returns, whatever the durability of the store; costs one commit of some hundred bytes a
    /// tree and its attributes and layouts, no read of a row. Waits for transactions that have rows of trees that it drops or
    /// truncates, those that are prepared, too, and in a clone's case until what was committed so far is applied. Transactions
    /// with rows of trees that get other names go on with them.
    ///
    /// A transaction or batch with rows of a tree that goes is committed wholly before the change, and then a clone made by it has the
    /// rows; or it fails with `NoSuchTree` and has done nothing. From the change on reads of such a tree fail with `NoSuchTree`; snapshots and
    /// cursors from before show all its rows.
    ///
    /// After an error the change may be committed again.
    ///
    /// # Errors
    /// [`Error::Step`] if a step cannot be made: `NoSuchTree`, `TreeExists`, `InvalidArgument`; `LockTimeout` if a
    /// transaction or batch with rows lasts longer than it may; `Interrupted` if it [heeds](Self::heed) somebody. Nothing was done then. `BatchTooLarge`, `Full`: likewise, unless `Full`
    /// says that the change will be there when the store is opened again. `OutcomeUnknown`: after the next opening the change
    /// is there wholly or not at all.
    ///
    /// One that clones trees or changes layouts, and drops or truncates others, is refused if the disk is full. Should it become
    /// so while the change is made, the call waits for room: by then it is durable.
    pub fn commit(&self) -> Result<TreesChanged> {
        let shared = &self.db.shared;
        let now = || shared.engine.env.clock.now();
        let deadline = self.lock_timeout.map(|time| now().saturating_add(time));
        let (mut had, mut alone) = (Vec::new(), None);
        loop {
            self.heed.as_ref().map_or(Ok(()), Heed::must_go_on)?;
            let plan = self.plan()?;
            if plan.alone.keys().all(|tree| had.contains(tree)) {
                if plant!("db: trees are given back before their change is made") {
                    drop(alone.take());
                }
                return plan.commit(&self.db);
            }
            // Others may change the catalog while this one waits; and all are had in one order, or none.
            let Plan { alone: wanted, change, .. } = plan;
            drop((change, alone.take()));
            had = wanted.keys().copied().collect();
            let patience = match deadline {
                Some(until) => Patience::For(until.saturating_sub(now())),
                None => Patience::Forever,
            };
            let locked = shared.lock_alone(&had, patience, self.heed.as_ref());
            alone = Some(locked.map_err(|(tree, error)| {
                let step = wanted.get(&tree).copied().unwrap_or_default();
                Error::Step { step, error: Box::new(error) }
            })?);
        }
    }

    /// The same of one step, of which nobody needs to be told which it is.
    pub(super) fn commit_one(&self) -> Result<Option<Tree>> {
        match self.commit() {
            Ok(changed) => Ok(changed.steps.into_iter().find_map(|step| step.tree)),
            Err(Error::Step { error, .. }) => Err(*error),
            Err(error) => Err(error),
        }
    }

    /// Makes the steps on a picture of the catalog.
    fn plan(&self) -> Result<Plan<'_>> {
        let change = self.db.change_catalog()?;
        let (is_repeatable, store) = (self.is_repeatable, self.db.shared.engine.store.id());
        let (made, alone) = Default::default();
        let mut plan = Plan { change, store, is_repeatable, made, alone };
        for (at, step) in self.steps.iter().enumerate() {
            let made = plan.step(at, step);
            let made = made.map_err(|error| Error::Step { step: at, error: Box::new(error) })?;
            plan.made.push(made);
        }
        Ok(plan)
    }
}

/// What a step has come to: the tree that it is about, or made.
#[derive(Clone, Copy, Debug)]
enum Made {
    Now(Option<TreeId>),
    Before(Option<TreeId>),
}

/// A change as far as it is made.
struct Plan<'a> {
    change: CatalogChange<'a>,
    store: StoreId,
    is_repeatable: bool,
    made: Vec<Made>,
    /// Trees that go, and the step that first wants it.
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
            tree: tree.and_then(|tree| db.tree(tree)),
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
                let Some(found) = found else { return Ok(self.passed(tree)) };
                self.goes(at, found.id);
                self.change.drop_tree(found.id);
                Ok(Made::Now(None))
            }
            Step::Swap(one, other) => self.swap(one, other),
            Step::Truncate(tree) => {
                if self.is_repeatable && tree.id.is_none() {
                    return Err(unclear("a truncation", "the number of the tree"));
                }
                let Some(found) = self.find(tree)? else { return Ok(self.passed(tree)) };
                must_be_no_table(&found, "its rows are in step with its indexes")?;
                self.goes(at, found.id);
                self.change.truncate(found.id).map(Some).map(Made::Now)
            }
            Step::Clone { of, to } => self.clone_tree(of, to),
            Step::SetAttributes { tree, attributes } => {
                let Some(found) = self.find(tree)? else { return Ok(self.passed(tree)) };
                must_be_no_table(&found, "its attributes say what indexes it has")?;
                must_be_no_mark(attributes)?;
                if found.attributes == *attributes {
                    return Ok(Made::Before(Some(found.id)));
                }
                self.change.set_attributes(found.id, attributes.clone())?;
                Ok(Made::Now(Some(found.id)))
            }
            Step::ChangeLayout { tree, from, parts } => self.change_layout(tree, *from, parts),
            Step::Publish(tree) => {
                let Some(found) = self.find(tree)? else { return Ok(self.passed(tree)) };
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
            None => Ok(self.passed(tree)),
            Some(found) if self.is_repeatable && found.name == to => {
                Ok(Made::Before(Some(found.id)))
            }
            Some(found) => {
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
            return Ok(self.passed(one));
        };
        if first.id == second.id {
            let why = format!("tree \"{}\" is to be swapped with itself", first.name);
            return Err(Error::InvalidArgument(why));
        }
        self.change.swap(first.id, second.id)?;
        Ok(Made::Now(Some(first.id)))
    }

    fn clone_tree(&mut self, of: &WhichTree, to: &str) -> Result<Made> {
        let found = self.find(of);
        if self.is_repeatable
            && let Some(there) = self.named(to)
            && let Some(parent) = there.parent
        {
            // Its parent may be gone by now.
            let of = found.as_ref().ok().and_then(Option::as_ref).map(|found| found.id).or(of.id);
            if of == Some(parent.tree) {
                return Ok(Made::Before(Some(there.id)));
            }
        }
        let Some(found) = found? else { return Ok(self.passed(of)) };
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
        let Some(found) = self.find(tree)? else { return Ok(self.passed(tree)) };
        must_be_no_table(&found, "its columns change by Table::change_columns")?;
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

    /// The tree that a step is about; nothing if the step is to be passed over.
    fn find(&self, which: &WhichTree) -> Result<Option<TreeRecord>> {
        let missing = || Err(Error::NoSuchTree(which.to_string()));
        if which.store.is_some_and(|store| store != self.store) {
            return Err(Error::InvalidArgument("the tree is of another store".into()));
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

    /// It was made before.
    fn passed(&self, which: &WhichTree) -> Made {
        Made::Before(which.id.filter(|&id| self.change.look(id).is_some()))
    }

    /// A tree is to go: nobody may have rows of it.
    fn goes(&mut self, at: usize, tree: TreeId) {
        if !self.change.is_new(tree) {
            self.alone.entry(tree).or_insert(at);
        }
    }
}

fn unclear(step: &str, needs: &str) -> Error {
    Error::InvalidArgument(format!("{step} in a repeatable change needs {needs}"))
}

pub(super) fn must_be_no_table(tree: &TreeRecord, why: &str) -> Result<()> {
    match tree.attributes.starts_with(TABLE_ATTRIBUTES) {
        true => Err(Error::InvalidArgument(format!("\"{}\" is a table: {why}", tree.name))),
        false => Ok(()),
    }
}
