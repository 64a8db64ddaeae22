// Roles, namespaces, and what a policy gives to whom.
#include "service/access/policy.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/access/authorizer.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

TEST(PolicyTest, RolesHaveTheirRights) {
  // view, train, produce, own, administer
  const std::string expected[] = {"x....", "xx...", "x.x..", "xxxx.", "xxxxx"};
  for (size_t role = 0; role < 5; ++role) {
    std::string rights;
    for (size_t right = 0; right < 5; ++right) {
      rights += Includes(static_cast<Role>(role), static_cast<Right>(right)) ? 'x' : '.';
    }
    EXPECT_EQ(rights, expected[role]) << NameOf(static_cast<Role>(role));
    EXPECT_EQ(RoleNamed(NameOf(static_cast<Role>(role))), static_cast<Role>(role));
  }
  EXPECT_EQ(RoleNamed("Admin"), std::nullopt);
}

TEST(PolicyTest, ANameIsInTheNamespaceBeforeItsFirstSlash) {
  for (const auto& [name, where] :
       {std::pair("a", "default"), std::pair("", "default"), std::pair("a/b", "a"),
        std::pair("a/b/c", "a"), std::pair("/b", ""), std::pair("*/b", "*"),
        std::pair("a.b/c", "a.b")}) {
    EXPECT_EQ(NamespaceOf(name), where);
  }
}

TEST(PolicyTest, NothingIsAllowedThatIsNotGiven) {
  PH_ASSERT_OK_AND_ASSIGN(const Policy policy,
                          Policy::Create({{{"a", "b"}, Role::kTrainer, {"x", "y"}},
                                          {{"a"}, Role::kProducer, {"x"}},
                                          {{"anonymous"}, Role::kViewer, {"open"}},
                                          {{"*"}, Role::kTrainer, {"shared"}},
                                          {{"root"}, Role::kAdmin, {"*"}},
                                          {{"chief"}, Role::kAdmin, {"x"}}},
                                         {}));
  EXPECT_TRUE(policy.Allows("a", Right::kProduce, "x"));
  EXPECT_FALSE(policy.Allows("a", Right::kProduce, "y"));
  EXPECT_TRUE(policy.Allows("b", Right::kTrain, "y"));
  EXPECT_FALSE(policy.Allows("b", Right::kTrain, "z"));
  EXPECT_TRUE(policy.Allows("", Right::kView, "open"));
  EXPECT_TRUE(policy.Allows("", Right::kTrain, "shared"));
  EXPECT_FALSE(policy.Allows("c", Right::kView, "open"));
  EXPECT_TRUE(policy.Allows("c", Right::kTrain, "shared"));
  EXPECT_TRUE(policy.Allows("root", Right::kOwn, "anything"));
  // A namespace that clients may name like this is no namespace of a policy: "*/x" opens nothing.
  EXPECT_FALSE(policy.Allows("chief", Right::kView, "*"));
  EXPECT_FALSE(policy.Allows("chief", Right::kAdminister, kAll));
  EXPECT_TRUE(policy.Allows("root", Right::kAdminister, kAll));
  EXPECT_TRUE(policy.AllowsSomewhere("chief", Right::kOwn));
  EXPECT_FALSE(policy.AllowsSomewhere("c", Right::kProduce));
  EXPECT_TRUE(policy.AllowsSomewhere("c", Right::kTrain));
  EXPECT_TRUE(policy.AllowsSomewhere("", Right::kView));
}

TEST(PolicyTest, QuotasAreANamespacesOrThoseOfAllOthers) {
  Quotas of_team;
  of_team.disk_bytes = 7;
  Quotas of_others;
  of_others.disk_bytes = 8;
  PH_ASSERT_OK_AND_ASSIGN(const Policy policy,
                          Policy::Create({}, {{"team", of_team}, {"*", of_others}}));
  EXPECT_EQ(policy.QuotasOf("team").disk_bytes, 7U);
  EXPECT_EQ(policy.QuotasOf("another").disk_bytes, 8U);
  EXPECT_EQ(policy.QuotasOf("*").disk_bytes, 8U);
  PH_ASSERT_OK_AND_ASSIGN(const Policy team, Policy::Create({}, {{"team", of_team}}));
  EXPECT_EQ(team.QuotasOf("another").disk_bytes, Quotas().disk_bytes);
  EXPECT_THAT(Policy::Create({}, {{"x/y", of_team}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("namespace 'x/y'")));
}

TEST(CheckNamespaceTest, HasOneToSixtyThreeCharacters) {
  for (const std::string& name : {std::string("a"), std::string("A.z_0-9"), std::string(63, 'x')}) {
    EXPECT_THAT(CheckNamespace(name), IsOk());
  }
  for (const std::string& name :
       {std::string(), std::string(64, 'x'), std::string("a b"), std::string("a/"),
        std::string("\xc3\xa4"), std::string("a\0b", 3)}) {
    EXPECT_THAT(CheckNamespace(name),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 to 63 characters")));
  }
}

TEST(PolicyTest, GrantsWithoutSenseAreRefused) {
  for (const auto& [grant, why] :
       {std::pair(Policy::Grant{{}, Role::kViewer, {"x"}}, "has no principals"),
        std::pair(Policy::Grant{{"a"}, Role::kViewer, {}}, "has no namespaces"),
        std::pair(Policy::Grant{{""}, Role::kViewer, {"x"}}, "empty principal"),
        std::pair(Policy::Grant{{"a"}, Role::kViewer, {"x/y"}}, "namespace 'x/y'"),
        std::pair(Policy::Grant{{"a"}, Role::kViewer, {std::string(64, 'x')}}, "is not 1 to 63")}) {
    const absl::Status status = Policy::Create({grant}, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

TEST(AuthorizerTest, SaysWhatIsMissing) {
  const Authorizer nothing(std::make_shared<const Policy>());
  const absl::Status named =
      nothing.Check("a", {Right::kOwn, Demand::Where::kNamed, "job", "x/y\n"});
  EXPECT_EQ(named, absl::PermissionDeniedError(
                       "the server's policy gives principal 'a' no right 'own' on job 'x/y\\n'"));
  EXPECT_THAT(
      std::string(nothing.Check("", {Right::kTrain, Demand::Where::kSomewhere, "", ""}).message()),
      HasSubstr("principal 'anonymous' no right 'train' in any namespace"));
}

TEST(AuthorizerTest, StreamsOfANamespaceAreBounded) {
  Quotas two;
  two.streams = 2;
  const Authorizer authorizer(std::make_shared<const Policy>(*Policy::Create({}, {{"team", two}})));
  EXPECT_EQ(authorizer.EnterStream("other").value(), nullptr);
  EXPECT_EQ(authorizer.StreamsIn("other"), 0U);
  auto first = authorizer.EnterStream("team").value();
  EXPECT_NE(first, nullptr);
  const auto second = authorizer.EnterStream("team").value();
  EXPECT_EQ(authorizer.StreamsIn("team"), 2U);
  EXPECT_THAT(authorizer.EnterStream("team").status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "namespace 'team': the quota 'streams' is 2, 2 are open; try again when one "
                       "has ended"));
  EXPECT_EQ(authorizer.StreamsIn("team"), 2U);
  first.reset();
  EXPECT_EQ(authorizer.StreamsIn("team"), 1U);
  first = authorizer.EnterStream("team").value();
  EXPECT_EQ(authorizer.StreamsIn("team"), 2U);
}

// Whoever administers one namespace does not administer the server.
TEST(AuthorizerTest, TheServerIsAdministeredByThoseOfAllNamespaces) {
  const Demand demand = {Right::kAdminister, Demand::Where::kServer, "", ""};
  for (const std::string where : {"team", "*"}) {
    const Authorizer authorizer(
        std::make_shared<const Policy>(*Policy::Create({{{"a"}, Role::kAdmin, {where}}}, {})));
    EXPECT_EQ(authorizer.Check("a", demand).ok(), where == "*") << where;
  }
}

}  // namespace
}  // namespace packhouse
