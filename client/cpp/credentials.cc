#include "client/cpp/credentials.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace packhouse::client {
namespace {

constexpr std::pair<absl::string_view, const char*> kVariables[] = {
    {"tls", "PACKHOUSE_TLS"},
    {"tls_ca", "PACKHOUSE_TLS_CA"},
    {"tls_cert", "PACKHOUSE_TLS_CERT"},
    {"tls_key", "PACKHOUSE_TLS_KEY"},
    {"tls_server_name", "PACKHOUSE_TLS_SERVER_NAME"},
    {"token", "PACKHOUSE_TOKEN"},
    {"token_file", "PACKHOUSE_TOKEN_FILE"}};

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

using Texts = std::map<std::string, std::string, std::less<>>;

absl::StatusOr<std::string> BytesOf(const char* field, const std::string& path) {
  if (path.empty()) return std::string();
  const auto unreadable = [&](int error) {
    const std::string why =
        absl::StrCat(path, ": ", field, ": cannot read it: ", std::strerror(error));
    // The code that the Python client's command gives it.
    if (error == ENOENT) return absl::NotFoundError(why);
    if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(why);
    if (error == EISDIR || error == ENOTDIR) return absl::FailedPreconditionError(why);
    return absl::UnknownError(why);
  };
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return unreadable(errno);
  // An iterator would throw where reading fails, as of a folder.
  std::string bytes;
  std::array<char, 4096> block;
  do {
    file.read(block.data(), block.size());
    bytes.append(block.data(), static_cast<size_t>(file.gcount()));
  } while (file);
  if (file.bad()) return unreadable(errno);
  return bytes;
}

// The token in a text, without blanks and line ends around it. gRPC would print a header that it
// cannot send, so such a token does not get there. Errors begin with `where` and do not show it.
absl::StatusOr<std::string> TokenOf(absl::string_view where, absl::string_view text) {
  absl::string_view token = absl::StripPrefix(text, kByteOrderMark);
  token = absl::StripAsciiWhitespace(token);
  if (token.empty()) return absl::InvalidArgumentError(absl::StrCat(where, " is empty"));
  const auto* const bad = absl::c_find_if(
      token, [](char c) { return !absl::ascii_isgraph(static_cast<unsigned char>(c)); });
  if (bad == token.end()) return std::string(token);
  const auto line = 1 + std::count(text.begin(), bad, '\n');
  const bool is_blank = absl::ascii_isspace(static_cast<unsigned char>(*bad));
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": line ", line, ": ",
                   is_blank ? "more follows the token, and there must be one only"
                            : "a token has a byte that is no printable ASCII character"));
}

absl::StatusOr<std::string> TokenIn(const std::string& path) {
  absl::StatusOr<std::string> text = BytesOf("token_file", path);
  if (!text.ok()) return text;
  return TokenOf(absl::StrCat("token_file: '", path, "'"), *text);
}

// Calls the server with the token, or the token that the file has now.
class TokenPlugin final : public grpc::MetadataCredentialsPlugin {
 public:
  TokenPlugin(std::string token, std::string path)
      : token_(std::move(token)), path_(std::move(path)) {}

  bool IsBlocking() const override { return !path_.empty(); }
  const char* GetType() const override { return "packhouse"; }
  grpc::Status GetMetadata(grpc::string_ref /*service*/, grpc::string_ref /*method*/,
                           const grpc::AuthContext& /*context*/,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    const absl::StatusOr<std::string> token = path_.empty() ? token_ : TokenIn(path_);
    if (!token.ok()) {
      return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(token.status().message()));
    }
    metadata->emplace("authorization", absl::StrCat("Bearer ", *token));
    return grpc::Status::OK;
  }
  // Without the token.
  grpc::string DebugString() override { return "packhouse's bearer token"; }

 private:
  const std::string token_;
  const std::string path_;
};

absl::Status ReadFile(const std::string& path, Texts& texts) {
  const absl::StatusOr<std::string> text = BytesOf("PACKHOUSE_CONFIG", path);
  if (!text.ok()) return text.status();
  int number = 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(parts.first);
    bool is_known = absl::StrContains(line, '=');
    if (is_known) {
      is_known = false;
      for (const auto& [known, _] : kVariables) is_known |= known == name;
    }
    if (!is_known ||
        !texts.emplace(name, std::string(absl::StripAsciiWhitespace(parts.second))).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": line ", number,
          is_known ? ": the name is there twice"
                   : ": no NAME = VALUE with a name of tls, tls_ca, tls_cert, tls_key, "
                     "tls_server_name, token, token_file"));
    }
    if (name == "token" && !texts["token"].empty()) {
      absl::StatusOr<std::string> token =
          TokenOf(absl::StrCat(path, ": line ", number, ": token"), texts["token"]);
      if (!token.ok()) return token.status();
      texts["token"] = *std::move(token);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<std::string> VariableOfProcess(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

absl::StatusOr<Credentials> CredentialsFromEnvironment(const Variables& variables) {
  Texts texts;
  if (const auto named = variables("PACKHOUSE_CONFIG")) {
    if (!named->empty()) {
      if (const absl::Status read = ReadFile(*named, texts); !read.ok()) return read;
    }
  } else {
    const auto folder = variables("XDG_CONFIG_HOME");
    const std::string path =
        absl::StrCat(folder && !folder->empty()
                         ? *folder
                         : absl::StrCat(variables("HOME").value_or("/nonexistent"), "/.config"),
                     "/packhouse/client.conf");
    if (std::ifstream(path).is_open()) {
      if (const absl::Status read = ReadFile(path, texts); !read.ok()) return read;
    }
  }
  std::map<absl::string_view, bool> is_set;
  for (const auto& [name, variable] : kVariables) {
    if (const auto value = variables(variable)) {
      is_set[name] = true;
      texts[std::string(name)] = *value;
      if (name != "token" || value->empty()) continue;
      absl::StatusOr<std::string> token = TokenOf(variable, *value);
      if (!token.ok()) return token.status();
      texts["token"] = *std::move(token);
    }
  }
  // A token of one kind replaces the file's of the other.
  if (is_set["token"] && !is_set["token_file"]) texts.erase("token_file");
  if (is_set["token_file"] && !is_set["token"]) texts.erase("token");
  const std::string tls = absl::AsciiStrToLower(texts["tls"]);
  const bool is_on = tls == "1" || tls == "true" || tls == "yes";
  if (!is_on && !tls.empty() && tls != "0" && tls != "false" && tls != "no") {
    return absl::InvalidArgumentError(
        absl::StrCat("PACKHOUSE_TLS: '", tls, "' is neither 1 nor 0"));
  }
  return Credentials{is_on,
                     texts["tls_ca"],
                     texts["tls_cert"],
                     texts["tls_key"],
                     texts["tls_server_name"],
                     texts["token"],
                     texts["token_file"]};
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ToGrpc(const Credentials& credentials) {
  if (credentials.is_plain()) return grpc::InsecureChannelCredentials();
  if (credentials.tls_cert.empty() != credentials.tls_key.empty()) {
    return absl::InvalidArgumentError("tls_cert and tls_key: one needs the other");
  }
  const bool has_token = !credentials.token.empty() || !credentials.token_file.empty();
  if (!credentials.token.empty() && !credentials.token_file.empty()) {
    return absl::InvalidArgumentError("token and token_file: only one may be given");
  }
  if (has_token && !credentials.tls && credentials.tls_ca.empty() && credentials.tls_cert.empty()) {
    return absl::InvalidArgumentError(
        "a token is sent over TLS only: give tls_ca, the CA of the server's certificate, or tls "
        "for "
        "those of the system");
  }
  grpc::SslCredentialsOptions options;
  for (const auto& [field, path, bytes] :
       {std::tuple("tls_ca", &credentials.tls_ca, &options.pem_root_certs),
        std::tuple("tls_cert", &credentials.tls_cert, &options.pem_cert_chain),
        std::tuple("tls_key", &credentials.tls_key, &options.pem_private_key)}) {
    absl::StatusOr<std::string> read = BytesOf(field, *path);
    if (!read.ok()) return read.status();
    *bytes = *std::move(read);
  }
  std::shared_ptr<grpc::ChannelCredentials> channel = grpc::SslCredentials(options);
  if (!has_token) return channel;
  const absl::StatusOr<std::string> token = credentials.token_file.empty()
                                                ? TokenOf("token", credentials.token)
                                                : TokenIn(credentials.token_file);
  if (!token.ok()) return token.status();
  return grpc::CompositeChannelCredentials(
      channel, grpc::MetadataCredentialsFromPlugin(std::make_unique<TokenPlugin>(
                   credentials.token_file.empty() ? *token : "", credentials.token_file)));
}

namespace {

// Of one side by the other; empty: none.
absl::string_view RefusalOf(absl::string_view details) {
  const std::string words = absl::StrReplaceAll(absl::AsciiStrToLower(details), {{"_", " "}});
  for (const auto& [part, meaning] :
       {std::pair("certificate verify failed",
                  ": this client refuses the server's certificate, which none of its CAs (tls_ca) "
                  "signed"),
        std::pair("is not in peer certificate",
                  ": this client refuses the server's certificate, which is for another name "
                  "(tls_server_name)"),
        std::pair("wrong version number",
                  ": this client wants TLS, and the server speaks plain text"),
        std::pair("certificate required",
                  ": the server wants a certificate of the client (tls_cert, tls_key)"),
        std::pair("bad certificate", ": the server refuses this client's certificate (tls_cert)"),
        std::pair("unknown ca",
                  ": the server refuses this client's certificate (tls_cert), which "
                  "none of its CAs signed")}) {
    if (absl::StrContains(words, part)) return meaning;
  }
  return "";
}

}  // namespace

absl::string_view MeaningOf(absl::string_view details) {
  if (const absl::string_view refusal = RefusalOf(details); !refusal.empty()) return refusal;
  const std::string words = absl::AsciiStrToLower(details);
  if (absl::StrContains(words, "socket closed") || absl::StrContains(words, "connection reset")) {
    return ": the server closes the connection: it may want TLS (tls_ca), or a certificate of the "
           "client that its CA has signed (tls_cert, tls_key)";
  }
  return "";
}

bool MeansRefusal(absl::string_view details) { return !RefusalOf(details).empty(); }

}  // namespace packhouse::client
