#include "service/wings/graphs/stored/graph_files.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "packhouse/internal/source_graph.pb.h"
#include "service/base/checksum.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kGraphMagic = "PHGRAPH\n";
constexpr uint32_t kGraphVersion = 1;
constexpr size_t kGraphHeader = 16;
// Nor does it write again what a later release has added.
constexpr absl::string_view kNotWritten = "has fields that this release does not write";

void AddU32(uint32_t value, std::string& bytes) {
  char raw[sizeof(value)];
  std::memcpy(raw, &value, sizeof(value));
  bytes.append(raw, sizeof(value));
}

uint32_t U32At(absl::string_view bytes, size_t at) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

template <typename Message>
std::string Sealed(const Message& message) {
  const std::string body = message.SerializeAsString();
  std::string bytes(kGraphMagic);
  AddU32(kGraphVersion, bytes);
  AddU32(static_cast<uint32_t>(body.size()), bytes);
  bytes += body;
  AddU32(Crc32c(bytes), bytes);
  return bytes;
}

template <typename Message>
absl::StatusOr<Message> Unsealed(const std::string& where, absl::string_view bytes) {
  const auto lost = [&where](absl::string_view why) {
    return absl::DataLossError(absl::StrCat(where, ": ", why));
  };
  if (bytes.size() < kGraphHeader + sizeof(uint32_t) ||
      bytes.substr(0, kGraphMagic.size()) != kGraphMagic) {
    return lost("is cut off, or is no file of a source graph");
  }
  // First, so that a damaged one does not look like one of another release.
  const size_t end = bytes.size() - sizeof(uint32_t);
  if (U32At(bytes, end) != Crc32c(bytes.substr(0, end))) return lost("fails its checksum");
  if (const uint32_t version = U32At(bytes, kGraphMagic.size()); version != kGraphVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        where, ": has format ", version, ", this release reads format ", kGraphVersion));
  }
  if (U32At(bytes, kGraphHeader - sizeof(uint32_t)) != end - kGraphHeader) {
    return lost("has another length than it says");
  }
  Message message;
  if (!message.ParseFromArray(bytes.data() + kGraphHeader, static_cast<int>(end - kGraphHeader))) {
    return lost(kNotWritten);
  }
  return message;
}

template <typename Columns>
void PutColumns(const std::vector<SourceColumnSpec>& columns, Columns& stored) {
  for (const SourceColumnSpec& column : columns) {
    internal::StoredSourceColumn& put = *stored.Add();
    put.set_name(column.name);
    put.set_dtype(static_cast<uint32_t>(column.dtype));
    for (const uint32_t extent : column.row_shape) put.add_row_shape(extent);
    put.set_ragged(column.ragged);
    put.set_text(column.text);
  }
}

template <typename Columns>
std::optional<std::vector<SourceColumnSpec>> TakeColumns(const Columns& stored) {
  std::vector<SourceColumnSpec> columns;
  for (const internal::StoredSourceColumn& from : stored) {
    if (from.dtype() > static_cast<uint32_t>(DType::kFloat64)) return std::nullopt;
    columns.push_back({from.name(),
                       static_cast<DType>(from.dtype()),
                       {from.row_shape().begin(), from.row_shape().end()},
                       from.ragged(),
                       from.text()});
  }
  return columns;
}

}  // namespace

std::string EncodeDefinition(const GraphDefinition& definition) {
  internal::StoredSourceGraph stored;
  stored.set_name(definition.name);
  stored.set_id(definition.id);
  stored.set_max_bytes(definition.options.max_bytes);
  stored.set_has_log(definition.has_log);
  for (size_t n = 0; n < definition.schema->node_sets().size(); ++n) {
    const SourceNodeSetSpec& set = definition.schema->node_sets()[n];
    internal::StoredSourceNodeSet& put = *stored.add_node_sets();
    put.set_name(set.name);
    PutColumns(set.columns, *put.mutable_columns());
    put.set_integer_ids(definition.options.node_sets[n].integer_ids);
    put.set_nodes_from_edges(definition.options.node_sets[n].nodes_from_edges);
  }
  for (size_t e = 0; e < definition.schema->edge_sets().size(); ++e) {
    const SourceEdgeSetSpec& set = definition.schema->edge_sets()[e];
    internal::StoredSourceEdgeSet& put = *stored.add_edge_sets();
    put.set_name(set.name);
    put.set_source(static_cast<uint32_t>(set.source));
    put.set_target(static_cast<uint32_t>(set.target));
    PutColumns(set.columns, *put.mutable_columns());
    if (set.reverse_of) put.set_reverse_of(static_cast<uint32_t>(*set.reverse_of + 1));
    put.set_by_source(definition.options.edge_sets[e].by_source);
    put.set_by_target(definition.options.edge_sets[e].by_target);
  }
  return Sealed(stored);
}

std::string EncodeManifest(const GraphManifest& manifest) {
  internal::SealedSourceGraph stored;
  stored.set_name(manifest.name);
  stored.set_id(manifest.id);
  stored.set_version(manifest.version);
  for (const uint64_t count : manifest.num_nodes) stored.add_num_nodes(count);
  for (const uint64_t count : manifest.num_edges) stored.add_num_edges(count);
  for (const ArrayInfo& array : manifest.arrays) {
    internal::StoredSourceArray& put = *stored.add_arrays();
    put.set_name(array.name);
    put.set_bytes(array.bytes);
    for (const uint32_t crc : array.block_crcs) put.add_block_crcs(crc);
  }
  for (const auto& [name, history] : manifest.producers) {
    internal::StoredSourceProducer& put = *stored.add_producers();
    put.set_name(name);
    put.set_sequence(history.last());
    put.mutable_digests()->Add(history.digests().begin(), history.digests().end());
    put.set_forget_seconds(history.forget_seconds());
  }
  return Sealed(stored);
}

absl::StatusOr<GraphDefinition> DecodeGraphDefinition(const std::string& where,
                                                      absl::string_view bytes) {
  PH_ASSIGN_OR_RETURN(const auto stored, Unsealed<internal::StoredSourceGraph>(where, bytes));
  GraphDefinition definition;
  definition.name = stored.name();
  definition.id = stored.id();
  definition.options.max_bytes = stored.max_bytes();
  definition.has_log = stored.has_log();
  const auto lost = [&where](absl::string_view why) {
    return absl::DataLossError(absl::StrCat(where, ": ", why));
  };
  std::vector<SourceNodeSetSpec> node_sets;
  for (const internal::StoredSourceNodeSet& set : stored.node_sets()) {
    auto columns = TakeColumns(set.columns());
    if (!columns) return lost("has an unknown element type");
    node_sets.push_back({set.name(), *std::move(columns)});
    definition.options.node_sets.push_back({set.integer_ids(), set.nodes_from_edges()});
  }
  std::vector<SourceEdgeSetSpec> edge_sets;
  for (const internal::StoredSourceEdgeSet& set : stored.edge_sets()) {
    auto columns = TakeColumns(set.columns());
    if (!columns) return lost("has an unknown element type");
    SourceEdgeSetSpec spec = {set.name(), set.source(), set.target(), *std::move(columns), {}};
    if (set.reverse_of() != 0) spec.reverse_of = set.reverse_of() - 1;
    edge_sets.push_back(std::move(spec));
    definition.options.edge_sets.push_back({set.by_source(), set.by_target()});
  }
  auto schema = SourceGraphSchema::Create(std::move(node_sets), std::move(edge_sets));
  if (!schema.ok()) return lost(schema.status().message());
  definition.schema = std::make_shared<const SourceGraphSchema>(*std::move(schema));
  if (EncodeDefinition(definition) != bytes) return lost(kNotWritten);
  return definition;
}

absl::StatusOr<GraphManifest> DecodeGraphManifest(const std::string& where,
                                                  absl::string_view bytes) {
  PH_ASSIGN_OR_RETURN(const auto stored, Unsealed<internal::SealedSourceGraph>(where, bytes));
  GraphManifest manifest;
  manifest.name = stored.name();
  manifest.id = stored.id();
  manifest.version = stored.version();
  manifest.num_nodes.assign(stored.num_nodes().begin(), stored.num_nodes().end());
  manifest.num_edges.assign(stored.num_edges().begin(), stored.num_edges().end());
  for (const internal::StoredSourceArray& array : stored.arrays()) {
    manifest.arrays.push_back(
        {array.name(), array.bytes(), {array.block_crcs().begin(), array.block_crcs().end()}});
  }
  for (const internal::StoredSourceProducer& producer : stored.producers()) {
    if (static_cast<uint64_t>(producer.digests_size()) > producer.sequence()) {
      return absl::DataLossError(
          absl::StrCat(where, ": a producer has more digests than requests"));
    }
    manifest.producers.emplace(
        producer.name(),
        ProducerHistory(producer.sequence(), {producer.digests().begin(), producer.digests().end()},
                        producer.forget_seconds()));
  }
  if (EncodeManifest(manifest) != bytes) {
    return absl::DataLossError(absl::StrCat(where, ": ", kNotWritten));
  }
  return manifest;
}

absl::StatusOr<GraphDefinition> ReadDefinition(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kDefinitionFile);
  PH_ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(path));
  return DecodeGraphDefinition(path, bytes);
}

absl::StatusOr<GraphManifest> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifestFile);
  PH_ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(path));
  return DecodeGraphManifest(path, bytes);
}

bool HasLostManifest(const std::string& folder) {
  std::error_code error;
  return !std::filesystem::exists(absl::StrCat(folder, "/", kRowsFile), error) &&
         std::filesystem::exists(absl::StrCat(folder, "/", kArraysFolder), error);
}

std::string IdsArray(size_t node_set, absl::string_view part) {
  return absl::StrCat("node", node_set, ".ids", part);
}

std::string NodeColumnArray(size_t node_set, size_t column, absl::string_view part) {
  return absl::StrCat("node", node_set, ".column", column, part);
}

std::string EdgeColumnArray(size_t edge_set, size_t column, absl::string_view part) {
  return absl::StrCat("edge", edge_set, ".column", column, part);
}

std::string AdjacencyArray(size_t edge_set, bool by_source, absl::string_view part) {
  return absl::StrCat("edge", edge_set, by_source ? ".by_source" : ".by_target", part);
}

std::string NodeRowsArray(size_t node_set) { return absl::StrCat("node", node_set, ".rows"); }

std::string NodesByRowArray(size_t node_set) { return absl::StrCat("node", node_set, ".by_row"); }

std::string EdgeRowsArray(size_t edge_set) { return absl::StrCat("edge", edge_set, ".rows"); }

}  // namespace packhouse
