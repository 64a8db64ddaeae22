// A store's file is removed, replaced or cut off while the store is open. Nothing is answered with
// OK any more, nothing ends the process, and what was read before the answer is right.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/stores/lmdb/data_file_watch.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/lmdb/store_folder.h"
#include "tests/datasets/stored_files.h"
#include "tests/ledger/lmdb/one_log.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr auto kGoOn = [](const VerifyProgress&) { return true; };

GraphSchema Schema() {
  return GraphSchema::Create(
             SizeSchema::NodesAndEdges(),
             {{"x", DType::kInt16, {}, 0, {}, {}}, {"edge_index", DType::kInt32, {2}, 1, 0, {}}})
      .value();
}

// A chunk that can be told from its first graph's id.
GraphChunk Chunk(const GraphSchema& schema, uint64_t number) {
  Random random(number);
  return RandomChunk(random, &schema, 40, 9, number * 1000);
}

auto IsLost() { return StatusIs(absl::StatusCode::kDataLoss, HasSubstr("data.mdb'")); }

void CutOff(const std::string& path, uintmax_t bytes) {
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(bytes)), 0) << std::strerror(errno);
}

// Something that happens to a store's folder, which has a parent of its own.
struct Mishap {
  std::string name;
  std::function<void(const std::string& folder)> happen;
};

std::vector<Mishap> Mishaps() {
  const auto cut_to = [](double share) {
    return [share](const std::string& folder) {
      const auto bytes = std::filesystem::file_size(DataFile(folder));
      CutOff(DataFile(folder), static_cast<uintmax_t>(share * static_cast<double>(bytes)));
    };
  };
  return {
      {"folder removed", [](const std::string& folder) { std::filesystem::remove_all(folder); }},
      {"file removed",
       [](const std::string& folder) { std::filesystem::remove(DataFile(folder)); }},
      {"folder moved",
       [](const std::string& folder) { std::filesystem::rename(folder, folder + ".moved"); }},
      {"folder removed and made again",
       [](const std::string& folder) {
         std::filesystem::remove_all(folder);
         std::filesystem::create_directories(folder);
         WriteFile(DataFile(folder), "");
       }},
      {"file replaced by its copy",
       [](const std::string& folder) {
         std::filesystem::copy_file(DataFile(folder), folder + "/copy");
         std::filesystem::rename(folder + "/copy", DataFile(folder));
       }},
      {"emptied", cut_to(0)},
      {"cut to a part of a page", cut_to(0.001)},
      {"cut in half", cut_to(0.5)},
      {"last byte cut off",
       [](const std::string& folder) {
         CutOff(DataFile(folder), std::filesystem::file_size(DataFile(folder)) - 1);
       }},
  };
}

struct World {
  const GraphSchema schema = Schema();
  TemporaryFolder parent;
  const std::string folder = parent.path() + "/store";
  std::unique_ptr<LmdbDatasetStore> store;
  size_t num_chunks = 0;

  explicit World(size_t chunks) {
    LmdbDatasetStore::Options options;
    options.folder = folder;
    options.max_bytes = uint64_t{1} << 30;
    store = LmdbDatasetStore::Open(options).value();
    EXPECT_THAT(store->Create("set", schema, {}), IsOk());
    while (num_chunks < chunks) {
      EXPECT_THAT(store->Append("set", Chunk(schema, num_chunks), {}, std::nullopt), IsOk());
      ++num_chunks;
    }
  }
};

// Touches every byte of a graph. Whether it is the one that was appended.
bool IsRight(const GraphSchema& schema, const DatasetReader& reader, size_t i,
             const StoredGraph& graph) {
  const GraphChunk expected = Chunk(schema, i / 40);
  static_cast<void>(reader);
  return SameGraph(*graph.chunk, graph.index, expected, i % 40);
}

TEST(LostFileTest, NothingIsAnsweredWithOkAnyMore) {
  for (const Mishap& mishap : Mishaps()) {
    SCOPED_TRACE(mishap.name);
    World world(30);
    LmdbDatasetStore& store = *world.store;
    PH_ASSERT_OK_AND_ASSIGN(const auto reader, store.OpenReader("set"));
    ASSERT_THAT(store.health(), IsOk());
    mishap.happen(world.folder);
    EXPECT_THAT(store.Append("set", Chunk(world.schema, 0), {}, std::nullopt), IsLost());
    EXPECT_THAT(store.Append("set", Chunk(world.schema, 0), {}, std::nullopt), IsLost());
    EXPECT_THAT(store.Create("other", world.schema, {}), IsLost());
    EXPECT_THAT(store.Seal("set"), IsLost());
    EXPECT_THAT(store.Get("set"), IsLost());
    EXPECT_THAT(store.GetHistogram("set"), IsLost());
    EXPECT_THAT(store.List(0, ""), IsLost());
    EXPECT_THAT(store.OpenReader("set"), IsLost());
    EXPECT_THAT(store.Verify("set", kGoOn), IsLost());
    EXPECT_THAT(store.Delete("set"), IsLost());
    EXPECT_THAT(store.health(), IsLost());
    EXPECT_THAT(reader->CheckIntact(), IsLost());
    // What is held can be read; it is worth nothing, and says so.
    for (size_t i = 0; i < reader->num_graphs(); ++i) {
      const auto graph = reader->Graph(i);
      if (graph.ok()) {
        static_cast<void>(IsRight(world.schema, *reader, i, *graph));
      } else {
        EXPECT_THAT(graph, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("record ")));
      }
    }
  }
}

// Cut off in the middle of a transaction: LMDB comes to a page that is not there. What is read is
// right or lost, and nothing is committed.
TEST(LostFileTest, ATransactionThatIsUnderWayIsTold) {
  constexpr size_t kKeys = 5000;
  for (const auto kind : {LmdbTransaction::Kind::kRead, LmdbTransaction::Kind::kWrite}) {
    for (const double share : {0.0, 0.2, 0.7}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << ", " << share);
      TemporaryFolder folder;
      const auto environment = LmdbEnvironment::Open(folder.path(), uint64_t{1} << 28).value();
      {
        auto filling = LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kWrite).value();
        for (size_t i = 0; i < kKeys; ++i) {
          ASSERT_THAT(filling.Put(absl::StrCat("key", i), absl::StrCat("value", i)), IsOk());
        }
        ASSERT_THAT(filling.Commit(), IsOk());
      }
      auto transaction = LmdbTransaction::Begin(*environment, kind).value();
      ASSERT_THAT(transaction.Get("key1"), IsOk());
      auto cursor = LmdbCursor::At(transaction, "key");
      ASSERT_THAT(cursor, IsOk());
      const auto bytes = std::filesystem::file_size(DataFile(folder.path()));
      CutOff(DataFile(folder.path()), static_cast<uintmax_t>(share * static_cast<double>(bytes)));
      absl::Status walked = absl::OkStatus();
      if (kind == LmdbTransaction::Kind::kRead) {
        while (walked.ok() && cursor->valid()) walked = cursor->Next();
        EXPECT_THAT(walked, IsLost());
      }
      size_t num_lost = 0;
      for (size_t i = 0; i < kKeys; ++i) {
        const auto value = transaction.Get(absl::StrCat("key", i));
        if (value.ok()) {
          EXPECT_EQ(value->value_or("none"), absl::StrCat("value", i));
        } else {
          EXPECT_THAT(value, IsLost());
          ++num_lost;
        }
      }
      EXPECT_GT(num_lost, 0U);
      if (kind == LmdbTransaction::Kind::kWrite) {
        EXPECT_THAT(transaction.Put("key1", "other"), IsLost());
        EXPECT_THAT(transaction.Commit(), IsLost());
      }
      EXPECT_THAT(LmdbTransaction::Begin(*environment, kind), IsLost());
      EXPECT_THAT(environment->failure(), IsLost());
    }
  }
}

// Cut off between the writing and the commit, which touches few pages itself.
TEST(LostFileTest, ACommitLooksFirst) {
  for (const double share : {0.0, 0.5, 0.99}) {
    SCOPED_TRACE(share);
    TemporaryFolder folder;
    const auto environment = LmdbEnvironment::Open(folder.path(), uint64_t{1} << 28).value();
    for (int i = 0; i < 20; ++i) {
      auto filling = LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kWrite).value();
      ASSERT_THAT(filling.Put(absl::StrCat("key", i), std::string(10000, 'x')), IsOk());
      ASSERT_THAT(filling.Commit(), IsOk());
    }
    auto transaction = LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kWrite).value();
    ASSERT_THAT(transaction.Put("last", "value"), IsOk());
    const auto bytes = std::filesystem::file_size(DataFile(folder.path()));
    CutOff(DataFile(folder.path()), static_cast<uintmax_t>(share * static_cast<double>(bytes)));
    EXPECT_THAT(transaction.Commit(), IsLost());
  }
}

// Cut off while a commit writes: what it writes behind the cut makes the file as long again, and
// the hole tells it, to who looks meanwhile and to the commit.
TEST(LostFileTest, ACutThatACommitHidesIsSeenByItsHole) {
  const TemporaryFolder parent(TemporaryFolder::InMemory());
  const std::string path = parent.path() + "/store";
  {
    const auto environment = LmdbEnvironment::Open(path, uint64_t{1} << 28).value();
    auto filling = LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kWrite).value();
    ASSERT_THAT(filling.Put("key", std::string(100 * kPage, 'x')), IsOk());
    ASSERT_THAT(filling.Commit(), IsOk());
  }
  const std::string file = DataFile(path);
  const std::string whole = ReadFile(file);
  PH_ASSERT_OK_AND_ASSIGN(const StoreFolder folder, StoreFolder::Lock(path));
  enum class Seen { kNothing, kMeanwhile, kAfterwards };
  for (const Seen seen : {Seen::kNothing, Seen::kMeanwhile, Seen::kAfterwards}) {
    SCOPED_TRACE(static_cast<int>(seen));
    WriteFile(file, whole);  // Without holes.
    DataFileWatch watch;
    watch.BeforeOpening(&folder);
    const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    void* const map = ::mmap(nullptr, whole.size(), PROT_READ, MAP_SHARED, fd, 0);
    ASSERT_NE(map, MAP_FAILED);
    ASSERT_THAT(watch.Start(fd), IsOk());
    ASSERT_THAT(watch.SetPageBytes(kPage), IsOk());
    ASSERT_THAT(watch.BeforeCommit(), IsOk());
    bool has_hole = true;
    if (seen != Seen::kNothing) {
      CutOff(file, whole.size() / 2);
      ASSERT_EQ(::pwrite(fd, "x", 1, static_cast<off_t>(whole.size() - 1)), 1);
      has_hole = ::lseek(fd, 0, SEEK_HOLE) < static_cast<off_t>(whole.size());
    }
    const auto is_cut = StatusIs(absl::StatusCode::kDataLoss,
                                 HasSubstr("data.mdb' was cut off while it was written to"));
    if (seen == Seen::kMeanwhile && has_hole) {
      EXPECT_THAT(watch.Check(), is_cut);
    }
    const absl::Status committed = watch.AfterCommit(absl::OkStatus());
    if (seen == Seen::kNothing) {
      EXPECT_THAT(committed, IsOk());
      EXPECT_THAT(watch.Check(), IsOk());
    } else if (has_hole) {
      EXPECT_THAT(committed, is_cut);
      EXPECT_THAT(watch.failure(), is_cut);
    }
    watch.StopGuarding();
    ::munmap(map, whole.size());
    ::close(fd);
    if (!has_hole) GTEST_SKIP() << "a file system that tells of no holes";
  }
}

// A backup that is copied over the file while it is open, of the same length.
TEST(LostFileTest, WhatSomebodyElseWritesIsNoticed) {
  World world(10);
  const std::string backup = ReadFile(DataFile(world.folder));
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_THAT(world.store->Append("set", Chunk(world.schema, i), {}, std::nullopt), IsOk());
  }
  const auto bytes = std::filesystem::file_size(DataFile(world.folder));
  const int fd = ::open(DataFile(world.folder).c_str(), O_WRONLY);
  ASSERT_EQ(::pwrite(fd, backup.data(), backup.size(), 0), static_cast<ssize_t>(backup.size()));
  ::close(fd);
  ASSERT_EQ(std::filesystem::file_size(DataFile(world.folder)), bytes);
  EXPECT_THAT(world.store->Append("set", Chunk(world.schema, 7), {}, std::nullopt), IsLost());
  EXPECT_THAT(world.store->health(), IsLost());
}

// A page of a tree that goes bad while the file is open: where LMDB would end the process, it is
// left instead. What is read is right or lost.
TEST(LostFileTest, APageOfATreeThatGoesBadEndsNothing) {
  constexpr size_t kKeys = 5000;
  size_t num_found = 0;
  for (size_t page = 2; page < 40; ++page) {
    SCOPED_TRACE(page);
    TemporaryFolder folder(TemporaryFolder::InMemory());
    const auto environment = LmdbEnvironment::Open(folder.path(), uint64_t{1} << 28).value();
    {
      auto filling = LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kWrite).value();
      for (size_t i = 0; i < kKeys; ++i) {
        ASSERT_THAT(filling.Put(absl::StrCat("key", i), absl::StrCat("value", i)), IsOk());
      }
      ASSERT_THAT(filling.Commit(), IsOk());
    }
    const int fd = ::open(DataFile(folder.path()).c_str(), O_WRONLY);
    const std::string zeros(kPage, '\0');
    ASSERT_EQ(::pwrite(fd, zeros.data(), kPage, static_cast<off_t>(page * kPage)),
              static_cast<ssize_t>(kPage));
    ::close(fd);
    const auto begin = [&] {
      return LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kRead);
    };
    const auto is_lost = StatusIs(absl::StatusCode::kDataLoss, ::testing::_);
    size_t num_lost = 0;
    for (size_t i = 0; i < kKeys; i += 10) {
      // LMDB has done with a transaction that came to a bad page.
      const auto transaction = begin();
      ASSERT_THAT(transaction, IsOk());
      const auto value = transaction->Get(absl::StrCat("key", i));
      if (value.ok()) {
        ASSERT_EQ(value->value_or("none"), absl::StrCat("value", i));
      } else {
        ASSERT_THAT(value, is_lost);
        ++num_lost;
      }
    }
    const auto transaction = begin();
    ASSERT_THAT(transaction, IsOk());
    auto cursor = LmdbCursor::At(*transaction, "key");
    absl::Status walked = cursor.status();
    while (walked.ok() && cursor->valid()) walked = cursor->Next();
    EXPECT_TRUE(walked.ok() || absl::IsDataLoss(walked)) << walked;
    num_found += num_lost != 0 || !walked.ok() ? 1 : 0;
  }
  EXPECT_GT(num_found, 20U);
}

// A check that is under way ends with a report: of what is cut off it says so, what is left is
// sound.
TEST(LostFileTest, ACheckThatIsUnderWayReportsIt) {
  World world(200);
  bool is_cut = false;
  PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report,
                          world.store->Verify("set", [&](const VerifyProgress& progress) {
                            if (!is_cut && progress.num_records == 20) {
                              is_cut = true;
                              const auto bytes = std::filesystem::file_size(DataFile(world.folder));
                              CutOff(DataFile(world.folder), bytes / 2);
                            }
                            return true;
                          }));
  EXPECT_EQ(report.num_records, 200U);
  EXPECT_GT(report.num_damaged, 50U);
  EXPECT_LT(report.num_damaged, 150U);
  for (const DamagedRecord& damaged : report.damaged) {
    EXPECT_THAT(damaged.status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("record ")));
  }
  ASSERT_FALSE(report.disagreements.empty());
  EXPECT_THAT(report.disagreements[0], IsLost());
}

// Cut off at any place under the load of all kinds of calls: each ends with DATA_LOSS; none that
// began afterwards is answered with OK; and a graph is right if its store was intact after it was
// copied.
TEST(LostFileTest, UnderLoadEachCallIsTold) {
#if defined(__SANITIZE_THREAD__)
  constexpr uint64_t kRounds = 6;
#else
  constexpr uint64_t kRounds = 30;
#endif
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    Random random(round);
    World world(40);
    LmdbDatasetStore& store = *world.store;
    PH_ASSERT_OK_AND_ASSIGN(const auto reader, store.OpenReader("set"));
    std::atomic<bool> is_lost = false;
    std::atomic<size_t> num_calls = 0;
    std::vector<std::thread> threads;
    // Calls until it is told, which it must be once the file is lost.
    const auto until_told = [&](std::function<absl::Status()> call) {
      threads.emplace_back([&, call = std::move(call)] {
        while (true) {
          const bool was_lost = is_lost;
          const absl::Status status = call();
          ++num_calls;
          if (!status.ok()) {
            EXPECT_THAT(status, IsLost());
            return;
          }
          if (was_lost) {
            ADD_FAILURE() << "OK although the file is lost";
            return;
          }
        }
      });
    };
    std::atomic<uint64_t> number = world.num_chunks;
    for (int i = 0; i < 2; ++i) {
      until_told([&] {
        return store.Append("set", Chunk(world.schema, number++), {}, std::nullopt).status();
      });
    }
    until_told([&]() -> absl::Status {
      const auto report = store.Verify("set", kGoOn);
      if (!report.ok()) return report.status();
      if (report->ok()) return absl::OkStatus();
      return report->disagreements.empty() ? absl::InternalError("not said")
                                           : report->disagreements[0];
    });
    until_told([&] { return store.OpenReader("set").status(); });
    until_told([&] { return store.GetHistogram("set").status(); });
    for (uint64_t thread = 0; thread < 2; ++thread) {
      auto draws = std::make_shared<Random>(round * 2 + thread);
      until_told([&, draws]() -> absl::Status {
        const size_t i = draws->Below(reader->num_graphs());
        const auto graph = reader->Graph(i);
        const bool is_right = graph.ok() && IsRight(world.schema, *reader, i, *graph);
        const absl::Status intact = reader->CheckIntact();
        if (intact.ok()) {
          EXPECT_TRUE(is_right) << i;
        }
        return intact;
      });
    }
    while (num_calls < 40 + random.Below(100)) std::this_thread::yield();
    const auto bytes = std::filesystem::file_size(DataFile(world.folder));
    switch (random.Below(4)) {
      case 0:
        std::filesystem::remove_all(world.folder);
        break;
      case 1:
        CutOff(DataFile(world.folder), 0);
        break;
      default:
        // More than the commit that is made meanwhile can write again.
        CutOff(DataFile(world.folder), random.Below(bytes / 2));
    }
    is_lost = true;
    for (std::thread& thread : threads) thread.join();
  }
}

// The table of readers, which LMDB writes to through a map.
TEST(LostFileTest, ATableOfReadersThatIsCutOffEndsNothing) {
  World world(10);
  CutOff(world.folder + "/lock.mdb", 0);
  const auto info = world.store->Get("set");
  const auto appended = world.store->Append("set", Chunk(world.schema, 10), {}, std::nullopt);
  EXPECT_THAT(info, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("lock.mdb")));
  EXPECT_THAT(appended, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("lock.mdb")));
}

// An acknowledgement is a record of the log.
TEST(LostFileTest, ALogTellsItToo) {
  for (const Mishap& mishap : Mishaps()) {
    SCOPED_TRACE(mishap.name);
    TemporaryFolder parent;
    const std::string folder = parent.path() + "/log";
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OneLog::Open({folder}));
    const std::vector<std::string> records(100, std::string(1000, 'x'));
    ASSERT_THAT(log->Append(records), IsOk());
    ASSERT_THAT(log->health(), IsOk());
    mishap.happen(folder);
    EXPECT_THAT(log->Append(records), IsLost());
    EXPECT_THAT(log->Append({}), IsLost());
    EXPECT_THAT(log->Replace(records), IsLost());
    EXPECT_THAT(log->ReadAll(), IsLost());
    EXPECT_THAT(log->health(), IsLost());
  }
}

TEST(LostFileTest, ALogUnderLoadTellsEachAppend) {
  for (uint64_t round = 0; round < 10; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    Random random(round);
    TemporaryFolder parent;
    const std::string folder = parent.path() + "/log";
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OneLog::Open({folder}));
    std::atomic<bool> is_lost = false;
    std::atomic<size_t> num_calls = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        const std::vector<std::string> records(3, std::string(500, 'x'));
        while (true) {
          const bool was_lost = is_lost;
          const absl::Status status = log->Append(records);
          ++num_calls;
          if (!status.ok()) {
            EXPECT_THAT(status, IsLost());
            return;
          }
          ASSERT_FALSE(was_lost) << "OK although the file is lost";
        }
      });
    }
    while (num_calls < 50 + random.Below(50)) std::this_thread::yield();
    if (round % 2 == 0) {
      std::filesystem::remove_all(folder);
    } else {
      // More than the commit that is made meanwhile can write again.
      CutOff(DataFile(folder), random.Below(std::filesystem::file_size(DataFile(folder)) / 2));
    }
    is_lost = true;
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace packhouse
