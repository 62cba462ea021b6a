#include "http/http_ask.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>

#include "core/fd.h"

namespace tidemill {
namespace {

using AskClock = std::chrono::steady_clock;

Result<sockaddr_in> AddressOf(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const Status wrong = Invalid("\"" + url + "\": must be http://ADDRESS:PORT");
  if (url.rfind(kScheme, 0) != 0) return wrong;
  std::string place = url.substr(kScheme.size());
  place = place.substr(0, place.find('/'));
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos) return wrong;
  uint16_t port = 0;
  const char* end = place.data() + place.size();
  const auto [stop, error] = std::from_chars(place.data() + colon + 1, end, port);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  const std::string host = place.substr(0, colon);
  const std::string numeric = host == "localhost" || host == "0.0.0.0" ? "127.0.0.1" : host;
  if (error != std::errc() || stop != end || port == 0 ||
      inet_pton(AF_INET, numeric.c_str(), &address.sin_addr) != 1) {
    return wrong;
  }
  return address;
}

Status WaitFor(const Fd& fd, short events, AskClock::time_point until) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - AskClock::now()).count();
  pollfd poller{fd.get(), events, 0};
  if (left <= 0 || poll(&poller, 1, static_cast<int>(left)) == 0)
    return Timeout("no answer in time");
  return Ok();
}

Result<HttpResponse> ParseAnswer(const std::string& text) {
  const size_t head = text.find("\r\n\r\n");
  HttpResponse response;
  if (head == std::string::npos || text.rfind("HTTP/1.", 0) != 0 || text.size() < 12 ||
      std::from_chars(text.data() + 9, text.data() + 12, response.status).ec != std::errc()) {
    return Unavailable("the answer is no HTTP");
  }
  response.body = text.substr(head + 4);
  return response;
}

}  // namespace

Result<HttpResponse> AskHttp(const HttpQuestion& question) {
  TM_ASSIGN_OR_RETURN(const sockaddr_in address, AddressOf(question.url));
  const auto until = AskClock::now() + question.timeout;
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return Unavailable(std::string("socket: ") + std::strerror(errno));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Unavailable(question.url + ": " + std::strerror(errno));
  }
  std::string request = question.method + " " + question.path +
                        " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  if (!question.bearer.empty()) request += "Authorization: Bearer " + question.bearer + "\r\n";
  request +=
      "Content-Type: application/json\r\nContent-Length: " + std::to_string(question.body.size()) +
      "\r\n\r\n" + question.body;
  for (size_t sent = 0; sent < request.size();) {
    TM_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, until).WithContext(question.url));
    const ssize_t n = send(fd.get(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return Unavailable(question.url + ": " + std::strerror(errno));
    sent += static_cast<size_t>(n);
  }
  std::string answer;
  while (answer.size() <= question.answer_bytes_max) {
    TM_RETURN_IF_ERROR(WaitFor(fd, POLLIN, until).WithContext(question.url));
    char some[64 * 1024];
    const ssize_t n = recv(fd.get(), some, sizeof some, 0);
    if (n < 0) return Unavailable(question.url + ": " + std::strerror(errno));
    if (n == 0) return ParseAnswer(answer);
    answer.append(some, static_cast<size_t>(n));
  }
  return Unavailable(question.url + ": the answer is too large");
}

}  // namespace tidemill
