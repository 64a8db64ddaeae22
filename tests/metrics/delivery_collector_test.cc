#include "service/server/metrics/delivery_collector.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/metrics/metrics.h"
#include "service/server/metrics/store_collector.h"

namespace packhouse::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string PageOf(const DeliverySnapshot& snapshot) {
  Metrics metrics("");
  metrics.SetDelivery([&] { return snapshot; });
  return metrics.Exposition();
}

// Every number has a name of its own: none is taken for another.
TEST(DeliveryCollectorTest, TellsEveryNumber) {
  DeliverySnapshot snapshot;
  snapshot.totals = {.leased = 1001,
                     .redelivered = 102,
                     .acknowledged = 903,
                     .duplicates = 54,
                     .expired = 45,
                     .given_back = 56};
  snapshot.num_generations = 7;
  snapshot.jobs["train"] = {8, 9, 11, 12};
  snapshot.num_epochs = 10;
  snapshot.num_shared_batches = 13;
  const std::string page = PageOf(snapshot);
  EXPECT_THAT(page, HasSubstr("# TYPE packhouse_batches_leased_total counter\n"
                              "packhouse_batches_leased_total 1001\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_batches_redelivered_total 102\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_batches_acknowledged_total 903\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_duplicate_acknowledgements_total 54\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_leases_expired_total 45\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_batches_given_back_total 56\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_generations_total 7\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE packhouse_batches_in_flight gauge\n"
                              "packhouse_batches_in_flight{namespace=\"default\"} 8\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_load_sessions{namespace=\"default\"} 9\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_load_sessions_starved{namespace=\"default\"} 11\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_load_sessions_awaited{namespace=\"default\"} 12\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_epochs 10\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_shared_batches_total 13\n"));
  EXPECT_THAT(page, Not(HasSubstr("training_job")));
}

TEST(DeliveryCollectorTest, SessionsAreToldByTheNamespaceOfTheirJobs) {
  DeliverySnapshot snapshot;
  snapshot.jobs = {{"team/a", {.num_sessions = 3}}, {"team/b", {.num_sessions = 4}}};
  const std::string page = PageOf(snapshot);
  EXPECT_THAT(page, HasSubstr("packhouse_load_sessions{namespace=\"team\"} 7\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_load_sessions{namespace=\"default\"} 0\n"));
}

// Clients choose the names; no session goes missing in the sums.
TEST(DeliveryCollectorTest, NamespaceLabelsOfSessionsAreBounded) {
  DeliverySnapshot snapshot;
  for (int i = 0; i < 1000; ++i) snapshot.jobs[absl::StrCat("n", i, "/j")] = {.num_sessions = 1};
  const DeliveryCollector collector([&] { return snapshot; });
  for (const prometheus::MetricFamily& family : collector.Collect()) {
    if (family.name != "packhouse_load_sessions") continue;
    EXPECT_EQ(family.metric.size(), kMaxNamespaceLabels);
    double sum = 0;
    for (const prometheus::ClientMetric& metric : family.metric) sum += metric.gauge.value;
    EXPECT_EQ(sum, 1000);
  }
}

TEST(DeliveryCollectorTest, EpochsOfOneJobAndDataSetAreTakenTogether) {
  DeliverySnapshot snapshot;
  snapshot.progress = {{{"empty", 0}, 1, 0, 0, "d"},
                       {{"team/train", 3}, 1, 10, 10, "team/d"},
                       {{"team/train", 4}, 1, 5, 10, "team/d"},
                       {{"team/train", 5}, 1, 1, 4, "team/e"},
                       {{"validate", 3}, 1, 0, 4, "d"}};
  const std::string page = PageOf(snapshot);
  for (const auto& [labels, ratio, left] :
       {std::tuple(R"({namespace="team",training_job="team/train",dataset="team/d"})", "0.75", "5"),
        std::tuple(R"({namespace="team",training_job="team/train",dataset="team/e"})", "0.25", "3"),
        std::tuple(R"({namespace="default",training_job="validate",dataset="d"})", "0", "4"),
        std::tuple(R"({namespace="default",training_job="empty",dataset="d"})", "1", "0")}) {
    EXPECT_THAT(
        page, HasSubstr(absl::StrCat("packhouse_epoch_progress_ratio", labels, " ", ratio, "\n")));
    EXPECT_THAT(page,
                HasSubstr(absl::StrCat("packhouse_epoch_batches_left", labels, " ", left, "\n")));
  }
}

TEST(DeliveryCollectorTest, WhatSegmentsCostIsTold) {
  DeliverySnapshot snapshot;
  snapshot.progress = {{{"whole", 0}, 1, 0, 10, "d"},
                       {{"parts", 0}, 1, 0, 10, "d", {3, 8}},
                       {{"parts", 1}, 1, 0, 14, "d", {3, 8}},
                       // Their bounds are not known.
                       {{"parts", 2}, 1, 0, 99, "d", {3, 0}},
                       {{"parts", 3}, 1, 0, 99, "d", {0, 8}},
                       {{"unbound", 1}, 1, 0, 14, "d", {3, 0}}};
  const std::string page = PageOf(snapshot);
  const std::string name = "packhouse_epoch_segmentation_loss_ratio";
  EXPECT_THAT(page, HasSubstr(absl::StrCat(
                        name, R"({namespace="default",training_job="parts",dataset="d"} 0.5)")));
  EXPECT_THAT(page,
              Not(HasSubstr(absl::StrCat(name, R"({namespace="default",training_job="whole)"))));
  EXPECT_THAT(page,
              Not(HasSubstr(absl::StrCat(name, R"({namespace="default",training_job="unb)"))));
  snapshot.progress.resize(1);
  EXPECT_THAT(PageOf(snapshot), Not(HasSubstr(name)));
}

// In the mean of the epochs of which they are known.
TEST(DeliveryCollectorTest, StepsAndCompanyAreTold) {
  DeliverySnapshot snapshot;
  snapshot.progress.resize(4, {{"fresh", 0}, 1, 0, 10, "d"});
  snapshot.progress[1].step_efficiency = 0.5;
  snapshot.progress[1].company = 1.25;
  snapshot.progress[2].company = 1.75;
  snapshot.progress[3].key.job = "unknown";
  const std::string page = PageOf(snapshot);
  const std::string steps = "packhouse_epoch_step_efficiency_ratio";
  const std::string company = "packhouse_epoch_company_ratio";
  const std::string labels = R"({namespace="default",training_job="fresh",dataset="d"} )";
  EXPECT_THAT(page, HasSubstr(absl::StrCat(steps, labels, "0.5\n")));
  EXPECT_THAT(page, HasSubstr(absl::StrCat(company, labels, "1.5\n")));
  snapshot.progress.erase(snapshot.progress.begin(), snapshot.progress.begin() + 3);
  for (const std::string& name : {steps, company}) {
    EXPECT_THAT(page,
                Not(HasSubstr(absl::StrCat(name, R"({namespace="default",training_job="un)"))));
    EXPECT_THAT(PageOf(snapshot), Not(HasSubstr(name)));
  }
}

// Clients choose the names of jobs; the page stays bounded, and no batch goes missing in its sums.
TEST(DeliveryCollectorTest, JobLabelsAreBounded) {
  for (const size_t num_jobs :
       {kMaxJobLabels - 1, kMaxJobLabels, kMaxJobLabels + 1, size_t{4096}}) {
    SCOPED_TRACE(num_jobs);
    DeliverySnapshot snapshot;
    uint64_t all_left = 0;
    for (size_t i = 0; i < num_jobs; ++i) {
      snapshot.progress.push_back({{absl::StrFormat("job-%05d", i), i}, 1, i, 2 * i + 1});
      all_left += i + 1;
    }
    const DeliveryCollector collector([&] { return snapshot; });
    std::map<std::string, double> left;
    for (const prometheus::MetricFamily& family : collector.Collect()) {
      if (family.name != "packhouse_epoch_batches_left") continue;
      for (const prometheus::ClientMetric& metric : family.metric) {
        left[metric.label.at(1).value] = metric.gauge.value;
      }
      EXPECT_EQ(left.size(), family.metric.size());
    }
    EXPECT_EQ(left.size(), std::min(num_jobs, kMaxJobLabels));
    EXPECT_EQ(left.contains("other"), num_jobs > kMaxJobLabels);
    double sum = 0;
    for (const auto& [job, batches] : left) sum += batches;
    EXPECT_EQ(sum, static_cast<double>(all_left));
  }
}

// A job may be called what the others' label is called.
TEST(DeliveryCollectorTest, AJobNamedOtherIsOneOfTheOthers) {
  DeliverySnapshot snapshot;
  for (size_t i = 0; i < 2 * kMaxJobLabels; ++i) {
    snapshot.progress.push_back({{absl::StrFormat("a%05d", i), 0}, 1, 9, 12, "", {3, 8}});
    snapshot.progress.back().step_efficiency = 0.25;
    snapshot.progress.back().company = 1.5;
  }
  snapshot.progress.push_back({{"other", 0}, 1, 9, 12, "other", {3, 8}});
  const std::string page = PageOf(snapshot);
  const auto expect = [&page](const std::string& name, const auto& value) {
    EXPECT_THAT(
        page, HasSubstr(absl::StrCat("packhouse_epoch_", name,
                                     R"({namespace="other",training_job="other",dataset="other"} )",
                                     value, "\n")));
  };
  expect("batches_left", 3 * (kMaxJobLabels + 2));
  expect("progress_ratio", "0.75");
  expect("segmentation_loss_ratio", "0.5");
  expect("step_efficiency_ratio", "0.25");
  expect("company_ratio", "1.5");
}

}  // namespace
}  // namespace packhouse::metrics
