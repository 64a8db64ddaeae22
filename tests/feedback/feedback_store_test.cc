#include <sys/inotify.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/feedback/folder_feedback_store.h"
#include "service/engine/feedback/stored_feedback.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> kComponents = {"edges", "nodes", "graphs"};
const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

BatchObservation Batch(uint64_t edges, double seconds) {
  BatchObservation batch;
  batch.capacities = {edges, edges / 2, 10};
  batch.seconds = seconds;
  batch.peak_bytes = 1000 * edges;
  return batch;
}

FolderFeedbackStore::Options InFolder(const TemporaryFolder& folder) {
  return {folder.path(), "measured", 3};
}

std::vector<FeedbackKey> KeysOf(const FeedbackStore& store) {
  std::vector<FeedbackKey> keys;
  const auto all = store.All().value();
  for (const auto& [key, kept] : all) keys.push_back(key);
  return keys;
}

TEST(FeedbackStoreTest, KeepsEverythingAcrossARestart) {
  const TemporaryFolder folder;
  KeptFeedback kept;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, FolderFeedbackStore::Open(InFolder(folder)));
    BatchObservation too_large;
    too_large.capacities = {90'000, 45'000, 10};
    too_large.out_of_memory = true;
    ASSERT_THAT(store->Report({"gin", "h100"}, kComponents, {Batch(100, 0.1), too_large}, kNow),
                IsOk());
    ASSERT_THAT(store->Report({"gin", "h100"}, kComponents, {Batch(200, 0.15)}, kNow), IsOk());
    ASSERT_THAT(store->Report({"team/gin", "a100"}, kComponents, {Batch(7, 0.1)}, kNow), IsOk());
    ASSERT_THAT(store->Delete({"team/gin", "a100"}), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(kept, store->Get({"gin", "h100"}));
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto store, FolderFeedbackStore::Open(InFolder(folder)));
  EXPECT_EQ(KeysOf(*store), (std::vector<FeedbackKey>{{"gin", "h100"}}));
  PH_ASSERT_OK_AND_ASSIGN(const KeptFeedback again, store->Get({"gin", "h100"}));
  EXPECT_EQ(again, kept);
  EXPECT_EQ(again.shapes.num_reports(), 3);
  EXPECT_EQ(again.last_report_seconds, 1'700'000'000);
  const auto model = store->Find("gin/h100");
  ASSERT_NE(model, nullptr);
  EXPECT_FALSE(model->seconds.per_row.empty());
  EXPECT_EQ(model->bounds.too_large.size(), 1);
  EXPECT_EQ(store->Find("gin"), nullptr);
}

TEST(FeedbackStoreTest, NamesWhatItRefuses) {
  const auto store = FolderFeedbackStore::InMemory();
  EXPECT_EQ(store->Report({"gi n", "h100"}, kComponents, {}, kNow).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Report({"gin", "h/100"}, kComponents, {}, kNow).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_THAT(store->Report({"gin", "h100"}, kComponents, {Batch(100, 0.1)}, kNow), IsOk());
  EXPECT_EQ(store->Report({"gin", "h100"}, {"nodes", "graphs"}, {}, kNow).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store->Delete({"gin", "a100"}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store->Get({"gin", "a100"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ParseMeasuredAs("gin").status().code(), absl::StatusCode::kInvalidArgument);
  PH_ASSERT_OK_AND_ASSIGN(const FeedbackKey key, ParseMeasuredAs("team/gin/h100"));
  EXPECT_EQ(key, (FeedbackKey{"team/gin", "h100"}));
}

// A deletion that the disk refused is written by the next try.
TEST(FeedbackStoreTest, ADeletionIsTriedAgain) {
  const TemporaryFolder folder;
  // Nothing can be written while a folder is in the way.
  const std::string obstacle = folder.path() + "/measured.unfinished";
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, FolderFeedbackStore::Open(InFolder(folder)));
    ASSERT_THAT(store->Report({"gin", "h100"}, kComponents, {Batch(100, 0.1)}, kNow), IsOk());
    std::filesystem::create_directory(obstacle);
    EXPECT_EQ(store->Delete({"gin", "h100"}).code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(store->Delete({"gin", "h100"}).code(), absl::StatusCode::kUnavailable);
    std::filesystem::remove(obstacle);
    EXPECT_EQ(store->Delete({"gin", "h100"}).code(), absl::StatusCode::kNotFound);
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto store, FolderFeedbackStore::Open(InFolder(folder)));
  EXPECT_TRUE(KeysOf(*store).empty());
}

// The models that a sweep deletes, some time after kNow.
std::vector<std::string> Expire(FolderFeedbackStore& store) {
  std::vector<Expired> expired;
  EXPECT_THAT(store.DeleteUnused(expired), IsOk());
  std::vector<std::string> names;
  for (const Expired& one : expired) {
    EXPECT_GT(one.num_bytes, 0U);
    names.push_back(one.name);
  }
  return names;
}

// Reports, and plans that ask for a model, are uses; lists and readings are none. Each namespace
// has its own retention.
TEST(FeedbackStoreTest, WhatNobodyUsesExpires) {
  const TemporaryFolder folder;
  const std::string uses = folder.path() + "/uses";
  PH_ASSERT_OK_AND_ASSIGN(const Retention retention, ParseRetention("8h,kept=0s,short=1h"));
  absl::Time now = kNow;
  const auto clock = [&now] { return now; };
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store,
                            FolderFeedbackStore::Open({folder.path(), "measured", 9}));
    store->NoteUses(uses, retention, clock);
    for (const char* const model : {"found", "kept/gin", "reported", "short/gin", "unused"}) {
      ASSERT_THAT(store->Report({model, "d"}, kComponents, {Batch(1, 1)}, now), IsOk());
    }
    now += absl::Minutes(59);
    EXPECT_THAT(Expire(*store), ElementsAre());
    now += absl::Minutes(1);
    EXPECT_THAT(Expire(*store), ElementsAre("short/gin/d"));
    now += absl::Hours(6);
    EXPECT_NE(store->Find("found/d"), nullptr);
    ASSERT_THAT(store->Report({"reported", "d"}, kComponents, {Batch(2, 1)}, now), IsOk());
    EXPECT_NE(store->ModelOf({"unused", "d"}), nullptr);
    EXPECT_EQ(store->Readings().size(), 4U);
    now += absl::Hours(1);
    EXPECT_THAT(Expire(*store), ElementsAre("unused/d"));
    // A model of the same name begins anew.
    ASSERT_THAT(store->Report({"unused", "d"}, kComponents, {Batch(3, 1)}, now), IsOk());
    ASSERT_THAT(store->Delete({"unused", "d"}), IsOk());
    ASSERT_THAT(store->Report({"unused", "d"}, kComponents, {Batch(3, 1)}, now), IsOk());
    EXPECT_THAT(Expire(*store), ElementsAre());
  }
  // While no server has the folder, no time passes; each start adds a period: 7.5 minutes.
  now += absl::Hours(1000);
  PH_ASSERT_OK_AND_ASSIGN(const auto store,
                          FolderFeedbackStore::Open({folder.path(), "measured", 9}));
  store->NoteUses(uses, retention, clock);
  EXPECT_THAT(Expire(*store), ElementsAre());
  now += absl::Hours(7) + absl::Minutes(7);
  EXPECT_THAT(Expire(*store), ElementsAre());
  now += absl::Minutes(1);
  EXPECT_THAT(Expire(*store), ElementsAre("found/d", "reported/d"));
  now += absl::Hours(1000);
  EXPECT_THAT(Expire(*store), ElementsAre("unused/d"));
  EXPECT_EQ(KeysOf(*store), (std::vector<FeedbackKey>{{"kept/gin", "d"}}));
}

// How often a file of this name was put into the folder, since it was asked last.
class Replacements {
 public:
  Replacements(const std::string& folder, std::string name)
      : name_(std::move(name)), fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    // The kernel tells of equal events in a row once; between two moves a file is made.
    EXPECT_GE(::inotify_add_watch(fd_, folder.c_str(), IN_MOVED_TO | IN_CREATE), 0);
  }
  Replacements(const Replacements&) = delete;
  Replacements& operator=(const Replacements&) = delete;
  ~Replacements() { ::close(fd_); }

  int Count() {
    int count = 0;
    alignas(inotify_event) char events[4096];
    for (ssize_t got; (got = ::read(fd_, events, sizeof(events))) > 0;) {
      for (ssize_t at = 0; at < got;) {
        const auto* const event = reinterpret_cast<const inotify_event*>(events + at);
        count += (event->mask & IN_MOVED_TO) != 0 && name_ == event->name ? 1 : 0;
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
    return count;
  }

 private:
  const std::string name_;
  const int fd_;
};

// However many expire, the file is written once; what the disk does not take, by the next sweep.
TEST(FeedbackStoreTest, ASweepWritesOnce) {
  const TemporaryFolder folder;
  PH_ASSERT_OK_AND_ASSIGN(const Retention retention, ParseRetention("1h"));
  absl::Time now = kNow;
  PH_ASSERT_OK_AND_ASSIGN(const auto store,
                          FolderFeedbackStore::Open({folder.path(), "measured", 9}));
  store->NoteUses(folder.path() + "/uses", retention, [&now] { return now; });
  Replacements replacements(folder.path(), "measured");
  const auto report = [&] {
    for (const char* const model : {"a", "b", "c", "d", "e"}) {
      ASSERT_THAT(store->Report({model, "d"}, kComponents, {Batch(1, 1)}, now), IsOk());
    }
  };
  report();
  EXPECT_EQ(replacements.Count(), 5);
  now += absl::Hours(1);
  EXPECT_THAT(Expire(*store), ElementsAre("a/d", "b/d", "c/d", "d/d", "e/d"));
  EXPECT_EQ(replacements.Count(), 1);
  EXPECT_THAT(Expire(*store), ElementsAre());
  EXPECT_EQ(replacements.Count(), 0);

  report();
  EXPECT_EQ(replacements.Count(), 5);
  now += absl::Hours(1);
  const std::string obstacle = folder.path() + "/measured.unfinished";
  std::filesystem::create_directory(obstacle);
  std::vector<Expired> expired;
  EXPECT_EQ(store->DeleteUnused(expired).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(expired.size(), 5U);
  std::filesystem::remove(obstacle);
  EXPECT_THAT(Expire(*store), ElementsAre());
  EXPECT_EQ(replacements.Count(), 1);
  PH_ASSERT_OK_AND_ASSIGN(const auto after, FolderFeedbackStore::Open(InFolder(folder)));
  EXPECT_TRUE(KeysOf(*after).empty());
}

// Find() waits for no disk, so what it has noted is saved when the server ends.
TEST(FeedbackStoreTest, TheLastUsesBeforeAnEndAreKnownAfterIt) {
  const TemporaryFolder folder;
  const std::string uses = folder.path() + "/uses";
  PH_ASSERT_OK_AND_ASSIGN(const Retention retention, ParseRetention("8h"));
  absl::Time now = kNow;
  const auto clock = [&now] { return now; };
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store,
                            FolderFeedbackStore::Open({folder.path(), "measured", 9}));
    store->NoteUses(uses, retention, clock);
    ASSERT_THAT(store->Report({"gin", "d"}, kComponents, {Batch(1, 1)}, now), IsOk());
    now += absl::Hours(7);
    EXPECT_THAT(Expire(*store), ElementsAre());
    EXPECT_NE(store->Find("gin/d"), nullptr);
    EXPECT_THAT(store->SaveUses(), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto store,
                          FolderFeedbackStore::Open({folder.path(), "measured", 9}));
  store->NoteUses(uses, retention, clock);
  now += absl::Hours(7);
  EXPECT_THAT(Expire(*store), ElementsAre());
  now += absl::Hours(1);
  EXPECT_THAT(Expire(*store), ElementsAre("gin/d"));
}

TEST(FeedbackStoreTest, ModelsThatAreInMemoryExpireToo) {
  absl::Time now = kNow;
  const auto store = FolderFeedbackStore::InMemory();
  store->NoteUses("", *ParseRetention("1h"), [&now] { return now; });
  ASSERT_THAT(store->Report({"gin", "d"}, kComponents, {Batch(1, 1)}, now), IsOk());
  now += absl::Hours(2);
  EXPECT_THAT(Expire(*store), ElementsAre("gin/d"));
  EXPECT_TRUE(KeysOf(*store).empty());
}

TEST(FeedbackStoreTest, IsBoundedInNumber) {
  const TemporaryFolder folder;
  PH_ASSERT_OK_AND_ASSIGN(const auto store, FolderFeedbackStore::Open(InFolder(folder)));
  for (const char* const model : {"a", "b", "c"}) {
    ASSERT_THAT(store->Report({model, "d"}, kComponents, {Batch(1, 1)}, kNow), IsOk());
  }
  EXPECT_EQ(store->Report({"e", "d"}, kComponents, {Batch(1, 1)}, kNow).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_THAT(store->Report({"a", "d"}, kComponents, {Batch(1, 1)}, kNow), IsOk());
  ASSERT_THAT(store->Delete({"a", "d"}), IsOk());
  ASSERT_THAT(store->Report({"e", "d"}, kComponents, {Batch(1, 1)}, kNow), IsOk());
}

// Readings fit nothing: their law is as old as the last fit, their counts are those of now.
TEST(FeedbackStoreTest, ReadingsShowTheLawThatWasFittedLast) {
  const TemporaryFolder folder;
  const auto report = [](FolderFeedbackStore& store, uint64_t edges, absl::Duration after) {
    EXPECT_THAT(
        store.Report({"gin", "h100"}, kComponents, {Batch(edges, 1e-3 * edges)}, kNow + after),
        IsOk());
  };
  const auto reading = [](const FolderFeedbackStore& store) {
    const std::vector<FeedbackReading> readings = store.Readings();
    EXPECT_EQ(readings.size(), 1);
    return readings.at(0);
  };
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, FolderFeedbackStore::Open(InFolder(folder)));
    EXPECT_TRUE(store->Readings().empty());
    report(*store, 100, absl::ZeroDuration());
    const FeedbackReading first = reading(*store);
    EXPECT_EQ(first.num_reports, 1);
    EXPECT_EQ(first.components.size(), kComponents.size());
    report(*store, 1000, FeedbackStore::kBetweenFits - absl::Seconds(1));
    EXPECT_EQ(reading(*store).num_reports, 2);
    EXPECT_EQ(reading(*store).fixed_seconds, first.fixed_seconds);
    report(*store, 3000, FeedbackStore::kBetweenFits);
    EXPECT_EQ(reading(*store).num_reports, 3);
    EXPECT_NE(reading(*store).fixed_seconds, first.fixed_seconds);
    // Who asks for the law gets that of all reports, and readings have it from then on.
    const double before = reading(*store).fixed_bytes;
    BatchObservation slow = Batch(2000, 4);
    slow.peak_bytes = 9'000'000;
    EXPECT_THAT(store->Report({"gin", "h100"}, kComponents, {slow}, kNow + absl::Seconds(11)),
                IsOk());
    EXPECT_EQ(reading(*store).fixed_bytes, before);
    EXPECT_NE(store->Find("gin/h100")->bytes.fixed, before);
    EXPECT_EQ(reading(*store).fixed_bytes, store->Find("gin/h100")->bytes.fixed);
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto again, FolderFeedbackStore::Open(InFolder(folder)));
  EXPECT_EQ(reading(*again).num_reports, 4);
  EXPECT_EQ(reading(*again).fixed_bytes, again->Find("gin/h100")->bytes.fixed);
}

// Each single damaged byte is noticed.
TEST(FeedbackStoreTest, DamageIsNoticed) {
  MeasuredShapes shapes;
  shapes.Add(Batch(100, 0.1));
  const std::string bytes = EncodeFeedback({{{"gin", "h100"}, {kComponents, shapes, 5}}});
  ASSERT_THAT(DecodeFeedback(bytes), IsOk());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 0x20;
    EXPECT_EQ(DecodeFeedback(damaged).status().code(), absl::StatusCode::kDataLoss) << i;
    EXPECT_EQ(DecodeFeedback(bytes.substr(0, i)).status().code(), absl::StatusCode::kDataLoss);
  }
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/measured") << "nonsense";
  EXPECT_EQ(FolderFeedbackStore::Open(InFolder(folder)).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(FeedbackStoreTest, ReportsOfManyThreadsAreAllKept) {
  const TemporaryFolder folder;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, FolderFeedbackStore::Open(InFolder(folder)));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&store, thread] {
        for (uint64_t i = 1; i <= 20; ++i) {
          EXPECT_THAT(store
                          ->Report({"gin", "h100"}, kComponents,
                                   {Batch(10 * i + static_cast<uint64_t>(thread), 0.1)}, kNow)
                          .status(),
                      IsOk());
          EXPECT_NE(store->Find("gin/h100"), nullptr);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto store, FolderFeedbackStore::Open(InFolder(folder)));
  PH_ASSERT_OK_AND_ASSIGN(const KeptFeedback kept, store->Get({"gin", "h100"}));
  EXPECT_EQ(kept.shapes.num_reports(), 80);
}

}  // namespace
}  // namespace packhouse
