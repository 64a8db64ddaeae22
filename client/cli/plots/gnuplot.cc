#include "client/cli/plots/gnuplot.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

class TemporaryFile {
 public:
  explicit TemporaryFile(int fd) : fd_(fd) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  const int fd_;
};

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 4096> bytes;
  ssize_t count = 0;
  while ((count = pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(text.size()))) > 0) {
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return text;
}

bool WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), text.size());
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  return lseek(fd, 0, SEEK_SET) == 0;
}

// The tic at factor * 10^exponent. Places are not written as whole numbers, since gnuplot's whole
// numbers have 63 bits.
std::string PowerTic(int factor, int exponent) {
  const double at = factor * std::pow(10.0, exponent);
  return exponent < 0 ? absl::StrFormat("'%.*f' %g", -exponent, at, at)
                      : absl::StrFormat("'%s' %.1f", Grouped(static_cast<uint64_t>(at)), at);
}

}  // namespace

absl::string_view LineColour(std::size_t n) {
  constexpr absl::string_view kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                            "#56b4e9", "#e69f00", "#000000"};
  return kColours[n % std::size(kColours)];
}

absl::string_view PaletteCommands() {
  return "set palette defined (0 '#440154', 1 '#472d7b', 2 '#3b528b', 3 '#2c728e', 4 '#21918c', "
         "5 '#28ae80', 6 '#5ec962', 7 '#addc30', 8 '#fde725')\n";
}

std::string GnuplotQuoted(absl::string_view text) {
  std::string quoted(text);
  std::replace_if(
      quoted.begin(), quoted.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return absl::StrCat("'", absl::StrReplaceAll(quoted, {{"'", "''"}}), "'");
}

absl::StatusOr<std::string> BeginPicture(const Picture& picture) {
  std::string terminal;
  if (absl::EndsWith(picture.path, ".svg")) {
    terminal =
        absl::StrFormat("svg size %d,%d dynamic background '#ffffff' font 'sans,15' noenhanced",
                        picture.width, picture.height);
  } else if (absl::EndsWith(picture.path, ".png")) {
    // fontscale also scales lengths that are measured in characters.
    terminal = absl::StrFormat(
        "pngcairo size %d,%d background '#ffffff' font 'sans,11' fontscale 1.5 linewidth 1.5 "
        "pointscale 1.5 noenhanced",
        picture.width * 3 / 2, picture.height * 3 / 2);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("'", picture.path, "': a picture's name ends in .svg or .png"));
  }
  return absl::StrFormat("set terminal %s\nset multiplot title %s font ',18'\n", terminal,
                         GnuplotQuoted(picture.title));
}

std::string BeginPanel(const Frame& frame, absl::string_view title) {
  std::string script = absl::StrFormat(
      "reset\nset lmargin at screen %g\nset rmargin at screen %g\nset bmargin at screen %g\n"
      "set tmargin at screen %g\n",
      frame.left, frame.right, frame.bottom, frame.top);
  absl::StrAppend(&script, "set tics out nomirror\nset border 3 linecolor rgb '#555555'\n",
                  "set grid linecolor rgb '#e4e4e4' linetype 1\nset grid back\n");
  if (!title.empty()) {
    absl::StrAppendFormat(&script, "set label %s at screen %g, screen %g center font ',15'\n",
                          GnuplotQuoted(title), (frame.left + frame.right) / 2, frame.title);
  }
  return script;
}

std::string ColourBar(const Frame& frame, absl::string_view label) {
  return absl::StrFormat(
      "%sset colorbox user origin screen %g, screen %g size screen 0.012, screen %g\n"
      "set cblabel %s\n",
      PaletteCommands(), frame.right + 0.012, frame.bottom, frame.top - frame.bottom,
      GnuplotQuoted(label));
}

std::string LinearTics(double low, double high) {
  constexpr double kMostTics = 7;
  uint64_t step = 1;
  for (uint64_t decade = 1; (high - low) / static_cast<double>(step) > kMostTics; decade *= 10) {
    for (const uint64_t factor : {1, 2, 5}) {
      step = decade * factor;
      if ((high - low) / static_cast<double>(step) <= kMostTics) break;
    }
  }
  std::vector<std::string> tics;
  for (auto i = static_cast<uint64_t>(std::ceil(std::max(0.0, low) / static_cast<double>(step)));;
       ++i) {
    if (static_cast<double>(i) * static_cast<double>(step) > high) break;
    tics.push_back(absl::StrCat("'", Grouped(i * step), "' ", i * step, ".0"));
  }
  return absl::StrCat("(", absl::StrJoin(tics, ", "), ")");
}

std::string LogarithmicTics(double low, double high) {
  constexpr double kFewDecades = 3;
  const bool dense = std::log10(high / low) < kFewDecades;
  std::vector<std::string> tics;
  // No picture has shares below 10^-9 or counts of 10^19.
  for (int exponent = -9; exponent < 19; ++exponent) {
    for (const int factor : {1, 2, 5}) {
      const double at = factor * std::pow(10.0, exponent);
      // A little slack, since powers below 1 are not exact.
      if ((factor > 1 && !dense) || at < low * (1 - 1e-9) || at > high * (1 + 1e-9)) continue;
      tics.push_back(PowerTic(factor, exponent));
    }
  }
  return absl::StrCat("(", absl::StrJoin(tics, ", "), ")");
}

absl::Status DrawWithGnuplot(absl::string_view script, const std::string& path) {
  // Files in memory rather than pipes: neither side can block the other.
  const TemporaryFile input(memfd_create("gnuplot-script", MFD_CLOEXEC));
  const TemporaryFile errors(memfd_create("gnuplot-errors", MFD_CLOEXEC));
  if (input.get() < 0 || errors.get() < 0 || !WriteAll(input.get(), script)) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a file in memory: ", std::strerror(errno)));
  }
  const TemporaryFile output(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (output.get() < 0) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot write: ", std::strerror(errno)));
  }

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.get(), STDERR_FILENO);
  std::string program = "gnuplot";
  std::array<char*, 2> arguments = {program.data(), nullptr};
  pid_t child = -1;
  const int error =
      posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    unlink(path.c_str());
    return absl::NotFoundError(absl::StrCat("cannot run gnuplot (Debian: gnuplot-nox) to draw '",
                                            path, "': ", std::strerror(error)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const std::string text = ReadAll(errors.get());
  const absl::string_view words = absl::StripAsciiWhitespace(text);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || lseek(output.get(), 0, SEEK_END) == 0) {
    unlink(path.c_str());
    return absl::InternalError(absl::StrCat("gnuplot failed: ", words));
  }
  if (!words.empty()) std::cerr << "gnuplot: " << words << '\n';
  return absl::OkStatus();
}

}  // namespace packhouse::client
