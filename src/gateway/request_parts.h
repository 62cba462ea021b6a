// Shared by the translators: canonical messages, calls and tools, and the fields that several APIs
// have.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "gateway/chat_request.h"
#include "gateway/wire_object.h"

namespace tidemill {

// temperature, top_p, top_k, min_p, seed.
void ReadSampling(const WireObject& body, SamplingFields& out);

// A string or a list of strings; none may be empty.
void ReadStops(const WireObject& body, std::string_view key, SamplingFields& out);

// chat_template_kwargs, which may not take the place of what the gateway itself gives a template.
void ReadTemplateKwargs(const WireObject& body, ChatRequest& request);

// The client's settings for thinking go to the template, unless chat_template_kwargs says it too.
void SetThinking(ChatRequest& request, bool enabled);
// "none" turns thinking off; anything else is the template's `reasoning_effort`.
void SetEffort(ChatRequest& request, const std::string& effort);

// Names of the session: adds {name, value} to the request's hints where the string is there.
void AddHint(const WireObject& object, std::string_view key, std::string_view name,
             ChatRequest& request);

// The ids in an object that clients keep notes in: "metadata.session_id" ..
void AddMetadataHints(const WireObject& body, const std::string& field, ChatRequest& request);

// How the texts of several parts become one.
enum class JoinParts : uint8_t {
  kLines,  // what others say: each part on a line of its own
  kAsOne,  // what the model wrote: nothing between
};

// The `type` of one of several kinds of objects, `absent` where it has none, by the table's rule
// for it; empty: it is ignored, or there was an error.
std::string CheckedType(WireParse& parse, const WireJson& value, const WirePlace& at,
                        std::string_view where, std::string_view absent);

// Content that is a string or a list of parts of types that the table's `where` allows. The text of
// a part is in the field of its type: `text`, for "refusal" `refusal`.
std::string ReadOpenAiContent(const WireObject& message, std::string_view key,
                              std::string_view where, JoinParts join);

// Appends `text` to `all` as one more part.
void JoinText(std::string& all, std::string_view text, bool first, JoinParts join);

// {role, content}.
WireJson CanonicalMessage(std::string_view role, std::string content);

// {role, content, reasoning_content, tool_calls}, the last two where there are any.
WireJson CanonicalAssistant(std::string content, std::string reasoning, WireJson calls);

// {id, type, function: {name, arguments}}. Arguments that are no JSON object stay the string.
WireJson CanonicalCall(const std::string& id, const std::string& name, const std::string& arguments,
                       const WireLimits& limits);

// Gives each tool message the name of the function its call named, whatever the client sent.
void NameToolMessages(WireJson& messages);

// Collects the tools of a request.
class ToolList {
 public:
  explicit ToolList(WireParse& parse) : parse_(parse) {}

  // {type, function: {name, description, parameters}}; null after an error: the name is not a name
  // or is there already, or there are too many.
  WireJson Make(const std::string& name, const std::optional<std::string>& description,
                const WireJson* parameters, const WirePlace& at);
  bool Has(const std::string& name) const { return names_.contains(name); }

 private:
  WireParse& parse_;
  std::set<std::string> names_;
};

// An error where the choice asks for a tool that is not there.
void CheckToolChoice(const WireObject& body, const ChatRequest& request);

// Leaves in `request.tools` only those named.
void KeepTools(ChatRequest& request, const std::set<std::string>& names);

}  // namespace tidemill
