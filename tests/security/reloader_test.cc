#include "service/access/security/reloader.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/recorded_log.h"

namespace packhouse::security {
namespace {

using ::testing::ElementsAre;

class ScriptedFile final : public Reloadable {
 public:
  absl::StatusOr<bool> Reload() override { return next; }
  bool is_at_rest() const override { return rests; }
  absl::StatusOr<bool> next = false;
  bool rests = true;
};

TEST(ReloaderTest, SaysOnceWhatIsWrongAndWhenItIsWellAgain) {
  RecordedLog log;
  Reloader reloader(&log);
  ScriptedFile file;
  reloader.Add("policy", &file);
  const auto tick = [&](absl::StatusOr<bool> next) {
    file.next = std::move(next);
    reloader.Tick();
    return reloader.readings().front();
  };
  EXPECT_FALSE(tick(false).is_broken);
  EXPECT_EQ(tick(true).num_reloads, 1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(tick(absl::InvalidArgumentError("line 1")).is_broken);
  EXPECT_EQ(tick(absl::InvalidArgumentError("line 2")).num_failures, 2);
  // What is there now may be another mistake.
  file.rests = false;
  EXPECT_TRUE(tick(false).is_broken);
  EXPECT_EQ(tick(absl::InvalidArgumentError("line 2")).num_failures, 2);
  EXPECT_TRUE(tick(false).is_broken);
  EXPECT_EQ(log.lines().size(), 3);
  file.rests = true;
  const Reloader::Reading last = tick(false);
  EXPECT_FALSE(last.is_broken);
  EXPECT_EQ(last.num_reloads, 1);
  EXPECT_THAT(
      log.lines(),
      ElementsAre("info \"event\":\"reloaded\",\"what\":\"policy\"",
                  "error \"event\":\"not reloaded\",\"what\":\"policy\",\"message\":\"line 1\"",
                  "error \"event\":\"not reloaded\",\"what\":\"policy\",\"message\":\"line 2\"",
                  "info \"event\":\"reloaded\",\"what\":\"policy\""));
}

}  // namespace
}  // namespace packhouse::security
