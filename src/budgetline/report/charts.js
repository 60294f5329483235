// Numbers as text and charts, for the report and for the page of `budgetline explore`.

const SPACE = document.querySelector("svg").namespaceURI;
export const SLACK = 1e-12;

// -- numbers as text: as in formatting.py ---

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
// A name as nodes: lines break after "_", "." and the like, and within "MonthlyIncome", before they break a word.
const WORDS = /(?<=[_./\-])(?=[^_./\-])|(?<=[a-z])(?=[A-Z])/;
export const named = name => name.split(WORDS).flatMap((part, k) => (k ? [document.createElement("wbr"), part] : [part]));
export const difference = (a, b) => (a === null || b === null ? null : b - a);

// -- scales and axes ---

export function draw(parent, name, attributes, text) {
  const node = document.createElementNS(SPACE, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}
export function canvas(plot, wanted, height) {
  const svg = plot.querySelector("svg"), width = Math.max(260, Math.round(wanted));
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return { svg, width, height };
}
function niceStep(low, high, wanted) {
  const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find(m => m * power >= raw * (1 - SLACK));
}
function niceTicks(low, high, step) {
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}
// Linear, or logarithmic where positive values span much; zeros then sit on a line of their own at the start.
export function scaleOf(values, from, to, wanted, mayBeLog = false) {
  const known = values.filter(v => v !== null), positive = known.filter(v => v > 0);
  let low = Math.min(...known), high = Math.max(...known);
  if (mayBeLog && positive.length && high / Math.min(...positive) > 30) {
    const least = Math.log10(Math.min(...positive)), most = Math.log10(high);
    const gap = low <= 0 ? 26 * Math.sign(to - from) : 0, pad = 14 * Math.sign(to - from);
    const place = v => v > 0 ? from + gap + pad + (to - from - gap - 2 * pad) * (Math.log10(v) - least) / (most - least) : from + pad / 2;
    const ticks = low <= 0 ? [0] : [];
    for (let e = Math.ceil(least); e <= most; e++) ticks.push(Number(`1e${e}`));
    if (ticks.length < 3) for (let e = Math.floor(least); e <= most; e++) for (const m of [2, 5]) if (Math.log10(m * 10 ** e) >= least && Math.log10(m * 10 ** e) <= most) ticks.push(Number(`${m}e${e}`));
    return { place, ticks };
  }
  if (mayBeLog) low = Math.min(0, low);
  if (!known.length) [low, high] = [0, 1];
  if (high - low <= SLACK * Math.max(Math.abs(low), Math.abs(high))) [low, high] = [low - (mayBeLog ? 0 : 0.5), high + 0.5];
  const step = niceStep(low, high, wanted), from0 = Math.floor(low / step + 1e-9) * step, to0 = Math.ceil(high / step - 1e-9) * step;
  return { place: v => from + (to - from) * (v - from0) / (to0 - from0), ticks: niceTicks(from0, to0, step) };
}
// Linear, or bent to the square root, where small budgets matter most.
export function costScale(total, from, to, wanted, bent = false) {
  const power = bent ? 0.5 : 1, place = c => from + (to - from) * (total ? (c / total) ** power : 0);
  const cost = x => total * Math.min(1, Math.max(0, (x - from) / (to - from))) ** (1 / power);
  let ticks = total ? niceTicks(0, total, niceStep(0, total, wanted)) : [0];
  if (bent) {
    const most = Math.floor(Math.log10(total)), all = [0, 1, 2, 3].flatMap(e => [5, 2, 1].map(m => Number(`${m}e${most - e}`))).filter(c => c <= total);
    ticks = [0];
    for (const c of all) if ([...ticks].every(t => Math.abs(place(t) - place(c)) > 0.7 * (to - from) / wanted)) ticks.push(c);
  }
  return { place, cost, ticks };
}
export function axes(svg, box, x, y, xText, yText, xName, yName) {
  for (const tick of y.ticks) {
    draw(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: y.place(tick), y2: y.place(tick) });
    draw(svg, "text", { x: box.left - 8, y: y.place(tick) + 4, "text-anchor": "end" }, yText(tick));
  }
  draw(svg, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
  for (const tick of x.ticks) {
    draw(svg, "line", { class: "axis", x1: x.place(tick), x2: x.place(tick), y1: box.bottom, y2: box.bottom + 4 });
    draw(svg, "text", { x: x.place(tick), y: box.bottom + 18, "text-anchor": "middle" }, xText(tick));
  }
  draw(svg, "text", { x: box.right, y: box.bottom + 36, "text-anchor": "end" }, xName);
  draw(svg, "text", { x: 0, y: 12 }, yName);
}
export function curveAxes(svg, box, x, y, measure, unit) {
  const yText = measure.style === "percent" ? t => `${minus(String(Number((100 * t).toPrecision(6))))} %` : t => minus(String(t));
  axes(svg, box, x, y, amount, yText, `budget in ${unit}`, measure.label + (measure.greater_is_better ? "" : " (lower is better)"));
}

// -- step functions of the cost ---

export function lastWithin(costs, budget) {
  let k = 0;
  while (k + 1 < costs.length && costs[k + 1] <= budget * (1 + SLACK)) k++;
  return k;
}
// Folds may buy more than the model does: what they do then is no budget of a page.
export function within(curve, total) {
  const n = lastWithin(curve.costs, total) + 1;
  return { ...curve, costs: curve.costs.slice(0, n), values: curve.values.slice(0, n), errors: curve.errors.slice(0, n) };
}
export const errorAt = (curve, k) => (curve.errors?.length ? curve.errors[k] : null);
export const bounds = curve => curve.values.flatMap((v, k) => v === null ? [] : [v - (errorAt(curve, k) || 0), v + (errorAt(curve, k) || 0)]);
// Runs of points whose values are known, as steps from each cost to the next; the last one goes on to `total`.
export function stepRuns(curve, value, x, y, total = 0) {
  const runs = [];
  let run = null;
  curve.costs.forEach((cost, k) => {
    const v = value(k), until = k + 1 < curve.costs.length ? curve.costs[k + 1] : Math.max(cost, total);
    if (v === null || v === undefined) { run = null; return; }
    if (!run) runs.push(run = []);
    run.push([x.place(cost), y.place(v)], [x.place(until), y.place(v)]);
  });
  return runs;
}
export const path = points => points.map((p, k) => `${k ? "L" : "M"}${p[0].toFixed(2)} ${p[1].toFixed(2)}`).join("");
export function drawSteps(svg, curve, x, y, kind, total = 0) {
  for (const run of stepRuns(curve, k => curve.values[k], x, y, total)) draw(svg, "path", { class: `line ${kind}`, d: path(run) });
}
export function drawBand(svg, curve, x, y, total = 0) {
  if (!curve.errors?.length) return;
  const edge = sign => k => (curve.values[k] === null || curve.errors[k] === null ? null : curve.values[k] + sign * curve.errors[k]);
  const low = stepRuns(curve, edge(-1), x, y, total);
  stepRuns(curve, edge(1), x, y, total).forEach((run, k) => draw(svg, "path", { class: "band", d: `${path([...run, ...low[k].reverse()])}Z` }));
}

// -- tips and points ---

export function showTip(plot, x, y, lines, width) {
  const tip = plot.querySelector(".tip"), bold = document.createElement("b");
  bold.textContent = lines[0];
  tip.replaceChildren(bold, ...lines.slice(1).flatMap((line, k) => (k ? [document.createElement("br"), line] : [line])));
  tip.hidden = false;
  tip.style.left = `${Math.max(0, Math.min(x - tip.offsetWidth / 2, width - tip.offsetWidth))}px`;
  tip.style.top = `${y - tip.offsetHeight - 14 < -40 ? y + 16 : y - tip.offsetHeight - 14}px`;
}
export const hideTip = plot => { plot.querySelector(".tip").hidden = true; };
// One tab stop per chart; arrow keys go from point to point.
export function walkable(plot, dots, describe, choose, width) {
  dots.forEach((dot, k) => {
    dot.setAttribute("tabindex", k ? "-1" : "0");
    dot.setAttribute("role", "button");
    dot.setAttribute("aria-label", describe(k).join(", "));
    const show = () => showTip(plot, Number(dot.getAttribute("cx")), Number(dot.getAttribute("cy")), describe(k), width);
    dot.addEventListener("focus", show);
    dot.addEventListener("blur", () => hideTip(plot));
    dot.addEventListener("pointerenter", show);
    dot.addEventListener("pointerleave", () => hideTip(plot));
    dot.addEventListener("click", event => { event.stopPropagation(); choose(k); });
    dot.addEventListener("keydown", event => {
      const to = { ArrowRight: k + 1, ArrowUp: k + 1, ArrowLeft: k - 1, ArrowDown: k - 1, Home: 0, End: dots.length - 1 }[event.key];
      if (event.key === "Enter" || event.key === " ") choose(k);
      else if (to === undefined) return;
      else if (dots[to]) {
        dot.setAttribute("tabindex", "-1");
        dots[to].setAttribute("tabindex", "0");
        dots[to].focus();
      }
      event.preventDefault();
    });
  });
}
export function legend(place, entries) {
  place.replaceChildren(...entries.map(([kind, text]) => {
    const entry = document.createElement("span");
    entry.className = `l-${kind}`;
    entry.append(document.createElement("i"), text);
    return entry;
  }));
}
