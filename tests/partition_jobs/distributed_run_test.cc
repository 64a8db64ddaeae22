// Partitions that several ranks make of chunked files, held against those of one process. The ranks
// are threads; tests/end_to_end has mpirun.
#include "service/wings/partition_mpi/runs/distributed_run.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/partition/files/chunked_layout.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/graph_folders.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "service/wings/partition_mpi/runs/chunked_edge_reader.h"
#include "tests/partitioning/thread_ranks.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kUsers = 37;
constexpr uint64_t kItems = 23;
constexpr uint64_t kEdges = 140;

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

template <typename T>
void WriteNumbers(const std::string& path, DType dtype, std::vector<uint64_t> shape,
                  const std::vector<T>& values) {
  ArraySource array;
  array.header = {"", dtype, std::move(shape)};
  array.write = [&values](ByteSink& sink) {
    return sink.Write({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  };
  StringSink sink;
  EXPECT_THAT(WriteNpyFile(array, sink), IsOk());
  WriteText(path, sink.bytes());
}

// Users buy items (numpy, two chunks, with a feature) and follow users (text, two chunks).
// Relations are called as paths are.
void WriteChunkedGraph(const std::string& folder) {
  Random random(5);
  ChunkedGraph graph;
  graph.graph_name = "g";
  graph.node_types = {{"user", kUsers, {kUsers}, {}}, {"item", kItems, {20, 3}, {}}};
  graph.node_types[0].features = {{"mask", ChunkFormat::kNumpy, ' ', {"mask.npy"}}};
  graph.node_types[1].features = {{"x", ChunkFormat::kNumpy, ' ', {"x0.npy", "x1.npy"}},
                                  {"a/b", ChunkFormat::kNumpy, ' ', {"x0.npy", "x1.npy"}}};
  graph.edge_types = {
      {"user:/buys/it:item", kEdges, {}, {"", ChunkFormat::kNumpy, ' ', {"b0.npy", "b1.npy"}}, {}},
      {"user:../../follows:user",
       kEdges,
       {},
       {"", ChunkFormat::kCsv, ',', {"f0.csv", "f1.csv"}},
       {}}};
  graph.edge_types[0].features = {{"w", ChunkFormat::kNumpy, ' ', {"w.npy"}}};
  WriteText(folder + "/metadata.json", *WriteChunkedMetadata(graph));

  std::vector<uint8_t> mask(kUsers);
  for (uint64_t i = 0; i < kUsers; ++i) mask[i] = i % 3 == 0 ? 1 : 0;
  WriteNumbers(folder + "/mask.npy", DType::kBool, {kUsers}, mask);
  std::vector<float> x(kItems * 2);
  std::iota(x.begin(), x.end(), 0.5F);
  WriteNumbers<float>(folder + "/x0.npy", DType::kFloat32, {20, 2}, {x.begin(), x.begin() + 40});
  WriteNumbers<float>(folder + "/x1.npy", DType::kFloat32, {3, 2}, {x.begin() + 40, x.end()});
  std::vector<int32_t> pairs;
  std::vector<int64_t> weights;
  std::string texts[2];
  for (uint64_t i = 0; i < kEdges; ++i) {
    pairs.push_back(static_cast<int32_t>(random.Below(kUsers)));
    pairs.push_back(static_cast<int32_t>(random.Below(kItems)));
    weights.push_back(static_cast<int64_t>(100 * i));
    texts[i < 90 ? 0 : 1] +=
        absl::StrCat(random.Below(kUsers), ",", random.Below(kUsers), i + 1 < kEdges ? "\n" : "");
  }
  WriteNumbers<int32_t>(folder + "/b0.npy", DType::kInt32, {100, 2},
                        {pairs.begin(), pairs.begin() + 200});
  WriteNumbers<int32_t>(folder + "/b1.npy", DType::kInt32, {40, 2},
                        {pairs.begin() + 200, pairs.end()});
  WriteNumbers(folder + "/w.npy", DType::kInt64, {kEdges}, weights);
  WriteText(folder + "/f0.csv", texts[0]);
  WriteText(folder + "/f1.csv", texts[1]);
}

std::map<std::string, std::string> FilesBelow(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().string().substr(folder.size())] =
        std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

// Every third node; fails as often as it is told to.
class StubbornEngine : public ShareEngine {
 public:
  explicit StubbornEngine(int failures) : failures_(failures) {}
  absl::StatusOr<std::vector<uint32_t>> Assign(SymmetricShare& graph, std::vector<int64_t>&,
                                               uint32_t num_parts, double, uint64_t) override {
    ++calls;
    if (failures_-- > 0) return absl::InternalError("not now");
    std::vector<uint32_t> part(graph.num_own());
    for (uint64_t own = 0; own < part.size(); ++own) part[own] = own % num_parts;
    return part;
  }

  int calls = 0;

 private:
  int failures_;
};

DistributedRequest RequestFor(const std::string& folder) {
  DistributedRequest request;
  request.graph = folder;
  request.plan.name = "g";
  request.plan.options.num_parts = 3;
  request.plan.options.num_hops = 2;
  request.plan.classes = {{"user", {"mask"}}};
  request.plan.forms = {true, true, true};
  request.plan.npy = true;
  request.plan.safetensors = true;
  request.plan.original_ids = true;
  request.plan.mapping = true;
  request.plan.assignment = true;
  return request;
}

// What rank 0 is told.
absl::StatusOr<PartitionReport> RunOn(uint32_t num_ranks, const DistributedRequest& request,
                                      int failures = 0, int* calls = nullptr) {
  absl::StatusOr<PartitionReport> result;
  RunOnRanks(num_ranks, [&](Ranks& ranks) {
    StubbornEngine engine(failures);
    absl::StatusOr<PartitionReport> report = RunDistributedPartition(ranks, request, engine, {});
    if (ranks.rank() != 0) return;
    if (calls != nullptr) *calls = engine.calls;
    result = std::move(report);
  });
  return result;
}

TEST(DistributedRunTest, WritesTheBytesOfOneProcessForTheSameParts) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string graph = folder.path() + "/graph";
  EXPECT_THAT(MakeFolder(graph), IsOk());
  WriteChunkedGraph(graph);
  DistributedRequest request = RequestFor(graph);
  for (const uint32_t num_ranks : {1U, 2U, 5U}) {
    SCOPED_TRACE(num_ranks);
    const std::string made = absl::StrCat(folder.path(), "/made", num_ranks);
    request.output = made;
    request.assignment.clear();
    const absl::StatusOr<PartitionReport> report = RunOn(num_ranks, request);
    ASSERT_THAT(report, IsOk());
    EXPECT_EQ(report->parts.size(), 3);
    EXPECT_THAT(report->assignment.notes, testing::Contains(HasSubstr("has a slash")));
    EXPECT_FALSE(PathExists(PartialFolder(made)));

    // The same parts, given: by all ranks, and by one process that has the whole graph.
    request.assignment = made + "/assignment";
    request.output = absl::StrCat(folder.path(), "/given", num_ranks);
    ASSERT_THAT(RunOn(num_ranks, request), IsOk());
    const auto source = ReadChunkedFolder(graph);
    ASSERT_THAT(source, IsOk());
    const HomogeneousGraph homogeneous = *HomogeneousGraph::Create(source->get());
    const FolderAssignment given = *ReadAssignmentFolder(request.assignment, homogeneous);
    const std::string alone = absl::StrCat(folder.path(), "/alone", num_ranks);
    ASSERT_THAT(
        RunPartition(**source, request.plan, alone, nullptr, {},
                     GivenParts{given.part, absl::StrCat("as ", request.assignment, " says")}),
        IsOk());
    const auto files = FilesBelow(alone);
    EXPECT_EQ(FilesBelow(request.output), files);
    const auto of_engine = FilesBelow(made);
    for (const auto& [name, bytes] : files) {
      if (name == "/g.json" || name == "/report.json") continue;
      EXPECT_EQ(of_engine.at(name), bytes) << name;
    }
  }
}

TEST(DistributedRunTest, GoesOnWhereItWasStopped) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string graph = folder.path() + "/graph";
  EXPECT_THAT(MakeFolder(graph), IsOk());
  WriteChunkedGraph(graph);
  DistributedRequest request = RequestFor(graph);
  request.output = folder.path() + "/whole";
  ASSERT_THAT(RunOn(2, request), IsOk());
  request.output = folder.path() + "/out";
  EXPECT_THAT(RunOn(2, request, 1), StatusIs(absl::StatusCode::kInternal, HasSubstr("not now")));
  EXPECT_FALSE(PathExists(request.output));
  int calls = 0;
  ASSERT_THAT(RunOn(2, request, 0, &calls), IsOk());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(FilesBelow(request.output), FilesBelow(folder.path() + "/whole"));

  // Stopped once it was assigned: a file is in the way of what is written.
  request.output = folder.path() + "/later";
  const std::string in_the_way = PartialFolder(request.output) + "/spool.0";
  RunOnRanks(2, [&](Ranks& ranks) {
    StubbornEngine engine(0);
    const PhaseWatch block = [&in_the_way](const std::string& phase) {
      if (phase == "numbering") WriteText(in_the_way, "");
    };
    const auto report = RunDistributedPartition(ranks, request, engine, block);
    EXPECT_THAT(report, StatusIs(absl::StatusCode::kUnavailable, HasSubstr(in_the_way)));
    EXPECT_EQ(engine.calls, 1);
  });
  EXPECT_FALSE(PathExists(request.output));
  EXPECT_THAT(RemoveFolder(in_the_way), IsOk());
  ASSERT_THAT(RunOn(2, request, 1, &calls), IsOk());
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(FilesBelow(request.output), FilesBelow(folder.path() + "/whole"));
  EXPECT_THAT(RunOn(2, request), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("later")));
}

// Every row is read once and under its own number, wherever files and lines begin and end and
// however many ranks there are.
TEST(ChunkedEdgeReaderTest, RanksReadEachRowOnce) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    ChunkedGraph graph;
    graph.node_types = {{"n", 1000, {}, {}}};
    graph.edge_types = {{"n:e:n", 0, {}, {"", ChunkFormat::kCsv, ' ', {}}, {}}};
    ChunkedEdgeType& type = graph.edge_types[0];
    std::vector<SharedEdge> want;
    for (uint64_t file = random.Below(5); file > 0; --file) {
      std::string text = random.Below(2) == 0 ? "\xEF\xBB\xBF" : "";
      for (uint64_t line = random.Below(12); line > 0; --line) {
        want.push_back({random.Below(1000), random.Below(1000), want.size()});
        absl::StrAppend(&text, want.back().source, "  ", want.back().target,
                        line > 1 || random.Below(2) == 0 ? "\n" : "");
      }
      type.edges.files.push_back(absl::StrCat("e", file));
      WriteText(folder.path() + "/" + type.edges.files.back(), text);
    }
    type.num_edges = want.size();
    WriteText(folder.path() + "/metadata.json", *WriteChunkedMetadata(graph));
    const absl::StatusOr<ChunkedInput> input = ReadChunkedInput(folder.path());
    ASSERT_THAT(input, IsOk());
    std::vector<SharedEdge> got(want.size(), SharedEdge{UINT64_MAX, 0, 0});
    std::mutex mutex;
    RunOnRanks(1 + seed % 6, [&](Ranks& ranks) {
      const auto reader = MakeChunkedEdgeReader(ranks, *input);
      ASSERT_THAT(reader, IsOk());
      std::vector<SharedEdge> edges;
      const std::lock_guard<std::mutex> lock(mutex);
      while (*(*reader)->Next(edges)) {
        for (const SharedEdge& edge : edges) {
          ASSERT_LT(edge.edge, got.size());
          EXPECT_EQ(got[edge.edge].target, UINT64_MAX);
          got[edge.edge] = edge;
        }
      }
    });
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].source, want[i].source);
      EXPECT_EQ(got[i].target, want[i].target);
    }
  }
}

// An error of one rank's files is everybody's, with the file and what is wrong.
TEST(DistributedRunTest, ErrorsOfFilesAreNamed) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string graph = folder.path() + "/graph";
  EXPECT_THAT(MakeFolder(graph), IsOk());
  const auto expect = [&](const std::string& file, const std::string& content,
                          const std::string& message) {
    SCOPED_TRACE(file);
    WriteChunkedGraph(graph);
    WriteText(graph + "/" + file, content);
    DistributedRequest request = RequestFor(graph);
    request.output = folder.path() + "/out";
    std::mutex mutex;
    RunOnRanks(3, [&](Ranks& ranks) {
      StubbornEngine engine(0);
      const absl::StatusOr<PartitionReport> report =
          RunDistributedPartition(ranks, request, engine, {});
      const std::lock_guard<std::mutex> lock(mutex);
      EXPECT_THAT(report, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
    });
    EXPECT_FALSE(PathExists(request.output));
    // One process that reads all of them says so, too.
    EXPECT_FALSE(ReadChunkedFolder(graph).ok());
  };
  std::string rows;
  for (int i = 0; i < 48; ++i) rows += "4,5\n";
  expect("f1.csv", "1,2\n3,37\n" + rows, "f1.csv: line 2: target 37 is none of the 37 nodes");
  expect("f1.csv", "37,3\n1,2\n" + rows, "f1.csv: line 1: source 37 is none of the 37 nodes");
  expect("f1.csv", rows + "1,2\n3\n", "f1.csv: line 50: has 1 fields, 2 are needed");
  expect("f1.csv", "1,2\n", "has 140 edges, its files 91");
  expect("b1.npy", "no array", "b1.npy");
  expect("x1.npy", "\x93NUMPY", "x1.npy");
  expect("metadata.json", "{}", "metadata.json");

  // Those of given parts as well.
  WriteChunkedGraph(graph);
  DistributedRequest request = RequestFor(graph);
  request.output = folder.path() + "/made";
  ASSERT_THAT(RunOn(1, request), IsOk());
  request.assignment = request.output + "/assignment";
  request.output = folder.path() + "/out";
  for (const auto& [file, bytes] : FilesBelow(request.assignment)) {
    for (const std::string& other : {std::string(), bytes.substr(0, bytes.size() / 2)}) {
      WriteText(request.assignment + file, other);
      EXPECT_THAT(RunOn(3, request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(file)));
      EXPECT_FALSE(PathExists(request.output));
    }
    WriteText(request.assignment + file, bytes);
  }
}

}  // namespace
}  // namespace packhouse
