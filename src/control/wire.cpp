// SPDX-License-Identifier: Apache-2.0
#include "control/wire.hpp"

#include <algorithm>
#include <functional>

#include "core/bytes.hpp"

namespace ccoll::control {
namespace {

using net::Reader;
using net::Writer;

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kHeadBytes = 2;
constexpr std::uint32_t kNoCulprit = ~std::uint32_t{0};

std::string framed(Type type, std::string_view body) {
  Writer writer;
  writer.number(static_cast<std::uint32_t>(kHeadBytes + body.size()))
      .number(kWireVersion)
      .number(static_cast<std::uint8_t>(type));
  return writer.take().append(body);
}

/// PeerAddress::fabrics has the lower bits of a byte, PeerAddress::rails the upper ones.
constexpr int kRailsAt = 3;
constexpr std::uint8_t kFabricsMask = (1U << kRailsAt) - 1;
static_assert(kMostRails <= 0xff >> kRailsAt);

/// First byte of a key's value that holds a word; it is no protocol version.
constexpr std::uint8_t kNoRow = 0;

/// PeerAddress::pid has the lower bits of a number, enough for any process; PeerAddress::first_core
/// has the upper ones.
constexpr int kFirstCoreAt = 22;
constexpr std::uint32_t kPidMask = (1U << kFirstCoreAt) - 1;
static_assert(kMostFirstCores - 1 <= UINT32_MAX >> kFirstCoreAt);

/// The bits above PeerAddress::process in its number hold PeerAddress::device_blocks, and above
/// that PeerAddress::device_copies.
constexpr int kDeviceBlocksAt = kProcessBits, kDeviceCopiesAt = 62;
constexpr std::uint64_t kProcessMask = (std::uint64_t{1} << kProcessBits) - 1;
static_assert(kMostDeviceBlocks < 1U << (kDeviceCopiesAt - kDeviceBlocksAt));

void write(Writer& writer, const Row& row) {
  const PeerAddress& address = row.address;
  for (const std::uint8_t byte : address.ip) writer.number(byte);
  writer.number(address.port).number(address.cores).number(address.machine_cores);
  writer.number(address.machine).number(address.host);
  writer.number((address.process & kProcessMask) |
                std::uint64_t{address.device_blocks} << kDeviceBlocksAt |
                std::uint64_t{address.device_copies} << kDeviceCopiesAt);
  writer.number((address.pid & kPidMask) | std::uint32_t{address.first_core} << kFirstCoreAt)
      .number(static_cast<std::uint8_t>(address.fabrics | address.rails << kRailsAt))
      .number(address.device)
      .number(address.agreement);
  writer.number(row.nonce);
}

Row read_row(Reader& reader) {
  Row row;
  PeerAddress& address = row.address;
  for (std::uint8_t& byte : address.ip) byte = reader.number<std::uint8_t>();
  address.port = reader.number<std::uint16_t>();
  address.cores = reader.number<std::uint16_t>();
  address.machine_cores = reader.number<std::uint16_t>();
  address.machine = reader.number<std::uint32_t>();
  address.host = reader.number<std::uint64_t>();
  const auto share = reader.number<std::uint64_t>();
  address.process = share & kProcessMask;
  address.device_blocks = share >> kDeviceBlocksAt & kMostDeviceBlocks;
  address.device_copies = static_cast<std::uint8_t>(share >> kDeviceCopiesAt);
  const auto process = reader.number<std::uint32_t>();
  address.pid = process & kPidMask;
  address.first_core = static_cast<std::uint16_t>(process >> kFirstCoreAt);
  const auto rdma = reader.number<std::uint8_t>();
  address.fabrics = rdma & kFabricsMask;
  address.rails = static_cast<std::uint8_t>(rdma >> kRailsAt);
  address.device = reader.number<std::uint32_t>();
  address.agreement = reader.number<std::uint32_t>();
  row.nonce = reader.number<std::uint64_t>();
  return row;
}

void write(Writer& writer, const Failure& failure) {
  writer.number(static_cast<std::uint8_t>(failure.kind));
  writer.number(failure.culprit.value_or(kNoCulprit));
  writer.text(std::string_view(failure.message).substr(0, kMaxText));
}

std::optional<Failure> read_failure(Reader& reader) {
  const auto kind = reader.number<std::uint8_t>();
  const auto culprit = reader.number<std::uint32_t>();
  const std::string_view text = reader.text();
  if (reader.bad() || text.size() > kMaxText) return std::nullopt;
  if (kind > static_cast<std::uint8_t>(ErrorKind::internal)) return std::nullopt;
  Failure failure{static_cast<ErrorKind>(kind), std::string(text), std::nullopt};
  if (culprit != kNoCulprit) failure.culprit = culprit;
  return failure;
}

}  // namespace

Result<Frame> parse(std::string_view payload) {
  if (payload.size() < kHeadBytes) return fail(ErrorKind::corrupt, "an empty control message");
  const auto version = static_cast<std::uint8_t>(payload[0]);
  const auto type = static_cast<std::uint8_t>(payload[1]);
  if (version != kWireVersion)
    return fail(ErrorKind::corrupt, "control protocol version {} (this build speaks {})", version,
                kWireVersion);
  if (type < static_cast<std::uint8_t>(Type::hello) || type > static_cast<std::uint8_t>(Type::beat))
    return fail(ErrorKind::corrupt, "a control message of unknown type {}", type);
  return Frame{static_cast<Type>(type), payload.substr(kHeadBytes)};
}

Result<std::optional<Frame>> next_frame(std::string_view& bytes, std::size_t limit) {
  if (bytes.size() < kLengthBytes) return std::nullopt;
  const std::size_t length = net::Reader(bytes).number<std::uint32_t>();
  if (length > limit)
    return fail(ErrorKind::corrupt, "a control message of {} bytes (at most {} are possible)",
                length, limit);
  if (bytes.size() < kLengthBytes + length) return std::nullopt;
  const Result<Frame> frame = parse(bytes.substr(kLengthBytes, length));
  if (!frame) return tl::unexpected(frame.error());
  bytes.remove_prefix(kLengthBytes + length);
  return *frame;
}

std::string encode_hello(Type type, const Hello& hello) {
  Writer writer;
  writer.number(hello.rank).number(hello.size).number(hello.callee);
  write(writer, hello.row);
  return framed(type, writer.bytes());
}

std::string encode(const Hello& hello) { return encode_hello(Type::hello, hello); }
std::string encode_question(const Hello& hello) { return encode_hello(Type::question, hello); }

std::optional<Hello> decode_hello(std::string_view body) {
  Reader reader(body);
  Hello hello;
  hello.rank = reader.number<std::uint32_t>();
  hello.size = reader.number<std::uint32_t>();
  hello.callee = reader.number<std::uint64_t>();
  hello.row = read_row(reader);
  if (!reader.complete()) return std::nullopt;
  return hello;
}

std::string encode_welcome() { return framed(Type::welcome, {}); }

std::string encode(const Refusal& refusal) {
  Writer writer;
  writer.number(std::uint8_t{refusal.final});
  write(writer, refusal.reason);
  return framed(Type::refused, writer.bytes());
}

std::optional<Refusal> decode_refusal(std::string_view body) {
  Reader reader(body);
  const bool final = reader.number<std::uint8_t>() != 0;
  auto reason = read_failure(reader);
  if (!reader.complete() || !reason) return std::nullopt;
  return Refusal{final, std::move(*reason)};
}

std::string encode_rows(const std::vector<Row>& rows) {
  Writer writer;
  for (const Row& row : rows) write(writer, row);
  return framed(Type::gathered, writer.bytes());
}

std::string encode_table(const std::vector<Row>& rows, std::string_view rank0_text) {
  Writer writer;
  for (const Row& row : rows) write(writer, row);
  return framed(Type::table, writer.take().append(rank0_text));
}

std::optional<std::vector<Row>> decode_rows(std::string_view body, std::size_t count) {
  if (body.size() != count * kRowBytes) return std::nullopt;
  Reader reader(body);
  std::vector<Row> rows(count);
  for (Row& row : rows) row = read_row(reader);
  if (!reader.complete()) return std::nullopt;
  return rows;
}

std::optional<Table> decode_table(std::string_view body, std::size_t count) {
  const std::size_t rows_end = count * kRowBytes;
  if (body.size() < rows_end || body.size() > rows_end + kMaxRank0Text) return std::nullopt;
  auto rows = decode_rows(body.substr(0, rows_end), count);
  if (!rows) return std::nullopt;
  return Table{std::move(*rows), std::string(body.substr(rows_end))};
}

std::string encode(const FailureNews& news) {
  Writer writer;
  writer.number(news.origin).number(news.number).number(news.communicator);
  write(writer, news.failure);
  return framed(Type::failure, writer.bytes());
}

std::optional<FailureNews> decode_failure(std::string_view body, std::uint32_t size) {
  Reader reader(body);
  FailureNews news;
  news.origin = reader.number<std::uint32_t>();
  news.number = reader.number<std::uint32_t>();
  news.communicator = reader.number<std::uint64_t>();
  auto failure = read_failure(reader);
  if (!reader.complete() || !failure || news.origin >= size) return std::nullopt;
  if (failure->culprit && *failure->culprit >= size) return std::nullopt;
  news.failure = std::move(*failure);
  return news;
}

std::string encode_left(std::span<const std::uint32_t> ranks) {
  Writer writer;
  for (const std::uint32_t rank : ranks) writer.number(rank);
  return framed(Type::left, writer.bytes());
}

std::optional<std::vector<std::uint32_t>> decode_left(std::string_view body, std::uint32_t size) {
  if (body.empty()) return std::nullopt;
  Reader reader(body);
  std::vector<std::uint32_t> ranks(body.size() / sizeof(std::uint32_t));
  for (std::uint32_t& rank : ranks) {
    rank = reader.number<std::uint32_t>();
    if (rank >= size) return std::nullopt;
  }
  if (!reader.complete()) return std::nullopt;
  return ranks;
}

std::string encode(const Publication& publication) {
  Writer writer;
  const Waiting& waiting = publication.waiting;
  const Signature& signature = waiting.signature;
  writer.number(publication.from).number(publication.to);
  writer.number(static_cast<std::uint8_t>(publication.detour));
  writer.number(waiting.communicator).number(waiting.sequence);
  writer.number(signature.count).number(signature.root).number(signature.kind);
  writer.number(signature.type).number(signature.op).number(signature.algorithm);
  writer.text(std::string_view(waiting.note).substr(0, kMaxNote));
  return framed(Type::waiting, writer.bytes());
}

std::optional<Publication> decode_publication(std::string_view body, std::uint32_t size) {
  Reader reader(body);
  Publication publication;
  Waiting& waiting = publication.waiting;
  publication.from = reader.number<std::uint32_t>();
  publication.to = reader.number<std::uint32_t>();
  publication.detour = reader.number<std::uint8_t>() != 0;
  waiting.communicator = reader.number<std::uint64_t>();
  waiting.sequence = reader.number<std::uint64_t>();
  waiting.signature.count = reader.number<std::uint64_t>();
  waiting.signature.root = reader.number<std::uint32_t>();
  waiting.signature.kind = reader.number<std::uint8_t>();
  waiting.signature.type = reader.number<std::uint8_t>();
  waiting.signature.op = reader.number<std::uint8_t>();
  waiting.signature.algorithm = reader.number<std::uint8_t>();
  const std::string_view note = reader.text();
  if (!reader.complete() || note.size() > kMaxNote) return std::nullopt;
  if (publication.from >= size || publication.to >= size) return std::nullopt;
  waiting.note = note;
  return publication;
}

std::string encode(const Answer& answer) {
  Writer writer;
  writer.number(answer.communicator).number(answer.number);
  writer.number(answer.rank).number(answer.said).number(answer.attempt);
  writer.number(static_cast<std::uint8_t>(answer.state));
  writer.number(static_cast<std::uint32_t>(answer.gone.size()));
  for (const std::uint32_t rank : answer.gone) writer.number(rank);
  write(writer, answer.why);
  return framed(Type::answer, writer.bytes());
}

std::optional<Answer> decode_answer(std::string_view body, std::uint32_t size) {
  Reader reader(body);
  Answer answer;
  answer.communicator = reader.number<std::uint64_t>();
  answer.number = reader.number<std::uint64_t>();
  answer.rank = reader.number<std::uint32_t>();
  answer.said = reader.number<std::uint64_t>();
  answer.attempt = reader.number<std::uint32_t>();
  const auto state = reader.number<std::uint8_t>();
  const auto count = reader.number<std::uint32_t>();
  if (reader.bad() || answer.rank >= size || count > size) return std::nullopt;
  if (state > static_cast<std::uint8_t>(Answer::State::closed)) return std::nullopt;
  answer.state = static_cast<Answer::State>(state);
  answer.gone.resize(count);
  for (std::uint32_t& rank : answer.gone) rank = reader.number<std::uint32_t>();
  const bool ascends =
      std::ranges::adjacent_find(answer.gone, std::ranges::greater_equal{}) == answer.gone.end();
  auto why = read_failure(reader);
  if (!reader.complete() || !why || !ascends) return std::nullopt;
  if (!answer.gone.empty() && answer.gone.back() >= size) return std::nullopt;
  if (why->culprit && *why->culprit >= size) return std::nullopt;
  answer.why = std::move(*why);
  return answer;
}

std::string encode_beat(std::uint32_t limit_ms) {
  Writer writer;
  return framed(Type::beat, writer.number(limit_ms).bytes());
}

std::optional<std::uint32_t> decode_beat(std::string_view body) {
  Reader reader(body);
  const auto limit_ms = reader.number<std::uint32_t>();
  if (!reader.complete()) return std::nullopt;
  return limit_ms;
}

std::string key_of(std::uint32_t rank) { return fmt::format("{}{}", kKeyPrefix, rank); }

std::string encode_key(const Row& row) {
  Writer writer;
  writer.number(kWireVersion);
  write(writer, row);
  return writer.take();
}

std::optional<Row> decode_key(std::string_view value) {
  if (const auto word = decode_word(value, UINT32_MAX)) return word->row;
  Reader reader(value);
  if (reader.number<std::uint8_t>() != kWireVersion) return std::nullopt;
  const Row row = read_row(reader);
  if (!reader.complete()) return std::nullopt;
  return row;
}

std::string encode_key(const Word& word) {
  Writer writer;
  const auto since = std::chrono::nanoseconds(word.began.time_since_epoch());
  writer.number(kNoRow).number(kWireVersion);
  write(writer, word.why);
  writer.number(word.host).number(static_cast<std::uint64_t>(since.count()));
  if (word.row) write(writer, *word.row);
  return writer.take();
}

std::optional<Word> decode_word(std::string_view value, std::uint32_t size) {
  Reader reader(value);
  if (reader.number<std::uint8_t>() != kNoRow) return std::nullopt;
  if (reader.number<std::uint8_t>() != kWireVersion) return std::nullopt;
  auto why = read_failure(reader);
  if (!why || (why->culprit && *why->culprit >= size)) return std::nullopt;
  Word word{std::move(*why), reader.number<std::uint64_t>(), {}, {}};
  word.began += std::chrono::nanoseconds(static_cast<std::int64_t>(reader.number<std::uint64_t>()));
  if (!reader.complete()) word.row = read_row(reader);
  if (!reader.complete()) return std::nullopt;
  return word;
}

}  // namespace ccoll::control
