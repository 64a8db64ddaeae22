// Random graphs of a schema with all that cutting has to keep together.
#ifndef PACKHOUSE_TESTS_PARTITIONING_RICH_GRAPHS_H_
#define PACKHOUSE_TESTS_PARTITIONING_RICH_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/base/seeded_random.h"

namespace packhouse {

inline TensorSpec Tensor(std::string name, DType dtype, size_t component,
                         std::optional<size_t> index_into = std::nullopt,
                         std::vector<uint32_t> row_shape = {}, Layout layout = Layout::kRowsFirst) {
  TensorSpec spec;
  spec.name = std::move(name);
  spec.dtype = dtype;
  spec.component = component;
  spec.index_into = index_into;
  spec.row_shape = std::move(row_shape);
  spec.layout = layout;
  return spec;
}

// Two kinds of nodes, edges within and between them, triples of edges, strings of nodes, and
// a number of the graph.
inline GraphSchema RichSchema() {
  SizeSchema sizes =
      SizeSchema::Create({"a", "b", "aa", "ab", "three", "a.words.bytes", "a.words.bytes.d2"})
          .value();
  return GraphSchema::Create(
             std::move(sizes),
             {Tensor("a.x", DType::kFloat32, 0, std::nullopt, {2}), Tensor("b.x", DType::kUint8, 1),
              Tensor("aa.edge_index", DType::kInt64, 2, 0, {2}, Layout::kRowsLast),
              Tensor("aa.weight", DType::kInt16, 2), Tensor("ab.source", DType::kInt32, 3, 0),
              Tensor("ab.target", DType::kInt32, 3, 1),
              Tensor("three.edges", DType::kInt32, 4, 2, {3}),
              Tensor("a.words.bytes.d1", DType::kInt32, 0),
              Tensor("a.words.bytes.d2", DType::kInt32, 6),
              Tensor("a.words.bytes", DType::kUint8, 5), Tensor("y", DType::kInt64, 7)})
      .value();
}

struct Built {
  std::vector<uint32_t> counts;
  std::vector<std::string> columns;
};

template <typename T>
void Put(std::string& column, T value) {
  column.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// One graph of RichSchema().
inline Built RandomRich(uint64_t seed) {
  SeededRandom random(seed);
  Built built;
  built.columns.resize(11);
  const auto a = static_cast<uint32_t>(2 + random.Below(40));
  const auto b = static_cast<uint32_t>(1 + random.Below(20));
  const auto aa = static_cast<uint32_t>(random.Below(120));
  const auto ab = static_cast<uint32_t>(random.Below(60));
  const auto three = aa == 0 ? 0 : static_cast<uint32_t>(random.Below(40));
  for (uint32_t i = 0; i < 2 * a; ++i) Put(built.columns[0], static_cast<float>(random.Below(99)));
  for (uint32_t i = 0; i < b; ++i) Put(built.columns[1], static_cast<uint8_t>(random.Below(99)));
  // Near each other, so that there is something to find.
  std::string sources;
  std::string targets;
  for (uint32_t i = 0; i < aa; ++i) {
    const uint64_t source = random.Below(a);
    Put(sources, static_cast<int64_t>(source));
    Put(targets, static_cast<int64_t>((source + random.Below(4)) % a));
    Put(built.columns[3], static_cast<int16_t>(i));
  }
  built.columns[2] = sources + targets;
  for (uint32_t i = 0; i < ab; ++i) {
    Put(built.columns[4], static_cast<int32_t>(random.Below(a)));
    Put(built.columns[5], static_cast<int32_t>(random.Below(b)));
  }
  for (uint32_t i = 0; i < 3 * three; ++i) {
    Put(built.columns[6], static_cast<int32_t>(random.Below(aa)));
  }
  uint32_t words = 0;
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < a; ++i) {
    const auto of_node = static_cast<int32_t>(random.Below(3));
    Put(built.columns[7], of_node);
    words += static_cast<uint32_t>(of_node);
  }
  for (uint32_t i = 0; i < words; ++i) {
    const auto of_word = static_cast<int32_t>(random.Below(4));
    Put(built.columns[8], of_word);
    bytes += static_cast<uint32_t>(of_word);
  }
  for (uint32_t i = 0; i < bytes; ++i) Put(built.columns[9], static_cast<uint8_t>('a' + i % 26));
  Put(built.columns[10], static_cast<int64_t>(seed));
  built.counts = {a, b, aa, ab, three, bytes, words};
  return built;
}

inline GraphChunk ChunkOf(const GraphSchema& schema, const Built& built, uint64_t id) {
  auto owner = std::make_shared<Built>(built);
  const std::vector<absl::string_view> views(owner->columns.begin(), owner->columns.end());
  return GraphChunk::Create(
             &schema,
             SizeTable::WithConsecutiveIds(1, built.counts.size(), built.counts, id).value(), views,
             owner)
      .value();
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PARTITIONING_RICH_GRAPHS_H_
