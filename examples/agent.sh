#!/bin/sh
# The example agent as a shell script: asks the model with curl, writes its answer, runs the visible tests, and asks
# again with the name of the first that failed. For tasks with an answer file and tests in mode "lines", such as the
# demo's; examples/agent.py does the others too. Needs curl, sed and awk.
set -eu

# The JSON of $TIDEMILL_TASK has one value a line, so sed can read it.
text() { # NAME: a string of the task, as it stands in JSON
  sed -n 's/^ "'"$1"'": "\(.*\)",\{0,1\}$/\1/p' "$TIDEMILL_TASK"
}
plain() { # JSON string -> text
  printf '%b' "$(printf '%s' "$1" | sed 's/\\"/"/g; s/\\\//\//g')"
}
list() { # NAME: the strings of a list of the examples
  sed -n '/^  "'"$1"'": \[/,/^  \]/s/^   "\(.*\)",\{0,1\}$/\1/p' "$TIDEMILL_TASK"
}
cases() { # NAME: of every example
  sed -n '/^  "cases": \[/,/^  \]/s/^    "'"$1"'": "\(.*\)",\{0,1\}$/\1/p' "$TIDEMILL_TASK"
}

ask() { # MESSAGES -> the answer's content, as it stands in JSON; fails where there is none
  curl -sS --fail --max-time 3600 "$OPENAI_BASE_URL/chat/completions" -H 'Content-Type: application/json' \
    -H "Authorization: Bearer $OPENAI_API_KEY" -d '{"model":"'"$OPENAI_MODEL"'","messages":['"$1"']}' > "$work/reply"
  ! grep -q '"finish_reason":"length"' "$work/reply" || return 1
  sed 's/.*"content":"\(\([^"\\]\|\\.\)*\)".*/\1/' "$work/reply"
}

first_failure() { # prints the name, in JSON, of the first example that fails; nothing: none does
  rm -rf "$work/test" && mkdir "$work/test"
  cp "$answer_file" "$work/test/"
  sed -n '/^  "harness": {/,/^  }/s/^   "\([^"]*\)": "\(.*\)",\{0,1\}$/\1 \2/p' "$TIDEMILL_TASK" |
    while read -r name content; do plain "$content" > "$work/test/$name"; done
  # shellcheck disable=SC2046  # the words of the command
  (cd "$work/test" && cases input | $(list run) 2> /dev/null) > "$work/printed" || true
  cases expected > "$work/expected"
  cases name > "$work/names"
  awk -v printed="$work/printed" -v names="$work/names" '
    { got = ""; getline got < printed; getline name < names
      if (got != $0) { print name; exit } }' "$work/expected"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
answer_file=$(text answer_file)
messages='{"role":"user","content":"'$(text prompt)'"}'
turns=$(sed -n 's/^ "max_turns": \([0-9]*\).*/\1/p' "$TIDEMILL_TASK")
while [ "$turns" -gt 0 ]; do
  turns=$((turns - 1))
  answer=$(ask "$messages") || exit 0
  failed=
  if [ -n "$answer" ]; then
    { plain "$(text answer_prefix)"; plain "$answer"; plain "$(text answer_suffix)"; } > "$answer_file"
    failed=$(first_failure)
    [ -n "$failed" ] || exit 0
  fi
  messages="$messages"',{"role":"assistant","content":"'"$answer"'"},{"role":"user","content":"'"$failed"'"}'
done
