// Any bytes as the text files around METIS and ParMETIS. Whatever comes in: no crash, no memory for
// what a head only claims, and what was read can be written and read again.
//
// The first byte says which kind of file. A conversion takes its files from between bytes 0.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "service/wings/partition/files/metis_graph_file.h"
#include "service/wings/partition/files/parmetis_converter.h"

namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void TryMetis(absl::string_view text) {
  const auto graph = packhouse::ReadMetisGraph(text);
  if (!graph.ok()) return;
  packhouse::StringSink again;
  Require(packhouse::WriteMetisGraph(*graph, again).ok(), "metis: not written");
  const auto got = packhouse::ReadMetisGraph(again.bytes());
  Require(got.ok() && *got == *graph, "metis: not read again");
}

void TryParts(absl::string_view text) {
  (void)packhouse::ReadPartLines(text, text.size() / 2, 4);
  const auto parts = packhouse::ReadParmetisParts(text, text.size() / 4, 4);
  if (!parts.ok()) return;
  packhouse::StringSink again;
  Require(packhouse::WriteParmetisParts(*parts, again).ok(), "parts: not written");
  const auto got = packhouse::ReadParmetisParts(again.bytes(), parts->size(), 4);
  Require(got.ok() && *got == *parts, "parts: not read again");
}

// The pipeline's input: a row that was read is written, and read as the same.
void TryRows(absl::string_view text) {
  const auto stats = packhouse::ReadParmetisStats(text);
  const uint64_t num_weights = stats.ok() ? stats->num_weights : 2;
  constexpr auto kSide = packhouse::ParmetisSide::kInput;
  packhouse::TextLines lines(text);
  packhouse::ParmetisNode node;
  packhouse::ParmetisEdge edge;
  while (const std::optional<absl::string_view> line = lines.Next()) {
    packhouse::StringSink again;
    packhouse::TextWriter writer(again);
    const bool is_node = packhouse::ParseParmetisNode(*line, kSide, num_weights, &node).ok();
    const bool is_edge = packhouse::ParseParmetisEdge(*line, kSide, &edge).ok();
    if (is_node) Require(WriteParmetisNode(node, kSide, writer).ok(), "rows: no node written");
    if (is_edge) Require(WriteParmetisEdge(edge, kSide, writer).ok(), "rows: no edge written");
    Require(writer.Finish().ok(), "rows: not written");
    packhouse::TextLines written(again.bytes());
    packhouse::ParmetisNode same_node;
    packhouse::ParmetisEdge same_edge;
    if (is_node) {
      Require(ParseParmetisNode(*written.Next(), kSide, num_weights, &same_node).ok() &&
                  same_node.original == node.original && same_node.weights == node.weights,
              "rows: not the same node");
    }
    if (is_edge) {
      Require(ParseParmetisEdge(*written.Next(), kSide, &same_edge).ok() &&
                  same_edge.target == edge.target && same_edge.attributes == edge.attributes,
              "rows: not the same edge");
    }
  }
}

void TryConversion(absl::string_view text) {
  const std::vector<absl::string_view> files = absl::StrSplit(text, '\0');
  if (files.size() < 6) return;
  packhouse::ParmetisFiles all;
  auto schema = packhouse::ReadParmetisSchema(files[0]);
  if (!schema.ok()) return;
  all.schema = *std::move(schema);
  all.nodes = {files[1], files[2]};
  all.edges = {files[3], files[4]};
  all.removed_edges = files[5];
  const auto converter = packhouse::ParmetisConverter::Create(std::move(all));
  if (!converter.ok()) return;
  const packhouse::PartitionJson json = converter->Json("g", "metis");
  Require(packhouse::CheckPartitionJson(json).ok(), "conversion: ranges do not tile");
  uint64_t edges = 0;
  for (uint64_t number = 0; number < converter->num_parts(); ++number) {
    const auto part = converter->PartOf(number);
    Require(part.ok(), "conversion: no part");
    edges += part->edges.size();
    packhouse::StringSink sink;
    Require(packhouse::WriteDglGraphFile(converter->Graph(*part), sink).ok(),
            "conversion: part not written");
    // Attributes need not be numbers.
    (void)packhouse::WriteDglTensorFile(converter->NodeFeatures(*part), sink);
    (void)packhouse::WriteDglTensorFile(converter->EdgeFeatures(*part), sink);
  }
  Require(edges == json.num_edges, "conversion: edges are lost");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      TryMetis(text);
      break;
    case 1:
      TryParts(text);
      break;
    case 2:
      TryConversion(text);
      break;
    default:
      TryRows(text);
  }
  return 0;
}
