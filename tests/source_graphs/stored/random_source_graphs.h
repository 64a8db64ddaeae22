// Small source graphs with every kind of set and column, as tables of rows, and what they are
// sealed to: slow and obvious.
#ifndef PACKHOUSE_TESTS_SOURCE_GRAPHS_STORED_RANDOM_SOURCE_GRAPHS_H_
#define PACKHOUSE_TESTS_SOURCE_GRAPHS_STORED_RANDOM_SOURCE_GRAPHS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "service/base/seeded_random.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

template <typename T>
std::string BytesOf(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// A row of nodes or edges, by its set. Ids as their bytes. A cell is the bytes of one column.
struct RowOfNode {
  size_t set;
  std::string id;
  std::vector<std::string> cells;
};
struct RowOfEdge {
  size_t set;
  std::string source;
  std::string target;
  std::vector<std::string> cells;
};
struct RowsOfGraph {
  std::vector<RowOfNode> nodes;
  std::vector<RowOfEdge> edges;
};

// Node sets `paper` (integers; float32 [2], a ragged int16) and `author` (text; no column, a text),
// edge sets `cites` (paper to paper, by both ends; an int64), `writes` (author to paper, by both
// ends; no column), `written` (its reverse) and `reads` (author to author, by target; a text).
inline SourceGraphSchema LawSchema() {
  SourceColumnSpec x = {"x", DType::kFloat32, {2}, false, false};
  SourceColumnSpec tags = {"tags", DType::kInt16, {}, true, false};
  SourceColumnSpec name = {"name", DType::kUint8, {}, true, true};
  SourceColumnSpec when = {"when", DType::kInt64, {}, false, false};
  return *SourceGraphSchema::Create({{"paper", {x, tags}}, {"author", {name}}},
                                    {{"cites", 0, 0, {when}, {}},
                                     {"writes", 1, 0, {}, {}},
                                     {"written", 0, 1, {}, 1},
                                     {"reads", 1, 1, {name}, {}}});
}

inline SourceGraphOptions LawOptions() {
  SourceGraphOptions options;
  options.node_sets = {{true, true}, {false, true}};
  options.edge_sets = {{true, true}, {true, true}, {true, true}, {false, true}};
  return options;
}

// Ids are from a small range, so that edges are parallel and mention nodes that have no row. No
// node has two rows. Edges with the same ends have the same cells.
inline RowsOfGraph RandomRows(SeededRandom& random, size_t num_nodes, size_t num_edges) {
  RowsOfGraph rows;
  const auto text = [&](uint64_t number) {
    // Some share their first eight bytes, one is the beginning of another.
    return number % 3 == 0 ? absl::StrCat("author-number-", number)
                           : std::string(1 + number % 11, static_cast<char>('a' + number % 7));
  };
  const auto id = [&](size_t set, uint64_t number) {
    return set == 0 ? BytesOf(static_cast<int64_t>(number * 3) - 40) : text(number);
  };
  const uint64_t range = num_nodes + 5;
  for (size_t set = 0; set < 2; ++set) {
    std::vector<std::string> seen;
    for (size_t n = 0; n < num_nodes; ++n) {
      RowOfNode node = {set, id(set, random.Below(range)), {}};
      if (std::find(seen.begin(), seen.end(), node.id) != seen.end()) continue;
      seen.push_back(node.id);
      if (set == 0) {
        node.cells = {BytesOf(random.Next()), std::string(2 * random.Below(4), 't')};
      } else {
        node.cells = {std::string(random.Below(5), 'n')};
      }
      rows.nodes.push_back(std::move(node));
    }
  }
  const size_t ends[4][2] = {{0, 0}, {1, 0}, {0, 0}, {1, 1}};
  std::map<std::tuple<size_t, std::string, std::string>, std::vector<std::string>> cells;
  for (size_t e = 0; e < num_edges; ++e) {
    const size_t set = std::vector<size_t>{0, 1, 3}[random.Below(3)];
    RowOfEdge edge = {
        set, id(ends[set][0], random.Below(range)), id(ends[set][1], random.Below(range)), {}};
    auto& of_ends = cells[{set, edge.source, edge.target}];
    if (of_ends.empty() && set == 0) of_ends = {BytesOf(random.Next())};
    if (of_ends.empty() && set == 3) of_ends = {std::string(random.Below(4), 'r')};
    edge.cells = of_ends;
    rows.edges.push_back(std::move(edge));
  }
  return rows;
}

template <typename Rows>
void Shuffle(SeededRandom& random, std::vector<Rows>& rows) {
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.Below(i)]);
}

// The bytes of a chunk, and the views of them.
class ChunkOfRows {
 public:
  ChunkOfRows(const SourceGraphSchema& schema, const SourceGraphOptions& options,
              const RowsOfGraph& rows) {
    for (size_t set = 0; set < schema.node_sets().size(); ++set) {
      SourceNodeRows part;
      part.node_set = set;
      Ids ids(options.node_sets[set].integer_ids);
      Columns columns(schema.node_sets()[set].columns);
      for (const RowOfNode& row : rows.nodes) {
        if (row.set != set) continue;
        ids.Add(row.id);
        columns.Add(row.cells);
        ++part.num_rows;
      }
      if (part.num_rows == 0) continue;
      part.ids = View(ids);
      part.columns = View(columns);
      chunk_.nodes.push_back(std::move(part));
    }
    for (size_t set = 0; set < schema.edge_sets().size(); ++set) {
      const SourceEdgeSetSpec& spec = schema.edge_sets()[set];
      SourceEdgeRows part;
      part.edge_set = set;
      Ids sources(options.node_sets[spec.source].integer_ids);
      Ids targets(options.node_sets[spec.target].integer_ids);
      Columns columns(spec.columns);
      for (const RowOfEdge& row : rows.edges) {
        if (row.set != set) continue;
        sources.Add(row.source);
        targets.Add(row.target);
        columns.Add(row.cells);
        ++part.num_rows;
      }
      if (part.num_rows == 0) continue;
      part.sources = View(sources);
      part.targets = View(targets);
      part.columns = View(columns);
      chunk_.edges.push_back(std::move(part));
    }
  }
  const SourceGraphChunk& chunk() const { return chunk_; }

 private:
  struct Ids {
    explicit Ids(bool integers_in) : integers(integers_in) {}
    void Add(const std::string& id) {
      data += id;
      if (!integers) lengths += BytesOf(static_cast<uint32_t>(id.size()));
    }
    bool integers;
    std::string data;
    std::string lengths;
  };
  struct Columns {
    explicit Columns(const std::vector<SourceColumnSpec>& specs_in)
        : specs(specs_in), data(specs_in.size()), lengths(specs_in.size()) {}
    void Add(const std::vector<std::string>& cells) {
      for (size_t c = 0; c < cells.size(); ++c) {
        data[c] += cells[c];
        if (specs[c].ragged) {
          lengths[c] += BytesOf(static_cast<uint32_t>(cells[c].size() / SourceStepBytes(specs[c])));
        }
      }
    }
    std::vector<SourceColumnSpec> specs;
    std::vector<std::string> data;
    std::vector<std::string> lengths;
  };

  absl::string_view Keep(const std::string& bytes) {
    kept_.push_back(std::make_unique<std::string>(bytes));
    return *kept_.back();
  }
  SourceIdRows View(const Ids& ids) { return {ids.integers, Keep(ids.data), Keep(ids.lengths)}; }
  std::vector<SourceColumnRows> View(const Columns& columns) {
    std::vector<SourceColumnRows> views;
    for (size_t c = 0; c < columns.data.size(); ++c) {
      views.push_back({Keep(columns.data[c]), Keep(columns.lengths[c])});
    }
    return views;
  }

  std::vector<std::unique_ptr<std::string>> kept_;
  SourceGraphChunk chunk_;
};

// A whole graph, read through its interface.
struct ReadGraph {
  struct Node {
    std::string id;
    std::vector<std::string> cells;
    bool operator==(const Node&) const = default;
  };
  struct Edge {
    uint32_t source;
    uint32_t target;
    std::vector<std::string> cells;
    bool operator==(const Edge&) const = default;
  };
  std::vector<std::vector<Node>> nodes;
  std::vector<std::vector<Edge>> edges;  // By number.
  bool operator==(const ReadGraph&) const = default;
};

inline std::string Cell(const SourceColumn& column, uint64_t row) {
  if (column.offsets.empty()) {
    return std::string(column.data + row * column.row_bytes, column.row_bytes);
  }
  return std::string(column.data + column.offsets[row] * column.row_bytes,
                     (column.offsets[row + 1] - column.offsets[row]) * column.row_bytes);
}

// Adds a failure if both directions of an edge set do not have the same edges.
inline ReadGraph Read(const SourceGraph& graph) {
  ReadGraph read;
  for (size_t set = 0; set < graph.schema().node_sets().size(); ++set) {
    read.nodes.emplace_back();
    for (uint64_t n = 0; n < graph.num_nodes(set); ++n) {
      ReadGraph::Node node = {Cell(graph.NodeIds(set), n), {}};
      for (size_t c = 0; c < graph.schema().node_sets()[set].columns.size(); ++c) {
        node.cells.push_back(Cell(graph.NodeColumn(set, c), n));
      }
      read.nodes.back().push_back(std::move(node));
    }
  }
  for (size_t set = 0; set < graph.schema().edge_sets().size(); ++set) {
    const SourceEdgeSetSpec& spec = graph.schema().edge_sets()[set];
    std::vector<ReadGraph::Edge> edges(graph.num_edges(set));
    size_t num_directions = 0;
    for (const bool by_source : {true, false}) {
      const auto rows = by_source ? graph.BySource(set) : graph.ByTarget(set);
      if (!rows.ok()) continue;
      ++num_directions;
      EXPECT_EQ(rows->num_rows(), graph.num_nodes(by_source ? spec.source : spec.target));
      EXPECT_EQ(rows->neighbours.size(), edges.size());
      for (uint32_t row = 0; row < rows->num_rows(); ++row) {
        for (uint64_t place = rows->offsets[row]; place < rows->offsets[row + 1]; ++place) {
          if (place > rows->offsets[row]) {
            EXPECT_LT(rows->edge(place - 1), rows->edge(place));
          }
          const uint32_t other = rows->neighbours[place];
          ReadGraph::Edge edge = {by_source ? row : other, by_source ? other : row, {}};
          if (num_directions == 2) {
            EXPECT_EQ(edges[rows->edge(place)].source, edge.source);
            EXPECT_EQ(edges[rows->edge(place)].target, edge.target);
          }
          edges[rows->edge(place)] = edge;
        }
      }
    }
    EXPECT_GE(num_directions, 1U);
    for (uint64_t e = 0; e < edges.size() && !spec.reverse_of; ++e) {
      for (size_t c = 0; c < spec.columns.size(); ++c) {
        edges[e].cells.push_back(Cell(graph.EdgeColumn(set, c), e));
      }
    }
    read.edges.push_back(std::move(edges));
  }
  return read;
}

// The same by a reader that checks what it reads, as all do.
inline absl::StatusOr<ReadGraph> TryRead(const SourceGraph& graph) {
  const auto check = [](const SourceColumn& column, uint64_t num_rows) {
    for (uint64_t row = 0; row < num_rows; ++row) {
      if (absl::Status sound = column.CheckLength(row); !sound.ok()) return sound;
      if (absl::Status sound = column.CheckRow(row); !sound.ok()) return sound;
    }
    return absl::OkStatus();
  };
  for (size_t set = 0; set < graph.schema().node_sets().size(); ++set) {
    absl::Status sound = check(graph.NodeIds(set), graph.num_nodes(set));
    for (size_t c = 0; c < graph.schema().node_sets()[set].columns.size() && sound.ok(); ++c) {
      sound = check(graph.NodeColumn(set, c), graph.num_nodes(set));
    }
    const ImportedRows rows = graph.NodeRows(set);
    if (sound.ok() && !rows.is_identity()) sound = check(rows.numbers(), graph.num_nodes(set));
    const NodesByRow by_row = graph.NodesOfRows(set);
    for (uint64_t row = 0; row < by_row.num_rows() && sound.ok(); ++row) {
      sound = by_row.CheckRow(row);
    }
    if (!sound.ok()) return sound;
  }
  for (size_t set = 0; set < graph.schema().edge_sets().size(); ++set) {
    absl::Status sound;
    const ImportedRows rows = graph.EdgeRows(set);
    if (!rows.is_identity()) sound = check(rows.numbers(), graph.num_edges(set));
    for (size_t c = 0; c < graph.schema().edge_sets()[set].columns.size() && sound.ok(); ++c) {
      sound = check(graph.EdgeColumn(set, c), graph.num_edges(set));
    }
    for (const absl::Status& status :
         {graph.BySource(set).status(), graph.ByTarget(set).status()}) {
      if (absl::IsDataLoss(status)) sound = status;
    }
    if (!sound.ok()) return sound;
  }
  return Read(graph);
}

// What the rows must be sealed to.
inline ReadGraph Expected(const SourceGraphSchema& schema, const SourceGraphOptions& options,
                          const RowsOfGraph& rows) {
  ReadGraph expected;
  // By the order of ids.
  using Order = std::pair<int64_t, std::string>;
  const auto order = [&](size_t set, const std::string& id) -> Order {
    if (!options.node_sets[set].integer_ids) return {0, id};
    int64_t number;
    std::memcpy(&number, id.data(), sizeof(number));
    return {number, ""};
  };
  std::vector<std::map<Order, ReadGraph::Node>> nodes(schema.node_sets().size());
  for (const RowOfNode& row : rows.nodes) {
    nodes[row.set][order(row.set, row.id)] = {row.id, row.cells};
  }
  const auto mention = [&](size_t set, const std::string& id) {
    std::vector<std::string> cells;
    for (const SourceColumnSpec& column : schema.node_sets()[set].columns) {
      cells.emplace_back(column.ragged ? 0 : SourceStepBytes(column), '\0');
    }
    nodes[set].emplace(order(set, id), ReadGraph::Node{id, cells});
  };
  for (const RowOfEdge& row : rows.edges) {
    mention(schema.edge_sets()[row.set].source, row.source);
    mention(schema.edge_sets()[row.set].target, row.target);
  }
  for (const auto& of_set : nodes) {
    expected.nodes.emplace_back();
    for (const auto& [key, node] : of_set) expected.nodes.back().push_back(node);
  }
  const auto number = [&](size_t set, const std::string& id) {
    const auto found = nodes[set].find(order(set, id));
    return static_cast<uint32_t>(std::distance(nodes[set].begin(), found));
  };
  expected.edges.resize(schema.edge_sets().size());
  for (const RowOfEdge& row : rows.edges) {
    const SourceEdgeSetSpec& spec = schema.edge_sets()[row.set];
    expected.edges[row.set].push_back(
        {number(spec.source, row.source), number(spec.target, row.target), row.cells});
  }
  for (size_t set = 0; set < expected.edges.size(); ++set) {
    std::stable_sort(expected.edges[set].begin(), expected.edges[set].end(),
                     [&](const ReadGraph::Edge& a, const ReadGraph::Edge& b) {
                       return options.edge_sets[set].by_source
                                  ? std::tie(a.source, a.target) < std::tie(b.source, b.target)
                                  : std::tie(a.target, a.source) < std::tie(b.target, b.source);
                     });
  }
  for (size_t set = 0; set < expected.edges.size(); ++set) {
    const auto& of = schema.edge_sets()[set].reverse_of;
    if (!of) continue;
    for (const ReadGraph::Edge& edge : expected.edges[*of]) {
      expected.edges[set].push_back({edge.target, edge.source, {}});
    }
  }
  return expected;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SOURCE_GRAPHS_STORED_RANDOM_SOURCE_GRAPHS_H_
