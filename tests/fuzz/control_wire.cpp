// SPDX-License-Identifier: Apache-2.0
// Messages on control connections, and a rank's key in the store. The input's first byte is the
// number of ranks.
#include "control/wire.hpp"
#include "fuzz/target.hpp"

namespace ccoll::control {
namespace {

constexpr std::size_t kLengthBytes = 4;

/// `encoded` is a whole frame; decoding it again gives the same value.
template <typename Decode, typename Value>
void require_again(const std::string& encoded, Decode decode, const Value& value) {
  std::string_view bytes = encoded;
  const auto frame = next_frame(bytes, encoded.size());
  fuzz::require(frame && *frame && bytes.empty(), "what is encoded is one frame");
  fuzz::require(decode((*frame)->body) == value, "what is encoded is read as the same");
}

void check(std::string_view body, std::uint32_t size) {
  if (const auto hello = decode_hello(body)) require_again(encode(*hello), decode_hello, hello);
  if (const auto refusal = decode_refusal(body))
    require_again(encode(*refusal), decode_refusal, refusal);
  if (const auto rows = decode_rows(body, size)) {
    fuzz::require(rows->size() == size, "a row for each rank");
    require_again(
        encode_rows(*rows), [&](auto bytes) { return decode_rows(bytes, size); }, rows);
  }
  if (const auto table = decode_table(body, size))
    fuzz::require(table->rows.size() == size && table->rank0_text.size() <= kMaxRank0Text,
                  "a table is of all ranks, and tells no more than may be told");
  if (const auto news = decode_failure(body, size)) {
    fuzz::require(news->origin < size && news->failure.culprit.value_or(0) < size, "known ranks");
    require_again(
        encode(*news), [&](auto bytes) { return decode_failure(bytes, size); }, news);
  }
  if (const auto left = decode_left(body, size)) {
    for (const auto rank : *left) fuzz::require(rank < size, "known ranks have left");
    require_again(
        encode_left(*left), [&](auto bytes) { return decode_left(bytes, size); }, left);
  }
  if (const auto limit_ms = decode_beat(body))
    require_again(encode_beat(*limit_ms), decode_beat, limit_ms);
  if (const auto answer = decode_answer(body, size)) {
    fuzz::require(answer->rank < size, "a known rank answers");
    require_again(
        encode(*answer), [&](auto bytes) { return decode_answer(bytes, size); }, answer);
  }
  if (const auto waiting = decode_publication(body, size)) {
    fuzz::require(waiting->from < size && waiting->to < size, "known ranks wait");
    const auto encoded = encode(*waiting);
    require_again(
        encoded, [&](auto bytes) { return encode(*decode_publication(bytes, size)); }, encoded);
  }
}

}  // namespace
}  // namespace ccoll::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ccoll;
  if (size == 0) return 0;
  const std::uint32_t ranks = data[0] + 1u;
  std::string_view bytes = fuzz::text_of(data, size).substr(1);
  if (const auto word = control::decode_word(bytes, ranks))
    fuzz::require(control::encode_key(*word) == bytes, "a word has one form");
  else if (const auto row = control::decode_key(bytes))
    fuzz::require(control::encode_key(*row) == bytes || control::decode_word(bytes, UINT32_MAX),
                  "a key has one form");
  while (true) {
    const std::size_t before = bytes.size();
    const auto frame = control::next_frame(bytes, control::max_start_frame(ranks));
    if (!frame || !*frame) break;
    fuzz::require(bytes.size() + control::kLengthBytes <= before, "a frame is taken away");
    control::check((*frame)->body, ranks);
  }
  return 0;
}
