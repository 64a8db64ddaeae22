#include "service/server/metrics/thread_cells.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace packhouse::metrics {
namespace {

TEST(ThreadCellsTest, EachCellIsASumOfItsOwn) {
  ThreadCells cells;
  for (size_t cell = 0; cell < ThreadCells::kNumCells; ++cell) {
    EXPECT_EQ(cells.Sum(cell), 0);
    EXPECT_EQ(cells.SumReal(cell), 0.0);
  }
  cells.Add(0, 3);
  cells.Add(0, static_cast<uint64_t>(int64_t{-5}));
  cells.Add(ThreadCells::kNumCells - 1, 7);
  cells.AddReal(1, 0.25);
  cells.AddReal(1, -1);
  EXPECT_EQ(static_cast<int64_t>(cells.Sum(0)), -2);
  EXPECT_EQ(cells.SumReal(1), -0.75);
  EXPECT_EQ(cells.Sum(2), 0);
  EXPECT_EQ(cells.Sum(ThreadCells::kNumCells - 1), 7);
}

// Nothing is lost, whether threads are alive or ended, at once or one after the other.
TEST(ThreadCellsTest, ThreadsAddUp) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 5;
  constexpr uint64_t kAdditions = 20000;
  ThreadCells cells;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (uint64_t i = 0; i < kAdditions; ++i) {
          cells.Add(1, 1);
          cells.AddReal(2, 0.5);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(cells.Sum(1), kRounds * kThreads * kAdditions);
  EXPECT_EQ(cells.SumReal(2), kRounds * kThreads * kAdditions / 2);
}

// A sum that is read while it grows never shrinks, and ends at what was added.
TEST(ThreadCellsTest, ASumOfPositiveNumbersOnlyGrows) {
  constexpr uint64_t kAdditions = 200000;
  ThreadCells cells;
  std::atomic<bool> done = false;
  std::thread adding([&] {
    for (uint64_t i = 0; i < kAdditions; ++i) cells.Add(0, 1);
    done = true;
  });
  uint64_t last = 0;
  while (!done) {
    const uint64_t sum = cells.Sum(0);
    EXPECT_GE(sum, last);
    last = sum;
  }
  adding.join();
  EXPECT_EQ(cells.Sum(0), kAdditions);
}

// More of them than a thread remembers at a time, in turns.
TEST(ThreadCellsTest, ManyInOneThreadAreKeptApart) {
  std::vector<std::unique_ptr<ThreadCells>> many;
  for (int i = 0; i < 100; ++i) many.push_back(std::make_unique<ThreadCells>());
  for (uint64_t round = 0; round < 3; ++round) {
    for (size_t i = 0; i < many.size(); ++i) many[i]->Add(0, i);
  }
  for (size_t i = 0; i < many.size(); ++i) EXPECT_EQ(many[i]->Sum(0), 3 * i);
}

// A new one starts from 0 where another was, for a thread that had added to that one.
TEST(ThreadCellsTest, NothingIsInherited) {
  for (int i = 0; i < 100; ++i) {
    const auto cells = std::make_unique<ThreadCells>();
    EXPECT_EQ(cells->Sum(5), 0);
    cells->Add(5, 1);
    EXPECT_EQ(cells->Sum(5), 1);
  }
}

// A thread that has added something may end when they are gone.
TEST(ThreadCellsTest, ThreadsMayOutliveThem) {
  std::atomic<bool> added = false;
  std::atomic<bool> gone = false;
  auto cells = std::make_unique<ThreadCells>();
  std::thread thread([&] {
    cells->Add(0, 1);
    added = true;
    while (!gone) std::this_thread::yield();
  });
  while (!added) std::this_thread::yield();
  EXPECT_EQ(cells->Sum(0), 1);
  cells = nullptr;
  gone = true;
  thread.join();
}

}  // namespace
}  // namespace packhouse::metrics
