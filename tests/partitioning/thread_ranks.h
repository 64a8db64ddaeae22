// Ranks that are threads of one process.
#ifndef PACKHOUSE_TESTS_PARTITIONING_THREAD_RANKS_H_
#define PACKHOUSE_TESTS_PARTITIONING_THREAD_RANKS_H_

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "service/wings/partition_mpi/shares/ranks.h"

namespace packhouse {

// Where the ranks of one world meet: each puts up what it gives, and all read it.
class MeetingPlace {
 public:
  explicit MeetingPlace(uint32_t ranks) : out_(ranks), waiting_for_(ranks) {}

  uint32_t size() const { return static_cast<uint32_t>(out_.size()); }

  // `read` is called once all have put up theirs, which stays until all have read.
  void Meet(uint32_t rank, std::vector<absl::string_view> given,
            const std::function<void(const std::vector<std::vector<absl::string_view>>&)>& read) {
    out_[rank] = std::move(given);
    Wait();
    read(out_);
    Wait();
  }

 private:
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (--waiting_for_ == 0) {
      waiting_for_ = size();
      ++round_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [this, round = round_] { return round_ != round; });
  }

  std::vector<std::vector<absl::string_view>> out_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  uint32_t waiting_for_;
  uint64_t round_ = 0;
};

class ThreadRanks : public Ranks {
 public:
  ThreadRanks(MeetingPlace* place, uint32_t rank) : place_(*place), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return place_.size(); }

  std::vector<uint64_t> ExchangeCounts(absl::Span<const uint64_t> to) override {
    std::vector<uint64_t> from(size());
    place_.Meet(rank_, {Bytes(to)}, [&](const auto& all) {
      for (uint32_t r = 0; r < size(); ++r) from[r] = Number(all[r][0], rank_);
    });
    return from;
  }
  void ExchangeBytes(absl::Span<const absl::string_view> out, char* in,
                     absl::Span<const uint64_t> in_bytes) override {
    place_.Meet(rank_, {out.begin(), out.end()}, [&](const auto& all) {
      for (uint32_t r = 0; r < size(); ++r) {
        if (all[r][rank_].size() != in_bytes[r]) std::abort();
        if (in_bytes[r] > 0) std::memcpy(in, all[r][rank_].data(), in_bytes[r]);
        in += in_bytes[r];
      }
    });
  }
  void Sum(absl::Span<uint64_t> values) override {
    Fold(values, size(), [](uint64_t a, uint64_t b) { return a + b; });
  }
  void Max(absl::Span<uint64_t> values) override {
    Fold(values, size(), [](uint64_t a, uint64_t b) { return std::max(a, b); });
  }
  void SumBefore(absl::Span<uint64_t> values) override {
    Fold(values, rank_, [](uint64_t a, uint64_t b) { return a + b; });
  }
  std::vector<std::string> Gather(absl::string_view bytes) override {
    std::vector<std::string> result;
    place_.Meet(rank_, {bytes}, [&](const auto& all) {
      for (const auto& given : all) result.emplace_back(given[0]);
    });
    return result;
  }

 private:
  static absl::string_view Bytes(absl::Span<const uint64_t> values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(uint64_t)};
  }
  static uint64_t Number(absl::string_view bytes, size_t at) {
    uint64_t number;
    std::memcpy(&number, bytes.data() + at * sizeof(number), sizeof(number));
    return number;
  }
  template <typename Join>
  void Fold(absl::Span<uint64_t> values, uint32_t ranks, const Join& join) {
    std::vector<uint64_t> folded(values.size());
    place_.Meet(rank_, {Bytes(values)}, [&](const auto& all) {
      for (uint32_t r = 0; r < ranks; ++r) {
        if (all[r][0].size() != values.size() * sizeof(uint64_t)) std::abort();
        for (size_t i = 0; i < values.size(); ++i) {
          folded[i] = join(folded[i], Number(all[r][0], i));
        }
      }
    });
    std::copy(folded.begin(), folded.end(), values.begin());
  }

  MeetingPlace& place_;
  const uint32_t rank_;
};

// Calls work(ranks) on each of `count` ranks, side by side.
inline void RunOnRanks(uint32_t count, const std::function<void(Ranks&)>& work) {
  MeetingPlace place(count);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&place, &work, rank] {
      ThreadRanks ranks(&place, rank);
      work(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PARTITIONING_THREAD_RANKS_H_
