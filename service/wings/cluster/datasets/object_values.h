// Small values of data sets in an object store: to their stored messages
// (packhouse/internal/object_dataset.proto) and back; names of keys and objects.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_VALUES_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// Keys of the key-value store. Numbers are of 16 hexadecimal digits, so that they come in order.
inline constexpr absl::string_view kDatasetNames = "ds/name/";
std::string DatasetNameKey(absl::string_view name);
inline constexpr absl::string_view kDatasetIds = "ds/id/";
// The number in the keys of a data set, behind kDatasetIds. False if it is none.
bool ParseDatasetNumber(absl::string_view digits, uint64_t& id);
// All keys of a data set begin with it.
std::string DatasetKeys(uint64_t id);
std::string DatasetStateKey(uint64_t id);
std::string DatasetProducerKeys(uint64_t id);
std::string DatasetProducerKey(uint64_t id, absl::string_view producer);
// Of a producer whose name was made up for one call: with a lease, so that it goes by itself.
std::string DatasetMadeUpProducerKey(uint64_t id, absl::string_view producer);
std::string DatasetTailKeys(uint64_t id);
std::string DatasetTailKey(uint64_t id, uint64_t first_graph);
std::string DatasetPageKeys(uint64_t id);
std::string DatasetPageKey(uint64_t id, uint64_t page);
// Data sets that were deleted, and whose objects are still there.
inline constexpr absl::string_view kGoneDatasets = "ds/gone/";
std::string GoneDatasetKey(uint64_t id);
inline constexpr absl::string_view kStoreTotalsKey = "ds/totals";
inline constexpr absl::string_view kStoreIdentityKey = "ds/store";
// Under a lease of who takes a snapshot. What is found to be gone while it is there, no sweep
// deletes the objects of: the snapshot may have them. What is not gone keeps all objects that it
// has had.
inline constexpr absl::string_view kSnapshotKey = "snapshot";

// Names of objects.
inline constexpr absl::string_view kStoreIdentityObject = "store";
// Behind it the number of a cluster that is about to put that object, '-', and another number.
inline constexpr absl::string_view kStoreClaims = "claims/";
inline constexpr absl::string_view kAllDatasetObjects = "d/";
std::string DatasetObjects(uint64_t id);
std::string ChunkObject(uint64_t id, uint64_t object);
std::string ManifestObject(uint64_t id, uint64_t object);
std::string RunObject(uint64_t id, uint64_t object);
// The data set and the number of an object whose name is one of the three. False for other names.
bool ParseDatasetObject(absl::string_view name, uint64_t& id, uint64_t& object);

struct ObjectDatasetState {
  bool sealed = false;
  uint64_t version = 0;
  uint64_t num_graphs = 0;
  uint64_t num_records = 0;
  uint64_t num_bytes = 0;
  uint64_t num_producers = 0;
  std::vector<uint64_t> totals;
  uint64_t num_pages = 0;
  uint64_t num_tail = 0;
  uint64_t sweeps = 0;
};

// Some records of an object of the data set, in order.
struct ObjectChunk {
  struct Record {
    uint64_t offset = 0;
    uint64_t num_bytes = 0;
    uint64_t num_graphs = 0;
  };
  uint64_t object = 0;
  uint64_t num_bytes = 0;
  uint32_t crc = 0;
  uint64_t first_graph = 0;
  std::vector<Record> records;
  uint64_t run_offset = 0;
  uint64_t run_bytes = 0;
  uint32_t run_crc = 0;
  std::string run;  // Empty: it is only in the object.

  uint64_t num_graphs() const;
  // The second number of a record's place, which no other record of the data set has.
  uint64_t TagOf(const Record& record) const { return object + record.offset; }
};

struct ObjectPage {
  uint64_t object = 0;
  uint64_t first_graph = 0;
  uint64_t end_graph = 0;
  uint64_t num_chunks = 0;
  uint64_t manifest_bytes = 0;
  uint32_t manifest_crc = 0;
  uint64_t run_bytes = 0;
  uint32_t run_crc = 0;
};

struct ObjectStoreTotals {
  uint64_t num_datasets = 0;
  uint64_t num_bytes = 0;
};

// All decoding functions read any bytes: DATA_LOSS unless these are exactly what the encoding
// function would write.
std::string EncodeObjectState(const ObjectDatasetState& state);
absl::StatusOr<ObjectDatasetState> DecodeObjectState(absl::string_view bytes);
std::string EncodeObjectChunk(const ObjectChunk& chunk);
absl::StatusOr<ObjectChunk> DecodeObjectChunk(absl::string_view bytes);
std::string EncodeObjectPage(const ObjectPage& page);
absl::StatusOr<ObjectPage> DecodeObjectPage(absl::string_view bytes);
std::string EncodeManifestPage(const std::vector<ObjectChunk>& chunks);
absl::StatusOr<std::vector<ObjectChunk>> DecodeManifestPage(absl::string_view bytes);
std::string EncodeObjectTotals(const ObjectStoreTotals& totals);
absl::StatusOr<ObjectStoreTotals> DecodeObjectTotals(absl::string_view bytes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_VALUES_H_
