#include "service/stores/datasets/chunk_record.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/internal/stored.pb.h"
#include "service/base/checksum.h"
#include "service/stores/datasets/prepared_append.h"
#include "service/stores/datasets/stored_values.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/stored_keys.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Record(const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
                   const ChunkRecordPlace& place) {
  const EncodedChunk encoded = EncodedChunk::Create(&chunk, group_ids).value();
  std::string bytes(encoded.num_bytes(), '\x55');
  encoded.WriteTo(bytes.data(), place);
  return bytes;
}

TEST(ChecksumTest, IsCrc32c) {
  // The check value of the catalogue of CRCs, and RFC 3720, B.4.
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aa);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43);
  EXPECT_EQ(Crc32c(""), 0U);
  EXPECT_EQ(Crc32c("6789", Crc32c("12345")), 0xe3069283);
}

TEST(ChunkRecordTest, RandomChunksComeBack) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    const size_t n = random.Below(20);
    const GraphChunk chunk = RandomChunk(random, &schema, n, 5, random.Next() >> 1);
    std::vector<uint64_t> groups;
    for (size_t i = 0; seed % 2 == 0 && i < n; ++i) groups.push_back(random.Next());
    const ChunkRecordPlace place = {random.Next(), random.Next()};
    // What follows a record is not part of it.
    const std::string bytes = Record(chunk, groups, place) + std::string(seed % 9, '\x77');
    PH_ASSERT_OK_AND_ASSIGN(const ChunkRecordView view, ChunkRecordView::Parse(bytes));
    EXPECT_TRUE(view.place() == place);
    EXPECT_EQ(view.num_bytes(), bytes.size() - seed % 9);
    EXPECT_THAT(view.CheckColumns(), IsOk());
    std::vector<uint64_t> read_groups;
    view.AppendGroupIds(read_groups);
    EXPECT_EQ(read_groups, groups);
    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk read, view.ToChunk(&schema, nullptr));
    ASSERT_EQ(read.num_graphs(), n);
    for (size_t i = 0; i < n; ++i) EXPECT_TRUE(SameGraph(read, i, chunk, i));
    for (size_t t = 0; t < read.num_columns(); ++t) {
      const size_t offset = read.column(t).data() - bytes.data();
      EXPECT_EQ((offset + kRecordOffsetInPage) % kColumnAlignment, 0U);
    }
  }
}

// Each bit of a record is guarded, except in the gaps between columns, which nobody reads.
TEST(ChunkRecordTest, EveryFlippedBitIsFoundOrHarmless) {
  Random random(1);
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}},
                                                        {"e", DType::kInt32, {2}, 1, 0, {}}})
          .value();
  const GraphChunk chunk = RandomChunk(random, &schema, 5, 4, 3);
  const std::vector<uint64_t> groups = {1, 1, 2, 2, 3};
  const std::string bytes = Record(chunk, groups, {7, 100});
  size_t harmless = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto view = ChunkRecordView::Parse(flipped);
    if (!view.ok()) {
      EXPECT_THAT(view, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("stored chunk"))) << bit;
      continue;
    }
    if (!view->CheckColumns().ok()) {
      EXPECT_THAT(view->CheckColumns(), StatusIs(absl::StatusCode::kDataLoss, _));
      continue;
    }
    ++harmless;
    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk read, view->ToChunk(&schema, nullptr));
    for (size_t i = 0; i < 5; ++i) ASSERT_TRUE(SameGraph(read, i, chunk, i)) << bit;
  }
  EXPECT_LE(harmless, 8 * 2 * kColumnAlignment);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THAT(ChunkRecordView::Parse(bytes.substr(0, length)),
                StatusIs(absl::StatusCode::kDataLoss, _));
  }
}

// Numbers that cannot be are refused though all checksums are good: each field of the header, by
// its place and what it says.
TEST(ChunkRecordTest, NumbersThatCannotBeAreRefused) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value();
  const GraphChunk chunk =
      GraphChunk::Create(&schema, SizeTable::WithConsecutiveIds(2, 2, {2, 1, 1, 0}, 40).value(),
                         {"aabbcc"}, nullptr)
          .value();
  const std::string sound = Record(chunk, {}, {7, 100});
  ASSERT_EQ(sound.size(), 182U);  // 112 of header, 24 of index, 40 to the line, 6 of the column.
  const auto parse = [](std::string bytes, size_t at, uint64_t value, size_t width) {
    std::memcpy(bytes.data() + at, &value, width);
    const uint32_t index_crc = Crc32c(absl::string_view(bytes).substr(112, 24));
    std::memcpy(bytes.data() + 72, &index_crc, sizeof(index_crc));
    const uint32_t crc = Crc32c(absl::string_view(bytes).substr(0, 108));
    std::memcpy(bytes.data() + 108, &crc, sizeof(crc));
    return ChunkRecordView::Parse(bytes).status();
  };
  struct Case {
    size_t at;
    uint64_t value;
    size_t width;
    absl::string_view what;  // Empty: nothing is wrong.
  };
  constexpr uint64_t kMostGraphs = kMaxChunkRecordGraphs;
  for (const Case& each : std::vector<Case>{
           {16, 9, 8, ""},
           {32, 3, 8, "an index of 24 bytes for 3 graphs, 2 components and 1 tensors"},
           {32, kMostGraphs + 1, 8,
            "an index of 24 bytes for 16777217 graphs, 2 components and 1 tensors"},
           {40, 1, 4, "an index of 24 bytes for 2 graphs, 1 components and 1 tensors"},
           {40, 65, 4, "an index of 24 bytes for 2 graphs, 65 components and 1 tensors"},
           {44, 2, 4, "an index of 24 bytes for 2 graphs, 2 components and 2 tensors"},
           {44, 257, 4, "an index of 24 bytes for 2 graphs, 2 components and 257 tensors"},
           {12, 1, 4, "an index of 24 bytes for 2 graphs, 2 components and 1 tensors"},
           {12, 2, 4, "an index of 24 bytes for 2 graphs, 2 components and 1 tensors"},
           {48, UINT64_MAX - 1, 8, ""},
           {48, UINT64_MAX, 8, "2 graphs numbered from 18446744073709551615"},
           {64, 183, 8, "a record of 183 bytes with an index of 24, there are 182"},
           {64, 111, 8, "a record of 111 bytes with an index of 24, there are 182"},
           {64, 135, 8, "a record of 135 bytes with an index of 24, there are 182"},
           {64, 181, 8, "column 0 of 6 bytes does not fit the record's 181"},
           {64, 175, 8, "column 0 of 6 bytes does not fit the record's 175"},
           {128, 7, 8, "column 0 of 7 bytes does not fit the record's 182"},
           {128, 5, 8, "its columns end at 181, the record at 182"},
           {56, 71, 8, "a record of 182 bytes with an index of 71, there are 182"},
       }) {
    EXPECT_EQ(parse(sound, each.at, each.value, each.width),
              each.what.empty() ? absl::OkStatus()
                                : absl::DataLossError(absl::StrCat("stored chunk: ", each.what)))
        << each.at << " " << each.value;
  }
  EXPECT_EQ(ChunkRecordView::Parse(sound.substr(0, 111)).status(),
            absl::DataLossError("stored chunk: 111 bytes, the header alone has 112"));
}

// As many graphs as a record may have, and not one more.
TEST(ChunkRecordTest, ARecordIsBounded) {
  const GraphSchema schema = GraphSchema::Create(SizeSchema::Create({}).value(), {}).value();
  const auto encode = [&](uint64_t num_graphs) {
    const auto chunk =
        GraphChunk::OfSizes(&schema, SizeTable::WithConsecutiveIds(num_graphs, 0, {}, 0).value());
    return EncodedChunk::Create(&chunk, {}).status();
  };
  EXPECT_THAT(encode(kMaxChunkRecordGraphs), IsOk());
  EXPECT_EQ(encode(kMaxChunkRecordGraphs + 1),
            absl::InvalidArgumentError("chunk: 16777217 graphs, at most 16777216"));
}

// Any id may be the producer's, the largest too, alone or after those before it.
TEST(ChunkRecordTest, TheLargestIdsComeBack) {
  const GraphSchema schema = GraphSchema::Create(SizeSchema::Create({}).value(), {}).value();
  for (const std::vector<uint64_t>& ids : {std::vector<uint64_t>{UINT64_MAX},
                                           {UINT64_MAX - 1, UINT64_MAX},
                                           {UINT64_MAX - 2},
                                           {UINT64_MAX, 0}}) {
    const auto chunk =
        GraphChunk::OfSizes(&schema, SizeTable::WithIds(ids.size(), 0, {}, ids).value());
    const std::string bytes = Record(chunk, {}, {1, 0});
    PH_ASSERT_OK_AND_ASSIGN(const ChunkRecordView view, ChunkRecordView::Parse(bytes));
    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk read, view.ToChunk(&schema, nullptr));
    ASSERT_EQ(read.num_graphs(), ids.size());
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(read.sizes().graph_id(i), ids[i]);
  }
}

// Sound by itself, and not of this data set: as damaged as any other, whatever differs.
TEST(ChunkRecordTest, ARecordOfAnotherSchemaIsDamaged) {
  const TensorSpec x = {"x", DType::kInt16, {}, 0, {}, {}};
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {x}).value();
  const GraphChunk chunk =
      GraphChunk::Create(&schema, SizeTable::WithConsecutiveIds(2, 2, {2, 1, 1, 0}, 40).value(),
                         {"aabbcc"}, nullptr)
          .value();
  const std::string bytes = Record(chunk, {}, {7, 100});
  PH_ASSERT_OK_AND_ASSIGN(const ChunkRecordView view, ChunkRecordView::Parse(bytes));
  EXPECT_THAT(view.ToChunk(&schema, nullptr), IsOk());
  const auto expect_damaged = [&](SizeSchema sizes, std::vector<TensorSpec> tensors,
                                  absl::string_view what) {
    const GraphSchema other = GraphSchema::Create(std::move(sizes), std::move(tensors)).value();
    EXPECT_EQ(view.ToChunk(&other, nullptr).status(),
              absl::DataLossError(absl::StrCat("stored chunk: ", what)));
  };
  expect_damaged(SizeSchema::Create({"nodes"}).value(), {x}, "2 components, the data set has 1");
  const SizeSchema sizes = SizeSchema::NodesAndEdges();
  expect_damaged(sizes, {}, "chunk: 1 tensors, the schema has 0");
  TensorSpec another = x;
  another.name = "y";
  expect_damaged(sizes, {x, another}, "chunk: 1 tensors, the schema has 2");
  another = x;
  another.dtype = DType::kInt32;
  expect_damaged(sizes, {another},
                 "chunk: tensor 'x' has 6 bytes, its 2 graphs have 3 rows of 4 bytes");
  another = x;
  another.component = 1;
  expect_damaged(sizes, {another},
                 "chunk: tensor 'x' has 6 bytes, its 2 graphs have 1 rows of 2 bytes");
}

TEST(ChunkRecordTest, AnotherVersionIsNamed) {
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  std::string bytes = Record(GraphChunk::OfSizes(&schema, SizeTable()), {}, {1, 0});
  bytes[8] = 9;
  const uint32_t crc = Crc32c(absl::string_view(bytes).substr(0, 108));
  std::memcpy(bytes.data() + 108, &crc, sizeof(crc));
  EXPECT_THAT(ChunkRecordView::Parse(bytes),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("format version 9, this packhoused reads version 1")));
}

// The worked example of docs/storage-format.md.
TEST(ChunkRecordTest, TheExampleInTheDocumentation) {
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(),
                                                 {{"x", DType::kInt16, {}, 0, {}, {}},
                                                  {"edge_index", DType::kInt32, {2}, 1, 0, {}}})
                                 .value();
  const std::vector<int16_t> x = {10, 11, 12};
  const std::vector<int32_t> edges = {0, 1};
  const auto view = [](const auto& values) {
    return absl::string_view(reinterpret_cast<const char*>(values.data()),
                             values.size() * sizeof(values[0]));
  };
  const GraphChunk chunk =
      GraphChunk::Create(&schema, SizeTable::WithConsecutiveIds(2, 2, {2, 1, 1, 0}, 40).value(),
                         {view(x), view(edges)}, nullptr)
          .value();
  const std::string bytes = Record(chunk, std::vector<uint64_t>{5, 6}, {3, 1000});
  EXPECT_EQ(bytes.size(), 248U);
  EXPECT_EQ(absl::BytesToHexString(bytes),
            "50484348554e4b0a"  // magic
            "01000000"
            "02000000"          // version 1; flags: group ids
            "0300000000000000"  // data set 3
            "e803000000000000"  // first graph 1000
            "0200000000000000"  // 2 graphs
            "02000000"
            "02000000"          // 2 components, 2 columns
            "2800000000000000"  // first id 40
            "3000000000000000"  // 48 bytes of index
            "f800000000000000"  // 248 bytes in all
            "49732d90"
            "bf458510"  // checksums of the index and the columns
            "00000000000000000000000000000000000000000000000000000000"
            "d2ee8d62"  // checksum of the header
            "02000000"
            "01000000"  // graph 1000: 2 nodes, 1 edge
            "01000000"
            "00000000"  // graph 1001: 1 node
            "0500000000000000"
            "0600000000000000"  // group ids
            "0600000000000000"
            "0800000000000000"                  // lengths of the columns
            "00000000000000000000000000000000"  // to 176: 192 in the page
            "0a000b000c00"                      // x
                + std::string(2 * 58, '0') +    // to 240: 256 in the page
                "0000000001000000");            // edge_index
}

// No crash, whatever comes; other bytes may well be another good schema, if they are what it is
// encoded as.
void ExpectExactOrLost(const std::string& bytes) {
  const auto schema = DecodeSchema(bytes);
  if (schema.ok()) {
    EXPECT_EQ(EncodeSchema(*schema), bytes);
  } else {
    EXPECT_THAT(schema, StatusIs(absl::StatusCode::kDataLoss, _));
  }
}

TEST(StoredValuesTest, SchemasComeBack) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    const std::string bytes = EncodeSchema(schema);
    PH_ASSERT_OK_AND_ASSIGN(const GraphSchema read, DecodeSchema(bytes));
    EXPECT_THAT(CheckSameSchema("set", read, schema), IsOk());
    EXPECT_EQ(EncodeSchema(read), bytes);
    for (size_t length = 0; length < bytes.size(); ++length) {
      ExpectExactOrLost(bytes.substr(0, length));
    }
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(random.Next());
      ExpectExactOrLost(changed);
    }
  }
}

TEST(StoredValuesTest, KeysAreInTheOrderOfTheirNumbers) {
  EXPECT_LT(RecordKey(1, 255), RecordKey(1, 256));
  EXPECT_LT(RecordKey(1, UINT64_MAX), RecordKey(2, 0));
  EXPECT_EQ(NumberAtEnd(RecordKey(1, 0x123456789abcdef0)), 0x123456789abcdef0U);
  EXPECT_EQ(NumberAtEnd(StateKey(UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ(NumberAtEnd("s12"), std::nullopt);
}

TEST(StoredValuesTest, AValueBelongsToItsKey) {
  const std::string value = WithChecksum("key", "payload");
  EXPECT_EQ(CheckedPayload("key", value).value(), "payload");
  EXPECT_THAT(CheckedPayload("kez", value),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("kez")));
  EXPECT_THAT(CheckedPayload("key", value.substr(1)), StatusIs(absl::StatusCode::kDataLoss, _));
  EXPECT_THAT(CheckedPayload("key", ""), StatusIs(absl::StatusCode::kDataLoss, _));
}

TEST(StoredValuesTest, DefinitionsStatesAndRunsComeBack) {
  StoredDefinition definition;
  definition.dataset = 77;
  definition.id = 99;
  definition.options = {123, {1, 0, 5}, true};
  definition.schema = "schema";
  PH_ASSERT_OK_AND_ASSIGN(const StoredDefinition read,
                          DecodeDefinition(EncodeDefinition(definition)));
  EXPECT_EQ(read.dataset, 77U);
  EXPECT_EQ(read.id, 99U);
  EXPECT_EQ(read.options.max_bytes, 123U);
  EXPECT_THAT(read.options.max_counts, ElementsAre(1, 0, 5));
  EXPECT_TRUE(read.options.grouped);
  EXPECT_EQ(read.schema, "schema");
  const StoredState state = {true, 1, 2, 3, 4, 5, 6, 7, 8, 9, {10, 11}};
  PH_ASSERT_OK_AND_ASSIGN(const StoredState read_state, DecodeState(EncodeState(state)));
  EXPECT_EQ(EncodeState(read_state), EncodeState(state));
  EXPECT_THAT(DecodeState(EncodeState(state) + "x"), StatusIs(absl::StatusCode::kDataLoss, _));
  // A field that a later release may add is refused, not left out.
  EXPECT_THAT(DecodeState(EncodeState(state) + std::string("\xa0\x01\x01", 3)),
              StatusIs(absl::StatusCode::kDataLoss, _));
  for (const ProducerHistory& history :
       {ProducerHistory(UINT64_MAX, {}, 0), ProducerHistory(3, {7, 0, 9}, 1'700'000'000)}) {
    EXPECT_EQ(DecodeProducer(EncodeProducer(history)).value(), history);
  }
  EXPECT_THAT(DecodeProducer(EncodeProducer(ProducerHistory(2, {7, 8, 9}, 0))),
              StatusIs(absl::StatusCode::kDataLoss, _));
  EXPECT_EQ(DecodeNumber(EncodeNumber(7)).value(), 7U);
  EXPECT_THAT(DecodeNumber(EncodeNumber(7) + "x"), StatusIs(absl::StatusCode::kDataLoss, _));

  for (const size_t l : {0, 1, 3}) {
    Random random(l);
    SizeHistogram histogram(l);
    for (int i = 0; i < 100; ++i) {
      std::vector<uint32_t> tuple(l);
      for (uint32_t& count : tuple) count = random.Below(10);
      ASSERT_THAT(histogram.Add(tuple, random.Between(1, 5)), IsOk());
    }
    SizeHistogram sum(l);
    ASSERT_THAT(AddRun(EncodeRun(histogram), sum), IsOk());
    EXPECT_TRUE(sum == histogram);
    SizeHistogram other(l + 1);
    EXPECT_THAT(AddRun(EncodeRun(histogram), other), StatusIs(absl::StatusCode::kDataLoss, _));
  }
}

// What was not written as a run is none, and sums that are too large are refused.
TEST(StoredValuesTest, ARunIsReadAsItIsWrittenOrNotAtAll) {
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({{3, 4}}, 5), IsOk());
  ASSERT_THAT(histogram.Add({{0, 0}}, UINT64_MAX - 9), IsOk());
  const std::string run = EncodeRun(histogram);
  internal::HistogramRun good;
  ASSERT_TRUE(good.ParseFromString(run));
  const auto read = [](const internal::HistogramRun& bad) {
    SizeHistogram sum(2);
    return AddRun(bad.SerializeAsString(), sum);
  };
  EXPECT_THAT(read(good), IsOk());
  const auto is_lost = StatusIs(absl::StatusCode::kDataLoss, HasSubstr("histogram"));
  for (const size_t cut : {1, 4, 8}) {
    internal::HistogramRun bad = good;
    bad.mutable_tuples()->resize(16 - cut);
    EXPECT_THAT(read(bad), is_lost) << cut;
    bad = good;
    bad.mutable_counts()->resize(16 - cut);
    EXPECT_THAT(read(bad), is_lost) << cut;
    bad = good;
    bad.mutable_counts()->append(cut, '\0');
    EXPECT_THAT(read(bad), is_lost) << cut;
  }
  SizeHistogram sum(2);
  EXPECT_THAT(AddRun(run + std::string("\xa0\x01\x01", 3), sum), is_lost);
  EXPECT_THAT(AddRun(run.substr(0, run.size() - 1), sum), is_lost);
  EXPECT_THAT(AddRun(run + run, sum), is_lost);  // The same fields twice.
  ASSERT_THAT(AddRun(run, sum), IsOk());
  EXPECT_FALSE(AddRun(run, sum).ok());
}

// Totals are sums that fit, or as they were.
TEST(PreparedAppendTest, TotalsDoNotWrapAround) {
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  const auto chunk =
      GraphChunk::OfSizes(&schema, SizeTable::WithConsecutiveIds(2, 2, {3, 0, 4, 1}, 0).value());
  const std::optional<ProducerSequence> producer;
  PH_ASSERT_OK_AND_ASSIGN(const PreparedAppend append,
                          PrepareAppend({"set", 0}, chunk, {}, producer));
  std::vector<uint64_t> totals = {10, UINT64_MAX - 1};
  EXPECT_THAT(AddToTotals(append, totals), IsOk());
  EXPECT_THAT(totals, ElementsAre(17, UINT64_MAX));
  EXPECT_THAT(AddToTotals(append, totals),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("component 1 ")));
  EXPECT_THAT(totals, ElementsAre(17, UINT64_MAX));
}

// Each refusal by its whole message.
TEST(PreparedAppendTest, RefusalsSayWhatIsAndWhatShouldBe) {
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  const SizeTable sizes = SizeTable::WithConsecutiveIds(2, 2, {3, 0, 4, 1}, 70).value();
  const auto chunk = GraphChunk::OfSizes(&schema, sizes);
  const std::optional<ProducerSequence> none;
  const std::vector<uint64_t> groups = {1, 2};
  StoredDefinition definition;
  definition.schema = EncodeSchema(schema);
  const auto fits = [&](absl::Span<const uint64_t> of_graphs) {
    return CheckFitsDefinition(PrepareAppend({"set", 0}, chunk, of_graphs, none).value(),
                               definition);
  };
  EXPECT_THAT(fits({}), IsOk());
  EXPECT_EQ(fits(groups), absl::InvalidArgumentError("data set 'set' was created without group "
                                                     "ids, the chunk has them"));
  definition.options.grouped = true;
  EXPECT_THAT(fits(groups), IsOk());
  EXPECT_EQ(fits({}), absl::InvalidArgumentError(
                          "data set 'set' was created with group ids, the chunk has none"));
  definition.options.max_counts = {3, 1};
  EXPECT_EQ(fits(groups), absl::OutOfRangeError("data set 'set': graph 71 has 4 nodes, at most 3"));
  definition.options.max_counts = {4, 0};
  EXPECT_THAT(fits(groups), IsOk());
  definition.schema = EncodeSchema(GraphSchema::Create(SizeSchema::Create({}).value(), {}).value());
  EXPECT_EQ(fits(groups), absl::FailedPreconditionError(
                              "data set 'set': components [nodes, edges], it was created with []"));
  definition.schema = "x";
  EXPECT_THAT(fits(groups), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("schema")));
  EXPECT_EQ(TooManyProducers("set", 7, false),
            absl::ResourceExhaustedError("data set 'set': there are 7 producers, at most 4096"));
  EXPECT_EQ(TooManyProducers("set", 7, true),
            absl::ResourceExhaustedError(
                "data set 'set': there are 7 producers whose names were made up for one call and "
                "whose time for retries is not over, at most 65536"));
  // Where ids are counted, a chunk is the same wherever they begin.
  const auto later =
      GraphChunk::OfSizes(&schema, SizeTable::WithConsecutiveIds(2, 2, {3, 0, 4, 1}, 71).value());
  for (const bool counts_ids : {false, true}) {
    std::optional<ProducerSequence> producer = ProducerSequence{"p", 1};
    producer->counts_ids = counts_ids;
    EXPECT_EQ(PrepareAppend({"set", 0}, chunk, {}, producer)->digest ==
                  PrepareAppend({"set", 0}, later, {}, producer)->digest,
              counts_ids);
  }
}

TEST(PreparedAppendTest, AQuotaIsTakenToTheLastByte) {
  struct Case {
    uint64_t used, added, quota;
    bool fits;
  };
  for (const Case& each : std::vector<Case>{{7, 1000, 0, true},
                                            {0, 5, 5, true},
                                            {5, 0, 5, true},
                                            {2, 3, 5, true},
                                            {2, 4, 5, false},
                                            {6, 0, 5, false},
                                            {6, 1, 5, false},
                                            {1, UINT64_MAX, 5, false}}) {
    const absl::Status status = CheckDatasetQuota("set", each.used, each.added, each.quota);
    if (each.fits) {
      EXPECT_THAT(status, IsOk());
    } else {
      EXPECT_EQ(status, absl::ResourceExhaustedError(
                            absl::StrCat("data set 'set': ", each.used, " + ", each.added,
                                         " bytes, its quota is ", each.quota)));
    }
  }
}

}  // namespace
}  // namespace packhouse
