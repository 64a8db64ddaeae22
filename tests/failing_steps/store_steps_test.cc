// Appends, seals and commits over shared stores and files, whichever request or allocation fails.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/stores/logs/lmdb_record_log.h"
#include "service/wings/cluster/jobs/etcd_record_log.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/objects/fake_object_store.h"
#include "tests/support/failing_steps.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

// Each request to a store of keys or objects is a step.
class FailingRequests final : public CountedSteps {
 public:
  explicit FailingRequests(bool lasts = false) : CountedSteps(lasts) {}
  bool IsUnknown(const absl::Status& ended) const override {
    return OutcomeIsUnknown(ended) || absl::StrContains(ended.message(), "not known");
  }
  std::vector<absl::StatusCode> refusals() const override {
    return {absl::StatusCode::kUnavailable, absl::StatusCode::kUnknown};
  }
};

constexpr StoreFault kKeyFaults[] = {StoreFault::kUnreachable, StoreFault::kRequestLost,
                                     StoreFault::kReplyLost, StoreFault::kDoneLater};

// Objects whose requests fail: refused, or done and the reply lost.
class StepsObjectStore final : public ObjectStore {
 public:
  StepsObjectStore(ObjectStore* store, CountedSteps* steps, bool loses_reply)
      : store_(store), steps_(steps), loses_reply_(loses_reply) {}

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override {
    return Do([&] { return store_->Put(key, bytes, deadline); });
  }
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override {
    return Do([&] { return store_->Get(key, range, sink, deadline); });
  }
  absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after, size_t limit,
                                  absl::Time deadline) override {
    if (steps_->Fails()) return absl::UnavailableError("fails");
    return store_->List(prefix, after, limit, deadline);
  }
  absl::Status Delete(absl::string_view key, absl::Time deadline) override {
    return Do([&] { return store_->Delete(key, deadline); });
  }

 private:
  template <typename Request>
  absl::Status Do(const Request& request) {
    if (!steps_->Fails()) return request();
    if (loses_reply_) request().IgnoreError();
    return absl::UnavailableError("fails");
  }

  ObjectStore* const store_;
  CountedSteps* const steps_;
  const bool loses_reply_;
};

enum class Change { kCreate, kAppend, kSeal, kDelete };

// A data set over objects. What is seen of it, another replica sees.
class SharedDatasetWorld final : public StepsWorld {
 public:
  SharedDatasetWorld(Change change, FailingRequests* of_keys, StoreFault fault,
                     FailingRequests* of_objects, bool loses_reply)
      : change_(change),
        failing_objects_(&objects_, of_objects, loses_reply),
        one_(&cluster_,
             of_objects == nullptr ? static_cast<ObjectStore*>(&objects_) : &failing_objects_,
             folder_.path() + "/one"),
        other_(&cluster_, &objects_, folder_.path() + "/other") {
    cluster_.keys.SetForgetful(false);
    if (change_ != Change::kCreate) {
      EXPECT_TRUE(one_.store().Create("set", schema_, {}).ok());
    }
    if (change_ == Change::kSeal || change_ == Change::kDelete) {
      EXPECT_TRUE(Append().ok());
    }
    if (of_keys != nullptr) {
      one_.connection().SetFaults(
          [of_keys, fault] { return of_keys->Fails() ? fault : StoreFault::kNone; });
    }
  }
  absl::Status Attempt() override {
    switch (change_) {
      case Change::kCreate:
        return one_.store().Create("set", schema_, {}).status();
      case Change::kAppend:
        return Append();
      case Change::kSeal:
        return one_.store().Seal("set").status();
      case Change::kDelete:
        return one_.store().Delete("set");
    }
    return absl::InternalError("not reached");
  }
  std::string State() override {
    cluster_.keys.DoLateRequests();
    const auto info = other_.store().Get("set");
    if (absl::IsNotFound(info.status())) return "none";
    EXPECT_TRUE(info.ok()) << info.status();
    if (!info.ok()) return "unreadable";
    const auto report = other_.store().Verify("set", [](const VerifyProgress&) { return true; });
    EXPECT_TRUE(report.ok() && report->ok());
    return absl::StrCat(info->state == DatasetState::kSealed ? "sealed" : "open", " with ",
                        info->num_graphs, " graphs in ", info->num_bytes, " bytes");
  }

 private:
  absl::Status Append() {
    Random random(1);
    return one_.store()
        .Append("set", RandomChunk(random, &schema_, 4, 9, 0), {}, ProducerSequence{"p", 1})
        .status();
  }

  const Change change_;
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const GraphSchema schema_ =
      *GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}});
  ObjectCluster cluster_;
  FakeObjectStore objects_{&cluster_.clock};
  StepsObjectStore failing_objects_;
  ObjectReplica one_;
  ObjectReplica other_;
};

class SharedDatasetStepsTest : public testing::TestWithParam<Change> {
 protected:
  static StepsOptions Options() {
    StepsOptions options;
    // A call that is repeated by its client.
    if (GetParam() == Change::kCreate) options.again = absl::StatusCode::kAlreadyExists;
    if (GetParam() == Change::kDelete) options.again = absl::StatusCode::kNotFound;
    options.may_all_be_survived = true;
    return options;
  }
};

TEST_P(SharedDatasetStepsTest, ARequestForKeysFails) {
  for (const StoreFault fault : kKeyFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    FailingRequests requests;
    ExpectDoneOrNot(
        [&] {
          return std::make_unique<SharedDatasetWorld>(GetParam(), &requests, fault, nullptr, false);
        },
        requests, Options());
  }
}

TEST_P(SharedDatasetStepsTest, KeysAreAwayFromSomeStepOn) {
  FailingRequests requests(/*lasts=*/true);
  const StepsTold told = ExpectDoneOrNot(
      [&] {
        return std::make_unique<SharedDatasetWorld>(GetParam(), &requests, StoreFault::kUnreachable,
                                                    nullptr, false);
      },
      requests, Options());
  EXPECT_GT(told.num_not_done, 0U);
}

// Of these calls only an append asks for objects at once.
TEST(SharedAppendStepsTest, ARequestForAnObjectFails) {
  StepsOptions options;
  options.may_all_be_survived = true;
  for (const bool loses_reply : {false, true}) {
    FailingRequests requests;
    ExpectDoneOrNot(
        [&] {
          return std::make_unique<SharedDatasetWorld>(Change::kAppend, nullptr, StoreFault::kNone,
                                                      &requests, loses_reply);
        },
        requests, options);
  }
}

INSTANTIATE_TEST_SUITE_P(Changes, SharedDatasetStepsTest,
                         testing::Values(Change::kCreate, Change::kAppend, Change::kSeal,
                                         Change::kDelete));

// A record is committed to the log of a job in etcd: by who owns the job, and after an error by who
// reads the log again.
class SharedLogWorld final : public StepsWorld {
 public:
  SharedLogWorld(FailingRequests& requests, StoreFault fault) {
    lease_ = connection_.GrantLease(absl::Seconds(10)).value().id;
    EXPECT_TRUE(Open().ok());
    EXPECT_TRUE(log_->Append({{"first"}}).ok());
    connection_.SetFaults(
        [&requests, fault] { return requests.Fails() ? fault : StoreFault::kNone; });
  }
  // Who has the answer does not ask again.
  absl::Status Attempt() override {
    if (is_done_) return absl::OkStatus();
    if (log_ == nullptr) {
      if (absl::Status opened = Open(); !opened.ok()) return opened;
      const auto records = log_->ReadAll();
      if (!records.ok()) return records.status();
      if (records->size() == 2) {
        is_done_ = true;
        return absl::OkStatus();
      }
    }
    absl::Status appended = log_->Append({{"second"}});
    is_done_ = appended.ok();
    if (!is_done_) log_ = nullptr;
    return appended;
  }
  std::string State() override {
    servers_.DoLateRequests();
    FakeConnection reader(&servers_);
    const auto records = EtcdRecordLog::Read(reader, "job");
    EXPECT_TRUE(records.ok()) << records.status();
    return records.ok() ? absl::StrJoin(*records, " ") : "unreadable";
  }

 private:
  absl::Status Open() {
    EtcdRecordLog::Options options;
    options.job = "job";
    options.address = "here:1";
    options.attempt = absl::StrCat(++num_attempts_);
    options.lease = lease_;
    auto acquired = EtcdRecordLog::Acquire(&connection_, options);
    if (!acquired.ok()) return acquired.status();
    EXPECT_NE(acquired->log, nullptr);
    log_ = std::move(acquired->log);
    return absl::OkStatus();
  }

  SimulatedClock clock_;
  FakeKeyValueServers servers_{&clock_};
  FakeConnection connection_{&servers_};
  LeaseId lease_ = 0;
  uint64_t num_attempts_ = 0;
  std::unique_ptr<RecordLog> log_;
  bool is_done_ = false;
};

TEST(SharedLogStepsTest, ARequestOfACommitFails) {
  for (const StoreFault fault : kKeyFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    FailingRequests requests;
    StepsOptions options;
    options.may_all_be_survived = true;
    ExpectDoneOrNot([&] { return std::make_unique<SharedLogWorld>(requests, fault); }, requests,
                    options);
  }
}

}  // namespace
}  // namespace packhouse
