// SPDX-License-Identifier: Apache-2.0
#include "bench/command/matrix.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "bench/command/sizes.hpp"
#include "bench/measure/measure.hpp"
#include "bench/report/row.hpp"

namespace ccoll::bench {

namespace {

using Clock = std::chrono::steady_clock;
using Pair = std::pair<int, int>;

constexpr std::size_t kPingBytes = 8;
constexpr int kRoundTrips = 50;  ///< per batch
constexpr int kBatchesOfPair = 5;
constexpr int kStreamMessages = 8;
/// Shorter ones are timed in batches, since the cost of reading the clock would show.
constexpr double kLongEnough = 10;  // us

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Calls `run` once to warm up and then for the median of its times.
double median_us(const std::function<void()>& run) {
  std::vector<double> times;
  run();
  for (int i = 0; i < kBatchesOfPair; i++) {
    const auto start = Clock::now();
    run();
    times.push_back(us_since(start));
  }
  return median(times);
}

/// This rank's part in measuring pairs.
class PairMeter {
 public:
  PairMeter(Communicator& communicator, std::uint64_t bytes)
      : communicator_(communicator), buffer_(std::max<std::uint64_t>(bytes, kPingBytes)) {}

  /// Both ranks of the pair call this; each gets its own measurements and leaves the rest 0.
  void measure(int low, int high, Matrix& found) {
    const bool is_low = communicator_.rank() == low;
    const int peer = is_low ? high : low;
    const double in_batches = median_us([&] {
      for (int i = 0; i < kRoundTrips; i++) exchange(peer, is_low);
    });
    std::vector<double> singly;
    for (int i = 0; i < kRoundTrips * kBatchesOfPair; i++) {
      const auto start = Clock::now();
      exchange(peer, is_low);
      singly.push_back(us_since(start));
    }
    const double single = median(std::move(singly));
    if (is_low)
      found.latency_us.at(low, high) =
          (single < kLongEnough ? in_batches / kRoundTrips : single) / 2;
    for (const bool sends : {is_low, !is_low}) {
      const double usec = median_us([&] { stream(peer, sends); });
      const double bytes = double(found.bytes) * kStreamMessages;
      if (sends) found.bandwidth.at(communicator_.rank(), peer) = bytes / usec / 1e3;
    }
  }

 private:
  void send(int peer, std::size_t bytes) {
    communicator_.send(ConstBlock(buffer_.data(), bytes, DataType::uint8), peer);
  }
  void recv(int peer, std::size_t bytes) {
    communicator_.recv(Block(buffer_.data(), bytes, DataType::uint8), peer);
  }

  void exchange(int peer, bool first) {
    if (first) send(peer, kPingBytes);
    recv(peer, kPingBytes);
    if (!first) send(peer, kPingBytes);
  }

  /// Messages one way and, after all have arrived, a short one back.
  void stream(int peer, bool sends) {
    for (int i = 0; i < kStreamMessages; i++) {
      sends ? send(peer, buffer_.size()) : recv(peer, buffer_.size());
    }
    sends ? recv(peer, kPingBytes) : send(peer, kPingBytes);
  }

  Communicator& communicator_;
  std::vector<std::byte> buffer_;
};

/// Measures `pairs` one after another and shares the figures.
Matrix measure_pairs(Communicator& communicator, PairMeter& meter, std::uint64_t bytes,
                     const std::set<Pair>& pairs) {
  Matrix found(communicator.size());
  found.bytes = bytes;
  for (const auto& [low, high] : pairs) {
    communicator.barrier();
    if (communicator.rank() == low || communicator.rank() == high) {
      meter.measure(low, high, found);
    }
  }
  communicator.all_reduce(std::span(found.latency_us.values));
  communicator.all_reduce(std::span(found.bandwidth.values));
  for (const auto& [low, high] : pairs) {
    found.latency_us.at(high, low) = found.latency_us.at(low, high);
  }
  return found;
}

std::vector<std::int64_t> gather_hosts(Communicator& communicator) {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  const auto mine = static_cast<std::int64_t>(std::hash<std::string_view>{}(name));
  std::vector<std::int64_t> hosts(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&mine, 1), std::span(hosts));
  return hosts;
}

std::vector<SlowLink> slow_latencies(const Matrix& matrix) {
  return find_slow(matrix.latency_us, matrix.hosts, false);
}

std::vector<SlowLink> slow_bandwidths(const Matrix& matrix) {
  return find_slow(matrix.bandwidth, matrix.hosts, true);
}

std::string table_text(const PairTable& table, const std::vector<SlowLink>& slow) {
  constexpr int kColumns = 10;
  std::string text;
  for (int first = 0; first < table.size; first += kColumns) {
    const int end = std::min(table.size, first + kColumns);
    text += "#from\\to";
    for (int to = first; to < end; to++) text += fmt::format(" {:>7} ", to);
    for (int from = 0; from < table.size; from++) {
      text += fmt::format("\n{:>8}", from);
      for (int to = first; to < end; to++) {
        const bool is_slow = std::any_of(slow.begin(), slow.end(), [&](const SlowLink& link) {
          return link.from == from && link.to == to;
        });
        text += fmt::format(" {:>7}{}", from == to ? "-" : figure(table.at(from, to)),
                            is_slow ? '!' : ' ');
      }
    }
    text += "\n";
  }
  return text;
}

std::string named(const std::vector<SlowLink>& slow, const char* what, const char* unit,
                  bool one_way) {
  std::string text;
  for (const SlowLink& link : slow) {
    if (!one_way && link.from > link.to) continue;  // it is the same round trip
    text += fmt::format("# slow: {} {} {}: {} of {} {}, typical is {}\n", link.from,
                        one_way ? "->" : "<->", link.to, what, figure(link.value), unit,
                        figure(link.typical));
  }
  return text;
}

nlohmann::json table_json(const PairTable& table) {
  nlohmann::json rows = nlohmann::json::array();
  for (int from = 0; from < table.size; from++) {
    nlohmann::json row = nlohmann::json::array();
    for (int to = 0; to < table.size; to++) {
      row.push_back(from == to ? nlohmann::json() : nlohmann::json(table.at(from, to)));
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

std::vector<SlowLink> find_slow(const PairTable& table, const std::vector<std::int64_t>& hosts,
                                bool more_is_better) {
  std::vector<SlowLink> slow;
  for (const bool inside : {true, false}) {
    std::vector<SlowLink> links;
    std::vector<double> values;
    for (int from = 0; from < table.size; from++) {
      for (int to = 0; to < table.size; to++) {
        const bool same = hosts[std::size_t(from)] == hosts[std::size_t(to)];
        if (from == to || same != inside) continue;
        links.push_back({from, to, table.at(from, to), 0});
        values.push_back(table.at(from, to));
      }
    }
    if (values.size() < 3) continue;
    const double typical = median(values);
    for (SlowLink& link : links) {
      link.typical = typical;
      const double worse = more_is_better ? typical / link.value : link.value / typical;
      if (worse > kSlowFactor) slow.push_back(link);
    }
  }
  return slow;
}

Matrix measure_matrix(Communicator& communicator, std::uint64_t bytes) {
  constexpr int kSecondLooks = 2;
  PairMeter meter(communicator, bytes);
  std::set<Pair> pairs;
  for (int low = 0; low < communicator.size(); low++) {
    for (int high = low + 1; high < communicator.size(); high++) pairs.insert({low, high});
  }
  Matrix matrix = measure_pairs(communicator, meter, bytes, pairs);
  matrix.hosts = gather_hosts(communicator);
  for (int look = 0; look < kSecondLooks; look++) {
    pairs.clear();
    for (const auto& slow : {slow_latencies(matrix), slow_bandwidths(matrix)}) {
      for (const SlowLink& link : slow) pairs.insert(std::minmax(link.from, link.to));
    }
    const Matrix again = measure_pairs(communicator, meter, bytes, pairs);
    for (const auto& [low, high] : pairs) {
      for (const auto& [from, to] : {Pair{low, high}, Pair{high, low}}) {
        double& latency = matrix.latency_us.at(from, to);
        latency = std::min(latency, again.latency_us.at(from, to));
        double& bandwidth = matrix.bandwidth.at(from, to);
        bandwidth = std::max(bandwidth, again.bandwidth.at(from, to));
      }
    }
  }
  return matrix;
}

std::string matrix_text(const Matrix& matrix) {
  const auto latencies = slow_latencies(matrix);
  const auto bandwidths = slow_bandwidths(matrix);
  std::string text = fmt::format("#\n# latency in us: {} bytes, half the round trip\n", kPingBytes);
  text += table_text(matrix.latency_us, latencies);
  text += fmt::format("#\n# bandwidth in GB/s: messages of {} bytes one way\n",
                      short_size(matrix.bytes));
  text += table_text(matrix.bandwidth, bandwidths) + "#\n";
  text += named(latencies, "a latency", "us", false);
  text += named(bandwidths, "a bandwidth", "GB/s", true);
  if (matrix.hosts.size() < 3) {
    text += "# two ranks: no other link to compare theirs with\n";
  } else if (latencies.empty() && bandwidths.empty()) {
    text +=
        fmt::format("# no link is {:g} times slower than is typical of its kind\n", kSlowFactor);
  }
  return text;
}

nlohmann::json matrix_json(const Matrix& matrix) {
  nlohmann::json slow = nlohmann::json::array();
  const auto add = [&](const std::vector<SlowLink>& links, const char* what) {
    for (const SlowLink& link : links) {
      slow.push_back({{"from", link.from},
                      {"to", link.to},
                      {"figure", what},
                      {"value", link.value},
                      {"typical", link.typical}});
    }
  };
  add(slow_latencies(matrix), "latency_us");
  add(slow_bandwidths(matrix), "bandwidth_GBps");
  return {{"bytes", matrix.bytes},
          {"latency_us", table_json(matrix.latency_us)},
          {"bandwidth_GBps", table_json(matrix.bandwidth)},
          {"slow", slow}};
}

}  // namespace ccoll::bench
