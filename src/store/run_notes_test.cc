#include "store/run_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(RunNotes, AreReadAsTheyWereWrittenAndTagsAreSortedOnce) {
  TemporaryDirectory run;
  EXPECT_THAT(ReadRunNotes(run.path()).value().tags, IsEmpty()) << "no file yet";
  const std::string note = "learning rate halved\n\t<b>\"bold\"</b> \xc3\xa9";
  ASSERT_TRUE(WriteRunNotes(run.path(), {{"paper", "baseline", "paper"}, note}).ok());
  const RunNotes read = ReadRunNotes(run.path()).value();
  EXPECT_THAT(read.tags, ElementsAre("baseline", "paper"));
  EXPECT_EQ(read.note, note);
}

TEST(RunNotes, WhatIsRefusedChangesNothing) {
  TemporaryDirectory run;
  ASSERT_TRUE(WriteRunNotes(run.path(), {{"kept"}, "kept"}).ok());
  const RunNotes wrong[] = {{{"two words"}, ""},
                            {{"a,b"}, ""},
                            {{""}, ""},
                            {{std::string(65, 'a')}, ""},
                            {{"bell\a"}, ""},
                            {{"\xff"}, ""},
                            {std::vector<std::string>(33, "a"), ""},
                            {{}, "escape \033[2J"},
                            {{}, "\xff"},
                            {{}, std::string(16 * 1024 + 1, 'a')}};
  for (const RunNotes& notes : wrong) {
    EXPECT_EQ(WriteRunNotes(run.path(), notes).code(), Code::kInvalid);
  }
  EXPECT_THAT(ReadRunNotes(run.path()).value().tags, ElementsAre("kept"));
  EXPECT_EQ(ReadRunNotes(run.path()).value().note, "kept");
}

TEST(RunNotes, AFileOfAnotherFormIsNamed) {
  TemporaryDirectory run;
  for (const char* text :
       {"", "[]", "{\"tags\": 3, \"note\": \"\"}", "{\"tags\": [3], \"note\": \"\"}",
        "{\"tags\": [], \"note\": 3}", "{\"tags\": [\"a b\"], \"note\": \"\"}"}) {
    std::ofstream(run / "notes.json") << text;
    const Status status = ReadRunNotes(run.path()).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << text;
    EXPECT_THAT(status.message(), HasSubstr(run / "notes.json"));
  }
}

}  // namespace
}  // namespace tidemill
