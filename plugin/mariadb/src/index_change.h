/* Keys that ALTER TABLE adds and drops in place. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_INDEX_CHANGE_H
#define FROND_INDEX_CHANGE_H

#include "share.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace frond {

class Going_trees;
class Session;
class Steps;

/*
  For each key of the altered table the number of the same key before; none for one that is new. The server sorts keys anew when
  one comes or goes. Nothing if a key is not found.
*/
using Old_keys = std::vector<std::optional<uint>>;
std::optional<Old_keys> old_keys(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info);

/*
  What an ALTER in place does to one table, or one partition.

  1. `build`: the rows are read once, and the trees of all new keys are made in one commit of their loads. Writers are kept away
     from here on: by the server, and those that it does not know of (prepared before a restart) are waited for. No table has
     these trees yet.
  2. `commit`: one commit makes them the table's: its attributes say which tree each key has, and the trees of keys that are gone
     are dropped; for all partitions at once. It also keeps the version of the .frm file, so that after a crash the server's DDL
     log takes the file that fits (`check_version`).

  A crash in between leaves trees that no table names: they are dropped when the server starts (`drop_unnamed_trees`). Numbers of
  trees are not used again while a tree has them, so such a one is in nobody's way.

  The trees begin with the commit of 1. A transaction that reads an older moment than that gets HA_ERR_TABLE_DEF_CHANGED when it
  reads such a tree, never a part of its entries: the engine compares the moment with the tree's begin. It has to: entries are
  those of rows as they are when they are read, without history. From 1 on they have what the rows have.
*/
class Index_change final : public inplace_alter_handler_ctx {
public:
    Index_change(Share *share, Old_keys old, const TABLE *altered, HA_CREATE_INFO *info);

    bool has_new_keys() const;
    /* False if it has failed, and the error was told. */
    bool build(THD *thd, handler *table, TABLE *altered);
    /* What makes the trees the table's, or nothing if all of it stays as it is: then `changes` is not set. */
    void add_steps(Steps *steps, Going_trees *going, bool *changes);
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
    std::vector<std::string> names_; /* Of keys. */
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

/* Whether the table is as this version of its .frm file says: 0, or another number. */
int check_version(handlerton *, const char *path, const LEX_CUSTRING *version, ulonglong);

/* Trees of indexes that their tables do not name: of an ALTER that a crash has ended. */
int drop_unnamed_trees(handlerton *);

}  // namespace frond

#endif
