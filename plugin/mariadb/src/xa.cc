/*
  Prepared transactions: two-phase commit with the binlog, and XA.
  SPDX-License-Identifier: GPL-2.0-only
*/
#include "session.h"

#include "errors.h"
#include "store.h"

#include <string>
#include <vector>

namespace frond {

/* Eight bytes of format, one byte for each length, then the data; parse() decodes it. */
Xid_name::Xid_name(const XID &xid)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = static_cast<uint8_t>(static_cast<uint64_t>(xid.formatID) >> (56 - 8 * i));
    bytes[8] = static_cast<uint8_t>(xid.gtrid_length);
    bytes[9] = static_cast<uint8_t>(xid.bqual_length);
    size_t data = static_cast<size_t>(xid.gtrid_length + xid.bqual_length);
    memcpy(bytes + 10, xid.data, data);
    length = 10 + data;
}

namespace {

/* Return codes of a resource manager, named as in the X/Open specification. */
enum Answer : int { XA_OK = 0, XAER_RMERR = -3, XAER_NOTA = -4 };

bool parse(const std::string &name, XID *xid)
{
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(name.data());
    if (name.size() < 10 || name.size() != 10u + bytes[8] + bytes[9] || name.size() > 10 + XIDDATASIZE)
        return false;
    uint64_t format = 0;
    for (int i = 0; i < 8; i++)
        format = format << 8 | bytes[i];
    xid->set(static_cast<long>(format), name.data() + 10, bytes[8], name.data() + 10 + bytes[8], bytes[9]);
    return true;
}

void collect(void *context, const uint8_t *xid, size_t length, size_t, bool)
{
    static_cast<std::vector<std::string> *>(context)->emplace_back(reinterpret_cast<const char *>(xid), length);
}

/*
  Lists prepared transactions, each of them once. The server calls it again until it returns fewer
  than `len`; those that do not fit are kept for the next call.
*/
int recover(handlerton *, XID *list, uint len)
{
    static std::vector<std::string> waiting;
    if (waiting.empty())
        frond_prepared_list(store(), true, collect, &waiting, nullptr);
    uint count = 0;
    while (!waiting.empty() && count < len) {
        if (parse(waiting.back(), &list[count]))
            count++;
        waiting.pop_back();
    }
    return static_cast<int>(count);
}

int decide(XID *xid, bool commit)
{
    Xid_name name(*xid);
    frond_prepared *prepared = nullptr;
    frond_error error;
    int code = frond_prepared_attach(store(), name.bytes, name.length, &prepared, &error);
    if (code == NO_SUCH_XID)
        return XAER_NOTA;
    if (code == FROND_OK)
        /* Releases the handle even if it fails; then the transaction stays prepared. */
        code = commit ? frond_prepared_commit(prepared, FROND_AS_STORE, &error) : frond_prepared_rollback(prepared, &error);
    if (code == FROND_OK)
        return XA_OK;
    sql_print_error("Frond: a prepared transaction could not be %s: %s", commit ? "committed" : "rolled back",
                    error.message);
    /* The server ignores what is returned here, but not an error of the statement. */
    my_printf_error(ER_XAER_RMERR, "XAER_RMERR: %s", MYF(0), error.message);
    return XAER_RMERR;
}

int commit_by_xid(handlerton *, XID *xid)
{
    return decide(xid, true);
}

int rollback_by_xid(handlerton *, XID *xid)
{
    return decide(xid, false);
}

int prepare(handlerton *, THD *thd, bool all)
{
    Session *session = Session::find(thd);
    if (session == nullptr)
        return 0;
    if (!ends_transaction(thd, all))
        return session->end_statement();
    XID xid;
    thd_get_xid(thd, reinterpret_cast<MYSQL_XID *>(&xid));
    return session->prepare(xid);
}

void commit_ordered(handlerton *, THD *thd, bool all)
{
    Session *session = Session::find(thd);
    if (session != nullptr && ends_transaction(thd, all))
        session->commit_ordered();
}

/*
  Runs on a thread of the store, which must be registered with the server's library before it takes
  mutexes of the server.
*/
void synced(void *cookie)
{
    struct Server_thread {
        Server_thread() { my_thread_init(); }
        ~Server_thread() { my_thread_end(); }
    };
    static thread_local Server_thread known;
    (void)known;
    commit_checkpoint_notify_ha(cookie);
}

void commit_checkpoint_request(void *cookie)
{
    if (frond_when_synced(store(), synced, cookie, nullptr) != FROND_OK)
        sql_print_error("Frond: cannot notify the server when commits are durable, because the store has stopped");
}

}  // namespace

void set_prepared_calls(handlerton *hton)
{
    hton->prepare = prepare;
    hton->recover = recover;
    hton->commit_by_xid = commit_by_xid;
    hton->rollback_by_xid = rollback_by_xid;
    hton->commit_ordered = commit_ordered;
    hton->commit_checkpoint_request = commit_checkpoint_request;
}

}  // namespace frond
