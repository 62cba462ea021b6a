// The tags and the note of a run, which everybody who may look at it may change.
import { useState } from "preact/hooks";

import { isExport, saveNotes, type Json } from "../api";
import { Panel, Problem } from "../parts";
import { Tags } from "../runs";

export function Notes(props: { run: string; data: Json }) {
  const [saved, setSaved] = useState<{ tags: string[]; note: string } | null>(null);
  const [draft, setDraft] = useState<{ tags: string; note: string } | null>(null);
  const [error, setError] = useState("");
  const { tags, note } = saved ?? { tags: (props.data.tags ?? []) as string[], note: (props.data.note ?? "") as string };
  if (draft === null) {
    const edit = (
      <button type="button" class="quiet" onClick={() => setDraft({ tags: tags.join(" "), note })}>
        {tags.length > 0 || note ? "Edit" : "Add tags or a note"}
      </button>
    );
    if (isExport && tags.length === 0 && !note) return null;
    return (
      <div class="notes">
        <Tags tags={tags} />
        {note && <p class="said">{note}</p>}
        {!isExport && edit}
      </div>
    );
  }
  const save = (event: Event) => {
    event.preventDefault();
    const next = { tags: [...new Set(draft.tags.split(/[\s,]+/).filter(Boolean))].sort(), note: draft.note };
    saveNotes(props.run, next).then(
      () => {
        setSaved(next);
        setDraft(null);
        setError("");
      },
      (problem) => setError(problem.message),
    );
  };
  return (
    <Panel title="Tags and note">
      <form class="note-form" onSubmit={save}>
        <Problem error={error} />
        <label>
          Tags, with spaces between them
          <input type="text" value={draft.tags} onInput={(e) => setDraft({ ...draft, tags: e.currentTarget.value })} />
        </label>
        <label>
          Note
          <textarea rows={4} value={draft.note} onInput={(e) => setDraft({ ...draft, note: e.currentTarget.value })} />
        </label>
        <span class="buttons">
          <button type="submit">Save</button>
          <button type="button" class="quiet" onClick={() => setDraft(null)}>
            Cancel
          </button>
        </span>
      </form>
    </Panel>
  );
}
