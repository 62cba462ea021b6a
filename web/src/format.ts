// Numbers, times and names for people.

export function percent(value: number | null | undefined, digits = 0): string {
  return value === null || value === undefined || Number.isNaN(value) ? "–" : `${(100 * value).toFixed(digits)} %`;
}

export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  if (size >= 100) return Math.round(value).toLocaleString("en-US");
  if (size >= 1) return value.toFixed(2);
  if (size >= 0.001 || value === 0) return value.toFixed(3);
  return value.toExponential(1);
}

export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString("en-GB");
}

export function dateTime(ms: number): string {
  const date = new Date(ms);
  return `${date.toLocaleDateString("en-CA")} ${date.toLocaleTimeString("en-GB")}`;
}

// "max_tokens" -> "max tokens"
export function words(name: string): string {
  return name.replace(/_/g, " ");
}

export function query(parameters: Record<string, string | number | undefined | null>): string {
  const parts = Object.entries(parameters)
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`);
  return parts.length ? `?${parts.join("&")}` : "";
}
