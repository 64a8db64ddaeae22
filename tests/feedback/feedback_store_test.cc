// What holds of measured models wherever their keys lie; many_servers_test.cc has what holds where
// several servers share them.
#include "service/engine/feedback/feedback_store.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/internal/stored.pb.h"
#include "service/base/caller.h"
#include "service/base/checksum.h"
#include "service/base/quoted.h"
#include "service/engine/feedback/stored_feedback.h"
#include "service/stores/logs/lmdb_job_logs.h"
#include "service/stores/logs/logged_keys.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/leaving_caller.h"
#include "tests/support/simulated_clock.h"
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

std::vector<FeedbackKey> KeysOf(const FeedbackStore& store) {
  std::vector<FeedbackKey> keys;
  const auto all = store.All().value();
  for (const auto& [key, kept] : all) keys.push_back(key);
  return keys;
}

// Where the keys are.
enum class Engine { kMemory, kFolder, kCluster };

// The only server.
class FeedbackStoreTest : public testing::TestWithParam<Engine> {
 protected:
  FeedbackStoreTest() { Start(); }

  bool is_alone() const { return GetParam() != Engine::kCluster; }

  // The server ends, if there is one, and starts again.
  void Start(size_t max_models = 9, Retention retention = {}) {
    store_.reset();
    if (GetParam() == Engine::kCluster) {
      keys_ = std::make_unique<FakeConnection>(&servers_);
    } else if (GetParam() == Engine::kFolder) {
      keys_.reset();
      logs_.reset();
      LmdbJobLogs::Options options;
      options.folder = folder_.path() + "/logs";
      options.max_bytes = uint64_t{1} << 26;
      logs_ = LmdbJobLogs::Open(options).value();
      keys_ = LoggedKeys::Open(logs_->Open(kKeysLog).value().log).value();
    } else if (keys_ == nullptr) {
      keys_ = LoggedKeys::InMemory();
    }
    store_ =
        FeedbackStore::Open(keys_.get(),
                            {absl::StrCat("run", ++num_started_), max_models, std::move(retention),
                             [this] { return clock_.Now(); }, nullptr, is_alone()})
            .value();
  }
  absl::StatusOr<uint64_t> Report(const FeedbackKey& key, const BatchObservation& batch) {
    return store_->Report(key, kComponents, {batch}, kNow);
  }
  // The models that a sweep deletes.
  std::vector<std::string> Expire() {
    std::vector<Expired> expired;
    EXPECT_THAT(store_->DeleteUnused(expired), IsOk());
    std::vector<std::string> names;
    for (const Expired& one : expired) {
      EXPECT_GT(one.num_bytes, 0U);
      EXPECT_GE(one.unused, absl::Hours(1));
      EXPECT_LT(one.unused, absl::Hours(4000));
      names.push_back(one.name);
    }
    return names;
  }

  SimulatedClock clock_;
  FakeKeyValueServers servers_{&clock_};
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  std::unique_ptr<LmdbJobLogs> logs_;
  std::unique_ptr<KeyStore> keys_;
  std::unique_ptr<FeedbackStore> store_;
  int num_started_ = 0;
};

std::string NameOf(const testing::TestParamInfo<Engine>& engine) {
  constexpr const char* kNames[] = {"Memory", "Folder", "Cluster"};
  return kNames[static_cast<size_t>(engine.param)];
}
INSTANTIATE_TEST_SUITE_P(Engines, FeedbackStoreTest,
                         testing::Values(Engine::kMemory, Engine::kFolder, Engine::kCluster),
                         NameOf);

TEST_P(FeedbackStoreTest, KeepsEverythingAcrossARestart) {
  BatchObservation too_large;
  too_large.capacities = {90'000, 45'000, 10};
  too_large.out_of_memory = true;
  ASSERT_THAT(store_->Report({"gin", "h100"}, kComponents, {Batch(100, 0.1), too_large}, kNow),
              IsOk());
  ASSERT_THAT(Report({"gin", "h100"}, Batch(200, 0.15)), IsOk());
  ASSERT_THAT(Report({"team/gin", "a100"}, Batch(7, 0.1)), IsOk());
  ASSERT_THAT(store_->Delete({"team/gin", "a100"}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const KeptFeedback kept, store_->Get({"gin", "h100"}));
  Start();
  EXPECT_EQ(KeysOf(*store_), (std::vector<FeedbackKey>{{"gin", "h100"}}));
  PH_ASSERT_OK_AND_ASSIGN(const KeptFeedback again, store_->Get({"gin", "h100"}));
  EXPECT_EQ(again, kept);
  EXPECT_EQ(again.shapes.num_reports(), 3);
  EXPECT_EQ(again.last_report_seconds, 1'700'000'000);
  const auto model = store_->Find("gin/h100");
  ASSERT_NE(model, nullptr);
  EXPECT_FALSE(model->seconds.per_row.empty());
  EXPECT_EQ(model->bounds.too_large.size(), 1);
  EXPECT_EQ(store_->Find("gin"), nullptr);
}

TEST_P(FeedbackStoreTest, NamesWhatItRefuses) {
  const auto report = [&](const FeedbackKey& key, const std::vector<std::string>& components) {
    return store_->Report(key, components, {}, kNow).status();
  };
  EXPECT_EQ(
      report({"gi n", "h100"}, kComponents),
      absl::InvalidArgumentError("model: 'gi n' must be 1 to 128 characters of [A-Za-z0-9_./-]"));
  EXPECT_EQ(
      report({"gin", "h/100"}, kComponents),
      absl::InvalidArgumentError("device: 'h/100' must be 1 to 64 characters of [A-Za-z0-9_.-]"));
  EXPECT_EQ(store_->Delete({"gin", ""}),
            absl::InvalidArgumentError("device: '' must be 1 to 64 characters of [A-Za-z0-9_.-]"));
  ASSERT_THAT(Report({"gin", "h100"}, Batch(100, 0.1)), IsOk());
  EXPECT_EQ(report({"gin", "h100"}, {"nodes", "graphs"}),
            absl::FailedPreconditionError("model 'gin' on device 'h100': has components edges, "
                                          "nodes, graphs, reported are nodes, graphs"));
  const absl::Status absent =
      absl::NotFoundError("model 'gin' on device 'a100': nothing was reported");
  EXPECT_EQ(store_->Delete({"gin", "a100"}), absent);
  EXPECT_EQ(store_->Get({"gin", "a100"}).status(), absent);
  EXPECT_EQ(store_->Find("gin/a100"), nullptr);
  EXPECT_EQ(store_->Find("gin"), nullptr);
}

// The longest names, and one character more.
TEST(FeedbackKeyTest, NamesAreBounded) {
  const std::string model(128, 'm');
  const std::string device(64, 'd');
  EXPECT_THAT(CheckFeedbackKey({model, device}), IsOk());
  EXPECT_THAT(CheckFeedbackKey({"a.b_c-d/e", "a.b_c-d"}), IsOk());
  EXPECT_EQ(
      CheckFeedbackKey({model + "m", device}),
      absl::InvalidArgumentError(absl::StrCat("model: ", Quoted(model + "m"),
                                              " must be 1 to 128 characters of [A-Za-z0-9_./-]")));
  EXPECT_EQ(CheckFeedbackKey({model, device + "d"}),
            absl::InvalidArgumentError(absl::StrCat(
                "device: '", device, "d' must be 1 to 64 characters of [A-Za-z0-9_.-]")));
  PH_ASSERT_OK_AND_ASSIGN(const FeedbackKey key, ParseMeasuredAs("team/gin/h100"));
  EXPECT_EQ(key, (FeedbackKey{"team/gin", "h100"}));
  EXPECT_EQ(ParseMeasuredAs("gin").status(),
            absl::InvalidArgumentError("measured_as: 'gin' must be MODEL/DEVICE"));
  EXPECT_EQ(ParseMeasuredAs("/h100").status(),
            absl::InvalidArgumentError("model: '' must be 1 to 128 characters of [A-Za-z0-9_./-]"));
  EXPECT_EQ(ParseMeasuredAs("gin/").status(),
            absl::InvalidArgumentError("device: '' must be 1 to 64 characters of [A-Za-z0-9_.-]"));
}

// A report that is refused leaves what is kept as it was; one of before 1970 is of 1970.
TEST(KeptFeedbackTest, AReportIsAddedWhole) {
  KeptFeedback kept = {kComponents, {}, 7};
  const KeptFeedback before = kept;
  EXPECT_EQ(AddReport({"gin", "h100"}, {"nodes"}, {Batch(100, 0.1)}, kNow, kept),
            absl::FailedPreconditionError("model 'gin' on device 'h100': has components edges, "
                                          "nodes, graphs, reported are nodes"));
  EXPECT_EQ(kept, before);
  EXPECT_THAT(
      AddReport({"gin", "h100"}, kComponents, {Batch(100, 0.1), Batch(200, 0.1)}, kNow, kept),
      IsOk());
  EXPECT_EQ(kept.shapes.num_reports(), 2U);
  EXPECT_EQ(kept.last_report_seconds, 1'700'000'000U);
  EXPECT_THAT(AddReport({"gin", "h100"}, kComponents, {}, absl::FromUnixSeconds(-5), kept), IsOk());
  EXPECT_EQ(kept.last_report_seconds, 0U);
  EXPECT_THAT(CheckRoomForModel({"gin", "h100"}, 2, 3), IsOk());
  EXPECT_EQ(CheckRoomForModel({"gin", "h100"}, 3, 3),
            absl::ResourceExhaustedError("model 'gin': 3 models are kept, at most 3 "
                                         "(--max-measured-models); delete one"));
}

// Reports, and plans that ask for a model, are uses; lists and readings are none. Each namespace
// has its own retention.
TEST_P(FeedbackStoreTest, WhatNobodyUsesExpires) {
  PH_ASSERT_OK_AND_ASSIGN(const Retention retention, ParseRetention("8h,kept=0s,short=1h"));
  Start(9, retention);
  EXPECT_TRUE(store_->notes_uses());
  for (const char* const model : {"found", "kept/gin", "reported", "short/gin", "unused"}) {
    ASSERT_THAT(Report({model, "d"}, Batch(1, 1)), IsOk());
  }
  // Where there are other servers, models outlive their time by one period.
  const absl::Duration slack = is_alone() ? absl::ZeroDuration() : retention.Period();
  clock_.Advance(absl::Minutes(59) + slack);
  EXPECT_THAT(Expire(), ElementsAre());
  clock_.Advance(absl::Minutes(1));
  EXPECT_THAT(Expire(), ElementsAre("short/gin/d"));
  clock_.Advance(absl::Hours(6));
  EXPECT_NE(store_->Find("found/d"), nullptr);
  ASSERT_THAT(Report({"reported", "d"}, Batch(2, 1)), IsOk());
  EXPECT_NE(store_->ModelOf({"unused", "d"}), nullptr);
  EXPECT_EQ(store_->Readings().size(), 4U);
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(Expire(), ElementsAre("unused/d"));
  EXPECT_EQ(store_->num_expired(), 2U);
  // A model of the same name begins anew.
  ASSERT_THAT(Report({"unused", "d"}, Batch(3, 1)), IsOk());
  ASSERT_THAT(store_->Delete({"unused", "d"}), IsOk());
  ASSERT_THAT(Report({"unused", "d"}, Batch(3, 1)), IsOk());
  EXPECT_THAT(Expire(), ElementsAre());
  if (!is_alone()) return;
  // While no server has the keys, no time passes; each start adds a period: 7.5 minutes.
  clock_.Advance(absl::Hours(1000));
  Start(9, retention);
  EXPECT_THAT(Expire(), ElementsAre());
  clock_.Advance(absl::Hours(7) + absl::Minutes(7));
  EXPECT_THAT(Expire(), ElementsAre());
  clock_.Advance(absl::Minutes(1));
  EXPECT_THAT(Expire(), ElementsAre("found/d", "reported/d"));
  clock_.Advance(absl::Hours(1000));
  EXPECT_THAT(Expire(), ElementsAre("unused/d"));
  EXPECT_EQ(KeysOf(*store_), (std::vector<FeedbackKey>{{"kept/gin", "d"}}));
}

// Find() writes nothing, so what it has noted is written when the server ends.
TEST_P(FeedbackStoreTest, TheLastUsesBeforeAnEndAreKnownAfterIt) {
  PH_ASSERT_OK_AND_ASSIGN(const Retention retention, ParseRetention("8h"));
  Start(9, retention);
  ASSERT_THAT(Report({"gin", "d"}, Batch(1, 1)), IsOk());
  clock_.Advance(absl::Hours(7));
  EXPECT_THAT(Expire(), ElementsAre());
  EXPECT_NE(store_->Find("gin/d"), nullptr);
  EXPECT_THAT(store_->SaveUses(), IsOk());
  Start(9, retention);
  clock_.Advance(absl::Hours(7));
  EXPECT_THAT(Expire(), ElementsAre());
  clock_.Advance(absl::Hours(1) + retention.Period());
  EXPECT_THAT(Expire(), ElementsAre("gin/d"));
}

// What was noted before would be too old.
TEST_P(FeedbackStoreTest, UsesThatWereNotNotedAreOfTheStart) {
  if (!is_alone()) GTEST_SKIP() << "reports alone are known in a cluster";
  PH_ASSERT_OK_AND_ASSIGN(const Retention retention, ParseRetention("8h"));
  Start(9, retention);
  ASSERT_THAT(Report({"gin", "d"}, Batch(1, 1)), IsOk());
  EXPECT_THAT(store_->SaveUses(), IsOk());
  Start();
  EXPECT_FALSE(store_->notes_uses());
  clock_.Advance(absl::Hours(1000));
  Start(9, retention);
  clock_.Advance(absl::Hours(7));
  EXPECT_THAT(Expire(), ElementsAre());
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(Expire(), ElementsAre("gin/d"));
}

TEST_P(FeedbackStoreTest, IsBoundedInNumber) {
  Start(3);
  for (const char* const model : {"a", "b", "c"}) {
    ASSERT_THAT(Report({model, "d"}, Batch(1, 1)), IsOk());
  }
  EXPECT_EQ(Report({"e", "d"}, Batch(1, 1)).status(),
            absl::ResourceExhaustedError(
                "model 'e': 3 models are kept, at most 3 (--max-measured-models); delete one"));
  ASSERT_THAT(Report({"a", "d"}, Batch(1, 1)), IsOk());
  ASSERT_THAT(store_->Delete({"a", "d"}), IsOk());
  ASSERT_THAT(Report({"e", "d"}, Batch(1, 1)), IsOk());
}

// Readings fit nothing: their law is as old as the last fit, their counts are those of now.
TEST_P(FeedbackStoreTest, ReadingsShowTheLawThatWasFittedLast) {
  const auto report = [&](uint64_t edges, absl::Duration after) {
    EXPECT_THAT(
        store_->Report({"gin", "h100"}, kComponents, {Batch(edges, 1e-3 * edges)}, kNow + after),
        IsOk());
  };
  const auto reading = [&] {
    const std::vector<FeedbackReading> readings = store_->Readings();
    EXPECT_EQ(readings.size(), 1);
    return readings.at(0);
  };
  EXPECT_TRUE(store_->Readings().empty());
  report(100, absl::ZeroDuration());
  const FeedbackReading first = reading();
  EXPECT_EQ(first.num_reports, 1);
  EXPECT_EQ(first.components.size(), kComponents.size());
  report(1000, KnownModels::kBetweenFits - absl::Seconds(1));
  EXPECT_EQ(reading().num_reports, 2);
  EXPECT_EQ(reading().fixed_seconds, first.fixed_seconds);
  report(3000, KnownModels::kBetweenFits);
  EXPECT_EQ(reading().num_reports, 3);
  EXPECT_NE(reading().fixed_seconds, first.fixed_seconds);
  // Who asks for the law gets that of all reports, and readings have it from then on.
  const double before = reading().fixed_bytes;
  BatchObservation slow = Batch(2000, 4);
  slow.peak_bytes = 9'000'000;
  EXPECT_THAT(store_->Report({"gin", "h100"}, kComponents, {slow}, kNow + absl::Seconds(11)),
              IsOk());
  EXPECT_EQ(reading().fixed_bytes, before);
  EXPECT_NE(store_->Find("gin/h100")->bytes.fixed, before);
  EXPECT_EQ(reading().fixed_bytes, store_->Find("gin/h100")->bytes.fixed);
  // It is told whole.
  BatchObservation too_large = Batch(90'000, 1);
  too_large.out_of_memory = true;
  EXPECT_THAT(store_->Report({"gin", "h100"}, kComponents, {too_large}, kNow + absl::Seconds(12)),
              IsOk());
  const auto model = store_->Find("gin/h100");
  const FeedbackReading told = reading();
  EXPECT_EQ(told.model, "gin");
  EXPECT_EQ(told.device, "h100");
  EXPECT_EQ(told.num_reports, 5U);
  EXPECT_EQ(told.num_out_of_memory, 1U);
  EXPECT_EQ(told.fixed_seconds, model->seconds.fixed);
  EXPECT_EQ(told.spread, model->seconds.spread);
  ASSERT_EQ(told.components.size(), kComponents.size());
  for (size_t k = 0; k < kComponents.size(); ++k) {
    EXPECT_EQ(told.components[k].name, kComponents[k]);
    EXPECT_EQ(told.components[k].seconds_per_row, model->seconds.per_row[k]);
    EXPECT_EQ(told.components[k].bytes_per_row, model->bytes.per_row[k]);
  }
  if (!is_alone()) return;
  // Who is alone reads all as it starts.
  Start();
  EXPECT_EQ(reading().num_reports, 5);
  EXPECT_EQ(reading().fixed_bytes, store_->Find("gin/h100")->bytes.fixed);
}

// Of versions that came in another order, the latest is kept; one with the same contents has the
// law that was fitted.
TEST(KnownModelsTest, TheLatestVersionIsKnown) {
  const FeedbackKey key = {"gin", "h100"};
  const auto kept_of = [](uint64_t edges) {
    MeasuredShapes shapes;
    shapes.Add(Batch(edges, 0.1));
    return KeptFeedback{kComponents, shapes, 5};
  };
  KnownModels models;
  EXPECT_EQ(models.ModelOf(key), nullptr);
  models.FitIfDue(key, kNow);
  EXPECT_EQ(models.size(), 0U);
  models.Put(key, kept_of(100), 7);
  EXPECT_TRUE(models.Readings().empty());
  models.Put(key, kept_of(200), 6);
  EXPECT_EQ(models.All().at(key), kept_of(100));
  const auto fitted = models.ModelOf(key);
  ASSERT_NE(fitted, nullptr);
  EXPECT_EQ(models.Readings().size(), 1U);
  models.Put(key, kept_of(100), 8);
  EXPECT_EQ(models.ModelOf(key), fitted);
  models.Put(key, kept_of(300), 9);
  EXPECT_EQ(models.All().at(key), kept_of(300));
  EXPECT_NE(models.ModelOf(key), fitted);
  EXPECT_TRUE(models.Erase(key));
  EXPECT_FALSE(models.Erase(key));
  EXPECT_EQ(models.ModelOf(key), nullptr);
  EXPECT_EQ(models.size(), 0U);
}

// Also after a clock that was put back.
TEST(KnownModelsTest, FitsNoMoreOftenThanIsDue) {
  const FeedbackKey key = {"gin", "h100"};
  KnownModels models;
  MeasuredShapes shapes;
  const auto reports_after = [&](absl::Duration after) {
    shapes.Add(Batch(100 * (shapes.num_reports() + 1), 0.1 * shapes.num_reports()));
    models.Put(key, {kComponents, shapes, 5}, shapes.num_reports());
    const std::vector<FeedbackReading> before = models.Readings();
    models.FitIfDue(key, kNow + after);
    const std::vector<FeedbackReading> fitted = models.Readings();
    EXPECT_EQ(fitted.size(), 1U);
    return before.empty() || before[0].fixed_bytes != fitted[0].fixed_bytes ||
           before[0].fixed_seconds != fitted[0].fixed_seconds;
  };
  EXPECT_TRUE(reports_after(absl::ZeroDuration()));
  EXPECT_FALSE(reports_after(KnownModels::kBetweenFits - absl::Nanoseconds(1)));
  EXPECT_TRUE(reports_after(KnownModels::kBetweenFits));
  EXPECT_FALSE(reports_after(KnownModels::kBetweenFits));
  EXPECT_TRUE(reports_after(KnownModels::kBetweenFits - absl::Nanoseconds(1)));
}

// Each single damaged byte is noticed.
TEST(StoredFeedbackTest, DamageIsNoticed) {
  MeasuredShapes shapes;
  shapes.Add(Batch(100, 0.1));
  const FeedbackKey key = {"gin", "h100"};
  const KeptFeedback kept = {kComponents, shapes, 5};
  const std::string bytes = EncodeFeedback(key, kept);
  EXPECT_THAT(DecodeFeedback(key, bytes), IsOkAndHolds(kept));
  EXPECT_EQ(DecodeFeedback({"gin", "a100"}, bytes).status(),
            absl::DataLossError("measured model: the bytes are damaged"));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 0x20;
    EXPECT_EQ(DecodeFeedback(key, damaged).status().code(), absl::StatusCode::kDataLoss) << i;
    EXPECT_EQ(DecodeFeedback(key, bytes.substr(0, i)).status().code(), absl::StatusCode::kDataLoss);
  }
}

// What one release has written, the next one reads.
TEST(StoredFeedbackTest, TheBytesStayFromReleaseToRelease) {
  MeasuredShapes shapes;
  shapes.Add(Batch(100, 0.5));
  BatchObservation too_large = Batch(300, 0);
  too_large.out_of_memory = true;
  shapes.Add(too_large);
  const FeedbackKey key = {"gin", "h100"};
  const KeptFeedback kept = {kComponents, shapes, 5};
  EXPECT_EQ(absl::BytesToHexString(EncodeFeedback(key, kept)),
            "0a0367696e1204683130301a0565646765731a056e6f6465731a066772617068732002280130053a086432"
            "0aac0296010a420201014a0200015204a08d06005a020102620201006a08000000000000e03fafbba728");
}

// A server that is alone counts the time of its models by it.
TEST(FeedbackOfOneServerTest, ADamagedClockIsNoticed) {
  for (const std::string clock : {"", "some", "1700000000", "1700000000 some", "some 5"}) {
    const auto keys = LoggedKeys::InMemory();
    const auto open = [&] {
      return FeedbackStore::Open(
                 keys.get(),
                 {"run", 9, {absl::Hours(8), {}}, [] { return kNow; }, nullptr, /*is_alone=*/true})
          .status();
    };
    EXPECT_THAT(open(), IsOk());
    ASSERT_THAT(keys->Commit({{}, {Operation::Put("feedback/clock", clock)}, {}}), IsOk());
    EXPECT_EQ(open(), absl::DataLossError("measured model 'feedback/clock': damaged"));
  }
}

// Lists that do not fit each other are no model, whatever their checksum says.
TEST(StoredFeedbackTest, ListsThatDoNotFitAreNoModel) {
  const FeedbackKey key = {"gin", "h100"};
  MeasuredShapes shapes;
  for (const uint64_t edges : {100, 100, 200}) shapes.Add(Batch(edges, 0.1));
  const std::string bytes = EncodeFeedback(key, {kComponents, shapes, 5});
  internal::MeasuredModel sound;
  ASSERT_TRUE(sound.ParseFromString(bytes.substr(0, bytes.size() - 4)));
  ASSERT_EQ(sound.num_batches_size(), 2);
  const auto decoded = [&](const std::function<void(internal::MeasuredModel&)>& change) {
    internal::MeasuredModel stored = sound;
    change(stored);
    std::string changed = stored.SerializeAsString();
    const uint32_t checksum = Crc32c(changed);
    for (int i = 0; i < 4; ++i) changed.push_back(static_cast<char>(checksum >> (8 * i)));
    return DecodeFeedback(key, changed);
  };
  EXPECT_THAT(decoded([](internal::MeasuredModel&) {}), IsOk());
  const std::vector<std::function<void(internal::MeasuredModel&)>> changes = {
      [](auto& m) { m.set_model("other"); },
      [](auto& m) { m.set_device("other"); },
      [](auto& m) { m.clear_components(), m.clear_capacities(); },
      [](auto& m) { m.add_components("more"); },
      [](auto& m) { m.add_capacities(1); },
      [](auto& m) { m.add_shape_out_of_memory(0); },
      [](auto& m) { m.add_peak_bytes(0); },
      [](auto& m) { m.add_last_report(0); },
      [](auto& m) { m.add_num_samples(0); },
      [](auto& m) { m.add_seconds(0.1); },
      [](auto& m) { m.mutable_seconds()->RemoveLast(); },
      [](auto& m) { m.set_seconds(0, std::numeric_limits<double>::infinity()); },
      // The second shape is the first one again, or comes before it.
      [](auto& m) {
        for (int k = 0; k < 3; ++k) m.set_capacities(3 + k, m.capacities(k));
      },
      [](auto& m) { m.set_capacities(3, 1); },
      [](auto& m) {
        m.set_num_samples(0, m.num_samples(0) + MeasuredShape::kMaxSamples);
        for (size_t i = 0; i < MeasuredShape::kMaxSamples; ++i) m.add_seconds(0.1);
      },
      [](auto& m) {
        for (size_t i = 0; i < MeasuredShapes::kMaxShapes; ++i) {
          for (int k = 0; k < 3; ++k) m.add_capacities(1000 + i);
          m.add_num_batches(1);
          m.add_shape_out_of_memory(0);
          m.add_peak_bytes(0);
          m.add_last_report(1);
          m.add_num_samples(0);
        }
      },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_THAT(decoded(changes[i]), StatusIs(absl::StatusCode::kDataLoss, testing::_)) << i;
  }
}

TEST_P(FeedbackStoreTest, ReportsOfManyThreadsAreAllKept) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (uint64_t i = 1; i <= 20; ++i) {
        EXPECT_THAT(Report({"gin", "h100"}, Batch(10 * i + static_cast<uint64_t>(thread), 0.1)),
                    IsOk());
        EXPECT_NE(store_->Find("gin/h100"), nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Start();
  PH_ASSERT_OK_AND_ASSIGN(const KeptFeedback kept, store_->Get({"gin", "h100"}));
  EXPECT_EQ(kept.shapes.num_reports(), 80);
}

// Keys whose first commit waits until it is let go.
class HeldKeys final : public KeyStore {
 public:
  explicit HeldKeys(KeyStore* keys) : keys_(keys) {}

  absl::Notification begun;
  absl::Notification let_go;

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    return keys_->Range(range, limit, revision);
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    if (num_commits_++ == 0) {
      begun.Notify();
      let_go.WaitForNotification();
    }
    return keys_->Commit(transaction);
  }
  int num_commits() const { return num_commits_; }

 private:
  KeyStore* const keys_;
  std::atomic<int> num_commits_ = 0;
};

// One that is refused is refused alone; one whose caller is gone takes no other with it.
TEST_P(FeedbackStoreTest, ReportsThatWaitShareATransaction) {
  HeldKeys held(keys_.get());
  PH_ASSERT_OK_AND_ASSIGN(
      const auto store,
      FeedbackStore::Open(&held, {"held", 9, {}, [this] { return clock_.Now(); }}));
  std::vector<std::thread> threads;
  std::atomic<uint64_t> most = 0;
  const auto report = [&](uint64_t i) {
    LeavingCaller caller;
    if (i == 2) caller.Leave();
    const CallerScope scope(&caller);
    const bool is_refused = i == 3;
    const auto told =
        store->Report({"gin", "d"}, is_refused ? std::vector<std::string>{"nodes"} : kComponents,
                      {Batch(10 * i, 0.1)}, kNow);
    EXPECT_EQ(told.status().code(),
              is_refused ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kOk);
    if (told.ok()) most = std::max(most.load(), *told);
  };
  threads.emplace_back(report, 1);
  held.begun.WaitForNotification();
  for (uint64_t i = 2; i <= 6; ++i) {
    threads.emplace_back(report, i);
    while (store->num_waiting({"gin", "d"}) < i) std::this_thread::yield();
  }
  held.let_go.Notify();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(held.num_commits(), 2);
  PH_ASSERT_OK_AND_ASSIGN(const KeptFeedback kept, store->Get({"gin", "d"}));
  EXPECT_EQ(kept.shapes.num_reports(), 5);
  EXPECT_EQ(most, 5);
}

}  // namespace
}  // namespace packhouse
