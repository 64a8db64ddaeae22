// Partitions that several ranks make of chunked files, held against those of one process. The ranks
// are threads; tests/end_to_end has mpirun.
#include "service/wings/partition_mpi/runs/distributed_run.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/partition/files/chunked_layout.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/graph_folders.h"
#include "service/wings/partition/jobs/part_writer.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "service/wings/partition_mpi/runs/chunked_edge_reader.h"
#include "service/wings/partition_mpi/runs/spooled_rows.h"
#include "tests/partition_jobs/chunked_graphs.h"
#include "tests/partitioning/thread_ranks.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

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
    EXPECT_EQ(BytesOf(made + "/report.json"), DistributedReportText(*report, false));
    EXPECT_EQ(DistributedReportText(*report, true), ReportText(*report));
    std::string of_engine_text = ReportText(*report);
    EXPECT_EQ(absl::StrReplaceAll({{"\"method\": \"metis\"", "\"method\": \"pt-scotch\""}},
                                  &of_engine_text),
              1);
    EXPECT_EQ(DistributedReportText(*report, false), of_engine_text);
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

std::vector<int64_t> NumbersOf(const std::vector<ArrayView>& arrays, const std::string& name) {
  const ArrayView* const array = FindArray(arrays, name);
  EXPECT_NE(array, nullptr) << name;
  if (array == nullptr) return {};
  EXPECT_EQ(array->header.dtype, DType::kInt64) << name;
  std::vector<int64_t> numbers(array->bytes.size() / sizeof(int64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), array->bytes.data(), array->bytes.size());
  return numbers;
}

// A node has the trainer that it was assigned, an edge that of its target; T of them are a part.
TEST(DistributedRunTest, TrainersAreThoseOfTheAssignment) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string graph = folder.path() + "/graph";
  EXPECT_THAT(MakeFolder(graph), IsOk());
  WriteChunkedGraph(graph);
  const auto source = ReadChunkedFolder(graph);
  ASSERT_THAT(source, IsOk());
  const HomogeneousGraph homogeneous = *HomogeneousGraph::Create(source->get());
  std::vector<uint32_t> target_of(homogeneous.num_edges());
  for (const HomogeneousEdgeType& type : homogeneous.edge_types()) {
    for (uint32_t row = 0; row < type.by_target.num_rows(); ++row) {
      for (uint64_t at = type.by_target.offsets[row]; at < type.by_target.offsets[row + 1]; ++at) {
        target_of[type.start + type.by_target.edge(at)] =
            homogeneous.node_types()[type.target].start + row;
      }
    }
  }
  for (const uint32_t num_ranks : {1U, 3U}) {
    SCOPED_TRACE(num_ranks);
    DistributedRequest request = RequestFor(graph);
    request.plan.options.trainers_per_machine = 2;
    request.output = absl::StrCat(folder.path(), "/out", num_ranks);
    std::vector<uint32_t> trainer;  // By homogeneous id.
    RunOnRanks(num_ranks, [&](Ranks& ranks) {
      StubbornEngine engine(0);
      const PhaseWatch keep = [&](const std::string& phase) {
        if (phase != "publishing") return;
        for (uint32_t r = 0; r < num_ranks; ++r) {
          const std::string bytes =
              BytesOf(absl::StrCat(PartialFolder(request.output), "/assigned.", r, ".npy"));
          const ArrayView share = *ReadNpyFile(bytes);
          const size_t before = trainer.size();
          trainer.resize(before + share.header.shape[0]);
          std::memcpy(trainer.data() + before, share.bytes.data(), share.bytes.size());
        }
      };
      EXPECT_THAT(RunDistributedPartition(ranks, request, engine, keep), IsOk());
    });
    ASSERT_EQ(trainer.size(), homogeneous.num_nodes());
    EXPECT_EQ(std::set<uint32_t>(trainer.begin(), trainer.end()).size(), 6);
    for (uint32_t part = 0; part < 3; ++part) {
      const std::string at = PartFolder(request.output, part);
      const std::string features[] = {BytesOf(at + "/node_feat.dgl"),
                                      BytesOf(at + "/edge_feat.dgl")};
      const std::string originals[] = {BytesOf(at + "/orig_nids.dgl"),
                                       BytesOf(at + "/orig_eids.dgl")};
      for (const HomogeneousNodeType& type : homogeneous.node_types()) {
        std::vector<int64_t> want;
        for (const int64_t node : NumbersOf(*ReadDglTensorFile(originals[0]), type.name)) {
          want.push_back(trainer[type.start + static_cast<size_t>(node)]);
          EXPECT_EQ(want.back() / 2, part);
        }
        EXPECT_EQ(NumbersOf(*ReadDglTensorFile(features[0]), type.name + "/trainer_id"), want);
      }
      for (const HomogeneousEdgeType& type : homogeneous.edge_types()) {
        std::vector<int64_t> want;
        for (const int64_t edge : NumbersOf(*ReadDglTensorFile(originals[1]), type.name)) {
          want.push_back(trainer[target_of[type.start + static_cast<size_t>(edge)]]);
        }
        EXPECT_EQ(NumbersOf(*ReadDglTensorFile(features[1]), type.name + "/trainer_id"), want);
      }
    }
    for (const HomogeneousNodeType& type : homogeneous.node_types()) {
      std::string lines;
      for (uint32_t node = type.start; node < type.end(); ++node) {
        absl::StrAppend(&lines, trainer[node] / 2, "\n");
      }
      EXPECT_EQ(BytesOf(absl::StrCat(request.output, "/assignment/", type.name, ".txt")), lines);
    }
  }
}

// What is told, in its order; and what is in the way of a file of rows is named, on which rank it
// is.
TEST(DistributedRunTest, PhasesAreToldAndRowsNeedTheirFiles) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string graph = folder.path() + "/graph";
  EXPECT_THAT(MakeFolder(graph), IsOk());
  WriteChunkedGraph(graph);
  DistributedRequest request = RequestFor(graph);
  const std::vector<std::string> phases = {
      "reading",   "assigning", "numbering", "writing part 0 of 3", "writing part 2 of 3",
      "publishing"};
  for (const std::string blocked : {"", "nodes0", "edges0"}) {
    SCOPED_TRACE(blocked);
    request.output = folder.path() + "/out" + blocked;
    const std::string in_the_way = PartialFolder(request.output) + "/spool.0/" + blocked;
    std::vector<std::string> told;
    std::mutex mutex;
    RunOnRanks(2, [&](Ranks& ranks) {
      StubbornEngine engine(0);
      const PhaseWatch watch = [&](const std::string& phase) {
        told.push_back(phase);
        if (blocked.empty() || phase != phases[3]) return;
        EXPECT_THAT(MakeFolder(in_the_way), IsOk());
      };
      const absl::Status ended = RunDistributedPartition(ranks, request, engine, watch).status();
      const std::lock_guard<std::mutex> lock(mutex);
      EXPECT_EQ(ended, blocked.empty() ? absl::OkStatus()
                                       : absl::UnavailableError(absl::StrCat("rank 0: ", in_the_way,
                                                                             ": Is a directory")));
    });
    EXPECT_EQ(told, blocked.empty() ? phases
                                    : std::vector<std::string>(phases.begin(), phases.begin() + 4));
    EXPECT_EQ(PathExists(request.output), blocked.empty());
  }
}

TEST(SpoolFileTest, HasItsBytesUntilItGoes) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string path = folder.path() + "/spool";
  {
    absl::StatusOr<SpoolFile> made = SpoolFile::Create(path, 5);
    ASSERT_THAT(made, IsOk());
    EXPECT_EQ(made->bytes(), std::string(5, '\0'));
    std::memcpy(made->data(), "abcde", 5);
    const SpoolFile moved = *std::move(made);
    EXPECT_EQ(moved.bytes(), "abcde");
    EXPECT_EQ(BytesOf(path), "abcde");
  }
  EXPECT_FALSE(PathExists(path));
  const absl::StatusOr<SpoolFile> empty = SpoolFile::Create(path, 0);
  ASSERT_THAT(empty, IsOk());
  EXPECT_EQ(empty->bytes(), "");
  EXPECT_FALSE(PathExists(path));
  // No disk has as much.
  EXPECT_EQ(SpoolFile::Create(path, uint64_t{1} << 63).status(),
            absl::UnavailableError(path + ", 9223372036854775808 bytes: Invalid argument"));
  EXPECT_FALSE(PathExists(path));
  EXPECT_EQ(SpoolFile::Create(folder.path() + "/none/f", 1).status(),
            absl::UnavailableError(folder.path() + "/none/f: No such file or directory"));
}

// Rows that are more than a round takes, of nodes and of edges; and ids of more edges than a round
// takes.
TEST(DistributedRunTest, RowsGoInAsManyRoundsAsTheyNeed) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string graph = folder.path() + "/graph";
  EXPECT_THAT(MakeFolder(graph), IsOk());
  constexpr uint64_t kNodes = 60;
  constexpr uint64_t kWide = 1 << 15;
  constexpr uint64_t kMany = 140'000;
  ChunkedGraph metadata;
  metadata.graph_name = "g";
  metadata.node_types = {{"n", kNodes, {}, {}}};
  metadata.node_types[0].features = {{"x", ChunkFormat::kNumpy, ' ', {"x.npy"}}};
  metadata.edge_types = {{"n:e:n", kMany, {}, {"", ChunkFormat::kNumpy, ' ', {"e.npy"}}, {}}};
  metadata.edge_types[0].features = {{"w", ChunkFormat::kNumpy, ' ', {"w.npy"}}};
  WriteText(graph + "/metadata.json", *WriteChunkedMetadata(metadata));
  std::vector<uint8_t> x(kNodes * kWide);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i / kWide + i % 31);
  WriteNumbers(graph + "/x.npy", DType::kUint8, {kNodes, kWide}, x);
  std::vector<uint32_t> pairs;
  std::vector<int64_t> w(kMany);
  std::iota(w.begin(), w.end(), 0);
  Random random(1);
  for (uint64_t i = 0; i < 2 * kMany; ++i) {
    pairs.push_back(static_cast<uint32_t>(random.Below(kNodes)));
  }
  WriteNumbers(graph + "/e.npy", DType::kUint32, {kMany, 2}, pairs);
  WriteNumbers(graph + "/w.npy", DType::kInt64, {kMany}, w);
  DistributedRequest request = RequestFor(graph);
  request.plan = PartitionPlan();
  request.plan.name = "g";
  request.plan.options.num_parts = 1;
  request.plan.original_ids = true;
  request.output = folder.path() + "/out";
  ASSERT_THAT(RunOn(1, request), IsOk());
  const std::string nodes = BytesOf(request.output + "/part0/node_feat.dgl");
  const std::string edges = BytesOf(request.output + "/part0/edge_feat.dgl");
  // One part: nothing gets another number.
  EXPECT_EQ(FindArray(*ReadDglTensorFile(nodes), "n/x")->bytes,
            absl::string_view(reinterpret_cast<const char*>(x.data()), x.size()));
  EXPECT_EQ(NumbersOf(*ReadDglTensorFile(edges), "n:e:n/w"), w);
}

// Stops a run where it writes the part after the first two, or once it is assigned.
void StopRun(const DistributedRequest& request, const std::string& phase) {
  const std::string in_the_way = PartialFolder(request.output) + "/spool.0";
  RunOnRanks(2, [&](Ranks& ranks) {
    StubbornEngine engine(0);
    const PhaseWatch block = [&](const std::string& told) {
      if (told != phase) return;
      if (phase == "numbering") {
        WriteText(in_the_way, "");
      } else {
        EXPECT_THAT(MakeFolder(in_the_way + "/nodes0"), IsOk());
      }
    };
    EXPECT_THAT(RunDistributedPartition(ranks, request, engine, block),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr(in_the_way)));
  });
  EXPECT_FALSE(PathExists(request.output));
  EXPECT_THAT(RemoveFolder(in_the_way), IsOk());
}

// What rank 0 is told, and the result.
std::vector<std::string> PhasesOf(const DistributedRequest& request, absl::Status& ended,
                                  const PhaseWatch& also = {}) {
  std::vector<std::string> told;
  RunOnRanks(2, [&](Ranks& ranks) {
    StubbornEngine engine(0);
    const PhaseWatch watch = [&](const std::string& phase) {
      told.push_back(phase);
      if (also) also(phase);
    };
    const absl::Status status = RunDistributedPartition(ranks, request, engine, watch).status();
    if (ranks.rank() == 0) ended = status;
  });
  return told;
}

// An assignment that was kept is taken while all of it is there and is one; otherwise it is made
// again. Either way the partition is the same.
TEST(DistributedRunTest, OnlyAWholeAssignmentIsTaken) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string graph = folder.path() + "/graph";
  EXPECT_THAT(MakeFolder(graph), IsOk());
  WriteChunkedGraph(graph);
  DistributedRequest request = RequestFor(graph);
  request.output = folder.path() + "/whole";
  ASSERT_THAT(RunOn(2, request), IsOk());
  const auto whole = FilesBelow(request.output);
  request.output = folder.path() + "/out";
  const std::string partial = PartialFolder(request.output);
  const std::string share = partial + "/assigned.1.npy";
  const auto rewrite = [&share](DType dtype, uint64_t count, uint32_t first) {
    std::vector<uint32_t> numbers(count * ElementBytes(dtype) / sizeof(uint32_t));
    numbers[0] = first;
    WriteNumbers(share, dtype, {count}, numbers);
  };
  const std::vector<std::function<void()>> damages = {
      [] {},
      [&] { WriteText(share, BytesOf(share).substr(0, 100)); },
      [&] { EXPECT_THAT(RemoveFolder(share), IsOk()); },
      [&] { rewrite(DType::kUint32, 30, 3); },
      [&] { rewrite(DType::kUint32, 29, 0); },
      [&] { rewrite(DType::kInt32, 30, 0); },
      [&] { EXPECT_THAT(RemoveFolder(partial + "/assigned.json"), IsOk()); },
      [&] { WriteText(partial + "/assigned.json", "{"); },
      [&] { WriteText(partial + "/plan.json", BytesOf(partial + "/plan.json") + " "); },
      [&] { EXPECT_THAT(RemoveFolder(partial + "/plan.json"), IsOk()); },
  };
  for (size_t damage = 0; damage < damages.size(); ++damage) {
    SCOPED_TRACE(damage);
    StopRun(request, "numbering");
    damages[damage]();
    absl::Status ended;
    std::vector<std::string> want = {
        "reading",   "assigning", "numbering", "writing part 0 of 3", "writing part 2 of 3",
        "publishing"};
    if (damage == 0) want.erase(want.begin() + 1);
    EXPECT_EQ(PhasesOf(request, ended), want);
    EXPECT_THAT(ended, IsOk());
    EXPECT_EQ(FilesBelow(request.output), whole);
    EXPECT_THAT(RemoveFolder(request.output), IsOk());
  }
}

// Parts that are whole stay; of others what is there is written again.
TEST(DistributedRunTest, OnlyWholePartsStay) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string graph = folder.path() + "/graph";
  EXPECT_THAT(MakeFolder(graph), IsOk());
  WriteChunkedGraph(graph);
  DistributedRequest request = RequestFor(graph);
  request.output = folder.path() + "/whole";
  ASSERT_THAT(RunOn(2, request), IsOk());
  const auto whole = FilesBelow(request.output);
  request.output = folder.path() + "/out";
  const std::string partial = PartialFolder(request.output);
  const std::string report = partial + "/part1.json";
  const std::vector<std::function<void()>> damages = {
      [] {},
      [&] { EXPECT_THAT(RemoveFolder(report), IsOk()); },
      [&] { EXPECT_THAT(RemoveFolder(partial + "/part1"), IsOk()); },
      [&] { WriteText(report, "{"); },
      [&] {
        PartitionReport two = *ReportOfText(BytesOf(report));
        two.parts.push_back(two.parts[0]);
        WriteText(report, ReportText(two));
      },
  };
  for (size_t damage = 0; damage < damages.size(); ++damage) {
    SCOPED_TRACE(damage);
    StopRun(request, "writing part 2 of 3");
    damages[damage]();
    absl::Status ended;
    EXPECT_EQ(PhasesOf(request, ended),
              (std::vector<std::string>{"reading", "numbering",
                                        damage == 0 ? "writing part 2 of 3" : "writing part 1 of 3",
                                        "publishing"}));
    EXPECT_THAT(ended, IsOk());
    EXPECT_EQ(FilesBelow(request.output), whole);
    EXPECT_THAT(RemoveFolder(request.output), IsOk());
  }
  // Of parts that are given nothing is kept: they may be others.
  request.assignment = folder.path() + "/whole/assignment";
  StopRun(request, "writing part 2 of 3");
  absl::Status ended;
  EXPECT_EQ(PhasesOf(request, ended),
            (std::vector<std::string>{"reading", "numbering", "writing part 0 of 3",
                                      "writing part 2 of 3", "publishing"}));
  EXPECT_THAT(ended, IsOk());
}

// What is gone or torn before it is published is named, and nothing is published.
TEST(DistributedRunTest, WhatIsLostMeanwhileIsNamed) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string graph = folder.path() + "/graph";
  EXPECT_THAT(MakeFolder(graph), IsOk());
  WriteChunkedGraph(graph);
  DistributedRequest request = RequestFor(graph);
  request.output = folder.path() + "/out";
  const std::string partial = PartialFolder(request.output);
  struct Loss {
    std::string phase;
    std::string file;
    std::string instead;  // Nothing: it goes.
    absl::Status ended;
  };
  const auto gone = [&](const char* file) {
    return absl::NotFoundError(
        absl::StrCat("rank 0: ", partial, file, ": No such file or directory"));
  };
  const std::vector<Loss> losses = {
      {"writing part 2 of 3", "/part0.json", "",
       absl::DataLossError("rank 0: " + partial + " has 2 whole parts of 3")},
      {"publishing", "/part1/graph.dgl", "", gone("/part1/graph.dgl")},
      {"publishing", "/part1/graph.dgl", "x",
       absl::InvalidArgumentError(
           "rank 0: at byte 0: the file ends within 8 bytes: it has 1 more")},
      {"publishing", "/part0/graph.dgl", GraphOfNodes(0, std::nullopt),
       absl::DataLossError("rank 0: " + partial + "/part0 is damaged")},
      {"publishing", "/assigned.1.npy", "", gone("/assigned.1.npy")},
      {"publishing", "/assigned.1.npy", "x",
       absl::DataLossError("rank 0: " + partial + "/assigned.1.npy is damaged")},
  };
  for (const Loss& loss : losses) {
    SCOPED_TRACE(loss.file);
    EXPECT_THAT(RemoveFolder(partial), IsOk());
    absl::Status ended;
    PhasesOf(request, ended, [&](const std::string& phase) {
      if (phase != loss.phase) return;
      EXPECT_THAT(RemoveFolder(partial + loss.file), IsOk());
      if (!loss.instead.empty()) WriteText(partial + loss.file, loss.instead);
    });
    EXPECT_EQ(ended, loss.ended);
    EXPECT_FALSE(PathExists(request.output));
  }
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
