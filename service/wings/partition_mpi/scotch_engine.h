// PT-Scotch: an existing engine that cuts a graph on several ranks.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SCOTCH_ENGINE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SCOTCH_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/wings/partition_mpi/mpi_ranks.h"
#include "service/wings/partition_mpi/shares/symmetric_share.h"

namespace packhouse {

// PT-Scotch in its deterministic mode, with numbers of 64 bits. `ranks` must outlive it.
//
// FAILED_PRECONDITION if the library that was loaded counts in another width: its variants have one
// name. Assign() gives OUT_OF_RANGE if a rank has 2^31 entries or more, saying how many ranks are
// enough: PT-Scotch's own messages are counted in 32 bits. INTERNAL if it fails or gives no parts;
// what it has to say itself goes to stderr.
absl::StatusOr<std::unique_ptr<ShareEngine>> MakeScotchEngine(MpiRanks* ranks);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SCOTCH_ENGINE_H_
