// The making of runs: how a copy's busy thread makes the changes that wait for it.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/engine/histograms/histogram_file.h"
#include "service/wings/cluster/histograms/shared_histogram_format.h"
#include "service/wings/cluster/histograms/shared_histogram_store.h"

namespace packhouse {
namespace {

using shared_histogram::DescribeTo;
using shared_histogram::FromKey;
using shared_histogram::kHeads;
using shared_histogram::LogOf;
using shared_histogram::NoHistogram;
using shared_histogram::RunBytes;

// Of one run: some hundred bytes each.
constexpr size_t kMaxProducers = 1000;

}  // namespace

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
  PH_RETURN_IF_ERROR(Use(name));
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
  if (!RunWithinMemory([&] { MakeAll(name, *copy, all); })) {
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

// Changes that one run has, and those before them that need none.
struct SharedHistogramStore::Gathered {
  explicit Gathered(size_t num_components) : sum(num_components) {}

  SizeHistogram sum;
  // Of producers that have changes in the run: as they will be.
  std::map<std::string, ProducerHistory> producers;
  std::vector<Run::Producer> sent;
  std::vector<Change*> in_run;
  // Has an answer for a change without a run, which is true if the copy is fresh.
  bool is_answered_alone = false;

  bool Answer(Change& change, absl::StatusOr<CountedGraphs> answer) {
    change.result = std::move(answer);
    return is_answered_alone = true;
  }
};

bool SharedHistogramStore::Gather(absl::string_view name, const HistogramKey& first, bool is_new,
                                  Change& change, Gathered& run) const {
  if (!run.in_run.empty() && (change.subtracts || run.in_run[0]->subtracts)) return false;
  if (!(change.key->schema == first.schema)) return false;
  if (is_new && change.key->half_life != first.half_life) return false;
  const std::optional<ProducerSequence>& producer = *change.producer;
  if (producer) {
    const auto found = run.producers.find(producer->producer);
    // Whether it is a repetition is known when this run has been made, or has not.
    if (found != run.producers.end() && producer->sequence <= found->second.last()) return false;
    const auto repeats = HistoryOf(name, producer->producer)
                             .IsRepetition(absl::StrCat("histogram '", name, "'"), *producer,
                                           DigestOf(*change.sizes, change.subtracts));
    if (!repeats.ok()) return run.Answer(change, repeats.status());
    if (*repeats) return run.Answer(change, CountedGraphs{0, NumGraphsOf(name, change.now)});
  }
  absl::Status fits = CheckChange(*change.key, *change.sizes, change.subtracts, producer,
                                  change.now, shared_bounds_);
  if (fits.ok() && !producer && !is_new && change.sizes->num_graphs() == 0) {
    return run.Answer(change, CountedGraphs{0, NumGraphsOf(name, change.now)});
  }
  if (fits.ok()) fits = run.sum.Merge(*change.sizes);
  if (!fits.ok()) return run.Answer(change, fits);
  if (!run.in_run.empty() &&
      (run.sent.size() >= kMaxProducers || RunBytes(run.sum) > kMaxRunBytes ||
       !CheckChange(*change.key, run.sum, change.subtracts, producer, change.now, shared_bounds_)
            .ok())) {
    (void)run.sum.Subtract(*change.sizes);
    return false;
  }
  if (producer) {
    const uint32_t digest = DigestOf(*change.sizes, change.subtracts);
    ProducerHistory& history = run.producers[producer->producer];
    history.Add(*producer, digest, 1);
    Run::Producer& each = run.sent.emplace_back();
    each.set_name(producer->producer);
    each.set_sequence(producer->sequence);
    each.set_digest(digest);
    each.set_forget_seconds(history.forget_seconds());
  }
  run.in_run.push_back(&change);
  return true;
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
    if (!copy.is_there() && !is_fresh) {
      const absl::Status read = Refresh(name, copy);
      if (!read.ok() && !absl::IsNotFound(read)) return refuse(changes.size(), read);
      is_fresh = true;
    }
    const bool is_new = !copy.is_there();
    const HistogramKey& first = *changes[0]->key;
    if (is_new) {
      if (changes[0]->subtracts) return refuse(1, NoHistogram(name));
      if (const absl::Status room = CheckCreation(first); !room.ok()) return refuse(1, room);
    }
    Gathered run(first.schema.num_components());
    size_t count = 0;
    while (count < changes.size() && Gather(name, first, is_new, *changes[count], run)) ++count;
    if (run.is_answered_alone && !is_fresh) {
      const absl::Status read = Refresh(name, copy);
      if (!read.ok() && !absl::IsNotFound(read)) return refuse(changes.size(), read);
      is_fresh = true;
      continue;
    }
    if (run.in_run.empty() || MakeRun(name, copy, first, run)) return count;
    is_fresh = true;
  }
  return refuse(changes.size(), absl::UnavailableError(absl::StrCat("histogram '", name,
                                                                    "': other servers were faster ",
                                                                    kRaces, " times: try again")));
}

SharedHistogramStore::Run SharedHistogramStore::RunOf(const Gathered& gathered,
                                                      const std::string& previous_run) {
  Run run;
  run.set_previous_run(previous_run);
  run.set_subtracts(gathered.in_run[0]->subtracts);
  run.set_time_nanos(absl::ToUnixNanos(gathered.in_run.back()->now));
  run.mutable_producers()->Add(gathered.sent.begin(), gathered.sent.end());
  for (const uint32_t row : gathered.sum.SortedRows()) {
    const auto tuple = gathered.sum.tuple(row);
    run.mutable_counts()->Add(tuple.begin(), tuple.end());
    run.add_numbers(gathered.sum.count(row));
  }
  return run;
}

bool SharedHistogramStore::MakeRun(absl::string_view name, Copy& copy, const HistogramKey& first,
                                   const Gathered& gathered) {
  const std::vector<Change*>& in_run = gathered.in_run;
  const bool is_new = !copy.is_there();
  const std::string attempt = NextAttempt();
  const Run run = RunOf(gathered, copy.head.last_run());
  const std::string bytes = run.SerializeAsString();
  Head next = copy.head;
  if (is_new) DescribeTo(first, next);
  next.set_last_run(attempt);
  const SharedLogWrite write = {
      .name = attempt, .contents = bytes, .value = next.SerializeAsString()};
  SharedLogHead log = copy.log;
  const auto refuse = [&](const absl::Status& why) {
    for (Change* const each : in_run) each->result = why;
    return true;
  };
  const uint64_t before = is_new ? 0 : NumGraphsOf(name, in_run.back()->now);
  // If an allocation fails from here on.
  refuse(absl::UnknownError(
      absl::StrCat("histogram '", name, "': nobody knows whether it was counted: out of memory")));
  const absl::Status made = LogOf(keys_, name).Write(write, log);
  if (absl::IsAborted(made)) {
    const absl::Status read = Refresh(name, copy);
    return !read.ok() && !absl::IsNotFound(read) && refuse(read);
  }
  if (OutcomeIsUnknown(made)) DropCopy(name, copy);
  if (!made.ok()) return refuse(made);
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
    return true;
  }
  copy.log = std::move(log);
  copy.head = std::move(next);
  for (Change* const each : in_run) {
    each->result = CountedGraphs{each->sizes->num_graphs(), NumGraphsOf(name, each->now)};
  }
  return true;
}

void SharedHistogramStore::WriteBase(absl::string_view name, Copy& copy) {
  const uint64_t run_bytes = copy.log.num_bytes - copy.log.base_bytes;
  if (!copy.is_there() || run_bytes < std::max<uint64_t>(kMinRunBytes, copy.log.base_bytes)) return;
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
  LogOf(keys_, name)
      .Write({.name = NextAttempt(), .contents = bytes, .replaces = true, .value = copy.log.value},
             copy.log)
      .IgnoreError();
}

}  // namespace packhouse
