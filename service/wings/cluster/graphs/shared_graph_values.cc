#include "service/wings/cluster/graphs/shared_graph_values.h"

#include <algorithm>
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

template <typename Stored>
void SetObject(const SharedManifestObject& object, Stored& stored) {
  stored.set_objects(object.objects);
  stored.set_manifest_bytes(object.num_bytes);
  stored.set_manifest_crc(object.crc);
}
template <typename Stored>
SharedManifestObject ObjectOf(const Stored& stored) {
  return {stored.objects(), stored.manifest_bytes(), stored.manifest_crc()};
}

template <typename Stored>
void SetPieces(const SharedPieces& pieces, Stored& stored) {
  stored.set_piece_bytes(pieces.piece_bytes);
  stored.mutable_piece_crcs()->Add(pieces.crcs.begin(), pieces.crcs.end());
}
// Whether they can be those of so many bytes.
template <typename Stored>
bool TakePieces(const Stored& stored, uint64_t num_bytes, SharedPieces& pieces) {
  pieces.num_bytes = num_bytes;
  pieces.piece_bytes = stored.piece_bytes();
  pieces.crcs.assign(stored.piece_crcs().begin(), stored.piece_crcs().end());
  return pieces.piece_bytes != 0 && pieces.piece_bytes % kArrayAlignment == 0 &&
         pieces.crcs.size() ==
             num_bytes / pieces.piece_bytes + (num_bytes % pieces.piece_bytes == 0 ? 0 : 1);
}

// Each of `parts` at a multiple of the alignment.
template <typename Part>
ArrayPlaces PlacesOfParts(const std::vector<Part>& parts, uint64_t Part::*bytes) {
  ArrayPlaces places;
  for (const Part& part : parts) {
    const uint64_t at = (places.num_bytes + kArrayAlignment - 1) / kArrayAlignment;
    places.offsets.push_back(at * kArrayAlignment);
    places.num_bytes = places.offsets.back() + part.*bytes;
  }
  return places;
}

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

std::string CompanionKey(uint64_t graph_id, absl::string_view name) {
  return absl::StrCat(kCompanions, HexOf(graph_id), "/", name);
}
std::string CompanionProgressKey(uint64_t graph_id, absl::string_view name) {
  return absl::StrCat(kCompanionProgress, HexOf(graph_id), "/", name);
}

std::string NameInCompanionKey(absl::string_view key) {
  return std::string(key.substr(std::min(key.size(), kCompanions.size() + kDigits + 1)));
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
  return PlacesOfParts(arrays, &ArrayInfo::bytes);
}
ArrayPlaces PlacesOf(const std::vector<CompanionFile>& files) {
  return PlacesOfParts(files, &CompanionFile::num_bytes);
}

std::string EncodeSharedGraph(const SharedGraph& graph) {
  internal::SharedSourceGraph stored;
  stored.set_definition(EncodeDefinition(graph.definition));
  stored.set_server(graph.server);
  stored.set_version(graph.version);
  stored.mutable_num_nodes()->Add(graph.num_nodes.begin(), graph.num_nodes.end());
  stored.mutable_num_edges()->Add(graph.num_edges.begin(), graph.num_edges.end());
  stored.set_num_bytes(graph.num_bytes);
  SetObject(graph.object, stored);
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
  graph.object = ObjectOf(stored);
  const bool has_counts = graph.num_nodes.size() == graph.definition.schema->node_sets().size() &&
                          graph.num_edges.size() == graph.definition.schema->edge_sets().size();
  if (graph.definition.name != name || (graph.is_sealed() && !has_counts)) {
    return MalformedValue(WhatOf(name));
  }
  const std::string encoded = EncodeSharedGraph(graph);
  return IfExact(std::move(graph), encoded, bytes, WhatOf(name));
}

std::string EncodeUpload(const SharedUpload& upload) {
  internal::SharedSourceGraphUpload stored;
  stored.set_name(upload.name);
  stored.set_version(upload.version);
  return stored.SerializeAsString();
}

std::string EncodeSharedManifest(const SharedGraphManifest& manifest) {
  internal::SharedSourceGraphManifest stored;
  stored.set_manifest(EncodeManifest(manifest.manifest));
  SetPieces(manifest.pieces, stored);
  return stored.SerializeAsString();
}

absl::StatusOr<SharedGraphManifest> DecodeSharedManifest(absl::string_view name,
                                                         absl::string_view bytes) {
  const std::string what = absl::StrCat("manifest of ", WhatOf(name));
  internal::SharedSourceGraphManifest stored;
  if (!ParseStored(bytes, stored)) return MalformedValue(what);
  SharedGraphManifest manifest;
  PH_ASSIGN_OR_RETURN(manifest.manifest, DecodeGraphManifest(what, stored.manifest()));
  if (!TakePieces(stored, PlacesOf(manifest.manifest.arrays).num_bytes, manifest.pieces)) {
    return MalformedValue(what);
  }
  const std::string encoded = EncodeSharedManifest(manifest);
  return IfExact(std::move(manifest), encoded, bytes, what);
}

std::string EncodeCompanion(const StoredCompanion& companion) {
  internal::SharedCompanion stored;
  stored.set_graph(companion.companion.graph.name);
  stored.set_state(companion.companion.state);
  stored.set_server(companion.companion.server);
  stored.set_num_bytes(companion.companion.num_bytes);
  SetObject(companion.object, stored);
  return stored.SerializeAsString();
}

absl::StatusOr<StoredCompanion> DecodeCompanion(const KeyValue& key) {
  absl::string_view rest = key.key;
  StoredCompanion companion;
  SharedCompanion& of = companion.companion;
  const std::string what = absl::StrCat("key ", Quoted(key.key));
  internal::SharedCompanion stored;
  if (!absl::ConsumePrefix(&rest, kCompanions) || rest.size() <= kDigits + 1 ||
      rest[kDigits] != '/' || !absl::SimpleHexAtoi(rest.substr(0, kDigits), &of.graph.id) ||
      !ParseStored(key.value, stored)) {
    return MalformedValue(what);
  }
  of.graph.name = stored.graph();
  of.name = std::string(rest.substr(kDigits + 1));
  of.state = stored.state();
  of.server = stored.server();
  of.num_bytes = stored.num_bytes();
  of.revision = key.mod_revision;
  companion.object = ObjectOf(stored);
  of.is_whole = companion.object.objects != 0;
  const std::string encoded = EncodeCompanion(companion);
  return IfExact(std::move(companion), encoded, key.value, what);
}

std::string EncodeCompanionManifest(const SharedCompanionManifest& manifest) {
  internal::SharedCompanionManifest stored;
  for (const CompanionFile& file : manifest.contents.files) {
    auto& of = *stored.add_files();
    of.set_path(file.path);
    of.set_num_bytes(file.num_bytes);
    of.set_crc(file.crc32c);
  }
  stored.set_summary(manifest.contents.summary);
  SetPieces(manifest.pieces, stored);
  return stored.SerializeAsString();
}

absl::StatusOr<SharedCompanionManifest> DecodeCompanionManifest(absl::string_view name,
                                                                absl::string_view bytes) {
  const std::string what = absl::StrCat("manifest of ", Quoted(name));
  internal::SharedCompanionManifest stored;
  if (!ParseStored(bytes, stored)) return MalformedValue(what);
  SharedCompanionManifest manifest;
  for (const auto& file : stored.files()) {
    manifest.contents.files.push_back({file.path(), file.num_bytes(), file.crc()});
  }
  manifest.contents.summary = stored.summary();
  if (!TakePieces(stored, PlacesOf(manifest.contents.files).num_bytes, manifest.pieces)) {
    return MalformedValue(what);
  }
  const std::string encoded = EncodeCompanionManifest(manifest);
  return IfExact(std::move(manifest), encoded, bytes, what);
}

}  // namespace packhouse
