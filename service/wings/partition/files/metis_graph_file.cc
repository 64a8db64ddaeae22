#include "service/wings/partition/files/metis_graph_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::StatusOr<MetisGraphHead> ParseHead(absl::string_view line) {
  MetisGraphHead head;
  TextFields fields(line);
  PH_ASSIGN_OR_RETURN(head.num_vertices,
                      fields.Number("the number of vertices", MetisGraph::kMaxVertices));
  PH_ASSIGN_OR_RETURN(head.num_edges, fields.Number("the number of edges", UINT64_MAX / 2));
  if (fields.AtEnd()) return head;
  const absl::string_view form = fields.Word();
  if (form.size() > 3 || form.find_first_not_of("01") != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("fmt is ", Quoted(form), ", must be up to three digits 0 or 1"));
  }
  const auto digit = [form](size_t from_right) {
    return from_right < form.size() && form[form.size() - 1 - from_right] == '1';
  };
  head.has_edge_weights = digit(0);
  head.num_constraints = digit(1) ? 1 : 0;
  head.has_sizes = digit(2);
  if (fields.AtEnd()) return head;
  PH_ASSIGN_OR_RETURN(const uint64_t constraints,
                      fields.Number("ncon", MetisGraph::kMaxConstraints));
  // A count of weights without weights would silently be ignored by some readers.
  if (constraints == 0 || (constraints > 1 && head.num_constraints == 0) || !fields.AtEnd()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ncon is ", constraints,
                     ": it must be at least 1, the last number of the head, and above "
                     "1 only if the middle digit of fmt is 1"));
  }
  if (head.num_constraints != 0) head.num_constraints = constraints;
  return head;
}

absl::Status ParseVertex(absl::string_view line, const MetisGraphHead& head, MetisGraph& graph) {
  TextFields fields(line);
  if (head.has_sizes) {
    PH_ASSIGN_OR_RETURN(const uint64_t size, fields.Number("a vertex size"));
    graph.vertex_sizes.push_back(size);
  }
  for (uint64_t i = 0; i < head.num_constraints; ++i) {
    PH_ASSIGN_OR_RETURN(const uint64_t weight, fields.Number("a vertex weight"));
    graph.vertex_weights.push_back(weight);
  }
  while (!fields.AtEnd()) {
    PH_ASSIGN_OR_RETURN(const uint64_t neighbour, fields.Number("a neighbour", head.num_vertices));
    if (neighbour == 0) return absl::InvalidArgumentError("a neighbour is 0, the first is 1");
    graph.neighbours.push_back(static_cast<uint32_t>(neighbour - 1));
    if (!head.has_edge_weights) continue;
    PH_ASSIGN_OR_RETURN(const uint64_t weight, fields.Number("an edge weight"));
    if (weight == 0) return absl::InvalidArgumentError("an edge weight is 0, must be at least 1");
    graph.edge_weights.push_back(weight);
  }
  graph.offsets.push_back(graph.neighbours.size());
  return absl::OkStatus();
}

// The entries of a row, ascending, each with its weight.
using Row = std::vector<std::pair<uint32_t, uint64_t>>;

}  // namespace

absl::Status CheckMetisGraph(const MetisGraph& graph) {
  const uint64_t n = graph.num_vertices();
  const auto weight = [&graph](uint64_t entry) {
    return graph.edge_weights.empty() ? uint64_t{1} : graph.edge_weights[entry];
  };
  // The entries by their neighbour: there, a row's owners ascend.
  std::vector<uint64_t> place(n + 1, 0);
  for (const uint32_t neighbour : graph.neighbours) ++place[neighbour + 1];
  for (uint64_t v = 0; v < n; ++v) place[v + 1] += place[v];
  std::vector<uint32_t> owners(graph.neighbours.size());
  std::vector<uint64_t> weights(graph.edge_weights.size());
  for (uint64_t v = 0; v < n; ++v) {
    for (uint64_t entry = graph.offsets[v]; entry < graph.offsets[v + 1]; ++entry) {
      const uint64_t to = place[graph.neighbours[entry]]++;
      owners[to] = static_cast<uint32_t>(v);
      if (!weights.empty()) weights[to] = graph.edge_weights[entry];
    }
  }
  Row row;
  uint64_t begin = 0;
  for (uint64_t v = 0; v < n; ++v) {
    row.clear();
    for (uint64_t entry = graph.offsets[v]; entry < graph.offsets[v + 1]; ++entry) {
      row.emplace_back(graph.neighbours[entry], weight(entry));
    }
    std::sort(row.begin(), row.end());
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i].first == v) {
        return absl::InvalidArgumentError(absl::StrCat("vertex ", v + 1, " is joined to itself"));
      }
      if (i > 0 && row[i].first == row[i - 1].first) {
        return absl::InvalidArgumentError(
            absl::StrCat("vertex ", v + 1, " has the neighbour ", row[i].first + 1, " twice"));
      }
    }
    const uint64_t end = place[v];
    bool same = end - begin == row.size();
    for (size_t i = 0; same && i < row.size(); ++i) {
      same = row[i].first == owners[begin + i] &&
             (weights.empty() || row[i].second == weights[begin + i]);
    }
    if (!same) {
      return absl::InvalidArgumentError(absl::StrCat(
          "vertex ", v + 1,
          " has an edge that its other end does not have, or has with another weight"));
    }
    begin = end;
  }
  return absl::OkStatus();
}

absl::StatusOr<MetisGraph> ReadMetisGraph(absl::string_view text) {
  TextLines lines(text);
  MetisGraph graph;
  std::optional<MetisGraphHead> head;
  while (const std::optional<absl::string_view> line = lines.Next()) {
    if (absl::StartsWith(*line, "%")) continue;
    if (!head) {
      const absl::StatusOr<MetisGraphHead> parsed = ParseHead(*line);
      if (!parsed.ok()) return lines.Wrong(parsed.status().message());
      head = *parsed;
      graph.num_constraints = head->num_constraints;
      continue;
    }
    if (graph.num_vertices() == head->num_vertices) {
      if (TextFields(*line).AtEnd()) continue;
      return lines.Wrong(absl::StrCat("there are only ", head->num_vertices, " vertices"));
    }
    const absl::Status status = ParseVertex(*line, *head, graph);
    if (!status.ok()) return lines.Wrong(status.message());
  }
  if (!head) return absl::InvalidArgumentError("the file has no head");
  if (graph.num_vertices() != head->num_vertices) {
    return absl::InvalidArgumentError(absl::StrCat("the file has lines for ", graph.num_vertices(),
                                                   " vertices, its head says ",
                                                   head->num_vertices));
  }
  if (graph.neighbours.size() != 2 * head->num_edges) {
    return absl::InvalidArgumentError(
        absl::StrCat("the lines have ", graph.neighbours.size(),
                     " neighbours, must have two for each of the head's ", head->num_edges,
                     " edges (an edge counts once in the head)"));
  }
  PH_RETURN_IF_ERROR(CheckMetisGraph(graph));
  return graph;
}

MetisGraphWriter::MetisGraphWriter(const MetisGraphHead& head, ByteSink& sink)
    : head_(head), text_(sink) {
  text_.Number(head.num_vertices);
  text_.Number(head.num_edges);
  if (head.has_sizes || head.num_constraints > 0 || head.has_edge_weights) {
    text_.Word(absl::StrCat(head.has_sizes ? "1" : "0", head.num_constraints > 0 ? "1" : "0",
                            head.has_edge_weights ? "1" : "0"));
    if (head.num_constraints > 0) text_.Number(head.num_constraints);
  }
  // An error of the sink comes back with the first vertex.
  (void)text_.EndLine();
}

absl::Status MetisGraphWriter::Vertex(absl::Span<const uint32_t> neighbours,
                                      absl::Span<const uint64_t> edge_weights,
                                      absl::Span<const uint64_t> weights, uint64_t size) {
  const size_t wanted = head_.has_edge_weights ? neighbours.size() : 0;
  if (edge_weights.size() != wanted || weights.size() != head_.num_constraints) {
    return absl::FailedPreconditionError(absl::StrCat(
        "vertex ", vertices_ + 1, " has ", edge_weights.size(), " edge weights and ",
        weights.size(), " weights, must have ", wanted, " and ", head_.num_constraints));
  }
  if (head_.has_sizes) text_.Number(size);
  for (const uint64_t weight : weights) text_.Number(weight);
  for (size_t i = 0; i < neighbours.size(); ++i) {
    text_.Number(uint64_t{neighbours[i]} + 1);
    if (head_.has_edge_weights) text_.Number(edge_weights[i]);
  }
  ++vertices_;
  entries_ += neighbours.size();
  return text_.EndLine();
}

absl::Status MetisGraphWriter::Finish() {
  PH_RETURN_IF_ERROR(text_.Finish());
  if (vertices_ == head_.num_vertices && entries_ == 2 * head_.num_edges) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the head says ", head_.num_vertices, " vertices and ", head_.num_edges,
                   " edges, written were ", vertices_, " and ", entries_, " ends of edges"));
}

absl::Status WriteMetisGraph(const MetisGraph& graph, ByteSink& sink) {
  MetisGraphHead head;
  head.num_vertices = graph.num_vertices();
  head.num_edges = graph.neighbours.size() / 2;
  head.has_sizes = !graph.vertex_sizes.empty();
  head.num_constraints = graph.num_constraints;
  head.has_edge_weights = !graph.edge_weights.empty();
  MetisGraphWriter writer(head, sink);
  const absl::Span<const uint32_t> neighbours = graph.neighbours;
  const absl::Span<const uint64_t> edge_weights = graph.edge_weights;
  const absl::Span<const uint64_t> weights = graph.vertex_weights;
  for (uint64_t v = 0; v < head.num_vertices; ++v) {
    const uint64_t begin = graph.offsets[v];
    const uint64_t count = graph.offsets[v + 1] - begin;
    PH_RETURN_IF_ERROR(
        writer.Vertex(neighbours.subspan(begin, count),
                      head.has_edge_weights ? edge_weights.subspan(begin, count) : edge_weights,
                      weights.subspan(v * head.num_constraints, head.num_constraints),
                      head.has_sizes ? graph.vertex_sizes[v] : 1));
  }
  return writer.Finish();
}

absl::StatusOr<std::vector<uint32_t>> ReadPartLines(absl::string_view text, uint64_t num_vertices,
                                                    uint32_t num_parts) {
  if (num_parts == 0) return absl::InvalidArgumentError("the number of parts is 0");
  TextLines lines(text);
  std::vector<uint32_t> parts;
  while (const std::optional<absl::string_view> line = lines.Next()) {
    TextFields fields(*line);
    const absl::StatusOr<uint64_t> part = fields.Number("a part", num_parts - 1);
    if (!part.ok()) return lines.Wrong(part.status().message());
    if (!fields.AtEnd()) return lines.Wrong("more than one number");
    if (parts.size() == num_vertices) {
      return lines.Wrong(absl::StrCat("there are only ", num_vertices, " nodes"));
    }
    parts.push_back(static_cast<uint32_t>(*part));
  }
  if (parts.size() == num_vertices) return parts;
  return absl::InvalidArgumentError(
      absl::StrCat("the file has ", parts.size(), " lines, there are ", num_vertices, " nodes"));
}

absl::Status WritePartLines(absl::Span<const uint32_t> parts, ByteSink& sink) {
  TextWriter text(sink);
  for (const uint32_t part : parts) {
    text.Number(part);
    PH_RETURN_IF_ERROR(text.EndLine());
  }
  return text.Finish();
}

}  // namespace packhouse
