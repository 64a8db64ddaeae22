#include "service/stores/datasets/mixed_datasets.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/sizes/size_table.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/digest.h"
#include "service/base/mixture_name.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/reader_bytes.h"

namespace packhouse {
namespace {

// How the graphs of one of the data sets become graphs of the mixture.
struct Member {
  // In the mixture's name, from 0.
  uint32_t number = 0;
  DatasetInfo info;
  // Of each component and of each tensor of the mixture the number in this data set, which may have
  // none.
  std::vector<std::optional<size_t>> components;
  std::vector<std::optional<size_t>> tensors;
  bool has_all_components_in_order = false;
};

struct Mixture {
  DatasetInfo info;
  std::vector<Member> members;
};

// Counts of graphs of the member as the mixture has them, row-major.
void AppendCounts(const Member& member, absl::Span<const uint32_t> counts,
                  std::vector<uint32_t>& mixed) {
  if (member.has_all_components_in_order) {
    mixed.insert(mixed.end(), counts.begin(), counts.end());
    return;
  }
  const size_t l = member.info.schema->num_components();
  // Without components there are no counts to tell how many graphs there are.
  const size_t num_graphs = l == 0 ? 0 : counts.size() / l;
  for (size_t i = 0; i < num_graphs; ++i) {
    for (const std::optional<size_t>& k : member.components) {
      mixed.push_back(k ? counts[i * l + *k] : 0);
    }
  }
}

// Adds a histogram of the member's graphs to one of the mixture's.
absl::Status AddHistogram(const Member& member, const SizeHistogram& sizes, SizeHistogram& mixed) {
  if (member.has_all_components_in_order) return mixed.Merge(sizes);
  std::vector<uint32_t> tuple;
  for (size_t row = 0; row < sizes.num_distinct(); ++row) {
    tuple.clear();
    for (const std::optional<size_t>& k : member.components) {
      tuple.push_back(k ? sizes.tuple(row)[*k] : 0);
    }
    PH_RETURN_IF_ERROR(mixed.Add(tuple, sizes.count(row)));
  }
  return absl::OkStatus();
}

// Whether both say the same of their tensors, whose components have numbers of their own.
bool IsSameTensor(const GraphSchema& a, const TensorSpec& in_a, const GraphSchema& b,
                  const TensorSpec& in_b) {
  const auto target = [](const GraphSchema& schema, const TensorSpec& tensor) {
    return tensor.index_into ? schema.sizes().name(*tensor.index_into) : absl::string_view();
  };
  return in_a.name == in_b.name && in_a.dtype == in_b.dtype && in_a.row_shape == in_b.row_shape &&
         a.sizes().name(in_a.component) == b.sizes().name(in_b.component) &&
         target(a, in_a) == target(b, in_b) && in_a.padding_value == in_b.padding_value &&
         in_a.layout == in_b.layout;
}

absl::Status Refuse(absl::string_view mixture, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("mixture '", mixture, "': ", why));
}

// How graphs of `info` become graphs as `widest` has them.
absl::StatusOr<Member> MemberOf(absl::string_view mixture, const DatasetInfo& widest,
                                const DatasetInfo& info) {
  const GraphSchema& all = *widest.schema;
  const GraphSchema& own = *info.schema;
  for (const std::string& component : own.sizes().components()) {
    if (all.sizes().IndexOf(component)) continue;
    return Refuse(mixture, absl::StrCat("data set '", info.name, "' has component '", component,
                                        "', data set '", widest.name,
                                        "' has none; one of them must have all that others have"));
  }
  for (const TensorSpec& tensor : own.tensors()) {
    const std::optional<size_t> t = all.TensorIndex(tensor.name);
    if (t && IsSameTensor(own, tensor, all, all.tensors()[*t])) continue;
    return Refuse(mixture,
                  absl::StrCat("data set '", info.name, "' has tensor '", tensor.name, "', ",
                               DTypeName(tensor.dtype), " [", absl::StrJoin(tensor.row_shape, ", "),
                               "] along ", own.sizes().name(tensor.component), "; data set '",
                               widest.name, "' has ", t ? "another of that name" : "none",
                               "; one of them must have all that others have"));
  }
  Member member;
  member.info = info;
  for (size_t k = 0; k < all.num_components(); ++k) {
    member.components.push_back(own.sizes().IndexOf(all.sizes().name(k)));
  }
  member.has_all_components_in_order = all.sizes() == own.sizes();
  for (const TensorSpec& tensor : all.tensors()) {
    member.tensors.push_back(own.TensorIndex(tensor.name));
    const bool has_rows =
        tensor.component == all.num_components() || member.components[tensor.component].has_value();
    if (member.tensors.back() || !tensor.index_into || !has_rows) continue;
    return Refuse(mixture, absl::StrCat("data set '", info.name, "' has no tensor '", tensor.name,
                                        "' of data set '", widest.name,
                                        "': an index tensor cannot be filled"));
  }
  return member;
}

// The schema with kMixtureTensor, if there are tensors.
absl::StatusOr<std::shared_ptr<const GraphSchema>> MixedSchema(absl::string_view mixture,
                                                               const DatasetInfo& widest) {
  const GraphSchema& all = *widest.schema;
  if (all.tensors().empty()) return widest.schema;
  if (all.TensorIndex(kMixtureTensor)) {
    return Refuse(mixture, absl::StrCat("data set '", widest.name, "' has a tensor '",
                                        kMixtureTensor, "': a mixture has one of its own"));
  }
  std::vector<TensorSpec> tensors(all.tensors().begin(), all.tensors().end());
  tensors.push_back({std::string(kMixtureTensor), DType::kInt32, {}, all.num_components(), {}, {}});
  auto schema = GraphSchema::Create(all.sizes(), std::move(tensors));
  if (!schema.ok()) return Refuse(mixture, std::string(schema.status().message()));
  return std::make_shared<const GraphSchema>(*std::move(schema));
}

// A number that the same ones give again, and others do not; never 0.
template <typename Number>
uint64_t MixedNumber(absl::Span<const DatasetInfo> infos, Number number) {
  Digest digest;
  for (const DatasetInfo& info : infos) digest.Add(number(info));
  uint64_t mixed = 0;
  constexpr size_t kBytes = 8;
  (void)absl::SimpleHexAtoi(digest.Hex(kBytes), &mixed);
  return std::max<uint64_t>(mixed, 1);
}

absl::StatusOr<Mixture> MixtureOf(absl::string_view name, absl::Span<const DatasetInfo> infos) {
  const auto rank = [](const DatasetInfo& info) {
    return std::pair(info.schema->tensors().size(), info.schema->num_components());
  };
  const DatasetInfo& widest = *std::max_element(
      infos.begin(), infos.end(),
      [&](const DatasetInfo& a, const DatasetInfo& b) { return rank(a) < rank(b); });
  Mixture mixture;
  DatasetInfo& info = mixture.info;
  info.name = std::string(name);
  info.state = DatasetState::kSealed;
  PH_ASSIGN_OR_RETURN(info.schema, MixedSchema(name, widest));
  for (const DatasetInfo& each : infos) {
    PH_ASSIGN_OR_RETURN(Member member, MemberOf(name, widest, each));
    member.number = static_cast<uint32_t>(mixture.members.size());
    mixture.members.push_back(std::move(member));
    info.num_graphs += each.num_graphs;
    info.num_records += each.num_records;
    info.num_bytes += each.num_bytes;
  }
  info.version = MixedNumber(infos, [](const DatasetInfo& each) { return each.version; });
  info.id = MixedNumber(infos, [](const DatasetInfo& each) { return each.id; });
  return mixture;
}

absl::StatusOr<Mixture> FindMixture(const DatasetStore& store, absl::string_view name) {
  const std::vector<absl::string_view> names = NamesInMixture(name);
  if (names.size() > size_t{kMaxMixedDatasets}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mixture '", name.substr(0, 128), "...': more than ", kMaxMixedDatasets, " data sets"));
  }
  std::set<absl::string_view> different;
  std::vector<DatasetInfo> infos;
  for (const absl::string_view each : names) {
    if (!different.insert(each).second) {
      return Refuse(name, absl::StrCat("data set '", each, "' occurs twice"));
    }
    PH_ASSIGN_OR_RETURN(DatasetInfo info, store.Get(each));
    PH_RETURN_IF_ERROR(CheckSealed(info));
    infos.push_back(std::move(info));
  }
  return MixtureOf(name, infos);
}

// UNAVAILABLE unless what was opened is what was found.
absl::Status CheckFound(const DatasetInfo& found, const DatasetInfo& opened) {
  if (found.version == opened.version) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("data set '", found.name, "' was replaced while it was opened; try again"));
}

// Bytes of a column of one value, of which a beginning can be viewed. Zeros take address space and
// no memory. Immutable.
class FilledColumn {
 public:
  FilledColumn() = default;
  ~FilledColumn() {
    if (zeros_ != nullptr) munmap(zeros_, size_);
  }
  FilledColumn(FilledColumn&& other) noexcept
      : zeros_(std::exchange(other.zeros_, nullptr)),
        size_(other.size_),
        values_(std::move(other.values_)) {}
  FilledColumn& operator=(FilledColumn&&) = delete;

  // `bytes` is a multiple of the value's.
  static absl::StatusOr<FilledColumn> Make(absl::string_view value, size_t bytes) {
    FilledColumn column;
    column.size_ = bytes;
    if (bytes == 0) return column;
    if (IsZero(value)) {
      void* const zeros =
          mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (zeros == MAP_FAILED) {
        return absl::ResourceExhaustedError(
            absl::StrCat("a mixture: no address space for ", bytes, " bytes of zeros"));
      }
      column.zeros_ = zeros;
      return column;
    }
    column.values_.reserve(bytes);
    while (column.values_.size() < bytes) column.values_.append(value.data(), value.size());
    return column;
  }
  // The memory that it takes.
  static uint64_t BytesFor(absl::string_view value, uint64_t bytes) {
    return IsZero(value) ? 0 : bytes;
  }

  absl::string_view First(size_t bytes) const {
    return zeros_ != nullptr ? absl::string_view(static_cast<const char*>(zeros_), bytes)
                             : absl::string_view(values_).substr(0, bytes);
  }

 private:
  static bool IsZero(absl::string_view value) {
    return std::all_of(value.begin(), value.end(), [](char byte) { return byte == 0; });
  }

  void* zeros_ = nullptr;
  size_t size_ = 0;
  std::string values_;
};

// One element, as bytes.
std::string Int32Bytes(uint32_t value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(value); ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

class MixedReader final : public DatasetReader {
 public:
  // The members' readers, which may have some of their graphs.
  static absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
      const Mixture& mixture, std::vector<std::shared_ptr<const DatasetReader>> readers,
      MemoryHold memory) {
    auto mixed = std::make_shared<MixedReader>(mixture, std::move(readers), std::move(memory));
    PH_RETURN_IF_ERROR(mixed->Fill());
    return mixed;
  }

  MixedReader(const Mixture& mixture, std::vector<std::shared_ptr<const DatasetReader>> readers,
              MemoryHold memory)
      : memory_(std::move(memory)),
        mixture_(mixture),
        readers_(std::move(readers)),
        histogram_(mixture_.info.schema->num_components()) {
    uint64_t num_graphs = 0;
    uint64_t num_records = 0;
    for (const auto& reader : readers_) {
      num_graphs += reader->num_graphs();
      num_records += reader->info().num_records;
    }
    mixture_.info.num_graphs = num_graphs;
    mixture_.info.num_records = num_records;
    counts_.reserve(num_graphs * mixture_.info.schema->num_components());
    graph_ids_.reserve(num_graphs);
    for (size_t m = 0; m < readers_.size(); ++m) {
      const DatasetReader& reader = *readers_[m];
      AppendCounts(mixture_.members[m], reader.counts(), counts_);
      // Of a member without components, as many zeros as its graphs need.
      counts_.resize((graph_ids_.size() + reader.num_graphs()) *
                     mixture_.info.schema->num_components());
      for (DamagedRecord record : reader.unreadable()) {
        record.first_graph += graph_ids_.size();
        unreadable_.push_back(std::move(record));
      }
      const absl::Span<const uint64_t> ids = reader.graph_ids();
      graph_ids_.insert(graph_ids_.end(), ids.begin(), ids.end());
      ends_.push_back(graph_ids_.size());
    }
  }

  const DatasetInfo& info() const override { return mixture_.info; }
  const SizeHistogram& histogram() const override {
    std::call_once(count_once_, [this] {
      histogram_ = SizeHistogram(mixture_.info.schema->num_components());
      for (size_t m = 0; m < readers_.size(); ++m) {
        // Sums of data sets that are in memory do not exceed 2^64.
        AddHistogram(mixture_.members[m], readers_[m]->histogram(), histogram_).IgnoreError();
      }
    });
    return histogram_;
  }
  absl::Span<const uint32_t> counts() const override { return counts_; }
  absl::Span<const uint64_t> graph_ids() const override { return graph_ids_; }
  absl::Span<const uint64_t> group_ids() const override { return {}; }
  absl::Span<const DamagedRecord> unreadable() const override { return unreadable_; }

  absl::StatusOr<StoredGraph> Graph(size_t i) const override {
    if (i >= num_graphs()) {
      return absl::OutOfRangeError(
          absl::StrCat("mixture '", info().name, "': graph ", i, ", there are ", num_graphs()));
    }
    const size_t m =
        static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
    PH_ASSIGN_OR_RETURN(StoredGraph graph, readers_[m]->Graph(m == 0 ? i : i - ends_[m - 1]));
    // Without tensors there may still be other components.
    if (info().schema == mixture_.members[m].info.schema) return graph;
    PH_ASSIGN_OR_RETURN(graph.chunk, Widened(m, *graph.chunk));
    return graph;
  }

  absl::Status CheckIntact() const override {
    for (const auto& reader : readers_) PH_RETURN_IF_ERROR(reader->CheckIntact());
    return absl::OkStatus();
  }

 private:
  // Makes what the tensors that members lack are filled with.
  absl::Status Fill() {
    const GraphSchema& schema = *info().schema;
    const size_t l = schema.num_components();
    filled_.resize(readers_.size());
    for (size_t m = 0; m < readers_.size(); ++m) {
      std::vector<uint64_t> rows(l + 1);
      const size_t begin = m == 0 ? 0 : ends_[m - 1];
      for (size_t i = begin; i < ends_[m]; ++i) {
        for (size_t k = 0; k < l; ++k) rows[k] += counts_[i * l + k];
      }
      rows[l] = ends_[m] - begin;
      for (size_t t = 0; t < schema.tensors().size(); ++t) {
        const TensorSpec& tensor = schema.tensors()[t];
        const bool is_own = t == mixture_.members[m].tensors.size();
        if (!is_own && mixture_.members[m].tensors[t]) {
          filled_[m].emplace_back();
          continue;
        }
        const std::string what =
            absl::StrCat("tensor '", tensor.name, "' of graphs of data set '",
                         mixture_.members[m].info.name, "' in mixture '", info().name, "'");
        const auto bytes = CheckedMultiply(rows[tensor.component], schema.row_bytes(t));
        if (!bytes) return absl::ResourceExhaustedError(absl::StrCat(what, ": too many rows"));
        const std::string value =
            is_own ? Int32Bytes(mixture_.members[m].number) : tensor.padding_value;
        // Without a budget nothing is held yet.
        if (memory_.bytes() != 0) {
          PH_RETURN_IF_ERROR(memory_.Grow(what, FilledColumn::BytesFor(value, *bytes)));
        }
        PH_ASSIGN_OR_RETURN(FilledColumn column, FilledColumn::Make(value, *bytes));
        filled_[m].push_back(std::move(column));
      }
    }
    return absl::OkStatus();
  }

  // The member's chunk as the mixture has it; the same again for the same chunk.
  absl::StatusOr<const GraphChunk*> Widened(size_t m, const GraphChunk& chunk) const {
    {
      const std::shared_lock lock(mutex_);
      const auto found = widened_.find(&chunk);
      if (found != widened_.end()) return &found->second;
    }
    PH_ASSIGN_OR_RETURN(GraphChunk widened, Widen(m, chunk));
    const std::unique_lock lock(mutex_);
    // Another thread may have come first; then this one's is not needed.
    return &widened_.try_emplace(&chunk, std::move(widened)).first->second;
  }

  absl::StatusOr<GraphChunk> Widen(size_t m, const GraphChunk& chunk) const {
    const Member& member = mixture_.members[m];
    const GraphSchema& schema = *info().schema;
    const size_t n = chunk.num_graphs();
    const size_t l = schema.num_components();
    std::vector<uint32_t> counts;
    counts.reserve(n * l);
    AppendCounts(member, chunk.sizes().counts(), counts);
    counts.resize(n * l);
    std::vector<uint64_t> rows(l + 1, n);
    for (size_t k = 0; k < l; ++k) {
      rows[k] = 0;
      for (size_t i = 0; i < n; ++i) rows[k] += counts[i * l + k];
    }
    std::vector<uint64_t> ids(n);
    for (size_t i = 0; i < n; ++i) ids[i] = chunk.sizes().graph_id(i);
    std::vector<absl::string_view> columns;
    for (size_t t = 0; t < schema.tensors().size(); ++t) {
      if (t < member.tensors.size() && member.tensors[t]) {
        columns.push_back(chunk.column(*member.tensors[t]));
      } else {
        columns.push_back(
            filled_[m][t].First(rows[schema.tensors()[t].component] * schema.row_bytes(t)));
      }
    }
    PH_ASSIGN_OR_RETURN(SizeTable sizes,
                        SizeTable::WithAnyIds(n, l, std::move(counts), std::move(ids)));
    return GraphChunk::CreateTrusted(&schema, std::move(sizes), std::move(columns), nullptr);
  }

  MemoryHold memory_;
  Mixture mixture_;
  const std::vector<std::shared_ptr<const DatasetReader>> readers_;
  // Of each member, the number of the first graph that is not its own.
  std::vector<uint64_t> ends_;
  std::vector<uint32_t> counts_;
  std::vector<uint64_t> graph_ids_;
  std::vector<DamagedRecord> unreadable_;
  // Of each member, by tensor of the mixture; empty where the member has its own.
  std::vector<std::vector<FilledColumn>> filled_;

  mutable std::once_flag count_once_;
  mutable SizeHistogram histogram_;

  mutable std::shared_mutex mutex_;
  // Guarded by mutex_.
  mutable absl::node_hash_map<const GraphChunk*, GraphChunk> widened_;
};

// The sizes of chunks of several members, each member's read by its own reader.
class MixedSizes final : public ChunkSizes {
 public:
  struct Part {
    std::vector<uint32_t> chunks;
    std::unique_ptr<ChunkSizes> sizes;
  };

  // `members[i]` has the next chunk after i others.
  MixedSizes(const Mixture& mixture, std::vector<Part> parts, std::vector<size_t> members)
      : mixture_(mixture), parts_(std::move(parts)), members_(std::move(members)) {}

  uint64_t bytes() const override {
    uint64_t bytes = sizeof(size_t) * members_.size();
    for (const Part& part : parts_) {
      bytes += sizeof(uint32_t) * part.chunks.capacity();
      if (part.sizes != nullptr) bytes += part.sizes->bytes();
    }
    return bytes;
  }
  absl::Status AddNext(SizeHistogram& histogram) override {
    const size_t m = members_[next_++];
    const Member& member = mixture_.members[m];
    if (member.has_all_components_in_order) return parts_[m].sizes->AddNext(histogram);
    SizeHistogram own(member.info.schema->num_components());
    PH_RETURN_IF_ERROR(parts_[m].sizes->AddNext(own));
    return AddHistogram(member, own, histogram);
  }

 private:
  const Mixture& mixture_;
  std::vector<Part> parts_;
  const std::vector<size_t> members_;
  size_t next_ = 0;
};

class MixedChunks final : public DatasetChunks {
 public:
  MixedChunks(Mixture mixture, std::vector<std::shared_ptr<const DatasetChunks>> members,
              MemoryBudget* memory)
      : mixture_(std::move(mixture)), members_(std::move(members)), memory_(memory) {
    for (const auto& member : members_) {
      num_graphs_.insert(num_graphs_.end(), member->num_graphs().begin(),
                         member->num_graphs().end());
      ends_.push_back(num_graphs_.size());
    }
  }

  const DatasetInfo& info() const override { return mixture_.info; }
  absl::Span<const uint32_t> num_graphs() const override { return num_graphs_; }
  uint64_t bytes() const override {
    uint64_t bytes = sizeof(uint32_t) * num_graphs_.capacity();
    for (const auto& member : members_) bytes += member->bytes();
    return bytes;
  }
  absl::Status AddSizes(uint32_t chunk, SizeHistogram& histogram) const override {
    const size_t m = MemberWith(chunk);
    const Member& member = mixture_.members[m];
    if (member.has_all_components_in_order) {
      return members_[m]->AddSizes(chunk - FirstOf(m), histogram);
    }
    SizeHistogram own(member.info.schema->num_components());
    PH_RETURN_IF_ERROR(members_[m]->AddSizes(chunk - FirstOf(m), own));
    return AddHistogram(member, own, histogram);
  }
  std::unique_ptr<ChunkSizes> ReadSizes(absl::Span<const uint32_t> chunks) const override {
    std::vector<MixedSizes::Part> parts(members_.size());
    std::vector<size_t> order;
    order.reserve(chunks.size());
    for (const uint32_t chunk : chunks) {
      order.push_back(MemberWith(chunk));
      parts[order.back()].chunks.push_back(chunk - FirstOf(order.back()));
    }
    for (size_t m = 0; m < parts.size(); ++m) {
      if (!parts[m].chunks.empty()) parts[m].sizes = members_[m]->ReadSizes(parts[m].chunks);
    }
    return std::make_unique<MixedSizes>(mixture_, std::move(parts), std::move(order));
  }
  absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
      absl::Span<const uint32_t> chunks) const override {
    const std::vector<std::vector<uint32_t>> split = Split(chunks);
    // The members' readers, beside that of the mixture.
    MemoryHold hold;
    if (memory_ != nullptr) {
      uint64_t bytes = 0;
      for (size_t m = 0; m < split.size(); ++m) {
        uint64_t graphs = 0;
        for (const uint32_t chunk : split[m]) graphs += members_[m]->num_graphs()[chunk];
        bytes += BytesOfReader(members_[m]->info(), graphs, split[m].size());
      }
      PH_ASSIGN_OR_RETURN(
          hold,
          memory_->Hold(absl::StrCat("readers of a part of mixture '", info().name, "'"), bytes));
    }
    Mixture part{mixture_.info, {}};
    std::vector<std::shared_ptr<const DatasetReader>> readers;
    for (size_t m = 0; m < split.size(); ++m) {
      if (split[m].empty()) continue;
      PH_ASSIGN_OR_RETURN(auto reader, members_[m]->Open(split[m]));
      readers.push_back(std::move(reader));
      part.members.push_back(mixture_.members[m]);
    }
    return MixedReader::Open(part, std::move(readers), std::move(hold));
  }
  absl::Status CheckFits(absl::Span<const uint32_t> chunks) const override {
    const std::vector<std::vector<uint32_t>> split = Split(chunks);
    for (size_t m = 0; m < split.size(); ++m) {
      PH_RETURN_IF_ERROR(members_[m]->CheckFits(split[m]));
    }
    return absl::OkStatus();
  }

 private:
  size_t MemberWith(uint32_t chunk) const {
    return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), chunk) - ends_.begin());
  }
  uint32_t FirstOf(size_t m) const { return m == 0 ? 0 : static_cast<uint32_t>(ends_[m - 1]); }
  // Each member's own numbers.
  std::vector<std::vector<uint32_t>> Split(absl::Span<const uint32_t> chunks) const {
    std::vector<std::vector<uint32_t>> split(members_.size());
    for (const uint32_t chunk : chunks) {
      const size_t m = MemberWith(chunk);
      split[m].push_back(chunk - FirstOf(m));
    }
    return split;
  }

  const Mixture mixture_;
  const std::vector<std::shared_ptr<const DatasetChunks>> members_;
  MemoryBudget* const memory_;
  std::vector<uint32_t> num_graphs_;
  // Of each member, the number of the first chunk that is not its own.
  std::vector<uint64_t> ends_;
};

}  // namespace

absl::StatusOr<DatasetInfo> MixedDatasets::Get(absl::string_view name) const {
  if (!IsMixture(name)) return store()->Get(name);
  PH_ASSIGN_OR_RETURN(Mixture mixture, FindMixture(*store(), name));
  return std::move(mixture.info);
}

absl::StatusOr<SizeHistogram> MixedDatasets::GetHistogram(absl::string_view name) const {
  if (!IsMixture(name)) return store()->GetHistogram(name);
  return GetReservedHistogram(name, [](uint64_t) { return absl::OkStatus(); });
}

absl::StatusOr<SizeHistogram> MixedDatasets::GetReservedHistogram(
    absl::string_view name, absl::FunctionRef<absl::Status(uint64_t bytes)> reserve) const {
  if (!IsMixture(name)) return store()->GetReservedHistogram(name, reserve);
  PH_ASSIGN_OR_RETURN(const Mixture mixture, FindMixture(*store(), name));
  const size_t l = mixture.info.schema->num_components();
  SizeHistogram mixed(l);
  for (const Member& member : mixture.members) {
    PH_ASSIGN_OR_RETURN(const SizeHistogram sizes,
                        store()->GetReservedHistogram(member.info.name, reserve));
    PH_RETURN_IF_ERROR(
        reserve(SizeHistogram::BytesFor(mixed.num_distinct() + sizes.num_distinct(), l)));
    PH_RETURN_IF_ERROR(AddHistogram(member, sizes, mixed));
  }
  return mixed;
}

absl::StatusOr<std::shared_ptr<const DatasetReader>> MixedDatasets::OpenReader(
    absl::string_view name) const {
  if (!IsMixture(name)) return store()->OpenReader(name);
  PH_ASSIGN_OR_RETURN(const Mixture mixture, FindMixture(*store(), name));
  MemoryHold hold;
  if (memory_ != nullptr) {
    uint64_t bytes = 0;
    for (const Member& member : mixture.members) bytes += BytesOfReader(member.info);
    PH_ASSIGN_OR_RETURN(hold,
                        memory_->Hold(absl::StrCat("readers of mixture '", name, "'"), bytes));
  }
  std::vector<std::shared_ptr<const DatasetReader>> readers;
  for (const Member& member : mixture.members) {
    PH_ASSIGN_OR_RETURN(auto reader, store()->OpenReader(member.info.name));
    PH_RETURN_IF_ERROR(CheckFound(member.info, reader->info()));
    readers.push_back(std::move(reader));
  }
  return MixedReader::Open(mixture, std::move(readers), std::move(hold));
}

absl::StatusOr<std::shared_ptr<const DatasetChunks>> MixedDatasets::OpenChunks(
    absl::string_view name) const {
  if (!IsMixture(name)) return store()->OpenChunks(name);
  PH_ASSIGN_OR_RETURN(Mixture mixture, FindMixture(*store(), name));
  std::vector<std::shared_ptr<const DatasetChunks>> members;
  for (const Member& member : mixture.members) {
    PH_ASSIGN_OR_RETURN(auto chunks, store()->OpenChunks(member.info.name));
    PH_RETURN_IF_ERROR(CheckFound(member.info, chunks->info()));
    members.push_back(std::move(chunks));
  }
  return std::make_shared<const MixedChunks>(std::move(mixture), std::move(members), memory_);
}

}  // namespace packhouse
