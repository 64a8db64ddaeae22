// Small graphs in chunked files, and their bytes.
#ifndef PACKHOUSE_TESTS_PARTITION_JOBS_CHUNKED_GRAPHS_H_
#define PACKHOUSE_TESTS_PARTITION_JOBS_CHUNKED_GRAPHS_H_

#include <cstdint>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/wings/partition/files/chunked_layout.h"
#include "service/wings/partition/files/dgl_writer.h"
#include "service/wings/partition/files/npy_file.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {

inline constexpr uint64_t kUsers = 37;
inline constexpr uint64_t kItems = 23;
inline constexpr uint64_t kEdges = 140;

inline void WriteText(const std::string& path, const std::string& text) {
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
inline void WriteChunkedGraph(const std::string& folder) {
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

// A graph file of as many nodes, all of which were number `original`; nothing is known of them
// without one.
inline std::string GraphOfNodes(uint64_t num_nodes, std::optional<int64_t> original) {
  const auto none = [](uint64_t) { return 0; };
  DglGraphSource graph;
  graph.num_nodes = num_nodes;
  graph.coo = DglCooSource{MadeArray<int64_t>("s", DType::kInt64, 0, none),
                           MadeArray<int64_t>("t", DType::kInt64, 0, none)};
  if (original) {
    graph.node_data.push_back(MadeArray<int64_t>("orig_id", DType::kInt64, num_nodes,
                                                 [original](uint64_t) { return *original; }));
  }
  StringSink sink;
  EXPECT_THAT(WriteDglGraphFile(graph, sink), IsOk());
  return sink.bytes();
}

inline std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PARTITION_JOBS_CHUNKED_GRAPHS_H_
