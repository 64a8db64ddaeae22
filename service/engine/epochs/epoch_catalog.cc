#include "service/engine/epochs/epoch_catalog.h"

#include <set>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "service/base/mixture_name.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/cost_order.h"
#include "service/engine/epochs/option_rules.h"
#include "service/stores/datasets/reader_bytes.h"

namespace packhouse {
namespace {

// Keys begin with the data set's name, which has no line breaks.
constexpr char kSeparator = '\n';

std::string PrefixOf(absl::string_view dataset) {
  return absl::StrCat(dataset, std::string(1, kSeparator));
}

// Bytes of unused values that each of the caches keeps: the default; and for a budget, an
// eighth of it in all.
constexpr uint64_t kDefaultKeptBytes = uint64_t{64} << 20;
constexpr uint64_t kNumCaches = 8;
constexpr uint64_t kKeptShare = 8;
// The place of a record, in a list that has up to twice the room that it needs and exists twice for
// a moment.
constexpr uint64_t kBytesOfChunk = 256;
// A copy of graphs that no batch was made from while so many epochs of others began is dropped.
constexpr uint32_t kEpochsUnused = 8;

// Of each graph while an epoch is mixed, for a plan that is there already.
constexpr uint64_t kAheadBytesOfGraph = 24;

// How long who needs memory waits for batches that are being made from a dropped copy.
constexpr absl::Duration kLongestUseOfCopy = absl::Milliseconds(100);

uint64_t KeptBytes(const MemoryBudget* memory) {
  return memory == nullptr ? kDefaultKeptBytes : memory->bound() / (kKeptShare * kNumCaches);
}

// What has this name and version: the beginning of keys.
std::string VersionKey(absl::string_view name, uint64_t version) {
  return absl::StrCat(PrefixOf(name), version, std::string(1, kSeparator));
}
std::string ReaderKey(const DatasetInfo& info) { return VersionKey(info.name, info.version); }
std::string ThingOf(const std::string& key) {
  return key.substr(0, key.find(kSeparator, key.find(kSeparator) + 1) + 1);
}
absl::string_view NameIn(const std::string& thing) {
  return absl::string_view(thing).substr(0, thing.find(kSeparator));
}

absl::StatusOr<DatasetInfo> SealedInfo(const DatasetStore& store, absl::string_view dataset) {
  PH_ASSIGN_OR_RETURN(DatasetInfo info, store.Get(dataset));
  PH_RETURN_IF_ERROR(CheckSealed(info));
  return info;
}

// Where the graphs of each data set of a mixture end; empty for others, and if the data sets have
// been replaced since it was found.
std::vector<uint64_t> EndsOfMixture(const DatasetStore& store, const DatasetInfo& info) {
  std::vector<uint64_t> ends;
  if (!IsMixture(info.name)) return ends;
  uint64_t end = 0;
  for (const absl::string_view name : NamesInMixture(info.name)) {
    const auto member = store.Get(name);
    if (!member.ok()) return {};
    ends.push_back(end += member->num_graphs);
  }
  const auto again = store.Get(info.name);
  return again.ok() && again->version == info.version ? ends : std::vector<uint64_t>();
}

// Of all that a plan is made by, besides the data set, what was measured, and the seed and epoch
// where it is for one.
std::string PlanWords(const EpochRequest& request, absl::string_view measured) {
  std::string words = absl::StrCat(request.Words(), measured, DeviceCostWords(request),
                                   request.oversize_is_error ? " or fail" : "");
  if (request.rank_groups.size() > 1 || request.cost_balanced) {
    absl::StrAppend(&words, " ", absl::StrJoin(request.NumRanks(), " "));
  }
  return words;
}

}  // namespace

void AheadEpoch::LetGo() {
  std::shared_ptr<const PreparedEpoch> epoch;  // Destroyed without the lock.
  absl::MutexLock lock(&mutex_);
  epoch.swap(epoch_);
}

EpochCatalog::EpochCatalog(const DatasetStore* store, const EpochBounds& bounds,
                           MemoryBudget* memory)
    : store_(store),
      bounds_(bounds),
      memory_(memory),
      make_room_(std::make_shared<const MakeRoom>(
          [this](absl::FunctionRef<bool()> done) { ForgetUntil(done); })),
      readers_(KeptBytes(memory), [](const OpenedReader& opened) { return opened.bytes; }),
      plans_(KeptBytes(memory),
             [](const EpochPlan& plan) { return plan.bytes() + BytesOfReader(plan.dataset()); }),
      epochs_(KeptBytes(memory),
              [](const PreparedEpoch& epoch) {
                return epoch.bytes() + BytesOfReader(epoch.plan().dataset());
              }),
      of_things_(KeptBytes(memory), [](const LoadableEpoch& epoch) { return epoch.kept_bytes(); }),
      kept_of_datasets_(KeptBytes(memory), [](const KeptOfDataset& kept) { return kept.bytes(); }),
      of_kinds_(KeptBytes(memory), [](const LoadableEpoch& epoch) { return epoch.kept_bytes(); }),
      segmented_plans_(KeptBytes(memory), [](const SegmentedPlan& plan) { return plan.bytes(); }),
      segmented_(KeptBytes(memory),
                 [](const SegmentedEpoch& epoch) { return epoch.bytes() + epoch.plan().bytes(); }),
      shared_batches_(kNumCaches * KeptBytes(memory), memory, bounds.framing) {
  if (memory_ != nullptr) {
    memory_->SetReclaim([this](uint64_t bytes) { Reclaim(bytes); });
  }
}

EpochCatalog::~EpochCatalog() {
  // It has values that are pointers of its own.
  segmented_plans_.Drop("");
  if (memory_ != nullptr) memory_->SetReclaim(nullptr);
}

void EpochCatalog::ForgetUntil(absl::FunctionRef<bool()> done) {
  if (done()) return;
  const auto forget = [&](auto& cache) {
    while (cache.ForgetOldest()) {
      if (done()) return true;
    }
    return false;
  };
  const auto forget_segments = [&] {
    for (const auto& epoch : AllSegmented()) {
      while (epoch->ForgetOldest()) {
        if (done()) return true;
      }
    }
    return false;
  };
  const auto forget_ahead = [&] {
    for (const auto& epoch : AllAhead()) {
      epoch->LetGo();
      if (done()) return true;
    }
    return false;
  };
  // Values that are made from others go before them. Segments are made again in seconds; those that
  // are being delivered stay.
  (void)(forget(shared_batches_) || forget(of_things_) || forget(segmented_) || forget_segments() ||
         forget(of_kinds_) || forget(kept_of_datasets_) || forget_ahead() || forget(epochs_) ||
         forget(plans_) || forget(segmented_plans_) || forget(readers_));
}

void EpochCatalog::Reclaim(uint64_t bytes) {
  const uint64_t held = memory_->held();
  const auto done = [&] { return memory_->held() + bytes <= held; };
  // Everything else takes longer to make again.
  for (const auto& rows : AllGathered()) {
    if (done()) return;
    const auto gone = rows->Drop();
    // A batch that is made from the copy keeps it a moment longer, and waits for no memory
    // meanwhile. The bound is for a disk that does not answer.
    if (gone != nullptr && !gone->WaitForNotificationWithTimeout(kLongestUseOfCopy)) break;
  }
  ForgetUntil(done);
}

absl::StatusOr<std::shared_ptr<const EpochCatalog::OpenedReader>> EpochCatalog::OpenReader(
    const DatasetInfo& info, const Cancellation& cancellation, const Making& making) {
  const auto open = [&]() -> absl::StatusOr<std::shared_ptr<const OpenedReader>> {
    auto opened = std::make_shared<OpenedReader>();
    opened->bytes = BytesOfReader(info);
    PH_ASSIGN_OR_RETURN(opened->memory,
                        making.Hold(absl::StrCat("a reader of ", info.num_graphs,
                                                 " graphs of data set '", info.name, "'"),
                                    opened->bytes));
    auto reader = store_->OpenReader(info.name);
    // Readers that nobody uses may have what a store has little of: the files of a cache.
    // Another call may just have made room, so it is tried again whatever was found here.
    if (absl::IsResourceExhausted(reader.status())) {
      ForgetUntil([&] {
        reader = store_->OpenReader(info.name);
        return !absl::IsResourceExhausted(reader.status());
      });
    }
    PH_ASSIGN_OR_RETURN(opened->reader, std::move(reader));
    opened->gathered = std::make_shared<GatheredRows>(memory_, opened->reader);
    if (opened->reader->info().version == info.version) return opened;
    return absl::UnavailableError(
        absl::StrCat("data set '", info.name, "' was replaced while it was opened; try again"));
  };
  auto opened = readers_.Get(
      ReaderKey(info), [&] { return cancellation.WhileWaiting(); }, open);
  // What could not be read now, the next call tries again: it may have been damaged on its way.
  if (opened.ok() && !(*opened)->reader->unreadable().empty()) readers_.Drop(ReaderKey(info));
  return opened;
}

std::vector<std::shared_ptr<GatheredRows>> EpochCatalog::AllGathered() {
  std::vector<std::shared_ptr<GatheredRows>> all;
  absl::MutexLock lock(&gathered_mutex_);
  for (const Gathered& gathered : gathered_) {
    if (auto rows = gathered.rows.lock()) all.push_back(std::move(rows));
  }
  return all;
}

std::shared_ptr<GatheredRows> EpochCatalog::GatheredFor(const DatasetInfo& info,
                                                        const EpochPlan& plan) {
  // A copy has all graphs.
  if (plan.num_graphs() < info.num_graphs / 2) return nullptr;
  const auto opened = readers_.Find(ReaderKey(info));
  // Null if the data set was deleted meanwhile.
  if (opened == nullptr || opened->reader.get() != &plan.reader()) return nullptr;
  // A data set that is loaded once is not worth a copy.
  if (opened->num_epochs.fetch_add(1) == 0) return nullptr;
  std::shared_ptr<GatheredRows> rows = opened->gathered;
  std::vector<std::shared_ptr<GatheredRows>> others;  // Destroyed without the lock.
  std::vector<std::shared_ptr<GatheredRows>> unused;
  {
    absl::MutexLock lock(&gathered_mutex_);
    bool is_listed = false;
    size_t kept = 0;
    for (Gathered& gathered : gathered_) {
      auto other = gathered.rows.lock();
      if (other == nullptr) continue;
      if (other == rows) {
        is_listed = true;
        gathered.num_unused = 0;
      } else if (other->WasUsed()) {
        gathered.num_unused = 0;
      } else if (++gathered.num_unused == kEpochsUnused) {
        unused.push_back(other);
      }
      others.push_back(std::move(other));
      std::swap(gathered_[kept++], gathered);
    }
    gathered_.resize(kept);
    if (!is_listed) gathered_.push_back({rows, 0});
  }
  for (const auto& other : unused) other->Drop();
  rows->Count();
  return rows;
}

absl::StatusOr<std::shared_ptr<const PreparedEpoch>> EpochCatalog::Prepare(
    const EpochRequest& request, const Cancellation& cancellation,
    const std::optional<KeptPlannerResult>& kept) {
  return PrepareWith(request, cancellation, kept, /*hurry=*/nullptr);
}

absl::StatusOr<std::shared_ptr<const PreparedEpoch>> EpochCatalog::PrepareWith(
    const EpochRequest& request, const Cancellation& cancellation,
    const std::optional<KeptPlannerResult>& kept, std::function<void()> hurry) {
  PH_RETURN_IF_ERROR(CheckTogether(EngineRules(), request));
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, SealedInfo(*store_, request.dataset));
  const std::string reader_key = ReaderKey(info);
  std::string plan_key = absl::StrCat(reader_key, PlanWords(request, MeasuredWords(request)));
  const std::string epoch_words =
      absl::StrCat(" epoch ", request.key.epoch, " seed ", request.seed);
  if (request.draw) absl::StrAppend(&plan_key, epoch_words);
  const bool uses_kept = kept && kept->dataset_version == info.version && !HasMade(plan_key, *kept);
  if (uses_kept) absl::StrAppend(&plan_key, " as ", kept->receipt);
  const std::string epoch_key =
      absl::StrCat(plan_key, epoch_words, std::string(1, kSeparator), request.key.job);

  const Making making(memory_, cancellation, std::move(hurry));
  const auto gone = [&] { return cancellation.WhileWaiting(); };
  const auto make_plan = [&]() -> absl::StatusOr<std::shared_ptr<const EpochPlan>> {
    // Others may wait for a plan, and it takes long.
    if (making.hurry()) making.hurry()();
    PH_ASSIGN_OR_RETURN(auto opened, OpenReader(info, cancellation, making));
    // Used as long as the reader is.
    std::shared_ptr<const DatasetReader> reader(opened, opened->reader.get());
    std::shared_ptr<const PlannerResult> given;
    if (uses_kept) {
      PH_ASSIGN_OR_RETURN(given, kept->read());
    }
    return EpochPlan::Make(std::move(reader), request, bounds_, making, std::move(given),
                           EndsOfMixture(*store_, info));
  };
  const auto prepare = [&]() -> absl::StatusOr<std::shared_ptr<const PreparedEpoch>> {
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_ASSIGN_OR_RETURN(auto plan, plans_.Get(plan_key, gone, make_plan));
    std::shared_ptr<GatheredRows> gathered = GatheredFor(info, *plan);
    return PreparedEpoch::Prepare(std::move(plan), request, bounds_, making, std::move(gathered));
  };
  return epochs_.Get(epoch_key, gone, prepare);
}

std::vector<std::shared_ptr<AheadEpoch>> EpochCatalog::AllAhead() {
  std::vector<std::shared_ptr<AheadEpoch>> all;
  absl::MutexLock lock(&ahead_mutex_);
  std::erase_if(ahead_, [&](const std::weak_ptr<AheadEpoch>& weak) {
    if (auto epoch = weak.lock()) {
      all.push_back(std::move(epoch));
      return false;
    }
    return true;
  });
  return all;
}

absl::StatusOr<std::shared_ptr<AheadEpoch>> EpochCatalog::PrepareAhead(
    const EpochRequest& request, const Cancellation& cancellation,
    const std::optional<KeptPlannerResult>& kept, const std::function<void()>& hurry) {
  // Copies of graphs may have half of it.
  const uint64_t most = memory_ == nullptr ? 0 : memory_->bound() / 4 * 3;
  const auto has_room = [&](uint64_t bytes) {
    if (memory_ == nullptr) return true;
    const uint64_t held = memory_->held();
    return held <= most && bytes <= most - held;
  };
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, SealedInfo(*store_, request.dataset));
  const uint64_t bytes = kAheadBytesOfGraph * info.num_graphs;
  if (!has_room(bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("--memory-budget: the next epoch of data set '", info.name, "' of ", bytes,
                     " bytes beside the ", memory_->held(), " that are held, at most ", most,
                     " for what nobody waits for"));
  }
  uint64_t num_drops = 0;
  {
    absl::MutexLock lock(&ahead_mutex_);
    num_drops = num_drops_;
  }
  const Cancellation::Ask& is_over = cancellation.while_making();
  const Cancellation ahead([&] { return !has_room(0) || (is_over && is_over()); },
                           [&] { return !has_room(0) || cancellation.WhileWaiting(); });
  PH_ASSIGN_OR_RETURN(auto prepared, PrepareWith(request, ahead, kept, hurry));
  // For people. It takes less than mixing, since the epoch before is still there.
  prepared->MeasureCompany(Making(memory_, ahead, hurry)).IgnoreError();
  const EpochIdentity& identity = prepared->identity();
  std::string thing = VersionKey(identity.dataset, identity.dataset_version);
  auto epoch = std::make_shared<AheadEpoch>(std::move(thing), std::move(prepared));
  absl::MutexLock lock(&ahead_mutex_);
  if (num_drops_ != num_drops) {
    return absl::CancelledError("the next epoch: data sets were forgotten while it was prepared");
  }
  std::erase_if(ahead_, [](const std::weak_ptr<AheadEpoch>& weak) { return weak.expired(); });
  ahead_.push_back(epoch);
  return epoch;
}

absl::StatusOr<std::shared_ptr<const LoadableEpoch>> EpochCatalog::PrepareKind(
    const EpochRequest& request, const Cancellation& cancellation,
    const PlanFirstWindow& plan_first) {
  const ItemKind& kind = *request.kinds.back();
  PH_RETURN_IF_ERROR(CheckTogether(kind.rules(), request));
  PH_RETURN_IF_ERROR(CheckTogether(EngineRules(), request));
  const std::string words =
      absl::StrCat(PlanWords(request, MeasuredWords(request)), " epoch ", request.key.epoch,
                   " seed ", request.seed, std::string(1, kSeparator), request.key.job);
  const Making making(memory_, cancellation);
  const auto gone = [&] { return cancellation.WhileWaiting(); };
  const std::optional<ItemKind::Thing> thing = kind.thing();
  std::optional<DatasetInfo> info;
  if (!thing) {
    PH_ASSIGN_OR_RETURN(info, SealedInfo(*store_, request.dataset));
  }
  const auto open_reader = [&]() -> absl::StatusOr<std::shared_ptr<const DatasetReader>> {
    if (!info) return absl::InternalError("a reader of no data set");
    PH_ASSIGN_OR_RETURN(auto opened, OpenReader(*info, cancellation, making));
    // Used as long as the reader is.
    return std::shared_ptr<const DatasetReader>(opened, opened->reader.get());
  };
  const auto keep = [&](absl::FunctionRef<KindSources::Kept()> make) -> KindSources::Kept {
    if (!info) return absl::InternalError("something of no data set");
    return kept_of_datasets_.Get(absl::StrCat(ReaderKey(*info), kind.name()), gone, make);
  };
  const auto prepare = [&]() -> absl::StatusOr<std::shared_ptr<const LoadableEpoch>> {
    PH_RETURN_IF_ERROR(making.StillWanted());
    return kind.Prepare(request,
                        {bounds_, making, sampling_observer_, plan_first, open_reader, keep});
  };
  absl::StatusOr<std::shared_ptr<const LoadableEpoch>> epoch =
      thing ? of_things_.Get(absl::StrCat(VersionKey(thing->name, thing->version), words), gone,
                             prepare)
            : of_kinds_.Get(absl::StrCat(ReaderKey(*info), words), gone, prepare);
  PH_RETURN_IF_ERROR(epoch.status());
  // Somebody may have prepared it without.
  PH_RETURN_IF_ERROR(kind.Complete(request, **epoch, making));
  return epoch;
}

std::vector<std::shared_ptr<const SegmentedEpoch>> EpochCatalog::AllSegmented() {
  std::vector<std::shared_ptr<const SegmentedEpoch>> all;
  absl::MutexLock lock(&segmented_mutex_);
  std::erase_if(in_segments_, [&](const std::weak_ptr<const SegmentedEpoch>& weak) {
    if (auto epoch = weak.lock()) {
      all.push_back(std::move(epoch));
      return false;
    }
    return true;
  });
  return all;
}

absl::StatusOr<std::shared_ptr<const SegmentedEpoch>> EpochCatalog::PrepareSegmented(
    const EpochRequest& request, const Cancellation& cancellation,
    const std::optional<KeptPlannerResult>& kept) {
  // A plan that is there was made for a request that may differ in what it is used for.
  PH_RETURN_IF_ERROR(CheckTogether(EngineRules(), request));
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, SealedInfo(*store_, request.dataset));
  const auto key_of = [&](absl::string_view measured) {
    return absl::StrCat(ReaderKey(info), PlanWords(request, measured), " seed ", request.seed,
                        request.draw ? absl::StrCat(" epoch ", request.key.epoch) : "");
  };
  // However a plan was made, whoever comes later asks for it so: its receipt tells the limits.
  const auto key_as = [&](absl::string_view receipt) {
    return absl::StrCat(key_of(""), " as ", receipt);
  };
  std::string plan_key = key_of(MeasuredWords(request));
  const bool uses_kept = kept && kept->dataset_version == info.version;
  if (uses_kept && !kept->is_of_other_epoch) {
    plan_key = key_as(kept->receipt);
  } else if (uses_kept) {
    const auto made = segmented_plans_.Find(plan_key);
    if (made == nullptr || made->receipt() != kept->receipt) {
      absl::StrAppend(&plan_key, " after ", kept->receipt);
    }
  }
  const Making making(memory_, cancellation);
  const auto gone = [&] { return cancellation.WhileWaiting(); };
  const auto make_plan = [&]() -> absl::StatusOr<std::shared_ptr<const SegmentedPlan>> {
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_ASSIGN_OR_RETURN(MemoryHold opening,
                        making.Hold(absl::StrCat("chunks of data set '", info.name, "'"),
                                    kBytesOfChunk * info.num_records));
    PH_ASSIGN_OR_RETURN(auto chunks, store_->OpenChunks(info.name));
    if (chunks->info().version != info.version) {
      return absl::UnavailableError(
          absl::StrCat("data set '", info.name, "' was replaced while it was opened; try again"));
    }
    return SegmentedPlan::Make(std::move(chunks), request, bounds_, making,
                               uses_kept ? kept : std::nullopt, std::move(opening));
  };
  PH_ASSIGN_OR_RETURN(auto plan, segmented_plans_.Get(plan_key, gone, make_plan));
  const std::string key = key_as(plan->receipt());
  if (key != plan_key) {
    const auto same = [&]() -> absl::StatusOr<std::shared_ptr<const SegmentedPlan>> {
      return plan;
    };
    PH_ASSIGN_OR_RETURN(plan, segmented_plans_.Get(key, gone, same));
  }
  const auto prepare = [&]() -> absl::StatusOr<std::shared_ptr<const SegmentedEpoch>> {
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_ASSIGN_OR_RETURN(
        auto epoch, SegmentedEpoch::Prepare(std::move(plan), request, bounds_, making, make_room_));
    absl::MutexLock lock(&segmented_mutex_);
    in_segments_.push_back(epoch);
    return epoch;
  };
  return segmented_.Get(
      absl::StrCat(key, " epoch ", request.key.epoch, std::string(1, kSeparator), request.key.job),
      gone, prepare);
}

bool EpochCatalog::HasMade(const std::string& plan_key, const KeptPlannerResult& kept) {
  const std::shared_ptr<const EpochPlan> made = plans_.Find(plan_key);
  // A receipt identifies the sizes, the limits and the planner. Without it (in order, or with
  // limits for a device) the kept result is used; it is small.
  return made != nullptr && !made->planned()->patterns.empty() && made->receipt() == kept.receipt;
}

void EpochCatalog::DropAll(absl::string_view prefix) {
  // A call that got a reader before it is dropped has already asked for a plan, and that plan is
  // dropped too. The same holds for plans and epochs.
  readers_.Drop(prefix);
  plans_.Drop(prefix);
  epochs_.Drop(prefix);
  kept_of_datasets_.Drop(prefix);
  of_kinds_.Drop(prefix);
  segmented_plans_.Drop(prefix);
  segmented_.Drop(prefix);
  {
    absl::MutexLock lock(&ahead_mutex_);
    ++num_drops_;
  }
  for (const auto& epoch : AllAhead()) {
    if (absl::StartsWith(epoch->thing(), prefix)) epoch->LetGo();
  }
}

void EpochCatalog::Forget(absl::string_view dataset) {
  DropAll(PrefixOf(dataset));
  for (const std::string& thing : DatasetsInUse()) {
    if (absl::c_linear_search(NamesInMixture(NameIn(thing)), dataset)) DropAll(thing);
  }
}

void EpochCatalog::ForgetThing(absl::string_view thing) { of_things_.Drop(PrefixOf(thing)); }

std::set<std::string> EpochCatalog::DatasetsInUse() const {
  std::set<std::string> things;
  const auto collect = [&things](const auto& cache) {
    for (const std::string& key : cache.Keys()) things.insert(ThingOf(key));
  };
  collect(readers_);
  collect(plans_);
  collect(epochs_);
  collect(kept_of_datasets_);
  collect(of_kinds_);
  collect(segmented_plans_);
  collect(segmented_);
  return things;
}

void EpochCatalog::ForgetGone(
    absl::FunctionRef<absl::StatusOr<uint64_t>(absl::string_view thing)> version_of_thing) {
  for (const std::string& thing : DatasetsInUse()) {
    const auto info = store_->Get(NameIn(thing));
    if (info.ok() ? ReaderKey(*info) != thing : absl::IsNotFound(info.status())) DropAll(thing);
  }
  std::set<std::string> others;
  for (const std::string& key : of_things_.Keys()) others.insert(ThingOf(key));
  for (const std::string& thing : others) {
    const absl::string_view name = NameIn(thing);
    const auto version = version_of_thing(name);
    const bool is_gone =
        version.ok() ? VersionKey(name, *version) != thing : absl::IsNotFound(version.status());
    if (is_gone) of_things_.Drop(thing);
  }
}

}  // namespace packhouse
