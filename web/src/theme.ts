// Light or dark: what the person chose, or else what the system says, always stands on the page's root.
import { useEffect, useState } from "preact/hooks";

export const THEMES = ["system", "light", "dark"];

const KEY = "tidemill-theme";
const CHANGED = "tidemill-theme";
const systemDark = matchMedia("(prefers-color-scheme: dark)");

export function chosenTheme(): string {
  try {
    return localStorage.getItem(KEY) ?? "system";
  } catch {
    return "system";
  }
}

function apply(theme: string) {
  document.documentElement.dataset.theme = theme === "system" ? (systemDark.matches ? "dark" : "light") : theme;
  dispatchEvent(new Event(CHANGED));
}

export function chooseTheme(theme: string) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // A page from a file may keep nothing.
  }
  apply(theme);
}

// Goes up when the page turns light or dark, for what is painted on a canvas.
export function useTheme(): number {
  const [turns, setTurns] = useState(0);
  useEffect(() => {
    const turn = () => setTurns((old) => old + 1);
    addEventListener(CHANGED, turn);
    return () => removeEventListener(CHANGED, turn);
  }, []);
  return turns;
}

apply(chosenTheme());
systemDark.addEventListener("change", () => apply(chosenTheme()));
