#include "service/wings/cluster/s3/s3_object_store.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/caller.h"
#include "service/base/digest.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/s3/s3_listing.h"

namespace packhouse {
namespace {

// Of the body of an error.
constexpr size_t kMaxErrorBytes = 4096;
// Of a listing: kMaxListed objects with names of at most 1,024 bytes.
constexpr size_t kMaxListingBytes = size_t{8} << 20;
// Larger pieces cost fewer calls; libcurl takes at most this.
constexpr long kBufferBytes = 512 * 1024;
constexpr size_t kMaxIdle = 32;

// The body of an answer that has none that matters.
constexpr auto kIgnore = [](absl::string_view /*bytes*/) { return absl::OkStatus(); };

// libcurl's one-time initialisation, which must not run twice at once.
absl::Status InitialiseOnce() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code == CURLE_OK) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("libcurl: ", curl_easy_strerror(code)));
}

// Why a proxy of the environment may be the reason, as libcurl finds one.
std::string ByProxy(const std::string& endpoint) {
  if (IsOnThisMachine(endpoint)) return "";
  const bool is_plain = absl::StartsWith(endpoint, "http://");
  for (const char* const name :
       {is_plain ? "http_proxy" : "https_proxy", is_plain ? "http_proxy" : "HTTPS_PROXY",
        "all_proxy", "ALL_PROXY"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    return absl::StrCat("; it goes by the HTTP proxy of the variable ", name,
                        ": no_proxy excepts hosts from it");
  }
  return "";
}

class HeaderList {
 public:
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  ~HeaderList() { curl_slist_free_all(list_); }
  void Add(const std::string& header) {
    curl_slist* const longer = curl_slist_append(list_, header.c_str());
    if (longer != nullptr) list_ = longer;
  }
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

absl::Status StatusOfCode(long code, absl::string_view what, absl::string_view body) {
  const std::string error = ParseS3Error(body);
  const std::string message =
      absl::StrCat(what, ": the store answered ", code, error.empty() ? "" : " ", error);
  switch (code) {
    case 404:
      return absl::NotFoundError(message);
    case 401:
    case 403:
      return absl::PermissionDeniedError(message);
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace

struct S3ObjectStore::Request {
  const char* method;
  std::string key;  // With the store's prefix; empty: the bucket itself.
  std::string query;
  std::string range;
  absl::string_view body;
};

struct S3ObjectStore::Response {
  // Gets the body of a success.
  ObjectSink sink;
  // Only a part was asked for that does not begin at the object's beginning.
  bool needs_part = false;

  // While it is received.
  CURL* handle = nullptr;
  absl::Status refused = absl::OkStatus();
  std::string error_body = {};
  absl::string_view unsent = {};

  // No exception may pass through libcurl.
  static size_t Receive(char* data, size_t size, size_t count, void* self) {
    auto& response = *static_cast<Response*>(self);
    const absl::string_view piece(data, size * count);
    if (!RunWithinMemory([&] { response.refused = response.Take(piece); })) {
      response.refused = OutOfMemory();
    }
    return response.refused.ok() ? piece.size() : 0;
  }

  absl::Status Take(absl::string_view piece) {
    long code = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
    if (code / 100 != 2) {
      const size_t room = kMaxErrorBytes - std::min(kMaxErrorBytes, error_body.size());
      error_body.append(piece.data(), std::min(room, piece.size()));
      return absl::OkStatus();
    }
    if (needs_part && code != 206) {
      return absl::InternalError(
          absl::StrCat("S3: the store answered ", code, " to a request for a part, not 206"));
    }
    return sink(piece);
  }

  static size_t SendPiece(char* into, size_t size, size_t count, void* self) {
    absl::string_view& unsent = static_cast<Response*>(self)->unsent;
    const size_t bytes = std::min(size * count, unsent.size());
    if (bytes != 0) std::memcpy(into, unsent.data(), bytes);
    unsent.remove_prefix(bytes);
    return bytes;
  }

  // libcurl asks now and then, also while nothing comes: at least once a second.
  static int IsToEnd(void* caller, curl_off_t /*to_get*/, curl_off_t /*got*/, curl_off_t /*to_put*/,
                     curl_off_t /*put*/) {
    return static_cast<const Caller*>(caller)->IsGone() ? 1 : 0;
  }

  // libcurl sends a body again, for example on a connection that the store had closed.
  static int Rewind(void* self, curl_off_t offset, int origin) {
    auto& response = *static_cast<Response*>(self);
    if (origin != SEEK_SET || offset < 0 ||
        static_cast<uint64_t>(offset) > response.whole_body.size()) {
      return CURL_SEEKFUNC_FAIL;
    }
    response.unsent = response.whole_body.substr(static_cast<size_t>(offset));
    return CURL_SEEKFUNC_OK;
  }
  absl::string_view whole_body = {};
};

bool IsOnThisMachine(absl::string_view endpoint) {
  if (!absl::ConsumePrefix(&endpoint, "https://")) absl::ConsumePrefix(&endpoint, "http://");
  absl::string_view host = endpoint.substr(0, endpoint.find('/'));
  if (const size_t port = host.rfind(':'); port != absl::string_view::npos && host.back() != ']') {
    host = host.substr(0, port);
  }
  in_addr four = {};
  return host == "localhost" || host == "[::1]" ||
         (::inet_pton(AF_INET, std::string(host).c_str(), &four) == 1 &&
          (ntohl(four.s_addr) >> 24) == IN_LOOPBACKNET);
}

absl::StatusOr<std::unique_ptr<S3ObjectStore>> S3ObjectStore::Create(const Options& options) {
  PH_RETURN_IF_ERROR(InitialiseOnce());
  if (!absl::StartsWith(options.endpoint, "http://") &&
      !absl::StartsWith(options.endpoint, "https://")) {
    return absl::InvalidArgumentError(absl::StrCat("S3: the endpoint '", options.endpoint,
                                                   "' does not begin with http:// or https://"));
  }
  if (options.bucket.empty() || !CheckObjectKey(options.bucket).ok() ||
      absl::StrContains(options.bucket, '/')) {
    return absl::InvalidArgumentError(
        absl::StrCat("S3: the bucket '", options.bucket, "' is not a name of [A-Za-z0-9_.-]"));
  }
  if (!options.prefix.empty()) PH_RETURN_IF_ERROR(CheckObjectKey(options.prefix));
  if (options.region.empty() || !CheckObjectKey(options.region).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("S3: the region '", options.region, "' is not a name"));
  }
  if (!options.current_credentials &&
      (options.credentials.access_key.empty() || options.credentials.secret_key.empty())) {
    return absl::InvalidArgumentError("S3: there are no credentials");
  }
  if (options.clock == nullptr) return absl::InvalidArgumentError("S3: there is no clock");
  Options checked = options;
  checked.endpoint = std::string(absl::StripSuffix(checked.endpoint, "/"));
  return std::unique_ptr<S3ObjectStore>(new S3ObjectStore(std::move(checked)));
}

S3ObjectStore::S3ObjectStore(Options options) : options_(std::move(options)) {
  // GiveBack() must not fail.
  idle_.reserve(kMaxIdle);
}

S3ObjectStore::~S3ObjectStore() {
  for (void* const handle : idle_) curl_easy_cleanup(handle);
}

std::string S3ObjectStore::FullKey(absl::string_view key) const {
  return options_.prefix.empty() ? std::string(key) : absl::StrCat(options_.prefix, "/", key);
}

absl::StatusOr<void*> S3ObjectStore::TakeHandle() {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      void* const handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
  }
  void* const handle = curl_easy_init();
  if (handle == nullptr) return absl::ResourceExhaustedError("libcurl: no memory for a request");
  return handle;
}

void S3ObjectStore::GiveBack(void* handle) {
  curl_easy_reset(handle);  // Keeps the connection.
  {
    absl::MutexLock lock(&mutex_);
    if (idle_.size() < kMaxIdle) {
      idle_.push_back(handle);
      return;
    }
  }
  curl_easy_cleanup(handle);
}

absl::Status S3ObjectStore::Send(const Request& request, Response& response, absl::Time deadline) {
  const std::string what =
      absl::StrCat("S3: ", request.method, " ", options_.bucket, "/", request.key);
  const absl::Duration left = deadline - options_.clock->Now();
  if (left <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError(absl::StrCat(what, ": the time is over"));
  }
  const std::string url =
      absl::StrCat(options_.endpoint, "/", options_.bucket, request.key.empty() ? "" : "/",
                   UriEncoded(request.key, true), request.query.empty() ? "" : "?", request.query);
  const S3Credentials credentials =
      options_.current_credentials ? options_.current_credentials() : options_.credentials;
  const std::string user = absl::StrCat(credentials.access_key, ":", credentials.secret_key);
  const std::string provider = absl::StrCat("aws:amz:", options_.region, ":s3");
  Digest digest;
  digest.AddBytes(request.body);
  HeaderList headers;
  // libcurl 7.88 signs a body that it does not send this header for, and stores refuse it.
  headers.Add(absl::StrCat("x-amz-content-sha256: ", digest.Hex(32)));
  if (!credentials.session_token.empty()) {
    headers.Add(absl::StrCat("x-amz-security-token: ", credentials.session_token));
  }
  // No asking first whether a body may be sent, and no type of it.
  headers.Add("Expect:");
  headers.Add("Content-Type:");

  // From here on nothing fails but libcurl.
  PH_ASSIGN_OR_RETURN(void* const handle, TakeHandle());
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);
  if (IsOnThisMachine(options_.endpoint)) curl_easy_setopt(handle, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(handle, CURLOPT_USERPWD, user.c_str());
  curl_easy_setopt(handle, CURLOPT_AWS_SIGV4, provider.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(handle, CURLOPT_UPLOAD_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(
      handle, CURLOPT_TIMEOUT_MS,
      static_cast<long>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 1, int64_t{1} << 30)));
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1024L);
  curl_easy_setopt(
      handle, CURLOPT_LOW_SPEED_TIME,
      static_cast<long>(std::max<int64_t>(1, absl::ToInt64Seconds(options_.longest_stall))));
  if (!options_.ca_file.empty()) {
    curl_easy_setopt(handle, CURLOPT_CAINFO, options_.ca_file.c_str());
  }
  response.handle = handle;
  response.whole_body = response.unsent = request.body;
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Response::Receive);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &response);
  const absl::string_view method = request.method;
  if (method == "PUT") {
    curl_easy_setopt(handle, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(handle, CURLOPT_INFILESIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(handle, CURLOPT_READFUNCTION, &Response::SendPiece);
    curl_easy_setopt(handle, CURLOPT_READDATA, &response);
    curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, &Response::Rewind);
    curl_easy_setopt(handle, CURLOPT_SEEKDATA, &response);
  } else if (method == "DELETE") {
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, "DELETE");
  }
  if (Caller* const caller = CurrentCaller(); caller != nullptr) {
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &Response::IsToEnd);
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, caller);
  }
  if (!request.range.empty()) curl_easy_setopt(handle, CURLOPT_RANGE, request.range.c_str());

  const CURLcode result = curl_easy_perform(handle);
  long code = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
  GiveBack(handle);
  if (!response.refused.ok()) return response.refused;
  if (result == CURLE_ABORTED_BY_CALLBACK) {
    return absl::CancelledError(absl::StrCat(what, ": the client cancelled or is gone"));
  }
  if (result == CURLE_OPERATION_TIMEDOUT) {
    return absl::DeadlineExceededError(absl::StrCat(what, ": ", curl_easy_strerror(result)));
  }
  if (result != CURLE_OK) {
    return absl::UnavailableError(
        absl::StrCat(what, ": ", curl_easy_strerror(result), ByProxy(options_.endpoint)));
  }
  if (code / 100 == 2) return absl::OkStatus();
  if (code == 416) return absl::OkStatus();  // Nothing of the range is there.
  return StatusOfCode(code, what, response.error_body);
}

absl::Status S3ObjectStore::Put(absl::string_view key, absl::string_view bytes,
                                absl::Time deadline) {
  PH_RETURN_IF_ERROR(CheckObjectKey(key));
  if (bytes.size() > kMaxObjectBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("object '", key, "': ", bytes.size(), " bytes, at most ", kMaxObjectBytes));
  }
  Response response = {kIgnore};
  return Send({"PUT", FullKey(key), "", "", bytes}, response, deadline);
}

absl::Status S3ObjectStore::Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                                absl::Time deadline) {
  PH_RETURN_IF_ERROR(CheckObjectKey(key));
  Request request = {"GET", FullKey(key), "", "", ""};
  if (!range.is_whole()) {
    // A range of no bytes cannot be said; one is asked for and left out.
    const uint64_t last = std::max(range.end, range.begin + 1) - 1;
    request.range = range.end == ByteRange().end ? absl::StrCat(range.begin, "-")
                                                 : absl::StrCat(range.begin, "-", last);
  }
  uint64_t room = range.end - std::min(range.begin, range.end);
  const auto within = [&](absl::string_view piece) -> absl::Status {
    piece = piece.substr(0, std::min<uint64_t>(room, piece.size()));
    room -= piece.size();
    return piece.empty() ? absl::OkStatus() : sink(piece);
  };
  Response response = {within};
  response.needs_part = range.begin != 0;
  return Send(request, response, deadline);
}

absl::StatusOr<ObjectList> S3ObjectStore::List(absl::string_view prefix, absl::string_view after,
                                               size_t limit, absl::Time deadline) {
  PH_RETURN_IF_ERROR(CheckObjectPrefix(prefix));
  if (!after.empty()) PH_RETURN_IF_ERROR(CheckObjectPrefix(after));
  const size_t bound = limit == 0 ? kMaxListed : std::min(limit, kMaxListed);
  std::vector<std::pair<std::string, std::string>> parameters = {
      {"list-type", "2"}, {"max-keys", absl::StrCat(bound)}, {"prefix", FullKey(prefix)}};
  if (!after.empty()) parameters.emplace_back("start-after", FullKey(after));
  std::string xml;
  const auto sink = [&](absl::string_view piece) -> absl::Status {
    if (piece.size() > kMaxListingBytes - xml.size()) {
      return absl::InternalError(
          absl::StrCat("S3: a listing of more than ", kMaxListingBytes, " bytes"));
    }
    xml.append(piece.data(), piece.size());
    return absl::OkStatus();
  };
  Response response = {sink};
  PH_RETURN_IF_ERROR(
      Send({"GET", "", SortedQuery(std::move(parameters)), "", ""}, response, deadline));
  PH_ASSIGN_OR_RETURN(ObjectList list, ParseListing(xml));
  const std::string begin = FullKey(prefix);
  const size_t num_own = FullKey("").size();
  for (ObjectInfo& object : list.objects) {
    if (!absl::StartsWith(object.key, begin)) {
      return absl::InternalError("S3: a listing of keys that do not begin as asked for");
    }
    object.key.erase(0, num_own);
    // Who goes on behind the last one would never end.
    if (!after.empty() && object.key <= after) {
      return absl::InternalError("S3: a listing of keys that do not come after the one asked for");
    }
  }
  return list;
}

absl::Status S3ObjectStore::Delete(absl::string_view key, absl::Time deadline) {
  PH_RETURN_IF_ERROR(CheckObjectKey(key));
  Response response = {kIgnore};
  const absl::Status status = Send({"DELETE", FullKey(key), "", "", ""}, response, deadline);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace packhouse
