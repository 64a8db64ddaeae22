#include "service/stores/datasets/record_verification.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
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

}  // namespace
}  // namespace packhouse
