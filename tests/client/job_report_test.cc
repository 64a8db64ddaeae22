#include "client/cli/reports/job_report.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Job Training() {
  v1::Job job;
  job.set_job("training");
  v1::JobEpoch& second = *job.add_epochs();
  second.set_epoch(1);
  second.set_generation(12);
  second.set_num_done(30);
  second.set_num_batches(1234);
  second.set_dataset("molhiv");
  second.set_num_sessions(8);
  second.set_client("10.0.0.7");
  second.mutable_last_used()->set_seconds(1772366400);  // 2026-03-01 12:00 UTC.
  v1::JobEpoch& first = *job.add_epochs();
  first.set_epoch(0);
  first.set_generation(11);
  first.set_num_done(1234);
  first.set_num_batches(1234);
  first.set_dataset("molhiv");
  job.set_num_epochs(2);
  job.set_num_sessions(8);
  *job.mutable_last_used() = second.last_used();
  return job;
}

TEST(JobTableTest, OneRowEach) {
  v1::Job old;
  old.set_job("old");
  old.set_num_epochs(300);
  EXPECT_EQ(JobTable({Training(), old}),
            "job       epochs    finished  streams             last used\n"
            "training       2           1        8  2026-03-01 12:00 UTC\n"
            "old          300  at least 0        0\n");
}

TEST(JobTableTest, ServersThatShareJobsAreNamed) {
  v1::Job owned = Training();
  owned.set_owner("a:1");
  v1::Job old;
  old.set_job("old");
  EXPECT_EQ(JobTable({owned, old}),
            "job       epochs  finished  streams             last used  owner\n"
            "training       2         1        8  2026-03-01 12:00 UTC    a:1\n"
            "old            0         0        0\n");
  EXPECT_THAT(JobText(owned), HasSubstr("training: 2 epochs, 8 streams, with a:1\n"));
  EXPECT_EQ(JobJson(owned)["owner"], "a:1");
  EXPECT_EQ(JobJson(old)["owner"], nullptr);
}

TEST(JobTextTest, OneRowForEachEpoch) {
  const std::string text = JobText(Training());
  EXPECT_THAT(text, HasSubstr("training: 2 epochs, 8 streams\n"));
  EXPECT_THAT(text, HasSubstr("10.0.0.7"));
  EXPECT_THAT(text, HasSubstr("1,234"));
  v1::Job many = Training();
  many.set_num_epochs(20'002);
  EXPECT_THAT(JobText(many), HasSubstr("and 20,000 earlier ones\n"));
}

TEST(JobTextTest, WhatSegmentsCostIsTold) {
  v1::Job job = Training();
  EXPECT_THAT(JobText(job), Not(HasSubstr("segments")));
  EXPECT_EQ(JobJson(job)["epochs"][0]["segmentation_loss"], nullptr);
  job.mutable_epochs(0)->set_num_segments(1'562);
  job.mutable_epochs(0)->set_segmentation_loss(0.00052);
  const std::string text = JobText(job);
  EXPECT_THAT(text, HasSubstr("segments  lost to them\n"));
  EXPECT_THAT(text, HasSubstr("1,562       0.052 %\n"));
  const Json json = JobJson(job);
  EXPECT_EQ(json["epochs"][0]["segments"], 1562);
  EXPECT_EQ(json["epochs"][0]["segmentation_loss"], 0.00052);
  EXPECT_EQ(json["epochs"][1]["segments"], nullptr);
}

TEST(JobJsonTest, WhatIsNotKnownIsNull) {
  const Json json = JobJson(Training());
  EXPECT_EQ(json["job"], "training");
  EXPECT_EQ(json["last_used"], "2026-03-01T12:00:00Z");
  EXPECT_EQ(json["epochs"].back()["client"], nullptr);
  EXPECT_EQ(json["epochs"].back()["last_used"], nullptr);
}

}  // namespace
}  // namespace packhouse::client
