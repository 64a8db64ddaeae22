#include "service/wings/cluster/datasets/object_values.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;

ObjectChunk Chunk() {
  ObjectChunk chunk;
  chunk.object = 1000;
  chunk.num_bytes = 100;
  chunk.crc = 7;
  chunk.first_graph = 40;
  // A gap between, and one behind.
  chunk.records = {{0, 30, 2}, {35, 40, 3}};
  chunk.run_offset = 80;
  chunk.run_bytes = 20;
  chunk.run_crc = 9;
  chunk.run = "run";
  return chunk;
}

TEST(ObjectValuesTest, NamesOfObjectsAreReadAgain) {
  uint64_t id = 0;
  uint64_t object = 0;
  for (const std::string& name :
       {ChunkObject(0xab, 0xcd), ManifestObject(0xab, 0xcd), RunObject(0xab, 0xcd)}) {
    EXPECT_TRUE(ParseDatasetObject(name, id, object)) << name;
    EXPECT_EQ(id, 0xabU);
    EXPECT_EQ(object, 0xcdU);
    EXPECT_TRUE(name.starts_with(DatasetObjects(0xab)));
    EXPECT_FALSE(ParseDatasetObject(name + "/x", id, object));
    EXPECT_FALSE(ParseDatasetObject(name + "0", id, object));
    EXPECT_FALSE(ParseDatasetObject(name.substr(0, name.size() - 1), id, object));
    EXPECT_FALSE(ParseDatasetObject("e" + name.substr(1), id, object));
    EXPECT_FALSE(ParseDatasetObject(name.substr(0, name.size() - 1) + "g", id, object));
  }
  const std::string other = DatasetObjects(0xab) + "x/00000000000000cd";
  EXPECT_FALSE(ParseDatasetObject(other, id, object));
  EXPECT_NE(ChunkObject(1, 2), ManifestObject(1, 2));
  EXPECT_NE(ChunkObject(1, 2), RunObject(1, 2));
}

// A value is read if it is exactly what would be written, and nothing else is.
template <typename Value>
void ExpectExact(const std::string& bytes,
                 const std::function<absl::StatusOr<Value>(absl::string_view)>& decode,
                 const std::function<std::string(const Value&)>& encode) {
  PH_ASSERT_OK_AND_ASSIGN(const Value value, decode(bytes));
  EXPECT_EQ(encode(value), bytes);
  EXPECT_THAT(decode(bytes + "x").status(), StatusIs(absl::StatusCode::kDataLoss, _));
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const std::string& other :
         {bytes.substr(0, at),
          bytes.substr(0, at) + static_cast<char>(bytes[at] ^ 1) + bytes.substr(at + 1)}) {
      const absl::StatusOr<Value> read = decode(other);
      EXPECT_TRUE(!read.ok() || encode(*read) == other) << at;
    }
  }
}

TEST(ObjectValuesTest, AreReadAsTheyWereWritten) {
  ExpectExact<ObjectChunk>(EncodeObjectChunk(Chunk()), DecodeObjectChunk, EncodeObjectChunk);
  ExpectExact<ObjectPage>(EncodeObjectPage({1, 2, 3, 4, 5, 6, 7, 8}), DecodeObjectPage,
                          EncodeObjectPage);
  ExpectExact<ObjectStoreTotals>(EncodeObjectTotals({1, 2}), DecodeObjectTotals,
                                 EncodeObjectTotals);
  PH_ASSERT_OK_AND_ASSIGN(const ObjectPage page,
                          DecodeObjectPage(EncodeObjectPage({1, 2, 3, 4, 5, 6, 7, 8})));
  EXPECT_EQ(page.object, 1U);
  EXPECT_EQ(page.first_graph, 2U);
  EXPECT_EQ(page.end_graph, 3U);
  EXPECT_EQ(page.num_chunks, 4U);
  EXPECT_EQ(page.manifest_bytes, 5U);
  EXPECT_EQ(page.manifest_crc, 6U);
  EXPECT_EQ(page.run_bytes, 7U);
  EXPECT_EQ(page.run_crc, 8U);
  PH_ASSERT_OK_AND_ASSIGN(const ObjectChunk chunk, DecodeObjectChunk(EncodeObjectChunk(Chunk())));
  EXPECT_EQ(chunk.object, 1000U);
  EXPECT_EQ(chunk.num_bytes, 100U);
  EXPECT_EQ(chunk.crc, 7U);
  EXPECT_EQ(chunk.run_offset, 80U);
  EXPECT_EQ(chunk.run_bytes, 20U);
  EXPECT_EQ(chunk.first_graph, 40U);
  EXPECT_EQ(chunk.num_graphs(), 5U);
  EXPECT_EQ(chunk.TagOf(chunk.records[1]), 1035U);
  EXPECT_EQ(chunk.run_crc, 9U);
  // A page of chunks has their runs in an object of its own.
  PH_ASSERT_OK_AND_ASSIGN(const auto chunks,
                          DecodeManifestPage(EncodeManifestPage({Chunk(), Chunk()})));
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[1].run, "");
  EXPECT_EQ(chunks[1].records[1].num_graphs, 3U);
}

TEST(ObjectValuesTest, RecordsLieOneAfterTheOtherWithinTheirObject) {
  using Change = std::function<void(ObjectChunk&)>;
  const auto read = [](const Change& change) {
    ObjectChunk chunk = Chunk();
    change(chunk);
    return DecodeObjectChunk(EncodeObjectChunk(chunk)).status();
  };
  // To the last byte, and side by side.
  EXPECT_THAT(read([](ObjectChunk& chunk) {
                chunk.records = {{0, 30, 1}, {30, 70, 1}};
                chunk.run_offset = 100;
                chunk.run_bytes = 0;
              }),
              IsOk());
  for (const Change& change :
       std::vector<Change>{[](ObjectChunk& chunk) { chunk.records[1].offset = 29; },
                           [](ObjectChunk& chunk) {
                             chunk.records[1] = {101, 0, 1};
                           },
                           [](ObjectChunk& chunk) {
                             chunk.records[1] = {35, 66, 1};
                           },
                           [](ObjectChunk& chunk) { chunk.records[0].num_graphs = 0; },
                           [](ObjectChunk& chunk) { chunk.run_bytes = 21; },
                           [](ObjectChunk& chunk) {
                             chunk.run_offset = 101;
                             chunk.run_bytes = 0;
                           }}) {
    EXPECT_THAT(read(change), StatusIs(absl::StatusCode::kDataLoss, _));
  }
}

}  // namespace
}  // namespace packhouse
