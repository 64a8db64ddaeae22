#include "service/wings/tfgnn/random_graphs.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/tfgnn/number_lists.h"
#include "service/wings/tfgnn/readout.h"

namespace packhouse::tfgnn {
namespace {

// Integers without `whole_range` are below this.
constexpr uint64_t kSmall = 100;

template <typename T>
void Put(T value, GrowingBytes& column) {
  std::memcpy(column.Grow(sizeof(value)), &value, sizeof(value));
}

class RandomGraph {
 public:
  RandomGraph(const GraphSets& sets, const RandomGraphOptions& options, SeededRandom& random,
              RowBuilder& rows)
      : sets_(sets), options_(options), random_(random), rows_(rows) {}

  void Append() {
    for (const RowSet& set : sets_.node_sets()) rows_.counts()[set.component] = RandomRows();
    AppendEdges();
    AppendReadouts();
    AppendFeatures(sets_.context(), 1);
    for (const RowSet& set : sets_.node_sets()) AppendFeatures(set, rows_.counts()[set.component]);
    for (const EdgeSet& set : sets_.edge_sets()) AppendFeatures(set, rows_.counts()[set.component]);
    rows_.EndGraph();
  }

 private:
  uint32_t RandomRows() {
    return options_.min_rows +
           static_cast<uint32_t>(random_.Below(options_.max_rows - options_.min_rows + 1));
  }

  uint32_t CountOf(const RowSet& set) { return rows_.counts()[set.component]; }

  // Ends of the edges of all sets but read-outs, whose sources may stand for them.
  void AppendEdges() {
    for (const EdgeSet& edges : sets_.edge_sets()) {
      if (IsReadoutSet(sets_.node_sets()[edges.target_set].name)) continue;
      const uint32_t sources = CountOf(sets_.node_sets()[edges.source_set]);
      const uint32_t targets = CountOf(sets_.node_sets()[edges.target_set]);
      const uint32_t count = sources == 0 || targets == 0 ? 0 : RandomRows();
      for (uint32_t i = 0; i < count; ++i) {
        Put(static_cast<int32_t>(random_.Below(sources)), rows_.column(edges.source));
        Put(static_cast<int32_t>(random_.Below(targets)), rows_.column(edges.target));
      }
      rows_.counts()[edges.component] = count;
    }
    for (const RowSet& set : sets_.node_sets()) {
      absl::string_view name = set.name;
      if (!absl::ConsumePrefix(&name, "_shadow/")) continue;
      for (const EdgeSet& edges : sets_.edge_sets()) {
        if (edges.name == name) rows_.counts()[set.component] = CountOf(edges);
      }
    }
  }

  void AppendReadouts() {
    const SetNames names = NamesOf(sets_);
    for (const RowSet& set : sets_.node_sets()) {
      if (!IsReadoutSet(set.name)) continue;
      // A read-out with a tag may be malformed: nobody asked. Then it has no edges.
      const absl::StatusOr<ReadoutStructure> structure = FindReadout(names, set.name);
      if (!structure.ok()) continue;
      for (const auto& [key, sources] : structure->keys) {
        std::vector<const EdgeSet*> with_rows;
        for (const ReadoutSource& source : sources) {
          const EdgeSet& edges = sets_.edge_sets()[source.edge_set];
          if (CountOf(sets_.node_sets()[edges.source_set]) > 0) with_rows.push_back(&edges);
        }
        if (with_rows.empty()) rows_.counts()[set.component] = 0;
      }
      for (const auto& [key, sources] : structure->keys) AppendReadout(set, sources);
    }
  }

  void AppendReadout(const RowSet& set, const std::vector<ReadoutSource>& sources) {
    std::vector<const EdgeSet*> with_rows;
    for (const ReadoutSource& source : sources) {
      const EdgeSet& edges = sets_.edge_sets()[source.edge_set];
      if (CountOf(sets_.node_sets()[edges.source_set]) > 0) with_rows.push_back(&edges);
    }
    for (uint32_t target = 0; target < CountOf(set); ++target) {
      const EdgeSet& edges = *with_rows[random_.Below(with_rows.size())];
      const uint32_t rows = CountOf(sets_.node_sets()[edges.source_set]);
      Put(static_cast<int32_t>(random_.Below(rows)), rows_.column(edges.source));
      Put(static_cast<int32_t>(target), rows_.column(edges.target));
      ++rows_.counts()[edges.component];
    }
  }

  void AppendFeatures(const RowSet& set, uint64_t num_rows) {
    for (const Feature& feature : set.features) AppendFeature(feature, num_rows);
  }

  void AppendFeature(const Feature& feature, uint64_t num_rows) {
    const absl::Span<const TensorSpec> tensors = sets_.schema().tensors();
    uint64_t items = num_rows;
    for (size_t i = 0; i < feature.ragged.size(); ++i) {
      const size_t lengths = feature.ragged[i].lengths;
      items *= sets_.schema().row_bytes(lengths) / sizeof(int32_t);
      uint64_t sum = 0;
      for (uint64_t item = 0; item < items; ++item) {
        const uint32_t length = RandomRows();
        Put(static_cast<int32_t>(length), rows_.column(lengths));
        sum += length;
      }
      const bool is_last = i + 1 == feature.ragged.size();
      const size_t next = is_last ? feature.values : feature.ragged[i + 1].lengths;
      rows_.counts()[tensors[next].component] = static_cast<uint32_t>(sum);
      items = sum;
    }
    items *= sets_.schema().row_bytes(feature.values) / ElementBytes(feature.dtype);
    GrowingBytes& column = rows_.column(feature.values);
    for (uint64_t item = 0; item < items; ++item) {
      if (feature.is_text) {
        Put(static_cast<char>('a' + random_.Below(26)), column);
      } else {
        PutNumber(feature.dtype, column);
      }
    }
  }

  void PutNumber(DType dtype, GrowingBytes& column) {
    // Fractions with as many bits as the type has.
    const auto fraction = [&](int bits) {
      return static_cast<float>(random_.Next() >> (64 - bits)) / static_cast<float>(1 << bits);
    };
    switch (dtype) {
      case DType::kBool:
        return Put(static_cast<uint8_t>(random_.Below(2)), column);
      case DType::kFloat16:
        return Put(Float16Of(fraction(11)), column);
      case DType::kBfloat16:
        return Put(Bfloat16Of(fraction(8)), column);
      case DType::kFloat32:
        return Put(fraction(24), column);
      case DType::kFloat64:
        return Put(static_cast<double>(fraction(24)), column);
      default:
        WithIndexType(dtype, [&](auto zero) {
          using T = decltype(zero);
          Put(static_cast<T>(options_.whole_range ? random_.Next() : random_.Below(kSmall)),
              column);
        });
    }
  }

  const GraphSets& sets_;
  const RandomGraphOptions& options_;
  SeededRandom& random_;
  RowBuilder& rows_;
};

}  // namespace

absl::Status AppendRandomGraph(const GraphSets& sets, const RandomGraphOptions& options,
                               SeededRandom& random, RowBuilder& rows) {
  if (options.min_rows > options.max_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("min_rows ", options.min_rows, " is above max_rows ", options.max_rows));
  }
  for (const EdgeSet& edges : sets.edge_sets()) {
    if (edges.source == edges.target ||
        sets.schema().tensors()[edges.source].dtype != DType::kInt32) {
      return absl::InvalidArgumentError(
          absl::StrCat("edge set ", Quoted(edges.name), " does not have its ends in two tensors"));
    }
  }
  RandomGraph(sets, options, random, rows).Append();
  return absl::OkStatus();
}

}  // namespace packhouse::tfgnn
