#include "client/cpp/unbatch.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/widen.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes;
  AppendLittleEndian(absl::MakeConstSpan(values), bytes);
  return bytes;
}

void AddTensor(v1::GraphSchema& schema, const std::string& name, v1::DataType dtype,
               const std::vector<uint32_t>& row_shape, const std::string& component,
               const std::string& index_into = "") {
  v1::TensorSpec* const spec = schema.add_tensors();
  spec->set_name(name);
  spec->set_dtype(dtype);
  spec->mutable_row_shape()->Add(row_shape.begin(), row_shape.end());
  spec->set_component(component);
  spec->set_index_into(index_into);
}

// x: one int16 a node; edge_index: two int32 an edge; y: one float a graph.
v1::GraphSchema BatchSchema() {
  v1::GraphSchema schema;
  schema.add_components("nodes");
  schema.add_components("edges");
  AddTensor(schema, "x", v1::DATA_TYPE_INT16, {}, "nodes");
  AddTensor(schema, "edge_index", v1::DATA_TYPE_INT32, {2}, "edges", "nodes");
  AddTensor(schema, "y", v1::DATA_TYPE_FLOAT32, {1}, "graphs");
  return schema;
}

void AddTensor(v1::Batch& batch, const v1::TensorSpec& spec, uint64_t rows, std::string data) {
  v1::Tensor* const tensor = batch.add_tensors();
  tensor->set_name(spec.name());
  tensor->set_dtype(spec.dtype());
  tensor->add_shape(rows);
  for (const uint32_t extent : spec.row_shape()) tensor->add_shape(extent);
  tensor->set_data(std::move(data));
}

// Graphs 7 (2 nodes, 1 edge: 0-1) and 3 (3 nodes, 2 edges: 0-2, 2-1), padded to 6 nodes, 4 edges,
// 3 graphs. Padding edges point at node 5, the first padding row.
v1::Batch PaddedBatch() {
  const v1::GraphSchema schema = BatchSchema();
  v1::Batch batch;
  batch.set_graph_ids(Bytes<uint64_t>({7, 3}));
  batch.set_sizes(Bytes<uint32_t>({2, 1, 3, 2}));
  for (const uint64_t rows : {5, 3, 2}) batch.add_real_rows(rows);
  for (const uint64_t rows : {6, 4, 3}) batch.add_rows(rows);
  AddTensor(batch, schema.tensors(0), 6, Bytes<int16_t>({10, 11, 20, 21, 22, 0}));
  AddTensor(batch, schema.tensors(1), 4, Bytes<int32_t>({0, 1, 2, 4, 4, 3, 5, 5}));
  AddTensor(batch, schema.tensors(2), 3, Bytes<float>({0.5F, 1.5F, 0}));
  return batch;
}

TEST(UnbatchTest, PaddingGoesAndIndicesBecomeLocal) {
  v1::Batch batch = PaddedBatch();
  // Derived tensors follow the schema's and are none of ours.
  batch.add_tensors()->set_name("nodes/mask");
  const absl::StatusOr<v1::GraphChunk> chunk = Unbatch(BatchSchema(), batch);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->sizes().num_graphs(), 2);
  EXPECT_EQ(chunk->sizes().counts(), Bytes<uint32_t>({2, 1, 3, 2}));
  EXPECT_EQ(chunk->sizes().graph_ids(), Bytes<uint64_t>({7, 3}));
  ASSERT_EQ(chunk->tensors_size(), 3);
  EXPECT_EQ(chunk->tensors(0).name(), "x");
  EXPECT_EQ(chunk->tensors(0).data(), Bytes<int16_t>({10, 11, 20, 21, 22}));
  EXPECT_EQ(chunk->tensors(1).data(), Bytes<int32_t>({0, 1, 0, 2, 2, 1}));
  EXPECT_EQ(chunk->tensors(2).data(), Bytes<float>({0.5F, 1.5F}));
}

// x as uint8 and edge_index as int16, as with INTEGER_WIDTH_COMPACT.
v1::Batch NarrowBatch() {
  v1::Batch batch = PaddedBatch();
  for (const int t : {0, 1}) {
    batch.mutable_tensors(t)->set_declared_dtype(batch.tensors(t).dtype());
  }
  batch.mutable_tensors(0)->set_dtype(v1::DATA_TYPE_UINT8);
  batch.mutable_tensors(0)->set_data(Bytes<uint8_t>({10, 11, 20, 21, 22, 0}));
  batch.mutable_tensors(1)->set_dtype(v1::DATA_TYPE_INT16);
  batch.mutable_tensors(1)->set_data(Bytes<int16_t>({0, 1, 2, 4, 4, 3, 5, 5}));
  return batch;
}

TEST(UnbatchTest, NarrowTensorsAreWidened) {
  const absl::StatusOr<v1::GraphChunk> chunk = Unbatch(BatchSchema(), NarrowBatch());
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  const absl::StatusOr<v1::GraphChunk> expected = Unbatch(BatchSchema(), PaddedBatch());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*chunk, *expected));
  v1::Batch batch = NarrowBatch();
  ASSERT_TRUE(Widen(batch).ok());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(batch, PaddedBatch()));
  // Of another type than the schema's.
  batch = NarrowBatch();
  batch.mutable_tensors(0)->set_declared_dtype(v1::DATA_TYPE_INT64);
  const absl::Status refused = Unbatch(BatchSchema(), batch).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'x' has dtype 5, in the schema it is 3"));
}

template <typename From, typename To>
void ExpectWidened(v1::DataType from, v1::DataType to) {
  const std::vector<From> values = {std::numeric_limits<From>::min(), 0, 1, 100,
                                    std::numeric_limits<From>::max()};
  const std::string narrow = "x" + Bytes<From>(values);  // At an odd address.
  TensorView view;
  view.name = "x";
  view.dtype = from;
  view.declared_dtype = to;
  view.data = absl::string_view(narrow).substr(1);
  const absl::StatusOr<std::string> wide = Widened(view);
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(*wide, Bytes<To>(std::vector<To>(values.begin(), values.end())));
  EXPECT_EQ(view.own_dtype(), to);
}

TEST(WidenTest, EveryTypeThatTravelsInANarrowOne) {
  ExpectWidened<uint8_t, int16_t>(v1::DATA_TYPE_UINT8, v1::DATA_TYPE_INT16);
  ExpectWidened<uint8_t, uint16_t>(v1::DATA_TYPE_UINT8, v1::DATA_TYPE_UINT16);
  ExpectWidened<uint8_t, int32_t>(v1::DATA_TYPE_UINT8, v1::DATA_TYPE_INT32);
  ExpectWidened<uint8_t, uint32_t>(v1::DATA_TYPE_UINT8, v1::DATA_TYPE_UINT32);
  ExpectWidened<uint8_t, int64_t>(v1::DATA_TYPE_UINT8, v1::DATA_TYPE_INT64);
  ExpectWidened<uint8_t, uint64_t>(v1::DATA_TYPE_UINT8, v1::DATA_TYPE_UINT64);
  ExpectWidened<int16_t, int32_t>(v1::DATA_TYPE_INT16, v1::DATA_TYPE_INT32);
  ExpectWidened<int16_t, int64_t>(v1::DATA_TYPE_INT16, v1::DATA_TYPE_INT64);
  ExpectWidened<int32_t, int64_t>(v1::DATA_TYPE_INT32, v1::DATA_TYPE_INT64);
}

TEST(WidenTest, OtherTypesAreRefused) {
  for (int from = 0; from <= 15; ++from) {
    for (int to = 0; to <= 15; ++to) {
      TensorView view;
      view.name = "x";
      view.dtype = static_cast<v1::DataType>(from);
      view.declared_dtype = static_cast<v1::DataType>(to);
      view.data = "12345678";
      const bool is_narrow =
          from == v1::DATA_TYPE_UINT8 || from == v1::DATA_TYPE_INT16 || from == v1::DATA_TYPE_INT32;
      const bool is_wider = to >= v1::DATA_TYPE_INT8 && to <= v1::DATA_TYPE_UINT64 &&
                            ElementBytes(view.declared_dtype) > ElementBytes(view.dtype);
      const absl::Status status = Widened(view).status();
      EXPECT_EQ(status.ok(), to == 0 || (is_narrow && is_wider)) << from << " to " << to;
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 'x' of dtype"));
    }
  }
  TensorView cut;
  cut.dtype = v1::DATA_TYPE_INT16;
  cut.declared_dtype = v1::DATA_TYPE_INT64;
  cut.data = "123";
  EXPECT_EQ(Widened(cut).status(),
            absl::InvalidArgumentError("batch: tensor '' has 3 bytes, no multiple of 2"));
}

TEST(UnbatchTest, ABatchWithoutGraphsGivesAnEmptyChunk) {
  v1::Batch batch;
  for (int k = 0; k < 3; ++k) {
    batch.add_real_rows(0);
    batch.add_rows(0);
  }
  const v1::GraphSchema schema = BatchSchema();
  for (const v1::TensorSpec& spec : schema.tensors()) AddTensor(batch, spec, 0, "");
  const absl::StatusOr<v1::GraphChunk> chunk = Unbatch(schema, batch);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->sizes().num_graphs(), 0);
}

TEST(UnbatchTest, ASchemaWithoutComponentsCountsGraphsOnly) {
  v1::GraphSchema schema;
  AddTensor(schema, "row", v1::DATA_TYPE_UINT8, {2}, "graphs");
  v1::Batch batch;
  batch.set_graph_ids(Bytes<uint64_t>({0, 1}));
  batch.add_real_rows(2);
  batch.add_rows(3);
  AddTensor(batch, schema.tensors(0), 3, "aabb..");
  const absl::StatusOr<v1::GraphChunk> chunk = Unbatch(schema, batch);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->tensors(0).data(), "aabb");
}

TEST(UnbatchTest, ABatchOfSizesWantsASchemaWithoutTensors) {
  v1::Batch batch = PaddedBatch();
  batch.clear_tensors();
  EXPECT_TRUE(Unbatch(DefaultSchema(), batch).ok());
  EXPECT_EQ(Unbatch(BatchSchema(), batch).status().code(), absl::StatusCode::kInvalidArgument);
}

// Every disagreement within a batch is refused, with words that say where it is.
TEST(UnbatchTest, HostileBatchesAreRefused) {
  struct Case {
    std::string says;
    std::function<void(v1::Batch&)> harm;
  };
  const std::vector<Case> cases = {
      {"graph_ids has 15", [](auto& b) { b.mutable_graph_ids()->pop_back(); }},
      {"sizes has 16 bytes for 3", [](auto& b) { b.mutable_graph_ids()->append(8, '\0'); }},
      {"sizes has 15", [](auto& b) { b.mutable_sizes()->pop_back(); }},
      {"sizes has 0", [](auto& b) { b.clear_sizes(); }},
      {"real_rows and rows have 0", [](auto& b) { b.clear_real_rows(); }},
      {"real_rows and rows have 3 and 4", [](auto& b) { b.add_rows(0); }},
      {"real_rows says 6 nodes", [](auto& b) { b.set_real_rows(0, 6); }},
      {"real_rows says 3 graphs", [](auto& b) { b.set_real_rows(2, 3); }},
      {"sizes add up to 4294967297",
       [](auto& b) {
         b.set_sizes(Bytes<uint32_t>({2, 1, 0xFFFFFFFF, 2}));
       }},
      {"rows says 4 nodes", [](auto& b) { b.set_rows(0, 4); }},
      {"has 6 rows, its component has 18446744073709551615",
       [](auto& b) { b.set_rows(0, ~uint64_t{0}); }},
      {"has 12 bytes for 9223372036854775814 rows",  // 2^63 + 6: times 2 it wraps around to 12.
       [](auto& b) {
         b.set_rows(0, (uint64_t{1} << 63) + 6);
         b.mutable_tensors(0)->set_shape(0, (uint64_t{1} << 63) + 6);
       }},
      {"has 2 tensors", [](auto& b) { b.mutable_tensors()->RemoveLast(); }},
      {"tensor 'z' where", [](auto& b) { b.mutable_tensors(0)->set_name("z"); }},
      {"tensor 'edge_index' where", [](auto& b) { b.mutable_tensors()->SwapElements(0, 1); }},
      {"dtype", [](auto& b) { b.mutable_tensors(0)->set_dtype(v1::DATA_TYPE_INT8); }},
      {"dtype", [](auto& b) { b.mutable_tensors(0)->set_dtype(static_cast<v1::DataType>(99)); }},
      {"row shape", [](auto& b) { b.mutable_tensors(0)->add_shape(1); }},
      {"row shape", [](auto& b) { b.mutable_tensors(0)->clear_shape(); }},
      {"row shape", [](auto& b) { b.mutable_tensors(1)->set_shape(1, 3); }},
      {"has 5 rows", [](auto& b) { b.mutable_tensors(0)->set_shape(0, 5); }},
      {"has 11 bytes", [](auto& b) { b.mutable_tensors(0)->mutable_data()->pop_back(); }},
      {"has 0 bytes", [](auto& b) { b.mutable_tensors(1)->clear_data(); }},
      {"tensor 'x' of dtype",
       [](auto& b) { b.mutable_tensors(0)->set_declared_dtype(v1::DATA_TYPE_INT8); }},
      {"tensor 'x' has 13 bytes for 6 rows of 2",
       [](auto& b) { b.mutable_tensors(0)->mutable_data()->push_back('\0'); }},
      {"tensor 'x' has 14 bytes for 6 rows of 2",
       [](auto& b) { b.mutable_tensors(0)->mutable_data()->append(2, '\0'); }},
      {"holds the index 2, outside its rows 0 to 2",
       [](auto& b) {
         StoreLittleEndian<int32_t>(2, b.mutable_tensors(1)->mutable_data()->data());
       }},
      {"holds the index -1",
       [](auto& b) {
         StoreLittleEndian<int32_t>(-1, b.mutable_tensors(1)->mutable_data()->data());
       }},
      {"holds the index 1, outside its rows 2 to 5",
       [](auto& b) {
         StoreLittleEndian<int32_t>(1, b.mutable_tensors(1)->mutable_data()->data() + 8);
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.says);
    v1::Batch batch = PaddedBatch();
    c.harm(batch);
    const absl::Status status = Unbatch(BatchSchema(), batch).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.says));
  }
}

TEST(UnbatchTest, ASchemaMayReachItsBoundsAndNotPassThem) {
  for (const uint32_t beyond : {0, 1}) {
    // 16 MiB a row, in one extent or in several; 16 planes.
    for (const std::vector<uint32_t>& shape :
         {std::vector<uint32_t>{(1 << 22) + beyond}, {1 << 11, 1 << 10, 2 + beyond}}) {
      v1::GraphSchema schema;
      AddTensor(schema, "x", v1::DATA_TYPE_FLOAT32, shape, "graphs");
      const auto layout = ResolveSchema(schema);
      ASSERT_EQ(layout.ok(), beyond == 0);
      if (!layout.ok()) continue;
      EXPECT_EQ(layout->tensors[0].row_bytes, 16 << 20);
    }
    v1::GraphSchema schema;
    AddTensor(schema, "x", v1::DATA_TYPE_FLOAT32, {16 + beyond}, "graphs");
    schema.mutable_tensors(0)->set_layout(v1::LAYOUT_ROWS_LAST);
    EXPECT_EQ(ResolveSchema(schema).ok(), beyond == 0);
  }
}

TEST(UnbatchTest, IndicesOfOneByteBecomeLocal) {
  for (const v1::DataType dtype : {v1::DATA_TYPE_INT8, v1::DATA_TYPE_UINT8}) {
    v1::GraphSchema schema = BatchSchema();
    schema.mutable_tensors(1)->set_dtype(dtype);
    v1::Batch batch = PaddedBatch();
    batch.mutable_tensors(1)->set_dtype(dtype);
    batch.mutable_tensors(1)->set_data(Bytes<uint8_t>({0, 1, 2, 4, 4, 3, 5, 5}));
    const absl::StatusOr<v1::GraphChunk> chunk = Unbatch(schema, batch);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->tensors(1).data(), Bytes<uint8_t>({0, 1, 0, 2, 2, 1}));
    // Below 0, or above all rows.
    batch.mutable_tensors(1)->set_data(Bytes<uint8_t>({0, 255, 2, 4, 4, 3, 5, 5}));
    EXPECT_EQ(Unbatch(schema, batch).status(),
              absl::InvalidArgumentError(absl::StrCat(
                  "batch: tensor 'edge_index' of graph 0 holds the index ",
                  dtype == v1::DATA_TYPE_INT8 ? -1 : 255, ", outside its rows 0 to 2")));
  }
}

TEST(UnbatchTest, BadSchemasAreRefused) {
  struct Case {
    std::string says;
    std::function<void(v1::GraphSchema&)> harm;
  };
  const std::vector<Case> cases = {
      {"'graphs' is implied", [](auto& s) { s.add_components("graphs"); }},
      {"'nodes' is listed twice", [](auto& s) { s.add_components("nodes"); }},
      {"'x' is listed twice", [](auto& s) { s.mutable_tensors(2)->set_name("x"); }},
      {"unknown dtype 0", [](auto& s) { s.mutable_tensors(0)->clear_dtype(); }},
      {"extent of 0", [](auto& s) { s.mutable_tensors(0)->add_row_shape(0); }},
      {"more than 16777216 bytes",
       [](auto& s) {
         for (int i = 0; i < 4; ++i) s.mutable_tensors(0)->add_row_shape(1U << 31);
       }},
      {"grows along 'faces'", [](auto& s) { s.mutable_tensors(0)->set_component("faces"); }},
      {"points into 'faces'", [](auto& s) { s.mutable_tensors(1)->set_index_into("faces"); }},
      {"unknown layout 9",
       [](auto& s) { s.mutable_tensors(0)->set_layout(static_cast<v1::Layout>(9)); }},
      {"rows last, and a row shape of 0 extents",
       [](auto& s) { s.mutable_tensors(0)->set_layout(v1::LAYOUT_ROWS_LAST); }},
      {"rows last, and 17 elements a row, at most 16",
       [](auto& s) {
         s.mutable_tensors(0)->set_layout(v1::LAYOUT_ROWS_LAST);
         s.mutable_tensors(0)->add_row_shape(17);
       }},
      {"no integer", [](auto& s) { s.mutable_tensors(2)->set_index_into("nodes"); }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.says);
    v1::GraphSchema schema = BatchSchema();
    c.harm(schema);
    const absl::Status status = Unbatch(schema, PaddedBatch()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.says));
  }
}

// Joins the graphs of a chunk in the most obvious way: one element at a time, then padding.
v1::Batch Join(const SchemaLayout& schema, const v1::GraphChunk& chunk, uint64_t spare_rows) {
  const std::size_t width = schema.components.size();
  const LittleEndianView<uint32_t> counts(chunk.sizes().counts());
  const auto rows = [&](std::size_t graph, std::size_t k) -> uint64_t {
    return k == width ? 1 : counts[graph * width + k];
  };
  v1::Batch batch;
  batch.set_graph_ids(chunk.sizes().graph_ids());
  batch.set_sizes(chunk.sizes().counts());
  for (std::size_t k = 0; k <= width; ++k) {
    uint64_t sum = 0;
    for (std::size_t graph = 0; graph < chunk.sizes().num_graphs(); ++graph) sum += rows(graph, k);
    batch.add_real_rows(sum);
    batch.add_rows(sum + spare_rows);
  }
  for (std::size_t t = 0; t < schema.tensors.size(); ++t) {
    const TensorLayout& layout = schema.tensors[t];
    v1::Tensor* const tensor = batch.add_tensors();
    tensor->set_name(layout.name);
    tensor->set_dtype(layout.dtype);
    tensor->add_shape(batch.rows(static_cast<int>(layout.component)));
    for (const uint32_t extent : layout.row_shape) tensor->add_shape(extent);
    std::string data = chunk.tensors(static_cast<int>(t)).data();
    if (layout.index_into.has_value()) {
      const std::size_t element_bytes = ElementBytes(layout.dtype);
      std::size_t element = 0;
      uint64_t offset = 0;
      for (std::size_t graph = 0; graph < chunk.sizes().num_graphs(); ++graph) {
        const uint64_t elements = rows(graph, layout.component) * layout.row_elements;
        for (uint64_t i = 0; i < elements; ++i, ++element) {
          // Indices here are below 256, so only their lowest byte is ever set.
          char& lowest = data[element * element_bytes];
          lowest = static_cast<char>(static_cast<unsigned char>(lowest) + offset);
        }
        offset += rows(graph, *layout.index_into);
      }
    }
    // Padding of any value must not matter.
    tensor->set_data(data + std::string(spare_rows * layout.row_bytes, '\xEE'));
  }
  return batch;
}

// The tensor with its rows last: row by row, element by element.
std::string RowsLast(const std::string& rows_first, const TensorLayout& layout) {
  const std::size_t rows = rows_first.size() / layout.row_bytes;
  const std::size_t element_bytes = layout.row_bytes / layout.row_elements;
  std::string data(rows_first.size(), '\0');
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < layout.row_elements; ++i) {
      data.replace((i * rows + row) * element_bytes, element_bytes, rows_first,
                   (row * layout.row_elements + i) * element_bytes, element_bytes);
    }
  }
  return data;
}

// Lays some tensors out with their rows last, in schema, chunk and batch alike.
void LayOutRowsLast(const SchemaLayout& layout, const std::function<bool()>& toss,
                    v1::GraphSchema& schema, v1::GraphChunk& chunk, v1::Batch& batch) {
  for (std::size_t t = 0; t < layout.tensors.size(); ++t) {
    const int i = static_cast<int>(t);
    if (layout.tensors[t].row_shape.size() != 1 || !toss()) continue;
    schema.mutable_tensors(i)->set_layout(v1::LAYOUT_ROWS_LAST);
    chunk.mutable_tensors(i)->set_data(RowsLast(chunk.tensors(i).data(), layout.tensors[t]));
    v1::Tensor& tensor = *batch.mutable_tensors(i);
    tensor.set_data(RowsLast(tensor.data(), layout.tensors[t]));
    tensor.mutable_shape()->SwapElements(0, 1);
  }
}

// Any one byte changed anywhere may give an error, but must not crash.
void UnbatchDamaged(const v1::GraphSchema& schema, const v1::Batch& batch,
                    std::mt19937_64& random) {
  std::string bytes = batch.SerializeAsString();
  for (int i = 0; i < 20 && !bytes.empty(); ++i) {
    bytes[random() % bytes.size()] = static_cast<char>(random());
    v1::Batch changed;
    if (changed.ParseFromString(bytes)) (void)Unbatch(schema, changed);
  }
}

// Taking apart undoes joining, whatever the schema, the sizes and the padding.
TEST(UnbatchTest, UndoesJoining) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    std::mt19937_64 random(seed);
    const auto below = [&random](uint64_t bound) { return random() % bound; };
    v1::GraphSchema schema;
    const std::size_t width = below(4);
    for (std::size_t k = 0; k < width; ++k) schema.add_components("c" + std::to_string(k));
    const auto component = [&](std::size_t k) {
      return k == width ? std::string("graphs") : "c" + std::to_string(k);
    };
    const std::size_t num_tensors = below(5);
    for (std::size_t t = 0; t < num_tensors; ++t) {
      std::vector<uint32_t> shape;
      while (below(2) == 0) shape.push_back(1 + static_cast<uint32_t>(below(3)));
      const bool index = below(2) == 0;
      const auto dtype = index ? v1::DATA_TYPE_INT8 + 1 + below(7) : 1 + below(13);
      AddTensor(schema, "t" + std::to_string(t), static_cast<v1::DataType>(dtype), shape,
                component(below(width + 1)), index ? component(below(width + 1)) : "");
    }
    const absl::StatusOr<SchemaLayout> layout = ResolveSchema(schema);
    ASSERT_TRUE(layout.ok()) << layout.status();

    const std::size_t num_graphs = below(8);
    std::vector<uint32_t> counts(num_graphs * width);
    for (uint32_t& count : counts) count = static_cast<uint32_t>(below(12));
    std::vector<uint64_t> ids(num_graphs);
    for (uint64_t& id : ids) id = random();
    const auto rows = [&](std::size_t graph, std::size_t k) -> uint64_t {
      return k == width ? 1 : counts[graph * width + k];
    };
    // A graph without rows to point at can have no index.
    for (const TensorLayout& tensor : layout->tensors) {
      if (!tensor.index_into.has_value() || tensor.component == width) continue;
      for (std::size_t graph = 0; graph < num_graphs; ++graph) {
        if (rows(graph, *tensor.index_into) == 0) counts[graph * width + tensor.component] = 0;
      }
    }
    bool possible = true;
    v1::GraphChunk chunk;
    chunk.mutable_sizes()->set_num_graphs(num_graphs);
    chunk.mutable_sizes()->set_counts(Bytes(counts));
    chunk.mutable_sizes()->set_graph_ids(Bytes(ids));
    for (const TensorLayout& tensor : layout->tensors) {
      std::string data;
      for (std::size_t graph = 0; graph < num_graphs; ++graph) {
        const uint64_t elements = rows(graph, tensor.component) * tensor.row_elements;
        const std::size_t element_bytes = ElementBytes(tensor.dtype);
        for (uint64_t i = 0; i < elements; ++i) {
          std::string element(element_bytes, '\0');
          if (!tensor.index_into.has_value()) {
            for (char& byte : element) byte = static_cast<char>(random());
          } else if (const uint64_t bound = rows(graph, *tensor.index_into); bound > 0) {
            element[0] = static_cast<char>(below(bound));
          } else {
            possible = false;
          }
          data += element;
        }
      }
      v1::TensorData* const tensor_data = chunk.add_tensors();
      tensor_data->set_name(tensor.name);
      tensor_data->set_data(data);
    }
    if (!possible) continue;

    v1::Batch batch = Join(*layout, chunk, below(4));
    LayOutRowsLast(
        *layout, [&] { return below(2) == 0; }, schema, chunk, batch);
    const absl::StatusOr<v1::GraphChunk> apart = Unbatch(schema, batch);
    ASSERT_TRUE(apart.ok()) << apart.status();
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*apart, chunk));

    UnbatchDamaged(schema, batch, random);
  }
}

}  // namespace
}  // namespace packhouse::client
