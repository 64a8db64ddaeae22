// The server's certificate, its key, and the CA of its clients, as they lie on the disk.
#ifndef PACKHOUSE_SERVICE_ACCESS_SECURITY_TLS_FILES_H_
#define PACKHOUSE_SERVICE_ACCESS_SECURITY_TLS_FILES_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/security/reloader.h"
#include "service/access/security/small_file.h"

namespace packhouse::security {

// PEM files.
struct TlsPaths {
  std::string certificate;  // The server's, then those of the CAs between it and the root.
  std::string key;          // The certificate's; without a pass phrase.
  std::string client_ca;  // Those that may sign certificates of clients; empty: none is asked for.
};

// What the files hold, in PEM.
struct TlsMaterial {
  std::string certificate;
  std::string key;
  std::string client_ca;
  // Of the certificate in the server's chain that ends first: from when to when it is good.
  absl::Time begins;
  absl::Time expires;
  // What is wrong with it and does not make it unusable: CAs of clients that have expired.
  std::string note;
};

// Reads and checks the files: the certificate and the key belong together, none of the chain has
// expired at `now` or is not valid yet, and the CA file has a certificate that has not expired.
// UNAVAILABLE, NOT_FOUND or INVALID_ARGUMENT naming the file and what is wrong.
absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsPaths& paths, absl::Time now);

// Keeps the last good material, and offers it as files in memory that gRPC can watch. gRPC 1.51
// itself takes what it reads without a look: with a broken file it would refuse every connection.
// Here it only sees what was checked. Key and certificate are one file that is replaced at once, so
// nobody reads a key with another's certificate.
class TlsFiles final : public Reloadable {
 public:
  using Now = std::function<absl::Time()>;

  // Errors as ReadTlsFiles().
  static absl::StatusOr<std::unique_ptr<TlsFiles>> Open(TlsPaths paths, Now now);
  ~TlsFiles() override;

  absl::StatusOr<bool> Reload() override { return Read(/*is_asked=*/true); }
  absl::StatusOr<bool> Look() override { return Read(/*is_asked=*/false); }
  bool is_at_rest() const override { return resting_.is_at_rest(); }
  absl::Time begins() const override { return material().begins; }
  absl::Time expires() const override { return material().expires; }
  std::string note() const override { return material().note; }

  // Thread-safe.
  TlsMaterial material() const {
    absl::MutexLock lock(&mutex_);
    return material_;
  }

  // The paths of files in memory, as long as this lives; roots: empty without a CA of clients.
  std::string identity_path() const { return PathOf(identity_); }
  std::string roots_path() const { return roots_ < 0 ? "" : PathOf(roots_); }

 private:
  TlsFiles(TlsPaths paths, Now now) : paths_(std::move(paths)), now_(std::move(now)) {}

  absl::StatusOr<bool> Read(bool is_asked);
  static std::string PathOf(int descriptor);
  // Replaces the file in memory; the number of the descriptor stays.
  static absl::Status Offer(const std::string& bytes, int& descriptor);

  const TlsPaths paths_;
  const Now now_;
  RestingFile resting_;  // All files, one behind the other.
  int identity_ = -1;
  int roots_ = -1;
  mutable absl::Mutex mutex_;
  TlsMaterial material_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::security

#endif  // PACKHOUSE_SERVICE_ACCESS_SECURITY_TLS_FILES_H_
