#include "service/server/metrics/namespace_calls.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/metrics/metrics.h"

namespace packhouse::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CountingJournal final : public CallJournal {
 public:
  void OnEnded(const EndedCall& /*call*/) override { ++num_calls; }
  int num_calls = 0;
};

TEST(NamespaceCallsTest, CountsByNamespaceAndCode) {
  Metrics metrics("");
  CountingJournal next;
  CallJournal* const journal = metrics.CountCalls(&next);
  const auto end = [&](const std::string& resource, const absl::Status& status) {
    CallRecord record;
    record.resource = resource;
    journal->OnEnded({record, Method::kLoad, status, absl::ZeroDuration()});
  };
  end("team/a", absl::OkStatus());
  end("team/b", absl::OkStatus());
  end("team/b", absl::NotFoundError(""));
  end("plain", absl::OkStatus());
  // Nobody has succeeded there yet.
  end("guess/a", absl::PermissionDeniedError(""));
  end("", absl::OkStatus());
  EXPECT_EQ(next.num_calls, 6);
  const std::string page = metrics.Exposition();
  for (const char* line :
       {R"({code="OK",namespace="team"} 2)", R"({code="NOT_FOUND",namespace="team"} 1)",
        R"({code="OK",namespace="default"} 1)",
        R"({code="PERMISSION_DENIED",namespace="other"} 1)"}) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("packhouse_namespace_calls_total", line, "\n")));
  }
  EXPECT_THAT(page, Not(HasSubstr("guess")));

  for (int i = 0; i < 300; ++i) end(absl::StrCat("n", i, "/a"), absl::OkStatus());
  const std::string full = metrics.Exposition();
  EXPECT_THAT(full, HasSubstr(absl::StrCat("{code=\"OK\",namespace=\"other\"} ",
                                           300 - (kMaxNamespaceLabels - 3), "\n")));
}

}  // namespace
}  // namespace packhouse::metrics
