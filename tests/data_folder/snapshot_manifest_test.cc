#include "service/program/data_folder/snapshot_manifest.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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

// Whoever has made its checksum.
TEST(SnapshotManifestTest, WhatNoServerWritesIsNamed) {
  const std::string hex(64, 'a');
  const auto expect_refused = [](const SnapshotManifest& manifest, const std::string& why) {
    EXPECT_THAT(DecodeSnapshotManifest(EncodeSnapshotManifest(manifest)),
                StatusIs(absl::StatusCode::kDataLoss,
                         absl::StrCat("the manifest of the snapshot is damaged: ", why)));
  };
  for (const auto& [taken, why] :
       {std::pair("x\n# page_bytes y", "a heading is no number"),
        std::pair("x\n# dataset_bytes -1", "a heading is no number"),
        std::pair("x\n# other 1", "a heading is not known"),
        std::pair("x\n# taken y", "it was not written so"), std::pair("x\n", "line 5")}) {
    SnapshotManifest manifest;
    manifest.taken = taken;
    expect_refused(manifest, why);
  }
  for (const std::string& wrong : {hex.substr(1), hex.substr(1) + "g", hex.substr(1) + "A"}) {
    SnapshotManifest manifest;
    manifest.files["a"] = wrong;
    expect_refused(manifest, "line 5");
  }
  SnapshotManifest manifest;
  manifest.files[""] = hex;
  expect_refused(manifest, "line 5");
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
