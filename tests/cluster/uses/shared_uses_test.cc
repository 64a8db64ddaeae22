// The laws of what servers share and nobody uses: what one server uses, no other one deletes,
// whatever fails; and what none uses goes in its time.
#include "service/stores/keys/shared_uses.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/stores/datasets/retained_datasets.h"
#include "service/stores/keys/uses.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/objects/fake_object_store.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::Duration kRetention = absl::Hours(8);
constexpr absl::Duration kPeriod = absl::Minutes(10);

class SharedUsesTest : public ::testing::Test {
 protected:
  struct Server {
    std::unique_ptr<ObjectReplica> replica;
    std::unique_ptr<RetainedDatasets> datasets;
    std::function<absl::Status()> agree = [] { return absl::OkStatus(); };
    // Before the transaction that deletes.
    std::function<void()> before_deletion = [] {};
  };

  std::unique_ptr<Server> Start(StoreFaults faults = nullptr) {
    auto server = std::make_unique<Server>();
    const int number = ++num_servers_;
    server->replica = std::make_unique<ObjectReplica>(
        &cluster_, &objects_, absl::StrCat(folder_.path(), "/", number),
        ObjectDatasetStore::Options(), uint64_t{1} << 30, std::move(faults));
    ObjectDatasetStore* const store = &server->replica->store();
    SharedUses::Options options;
    options.kind = "ds";
    options.retention = *ParseRetention("8h,kept=0s");
    // Each server's begins elsewhere.
    options.now = [this, number] { return cluster_.clock.Now() + number * absl::Hours(9000); };
    options.id_of = [store](absl::string_view name) -> absl::StatusOr<uint64_t> {
      PH_ASSIGN_OR_RETURN(const DatasetInfo info, store->Get(name));
      return info.id;
    };
    options.erase = [server = server.get(), store](const std::string& name, uint64_t id,
                                                   StillUnused unused) {
      return store->DeleteIf({name, id}, [&]() -> absl::StatusOr<std::vector<Compare>> {
        PH_ASSIGN_OR_RETURN(auto compares, unused());
        server->before_deletion();
        return compares;
      });
    };
    options.agree = [server = server.get()] { return server->agree(); };
    server->datasets = std::make_unique<RetainedDatasets>(
        store, [keys = &server->replica->connection(), options](LastUses::InUse in_use) {
          return Uses(std::make_unique<SharedUses>(keys, options, std::move(in_use)));
        });
    return server;
  }

  void Create(Server& server, const std::string& name) {
    ASSERT_THAT(server.datasets->Create(name, schema_, {}), IsOk());
  }
  absl::Status Append(Server& server, const std::string& name) {
    Random random(1);
    const GraphChunk chunk = RandomChunk(random, &schema_, 3, 9, 0);
    return server.datasets->Append(name, chunk, {}, std::nullopt).status();
  }
  // Names of those that go now.
  static std::vector<std::string> Sweep(Server& server) {
    std::vector<Expired> expired;
    EXPECT_THAT(server.datasets->Sweep(expired), IsOk());
    std::vector<std::string> names;
    for (const Expired& each : expired) names.push_back(each.name);
    return names;
  }
  // All servers sweep at each period of that time, each at its own moment.
  std::vector<std::string> SweepFor(absl::Duration time, const std::vector<Server*>& servers) {
    std::vector<std::string> names;
    for (absl::Duration gone; gone < time; gone += kPeriod) {
      for (Server* const server : servers) {
        cluster_.clock.Advance(kPeriod / static_cast<double>(servers.size()));
        for (std::string& name : Sweep(*server)) names.push_back(std::move(name));
      }
    }
    return names;
  }
  bool IsThere(const std::string& name) { return witness_->datasets->Get(name).ok(); }
  uint64_t num_keys() {
    return witness_->replica->connection().ReadAll(KeyRange::Prefix("uses/"), 1000)->values.size();
  }

  const GraphSchema schema_ =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value();
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  int num_servers_ = 0;
  ObjectCluster cluster_;
  FakeObjectStore objects_{&cluster_.clock};
  std::unique_ptr<Server> witness_ = Start();
  std::unique_ptr<Server> a_ = Start();
  std::unique_ptr<Server> b_ = Start();
};

TEST_F(SharedUsesTest, WhatNoServerUsesGoesInItsTime) {
  SweepFor(kPeriod, {a_.get(), b_.get()});
  Create(*a_, "set");
  Create(*a_, "kept/set");
  EXPECT_THAT(SweepFor(kRetention, {a_.get(), b_.get()}), IsEmpty());
  EXPECT_THAT(SweepFor(4 * kPeriod, {a_.get(), b_.get()}), ElementsAre("set"));
  EXPECT_EQ(a_->datasets->num_expired() + b_->datasets->num_expired(), 1U);
  EXPECT_THAT(SweepFor(10 * kRetention, {a_.get(), b_.get()}), IsEmpty());
  EXPECT_TRUE(IsThere("kept/set"));
  EXPECT_EQ(num_keys(), 1U) << "but for the count of time, nothing is left";
}

// What one server uses, those that know nothing of it let be.
TEST_F(SharedUsesTest, AUseByAnyServerCounts) {
  Create(*a_, "set");
  const std::vector<std::function<absl::Status()>> uses = {
      [&] { return Append(*b_, "set"); },
      [&] { return b_->datasets->Seal("set").status(); },
      [&] { return b_->datasets->OpenReader("set").status(); },
      [&] { return b_->datasets->OpenChunks("set").status(); },
  };
  for (const auto& use : uses) {
    EXPECT_THAT(SweepFor(kRetention - kPeriod, {a_.get()}), IsEmpty());
    EXPECT_THAT(use(), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(auto reader, b_->datasets->OpenReader("set"));
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(reader->Graph(0), IsOk());
    EXPECT_THAT(SweepFor(kPeriod, {a_.get(), b_.get()}), IsEmpty());
  }
  // To hold it, or look at it, is no use.
  EXPECT_THAT(SweepFor(kRetention + 4 * kPeriod, {a_.get(), b_.get()}), ElementsAre("set"));
  EXPECT_THAT(reader->Graph(0), IsOk());
}

// Between the look at a use and the deletion.
TEST_F(SharedUsesTest, AUseAtTheLastMomentCounts) {
  Create(*a_, "set");
  SweepFor(kRetention, {a_.get()});
  int num_uses = 0;
  a_->before_deletion = [&] {
    ++num_uses;
    EXPECT_THAT(b_->datasets->OpenReader("set"), IsOk());
  };
  EXPECT_THAT(SweepFor(4 * kPeriod, {a_.get()}), IsEmpty());
  EXPECT_EQ(num_uses, 1);
  EXPECT_TRUE(IsThere("set"));
  a_->before_deletion = [] {};
  EXPECT_THAT(SweepFor(kRetention + 4 * kPeriod, {a_.get()}), ElementsAre("set"));
}

// Its use is written before it goes on, and is none if it cannot be.
TEST_F(SharedUsesTest, AServerThatIsCutOffUsesAndDeletesNothing) {
  Create(*a_, "set");
  PH_ASSERT_OK_AND_ASSIGN(auto reader, a_->datasets->OpenReader("set"));
  a_->replica->connection().SetFaults([] { return StoreFault::kUnreachable; });
  for (int i = 0; i < 100; ++i) {
    cluster_.clock.Advance(kPeriod);
    std::vector<Expired> expired;
    EXPECT_THAT(a_->datasets->Sweep(expired), StatusIs(absl::StatusCode::kUnavailable, _));
    EXPECT_THAT(expired, IsEmpty());
  }
  EXPECT_THAT(Append(*a_, "set"), StatusIs(absl::StatusCode::kUnavailable, _));
  a_->replica->connection().SetFaults(nullptr);
  // Nobody was there to count the time.
  EXPECT_THAT(SweepFor(kRetention - 2 * kPeriod, {a_.get()}), IsEmpty());
  EXPECT_THAT(SweepFor(6 * kPeriod, {a_.get()}), ElementsAre("set"));
}

// A use that could not be written, since etcd was away, is written later.
TEST_F(SharedUsesTest, AUseThatCouldNotBeWrittenIsWrittenLater) {
  Create(*a_, "set");
  ASSERT_THAT(Append(*a_, "set"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(auto reader, a_->datasets->OpenReader("set"));
  EXPECT_THAT(SweepFor(kRetention - kPeriod, {a_.get(), b_.get()}), IsEmpty());
  EXPECT_THAT(reader->Graph(0), IsOk());
  // Another one has added the time. Reads are answered, and what it writes is not done.
  cluster_.clock.Advance(kPeriod);
  EXPECT_THAT(Sweep(*b_), IsEmpty());
  cluster_.keys.SetFull(true);
  std::vector<Expired> expired;
  EXPECT_THAT(a_->datasets->Sweep(expired), Not(IsOk()));
  cluster_.keys.SetFull(false);
  EXPECT_THAT(SweepFor(kRetention - kPeriod, {a_.get(), b_.get()}), IsEmpty());
  EXPECT_THAT(SweepFor(6 * kPeriod, {a_.get(), b_.get()}), ElementsAre("set"));
}

// A server with another retention notes other uses, or none.
TEST_F(SharedUsesTest, AsLongAsServersDifferNothingGoes) {
  Create(*a_, "set");
  SweepFor(kPeriod, {a_.get()});
  a_->agree = [] { return absl::FailedPreconditionError("b has another"); };
  for (int i = 0; i < 100; ++i) {
    cluster_.clock.Advance(kPeriod);
    std::vector<Expired> expired;
    EXPECT_THAT(a_->datasets->Sweep(expired), StatusIs(absl::StatusCode::kFailedPrecondition, _));
    EXPECT_THAT(expired, IsEmpty());
  }
  a_->agree = [] { return absl::OkStatus(); };
  EXPECT_THAT(SweepFor(kRetention - kPeriod, {a_.get()}), IsEmpty());
  // Nor does what others have counted the time of.
  SharedUses::Options counting;
  counting.kind = "ds";
  counting.retention = *ParseRetention("8h");
  counting.now = [this] { return cluster_.clock.Now(); };
  SharedUses other(&b_->replica->connection(), counting,
                   [](absl::FunctionRef<void(const std::string&)>) {});
  for (int i = 0; i < 10; ++i) {
    cluster_.clock.Advance(kPeriod);
    EXPECT_THAT(other.BeginSweep(), IsOk());
  }
  a_->agree = [] { return absl::FailedPreconditionError("b has another"); };
  std::vector<Expired> expired;
  EXPECT_THAT(a_->datasets->Sweep(expired), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  EXPECT_THAT(expired, IsEmpty());
  a_->agree = [] { return absl::OkStatus(); };
  EXPECT_THAT(Sweep(*a_), ElementsAre("set"));
}

// What nobody has noted has just been used: of an earlier one with the name, too.
TEST_F(SharedUsesTest, AnotherWithTheNameIsAnother) {
  Create(*a_, "set");
  SweepFor(kRetention, {a_.get()});
  // By a server that notes nothing.
  ObjectDatasetStore& store = b_->replica->store();
  ASSERT_THAT(store.Delete("set"), IsOk());
  ASSERT_THAT(store.Create("set", schema_, {}), IsOk());
  EXPECT_THAT(SweepFor(kRetention, {a_.get()}), IsEmpty());
  EXPECT_THAT(SweepFor(4 * kPeriod, {a_.get()}), ElementsAre("set"));
}

// A cluster that does not note uses forgets those that it has noted.
TEST_F(SharedUsesTest, WhatIsNoLongerNotedIsForgotten) {
  Create(*a_, "set");
  SweepFor(kRetention, {a_.get()});
  ASSERT_THAT(SharedUses::RemoveAll(b_->replica->connection(), "ds"), IsOk());
  EXPECT_EQ(num_keys(), 0U);
  EXPECT_THAT(SharedUses::RemoveAll(b_->replica->connection(), "ds"), IsOk());
  EXPECT_THAT(SweepFor(kRetention, {a_.get()}), IsEmpty());
  EXPECT_THAT(SweepFor(4 * kPeriod, {a_.get()}), ElementsAre("set"));
}

// Over keys alone: of a thing whose number is 7.
class UsesOfOneTest : public ::testing::Test {
 protected:
  UsesOfOneTest() { cluster_keys_.SetForgetful(false); }
  SharedUses::Options Options() {
    SharedUses::Options options;
    options.kind = "x";
    options.retention = *ParseRetention("8h");
    options.now = [this] { return clock_.Now(); };
    options.id_of = [](absl::string_view) -> absl::StatusOr<uint64_t> { return 7; };
    options.erase = [this](const std::string& name, uint64_t id, StillUnused unused) {
      erased_.push_back(absl::StrCat(name, " ", id));
      const auto compares = unused();
      return compares.ok() ? erasing_ : compares.status();
    };
    return options;
  }
  std::unique_ptr<SharedUses> Make() {
    return std::make_unique<SharedUses>(&keys_, Options(),
                                        [](absl::FunctionRef<void(const std::string&)>) {});
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_THAT(others_.Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
  }
  std::string Stored(const std::string& key) {
    const auto value = others_.Get(key).value();
    return value ? value->value : "none";
  }
  // So many requests fail so, and then none.
  void Fail(int num_calls, StoreFault fault) {
    keys_.SetFaults(
        [left = num_calls, fault]() mutable { return left-- > 0 ? fault : StoreFault::kNone; });
  }

  const std::string seconds_ = "uses/x/seconds";
  const std::string use_ = "uses/x/of/thing";
  SimulatedClock clock_;
  FakeKeyValueServers cluster_keys_{&clock_};
  FakeConnection keys_{&cluster_keys_};
  FakeConnection others_{&cluster_keys_};
  std::vector<std::string> erased_;
  absl::Status erasing_;
};

TEST_F(UsesOfOneTest, WhatNobodyHasWrittenIsNamed) {
  const auto is_damaged = [](const std::string& key) {
    return StatusIs(absl::StatusCode::kDataLoss, "the key '" + key + "' is not as it was written");
  };
  Put(seconds_, "x");
  EXPECT_THAT(Make()->BeginSweep(), is_damaged(seconds_));
  EXPECT_THAT(Make()->Use("thing"), is_damaged(seconds_));
  Put(seconds_, "9");
  for (const char* const value : {"", "5", "5 ", "x 7", "5 x"}) {
    SCOPED_TRACE(value);
    Put(use_, value);
    EXPECT_THAT(Make()->BeginSweep(), is_damaged(use_));
  }
  Put(use_, "5 7");
  EXPECT_THAT(Make()->BeginSweep(), IsOk());
}

// Others count time meanwhile, or answers are lost: it is tried some times.
TEST_F(UsesOfOneTest, AUseIsWrittenOrItIsNotKnown) {
  const auto not_known = StatusIs(absl::StatusCode::kUnavailable,
                                  "it is not known whether a use was written: fake: not answered");
  int left = 19;
  keys_.SetFaults([&] {
    if (left-- > 0) Put(seconds_, absl::StrCat(100 - left));
    return StoreFault::kNone;
  });
  EXPECT_THAT(Make()->Use("thing"), IsOk());
  EXPECT_EQ(Stored(use_), "100 0000000000000007");
  left = 20;
  EXPECT_THAT(Make()->Use("thing"), StatusIs(absl::StatusCode::kUnavailable,
                                             "a use: the count of time changes all the time"));
  Fail(19, StoreFault::kRequestLost);
  EXPECT_THAT(Make()->Use("thing"), not_known) << "the count has to be read";
  Fail(18, StoreFault::kRequestLost);
  EXPECT_THAT(Make()->Use("thing"), IsOk());
  Fail(1, StoreFault::kUnreachable);
  EXPECT_THAT(Make()->Use("thing"), StatusIs(absl::StatusCode::kUnavailable, "fake: unreachable"));
  // Of a sweep, which counts time, and removes what is left of others.
  Put("uses/x/of/gone", "0 9");
  auto uses = Make();
  EXPECT_THAT(uses->BeginSweep(), IsOk());
  clock_.Advance(absl::Seconds(1));
  int num_calls = 0;
  keys_.SetFaults([&] { return ++num_calls == 2 ? StoreFault::kRequestLost : StoreFault::kNone; });
  EXPECT_THAT(uses->BeginSweep(), not_known);
  EXPECT_THAT(uses->BeginSweep(), IsOk());
  Fail(1, StoreFault::kRequestLost);
  EXPECT_THAT(uses->EndSweep(), not_known);
  EXPECT_THAT(uses->EndSweep(), IsOk());
  EXPECT_EQ(Stored("uses/x/of/gone"), "none");
  num_calls = 0;
  Put(use_, "5 7");
  keys_.SetFaults([&] { return ++num_calls == 2 ? StoreFault::kRequestLost : StoreFault::kNone; });
  EXPECT_THAT(SharedUses::RemoveAll(keys_, "x"), not_known);
}

// Seconds that somebody has seen, of each sweep a period at most.
TEST_F(UsesOfOneTest, TimeIsCountedBySweeps) {
  const absl::Duration period = Options().retention.Period();
  auto uses = Make();
  const auto count = [&](absl::Duration time) {
    clock_.Advance(time);
    EXPECT_THAT(uses->BeginSweep(), IsOk());
    EXPECT_THAT(uses->EndSweep(), IsOk());
    return Stored(seconds_);
  };
  EXPECT_EQ(count(absl::ZeroDuration()), "0");
  EXPECT_EQ(count(absl::Milliseconds(90'500)), "90");
  EXPECT_EQ(count(absl::Milliseconds(999)), "90");
  EXPECT_EQ(count(absl::Milliseconds(1)), "91");
  EXPECT_EQ(count(period), absl::StrCat(91 + absl::ToInt64Seconds(period)));
  EXPECT_EQ(count(10 * period), absl::StrCat(91 + 2 * absl::ToInt64Seconds(period)));
  // What another one has counted is not counted again.
  Put(seconds_, "5000");
  EXPECT_EQ(count(period), "5000");
  EXPECT_EQ(count(absl::Seconds(7)), "5007");
  // A use is written once in a period.
  EXPECT_THAT(uses->Use("thing"), IsOk());
  const Revision written = others_.Get(use_).value()->mod_revision;
  clock_.Advance(period - absl::Nanoseconds(1));
  EXPECT_THAT(uses->Use("thing"), IsOk());
  EXPECT_EQ(others_.Get(use_).value()->mod_revision, written);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_THAT(uses->Use("thing"), IsOk());
  EXPECT_GT(others_.Get(use_).value()->mod_revision, written);
}

TEST_F(UsesOfOneTest, WhatIsUnusedGoesToTheSecond) {
  const absl::Duration most = absl::Hours(8) + 2 * Options().retention.Period();
  const auto removed = [&](absl::Duration unused, uint64_t id) {
    Put(seconds_, absl::StrCat(100 + absl::ToInt64Seconds(unused)));
    Put(use_, "100 7");
    auto uses = Make();
    EXPECT_THAT(uses->BeginSweep(), IsOk());
    auto gone = uses->RemoveIfUnused("thing", id);
    EXPECT_EQ(uses->num_expired(), gone.ok() && *gone ? 1U : 0U);
    EXPECT_THAT(uses->EndSweep(), IsOk());
    return gone;
  };
  using Gone = std::optional<absl::Duration>;
  EXPECT_THAT(removed(most - absl::Seconds(1), 7), IsOkAndHolds(Gone()));
  EXPECT_THAT(removed(-absl::Seconds(1), 7), IsOkAndHolds(Gone()));
  // Another has its name: that one has just been used.
  EXPECT_THAT(removed(most, 8), IsOkAndHolds(Gone()));
  EXPECT_THAT(erased_, IsEmpty());
  EXPECT_EQ(Stored(use_), absl::StrCat(100 + absl::ToInt64Seconds(most), " 0000000000000008"));
  EXPECT_THAT(removed(most, 7), IsOkAndHolds(Gone(most)));
  EXPECT_THAT(erased_, ElementsAre("thing 7"));
  EXPECT_EQ(Stored(use_), "none");
  for (const auto code : {absl::StatusCode::kAborted, absl::StatusCode::kNotFound}) {
    erasing_ = absl::Status(code, "why");
    EXPECT_THAT(removed(most, 7), IsOkAndHolds(Gone()));
    EXPECT_EQ(Stored(use_), "100 7");
  }
  erasing_ = absl::InternalError("why");
  EXPECT_THAT(removed(most, 7), StatusIs(absl::StatusCode::kInternal, "why"));
}

TEST_F(UsesOfOneTest, WhatIsKeptIsNotNoted) {
  SharedUses::Options options = Options();
  options.retention = *ParseRetention("8h,kept=0s");
  SharedUses uses(&keys_, options, [](absl::FunctionRef<void(const std::string&)>) {});
  EXPECT_THAT(uses.Use("kept/thing"), IsOk());
  uses.Add("kept/thing", 7);
  EXPECT_THAT(others_.ReadAll(KeyRange::Prefix("uses/"), 9)->values, IsEmpty());
}

TEST_F(UsesOfOneTest, AUseOfWhatWasForgottenIsWrittenAgain) {
  auto uses = Make();
  EXPECT_THAT(uses->Use("thing"), IsOk());
  Put(use_, "0 9");
  uses->Forget("other");
  EXPECT_THAT(uses->Use("thing"), IsOk());
  EXPECT_EQ(Stored(use_), "0 9");
  uses->Forget("thing");
  EXPECT_THAT(uses->Use("thing"), IsOk());
  EXPECT_EQ(Stored(use_), "0 0000000000000007");
}

// In several transactions.
TEST_F(UsesOfOneTest, AllThatIsInUseIsSaved) {
  constexpr uint64_t kThings = 1000;
  const auto name = [](uint64_t i) { return absl::StrCat("thing", i); };
  SharedUses uses(&keys_, Options(), [&](absl::FunctionRef<void(const std::string&)> see) {
    for (uint64_t i = 0; i < kThings; ++i) see(name(i));
  });
  for (uint64_t i = 0; i < kThings; ++i) ASSERT_THAT(uses.Use(name(i)), IsOk());
  const Revision before = cluster_keys_.revision();
  EXPECT_THAT(uses.Save(), IsOk());
  for (uint64_t i = 0; i < kThings; ++i) {
    EXPECT_GT(others_.Get(absl::StrCat("uses/x/of/", name(i))).value()->mod_revision, before);
  }
}

// However often things are used.
TEST_F(SharedUsesTest, UsesAreWrittenOnceInAPeriod) {
  for (int i = 0; i < 5; ++i) {
    Create(*a_, absl::StrCat("set", i));
    ASSERT_THAT(Append(*a_, absl::StrCat("set", i)), IsOk());
    ASSERT_THAT(a_->datasets->Seal(absl::StrCat("set", i)), IsOk());
  }
  SweepFor(kPeriod, {a_.get()});
  std::vector<std::shared_ptr<const DatasetReader>> readers;
  // Nobody else changes anything.
  cluster_.keys.SetForgetful(false);
  const uint64_t before = cluster_.keys.revision();
  for (int period = 0; period < 10; ++period) {
    for (int minute = 0; minute < 10; ++minute) {
      cluster_.clock.Advance(absl::Minutes(1));
      for (int i = 0; i < 5; ++i) {
        readers.push_back(*a_->datasets->OpenReader(absl::StrCat("set", i)));
        EXPECT_THAT(readers.back()->Graph(0), IsOk());
      }
    }
    Sweep(*a_);
  }
  // The count of time, and all uses together; one of each besides, where that came late.
  EXPECT_LE(cluster_.keys.revision() - before, 10U * (2 + 5));
}

// Whatever fails, and whoever ends: nothing goes sooner than its retention after a use that
// somebody was told of, and all goes at last.
TEST_F(SharedUsesTest, NoUseIsLost) {
  cluster_.keys.SetForgetful(false);
  uint64_t num_deleted = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto faults = [&] {
      return RandomFaults(
          random.Next(), 20,
          {StoreFault::kUnreachable, StoreFault::kRequestLost, StoreFault::kReplyLost,
           StoreFault::kDoneLater, StoreFault::kCrashBefore, StoreFault::kCrashAfter});
    };
    std::vector<std::unique_ptr<Server>> servers;
    for (int i = 0; i < 3; ++i) servers.push_back(Start(faults()));
    std::map<std::string, absl::Time> used;
    const auto expect_used_ones = [&] {
      std::erase_if(used, [&](const auto& each) {
        if (IsThere(each.first)) return false;
        EXPECT_GE(cluster_.clock.Now() - each.second, kRetention) << each.first;
        ++num_deleted;
        return true;
      });
    };
    for (int step = 0; step < 300; ++step) {
      cluster_.clock.Advance(absl::Minutes(random.Below(30)));
      auto& server = servers[random.Below(servers.size())];
      if (server->replica->connection().crashed()) server = Start(faults());
      const std::string name = absl::StrCat("s", seed, "-", random.Below(6));
      const absl::Time now = cluster_.clock.Now();
      absl::Status done = absl::UnavailableError("");
      switch (random.Below(8)) {
        case 0:
          done = server->datasets->Create(name, schema_, {}).status();
          break;
        case 1:
          done = Append(*server, name);
          break;
        case 2:
          done = server->datasets->OpenReader(name).status();
          break;
        default:
          std::vector<Expired> expired;
          server->datasets->Sweep(expired).IgnoreError();
      }
      expect_used_ones();
      if (done.ok()) used[name] = now;
    }
    cluster_.keys.DoLateRequests();
    SweepFor(kRetention + 4 * kPeriod, {a_.get(), b_.get()});
    expect_used_ones();
    EXPECT_THAT(used, IsEmpty());
  }
  EXPECT_GT(num_deleted, 300U);
}

}  // namespace
}  // namespace packhouse
