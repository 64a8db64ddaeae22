#include "service/wings/partition_mpi/mpi_ranks.h"

#include <algorithm>
#include <cstring>

namespace packhouse {
namespace {

constexpr int kTag = 0;

}  // namespace

MpiRanks::MpiRanks(MPI_Comm communicator, size_t message_bytes)
    : communicator_(communicator), message_bytes_(message_bytes) {
  int number = 0;
  MPI_Comm_rank(communicator, &number);
  rank_ = static_cast<uint32_t>(number);
  MPI_Comm_size(communicator, &number);
  size_ = static_cast<uint32_t>(number);
}

std::vector<uint64_t> MpiRanks::ExchangeCounts(absl::Span<const uint64_t> to) {
  std::vector<uint64_t> from(size_);
  MPI_Alltoall(to.data(), 1, MPI_UINT64_T, from.data(), 1, MPI_UINT64_T, communicator_);
  return from;
}

void MpiRanks::ExchangeBytes(absl::Span<const absl::string_view> out, char* in,
                             absl::Span<const uint64_t> in_bytes) {
  std::vector<uint64_t> begin(size_ + size_t{1});
  for (uint32_t r = 0; r < size_; ++r) begin[r + 1] = begin[r] + in_bytes[r];
  if (!out[rank_].empty()) std::memcpy(in + begin[rank_], out[rank_].data(), out[rank_].size());
  std::vector<MPI_Request> requests;
  // One partner to send to and one to hear from at a time.
  for (uint32_t step = 1; step < size_; ++step) {
    const uint32_t to = (rank_ + step) % size_;
    const uint32_t from = (rank_ + size_ - step) % size_;
    requests.clear();
    for (uint64_t at = 0; at < in_bytes[from]; at += message_bytes_) {
      const auto length = static_cast<int>(std::min<uint64_t>(message_bytes_, in_bytes[from] - at));
      requests.emplace_back();
      MPI_Irecv(in + begin[from] + at, length, MPI_BYTE, static_cast<int>(from), kTag,
                communicator_, &requests.back());
    }
    for (uint64_t at = 0; at < out[to].size(); at += message_bytes_) {
      const auto length = static_cast<int>(std::min<uint64_t>(message_bytes_, out[to].size() - at));
      requests.emplace_back();
      MPI_Isend(out[to].data() + at, length, MPI_BYTE, static_cast<int>(to), kTag, communicator_,
                &requests.back());
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }
}

void MpiRanks::Reduce(absl::Span<uint64_t> values, MPI_Op operation) {
  const size_t at_once = message_bytes_ / sizeof(uint64_t);
  for (size_t at = 0; at < values.size(); at += at_once) {
    const auto count = static_cast<int>(std::min(at_once, values.size() - at));
    MPI_Allreduce(MPI_IN_PLACE, values.data() + at, count, MPI_UINT64_T, operation, communicator_);
  }
}

void MpiRanks::SumBefore(absl::Span<uint64_t> values) {
  const size_t at_once = message_bytes_ / sizeof(uint64_t);
  for (size_t at = 0; at < values.size(); at += at_once) {
    const auto count = static_cast<int>(std::min(at_once, values.size() - at));
    MPI_Exscan(MPI_IN_PLACE, values.data() + at, count, MPI_UINT64_T, MPI_SUM, communicator_);
  }
  // MPI leaves rank 0 what it had.
  if (rank_ == 0) std::fill(values.begin(), values.end(), 0);
}

std::vector<std::string> MpiRanks::Gather(absl::string_view bytes) {
  const std::vector<uint64_t> lengths = ExchangeCounts(std::vector<uint64_t>(size_, bytes.size()));
  uint64_t total = 0;
  for (const uint64_t length : lengths) total += length;
  std::string all(total, '\0');
  ExchangeBytes(std::vector<absl::string_view>(size_, bytes), all.data(), lengths);
  std::vector<std::string> result;
  size_t at = 0;
  for (const uint64_t length : lengths) {
    result.push_back(all.substr(at, length));
    at += length;
  }
  return result;
}

}  // namespace packhouse
