// SPDX-License-Identifier: Apache-2.0
#include "show/page/page.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <utility>
#include <vector>

#include "bench/command/names.hpp"
#include "bench/report/page_parts.hpp"
#include "bench/report/whole_file.hpp"
#include "core/text.hpp"
#include "show/model/breaking.hpp"
#include "show/model/call.hpp"
#include "show/model/picture.hpp"
#include "show/page/page_parts.hpp"
#include "show/page/rounds_json.hpp"

namespace ccoll::show {

namespace {

using nlohmann::ordered_json;

/// Escaped as text between tags.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else {
      result += c;
    }
  }
  return result;
}

/// JSON in which no tag can close the element that contains it.
std::string harmless(const ordered_json& document) {
  std::string result;
  for (const char c : document.dump()) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

/// The value for a name that the frame contains as @NAME@.
std::string value_of(std::string_view name, const std::string& title,
                     const ordered_json& document) {
  if (name == "TITLE") return escaped(title);
  if (name == "STYLE") return bench::kChartStyle + joined(kPageStyle, "");
  if (name == "SCRIPT") return bench::kChartScript + joined(kPageScript, "\n");
  return harmless(document);
}

/// The lesson in the lessons' file, or null if it has none for that algorithm.
ordered_json lesson_for(const std::string& operation, const std::string& algorithm) {
  static const ordered_json lessons = ordered_json::parse(kPageLessons.front());
  const auto of_operation = lessons.find(operation);
  if (of_operation == lessons.end()) return nullptr;
  return of_operation->value(algorithm, ordered_json());
}

/// The most steps for which a page explains a lost message: enough for a whole small ring.
constexpr std::size_t kMostFaultySteps = 64;

ordered_json faults_json(const Call& call) {
  ordered_json faults = ordered_json::array();
  for (const Fault& fault : faults_of(call, kMostFaultySteps)) {
    faults.push_back({{"rank", fault.at.rank},
                      {"lane", fault.at.lane},
                      {"step", fault.at.step},
                      {"how", fault.how},
                      {"what", fault.what},
                      {"ok", fault.is_right},
                      {"text", fault.explanation}});
  }
  return faults;
}

Status add_run(const CallWords& words, ordered_json& runs) {
  const auto call = call_of(words);
  CCOLL_TRY(call);
  ordered_json run = run_of(picture_of(*call));
  run["faults"] = faults_json(*call);
  runs.push_back(std::move(run));
  return {};
}

/// One picture for each algorithm in a comma list. An algorithm of two trees has another second
/// tree for even and odd numbers of ranks; so a picture with one rank more, or less, follows.
Result<ordered_json> runs_of(CallWords words) {
  ordered_json runs = ordered_json::array();
  std::vector<std::string> algorithms = bench::split_list(words.algorithm);
  if (algorithms.empty()) algorithms.emplace_back();
  for (const std::string& algorithm : algorithms) {
    words.algorithm = algorithm;
    CCOLL_TRY(add_run(words, runs));
    if (runs.back().at("trees_are") == "") continue;
    CallWords other = words;
    if (words.ranks < kMostRanksOnPage)
      ++other.ranks;
    else
      --other.ranks;
    if (words.hosts.empty() && words.root.value_or(0) < other.ranks)
      CCOLL_TRY(add_run(other, runs));
  }
  return runs;
}

bool all_proven(const ordered_json& runs) {
  for (const ordered_json& run : runs) {
    if (!run.at("verdict").at("ok")) return false;
  }
  return true;
}

Result<Output> make_page(const CallWords& words, const std::string& path) {
  CCOLL_TRY(bench::check_writable(path));
  auto runs = runs_of(words);
  CCOLL_TRY(runs);
  const int status = all_proven(*runs) ? 0 : kWrong;
  const std::string title = runs->front().at("title");
  std::string others;
  for (std::size_t i = 1; i < runs->size(); ++i)
    others += fmt::format("  and {}\n", runs->at(i).at("title").get<std::string>());
  const auto written = write_page(path, title, {{"runs", std::move(*runs)}});
  CCOLL_TRY(written);
  return Output{*written + others, status};
}

}  // namespace

Action add_page(CLI::App& app) {
  struct Options {
    CallWords words;
    std::string path;
  };
  const auto options = std::make_shared<Options>();
  add_call_options(app, options->words, kMostRanksOnPage);
  app.get_option("--algo")->description(
      "the algorithm, or several to choose from on the page, like ring,double_tree");
  app.add_option("-o,--output", options->path, "the file to write, like ring.html")->required();
  return [options] { return make_page(options->words, options->path); };
}

std::string page_of(const std::string& title, const ordered_json& document) {
  std::string page;
  std::string_view rest = kPageFrame.front();
  for (std::size_t at = rest.find('@'); at != std::string_view::npos; at = rest.find('@')) {
    const std::size_t end = rest.find('@', at + 1);
    page += rest.substr(0, at);
    page += value_of(rest.substr(at + 1, end - at - 1), title, document);
    rest.remove_prefix(end + 1);
  }
  return page.append(rest);
}

ordered_json run_of(const Picture& picture) {
  ordered_json run = json_of(picture);
  // `held` is most of the text, and pages need only what the cells show of it.
  for (ordered_json& round : run.at("rounds")) round.erase("held");
  run["lesson"] = lesson_for(run.at("operation"), run.at("algorithm"));
  return run;
}

Result<std::string> write_page(const std::string& path, const std::string& title,
                               const ordered_json& document) {
  const std::string page = page_of(title, document);
  CCOLL_TRY(bench::write_whole(path, page));
  return fmt::format("{}: {} ({} kB); open it in a browser\n", path, title,
                     (page.size() + 999) / 1000);
}

}  // namespace ccoll::show
