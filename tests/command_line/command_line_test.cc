#include "service/base/command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
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

}  // namespace
}  // namespace packhouse
