#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/original_order.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kNodes = 12;
constexpr uint32_t kParts = 3;

// Rows [id, 10 * id] of the original ids, in the order of new ids: part after part.
class RestoreTest : public testing::Test {
 protected:
  RestoreTest() : folder_(TemporaryFolder::InMemory()) {
    const auto graph = OneSetGraph(kNodes, RingOfCliques(3, 4));
    PartitionPlan plan;
    plan.name = "g";
    plan.options.num_parts = kParts;
    plan.options.method = PartMethod::kRandom;
    EXPECT_THAT(RunPartition(*graph, plan, Path("p"), nullptr, {}), IsOk());
    std::vector<int64_t> all;
    for (uint32_t part = 0; part < kParts; ++part) {
      const absl::StatusOr<MappedFile> file =
          MappedFile::Open(Path(absl::StrCat("p/part", part, "/graph.dgl")));
      const auto view = ReadDglGraphFile(file->bytes());
      const auto values = [&view](const char* name) {
        return FindArray(view->node_data, name)->bytes;
      };
      std::vector<int64_t> rows;
      for (size_t i = 0; i < values("inner_node").size(); ++i) {
        if (values("inner_node")[i] == 0) continue;
        int64_t id;
        std::memcpy(&id, values("orig_id").data() + i * sizeof(id), sizeof(id));
        rows.push_back(id);
        rows.push_back(10 * id);
      }
      Write(absl::StrCat("rows", part, ".npy"), rows);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    Write("rows.npy", all);
    for (int64_t id = 0; id < kNodes; ++id) {
      want_.push_back(id);
      want_.push_back(10 * id);
    }
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  void Write(const std::string& name, const std::vector<int64_t>& rows) const {
    ArraySource array = Int64Array("", absl::MakeConstSpan(rows));
    array.header.shape = {rows.size() / 2, 2};
    EXPECT_THAT(
        WriteDurably(Path(name), [&array](ByteSink& sink) { return WriteNpyFile(array, sink); }),
        IsOk());
  }

  std::vector<int64_t> Read(const std::string& name) const {
    const absl::StatusOr<MappedFile> file = MappedFile::Open(Path(name));
    EXPECT_THAT(file, IsOk());
    const auto array = ReadNpyFile(file->bytes());
    EXPECT_THAT(array, IsOk());
    std::vector<int64_t> values(array->bytes.size() / sizeof(int64_t));
    std::memcpy(values.data(), array->bytes.data(), array->bytes.size());
    return values;
  }

  RestoreRequest Request(std::vector<std::string> inputs, const std::string& output) const {
    RestoreRequest request;
    request.json = Path("p/g.json");
    for (const std::string& input : inputs) request.inputs.push_back(Path(input));
    request.output = Path(output);
    return request;
  }

  TemporaryFolder folder_;
  std::vector<int64_t> want_;
};

TEST_F(RestoreTest, AllRowsOrOneFileAPart) {
  EXPECT_THAT(RestoreRows(Request({"rows.npy"}, "a.npy")), IsOkAndHolds(uint64_t{kNodes}));
  EXPECT_EQ(Read("a.npy"), want_);
  EXPECT_THAT(RestoreRows(Request({"rows0.npy", "rows1.npy", "rows2.npy"}, "b.npy")), IsOk());
  EXPECT_EQ(Read("b.npy"), want_);
  EXPECT_THAT(RestoreRows(Request({"rows.npy"}, "a.npy")),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("a.npy")));
}

TEST_F(RestoreTest, PartByPartInAnyOrder) {
  for (const uint64_t part : {2, 0, 1}) {
    RestoreRequest request = Request({absl::StrCat("rows", part, ".npy")}, "c.npy");
    request.part = part;
    EXPECT_THAT(RestoreRows(request), IsOk());
  }
  EXPECT_EQ(Read("c.npy"), want_);
}

TEST_F(RestoreTest, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(RestoreRows(Request({"rows0.npy", "rows1.npy"}, "d.npy")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 files of rows")));
  Write("short.npy", {1, 2});
  EXPECT_THAT(RestoreRows(Request({"short.npy"}, "d.npy")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must have 12 rows")));
  RestoreRequest request = Request({"rows.npy"}, "d.npy");
  request.type = "user";
  EXPECT_THAT(RestoreRows(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one of _N _N:_E:_N")));
  request = Request({"rows.npy"}, "d.npy");
  request.part = kParts;
  EXPECT_THAT(RestoreRows(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("part 3, there are 3")));
  EXPECT_FALSE(PathExists(Path("d.npy")));
}

TEST_F(RestoreTest, AFileOfRowsThatIsCutIsNamed) {
  PH_ASSERT_OK_AND_ASSIGN(const MappedFile whole, MappedFile::Open(Path("rows.npy")));
  for (const size_t bytes : {size_t{0}, size_t{5}, size_t{64}, whole.bytes().size() - 1}) {
    const std::string name = absl::StrCat("cut", bytes, ".npy");
    ASSERT_THAT(
        WriteDurably(Path(name),
                     [&](ByteSink& sink) { return sink.Write(whole.bytes().substr(0, bytes)); }),
        IsOk());
    EXPECT_THAT(RestoreRows(Request({name}, "d.npy")),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
  }
  EXPECT_FALSE(PathExists(Path("d.npy")));
}

}  // namespace
}  // namespace packhouse
