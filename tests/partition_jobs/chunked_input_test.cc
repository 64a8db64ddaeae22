// What ranks read of chunked files: metadata, rows of features, edges, classes, given parts.
#include "service/wings/partition_mpi/runs/chunked_input.h"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/partition/cutting/node_classes.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/graph_folders.h"
#include "service/wings/partition_mpi/runs/chunked_edge_reader.h"
#include "service/wings/partition_mpi/runs/own_classes.h"
#include "tests/partition_jobs/chunked_graphs.h"
#include "tests/partitioning/thread_ranks.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

class ChunkedInputTest : public testing::Test {
 protected:
  std::string Path(const std::string& file) const { return folder_.path() + "/" + file; }
  absl::Status Error() const { return ReadChunkedInput(folder_.path()).status(); }

  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
};

TEST_F(ChunkedInputTest, TypesAreInTheOrderOfTheirNames) {
  WriteChunkedGraph(folder_.path());
  PH_ASSERT_OK_AND_ASSIGN(const ChunkedInput input, ReadChunkedInput(folder_.path()));
  EXPECT_EQ(input.folder, folder_.path());
  EXPECT_EQ(input.types.num_nodes, kUsers + kItems);
  EXPECT_EQ(input.types.num_edges, 2 * kEdges);
  std::vector<std::string> told;
  for (const SharedNodeType& type : input.types.node_types) {
    told.push_back(absl::StrCat(type.name, " ", type.start, " ", type.size));
  }
  for (const SharedEdgeType& type : input.types.edge_types) {
    told.push_back(absl::StrCat(type.name, " ", type.source, " ", type.target, " ", type.start, " ",
                                type.size));
  }
  EXPECT_THAT(told,
              testing::ElementsAre("item 0 23", "user 23 37", "user:../../follows:user 1 1 0 140",
                                   "user:/buys/it:item 1 0 140 140"));
  EXPECT_EQ(input.node_types[0].features[0].name, "a/b");
  EXPECT_EQ(input.edge_types[1].features[0].name, "w");
  EXPECT_EQ(ChunkPath("/folder", "file"), "/folder/file");
  EXPECT_EQ(ChunkPath("/folder", "/elsewhere/file"), "/elsewhere/file");
}

// A name sorts by its words, whatever sorts before a colon.
TEST_F(ChunkedInputTest, EdgeTypesSortByTheirWords) {
  ChunkedGraph graph;
  graph.node_types = {{"a", 1, {}, {}}, {"a!", 1, {}, {}}};
  for (const char* const name : {"a!:r:a", "a:s!:a", "a:s:a", "a:r:a!", "a:r:a"}) {
    graph.edge_types.push_back({name, 0, {}, {"", ChunkFormat::kCsv, ' ', {}}, {}});
  }
  WriteText(Path("metadata.json"), *WriteChunkedMetadata(graph));
  PH_ASSERT_OK_AND_ASSIGN(const ChunkedInput input, ReadChunkedInput(folder_.path()));
  std::vector<std::string> names;
  for (const SharedEdgeType& type : input.types.edge_types) names.push_back(type.name);
  EXPECT_THAT(names, testing::ElementsAre("a:r:a", "a:r:a!", "a:s:a", "a:s!:a", "a!:r:a"));
}

// Work goes on only from the same files: each one's time to the nanosecond, and its length.
TEST_F(ChunkedInputTest, TheVersionIsThatOfAllFiles) {
  WriteChunkedGraph(folder_.path());
  const auto version = [this] { return ReadChunkedInput(folder_.path())->version; };
  const std::string before = version();
  EXPECT_EQ(before.size(), 32);
  EXPECT_EQ(version(), before);
  for (const char* const file :
       {"mask.npy", "x0.npy", "x1.npy", "b0.npy", "b1.npy", "w.npy", "f0.csv", "f1.csv"}) {
    SCOPED_TRACE(file);
    const auto time = std::filesystem::last_write_time(Path(file));
    for (const auto later :
         {std::chrono::nanoseconds(1), std::chrono::nanoseconds(1'000'000'000)}) {
      std::filesystem::last_write_time(Path(file), time + later);
      EXPECT_NE(version(), before);
    }
    const std::string bytes = BytesOf(Path(file));
    WriteText(Path(file), bytes + " ");
    std::filesystem::last_write_time(Path(file), time);
    EXPECT_NE(version(), before);
    WriteText(Path(file), bytes);
    std::filesystem::last_write_time(Path(file), time);
    EXPECT_EQ(version(), before);
  }
  const std::string metadata = BytesOf(Path("metadata.json"));
  WriteText(Path("metadata.json"), metadata + " ");
  EXPECT_NE(version(), before);
}

TEST_F(ChunkedInputTest, ErrorsNameTheFile) {
  WriteChunkedGraph(folder_.path());
  for (const char* const file : {"mask.npy", "x1.npy", "b0.npy", "w.npy", "f1.csv"}) {
    const std::string bytes = BytesOf(Path(file));
    EXPECT_THAT(RemoveFolder(Path(file)), IsOk());
    EXPECT_EQ(Error(), absl::NotFoundError(Path(file) + ": No such file or directory"));
    WriteText(Path(file), bytes);
  }
  const std::string metadata = BytesOf(Path("metadata.json"));
  const auto error_with = [&](const std::string& from, const std::string& to) {
    std::string changed = metadata;
    EXPECT_GT(absl::StrReplaceAll({{from, to}}, &changed), 0) << from;
    WriteText(Path("metadata.json"), changed);
    return Error();
  };
  const std::string parquet(ParquetIsNotRead().message());
  const auto table = [&metadata](const std::string& file) {
    // From its format to its first file.
    const size_t at = metadata.find("\"" + file + "\"");
    const size_t begin = metadata.rfind("\"format\"", at);
    return metadata.substr(begin, at - begin);
  };
  const auto with = [&](const std::string& file, const std::string& format) {
    std::string changed = table(file);
    absl::StrReplaceAll({{"numpy", format}}, &changed);
    return error_with(table(file) + "\"" + file + "\"", changed + "\"" + file + "\"");
  };
  EXPECT_EQ(error_with("\"mask.npy\"", "\"w.npy/mask\""),
            absl::UnavailableError(Path("w.npy/mask") + ": Not a directory"));
  EXPECT_EQ(
      with("mask.npy", "csv"),
      absl::UnimplementedError("feature 'mask': features are read from numpy files, not from csv"));
  EXPECT_EQ(with("mask.npy", "parquet"), absl::UnimplementedError("feature 'mask': " + parquet));
  EXPECT_EQ(with("w.npy", "parquet"), absl::UnimplementedError("feature 'w': " + parquet));
  EXPECT_EQ(with("b0.npy", "parquet"),
            absl::UnimplementedError(Path("metadata.json") +
                                     ": edges of 'user:/buys/it:item': " + parquet));
  WriteText(Path("metadata.json"), "[");
  EXPECT_EQ(Error().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(Error().message(), Path("metadata.json: ")));
  EXPECT_THAT(RemoveFolder(Path("metadata.json")), IsOk());
  EXPECT_EQ(Error(), absl::NotFoundError(Path("metadata.json") + ": No such file or directory"));
}

TEST_F(ChunkedInputTest, TypesHaveBounds) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  const auto error = [this](std::vector<ChunkedNodeType> nodes, std::vector<uint64_t> edges) {
    ChunkedGraph graph;
    graph.node_types = std::move(nodes);
    for (size_t e = 0; e < edges.size(); ++e) {
      graph.edge_types.push_back(
          {absl::StrCat("n:e", e, ":n"), edges[e], {}, {"", ChunkFormat::kCsv, ' ', {}}, {}});
    }
    WriteText(Path("metadata.json"), *WriteChunkedMetadata(graph));
    return Error();
  };
  const absl::Status beyond = absl::InvalidArgumentError(
      Path("metadata.json: more than 4611686018427387904 nodes or edges"));
  EXPECT_THAT(error({{"n", kMost - 1, {}, {}}, {"o", 1, {}, {}}}, {kMost, 0}), IsOk());
  EXPECT_EQ(error({{"n", kMost + 1, {}, {}}}, {}), beyond);
  EXPECT_EQ(error({{"n", kMost, {}, {}}, {"o", 1, {}, {}}}, {}), beyond);
  EXPECT_EQ(error({{"n", 1, {}, {}}, {"o", UINT64_MAX, {}, {}}}, {}), beyond);
  EXPECT_EQ(error({{"n", 1, {}, {}}}, {kMost + 1}), beyond);
  EXPECT_EQ(error({{"n", 1, {}, {}}}, {1, kMost}), beyond);
  EXPECT_EQ(
      error({{"a:b", 1, {}, {}}}, {}),
      absl::InvalidArgumentError(Path("metadata.json: node type 'a:b' has a colon in its name")));
  EXPECT_EQ(error({}, {}),
            absl::InvalidArgumentError(Path("metadata.json: there are no node types")));
}

// The rows of each run, whichever files they lie in; one has none.
TEST_F(ChunkedInputTest, RowsAreThoseOfAllFiles) {
  std::vector<uint16_t> numbers;
  for (uint16_t i = 0; i < 3 * 7; ++i) numbers.push_back(static_cast<uint16_t>(1000 + i));
  const std::vector<uint64_t> ends = {0, 2, 2, 6, 7};
  ChunkedTable table{"x", ChunkFormat::kNumpy, ' ', {}};
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    table.files.push_back(absl::StrCat("x", i, ".npy"));
    WriteNumbers<uint16_t>(Path(table.files.back()), DType::kUint16, {ends[i + 1] - ends[i], 3},
                           {numbers.begin() + static_cast<ptrdiff_t>(3 * ends[i]),
                            numbers.begin() + static_cast<ptrdiff_t>(3 * ends[i + 1])});
  }
  for (uint64_t begin = 0; begin <= 7; ++begin) {
    for (uint64_t end = begin; end <= 7; ++end) {
      PH_ASSERT_OK_AND_ASSIGN(const FeatureRows rows,
                              FeatureRows::Open(folder_.path(), table, 7, begin, end));
      EXPECT_EQ(rows.dtype(), DType::kUint16);
      EXPECT_THAT(rows.row_shape(), testing::ElementsAre(3));
      EXPECT_EQ(rows.row_bytes(), 6);
      for (uint64_t row = begin; row < end; ++row) {
        EXPECT_EQ(std::memcmp(rows.Row(row), numbers.data() + 3 * row, 6), 0) << row;
        EXPECT_EQ(
            rows.Number(row).status(),
            absl::InvalidArgumentError("cannot be the class of a node: not one integer a node"));
      }
    }
  }
  const auto error = [&](uint64_t num_rows) {
    return FeatureRows::Open(folder_.path(), table, num_rows, 0, num_rows).status();
  };
  EXPECT_EQ(error(6), absl::InvalidArgumentError("feature 'x' has 7 rows, must have 6"));
  EXPECT_EQ(error(8), absl::InvalidArgumentError("feature 'x' has 7 rows, must have 8"));
  const absl::Status other = absl::InvalidArgumentError(
      Path("x3.npy: its rows are of another type or shape than those before"));
  WriteNumbers<uint16_t>(Path("x3.npy"), DType::kInt16, {1, 3}, {1, 2, 3});
  EXPECT_EQ(error(7), other);
  WriteNumbers<uint16_t>(Path("x3.npy"), DType::kUint16, {1, 4}, {1, 2, 3, 4});
  EXPECT_EQ(error(7), other);
  WriteNumbers<uint16_t>(Path("x3.npy"), DType::kUint16, {}, {1});
  EXPECT_EQ(error(7), absl::InvalidArgumentError(Path("x3.npy: must have rows")));
  EXPECT_THAT(RemoveFolder(Path("x3.npy")), IsOk());
  EXPECT_EQ(error(7), absl::NotFoundError(Path("x3.npy: No such file or directory")));
}

template <typename T>
void ExpectNumbers(const std::string& folder, DType dtype) {
  SCOPED_TRACE(static_cast<int>(dtype));
  const std::vector<T> values = {0, 1, std::numeric_limits<T>::min(),
                                 std::numeric_limits<T>::max()};
  // A row of one number is one number, too.
  for (const std::vector<uint64_t>& shape : std::vector<std::vector<uint64_t>>{{4}, {4, 1}}) {
    WriteNumbers(folder + "/c.npy", dtype, shape, values);
    const ChunkedTable table{"c", ChunkFormat::kNumpy, ' ', {"c.npy"}};
    PH_ASSERT_OK_AND_ASSIGN(const FeatureRows rows, FeatureRows::Open(folder, table, 4, 0, 4));
    for (uint64_t row = 0; row < 4; ++row) {
      EXPECT_THAT(rows.Number(row), IsOkAndHolds(static_cast<int64_t>(values[row])));
    }
  }
}

TEST_F(ChunkedInputTest, NumbersAreOfTheirType) {
  ExpectNumbers<uint8_t>(folder_.path(), DType::kUint8);
  ExpectNumbers<uint8_t>(folder_.path(), DType::kBool);
  ExpectNumbers<int8_t>(folder_.path(), DType::kInt8);
  ExpectNumbers<uint16_t>(folder_.path(), DType::kUint16);
  ExpectNumbers<int16_t>(folder_.path(), DType::kInt16);
  ExpectNumbers<uint32_t>(folder_.path(), DType::kUint32);
  ExpectNumbers<int32_t>(folder_.path(), DType::kInt32);
  ExpectNumbers<uint64_t>(folder_.path(), DType::kUint64);
  ExpectNumbers<int64_t>(folder_.path(), DType::kInt64);
  WriteNumbers<float>(Path("c.npy"), DType::kFloat32, {1}, {1});
  const ChunkedTable table{"c", ChunkFormat::kNumpy, ' ', {"c.npy"}};
  PH_ASSERT_OK_AND_ASSIGN(const FeatureRows rows,
                          FeatureRows::Open(folder_.path(), table, 1, 0, 1));
  EXPECT_EQ(rows.Number(0).status(),
            absl::InvalidArgumentError("cannot be the class of a node: not one integer a node"));
}

TEST_F(ChunkedInputTest, GivenPartsAreThoseOfTheRun) {
  SharedTypes types;
  types.node_types = {{"a/b", 0, 3}, {"c", 3, 4}};
  types.num_nodes = 7;
  WriteText(Path("partition_meta.json"), *WriteAssignmentMeta({5, "metis"}));
  WriteText(Path("a%2Fb.txt"), "4\n1\n0\n");
  WriteText(Path("c.txt"), "2 \n 3\r\n1\n0");
  const std::vector<uint32_t> all = {4, 1, 0, 2, 3, 1, 0};
  for (uint64_t begin = 0; begin <= 7; ++begin) {
    for (uint64_t end = begin; end <= 7; ++end) {
      PH_ASSERT_OK_AND_ASSIGN(const GivenShare share,
                              ReadGivenShare(folder_.path(), types, begin, end));
      EXPECT_EQ(share.num_parts, 5);
      EXPECT_EQ(share.part, std::vector<uint32_t>(all.begin() + static_cast<ptrdiff_t>(begin),
                                                  all.begin() + static_cast<ptrdiff_t>(end)));
    }
  }
  const auto error = [&](const std::string& text) {
    WriteText(Path("c.txt"), text);
    return ReadGivenShare(folder_.path(), types, 0, 7).status();
  };
  EXPECT_EQ(error("2\n5\n1\n0"),
            absl::InvalidArgumentError(
                Path("c.txt: line 2: the part is '5', must be a whole number from 0 to 4")));
  EXPECT_EQ(error("2\n3\n1 1\n0"),
            absl::InvalidArgumentError(Path("c.txt: line 3: more than one number")));
  EXPECT_EQ(error("2\n3\n1\n0\n0\n"),
            absl::InvalidArgumentError(Path("c.txt: has 5 lines, must have 4")));
  EXPECT_EQ(error("2\n3\n1"), absl::InvalidArgumentError(Path("c.txt: has 3 lines, must have 4")));
  EXPECT_THAT(RemoveFolder(Path("c.txt")), IsOk());
  const auto told = [&] { return ReadGivenShare(folder_.path(), types, 0, 7).status(); };
  EXPECT_EQ(told(), absl::NotFoundError(Path("c.txt: No such file or directory")));
  WriteText(Path("partition_meta.json"), "{\"num_parts\": 65537, \"algo_name\": \"metis\"}");
  EXPECT_EQ(told(), absl::InvalidArgumentError(
                        Path("partition_meta.json: num_parts is 65537, must be 1 to 65536")));
  EXPECT_THAT(RemoveFolder(Path("partition_meta.json")), IsOk());
  EXPECT_EQ(told(), absl::NotFoundError(Path("partition_meta.json: No such file or directory")));
}

// Edges of one type in files of one format.
ChunkedInput WithEdges(const std::string& folder, ChunkFormat format, uint64_t num_edges,
                       std::vector<std::string> files) {
  ChunkedGraph graph;
  graph.node_types = {{"m", 5, {}, {}}, {"n", 300, {}, {}}};
  graph.edge_types = {{"m:e:n", num_edges, {}, {"", format, ',', std::move(files)}, {}}};
  WriteText(folder + "/metadata.json", *WriteChunkedMetadata(graph));
  return *ReadChunkedInput(folder);
}

template <typename T>
void ExpectPairs(const std::string& folder, DType dtype, uint32_t num_ranks) {
  SCOPED_TRACE(testing::Message() << static_cast<int>(dtype) << " " << num_ranks);
  constexpr uint64_t kRows[] = {0, 1, 40'000, 0, 123};
  Random random(num_ranks);
  std::vector<std::string> files;
  std::vector<SharedEdge> want;
  for (const uint64_t rows : kRows) {
    std::vector<T> pairs;
    for (uint64_t i = 0; i < rows; ++i) {
      pairs.push_back(static_cast<T>(random.Below(5)));
      pairs.push_back(static_cast<T>(random.Below(300)));
      want.push_back({5 + static_cast<uint64_t>(pairs.back()),
                      static_cast<uint64_t>(*(pairs.end() - 2)), want.size()});
    }
    files.push_back(absl::StrCat("e", files.size(), ".npy"));
    WriteNumbers(folder + "/" + files.back(), dtype, {rows, 2}, pairs);
  }
  const ChunkedInput input = WithEdges(folder, ChunkFormat::kNumpy, want.size(), files);
  std::vector<SharedEdge> got(want.size());
  std::vector<int> times(want.size());
  std::mutex mutex;
  RunOnRanks(num_ranks, [&](Ranks& ranks) {
    const auto reader = MakeChunkedEdgeReader(ranks, input);
    ASSERT_THAT(reader, IsOk());
    std::vector<SharedEdge> edges;
    // Some are read twice: it begins again.
    EXPECT_THAT((*reader)->Next(edges), IsOkAndHolds(true));
    (*reader)->Rewind();
    const std::lock_guard<std::mutex> lock(mutex);
    while (*(*reader)->Next(edges)) {
      EXPECT_LE(edges.size(), 1 << 14);
      for (const SharedEdge& edge : edges) {
        got[edge.edge] = edge;
        ++times[edge.edge];
      }
    }
    EXPECT_TRUE(edges.empty());
  });
  EXPECT_THAT(times, testing::Each(1));
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].source, want[i].source);
    ASSERT_EQ(got[i].target, want[i].target);
  }
}

TEST_F(ChunkedInputTest, PairsOfAllTypesAreReadOnce) {
  ExpectPairs<int32_t>(folder_.path(), DType::kInt32, 1);
  ExpectPairs<uint32_t>(folder_.path(), DType::kUint32, 2);
  ExpectPairs<int64_t>(folder_.path(), DType::kInt64, 3);
  ExpectPairs<uint64_t>(folder_.path(), DType::kUint64, 4);
}

// Two ranks, of which the second meets what is wrong; each type of ids by itself.
TEST_F(ChunkedInputTest, EdgesThatAreNoneAreNamed) {
  const auto error = [this](const ChunkedInput& input) {
    absl::Status told;
    RunOnRanks(2, [&](Ranks& ranks) {
      const auto reader = MakeChunkedEdgeReader(ranks, input);
      absl::Status status = reader.status();
      std::vector<SharedEdge> edges;
      if (status.ok()) status = (*reader)->Next(edges).status();
      if (ranks.rank() == 1) told = status;
    });
    return told;
  };
  const std::vector<std::string> one = {"e.npy"};
  const auto joins = [this](const std::string& a, const std::string& b) {
    return absl::InvalidArgumentError(
        Path(absl::StrCat("e.npy: row 1 joins ", a, " and ", b, ", there are 5 and 300 nodes")));
  };
  const auto pair_error = [&](auto source, auto target, DType dtype) {
    using T = decltype(source);
    WriteNumbers<T>(Path("e.npy"), dtype, {2, 2}, {0, 0, source, target});
    return error(WithEdges(folder_.path(), ChunkFormat::kNumpy, 2, one));
  };
  EXPECT_THAT(pair_error(int32_t{4}, int32_t{299}, DType::kInt32), IsOk());
  EXPECT_EQ(pair_error(int32_t{5}, int32_t{299}, DType::kInt32), joins("5", "299"));
  EXPECT_EQ(pair_error(uint32_t{4}, uint32_t{300}, DType::kUint32), joins("4", "300"));
  EXPECT_EQ(pair_error(int64_t{-1}, int64_t{0}, DType::kInt64), joins("-1", "0"));
  EXPECT_EQ(pair_error(uint64_t{0}, UINT64_MAX, DType::kUint64),
            joins("0", "18446744073709551615"));

  const auto shape_error = [&](DType dtype, std::vector<uint64_t> shape) {
    uint64_t bytes = ElementBytes(dtype);
    for (const uint64_t extent : shape) bytes *= extent;
    WriteNumbers<uint8_t>(Path("e.npy"), dtype, std::move(shape), std::vector<uint8_t>(bytes));
    return error(WithEdges(folder_.path(), ChunkFormat::kNumpy, 2, one));
  };
  const absl::Status no_pairs =
      absl::InvalidArgumentError("rank 0: " + Path("e.npy: must have rows of two ids"));
  EXPECT_EQ(shape_error(DType::kInt32, {2, 3}), no_pairs);
  EXPECT_EQ(shape_error(DType::kInt32, {4}), no_pairs);
  EXPECT_EQ(shape_error(DType::kInt32, {1, 2, 2}), no_pairs);
  EXPECT_EQ(shape_error(DType::kFloat32, {2, 2}),
            absl::InvalidArgumentError("rank 0: " +
                                       Path("e.npy: ids must be int32, int64, uint32 or uint64")));
  EXPECT_EQ(shape_error(DType::kInt32, {3, 2}),
            absl::InvalidArgumentError("rank 0: " + folder_.path() +
                                       ": edge type 'm:e:n' has 2 edges, its files 3"));

  const auto text_error = [&](const std::string& line) {
    WriteText(Path("e.csv"), "\n0,0\n\n" + line + "\n");
    return error(WithEdges(folder_.path(), ChunkFormat::kCsv, 2, {"e.csv"}));
  };
  EXPECT_THAT(text_error("4,299"), IsOk());
  EXPECT_EQ(text_error("5,299"),
            absl::InvalidArgumentError(Path("e.csv: line 2: source 5 is none of the 5 nodes")));
  EXPECT_EQ(text_error("4,300"),
            absl::InvalidArgumentError(Path("e.csv: line 2: target 300 is none of the 300 nodes")));
  EXPECT_EQ(text_error("4,4,4"),
            absl::InvalidArgumentError(Path("e.csv: line 2: has 3 fields, 2 are needed")));
}

// Files that become shorter, or go, once they were looked at.
TEST_F(ChunkedInputTest, FilesThatChangeAreNotReadBeyondTheirEnd) {
  WriteNumbers<int32_t>(Path("e.npy"), DType::kInt32, {2, 2}, {0, 0, 1, 1});
  WriteText(Path("e.csv"), "0,0\n1,1\n");
  for (const bool csv : {false, true}) {
    const std::string name = csv ? "e.csv" : "e.npy";
    const ChunkedInput input =
        WithEdges(folder_.path(), csv ? ChunkFormat::kCsv : ChunkFormat::kNumpy, 2, {name});
    RunOnRanks(1, [&](Ranks& ranks) {
      const auto reader = MakeChunkedEdgeReader(ranks, input);
      ASSERT_THAT(reader, IsOk());
      std::vector<SharedEdge> edges;
      if (csv) {
        WriteText(Path(name), "0,0\n1,1");
      } else {
        WriteNumbers<int32_t>(Path(name), DType::kInt32, {1, 2}, {0, 0});
      }
      EXPECT_EQ((*reader)->Next(edges).status(),
                absl::DataLossError(Path(name) + ": has become shorter"));
      (*reader)->Rewind();
      EXPECT_THAT(RemoveFolder(Path(name)), IsOk());
      EXPECT_EQ((*reader)->Next(edges).status(),
                absl::NotFoundError(
                    absl::StrCat(Path(name), ": ", Path(name), ": No such file or directory")));
      // Who reads it now says so to all.
      EXPECT_EQ(MakeChunkedEdgeReader(ranks, input).status(),
                absl::NotFoundError(Path(name) + ": No such file or directory"));
    });
  }
}

// Node types `m`, 10 nodes, and `n`, with a column for each entry.
class OwnClassesTest : public ChunkedInputTest {
 protected:
  void Write(uint64_t num_nodes, const std::map<std::string, std::vector<int64_t>>& columns) {
    ChunkedGraph graph;
    graph.node_types = {{"m", 10, {}, {}}, {"n", num_nodes, {}, {}}};
    graph.edge_types = {{"n:e:n", 0, {}, {"", ChunkFormat::kCsv, ' ', {}}, {}}};
    for (const auto& [name, numbers] : columns) {
      WriteNumbers(Path(name + ".npy"), DType::kInt64, {num_nodes}, numbers);
      graph.node_types[1].features.push_back({name, ChunkFormat::kNumpy, ' ', {name + ".npy"}});
    }
    WriteText(Path("metadata.json"), *WriteChunkedMetadata(graph));
    input_ = *ReadChunkedInput(folder_.path());
  }
  // What rank 0 is told; the classes of all ranks together.
  absl::StatusOr<std::vector<OwnClasses>> Read(std::vector<PlannedClasses> classes,
                                               uint32_t num_ranks) {
    PartitionPlan plan;
    plan.classes = std::move(classes);
    std::vector<absl::StatusOr<std::vector<OwnClasses>>> of_rank(num_ranks);
    RunOnRanks(num_ranks, [&](Ranks& ranks) {
      const Blocks blocks(input_.types.num_nodes, ranks.size());
      of_rank[ranks.rank()] =
          ReadOwnClasses(ranks, input_, plan, blocks.begin(ranks.rank()), blocks.end(ranks.rank()));
    });
    absl::StatusOr<std::vector<OwnClasses>> all = of_rank[0];
    for (uint32_t r = 1; r < num_ranks; ++r) {
      EXPECT_EQ(of_rank[r].status(), all.status());
      if (!all.ok() || !of_rank[r].ok()) continue;
      for (size_t c = 0; c < all->size(); ++c) {
        const OwnClasses& more = (*of_rank[r])[c];
        OwnClasses& own = (*all)[c];
        EXPECT_EQ(more.node_type, own.node_type);
        EXPECT_EQ(more.num_classes, own.num_classes);
        EXPECT_EQ(more.names, own.names);
        own.class_of.insert(own.class_of.end(), more.class_of.begin(), more.class_of.end());
      }
    }
    return all;
  }
  absl::Status Error(const std::vector<PlannedClasses>& classes, uint32_t num_ranks) {
    return Read(classes, num_ranks).status();
  }

  ChunkedInput input_;
};

// However many ranks there are, also such that have no node of the type.
TEST_F(OwnClassesTest, AreThoseOfOneProcess) {
  Random random(3);
  std::map<std::string, std::vector<int64_t>> columns;
  for (const char* const name : {"label", "a", "b", "c"}) {
    for (int i = 0; i < 60; ++i) {
      columns[name].push_back(name[1] != 0 ? static_cast<int64_t>(random.Below(9)) - 4
                                           : static_cast<int64_t>(random.Below(2)));
    }
  }
  Write(60, columns);
  const auto source = ReadChunkedFolder(folder_.path());
  ASSERT_THAT(source, IsOk());
  const size_t set = *(*source)->schema().NodeSetIndex("n");
  for (const uint32_t num_ranks : {1U, 2U, 5U, 9U}) {
    SCOPED_TRACE(num_ranks);
    for (const std::vector<std::string>& names :
         std::vector<std::vector<std::string>>{{"label"}, {"a", "b"}, {"c", "a", "b"}, {"a"}}) {
      const std::vector<absl::string_view> views(names.begin(), names.end());
      PH_ASSERT_OK_AND_ASSIGN(const NodeClasses want,
                              names.size() == 1 ? ClassesFromColumn(**source, set, names[0])
                                                : ClassesFromMasks(**source, set, views));
      PH_ASSERT_OK_AND_ASSIGN(const std::vector<OwnClasses> got, Read({{"n", names}}, num_ranks));
      ASSERT_EQ(got.size(), 1);
      EXPECT_EQ(got[0].node_type, 1);
      EXPECT_EQ(got[0].num_classes, want.num_classes);
      EXPECT_EQ(got[0].class_of, want.class_of);
      EXPECT_EQ(got[0].names, want.names);
    }
  }
}

TEST_F(OwnClassesTest, ErrorsAreEverybodys) {
  std::vector<int64_t> numbers(600);
  for (int64_t i = 0; i < 600; ++i) numbers[static_cast<size_t>(i)] = i;
  Write(600, {{"many", numbers}, {"one", std::vector<int64_t>(600, 7)}});
  EXPECT_EQ(Error({{"o", {"one"}}}, 2),
            absl::NotFoundError("balance_node_sets: there is no node set 'o'"));
  EXPECT_EQ(Error({{"n", {"one"}}, {"n", {"many"}}}, 2),
            absl::InvalidArgumentError("node set 'n' has classes twice"));
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{"two"}, {"one", "two"}}) {
    EXPECT_EQ(Error({{"n", names}}, 2),
              absl::NotFoundError("rank 0: node set 'n' has no column 'two'"));
  }
  WriteNumbers(Path("one.npy"), DType::kFloat64, {600}, std::vector<double>(600));
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{"one"}, {"many", "one"}}) {
    EXPECT_EQ(Error({{"n", names}}, 2),
              absl::InvalidArgumentError("rank 0: column 'one' of 'n' cannot be the class of a "
                                         "node: not one integer a node"));
  }
  EXPECT_THAT(RemoveFolder(Path("one.npy")), IsOk());
  EXPECT_EQ(Error({{"n", {"one"}}}, 2),
            absl::NotFoundError("rank 0: " + Path("one.npy: No such file or directory")));
}

// On one rank, or on all of them together.
TEST_F(OwnClassesTest, AreAtMostTheirBound) {
  const absl::Status values =
      absl::InvalidArgumentError("column 'v' of 'n' has more than 256 different values");
  const auto on_a_rank = [](uint32_t rank, const absl::Status& status) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, ": ", status.message()));
  };
  for (const int64_t count : {255, 256, 257}) {
    std::vector<int64_t> numbers(600);
    for (int64_t i = 0; i < 600; ++i) numbers[static_cast<size_t>(i)] = -(i % count);
    Write(600, {{"v", numbers}});
    EXPECT_EQ(Error({{"n", {"v"}}}, 1),
              count == 255   ? absl::OkStatus()
              : count == 257 ? values
                             : absl::InvalidArgumentError(
                                   "257 classes of nodes (each node set without is one), beyond "
                                   "256"));
    if (count != 257) continue;
    EXPECT_EQ(Error({{"n", {"v"}}}, 2), on_a_rank(0, values));
    EXPECT_EQ(Error({{"n", {"v"}}}, 3), values);
  }

  // Bits of the node's number: as many combinations as nodes, but those of one bit or none.
  std::map<std::string, std::vector<int64_t>> bits;
  std::vector<std::string> names;
  for (int bit = 0; bit < 10; ++bit) {
    names.push_back(absl::StrCat("b", bit));
    for (int64_t node = 0; node < 600; ++node) bits[names.back()].push_back(node >> bit & 1);
  }
  Write(600, bits);
  const absl::Status combinations = absl::InvalidArgumentError(
      "the masks \"" + absl::StrJoin(names, "\", \"") +
      "\" of \"n\" overlap in so many ways that there are more than 256 classes; give fewer masks");
  EXPECT_EQ(Error({{"n", names}}, 1), combinations);
  EXPECT_EQ(Error({{"n", names}}, 2), on_a_rank(0, combinations));
  EXPECT_EQ(Error({{"n", names}}, 4), combinations);

  // Masks are classes, also those that hold no node alone.
  const auto masks = [&](size_t count) {
    return Error({{"n", std::vector<std::string>(count, "b9")}}, 2);
  };
  EXPECT_THAT(masks(253), IsOk());
  EXPECT_EQ(masks(254), absl::InvalidArgumentError(
                            "257 classes of nodes (each node set without is one), beyond 256"));
  EXPECT_THAT(masks(255),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::EndsWith("\"b9\" of \"n\" overlap in so many ways that there are "
                                         "more than 256 classes; give fewer masks")));
  EXPECT_EQ(masks(256), absl::InvalidArgumentError("rank 0: 256 masks, beyond 255"));
}

}  // namespace
}  // namespace packhouse
