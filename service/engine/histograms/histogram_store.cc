#include "service/engine/histograms/histogram_store.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/checksum.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

using AnyHistogram = std::variant<SizeHistogram, DecayingHistogram>;

AnyHistogram EmptyHistogram(const HistogramKey& key, absl::Time now) {
  const size_t l = key.schema.num_components();
  const absl::Duration half_life = key.half_life.value_or(absl::InfiniteDuration());
  if (half_life == absl::InfiniteDuration()) return SizeHistogram(l);
  return DecayingHistogram(l, half_life, now);
}

size_t NumDistinct(const AnyHistogram& histogram) {
  return std::visit([](const auto& any) { return any.num_distinct(); }, histogram);
}

uint64_t NumGraphs(const AnyHistogram& histogram, absl::Time now) {
  if (const auto* exact = std::get_if<SizeHistogram>(&histogram)) return exact->num_graphs();
  return std::get<DecayingHistogram>(histogram).num_graphs(now);
}

bool Contains(const AnyHistogram& histogram, absl::Span<const uint32_t> tuple) {
  if (const auto* exact = std::get_if<SizeHistogram>(&histogram)) return exact->CountOf(tuple) != 0;
  return std::get<DecayingHistogram>(histogram).Contains(tuple);
}

// Its memory; and the most memory that it takes while it grows to this many distinct sizes.
uint64_t BytesOf(const AnyHistogram& histogram) {
  return std::visit([](const auto& any) { return any.bytes(); }, histogram);
}
uint64_t BytesFor(const AnyHistogram& histogram, uint64_t num_distinct) {
  return std::visit(
      [&](const auto& any) { return any.BytesFor(num_distinct, any.num_components()); }, histogram);
}

// Bytes of an entry without its sizes and producers, and of one producer. A producer's place exists
// twice while their table grows.
uint64_t BytesOfEntry(const SizeSchema& schema) {
  constexpr uint64_t kEntry = 1024;
  uint64_t names = 0;
  for (const std::string& name : schema.components()) names += sizeof(name) + name.size();
  return kEntry + names;
}
uint64_t BytesOfProducer(absl::string_view name, size_t num_digests) {
  return 256 + 2 * name.size() + 2 * sizeof(uint32_t) * num_digests;
}

// What is forgotten by `now` does not count.
absl::Status CheckDistinct(const AnyHistogram& histogram, const SizeHistogram& addend,
                           absl::Time now, size_t bound) {
  size_t distinct = NumDistinct(histogram);
  if (distinct + addend.num_distinct() <= bound) return absl::OkStatus();
  const auto* const decaying = std::get_if<DecayingHistogram>(&histogram);
  if (decaying != nullptr) distinct = decaying->NumDistinctAt(now);
  for (size_t row = 0; row < addend.num_distinct(); ++row) {
    const auto tuple = addend.tuple(row);
    const bool is_there =
        decaying != nullptr ? decaying->ContainsAt(tuple, now) : Contains(histogram, tuple);
    if (!is_there) ++distinct;
  }
  if (distinct <= bound) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("histogram: there would be ", distinct, " distinct sizes, at most ", bound));
}

absl::Status NothingToSubtractFrom(absl::string_view name) {
  return absl::FailedPreconditionError(
      absl::StrCat("histogram '", name, "' has a half-life: nothing can be subtracted"));
}

}  // namespace

absl::Status HistogramStore::CheckKey(const HistogramKey& key) {
  if (!IsValidName(key.name, kMaxNameLength, "_./-")) {
    return absl::InvalidArgumentError(
        absl::StrCat("histogram: name '", absl::CHexEscape(key.name.substr(0, kMaxNameLength)),
                     "' is not 1 to ", kMaxNameLength, " characters of [A-Za-z0-9_./-]"));
  }
  if (key.half_life && *key.half_life <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "histogram: half_life ", absl::FormatDuration(*key.half_life), " is not positive"));
  }
  return absl::OkStatus();
}

absl::Status HistogramStore::CheckProducer(const std::optional<ProducerSequence>& producer) {
  return producer ? packhouse::CheckProducer(*producer) : absl::OkStatus();
}

uint32_t HistogramStore::DigestOf(const SizesView& table) {
  const absl::Span<const uint32_t> counts = table.counts();
  return Crc32c(absl::string_view(reinterpret_cast<const char*>(counts.data()),
                                  counts.size() * sizeof(uint32_t)));
}

uint32_t HistogramStore::DigestOf(const SizeHistogram& sizes, bool subtracts) {
  uint32_t crc = subtracts ? 1 : 0;
  for (size_t row = 0; row < sizes.num_distinct(); ++row) {
    const auto tuple = sizes.tuple(row);
    crc = Crc32c(absl::string_view(reinterpret_cast<const char*>(tuple.data()),
                                   tuple.size() * sizeof(uint32_t)),
                 crc);
    const uint64_t count = sizes.count(row);
    crc = Crc32c(absl::string_view(reinterpret_cast<const char*>(&count), sizeof(count)), crc);
  }
  return crc;
}

absl::Status HistogramStore::CheckRoomFor(const Entry& entry, const ProducerSequence& producer,
                                          size_t max_named) {
  if (entry.producers.contains(producer.producer)) return absl::OkStatus();
  const size_t num_named = entry.producers.size() - entry.made_up.size();
  if (producer.is_named() && num_named >= max_named) {
    return absl::ResourceExhaustedError(
        absl::StrCat("histogram: there are ", num_named, " producers, at most ", max_named));
  }
  if (producer.is_named() || entry.made_up.size() < kMaxMadeUpProducers) return absl::OkStatus();
  const absl::Time first =
      absl::FromUnixSeconds(static_cast<int64_t>(entry.made_up.begin()->first));
  if (first < producer.now) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "histogram: there are ", entry.made_up.size(),
      " producers whose names were made up for one call and whose time for retries is not over, "
      "at most ",
      kMaxMadeUpProducers));
}

uint64_t HistogramStore::BytesToAdd(const Entry& entry, const ProducerSequence& producer) {
  const auto found = entry.producers.find(producer.producer);
  if (found == entry.producers.end()) return BytesOfProducer(producer.producer, 1);
  const ProducerHistory& history = found->second;
  const size_t after = std::min<uint64_t>(
      kRememberedSequences, history.digests().size() + (producer.sequence - history.last()));
  const size_t before = history.digests().size();
  return 2 * sizeof(uint32_t) * (std::max(after, before) - before);
}

void HistogramStore::Add(const ProducerSequence& producer, uint32_t digest, Entry& entry) {
  const auto forget = [&](const std::string& name) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto found = entry.producers.find(name);
    entry.bytes_besides -= BytesOfProducer(name, found->second.digests().size());
    entry.producers.erase(found);
  };
  ProducerHistory& history = entry.producers[producer.producer];
  const bool is_new = history.last() == 0;
  if (!is_new) {
    entry.bytes_besides -= BytesOfProducer(producer.producer, history.digests().size());
    if (!history.is_named()) {
      entry.made_up.erase({history.forget_seconds(), producer.producer});
    }
  }
  history.Add(producer, digest, producer.is_named() ? kRememberedSequences : kRememberedOfMadeUp);
  entry.bytes_besides += BytesOfProducer(producer.producer, history.digests().size());
  if (producer.is_named()) return;
  entry.made_up.emplace(history.forget_seconds(), producer.producer);
  while (is_new &&
         absl::FromUnixSeconds(static_cast<int64_t>(entry.made_up.begin()->first)) < producer.now) {
    forget(entry.made_up.begin()->second);
    entry.made_up.erase(entry.made_up.begin());
  }
}

absl::Status HistogramStore::Remember(absl::string_view name, const ProducerSequence& producer,
                                      uint32_t digest) {
  PH_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(name));
  absl::MutexLock lock(&entry->mutex);
  const uint64_t besides = entry->bytes_besides + BytesToAdd(*entry, producer);
  PH_RETURN_IF_ERROR(HoldAll(name, besides + BytesOf(entry->histogram), entry->memory));
  Add(producer, digest, *entry);
  entry->memory.ShrinkTo(entry->bytes_besides + BytesOf(entry->histogram));
  return absl::OkStatus();
}

absl::StatusOr<SizeHistogram> HistogramStore::SizesOf(const HistogramKey& key,
                                                      const SizesView& table) const {
  const size_t l = key.schema.num_components();
  if (table.num_graphs() != 0 && table.num_components() != l) {
    return absl::InvalidArgumentError(
        absl::StrCat("histogram: sizes of ", table.num_components(), " components, expected ", l));
  }
  MemoryHold counting;
  PH_RETURN_IF_ERROR(HoldAll(key.name, SizeHistogram::BytesFor(table.num_graphs(), l), counting));
  SizeHistogram sizes(l);
  PH_RETURN_IF_ERROR(sizes.AddTable(table));
  return sizes;
}

absl::Status HistogramStore::CheckChange(const HistogramKey& key, const SizeHistogram& sizes,
                                         bool subtracts,
                                         const std::optional<ProducerSequence>& producer,
                                         absl::Time now, const Bounds& bounds) const {
  const auto found = Find(key.name);
  if (!found.ok()) {
    if (subtracts) return found.status();
    if (producer && producer->is_named() && bounds.max_producers == 0) {
      return absl::ResourceExhaustedError("histogram: there are 0 producers, at most 0");
    }
    return CheckDistinct(SizeHistogram(sizes.num_components()), sizes, now, bounds.max_distinct);
  }
  const Entry& entry = **found;
  PH_RETURN_IF_ERROR(CheckMatches(key, entry));
  absl::MutexLock lock(&entry.mutex);
  if (producer) PH_RETURN_IF_ERROR(CheckRoomFor(entry, *producer, bounds.max_producers));
  const auto* const exact = std::get_if<SizeHistogram>(&entry.histogram);
  if (!subtracts) {
    if (exact != nullptr &&
        sizes.num_graphs() > std::numeric_limits<uint64_t>::max() - exact->num_graphs()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("histogram '", key.name, "': more than 2^64 - 1 graphs"));
    }
    for (size_t k = 0; exact != nullptr && k < exact->num_components(); ++k) {
      if (sizes.total(k) <= std::numeric_limits<uint64_t>::max() - exact->total(k)) continue;
      return absl::ResourceExhaustedError(absl::StrCat("histogram '", key.name, "': component ", k,
                                                       " would exceed 2^64 - 1 in all"));
    }
    return CheckDistinct(entry.histogram, sizes, now, bounds.max_distinct);
  }
  if (exact == nullptr) return NothingToSubtractFrom(key.name);
  for (size_t row = 0; row < sizes.num_distinct(); ++row) {
    if (exact->CountOf(sizes.tuple(row)) >= sizes.count(row)) continue;
    return absl::OutOfRangeError(absl::StrCat("histogram '", key.name, "': there are ",
                                              exact->CountOf(sizes.tuple(row)), " graphs of size (",
                                              absl::StrJoin(sizes.tuple(row), ", "), "), ",
                                              sizes.count(row), " would be taken away"));
  }
  return absl::OkStatus();
}

ProducerHistory HistogramStore::HistoryOf(absl::string_view name,
                                          absl::string_view producer) const {
  const auto entry = Find(name);
  if (!entry.ok()) return {};
  absl::MutexLock lock(&(*entry)->mutex);
  const auto found = (*entry)->producers.find(producer);
  return found == (*entry)->producers.end() ? ProducerHistory() : found->second;
}

absl::StatusOr<ProducerHistory> HistogramStore::GetProducer(absl::string_view name,
                                                            absl::string_view producer) const {
  return HistoryOf(name, producer);
}

uint64_t HistogramStore::NumGraphsOf(absl::string_view name, absl::Time now) const {
  const auto entry = Find(name);
  if (!entry.ok()) return 0;
  absl::MutexLock lock(&(*entry)->mutex);
  return NumGraphs((*entry)->histogram, now);
}

HistogramStore::Entry::Entry(const HistogramKey& key, absl::Time now)
    : schema(key.schema),
      half_life(key.half_life.value_or(absl::InfiniteDuration())),
      histogram(EmptyHistogram(key, now)),
      bytes_besides(BytesOfEntry(schema)),
      used(now) {}

absl::StatusOr<std::shared_ptr<HistogramStore::Entry>> HistogramStore::Find(
    absl::string_view name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    return absl::NotFoundError(absl::StrCat("histogram: there is none named ", Quoted(name)));
  }
  return found->second;
}

absl::Status HistogramStore::CheckRoom(absl::string_view name) const {
  if (entries_.size() >= bounds_.max_histograms) {
    return absl::ResourceExhaustedError(absl::StrCat("histogram: there are ", entries_.size(),
                                                     ", at most ", bounds_.max_histograms));
  }
  if (!bounds_.quotas_of) return absl::OkStatus();
  const absl::string_view where = NamespaceOf(name);
  const std::optional<uint64_t> most = bounds_.quotas_of(where).histograms;
  if (!most) return absl::OkStatus();
  const auto there = static_cast<uint64_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [where](const auto& entry) { return NamespaceOf(entry.first) == where; }));
  return there < *most ? absl::OkStatus() : BeyondQuota(where, "histograms", there + 1, *most);
}

std::map<std::string, uint64_t> HistogramStore::CountByNamespace() const {
  std::map<std::string, uint64_t> counts;
  const auto names = Names();
  if (!names.ok()) return counts;
  for (const std::string& name : *names) ++counts[std::string(NamespaceOf(name))];
  return counts;
}

absl::Status HistogramStore::CheckMatches(const HistogramKey& key, const Entry& entry) {
  if (!(entry.schema == key.schema)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "histogram '", key.name, "': components [", absl::StrJoin(key.schema.components(), ", "),
        "], it was created with [", absl::StrJoin(entry.schema.components(), ", "), "]"));
  }
  if (key.half_life && *key.half_life != entry.half_life) {
    return absl::FailedPreconditionError(
        absl::StrCat("histogram '", key.name, "': half_life ", absl::FormatDuration(*key.half_life),
                     ", it was created with ", absl::FormatDuration(entry.half_life)));
  }
  return absl::OkStatus();
}

absl::StatusOr<SizeSchema> HistogramStore::SchemaOf(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(name));
  return entry->schema;
}

absl::Status HistogramStore::HoldAll(absl::string_view name, uint64_t bytes,
                                     MemoryHold& memory) const {
  if (memory_ == nullptr || bytes <= memory.bytes()) return absl::OkStatus();
  const std::string what = absl::StrCat("histogram '", name, "': room");
  if (memory.bytes() != 0) return memory.Grow(what, bytes - memory.bytes());
  PH_ASSIGN_OR_RETURN(memory, memory_->Hold(what, bytes));
  return absl::OkStatus();
}

template <typename Change>
absl::StatusOr<CountedGraphs> HistogramStore::Apply(absl::string_view name, Entry& entry,
                                                    uint64_t num_graphs, const Sender& sender,
                                                    absl::Time now, Change change) {
  const std::optional<ProducerSequence>& producer = sender.producer;
  absl::MutexLock lock(&entry.mutex);
  MarkUsed(entry, now);
  CountedGraphs result;
  PH_RETURN_IF_ERROR(CheckProducer(producer));
  if (producer) {
    bool repeats = false;
    if (const auto history = entry.producers.find(producer->producer);
        history != entry.producers.end()) {
      PH_ASSIGN_OR_RETURN(
          repeats, history->second.IsRepetition(absl::StrCat("histogram ", Quoted(name)), *producer,
                                                sender.digest));
    }
    if (repeats) {
      result.num_graphs = NumGraphs(entry.histogram, now);
      return result;
    }
    PH_RETURN_IF_ERROR(CheckRoomFor(entry, *producer, bounds_.max_producers));
  }
  // Comes before the check of the bound on distinct sizes: forgotten sizes must not count.
  if (auto* decaying = std::get_if<DecayingHistogram>(&entry.histogram)) decaying->Advance(now);
  const uint64_t besides = entry.bytes_besides + (producer ? BytesToAdd(entry, *producer) : 0);
  const auto hold = [&](uint64_t num_distinct) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return HoldAll(name, besides + BytesFor(entry.histogram, num_distinct), entry.memory);
  };
  absl::Status changed = hold(NumDistinct(entry.histogram));
  if (changed.ok()) changed = change(entry.histogram, hold);
  if (changed.ok() && producer) Add(*producer, sender.digest, entry);
  entry.memory.ShrinkTo(entry.bytes_besides + BytesOf(entry.histogram));
  PH_RETURN_IF_ERROR(changed);
  ++num_changes_;
  result.counted = num_graphs;
  result.num_graphs = NumGraphs(entry.histogram, now);
  return result;
}

template <typename Change>
absl::StatusOr<CountedGraphs> HistogramStore::ApplyTo(const HistogramKey& key, uint64_t num_graphs,
                                                      const Sender& sender, absl::Time now,
                                                      Change change) {
  PH_RETURN_IF_ERROR(CheckKey(key));
  const auto find = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> std::shared_ptr<Entry> {
    const auto found = entries_.find(key.name);
    return found == entries_.end() ? nullptr : found->second;
  };
  std::shared_ptr<Entry> entry;
  {
    absl::MutexLock lock(&mutex_);
    entry = find();
    if (entry == nullptr) PH_RETURN_IF_ERROR(CheckRoom(key.name));
  }
  if (entry == nullptr) {
    // Others see a new histogram only after this change is in it. A refused change therefore leaves
    // nothing to take back in which another call may have begun to count.
    const auto created = std::make_shared<Entry>(key, now);
    absl::StatusOr<CountedGraphs> counted =
        Apply(key.name, *created, num_graphs, sender, now, change);
    if (!counted.ok()) return counted;
    absl::MutexLock lock(&mutex_);
    entry = find();
    if (entry == nullptr) {
      PH_RETURN_IF_ERROR(CheckRoom(key.name));
      entries_.emplace(key.name, created);
      ++num_changes_;
      return counted;
    }
  }
  // The histogram existed, or another call created it sooner.
  PH_RETURN_IF_ERROR(CheckMatches(key, *entry));
  return Apply(key.name, *entry, num_graphs, sender, now, change);
}

absl::StatusOr<CountedGraphs> HistogramStore::Observe(
    const HistogramKey& key, const SizesView& table,
    const std::optional<ProducerSequence>& producer, absl::Time now) {
  const size_t l = key.schema.num_components();
  if (table.num_graphs() != 0 && table.num_components() != l) {
    return absl::InvalidArgumentError(
        absl::StrCat("histogram: sizes of ", table.num_components(), " components, expected ", l));
  }
  return ApplyTo(
      key, table.num_graphs(), Sender{producer, producer ? DigestOf(table) : 0}, now,
      [&](AnyHistogram& histogram, const auto& hold) -> absl::Status {
        // Telling new sizes from known ones is worth its cost only near the bounds.
        const size_t distinct = NumDistinct(histogram);
        if (distinct + table.num_graphs() > bounds_.max_distinct ||
            !hold(distinct + table.num_graphs()).ok()) {
          size_t unknown = 0;
          for (size_t i = 0; i < table.num_graphs(); ++i) {
            if (!Contains(histogram, table.counts().subspan(i * l, l))) ++unknown;
          }
          if (distinct + unknown > bounds_.max_distinct) {
            MemoryHold counting;
            PH_RETURN_IF_ERROR(
                HoldAll(key.name, SizeHistogram::BytesFor(table.num_graphs(), l), counting));
            SizeHistogram addend(l);
            PH_RETURN_IF_ERROR(addend.AddTable(table));
            PH_RETURN_IF_ERROR(CheckDistinct(histogram, addend, now, bounds_.max_distinct));
          }
          PH_RETURN_IF_ERROR(hold(std::min(distinct + unknown, bounds_.max_distinct)));
        }
        if (auto* exact = std::get_if<SizeHistogram>(&histogram)) {
          return exact->AddTable(table);
        }
        return std::get<DecayingHistogram>(histogram).AddTable(table, now);
      });
}

absl::StatusOr<CountedGraphs> HistogramStore::Merge(const HistogramKey& key,
                                                    const SizeHistogram& addend,
                                                    const std::optional<ProducerSequence>& producer,
                                                    absl::Time now) {
  const Sender sender = {producer, producer ? DigestOf(addend, /*subtracts=*/false) : 0};
  return ApplyTo(key, addend.num_graphs(), sender, now,
                 [&](AnyHistogram& histogram, const auto& hold) -> absl::Status {
                   PH_RETURN_IF_ERROR(CheckDistinct(histogram, addend, now, bounds_.max_distinct));
                   const size_t distinct = NumDistinct(histogram);
                   if (!hold(distinct + addend.num_distinct()).ok()) {
                     size_t unknown = 0;
                     for (size_t row = 0; row < addend.num_distinct(); ++row) {
                       if (!Contains(histogram, addend.tuple(row))) ++unknown;
                     }
                     PH_RETURN_IF_ERROR(hold(distinct + unknown));
                   }
                   if (auto* exact = std::get_if<SizeHistogram>(&histogram)) {
                     return exact->Merge(addend);
                   }
                   return std::get<DecayingHistogram>(histogram).Merge(addend, now);
                 });
}

absl::StatusOr<CountedGraphs> HistogramStore::Subtract(
    const HistogramKey& key, const SizeHistogram& subtrahend,
    const std::optional<ProducerSequence>& producer, absl::Time now) {
  PH_RETURN_IF_ERROR(CheckKey(key));
  PH_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(key.name));
  PH_RETURN_IF_ERROR(CheckMatches(key, *entry));
  const Sender sender = {producer, producer ? DigestOf(subtrahend, /*subtracts=*/true) : 0};
  return Apply(key.name, *entry, subtrahend.num_graphs(), sender, now,
               [&](AnyHistogram& histogram, const auto&) -> absl::Status {
                 auto* exact = std::get_if<SizeHistogram>(&histogram);
                 if (exact == nullptr) return NothingToSubtractFrom(key.name);
                 return exact->Subtract(subtrahend);
               });
}

absl::StatusOr<HistogramSnapshot> HistogramStore::Get(absl::string_view name,
                                                      absl::Time now) const {
  PH_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(name));
  absl::MutexLock lock(&entry->mutex);
  MarkUsed(*entry, now);
  MemoryHold memory;
  PH_RETURN_IF_ERROR(HoldAll(
      name, SizeHistogram::BytesFor(NumDistinct(entry->histogram), entry->schema.num_components()),
      memory));
  if (const auto* exact = std::get_if<SizeHistogram>(&entry->histogram)) {
    return HistogramSnapshot{entry->schema, *exact, entry->half_life, std::move(memory)};
  }
  PH_ASSIGN_OR_RETURN(SizeHistogram decayed,
                      std::get<DecayingHistogram>(entry->histogram).Snapshot(now));
  return HistogramSnapshot{entry->schema, std::move(decayed), entry->half_life, std::move(memory)};
}

std::vector<KeptProducer> HistogramStore::ProducersByName(const Entry& entry) {
  std::vector<KeptProducer> producers;
  producers.reserve(entry.producers.size());
  for (const auto& [name, history] : entry.producers) producers.push_back({name, history});
  std::sort(producers.begin(), producers.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return producers;
}

void HistogramStore::MarkUsed(Entry& entry, absl::Time now) const {
  // Each use would be too many changes to save.
  constexpr absl::Duration kWorthSaving = absl::Minutes(10);
  if (now - entry.used >= kWorthSaving) ++num_changes_;
  entry.used = std::max(entry.used, now);
}

absl::StatusOr<KeptHistogram> HistogramStore::Keep(absl::string_view name, absl::Time now) const {
  PH_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(name));
  absl::MutexLock lock(&entry->mutex);
  MemoryHold memory;
  PH_RETURN_IF_ERROR(HoldAll(name, entry->bytes_besides + BytesOf(entry->histogram), memory));
  return KeptHistogram{std::string(name),       entry->schema,     entry->histogram,
                       ProducersByName(*entry), now - entry->used, std::move(memory)};
}

absl::Status HistogramStore::UseKept(
    absl::string_view name, absl::Time now,
    absl::FunctionRef<absl::Status(const KeptHistogram& kept)> use) const {
  PH_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(name));
  absl::MutexLock lock(&entry->mutex);
  std::vector<KeptProducer> producers = ProducersByName(*entry);
  KeptHistogram kept{std::string(name),    entry->schema,     std::move(entry->histogram),
                     std::move(producers), now - entry->used, {}};
  const absl::Cleanup give_back = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    entry->histogram = std::move(kept.histogram);
  };
  return use(kept);
}

absl::Status HistogramStore::PutBack(KeptHistogram kept, absl::Time now) {
  HistogramKey key = {kept.name, kept.schema};
  if (const auto* decaying = std::get_if<DecayingHistogram>(&kept.histogram)) {
    key.half_life = decaying->half_life();
  }
  PH_RETURN_IF_ERROR(CheckKey(key));
  const auto entry =
      std::make_shared<Entry>(key, now - std::max(kept.unused, absl::ZeroDuration()));
  {
    absl::MutexLock lock(&entry->mutex);
    for (const KeptProducer& each : kept.producers) {
      entry->bytes_besides += BytesOfProducer(each.name, each.history.digests().size());
    }
    entry->memory = std::move(kept.memory);
    const uint64_t bytes = entry->bytes_besides + BytesOf(kept.histogram);
    PH_RETURN_IF_ERROR(HoldAll(kept.name, bytes, entry->memory));
    entry->memory.ShrinkTo(bytes);
    entry->histogram = std::move(kept.histogram);
    for (KeptProducer& each : kept.producers) {
      if (!each.history.is_named()) {
        entry->made_up.emplace(each.history.forget_seconds(), each.name);
      }
      entry->producers[std::move(each.name)] = std::move(each.history);
    }
  }
  absl::MutexLock lock(&mutex_);
  if (entries_.emplace(kept.name, entry).second) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("histogram: there is one named ", Quoted(kept.name), " already"));
}

absl::Status HistogramStore::Delete(absl::string_view name) {
  absl::MutexLock lock(&mutex_);
  if (entries_.erase(name) == 0) {
    return absl::NotFoundError(absl::StrCat("histogram: there is none named ", Quoted(name)));
  }
  ++num_changes_;
  return absl::OkStatus();
}

std::vector<Expired> HistogramStore::DeleteUnused(const Retention& retention, absl::Time now) {
  std::vector<Expired> expired;
  absl::MutexLock lock(&mutex_);
  for (auto each = entries_.begin(); each != entries_.end();) {
    const auto next = std::next(each);
    const absl::Duration most = retention.Of(each->first);
    // Nobody else has it: a call takes it under this lock, and may be about to change it.
    if (most != absl::InfiniteDuration() && each->second.use_count() == 1) {
      const Entry& entry = *each->second;
      absl::ReleasableMutexLock of_entry(&each->second->mutex);
      const Expired one = {each->first, now - entry.used, entry.memory.bytes()};
      of_entry.Release();
      if (one.unused >= most) {
        expired.push_back(one);
        entries_.erase(each);
        ++num_changes_;
      }
    }
    each = next;
  }
  return expired;
}

size_t HistogramStore::num_histograms() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

absl::StatusOr<std::vector<std::string>> HistogramStore::Names() const {
  std::vector<std::string> names;
  {
    absl::MutexLock lock(&mutex_);
    names.reserve(entries_.size());
    for (const auto& [name, entry] : entries_) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace packhouse
