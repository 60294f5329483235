// Counts and names as text.

import { number } from "./charts.js";

export const share = x => number(x, "percent").replace(" ", "\u00a0");
export const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
export const listed = names => names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names.join("");
export function some(names, most) {
  return names.length > most ? `${names.slice(0, most).join(", ")} and ${names.length - most} more` : names.join(", ") || "none";
}
export const cut = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
