#include "tests/objects/s3_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/clock.h"

namespace packhouse {
namespace {

// A port that nobody has now.
int FreePort() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  int port = 0;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  ::close(listener);
  return port;
}

bool Answers(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool answers =
      ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  ::close(socket);
  return answers;
}

const Clock& RealClock() {
  static const SystemClock clock;
  return clock;
}

}  // namespace

S3Server& S3Server::Shared() {
  static S3Server server;
  return server;
}

S3Server::S3Server(const std::string& certificate, const std::string& key)
    : certificate_(certificate), key_(key) {
#ifdef __SANITIZE_THREAD__
  why_not_ = "libcurl is not built for ThreadSanitizer";
  return;
#endif
  if (::access(PACKHOUSE_S3_SERVER, X_OK) != 0) {
    why_not_ = absl::StrCat("there is no S3 server at ", PACKHOUSE_S3_SERVER,
                            ": tests/objects/install_s3_server.sh could not build it");
    return;
  }
  // Another process may take the port first.
  for (int attempt = 0; attempt < 5; ++attempt) {
    if (TryStart(FreePort())) return;
  }
  why_not_ = "the S3 server does not start";
}

bool S3Server::TryStart(int port) {
  const std::string root = folder_.path() + "/buckets";
  const std::string sidecar = folder_.path() + "/metadata";
  std::filesystem::create_directories(root);
  std::filesystem::create_directories(sidecar);
  const std::string address = absl::StrCat("127.0.0.1:", port);
  std::vector<std::string> words = {PACKHOUSE_S3_SERVER, "--port", address, "--keep-alive",
                                    "--quiet"};
  if (!certificate_.empty()) {
    for (const std::string& word :
         {std::string("--cert"), certificate_, std::string("--key"), key_})
      words.push_back(word);
  }
  // Metadata beside the files, since not every file system has attributes for them.
  for (const std::string& word : {std::string("posix"), std::string("--sidecar"), sidecar, root})
    words.push_back(word);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setenv("ROOT_ACCESS_KEY", kAccessKey, 1);
    ::setenv("ROOT_SECRET_KEY", kSecretKey, 1);
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, STDOUT_FILENO);
    ::dup2(nothing, STDERR_FILENO);
    ::execv(PACKHOUSE_S3_SERVER, arguments.data());
    ::_exit(127);
  }
  if (child < 0) return false;
  for (int i = 0; i < 3000; ++i) {  // Half a minute, on a machine that does much else.
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) return false;
    if (Answers(port)) {
      process_ = child;
      endpoint_ = certificate_.empty() ? absl::StrCat("http://", address)
                                       : absl::StrCat("https://localhost:", port);
      return true;
    }
    ::poll(nullptr, 0, 10);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return false;
}

S3Server::~S3Server() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

std::string S3Server::NewBucket() {
  std::string bucket = absl::StrCat("bucket", ++num_buckets_);
  // To this server a folder is a bucket.
  std::filesystem::create_directories(folder_.path() + "/buckets/" + bucket);
  return bucket;
}

S3ObjectStore::Options S3Server::StoreOptions(const std::string& bucket) {
  S3ObjectStore::Options options;
  options.endpoint = endpoint_;
  options.bucket = bucket;
  options.credentials = {kAccessKey, kSecretKey, ""};
  options.clock = &RealClock();
  return options;
}

std::unique_ptr<S3ObjectStore> S3Server::NewStore(const std::string& prefix, const Clock* clock) {
  if (!is_running()) return nullptr;
  S3ObjectStore::Options options = StoreOptions(NewBucket());
  options.prefix = prefix;
  if (clock != nullptr) options.clock = clock;
  return S3ObjectStore::Create(options).value();
}

}  // namespace packhouse
