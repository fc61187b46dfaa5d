// SPDX-License-Identifier: Apache-2.0
#include "control/wire.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "control/start_up_failure.hpp"
#include "control/tree.hpp"
#include "core/text.hpp"

namespace ccoll::control {
namespace {

constexpr std::uint32_t kOne[] = {1};
constexpr std::uint32_t kSome[] = {4, 0, 3};
constexpr std::uint32_t kBeyond[] = {4, 5};

Row some_row(std::uint32_t seed) {
  Row row;
  for (std::size_t i = 0; i < row.address.ip.size(); ++i)
    row.address.ip[i] = static_cast<std::uint8_t>(seed + i);
  row.address.port = static_cast<std::uint16_t>(seed + 1);
  row.address.cores = static_cast<std::uint16_t>(seed + 2);
  row.address.first_core = static_cast<std::uint16_t>(kMostFirstCores - 1 - seed);
  row.address.machine_cores = static_cast<std::uint16_t>(seed + 9);
  row.address.machine = static_cast<std::uint32_t>(seed * 5);
  row.address.host = seed + 3;
  row.address.process = (std::uint64_t{1} << kProcessBits) - 1 - seed;
  row.address.pid = seed + 5;
  row.address.fabrics = static_cast<std::uint8_t>((seed + 8) % 8);
  row.address.rails = static_cast<std::uint8_t>((seed + 1) % 32);
  row.address.device = seed + 6;
  row.address.device_blocks = static_cast<std::uint16_t>(kMostDeviceBlocks - seed);
  row.address.device_copies = static_cast<std::uint8_t>((seed + 2) % 4);
  row.nonce = seed + 7;
  return row;
}

Frame whole(const std::string& bytes, std::size_t limit = kMaxFrame) {
  std::string_view rest = bytes;
  const auto frame = next_frame(rest, limit);
  REQUIRE(frame);
  REQUIRE(*frame);
  CHECK(rest.empty());
  return **frame;
}

std::vector<std::string> one_of_each() {
  Waiting waiting;
  waiting.communicator = 1;
  return {
      encode(Hello{1, 2, 3, some_row(4)}),
      encode_welcome(),
      encode(Refusal{true, {ErrorKind::timed_out, "no", {}}}),
      encode_rows({some_row(1)}),
      encode_table({some_row(1), some_row(2)}, "told"),
      encode(FailureNews{1, 2, 3, {ErrorKind::mismatch, "text", 1}}),
      encode_left(kOne),
      encode(Publication{0, 1, waiting}),
      encode(Answer{1, 2, 0, 3, 4, Answer::State::counts, {1}, {ErrorKind::timed_out, "t", 1}})};
}

void decode_as_everything(std::string_view body) {
  (void)decode_hello(body);
  (void)decode_refusal(body);
  (void)decode_rows(body, 2);
  (void)decode_table(body, 2);
  (void)decode_failure(body, 2);
  (void)decode_left(body, 2);
  (void)decode_publication(body, 2);
  (void)decode_answer(body, 2);
  (void)decode_beat(body);
}

}  // namespace

TEST_CASE("every message is read as it was written", "[control]") {
  const Hello hello{7, 9, 11, some_row(100)};
  CHECK(decode_hello(whole(encode(hello)).body) == hello);
  CHECK(whole(encode_welcome()).type == Type::welcome);
  const Refusal refusal{true, {ErrorKind::timed_out, "why", 3}};
  CHECK(decode_refusal(whole(encode(refusal)).body) == refusal);
  const std::vector rows{some_row(1), some_row(2), some_row(3)};
  CHECK(decode_rows(whole(encode_rows(rows)).body, 3) == rows);
  const auto table = decode_table(whole(encode_table(rows, "told")).body, 3);
  REQUIRE(table);
  CHECK(table->rows == rows);
  CHECK(table->rank0_text == "told");
  CHECK_FALSE(decode_table(whole(encode_table(rows, "")).body, 4));
  const FailureNews news{3, 4, kEveryCommunicator, {ErrorKind::peer_lost, "gone", 2}};
  CHECK(decode_failure(whole(encode(news)).body, 5) == news);
  CHECK(decode_left(whole(encode_left(kSome)).body, 5) ==
        std::vector(std::begin(kSome), std::end(kSome)));
  const Waiting waiting{1, 2, {3, 4, 5, 6, 7, 8}, std::string(kMaxNote + 1, 'x')};
  const auto read = decode_publication(whole(encode(Publication{3, 4, waiting})).body, 5);
  REQUIRE(read);
  CHECK((read->from == 3 && read->to == 4));
  CHECK((read->waiting.communicator == 1 && read->waiting.sequence == 2));
  CHECK(read->waiting.signature == waiting.signature);
  CHECK(read->waiting.note == std::string(kMaxNote, 'x'));
  CHECK(decode_beat(whole(encode_beat(1500)).body) == 1500);
  CHECK(decode_key(encode_key(some_row(9))) == some_row(9));
  CHECK(encode_key(some_row(9)).size() <= 64);
  Word word{{ErrorKind::exhausted, "no descriptor", 2},
            7,
            std::chrono::steady_clock::time_point(std::chrono::nanoseconds(9)),
            {}};
  CHECK(decode_word(encode_key(word), 3) == word);
  CHECK_FALSE(decode_key(encode_key(word)));
  word.row = some_row(9);
  CHECK(decode_word(encode_key(word), 3) == word);
  CHECK(decode_key(encode_key(word)) == some_row(9));
}

TEST_CASE("the fuzzer's corpus speaks this version of the wire", "[control]") {
  std::set<Type> types;
  std::set<std::uint8_t> kinds;
  bool has_key = false;
  for (const auto& entry :
       std::filesystem::directory_iterator(CCOLL_SOURCE_ROOT "/tests/fuzz/corpus/control_wire")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string input(std::istreambuf_iterator<char>(file), {});
    if (input.empty()) continue;
    const auto ranks = static_cast<std::uint8_t>(input[0]) + 1u;
    std::string_view bytes = std::string_view(input).substr(1);
    has_key = has_key || decode_key(bytes);
    while (true) {
      const auto frame = next_frame(bytes, max_start_frame(ranks));
      if (!frame || !*frame) break;
      types.insert((*frame)->type);
      if ((*frame)->type != Type::waiting) continue;
      if (const auto waiting = decode_publication((*frame)->body, ranks))
        kinds.insert(waiting->waiting.signature.kind);
    }
  }
  CHECK(has_key);
  for (auto type = static_cast<std::uint8_t>(Type::hello);
       type <= static_cast<std::uint8_t>(Type::beat); type++) {
    CAPTURE(type);
    CHECK(types.contains(static_cast<Type>(type)));
  }
  for (const auto kind : {kCloses, kHeardClose, kAsksClosed, kHasClosed}) {
    CAPTURE(kind);
    CHECK(kinds.contains(kind));
  }
}

TEST_CASE("values out of range are not read", "[control]") {
  CHECK_FALSE(decode_left(whole(encode_left(kBeyond)).body, 5));
  CHECK_FALSE(decode_left("", 5));
  CHECK_FALSE(decode_left(std::string("\1\0\0\0\2\0", 6), 5));
  const std::vector<std::uint32_t> most(kMaxLeft, 1);
  CHECK(decode_left(whole(encode_left(most)).body, 2) == most);
  CHECK_FALSE(decode_publication(whole(encode(Publication{0, 5, {}})).body, 5));
  CHECK_FALSE(decode_publication(whole(encode(Publication{5, 0, {}})).body, 5));
  const Answer answer{
      1, 2, 3, 4, 5, Answer::State::gave_up, {0, 4}, {ErrorKind::timed_out, "late", 2}};
  CHECK(decode_answer(whole(encode(answer)).body, 5) == answer);
  CHECK_FALSE(decode_answer(whole(encode(answer)).body, 4));
  CHECK_FALSE(decode_answer(whole(encode(answer)).body, 3));
  auto disordered = answer;
  disordered.gone = {4, 0};
  CHECK_FALSE(decode_answer(whole(encode(disordered)).body, 5));
  const FailureNews news{3, 4, 5, {ErrorKind::peer_lost, "gone", 2}};
  CHECK_FALSE(decode_failure(whole(encode(news)).body, 2));
  CHECK_FALSE(decode_failure(whole(encode(news)).body, 3));
  CHECK_FALSE(decode_key(""));
  CHECK_FALSE(decode_key(encode_key(some_row(1)).append("x")));
  const Word word{{ErrorKind::exhausted, "no descriptor", 2},
                  7,
                  std::chrono::steady_clock::time_point(std::chrono::nanoseconds(9)),
                  {}};
  CHECK_FALSE(decode_word(encode_key(word), 2));
  CHECK_FALSE(decode_word(encode_key(word).append("x"), 3));
  CHECK_FALSE(decode_word(encode_key(some_row(1)), 3));
  FailureNews wordy = news;
  wordy.failure.message.assign(100000, 'x');
  CHECK(decode_failure(whole(encode(wordy)).body, 5)->failure.message.size() == kMaxText);
}

TEST_CASE("a frame over the limit, of another version or type is refused; half of one waits",
          "[control]") {
  const std::string frame = encode_left(kOne);
  for (std::size_t length = 0; length < frame.size(); ++length) {
    std::string_view half = std::string_view(frame).substr(0, length);
    const auto result = next_frame(half, kMaxFrame);
    REQUIRE(result);
    CHECK_FALSE(*result);
  }
  std::string_view rest = frame;
  CHECK_FALSE(next_frame(rest, 5));
  for (const std::size_t at : {4, 5}) {
    std::string other = frame;
    other[at] = '\x63';
    rest = other;
    CHECK_FALSE(next_frame(rest, kMaxFrame));
  }
}

TEST_CASE("no bytes of a peer do harm", "[control]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto samples = one_of_each();
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = samples[random() % samples.size()];
    for (std::uint32_t changes = random() % 4; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % 3 == 0 ? random() % (bytes.size() + 8) : bytes.size());
    std::string_view rest = bytes;
    if (const auto frame = next_frame(rest, kMaxFrame); frame && *frame)
      decode_as_everything((*frame)->body);
    decode_as_everything(bytes);
  }
}

TEST_CASE("the connections have at most five ends per rank, one caller each, and survive any loss",
          "[control]") {
  for (std::uint32_t size = 1; size <= 100; ++size) {
    CAPTURE(size);
    std::set<std::pair<std::uint32_t, std::uint32_t>> calls;
    for (std::uint32_t rank = 1; rank < size; ++rank) calls.emplace(rank, parent_of(rank));
    for (std::uint32_t rank = 0; rank < size; ++rank)
      if (calls_successor(rank, size)) calls.emplace(rank, successor_of(rank, size));
    std::vector<std::vector<std::uint32_t>> peers(size);
    for (const auto& [caller, callee] : calls) {
      REQUIRE_FALSE(calls.contains({callee, caller}));
      REQUIRE(is_called_by(callee, caller, size));
      REQUIRE_FALSE(is_called_by(caller, callee, size));
      peers[caller].push_back(callee);
      peers[callee].push_back(caller);
    }
    for (const auto& p : peers) REQUIRE(p.size() <= 5);
    for (std::uint32_t lost = 0; size > 1 && lost < size; ++lost) {
      std::set<std::uint32_t> reached{lost};
      std::vector<std::uint32_t> open{lost == 0 ? 1 : 0u};
      while (!open.empty()) {
        const std::uint32_t rank = open.back();
        open.pop_back();
        if (!reached.insert(rank).second) continue;
        open.insert(open.end(), peers[rank].begin(), peers[rank].end());
      }
      REQUIRE(reached.size() == size);
    }
  }
}

TEST_CASE("subtrees of the children make up their parent's", "[control]") {
  for (std::uint32_t size = 1; size <= 100; ++size) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      std::vector<std::uint32_t> below{rank};
      for (const std::uint32_t child : children_of(rank, size)) {
        REQUIRE(parent_of(child) == rank);
        for (const std::uint32_t r : subtree_of(child, size)) below.push_back(r);
      }
      std::sort(below.begin(), below.end());
      REQUIRE(subtree_of(rank, size) == below);
    }
    REQUIRE(subtree_of(0, size).size() == size);
  }
}

TEST_CASE("missing ranks are named in few words", "[control]") {
  CHECK(missing_ranks(8, std::chrono::seconds(60), {3, 7}, {0, 1, 2, 4, 5, 6}).message ==
        "start-up: 2 of 8 ranks did not come within 60 s: ranks 3, 7 (known so far: ranks 0-2, "
        "4-6)");
  std::vector<std::uint32_t> odd;
  for (std::uint32_t rank = 1; rank < 10000; rank += 2) odd.push_back(rank);
  CHECK(list_ranks(odd).size() < 200);
  CHECK_THAT(list_ranks(odd), Catch::EndsWith("and 4984 more"));
}

}  // namespace ccoll::control
