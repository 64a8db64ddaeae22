// The words of a command line, as CLI11 is to see them.
#ifndef PACKHOUSE_SERVICE_BASE_COMMAND_WORDS_H_
#define PACKHOUSE_SERVICE_BASE_COMMAND_WORDS_H_

#include <CLI/App.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace packhouse {

// CLI11 takes `--name=` for an option whose value is the next word, and for a switch that is on.
// Here it is an empty value, and a switch that is off: whoever writes --audit-log=$LOG has said
// nothing about the word behind it. `words` are without the program's name. Words that `app` does
// not know stay as they are. O(words * options).
inline std::vector<std::string> WithEmptyValues(const CLI::App& app,
                                                const std::vector<std::string>& words) {
  // Of a command, or of those above it.
  const auto find = [](const CLI::App* at, const std::string& name) {
    const CLI::Option* found = nullptr;
    for (; at != nullptr && found == nullptr; at = at->get_parent()) {
      found = at->get_option_no_throw(name);
    }
    return found;
  };
  std::vector<std::string> all;
  const CLI::App* at = &app;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      all.insert(all.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    const std::string name = word.substr(0, word.find('='));
    const CLI::Option* const option = name.starts_with("--") ? find(at, name) : nullptr;
    const bool is_switch = option != nullptr && option->get_items_expected_max() == 0;
    if (option != nullptr && word.size() == name.size() + 1) {
      if (is_switch) {
        all.push_back(word + "false");
      } else {
        all.insert(all.end(), {name, ""});
      }
      continue;
    }
    all.push_back(word);
    if (option != nullptr) {
      // The next word is its value, and no command.
      if (!is_switch && word == name && i + 1 < words.size()) all.push_back(words[++i]);
      continue;
    }
    for (const CLI::App* const command :
         at->get_subcommands([](const CLI::App*) { return true; })) {
      if (command->check_name(word)) {
        at = command;
        break;
      }
    }
  }
  return all;
}

// Parses `words`, which are without the program's name. Throws as CLI::App::parse().
inline void ParseWords(CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> all = WithEmptyValues(app, words);
  // It takes them from the end.
  std::reverse(all.begin(), all.end());
  app.parse(std::move(all));
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_COMMAND_WORDS_H_
