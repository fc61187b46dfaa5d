// SPDX-License-Identifier: Apache-2.0
// The command line of cc-bench: its words, sizes and refusals.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "bench/command/info.hpp"
#include "bench/command/names.hpp"
#include "bench/command/options.hpp"
#include "bench/command/sizes.hpp"
#include "bench/command/subcommands.hpp"
#include "bench/command/tune.hpp"
#include "bench/measure/measure.hpp"
#include "bench/measure/operations.hpp"
#include "bench/report/report.hpp"
#include "support/ranks.hpp"
#include "system/variables.hpp"

using namespace ccoll;
using namespace ccoll::bench;

namespace {

using Sizes = std::vector<std::uint64_t>;

Result<Options> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "cc-bench");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

std::string refusal(std::vector<const char*> arguments) {
  const auto options = parse(std::move(arguments));
  return options ? "accepted" : options.error().message;
}

}  // namespace

TEST_CASE("sizes multiply, are whole units, and none comes twice", "[bench][unit]") {
  CHECK(size_list({8, 64, 2, 0}, 4) == Sizes{8, 16, 32, 64});
  CHECK(size_list({8, 64, 2, 0}, 12) == Sizes{12, 24, 60});
  CHECK(size_list({10, 30, 2, 10}, 4) == Sizes{8, 20, 28});
  CHECK(size_list({1, 3, 2, 0}, 4).empty());
  CHECK(size_list({4, 4, 2, 0}, 4) == Sizes{4});
}

TEST_CASE("after size 0 comes one unit", "[bench][unit]") {
  CHECK(size_list({0, 32, 2, 0}, 4) == Sizes{0, 4, 8, 16, 32});
  CHECK(size_list({0, 100, 4, 0}, 12) == Sizes{0, 12, 48, 96});
  CHECK(size_list({0, 30, 2, 10}, 4) == Sizes{0, 4, 8, 20, 28});
  CHECK(size_list({0, 0, 2, 0}, 4) == Sizes{0});
}

TEST_CASE("sizes near the end of 64 bits end", "[bench][unit]") {
  const std::uint64_t top = ~std::uint64_t{0};
  CHECK(size_list({top / 2, top, 4, 0}, 1) == Sizes{top / 2, top});
  CHECK(size_list({top / 2, top, 4, 0, true}, 1) == Sizes{top / 2, top});
}

TEST_CASE("sizes are read with K, M, G and T and written so that they read back", "[bench][unit]") {
  CHECK(parse_size("64K") == 65536u);
  CHECK(parse_size("1m") == 1048576u);
  CHECK(parse_size("2GiB") == 2147483648u);
  CHECK(parse_size("1T") == std::uint64_t{1} << 40);
  CHECK(parse_size("7") == 7u);
  for (const char* bad : {"", "K", "-1", "1.5K", "3X", "99999999999G", "4 K"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_size(bad).has_value());
  }
  for (const std::uint64_t size : Sizes{0, 1, 1000, 1024, 65536, 3u << 20}) {
    CHECK(parse_size(short_size(size)) == size);
  }
}

TEST_CASE("a misspelt word gets the nearest one", "[bench][unit]") {
  CHECK(refusal({"al_reduce"}).find("did you mean all_reduce?") != std::string::npos);
  CHECK(refusal({"braodcast"}).find("did you mean broadcast?") != std::string::npos);
  CHECK(refusal({"inof"}).find("did you mean info?") != std::string::npos);
  CHECK(refusal({"xyzzy"}).find("did you mean") == std::string::npos);
  CHECK(refusal({"all_reduce", "--itres", "3"}).find("did you mean --iters?") != std::string::npos);
  CHECK(refusal({"all_reduce", "--dtype", "flaot32"}).find("float32?") != std::string::npos);
  CHECK(edit_distance("ab", "ba") == 1);
}

TEST_CASE("the command line takes nccl-tests' words and spellings", "[bench][unit]") {
  const auto options = parse({"allreduce,send_recv", "-b", "0", "-e", "1M", "-f", "2", "--iters",
                              "7", "-w", "2", "-d", "half,float", "-o", "prod", "-n", "3"});
  REQUIRE(options.has_value());
  REQUIRE(options->ops.size() == 2);
  CHECK(options->ops[0]->name == "all_reduce");
  CHECK(options->sizes.begin == 0);
  CHECK(options->sizes.end == 1u << 20);
  CHECK(options->effort.iters == 7);
  CHECK(options->types == std::vector{DataType::float16, DataType::float32});
  CHECK(options->reduce_ops == std::vector{ReduceOp::product});
  const auto types = parse({"all_reduce", "-d", "e4m3,fp8_e5m2,bool,Float8_E4M3FN", "-o", "BAND"});
  REQUIRE(types.has_value());
  CHECK(types->types ==
        std::vector{DataType::float8_e4m3, DataType::float8_e5m2, DataType::boolean});
  CHECK(types->reduce_ops == std::vector{ReduceOp::bit_and});
  const auto all = parse({"all_reduce", "-d", "all", "-o", "all"});
  REQUIRE(all.has_value());
  CHECK(all->types.size() == kDataTypes.size());
  CHECK(all->reduce_ops.size() == kReduceOps.size());
  CHECK(options->ranks == 3);
  CHECK(parse({"all"})->ops.size() == operations().size());
  CHECK(parse({"--help"})->command == Options::Command::print);
  CHECK(parse({})->text.find("Type this first") != std::string::npos);
  CHECK(parse({"explain", "all_reduce", "64K", "-n", "8"})->explain_bytes == 65536);
}

TEST_CASE("operations answer to the names that MPI, NCCL and nccl-tests give them",
          "[bench][unit]") {
  const std::pair<const char*, const char*> names[] = {
      {"allreduce", "all_reduce"},
      {"MPI_Allreduce", "all_reduce"},
      {"alltoall", "all_to_all"},
      {"ncclReduceScatter", "reduce_scatter"},
      {"sendrecv", "send_recv"},
      {"all_reduce_perf", "all_reduce"},
      {"MPI_Bcast", "broadcast"},
      {"MPI_Reduce_scatter_block", "reduce_scatter"},
      {"ping-pong", "ping_pong"},
      {"Gather", "gather"},
      {"reduce_scatter_perf", "reduce_scatter"},
  };
  for (const auto& [theirs, ours] : names) {
    CAPTURE(theirs);
    REQUIRE(find_operation(theirs) != nullptr);
    CHECK(find_operation(theirs)->name == ours);
  }
  CHECK(find_operation("") == nullptr);
  CHECK(find_operation("perf") == nullptr);
}

TEST_CASE("nccl-tests' letters without a meaning here get their counterpart", "[bench][unit]") {
  CHECK(refusal({"all_reduce", "-g", "8"}).find("give -n RANKS") != std::string::npos);
  CHECK(refusal({"all_reduce", "-c1"}).find("--no-check") != std::string::npos);
  CHECK(refusal({"all_reduce", "-J", "x"}).find("--json") != std::string::npos);
  CHECK(refusal({"all_reduce", "-q"}) == "'-q' is not expected");
  CHECK(refusal({"all_reduce", "broadcast"}).find("all_reduce,broadcast") != std::string::npos);
  const std::string help = parse({"--help"})->text;
  for (const char* option : {"-n iterations", "-c check", "-g GPUs per thread"}) {
    CAPTURE(option);
    CHECK(help.find(option) != std::string::npos);
  }
}

TEST_CASE("--root all and --algo all give every root and algorithm its rows", "[bench][unit]") {
  const auto options = parse({"reduce", "--root", "all", "--algo", "all"});
  REQUIRE(options.has_value());
  CHECK(roots_of(*options, *find_operation("reduce"), 4) == std::vector{0, 1, 2, 3});
  CHECK(roots_of(*options, *find_operation("all_reduce"), 4) == std::vector{0});
  CHECK(algorithms_of(*options, *find_operation("all_reduce")).size() ==
        algorithms_for(Kind::all_reduce).size());
  CHECK(algorithms_of(*options, *find_operation("send_recv")).empty());
  const auto two = parse({"reduce", "--root", "2", "--algo", "ring,pairwise"});
  CHECK(roots_of(*two, *find_operation("reduce"), 4) == std::vector{2});
  CHECK(algorithms_of(*two, *find_operation("reduce")) == std::vector<std::string>{"ring"});
}

TEST_CASE("tuning takes each kind of links once, crowded ones with more ranks than cores",
          "[bench][unit]") {
  for (const int cores : {1, 2, 3, 8, 16, 64}) {
    std::set<std::pair<std::string, bool>> kinds;
    for (const TuneJob& job : tune_jobs(cores)) {
      CAPTURE(cores, job.transport, job.ranks);
      CHECK(job.ranks >= 2);
      CHECK(job.ranks <= 64);
      CHECK(kinds.emplace(job.transport, job.ranks > cores).second);
    }
    CHECK(kinds.contains({"shm", cores == 1}));
  }
}

TEST_CASE("every header of the CSV form is explained in the help", "[bench][unit]") {
  const std::string help = parse({"--help"})->text;
  for (const std::string& column : split_list(std::string(kCsvHeader) + kCsvDeviceHeader)) {
    CAPTURE(column);
    CHECK(help.find(column) != std::string::npos);
  }
}

TEST_CASE("options that cannot be carried out are refused with the reason", "[bench][unit]") {
  CHECK(refusal({"all_reduce", "-b", "2K", "-e", "1K"}) == "-b 2K is more than -e 1K");
  CHECK(refusal({"all_reduce", "--csv", "-", "--json", "-"}) != "accepted");
  CHECK(refusal({"all_reduce", "-n", "0"}) != "accepted");
  CHECK(refusal({"all_reduce", "--iters", "0"}) != "accepted");
  CHECK(refusal({"all_reduce", "-i", "0"}) == "-i 0: expected at least 1 byte more for each size");
  CHECK(refusal({"all_reduce", "--warmup", "-1"}) != "accepted");
  for (const char* timeout : {"0", "-1", "nan", "1e300", "soon"}) {
    CAPTURE(timeout);
    const auto said = refusal({"all_reduce", "--timeout", timeout});
    CHECK_THAT(said, Catch::Contains("is not a time in seconds above 0, up to 1000000"));
    CHECK(said.size() < 100);
  }
  CHECK(refusal({"-n", "2"}) != "accepted");
  CHECK(refusal({",", "-n", "2"}).starts_with("no operation given"));
  CHECK(refusal({"matrix", "all_reduce"}).find("'all_reduce' is not expected") == 0);
  CHECK(refusal({"all_reduce", "--min-busbw", "-1"}) ==
        "--min-busbw: -1 is not a number of 0 or more");
  CHECK(refusal({"all_reduce", "--tolerance", "x"}) != "accepted");
  CHECK(refusal({"all_reduce", "--html", "-"}) != "accepted");
  CHECK(refusal({"broadcast", "--root", "x"}) == "--root x is neither a rank (0, 1, …) nor all");
  CHECK(refusal({"broadcast", "--root", "-1"}) != "accepted");
  CHECK(refusal({"all_reduce", "--algo", "ring,rign"}).find("mean ring?") != std::string::npos);
  CHECK(refusal({"explain", "all_reduce", "8", "--algo", "all"}) == "accepted");
  const auto root = parse({"broadcast", "--root", "4"});
  REQUIRE(root.has_value());
  CHECK(check_for_size(*root, 5).has_value());
  CHECK_FALSE(check_for_size(*root, 4).has_value());
  CHECK_FALSE(check_for_size(*parse({"all_reduce", "--algo", "pairwise"}), 4).has_value());
  CHECK(check_for_size(*parse({"all_reduce", "--op", "bit_or"}), 4).error().message ==
        "--op bit_or is not defined on --dtype float32");
  CHECK(check_for_size(*parse({"broadcast", "--op", "bit_or"}), 4).has_value());
  CHECK_FALSE(check_for_size(*parse({"all_gather", "-b", "4", "-e", "8"}), 8).has_value());
  CHECK_THAT(check_for_size(*parse({"all_reduce", "-b", "7", "-e", "7"}), 2).error().message,
             Catch::Contains("-b 7: all_reduce of float32") && Catch::Contains("give 4 or 8"));
  CHECK(check_for_size(*parse({"all_reduce", "-b", "7", "-e", "28"}), 2).has_value());
}

TEST_CASE("a subcommand takes the options of its table, and refuses all others by name",
          "[bench][property]") {
  const std::map<std::string, const char*> values = {
      {"--dtype", "int8"},   {"--op", "max"},        {"--algo", "ring"}, {"--device", "cuda"},
      {"--memory", "mixed"}, {"--transport", "tcp"}, {"--width", "80"},
  };
  std::istringstream help(parse({"--help"})->text);
  std::size_t refused = 0;
  std::set<std::string> named;
  for (std::string line; std::getline(help, line) && line != "Subcommands:";) {
    std::smatch match;
    static const std::regex option("^  (-[a-z],)?(--[a-z-]+)[^ ]*( [A-Z]+)?.*");
    if (!std::regex_match(line, match, option) || match[2] == "--help" || match[2] == "--version")
      continue;
    const std::string name = match[2];
    const std::string shorter = match[1].matched ? match[1].str().substr(0, 2) : name;
    named.insert(shorter);
    const bool has_value = match[3].matched && line.find('{') == line.npos;
    for (const Subcommand& each : subcommands()) {
      for (const bool measured : {false, true}) {
        const bool explains = each.command == Options::Command::explain;
        if (measured && !explains) continue;
        std::vector<const char*> words = {each.name.data()};
        if (explains) words.insert(words.end(), {"all_reduce", "8"});
        if (measured) words.push_back("--measure");
        words.push_back(name.c_str());
        if (has_value) words.push_back(values.contains(name) ? values.at(name) : "2");
        CAPTURE(words);
        const auto has = [&](auto options) {
          return std::ranges::find(options, shorter, &TakenOption::name) != options.end();
        };
        const bool is_taken = has(each.takes) || (measured && has(each.takes_measured));
        const std::string said = refusal(words);
        CHECK((said == "accepted") == is_taken);
        if (is_taken) continue;
        CHECK_THAT(said, Catch::Contains(name) && Catch::Contains(" not for ") &&
                             Catch::Contains(std::string(each.name) + ", which takes "));
        refused++;
      }
    }
  }
  CHECK(refused > 50);
  for (const Subcommand& each : subcommands()) {
    for (const auto& options : {each.takes, each.takes_measured}) {
      for (const TakenOption& option : options) {
        CAPTURE(each.name, option.name);
        CHECK(named.contains(std::string(option.name)));
        CHECK_THAT(parse({"--help"})->text, Catch::Contains(description(each).substr(0, 20)));
        const std::string name(each.name);
        CHECK_THAT(parse({name.c_str(), "--help"})->text,
                   Catch::Contains(std::string(option.name)));
      }
    }
  }
  CHECK(refusal({"matrix", "--csv", "-", "--html", "x"}) ==
        "--csv and --html are not for matrix, which takes -n, -e (bytes of a message [1M]), "
        "--transport, --timeout, --json, --width");
  CHECK(refusal({"info", "--json", "-"}) == "--json is not for info, which takes --width");
}

TEST_CASE("a graph has as many calls as the option says", "[bench][unit]") {
  const auto calls = [](const char* option) {
    return parse({"all_reduce", "--device", "cuda", option})->graph_calls;
  };
  CHECK(calls("--graph") == 10);
  for (const int number : {0, 1, 7, 10'000})
    CHECK(calls(fmt::format("--graph={}", number).c_str()) == number);
  CHECK(parse({"all_reduce", "--graph=0"})->graph_calls == 0);
  CHECK(refusal({"all_reduce", "--device", "cuda", "--graph", "5"}) == "--graph 5: give --graph=5");
  CHECK(refusal({"--device", "cuda", "--graph", "12", "all_reduce"}) ==
        "--graph 12: give --graph=12");
  CHECK(refusal({"--device", "cuda", "--graph", "all_reduce"}) == "accepted");
  for (const char* wrong : {"--graph=-1", "--graph=10001", "--graph=x"})
    CHECK_THAT(refusal({"all_reduce", "--device", "cuda", wrong}), Catch::Contains("--graph"));
}

TEST_CASE("--lanes has the range of CCOLL_LANES", "[bench][unit]") {
  const auto values = values_of("CCOLL_LANES");
  const auto least = values.least, most = values.most;
  const auto with = [](long lanes) {
    return refusal({"all_reduce", "--lanes", std::to_string(lanes).c_str()});
  };
  CHECK((with(least) == "accepted" && with(most) == "accepted"));
  CHECK((with(least - 1) != "accepted" && with(most + 1) != "accepted"));
}

TEST_CASE("explain answers for one call", "[bench][unit]") {
  const auto explain = [](const char* option, const char* value) {
    const auto text = explain_text(*parse({"explain", "all_reduce", "8", option, value}));
    return text ? "explained" : text.error().message;
  };
  CHECK(explain("-d", "float64") == "explained");
  const std::string why = ": expected one of each, because it answers for one call";
  CHECK(explain("-d", "int8,int32,float32") == "explain: 3 --dtype, 1 --op, --root 0" + why);
  CHECK(explain("-o", "max,min") == "explain: 1 --dtype, 2 --op, --root 0" + why);
  CHECK(explain("-r", "all") == "explain: 1 --dtype, 1 --op, --root all" + why);
  CHECK(explain("--algo", "ring,tree") ==
        "explain: --algo names 2 algorithms: expected one, to see it forced, or none: every "
        "algorithm is shown");
}

TEST_CASE("explain answers for whole elements only", "[bench][unit]") {
  const auto explain = [](const char* op, const char* bytes) {
    const auto text = explain_text(*parse({"explain", op, bytes, "-n", "8"}));
    return text ? "explained" : text.error().message;
  };
  CHECK(explain("all_reduce", "4") == "explained");
  CHECK(explain("all_reduce", "0") == "explained");
  CHECK(explain("all_gather", "33") == "explained");
  CHECK_THAT(explain("all_reduce", "3"), Catch::Contains("multiples of 4 bytes"));
  CHECK_THAT(explain("all_gather", "31"), Catch::Contains("multiples of 32 bytes"));
  CHECK(explain("barrier", "1") == "explained");
}
