#include "service/wings/cluster/datasets/object_appender.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "service/base/caller.h"
#include "service/base/checksum.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/stored_values.h"
#include "service/wings/cluster/datasets/chunk_builder.h"

namespace packhouse {

struct ObjectAppender::Decision {
  struct Accepted {
    Waiter* waiter;
    AppendResult result;
  };
  DatasetHead head;  // With the state after the commit.
  Revision state_revision = 0;
  uint64_t first_graph = 0;
  std::vector<Accepted> accepted;
  // Those of `accepted` that have graphs, in order.
  std::vector<const PreparedAppend*> with_graphs;
  // What is remembered of producers, by their keys: to be written.
  std::map<std::string, ProducerHistory> histories;
  // For how long of those whose names were made up for one call.
  std::map<std::string, absl::Duration> forget_after;
  std::optional<ObjectStoreTotals> totals;
  Revision totals_revision = 0;
  uint64_t object = 0;  // That the transaction names; 0: none.
};

struct ObjectAppender::PutChunk {
  uint64_t dataset = 0;
  uint64_t sweeps = 0;
  std::vector<const PreparedAppend*> appends;
  ObjectChunk chunk;
};

namespace {

// A transaction was sent, and may have happened or still happen.
absl::Status NotKnown(absl::string_view name, const absl::Status& why) {
  return absl::UnavailableError(absl::StrCat(
      "data set '", name, "': it is not known whether the append happened: ", why.message()));
}

std::string ProducerKey(uint64_t dataset, const ProducerSequence& producer) {
  return producer.is_named() ? DatasetProducerKey(dataset, producer.producer)
                             : DatasetMadeUpProducerKey(dataset, producer.producer);
}

}  // namespace

absl::StatusOr<AppendResult> ObjectAppender::Append(const PreparedAppend& append) {
  // What could fail for lack of memory comes before others wait for this call.
  const absl::Status not_known = NotKnown(append.name, OutOfMemory());
  Waiter self = {&append};
  std::vector<Waiter*> group;
  group.reserve(kMaxAppends);
  {
    absl::MutexLock lock(&mutex_);
    Queue& queue = queues_[std::string(append.name)];
    queue.waiters.push_back(&self);
    ++queue.num_users;
    const auto is_next = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return self.is_done || (!queue.is_committing && queue.waiters.front() == &self);
    };
    mutex_.Await(absl::Condition(&is_next));
    if (!self.is_done) {
      queue.is_committing = true;
      uint64_t bytes = 0;
      while (!queue.waiters.empty() && group.size() < kMaxAppends) {
        bytes += queue.waiters.front()->append->record.num_bytes();
        if (!group.empty() && bytes > kMaxBytes) break;
        group.push_back(queue.waiters.front());
        queue.waiters.pop_front();
      }
    }
  }
  const bool commits = !group.empty();
  const absl::Cleanup leave = [&] {
    absl::MutexLock lock(&mutex_);
    const auto queue = queues_.find(append.name);
    if (commits) queue->second.is_committing = false;
    if (--queue->second.num_users == 0) queues_.erase(queue);
  };
  if (!commits) return std::move(self.result);
  bool is_tail_long = false;
  // For others too, whose callers may have more patience.
  const CallerScope for_all(nullptr);
  {
    // From here on the others go, and must not be touched again.
    const absl::Cleanup tell = [&] {
      absl::MutexLock lock(&mutex_);
      for (Waiter* const waiter : group) {
        // Perhaps after a transaction was sent: who appends again without a producer is told so.
        if (!waiter->is_settled) waiter->result = not_known;
        waiter->is_done = true;
      }
    };
    (void)RunWithinMemory([&] { is_tail_long = Commit(append.name, group); });
  }
  if (is_tail_long) RollSoon(append.name);
  return std::move(self.result);
}

size_t ObjectAppender::num_waiting(absl::string_view name) const {
  absl::MutexLock lock(&mutex_);
  const auto queue = queues_.find(name);
  return queue == queues_.end() ? 0 : queue->second.waiters.size();
}

bool ObjectAppender::Commit(absl::string_view name, absl::Span<Waiter* const> group) {
  std::unique_ptr<PutChunk> put;
  std::unique_ptr<Decision> pending;
  absl::Status status;
  bool is_tail_long = false;
  for (int failures = 0; failures <= engines_.max_attempts; ++failures) {
    if (failures != 0) engines_.BackOff(failures - 1);
    const auto committed = CommitOnce(name, group, put, pending);
    is_tail_long = committed.ok() && *committed;
    status = committed.status();
    if (!absl::IsAborted(status)) break;
    status = absl::UnavailableError(absl::StrCat("data set '", name, "': ", status.message()));
  }
  // An error that says that nothing happened must be true of the transaction before it, too.
  if (!status.ok() && pending != nullptr) status = NotKnown(name, status);
  for (Waiter* const waiter : group) {
    if (!waiter->is_settled) waiter->result = status;
    waiter->is_settled = true;
  }
  return is_tail_long;
}

// ABORTED if it may be tried again.
absl::StatusOr<bool> ObjectAppender::CommitOnce(absl::string_view name,
                                                absl::Span<Waiter* const> group,
                                                std::unique_ptr<PutChunk>& put,
                                                std::unique_ptr<Decision>& pending) {
  PH_ASSIGN_OR_RETURN(const DatasetHead head, ReadHead(engines_, name));
  const auto settle = [](const Decision& decision) {
    for (const Decision::Accepted& accepted : decision.accepted) {
      accepted.waiter->result = accepted.result;
      accepted.waiter->is_settled = true;
    }
  };
  if (pending != nullptr && pending->head.id() == head.id() &&
      head.state_revision != pending->state_revision) {
    bool happened = false;
    if (pending->object != 0) {
      PH_ASSIGN_OR_RETURN(happened,
                          HasChunk(engines_, head, pending->first_graph, pending->object));
    }
    if (happened) settle(*pending);
    pending = nullptr;
  }
  PH_ASSIGN_OR_RETURN(Decision decision, Decide(head, group));
  if (decision.accepted.empty()) return false;
  if (!decision.with_graphs.empty()) {
    const bool is_there = put != nullptr && put->dataset == head.id() &&
                          put->sweeps == head.state.sweeps && put->appends == decision.with_graphs;
    if (!is_there) PH_RETURN_IF_ERROR(Put(head, decision, put));
    put->chunk.first_graph = decision.first_graph;
    decision.object = put->chunk.object;
    ++decision.head.state.num_tail;
  }
  Transaction transaction;
  const uint64_t id = head.id();
  transaction.compares.push_back(Compare::ModRevision(DatasetStateKey(id), head.state_revision));
  transaction.then.push_back(
      Operation::Put(DatasetStateKey(id), EncodeObjectState(decision.head.state)));
  if (decision.object != 0) {
    transaction.then.push_back(
        Operation::Put(DatasetTailKey(id, decision.first_graph), EncodeObjectChunk(put->chunk)));
  }
  for (const auto& [key, history] : decision.histories) {
    LeaseId lease = 0;
    if (const auto made_up = decision.forget_after.find(key);
        made_up != decision.forget_after.end()) {
      const auto granted = leases_.ThatLasts(made_up->second);
      if (!granted.ok()) return absl::AbortedError(granted.status().message());
      lease = *granted;
    }
    transaction.then.push_back(Operation::Put(key, EncodeProducer(history), lease));
  }
  if (decision.totals) {
    transaction.compares.push_back(Compare::ModRevision(kStoreTotalsKey, decision.totals_revision));
    transaction.then.push_back(
        Operation::Put(kStoreTotalsKey, EncodeObjectTotals(*decision.totals)));
  }
  const auto result = engines_.keys->Commit(transaction);
  if (!result.ok()) {
    return AfterFailure(result.status(), transaction, std::move(decision), pending);
  }
  if (!result->succeeded) return absl::AbortedError("others wrote at the same time");
  settle(decision);
  return decision.head.state.num_tail >= options_.chunks_of_page;
}

absl::Status ObjectAppender::AfterFailure(const absl::Status& failure,
                                          const Transaction& transaction, Decision decision,
                                          std::unique_ptr<Decision>& pending) {
  if (OutcomeIsUnknown(failure)) {
    for (const Decision::Accepted& accepted : decision.accepted) {
      accepted.waiter->may_be_known =
          accepted.result.num_appended == 0 && !accepted.result.is_repetition;
    }
    pending = std::make_unique<Decision>(std::move(decision));
    return absl::AbortedError(AsUnavailable(failure).message());
  }
  if (absl::IsUnavailable(failure)) return absl::AbortedError(failure.message());
  if (!absl::IsNotFound(failure)) return AsUnavailable(failure);
  bool has_lease = false;
  for (const Operation& step : transaction.then) {
    if (step.lease == 0) continue;
    leases_.HasEnded(step.lease);
    has_lease = true;
  }
  return has_lease ? absl::AbortedError(failure.message()) : AsUnavailable(failure);
}

absl::Status ObjectAppender::DecideOne(Waiter& waiter, Histories& histories,
                                       Decision& decision) const {
  const PreparedAppend& append = *waiter.append;
  ObjectDatasetState& state = decision.head.state;
  PH_RETURN_IF_ERROR(CheckDatasetId(append.name, decision.head.id(), append.id));
  AppendResult result;
  result.num_graphs = state.num_graphs;
  bool is_new_producer = false;
  const std::string key = append.producer ? ProducerKey(decision.head.id(), *append.producer) : "";
  if (append.producer) {
    const std::optional<ProducerHistory>& history = histories[key];
    bool repeats = false;
    if (history) {
      PH_ASSIGN_OR_RETURN(repeats, append.Repeats(*history));
    }
    if (repeats) {
      result.is_repetition = !(waiter.may_be_known && append.producer->sequence == history->last());
      if (decision.histories.contains(key)) {
        // What it repeats may be of this very transaction: it is done when that is.
        decision.accepted.push_back({&waiter, result});
        return absl::OkStatus();
      }
      waiter.result = result;
      waiter.is_settled = true;
      return absl::OkStatus();
    }
    // The others go by themselves.
    is_new_producer = !history && append.producer->is_named();
    if (is_new_producer && state.num_producers >= DatasetStore::kMaxProducers) {
      return TooManyProducers(append.name, state.num_producers, /*are_made_up=*/false);
    }
  }
  if (state.sealed) return IsSealed(append.name);
  PH_RETURN_IF_ERROR(CheckFitsDefinition(append, decision.head.definition));
  const size_t n = append.chunk->num_graphs();
  if (n != 0) {
    const uint64_t bytes = BytesInObject(append.record.num_bytes());
    PH_RETURN_IF_ERROR(CheckDatasetQuota(append.name, state.num_bytes, bytes,
                                         decision.head.definition.options.max_bytes));
    if (decision.totals && (decision.totals->num_bytes > options_.max_bytes ||
                            bytes > options_.max_bytes - decision.totals->num_bytes)) {
      return absl::ResourceExhaustedError(absl::StrCat("store: ", decision.totals->num_bytes, " + ",
                                                       bytes, " bytes of all data sets, at most ",
                                                       options_.max_bytes));
    }
    PH_RETURN_IF_ERROR(AddToTotals(append, state.totals));
    result.num_appended = n;
    result.first_graph = state.num_graphs;
    state.num_graphs += n;
    state.num_records += 1;
    state.num_bytes += bytes;
    if (decision.totals) decision.totals->num_bytes += bytes;
    result.num_graphs = state.num_graphs;
    decision.with_graphs.push_back(&append);
  } else if (!append.producer) {
    waiter.result = result;
    waiter.is_settled = true;
    return absl::OkStatus();
  }
  if (append.producer) {
    state.num_producers += is_new_producer ? 1 : 0;
    std::optional<ProducerHistory>& history = histories[key];
    if (!history) history.emplace();
    history->Add(*append.producer, append.digest, DatasetStore::kRememberedSequences);
    decision.histories[key] = *history;
    if (!append.producer->is_named()) {
      decision.forget_after[key] = append.producer->forget_after;
    }
  }
  decision.accepted.push_back({&waiter, result});
  return absl::OkStatus();
}

absl::StatusOr<ObjectAppender::Decision> ObjectAppender::Decide(
    const DatasetHead& head, absl::Span<Waiter* const> group) const {
  Decision decision;
  decision.head = head;
  decision.state_revision = head.state_revision;
  decision.first_graph = head.state.num_graphs;
  std::vector<KeyRange> ranges = {KeyRange::Of(kStoreTotalsKey),
                                  KeyRange::Of(DatasetStateKey(head.id()))};
  Histories histories;
  std::vector<std::string> producers;
  for (const Waiter* const waiter : group) {
    const auto& producer = waiter->append->producer;
    if (waiter->is_settled || !producer) continue;
    const std::string key = ProducerKey(head.id(), *producer);
    if (!histories.try_emplace(key).second) continue;
    producers.push_back(key);
    ranges.push_back(KeyRange::Of(key));
  }
  PH_ASSIGN_OR_RETURN(const auto read, ReadRanges(engines_, ranges));
  // What follows is decided on one state of all of it. A transaction whose outcome was unknown may
  // have happened between the two reads.
  if (read[1].values.empty() || read[1].values[0].mod_revision != head.state_revision) {
    return absl::AbortedError("others wrote at the same time");
  }
  if (options_.max_bytes != 0) {
    decision.totals.emplace();
    if (!read[0].values.empty()) {
      PH_ASSIGN_OR_RETURN(decision.totals, DecodeObjectTotals(read[0].values[0].value));
      decision.totals_revision = read[0].values[0].mod_revision;
    }
  }
  for (size_t i = 0; i < producers.size(); ++i) {
    const auto& values = read[i + 2].values;
    if (values.empty()) continue;
    PH_ASSIGN_OR_RETURN(histories[producers[i]], DecodeProducer(values[0].value));
  }
  for (Waiter* const waiter : group) {
    if (waiter->is_settled) continue;
    if (absl::Status refused = DecideOne(*waiter, histories, decision); !refused.ok()) {
      waiter->result = std::move(refused);
      waiter->is_settled = true;
    }
  }
  return decision;
}

absl::Status ObjectAppender::Put(const DatasetHead& head, const Decision& decision,
                                 std::unique_ptr<PutChunk>& put) const {
  MemoryHold hold;
  if (engines_.memory != nullptr) {
    PH_ASSIGN_OR_RETURN(hold, engines_.memory->Hold("an object of appended graphs",
                                                    BytesOfObject(decision.with_graphs)));
  }
  PH_ASSIGN_OR_RETURN(BuiltChunk built,
                      BuildChunk(head.id(), engines_.draw(), decision.with_graphs));
  PH_RETURN_IF_ERROR(AsUnavailable(engines_.objects->Put(ChunkObject(head.id(), built.chunk.object),
                                                         built.bytes, engines_.Deadline())));
  put = std::make_unique<PutChunk>();
  put->dataset = head.id();
  put->sweeps = head.state.sweeps;
  put->appends = decision.with_graphs;
  put->chunk = std::move(built.chunk);
  return absl::OkStatus();
}

void ObjectAppender::RollSoon(absl::string_view name) {
  (void)RunWithinMemory([&] {
    std::string of(name);
    {
      absl::MutexLock lock(&mutex_);
      if (!rolling_.insert(of).second) return;
    }
    // When the last copy of what is to be done has gone, done or not.
    const auto over = std::shared_ptr<void>(nullptr, [this, of](void*) {
      absl::MutexLock lock(&mutex_);
      rolling_.erase(of);
    });
    const auto roll = [this, of, over] {
      (void)RunWithinMemory([&] { RollTail(of).IgnoreError(); });
    };
    if (options_.later) {
      options_.later(roll);
    } else {
      roll();
    }
  });
}

absl::StatusOr<ObjectPage> ObjectAppender::PutPage(DatasetHead& head) const {
  PH_ASSIGN_OR_RETURN(ObjectManifest manifest, ReadManifest(engines_, head, /*with_pages=*/false));
  if (manifest.chunks.size() < options_.chunks_of_page) {
    return absl::AbortedError("others have made a page of them");
  }
  const std::string chunks = EncodeManifestPage(manifest.chunks);
  ObjectPage page;
  page.object = engines_.draw();
  page.first_graph = manifest.chunks.front().first_graph;
  page.end_graph = head.state.num_graphs;
  page.num_chunks = manifest.chunks.size();
  page.manifest_bytes = chunks.size();
  page.manifest_crc = Crc32c(chunks);
  // The run of the tail alone.
  DatasetHead tail = head;
  tail.state.num_graphs = page.end_graph - page.first_graph;
  PH_ASSIGN_OR_RETURN(const SizeHistogram sizes,
                      ReadRuns(engines_, tail, {{}, std::move(manifest.chunks), {}}));
  const std::string run = EncodeRun(sizes);
  page.run_bytes = run.size();
  page.run_crc = Crc32c(run);
  PH_RETURN_IF_ERROR(
      engines_.objects->Put(ManifestObject(head.id(), page.object), chunks, engines_.Deadline()));
  PH_RETURN_IF_ERROR(
      engines_.objects->Put(RunObject(head.id(), page.object), run, engines_.Deadline()));
  return page;
}

absl::Status ObjectAppender::RollTail(absl::string_view name) const {
  ObjectPage page;
  bool is_put = false;
  // As of which it was put.
  DatasetHead then;
  const auto next = [&](bool /*may_be_done*/) -> absl::StatusOr<std::optional<Transaction>> {
    PH_ASSIGN_OR_RETURN(DatasetHead head, ReadHead(engines_, name));
    // Others have only added to the tail, unless they have made a page of it, or swept the objects.
    if (is_put && (head.id() != then.id() || head.state.num_pages != then.state.num_pages ||
                   head.state.sweeps != then.state.sweeps)) {
      is_put = false;
    }
    // A page that it is not known of counts in the state.
    if (!is_put) {
      if (head.state.num_tail < options_.chunks_of_page) return std::nullopt;
      PH_ASSIGN_OR_RETURN(page, PutPage(head));
      is_put = true;
      then = head;
    }
    const uint64_t id = head.id();
    Transaction transaction;
    transaction.compares.push_back(Compare::ModRevision(DatasetStateKey(id), head.state_revision));
    transaction.then.push_back(Operation::Delete(
        {DatasetTailKey(id, page.first_graph), DatasetTailKey(id, page.end_graph)}));
    transaction.then.push_back(
        Operation::Put(DatasetPageKey(id, head.state.num_pages), EncodeObjectPage(page)));
    ++head.state.num_pages;
    head.state.num_tail -= page.num_chunks;
    transaction.then.push_back(Operation::Put(DatasetStateKey(id), EncodeObjectState(head.state)));
    return transaction;
  };
  return engines_.Change(absl::StrCat("data set '", name, "'"), next);
}

}  // namespace packhouse
