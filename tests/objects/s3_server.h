// A real S3 server over a folder, for tests: versitygw, which tests/objects/install_s3_server.sh
// installs where Go and its modules are to be had.
#ifndef PACKHOUSE_TESTS_OBJECTS_S3_SERVER_H_
#define PACKHOUSE_TESTS_OBJECTS_S3_SERVER_H_

#include <memory>
#include <string>

#include "service/wings/cluster/s3/s3_object_store.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {

// A process, which ends with this.
class S3Server {
 public:
  static constexpr const char* kAccessKey = "packhouse";
  static constexpr const char* kSecretKey = "of the tests";

  // One for the test program, started at the first call.
  static S3Server& Shared();
  // With a certificate and its key, in PEM, it speaks TLS as localhost.
  explicit S3Server(const std::string& certificate = "", const std::string& key = "");
  ~S3Server();
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  bool is_running() const { return process_ > 0; }
  // Why there is none.
  const std::string& why_not() const { return why_not_; }
  const std::string& endpoint() const { return endpoint_; }

  // A new, empty bucket.
  std::string NewBucket();
  // How to reach it.
  S3ObjectStore::Options StoreOptions(const std::string& bucket);
  // A store of its own in a new bucket; null where there is no server. Deadlines are those of
  // `clock`, the machine's if it is null.
  std::unique_ptr<S3ObjectStore> NewStore(const std::string& prefix, const Clock* clock = nullptr);

 private:
  bool TryStart(int port);

  const std::string certificate_;
  const std::string key_;
  TemporaryFolder folder_;
  std::string endpoint_;
  std::string why_not_;
  int process_ = 0;
  int num_buckets_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_OBJECTS_S3_SERVER_H_
