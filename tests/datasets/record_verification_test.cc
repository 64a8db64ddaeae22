#include "service/stores/datasets/record_verification.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/stores/datasets/record_dataset_reader.h"
#include "service/stores/datasets/store_check.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// One int32 for each edge, which numbers nodes or is a value like any other.
std::shared_ptr<const GraphSchema> Schema(bool numbers_nodes) {
  TensorSpec tensor;
  tensor.name = "source";
  tensor.dtype = DType::kInt32;
  tensor.component = 1;
  if (numbers_nodes) tensor.index_into = 0;
  return std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {tensor}).value());
}

// Good checksums are not all: the values must be such as the schema allows.
TEST(RecordVerificationTest, AnIndexOutOfRangeIsDamageThoughItsChecksumIsGood) {
  const auto written = Schema(false);
  const auto read = Schema(true);
  constexpr uint64_t kDataset = 7;
  for (const int32_t source : {1, 2, -1}) {
    // A graph of two nodes and one edge.
    PH_ASSERT_OK_AND_ASSIGN(const SizeTable sizes, SizeTable::WithConsecutiveIds(1, 2, {2, 1}, 0));
    const std::string column(reinterpret_cast<const char*>(&source), sizeof source);
    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk,
                            GraphChunk::Create(written.get(), sizes, {column}, nullptr));
    PH_ASSERT_OK_AND_ASSIGN(const EncodedChunk encoded, EncodedChunk::Create(&chunk, {}));
    std::string bytes(encoded.num_bytes(), '\0');
    encoded.WriteTo(bytes.data(), {kDataset, 0});

    StoredDataset dataset;
    dataset.id = kDataset;
    dataset.info.name = "set";
    dataset.info.schema = read;
    dataset.info.num_graphs = 1;
    dataset.Add(0, bytes);
    dataset.End();
    ASSERT_THAT(dataset.records, SizeIs(1));
    RecordVerification verification(&dataset, 1, [](const VerifyProgress&) { return true; });
    ASSERT_THAT(verification.Check(dataset.records[0], bytes.size()), IsOk());
    SizeHistogram histogram(2);
    ASSERT_THAT(histogram.AddTable(sizes), IsOk());
    const VerifyReport report = verification.Finish(histogram, {2, 1});
    ASSERT_EQ(report.num_damaged, source == 1 ? 0U : 1U) << source;
    ASSERT_THAT(report.damaged, SizeIs(report.num_damaged));
    if (source == 1) continue;
    EXPECT_THAT(report.damaged[0].status,
                StatusIs(absl::StatusCode::kDataLoss,
                         ::testing::AllOf(HasSubstr("'set'"), HasSubstr("source"))));
  }
}

// A record of one graph with two nodes and one edge, and one of what is stored of all records.
TEST(RecordVerificationTest, EachNumberThatIsNotThatOfTheRecordsIsNamed) {
  const auto schema = Schema(false);
  PH_ASSERT_OK_AND_ASSIGN(const SizeTable sizes, SizeTable::WithConsecutiveIds(1, 2, {2, 1}, 0));
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk,
                          GraphChunk::Create(schema.get(), sizes, {"1234"}, nullptr));
  PH_ASSERT_OK_AND_ASSIGN(const EncodedChunk encoded, EncodedChunk::Create(&chunk, {}));
  std::string bytes(encoded.num_bytes(), '\0');
  encoded.WriteTo(bytes.data(), {7, 0});
  StoredDataset right;
  right.id = 7;
  right.info.name = "set";
  right.info.schema = schema;
  right.info.num_graphs = 1;
  right.info.num_records = 1;
  right.info.num_bytes = bytes.size();
  right.Add(0, bytes);
  right.End();
  SizeHistogram counted(2);
  ASSERT_THAT(counted.AddTable(sizes), IsOk());

  const auto told = [&](const StoredDataset& stored, const SizeHistogram& histogram,
                        std::vector<uint64_t> totals) {
    RecordVerification verification(&stored, 1, [](const VerifyProgress&) { return true; });
    EXPECT_THAT(verification.Check(right.records[0], bytes.size()), IsOk());
    std::vector<std::string> words;
    for (const absl::Status& each : verification.Finish(histogram, totals).disagreements) {
      words.emplace_back(each.message());
    }
    return words;
  };
  EXPECT_THAT(told(right, counted, {2, 1}), SizeIs(0));
  EXPECT_THAT(told(right, counted, {3, 1}), ElementsAre(HasSubstr("2 nodes, should be 3")));
  EXPECT_THAT(told(right, counted, {2, 0}), ElementsAre(HasSubstr("1 edges, should be 0")));
  EXPECT_THAT(told(right, SizeHistogram(2), {2, 1}), ElementsAre(HasSubstr("histogram")));
  StoredDataset wrong = right;
  wrong.info.num_records = 2;
  EXPECT_THAT(told(wrong, counted, {2, 1}), ElementsAre(HasSubstr("1 records, should be 2")));
  wrong = right;
  ++wrong.info.num_bytes;
  EXPECT_THAT(told(wrong, counted, {2, 1}), ElementsAre(HasSubstr("bytes of records")));
  wrong = right;
  wrong.num_stray_records = 1;
  EXPECT_THAT(told(wrong, counted, {2, 1}), ElementsAre(HasSubstr("belong nowhere")));
}

// Of many damaged records the first are listed; the others are counted, and said to be there.
TEST(RecordVerificationTest, ManyDamagedRecordsAreCounted) {
  constexpr size_t kRecords = VerifyReport::kMaxListed + 2;
  StoredDataset dataset;
  dataset.info.name = "set";
  dataset.info.schema = Schema(false);
  dataset.info.num_graphs = 2 * kRecords;
  dataset.info.num_records = kRecords;
  dataset.info.num_bytes = 10 * kRecords;
  for (uint64_t i = 1; i <= kRecords; ++i) dataset.AddExact(2 * i, i, "");
  std::vector<std::string> told;
  RecordVerification verification(&dataset, kRecords, [&](const VerifyProgress& progress) {
    EXPECT_EQ(progress.num_records_total, kRecords);
    EXPECT_EQ(progress.num_bytes, 10 * progress.num_records);
    EXPECT_EQ(progress.num_bytes_total, 10 * kRecords);
    return true;
  });
  for (const StoredRecord& record : dataset.records) {
    ASSERT_THAT(verification.Check(record, 10), IsOk());
  }
  const VerifyReport report = verification.Finish(SizeHistogram(2), {1, 2});
  EXPECT_EQ(report.num_graphs, 2 * kRecords);
  EXPECT_EQ(report.num_damaged, kRecords);
  ASSERT_THAT(report.damaged, SizeIs(VerifyReport::kMaxListed));
  EXPECT_EQ(report.damaged[1].record, 1U);
  EXPECT_EQ(report.damaged[1].first_graph, 2U);
  EXPECT_EQ(report.damaged[1].num_graphs, 2U);
  // Sizes are compared only where all of them are known.
  EXPECT_THAT(report.disagreements, SizeIs(0));

  std::vector<std::string> damages;
  TellDamage("file", "se\nt", report, [&](const StoredDamage& damage) {
    damages.push_back(
        absl::StrCat(damage.file, "|", damage.place, "|", damage.what, "|", damage.cost));
  });
  ASSERT_THAT(damages, SizeIs(VerifyReport::kMaxListed + 1));
  EXPECT_EQ(
      damages[1],
      "file|record 1 of data set 'se\\nt'|data set 'set': record 1 (graphs [2, 4)): is missing"
      "|graphs 2 to 3 of data set 'se\\nt'");
  EXPECT_EQ(damages.back(), "file|data set 'se\\nt'|2 more records are damaged|data set 'se\\nt'");
  VerifyReport other;
  other.num_damaged = 1;
  other.damaged.push_back(report.damaged[0]);
  other.disagreements.push_back(absl::DataLossError("counts"));
  damages.clear();
  TellDamage("file", "set", other,
             [&](const StoredDamage& damage) { damages.push_back(damage.cost); });
  EXPECT_THAT(damages,
              ElementsAre("graphs 0 to 1 of data set 'set'",
                          "counts and histogram of data set 'set'; its records can be read"));
}

TEST(RecordVerificationTest, ItCanBeGivenUp) {
  StoredDataset dataset;
  dataset.info.name = "set";
  dataset.info.schema = Schema(false);
  dataset.AddExact(1, 0, "");
  RecordVerification verification(&dataset, 4, [](const VerifyProgress&) { return false; });
  EXPECT_EQ(verification.Check(dataset.records[0], 10),
            absl::CancelledError("data set 'set': given up after 1 of 4 records"));
}

// A record of the data set with the number 7, of as many graphs of one node.
std::string RecordOf(const GraphSchema& schema, uint64_t first_graph, size_t num_graphs,
                     bool grouped = false) {
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < num_graphs; ++i) {
    counts.push_back(1);
    counts.resize((i + 1) * schema.num_components());
  }
  const SizeTable sizes =
      SizeTable::WithConsecutiveIds(num_graphs, schema.num_components(), counts, 100 + first_graph)
          .value();
  const std::vector<absl::string_view> columns(schema.tensors().size());
  const GraphChunk chunk = GraphChunk::Create(&schema, sizes, columns, nullptr).value();
  const std::vector<uint64_t> groups(grouped ? num_graphs : 0);
  const EncodedChunk encoded = EncodedChunk::Create(&chunk, groups).value();
  std::string bytes(encoded.num_bytes(), '\0');
  encoded.WriteTo(bytes.data(), {7, first_graph});
  return bytes;
}

// Records by their keys, of which some are missing or bad: each graph is in one record, which is
// there or is said to be missing.
TEST(StoredDatasetTest, EachGraphHasARecord) {
  const auto schema = Schema(false);
  struct Stored {
    uint64_t first_graph;
    std::string bytes;
  };
  struct Case {
    uint64_t num_graphs;
    std::vector<Stored> stored;
    std::string records;  // Of each its graphs, and "!" if it cannot be read.
    uint64_t num_stray = 0;
  };
  const auto good = [&](uint64_t first, size_t n) {
    return Stored{first, RecordOf(*schema, first, n)};
  };
  const auto bad = [](uint64_t first) { return Stored{first, "bad"}; };
  const std::vector<Case> cases = {
      {0, {}, ""},
      {5, {}, "0-5! "},
      {5, {good(0, 2), good(2, 3)}, "0-2 2-5 "},
      {7, {good(0, 2), good(2, 3)}, "0-2 2-5 5-7! "},
      {5, {good(2, 3)}, "0-2! 2-5 "},
      {9, {good(0, 2), good(4, 5)}, "0-2 2-4! 4-9 "},
      // A bad record has what its neighbours leave it.
      {9, {good(0, 2), bad(2), good(6, 3)}, "0-2 2-6! 6-9 "},
      {9, {bad(0), good(6, 3)}, "0-6! 6-9 "},
      {9, {good(0, 2), bad(2)}, "0-2 2-9! "},
      {3, {good(0, 2), bad(2)}, "0-2 2-3! "},
      // One that says that it has more than there are, or none, is bad.
      {4, {good(0, 2), good(2, 3)}, "0-2 2-4! "},
      {4, {good(0, 0), good(2, 2)}, "0-2! 2-4 "},
      // Keys where no record can begin.
      {5, {good(0, 2), good(1, 1), good(2, 3), good(5, 1)}, "0-2 2-5 ", 2},
  };
  for (const Case& each : cases) {
    StoredDataset dataset;
    dataset.id = 7;
    dataset.info.name = "set";
    dataset.info.schema = schema;
    dataset.info.num_graphs = each.num_graphs;
    for (const Stored& record : each.stored) dataset.Add(record.first_graph, record.bytes);
    dataset.End();
    std::string records;
    for (size_t i = 0; i < dataset.records.size(); ++i) {
      const StoredRecord& record = dataset.records[i];
      EXPECT_EQ(record.number, i);
      absl::StrAppend(&records, record.first_graph, "-", record.end_graph,
                      dataset.View(record).ok() ? " " : "! ");
    }
    EXPECT_EQ(records, each.records);
    EXPECT_EQ(dataset.num_stray_records, each.num_stray) << each.records;
  }
}

// A record says where it belongs and what it has; in a part it keeps the name that it has in all.
TEST(StoredDatasetTest, ARecordIsWhatItShouldBe) {
  const auto schema = Schema(false);
  const std::string first = RecordOf(*schema, 0, 2);
  const std::string second = RecordOf(*schema, 2, 3);
  StoredDataset dataset;
  dataset.id = 7;
  dataset.info.name = "set";
  dataset.info.schema = schema;
  dataset.info.num_graphs = 5;
  dataset.Add(0, first);
  dataset.Add(2, second);
  dataset.End();
  EXPECT_THAT(dataset.View(dataset.records[1]), IsOk());
  const StoredDataset part = dataset.Part({1});
  EXPECT_EQ(part.info.num_graphs, 3U);
  EXPECT_EQ(part.info.num_records, 1U);
  ASSERT_THAT(part.records, SizeIs(1));
  EXPECT_EQ(part.records[0].first_graph, 0U);
  EXPECT_EQ(part.records[0].end_graph, 3U);
  EXPECT_THAT(part.View(part.records[0]), IsOk());
  EXPECT_EQ(part.Named(part.records[0], absl::DataLossError("why")),
            absl::DataLossError("data set 'set': record 1 (graphs [2, 5)): why"));

  const auto lost = [](const char* what) {
    return StatusIs(absl::StatusCode::kDataLoss,
                    ::testing::AllOf(HasSubstr("'set'"), HasSubstr(what)));
  };
  StoredRecord wrong = dataset.records[1];
  wrong.first_graph = 1;
  EXPECT_THAT(dataset.View(wrong), lost("should be 4 from 1 of number 7"));
  wrong = dataset.records[1];
  wrong.end_graph = 4;
  EXPECT_THAT(dataset.View(wrong), lost("should be 2 from 2 of number 7"));
  wrong.bytes = "";
  EXPECT_THAT(dataset.View(wrong), lost("is missing"));
  wrong.bytes = "x";
  EXPECT_THAT(dataset.View(wrong), lost("1 bytes"));
  StoredDataset other = dataset;
  other.id = 8;
  EXPECT_THAT(other.View(other.records[1]), lost("of number 8"));
  const auto grouped = RecordOf(*schema, 0, 2, true);
  const auto one_component = GraphSchema::Create(SizeSchema::Create({"nodes"}).value(), {}).value();
  const auto no_tensors = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  for (const std::string& bytes :
       {grouped, RecordOf(one_component, 0, 2), RecordOf(no_tensors, 0, 2)}) {
    wrong = dataset.records[0];
    wrong.bytes = bytes;
    EXPECT_THAT(dataset.View(wrong), lost("is not as the data set's schema says"));
  }
}

// Bytes that are not what they were, or not what the schema says: a reader and a check say the
// same.
TEST(StoredDatasetTest, WhatIsWrongWithARecordIsSaid) {
  const auto schema = Schema(false);
  PH_ASSERT_OK_AND_ASSIGN(const SizeTable sizes, SizeTable::WithConsecutiveIds(1, 2, {2, 1}, 0));
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk,
                          GraphChunk::Create(schema.get(), sizes, {"1234"}, nullptr));
  PH_ASSERT_OK_AND_ASSIGN(const EncodedChunk encoded, EncodedChunk::Create(&chunk, {}));
  std::string bytes(encoded.num_bytes(), '\0');
  encoded.WriteTo(bytes.data(), {7, 0});
  const auto expect = [&](const std::shared_ptr<const GraphSchema>& as, const std::string& what) {
    StoredDataset dataset;
    dataset.id = 7;
    dataset.info.name = "set";
    dataset.info.schema = as;
    dataset.info.num_graphs = 1;
    dataset.Add(0, bytes);
    dataset.End();
    const RecordDatasetReader reader(
        dataset, std::nullopt, [] { return absl::OkStatus(); }, nullptr);
    const absl::Status expected =
        absl::DataLossError(absl::StrCat("data set 'set': record 0 (graphs [0, 1)): ", what));
    EXPECT_EQ(reader.Graph(0).status(), expected);
    EXPECT_EQ(reader.Graph(0).status(), expected);
    RecordVerification verification(&dataset, 1, [](const VerifyProgress&) { return true; });
    EXPECT_THAT(verification.Check(dataset.records[0], bytes.size()), IsOk());
    const VerifyReport report = verification.Finish(SizeHistogram(2), {2, 1});
    ASSERT_THAT(report.damaged, SizeIs(1));
    EXPECT_EQ(report.damaged[0].status, expected);
  };
  TensorSpec wide = schema->tensors()[0];
  wide.dtype = DType::kInt64;
  expect(std::make_shared<const GraphSchema>(
             GraphSchema::Create(SizeSchema::NodesAndEdges(), {wide}).value()),
         "stored chunk: chunk: tensor 'source' has 4 bytes, its 1 graphs have 1 rows of 8 bytes");
  bytes.back() = '5';
  expect(schema, absl::StrCat("stored chunk: the tensors have checksum ", Crc32c("1235"),
                              ", stored is ", Crc32c("1234")));
}

// Where a record cannot be read there are zeros, also for the groups.
TEST(StoredDatasetTest, ARecordThatIsLostKeepsItsPlaceAmongGroups) {
  const auto schema = Schema(false);
  const std::string last = RecordOf(*schema, 2, 1, true);
  StoredDataset dataset;
  dataset.id = 7;
  dataset.info.name = "set";
  dataset.info.schema = schema;
  dataset.info.options.grouped = true;
  dataset.info.num_graphs = 4;
  dataset.Add(0, "bad");
  dataset.Add(2, last);
  dataset.End();
  const RecordDatasetReader reader(
      dataset, std::nullopt, [] { return absl::OkStatus(); }, nullptr);
  EXPECT_THAT(reader.group_ids(), SizeIs(4));
  EXPECT_THAT(reader.graph_ids(), ElementsAre(0, 0, 102, 0));
  EXPECT_THAT(reader.counts(), ElementsAre(0, 0, 0, 0, 1, 0, 0, 0));
  ASSERT_THAT(reader.unreadable(), SizeIs(2));
  EXPECT_EQ(reader.unreadable()[1].record, 2U);
  EXPECT_EQ(reader.unreadable()[1].first_graph, 3U);
  EXPECT_EQ(reader.Graph(4).status(),
            absl::OutOfRangeError("data set 'set': graph 4, there are 4"));
  EXPECT_THAT(reader.Graph(2), IsOk());
  SizeHistogram counted(2);
  EXPECT_THAT(counted.Add({{0, 0}}, 3), IsOk());
  EXPECT_THAT(counted.Add({{1, 0}}), IsOk());
  EXPECT_TRUE(reader.histogram() == counted);
}

// Chunks and their readers say that the file is lost.
TEST(StoredDatasetTest, ChunksSayWhatIsLost) {
  const auto schema = Schema(false);
  const std::string bytes = RecordOf(*schema, 0, 2);
  StoredDataset dataset;
  dataset.id = 7;
  dataset.info.name = "set";
  dataset.info.schema = schema;
  dataset.info.num_graphs = 5;
  dataset.Add(0, bytes);
  dataset.End();
  absl::Status state;
  const RecordDatasetChunks chunks(
      dataset, [&] { return state; }, nullptr);
  EXPECT_THAT(chunks.num_graphs(), ElementsAre(2, 3));
  EXPECT_GE(chunks.bytes(), 2 * (sizeof(StoredRecord) + sizeof(uint32_t)));
  EXPECT_LE(chunks.bytes(), 4 * (sizeof(StoredRecord) + sizeof(uint32_t)));
  SizeHistogram sizes(2);
  EXPECT_THAT(chunks.AddSizes(0, sizes), IsOk());
  EXPECT_EQ(sizes.total(0), 2U);
  EXPECT_THAT(chunks.AddSizes(1, sizes),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("record 1 (graphs [2, 5))")));
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, chunks.Open({0, 1}));
  EXPECT_THAT(reader->Graph(1), IsOk());
  EXPECT_THAT(reader->Graph(2), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is missing")));
  ASSERT_THAT(reader->unreadable(), SizeIs(1));
  EXPECT_EQ(reader->unreadable()[0].first_graph, 2U);
  EXPECT_EQ(reader->unreadable()[0].num_graphs, 3U);
  EXPECT_THAT(reader->graph_ids(), ElementsAre(100, 101, 0, 0, 0));
  SizeHistogram other(3);
  EXPECT_EQ(chunks.AddSizes(0, other),
            absl::InvalidArgumentError("histogram: 2 components, expected 3"));
  state = absl::DataLossError("the file");
  EXPECT_THAT(chunks.AddSizes(0, sizes), StatusIs(absl::StatusCode::kDataLoss, "the file"));
  EXPECT_THAT(chunks.Open({0}), StatusIs(absl::StatusCode::kDataLoss, "the file"));
}

}  // namespace
}  // namespace packhouse
