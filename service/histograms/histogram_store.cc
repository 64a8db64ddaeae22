#include "service/histograms/histogram_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
uint64_t BytesOfProducer(absl::string_view name) { return 192 + name.size(); }

absl::Status CheckDistinct(const AnyHistogram& histogram, const SizeHistogram& addend,
                           size_t bound) {
  size_t distinct = NumDistinct(histogram);
  if (distinct + addend.num_distinct() <= bound) return absl::OkStatus();
  for (size_t row = 0; row < addend.num_distinct(); ++row) {
    if (!Contains(histogram, addend.tuple(row))) ++distinct;
  }
  if (distinct <= bound) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("histogram: there would be ", distinct, " distinct sizes, at most ", bound));
}

absl::Status CheckKey(const HistogramKey& key) {
  if (!IsValidName(key.name, HistogramStore::kMaxNameLength, "_./-")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "histogram: name '", absl::CHexEscape(key.name.substr(0, HistogramStore::kMaxNameLength)),
        "' is not 1 to ", HistogramStore::kMaxNameLength, " characters of [A-Za-z0-9_./-]"));
  }
  if (key.half_life && *key.half_life <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "histogram: half_life ", absl::FormatDuration(*key.half_life), " is not positive"));
  }
  return absl::OkStatus();
}

}  // namespace

HistogramStore::Entry::Entry(const HistogramKey& key, absl::Time now)
    : schema(key.schema),
      half_life(key.half_life.value_or(absl::InfiniteDuration())),
      histogram(EmptyHistogram(key, now)),
      bytes_besides(BytesOfEntry(schema)) {}

absl::StatusOr<std::shared_ptr<HistogramStore::Entry>> HistogramStore::Find(
    absl::string_view name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    return absl::NotFoundError(absl::StrCat("histogram: there is none named ", Quoted(name)));
  }
  return found->second;
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

std::optional<SizeSchema> HistogramStore::SchemaOf(absl::string_view name) const {
  const auto entry = Find(name);
  return entry.ok() ? std::optional((*entry)->schema) : std::nullopt;
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
                                                    uint64_t num_graphs,
                                                    const std::optional<ProducerSequence>& producer,
                                                    absl::Time now, Change change) {
  absl::MutexLock lock(&entry.mutex);
  CountedGraphs result;
  if (producer) {
    if (producer->producer.empty() || producer->producer.size() > kMaxNameLength) {
      return absl::InvalidArgumentError(absl::StrCat("producer: a name of ",
                                                     producer->producer.size(),
                                                     " characters, must be 1 to ", kMaxNameLength));
    }
    if (producer->sequence == 0) {
      return absl::InvalidArgumentError(absl::StrCat("producer ", Quoted(producer->producer),
                                                     ": sequence 0, must be at least 1"));
    }
    const auto last = entry.last_sequence.find(producer->producer);
    if (last != entry.last_sequence.end() && producer->sequence <= last->second) {
      result.num_graphs = NumGraphs(entry.histogram, now);
      return result;
    }
    if (last == entry.last_sequence.end() && entry.last_sequence.size() >= bounds_.max_producers) {
      return absl::ResourceExhaustedError(
          absl::StrCat("histogram: there are ", entry.last_sequence.size(), " producers, at most ",
                       bounds_.max_producers));
    }
  }
  // Comes before the check of the bound on distinct sizes: forgotten sizes must not count.
  if (auto* decaying = std::get_if<DecayingHistogram>(&entry.histogram)) decaying->Advance(now);
  const bool is_new = producer && !entry.last_sequence.contains(producer->producer);
  const uint64_t besides = entry.bytes_besides + (is_new ? BytesOfProducer(producer->producer) : 0);
  const auto hold = [&](uint64_t num_distinct) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return HoldAll(name, besides + BytesFor(entry.histogram, num_distinct), entry.memory);
  };
  absl::Status changed = hold(NumDistinct(entry.histogram));
  if (changed.ok()) changed = change(entry.histogram, hold);
  if (changed.ok() && producer) {
    entry.last_sequence[producer->producer] = producer->sequence;
    entry.bytes_besides = besides;
  }
  entry.memory.ShrinkTo(entry.bytes_besides + BytesOf(entry.histogram));
  PH_RETURN_IF_ERROR(changed);
  result.counted = num_graphs;
  result.num_graphs = NumGraphs(entry.histogram, now);
  return result;
}

template <typename Change>
absl::StatusOr<CountedGraphs> HistogramStore::ApplyTo(
    const HistogramKey& key, uint64_t num_graphs, const std::optional<ProducerSequence>& producer,
    absl::Time now, Change change) {
  PH_RETURN_IF_ERROR(CheckKey(key));
  const auto find = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> std::shared_ptr<Entry> {
    const auto found = entries_.find(key.name);
    return found == entries_.end() ? nullptr : found->second;
  };
  const auto check_room = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
    if (entries_.size() < bounds_.max_histograms) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("histogram: there are ", entries_.size(),
                                                     ", at most ", bounds_.max_histograms));
  };
  std::shared_ptr<Entry> entry;
  {
    absl::MutexLock lock(&mutex_);
    entry = find();
    if (entry == nullptr) PH_RETURN_IF_ERROR(check_room());
  }
  if (entry == nullptr) {
    // Others see a new histogram only after this change is in it. A refused change therefore leaves
    // nothing to take back in which another call may have begun to count.
    const auto created = std::make_shared<Entry>(key, now);
    absl::StatusOr<CountedGraphs> counted =
        Apply(key.name, *created, num_graphs, producer, now, change);
    if (!counted.ok()) return counted;
    absl::MutexLock lock(&mutex_);
    entry = find();
    if (entry == nullptr) {
      PH_RETURN_IF_ERROR(check_room());
      entries_.emplace(key.name, created);
      return counted;
    }
  }
  // The histogram existed, or another call created it sooner.
  PH_RETURN_IF_ERROR(CheckMatches(key, *entry));
  return Apply(key.name, *entry, num_graphs, producer, now, change);
}

absl::StatusOr<CountedGraphs> HistogramStore::Observe(
    const HistogramKey& key, const SizesView& table,
    const std::optional<ProducerSequence>& producer, absl::Time now) {
  const size_t l = key.schema.num_components();
  if (table.num_graphs() != 0 && table.num_components() != l) {
    return absl::InvalidArgumentError(
        absl::StrCat("histogram: sizes of ", table.num_components(), " components, expected ", l));
  }
  return ApplyTo(key, table.num_graphs(), producer, now,
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
                       PH_RETURN_IF_ERROR(HoldAll(
                           key.name, SizeHistogram::BytesFor(table.num_graphs(), l), counting));
                       SizeHistogram addend(l);
                       PH_RETURN_IF_ERROR(addend.AddTable(table));
                       PH_RETURN_IF_ERROR(CheckDistinct(histogram, addend, bounds_.max_distinct));
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
  return ApplyTo(key, addend.num_graphs(), producer, now,
                 [&](AnyHistogram& histogram, const auto& hold) -> absl::Status {
                   PH_RETURN_IF_ERROR(CheckDistinct(histogram, addend, bounds_.max_distinct));
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
  return Apply(key.name, *entry, subtrahend.num_graphs(), producer, now,
               [&](AnyHistogram& histogram, const auto&) -> absl::Status {
                 auto* exact = std::get_if<SizeHistogram>(&histogram);
                 if (exact == nullptr) {
                   return absl::FailedPreconditionError(absl::StrCat(
                       "histogram '", key.name, "' has a half-life: nothing can be subtracted"));
                 }
                 return exact->Subtract(subtrahend);
               });
}

absl::StatusOr<HistogramSnapshot> HistogramStore::Get(absl::string_view name,
                                                      absl::Time now) const {
  PH_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(name));
  absl::MutexLock lock(&entry->mutex);
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

absl::Status HistogramStore::Delete(absl::string_view name) {
  absl::MutexLock lock(&mutex_);
  if (entries_.erase(name) == 0) {
    return absl::NotFoundError(absl::StrCat("histogram: there is none named ", Quoted(name)));
  }
  return absl::OkStatus();
}

size_t HistogramStore::num_histograms() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

}  // namespace packhouse
