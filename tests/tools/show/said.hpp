// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs a cc-show command line in this process.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "show/commands/command.hpp"

namespace ccoll::show::test {

inline Result<Output> answer(const std::vector<std::string>& words) {
  std::vector<const char*> argv = {"cc-show"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  auto output = run(static_cast<int>(argv.size()), argv.data());
  while (output && output->more) {
    const auto text = output->more();
    if (!text) return tl::unexpected(text.error());
    if (text->empty()) break;
    output->text += *text;
  }
  return output;
}

/// Its output; the usage must be right.
inline std::string said(const std::vector<std::string>& words) {
  const auto output = answer(words);
  INFO((output ? std::string() : output.error().message));
  REQUIRE(output);
  return output->text;
}

/// The JSON that `cc-show call` prints for these words.
inline nlohmann::json called(std::vector<std::string> words) {
  words.insert(words.begin(), "call");
  words.push_back("--json");
  return nlohmann::json::parse(said(words));
}

/// Its error for wrong usage.
inline std::string refused(const std::vector<std::string>& words) {
  const auto output = answer(words);
  INFO((output ? output->text : std::string()));
  REQUIRE_FALSE(output);
  return output.error().message;
}

}  // namespace ccoll::show::test
