#include "service/program/data_folder/snapshot_manifest.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

SnapshotManifest SomeManifest() {
  SnapshotManifest manifest;
  manifest.page_bytes = 4096;
  manifest.dataset_bytes = 12345;
  manifest.taken = "2026-01-02T03:04:05+00:00";
  manifest.files["datasets/values"] = std::string(64, 'a');
  manifest.files["files/a name  with spaces"] = std::string(64, '0');
  return manifest;
}

TEST(SnapshotManifestTest, RoundTrip) {
  const std::string text = EncodeSnapshotManifest(SomeManifest());
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotManifest back, DecodeSnapshotManifest(text));
  EXPECT_EQ(back.page_bytes, 4096U);
  EXPECT_EQ(back.taken, "2026-01-02T03:04:05+00:00");
  EXPECT_EQ(back.files, SomeManifest().files);
  EXPECT_EQ(EncodeSnapshotManifest(back), text);
}

TEST(SnapshotManifestTest, NoByteMayDiffer) {
  const std::string text = EncodeSnapshotManifest(SomeManifest());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 4;
    // Another digit in the version is one that is not known, as long as the checksum was not asked.
    EXPECT_THAT(DecodeSnapshotManifest(damaged).status().code(),
                testing::AnyOf(absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition))
        << i;
    EXPECT_EQ(DecodeSnapshotManifest(text.substr(0, i)).status().code(),
              absl::StatusCode::kDataLoss)
        << i;
  }
}

TEST(SnapshotManifestTest, ALaterVersionIsNamed) {
  EXPECT_THAT(DecodeSnapshotManifest("# packhouse snapshot 2\n"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("version 2, this release reads version 1")));
}

// A restore writes where a manifest says.
TEST(SnapshotManifestTest, PathsAreBelowTheFolder) {
  for (const char* const path : {"../a", "/etc/passwd", "a/../../b", "."}) {
    SnapshotManifest manifest = SomeManifest();
    manifest.files[path] = std::string(64, 'b');
    EXPECT_THAT(DecodeSnapshotManifest(EncodeSnapshotManifest(manifest)),
                StatusIs(absl::StatusCode::kDataLoss, _))
        << path;
  }
}

}  // namespace
}  // namespace packhouse
