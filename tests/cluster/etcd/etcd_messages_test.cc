#include "service/wings/cluster/etcd/etcd_messages.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

template <typename Message>
std::string Expected(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message.DebugString();
}

TEST(EtcdMessagesTest, ReadsSayWhatTheyAsk) {
  EXPECT_EQ(ToRangeRequest("p/", KeyRange::Of("a"), 0, 0).DebugString(),
            Expected<etcdserverpb::RangeRequest>("key: 'p/a'"));
  EXPECT_EQ(
      ToRangeRequest("p/", {"a", "c"}, 7, 9).DebugString(),
      Expected<etcdserverpb::RangeRequest>("key: 'p/a' range_end: 'p/c' limit: 7 revision: 9"));
}

TEST(EtcdMessagesTest, TransactionsSayAllOfEachStep) {
  Transaction transaction;
  transaction.compares = {Compare::CreateRevision("a", 3), Compare::ModRevision("b", 4),
                          Compare::Value("c", "v"), Compare::Absent("d")};
  transaction.then = {Operation::Put("e", "w", 5), Operation::Delete({"f", "g"})};
  transaction.otherwise = {Operation::Read({"h", "i"}, 6)};
  EXPECT_EQ(ToTxnRequest("p/", transaction).DebugString(), Expected<etcdserverpb::TxnRequest>(R"pb(
              compare { key: 'p/a' target: CREATE create_revision: 3 }
              compare { key: 'p/b' target: MOD mod_revision: 4 }
              compare { key: 'p/c' target: VALUE value: 'v' }
              compare { key: 'p/d' target: CREATE create_revision: 0 }
              success { request_put { key: 'p/e' value: 'w' lease: 5 } }
              success { request_delete_range { key: 'p/f' range_end: 'p/g' } }
              failure { request_range { key: 'p/h' range_end: 'p/i' limit: 6 } })pb"));
}

TEST(EtcdMessagesTest, AnswersAreReadWhole) {
  etcdserverpb::TxnResponse response;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(header { revision: 30 }
           responses {
             response_range {
               kvs { key: 'p/a' value: 'v' create_revision: 11 mod_revision: 12 lease: 13 }
               kvs { key: 'p/b' }
               more: true
             }
           })pb",
      &response));
  Transaction transaction;
  transaction.then = {Operation::Delete(KeyRange::Of("a"))};
  transaction.otherwise = {Operation::Read({"a", "z"}, 2)};
  etcdserverpb::TxnResponse copy = response;
  PH_ASSERT_OK_AND_ASSIGN(const TransactionResult result, FromTxnResponse("p/", transaction, copy));
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.revision, 30U);
  ASSERT_EQ(result.reads.size(), 1U);
  EXPECT_EQ(result.reads[0].revision, 30U);
  EXPECT_TRUE(result.reads[0].has_more);
  ASSERT_EQ(result.reads[0].values.size(), 2U);
  EXPECT_EQ(result.reads[0].values[0], (KeyValue{"a", "v", 11, 12, 13}));
  EXPECT_EQ(result.reads[0].values[1], (KeyValue{"b", "", 0, 0, 0}));
  // It is the answer to the other steps.
  response.set_succeeded(true);
  EXPECT_THAT(FromTxnResponse("p/", transaction, response),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("another kind to step 0")));
  etcdserverpb::RangeResponse twice;
  for (int i = 0; i < 2; ++i) twice.add_kvs()->set_key("p/a");
  EXPECT_THAT(FromRangeResponse("p/", {"a", "z"}, 0, twice),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("not asked for")));
}

}  // namespace
}  // namespace packhouse
