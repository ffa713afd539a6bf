/* SPDX-License-Identifier: GPL-2.0-only */
#include "cursor.h"

#include "errors.h"
#include "session.h"

namespace frond {

int Cursor::open(Session *session, Tree tree, const How &how, std::string_view from, std::string_view to)
{
    close();
    from_.assign(from);
    to_.assign(to);
    session_ = session;
    tree_ = tree;
    how_ = how;
    frond_read_options options;
    frond_read_options_init(&options);
    options.row_lock = how.row_lock;
    options.when_locked = how.when_locked;
    options.sees = how.sees;
    options.projection = how.projection;
    if (int code = tree.scan(session->txn(), from, to, options, &cursor_, session->error())) {
        cursor_ = nullptr;
        return session->fail(code);
    }
    next_ = session->cursors_;
    if (next_ != nullptr)
        next_->link_ = &next_;
    link_ = &session->cursors_;
    session->cursors_ = this;
    return 0;
}

void Cursor::close()
{
    if (cursor_ != nullptr) {
        frond_cursor_free(cursor_);
        *link_ = next_;
        if (next_ != nullptr)
            next_->link_ = link_;
    }
    cursor_ = nullptr;
    row_ = nullptr;
    batch_ = {nullptr, 0};
    at_ = 0;
    forward_ = true;
    expected_ = 0;
    kept_key_.clear();
    suspended_ = false;
}

void Cursor::suspend()
{
    if (cursor_ == nullptr)
        return;
    bool has_row = row_ != nullptr;
    std::string key(has_row ? this->key() : std::string_view());
    bool forward = forward_;
    close();
    kept_key_ = std::move(key);
    /* The projection may have been released by the time the cursor continues. */
    how_.projection = nullptr;
    how_.projection_number = 0;
    suspended_ = has_row;
    forward_ = forward;
}

void Cursor::forget_rows()
{
    kept_key_.clear();
    row_ = nullptr;
    batch_ = {nullptr, 0};
    expected_ = 0;
}

int Cursor::set_range(std::string_view from, std::string_view to)
{
    if (tree_.is_temporary())
        return open(session_, tree_, how_, from, to);
    forget_rows();
    forward_ = true;
    from_.assign(from);
    to_.assign(to);
    if (int code = frond_cursor_range(cursor_, from.empty() ? nullptr : from.data(), from.size(),
                                      to.empty() ? nullptr : to.data(), to.size(), session_->error()))
        return session_->fail(code);
    return 0;
}

int Cursor::leave_range(bool forward)
{
    if (cursor_ == nullptr) {
        (forward ? to_ : from_).clear();
        return 0;
    }
    if (row_ == nullptr && kept_key_.empty())
        return 0;
    std::string key(row_ == nullptr ? std::string_view(kept_key_) : this->key());
    if (!forward) {
        if (int error = set_range({}, key))
            return error;
        return seek_last();
    }
    key.push_back('\0');
    return set_range(key, {});
}

int Cursor::seek(std::string_view key)
{
    forget_rows();
    forward_ = true;
    if (int code = frond_cursor_seek(cursor_, key.data(), key.size(), session_->error()))
        return session_->fail(code);
    return 0;
}

int Cursor::seek_last()
{
    forget_rows();
    forward_ = false;
    if (int code = frond_cursor_seek_last(cursor_, session_->error()))
        return session_->fail(code);
    return 0;
}

/* Positions the cursor after the current row, or before it. */
int Cursor::seek_past_current(bool forward)
{
    std::string key(this->key());
    if (forward)
        key.push_back('\0');
    int error = seek(key);
    forward_ = forward;
    return error;
}

/*
  Opens a suspended cursor again: in the given direction, the row of the kept key comes next, if it
  still exists and is to be included.
*/
int Cursor::reopen(bool forward, bool includes_kept)
{
    if (!suspended_)
        return HA_ERR_END_OF_FILE;
    if (int error = session_->begin_statement())
        return error;
    std::string key = kept_key_;
    const std::string from = from_, to = to_;
    if (forward != includes_kept)
        key.push_back('\0');
    if (int error = open(session_, tree_, how_, from, to))
        return error;
    int error = seek(key);
    forward_ = forward;
    return error;
}

int Cursor::fetch(bool forward)
{
    /* A scan that locks rows reads one row at a time. */
    if (row_ != nullptr)
        kept_key_.assign(key());
    const size_t rows = how_.row_lock == FROND_NO_LOCK && !session_->is_serializable() ? expected_ : 0;
    int code = forward ? frond_cursor_next(cursor_, rows, &batch_, session_->error())
                       : frond_cursor_prev(cursor_, rows, &batch_, session_->error());
    expected_ = 0;
    at_ = 0;
    writes_at_fetch_ = session_->writes();
    if (code == FROND_OK) {
        row_ = batch_.rows;
        return 0;
    }
    batch_ = {nullptr, 0};
    row_ = nullptr;
    return code == FROND_NOT_FOUND ? HA_ERR_END_OF_FILE : session_->fail(code);
}

int Cursor::step(bool forward)
{
    if (cursor_ == nullptr) {
        if (int error = reopen(forward, false))
            return error;
    } else if (forward != forward_) {
        if (row_ != nullptr) {
            if (int error = seek_past_current(forward))
                return error;
            batch_ = {nullptr, 0};
        }
        forward_ = forward;
    }
    while (row_ != nullptr && at_ + 1 < batch_.count) {
        if (writes_at_fetch_ != session_->writes()) {
            bool is_current = false;
            if (int code = frond_cursor_is_current(cursor_, at_ + 1, &is_current, session_->error()))
                return session_->fail(code);
            if (!is_current) {
                if (int error = seek_past_current(forward))
                    return error;
                break;
            }
        }
        row_ = &batch_.rows[++at_];
        return 0;
    }
    return fetch(forward);
}

/* Opens the cursor again at the row of the kept key; HA_ERR_KEY_NOT_FOUND if it is gone. */
int Cursor::reopen_at_row()
{
    const std::string key = kept_key_;
    const bool forward = forward_;
    if (int error = reopen(forward, true))
        return error;
    const int error = fetch(forward);
    if (error == 0 && this->key() == key)
        return 0;
    if (error != 0 && error != HA_ERR_END_OF_FILE)
        return error;
    /* The next step reads the row after it, or before it. */
    if (int failed = seek(forward ? key + '\0' : key))
        return failed;
    forward_ = forward;
    return HA_ERR_KEY_NOT_FOUND;
}

int Cursor::relock()
{
    frond_rows rows;
    if (cursor_ == nullptr) {
        if (int error = reopen_at_row())
            return error;
        if (is_locked())
            return 0;
    }
    int code = frond_cursor_relock(cursor_, -1, &rows, session_->error());
    if (code == FROND_NOT_FOUND)
        return HA_ERR_KEY_NOT_FOUND;
    if (code != FROND_OK)
        return session_->fail(code);
    batch_ = rows;
    at_ = 0;
    row_ = rows.rows;
    return 0;
}

}  // namespace frond
