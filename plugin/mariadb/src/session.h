/* What a connection has in the engine: its transaction, statement and cursors. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_SESSION_H
#define FROND_SESSION_H

#include "server.h"

#include <atomic>

namespace frond {

class Cursor;

/*
  One per THD, made at its first use of a table and freed with the connection.

  The transaction begins at the first row that is read or written, not when the server locks tables, so that a statement
  that touches no row costs no call. A statement's mark, to which a failed statement rolls back and up to which its scans
  see the transaction's own writes, is set at the same moment.
*/
class Session {
public:
    explicit Session(THD *thd);
    ~Session();
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    /* The session of a connection; `of` makes one, `find` gives null. */
    static Session *of(THD *thd);
    static Session *find(THD *thd);

    THD *thd() const { return thd_; }
    frond_txn *txn() const { return txn_; }
    /* Ends what it is set on when the statement is killed. */
    const frond_interrupter *interrupter() const { return interrupter_; }

    /* Tells the server that the engine takes part in the statement, and in the transaction if there is one. */
    void enter();
    /* A stored function or trigger begins a statement of its own within the caller's. */
    void enter_substatement();

    /* Scans that begin from here on, in a function or trigger or until the next call of the handler, see what the statement
       has written so far. */
    void see_own_writes();

    /* Begins the transaction and marks the statement, unless that is done. Returns a HA_ERR_*. */
    int begin_statement()
    {
        if (in_substatement_)
            leave_substatement();
        return statement_marked_ ? 0 : mark_statement();
    }
    /* The HA_ERR_* of a call that failed, and what follows from it for the transaction. */
    int fail(int code);
    frond_error *error() { return &error_; }

    /* Counts calls that wrote, by which a cursor knows that rows it has fetched may be gone. */
    void wrote() { writes_++; }
    uint64_t writes() const { return writes_; }
    /* The key that was in the way of the last row that could not be written, as long as it was one of this table. */
    void met_duplicate(const TABLE_SHARE *table, uint key)
    {
        duplicate_in_ = table;
        duplicate_key_ = key;
    }
    uint duplicate_key(const TABLE_SHARE *table) const { return table == duplicate_in_ ? duplicate_key_ : UINT_MAX; }
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
    /* From another thread: ends the call that the session is in. */
    void interrupt();
    /* A prepared XA transaction outlives the connection; anything else is rolled back. */
    void detach();

private:
    friend class Cursor;

    int begin_transaction();
    int end_transaction(int code);
    int mark_statement();
    void leave_substatement();
    void clear_interrupt();
    void close_cursors();
    /* The transaction's handle is given back: forgets it and what belonged to it. */
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
    Cursor *cursors_ = nullptr;
    /* Stops all transactions of the session. */
    frond_interrupter *interrupter_ = nullptr;
    std::atomic<bool> interrupted_{false};
    frond_error error_;
};

/* Whether the end of a statement ends the transaction: `all` says that the server ends it, and without one a statement is a
   transaction by itself. */
bool ends_transaction(THD *thd, bool all);

/* Fills in the members of the handlerton that are about transactions. */
void set_transaction_calls(handlerton *hton);

/* Those about prepared transactions (xa.cc). */
void set_prepared_calls(handlerton *hton);

/* The name under which a transaction is prepared. */
struct Xid_name {
    explicit Xid_name(const XID &xid);
    uint8_t bytes[10 + XIDDATASIZE];
    size_t length;
};

/* From the variable frond_lock_wait_timeout and what NOWAIT or WAIT n says. */
int64_t lock_timeout_ms(THD *thd);

}  // namespace frond

#endif
