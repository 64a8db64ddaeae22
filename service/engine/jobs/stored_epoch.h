// The common parts of events and cursors: to the stored messages and back.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_STORED_EPOCH_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_STORED_EPOCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "packhouse/internal/stored.pb.h"
#include "service/engine/epochs/batch_set.h"
#include "service/engine/epochs/epoch_identity.h"

namespace packhouse {

void WriteEpochKey(const EpochKey& key, internal::EpochKey& stored);
EpochKey ReadEpochKey(const internal::EpochKey& stored);

void WriteIdentity(const EpochIdentity& identity, internal::EpochIdentity& stored);
// nullopt if its lists do not fit each other. Their contents are not checked (CheckIdentity() does
// that).
std::optional<EpochIdentity> ReadIdentity(const internal::EpochIdentity& stored);

// Writes each run as its distance from the end of the previous one, and its length.
void WriteBatches(const BatchSet& batches, google::protobuf::RepeatedField<uint64_t>& stored);
// nullopt if a run is empty, touches another, or reaches 2^64.
std::optional<BatchSet> ReadBatches(const google::protobuf::RepeatedField<uint64_t>& stored);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_STORED_EPOCH_H_
