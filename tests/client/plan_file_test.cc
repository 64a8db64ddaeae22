#include "client/cli/files/plan_file.h"

#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

class PlanFileTest : public testing::Test {
 protected:
  PlanFileTest() {
    for (const char* const name : {"nodes", "edges", "graphs"}) {
      response_.mutable_best()->add_components()->set_component(name);
    }
    response_.mutable_best()->mutable_elapsed()->set_nanos(12345);
    response_.mutable_plan()->set_tuples("12345678");
    v1::Pattern* const pattern = response_.mutable_plan()->add_patterns();
    pattern->set_repeats(3);
    pattern->add_entries()->set_copies(2);
    response_.add_summaries()->set_name("not kept");
  }
  ~PlanFileTest() override { unlink(path_.c_str()); }

  std::string Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  }

  const std::string path_ = absl::StrCat(testing::TempDir(), "/plan_file_test_", getpid());
  v1::PlanResponse response_;
};

TEST_F(PlanFileTest, APlanComesBack) {
  ASSERT_TRUE(WritePlanFile(path_, response_).ok());
  const absl::StatusOr<v1::PackingPlan> plan = ReadPlanFile(path_, {"nodes", "edges"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->SerializeAsString(), response_.plan().SerializeAsString());
}

// The same plan makes the same file, however long it took.
TEST_F(PlanFileTest, TimesAndSummariesAreLeftOut) {
  ASSERT_TRUE(WritePlanFile(path_, response_).ok());
  const std::string bytes = Bytes();
  response_.mutable_best()->mutable_elapsed()->set_seconds(7);
  response_.clear_summaries();
  ASSERT_TRUE(WritePlanFile(path_, response_).ok());
  EXPECT_EQ(Bytes(), bytes);
}

TEST_F(PlanFileTest, OtherComponentsAreRefused) {
  ASSERT_TRUE(WritePlanFile(path_, response_).ok());
  const absl::Status status = ReadPlanFile(path_, {"edges", "nodes"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()),
            absl::StrCat(path_, ": is a plan of nodes, edges, but the sizes have edges, nodes"));
}

TEST_F(PlanFileTest, WhatIsNoPlanIsRefused) {
  for (const char* const text : {"", "num_nodes,num_edges\n1,2\n", "\x0a\xff"}) {
    SCOPED_TRACE(text);
    std::ofstream(path_) << text;
    const absl::Status status = ReadPlanFile(path_, {"nodes"}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()),
              absl::StrCat(path_, ": is no plan that `packhouse plan --save-plan` wrote"));
  }
}

TEST_F(PlanFileTest, FilesThatCannotBeOpenedAreNamed) {
  EXPECT_EQ(ReadPlanFile("/nonexistent/plan", {}).status(),
            absl::NotFoundError("/nonexistent/plan: cannot open: No such file or directory"));
  EXPECT_EQ(WritePlanFile("/nonexistent/plan", response_),
            absl::UnavailableError("/nonexistent/plan: cannot write: No such file or directory"));
}

}  // namespace
}  // namespace packhouse::client
