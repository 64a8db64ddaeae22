// What the killed program appends to which graph, and the test expects.
#ifndef PACKHOUSE_TESTS_SOURCE_GRAPHS_STORED_KILLED_ROWS_H_
#define PACKHOUSE_TESTS_SOURCE_GRAPHS_STORED_KILLED_ROWS_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/base/seeded_random.h"
#include "tests/source_graphs/stored/random_source_graphs.h"

namespace packhouse {

inline constexpr uint64_t kAppendsOfGraph = 5;

// Nodes of different appends are different, and so are the ends of edges.
inline RowsOfGraph RowsOf(uint64_t graph, uint64_t sequence) {
  SeededRandom random(graph * 1000 + sequence);
  RowsOfGraph rows = RandomRows(random, 10, 20);
  const auto apart = [&](size_t node_set, std::string& id) {
    if (node_set == 1) {
      id += absl::StrCat("/", sequence);
      return;
    }
    int64_t number;
    std::memcpy(&number, id.data(), sizeof(number));
    id = BytesOf(number + static_cast<int64_t>(sequence) * 100000);
  };
  const SourceGraphSchema schema = LawSchema();
  for (RowOfNode& node : rows.nodes) apart(node.set, node.id);
  for (RowOfEdge& edge : rows.edges) {
    apart(schema.edge_sets()[edge.set].source, edge.source);
    apart(schema.edge_sets()[edge.set].target, edge.target);
  }
  return rows;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SOURCE_GRAPHS_STORED_KILLED_ROWS_H_
