// What the key-value store knows of a data set, and which objects it has.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_MANIFEST_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_MANIFEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/stored_values.h"
#include "service/stores/keys/key_value_store.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/datasets/object_read_ahead.h"
#include "service/wings/cluster/datasets/object_values.h"

namespace packhouse {

// Everything but the chunks, at one revision.
struct DatasetHead {
  std::string name;
  StoredDefinition definition;
  Revision name_revision = 0;
  ObjectDatasetState state;
  // Every change of the data set's records, producers or state changes it.
  Revision state_revision = 0;

  uint64_t id() const { return definition.id; }
};

// The chunks of a data set, in order.
struct ObjectManifest {
  std::vector<ObjectPage> pages;
  // Those of the pages too, if they were asked for; otherwise only those of no page.
  std::vector<ObjectChunk> chunks;
  // As they are stored, if they were asked for.
  std::vector<KeyValue> producers;
};

absl::Status NoSuchObjectDataset(absl::string_view name);

// NOT_FOUND; DATA_LOSS naming the data set if a value is malformed.
absl::StatusOr<DatasetHead> ReadHead(const ObjectEngines& engines, absl::string_view name);
absl::StatusOr<DatasetInfo> InfoOfHead(const DatasetHead& head);

// At one revision, that of the read: brings the head's state up to it. ABORTED if the data set was
// deleted meanwhile, or the key-value store dropped that revision before all was read: read the
// head anew.
absl::StatusOr<ObjectManifest> ReadManifest(const ObjectEngines& engines, DatasetHead& head,
                                            bool with_pages, bool with_producers = false);

// The sizes of all graphs. DATA_LOSS if the runs do not count as many as the state says.
// `manifest` without the chunks of pages. reserve(bytes) is called before as many bytes more are
// allocated; its errors are returned.
absl::StatusOr<SizeHistogram> ReadRuns(const ObjectEngines& engines, const DatasetHead& head,
                                       const ObjectManifest& manifest,
                                       absl::FunctionRef<absl::Status(uint64_t bytes)> reserve);
// The same without a bound of the memory.
absl::StatusOr<SizeHistogram> ReadRuns(const ObjectEngines& engines, const DatasetHead& head,
                                       const ObjectManifest& manifest);

// The sizes of the graphs of chunks, one chunk after the other, without reading the chunks. Errors
// as ObjectReadAhead; DATA_LOSS naming the data set if a run is not of the chunk's graphs.
class ChunkRuns {
 public:
  // `engines`, `head` and the chunks must outlive it.
  ChunkRuns(const ObjectEngines& engines, const DatasetHead& head,
            std::vector<const ObjectChunk*> chunks);

  // At most the bytes that it takes.
  uint64_t bytes() const { return bytes_; }
  absl::Status AddNext(SizeHistogram& histogram);

 private:
  const ObjectEngines& engines_;
  const DatasetHead& head_;
  const std::vector<const ObjectChunk*> chunks_;
  ObjectReadAhead ahead_;
  uint64_t bytes_ = 0;
  size_t next_ = 0;
};

// Of what was read of kStoreTotalsKey; none is written yet: zeros.
absl::StatusOr<ObjectStoreTotals> TotalsIn(const RangeResult& read);
// Adds to the transaction what becomes of the store's totals. Errors of `change`.
absl::Status ChangeTotals(const ObjectEngines& engines, Transaction& transaction,
                          absl::FunctionRef<absl::Status(ObjectStoreTotals& totals)> change);

// Whether the data set has the object as the chunk that begins at `first_graph`.
absl::StatusOr<bool> HasChunk(const ObjectEngines& engines, const DatasetHead& head,
                              uint64_t first_graph, uint64_t object);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_MANIFEST_H_
