// RocksDB under the conditional workloads of `cleave bench`: the same keys, the same work, every read
// checked. Prints one JSON object for each workload.
//
// Usage: rocksdb DIR WORKLOAD,… NUM VALUE_SIZE THREADS SECONDS

#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace rocksdb;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kGroup = 4;

// Ends the program: a run that met an error has no figure.
[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "rocksdb: %s\n", what.c_str());
  std::exit(1);
}

void Check(const Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

// Sixteen decimal digits, so that keys sort as the numbers do.
std::string Key(uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%016" PRIu64, number);
  return std::string(text, 16);
}

uint64_t Decode(const std::string& value, size_t at) {
  uint64_t number = 0;
  if (value.size() < at + 8) Fail("a value is too short");
  std::memcpy(&number, value.data() + at, 8);
  return number;
}

// A value begins with the number of its key and with what makes it unlike others of that key.
std::string Value(uint64_t number, uint64_t draw, size_t size) {
  static const std::string pool = [] {
    std::mt19937_64 random(7);
    std::string bytes(4 << 20, 0);
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      uint64_t word = random();
      std::memcpy(&bytes[at], &word, 8);
    }
    return bytes;
  }();
  std::string value = pool.substr(draw % (pool.size() - size), size);
  std::memcpy(&value[0], &number, 8);
  std::memcpy(&value[8], &draw, 8);
  return value;
}

struct Bench {
  OptimisticTransactionDB* db;
  ColumnFamilyHandle* counters;
  uint64_t num;
  size_t value_size;
  int threads;
  double seconds;
  std::atomic<uint64_t> conflicts{0};
};

// One thread of a workload.
class Worker {
 public:
  Worker(Bench& bench, int index)
      : bench_(bench), random_(std::random_device{}()), first_(bench.num * index / bench.threads),
        end_(bench.num * (index + 1) / bench.threads) {}

  uint64_t Draw(bool shared) {
    uint64_t first = shared ? 0 : first_, end = shared ? bench_.num : end_;
    return first + random_() % (end - first);
  }

  std::string MakeValue(uint64_t number) { return Value(number, random_(), bench_.value_size); }

  void Put() {
    uint64_t number = Draw(true);
    Check(bench_.db->Put(write_, Key(number), MakeValue(number)));
  }

  // What is expected is known, and nobody else writes the key.
  void CompareAndSet() {
    if (known_.empty()) known_.resize(end_ - first_);
    uint64_t number = Draw(false);
    std::string key = Key(number), found, value = MakeValue(number);
    Check(Begin()->GetForUpdate(read_, key, &found));
    uint64_t& expected = known_[number - first_];
    if (expected != 0 && Decode(found, 8) != expected) Fail("a foreign write of " + key);
    Check(transaction_->Put(key, value));
    Check(transaction_->Commit());
    expected = Decode(value, 8);
  }

  void Increment() {
    std::string key = Key(Draw(true));
    for (;;) {
      std::string found(8, 0);
      Status status = Begin()->GetForUpdate(read_, bench_.counters, key, &found);
      if (!status.IsNotFound()) Check(status);
      uint64_t sum = Decode(found, 0) + 1;
      Slice value(reinterpret_cast<const char*>(&sum), 8);
      Check(transaction_->Put(bench_.counters, key, value));
      if (Committed()) return;
    }
  }

  void Group(bool in_transaction, bool shared) {
    uint64_t reads[kGroup], writes[kGroup];
    std::string values[kGroup], found;
    for (int i = 0; i < kGroup; i++) {
      reads[i] = Draw(shared);
      writes[i] = Draw(shared);
      values[i] = MakeValue(writes[i]);
    }
    if (!in_transaction) {
      WriteBatch batch;
      for (uint64_t number : reads) {
        Check(bench_.db->Get(read_, Key(number), &found));
        if (Decode(found, 0) != number) Fail("a wrong value");
      }
      for (int i = 0; i < kGroup; i++) Check(batch.Put(Key(writes[i]), values[i]));
      return Check(bench_.db->Write(write_, &batch));
    }
    do {
      Begin();
      for (uint64_t number : reads) {
        Check(transaction_->GetForUpdate(read_, Key(number), &found));
        if (Decode(found, 0) != number) Fail("a wrong value");
      }
      for (int i = 0; i < kGroup; i++) Check(transaction_->Put(Key(writes[i]), values[i]));
    } while (!Committed());
  }

 private:
  Transaction* Begin() {
    // The object is used again, as RocksDB advises.
    transaction_.reset(bench_.db->BeginTransaction(write_, {}, transaction_.release()));
    return transaction_.get();
  }

  bool Committed() {
    Status status = transaction_->Commit();
    if (status.IsBusy() || status.IsTryAgain()) {
      bench_.conflicts++;
      return false;
    }
    Check(status);
    return true;
  }

  Bench& bench_;
  std::mt19937_64 random_;
  uint64_t first_, end_;
  std::vector<uint64_t> known_;
  std::unique_ptr<Transaction> transaction_;
  WriteOptions write_;
  ReadOptions read_;
};

void Load(Bench& bench) {
  std::mt19937_64 random(11);
  std::vector<uint64_t> order(bench.num);
  for (uint64_t number = 0; number < bench.num; number++) order[number] = number;
  std::shuffle(order.begin(), order.end(), random);
  for (uint64_t number : order) {
    Check(bench.db->Put({}, Key(number), Value(number, random(), bench.value_size)));
  }
}

uint64_t Sum(Bench& bench) {
  uint64_t sum = 0;
  std::unique_ptr<Iterator> it(bench.db->NewIterator({}, bench.counters));
  for (it->SeekToFirst(); it->Valid(); it->Next()) sum += Decode(it->value().ToString(), 0);
  Check(it->status());
  return sum;
}

void Run(Bench& bench, const std::string& workload) {
  using Step = std::function<void(Worker&)>;
  Step step;
  bool counts = workload == "increment";
  if (workload == "overwrite") step = [](Worker& it) { it.Put(); };
  else if (workload == "cas") step = [](Worker& it) { it.CompareAndSet(); };
  else if (workload == "increment") step = [](Worker& it) { it.Increment(); };
  else if (workload == "batchget") step = [](Worker& it) { it.Group(false, false); };
  else if (workload == "transactions") step = [](Worker& it) { it.Group(true, false); };
  else if (workload == "transactions-shared") step = [](Worker& it) { it.Group(true, true); };
  else if (workload != "load") Fail("there is no workload " + workload);
  uint64_t before = counts ? Sum(bench) : 0;
  std::atomic<uint64_t> ops{0};
  bench.conflicts = 0;
  auto start = Clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  if (!step) {
    Load(bench);
    ops = bench.num;
  }
  std::vector<std::thread> threads;
  for (int index = 0; step && index < bench.threads; index++) {
    threads.emplace_back([&, index] {
      Worker worker(bench, index);
      uint64_t done = 0;
      for (; done % 16 != 0 || elapsed() < bench.seconds; done++) step(worker);
      ops += done;
    });
  }
  for (auto& thread : threads) thread.join();
  double seconds = elapsed();
  if (counts && Sum(bench) - before != ops) Fail("increments were lost");
  std::printf("{\"workload\": \"%s\", \"ops\": %" PRIu64 ", \"seconds\": %.3f, "
              "\"ops_per_second\": %.0f, \"conflicts\": %" PRIu64 "}\n",
              workload.c_str(), ops.load(), seconds, ops / seconds, bench.conflicts.load());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) Fail("usage: rocksdb DIR WORKLOAD,... NUM VALUE_SIZE THREADS SECONDS");
  Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.compression = kNoCompression;
  options.max_background_jobs = 4;
  BlockBasedTableOptions table;
  table.block_cache = NewLRUCache(256 << 20);
  table.filter_policy.reset(NewBloomFilterPolicy(10));
  options.table_factory.reset(NewBlockBasedTableFactory(table));
  std::vector<ColumnFamilyHandle*> handles;
  Bench bench{};
  Check(OptimisticTransactionDB::Open(
      options, argv[1], {{kDefaultColumnFamilyName, options}, {"counters", options}}, &handles,
      &bench.db));
  bench.counters = handles[1];
  bench.num = std::strtoull(argv[3], nullptr, 10);
  bench.value_size = std::strtoull(argv[4], nullptr, 10);
  bench.threads = std::atoi(argv[5]);
  bench.seconds = std::atof(argv[6]);
  if (bench.num < 1 || bench.value_size < 16 || bench.threads < 1) Fail("too few of something");
  std::stringstream workloads(argv[2]);
  for (std::string workload; std::getline(workloads, workload, ',');) Run(bench, workload);
  for (auto* handle : handles) delete handle;
  delete bench.db;
}
