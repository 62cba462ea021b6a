#include "http/request_head.h"

#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http.hpp>

namespace tidemill {
namespace {

namespace http = boost::beast::http;

// How the server answers a head with these lines: the status; 0: it is taken.
int StatusOfHead(const std::string& lines) {
  const std::string bytes = "POST /x HTTP/1.1\r\nHost: localhost\r\n" + lines + "\r\n";
  if (const auto fault = CheckHeadBytes(bytes)) return fault->status;
  http::request_parser<http::buffer_body> parser;
  boost::beast::error_code error;
  parser.put(boost::asio::buffer(bytes), error);
  if (!parser.is_header_done()) return 400;  // the parser refuses it itself
  const auto fault = CheckRequestHead(parser.get());
  return fault ? fault->status : 0;
}

TEST(RequestHead, WhatIsReadInTwoWaysIsRefused) {
  for (const char* lines : {"Content-Length: 93, 93\r\n",
                            "Content-Length: 93,93\r\n",
                            "Content-Length: +93\r\n",
                            "Content-Length: 0x5d\r\n",
                            "Content-Length: \r\n",
                            "Content-Length: 93 \r\n93\r\n",
                            "Content-Length: 4\r\nContent-Length: 4\r\n",
                            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                            "Transfer-Encoding: chunked, chunked\r\n",
                            "Transfer-Encoding: xchunked\r\n",
                            "Transfer-Encoding: gzip, chunked\r\n",
                            "Transfer-Encoding : chunked\r\n",
                            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
                            "Host: other\r\n",
                            "X: one\r\n two\r\n",
                            "X: one\r\n\ttwo\r\n",
                            "X:\r\n Content-Length: 4\r\n",
                            " X: first\r\n",
                            "X: a\nContent-Length: 4\r\n",
                            "X: a\rContent-Length: 4\r\n"}) {
    EXPECT_EQ(StatusOfHead(lines), 400) << lines;
  }
}

TEST(RequestHead, WhatIsAskedForAndNotDoneIsSaid) {
  EXPECT_EQ(StatusOfHead("Expect: 200-ok\r\n"), 417);
  EXPECT_EQ(StatusOfHead("Expect: 100-continue, x\r\n"), 417);
  EXPECT_EQ(StatusOfHead("Expect: 100-continue\r\nExpect: 100-continue\r\n"), 417);
  EXPECT_EQ(StatusOfHead("Content-Encoding: gzip\r\n"), 415);
  EXPECT_EQ(StatusOfHead("Content-Encoding: identity\r\nContent-Encoding: br\r\n"), 415);
}

TEST(RequestHead, OrdinaryHeadsAreTaken) {
  for (const char* lines :
       {"", "Content-Length: 93\r\n", "Content-Length: 0\r\n", "content-length:  7  \r\n",
        "Transfer-Encoding: Chunked\r\n", "Expect: 100-Continue\r\nContent-Length: 4\r\n",
        "Content-Encoding: identity\r\n", "X: a  b\tc\r\nY:\r\n"}) {
    EXPECT_EQ(StatusOfHead(lines), 0) << lines;
  }
}

TEST(RequestHead, BytesBehindTheHeadAreNotLookedAt) {
  EXPECT_FALSE(CheckHeadBytes("POST / HTTP/1.1\r\nHost: a\r\n\r\n{\r\n \"indented\": 1}"));
  EXPECT_TRUE(CheckHeadBytes("POST / HTTP/1.1\r\nHost: a\r\n "));
  EXPECT_FALSE(CheckHeadBytes("POST / HTTP/1.1\r\nHo"));
}

}  // namespace
}  // namespace tidemill
