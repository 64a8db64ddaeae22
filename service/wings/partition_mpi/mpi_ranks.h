// Ranks that are the processes of an MPI program.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_MPI_RANKS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_MPI_RANKS_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "service/wings/partition_mpi/shares/ranks.h"

namespace packhouse {

// MPI counts in 32 bits, and implementations end where a call has more: what is longer is sent in
// messages of at most this many bytes.
inline constexpr size_t kMaxMessageBytes = size_t{1} << 30;

// An error of MPI, and a rank that is lost, end all ranks: that is how MPI's communicators are
// set. Not thread-safe.
class MpiRanks : public Ranks {
 public:
  // `message_bytes` is at least 8 and at most kMaxMessageBytes.
  MpiRanks(MPI_Comm communicator, size_t message_bytes);

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }
  MPI_Comm communicator() const { return communicator_; }

  std::vector<uint64_t> ExchangeCounts(absl::Span<const uint64_t> to) override;
  void ExchangeBytes(absl::Span<const absl::string_view> out, char* in,
                     absl::Span<const uint64_t> in_bytes) override;
  void Sum(absl::Span<uint64_t> values) override { Reduce(values, MPI_SUM); }
  void Max(absl::Span<uint64_t> values) override { Reduce(values, MPI_MAX); }
  void SumBefore(absl::Span<uint64_t> values) override;
  std::vector<std::string> Gather(absl::string_view bytes) override;

 private:
  void Reduce(absl::Span<uint64_t> values, MPI_Op operation);

  const MPI_Comm communicator_;
  const size_t message_bytes_;
  uint32_t rank_ = 0;
  uint32_t size_ = 1;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_MPI_RANKS_H_
