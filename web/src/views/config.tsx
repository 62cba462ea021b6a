import { useState } from "preact/hooks";

import type { Json } from "../api";
import { useApi } from "../hooks";
import { Code } from "../code";
import { Badge, Loading, Panel, Problem } from "../parts";
import { Differences } from "./compare";

export function Config(props: { run: string; runs: Json[] }) {
  const config = useApi(`/api/runs/${props.run}/config`);
  const [other, setOther] = useState("");
  const [search, setSearch] = useState("");
  const [changed, setChanged] = useState(false);
  const beside = useApi(other ? `/api/runs/${other}/config` : null);
  if (!config.data) return config.error ? <Problem error={config.error} /> : <Loading />;
  const { values, defaults } = config.data;
  const differs = (key: string) => key in defaults && JSON.stringify(defaults[key]) !== JSON.stringify(values[key]);
  const keys = Object.keys(values).filter((key) => key.includes(search) && (!changed || differs(key)));
  return (
    <>
      <Problem error={config.data.error ?? ""} />
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Key has
          <input type="search" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />
        </label>
        <label class="check">
          <input type="checkbox" checked={changed} onChange={(e) => setChanged(e.currentTarget.checked)} /> only changed keys
        </label>
        <label>
          Differences to
          <select value={other} onChange={(e) => setOther(e.currentTarget.value)}>
            <option value="">no other run</option>
            {props.runs.filter((r) => r.name !== props.run).map((r) => (
              <option key={r.name}>{r.name}</option>
            ))}
          </select>
        </label>
      </form>
      {beside.data && <Differences names={[props.run, other]} values={[values, beside.data.values]} />}
      <Panel title="Resolved config">
        {keys.length === 0 ? (
          <p class="empty">No key matches.</p>
        ) : (
          <table class="rows">
            <thead>
              <tr>
                <th>Key</th>
                <th>Value</th>
                <th>Default</th>
              </tr>
            </thead>
            <tbody>
              {keys.map((key) => (
                <tr key={key}>
                  <td data-name="Key">
                    <code>{key}</code>
                  </td>
                  <td data-name="Value" class="wide">
                    <code>{JSON.stringify(values[key])}</code> {differs(key) && <Badge text="changed" tone="warn" />}
                  </td>
                  <td data-name="Default" class="soft wide">
                    <code>{key in defaults ? JSON.stringify(defaults[key]) : "–"}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Panel>
      <Panel title="config.toml">
        <Code text={config.data.text} />
      </Panel>
    </>
  );
}
