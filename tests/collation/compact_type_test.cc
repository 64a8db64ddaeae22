#include "service/algorithms/collation/compact_type.h"

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/collation/collate.h"
#include "service/algorithms/collation/gathered_graph.h"
#include "service/algorithms/collation/uncollate.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kAnyBytes = UINT64_MAX;
constexpr DerivedTensors kEveryDerived = {true, true, true, true};

// Value i as a whole number, also beyond int64.
absl::int128 ValueAt(DType dtype, absl::string_view data, size_t i) {
  const int64_t value = IndexValueAt(dtype, data, i);
  return dtype == DType::kUint64 ? absl::int128(static_cast<uint64_t>(value)) : absl::int128(value);
}

absl::int128 LeastOf(DType dtype) {
  if (dtype == DType::kInt16) return std::numeric_limits<int16_t>::min();
  return dtype == DType::kInt32 ? std::numeric_limits<int32_t>::min() : 0;
}

// What the contract says, value by value.
DType NarrowestByDefinition(DType declared, absl::string_view data) {
  if (!IsInteger(declared)) return declared;
  for (const DType type : {DType::kUint8, DType::kInt16, DType::kInt32}) {
    bool holds_all = ElementBytes(type) < ElementBytes(declared);
    for (size_t i = 0; holds_all && i < data.size() / ElementBytes(declared); ++i) {
      const absl::int128 value = ValueAt(declared, data, i);
      holds_all = LeastOf(type) <= value && value <= absl::int128(MaxIndex(type));
    }
    if (holds_all) return type;
  }
  return declared;
}

// The same graphs; the values of each column of integers that are no indices fit some number of
// bits, and are often at the end of what these bits hold.
GraphChunk WithFewBits(Random& random, const GraphChunk& chunk) {
  const GraphSchema& schema = chunk.schema();
  auto columns = std::make_shared<std::vector<std::string>>();
  for (size_t t = 0; t < schema.tensors().size(); ++t) {
    const TensorSpec& spec = schema.tensors()[t];
    std::string& column = columns->emplace_back(chunk.column(t));
    if (spec.index_into || !IsInteger(spec.dtype)) continue;
    const size_t bytes = ElementBytes(spec.dtype);
    const uint64_t bits =
        std::vector<uint64_t>{0, 1, 7, 8, 9, 15, 16, 31, 32, 63, 64}.at(random.Below(11));
    const uint64_t most = bits == 0 ? 0 : ~uint64_t{0} >> (64 - bits);
    const uint64_t negative_one_in = random.Below(3) * 20;
    for (size_t at = 0; at < column.size(); at += bytes) {
      uint64_t value = random.Below(4) == 0 ? most : random.Next() & most;
      if (negative_one_in != 0 && random.Below(negative_one_in) == 0) value = ~value;
      std::memcpy(column.data() + at, &value, bytes);
    }
  }
  std::vector<absl::string_view> views(columns->begin(), columns->end());
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < chunk.num_graphs(); ++i) {
    const auto tuple = chunk.sizes().tuple(i);
    counts.insert(counts.end(), tuple.begin(), tuple.end());
  }
  SizeTable sizes = SizeTable::WithConsecutiveIds(chunk.num_graphs(), schema.num_components(),
                                                  std::move(counts), chunk.sizes().graph_id(0))
                        .value();
  return GraphChunk::Create(&schema, std::move(sizes), std::move(views), std::move(columns))
      .value();
}

std::vector<std::vector<uint64_t>> GatheredWords(const std::vector<GraphRef>& graphs) {
  std::vector<std::vector<uint64_t>> gathered;
  for (const GraphRef& graph : graphs) {
    const uint64_t bytes =
        GatheredGraph::BytesOf(graph.chunk->schema(), graph.chunk->sizes().tuple(graph.index));
    gathered.emplace_back(bytes / sizeof(uint64_t));
    GatherGraph(*graph.chunk, graph.index, reinterpret_cast<char*>(gathered.back().data()));
  }
  return gathered;
}

// Frames that have everything but the data.
class TypeFraming final : public TensorFraming {
 public:
  void AppendFrame(const BatchTensor& tensor, uint64_t data_bytes,
                   std::optional<uint64_t> /*aligned_from*/, std::string& frames) const override {
    absl::StrAppend(&frames, tensor.name, ":", DTypeName(tensor.dtype), "<",
                    DTypeName(tensor.declared_dtype.value_or(tensor.dtype)), data_bytes);
  }
};

// The law: a batch of narrow integers is the same batch, whatever the schema, the values, the
// padding and the sizes; and no narrower type would do.
TEST(CompactTypeTest, WidenedBatchesAreThoseOfDeclaredTypes) {
  size_t num_narrow = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    const size_t l = schema.num_components();
    const GraphChunk drawn = RandomChunk(random, &schema, random.Between(1, 8), 6, seed);
    const GraphChunk chunk = WithFewBits(random, drawn);
    std::vector<GraphRef> graphs;
    // Runs of graphs, and graphs drawn alone; sometimes none.
    const size_t num_graphs = random.Below(8) == 0 ? 0 : chunk.num_graphs();
    for (size_t i = 0; i < num_graphs; ++i) {
      graphs.push_back({&chunk, random.Below(2) == 0 ? i : random.Below(chunk.num_graphs())});
    }
    const auto padding = static_cast<Padding>(random.Below(4));
    std::vector<uint64_t> capacities = ReservedRows(schema, padding);
    // Around the ends of uint8 and int16, too.
    const uint64_t spare = random.Below(16) == 0 ? 32768 : random.Below(2) == 0 ? 256 : 9;
    for (size_t k = 0; k <= l; ++k) {
      uint64_t real = 0;
      for (const GraphRef& graph : graphs) real += graph.chunk->count(graph.index, k);
      capacities[k] += std::max<uint64_t>(real + random.Below(spare), 1);
    }
    const auto layout_of = [&](IntegerWidth width) {
      return BatchLayout::Create(&schema, capacities, padding, kEveryDerived, {}, width);
    };
    const auto declared_layout = layout_of(IntegerWidth::kDeclared);
    if (!declared_layout.ok()) continue;  // More rows than an index tensor's type can number.
    PH_ASSERT_OK_AND_ASSIGN(const BatchLayout layout, layout_of(IntegerWidth::kCompact));
    PH_ASSERT_OK_AND_ASSIGN(const Batch plain, Collate(*declared_layout, graphs, kAnyBytes));
    PH_ASSERT_OK_AND_ASSIGN(const Batch batch, Collate(layout, graphs, kAnyBytes));
    ASSERT_EQ(batch.tensors.size(), plain.tensors.size());
    for (size_t i = 0; i < batch.tensors.size(); ++i) {
      const BatchTensor& narrow = batch.tensors[i];
      const BatchTensor& wide = plain.tensors[i];
      SCOPED_TRACE(narrow.name);
      EXPECT_EQ(narrow.shape, wide.shape);
      EXPECT_EQ(narrow.declared_dtype.value_or(narrow.dtype), wide.dtype);
      EXPECT_EQ(narrow.declared_dtype.has_value(), narrow.dtype != wide.dtype);
      num_narrow += narrow.declared_dtype ? 1 : 0;
      EXPECT_EQ(WidenedData(narrow).value(), wide.data);
      // Rows decide about the others.
      if (i >= schema.tensors().size() || schema.tensors()[i].index_into) continue;
      std::string values(wide.data);
      if (padding != Padding::kNone) values += schema.tensors()[i].padding_value;
      EXPECT_EQ(narrow.dtype, NarrowestByDefinition(wide.dtype, values));
    }
    EXPECT_EQ(batch.graph_ids, plain.graph_ids);
    EXPECT_EQ(batch.sizes, plain.sizes);
    EXPECT_EQ(batch.rows, plain.rows);

    // The same of graphs that lie together, and between frames.
    const TypeFraming framing;
    const Batch framed = Collate(layout, graphs, kAnyBytes, &framing).value();
    const auto gathered = GatheredWords(graphs);
    std::vector<absl::string_view> views;
    for (const auto& words : gathered) {
      views.emplace_back(reinterpret_cast<const char*>(words.data()), words.size() * 8);
    }
    EXPECT_EQ(CollateGathered(layout, views, kAnyBytes, &framing).value().framed, framed.framed);
    std::string expected;
    for (const BatchTensor& tensor : batch.tensors) {
      framing.AppendFrame(tensor, tensor.data.size(), std::nullopt, expected);
      expected.append(tensor.data.data(), tensor.data.size());
    }
    EXPECT_EQ(framed.framed, expected);

    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk back, Uncollate(&schema, batch));
    ASSERT_EQ(back.num_graphs(), graphs.size());
    for (size_t i = 0; i < graphs.size(); ++i) {
      EXPECT_TRUE(SameGraph(back, i, *graphs[i].chunk, graphs[i].index)) << "graph " << i;
    }
  }
  EXPECT_GT(num_narrow, 5000U);
}

// With padding, what numbers rows has one type in all batches of a shape, full or empty.
TEST(CompactTypeTest, TheShapeDecidesAboutIndices) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"e", DType::kInt64, {}, 1, 0, {}}})
          .value();
  const std::vector<std::pair<uint64_t, DType>> types = {
      {256, DType::kUint8}, {257, DType::kInt16}, {32768, DType::kInt16}, {32769, DType::kInt32}};
  for (const auto& [capacity, type] : types) {
    const BatchLayout layout = BatchLayout::Create(&schema, {capacity, 9, 3}, Padding::kGraph,
                                                   kEveryDerived, {}, IntegerWidth::kCompact)
                                   .value();
    const Batch batch = Collate(layout, {}, kAnyBytes).value();
    EXPECT_EQ(batch.tensors[0].dtype, type) << capacity;
    EXPECT_EQ(batch.tensors[0].declared_dtype, DType::kInt64);
    for (const BatchTensor& tensor : batch.tensors) {
      // Three graphs; counts of nodes may be as many as there are.
      if (tensor.name == "nodes/graph") {
        EXPECT_EQ(tensor.dtype, DType::kUint8);
      } else if (tensor.name == "nodes/mask") {
        EXPECT_EQ(tensor.dtype, DType::kBool);
      } else if (tensor.name == "nodes/counts" && capacity == 256) {
        EXPECT_EQ(tensor.dtype, DType::kInt16);
      }
    }
  }
}

// At the ends of each type, for signed and unsigned integers of each width.
TEST(CompactTypeTest, TheNarrowestTypeThatHoldsTheValue) {
  const NarrowingKernels kernels = NarrowingKernelsOf(BestVectorLevel());
  std::vector<uint64_t> ends;
  for (const int bits : {0, 7, 8, 15, 16, 31, 32, 63}) {
    for (const int64_t beside : {-1, 0, 1}) {
      const uint64_t value = (uint64_t{1} << bits) + static_cast<uint64_t>(beside);
      ends.insert(ends.end(), {value, ~value, uint64_t{0} - value});
    }
  }
  for (int d = 0; d <= static_cast<int>(DType::kFloat64); ++d) {
    const auto declared = static_cast<DType>(d);
    if (!CanNarrow(declared)) {
      EXPECT_EQ(CompactType(declared, {}), declared);
      continue;
    }
    const size_t bytes = ElementBytes(declared);
    for (const uint64_t a : ends) {
      for (const uint64_t b : ends) {
        std::string values(2 * bytes, '\0');
        std::memcpy(values.data(), &a, bytes);
        std::memcpy(values.data() + bytes, &b, bytes);
        ValueBits bits;
        kernels.CollectBitsOf(bytes)(values.data(), values.size(), bits);
        EXPECT_EQ(CompactType(declared, bits), NarrowestByDefinition(declared, values))
            << DTypeName(declared) << " " << a << ", " << b;
      }
    }
  }
}

TEST(CompactTypeTest, AllVectorLevelsNarrowAlike) {
  constexpr size_t kMostElements = 140;
  Random random(1);
  for (const VectorLevel level : VectorLevelsHere()) {
    const NarrowingKernels kernels = NarrowingKernelsOf(level);
    for (size_t n = 0; n <= kMostElements; ++n) {
      for (const size_t from_bytes : {2, 4, 8}) {
        std::string source;
        const size_t begin = random.Below(9);
        for (size_t i = 0; i < begin + n * from_bytes; ++i) {
          source.push_back(static_cast<char>(random.Below(256)));
        }
        const char* const from = source.data() + begin;
        const size_t bytes = n * from_bytes;
        ValueBits bits;
        ValueBits expected;
        kernels.CollectBitsOf(from_bytes)(from, bytes, bits);
        uint64_t sums = 0;
        const uint64_t shift = random.Next();
        const DType type = from_bytes == 2   ? DType::kInt16
                           : from_bytes == 4 ? DType::kInt32
                                             : DType::kInt64;
        std::vector<uint64_t> values;
        for (size_t i = 0; i < n; ++i) {
          const int64_t value = IndexValueAt(type, absl::string_view(from, bytes), i);
          expected.any |= static_cast<uint64_t>(value);
          expected.folded |= static_cast<uint64_t>(value < 0 ? ~value : value);
          values.push_back(static_cast<uint64_t>(value) + shift);
          sums |= values.back() & (~uint64_t{0} >> (64 - 8 * from_bytes));
        }
        EXPECT_EQ(bits.any, expected.any) << VectorLevelName(level) << " " << n;
        EXPECT_EQ(bits.folded, expected.folded) << VectorLevelName(level) << " " << n;
        for (const size_t to_bytes : {1, 2, 4}) {
          if (to_bytes >= from_bytes) continue;
          std::string to(begin + n * to_bytes + 64, 'x');
          std::string narrow = to;
          for (size_t i = 0; i < n; ++i) {
            std::memcpy(narrow.data() + begin + i * to_bytes, &values[i], to_bytes);
          }
          EXPECT_EQ(
              kernels.CopyNarrowedOf(from_bytes, to_bytes)(to.data() + begin, from, bytes, shift),
              sums);
          EXPECT_EQ(to, narrow) << VectorLevelName(level) << ", " << n << " elements from "
                                << from_bytes << " to " << to_bytes << " bytes";
        }
      }
    }
  }
}

TEST(CompactTypeTest, HostileTypesAreRefused) {
  const auto widened = [](DType dtype, DType declared, absl::string_view data) {
    return WidenedData({"x", dtype, {1}, data, declared}).status();
  };
  EXPECT_THAT(widened(DType::kUint8, DType::kInt64, "ab"), IsOk());
  EXPECT_THAT(widened(DType::kInt64, DType::kUint8, "abcdefgh"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor 'x' of uint8 comes as int64")));
  for (const auto& [dtype, declared] :
       std::vector<std::pair<DType, DType>>{{DType::kInt8, DType::kInt64},
                                            {DType::kUint16, DType::kInt64},
                                            {DType::kUint8, DType::kFloat32},
                                            {DType::kUint8, DType::kBool},
                                            {DType::kInt32, DType::kUint32},
                                            {DType::kFloat16, DType::kInt64}}) {
    EXPECT_THAT(widened(dtype, declared, "abcdefgh"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("comes as")));
  }
  EXPECT_THAT(widened(DType::kInt16, DType::kInt64, "abc"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 bytes of int16")));

  // A type that is not the schema's: its elements would be taken apart as the schema's.
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt32, {}, 0, {}, {}}})
          .value();
  Batch batch;
  batch.graph_ids = {1};
  batch.sizes = {4, 0};
  batch.tensors.push_back({"x", DType::kUint8, {4}, "abcd", DType::kInt32});
  EXPECT_THAT(Uncollate(&schema, batch), IsOk());
  batch.tensors[0].declared_dtype = DType::kInt64;
  EXPECT_THAT(Uncollate(&schema, batch),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor 'x' is of int64, the schema says int32")));
}

}  // namespace
}  // namespace packhouse
