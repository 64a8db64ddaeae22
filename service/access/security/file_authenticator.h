// Finds out who a call comes from, by certificates and files of tokens.
#ifndef PACKHOUSE_SERVICE_ACCESS_SECURITY_FILE_AUTHENTICATOR_H_
#define PACKHOUSE_SERVICE_ACCESS_SECURITY_FILE_AUTHENTICATOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/principal.h"
#include "service/access/security/jwt_keys.h"
#include "service/access/security/reloader.h"
#include "service/access/security/small_file.h"
#include "service/access/security/static_tokens.h"

namespace packhouse::security {

// A token counts before a certificate: a proxy or a node may have a certificate of its own, and
// pass on the token of whom it works for. A bad token is refused even with a good certificate.
//
// The names of certificates and of all tokens are one set of names: whoever may give out one of
// them decides who is who. Thread-safe.
class FileAuthenticator final : public Authenticator {
 public:
  struct Options {
    std::string token_file;  // StaticTokens; empty: none.
    std::string jwks_file;   // JwtKeys; empty: none.
    JwtDemands jwt;
    // Whether clients show certificates that the transport verifies.
    bool takes_certificates = false;
    bool has_token_sources() const { return !token_file.empty() || !jwks_file.empty(); }
  };
  using Now = std::function<absl::Time()>;

  // Without token sources and certificates everybody is nobody, and is let in. Errors as Reload()
  // of the files; they name the path.
  static absl::StatusOr<std::unique_ptr<FileAuthenticator>> Open(Options options, Now now);

  absl::StatusOr<Principal> Authenticate(const CallCredentials& credentials) const override;

  // Null if there is no such file. They live as long as this.
  Reloadable* tokens() { return options_.token_file.empty() ? nullptr : &token_part_; }
  Reloadable* keys() { return options_.jwks_file.empty() ? nullptr : &key_part_; }

  // JWTs whose signature is known to be good. They are checked anew when the keys change.
  static constexpr size_t kMostKnown = 4096;

 private:
  class Part final : public Reloadable {
   public:
    using Read = std::function<absl::StatusOr<bool>(RestingFile& resting, bool is_asked)>;
    using Note = std::function<std::string()>;
    Part(Read read, Note note) : read_(std::move(read)), note_(std::move(note)) {}
    std::string note() const override { return note_(); }
    absl::StatusOr<bool> Reload() override { return read_(resting_, /*is_asked=*/true); }
    absl::StatusOr<bool> Look() override { return read_(resting_, /*is_asked=*/false); }
    bool is_at_rest() const override { return resting_.is_at_rest(); }

   private:
    RestingFile resting_;  // Used by one thread at a time.
    const Read read_;
    const Note note_;
  };

  FileAuthenticator(Options options, Now now)
      : options_(std::move(options)),
        now_(std::move(now)),
        token_part_(
            [this](RestingFile& resting, bool is_asked) { return ReadTokens(resting, is_asked); },
            [] { return std::string(); }),
        key_part_(
            [this](RestingFile& resting, bool is_asked) { return ReadKeys(resting, is_asked); },
            [this] { return NoteOnKeys(); }) {}

  // The principal of the value of an `authorization` header, with none of a certificate.
  absl::StatusOr<Principal> AuthenticateToken(absl::string_view authorization) const;
  absl::StatusOr<bool> ReadTokens(RestingFile& resting, bool is_asked);
  absl::StatusOr<bool> ReadKeys(RestingFile& resting, bool is_asked);
  absl::StatusOr<Principal> VerifyJwt(const std::string& token) const;
  std::string NoteOnKeys() const;
  std::string Wanted() const;

  const Options options_;
  const Now now_;
  Part token_part_;
  Part key_part_;

  mutable absl::Mutex mutex_;
  std::string token_text_ ABSL_GUARDED_BY(mutex_);
  std::string key_text_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const StaticTokens> static_tokens_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const JwtKeys> jwt_keys_ ABSL_GUARDED_BY(mutex_);
  // By the hash of the token.
  mutable absl::flat_hash_map<std::string, VerifiedJwt> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::security

#endif  // PACKHOUSE_SERVICE_ACCESS_SECURITY_FILE_AUTHENTICATOR_H_
