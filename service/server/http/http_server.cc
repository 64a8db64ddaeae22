#include "service/server/http/http_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "service/base/listening_sockets.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/base/steady_waits.h"
#include "service/server/http/host_port.h"
#include "service/server/http/own_page.h"
#include "service/server/http/tls_sessions.h"

namespace packhouse::http {
namespace {

// The most connections that were told to close and have not closed yet: more than are accepted at a
// time.
constexpr unsigned kClosing = 64;

struct ResponseEnd {
  void operator()(MHD_Response* response) const { MHD_destroy_response(response); }
};
using Response = std::unique_ptr<MHD_Response, ResponseEnd>;

Response ToResponse(const Page& page) {
  // The library does not write to it, and copies it.
  Response response(MHD_create_response_from_buffer(
      page.body.size(), const_cast<char*>(page.body.data()), MHD_RESPMEM_MUST_COPY));
  if (response == nullptr) return nullptr;
  MHD_add_response_header(response.get(), "Content-Type", page.type.c_str());
  bool says_how_to_keep = false;
  for (const auto& [name, value] : page.headers) {
    says_how_to_keep |= name == "Cache-Control";
    MHD_add_response_header(response.get(), name.c_str(), value.c_str());
  }
  if (!says_how_to_keep) MHD_add_response_header(response.get(), "Cache-Control", "no-store");
  return response;
}

// TLS 1.2 and 1.3, as gRPC's port. TlsSessions looks at what a client's key may be used for, and
// says so; GnuTLS by itself would close the connection.
constexpr const char* kTlsVersions =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%DEBUG_ALLOW_KEY_USAGE_VIOLATIONS";

// What is known of a request before its head is complete.
struct Begun {
  std::string query;
  bool has_head = false;
  bool has_too_many_arguments = false;
};

// The library takes some 60 bytes of the connection's memory for each argument of a query, and
// closes the connection without a word when there are none left. No page has as many as this.
constexpr size_t kMostArguments = 64;

// The address without the port. An IPv4 address is the same whether it came by IPv4 or IPv6.
std::string HostOf(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(address);
    return std::string(reinterpret_cast<const char*>(&ipv4->sin_addr), sizeof(ipv4->sin_addr));
  }
  if (address->sa_family != AF_INET6) return "";
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  const std::string bytes(reinterpret_cast<const char*>(&ipv6), sizeof(ipv6));
  return IN6_IS_ADDR_V4MAPPED(&ipv6) ? bytes.substr(12) : bytes;
}

// For people; an IPv4 address is the same whether it came by IPv4 or IPv6.
std::string AddressOf(const sockaddr* address) {
  const std::string host = HostOf(address);
  char text[INET6_ADDRSTRLEN] = "";
  if (host.empty() || ::inet_ntop(host.size() == sizeof(in_addr) ? AF_INET : AF_INET6, host.data(),
                                  text, sizeof(text)) == nullptr) {
    return "";
  }
  return text;
}

}  // namespace

// What the server's thread runs, with all data that only it touches. The library calls back on this
// thread.
class HttpServer::Loop {
 public:
  Loop(std::vector<Route> routes, const HttpBounds& bounds, HttpSecurity security,
       ListeningSockets listeners)
      : bounds_(bounds),
        security_(std::move(security)),
        own_page_(security_.names),
        listeners_(std::move(listeners)) {
    for (Route& route : routes) pages_.push_back({std::move(route), nullptr});
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() {
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
    if (stop_ >= 0) ::close(stop_);
  }

  absl::Status Open() {
    stop_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    not_found_ = ToResponse({404, Page().type, "no such page\n"});
    not_allowed_ = ToResponse({405, Page().type, "GET and HEAD only\n"});
    too_long_ = ToResponse({MHD_HTTP_URI_TOO_LONG, Page().type,
                            absl::StrCat("a query has at most ", kMostArguments, " arguments\n")});
    if (stop_ < 0 || not_found_ == nullptr || not_allowed_ == nullptr || too_long_ == nullptr) {
      return absl::ResourceExhaustedError("no file descriptor or memory for HTTP");
    }
    MHD_add_response_header(not_allowed_.get(), "Allow", "GET, HEAD");
    std::vector<MHD_OptionItem> of_tls;
    if (security_.tls) {
      absl::StatusOr<std::unique_ptr<TlsSessions>> tls = TlsSessions::Open(security_.tls);
      if (!tls.ok()) {
        return absl::Status(tls.status().code(),
                            absl::StrCat("TLS of the HTTP port: ", tls.status().message()));
      }
      tls_ = *std::move(tls);
      const auto option = [&of_tls](MHD_OPTION name, const void* value) {
        of_tls.push_back({name, 0, const_cast<void*>(value)});
      };
      option(MHD_OPTION_HTTPS_CERT_CALLBACK,
             reinterpret_cast<const void*>(&TlsSessions::ChooseCertificate));
      option(MHD_OPTION_HTTPS_PRIORITIES, kTlsVersions);
      // Clients are asked for a certificate; who shows none may still show a token.
      if (!tls_->client_ca().empty()) {
        option(MHD_OPTION_HTTPS_MEM_TRUST, tls_->client_ca().c_str());
      }
    }
    of_tls.push_back({MHD_OPTION_END, 0, nullptr});
    daemon_ = MHD_start_daemon(
        (tls_ == nullptr ? MHD_USE_EPOLL | MHD_USE_TURBO : MHD_USE_EPOLL | MHD_USE_TLS) |
            MHD_USE_NO_LISTEN_SOCKET,
        0, nullptr, nullptr, &Loop::OnRequest, this, MHD_OPTION_ARRAY, of_tls.data(),
        MHD_OPTION_URI_LOG_CALLBACK, &Loop::OnTarget, nullptr, MHD_OPTION_CONNECTION_LIMIT,
        static_cast<unsigned>(bounds_.max_connections) + kClosing,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, bounds_.connection_bytes, MHD_OPTION_NOTIFY_CONNECTION,
        &Loop::OnConnection, this, MHD_OPTION_NOTIFY_COMPLETED, &Loop::OnAnswered, this,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 0, MHD_OPTION_END);
    if (daemon_ == nullptr) return absl::UnavailableError("the HTTP library does not start");
    return absl::OkStatus();
  }

  void Run() {
    if (tls_ != nullptr) tls_->UseOnThisThread();
    const int events = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    std::vector<pollfd> polled = {{stop_, POLLIN, 0}, {events, POLLIN, 0}};
    for (const int listener : listeners_.sockets()) polled.push_back({listener, POLLIN, 0});
    while (true) {
      ::poll(polled.data(), polled.size(), PollMilliseconds());
      if (polled[0].revents != 0) return;
      // A rendered page may be older than a request that comes now.
      for (Rendered& page : pages_) page.response.reset();
      for (size_t i = 2; i < polled.size(); ++i) {
        if (polled[i].revents != 0) AcceptFrom(polled[i].fd);
      }
      MHD_run(daemon_);
      CloseExpired();
    }
  }

  // Any thread may call it.
  void Stop() const {
    const uint64_t one = 1;
    // Writing to an eventfd does not fail; if it did, nothing could be done.
    [[maybe_unused]] const ssize_t written = ::write(stop_, &one, sizeof(one));
  }

 private:
  // Of the connections that wait there, as many as are served before the others have their turn.
  static constexpr int kAcceptedAtOnce = 16;

  void AcceptFrom(int listener) {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      sockaddr_storage client = {};
      socklen_t size = sizeof(client);
      const int accepted = ::accept4(listener, reinterpret_cast<sockaddr*>(&client), &size,
                                     SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (accepted < 0) {
        // No descriptor is left, for instance: the others go on, and this one is not asked at once.
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
          Pause(absl::Milliseconds(10));
        }
        return;
      }
      // From here on the library closes it, if it has no room too.
      MHD_add_connection(daemon_, accepted, reinterpret_cast<const sockaddr*>(&client), size);
    }
  }

  struct Rendered {
    Route route;
    Response response;
    int status = 0;
  };
  // Connections of each address that has any.
  using Hosts = std::map<std::string, size_t>;
  struct Connection {
    int fd = -1;
    Hosts::iterator host;
    absl::Time since;  // When it was accepted or last answered.
    absl::Time expires;
  };
  using Connections = std::vector<std::unique_ptr<Connection>>;

  static void OnConnection(void* self, MHD_Connection* connection, void** context,
                           MHD_ConnectionNotificationCode code) {
    auto* const loop = static_cast<Loop*>(self);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      *context = nullptr;
      RunWithinMemory([&] { *context = loop->Add(connection); });
      if (*context == nullptr) {
        ::shutdown(
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
            SHUT_RDWR);
      }
    } else {
      loop->Remove(static_cast<Connection*>(*context));
    }
  }

  // Called for each request as soon as its target is known: "/path?query".
  static void* OnTarget(void* /*nothing*/, const char* target, MHD_Connection* /*connection*/) {
    Begun* begun = nullptr;
    RunWithinMemory([&] {
      auto made = std::make_unique<Begun>();
      const absl::string_view text = target;
      if (const size_t mark = text.find('?'); mark != absl::string_view::npos) {
        made->query = std::string(text.substr(mark + 1));
        if (std::count(made->query.begin(), made->query.end(), '&') >=
            static_cast<std::ptrdiff_t>(kMostArguments)) {
          made->has_too_many_arguments = true;
          // It is the library's buffer, and what it reads the arguments from next: there are none.
          const_cast<char*>(target)[mark + 1] = '\0';
        }
      }
      begun = made.release();
    });
    return begun;
  }

  static void OnAnswered(void* self, MHD_Connection* connection, void** request,
                         MHD_RequestTerminationCode code) {
    delete static_cast<Begun*>(std::exchange(*request, nullptr));
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK) return;
    auto* const known = static_cast<Connection*>(
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
    if (known == nullptr) return;
    known->since = SteadyTime();
    known->expires = known->since + static_cast<Loop*>(self)->bounds_.keep_alive;
  }

  // Called when the head has come, for each piece of a body, and at the end.
  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* path,
                              const char* method, const char* /*version*/, const char* /*body*/,
                              size_t* body_bytes, void** request) {
    auto* const loop = static_cast<Loop*>(self);
    const absl::string_view name = method;
    // An answer before the end of the request closes the connection: no body is read.
    if (name != "GET" && name != "HEAD") {
      return MHD_queue_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, loop->not_allowed_.get());
    }
    auto* const begun = static_cast<Begun*>(*request);
    if (begun == nullptr) return MHD_NO;
    if (!std::exchange(begun->has_head, true) || *body_bytes != 0) {
      *body_bytes = 0;
      return MHD_YES;
    }
    if (begun->has_too_many_arguments) {
      return MHD_queue_response(connection, MHD_HTTP_URI_TOO_LONG, loop->too_long_.get());
    }
    MHD_Result answered = MHD_NO;
    RunWithinMemory([&] {
      answered = loop->Answer(connection, {path, std::move(begun->query), "", ""});
    });
    return answered;
  }

  static MHD_Result Send(MHD_Connection* connection, const Page& page) {
    const Response response = ToResponse(page);
    if (response == nullptr) return MHD_NO;
    return MHD_queue_response(connection, static_cast<unsigned>(page.status), response.get());
  }

  static const char* HeaderOf(MHD_Connection* connection, const char* name) {
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  }

  // Empty if there is none.
  static std::string ValueOf(MHD_Connection* connection, const char* name) {
    const char* const value = HeaderOf(connection, name);
    return value == nullptr ? "" : value;
  }

  // Whether the client takes the type; one that it does not name, or that it likes least (q=0), it
  // does not take.
  static bool Accepts(MHD_Connection* connection, const std::string& type) {
    if (type.empty()) return true;
    for (absl::string_view each : absl::StrSplit(ValueOf(connection, "Accept"), ',')) {
      const std::vector<absl::string_view> words = absl::StrSplit(each, ';');
      if (absl::StripAsciiWhitespace(words[0]) != type) continue;
      const auto is_nothing = [](absl::string_view word) {
        double share = 1;
        word = absl::StripAsciiWhitespace(word);
        return absl::ConsumePrefix(&word, "q=") && absl::SimpleAtod(word, &share) && share == 0;
      };
      return std::none_of(words.begin() + 1, words.end(), is_nothing);
    }
    return false;
  }

  // The one place that decides who a request comes from, and whether it is let in.
  Admission Admit(MHD_Connection* connection, const Request& request) {
    Caller caller;
    caller.address = AddressOf(
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
    if (tls_ != nullptr) {
      const MHD_ConnectionInfo* const session =
          MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
      absl::StatusOr<std::optional<std::vector<std::string>>> names =
          session == nullptr ? std::nullopt
                             : tls_->NamesOf(static_cast<gnutls_session_t>(session->tls_session));
      if (!names.ok()) return {MHD_HTTP_UNAUTHORIZED, "", std::string(names.status().message())};
      caller.has_certificate = names->has_value();
      if (names->has_value()) caller.certificate_names = *std::move(*names);
    }
    return security_.admit(caller, request);
  }

  MHD_Result Answer(MHD_Connection* connection, Request request) {
    request.authorization = ValueOf(connection, "Authorization");
    const auto page = std::find_if(pages_.begin(), pages_.end(), [&](const Rendered& each) {
      return each.route.path == request.path && Accepts(connection, each.route.accepts);
    });
    if (security_.admit && (page == pages_.end() || !page->route.is_free)) {
      Admission admission = Admit(connection, request);
      if (admission.status != MHD_HTTP_OK) {
        Page refusal = {admission.status, Page().type, absl::StrCat(admission.why_not, "\n")};
        if (admission.status == MHD_HTTP_UNAUTHORIZED) {
          refusal.headers = {{"WWW-Authenticate", "Bearer"}};
        }
        return Send(connection, refusal);
      }
      request.principal = std::move(admission.principal);
    }
    if (page == pages_.end()) {
      return MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, not_found_.get());
    }
    if (page->route.is_for_own_page) {
      // No other site has what a known principal has shown, or a certificate for its name that
      // leads here.
      const std::string why_not =
          own_page_.WhyNot({ValueOf(connection, "Host"), ValueOf(connection, "Origin"),
                            ValueOf(connection, "Sec-Fetch-Site")},
                           /*is_proven=*/tls_ != nullptr || !request.principal.empty());
      if (!why_not.empty()) {
        return Send(connection, {MHD_HTTP_FORBIDDEN, Page().type, absl::StrCat(why_not, "\n")});
      }
    }
    if (page->route.answer) return Send(connection, page->route.answer(request));
    if (page->response == nullptr) {
      RunWithinMemory([&] {
        const Page rendered = page->route.render();
        page->response = ToResponse(rendered);
        page->status = rendered.status;
      });
    }
    // MHD_NO closes the connection.
    if (page->response == nullptr) return MHD_NO;
    return MHD_queue_response(connection, static_cast<unsigned>(page->status),
                              page->response.get());
  }

  Connection* Add(MHD_Connection* connection) {
    const absl::Time now = SteadyTime();
    auto added = std::make_unique<Connection>();
    added->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    const sockaddr* const client =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    connections_.reserve(connections_.size() + 1);
    closing_.reserve(closing_.size() + 1);
    added->host = hosts_.try_emplace(HostOf(client), 0).first;
    ++added->host->second;
    added->since = now;
    added->expires = now + bounds_.first_answer;
    // From here on nothing takes memory.
    MakeRoomFor(*added);
    connections_.push_back(std::move(added));
    return connections_.back().get();
  }

  void MakeRoomFor(const Connection& newcomer) {
    if (newcomer.host->second > bounds_.max_connections_per_address) {
      CloseOldest([&](const Connection& each) { return each.host == newcomer.host; });
    } else if (connections_.size() >= bounds_.max_connections) {
      size_t most = 0;
      for (const auto& [_, count] : hosts_) most = std::max(most, count);
      CloseOldest([&](const Connection& each) { return each.host->second == most; });
    }
  }

  void CloseOldest(absl::FunctionRef<bool(const Connection&)> among) {
    const auto none = connections_.end();
    auto oldest = none;
    for (auto each = connections_.begin(); each != none; ++each) {
      if (!among(**each)) continue;
      if (oldest == none || (*each)->since < (*oldest)->since) oldest = each;
    }
    if (oldest != none) Close(oldest);
  }

  // The library will see the end of the connection and let go of it soon. From now on it does not
  // count.
  void Close(Connections::iterator connection) {
    ::shutdown((*connection)->fd, SHUT_RDWR);
    closing_.push_back(Take(connection));
  }

  std::unique_ptr<Connection> Take(Connections::iterator connection) {
    std::unique_ptr<Connection> taken = std::move(*connection);
    if (--taken->host->second == 0) hosts_.erase(taken->host);
    // The last connection takes its place.
    if (connection != connections_.end() - 1) *connection = std::move(connections_.back());
    connections_.pop_back();
    return taken;
  }

  void Remove(const Connection* connection) {
    const auto is_it = [&](const auto& each) { return each.get() == connection; };
    if (std::erase_if(closing_, is_it) != 0) return;
    const auto found = std::find_if(connections_.begin(), connections_.end(), is_it);
    if (found != connections_.end()) Take(found);
  }

  void CloseExpired() {
    const absl::Time now = SteadyTime();
    for (size_t i = connections_.size(); i-- > 0;) {
      if (connections_[i]->expires <= now) {
        Close(connections_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  // Milliseconds until something is due; -1 for never.
  int PollMilliseconds() const {
    const absl::Time now = SteadyTime();
    std::optional<int64_t> least;
    for (const auto& each : connections_) {
      const int64_t left =
          absl::ToInt64Milliseconds(absl::Ceil(each->expires - now, absl::Milliseconds(1)));
      least = std::max<int64_t>(0, std::min(least.value_or(left), left));
    }
    MHD_UNSIGNED_LONG_LONG of_library = 0;
    if (MHD_get_timeout(daemon_, &of_library) == MHD_YES) {
      const auto left = static_cast<int64_t>(
          std::min<MHD_UNSIGNED_LONG_LONG>(of_library, std::numeric_limits<int>::max()));
      least = std::min(least.value_or(left), left);
    }
    return static_cast<int>(std::min<int64_t>(least.value_or(-1), std::numeric_limits<int>::max()));
  }

  const HttpBounds bounds_;
  const HttpSecurity security_;
  const OwnPage own_page_;
  const ListeningSockets listeners_;
  std::unique_ptr<TlsSessions> tls_;  // Null: plain text.
  std::vector<Rendered> pages_;
  Response not_found_;
  Response not_allowed_;
  Response too_long_;
  int stop_ = -1;
  MHD_Daemon* daemon_ = nullptr;
  // Connections that are served, and those that the library has not let go of yet. They are few, so
  // a linear search is fine.
  Connections connections_;
  Connections closing_;
  Hosts hosts_;  // Of connections_.
};

HttpServer::HttpServer(std::string address, std::unique_ptr<Loop> loop)
    : address_(std::move(address)), loop_(std::move(loop)), thread_([this] { loop_->Run(); }) {}

HttpServer::~HttpServer() { loop_->Stop(); }

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              std::vector<Route> routes,
                                                              const HttpBounds& bounds,
                                                              HttpSecurity security) {
  const absl::StatusOr<HostPort> host_port = ParseHostPort(address);
  if (!host_port.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is not host:port: ", host_port.status().message()));
  }
  absl::StatusOr<ListeningSockets> listeners = ListeningSockets::Open(address);
  if (!listeners.ok()) {
    return absl::Status(listeners.status().code(),
                        absl::StrCat("HTTP: ", listeners.status().message()));
  }
  const std::string actual = listeners->address();
  auto loop =
      std::make_unique<Loop>(std::move(routes), bounds, std::move(security), *std::move(listeners));
  PH_RETURN_IF_ERROR(loop->Open());
  return std::unique_ptr<HttpServer>(new HttpServer(actual, std::move(loop)));
}

}  // namespace packhouse::http
