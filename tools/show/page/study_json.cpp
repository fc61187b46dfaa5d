// SPDX-License-Identifier: Apache-2.0
#include "show/page/study_json.hpp"

#include <nlohmann/json.hpp>

namespace ccoll::show {

namespace {

using nlohmann::ordered_json;

constexpr int kStudySchema = 1;

ordered_json algorithm_json(const Question& question, const Sheet& sheet, std::size_t algorithm) {
  ordered_json us = ordered_json::array();
  ordered_json marks = ordered_json::array();
  for (std::size_t size = 0; size < question.bytes.size(); ++size) {
    const Answer& cell = sheet.cells[algorithm][size];
    us.push_back(cell.simulated ? ordered_json(cell.us()) : ordered_json());
    marks.push_back(mark_of(question, sheet, algorithm, size));
  }
  return {{"algorithm", to_string(question.algorithms[algorithm])}, {"us", us}, {"marks", marks}};
}

ordered_json sheet_json(const Question& question, const Sheet& sheet) {
  ordered_json algorithms = ordered_json::array();
  for (std::size_t i = 0; i < sheet.cells.size(); ++i)
    algorithms.push_back(algorithm_json(question, sheet, i));
  ordered_json fastest = ordered_json::array();
  for (const auto& number : sheet.fastest)
    fastest.push_back(number ? ordered_json(to_string(question.algorithms[*number]))
                             : ordered_json());
  ordered_json crossings = ordered_json::array();
  for (const Crossing& crossing : crossings_of(question, sheet))
    crossings.push_back({{"before", to_string(crossing.before)},
                         {"after", to_string(crossing.after)},
                         {"bytes", crossing.bytes},
                         {"us", crossing.us}});
  return {{"ranks", sheet.ranks},     {"nodes", question.network.nodes(sheet.ranks)},
          {"algorithms", algorithms}, {"fastest", fastest},
          {"crossings", crossings},   {"skipped", reasons_of(question, sheet)}};
}

}  // namespace

std::string study_json(const Question& question, const std::vector<Sheet>& sheets) {
  ordered_json document = {
      {"schema", kStudySchema},
      {"operation", question.operation->name},
      {"type",
       question.operation->has_data ? ordered_json(to_string(question.type)) : ordered_json()},
      {"network", question.network_name},
      {"bytes", question.bytes},
      {"sheets", ordered_json::array()},
  };
  for (const Sheet& sheet : sheets) document["sheets"].push_back(sheet_json(question, sheet));
  return document.dump(1) + "\n";
}

}  // namespace ccoll::show
