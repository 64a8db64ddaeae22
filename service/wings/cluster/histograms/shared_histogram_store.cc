#include "service/wings/cluster/histograms/shared_histogram_store.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/engine/histograms/histogram_file.h"
#include "service/stores/keys/shared_change.h"
#include "service/wings/cluster/histograms/shared_histogram_format.h"

namespace packhouse {
namespace {

using shared_histogram::Damaged;
using shared_histogram::FromKey;
using shared_histogram::IsName;
using shared_histogram::KeyOf;
using shared_histogram::kHeads;
using shared_histogram::LogOf;
using shared_histogram::NoHistogram;

// A head has some hundreds of bytes.
constexpr size_t kNamesAtATime = 4096;

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
      log_(options.log),
      waiting_(memory),
      uses_(options.retention.is_for_ever()
                ? nullptr
                : std::make_unique<SharedUses>(
                      keys,
                      SharedUses::Options{
                          std::string(kUses), options.retention, options.steady_now,
                          [this](absl::string_view name) { return CreatedOf(name); },
                          [this](const std::string& name, uint64_t created, StillUnused unused) {
                            return DeleteIf(name, created, unused);
                          },
                          options.agree},
                      [](absl::FunctionRef<void(const std::string&)> /*used*/) {})) {}

SharedHistogramStore::~SharedHistogramStore() {
  flusher_ = nullptr;
  RunWithinMemory([this] { Flush().IgnoreError(); });
}

void SharedHistogramStore::Start() {
  flusher_ = std::make_unique<Repeating>(kFlushPeriod, [this, periods = int64_t{0}]() mutable {
    RunWithinMemory([this] { Flush().IgnoreError(); });
    // In between they take memory that others may want.
    if (++periods % (kUnusedPeriod / kFlushPeriod) == 0) DropUnused();
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
    is_none = !copy->is_there() && copy->queue.empty();
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
  copy.log = SharedLogHead();
  copy.head.Clear();
  // Only to say that there is none takes memory.
  RunWithinMemory(
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

absl::Status SharedHistogramStore::Refresh(absl::string_view name, Copy& copy) const {
  absl::Status last;
  size_t to_drop = 1;
  for (int tries = 0; tries < kTries; ++tries) {
    PH_ASSIGN_OR_RETURN(SharedLogHead now, LogOf(keys_, name).Head());
    if (!now.is_there()) {
      DropCopy(name, copy);
      return NoHistogram(name);
    }
    if (now.text == copy.log.text) {
      copy.log = std::move(now);
      return absl::OkStatus();
    }
    Head head;
    if (!head.ParseFromString(now.value)) return Damaged(name, "its head cannot be read");
    // An allocation may fail midway: what was applied in part is no copy.
    bool is_whole = false;
    const absl::Cleanup drop = [&] {
      if (!is_whole) DropCopy(name, copy);
    };
    last = ReadRuns(name, now, head, copy);
    if (last.ok()) {
      copy.log = std::move(now);
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

absl::Status SharedHistogramStore::ReadRuns(absl::string_view name, const SharedLogHead& now,
                                            const Head& head, Copy& copy) const {
  uint64_t from = copy.log.end;
  bool is_followed = copy.is_there() && from >= now.begin && from <= now.end;
  if (is_followed && from < now.base_end) {
    // The base is of what the copy has.
    is_followed = from == now.begin;
    from = now.base_end;
  }
  // Without another run, it must be the copy's last one.
  if (from == now.end) is_followed &= copy.head.last_run() == head.last_run();
  const auto visit = [&](const SharedLog::Written& written) -> absl::Status {
    if (written.end <= now.base_end) return ReadBase(name, written.contents);
    Run run;
    if (!run.ParseFromString(written.contents)) {
      return Damaged(name, absl::StrCat("run ", written.name, " cannot be read"));
    }
    // The copy has runs that are no part of this histogram: it was deleted and made anew, or etcd
    // was restored.
    if (is_followed && run.previous_run() != copy.head.last_run()) return absl::AbortedError("");
    is_followed = false;
    return ApplyRun(name, head, run);
  };
  const SharedLog log = LogOf(keys_, name);
  if (is_followed) {
    const absl::Status read = log.Read(now, from, now.as_of, visit);
    if (!absl::IsAborted(read)) return read;
    is_followed = false;
  }
  DropCopy(name, copy);
  return log.Read(now, now.begin, now.as_of, visit);
}

absl::Status SharedHistogramStore::ReadBase(absl::string_view name,
                                            const std::string& bytes) const {
  auto* const mine = const_cast<SharedHistogramStore*>(this);
  return ReadHistogramBytes(absl::StrCat("etcd: histogram '", name, "'"), bytes, memory(),
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
    const absl::Status added = sizes.Add(absl::MakeConstSpan(run.counts().data() + row * l, l),
                                         run.numbers(static_cast<int>(row)));
    if (!added.ok()) return Damaged(name, added.message());
  }
  auto* const mine = const_cast<SharedHistogramStore*>(this);
  const absl::Time time = absl::FromUnixNanos(run.time_nanos());
  // Whoever wrote it has checked it: from here on only memory can be missing.
  const absl::Status fits =
      CheckChange(key, sizes, run.subtracts(), std::nullopt, time, Unbounded());
  if (!fits.ok()) return Damaged(name, fits.message());
  PH_RETURN_IF_ERROR((run.subtracts()
                          ? mine->HistogramStore::Subtract(key, sizes, std::nullopt, time)
                          : mine->HistogramStore::Merge(key, sizes, std::nullopt, time))
                         .status());
  for (const Run::Producer& each : run.producers()) {
    ProducerSequence producer = {each.name(), each.sequence()};
    producer.now = time;
    if (each.forget_seconds() != 0) {
      producer.forget_after =
          absl::FromUnixSeconds(static_cast<int64_t>(each.forget_seconds())) - time;
    }
    PH_RETURN_IF_ERROR(mine->Remember(name, producer, each.digest()));
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
  PH_RETURN_IF_ERROR(ToCaller(Use(name)));
  Alone(name, [&](Copy& copy) {
    if (const absl::Status fresh = Refresh(name, copy); !fresh.ok()) {
      snapshot = fresh;
      return;
    }
    size_t to_drop = 1;
    do {
      snapshot = HistogramStore::Get(name, now);
    } while (absl::IsResourceExhausted(snapshot.status()) && MakeRoom(to_drop));
    if (snapshot.ok()) snapshot->revision = copy.log.revision;
  });
  return snapshot;
}

absl::StatusOr<std::vector<std::string>> SharedHistogramStore::Names() const {
  PH_ASSIGN_OR_RETURN(const auto heads, keys_->ReadAll(KeyRange::Prefix(kHeads), kNamesAtATime));
  std::vector<std::string> names;
  names.reserve(heads.values.size());
  for (const KeyValue& head : heads.values) {
    names.push_back(FromKey(absl::StripPrefix(head.key, kHeads)));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// --- Changes; how they are made is in shared_histogram_changes.cc.

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
  PH_ASSIGN_OR_RETURN(const bool is_full, waiting_.Add(key, sizes, now));
  return is_full ? FlushOne(key.name) : absl::OkStatus();
}

absl::Status SharedHistogramStore::FlushOne(absl::string_view name) {
  std::optional<WaitingCounts::Counts> taken = waiting_.Take(name);
  if (!taken) return absl::OkStatus();
  const std::optional<ProducerSequence> nobody;
  Change change = {&taken->key, &taken->sizes, false, &nobody, taken->now};
  const absl::Status made = Make(change).status();
  if (made.ok()) return made;
  absl::Status lost = made;
  if (absl::IsUnavailable(made)) {
    lost = waiting_.PutBack(*taken, made);
    if (lost.ok()) return made;
  }
  if (log_ != nullptr) {
    log_->Log("histogram", LogLevel::kWarning, "sizes of a stream were not counted",
              {{"histogram", taken->key.name},
               {"graphs", taken->sizes.num_graphs()},
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
    const std::optional<std::string> next = waiting_.NameAfter(name);
    if (!next) return first;
    name = *next;
    const absl::Status made = FlushOne(name);
    first.Update(made);
    if (absl::IsUnavailable(made)) return first;
  }
}

absl::StatusOr<ProducerHistory> SharedHistogramStore::GetProducer(
    absl::string_view name, absl::string_view producer) const {
  absl::StatusOr<ProducerHistory> history = ProducerHistory();
  if (!IsName(name)) return history;
  Alone(name, [&](Copy& copy) {
    const absl::Status fresh = Refresh(name, copy);
    if (fresh.ok()) {
      history = HistoryOf(name, producer);
    } else if (!absl::IsNotFound(fresh)) {
      history = fresh;
    }
  });
  return history;
}

absl::Status SharedHistogramStore::Delete(absl::string_view name) {
  if (!IsName(name)) return NoHistogram(name);
  // What streams have counted in it so far goes with it.
  waiting_.Take(name);
  return DeleteIf(name, 0, UsedOrNot);
}

absl::StatusOr<uint64_t> SharedHistogramStore::CreatedOf(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const SharedLogHead head, LogOf(keys_, name).Head());
  if (!head.is_there()) return NoHistogram(name);
  return head.created;
}

absl::Status SharedHistogramStore::SweepUnused(std::vector<Expired>& expired) {
  if (uses_ == nullptr) return absl::OkStatus();
  PH_RETURN_IF_ERROR(uses_->BeginSweep());
  PH_ASSIGN_OR_RETURN(const RangeResult heads, keys_->Range(KeyRange::Prefix(kHeads)));
  absl::Status first_error;
  for (const KeyValue& value : heads.values) {
    const std::string name = FromKey(absl::StripPrefix(value.key, kHeads));
    const auto log = SharedLogHead::Decode(value);
    if (!IsName(name) || !log.ok()) continue;
    const auto unused = uses_->RemoveIfUnused(name, value.create_revision);
    first_error.Update(unused.status());
    if (!unused.ok() || !*unused) continue;
    expired.push_back({name, **unused, log->num_bytes});
  }
  first_error.Update(uses_->EndSweep());
  return first_error;
}

absl::Status SharedHistogramStore::DeleteIf(absl::string_view name, Revision created,
                                            StillUnused unused) {
  absl::Status result = NoHistogram(name);
  Alone(name, [&](Copy& copy) {
    // The one that had the name when this began: not one that has taken it since.
    const auto next = [&](bool may_be_done) -> absl::StatusOr<std::optional<Transaction>> {
      absl::Status fresh = Refresh(name, copy);
      if (fresh.ok() && created != 0 && copy.log.created != created) fresh = NoHistogram(name);
      if (may_be_done && absl::IsNotFound(fresh)) return std::nullopt;
      PH_RETURN_IF_ERROR(fresh);
      created = copy.log.created;
      PH_ASSIGN_OR_RETURN(std::vector<Compare> compares, unused());
      const SharedLog log = LogOf(keys_, name);
      compares.push_back(log.Is(copy.log));
      return Transaction{std::move(compares), log.Erasure(), {}};
    };
    result = SharedChanges{replica_}.Make(
        *keys_, absl::StrCat("histogram '", name, "'"), next,
        [&](const TransactionResult& /*done*/) { DropCopy(name, copy); });
  });
  return result;
}

}  // namespace packhouse
