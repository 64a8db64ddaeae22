#include "service/wings/partition_mpi/runs/spooled_rows.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace packhouse {

absl::StatusOr<SpoolFile> SpoolFile::Create(const std::string& path, uint64_t bytes) {
  if (bytes == 0) return SpoolFile("", nullptr, 0);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  // Room is taken now: a mapped page that finds none would end the process.
  const int error = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  void* data = MAP_FAILED;
  if (error == 0) {
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  const int map_error = errno;
  ::close(descriptor);
  if (data != MAP_FAILED) return SpoolFile(path, static_cast<char*>(data), bytes);
  ::unlink(path.c_str());
  const std::string text =
      absl::StrCat(path, ", ", bytes, " bytes: ", std::strerror(error != 0 ? error : map_error));
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(text)
                                            : absl::UnavailableError(text);
}

SpoolFile::~SpoolFile() {
  if (data_ == nullptr) return;
  ::munmap(data_, bytes_);
  ::unlink(path_.c_str());
}

void SendRows(Ranks& ranks, const PartGatherer::Wave& wave, const RowPlan& plan,
              const FeatureRows& rows, absl::Span<const IdRange> ranges, char* to) {
  const size_t row_bytes = rows.row_bytes();
  std::vector<std::string> outbox(ranks.size());
  std::vector<uint64_t> out_bytes(ranks.size());
  std::vector<absl::string_view> out(ranks.size());
  std::string in;
  uint32_t rank = 0;
  size_t next = 0;
  bool more = true;
  // Each row goes with its place in the part.
  const auto fill = [&] {
    size_t total = 0;
    for (; rank < ranks.size(); ++rank, next = 0) {
      if (!wave.part_of_rank[rank]) continue;
      const uint32_t part = *wave.part_of_rank[rank];
      const absl::Span<const uint64_t> of_part = plan.RowsOf(part);
      for (; next < of_part.size(); ++next) {
        if (total >= kRoundBytes || outbox[rank].size() >= kRoundPairBytes) return true;
        const uint64_t place = plan.new_id(of_part[next]) - ranges[part].begin;
        outbox[rank].append(reinterpret_cast<const char*>(&place), sizeof(place));
        outbox[rank].append(rows.Row(plan.begin() + of_part[next]), row_bytes);
        total += sizeof(place) + row_bytes;
      }
    }
    return false;
  };
  while (AnyRank(ranks, more)) {
    for (std::string& bytes : outbox) bytes.clear();
    if (more) more = fill();
    for (size_t r = 0; r < outbox.size(); ++r) {
      out[r] = outbox[r];
      out_bytes[r] = outbox[r].size();
    }
    const std::vector<uint64_t> in_bytes = ranks.ExchangeCounts(out_bytes);
    uint64_t total = 0;
    for (const uint64_t bytes : in_bytes) total += bytes;
    in.resize(total);
    ranks.ExchangeBytes(out, in.data(), in_bytes);
    for (size_t at = 0; at < in.size(); at += sizeof(uint64_t) + row_bytes) {
      uint64_t place;
      std::memcpy(&place, in.data() + at, sizeof(place));
      std::memcpy(to + place * row_bytes, in.data() + at + sizeof(place), row_bytes);
    }
  }
}

}  // namespace packhouse
