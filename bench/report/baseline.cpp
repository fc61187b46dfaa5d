// SPDX-License-Identifier: Apache-2.0
#include "bench/report/baseline.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/report/text_file.hpp"
#include "core/json.hpp"

namespace ccoll::bench {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

Result<Baseline> Baseline::load(const std::string& path) {
  const auto text = text_in(path, kMostBytes);
  CCOLL_TRY(text);
  Baseline baseline;
  try {
    const nlohmann::json document = nlohmann::json::parse(*text);
    baseline.description_ = fmt::format(
        "{} (ccoll {} on {}, {} ranks over {})", path, document.at("version").get<std::string>(),
        document.at("host").get<std::string>(), document.at("ranks").get<int>(),
        document.at("transport").get<std::string>());
    for (const nlohmann::json& json : document.at("rows")) {
      Row row;
      row.op = json.at("op");
      row.ranks = json.at("ranks");
      row.bytes = json.at("bytes");
      row.type = json.at("dtype");
      row.reduce_op = json.at("redop");
      row.root = json.at("root");
      row.in_place = json.at("in_place");
      row.fresh = json.value("fresh", false);
      row.forced = json.value("forced_algo", "");
      baseline.rows_[row_key(row)] = {json.at("usec"), false};
    }
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::invalid_argument,
                "the baseline {} is not what cc-bench --json writes: {}", path,
                what_is_wrong(error, text->size()));
  }
  return baseline;
}

std::optional<double> Baseline::usec_of(const Row& row) {
  const auto found = rows_.find(row_key(row));
  if (found == rows_.end()) return std::nullopt;
  found->second.asked = true;
  return found->second.usec > 0 ? std::optional(found->second.usec) : std::nullopt;
}

std::vector<std::string> Baseline::unmeasured() const {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : rows_) {
    if (!entry.asked) keys.push_back(key);
  }
  return keys;
}

}  // namespace ccoll::bench
