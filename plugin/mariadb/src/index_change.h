/* Keys that ALTER TABLE adds and drops in place. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_INDEX_CHANGE_H
#define FROND_INDEX_CHANGE_H

#include "share.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace frond {

class Dropped_trees;
class Session;
class Steps;

/*
  For each key of the altered table, the number of the same key before; none for a new key. The
  server renumbers keys when one is added or dropped. Returns nothing if a key is not found.
*/
using Old_keys = std::vector<std::optional<uint>>;
std::optional<Old_keys> old_keys(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info);

/*
  What an ALTER in place does to one table, or one partition.

  1. `build`: reads the rows once, and makes the trees of all new keys in one commit of their loads.
     Writers are excluded from here on: the server excludes its own, and the build waits for
     transactions that the server does not know (prepared before a restart). No table has these trees
     yet.
  2. `commit`: one commit, for all partitions, makes them trees of the table: its attributes say
     which tree each key has, and the trees of dropped keys are dropped. It also stores the version
     of the .frm file, so that after a crash the server's DDL log chooses the file that matches the
     trees (`check_version`).

  A crash in between leaves trees that no table names; they are dropped when the server starts
  (`drop_unnamed_trees`). Until then they are harmless, because numbers of existing trees are not
  used again.

  The trees are created by the commit of step 1. A transaction that reads an older snapshot gets
  HA_ERR_TABLE_DEF_CHANGED when it reads such a tree, never some of its entries: the engine compares
  the snapshot with the creation of the tree. This is necessary because the entries are those of the
  rows as of the build, without older versions. After step 1 they have the same history as the rows.
*/
class Index_change final : public inplace_alter_handler_ctx {
public:
    Index_change(Share *share, Old_keys old, const TABLE *altered, HA_CREATE_INFO *info);

    bool has_new_keys() const;
    /* Returns false if it failed; then the error was reported. */
    bool build(THD *thd, handler *table, TABLE *altered);
    /* Adds the steps that make the trees live. `changes` is left unset if nothing changes. */
    void add_steps(Steps *steps, Dropped_trees *going, bool *changes);
    void committed();
    /* Drops what was built. */
    void roll_back(THD *thd);

private:
    void name_trees();
    int load(Session *session, TABLE *altered, const Plan &plan);
    template <typename Each>
    int scan(Session *session, TABLE *altered, const Plan &plan, frond_txn *txn, Each each);
    Attributes changed() const;

    Share *const share_;
    const Old_keys old_;
    const bool has_primary_;
    std::vector<std::string> names_; /* Names of keys. */
    std::string version_;
    int compression_;
    std::optional<uint64_t> auto_increment_;
    struct New_tree {
        uint number;
        std::string name;
    };
    std::map<uint, New_tree> new_trees_; /* By key of the altered table. */
    bool are_made_ = false;
    Attributes after_;
};

/*
  Whether the table was last changed with this version of its .frm file: 0 if so, 1 if not, 2 if the
  store has no such table.
*/
int check_version(handlerton *, const char *path, const LEX_CUSTRING *version, ulonglong);

/* Drops trees of indexes that no table names: remains of an ALTER that a crash has ended. */
int drop_unnamed_trees(handlerton *);

}  // namespace frond

#endif
