#include "service/stores/lmdb/map_guard.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kPages = 64;

// A file of ones, mapped, that can be cut off.
class MappedOnes {
 public:
  MappedOnes() {
    const std::string ones(kPages * kPageBytes, '\1');
    fd_ = ::open((folder_.path() + "/file").c_str(), O_RDWR | O_CREAT, 0640);
    EXPECT_EQ(::write(fd_, ones.data(), ones.size()), static_cast<ssize_t>(ones.size()));
    map_ = static_cast<const char*>(::mmap(nullptr, ones.size(), PROT_READ, MAP_SHARED, fd_, 0));
  }
  ~MappedOnes() {
    ::munmap(const_cast<char*>(map_), kPages * kPageBytes);
    ::close(fd_);
  }

  const char* data() const { return map_; }
  static constexpr size_t size() { return kPages * kPageBytes; }
  void CutOff(size_t bytes) { EXPECT_EQ(::ftruncate(fd_, static_cast<off_t>(bytes)), 0); }
  absl::StatusOr<MapGuard> Guard() { return MapGuard::Create(map_, size(), MapGuard::Use::kRead); }

 private:
  TemporaryFolder folder_;
  int fd_ = -1;
  const char* map_ = nullptr;
};

uint64_t SumOf(const char* begin, size_t bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes; ++i) sum += static_cast<uint64_t>(begin[i]);
  return sum;
}

TEST(MapGuardTest, WhatIsCutOffReadsAsZeros) {
  MappedOnes map;
  PH_ASSERT_OK_AND_ASSIGN(const MapGuard guard, map.Guard());
  EXPECT_EQ(SumOf(map.data(), map.size()), map.size());
  EXPECT_FALSE(guard.has_failed());
  map.CutOff(10 * kPageBytes + 7);
  EXPECT_EQ(SumOf(map.data(), 10 * kPageBytes), 10 * kPageBytes);
  EXPECT_FALSE(guard.has_failed());
  // From several threads at once.
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] { EXPECT_EQ(SumOf(map.data(), map.size()), 10 * kPageBytes + 7); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(guard.has_failed());
}

// A copy by a function of the C library, as rows are copied.
TEST(MapGuardTest, ACopyGoesOnWithZeros) {
  MappedOnes map;
  PH_ASSERT_OK_AND_ASSIGN(const MapGuard guard, map.Guard());
  map.CutOff(kPageBytes);
  std::string copy(map.size(), '\7');
  std::memcpy(copy.data(), map.data(), map.size());
  EXPECT_EQ(SumOf(copy.data(), copy.size()), kPageBytes);
  EXPECT_TRUE(guard.has_failed());
}

TEST(MapGuardTest, WhatIsRunIsLeftAtAPageThatIsNotThere) {
  MappedOnes map;
  PH_ASSERT_OK_AND_ASSIGN(const MapGuard guard, map.Guard());
  uint64_t sum = 0;
  EXPECT_TRUE(RunOrEscape([&] { sum = SumOf(map.data(), map.size()); }));
  EXPECT_EQ(sum, map.size());
  map.CutOff(0);
  // Again and again: nothing is put where the page was, and no signal stays blocked.
  for (int i = 0; i < 3; ++i) {
    sum = 1;
    EXPECT_FALSE(RunOrEscape([&] { sum = SumOf(map.data(), map.size()); }));
    EXPECT_EQ(sum, 1U);
    EXPECT_TRUE(guard.has_failed());
  }
  EXPECT_FALSE(RunOrEscape([] { EscapeIfPossible(); }));
  EscapeIfPossible();  // There is nothing to leave.
  EXPECT_EQ(SumOf(map.data(), map.size()), 0U);
}

TEST(MapGuardTest, AMapOfAnotherIsNotBlamed) {
  MappedOnes cut_off;
  MappedOnes sound;
  PH_ASSERT_OK_AND_ASSIGN(const MapGuard first, cut_off.Guard());
  PH_ASSERT_OK_AND_ASSIGN(const MapGuard second, sound.Guard());
  cut_off.CutOff(0);
  EXPECT_EQ(SumOf(cut_off.data(), kPageBytes), 0U);
  EXPECT_TRUE(first.has_failed());
  EXPECT_FALSE(second.has_failed());
}

TEST(MapGuardTest, MapsAreBounded) {
  std::vector<MapGuard> guards;
  const char byte = 0;
  while (true) {
    auto guard = MapGuard::Create(&byte, 0, MapGuard::Use::kRead);
    if (!guard.ok()) {
      EXPECT_THAT(guard, StatusIs(absl::StatusCode::kResourceExhausted,
                                  ::testing::HasSubstr("at most 1024")));
      break;
    }
    guards.push_back(*std::move(guard));
    ASSERT_LE(guards.size(), MapGuard::kMaxMaps);
  }
  guards.clear();
  EXPECT_THAT(MapGuard::Create(&byte, 0, MapGuard::Use::kRead), IsOk());
}

// What is not guarded ends the process as ever. Not under AddressSanitizer, which reports it in its
// own way.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(MapGuardDeathTest, OtherFaultsAreNotHidden) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto read_unguarded = [] {
    MappedOnes guarded;
    const auto guard = guarded.Guard();
    MappedOnes map;
    map.CutOff(0);
    std::_Exit(static_cast<int>(SumOf(map.data(), 1)));
  };
  EXPECT_EXIT(read_unguarded(), ::testing::KilledBySignal(SIGBUS), "");
  const auto raise_it = [] {
    MappedOnes guarded;
    const auto guard = guarded.Guard();
    ::raise(SIGBUS);
    std::_Exit(0);
  };
  EXPECT_EXIT(raise_it(), ::testing::KilledBySignal(SIGBUS), "");
}
#endif

}  // namespace
}  // namespace packhouse
