#include "service/base/command_line/command_line.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "service/base/command_line/readable.h"
#include "service/base/command_words.h"

namespace packhouse {
namespace {

// What is said of these words, to a program with the commands plan, histogram, pack, hidden, and
// `datasets list` and `datasets delete`.
std::string Said(std::vector<std::string> words) {
  CLI::App app;
  app.require_subcommand(1);
  std::string limit;
  app.add_subcommand("plan")->add_option("--limit", limit)->required();
  app.add_subcommand("histogram");
  app.add_subcommand("pack");
  app.add_subcommand("hidden")->group("");
  CLI::App* const datasets = app.add_subcommand("datasets");
  datasets->require_subcommand(1);
  datasets->add_subcommand("list");
  datasets->add_subcommand("delete");
  // From the last to the first, as CLI11 takes them.
  std::reverse(words.begin(), words.end());
  EXPECT_THROW(app.parse(words), CLI::ParseError);
  return MistypedName(app);
}

TEST(MistypedNameTest, TheNearestCommandIsSuggested) {
  EXPECT_EQ(Said({"plna"}), "there is no command 'plna'; did you mean 'plan'?");
  EXPECT_EQ(Said({"pakc", "--limit", "5"}), "there is no command 'pakc'; did you mean 'pack'?");
  EXPECT_EQ(Said({"histograms"}), "there is no command 'histograms'; did you mean 'histogram'?");
  EXPECT_EQ(Said({"hist"}), "there is no command 'hist'; did you mean 'histogram'?");
  EXPECT_EQ(Said({"datasets", "lst"}),
            "there is no command 'datasets lst'; did you mean 'datasets list'?");
}

TEST(MistypedNameTest, WhereNoneIsNearAllAreNamed) {
  EXPECT_EQ(Said({"frobnicate"}),
            "there is no command 'frobnicate'; there are plan, histogram, pack, datasets");
  EXPECT_EQ(Said({"hiden"}),
            "there is no command 'hiden'; there are plan, histogram, pack, datasets");
  EXPECT_EQ(Said({"datasets", "x"}), "there is no command 'datasets x'; there are list, delete");
}

TEST(MistypedNameTest, OptionsToo) {
  EXPECT_EQ(Said({"plan", "--limt", "5"}), "there is no option '--limt'; did you mean '--limit'?");
  EXPECT_EQ(Said({"plan", "--limits=5"}), "there is no option '--limits'; did you mean '--limit'?");
}

TEST(MistypedNameTest, WhatIsMissingIsNotMistyped) {
  EXPECT_EQ(Said({}), "");
  EXPECT_EQ(Said({"plan"}), "");
  EXPECT_EQ(Said({"datasets"}), "");
  EXPECT_EQ(Said({"plan", "--limit", "5", "--colour"}), "");
}

// What a program with these options has taken.
struct Taken {
  std::string text = "unset";
  std::string number = "unset";
  std::vector<std::string> many;
  bool is_on = false;
  bool is_other = false;
  friend bool operator==(const Taken&, const Taken&) = default;
};

// `--name=` is an empty value, and a switch that is off, wherever it stands: it never takes the
// word behind it.
TEST(EmptyValuesTest, NothingTakesTheNextWord) {
  const auto take = [](std::vector<std::string> words) {
    Taken taken;
    CLI::App app;
    bool is_above = false;
    app.add_flag("--above", is_above);
    CLI::App* const command = app.add_subcommand("do");
    command->add_option("--text", taken.text);
    command->add_option("--number", taken.number);
    command->add_option("--many", taken.many);
    command->add_flag("--on", taken.is_on);
    command->add_flag("--other,!--no-other", taken.is_other);
    words.insert(words.begin(), "do");
    ParseWords(app, words);
    return taken;
  };
  std::vector<std::string> words = {"--text=", "--number=7", "--on=", "--other"};
  std::sort(words.begin(), words.end());
  do {
    EXPECT_EQ(take(words), (Taken{"", "7", {}, false, true})) << absl::StrJoin(words, " ");
  } while (std::next_permutation(words.begin(), words.end()));
  words = {"--text=", "--number=", "--many=", "--on"};
  std::sort(words.begin(), words.end());
  do {
    EXPECT_EQ(take(words), (Taken{"", "", {""}, true, false})) << absl::StrJoin(words, " ");
  } while (std::next_permutation(words.begin(), words.end()));
  EXPECT_EQ(take({"--text", "--other="}), (Taken{"--other=", "unset", {}, false, false}));
  EXPECT_EQ(take({"--no-other=", "--text=a=b"}).text, "a=b");
  EXPECT_THROW(take({"--unknown=", "--on"}), CLI::ParseError);
}

TEST(EmptyValuesTest, WhatIsRequiredIsNotEmpty) {
  CLI::App app;
  std::string dataset;
  app.add_option("--dataset", dataset)->required();
  bool seal = false;
  app.add_flag("--seal", seal);
  CheckRequired(app);
  EXPECT_THROW(ParseWords(app, {"--dataset=", "--seal"}), CLI::ValidationError);
  EXPECT_NO_THROW(ParseWords(app, {"--dataset=x", "--seal"}));
}

TEST(CheckNumbersTest, TheLargestNumberIsNotTakenForOthers) {
  for (const char* const word : {"-1", "-0", "18446744073709551616", "7", "18446744073709551615"}) {
    CLI::App app;
    uint64_t number = 0;
    uint64_t named = 0;
    std::string text;
    CLI::App* const command = app.add_subcommand("plan");
    command->add_option("--number", number);
    command->add_option("--named", named)->type_name("N");
    command->add_option("--text", text);
    CheckNumbers(app);
    const bool is_number = std::string(word) == "7" || std::string(word).back() == '5';
    for (const std::string option : {"--number", "--named"}) {
      try {
        app.parse("plan " + option + "=" + word);
        EXPECT_TRUE(is_number) << word;
      } catch (const CLI::ParseError& error) {
        EXPECT_FALSE(is_number) << word;
        EXPECT_EQ(error.what(), option + ": '" + word +
                                    "' must be a whole number from 0 to 18446744073709551615");
      }
    }
    app.parse(std::string("plan --text=") + word);
    EXPECT_EQ(text, word);
  }
}

// The exit code of a program of these words, and what it says.
std::pair<ExitCode, std::string> Ran(std::vector<std::string> words) {
  CLI::App app;
  ExitCode code = kExitOk;
  uint64_t number = 0;
  CLI::App* const plan = app.add_subcommand("plan");
  plan->add_option("--number", number);
  CLI::App* const datasets = app.add_subcommand("datasets");
  std::string dataset;
  datasets->add_option("dataset", dataset)->required();
  app.require_subcommand(1);
  plan->callback([&] { code = number == 7 ? kExitFailure : kExitOk; });
  words.insert(words.begin(), "it");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const ExitCode ended =
      RunCommandLine(app, static_cast<int>(arguments.size()), arguments.data(), code);
  std::string said = testing::internal::GetCapturedStdout();
  // The usage.
  if (ended == kExitOk) said = absl::StrCat(absl::StrContains(said, "plan"));
  return {ended, said + testing::internal::GetCapturedStderr()};
}

TEST(RunCommandLineTest, EachWayToEndHasItsCode) {
  EXPECT_EQ(Ran({"plan"}), std::pair(kExitOk, std::string("0")));
  EXPECT_EQ(Ran({"plan", "--number=7"}), std::pair(kExitFailure, std::string()));
  EXPECT_EQ(Ran({"--help"}), std::pair(kExitOk, std::string("1")));
  EXPECT_EQ(Ran({"plna"}),
            std::pair(kExitUsage, absl::StrCat(ProgramName(),
                                               ": there is no command 'plna'; did you mean "
                                               "'plan'?\nRun with --help for the options.\n")));
  const std::string more = "\nRun with --help for more information.\n";
  EXPECT_EQ(Ran({}), std::pair(kExitUsage, "A subcommand is required" + more));
  EXPECT_EQ(Ran({"plan", "--number=-1"}),
            std::pair(kExitUsage,
                      "--number: '-1' must be a whole number from 0 to "
                      "18446744073709551615" +
                          more));
  EXPECT_EQ(Ran({"datasets", ""}), std::pair(kExitUsage, "dataset: must not be empty" + more));
}

TEST(RunCommandLineTest, WhatIsNotWrittenIsAFailure) {
  for (const bool fails : {false, true}) {
    CLI::App app;
    ExitCode code = kExitOk;
    app.callback([&] {
      std::cout << "text";
      code = fails ? kExitUsage : kExitOk;
    });
    std::string word = "it";
    std::vector<char*> arguments = {word.data()};
    const int kept = ::dup(STDOUT_FILENO);
    const int full = ::open("/dev/full", O_WRONLY);
    ::dup2(full, STDOUT_FILENO);
    testing::internal::CaptureStderr();
    const ExitCode ended = RunCommandLine(app, 1, arguments.data(), code);
    const std::string said = testing::internal::GetCapturedStderr();
    ::dup2(kept, STDOUT_FILENO);
    ::close(kept);
    ::close(full);
    std::cout.clear();
    EXPECT_EQ(ended, fails ? kExitUsage : kExitFailure);
    EXPECT_TRUE(absl::StrContains(said, std::strerror(ENOSPC))) << said;
  }
}

TEST(ExitCodeTest, MessagesAreReadable) {
  const std::string name = ProgramName();
  EXPECT_EQ(name, program_invocation_short_name);
  testing::internal::CaptureStderr();
  EXPECT_EQ(Fail(absl::NotFoundError("no \x1b[1m\n")), kExitFailure);
  EXPECT_EQ(Misuse(absl::NotFoundError("a\x7f")), kExitUsage);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            name + ": no \\x1b[1m\n [NOT_FOUND]\n" + name +
                ": a\\x7f\nRun with --help for the options.\n");
  for (const auto& [text, shown] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"a\tb\nc", "a\tb\nc"},
           {"a\rb", "a\\x0db"},
           {std::string("\0", 1), "\\x00"},
           {"\xc3\xa4\xe2\x82\xac", "\xc3\xa4\xe2\x82\xac"},
           {"\xc2\x9b"
            "1m",
            "\\xc2\\x9b1m"},
           {"\xff\xc3", "\\xff\\xc3"}}) {
    EXPECT_EQ(Readable(text), shown);
  }
}

}  // namespace
}  // namespace packhouse
