// Small values of source graphs and their companions in an object store: to their stored messages
// (packhouse/internal/shared_source_graph.proto) and back; names of keys and objects.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_SHARED_GRAPH_VALUES_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_SHARED_GRAPH_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/keys/key_value_store.h"
#include "service/wings/graphs/source_graphs/shared_companions.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/graphs/stored/graph_files.h"

namespace packhouse {

// Keys of the key-value store. Numbers are of 16 hexadecimal digits.
inline constexpr absl::string_view kSourceGraphNames = "sg/name/";
std::string SourceGraphNameKey(absl::string_view name);
// Who has the objects: the graph's name, or the companion's key.
inline constexpr absl::string_view kSourceGraphIds = "sg/id/";
std::string SourceGraphObjectsKey(uint64_t objects);
// Somebody is about to make something of the objects. While nobody else has them, they may be
// deleted after this key only; without it, nobody gets them.
inline constexpr absl::string_view kSourceGraphUploads = "sg/up/";
std::string SourceGraphUploadKey(uint64_t objects);
// What was deleted, and whose objects are still there.
inline constexpr absl::string_view kGoneSourceGraphs = "sg/gone/";
std::string GoneSourceGraphKey(uint64_t objects);
// Companions of graphs (shared_companions.h), by the graph's id; and how far they are.
inline constexpr absl::string_view kCompanions = "sg/with/";
std::string CompanionKey(uint64_t graph_id, absl::string_view name);
inline constexpr absl::string_view kCompanionProgress = "sg/at/";
std::string CompanionProgressKey(uint64_t graph_id, absl::string_view name);
std::string NameInCompanionKey(absl::string_view key);

// Names of objects.
inline constexpr absl::string_view kAllSourceGraphObjects = "g/";
std::string SourceGraphObjects(uint64_t objects);
// Empty: put before the upload's key, and again by who goes on with the upload.
std::string SourceGraphBegunObject(uint64_t objects);
// Names have checksums, so that two who put the same piece never put different bytes.
std::string SourceGraphManifestObject(uint64_t objects, uint32_t crc);
std::string SourceGraphPieceObject(uint64_t objects, uint64_t piece, uint32_t crc);
// The number of an object's graph. False for names of other objects.
bool ParseSourceGraphObject(absl::string_view name, uint64_t& objects);
// Of a key: its number behind the prefix.
bool ParseSourceGraphKey(absl::string_view key, absl::string_view prefix, uint64_t& objects);

// The object that says what the others are.
struct SharedManifestObject {
  uint64_t objects = 0;  // The number of all of them.
  uint64_t num_bytes = 0;
  uint32_t crc = 0;
};

// Bytes that are cut into pieces, each an object.
struct SharedPieces {
  uint64_t objects = 0;
  uint64_t num_bytes = 0;
  uint64_t piece_bytes = 0;
  std::vector<uint32_t> crcs;
};

struct SharedGraph {
  GraphDefinition definition;
  // The server that builds it; empty: it is sealed, and all below is set.
  std::string server;
  uint64_t version = 0;
  std::vector<uint64_t> num_nodes;
  std::vector<uint64_t> num_edges;
  uint64_t num_bytes = 0;
  SharedManifestObject object;

  bool is_sealed() const { return server.empty(); }
};
SourceGraphInfo InfoOfGraph(const SharedGraph& graph);

// Which upload it is (PieceUpload).
struct SharedUpload {
  std::string name;
  uint64_t version = 0;
};

struct SharedGraphManifest {
  GraphManifest manifest;
  SharedPieces pieces;  // Without the number of the objects.
};

struct StoredCompanion {
  SharedCompanion companion;
  SharedManifestObject object;  // If it is whole.
};

struct SharedCompanionManifest {
  CompanionContents contents;
  SharedPieces pieces;  // Without the number of the objects.
};

// Where the arrays, or the files, are in the bytes of which the pieces are made.
inline constexpr uint64_t kArrayAlignment = 4096;
struct ArrayPlaces {
  std::vector<uint64_t> offsets;  // By array.
  uint64_t num_bytes = 0;
};
ArrayPlaces PlacesOf(const std::vector<ArrayInfo>& arrays);
ArrayPlaces PlacesOf(const std::vector<CompanionFile>& files);

// All decoding functions read any bytes. DATA_LOSS naming `name` unless they are what the encoding
// function writes; FAILED_PRECONDITION if another release wrote them.
std::string EncodeSharedGraph(const SharedGraph& graph);
absl::StatusOr<SharedGraph> DecodeSharedGraph(absl::string_view name, absl::string_view bytes);
std::string EncodeUpload(const SharedUpload& upload);
std::string EncodeSharedManifest(const SharedGraphManifest& manifest);
absl::StatusOr<SharedGraphManifest> DecodeSharedManifest(absl::string_view name,
                                                         absl::string_view bytes);
// Of a key and its value.
std::string EncodeCompanion(const StoredCompanion& companion);
absl::StatusOr<StoredCompanion> DecodeCompanion(const KeyValue& stored);
std::string EncodeCompanionManifest(const SharedCompanionManifest& manifest);
absl::StatusOr<SharedCompanionManifest> DecodeCompanionManifest(absl::string_view name,
                                                                absl::string_view bytes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_SHARED_GRAPH_VALUES_H_
