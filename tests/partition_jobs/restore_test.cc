#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/original_order.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "tests/partition_jobs/chunked_graphs.h"
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

TEST_F(RestoreTest, RowsOfEdges) {
  std::vector<int64_t> rows;
  for (uint32_t part = 0; part < kParts; ++part) {
    const std::string file = BytesOf(Path(absl::StrCat("p/part", part, "/graph.dgl")));
    PH_ASSERT_OK_AND_ASSIGN(const DglGraphView view, ReadDglGraphFile(file));
    const absl::string_view inner = FindArray(view.edge_data, "inner_edge")->bytes;
    for (size_t i = 0; i < inner.size() && inner[i] != 0; ++i) {
      int64_t id;
      std::memcpy(&id, FindArray(view.edge_data, "orig_id")->bytes.data() + i * sizeof(id),
                  sizeof(id));
      rows.push_back(id);
      rows.push_back(10 * id);
    }
  }
  Write("edges.npy", rows);
  RestoreRequest request = Request({"edges.npy"}, "e.npy");
  request.type = "_N:_E:_N";
  EXPECT_THAT(RestoreRows(request), IsOkAndHolds(uint64_t{21}));
  const std::vector<int64_t> restored = Read("e.npy");
  ASSERT_EQ(restored.size(), 42U);
  for (int64_t edge = 0; edge < 21; ++edge) {
    EXPECT_EQ(restored[static_cast<size_t>(2 * edge)], edge);
    EXPECT_EQ(restored[static_cast<size_t>(2 * edge + 1)], 10 * edge);
  }
}

TEST_F(RestoreTest, FilesThatAreOthersAreNamed) {
  const auto not_there = [this](const std::string& file) {
    return absl::NotFoundError(Path(file) + ": No such file or directory");
  };
  RestoreRequest request = Request({"rows.npy"}, "d.npy");
  request.json = Path("none");
  EXPECT_EQ(RestoreRows(request).status(), not_there("none"));
  WriteText(Path("broken"), "{");
  request.json = Path("broken");
  EXPECT_EQ(RestoreRows(request).status(), absl::InvalidArgumentError(Path("broken: is no JSON")));
  EXPECT_EQ(RestoreRows(Request({"none"}, "d.npy")).status(), not_there("none"));
  // Of files that are one a part, each is like the first.
  const std::vector<std::string> each = {"rows0.npy", "rows1.npy", "rows2.npy"};
  const std::vector<int64_t> rows1 = Read("rows1.npy");
  const absl::Status unlike =
      absl::InvalidArgumentError(absl::StrCat(Path("rows1.npy"), ": must have ", rows1.size() / 2,
                                              " rows of the type and shape of all files"));
  WriteNumbers(Path("rows1.npy"), DType::kUint64, {rows1.size() / 2, 2}, rows1);
  EXPECT_EQ(RestoreRows(Request(each, "d.npy")).status(), unlike);
  WriteNumbers(Path("rows1.npy"), DType::kInt64, {rows1.size() / 2, 2, 1}, rows1);
  EXPECT_EQ(RestoreRows(Request(each, "d.npy")).status(), unlike);
  WriteNumbers<int64_t>(Path("rows1.npy"), DType::kInt64, {}, {1});
  EXPECT_EQ(RestoreRows(Request(each, "d.npy")).status(), unlike);
  // What parts are added to has their rows.
  request = Request({"rows0.npy"}, "c.npy");
  request.part = 0;
  const absl::Status other =
      absl::InvalidArgumentError(Path("c.npy: is there with other rows than these"));
  for (const auto& [dtype, rows] :
       {std::pair(DType::kInt64, kNodes - 1), {DType::kUint64, kNodes}}) {
    WriteNumbers(Path("c.npy"), dtype, {rows, 2}, std::vector<int64_t>(2 * rows));
    EXPECT_EQ(RestoreRows(request).status(), other);
  }
  WriteText(Path("c.npy"), "x");
  EXPECT_THAT(RestoreRows(request),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::StartsWith(Path("c.npy: "))));
  EXPECT_FALSE(PathExists(Path("d.npy")));
}

// Of a part of which something is lost neither rows are restored nor ids written.
TEST_F(RestoreTest, PartsThatAreDamagedAreNamed) {
  const std::string part = Path("p/part1/graph.dgl");
  const std::string whole = BytesOf(part);
  const std::string torn = ": at byte 0: the file ends within 8 bytes: it has 1 more";
  const std::string no_ids = ": has no orig_id of its inner rows";
  const auto restored = [this] { return RestoreRows(Request({"rows.npy"}, "d.npy")).status(); };
  // Each time as if it had not been tried.
  const auto added = [this] {
    for (const char* const file :
         {"p/part0/orig_nids.dgl", "p/part0/orig_eids.dgl", "p/part1/orig_nids.dgl"}) {
      EXPECT_THAT(RemoveFolder(Path(file)), IsOk());
    }
    return AddOriginalIds(Path("p"), "g");
  };
  WriteText(part, "x");
  EXPECT_EQ(restored(), absl::DataLossError(part + torn));
  EXPECT_EQ(added(), absl::InvalidArgumentError(part + torn));
  for (const std::string& other : {GraphOfNodes(kNodes, std::nullopt), GraphOfNodes(0, 1)}) {
    WriteText(part, other);
    EXPECT_EQ(restored(), absl::DataLossError(part + no_ids));
    EXPECT_EQ(added(), absl::DataLossError(part + no_ids));
  }
  for (const int64_t id : {-1, 3, 12}) {
    WriteText(part, GraphOfNodes(kNodes, id));
    EXPECT_EQ(restored(), absl::DataLossError(absl::StrCat(part, ": orig_id ", id,
                                                           " is there twice, or not below 12")));
    // It has no edges.
    EXPECT_EQ(added(), absl::DataLossError(part + no_ids));
  }
  EXPECT_THAT(RemoveFolder(part), IsOk());
  EXPECT_EQ(restored(), absl::NotFoundError(part + ": No such file or directory"));
  EXPECT_EQ(added(), absl::NotFoundError(part + ": No such file or directory"));
  EXPECT_FALSE(PathExists(Path("d.npy")));
  WriteText(Path("p/g.json"), "{");
  EXPECT_EQ(added(), absl::InvalidArgumentError(Path("p/g.json: is no JSON")));
}

}  // namespace
}  // namespace packhouse
