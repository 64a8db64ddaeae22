#include "client/cpp/chunk_builder.h"

#include <string>
#include <vector>

#include "client/cpp/little_endian.h"
#include "client/cpp/message_size.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

v1::GraphSchema Schema() {
  v1::GraphSchema schema;
  schema.add_components("nodes");
  schema.add_components("edges");
  v1::TensorSpec* const x = schema.add_tensors();
  x->set_name("x");
  x->set_dtype(v1::DATA_TYPE_FLOAT32);
  x->set_component("nodes");
  v1::TensorSpec* const y = schema.add_tensors();
  y->set_name("y");
  y->set_dtype(v1::DATA_TYPE_INT8);
  y->set_component("graphs");
  return schema;
}

TEST(ChunkBuilderTest, RowsFollowEachOtherInGraphOrder) {
  absl::StatusOr<ChunkBuilder> builder = ChunkBuilder::Create(Schema());
  ASSERT_TRUE(builder.ok());
  const std::vector<float> rows = {1, 2, 3};
  const auto all = absl::MakeConstSpan(rows);
  ASSERT_TRUE(builder->Add({2, 5}, {RowsOf(all.subspan(0, 2)), "a"}, 70).ok());
  ASSERT_TRUE(builder->Add({1, 0}, {RowsOf(all.subspan(2, 1)), "b"}, 30).ok());
  EXPECT_EQ(builder->num_graphs(), 2);
  EXPECT_EQ(builder->byte_size(), 3 * 4 + 2 + 4 * 4 + 2 * 8);

  const v1::GraphChunk chunk = builder->Build();
  EXPECT_EQ(chunk.sizes().num_graphs(), 2);
  const LittleEndianView<uint32_t> counts(chunk.sizes().counts());
  EXPECT_EQ(counts.size(), 4);
  EXPECT_EQ(counts[1], 5);
  EXPECT_EQ(counts[2], 1);
  const LittleEndianView<uint64_t> ids(chunk.sizes().graph_ids());
  EXPECT_EQ(ids[0], 70);
  EXPECT_EQ(ids[1], 30);
  EXPECT_EQ(chunk.tensors(0).data(), std::string(RowsOf(all)));
  EXPECT_EQ(chunk.tensors(1).data(), "ab");
}

// What PyG has of two graphs, (2, 1) and (2, 2), becomes (2, 3).
TEST(ChunkBuilderTest, RowsLastAreJoinedAlongTheLastAxis) {
  v1::GraphSchema schema = Schema();
  v1::TensorSpec* const edge_index = schema.add_tensors();
  edge_index->set_name("edge_index");
  edge_index->set_dtype(v1::DATA_TYPE_INT8);
  edge_index->add_row_shape(2);
  edge_index->set_component("edges");
  edge_index->set_index_into("nodes");
  edge_index->set_layout(v1::LAYOUT_ROWS_LAST);
  for (const int at : {2, 0}) {
    if (at == 0) schema.mutable_tensors()->SwapElements(0, 2);
    absl::StatusOr<ChunkBuilder> builder = ChunkBuilder::Create(schema);
    ASSERT_TRUE(builder.ok());
    const auto add = [&](uint32_t edges, std::string rows) {
      std::vector<absl::string_view> tensors = {"", "y", ""};
      tensors[at] = rows;
      ASSERT_TRUE(builder->Add({0, edges}, tensors).ok());
    };
    for (int round = 0; round < 2; ++round) {
      add(1, "aA");
      add(2, "bcBC");
      EXPECT_EQ(builder->byte_size(), 2 * (2 * 4 + 1) + 6);
      EXPECT_EQ(builder->Build().tensors(at).data(), "abcABC");
    }
  }
}

TEST(ChunkBuilderTest, BuildBeginsANewChunk) {
  absl::StatusOr<ChunkBuilder> builder = ChunkBuilder::Create(Schema());
  ASSERT_TRUE(builder.ok());
  ASSERT_TRUE(builder->Add({0, 0}, {"", "a"}, 1).ok());
  builder->Build();
  EXPECT_EQ(builder->num_graphs(), 0);
  // The new chunk may do without ids, and an empty one names every tensor too.
  ASSERT_TRUE(builder->Add({0, 0}, {"", "b"}).ok());
  EXPECT_FALSE(builder->Build().sizes().has_graph_ids());
  EXPECT_EQ(builder->Build().tensors_size(), 2);
}

TEST(ChunkBuilderTest, ARefusedGraphLeavesNothingBehind) {
  absl::StatusOr<ChunkBuilder> builder = ChunkBuilder::Create(Schema());
  ASSERT_TRUE(builder.ok());
  ASSERT_TRUE(builder->Add({0, 0}, {"", "a"}).ok());
  const std::string before = ChunkBuilder(*builder).Build().SerializeAsString();
  const auto expect_refused = [&](const absl::Status& status, const std::string& says) {
    EXPECT_EQ(status, absl::InvalidArgumentError("graph 1 of the chunk: " + says));
  };
  expect_refused(builder->Add({0}, {"", "a"}), "1 counts for 2 components");
  expect_refused(builder->Add({0, 0}, {""}), "1 tensors, the schema has 2");
  expect_refused(builder->Add({2, 0}, {"1234567", "a"}), "tensor 'x' has 7 bytes for 2 rows of 4");
  expect_refused(builder->Add({0, 0}, {"", "ab"}), "tensor 'y' has 2 bytes for 1 rows of 1");
  expect_refused(builder->Add({0xFFFFFFFF, 0}, {"", "a"}),
                 "tensor 'x' has 0 bytes for 4294967295 rows of 4");
  expect_refused(builder->Add({0, 0}, {"", "a"}, 5),
                 "either all graphs of a chunk have an id, or none has");
  EXPECT_EQ(builder->Build().SerializeAsString(), before);
}

TEST(ChunkBuilderTest, AGraphThatNoMessageTakesIsNamed) {
  absl::StatusOr<ChunkBuilder> builder = ChunkBuilder::Create(Schema());
  ASSERT_TRUE(builder.ok());
  const uint32_t nodes = ChunkBuilder::kMaxGraphBytes / sizeof(float);
  const std::string rows(std::size_t{nodes} * sizeof(float), '\0');
  const std::string why =
      "it has 67043329 bytes, a message takes at most 67043328: cut it (docs/partitioning.md)";
  EXPECT_EQ(builder->Add({nodes, 0}, {rows, "a"}, 8),
            absl::InvalidArgumentError("graph 0 of the chunk: graph 8: " + why));
  EXPECT_EQ(builder->Add({nodes, 0}, {rows, "a"}),
            absl::InvalidArgumentError("graph 0 of the chunk: " + why));
  EXPECT_EQ(builder->num_graphs(), 0);
  EXPECT_EQ(builder->byte_size(), 0);
  const absl::string_view fitting(rows.data(), rows.size() - sizeof(float));
  EXPECT_TRUE(builder->Add({nodes - 1, 0}, {fitting, "a"}, 8).ok());
}

// Of each kind of message, exactly as much as a message takes, and one byte more.
TEST(MessageSizeTest, TheMostIsTakenAndOneMoreIsRefused) {
  constexpr std::size_t kMost = ChunkBuilder::kMaxGraphBytes;
  const auto expect = [](std::size_t beyond, const absl::Status& checked) {
    if (beyond == 0) {
      EXPECT_TRUE(checked.ok()) << checked;
      return;
    }
    EXPECT_EQ(checked.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(checked.message()), HasSubstr("67043329 bytes"));
  };
  for (const std::size_t beyond : {0, 1}) {
    // A tag and four bytes of length stand before this.
    const std::string bytes(kMost - 5 + beyond, '\0');
    v1::SizeTable sizes;
    sizes.set_counts(bytes);
    ASSERT_EQ(sizes.ByteSizeLong(), kMost + beyond);
    expect(beyond, CheckMessageSize(sizes));
    v1::Examples examples;
    examples.add_examples(bytes);
    ASSERT_EQ(examples.ByteSizeLong(), kMost + beyond);
    expect(beyond, CheckMessageSize(examples));
    v1::GraphChunk chunk;
    chunk.add_tensors()->set_data(bytes.substr(5));
    ASSERT_EQ(chunk.ByteSizeLong(), kMost + beyond);
    expect(beyond, CheckMessageSize(chunk, nullptr));
  }
}

TEST(ChunkBuilderTest, ABadSchemaIsRefused) {
  v1::GraphSchema schema = Schema();
  schema.mutable_tensors(0)->set_component("faces");
  EXPECT_EQ(ChunkBuilder::Create(schema).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace packhouse::client
