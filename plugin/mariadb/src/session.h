/*
  A connection's state in the engine: its transaction, statement and cursors.
  SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_SESSION_H
#define FROND_SESSION_H

#include "server.h"

#include <atomic>

namespace frond {

class Cursor;

/*
  One object per THD, made at its first use of a table and freed with the connection.

  The transaction begins at the first row that is read or written, not when the server locks tables,
  so that a statement that touches no row costs no call. At the same moment the statement is marked:
  a failed statement rolls back to that mark, and its scans see the transaction's own writes up to
  it.
*/
class Session {
public:
    explicit Session(THD *thd);
    ~Session();
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    /* The session of a connection; `of` makes one if there is none, `find` returns null. */
    static Session *of(THD *thd);
    static Session *find(THD *thd);

    THD *thd() const { return thd_; }
    frond_txn *txn() const { return txn_; }
    /* Set on an operation, it cancels that operation when the statement is killed. */
    const frond_interrupter *interrupter() const { return interrupter_; }

    /*
      Registers the engine with the server for the statement, and for the transaction if there is
      one.
    */
    void enter();
    /* Called when a stored function or trigger starts a statement within the caller's. */
    void enter_substatement();

    /*
      Lets scans see what the statement has written so far, if they start from now on: within a
      function or trigger, or until the next call of the handler.
    */
    void see_own_writes();

    /*
      Begins the transaction and marks the statement, unless that is done. Returns an HA_ERR_* code.
    */
    int begin_statement()
    {
        if (in_substatement_)
            leave_substatement();
        return statement_marked_ ? 0 : mark_statement();
    }
    /* Returns the HA_ERR_* of a call that failed, and marks the transaction accordingly. */
    int fail(int code);
    frond_error *error() { return &error_; }

    /* Counts calls that write, so that a cursor can tell that rows it has fetched may be outdated. */
    void wrote() { writes_++; }
    uint64_t writes() const { return writes_; }
    /*
      The unique key in which the last duplicate was found, if it is a key of this table.
    */
    void met_duplicate(const TABLE_SHARE *table, uint key)
    {
        duplicate_in_ = table;
        duplicate_key_ = key;
    }
    uint duplicate_key(const TABLE_SHARE *table) const { return table == duplicate_in_ ? duplicate_key_ : UINT_MAX; }
    /* The handler whose call read a row under a lock last: `unlock_last` releases that row's locks. */
    const void *last_locker() const { return last_locker_; }
    void set_last_locker(const void *handler) { last_locker_ = handler; }
    bool is_repeatable_read() const { return isolation_ == FROND_REPEATABLE_READ; }
    bool is_serializable() const { return isolation_ == FROND_SERIALIZABLE; }

    int commit();
    int rollback();
    int end_statement();
    int rollback_statement();
    int prepare(const XID &xid);
    void commit_ordered();
    int take_snapshot();
    int set_savepoint(uint64_t *number);
    int rollback_to(uint64_t number);
    int release_savepoint(uint64_t number);
    bool holds_locks();
    /* Called by another thread: ends the session's current call. */
    void interrupt();
    /*
      Ends the session. A prepared XA transaction outlives the connection; anything else is rolled
      back.
    */
    void detach();

private:
    friend class Cursor;

    int begin_transaction();
    int end_transaction(int code);
    int mark_statement();
    void leave_substatement();
    void clear_interrupt();
    void close_cursors();
    /* Forgets the transaction, whose handle was released, and its state. */
    void ended();

    THD *const thd_;
    frond_txn *txn_ = nullptr;
    frond_prepared *prepared_ = nullptr;
    bool ordered_ = false;
    bool statement_marked_ = false;
    bool in_substatement_ = false;
    int isolation_ = 0;
    int64_t lock_timeout_ms_ = 0;
    uint64_t writes_ = 0;
    const TABLE_SHARE *duplicate_in_ = nullptr;
    uint duplicate_key_ = UINT_MAX;
    const void *last_locker_ = nullptr;
    Cursor *cursors_ = nullptr;
    /* Cancels all transactions of the session. */
    frond_interrupter *interrupter_ = nullptr;
    std::atomic<bool> interrupted_{false};
    frond_error error_;
};

/*
  Whether the end of a statement ends the transaction: `all` means that the server ends it, and
  outside a transaction each statement is one.
*/
bool ends_transaction(THD *thd, bool all);

/* Sets the members of the handlerton for transactions. */
void set_transaction_calls(handlerton *hton);

/* Sets the members of the handlerton for prepared transactions (xa.cc). */
void set_prepared_calls(handlerton *hton);

/* The name under which a transaction is prepared. */
struct Xid_name {
    explicit Xid_name(const XID &xid);
    uint8_t bytes[10 + XIDDATASIZE];
    size_t length;
};

/* The lock timeout, from the variable frond_lock_wait_timeout and from NOWAIT or WAIT n. */
int64_t lock_timeout_ms(THD *thd);

}  // namespace frond

#endif
