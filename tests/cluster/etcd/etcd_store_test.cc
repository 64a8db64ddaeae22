// The real etcd behind the interface: beside the fake, call by call; and as the place of a log.
#include "service/wings/cluster/etcd/etcd_store.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "etcd/rpc.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "service/wings/cluster/etcd/etcd_messages.h"
#include "service/wings/cluster/jobs/etcd_record_log.h"
#include "tests/ledger/record_log_laws.h"
#include "tests/support/etcd_process.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/openssl_command.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class EtcdStoreTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Another process may take a port that was free.
    for (int i = 0; i < 5 && !EtcdProcess::Program().empty(); ++i) {
      process_ = std::make_unique<EtcdProcess>();
      const auto store = EtcdStore::Make(OptionsOf(absl::Seconds(10))).value();
      if (store->Get("anything").ok()) return;
    }
    process_ = nullptr;
  }
  static void TearDownTestSuite() { process_ = nullptr; }

  void SetUp() override {
    if (EtcdProcess::Program().empty()) GTEST_SKIP() << "no etcd here: Debian's etcd-server";
    ASSERT_NE(process_, nullptr) << "etcd does not answer";
    store_ = EtcdStore::Make(OptionsOf(absl::Seconds(10))).value();
  }

  static EtcdOptions OptionsOf(absl::Duration timeout) {
    EtcdOptions options;
    options.endpoints = {process_->address()};
    options.timeout = timeout;
    return options;
  }

  static inline std::unique_ptr<EtcdProcess> process_;
  std::unique_ptr<EtcdStore> store_;
};

std::string RandomKey(Random& random) { return absl::StrCat("k/", random.Below(6)); }

KeyRange AnyRange(Random& random) {
  switch (random.Below(3)) {
    case 0:
      return KeyRange::Of(RandomKey(random));
    case 1:
      return {RandomKey(random), RandomKey(random) + "x"};
    default:
      return KeyRange::Prefix("k/");
  }
}

std::vector<Operation> RandomSteps(Random& random) {
  std::vector<Operation> steps(random.Below(4));
  for (Operation& step : steps) {
    switch (random.Below(3)) {
      case 0:
        step = Operation::Put(RandomKey(random), absl::StrCat(random.Below(4)));
        break;
      case 1:
        step = Operation::Delete(AnyRange(random));
        break;
      default:
        step = Operation::Read(AnyRange(random), random.Below(3));
    }
  }
  return steps;
}

MATCHER_P(IsTheSameRange, other, "is the same as the fake's") {
  if (arg.values.size() != other.values.size()) return false;
  for (size_t i = 0; i < arg.values.size(); ++i) {
    KeyValue value = arg.values[i];
    value.lease = other.values[i].lease;
    if (value != other.values[i]) return false;
  }
  return arg.has_more == other.has_more && arg.revision == other.revision;
}

// What the fake does is what etcd does: the same random calls have the same answers.
TEST_F(EtcdStoreTest, TheFakeIsLikeIt) {
  SimulatedClock clock;
  FakeKeyValueServers servers(&clock);
  servers.SetForgetful(false);  // As the etcd here, which nobody compacts.
  FakeConnection fake(&servers);
  Random random(19);
  Transaction clean;
  clean.then = {Operation::Delete(KeyRange::Prefix("k/")), Operation::Put("before", "")};
  PH_ASSERT_OK_AND_ASSIGN(const TransactionResult cleaned, store_->Commit(clean));
  servers.SkipTo(cleaned.revision);
  const Revision first = cleaned.revision;
  Revision now = first;
  size_t num_succeeded = 0;
  for (int step = 0; step < 600; ++step) {
    SCOPED_TRACE(step);
    if (random.Below(4) == 0) {
      const KeyRange range = AnyRange(random);
      const size_t limit = random.Below(4);
      // Also one that has not come yet.
      const Revision revision = random.Below(2) == 0 ? 0 : first + random.Below(now - first + 2);
      const auto real = store_->Range(range, limit, revision);
      const auto faked = fake.Range(range, limit, revision);
      ASSERT_EQ(real.status().code(), faked.status().code()) << real.status();
      if (real.ok()) {
        ASSERT_THAT(*real, IsTheSameRange(*faked));
      }
      continue;
    }
    Transaction transaction;
    for (size_t left = random.Below(3); left != 0; --left) {
      const std::string key = RandomKey(random);
      const auto stored = fake.Get(key).value();
      switch (random.Below(5)) {
        case 0:
          transaction.compares.push_back(Compare::Absent(key));
          break;
        case 1:
          transaction.compares.push_back(
              Compare::CreateRevision(key, stored ? stored->create_revision : 0));
          break;
        case 2:
          transaction.compares.push_back(Compare::ModRevision(
              key, stored && random.Below(2) == 0 ? stored->mod_revision : random.Below(2)));
          break;
        default:
          transaction.compares.push_back(
              Compare::Value(key, random.Below(8) == 0 ? "" : absl::StrCat(random.Below(2))));
      }
    }
    transaction.then = RandomSteps(random);
    transaction.otherwise = RandomSteps(random);
    const auto real = store_->Commit(transaction);
    const auto faked = fake.Commit(transaction);
    ASSERT_EQ(real.status().code(), faked.status().code()) << real.status();
    if (!real.ok()) continue;
    ASSERT_EQ(real->succeeded, faked->succeeded);
    ASSERT_EQ(real->revision, faked->revision);
    ASSERT_EQ(real->reads.size(), faked->reads.size());
    for (size_t i = 0; i < real->reads.size(); ++i) {
      ASSERT_THAT(real->reads[i], IsTheSameRange(faked->reads[i])) << i;
    }
    now = real->revision;
    num_succeeded += real->succeeded ? 1 : 0;
  }
  EXPECT_GT(num_succeeded, 80);
}

TEST_F(EtcdStoreTest, LeasesEndWithTheirKeys) {
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, store_->GrantLease(absl::Milliseconds(60'500)));
  EXPECT_EQ(lease.length, absl::Seconds(61));
  Transaction put;
  put.then = {Operation::Put("leased", "v", lease.id)};
  ASSERT_THAT(store_->Commit(put), IsOk());
  EXPECT_THAT(store_->KeepAlive(lease.id), IsOkAndHolds(lease.length));
  PH_ASSERT_OK_AND_ASSIGN(const auto value, store_->Get("leased"));
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->lease, lease.id);
  EXPECT_THAT(store_->RevokeLease(lease.id), IsOk());
  EXPECT_THAT(store_->RevokeLease(lease.id), IsOk());
  EXPECT_THAT(store_->Get("leased"), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(store_->KeepAlive(lease.id),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("lease")));
  EXPECT_THAT(store_->Commit(put), StatusIs(absl::StatusCode::kNotFound, HasSubstr("lease")));
  EXPECT_THAT(store_->GrantLease(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("positive")));
}

// The largest transaction that Transaction::Check() lets pass is taken.
TEST_F(EtcdStoreTest, TheBoundsAreEtcds) {
  Transaction transaction;
  for (size_t i = 0; i < Transaction::kMaxOperations; ++i) {
    transaction.then.push_back(Operation::Put(absl::StrCat("large/", i), ""));
    transaction.compares.push_back(Compare::Absent(absl::StrCat("large/", i)));
  }
  transaction.then[0].value.resize(Transaction::kMaxBytes - transaction.NumBytes());
  EXPECT_THAT(store_->Commit(transaction), IsOk());
  transaction.then[0].value.push_back('x');
  EXPECT_THAT(store_->Commit(transaction),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1572865 bytes")));
  transaction.then.emplace_back();
  EXPECT_THAT(store_->Commit(transaction),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("129 steps")));
}

TEST_F(EtcdStoreTest, PrefixesKeepClustersApart) {
  EtcdOptions options = OptionsOf(absl::Seconds(10));
  options.prefix = "other/";
  const auto other = EtcdStore::Make(options).value();
  Transaction put;
  put.then = {Operation::Put("shared", "mine")};
  ASSERT_THAT(store_->Commit(put), IsOk());
  EXPECT_THAT(other->Get("shared"), IsOkAndHolds(std::nullopt));
  options.prefix = "";
  const auto whole = EtcdStore::Make(options).value();
  PH_ASSERT_OK_AND_ASSIGN(const auto value, whole->Get("packhouse/shared"));
  EXPECT_EQ(value->value, "mine");
}

// A dead endpoint is passed over; with dead ones only, nothing was sent.
TEST_F(EtcdStoreTest, FailsOver) {
  EtcdOptions options = OptionsOf(absl::Seconds(10));
  // Nobody listens on port 1.
  options.endpoints.insert(options.endpoints.begin(), "127.0.0.1:1");
  const auto store = EtcdStore::Make(options).value();
  Transaction put;
  put.then = {Operation::Put("failover", "v")};
  EXPECT_THAT(store->Commit(put), IsOk());
  EXPECT_THAT(store->Get("failover"), IsOk());
  options.endpoints = {"127.0.0.1:1"};
  options.timeout = absl::Milliseconds(200);
  const auto dead = EtcdStore::Make(options).value();
  EXPECT_THAT(dead->Commit(put),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1:1")));
  EXPECT_THAT(dead->Get("x"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1:1")));
}

// It takes requests and does not answer: what a change did is not known; a read did nothing.
TEST_F(EtcdStoreTest, SilenceIsAnUnknownOutcome) {
  Transaction put;
  put.then = {Operation::Put("silent", "v")};
  absl::Status changed;
  Transaction reads;
  reads.then = {Operation::Read(KeyRange::Of("silent"))};
  absl::Status read;
  absl::Status read_at_once;
  // A connection that ends at this moment refuses a request before it is sent: then once more.
  for (int tries = 0; tries < 5 && !OutcomeIsUnknown(changed); ++tries) {
    const auto store = EtcdStore::Make(OptionsOf(absl::Milliseconds(300))).value();
    ASSERT_THAT(store->Get("x"), IsOk());
    process_->Stop();
    changed = store->Commit(put).status();
    read = store->Get("x").status();
    read_at_once = store->Commit(reads).status();
    process_->Continue();
  }
  EXPECT_TRUE(OutcomeIsUnknown(changed)) << changed;
  EXPECT_THAT(read, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("etcd at 127.0.0.1:")));
  EXPECT_THAT(read_at_once, StatusIs(absl::StatusCode::kUnavailable, _));
}

TEST_F(EtcdStoreTest, ALogInItKeepsTheLaws) {
  int place = 0;
  int attempt = 0;
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<RecordLog>> {
    // One lease a place: the next opening takes away the key of the one before.
    static std::map<int, LeaseId> leases;
    if (!leases.contains(place)) {
      const auto lease = store_->GrantLease(absl::Seconds(100));
      if (!lease.ok()) return lease.status();
      leases[place] = lease->id;
    }
    auto acquired = EtcdRecordLog::Acquire(store_.get(), {absl::StrCat("job", place), "here:1",
                                                          absl::StrCat(++attempt), leases[place]});
    if (!acquired.ok()) return acquired.status();
    if (acquired->log == nullptr) return absl::InternalError("somebody else owns it");
    return std::move(acquired->log);
  };
  for (; place < 3; ++place) {
    ASSERT_NO_FATAL_FAILURE(TestIsAListThatLasts(open, static_cast<uint64_t>(place), 30));
  }
  ASSERT_NO_FATAL_FAILURE(TestManyThreadsAppend(open, 8, 20));
}

// Has one user, "packhouse", whose password is "secret", and gives out tokens; answers reads of
// whoever has the last one.
class UsersOnly final : public etcdserverpb::KV::Service, public etcdserverpb::Auth::Service {
 public:
  explicit UsersOnly(const std::string& folder) {
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs = {
        {ReadText(folder + "/localhost.key"), ReadText(folder + "/localhost.crt")}};
    grpc::ServerBuilder builder;
    builder.AddListeningPort("localhost:0", grpc::SslServerCredentials(options), &port_);
    builder.RegisterService(static_cast<etcdserverpb::KV::Service*>(this));
    builder.RegisterService(static_cast<etcdserverpb::Auth::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  ~UsersOnly() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat("localhost:", port_); }
  int num_tokens() const { return num_tokens_; }
  void Expire() { is_expired_ = true; }

  // Of who has not the last token.
  grpc::Status refusal = {grpc::StatusCode::UNAUTHENTICATED, "invalid auth token"};
  // An expired token stays so, whatever comes next.
  std::atomic<bool> takes_no_other = false;
  // Says nothing to who wants a token before that is let go.
  std::atomic<bool> is_silent = false;
  absl::Notification let_go;
  // Cannot give out tokens now.
  std::atomic<bool> is_away = false;

  grpc::Status Authenticate(grpc::ServerContext* /*context*/,
                            const etcdserverpb::AuthenticateRequest* request,
                            etcdserverpb::AuthenticateResponse* response) override {
    if (is_silent) let_go.WaitForNotification();
    if (is_away) return {grpc::StatusCode::INTERNAL, "no leader"};
    if (request->name() != "packhouse" || request->password() != "secret") {
      return {grpc::StatusCode::INVALID_ARGUMENT, "authentication failed"};
    }
    if (!takes_no_other) is_expired_ = false;
    response->set_token(Token(++num_tokens_));
    return grpc::Status::OK;
  }
  grpc::Status Range(grpc::ServerContext* context, const etcdserverpb::RangeRequest* /*request*/,
                     etcdserverpb::RangeResponse* response) override {
    const auto shown = context->client_metadata().find("token");
    const bool has_token =
        !is_expired_ && shown != context->client_metadata().end() &&
        absl::string_view(shown->second.data(), shown->second.size()) == Token(num_tokens_);
    if (!has_token) return refusal;
    response->mutable_header()->set_revision(1);
    return grpc::Status::OK;
  }

 private:
  static std::string Token(int number) { return absl::StrCat("token ", number); }

  int port_ = 0;
  std::atomic<int> num_tokens_ = 0;
  std::atomic<bool> is_expired_ = false;
  std::unique_ptr<grpc::Server> server_;
};

TEST(EtcdUsersTest, ATokenServesUntilItExpires) {
  const TemporaryFolder folder;
  MakeCertificate(folder.path(), "localhost");
  UsersOnly users(folder.path());
  EtcdOptions options;
  options.endpoints = {users.address()};
  options.roots = ReadText(folder.path() + "/localhost.crt");
  options.timeout = absl::Seconds(20);
  options.user = "packhouse";
  options.password = "secret";
  PH_ASSERT_OK_AND_ASSIGN(const auto store, EtcdStore::Make(options));
  for (int times = 1; times <= 3; ++times) {
    for (int call = 0; call < 3; ++call) EXPECT_THAT(store->Get("a"), IsOk());
    EXPECT_EQ(users.num_tokens(), times);
    users.Expire();
    if (times == 2) users.refusal = {grpc::StatusCode::INVALID_ARGUMENT, "auth store is old"};
  }
  // One that is never good is asked for once a call; other refusals have nothing to do with it.
  users.takes_no_other = true;
  EXPECT_THAT(store->Get("a"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is old")));
  EXPECT_EQ(users.num_tokens(), 4);
  users.refusal = {grpc::StatusCode::PERMISSION_DENIED, "not yours"};
  EXPECT_THAT(store->Get("a"), StatusIs(absl::StatusCode::kPermissionDenied, _));
  EXPECT_EQ(users.num_tokens(), 4);
  users.takes_no_other = false;
  users.refusal = {grpc::StatusCode::UNAUTHENTICATED, "invalid auth token"};
  // One that gives no token is passed over.
  UsersOnly away(folder.path());
  away.is_away = true;
  options.endpoints = {away.address(), users.address()};
  PH_ASSERT_OK_AND_ASSIGN(const auto both, EtcdStore::Make(options));
  EXPECT_THAT(both->Get("a"), IsOk());
  options.endpoints = {away.address()};
  PH_ASSERT_OK_AND_ASSIGN(const auto alone, EtcdStore::Make(options));
  EXPECT_THAT(alone->Get("a"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no leader")));
  away.is_silent = true;
  options.timeout = absl::Milliseconds(300);
  PH_ASSERT_OK_AND_ASSIGN(const auto hasty, EtcdStore::Make(options));
  EXPECT_THAT(hasty->Get("a"), StatusIs(absl::StatusCode::kUnavailable, _));
  away.let_go.Notify();
  options.endpoints = {users.address()};
  options.timeout = absl::Seconds(20);
  options.password = "sesame";
  PH_ASSERT_OK_AND_ASSIGN(const auto stranger, EtcdStore::Make(options));
  EXPECT_THAT(stranger->Get("a"),
              StatusIs(absl::StatusCode::kUnauthenticated,
                       testing::AllOf(HasSubstr("user 'packhouse'"), Not(HasSubstr("sesame")))));
  options.user = "";
  options.password = "";
  PH_ASSERT_OK_AND_ASSIGN(const auto nobody, EtcdStore::Make(options));
  EXPECT_THAT(nobody->Get("a"), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("token")));
}

// One that answers every question alike.
class OneAnswer final : public etcdserverpb::KV::Service, public etcdserverpb::Lease::Service {
 public:
  explicit OneAnswer(grpc::Status answer) : answer_(std::move(answer)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<etcdserverpb::KV::Service*>(this));
    builder.RegisterService(static_cast<etcdserverpb::Lease::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  ~OneAnswer() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int num_asked() const { return num_asked_; }

  std::string value;  // Of each key; empty: there is none.

  grpc::Status Range(grpc::ServerContext* /*context*/, const etcdserverpb::RangeRequest* request,
                     etcdserverpb::RangeResponse* response) override {
    ++num_asked_;
    response->mutable_header()->set_revision(1);
    if (!value.empty()) {
      auto& found = *response->add_kvs();
      found.set_key(request->key());
      found.set_value(value);
    }
    return answer_;
  }
  grpc::Status Txn(grpc::ServerContext* /*context*/, const etcdserverpb::TxnRequest* /*request*/,
                   etcdserverpb::TxnResponse* response) override {
    ++num_asked_;
    response->set_succeeded(true);
    return answer_;
  }
  grpc::Status LeaseGrant(grpc::ServerContext* /*context*/,
                          const etcdserverpb::LeaseGrantRequest* request,
                          etcdserverpb::LeaseGrantResponse* response) override {
    ++num_asked_;
    response->set_id(7);
    response->set_ttl(request->ttl() + 1);
    return answer_;
  }
  grpc::Status LeaseRevoke(grpc::ServerContext* /*context*/,
                           const etcdserverpb::LeaseRevokeRequest* /*request*/,
                           etcdserverpb::LeaseRevokeResponse* /*response*/) override {
    ++num_asked_;
    return answer_;
  }
  // Of lease 7 there are 7 seconds left, and so on.
  grpc::Status LeaseKeepAlive(
      grpc::ServerContext* /*context*/,
      grpc::ServerReaderWriter<etcdserverpb::LeaseKeepAliveResponse,
                               etcdserverpb::LeaseKeepAliveRequest>* stream) override {
    ++num_asked_;
    etcdserverpb::LeaseKeepAliveRequest request;
    if (!answer_.ok() || !stream->Read(&request)) return answer_;
    etcdserverpb::LeaseKeepAliveResponse response;
    response.set_ttl(request.id());
    stream->Write(response);
    return answer_;
  }

 private:
  const grpc::Status answer_;
  int port_ = 0;
  std::atomic<int> num_asked_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(EtcdEndpointsTest, AnotherOneIsAskedUnlessTheQuestionIsRefused) {
  using Code = grpc::StatusCode;
  const std::set<int> refusals = {
      Code::INVALID_ARGUMENT,  Code::NOT_FOUND,          Code::ALREADY_EXISTS,
      Code::PERMISSION_DENIED, Code::RESOURCE_EXHAUSTED, Code::FAILED_PRECONDITION,
      Code::OUT_OF_RANGE,      Code::UNIMPLEMENTED,      Code::UNAUTHENTICATED};
  for (int code = Code::CANCELLED; code <= Code::UNAUTHENTICATED; ++code) {
    SCOPED_TRACE(code);
    const bool is_refusal = refusals.contains(code);
    const OneAnswer first(grpc::Status(static_cast<Code>(code), "not this time"));
    const OneAnswer second(grpc::Status::OK);
    EtcdOptions options;
    options.endpoints = {first.address(), second.address()};
    options.timeout = absl::Seconds(60);
    PH_ASSERT_OK_AND_ASSIGN(const auto store, EtcdStore::Make(options));
    EXPECT_EQ(store->Get("a").status().code(),
              is_refusal ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kOk);
    EXPECT_EQ(first.num_asked(), 1);
    EXPECT_EQ(second.num_asked(), is_refusal ? 0 : 1);
    // A change is sent once; the next call asks another one, too.
    PH_ASSERT_OK_AND_ASSIGN(const auto other, EtcdStore::Make(options));
    const Transaction put = {{}, {Operation::Put("k", "v")}, {}};
    EXPECT_EQ(other->Commit(put).status().code(),
              is_refusal ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown);
    EXPECT_EQ(first.num_asked(), 2);
    EXPECT_EQ(other->Get("a").status().ok(), !is_refusal);
    EXPECT_EQ(first.num_asked(), is_refusal ? 3 : 2);
    EXPECT_EQ(second.num_asked(), is_refusal ? 0 : 2);
  }
}

// Whatever the environment says of proxies, and however long an answer is.
TEST(EtcdEndpointsTest, AnyAnswerComesByNoProxy) {
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  OneAnswer server(grpc::Status::OK);
  server.value = std::string(5 << 20, 'v');
  EtcdOptions options;
  options.endpoints = {server.address()};
  options.timeout = absl::Seconds(60);
  PH_ASSERT_OK_AND_ASSIGN(const auto store, EtcdStore::Make(options));
  PH_ASSERT_OK_AND_ASSIGN(const auto read, store->Get("a"));
  ::unsetenv("http_proxy");
  EXPECT_TRUE(read->value == server.value);
  options.endpoints.clear();
  EXPECT_THAT(EtcdStore::Make(options), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

// What may have changed something is told so; what changes nothing is not.
TEST(EtcdEndpointsTest, AnErrorSaysWhetherSomethingMayHaveChanged) {
  using Code = grpc::StatusCode;
  const Transaction read = {{}, {Operation::Read(KeyRange::Of("k"))}, {}};
  const Transaction put = {{}, {Operation::Put("k", "v")}, {}};
  for (const auto& [code, of_change, of_read] :
       {std::tuple(Code::INTERNAL, absl::StatusCode::kUnknown, absl::StatusCode::kUnavailable),
        std::tuple(Code::UNAVAILABLE, absl::StatusCode::kUnknown, absl::StatusCode::kUnavailable),
        std::tuple(Code::RESOURCE_EXHAUSTED, absl::StatusCode::kResourceExhausted,
                   absl::StatusCode::kResourceExhausted),
        std::tuple(Code::NOT_FOUND, absl::StatusCode::kNotFound, absl::StatusCode::kNotFound)}) {
    SCOPED_TRACE(code);
    const OneAnswer server(grpc::Status(code, "not this time"));
    EtcdOptions options;
    options.endpoints = {server.address()};
    options.timeout = absl::Seconds(60);
    PH_ASSERT_OK_AND_ASSIGN(const auto store, EtcdStore::Make(options));
    const std::string why = absl::StrCat("etcd at ", server.address(), ": not this time");
    EXPECT_THAT(store->Commit(put), StatusIs(of_change, why));
    EXPECT_THAT(store->Commit(read), StatusIs(of_read, why));
    EXPECT_THAT(store->GrantLease(absl::Seconds(1)), StatusIs(of_change, why));
    EXPECT_EQ(server.num_asked(), 3);
    // One that is not there is ended.
    const absl::Status revoked = store->RevokeLease(7);
    EXPECT_EQ(revoked.code(), code == Code::NOT_FOUND ? absl::StatusCode::kOk : of_change);
    EXPECT_THAT(store->KeepAlive(7), StatusIs(of_read, why));
    // It may be sent once more.
    EXPECT_EQ(server.num_asked(), of_read == absl::StatusCode::kUnavailable ? 6 : 5);
  }
  // An answer that is none of the question.
  const OneAnswer server(grpc::Status::OK);
  EtcdOptions options;
  options.endpoints = {server.address()};
  options.timeout = absl::Seconds(60);
  PH_ASSERT_OK_AND_ASSIGN(const auto store, EtcdStore::Make(options));
  EXPECT_THAT(store->Commit(put),
              StatusIs(absl::StatusCode::kUnknown, "etcd answered with 0 answers to 1 steps"));
  EXPECT_THAT(store->Commit(read),
              StatusIs(absl::StatusCode::kInternal, "etcd answered with 0 answers to 1 steps"));
  EXPECT_THAT(store->Commit({{}, {}, {}}), IsOk());
  const int num_asked = server.num_asked();
  EXPECT_THAT(store->Commit({{}, {Operation::Put("", "v")}, {}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a key is empty")));
  for (const absl::Duration none : {absl::ZeroDuration(), absl::Seconds(-1)}) {
    EXPECT_THAT(store->GrantLease(none),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not positive")));
  }
  EXPECT_EQ(server.num_asked(), num_asked);
  // Whole seconds, and what the store has granted.
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, store->GrantLease(absl::Milliseconds(4001)));
  EXPECT_EQ(lease.id, 7U);
  EXPECT_EQ(lease.length, absl::Seconds(6));
  EXPECT_THAT(store->KeepAlive(5), IsOkAndHolds(absl::Seconds(5)));
  EXPECT_THAT(store->KeepAlive(1), IsOkAndHolds(absl::Seconds(1)));
  EXPECT_THAT(store->KeepAlive(0), StatusIs(absl::StatusCode::kNotFound, "etcd: no lease 0"));
  EXPECT_THAT(store->RevokeLease(7), IsOk());
}

// What etcd answers is not believed unless it is an answer to the question.
TEST(EtcdMessagesTest, AnswersToOtherQuestionsAreRefused) {
  const auto ask = [](std::vector<std::string> keys, const KeyRange& range, size_t limit,
                      bool more) {
    etcdserverpb::RangeResponse response;
    for (const std::string& key : keys) response.add_kvs()->set_key(key);
    response.set_more(more);
    return FromRangeResponse("p/", range, limit, response);
  };
  const KeyRange all = KeyRange::Prefix("a");
  PH_ASSERT_OK_AND_ASSIGN(const RangeResult good, ask({"p/a", "p/ab"}, all, 2, true));
  EXPECT_EQ(good.values[1].key, "ab");
  for (const auto& keys :
       std::vector<std::vector<std::string>>{{"p"}, {"q/a"}, {"p/b"}, {"p/ab", "p/a"}, {""}}) {
    EXPECT_THAT(ask(keys, all, 0, false),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("not asked for")));
  }
  EXPECT_THAT(ask({"p/a", "p/ab"}, all, 1, false),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("2 keys")));
  EXPECT_THAT(ask({}, all, 0, true),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("0 keys and more")));

  Transaction transaction;
  transaction.then = {Operation::Put("a", ""), Operation::Read(KeyRange::Of("a"))};
  etcdserverpb::TxnResponse response;
  response.set_succeeded(true);
  EXPECT_THAT(FromTxnResponse("p/", transaction, response),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("0 answers to 2 steps")));
  response.add_responses()->mutable_response_range();
  response.add_responses()->mutable_response_range();
  EXPECT_THAT(FromTxnResponse("p/", transaction, response),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("another kind to step 0")));
  response.mutable_responses(0)->mutable_response_put();
  PH_ASSERT_OK_AND_ASSIGN(const TransactionResult result,
                          FromTxnResponse("p/", transaction, response));
  EXPECT_EQ(result.reads.size(), 1U);
}

TEST(EtcdOptionsTest, SecretsAreNeitherRepeatedNorSentInPlainText) {
  for (const char* uri : {"etcd://user:secret@host", "etcd://user:sec/ret@host", "user:secret@host",
                          "etcd://h,user:secret@host:1/p"}) {
    EXPECT_THAT(ParseEtcdUri(uri), StatusIs(absl::StatusCode::kInvalidArgument,
                                            testing::AllOf(HasSubstr("'@'"), Not(HasSubstr("sec")),
                                                           Not(HasSubstr("user:")))))
        << uri;
  }
  EtcdOptions options;
  options.endpoints = {"127.0.0.1:1"};
  EXPECT_THAT(EtcdStore::Make(options), IsOk());
  for (std::string EtcdOptions::*field :
       {&EtcdOptions::user, &EtcdOptions::password, &EtcdOptions::certificate, &EtcdOptions::key}) {
    EtcdOptions open = options;
    open.*field = "secret";
    EXPECT_THAT(EtcdStore::Make(open),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::AllOf(HasSubstr("plain"), Not(HasSubstr("secret")))));
  }
}

TEST(ParseEtcdUriTest, HostsPortsAndPrefix) {
  const auto one = ParseEtcdUri("etcd://etcd-0.etcd:2380,10.0.0.2,[::1]:1/a/b/");
  ASSERT_THAT(one, IsOk());
  EXPECT_THAT(one->endpoints, ElementsAre("etcd-0.etcd:2380", "10.0.0.2:2379", "[::1]:1"));
  EXPECT_EQ(one->prefix, "a/b/");
  EXPECT_EQ(ParseEtcdUri("etcd://h")->prefix, "packhouse/");
  EXPECT_EQ(ParseEtcdUri("etcd://h/")->prefix, "packhouse/");
  const auto two = ParseEtcdUri("etcd://h_1:65535,[fe80::1%eth0]");
  ASSERT_THAT(two, IsOk());
  EXPECT_THAT(two->endpoints, ElementsAre("h_1:65535", "[fe80::1%eth0]:2379"));
  for (const char* bad :
       {"", "etcd:/h", "http://h", "etcd://", "etcd://h,,i", "etcd://h:0", "etcd://h:65536",
        "etcd://h:x", "etcd://:1", "etcd://h i", "etcd://[::1", "etcd://::1]", "etcd://h%1"}) {
    EXPECT_THAT(ParseEtcdUri(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'")))
        << bad;
  }
}

}  // namespace
}  // namespace packhouse
