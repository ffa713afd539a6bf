/* SPDX-License-Identifier: GPL-2.0-only */
#include "session.h"

#include "cursor.h"
#include "errors.h"
#include "store.h"

namespace frond {
namespace {

bool in_transaction(THD *thd)
{
    return thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
}

int isolation_of(THD *thd)
{
    switch (thd_tx_isolation(thd)) {
    case ISO_READ_UNCOMMITTED:
    case ISO_READ_COMMITTED:
        return FROND_READ_COMMITTED;
    case ISO_SERIALIZABLE:
        /* A SELECT that is a transaction by itself is serializable without locks. */
        return in_transaction(thd) || thd_sql_command(thd) != SQLCOM_SELECT ? FROND_SERIALIZABLE
                                                                            : FROND_REPEATABLE_READ;
    default:
        return FROND_REPEATABLE_READ;
    }
}

}  // namespace

bool ends_transaction(THD *thd, bool all)
{
    return all || !in_transaction(thd);
}

Session *Session::find(THD *thd)
{
    return static_cast<Session *>(thd_get_ha_data(thd, hton));
}

Session *Session::of(THD *thd)
{
    Session *session = find(thd);
    if (session == nullptr) {
        session = new Session(thd);
        thd_set_ha_data(thd, hton, session);
    }
    return session;
}

Session::Session(THD *thd) : thd_(thd)
{
    frond_interrupter_new(&interrupter_, nullptr);
}

Session::~Session()
{
    detach();
    frond_interrupter_free(interrupter_);
}

void Session::detach()
{
    close_cursors();
    if (prepared_ != nullptr)
        frond_prepared_detach(prepared_);
    prepared_ = nullptr;
    if (txn_ != nullptr)
        frond_txn_rollback(txn_, nullptr);
    ended();
}

void Session::ended()
{
    txn_ = nullptr;
    ordered_ = false;
    statement_marked_ = in_substatement_ = false;
    clear_interrupt();
}

/* KILL QUERY applies to one statement. */
void Session::clear_interrupt()
{
    if (interrupted_.exchange(false))
        frond_interrupter_clear(interrupter_);
}

void Session::close_cursors()
{
    while (cursors_ != nullptr)
        cursors_->suspend();
}

void Session::enter()
{
    /*
      A KILL QUERY has come between two statements, or too late for its own statement. The server
      has cleared `killed` since. A new KILL cannot be missed, because the server sets `killed`
      before it calls the engine.
    */
    if (interrupted_ && !thd_->killed)
        clear_interrupt();
    trans_register_ha(thd_, false, hton, 0);
    if (in_transaction(thd_))
        trans_register_ha(thd_, true, hton, 0);
}

void Session::enter_substatement()
{
    enter();
    if (thd_->in_sub_stmt)
        see_own_writes();
}

void Session::see_own_writes()
{
    if (!statement_marked_)
        return;
    if (in_substatement_)
        frond_txn_end_substatement(txn_, nullptr);
    in_substatement_ = frond_txn_begin_substatement(txn_, nullptr) == FROND_OK;
}

/*
  After functions and triggers, scans see what the statement itself should see: not what it writes.
*/
void Session::leave_substatement()
{
    if (thd_->in_sub_stmt)
        return;
    frond_txn_end_substatement(txn_, nullptr);
    in_substatement_ = false;
}

/* Begins the transaction, unless it has begun. */
int Session::begin_transaction()
{
    if (txn_ != nullptr)
        return 0;
    frond_txn_options options;
    frond_txn_options_init(&options);
    isolation_ = isolation_of(thd_);
    lock_timeout_ms_ = lock_timeout_ms(thd_);
    options.isolation = isolation_;
    options.lock_timeout_ms = lock_timeout_ms_;
    options.tag = thd_get_thread_id(thd_);
    if (int code = frond_txn_begin(store(), &options, &txn_, &error_)) {
        txn_ = nullptr;
        return failed(thd_, code, error_);
    }
    frond_txn_set_interrupter(txn_, interrupter_, nullptr);
    return 0;
}

int Session::mark_statement()
{
    if (prepared_ != nullptr)
        return HA_ERR_WRONG_COMMAND;
    if (int error = begin_transaction())
        return error;
    if (int64_t wanted = lock_timeout_ms(thd_); wanted != lock_timeout_ms_) {
        frond_txn_set_lock_timeout(txn_, wanted, nullptr);
        lock_timeout_ms_ = wanted;
    }
    if (int code = frond_txn_begin_statement(txn_, &error_))
        return fail(code);
    statement_marked_ = true;
    return 0;
}

int Session::fail(int code)
{
    int error = failed(thd_, code, error_);
    /* Without an error, an interrupt that is not a KILL would look like the end of the rows. */
    if (code == INTERRUPTED && !thd_->killed)
        my_error(ER_QUERY_INTERRUPTED, MYF(0));
    if (txn_ != nullptr && frond_txn_is_over(txn_))
        thd_->mark_transaction_to_rollback(true);
    return error;
}

int Session::end_statement()
{
    if (txn_ != nullptr && statement_marked_ && isolation_ == FROND_READ_COMMITTED)
        frond_txn_end_statement(txn_, nullptr);
    statement_marked_ = in_substatement_ = false;
    clear_interrupt();
    return 0;
}

int Session::rollback_statement()
{
    if (txn_ == nullptr || !statement_marked_)
        return end_statement();
    close_cursors();
    int code = frond_txn_rollback_statement(txn_, &error_);
    int error = code == FROND_OK || frond_txn_is_over(txn_) ? 0 : failed(thd_, code, error_);
    wrote();
    end_statement();
    return error;
}

int Session::commit()
{
    close_cursors();
    int code = FROND_OK;
    if (prepared_ != nullptr)
        /*
          After commit_ordered the binlog has the decision, and the server requests durability with
          commit_checkpoint_request.
        */
        code = frond_prepared_commit(prepared_, ordered_ ? FROND_LAZY : FROND_AS_STORE, &error_);
    else if (txn_ != nullptr)
        code = frond_txn_commit(txn_, nullptr, &error_);
    return end_transaction(code);
}

int Session::rollback()
{
    close_cursors();
    int code = FROND_OK;
    if (prepared_ != nullptr)
        code = frond_prepared_rollback(prepared_, &error_);
    else if (txn_ != nullptr)
        code = frond_txn_rollback(txn_, &error_);
    wrote();
    return end_transaction(code);
}

/*
  Forgets the transaction. If the end of a prepared transaction has failed, it stays prepared, and
  its handle was released, except when the call was not allowed at all.
*/
int Session::end_transaction(int code)
{
    int error = code == FROND_OK ? 0 : failed(thd_, code, error_);
    if (code != INVALID_ARGUMENT)
        prepared_ = nullptr;
    ended();
    return error;
}

int Session::prepare(const XID &xid)
{
    if (txn_ == nullptr)
        return 0;
    close_cursors();
    Xid_name name(xid);
    int code = frond_txn_prepare(txn_, name.bytes, name.length, FROND_SYNC, &prepared_, &error_);
    if (code != FROND_OK) {
        prepared_ = nullptr;
        int error = failed(thd_, code, error_);
        if (code != INVALID_ARGUMENT)
            ended();
        return error;
    }
    ended();
    return 0;
}

void Session::commit_ordered()
{
    /* The commit that follows returns the error. */
    if (prepared_ != nullptr && frond_prepared_commit_ordered(prepared_, nullptr, nullptr) == FROND_OK)
        ordered_ = true;
}

int Session::take_snapshot()
{
    if (int error = begin_transaction())
        return error;
    if (isolation_ != FROND_REPEATABLE_READ) {
        if (thd_tx_isolation(thd_) == ISO_READ_UNCOMMITTED)
            push_warning_printf(thd_, Sql_condition::WARN_LEVEL_WARN, HA_ERR_UNSUPPORTED,
                                "Frond: WITH CONSISTENT SNAPSHOT is ignored at READ UNCOMMITTED isolation level.");
        return 0;
    }
    if (int code = frond_txn_take_snapshot(txn_, nullptr, &error_))
        return fail(code);
    return 0;
}

int Session::set_savepoint(uint64_t *number)
{
    if (int error = begin_transaction())
        return error;
    if (int code = frond_txn_savepoint(txn_, number, &error_))
        return fail(code);
    return 0;
}

int Session::rollback_to(uint64_t number)
{
    if (txn_ == nullptr)
        return HA_ERR_NO_SAVEPOINT;
    close_cursors();
    if (int code = frond_txn_rollback_to(txn_, number, &error_))
        return fail(code);
    wrote();
    return 0;
}

int Session::release_savepoint(uint64_t number)
{
    if (txn_ != nullptr)
        frond_txn_release(txn_, number, nullptr);
    return 0;
}

bool Session::holds_locks()
{
    size_t locks = 0;
    if (txn_ == nullptr)
        return false;
    return frond_txn_each_lock(txn_, 0, [](void *, const frond_held *) {}, nullptr, &locks, nullptr) != FROND_OK ||
           locks > 0;
}

void Session::interrupt()
{
    /*
      The interrupt is set before the flag, because the end of the statement clears the interrupt
      only if it sees the flag.
    */
    frond_interrupt(interrupter_);
    interrupted_ = true;
}

/* Members of the handlerton. */
namespace {

int commit(handlerton *, THD *thd, bool all)
{
    Session *session = Session::find(thd);
    if (session == nullptr)
        return 0;
    return ends_transaction(thd, all) ? session->commit() : session->end_statement();
}

int rollback(handlerton *, THD *thd, bool all)
{
    Session *session = Session::find(thd);
    if (session == nullptr)
        return 0;
    return ends_transaction(thd, all) ? session->rollback() : session->rollback_statement();
}

int close_connection(handlerton *, THD *thd)
{
    Session *session = Session::find(thd);
    /* Takes the lock under which KILL finds the session, so that no KILL uses it any more. */
    thd_set_ha_data(thd, hton, nullptr);
    delete session;
    return 0;
}

void kill_query(handlerton *, THD *thd, enum thd_kill_levels)
{
    if (Session *session = Session::find(thd))
        session->interrupt();
}

int savepoint_set(handlerton *, THD *thd, void *slot)
{
    return Session::of(thd)->set_savepoint(static_cast<uint64_t *>(slot));
}

int savepoint_rollback(handlerton *, THD *thd, void *slot)
{
    return Session::of(thd)->rollback_to(*static_cast<uint64_t *>(slot));
}

int savepoint_release(handlerton *, THD *thd, void *slot)
{
    return Session::of(thd)->release_savepoint(*static_cast<uint64_t *>(slot));
}

bool savepoint_rollback_can_release_mdl(handlerton *, THD *thd)
{
    Session *session = Session::find(thd);
    return session == nullptr || !session->holds_locks();
}

int start_consistent_snapshot(handlerton *, THD *thd)
{
    Session *session = Session::of(thd);
    trans_register_ha(thd, true, hton, 0);
    return session->take_snapshot();
}

}  // namespace

void set_transaction_calls(handlerton *hton)
{
    hton->savepoint_offset = sizeof(uint64_t);
    hton->commit = commit;
    hton->rollback = rollback;
    hton->close_connection = close_connection;
    hton->kill_query = kill_query;
    hton->savepoint_set = savepoint_set;
    hton->savepoint_rollback = savepoint_rollback;
    hton->savepoint_release = savepoint_release;
    hton->savepoint_rollback_can_release_mdl = savepoint_rollback_can_release_mdl;
    hton->start_consistent_snapshot = start_consistent_snapshot;
}

}  // namespace frond
