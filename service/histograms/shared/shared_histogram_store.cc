#include "service/histograms/shared/shared_histogram_store.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/histograms/histogram_file.h"

namespace packhouse {
namespace {

constexpr absl::string_view kHeads = "hist/h/";
// Of a transaction whose outcome is unknown, and of one that others were faster than.
constexpr int kTries = 4;
constexpr int kRaces = 100;
constexpr size_t kPartBytes = size_t{512} << 10;
// Of one run: some hundred bytes each.
constexpr size_t kMaxProducers = 1000;
// Histograms with changes that nobody waits for.
constexpr size_t kMaxSoon = 1024;
// Of one answer with runs, about: it must be below 4 MiB.
constexpr uint64_t kPageBytes = uint64_t{2} << 20;
constexpr uint64_t kMaxPage = 1000;

// Others would have the keys of some.
bool IsName(absl::string_view name) {
  return IsValidName(name, HistogramStore::kMaxNameLength, "_./-");
}

std::string InKey(absl::string_view name) { return absl::StrReplaceAll(name, {{"/", "%2F"}}); }
std::string FromKey(absl::string_view key) { return absl::StrReplaceAll(key, {{"%2F", "/"}}); }

std::string HeadKey(absl::string_view name) { return absl::StrCat(kHeads, InKey(name)); }
std::string RunsKey(absl::string_view name) { return absl::StrCat("hist/l/", InKey(name), "/"); }
std::string RunKey(absl::string_view name, uint64_t number) {
  return absl::StrCat(RunsKey(name), absl::Hex(number, absl::kZeroPad16));
}
std::string BasesKey(absl::string_view name) { return absl::StrCat("hist/b/", InKey(name), "/"); }
std::string PartKey(absl::string_view name, absl::string_view base, uint32_t part) {
  return absl::StrCat(BasesKey(name), base, "/", absl::Hex(part, absl::kZeroPad8));
}

absl::Status NoHistogram(absl::string_view name) {
  return absl::NotFoundError(absl::StrCat("histogram: there is none named ", Quoted(name)));
}
absl::Status Damaged(absl::string_view name, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("histogram '", name, "' in etcd: ", what));
}

uint64_t BytesOfNumber(uint64_t number) {
  return 1 + (static_cast<uint64_t>(std::bit_width(number)) + 6) / 7;
}

// Not less than what a run of these takes, but for its producers.
uint64_t RunBytes(const SizeHistogram& sizes) {
  uint64_t bytes_of_row = BytesOfNumber(sizes.num_graphs());
  for (size_t k = 0; k < sizes.num_components(); ++k) {
    bytes_of_row += BytesOfNumber(sizes.maximum(k));
  }
  return 4096 + sizes.num_distinct() * bytes_of_row;
}

void DescribeTo(const HistogramKey& key, internal::SharedHistogramHead& head) {
  for (const std::string& component : key.schema.components()) head.add_components(component);
  const absl::Duration half_life = key.half_life.value_or(absl::InfiniteDuration());
  if (half_life == absl::InfiniteDuration()) return;
  absl::Duration rest;
  head.set_half_life_seconds(absl::IDivDuration(half_life, absl::Seconds(1), &rest));
  head.set_half_life_nanos(static_cast<uint32_t>(absl::ToInt64Nanoseconds(rest)));
}

absl::StatusOr<HistogramKey> KeyOf(absl::string_view name,
                                   const internal::SharedHistogramHead& head) {
  auto schema = SizeSchema::Create({head.components().begin(), head.components().end()});
  if (!schema.ok()) return Damaged(name, schema.status().message());
  absl::Duration half_life =
      absl::Seconds(head.half_life_seconds()) + absl::Nanoseconds(head.half_life_nanos());
  if (half_life == absl::ZeroDuration()) half_life = absl::InfiniteDuration();
  return HistogramKey{std::string(name), *std::move(schema), half_life};
}

HistogramStore::Bounds Unbounded() {
  HistogramStore::Bounds bounds;
  // Sums of two do not wrap around.
  bounds.max_histograms = bounds.max_distinct = bounds.max_producers =
      std::numeric_limits<size_t>::max() / 4;
  return bounds;
}

HistogramStore::Bounds Shared(HistogramStore::Bounds bounds) {
  bounds.max_distinct = std::min(bounds.max_distinct, SharedHistogramStore::kMostDistinct);
  return bounds;
}

std::string HalfLifeOf(const HistogramKey& key) {
  return key.half_life ? absl::FormatDuration(*key.half_life) : "unset";
}

// Clients try again then.
absl::Status ToCaller(const absl::Status& status) {
  return OutcomeIsUnknown(status) ? absl::UnavailableError(status.message()) : status;
}

}  // namespace

SharedHistogramStore::SharedHistogramStore(KeyValueStore* keys, const Options& options,
                                           MemoryBudget* memory)
    : HistogramStore(Unbounded(), memory),
      keys_(keys),
      replica_(options.replica),
      shared_bounds_(Shared(options.bounds)),
      log_(options.log) {}

SharedHistogramStore::~SharedHistogramStore() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  if (flusher_.joinable()) flusher_.join();
  HasMemoryFor([this] { Flush().IgnoreError(); });
}

void SharedHistogramStore::Start() {
  flusher_ = std::thread([this] {
    for (int64_t periods = 1;; ++periods) {
      {
        absl::MutexLock lock(&mutex_);
        if (mutex_.AwaitWithTimeout(absl::Condition(&stop_), kFlushPeriod)) return;
      }
      HasMemoryFor([this] { Flush().IgnoreError(); });
      // In between they take memory that others may want.
      if (periods % (kUnusedPeriod / kFlushPeriod) == 0) HasMemoryFor([this] { DropUnused(); });
    }
  });
}

std::string SharedHistogramStore::NextAttempt() const {
  return absl::StrCat(replica_, "-", ++num_attempts_);
}

std::shared_ptr<SharedHistogramStore::Copy> SharedHistogramStore::CopyOf(
    absl::string_view name) const {
  absl::MutexLock lock(&mutex_);
  auto found = copies_.find(name);
  if (found == copies_.end()) {
    found = copies_.emplace(std::string(name), std::make_shared<Copy>()).first;
  }
  return found->second;
}

void SharedHistogramStore::Alone(absl::string_view name,
                                 absl::FunctionRef<void(Copy&)> work) const {
  std::shared_ptr<Copy> copy = CopyOf(name);
  {
    absl::MutexLock lock(&copy->mutex);
    copy->mutex.Await(absl::Condition(copy.get(), &Copy::IsFree));
    copy->is_busy = true;
    copy->used = ++num_uses_;
  }
  const absl::Cleanup is_free = [&] { Free(name, copy); };
  work(*copy);
}

void SharedHistogramStore::Free(absl::string_view name, const std::shared_ptr<Copy>& copy) const {
  bool is_none = false;
  {
    absl::MutexLock lock(&copy->mutex);
    is_none = copy->life == 0 && copy->queue.empty();
    copy->is_busy = false;
  }
  if (!is_none) return;
  // Names that nobody counts in leave nothing behind.
  absl::MutexLock lock(&mutex_);
  const auto found = copies_.find(name);
  if (found != copies_.end() && found->second == copy && copy.use_count() == 2) {
    copies_.erase(found);
  }
}

void SharedHistogramStore::DropCopy(absl::string_view name, Copy& copy) const {
  copy.life = 0;
  copy.revision = 0;
  copy.head.Clear();
  // Only to say that there is none takes memory.
  HasMemoryFor(
      [&] { const_cast<SharedHistogramStore*>(this)->HistogramStore::Delete(name).IgnoreError(); });
}

bool SharedHistogramStore::DropFree(uint64_t most, size_t number) const {
  using Used = std::tuple<uint64_t, std::string, std::shared_ptr<Copy>>;
  std::vector<Used> copies;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, copy] : copies_) copies.emplace_back(0, name, copy);
  }
  std::erase_if(copies, [most](Used& each) {
    Copy& copy = *std::get<2>(each);
    absl::MutexLock lock(&copy.mutex);
    std::get<0>(each) = copy.used;
    return !copy.IsUnused(most);
  });
  std::sort(copies.begin(), copies.end());
  if (copies.size() > number) copies.resize(number);
  bool is_any = false;
  for (const auto& [used, name, copy] : copies) {
    {
      absl::MutexLock lock(&copy->mutex);
      if (!copy->IsUnused(used)) continue;
      copy->is_busy = true;
    }
    is_any = true;
    DropCopy(name, *copy);
    Free(name, copy);
  }
  return is_any;
}

bool SharedHistogramStore::MakeRoom(size_t& number) const {
  if (memory() == nullptr) return false;
  return DropFree(std::numeric_limits<uint64_t>::max(), std::exchange(number, 4 * number));
}

void SharedHistogramStore::DropUnused() {
  DropFree(unused_mark_.load(), std::numeric_limits<size_t>::max());
  unused_mark_ = num_uses_.load();
}

size_t SharedHistogramStore::NumWaiting(absl::string_view name) const {
  std::shared_ptr<Copy> copy;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = copies_.find(name);
    if (found == copies_.end()) return 0;
    copy = found->second;
  }
  absl::MutexLock lock(&copy->mutex);
  return copy->queue.size();
}

// --- Reading.

absl::Status SharedHistogramStore::Refresh(absl::string_view name, Copy& copy,
                                           absl::string_view attempt, bool* is_made) const {
  absl::Status last;
  size_t to_drop = 1;
  for (int tries = 0; tries < kTries; ++tries) {
    PH_ASSIGN_OR_RETURN(const RangeResult read, keys_->Range(KeyRange::Of(HeadKey(name))));
    if (read.values.empty()) {
      DropCopy(name, copy);
      return NoHistogram(name);
    }
    const KeyValue& found = read.values[0];
    if (found.create_revision == copy.life && found.mod_revision == copy.revision) {
      return absl::OkStatus();
    }
    Head head;
    if (!head.ParseFromString(found.value)) return Damaged(name, "its head cannot be read");
    // An allocation may fail midway: what was applied in part is no copy.
    bool is_whole = false;
    const absl::Cleanup drop = [&] {
      if (!is_whole) DropCopy(name, copy);
    };
    const auto read_all = [&]() -> absl::Status {
      if (copy.life != found.create_revision || copy.head.end() < head.begin()) {
        DropCopy(name, copy);
        if (!head.base().empty()) PH_RETURN_IF_ERROR(ReadBase(name, head, read.revision));
        copy.head.set_end(head.begin());
      }
      // Few that are large, or many that are small: an answer has its bound.
      const uint64_t fitting =
          kPageBytes * (head.end() - head.begin()) / std::max<uint64_t>(head.run_bytes(), 1);
      const size_t page = std::clamp<uint64_t>(fitting, 2, kMaxPage);
      while (copy.head.end() < head.end()) {
        const uint64_t next = copy.head.end();
        PH_ASSIGN_OR_RETURN(
            const RangeResult runs,
            keys_->Range({RunKey(name, next), RunKey(name, head.end())}, page, read.revision));
        if (runs.values.empty()) return Damaged(name, absl::StrCat("run ", next, " is missing"));
        for (const KeyValue& value : runs.values) {
          Run run;
          if (value.key != RunKey(name, copy.head.end()) || !run.ParseFromString(value.value)) {
            return Damaged(name, absl::StrCat("run ", copy.head.end(), " cannot be read"));
          }
          if (is_made != nullptr && run.attempt() == attempt) *is_made = true;
          PH_RETURN_IF_ERROR(ApplyRun(name, head, run));
          copy.head.set_end(copy.head.end() + 1);
        }
      }
      return absl::OkStatus();
    };
    last = read_all();
    if (last.ok()) {
      copy.life = found.create_revision;
      copy.revision = found.mod_revision;
      copy.head = std::move(head);
      is_whole = true;
      return absl::OkStatus();
    }
    DropCopy(name, copy);
    if (absl::IsResourceExhausted(last)) {
      // Copies that nobody uses now make room; this try is none.
      if (!MakeRoom(to_drop)) return last;
      --tries;
      continue;
    }
    // Compacted meanwhile.
    if (!absl::IsOutOfRange(last)) return last;
  }
  return absl::UnavailableError(last.message());
}

absl::Status SharedHistogramStore::ReadBase(absl::string_view name, const Head& head,
                                            Revision revision) const {
  std::string bytes;
  for (uint32_t part = 0; part < head.num_parts(); ++part) {
    PH_ASSIGN_OR_RETURN(const RangeResult read,
                        keys_->Range(KeyRange::Of(PartKey(name, head.base(), part)), 0, revision));
    if (read.values.empty()) return Damaged(name, absl::StrCat("part ", part, " is missing"));
    bytes += read.values[0].value;
  }
  auto* const mine = const_cast<SharedHistogramStore*>(this);
  return ReadHistogramBytes(absl::StrCat("etcd: ", BasesKey(name)), bytes, memory(),
                            [&](KeptHistogram kept) {
                              kept.unused = absl::ZeroDuration();
                              return mine->PutBack(std::move(kept), absl::UnixEpoch());
                            })
      .status();
}

absl::Status SharedHistogramStore::ApplyRun(absl::string_view name, const Head& head,
                                            const Run& run) const {
  PH_ASSIGN_OR_RETURN(const HistogramKey key, KeyOf(name, head));
  const size_t l = key.schema.num_components();
  const auto rows = static_cast<size_t>(run.numbers_size());
  if (static_cast<size_t>(run.counts_size()) != rows * l) {
    return Damaged(name, "a run has other sizes than numbers");
  }
  SizeHistogram sizes(l);
  for (size_t row = 0; row < rows; ++row) {
    PH_RETURN_IF_ERROR(sizes.Add(absl::MakeConstSpan(run.counts().data() + row * l, l),
                                 run.numbers(static_cast<int>(row))));
  }
  auto* const mine = const_cast<SharedHistogramStore*>(this);
  const absl::Time time = absl::FromUnixNanos(run.time_nanos());
  PH_RETURN_IF_ERROR((run.subtracts()
                          ? mine->HistogramStore::Subtract(key, sizes, std::nullopt, time)
                          : mine->HistogramStore::Merge(key, sizes, std::nullopt, time))
                         .status());
  for (const Run::Producer& each : run.producers()) {
    PH_RETURN_IF_ERROR(mine->HistogramStore::Merge(key, SizeHistogram(l),
                                                   ProducerSequence{each.name(), each.sequence()},
                                                   time)
                           .status());
  }
  return absl::OkStatus();
}

absl::StatusOr<SizeSchema> SharedHistogramStore::SchemaOf(absl::string_view name) const {
  absl::StatusOr<SizeSchema> schema = NoHistogram(name);
  if (!IsName(name)) return schema;
  Alone(name, [&](Copy& copy) {
    const absl::Status fresh = Refresh(name, copy);
    if (fresh.ok()) {
      schema = HistogramStore::SchemaOf(name);
    } else {
      schema = fresh;
    }
  });
  return schema;
}

absl::StatusOr<HistogramSnapshot> SharedHistogramStore::Get(absl::string_view name,
                                                            absl::Time now) const {
  absl::StatusOr<HistogramSnapshot> snapshot = NoHistogram(name);
  if (!IsName(name)) return snapshot;
  Alone(name, [&](Copy& copy) {
    if (const absl::Status fresh = Refresh(name, copy); !fresh.ok()) {
      snapshot = fresh;
      return;
    }
    size_t to_drop = 1;
    do {
      snapshot = HistogramStore::Get(name, now);
    } while (absl::IsResourceExhausted(snapshot.status()) && MakeRoom(to_drop));
    if (snapshot.ok()) snapshot->revision = copy.revision;
  });
  return snapshot;
}

std::map<std::string, uint64_t> SharedHistogramStore::CountByNamespace() const {
  std::map<std::string, uint64_t> counts;
  const auto heads = keys_->Range(KeyRange::Prefix(kHeads));
  if (!heads.ok()) return counts;
  for (const KeyValue& head : heads->values) {
    ++counts[std::string(NamespaceOf(FromKey(absl::StripPrefix(head.key, kHeads))))];
  }
  return counts;
}

// --- Changes.

absl::StatusOr<CountedGraphs> SharedHistogramStore::Make(Change& change) {
  const std::string& name = change.key->name;
  PH_RETURN_IF_ERROR(CheckKey(*change.key));
  PH_RETURN_IF_ERROR(CheckProducer(*change.producer));
  if (RunBytes(*change.sizes) > kMaxRunBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("histogram '", name, "': a change of ", change.sizes->num_distinct(),
                     " distinct sizes, some ", RunBytes(*change.sizes), " bytes, at most ",
                     kMaxRunBytes, " where servers share their histograms: send fewer at a time"));
  }
  const std::shared_ptr<Copy> copy = CopyOf(name);
  {
    absl::MutexLock lock(&copy->mutex);
    copy->queue.push_back(&change);
    const auto is_its_turn = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(copy->mutex) {
      return change.is_done || !copy->is_busy;
    };
    copy->mutex.Await(absl::Condition(&is_its_turn));
    if (change.is_done) return change.result;
    copy->is_busy = true;
    copy->used = ++num_uses_;
  }
  std::deque<Change*> changes;
  const absl::Cleanup is_free = [&] {
    {
      absl::MutexLock lock(&copy->mutex);
      for (Change* const each : changes) each->is_done = true;
    }
    Free(name, copy);
  };
  {
    absl::MutexLock lock(&copy->mutex);
    changes.swap(copy->queue);
  }
  const std::vector<Change*> all(changes.begin(), changes.end());
  if (!HasMemoryFor([&] { MakeAll(name, *copy, all); })) {
    DropCopy(name, *copy);
  }
  return change.result;
}

void SharedHistogramStore::MakeAll(absl::string_view name, Copy& copy,
                                   absl::Span<Change* const> changes) {
  for (Change* const each : changes) each->result = OutOfMemory();
  while (!changes.empty()) changes.remove_prefix(MakeSome(name, copy, changes));
  WriteBase(name, copy);
}

absl::Status SharedHistogramStore::CheckCreation(const HistogramKey& key) const {
  PH_ASSIGN_OR_RETURN(const RangeResult heads, keys_->Range(KeyRange::Prefix(kHeads)));
  if (heads.values.size() >= shared_bounds_.max_histograms) {
    return absl::ResourceExhaustedError(absl::StrCat("histogram: there are ", heads.values.size(),
                                                     ", at most ", shared_bounds_.max_histograms));
  }
  if (!shared_bounds_.quotas_of) return absl::OkStatus();
  const absl::string_view where = NamespaceOf(key.name);
  const std::optional<uint64_t> most = shared_bounds_.quotas_of(where).histograms;
  if (!most) return absl::OkStatus();
  const auto there = static_cast<uint64_t>(
      std::count_if(heads.values.begin(), heads.values.end(), [&](const KeyValue& head) {
        return NamespaceOf(FromKey(absl::StripPrefix(head.key, kHeads))) == where;
      }));
  return there < *most ? absl::OkStatus() : BeyondQuota(where, "histograms", there + 1, *most);
}

size_t SharedHistogramStore::MakeSome(absl::string_view name, Copy& copy,
                                      absl::Span<Change* const> changes) {
  const auto refuse = [&](size_t count, const absl::Status& why) {
    for (size_t i = 0; i < count; ++i) changes[i]->result = why;
    return count;
  };
  // The copy may be behind. That is found out by the transaction; or, before anything is answered
  // without one, by reading.
  bool is_fresh = false;
  for (int race = 0; race < kRaces; ++race) {
    if (copy.life == 0 && !is_fresh) {
      const absl::Status read = Refresh(name, copy);
      if (!read.ok() && !absl::IsNotFound(read)) return refuse(changes.size(), read);
      is_fresh = true;
    }
    const bool is_new = copy.life == 0;
    const HistogramKey& first = *changes[0]->key;
    if (is_new) {
      if (changes[0]->subtracts) return refuse(1, NoHistogram(name));
      if (const absl::Status room = CheckCreation(first); !room.ok()) return refuse(1, room);
    }
    // What goes into the run.
    SizeHistogram sum(first.schema.num_components());
    std::map<std::string, uint64_t> producers;
    std::vector<Change*> in_run;
    bool is_answered_alone = false;
    size_t count = 0;
    for (; count < changes.size(); ++count) {
      Change& change = *changes[count];
      if (!in_run.empty() && (change.subtracts || in_run[0]->subtracts)) break;
      if (count != 0 && !(change.key->schema == first.schema)) break;
      if (count != 0 && is_new && change.key->half_life != first.half_life) break;
      const std::optional<ProducerSequence>& producer = *change.producer;
      if (producer) {
        const auto found = producers.find(producer->producer);
        // Whether it is a repetition is known when this run has been made, or has not.
        if (found != producers.end() && producer->sequence <= found->second) break;
        if (producer->sequence <= LastSequence(name, producer->producer).value_or(0)) {
          change.result = CountedGraphs{0, NumGraphsOf(name, change.now)};
          is_answered_alone = true;
          continue;
        }
      }
      absl::Status fits = CheckChange(*change.key, *change.sizes, change.subtracts, producer,
                                      change.now, shared_bounds_);
      if (fits.ok() && !producer && !is_new && change.sizes->num_graphs() == 0) {
        change.result = CountedGraphs{0, NumGraphsOf(name, change.now)};
        is_answered_alone = true;
        continue;
      }
      if (fits.ok()) fits = sum.Merge(*change.sizes);
      if (!fits.ok()) {
        change.result = fits;
        is_answered_alone = true;
        continue;
      }
      if (!in_run.empty() &&
          (producers.size() >= kMaxProducers || RunBytes(sum) > kMaxRunBytes ||
           !CheckChange(*change.key, sum, change.subtracts, producer, change.now, shared_bounds_)
                .ok())) {
        (void)sum.Subtract(*change.sizes);
        break;
      }
      if (producer) producers[producer->producer] = producer->sequence;
      in_run.push_back(&change);
    }
    if (is_answered_alone && !is_fresh) {
      const absl::Status read = Refresh(name, copy);
      if (!read.ok() && !absl::IsNotFound(read)) return refuse(changes.size(), read);
      is_fresh = true;
      continue;
    }
    if (in_run.empty()) return count;

    const std::string attempt = NextAttempt();
    Run run;
    run.set_attempt(attempt);
    run.set_subtracts(in_run[0]->subtracts);
    run.set_time_nanos(absl::ToUnixNanos(in_run.back()->now));
    for (const auto& [producer, sequence] : producers) {
      Run::Producer& each = *run.add_producers();
      each.set_name(producer);
      each.set_sequence(sequence);
    }
    for (const uint32_t row : sum.SortedRows()) {
      const auto tuple = sum.tuple(row);
      run.mutable_counts()->Add(tuple.begin(), tuple.end());
      run.add_numbers(sum.count(row));
    }
    const std::string bytes = run.SerializeAsString();
    Head next = copy.head;
    if (is_new) DescribeTo(first, next);
    next.set_attempt(attempt);
    const uint64_t number = next.end();
    next.set_end(number + 1);
    next.set_run_bytes(next.run_bytes() + bytes.size());
    const Transaction transaction = {{Compare::ModRevision(HeadKey(name), copy.revision)},
                                     {Operation::Put(RunKey(name, number), bytes),
                                      Operation::Put(HeadKey(name), next.SerializeAsString())},
                                     {}};
    const auto answer = [&] {
      for (Change* const each : in_run) {
        each->result = CountedGraphs{each->sizes->num_graphs(), NumGraphsOf(name, each->now)};
      }
      return count;
    };
    const auto refuse_run = [&](const absl::Status& why) {
      for (Change* const each : in_run) each->result = why;
      return count;
    };
    const uint64_t before = is_new ? 0 : NumGraphsOf(name, in_run.back()->now);
    // If an allocation fails from here on.
    refuse_run(absl::UnknownError(absl::StrCat(
        "histogram '", name, "': nobody knows whether it was counted: out of memory")));
    bool is_uncertain = false;
    std::optional<Revision> made;
    absl::Status failed;
    for (int tries = 0; tries < kTries; ++tries) {
      const auto done = keys_->Commit(transaction);
      failed = done.status();
      if (done.ok()) {
        if (done->succeeded) made = done->revision;
        break;
      }
      is_uncertain |= OutcomeIsUnknown(failed);
      if (!is_uncertain) break;
    }
    if (made) {
      // It is made, whatever becomes of the copy.
      uint64_t after = before;
      for (Change* const each : in_run) {
        const uint64_t num_graphs = each->sizes->num_graphs();
        after = each->subtracts ? after - std::min(after, num_graphs) : after + num_graphs;
        each->result = CountedGraphs{num_graphs, after};
      }
      if (!ApplyRun(name, next, run).ok()) {
        // Is read again when it is needed.
        DropCopy(name, copy);
        return count;
      }
      if (is_new) copy.life = *made;
      copy.revision = *made;
      copy.head = std::move(next);
      return answer();
    }
    if (!failed.ok()) {
      if (!is_uncertain) return refuse_run(failed);
      DropCopy(name, copy);
      return refuse_run(absl::UnknownError(absl::StrCat(
          "histogram '", name, "': nobody knows whether it was counted: ", failed.message())));
    }
    // Somebody else changed it; or this very transaction did, when it was sent first.
    bool is_made = false;
    const absl::Status read = Refresh(name, copy, attempt, &is_made);
    if (is_made) return answer();
    const bool is_hidden = !read.ok() || copy.head.begin() > number;
    if (is_uncertain && is_hidden) {
      return refuse_run(absl::UnknownError(absl::StrCat(
          "histogram '", name, "': nobody knows whether it was counted: others changed it")));
    }
    if (!read.ok() && !absl::IsNotFound(read)) return refuse_run(read);
    is_fresh = true;
  }
  return refuse(changes.size(), absl::UnavailableError(absl::StrCat("histogram '", name,
                                                                    "': other servers were faster ",
                                                                    kRaces, " times: try again")));
}

void SharedHistogramStore::WriteBase(absl::string_view name, Copy& copy) {
  if (copy.life == 0 ||
      copy.head.run_bytes() < std::max<uint64_t>(kMinRunBytes, copy.head.base_bytes())) {
    return;
  }
  std::string bytes;
  const auto append = [&](absl::string_view some) {
    bytes.append(some.data(), some.size());
    return absl::OkStatus();
  };
  if (!UseKept(name, absl::UnixEpoch(), [&](const KeptHistogram& kept) {
         return WriteHistogramBytes(kept, append);
       }).ok()) {
    return;
  }
  Head next = copy.head;
  next.set_attempt(NextAttempt());
  next.set_base(next.attempt());
  next.set_base_bytes(bytes.size());
  next.set_begin(next.end());
  next.set_run_bytes(0);
  uint32_t part = 0;
  for (size_t at = 0; at < bytes.size(); at += kPartBytes) {
    const std::string value = bytes.substr(at, kPartBytes);
    if (!keys_->Commit({{}, {Operation::Put(PartKey(name, next.base(), part++), value)}, {}})
             .ok()) {
      return;
    }
  }
  next.set_num_parts(part);
  // What others have left goes, too: of two that write a base, one loses.
  const std::string begin = PartKey(name, next.base(), 0);
  const std::string end = PartKey(name, next.base(), part);
  const auto done = keys_->Commit({{Compare::ModRevision(HeadKey(name), copy.revision)},
                                   {Operation::Put(HeadKey(name), next.SerializeAsString()),
                                    Operation::Delete(KeyRange::Prefix(RunsKey(name))),
                                    Operation::Delete({BasesKey(name), begin}),
                                    Operation::Delete({end, KeyRange::Prefix(BasesKey(name)).end})},
                                   {Operation::Delete({begin, end})}});
  if (done.ok() && done->succeeded) {
    copy.revision = done->revision;
    copy.head = std::move(next);
  }
}

absl::StatusOr<CountedGraphs> SharedHistogramStore::Observe(
    const HistogramKey& key, const SizesView& table,
    const std::optional<ProducerSequence>& producer, absl::Time now) {
  PH_ASSIGN_OR_RETURN(const SizeHistogram sizes, SizesOf(key, table));
  return Merge(key, sizes, producer, now);
}

absl::StatusOr<CountedGraphs> SharedHistogramStore::Merge(
    const HistogramKey& key, const SizeHistogram& addend,
    const std::optional<ProducerSequence>& producer, absl::Time now) {
  Change change = {&key, &addend, false, &producer, now};
  auto counted = Make(change);
  if (!counted.ok()) return ToCaller(counted.status());
  return counted;
}

absl::StatusOr<CountedGraphs> SharedHistogramStore::Subtract(
    const HistogramKey& key, const SizeHistogram& subtrahend,
    const std::optional<ProducerSequence>& producer, absl::Time now) {
  Change change = {&key, &subtrahend, true, &producer, now};
  auto counted = Make(change);
  if (!counted.ok()) return ToCaller(counted.status());
  return counted;
}

absl::Status SharedHistogramStore::ObserveSoon(const HistogramKey& key, const SizesView& table,
                                               absl::Time now) {
  PH_RETURN_IF_ERROR(CheckKey(key));
  PH_ASSIGN_OR_RETURN(SizeHistogram sizes, SizesOf(key, table));
  if (const auto schema = HistogramStore::SchemaOf(key.name); schema.ok()) {
    PH_RETURN_IF_ERROR(CheckChange(key, SizeHistogram(schema->num_components()), false,
                                   std::nullopt, now, shared_bounds_));
  }
  bool is_full = false;
  {
    absl::MutexLock lock(&mutex_);
    PH_RETURN_IF_ERROR(AddSoon(key, sizes, now));
    is_full = soon_.size() > kMaxSoon || soon_bytes_ > kMaxSoonBytes ||
              RunBytes(soon_.find(key.name)->second.sizes) > kMaxRunBytes / 2;
  }
  return is_full ? FlushOne(key.name) : absl::OkStatus();
}

absl::Status SharedHistogramStore::AddSoon(const HistogramKey& key, SizeHistogram& sizes,
                                           absl::Time now) {
  const std::string what = absl::StrCat("histogram '", key.name, "': room for what waits");
  const size_t l = sizes.num_components();
  auto found = soon_.find(key.name);
  if (found == soon_.end()) {
    Soon soon = {key, SizeHistogram(l), now};
    soon.bytes = sizeof(Soon) + 2 * key.name.size() + sizes.bytes();
    if (memory() != nullptr) {
      PH_ASSIGN_OR_RETURN(soon.memory, memory()->Hold(what, soon.bytes));
    }
    soon.sizes = std::move(sizes);
    soon_bytes_ += soon_.emplace(key.name, std::move(soon)).first->second.bytes;
    return absl::OkStatus();
  }
  Soon& soon = found->second;
  if (!(soon.key.schema == key.schema) || soon.key.half_life != key.half_life) {
    return absl::FailedPreconditionError(absl::StrCat(
        "histogram '", key.name, "': components [", absl::StrJoin(key.schema.components(), ", "),
        "], half_life ", HalfLifeOf(key), "; what waits to be counted has [",
        absl::StrJoin(soon.key.schema.components(), ", "), "], half_life ", HalfLifeOf(soon.key)));
  }
  const uint64_t had = soon.sizes.bytes();
  const uint64_t growing =
      SizeHistogram::BytesFor(soon.sizes.num_distinct() + sizes.num_distinct(), l);
  if (memory() != nullptr && growing > had) {
    PH_RETURN_IF_ERROR(soon.memory.Grow(what, growing - had));
  }
  const absl::Status merged = soon.sizes.Merge(sizes);
  soon_bytes_ += soon.sizes.bytes() - had;
  soon.bytes += soon.sizes.bytes() - had;
  soon.memory.ShrinkTo(soon.bytes);
  soon.now = std::max(soon.now, now);
  return merged;
}

absl::Status SharedHistogramStore::FlushOne(absl::string_view name) {
  std::optional<Soon> soon;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = soon_.find(name);
    if (found == soon_.end()) return absl::OkStatus();
    soon_bytes_ -= found->second.bytes;
    soon = std::move(found->second);
    soon_.erase(found);
  }
  const std::optional<ProducerSequence> nobody;
  Change change = {&soon->key, &soon->sizes, false, &nobody, soon->now};
  const absl::Status made = Make(change).status();
  if (made.ok()) return made;
  absl::Status lost = made;
  if (absl::IsUnavailable(made)) {
    absl::MutexLock lock(&mutex_);
    const auto found = soon_.find(name);
    const uint64_t bytes_there = found == soon_.end() ? 0 : RunBytes(found->second.sizes);
    const bool has_room = (found != soon_.end() || soon_.size() < kMaxSoon) &&
                          soon_bytes_ + soon->bytes <= kMaxSoonBytes &&
                          bytes_there + RunBytes(soon->sizes) <= kMaxRunBytes;
    if (has_room) {
      soon->memory.Reset();
      lost = AddSoon(soon->key, soon->sizes, soon->now);
      if (lost.ok()) return made;
    }
  }
  if (log_ != nullptr) {
    log_->Log("histogram", LogLevel::kWarning, "sizes of a stream were not counted",
              {{"histogram", soon->key.name},
               {"graphs", soon->sizes.num_graphs()},
               LogField::Message(lost.message())});
  }
  return ToCaller(made);
}

absl::Status SharedHistogramStore::Flush() {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](bool* is_flushing) { return !*is_flushing; }, &is_flushing_));
    is_flushing_ = true;
  }
  const absl::Cleanup is_done = [this] {
    absl::MutexLock lock(&mutex_);
    is_flushing_ = false;
  };
  absl::Status first;
  std::string name;
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      const auto next = soon_.upper_bound(name);
      if (next == soon_.end()) return first;
      name = next->first;
    }
    const absl::Status made = FlushOne(name);
    first.Update(made);
    if (absl::IsUnavailable(made)) return first;
  }
}

absl::Status SharedHistogramStore::Delete(absl::string_view name) {
  absl::Status result = NoHistogram(name);
  if (!IsName(name)) return result;
  Alone(name, [&](Copy& copy) {
    bool is_uncertain = false;
    for (int race = 0; race < kRaces; ++race) {
      result = Refresh(name, copy);
      if (absl::IsNotFound(result) && is_uncertain) result = absl::OkStatus();
      if (!result.ok() || copy.life == 0) return;
      const auto done = keys_->Commit({{Compare::ModRevision(HeadKey(name), copy.revision)},
                                       {Operation::Delete(KeyRange::Of(HeadKey(name))),
                                        Operation::Delete(KeyRange::Prefix(RunsKey(name))),
                                        Operation::Delete(KeyRange::Prefix(BasesKey(name)))},
                                       {}});
      if (!done.ok()) {
        is_uncertain |= OutcomeIsUnknown(done.status());
        result = ToCaller(done.status());
        if (!is_uncertain || race >= kTries) return;
        continue;
      }
      if (!done->succeeded) continue;
      DropCopy(name, copy);
      result = absl::OkStatus();
      return;
    }
  });
  return result;
}

}  // namespace packhouse
