#include "conversation/tool_formats/output_parser.h"

#include <gtest/gtest.h>

#include <random>

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

OutputParserOptions Options(ToolFormat format, bool thinking = false) {
  OutputParserOptions options;
  options.format = {format, thinking};
  return options;
}

// Events with neighbours of one kind joined.
std::vector<OutputEvent> Joined(const std::vector<OutputEvent>& events) {
  std::vector<OutputEvent> out;
  for (const OutputEvent& event : events) {
    const bool goes_on = !out.empty() && out.back().kind == event.kind &&
                         out.back().call == event.call &&
                         event.kind != OutputEvent::Kind::kCallBegin;
    if (goes_on)
      out.back().text += event.text;
    else
      out.push_back(event);
  }
  return out;
}

std::vector<OutputEvent> Parse(const OutputParserOptions& options,
                               const std::vector<std::string>& deltas) {
  OutputParser parser(options);
  std::vector<OutputEvent> events;
  for (const std::string& delta : deltas) parser.Push(delta, events);
  parser.Finish(events);
  return Joined(events);
}

// "text|(reasoning)|name{args}." with the dot where the call ended.
std::string Shown(const OutputParserOptions& options, const std::string& text) {
  std::string out;
  for (const OutputEvent& event : Parse(options, {text})) {
    switch (event.kind) {
      case OutputEvent::Kind::kText:
        out += "|" + event.text;
        break;
      case OutputEvent::Kind::kReasoning:
        out += "|(" + event.text + ")";
        break;
      case OutputEvent::Kind::kCallBegin:
        out += "|" + event.text;
        break;
      case OutputEvent::Kind::kCallArguments:
        out += event.text;
        break;
      case OutputEvent::Kind::kCallEnd:
        out += ".";
        break;
    }
  }
  return out;
}

TEST(HermesCalls, AreReadWithTextAroundThem) {
  const auto o = Options(ToolFormat::kHermesJson);
  EXPECT_EQ(Shown(o, "plain < text {\n"), "|plain < text {\n");
  EXPECT_EQ(Shown(o,
                  "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": \"}\"}]}}\n"
                  "</tool_call>"),
            "|f{\"a\": [1, {\"b\": \"}\"}]}.");
  EXPECT_EQ(Shown(o,
                  "Look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n"
                  "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"x\": 1}}\n</tool_call>\n"),
            "|Look.|f{}.|g{\"x\": 1}.");
  EXPECT_EQ(Shown(o, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\nDone."),
            "|f{}.|\nDone.");
}

TEST(HermesCalls, InAnotherOrderOrFormAreReadWhole) {
  const auto o = Options(ToolFormat::kHermesJson);
  EXPECT_EQ(Shown(o, "<tool_call>{\"arguments\": {\"a\":1}, \"name\": \"f\"}</tool_call>"),
            "|f{\"a\":1}.");
  EXPECT_EQ(Shown(o, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>"),
            "|f{\"a\": 1}.");
  EXPECT_EQ(Shown(o, "<tool_call>{\"name\": \"f\"}</tool_call>"), "|f{}.");
}

TEST(HermesCalls, WhatIsNoCallIsTextByteForByte) {
  const auto o = Options(ToolFormat::kHermesJson);
  for (const std::string text :
       {"<tool_call>", "a\n\n\n<tool_call>\nnot json</tool_call>",
        "<tool_call>{\"name\": 3}</tool_call>", "<tool_call>[1]</tool_call>",
        "<tool_call>{\"name\": \"f\", \"argum", "</tool_call>", "<tool_call>{'name': 'f'}",
        "<tool_cal", "<tool_call><tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": {}, ",
        "x\n"}) {
    EXPECT_EQ(Shown(o, text).substr(0, 1), "|");
    if (text.find("{}") != std::string::npos) continue;
    EXPECT_EQ(Shown(o, text), "|" + text);
  }
  // A call whose arguments go wrong has no end, and the rest follows as text.
  EXPECT_EQ(Shown(o, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops}}</tool_call>"),
            "|f{\"a\": oops|}}</tool_call>");
  EXPECT_EQ(Shown(o, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"cut"),
            "|f{\"a\": \"cut");
  EXPECT_EQ(Shown(o, "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"id\": 1}</tool_call>"),
            "|f{}.|, \"id\": 1}</tool_call>");
  // A second marker right behind a failed one still counts.
  EXPECT_EQ(Shown(o, "<tool_call>\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"),
            "|<tool_call>\n|f{}.");
}

TEST(Thinking, IsReasoningBeforeAnythingElse) {
  const auto o = Options(ToolFormat::kHermesJson, true);
  EXPECT_EQ(Shown(o, "<think>\nWhy?\n\nSo.\n</think>\n\nBecause."), "|(Why?\n\nSo.)|Because.");
  EXPECT_EQ(Shown(o, "<think>a</think><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"),
            "|(a)|f{}.");
  EXPECT_EQ(Shown(o, "Use <think> tags"), "|Use <think> tags");
  EXPECT_EQ(Shown(o, "<think>cut </thin"), "|(cut </thin)");
  EXPECT_EQ(Shown(o, "<think><tool_call>{</think>x"), "|(<tool_call>{)|x");
  auto open = o;
  open.thinking_open = true;
  EXPECT_EQ(Shown(open, "Hm.\n</think>\n\nYes."), "|(Hm.)|Yes.");
  EXPECT_EQ(Shown(Options(ToolFormat::kNone), "<think>a</think>"), "|<think>a</think>");
  EXPECT_TRUE(LeavesThinkingOpen("..<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(LeavesThinkingOpen("..<|im_start|>assistant\n<think>\n\n</think>\n\n"));
}

Json Tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"},
    "x": {"type": "number"}, "b": {"type": "boolean"}, "l": {"type": "array"},
    "o": {"type": "object"}, "u": {"type": ["string", "null"]}, "any": {}}}}}])");
}

std::string CoderCall(const std::string& key, const std::string& value) {
  return "<tool_call>\n<function=f>\n<parameter=" + key + ">\n" + value +
         "\n</parameter>\n</function>\n</tool_call>";
}

TEST(QwenCoderCalls, ValuesHaveTheTypesOfTheSchema) {
  auto o = Options(ToolFormat::kQwenCoderXml);
  o.tools = Tools();
  EXPECT_EQ(Shown(o, "Go.\n\n" + CoderCall("s", "a \"q\"\n\tb</x> </parameterx")),
            "|Go.|f{\"s\": \"a \\\"q\\\"\\n\\tb</x> </parameterx\"}.");
  EXPECT_EQ(Shown(o, CoderCall("n", "5")), "|f{\"n\": 5}.");
  EXPECT_EQ(Shown(o, CoderCall("n", "5.5")), "|f{\"n\": \"5.5\"}.");
  EXPECT_EQ(Shown(o, CoderCall("x", "5")), "|f{\"x\": 5}.");
  EXPECT_EQ(Shown(o, CoderCall("b", "True")), "|f{\"b\": true}.");
  EXPECT_EQ(Shown(o, CoderCall("l", "[1, \"a\"]")), "|f{\"l\": [1, \"a\"]}.");
  EXPECT_EQ(Shown(o, CoderCall("o", "{bad")), "|f{\"o\": \"{bad\"}.");
  EXPECT_EQ(Shown(o, CoderCall("u", "null")), "|f{\"u\": null}.");
  EXPECT_EQ(Shown(o, CoderCall("u", "5")), "|f{\"u\": \"5\"}.");
  EXPECT_EQ(Shown(o, CoderCall("any", "5")), "|f{\"any\": 5}.");
  EXPECT_EQ(Shown(o, CoderCall("unknown", "5")), "|f{\"unknown\": \"5\"}.");
  EXPECT_EQ(Shown(o, "<function=g></function>"), "|g{}.");
  EXPECT_EQ(Shown(o,
                  "<tool_call><function=f><parameter=s>a</parameter><parameter=n>1</parameter>"
                  "</function></tool_call><tool_call>\n<function=g>\n</function>\n</tool_call>"),
            "|f{\"s\": \"a\", \"n\": 1}.|g{}.");
}

TEST(QwenCoderCalls, WhatIsNoCallIsText) {
  const auto o = Options(ToolFormat::kQwenCoderXml);
  for (const std::string text : {"<tool_call>{\"name\": \"f\"}", "<function=", "<function=>",
                                 "<tool_call>\n<fun", "<function=a<b>"}) {
    EXPECT_EQ(Shown(o, text), "|" + text);
  }
  EXPECT_EQ(Shown(o, "<function=f>oops</function>"), "|f{|oops</function>");
  EXPECT_EQ(Shown(o, "<function=f><parameter=a>cut\n</par"), "|f{\"a\": \"cut|\n</par");
}

TEST(Llama3Calls, AreBareObjectsAtTheStart) {
  const auto o = Options(ToolFormat::kLlama3Json);
  EXPECT_EQ(Shown(o, "{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}"), "|f{\"a\": \"b\"}.");
  EXPECT_EQ(Shown(o, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}"), "|f{}.");
  EXPECT_EQ(Shown(o, "{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}"), "|f{}.");
  EXPECT_EQ(
      Shown(o, "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}"),
      "|f{}.|g{}.");
  EXPECT_EQ(Shown(o, "{\"answer\": 42}"), "|{\"answer\": 42}");
  EXPECT_EQ(Shown(o, "See {\"name\": \"f\", \"parameters\": {}}"),
            "|See {\"name\": \"f\", \"parameters\": {}}");
  EXPECT_EQ(Shown(o, "<|python_tag|>print(1)"), "|<|python_tag|>print(1)");
}

TEST(PythonicCalls, BecomeJson) {
  const auto o = Options(ToolFormat::kLlamaPythonic);
  EXPECT_EQ(Shown(o, "[f(a=1, b='x\"y\\'\\n', c=[True, None, {'k': (1, 2.5)}]), g()]"),
            "|f{\"a\": 1, \"b\": \"x\\\"y'\\n\", \"c\": [true, null, {\"k\": [1, 2.5]}]}.|g{}.");
  EXPECT_EQ(Shown(o, "<|python_tag|>[a.b(x = -1e3 ,)]"), "|a.b{\"x\": -1e3 }.");
  for (const std::string text :
       {"[1, 2]", "[link](http://x)", "[f(1)]", "[f(a", "not [f()]", "[]"}) {
    EXPECT_EQ(Shown(o, text), "|" + text);
  }
  EXPECT_EQ(Shown(o, "[f(a=oops)]"), "|f{\"a\": |oops)]");
  EXPECT_EQ(Shown(o, "[f(a=1 2)]"), "|f{\"a\": 1 |2)]");
}

TEST(OutputParser, WhatIsHeldIsBounded) {
  auto o = Options(ToolFormat::kHermesJson);
  o.held_bytes_max = 100;
  const std::string text =
      "<tool_call>{\"x\": \"" + std::string(1000, 'a') + "\", \"name\": \"f\"}";
  EXPECT_EQ(Shown(o, text), "|" + text);
  auto coder = Options(ToolFormat::kQwenCoderXml);
  coder.tools = Tools();
  coder.held_bytes_max = 100;
  const std::string list = "[" + std::string(1000, '1') + "]";
  EXPECT_EQ(Shown(coder, CoderCall("l", list)), "|f{\"l\": \"" + list + "\"}.");
}

TEST(ToolFormat, IsDetectedFromTheTemplate) {
  EXPECT_EQ(DetectOutputFormat("<tool_call>..</tool_call>..</think>"),
            (OutputFormat{ToolFormat::kHermesJson, true}));
  EXPECT_EQ(DetectOutputFormat("<tool_call><function=x><parameter=y>").tools,
            ToolFormat::kQwenCoderXml);
  EXPECT_EQ(DetectOutputFormat("<|start_header_id|> '\"parameters\": '").tools,
            ToolFormat::kLlama3Json);
  EXPECT_EQ(DetectOutputFormat("{{ messages }}"), OutputFormat{});
  for (int i = 0; i < 5; ++i) {
    const auto format = static_cast<ToolFormat>(i);
    EXPECT_EQ(ToolFormatByName(ToolFormatName(format)).value(), format);
  }
  EXPECT_FALSE(ToolFormatByName("xml").ok());
}

// Any way of cutting the text into deltas gives the same events, and text is never lost: texts made
// of fragments that often almost make calls.
TEST(OutputParser, HowTheTextIsCutMakesNoDifference) {
  const std::vector<std::string> fragments = {"<tool_call>",
                                              "</tool_call>",
                                              "\n",
                                              "{\"name\": \"f\", \"arguments\": {",
                                              "\"a\": 1",
                                              "}}",
                                              "}",
                                              "<think>",
                                              "</think>",
                                              "<function=f>",
                                              "</function>",
                                              "<parameter=s>",
                                              "<parameter=n>",
                                              "</parameter>",
                                              "12",
                                              "text ",
                                              "\xc3\xa9",
                                              "<",
                                              "<|python_tag|>",
                                              "[f(a=",
                                              "'x\\n'",
                                              ", b=",
                                              ")",
                                              "]",
                                              "{\"name\": \"g\", \"parameters\": {}}",
                                              "; ",
                                              "\"",
                                              "\\",
                                              "g()",
                                              ", ",
                                              "True"};
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    OutputParserOptions options = Options(static_cast<ToolFormat>(below(5)), below(2) == 0);
    options.thinking_open = below(6) == 0;
    options.tools = Tools();
    if (below(4) == 0) options.held_bytes_max = 24;
    std::string text;
    for (size_t i = below(12); i > 0; --i) text += fragments[below(fragments.size())];
    std::vector<std::string> deltas;
    for (size_t at = 0; at < text.size();) {
      deltas.push_back(text.substr(at, 1 + below(7)));
      at += deltas.back().size();
    }
    const auto whole = Parse(options, {text});
    ASSERT_EQ(Parse(options, deltas), whole) << "seed " << seed << ": " << text;
    const bool calls = std::any_of(whole.begin(), whole.end(), [](const OutputEvent& event) {
      return event.kind != OutputEvent::Kind::kText;
    });
    if (calls || options.format.thinking || options.thinking_open) continue;
    ASSERT_EQ(whole.empty() ? "" : whole[0].text, text) << "seed " << seed;
  }
}

// A call that ended has arguments that are a JSON object.
TEST(OutputParser, EveryCallThatEndedHasAnObjectForArguments) {
  const std::vector<std::string> fragments = {"[f(",
                                              "a=",
                                              "b=",
                                              "'x'",
                                              "\"",
                                              "1",
                                              "-",
                                              "True",
                                              "[",
                                              "]",
                                              "{",
                                              "}",
                                              ":",
                                              ",",
                                              ")",
                                              "(",
                                              "\\x41",
                                              "\\",
                                              " ",
                                              "<function=f>",
                                              "<parameter=o>",
                                              "<parameter=s>",
                                              "</parameter>",
                                              "</function>",
                                              "\n"};
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    auto options = Options(below(2) == 0 ? ToolFormat::kLlamaPythonic : ToolFormat::kQwenCoderXml);
    options.tools = Tools();
    std::string text =
        options.format.tools == ToolFormat::kLlamaPythonic ? "[f(a=" : "<function=f>";
    for (size_t i = below(20); i > 0; --i) text += fragments[below(fragments.size())];
    std::string arguments;
    for (const OutputEvent& event : Parse(options, {text})) {
      if (event.kind == OutputEvent::Kind::kCallBegin) arguments.clear();
      if (event.kind == OutputEvent::Kind::kCallArguments) arguments += event.text;
      if (event.kind != OutputEvent::Kind::kCallEnd) continue;
      ASSERT_TRUE(Json::parse(arguments, nullptr, false).is_object())
          << "seed " << seed << ": " << text << " gave " << arguments;
    }
  }
}

}  // namespace
}  // namespace tidemill
