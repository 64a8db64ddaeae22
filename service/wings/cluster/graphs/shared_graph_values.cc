#include "service/wings/cluster/graphs/shared_graph_values.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "packhouse/internal/shared_source_graph.pb.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/stored_message.h"

namespace packhouse {
namespace {

constexpr size_t kDigits = 16;

std::string HexOf(uint64_t number) { return absl::StrCat(absl::Hex(number, absl::kZeroPad16)); }

std::string WhatOf(absl::string_view name) { return absl::StrCat("source graph ", Quoted(name)); }

}  // namespace

std::string SourceGraphNameKey(absl::string_view name) {
  return absl::StrCat(kSourceGraphNames, name);
}
std::string SourceGraphObjectsKey(uint64_t objects) {
  return absl::StrCat(kSourceGraphIds, HexOf(objects));
}
std::string SourceGraphUploadKey(uint64_t objects) {
  return absl::StrCat(kSourceGraphUploads, HexOf(objects));
}
std::string GoneSourceGraphKey(uint64_t objects) {
  return absl::StrCat(kGoneSourceGraphs, HexOf(objects));
}

std::string SourceGraphObjects(uint64_t objects) {
  return absl::StrCat(kAllSourceGraphObjects, HexOf(objects), "/");
}
std::string SourceGraphBegunObject(uint64_t objects) {
  return absl::StrCat(SourceGraphObjects(objects), "begun");
}
std::string SourceGraphManifestObject(uint64_t objects, uint32_t crc) {
  return absl::StrCat(SourceGraphObjects(objects), "m/", absl::Hex(crc, absl::kZeroPad8));
}
std::string SourceGraphPieceObject(uint64_t objects, uint64_t piece, uint32_t crc) {
  return absl::StrCat(SourceGraphObjects(objects), "p/", absl::Hex(piece, absl::kZeroPad8), "-",
                      absl::Hex(crc, absl::kZeroPad8));
}

bool ParseSourceGraphObject(absl::string_view name, uint64_t& objects) {
  return absl::ConsumePrefix(&name, kAllSourceGraphObjects) && name.size() > kDigits &&
         name[kDigits] == '/' && absl::SimpleHexAtoi(name.substr(0, kDigits), &objects);
}

bool ParseSourceGraphKey(absl::string_view key, absl::string_view prefix, uint64_t& objects) {
  return absl::ConsumePrefix(&key, prefix) && key.size() == kDigits &&
         absl::SimpleHexAtoi(key, &objects);
}

SourceGraphInfo InfoOfGraph(const SharedGraph& graph) {
  SourceGraphInfo info;
  info.name = graph.definition.name;
  info.schema = graph.definition.schema;
  info.options = graph.definition.options;
  info.state = graph.is_sealed() ? SourceGraphState::kSealed : SourceGraphState::kOpen;
  info.num_nodes = graph.num_nodes;
  info.num_edges = graph.num_edges;
  info.num_nodes.resize(info.schema->node_sets().size());
  info.num_edges.resize(info.schema->edge_sets().size());
  info.num_bytes = graph.num_bytes;
  info.version = graph.version;
  info.id = graph.definition.id;
  return info;
}

ArrayPlaces PlacesOf(const std::vector<ArrayInfo>& arrays) {
  ArrayPlaces places;
  for (const ArrayInfo& array : arrays) {
    const uint64_t at = (places.num_bytes + kArrayAlignment - 1) / kArrayAlignment;
    places.offsets.push_back(at * kArrayAlignment);
    places.num_bytes = places.offsets.back() + array.bytes;
  }
  return places;
}

std::string EncodeSharedGraph(const SharedGraph& graph) {
  internal::SharedSourceGraph stored;
  stored.set_definition(EncodeDefinition(graph.definition));
  stored.set_server(graph.server);
  stored.set_version(graph.version);
  stored.mutable_num_nodes()->Add(graph.num_nodes.begin(), graph.num_nodes.end());
  stored.mutable_num_edges()->Add(graph.num_edges.begin(), graph.num_edges.end());
  stored.set_num_bytes(graph.num_bytes);
  stored.set_objects(graph.objects);
  stored.set_manifest_bytes(graph.manifest_bytes);
  stored.set_manifest_crc(graph.manifest_crc);
  return stored.SerializeAsString();
}

absl::StatusOr<SharedGraph> DecodeSharedGraph(absl::string_view name, absl::string_view bytes) {
  internal::SharedSourceGraph stored;
  if (!ParseStored(bytes, stored)) return MalformedValue(WhatOf(name));
  SharedGraph graph;
  PH_ASSIGN_OR_RETURN(graph.definition, DecodeGraphDefinition(WhatOf(name), stored.definition()));
  graph.server = stored.server();
  graph.version = stored.version();
  graph.num_nodes.assign(stored.num_nodes().begin(), stored.num_nodes().end());
  graph.num_edges.assign(stored.num_edges().begin(), stored.num_edges().end());
  graph.num_bytes = stored.num_bytes();
  graph.objects = stored.objects();
  graph.manifest_bytes = stored.manifest_bytes();
  graph.manifest_crc = stored.manifest_crc();
  const bool has_counts = graph.num_nodes.size() == graph.definition.schema->node_sets().size() &&
                          graph.num_edges.size() == graph.definition.schema->edge_sets().size();
  if (graph.definition.name != name || (graph.is_sealed() && !has_counts)) {
    return MalformedValue(WhatOf(name));
  }
  const std::string encoded = EncodeSharedGraph(graph);
  return IfExact(std::move(graph), encoded, bytes, WhatOf(name));
}

std::string EncodeGraphUpload(const SharedGraphUpload& upload) {
  internal::SharedSourceGraphUpload stored;
  stored.set_name(upload.name);
  stored.set_version(upload.version);
  return stored.SerializeAsString();
}

absl::StatusOr<SharedGraphUpload> DecodeGraphUpload(absl::string_view bytes) {
  internal::SharedSourceGraphUpload stored;
  if (!ParseStored(bytes, stored)) return MalformedValue("upload of a source graph");
  SharedGraphUpload upload = {stored.name(), stored.version()};
  const std::string encoded = EncodeGraphUpload(upload);
  return IfExact(std::move(upload), encoded, bytes, "upload of a source graph");
}

std::string EncodeSharedManifest(const SharedGraphManifest& manifest) {
  internal::SharedSourceGraphManifest stored;
  stored.set_manifest(EncodeManifest(manifest.manifest));
  stored.set_piece_bytes(manifest.piece_bytes);
  stored.mutable_piece_crcs()->Add(manifest.piece_crcs.begin(), manifest.piece_crcs.end());
  return stored.SerializeAsString();
}

absl::StatusOr<SharedGraphManifest> DecodeSharedManifest(absl::string_view name,
                                                         absl::string_view bytes) {
  const std::string what = absl::StrCat("manifest of ", WhatOf(name));
  internal::SharedSourceGraphManifest stored;
  if (!ParseStored(bytes, stored)) return MalformedValue(what);
  SharedGraphManifest manifest;
  PH_ASSIGN_OR_RETURN(manifest.manifest, DecodeGraphManifest(what, stored.manifest()));
  manifest.piece_bytes = stored.piece_bytes();
  manifest.piece_crcs.assign(stored.piece_crcs().begin(), stored.piece_crcs().end());
  const uint64_t num_bytes = PlacesOf(manifest.manifest.arrays).num_bytes;
  const bool has_pieces =
      manifest.piece_bytes != 0 && manifest.piece_bytes % kArrayAlignment == 0 &&
      manifest.piece_crcs.size() ==
          num_bytes / manifest.piece_bytes + (num_bytes % manifest.piece_bytes == 0 ? 0 : 1);
  if (!has_pieces) return MalformedValue(what);
  const std::string encoded = EncodeSharedManifest(manifest);
  return IfExact(std::move(manifest), encoded, bytes, what);
}

}  // namespace packhouse
