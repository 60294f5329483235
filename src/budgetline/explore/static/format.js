// Numbers as text, as in the report.

export const amount = x => String(Number(x.toPrecision(6)));
export const minus = text => text.replace("-", Number(text) === 0 ? "" : "−");
export function number(x, style) {
  if (x === null || x === undefined) return "–";
  if (style === "percent") return minus((100 * x).toFixed(1)) + " %";
  return minus(style === "fixed" ? x.toFixed(3) : String(Number(x.toPrecision(4))));
}
export function change(x, style) {
  const text = number(x, style).replace(" %", " pp");
  return x === null || text.startsWith("−") ? text : `+${text}`;
}
export const withError = (value, error, style) => error === null || error === undefined || value === null
  ? number(value, style) : `${number(value, style).replace(" %", "")} ± ${number(error, style)}`;
export const share = x => number(x, "percent");
export const difference = (a, b) => (a === null || b === null ? null : b - a);
export const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
export const listed = names => names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names.join("");
export function some(names, most) {
  return names.length > most ? `${names.slice(0, most).join(", ")} and ${names.length - most} more` : names.join(", ") || "none";
}
export const cut = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
