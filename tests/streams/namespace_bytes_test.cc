// What waits in the streams of a namespace: its own bound, and that of all.
#include "service/engine/streams/namespace_bytes.h"

#include <map>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

TEST(NamespaceBytesTest, StreamsOfANamespaceShareItsBoundWithinThatOfAll) {
  std::map<std::string, uint64_t> bounds = {{"a", 100}, {"b", 1000}};
  ByteQuota all(500);
  NamespaceBytes bytes(&all, [&](absl::string_view where) {
    Quotas quotas;
    if (const auto found = bounds.find(std::string(where)); found != bounds.end()) {
      quotas.pending_bytes = found->second;
    }
    return quotas;
  });
  EXPECT_EQ(bytes.Of("c"), nullptr);
  EXPECT_EQ(bytes.HeldIn("c"), 0);
  std::shared_ptr<ByteQuota> first = bytes.Of("a");
  const std::shared_ptr<ByteQuota> second = bytes.Of("a");
  const std::shared_ptr<ByteQuota> other = bytes.Of("b");
  EXPECT_TRUE(first->TryTake(60));
  EXPECT_FALSE(second->TryTake(41));
  EXPECT_THAT(second->FullFor(41).what(), HasSubstr("namespace 'a', its quota 'pending_bytes'"));
  EXPECT_TRUE(second->TryTake(40));
  EXPECT_EQ(bytes.HeldIn("a"), 100);
  EXPECT_EQ(all.held(), 100);
  // What does not fit all is taken from neither.
  EXPECT_FALSE(other->TryTake(401));
  EXPECT_EQ(other->FullFor(401).bound(), 500);
  EXPECT_EQ(other->held(), 0);
  EXPECT_TRUE(other->TryTake(400));
  // A lower bound leaves what is there.
  bounds["a"] = 50;
  EXPECT_EQ(bytes.Of("a")->bound(), 50);
  EXPECT_FALSE(first->TryTake(1));
  first->Give(60);
  second->Give(40);
  other->Give(400);
  EXPECT_EQ(all.held(), 0);
  EXPECT_TRUE(first->TryTake(50));
  // Now and then those that nobody has are forgotten; the others stay the same.
  for (int i = 0; i < 1000; ++i) {
    const std::string name = std::to_string(i);
    bounds[name] = 7;
    EXPECT_EQ(bytes.Of(name)->bound(), 7);
    EXPECT_EQ(bytes.HeldIn(name), 0);
  }
  EXPECT_EQ(bytes.Of("a"), first);
  EXPECT_EQ(bytes.HeldIn("a"), 50);
  first->Give(50);
  // Where all is full and a part of it is, too, the part is told; it has no room by its own bound.
  EXPECT_EQ(&first->FullFor(51), first.get());
  EXPECT_EQ(&first->FullFor(50), &all);
  EXPECT_EQ(&all.FullFor(1), &all);
}

}  // namespace
}  // namespace packhouse
