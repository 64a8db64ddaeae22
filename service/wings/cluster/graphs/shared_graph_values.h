// Small values of source graphs in an object store: to their stored messages
// (packhouse/internal/shared_source_graph.proto) and back; names of keys and objects.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_SHARED_GRAPH_VALUES_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_SHARED_GRAPH_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/graphs/stored/graph_files.h"

namespace packhouse {

// Keys of the key-value store. Numbers are of 16 hexadecimal digits.
inline constexpr absl::string_view kSourceGraphNames = "sg/name/";
std::string SourceGraphNameKey(absl::string_view name);
// The graph that has the objects: its name.
inline constexpr absl::string_view kSourceGraphIds = "sg/id/";
std::string SourceGraphObjectsKey(uint64_t objects);
// Somebody is about to make a graph of the objects. While nobody else has them, they may be deleted
// after this key only; without it, no graph gets them.
inline constexpr absl::string_view kSourceGraphUploads = "sg/up/";
std::string SourceGraphUploadKey(uint64_t objects);
// Graphs that were deleted, and whose objects are still there.
inline constexpr absl::string_view kGoneSourceGraphs = "sg/gone/";
std::string GoneSourceGraphKey(uint64_t objects);

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

struct SharedGraph {
  GraphDefinition definition;
  // The server that builds it; empty: it is sealed, and all below is set.
  std::string server;
  uint64_t version = 0;
  std::vector<uint64_t> num_nodes;
  std::vector<uint64_t> num_edges;
  uint64_t num_bytes = 0;
  uint64_t objects = 0;
  uint64_t manifest_bytes = 0;
  uint32_t manifest_crc = 0;

  bool is_sealed() const { return server.empty(); }
};
SourceGraphInfo InfoOfGraph(const SharedGraph& graph);

struct SharedGraphUpload {
  std::string name;
  uint64_t version = 0;
};

struct SharedGraphManifest {
  GraphManifest manifest;
  uint64_t piece_bytes = 0;
  std::vector<uint32_t> piece_crcs;
};

// Where the arrays are in the bytes of which the pieces are made.
inline constexpr uint64_t kArrayAlignment = 4096;
struct ArrayPlaces {
  std::vector<uint64_t> offsets;  // By array.
  uint64_t num_bytes = 0;
};
ArrayPlaces PlacesOf(const std::vector<ArrayInfo>& arrays);

// All decoding functions read any bytes. DATA_LOSS naming `name` unless they are what the encoding
// function writes; FAILED_PRECONDITION if another release wrote them.
std::string EncodeSharedGraph(const SharedGraph& graph);
absl::StatusOr<SharedGraph> DecodeSharedGraph(absl::string_view name, absl::string_view bytes);
std::string EncodeGraphUpload(const SharedGraphUpload& upload);
absl::StatusOr<SharedGraphUpload> DecodeGraphUpload(absl::string_view bytes);
std::string EncodeSharedManifest(const SharedGraphManifest& manifest);
absl::StatusOr<SharedGraphManifest> DecodeSharedManifest(absl::string_view name,
                                                         absl::string_view bytes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_SHARED_GRAPH_VALUES_H_
