// Files of objects: found again, checked, shared, bounded.
#include "service/wings/cluster/datasets/chunk_cache.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "tests/support/leaving_caller.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

class ChunkCacheTest : public ::testing::Test {
 protected:
  ChunkCacheTest() { Open(10'000); }
  void Open(uint64_t max_bytes) {
    cache_ = nullptr;
    ChunkCache::Options options;
    options.folder = folder_.path() + "/cache";
    options.max_bytes = max_bytes;
    cache_ = ChunkCache::Open(options).value();
  }
  static std::string Content(const std::string& name, size_t size) {
    return absl::StrCat(name, std::string(size - name.size(), name[0]));
  }
  absl::StatusOr<std::shared_ptr<const MappedObject>> Pin(const std::string& name, size_t size) {
    const std::string content = Content(name, size);
    return cache_->Pin({name, size, Crc32c(content)}, [&](ObjectSink sink) -> absl::Status {
      ++num_fetches_;
      const absl::Status first = sink(absl::string_view(content).substr(0, size / 2));
      return first.ok() ? sink(absl::string_view(content).substr(size / 2)) : first;
    });
  }

  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  std::unique_ptr<ChunkCache> cache_;
  std::atomic<int> num_fetches_ = 0;
};

TEST_F(ChunkCacheTest, AnObjectIsFetchedOnceAlsoByTheNextProcess) {
  for (int i = 0; i < 3; ++i) {
    PH_ASSERT_OK_AND_ASSIGN(const auto map, Pin("a", 100));
    EXPECT_EQ(map->bytes(), Content("a", 100));
  }
  Open(10'000);
  EXPECT_THAT(Pin("a", 100), IsOk());
  EXPECT_EQ(num_fetches_, 1);
  EXPECT_EQ(cache_->counts().hits, 1U);
}

TEST_F(ChunkCacheTest, ThreadsShareOneFetch) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        const auto map = Pin(absl::StrCat("o", k), 50);
        ASSERT_THAT(map, IsOk());
        EXPECT_EQ((*map)->bytes(), Content(absl::StrCat("o", k), 50));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_fetches_, 20);
}

// What was not used for longest goes; what is in use never does, and stays readable.
TEST_F(ChunkCacheTest, TheBoundHolds) {
  PH_ASSERT_OK_AND_ASSIGN(auto first, Pin("a", 4000));
  ASSERT_THAT(Pin("b", 4000), IsOk());
  ASSERT_THAT(Pin("c", 4000), IsOk());  // b goes.
  EXPECT_EQ(cache_->counts().num_bytes, 8000U);
  EXPECT_EQ(cache_->counts().in_use, 4000U);
  EXPECT_EQ(cache_->counts().evictions, 1U);
  EXPECT_THAT(Pin("d", 7000),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_bytes is 10000")));
  EXPECT_EQ(first->bytes(), Content("a", 4000));
  first = nullptr;
  EXPECT_THAT(Pin("d", 7000), IsOk());
  // A smaller bound holds from the start.
  Open(6000);
  EXPECT_EQ(cache_->counts().num_bytes, 0U);
}

TEST_F(ChunkCacheTest, WhatIsFetchedAndFoundIsCounted) {
  const auto expect = [&](uint64_t num_bytes, uint64_t in_use, uint64_t hits, uint64_t misses,
                          uint64_t evictions) {
    const ChunkCache::Counts counts = cache_->counts();
    EXPECT_EQ(counts.num_bytes, num_bytes);
    EXPECT_EQ(counts.in_use, in_use);
    EXPECT_EQ(counts.hits, hits);
    EXPECT_EQ(counts.misses, misses);
    EXPECT_EQ(counts.evictions, evictions);
  };
  auto a = Pin("a", 4000);
  expect(4000, 4000, 0, 1, 0);
  EXPECT_THAT(Pin("a", 4000), IsOk());  // Mapped.
  expect(4000, 4000, 1, 1, 0);
  a = absl::CancelledError();
  EXPECT_THAT(Pin("a", 4000), IsOk());  // A file.
  expect(4000, 0, 2, 1, 0);
  EXPECT_THAT(Pin("b", 3000), IsOk());
  EXPECT_THAT(Pin("c", 3000), IsOk());
  expect(10'000, 0, 2, 3, 0);
  EXPECT_THAT(Pin("a", 4000), IsOk());  // b is the oldest now.
  EXPECT_THAT(Pin("d", 3000), IsOk());
  expect(10'000, 0, 3, 4, 1);
  const std::string folder = folder_.path() + "/cache/";
  EXPECT_FALSE(std::filesystem::exists(folder + "b.chunk"));
  // The next process knows which files were written last; other things of that name are none.
  cache_ = nullptr;
  std::filesystem::create_directory(folder + "e.chunk");
  const auto now = std::filesystem::file_time_type::clock::now();
  for (const auto& [name, minutes] : std::map<std::string, int>{{"a", 1}, {"c", 3}, {"d", 2}}) {
    std::filesystem::last_write_time(absl::StrCat(folder, name, ".chunk"),
                                     now - std::chrono::minutes(minutes));
  }
  Open(7000);
  expect(7000, 0, 0, 0, 1);
  EXPECT_FALSE(std::filesystem::exists(folder + "c.chunk"));
  EXPECT_THAT(Pin("f", 2000), IsOk());
  expect(6000, 0, 0, 1, 2);
  EXPECT_TRUE(std::filesystem::exists(folder + "a.chunk"));
  EXPECT_TRUE(std::filesystem::exists(folder + "e.chunk"));
  // A file that was cut off is none.
  cache_ = nullptr;
  std::filesystem::resize_file(folder + "a.chunk", 10);
  Open(10'000);
  expect(2010, 0, 0, 0, 0);
  EXPECT_THAT(Pin("a", 4000), IsOk());
  expect(6000, 0, 0, 1, 0);
}

// A process has few mappings; who runs out of them cannot even start a thread.
TEST_F(ChunkCacheTest, MapsAreBounded) {
  cache_ = nullptr;
  ChunkCache::Options options;
  options.folder = folder_.path() + "/cache";
  options.max_maps = 2;
  cache_ = ChunkCache::Open(options).value();
  auto first = Pin("a", 100);
  const auto second = Pin("b", 100);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_THAT(Pin("c", 100), StatusIs(absl::StatusCode::kResourceExhausted,
                                      HasSubstr("max_maps is 2: half of the kernel's")));
  EXPECT_THAT(cache_->CountMaps(1), StatusIs(absl::StatusCode::kResourceExhausted, _));
  // What is mapped may be had again.
  EXPECT_THAT(Pin("a", 100), IsOk());
  first = absl::CancelledError();
  // Others' maps count as long as they are there.
  auto counted = cache_->CountMaps(1);
  ASSERT_THAT(counted, IsOk());
  EXPECT_THAT(Pin("c", 100), StatusIs(absl::StatusCode::kResourceExhausted, _));
  counted = absl::CancelledError();
  const auto third = Pin("c", 100);
  EXPECT_THAT(third, IsOk());
  // What is in a file must be mapped, too.
  EXPECT_THAT(Pin("a", 100), StatusIs(absl::StatusCode::kResourceExhausted, _));
}

TEST_F(ChunkCacheTest, WhatWasCutOffOrChangedIsFetchedAgain) {
  ASSERT_THAT(Pin("a", 100), IsOk());
  ASSERT_THAT(Pin("b", 100), IsOk());
  cache_ = nullptr;
  const std::string folder = folder_.path() + "/cache/";
  std::filesystem::resize_file(folder + "a.chunk", 50);
  std::fstream(folder + "b.chunk", std::ios::in | std::ios::out).put('x');
  std::ofstream(folder + "c.chunk.part") << "half";
  Open(10'000);
  EXPECT_FALSE(std::filesystem::exists(folder + "c.chunk.part"));
  for (const char* name : {"a", "b"}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto map, Pin(name, 100));
    EXPECT_EQ(map->bytes(), Content(name, 100));
  }
  EXPECT_EQ(num_fetches_, 4);
  EXPECT_EQ(cache_->counts().num_bytes, 200U);
}

TEST_F(ChunkCacheTest, AnErrorLeavesNothing) {
  int calls = 0;
  const auto wrong = [&](ObjectSink sink) {
    ++calls;
    return sink("not the object");
  };
  EXPECT_THAT(cache_->Pin({"a", 14, 1}, wrong), StatusIs(absl::StatusCode::kDataLoss, _));
  EXPECT_THAT(cache_->Pin({"a", 10, 1}, wrong), StatusIs(absl::StatusCode::kDataLoss, _));
  EXPECT_EQ(calls, 2);
  const auto fails = [](ObjectSink) { return absl::UnavailableError("gone"); };
  EXPECT_THAT(cache_->Pin({"a", 10, 1}, fails), StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_EQ(cache_->counts().num_bytes, 0U);
  EXPECT_THAT(Pin("a", 100), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(
      const auto empty, cache_->Pin({"empty", 0, 0}, [](ObjectSink) { return absl::OkStatus(); }));
  EXPECT_EQ(empty->bytes(), "");
}

// Who waits for a fetch does not wait for one that an exception has ended.
TEST_F(ChunkCacheTest, AnExceptionLeavesNothingToWaitFor) {
  const auto throws = [](ObjectSink) -> absl::Status { throw std::bad_alloc(); };
  EXPECT_THROW((void)cache_->Pin({"a", 10, 1}, throws), std::bad_alloc);
  EXPECT_EQ(cache_->counts().num_bytes, 0U);
  ASSERT_THAT(Pin("a", 100), IsOk());
  // The file of an earlier process is damaged, and fetched again.
  cache_ = nullptr;
  std::filesystem::resize_file(folder_.path() + "/cache/a.chunk", 50);
  Open(10'000);
  const uint32_t crc = Crc32c(Content("a", 100));
  EXPECT_THROW((void)cache_->Pin({"a", 100, crc}, throws), std::bad_alloc);
  PH_ASSERT_OK_AND_ASSIGN(const auto map, Pin("a", 100));
  EXPECT_EQ(map->bytes(), Content("a", 100));
  EXPECT_EQ(cache_->counts().num_bytes, 100U);
}

// Who waits for the fetch of another call leaves when nobody waits for it; the other one goes on.
TEST_F(ChunkCacheTest, WhoIsGoneDoesNotWaitForAnothersFetch) {
  std::latch begun(1);
  std::latch end(1);
  const std::string content = Content("a", 100);
  const ChunkCache::Object object = {"a", 100, Crc32c(content)};
  std::thread other([&] {
    EXPECT_THAT(cache_->Pin(object,
                            [&](ObjectSink sink) {
                              begun.count_down();
                              end.wait();
                              return sink(content);
                            }),
                IsOk());
  });
  begun.wait();
  {
    LeavingCaller caller;
    caller.Leave();
    const CallerScope scope(&caller);
    EXPECT_THAT(Pin("a", 100), StatusIs(absl::StatusCode::kCancelled, _));
    // Others may work meanwhile.
    EXPECT_EQ(caller.num_waits(), 1);
  }
  end.count_down();
  other.join();
  EXPECT_THAT(Pin("a", 100), IsOk());
  EXPECT_EQ(num_fetches_, 0);
}

// An object that was damaged on the way is not kept: the next call fetches it.
TEST_F(ChunkCacheTest, OnlyTheObjectItselfIsKept) {
  int calls = 0;
  const auto damaged_once = [&](ObjectSink sink) {
    return sink(++calls == 1 ? "0123456789" : "0123456780");
  };
  const ChunkCache::Object object = {"a", 10, Crc32c("0123456780")};
  EXPECT_THAT(cache_->Pin(object, damaged_once), StatusIs(absl::StatusCode::kDataLoss, _));
  PH_ASSERT_OK_AND_ASSIGN(const auto map, cache_->Pin(object, damaged_once));
  EXPECT_EQ(map->bytes(), "0123456780");
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(cache_->Pin({"b", 10, Crc32c("0123456789")}, damaged_once),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("b")));
  EXPECT_EQ(cache_->counts().num_bytes, 10U);
}

// It ends the call that needs it, and leaves nothing; the next one may have it.
TEST_F(ChunkCacheTest, WhatTheDiskRefusesIsTold) {
  const std::string folder = folder_.path() + "/cache";
  const auto expect_refused = [](const absl::Status& status, const std::string& what) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  };
  // In the place of what is fetched, and of what was.
  std::filesystem::create_directory(folder + "/a.chunk.part");
  expect_refused(Pin("a", 100).status(), "a.chunk.part");
  EXPECT_EQ(num_fetches_, 0);
  EXPECT_THAT(Pin("a", 100), IsOk());
  std::filesystem::create_directories(folder + "/b.chunk/x");
  expect_refused(Pin("b", 100).status(), "b.chunk");
  EXPECT_FALSE(std::filesystem::exists(folder + "/b.chunk.part"));
  EXPECT_EQ(cache_->counts().num_bytes, 100U);
  // It is no file of the next process, either.
  Open(10'000);
  EXPECT_EQ(cache_->counts().num_bytes, 100U);
  std::filesystem::remove_all(folder + "/b.chunk");
  EXPECT_THAT(Pin("b", 100), IsOk());
  std::filesystem::remove_all(folder);
  const auto uncached = [&] {
    return cache_->FetchUncached({"d", 0, 0}, [](ObjectSink) { return absl::OkStatus(); });
  };
  expect_refused(Pin("d", 100).status(), "d.chunk.part");
  EXPECT_THAT(uncached(), testing::Not(IsOk()));
  std::filesystem::create_directory(folder);
  EXPECT_THAT(Pin("d", 100), IsOk());
  EXPECT_THAT(uncached(), IsOk());
  cache_ = nullptr;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/lock");
  ChunkCache::Options options;
  options.folder = folder;
  expect_refused(ChunkCache::Open(options).status(), "lock");
  std::filesystem::remove_all(folder);
  std::ofstream(folder) << "a file";
  expect_refused(ChunkCache::Open(options).status(), "cache");
}

// Of what earlier processes have fetched, what is oldest goes first.
TEST_F(ChunkCacheTest, TheNextProcessKeepsWhatIsNewest) {
  for (const char* const name : {"a", "b", "c"}) ASSERT_THAT(Pin(name, 100), IsOk());
  cache_ = nullptr;
  const std::string folder = folder_.path() + "/cache/";
  const auto now = std::filesystem::file_time_type::clock::now();
  int age = 0;
  for (const char* const name : {"a", "c", "b"}) {
    std::filesystem::last_write_time(folder + name + ".chunk", now - std::chrono::hours(++age));
  }
  for (const auto& [bound, kept] : std::vector<std::pair<uint64_t, std::string>>{
           {300, "abc"}, {299, "ac"}, {199, "a"}, {99, ""}}) {
    SCOPED_TRACE(bound);
    Open(bound);
    EXPECT_EQ(cache_->counts().num_bytes, 100 * kept.size());
    std::string found;
    for (const char name : {'a', 'b', 'c'}) {
      if (std::filesystem::exists(folder + name + ".chunk")) found += name;
    }
    EXPECT_EQ(found, kept);
  }
}

TEST_F(ChunkCacheTest, FilesOfOthersStay) {
  cache_ = nullptr;
  const std::string other = folder_.path() + "/cache/thesis.tex";
  std::ofstream(other) << std::string(100'000, 'x');
  Open(1000);
  EXPECT_EQ(cache_->counts().num_bytes, 0U);
  EXPECT_THAT(Pin("a", 900), IsOk());
  EXPECT_TRUE(std::filesystem::exists(other));
}

TEST_F(ChunkCacheTest, OneProcessHasTheFolder) {
  ChunkCache::Options options;
  options.folder = folder_.path() + "/cache";
  EXPECT_THAT(ChunkCache::Open(options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another process")));
}

}  // namespace
}  // namespace packhouse
