#include "service/access/security/reloader.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/recorded_log.h"

namespace packhouse::security {
namespace {

using ::testing::ElementsAre;

class ScriptedFile final : public Reloadable {
 public:
  absl::StatusOr<bool> Reload() override { return next; }
  absl::StatusOr<bool> Look() override { return look ? *look : Reload(); }
  bool is_at_rest() const override { return rests; }
  std::string note() const override { return said; }
  absl::Time begins() const override { return absl::FromUnixSeconds(3); }
  absl::Time expires() const override { return absl::FromUnixSeconds(5); }
  absl::StatusOr<bool> next = false;
  std::optional<absl::StatusOr<bool>> look;  // If it differs.
  bool rests = true;
  std::string said;
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

// Who asks for it has it read at once, whatever was looked at so far; and a note is told with each
// new content.
TEST(ReloaderTest, WhoAsksHasItReadAndIsToldOfNotes) {
  RecordedLog log;
  Reloader reloader(&log);
  ScriptedFile file;
  file.said = "one key is left out";
  reloader.Add("jwt keys", &file);
  file.look = absl::InvalidArgumentError("half of it");
  file.rests = false;
  reloader.Tick();
  EXPECT_EQ(reloader.readings()[0].failure, "half of it");
  file.next = true;
  file.said = "";
  reloader.Reload();
  const Reloader::Reading reading = reloader.readings()[0];
  EXPECT_EQ(reading.name, "jwt keys");
  EXPECT_FALSE(reading.is_broken);
  EXPECT_EQ(reading.failure, "");
  EXPECT_EQ(reading.num_reloads, 1);
  EXPECT_EQ(reading.begins, absl::FromUnixSeconds(3));
  EXPECT_EQ(reading.expires, absl::FromUnixSeconds(5));
  file.said = "two keys are left out";
  reloader.Reload();
  file.next = false;
  reloader.Reload();
  EXPECT_THAT(
      log.lines(),
      ElementsAre(
          "warning \"event\":\"not all is in use\",\"what\":\"jwt keys\",\"message\":"
          "\"one key is left out\"",
          "error \"event\":\"not reloaded\",\"what\":\"jwt keys\",\"message\":\"half of it\"",
          "info \"event\":\"reloaded\",\"what\":\"jwt keys\"",
          "info \"event\":\"reloaded\",\"what\":\"jwt keys\"",
          "warning \"event\":\"not all is in use\",\"what\":\"jwt keys\",\"message\":"
          "\"two keys are left out\""));
}

}  // namespace
}  // namespace packhouse::security
