// Reads the real size distributions that some tests run on.
#ifndef PACKHOUSE_TESTS_SUPPORT_SIZES_CSV_H_
#define PACKHOUSE_TESTS_SUPPORT_SIZES_CSV_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "service/algorithms/histograms/size_histogram.h"
#include "tests/support/shared_data.h"

namespace packhouse {

// hist/NAME.csv (num_nodes,num_edges,count); nothing if it is not there.
inline std::optional<SizeHistogram> ReadHistogram(const std::string& name) {
  const std::string path = SharedData() + "/hist/" + name + ".csv";
  std::FILE* const file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return std::nullopt;
  SizeHistogram histogram(2);
  char line[128];
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    unsigned nodes = 0;
    unsigned edges = 0;
    unsigned long long count = 0;
    if (std::sscanf(line, "%u,%u,%llu", &nodes, &edges, &count) != 3) continue;  // The header.
    if (!histogram.Add({{nodes, edges}}, count).ok()) return std::nullopt;
  }
  std::fclose(file);
  return histogram;
}

// sizes/NAME.csv.gz (num_nodes,num_edges), in the data set's own order, through `gzip -dc`.
inline std::optional<std::vector<uint32_t>> ReadSizes(const std::string& name) {
  const std::string path = SharedData() + "/sizes/" + name + ".csv.gz";
  std::FILE* const probe = std::fopen(path.c_str(), "r");
  if (probe == nullptr) return std::nullopt;
  std::fclose(probe);
  std::FILE* const pipe = ::popen(("gzip -dc '" + path + "'").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::vector<uint32_t> sizes;
  char line[128];
  while (std::fgets(line, sizeof(line), pipe) != nullptr) {
    unsigned nodes = 0;
    unsigned edges = 0;
    if (std::sscanf(line, "%u,%u", &nodes, &edges) != 2) continue;
    sizes.push_back(nodes);
    sizes.push_back(edges);
  }
  ::pclose(pipe);
  return sizes;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_SIZES_CSV_H_
