/* SPDX-License-Identifier: GPL-2.0-only */
#include "statistics.h"

#include "errors.h"
#include "store.h"

#include "my_sys.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <system_error>
#include <thread>
#include <unordered_map>

namespace frond {
namespace {

/* For smaller tables, the optimizer's guesses are good enough. */
constexpr uint64_t ROWS_MIN = 1000;
/* Minimum time between two samplings of a table, in multiples of the duration of the first. */
constexpr ulonglong PAUSES = 100;
/* Time until a table is sampled again after an error. */
constexpr ulonglong FAILED_MICROS = 3600ULL * 1000 * 1000;
/* Maximum number of tables with statistics; beyond it, those of closed tables are dropped. */
constexpr size_t TABLES_MAX = 1 << 16;

/* The tables to be sampled, and the thread that samples them. */
class Sampler {
public:
    void start()
    {
        stops_ = false;
        try {
            thread_ = std::thread([this] { run(); });
        } catch (const std::system_error &error) {
            sql_print_warning("Frond: no thread for statistics, ANALYZE TABLE is needed: %s", error.what());
        }
    }

    void stop()
    {
        if (!thread_.joinable())
            return;
        {
            std::lock_guard<std::mutex> guard(mutex_);
            stops_ = true;
            samples_.clear();
        }
        changed_.notify_one();
        thread_.join();
    }

    void add(Sample sample)
    {
        /* Its statistics stay as if they were being sampled: no other thread tries in vain. */
        if (!thread_.joinable())
            return;
        {
            std::lock_guard<std::mutex> guard(mutex_);
            samples_.push_back(std::move(sample));
        }
        changed_.notify_one();
    }

private:
    void run()
    {
        my_thread_init();
        std::unique_lock<std::mutex> guard(mutex_);
        for (;;) {
            changed_.wait(guard, [this] { return stops_ || !samples_.empty(); });
            if (stops_)
                break;
            Sample sample = std::move(samples_.front());
            samples_.pop_front();
            guard.unlock();
            const ulonglong begin = microsecond_interval_timer();
            bool is_taken = false;
            try {
                is_taken = take(sample);
            } catch (const std::bad_alloc &) {
                sql_print_warning("Frond: no memory for the statistics of table '%s'", sample.table.c_str());
            }
            sample.statistics->ended(microsecond_interval_timer() - begin, !is_taken);
            guard.lock();
        }
        guard.unlock();
        my_thread_end();
    }

    /* Samples a table. Returns false if not all of its keys could be read. */
    bool take(const Sample &sample)
    {
        frond_error error;
        Rows_per_key found(sample.indexes.size());
        uint64_t rows = 0;
        int code = with_tree(sample.table, &error, [&rows, &error](const frond_tree *tree) {
            return frond_tree_row_count(tree, &rows, nullptr, &error);
        });
        for (size_t i = 0; i < found.size() && code == FROND_OK; i++) {
            if (stops_)
                return true;
            const Sample::Index &index = sample.indexes[i];
            if (index.is_unique && index.ends.size() == 1) {
                found[i] = {1};
                continue;
            }
            code = with_tree(index.tree, &error, [&](const frond_tree *tree) {
                return sample_keys(tree, index.ends, rows, &found[i], &error);
            });
        }
        if (code == NO_SUCH_TREE) /* Dropped or renamed meanwhile. */
            return true;
        if (code != FROND_OK)
            sql_print_warning("Frond: statistics of table '%s' are incomplete: %s", sample.table.c_str(), error.message);
        sample.statistics->set(std::move(found), rows);
        return code == FROND_OK;
    }

    /* Calls a function with a tree. Returns a code of the engine. */
    template <typename Use>
    static int with_tree(const std::string &name, frond_error *error, Use use)
    {
        frond_tree *tree = nullptr;
        if (int code = frond_tree_open(store(), name.c_str(), &tree, error))
            return code;
        int code = use(tree);
        frond_tree_free(tree);
        return code;
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Sample> samples_; /* Each open table is here at most once. */
    std::atomic<bool> stops_{false};
    std::thread thread_;
};

/* Never destroyed: the server may exit without a shutdown of its plugins, while the thread runs. */
Sampler &sampler = *new Sampler;

}  // namespace

int sample_keys(const frond_tree *tree, const std::vector<uint> &ends, uint64_t table_rows, std::vector<uint64_t> *rows_per_key,
                frond_error *error)
{
    uint64_t counts[4 * MAX_REF_PARTS];
    size_t count = 0;
    if (int code = frond_tree_distinct_prefixes(tree, counts, array_elements(counts), &count, error))
        return code;
    rows_per_key->clear();
    for (uint end : ends) {
        if (end > std::min<size_t>(count, array_elements(counts)))
            break;
        const uint64_t distinct = std::max<uint64_t>(1, counts[end - 1]);
        rows_per_key->push_back(std::max<uint64_t>(1, (table_rows + distinct / 2) / distinct));
    }
    return FROND_OK;
}

std::shared_ptr<Statistics> Statistics::of(uint64_t row_tree, const std::vector<uint> &trees)
{
    static std::mutex mutex;
    static auto &tables = *new std::unordered_map<std::string, std::shared_ptr<Statistics>>;
    std::string name = std::to_string(row_tree);
    for (uint tree : trees)
        name.append("/").append(std::to_string(tree));
    std::lock_guard<std::mutex> guard(mutex);
    if (tables.size() >= TABLES_MAX)
        for (auto table = tables.begin(); table != tables.end();)
            table = table->second.use_count() == 1 ? tables.erase(table) : std::next(table);
    std::shared_ptr<Statistics> &found = tables[name];
    if (found == nullptr)
        found = std::make_shared<Statistics>();
    return found;
}

void Statistics::set(Rows_per_key rows_per_key, uint64_t table_rows)
{
    auto found = std::make_shared<const Rows_per_key>(std::move(rows_per_key));
    std::lock_guard<std::mutex> guard(mutex_);
    /* Of a key that was just added, nothing is known. */
    const bool is_complete = std::none_of(found->begin(), found->end(), [](const std::vector<uint64_t> &key) { return key.empty(); });
    sampled_rows_.store(is_complete ? table_rows : 0, std::memory_order_relaxed);
    rows_per_key_ = std::move(found);
    version_.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<const Rows_per_key> Statistics::rows_per_key() const
{
    std::lock_guard<std::mutex> guard(mutex_);
    return rows_per_key_;
}

bool Statistics::try_begin_sampling(uint64_t table_rows)
{
    const uint64_t before = sampled_rows_.load(std::memory_order_relaxed);
    if (table_rows < ROWS_MIN || (before != 0 && table_rows / 2 <= before && before / 2 <= table_rows))
        return false;
    if (is_running_.load(std::memory_order_relaxed) || microsecond_interval_timer() < next_at_.load(std::memory_order_relaxed))
        return false;
    return !is_running_.exchange(true, std::memory_order_acq_rel);
}

void Statistics::ended(ulonglong micros, bool has_failed)
{
    const ulonglong pause = has_failed ? FAILED_MICROS : PAUSES * micros;
    next_at_.store(microsecond_interval_timer() + pause, std::memory_order_relaxed);
    is_running_.store(false, std::memory_order_release);
}

void start_sampling()
{
    sampler.start();
}

void stop_sampling()
{
    sampler.stop();
}

void sample_later(Sample sample)
{
    sampler.add(std::move(sample));
}

}  // namespace frond
